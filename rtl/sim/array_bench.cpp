// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives raid0_sim: random requests compared with a model of the contents, or a stream whose rate is
// measured. `array_bench random SEED CYCLES`, `array_bench leave SEED CYCLES`, `array_bench resync SEED` and `array_bench speed CYCLES`.
//
// The top's shape comes from the build (-D). Prints one line of `name value` pairs; exits with 1 and
// a line `FAILED: why` on the first difference.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include "Vraid0_sim.h"
#include "block_device.hpp"
#include "block_host.hpp"
#include "verilated.h"

#ifndef MIRROR
#define MIRROR 0
#endif
#ifndef ASYNC
#define ASYNC 0
#endif

using namespace straightway;

namespace {

constexpr unsigned kBlockBytes = 1u << BLOCK_SIZE_LOG2;

struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vraid0_sim> top;
    std::vector<std::unique_ptr<BlockDevice>> disks;
    std::unique_ptr<BlockHost> host;
    uint64_t periods[DISKS], next_edge[DISKS], time = 0;

    Bench(DeviceModel model, unsigned depth, unsigned host_stall, uint64_t seed, bool resync = false) {
        top = std::make_unique<Vraid0_sim>(&context);
        Random random(seed);
        top->enable = (1u << DISKS) - 1;
        // Without its disks until the bench says so: it begins by itself.
        top->resync = resync;
        for (unsigned i = 0; i < DISKS; ++i) top->disk_away[i] = resync;
        top->rst_ni = 0;
        for (unsigned i = 0; i < DISKS; ++i) {
            top->disk_rst_ni[i] = 0;
            periods[i] = 5 + random.below(12);  // the host's clock is 10
            next_edge[i] = periods[i];
            DeviceModel own = model;
            own.block_count += i;
            disks.push_back(std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*top, disk_, [i]), own, seed * 31 + i));
        }
        host = std::make_unique<BlockHost>(STRAIGHTWAY_PINS(*top, , ), UP_WIDTH / 8, kBlockBytes, depth, host_stall,
                                           seed * 17);
        for (int i = 0; i < 4; ++i) clock(false);
        top->rst_ni = 1;
        for (unsigned i = 0; i < DISKS; ++i) top->disk_rst_ni[i] = 1;
        for (int i = 0; i < 4; ++i) clock(false);
    }

    ~Bench() { top->final(); }

    void cycle() { clock(true); }

    void clock(bool agents) {
        if (!ASYNC) {
            top->clk_i = 0;
            top->eval();
            if (agents) {
                host->sample();
                for (unsigned i = 0; i < DISKS; ++i) {
                    disks[i]->cancel = top->disk_cancel[i];
                    disks[i]->sample();
                }
            }
            top->clk_i = 1;
            top->eval();
            if (agents) {
                host->drive();
                for (auto& disk : disks) disk->drive();
            }
            return;
        }
        // The edges of the disks' clocks up to the host's next one, in order of time.
        time += 10;
        for (;;) {
            unsigned first = 0;
            for (unsigned i = 1; i < DISKS; ++i)
                if (next_edge[i] < next_edge[first]) first = i;
            if (next_edge[first] > time) break;
            top->disk_clk_i[first] = 0;
            top->eval();
            disks[first]->cancel = top->disk_cancel[first];
            if (agents) disks[first]->sample();
            top->disk_clk_i[first] = 1;
            top->eval();
            if (agents) disks[first]->drive();
            next_edge[first] += periods[first];
        }
        top->clk_i = 0;
        top->eval();
        if (agents) host->sample();
        top->clk_i = 1;
        top->eval();
        if (agents) host->drive();
    }
};

[[noreturn]] void fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    std::exit(1);
}

// Where a block of the array lies, computed independently of the hardware.
void place(uint64_t lba, unsigned& disk, uint64_t& disk_lba) {
    uint64_t stripe = lba / STRIPE_BLOCKS;
    disk = MIRROR ? 0 : stripe % DISKS;
    disk_lba = MIRROR ? lba : stripe / DISKS * STRIPE_BLOCKS + lba % STRIPE_BLOCKS;
}

