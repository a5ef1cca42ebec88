// Drives sata_sim: the host against the model of a drive.
//
// `sata_bench random SEED REQUESTS`: random requests, drives, pauses and power cuts; everything read is compared
// with what may be there. `sata_bench fault NAME`: one row of the fault matrix (`list` names them all).
// `sata_bench rate OP queued|single BLOCKS DEPTH LATENCY REQUESTS`: cycles of a request and payload words for a link cycle.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "Vsata_sim.h"
#include "block_host.hpp"
#include "sata/sata_drive.hpp"
#include "sata/sata_faults.hpp"
#include "verilated.h"

using namespace straightway;
using sata::Drive;
using sata::DriveModel;

namespace {

constexpr unsigned kBlock = Drive::kBlock;

[[noreturn]] void fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    std::exit(1);
}

struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vsata_sim> top = std::make_unique<Vsata_sim>(&context);
    BlockHost host;
    Drive drive;

    Bench(DriveModel model, unsigned depth, unsigned stall_percent, uint64_t seed)
        : host(STRAIGHTWAY_PINS(*top, , ), 4, kBlock, depth, stall_percent, seed), drive(model, seed) {
        host.source = [](Request&) { return false; };
        top->rst_ni = 0;
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }
    ~Bench() { top->final(); }
    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    void cycle() {
        top->clk_i = 0;
        top->eval();
        host.sample();
        sata::Word word = drive.step({top->tx_data, bool(top->tx_k)}, top->reset);
        top->clk_i = 1;
        top->eval();
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

// What each block may hold: it is filled with a stamp of its address and of the write.
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
                block.unknown = true;
                block.cut.push_back(0);
            } else if (request.op == kWrite && request.status == kOk) {
                block.now = {block.issued};
                block.unknown = false;
                if (request.fua) block.cut = block.now;
            } else if (request.op == kWrite) {
                block.now.push_back(block.issued);
            }
        }
        if (request.op == kFlush && request.status == kOk)
            for (Block& block : blocks_)
                if (block.done < request.sent && !block.busy) block.cut = block.now;
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
        if (block.unknown) return true;
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
        bool unknown = false, busy = false;
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

// Random requests over a small drive; each is judged at its end.
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
        if (begun_ == requests_ || !bench_.top->ready || bench_.top->cancel || paused) return false;
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
            if (request.data.size() != uint64_t(request.count) * kBlock) fail("a read was not counted to the word");
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
};

int random_run(uint64_t seed, unsigned requests) {
    Random random(seed);
    DriveModel model;
    model.queue = random.percent(70);
    model.activates = random.percent(50);
    model.reorder = random.percent(60);
    model.command_latency = random.percent(50) ? random.below(400) : 0;
    if (random.percent(20)) model.stall_after = 3000, model.stall_cycles = 5000;
    Bench bench(model, 1 + random.below(32), random.percent(50) ? random.below(60) : 0, seed);
    bench.drive.port.latency = random.percent(50) ? random.below(17) : 0;
    bench.drive.port.hold_percent = random.percent(50) ? random.below(50) : 0;
    if (!bench.until_ready()) fail("the drive never became ready");
    if (bench.top->block_count != model.blocks || !bench.top->volatile_write_cache || !bench.top->discard || !bench.top->fua)
        fail("the geometry is wrong");
    Load load(bench, seed, requests, 12);
    unsigned cut_at = random.percent(50) ? 1 + random.below(requests) : 0;
    for (uint64_t i = 0; !load.done(); ++i) {
        if (i == 40000 * uint64_t(requests)) fail("requests were never answered");
        bench.cycle();
        if (cut_at && load.begun() >= cut_at) {
            // What was under way may be there or not; then the drive must hold one of what a cut may leave.
            cut_at = 0;
            unsigned generation = bench.top->generation;
            load.paused = true;
            bench.drive.cut();
            for (int n = 0; n < 100000 && !(bench.host.idle() && bench.top->ready); ++n) bench.cycle();
            if (!bench.host.idle()) fail("a power cut left requests under way");
            if (!bench.top->ready || bench.top->generation == generation) fail("the drive did not come back as another");
            load.contents().power_cut();
            load.paused = false;
        }
    }
    for (int i = 0; i < 10; ++i) bench.cycle();
    if (!bench.top->idle) fail("the checker still sees requests under way");
    if (bench.drive.resets != 0 && bench.drive.resets != 1) fail("a link reset without a reason");
    if (load.tally.ended - load.tally.by_status[kOk] - load.tally.by_status[kGone]) fail("an error without a fault");
    if (bench.drive.resets == 0 && load.tally.by_status[kGone]) fail("a drive that was there was called gone");
    std::printf("%u requests, %llu cycles\n", load.tally.ended, (unsigned long long)bench.host.now());
    return 0;
}

