// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives sata_sim: the host with a drive model.
//
// `sata_bench random SEED REQUESTS`: random requests, drives, pauses and power cuts; everything read is compared
// with the contents that are allowed. `sata_bench discard SEED`: a power cut after a discard, a flush and a write.
// `sata_bench cancel SEED`: requests that begin while the host cancels. `sata_bench fault NAME`: one row of the fault matrix (`list` and `states` name them).
// `sata_bench stall KILOBYTES CYCLES`: a drive that pauses this long after each so many kilobytes of writes.
// `sata_bench deadlines FASTEST`: drives that are a bit faster and slower than each deadline.
// `sata_bench soak SEED`: a fault, power cuts, cancels and pulled cables in one run.
// Built with SERIAL, the host includes its PHY and exchanges single bits with the drive. The fault rows are then those of the
// line, and there are two more commands: `sata_bench start FASTEST SLOWEST` (the drive's rates) prints the negotiated rate,
// and `sata_bench plug` plugs and unplugs the cable.
// `sata_bench rate OP queued|single BLOCKS DEPTH LATENCY REQUESTS`: cycles per request and payload words per link cycle.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "Vsata_sim.h"
#include "block_host.hpp"
#include "clocked.hpp"
#include "sata/sata_cable.hpp"
#include "sata/sata_faults.hpp"

#ifndef SERIAL
#define SERIAL 0
#endif
#ifndef CLOCK_KHZ
#define CLOCK_KHZ 1
#endif
#ifndef FLUSH_CYCLES
#define FLUSH_CYCLES TIMEOUT_CYCLES
#define SIGNATURE_CYCLES TIMEOUT_CYCLES
#endif
#ifndef BLOCK_SIZE_LOG2
#define BLOCK_SIZE_LOG2 9
#endif

using namespace straightway;
using sata::Drive;
using sata::DriveModel;

namespace {

constexpr unsigned kBlock = 1u << BLOCK_SIZE_LOG2;
static_assert(kBlock == Drive::kBlock || kBlock == Drive::kBigBlock);
constexpr unsigned kLongest = kBlock == Drive::kBlock ? 12 : 3;  // blocks of most requests

struct Bench : Clocked<Vsata_sim> {
    BlockHost host;
    Drive drive;
    sata::Cable cable;  // with SERIAL

    Bench(DriveModel model, unsigned depth, unsigned stall_percent, uint64_t seed, sata::PhyModel phy = {})
        : host(STRAIGHTWAY_PINS(*top, , ), 4, kBlock, depth, stall_percent, seed), drive(model, seed), cable(drive, phy, seed) {
        host.source = [](Request&) { return false; };
        cable.host_edge = [this](uint64_t bits) {
            top->rx_bits = bits;
            top->rx_clk_i = 1;
            top->eval();
            top->rx_clk_i = 0;
            top->eval();
        };
        cable.refused = [](const char* what) { fail(std::string(what) + " from the host violates the specification"); };
        top->rate_now = cable.host_rate;
        top->rx_idle = top->rx_clk_i = 1;
        reset();
    }
    void cycle() {
        top->clk_i = 0;
        top->eval();
        host.sample();
        sata::Word word = {};
        if (!SERIAL) word = drive.step({top->tx_data, bool(top->tx_k)}, top->reset);
        uint64_t bits = top->tx_bits;
        bool idle = top->tx_idle;
        top->clk_i = 1;
        top->eval();
        if (SERIAL) cable.step(bits, idle, top->rate);
        top->rx_idle = cable.idle();
        top->rate_now = cable.host_rate;
        top->rx_data = word.data;
        top->rx_k = word.k;
        top->rx_bad = word.bad;
        top->up = drive.up();
        host.drive();
    }
    bool until_ready(uint64_t limit = 100000) {
        while (!top->ready && limit--) cycle();
        return top->ready;
    }
};

// The allowed contents of each block, as stamps of its writes; 0 is a block of zeroes. `now`: what a read may return; `cut`:
// what it may return after a power cut.
class Contents {
public:
    explicit Contents(uint64_t blocks) : blocks_(blocks) {}