// The places that the software's arrays (crates/stripe) are tested with too.
void check_placement() {
    struct Row {
        unsigned disks;
        uint64_t stripe, lba;
        unsigned disk;
        uint64_t disk_lba;
    };
    static const Row rows[] = {
#include "../raid0/placement.inc"
    };
    for (const Row& row : rows) {
        if (MIRROR || row.disks != DISKS || row.stripe != STRIPE_BLOCKS) continue;
        unsigned disk;
        uint64_t disk_lba;
        place(row.lba, disk, disk_lba);
        if (disk != row.disk || disk_lba != row.disk_lba) fail("a block is not where raid0/placement.inc has it");
    }
}

int random_run(uint64_t seed, uint64_t cycles) {
    check_placement();
    Random random(seed);
    DeviceModel model;
    model.data_bytes = DISK_WIDTH / 8;
    model.block_bytes = kBlockBytes;
    model.block_count = DISK_BLOCKS;
    model.reorder = random.percent(80);
    model.read_latency = random.below(40);
    model.write_latency = random.below(20);
    model.flush_latency = random.below(100);
    model.depth = 1 + random.below(16);
    model.stall_percent = random.percent(50) ? random.below(60) : 0;
    model.rate_cycles = 1 + random.below(3);
    // The host cancels occasionally. Some requests of the disks end only then. A mirror does not cancel its disks.
    bool cancels = random.percent(40);
    model.hang_percent = cancels && !MIRROR ? random.below(4) : 0;
    Bench bench(model, 1 + random.below(16), random.percent(50) ? random.below(60) : 0, seed);

    uint64_t blocks = bench.top->block_count;
    uint64_t expected_blocks = MIRROR ? DISK_BLOCKS : DISK_BLOCKS / STRIPE_BLOCKS * STRIPE_BLOCKS * DISKS;
    if (blocks != expected_blocks) fail("the array has the wrong size");
    std::vector<uint8_t> image(blocks * kBlockBytes);
    std::vector<bool> unknown(blocks), busy(blocks);  // unknown: after a failed write or a discard
    for (auto& byte : image) byte = random.next();
    for (uint64_t lba = 0; lba < blocks; ++lba) {
        unsigned disk;
        uint64_t disk_lba;
        place(lba, disk, disk_lba);
        for (unsigned copy = MIRROR ? 0 : disk; copy < (MIRROR ? DISKS : disk + 1); ++copy)
            std::memcpy(&bench.disks[copy]->bytes()[disk_lba * kBlockBytes], &image[lba * kBlockBytes], kBlockBytes);
    }
    // Some blocks cannot be read, a few cannot be written. A mirror's bad blocks may coincide.
    bool faults = random.percent(60);
    if (faults) {
        for (auto& disk : bench.disks) {
            for (int i = 0; i < 4; ++i) disk->bad_reads.insert(random.below(DISK_BLOCKS));
            if (random.percent(40)) disk->bad_writes.insert(random.below(DISK_BLOCKS));
        }
    }
    auto bad = [&](const std::set<uint64_t> BlockDevice::*which, uint64_t lba) {
        unsigned disk;
        uint64_t disk_lba;
        place(lba, disk, disk_lba);
        return (bench.disks[disk].get()->*which).count(disk_lba) != 0;
    };

    uint64_t done = 0, failed_ok = 0, refused = 0, aborted = 0, cancelled_at = 0;
    bool stop = false;
    bench.host->source = [&](Request& request) {
        if (stop || bench.top->cancel) return false;
        uint64_t longest = 1 + random.below(random.percent(10) ? 64 : 8);
        request.count = 1 + random.below(longest);
        request.lba = random.below(blocks - request.count + 1);
        unsigned kind = random.below(100);
        request.op = kind < 45 ? kRead : kind < 90 ? kWrite : kind < 94 ? kFlush : kind < 97 ? kDiscard : kWriteZeroes;
        request.fua = request.op == kWrite && random.percent(10);
        if (request.op == kFlush) request.count = 0, request.lba = 0;
        if (random.percent(2) && request.op != kFlush) {
            if (random.percent(50)) request.count = 0;
            else request.lba = blocks - random.below(request.count);  // ends past the last block
        }
        bool legal = request.op == kFlush || (request.count != 0 && request.lba + request.count <= blocks);
        if (legal)
            for (uint64_t i = 0; i < request.count; ++i)
                if (busy[request.lba + i]) return false;  // rule B11: overlapping requests have no order
        if (legal)
            for (uint64_t i = 0; i < request.count; ++i) busy[request.lba + i] = true;
        if (request.op == kWrite) {
            request.data.resize(uint64_t(request.count) * kBlockBytes);
            for (auto& byte : request.data) byte = random.next();
        }
        return true;
    };
    bench.host->finished = [&](const Request& request) {
        ++done;
        if (request.op != kFlush && (request.count == 0 || request.lba + request.count > blocks)) {
            if (request.status != (request.count == 0 ? kEmpty : kOutOfRange)) fail("an illegal request ended with the wrong status");
            if (request.op == kRead && request.data.size() != uint64_t(request.count) * kBlockBytes) fail("a refused read returned the wrong number of words");
            ++refused;
            return;
        }
        bool expect_error = false;
        for (uint64_t i = 0; i < request.count; ++i) {
            uint64_t lba = request.lba + i;
            busy[lba] = false;
            if (!MIRROR && request.op == kRead) expect_error |= bad(&BlockDevice::bad_reads, lba);
            if (!MIRROR && (request.op == kWrite || request.op == kWriteZeroes)) expect_error |= bad(&BlockDevice::bad_writes, lba);
        }
        bool was_cancelled = request.status == kAborted && !MIRROR && cancelled_at >= request.sent;
        if (was_cancelled) ++aborted;
        else if (request.status != kOk && (request.status != kDevice || request.detail != 0x0281)) fail("an unknown status");
        if (request.status != kOk) ++failed_ok;
        if (!MIRROR && !was_cancelled && (request.status != kOk) != expect_error) fail("an error on the wrong request, or a missing error");
        if (MIRROR && !faults && request.status != kOk) fail("an error without a fault");
        if (request.op == kDiscard) {
            // The disk model keeps a discarded block's bytes, but their contents are undefined.
            for (uint64_t i = 0; i < request.count; ++i) unknown[request.lba + i] = true;
        } else if (request.op == kWrite || request.op == kWriteZeroes) {
            for (uint64_t i = 0; i < request.count; ++i) unknown[request.lba + i] = request.status != kOk;
            if (request.status != kOk) return;
            if (request.op == kWriteZeroes) std::memset(&image[request.lba * kBlockBytes], 0, uint64_t(request.count) * kBlockBytes);
            else std::memcpy(&image[request.lba * kBlockBytes], request.data.data(), request.data.size());
        } else if (request.op == kRead) {
            if (request.data.size() != uint64_t(request.count) * kBlockBytes) fail("a read returned the wrong number of words");
            for (uint64_t i = 0; i < request.count && request.status == kOk; ++i) {
                uint64_t lba = request.lba + i;
                if (unknown[lba]) continue;
                if (std::memcmp(&image[lba * kBlockBytes], &request.data[i * kBlockBytes], kBlockBytes) != 0)
                    fail("block " + std::to_string(lba) + " differs");
            }
        }
    };
    auto step = [&] {
        bench.cycle();
        if (bench.top->cancel) cancelled_at = bench.host->now();
        if (bench.top->cancel && bench.host->idle()) bench.top->cancel = 0;  // the host has no outstanding or offered request
        else if (cancels && !bench.top->idle && random.below(500) == 0) bench.top->cancel = 1;
    };
    for (uint64_t i = 0; i < cycles; ++i) step();
    stop = true;
    for (uint64_t i = 0; i < 200000 && !(bench.host->idle() && !bench.top->cancel); ++i) step();
    if (!bench.host->idle()) fail("requests were not answered");
    for (int i = 0; i < 10; ++i) bench.cycle();
    if (!bench.top->idle) fail("the checker still sees requests under way");
    if (done < cycles / 2000) fail("too little progress: " + std::to_string(done) + " requests");
    // The disks' contents, read without the hardware.
    unsigned live = 0;
    while (MIRROR && (bench.top->failed >> live & 1)) ++live;
    if (live == DISKS) fail("the last disk was given up");
    for (uint64_t lba = 0; lba < blocks; ++lba) {
        unsigned disk;
        uint64_t disk_lba;
        place(lba, disk, disk_lba);
        if (unknown[lba]) continue;
        for (unsigned copy = MIRROR ? live : disk; copy < (MIRROR ? DISKS : disk + 1); ++copy) {
            if (MIRROR && (bench.top->failed >> copy & 1)) continue;
            if (std::memcmp(&bench.disks[copy]->bytes()[disk_lba * kBlockBytes], &image[lba * kBlockBytes], kBlockBytes) != 0)
                fail("disk " + std::to_string(copy) + " has other contents in block " + std::to_string(disk_lba));
        }
    }
    std::printf("requests %llu failed %llu aborted %llu refused %llu dropped_disks %u\n", (unsigned long long)done,
                (unsigned long long)failed_ok, (unsigned long long)aborted, (unsigned long long)refused,
                __builtin_popcount(bench.top->failed));
    return 0;
}