int fault_run(const std::string& name) {
    for (const sata::FaultRow& row : sata::fault_rows()) {
        if (row.name != name) continue;
        DriveModel model;
        model.reorder = true;
        model.command_latency = 100;
        row.shape(model);
        Bench bench(model, row.depth, 10, 7);
        bench.drive.port.latency = 2;
        bench.drive.port.hold_percent = 5;
        if (row.at_start) row.set(bench.drive);
        bool ready = bench.until_ready();
        bench.drive.port.count_from_now();
        if (!row.at_start) row.set(bench.drive);
        uint64_t resets = bench.drive.resets;
        Load load(bench, 7, ready ? 40 : 0, 12);
        bool cancelled = false;
        for (uint64_t i = 0; !load.done(); ++i) {
            if (i == 2000000) fail("requests were never answered");
            bench.cycle();
            if (row.cancel_at && load.begun() >= row.cancel_at && !cancelled && !bench.top->idle) bench.top->cancel = cancelled = true;
            if (bench.top->cancel && bench.top->idle) bench.top->cancel = 0;
        }
        Tally tally = load.tally;
        resets = bench.drive.resets - resets;
        if (row.usable && !row.cancel_at && !bench.drive.port.faults) fail("the fault never happened");
        if (row.cancel_at && !cancelled) fail("the host never cancelled");
        // The fault is gone: everything works, and everything that is there is right.
        bench.drive.fault = {};
        bench.drive.port.fault = {};
        bool works = row.usable;
        if (works) {
            if (!bench.until_ready(400000)) fail("the drive did not come back");
            load.tally = {};
            load.more(30);
            load.run(1000000);
            if (load.tally.by_status[kOk] != 30) fail("it does not work when the fault is gone");
        } else if (bench.top->ready) {
            fail("a drive that cannot be used is ready");
        }
        for (int i = 0; i < 10; ++i) bench.cycle();
        if (!bench.top->idle) fail("the checker still sees requests under way");
        std::printf("%u %u %u %u %u %llu %04x\n", tally.by_status[kOk], tally.by_status[kDevice], tally.by_status[kTimedOut],
                    tally.by_status[kAborted], tally.by_status[kGone], (unsigned long long)resets, tally.detail);
        return 0;
    }
    fail("no fault of this name");
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
        if (begun == requests) return false;
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

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (what == "random" && argc == 4) return random_run(std::strtoull(argv[2], nullptr, 0), std::strtoul(argv[3], nullptr, 0));
    if (what == "fault" && argc == 3) return fault_run(argv[2]);
    if (what == "rate" && argc == 8)
        return rate_run(std::string(argv[2]) == "write" ? kWrite : kRead, std::string(argv[3]) == "queued",
                        std::strtoul(argv[4], nullptr, 0), std::strtoul(argv[5], nullptr, 0),
                        std::strtoul(argv[6], nullptr, 0), std::strtoul(argv[7], nullptr, 0));
    if (what == "list") {
        for (const sata::FaultRow& row : sata::fault_rows()) std::printf("%s\t%s\n", row.name.c_str(), row.says.c_str());
        return 0;
    }
    std::fprintf(stderr, "usage: sata_bench random SEED REQUESTS | fault NAME | list | rate read|write queued|single BLOCKS DEPTH LATENCY REQUESTS\n");
    return 2;
}