    void fill(Request& request) {
        request.data.resize(uint64_t(request.count) * kBlock);
        for (uint32_t i = 0; i < request.count; ++i) {
            uint32_t stamp = ++stamp_;
            Block& block = blocks_[request.lba + i];
            block.issued = stamp;
            block.cut.push_back(stamp);
            for (unsigned at = 0; at < kBlock; at += 4) {
                uint32_t word = word_of(request.lba + i, stamp, at);
                std::memcpy(&request.data[uint64_t(i) * kBlock + at], &word, 4);
            }
        }
    }
    void ended(const Request& request) {
        for (uint32_t i = 0; i < request.count && request.op != kFlush; ++i) {
            Block& block = blocks_[request.lba + i];
            block.done = request.done;
            if (request.op == kDiscard) {
                // This drive's discarded blocks read as zeroes; one that failed may have reached any of its blocks.
                if (request.status == kOk) block.now.clear();
                block.now.push_back(0);
                block.cut.push_back(0);
            } else if (request.op == kWrite && request.status == kOk) {
                block.now = {block.issued};
                if (request.fua) block.cut = block.now;
            } else if (request.op == kWrite) {
                block.now.push_back(block.issued);
            }
        }
        if (request.op != kFlush) return;
        for (Block& block : blocks_) {
            if (block.busy) continue;
            if (request.status != kOk) block.now.insert(block.now.end(), block.cut.begin(), block.cut.end());  // some may be lost already
            else if (block.done < request.sent) block.cut = block.now;
        }
    }
    void power_cut() {
        for (Block& block : blocks_) block.now = block.cut;
    }
    bool take(const Request& request) {
        for (uint32_t i = 0; i < request.count; ++i)
            if (blocks_[request.lba + i].busy) return false;
        for (uint32_t i = 0; i < request.count; ++i) blocks_[request.lba + i].busy = true;
        return true;
    }
    void release(const Request& request) {
        for (uint32_t i = 0; i < request.count; ++i) blocks_[request.lba + i].busy = false;
    }
    bool agrees(uint64_t lba, const uint8_t* data) const {
        const Block& block = blocks_[lba];
        for (uint32_t stamp : block.now) {
            bool same = true;
            for (unsigned at = 0; at < kBlock && same; at += 4) {
                uint32_t word;
                std::memcpy(&word, data + at, 4);
                same = word == (stamp ? word_of(lba, stamp, at) : 0);
            }
            if (same) return true;
        }
        return false;
    }

private:
    struct Block {
        std::vector<uint32_t> now{0}, cut{0};
        uint32_t issued = 0;
        uint64_t done = 0;
        bool busy = false;
    };
    static uint32_t word_of(uint64_t lba, uint32_t stamp, unsigned at) {
        return uint32_t(lba) * 2654435761u ^ stamp * 40503u ^ at * 2246822519u;
    }
    std::vector<Block> blocks_;
    uint32_t stamp_ = 0;
};

struct Tally {
    unsigned ended = 0, by_status[10] = {};
    uint16_t detail = 0;
};

// Random requests on a small drive; each is checked at its end.
class Load {
public:
    Load(Bench& bench, uint64_t seed, unsigned requests, unsigned longest)
        : bench_(bench), contents_(bench.drive.model.blocks), random_(seed), requests_(requests), longest_(longest) {
        bench.host.source = [this](Request& request) { return next(request); };
        bench.host.finished = [this](const Request& request) { finished(request); };
    }
    Tally tally;
    bool paused = false;
    unsigned begun() const { return begun_; }
    Contents& contents() { return contents_; }
    // Runs this request alone to its end.
    void one(Op op, uint64_t lba, uint32_t count) {
        next_ = {op, lba, count};
        is_scripted_ = true;
        more(1);
        run(1000000);
        is_scripted_ = false;
    }
    // This request is the next and last.
    void next(Op op) {
        next_ = {op, 0, op == kFlush ? 0u : 4u};
        is_scripted_ = true;
        more(1);
    }
    // What the drive has is what was answered.
    void compare() {
        is_scripted_ = false;
        for (uint64_t lba = 0; lba < bench_.drive.model.blocks && bench_.drive.block_bytes == kBlock; ++lba)
            if (!contents_.agrees(lba, &bench_.drive.bytes[lba * kBlock])) fail("block " + std::to_string(lba) + " is not what was answered");
    }
    void more(unsigned requests) { requests_ += requests; }
    bool done() const { return begun_ == requests_ && bench_.host.idle(); }
    void run(uint64_t limit) {
        for (uint64_t i = 0; !done(); ++i) {
            if (i == limit) fail("requests were never answered: " + std::to_string(tally.ended) + " of " + std::to_string(begun_));
            bench_.cycle();
        }
    }

private:
    bool next(Request& request) {
        if (begun_ == requests_) return false;
        if (is_scripted_) {
            request.op = next_.op;
            request.lba = next_.lba;
            request.count = next_.count;
            if (!contents_.take(request)) fail("a request of the script overlaps another one");
            if (request.op == kWrite) contents_.fill(request);
            ++begun_;
            return true;
        }
        if (!bench_.top->ready || bench_.top->cancel || paused) return false;
        unsigned kind = random_.below(100);
        request.op = kind < 45 ? kRead : kind < 92 ? kWrite : kind < 97 ? kFlush : kDiscard;
        request.fua = request.op == kWrite && random_.percent(10);
        request.count = request.op == kFlush ? 0 : 1 + random_.below(random_.percent(8) ? longest_ * 8 : longest_);
        request.lba = request.op == kFlush ? 0 : random_.below(bench_.drive.model.blocks - request.count + 1);
        if (!contents_.take(request)) return false;
        if (request.op == kWrite) contents_.fill(request);
        ++begun_;
        return true;
    }
    void finished(const Request& request) {
        ++tally.ended;
        ++tally.by_status[request.status];
        if (request.status == kDevice && !tally.detail) tally.detail = request.detail;
        contents_.release(request);
        if (request.op == kRead) {
            if (request.data.size() != uint64_t(request.count) * kBlock) fail("a read returned the wrong number of words");
            for (uint32_t i = 0; i < request.count && request.status == kOk; ++i)
                if (!contents_.agrees(request.lba + i, &request.data[uint64_t(i) * kBlock]))
                    fail("block " + std::to_string(request.lba + i) + " differs");
        }
        contents_.ended(request);
    }
    Bench& bench_;
    Contents contents_;
    Random random_;
    unsigned requests_, longest_, begun_ = 0;
    struct {
        Op op;
        uint64_t lba;
        uint32_t count;
    } next_{};
    bool is_scripted_ = false;
};

int random_run(uint64_t seed, unsigned requests) {
    Random random(seed);
    DriveModel model;
    model.queue = random.percent(70);
    model.activates = random.percent(50);
    model.reorder = random.percent(60);
    model.command_latency = random.percent(50) ? random.below(400) : 0;
    if (random.percent(20)) model.stall_after = 3000, model.stall_cycles = 5000;
    if (kBlock != Drive::kBlock) model.big_sectors = true, model.blocks = 512;
    sata::PhyModel phy;
    if (random.percent(30)) phy.fastest = random.below(3);
    phy.ppm = int(random.below(11401)) - 5700;
    phy.announces = random.percent(50);
    Bench bench(model, 1 + random.below(32), random.percent(50) ? random.below(60) : 0, seed, phy);
    bench.drive.port.latency = random.percent(50) ? random.below(17) : 0;
    bench.drive.port.hold_percent = random.percent(50) ? random.below(50) : 0;
    if (seed % 4 == 3) bench.drive.port.fault.power_gap = 100;
    if (!bench.until_ready(500000)) fail("the drive never became ready");
    if (bench.top->block_count != model.blocks || !bench.top->volatile_write_cache || !bench.top->discard || !bench.top->fua)
        fail("the geometry is wrong");
    bool noisy = SERIAL && random.percent(25);
    if (noisy) bench.drive.port.line_fault.error_gap = 20000 + random.below(1000000);
    Load load(bench, seed, requests, kLongest);
    unsigned cut_at = random.percent(50) ? 1 + random.below(requests) : 0;
    for (uint64_t i = 0; !load.done(); ++i) {
        if (i == 40000 * uint64_t(requests)) fail("requests were never answered");
        bench.cycle();
        if (cut_at && load.begun() >= cut_at) {
            // Outstanding requests may have taken effect or not. The drive's contents must be allowed after a cut.
            cut_at = 0;
            unsigned generation = bench.top->generation;
            load.paused = true;
            bench.drive.cut();
            for (int n = 0; n < (SERIAL ? 600000 : 100000) && !(bench.host.idle() && bench.top->ready); ++n) bench.cycle();
            if (!bench.host.idle()) fail("requests are outstanding after a power cut");
            if (!bench.top->ready || bench.top->generation == generation) fail("the drive did not return with a new generation");
            load.contents().power_cut();
            load.paused = false;
        }
    }
    for (int i = 0; i < 10; ++i) bench.cycle();
    if (!bench.top->idle) fail("the checker still sees requests under way");
    if (noisy) {
        // With occasional wrong bits each request ends, and data that are read without an error are correct.
        std::printf("%u requests, %u errors of %u wrong bits\n", load.tally.ended, load.tally.ended - load.tally.by_status[kOk],
                    bench.drive.port.faults);
        return 0;
    }
    if (bench.drive.resets != 0 && bench.drive.resets != 1) fail("a link reset without a reason");
    if (load.tally.ended - load.tally.by_status[kOk] - load.tally.by_status[kGone]) fail("an error without a fault");
    if (bench.drive.resets == 0 && load.tally.by_status[kGone]) fail("Gone was reported for a connected drive");
    std::printf("%u requests, %llu cycles\n", load.tally.ended, (unsigned long long)bench.host.now());
    return 0;
}

// Blocks that were discarded and flushed, then written without a flush: a power cut loses some of the writes, and then
// the blocks read as discarded.
int discard_run(uint64_t seed) {
    Bench bench({}, 1, 0, seed);
    if (!bench.until_ready(500000)) fail("the drive never became ready");
    Load load(bench, seed, 0, 12);
    load.one(kWrite, 0, 32);
    load.one(kFlush, 0, 0);
    load.one(kDiscard, 0, 32);
    load.one(kFlush, 0, 0);
    load.one(kWrite, 0, 32);
    bench.drive.cut();
    for (int i = 0; i < 100; ++i) bench.cycle();
    if (!bench.until_ready(500000)) fail("the drive did not come back");
    load.contents().power_cut();
    load.one(kRead, 0, 32);
    if (load.tally.by_status[kOk] != 6) fail("an error without a fault");
    std::printf("as expected\n");
    return 0;
}

// A request that is offered while the host cancels and nothing is outstanding must end, too.
int cancel_run(uint64_t seed) {
    for (Op op : {kRead, kWrite, kDiscard, kFlush}) {
        for (bool queue : {false, true}) {
            DriveModel model;
            model.queue = queue;
            model.command_latency = 100;
            Bench bench(model, 1, 0, seed);
            if (!bench.until_ready(500000)) fail("the drive never became ready");
            Load load(bench, seed, 0, 12);
            bench.top->cancel = 1;
            load.one(op, 0, op == kFlush ? 0 : 4);
            if (load.tally.by_status[kAborted] != 1) fail("a request was not cancelled");
            bench.top->cancel = 0;
            if (!bench.until_ready(500000)) fail("the drive did not come back");
            load.one(kWrite, 0, 4);
            load.one(kRead, 0, 4);
            if (load.tally.by_status[kOk] != 2) fail("requests fail after a cancel");
        }
    }
    std::printf("each was cancelled\n");
    return 0;
}

std::vector<sata::FaultRow> rows() {
    if (SERIAL) return sata::line_rows();
    std::vector<sata::FaultRow> all = sata::fault_rows();
    for (const sata::FaultRow& row : sata::state_rows()) all.push_back(row);
    return all;
}

int fault_run(const std::string& name) {
    for (const sata::FaultRow& row : rows()) {
        if (row.name != name) continue;
        DriveModel model;
        model.reorder = true;
        model.command_latency = 100;
        row.shape(model);
        Bench bench(model, row.depth, row.stall_percent, 7);
        bench.drive.port.latency = 2;
        bench.drive.port.hold_percent = 5;
        if (row.at_start) row.set(bench.drive);
        bool ready = bench.until_ready(SERIAL ? 400000 : 100000);
        bench.drive.port.count_from_now();
        bench.cable.count_from_now();
        if (!row.at_start) row.set(bench.drive);
        uint64_t resets = bench.drive.resets;
        Load load(bench, 7, ready ? 40 : 0, 12);
        bool cancelled = false, last = row.then < 0;
        for (uint64_t i = 0; !load.done() || !last; ++i) {
            if (row.until_power && bench.host.idle() && bench.drive.resets >= resets + 3) break;  // it is reset again and again
            if (load.done() && bench.top->ready) load.next(Op(row.then)), last = true;
            if (i == 2000000) fail("requests were never answered");
            bench.cycle();
            if (row.cancel_at && load.begun() >= row.cancel_at && !cancelled && !bench.top->idle) bench.top->cancel = cancelled = true;
            // As a front end does during a reset: until its offered request has ended, too.
            if (bench.top->cancel && bench.host.idle()) bench.top->cancel = 0;
        }
        Tally tally = load.tally;
        resets = bench.drive.resets - resets;
        if (row.usable && !row.cancel_at && !bench.drive.port.faults) fail("the fault never happened");
        if (row.cancel_at && !cancelled) fail("the host never cancelled");
        if (row.until_power && tally.by_status[kDevice] == 0 && !resets) fail("the device fault was not noticed");
        if (row.contained && (resets || tally.by_status[kDevice] != 1 || tally.detail >= 0xFF00 ||
                              tally.by_status[kOk] + tally.by_status[kAborted] + 1 != tally.ended))
            fail("the error is not that of the one command that the drive named");
        load.compare();
        // Without the fault everything works again, and the data are correct.
        bench.drive.fault = {};
        bench.drive.port.fault = {};
        bench.drive.port.line_fault = {};
        bool works = row.usable;
        if (row.until_power) {
            bench.drive.cut();
            load.contents().power_cut();
            for (int i = 0; i < 100; ++i) bench.cycle();
        }
        if (works) {
            if (!bench.until_ready(400000)) fail("the drive did not come back");
            load.tally = {};
            load.more(30);
            load.run(1000000);
            if (load.tally.by_status[kOk] < 30 || load.tally.by_status[kOk] != load.tally.ended) fail("requests fail after the fault has ended");
        } else if (bench.top->ready) {
            fail("an unusable drive is ready");
        }
        for (int i = 0; i < 10; ++i) bench.cycle();
        if (!bench.top->idle) fail("the checker still sees requests under way");
        std::printf("%u %u %u %u %u %llu %04x\n", tally.by_status[kOk], tally.by_status[kDevice], tally.by_status[kTimedOut],
                    tally.by_status[kAborted], tally.by_status[kGone], (unsigned long long)resets, tally.detail);
        return 0;
    }
    fail("unknown fault");
}

// One life of a random drive under random load: a fault of the matrix, power cuts, a host that cancels, and (with the PHY) a
// cable that is pulled, in any order. Each request ends, what is read is right, and after each event everything works.
int soak_run(uint64_t seed) {
    Random random(seed * 0x9e3779b97f4a7c15);  // neighbouring seeds begin alike
    std::vector<sata::FaultRow> faults;
    for (const sata::FaultRow& row : rows())
        if (row.usable && !row.at_start && !row.cancel_at && !row.until_power) faults.push_back(row);
    const sata::FaultRow& row = faults[random.below(faults.size())];
    DriveModel model;
    model.queue = random.percent(70);
    model.activates = random.percent(50);
    model.reorder = random.percent(60);
    model.command_latency = random.percent(50) ? random.below(400) : 0;
    if (random.percent(20)) model.stall_after = 3000, model.stall_cycles = 5000;
    row.shape(model);
    sata::PhyModel phy;
    if (random.percent(30)) phy.fastest = random.below(3);
    phy.ppm = int(random.below(11401)) - 5700;
    phy.announces = random.percent(50);
    Bench bench(model, 1 + random.below(32), random.percent(50) ? random.below(60) : 0, seed, phy);
    bench.drive.port.latency = random.percent(50) ? random.below(17) : 0;
    bench.drive.port.hold_percent = random.percent(50) ? random.below(50) : 0;
    if (!bench.until_ready(500000)) fail("the drive never became ready");
    Load load(bench, seed, 0, 12);
    std::string events;
    unsigned ended = 0, faulty = random.below(3);
    for (unsigned event = 0; event < 3; ++event) {
        unsigned what = event == faulty ? 0 : 1 + random.below(SERIAL ? 3 : 2);
        events += " " + (what == 0 ? row.name : std::string(what == 1 ? "cut" : what == 2 ? "cancel" : "unplug"));
        unsigned at = load.begun() + random.below(20);
        if (what == 0) {
            bench.drive.port.count_from_now();
            bench.cable.count_from_now();
            row.set(bench.drive);
        }
        load.more(20 + random.below(40));
        bool happened = what == 0;
        for (uint64_t i = 0; !load.done(); ++i) {
            if (i == 4000000) fail("requests were never answered:" + events);
            bench.cycle();
            if (bench.top->cancel && bench.host.idle()) bench.top->cancel = 0;
            if (happened || load.begun() < at) continue;
            happened = true;
            if (what == 1) {
                load.paused = true;
                bench.drive.cut();
                for (int n = 0; n < 600000 && !(bench.host.idle() && bench.top->ready); ++n) bench.cycle();
                if (!bench.host.idle() || !bench.top->ready) fail("the drive did not return after a power cut:" + events);
                load.contents().power_cut();
                load.paused = false;
            } else if (what == 2) {
                bench.top->cancel = !bench.top->idle;
            } else {
                bench.cable.plug(false);
                for (uint64_t n = random.below(20000); n > 0; --n) bench.cycle();
                bench.cable.plug(true);
            }
        }
        ended += load.tally.ended;
        bench.drive.fault = {};
        bench.drive.port.fault = {};
        bench.drive.port.line_fault = {};
        bench.top->cancel = 0;
        if (!bench.until_ready(600000)) fail("the drive did not come back:" + events);
        load.tally = {};
        load.more(10);
        load.run(1000000);
        if (load.tally.by_status[kOk] != 10) fail("requests fail after" + events);
    }
    for (int i = 0; i < 10; ++i) bench.cycle();
    if (!bench.top->idle) fail("the checker still sees requests under way");
    std::printf("%u requests,%s\n", ended, events.c_str());
    return 0;
}

// Prints the negotiated rate, or that the host's PHY is still waiting.
int start_run(unsigned fastest, unsigned slowest) {
    sata::PhyModel phy;
    phy.fastest = fastest;
    phy.slowest = slowest;
    Bench bench({}, 1, 0, 1, phy);
    bool ready = bench.until_ready(1000000);
    std::printf("%s rate %u\n", ready ? "ready" : "waits", bench.top->rate);
    if (!ready) return 0;
    Load load(bench, 1, 20, 12);
    load.run(1000000);
    if (load.tally.by_status[kOk] != 20) fail("errors at this rate");
    return 0;
}

// No drive; a drive; no drive; another, faster one that does not send COMINIT.
int plug_run() {
    sata::PhyModel phy;
    phy.fastest = 1;
    Bench bench({}, 4, 0, 1, phy);
    bench.cable.plug(false);
    if (bench.until_ready(100000)) fail("ready without a drive");
    bench.cable.plug(true);
    if (!bench.until_ready(400000)) fail("a drive did not become ready after it was plugged in");
    if (bench.top->rate != 1) fail("wrong rate");
    unsigned generation = bench.top->generation;
    Load load(bench, 1, 30, 12);
    load.run(1000000);
    if (load.tally.by_status[kOk] != 30) fail("errors");
    // No request is outstanding: only the geometry shows that the drive has disappeared.
    bench.cable.plug(false);
    for (int i = 0; i < 1000 && bench.top->ready; ++i) bench.cycle();
    if (bench.top->ready) fail("an unplugged cable is not detected");
    load.more(1);
    for (int i = 0; i < 50000; ++i) bench.cycle();
    if (load.begun() != 30) fail("a request was taken without a drive");
    bench.cable.model.fastest = 2;
    bench.cable.model.announces = false;
    bench.cable.plug(true);
    if (!bench.until_ready(400000)) fail("a drive did not become ready after it was plugged in again");
    if (bench.top->rate != 2 || bench.top->generation == generation) fail("the second drive was not recognised as another one");
    load.run(1000000);
    if (load.tally.by_status[kOk] != 31) fail("errors with the second drive");
    std::printf("plugged in twice\n");
    return 0;
}

// Each class of deadline, in milliseconds of CLOCK_KHZ cycles (with SERIAL of the cycles at the drive's rate): a drive that is a bit faster
// works without a reset; at the deadline one that is slower is reset, and its request ends.
int deadline_run(unsigned fastest) {
    sata::PhyModel phy;
    phy.fastest = fastest;
    DriveModel model;
    model.start_cycles = 100;
    Bench bench(model, 1, 0, 1, phy);
    if (!bench.until_ready(4000000)) fail("the drive never became ready");
    const uint64_t scale = SERIAL ? 4 >> bench.top->rate : 1;  // the parameters are cycles at the fastest rate, 6 Gb/s
    const uint64_t signature = SIGNATURE_CYCLES * CLOCK_KHZ / scale, flush = FLUSH_CYCLES * CLOCK_KHZ / scale;
    const uint64_t data = TIMEOUT_CYCLES * CLOCK_KHZ / scale;
    if (!(signature > flush && flush > data)) fail("the classes do not differ");
    Load load(bench, 1, 0, 12);
    auto near = [&](const char* what, uint64_t took, uint64_t deadline) {
        if (took < deadline || took > deadline + deadline / 20 + 2000)
            fail(std::string(what) + " ended after " + std::to_string(took) + " cycles, the deadline is " + std::to_string(deadline));
    };
    auto request = [&](const char* what, Op op, uint8_t code, uint64_t cycles, Status status, uint64_t deadline) {
        bench.drive.fault = {};
        if (!bench.until_ready(4000000)) fail("the drive did not come back");
        bench.drive.fault.slow_code = code;
        bench.drive.fault.slow_cycles = cycles;
        uint64_t began = bench.host.now(), resets = bench.drive.resets;
        load.tally = {};
        load.one(op, 0, op == kFlush ? 0 : 4);
        if (load.tally.by_status[status] != 1) fail(std::string(what) + " ended with another status");
        if (status == kTimedOut) near(what, bench.host.now() - began, deadline);
        else if (bench.drive.resets != resets) fail(std::string(what) + " led to a reset");
    };
    request("a slow read", kRead, 0x60, data * 9 / 10, kOk, 0);
    request("a slower read", kRead, 0x60, data * 2, kTimedOut, data);
    request("a slow flush", kFlush, 0xEA, flush * 9 / 10, kOk, 0);
    request("a slower flush", kFlush, 0xEA, flush * 2, kTimedOut, flush);
    request("a slow discard", kDiscard, 0x06, flush * 9 / 10, kOk, 0);
    request("a slower discard", kDiscard, 0x06, flush * 2, kTimedOut, flush);
    bench.drive.fault = {};
    // The drive starts again, and takes its time: for the signature, and for IDENTIFY DEVICE.
    for (bool identify : {false, true}) {
        bench.drive.model.start_cycles = identify ? 100 : signature * 9 / 10;
        bench.drive.fault.slow_code = 0xEC;
        bench.drive.fault.slow_cycles = identify ? signature * 9 / 10 : 0;
        bench.drive.cut();
        uint64_t resets = bench.drive.resets;
        for (int i = 0; i < 1000; ++i) bench.cycle();
        if (bench.top->ready || !bench.until_ready(4000000)) fail("a drive that starts slowly never became ready");
        if (bench.drive.resets > resets) fail("a drive that starts slowly was reset");
    }
    bench.drive.fault = {};
    bench.drive.fault.never_ready = true;
    bench.drive.cut();
    uint64_t resets = bench.drive.resets, began = 0;
    for (unsigned i = 0; i < 2;) {
        bench.cycle();
        if (bench.drive.resets == resets) continue;
        resets = bench.drive.resets;
        if (++i == 1) began = bench.host.now();
    }
    if (!SERIAL) near("the start", bench.host.now() - began, signature);
    std::printf("signature %llu, flush %llu, data %llu\n", (unsigned long long)signature, (unsigned long long)flush, (unsigned long long)data);
    return 0;
}

int rate_run(Op op, bool queue, uint32_t count, unsigned depth, unsigned latency, unsigned requests) {
    DriveModel model;
    model.queue = queue;
    model.blocks = 1 << 16;
    Bench bench(model, depth, 0, 1);
    bench.drive.port.latency = latency;
    if (!bench.until_ready()) fail("the drive never became ready");
    unsigned begun = 0, ended = 0;
    uint64_t lba = 0, spent = 0, first = 0, last = 0;
    bench.host.source = [&](Request& request) {
        if (begun == requests + depth) return false;  // the last ones are not counted: each that is has the same load
        ++begun;
        request.op = op;
        request.count = count;
        request.lba = lba;
        lba = (lba + count) % (model.blocks - count);
        if (op == kWrite) request.data.resize(uint64_t(count) * kBlock);
        return true;
    };
    bench.host.finished = [&](const Request& request) {
        if (request.status != kOk) fail("an error");
        ++ended;
        spent += request.done - request.sent;
        if (ended == depth) first = request.done;
        last = request.done;
    };
    while (ended != requests) bench.cycle();
    double each = depth == 1 ? double(spent) / ended : double(last - first) / (ended - depth);
    std::printf("cycles %.2f share %.4f\n", each, count * (kBlock / 4.0) / each);
    return 0;
}

// A drive that takes `kilobytes` at the line's rate and then does nothing for `cycles`: cycles of all writes without this pause.
// Nothing is reset, and no write fails, as long as the pause is shorter than the time-out.
int stall_run(uint64_t kilobytes, uint64_t cycles) {
    constexpr uint32_t kCount = 64;
    DriveModel model;
    model.blocks = 1 << 16;
    model.stall_after = kilobytes * 256;
    model.stall_cycles = cycles;
    Bench bench(model, 4, 0, 1);
    if (!bench.until_ready()) fail("the drive never became ready");
    uint64_t requests = kilobytes * 1024 / (kCount * kBlock) + 4, begun = 0, ended = 0, start = bench.host.now();
    bench.host.source = [&](Request& request) {
        if (begun == requests) return false;
        request.op = kWrite;
        request.count = kCount;
        request.lba = begun++ * kCount % model.blocks;
        request.data.resize(kCount * kBlock);
        return true;
    };
    bench.host.finished = [&](const Request& request) {
        if (request.status != kOk) fail("a write failed");
        ++ended;
    };
    uint64_t resets = bench.drive.resets;
    while (ended != requests) bench.cycle();
    uint64_t spent = bench.host.now() - start;
    if (bench.drive.resets != resets) fail("the link was reset");
    if (spent < cycles) fail("the drive never paused");
    std::printf("%llu words, %llu cycles\n", (unsigned long long)(requests * kCount * kBlock / 4), (unsigned long long)(spent - cycles));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (what == "random" && argc == 4) return random_run(std::strtoull(argv[2], nullptr, 0), std::strtoul(argv[3], nullptr, 0));
    if (what == "soak" && argc == 3) return soak_run(std::strtoull(argv[2], nullptr, 0));
    if (what == "discard" && argc == 3) return discard_run(std::strtoull(argv[2], nullptr, 0));
    if (what == "cancel" && argc == 3) return cancel_run(std::strtoull(argv[2], nullptr, 0));
    if (what == "fault" && argc == 3) return fault_run(argv[2]);
    if (what == "stall" && argc == 4) return stall_run(std::strtoull(argv[2], nullptr, 0), std::strtoull(argv[3], nullptr, 0));
    if (what == "rate" && argc == 8)
        return rate_run(std::string(argv[2]) == "write" ? kWrite : kRead, std::string(argv[3]) == "queued",
                        std::strtoul(argv[4], nullptr, 0), std::strtoul(argv[5], nullptr, 0),
                        std::strtoul(argv[6], nullptr, 0), std::strtoul(argv[7], nullptr, 0));
    if (what == "deadlines" && argc == 3) return deadline_run(std::strtoul(argv[2], nullptr, 0));
    if (SERIAL && what == "start" && argc == 4) return start_run(std::strtoul(argv[2], nullptr, 0), std::strtoul(argv[3], nullptr, 0));
    if (SERIAL && what == "plug") return plug_run();
    if (what == "list" || what == "states") {
        for (const sata::FaultRow& row : what == "states" ? sata::state_rows() : SERIAL ? sata::line_rows() : sata::fault_rows()) std::printf("%s\t%s\n", row.name.c_str(), row.says.c_str());
        return 0;
    }
    std::fprintf(stderr, "usage: sata_bench random SEED REQUESTS | discard SEED | cancel SEED | stall KILOBYTES CYCLES | fault NAME | list | states | rate read|write queued|single BLOCKS DEPTH LATENCY REQUESTS\n");
    return 2;
}