// Disks leave and return while requests are under way on the others. The checkers watch that each request ends before the
// array is ready again (B14).
int leave_run(uint64_t seed, uint64_t cycles) {
    Random random(seed);
    DeviceModel model;
    model.data_bytes = DISK_WIDTH / 8;
    model.block_bytes = kBlockBytes;
    model.block_count = DISK_BLOCKS;
    model.reorder = random.percent(50);
    model.read_latency = random.below(400);
    model.write_latency = random.below(400);
    Bench bench(model, 1 + random.below(16), random.percent(50) ? random.below(60) : 0, seed);
    uint64_t blocks = DISK_BLOCKS, gone = 0, good = 0, returned = 0, returned_busy = 0;
    bool stop = false;
    bench.host->source = [&](Request& request) {
        if (stop) return false;
        request.op = random.percent(50) ? kRead : random.percent(90) ? kWrite : kFlush;
        request.fua = false;
        request.count = request.op == kFlush ? 0 : 1 + random.below(8);
        request.lba = request.op == kFlush ? 0 : random.below(blocks - request.count + 1);
        if (request.op == kWrite) request.data.assign(uint64_t(request.count) * kBlockBytes, 0x5a);
        return true;
    };
    bench.host->finished = [&](const Request& request) {
        if (request.status == kGone) ++gone;
        else if (request.status == kOk) ++good;
        else fail("status " + std::to_string(request.status));
    };
    uint64_t until[DISKS] = {};
    auto settled = [&] { return bench.host->idle() && bench.top->idle && bench.top->ready; };
    for (uint64_t now = 1; now < cycles || !settled(); ++now) {
        if (now > cycles + 300000) {
            if (!bench.host->idle()) fail("requests were not answered");
            fail(bench.top->ready ? "the checker still sees requests under way" : "the array is not ready with all disks");
        }
        stop = now >= cycles;
        unsigned chosen = random.below(DISKS);
        // A mirror uses a disk that has left no more: there, all leave.
        if (!stop && random.below(1000) == 0)
            for (unsigned i = 0; i < DISKS; ++i)
                if ((MIRROR || i == chosen) && !bench.disks[i]->away) bench.disks[i]->away = true, until[i] = now + 20 + random.below(100);
        for (unsigned i = 0; i < DISKS; ++i) {
            if (bench.disks[i]->away && now >= until[i] && bench.disks[i]->is_idle()) {
                bench.disks[i]->away = false;
                bench.top->disk_medium[i] = (bench.top->disk_medium[i] + 1) & 15;
                ++returned;
                returned_busy += !bench.top->idle;
            }
            bench.top->disk_away[i] = bench.disks[i]->away;
        }
        bench.cycle();
    }
    std::printf("good %llu gone %llu returned %llu busy %llu\n", (unsigned long long)good, (unsigned long long)gone,
                (unsigned long long)returned, (unsigned long long)returned_busy);
    return 0;
}

// A mirror whose disks differ, at the start and after all of them were away: when it is ready, each block is the same on all
// disks, and is one of those that it was. Blocks that one disk cannot read come from another.
int resync_run(uint64_t seed) {
    if (!MIRROR) fail("only a mirror is made equal");
    Random random(seed);
    DeviceModel model;
    model.data_bytes = DISK_WIDTH / 8;
    model.block_bytes = kBlockBytes;
    model.block_count = DISK_BLOCKS;
    model.read_latency = random.below(40);
    model.write_latency = random.below(40);
    model.stall_percent = random.percent(50) ? random.below(60) : 0;
    Bench bench(model, 4, 0, seed, true);
    bench.host->source = [](Request&) { return false; };
    for (int i = 0; i < 4; ++i) bench.disks[random.below(DISKS - 1)]->bad_reads.insert(random.below(DISK_BLOCKS));
    auto block = [&](unsigned disk, uint64_t lba) { return &bench.disks[disk]->bytes()[lba * kBlockBytes]; };
    auto present = [&](bool is) {
        for (unsigned i = 0; i < DISKS; ++i) {
            bench.disks[i]->away = !is;
            bench.top->disk_away[i] = !is;
            if (is) bench.top->disk_medium[i] = (bench.top->disk_medium[i] + 1) & 15;
        }
    };
    for (int round = 0; round < 3; ++round) {
        present(false);
        for (int i = 0; i < 200; ++i) bench.cycle();
        if (bench.top->ready) fail("ready without disks");
        for (uint64_t lba = 0; lba < DISK_BLOCKS; ++lba)
            for (unsigned i = 0; i < DISKS; ++i)
                if (random.percent(30)) std::memset(block(i, lba), int(random.below(256)), kBlockBytes);
        std::vector<std::vector<uint8_t>> were;
        for (auto& disk : bench.disks) were.push_back(disk->bytes());
        present(true);
        if (round == 1) {  // the disks leave in the middle of it, and return
            for (uint64_t i = random.below(4000); i > 0; --i) bench.cycle();
            if (bench.top->ready) fail("ready in the middle");
            present(false);
            for (int i = 0; i < 2000; ++i) bench.cycle();
            present(true);
        }
        for (int i = 0; !bench.top->ready; ++i) {
            if (i == 2000000) fail("the mirror does not become ready");
            bench.cycle();
        }
        if (bench.top->failed) fail("a disk was given up");
        for (uint64_t lba = 0; lba < DISK_BLOCKS; ++lba) {
            bool was = false;
            for (unsigned i = 0; i < DISKS; ++i) {
                if (std::memcmp(block(i, lba), block(0, lba), kBlockBytes) != 0) fail("block " + std::to_string(lba) + " differs");
                was |= std::memcmp(block(i, lba), &were[i][lba * kBlockBytes], kBlockBytes) == 0;
            }
            if (!was) fail("block " + std::to_string(lba) + " is none of those that were");
        }
    }
    uint64_t flushes = 0;
    for (auto& disk : bench.disks) flushes += disk->flushes;
    if (flushes < 3 * DISKS) fail("the copies were not flushed");
    std::printf("equal after %llu writes\n", (unsigned long long)bench.disks[0]->writes);
    return 0;
}

// A long stream of reads and writes on ideal disks, to measure the simulation's speed.
int speed_run(uint64_t cycles) {
    DeviceModel model;
    model.data_bytes = DISK_WIDTH / 8;
    model.block_bytes = kBlockBytes;
    model.block_count = DISK_BLOCKS;
    Bench bench(model, 4, 0, 1);
    uint64_t blocks = bench.top->block_count, next = 0;
    std::vector<uint8_t> data(16 * kBlockBytes, 0x5a);
    bench.host->source = [&](Request& request) {
        request.op = next & 1 ? kWrite : kRead;
        request.count = 16;
        request.lba = next++ * 16 % (blocks - 15);
        if (request.op == kWrite) request.data = data;
        return true;
    };
    bench.host->finished = [](const Request& request) { if (request.status != kOk) fail("an error"); };
    auto start = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < cycles; ++i) bench.cycle();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("mcycles_per_s %.3f words_per_cycle %.3f\n", cycles / seconds / 1e6, double(bench.host->words) / cycles);
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "random" && argc == 4) return random_run(std::strtoull(argv[2], nullptr, 0), std::strtoull(argv[3], nullptr, 0));
    if (mode == "leave" && argc == 4) return leave_run(std::strtoull(argv[2], nullptr, 0), std::strtoull(argv[3], nullptr, 0));
    if (mode == "resync" && argc == 3) return resync_run(std::strtoull(argv[2], nullptr, 0));
    if (mode == "speed" && argc == 3) return speed_run(std::strtoull(argv[2], nullptr, 0));
    std::fprintf(stderr, "usage: array_bench random|leave SEED CYCLES | resync SEED | speed CYCLES\n");
    return 2;
} catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
}
