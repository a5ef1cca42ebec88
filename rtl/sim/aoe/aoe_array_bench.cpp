// SPDX-License-Identifier: Apache-2.0 OR MIT
// Remote disks as one block device: contents, rates, and the cycles of a frame.
//
// `aoe_array_bench random SEED CYCLES [cut]`: random requests against a model of the contents; with `cut`, a line carries nothing at
// times. `speed BLOCKS COUNT`: COUNT blocks in requests of BLOCKS, written and read in their order. `single`: one request at a time.
#include "Vaoe_array_sim.h"
#include "block_host.hpp"
#include "clocked.hpp"

using namespace straightway;

namespace {

constexpr unsigned kSector = 512;

struct Bench : Clocked<Vaoe_array_sim> {
    std::unique_ptr<BlockHost> host;
    uint64_t now = 0, agains = 0, frames = 0;

    Bench(unsigned depth, unsigned stall, uint64_t seed) {
        host = std::make_unique<BlockHost>(STRAIGHTWAY_PINS(*top, , ), UP_WIDTH / 8, kSector, depth, stall, seed);
        host->source = [](Request&) { return false; };
        host->finished = [](const Request&) {};
        reset();
    }
    void cycle() {
        ++now;
        top->clk_i = 0;
        top->eval();
        host->sample();
        agains += __builtin_popcount(top->again), frames += __builtin_popcount(top->sent);
        top->clk_i = 1;
        top->eval();
        host->drive();
    }
    template <class Condition>
    void until(Condition condition, uint64_t limit, const char* what) {
        for (; !condition(); cycle())
            if (limit-- == 0) fail(std::string("never: ") + what);
    }
    void until_ready() {
        until([&] { return top->ready; }, 200000, "ready");
    }
    // Requests of so many blocks, in order, until all have ended; the cycles that this takes.
    uint64_t stream(Op op, unsigned blocks, uint64_t count) {
        uint64_t next = 0, done = 0, from = now;
        host->source = [&](Request& request) {
            if (next == count) return false;
            request.op = op, request.lba = next, request.count = blocks;
            if (op == kWrite) request.data.assign(blocks * kSector, uint8_t(next));
            next += blocks;
            return true;
        };
        host->finished = [&](const Request& request) {
            if (request.status != kOk) fail("status " + std::to_string(request.status));
            if (op == kRead && request.data != std::vector<uint8_t>(blocks * kSector, uint8_t(request.lba))) fail("other contents");
            done += blocks;
        };
        until([&] { return done == count; }, count * 1000, "the stream's end");
        return now - from;
    }
};

int random_run(uint64_t seed, uint64_t cycles, bool cuts) {
    Random random(seed);
    Bench bench(1 + random.below(12), random.percent(50) ? random.below(40) : 0, seed);
    bench.until_ready();
    // A few stripes of the disks.
    const uint64_t blocks = STRIPE_BLOCKS * (DISKS * 4 + 4);
    std::vector<uint8_t> image(blocks * kSector);
    std::vector<bool> known(blocks), busy(blocks);
    uint64_t good = 0, gone = 0, cut_until = 0;
    bool stop = false;
    bench.host->source = [&](Request& request) {
        if (stop || !bench.top->ready) return false;
        request.op = random.percent(45) ? kRead : random.percent(95) ? kWrite : kFlush;
        if (request.op == kFlush) return true;
        request.count = 1 + random.below(random.percent(20) ? 40 : 6);
        request.lba = random.below(blocks - request.count + 1);
        for (uint64_t i = 0; i < request.count; ++i)
            if (busy[request.lba + i]) return false;
        for (uint64_t i = 0; i < request.count; ++i) busy[request.lba + i] = true;
        if (request.op == kWrite) {
            request.data.resize(request.count * kSector);
            for (auto& byte : request.data) byte = uint8_t(random.next());
        }
        return true;
    };
    bench.host->finished = [&](const Request& request) {
        if (request.status != kOk && !(cuts && request.status == kGone)) fail("status " + std::to_string(request.status));
        (request.status == kOk ? good : gone) += 1;
        for (uint64_t i = 0; i < request.count; ++i) {
            uint64_t lba = request.lba + i;
            busy[lba] = false;
            if (request.op == kWrite) {
                known[lba] = request.status == kOk;
                std::memcpy(&image[lba * kSector], &request.data[i * kSector], kSector);
            } else if (request.op == kRead && known[lba] && request.status == kOk &&
                       std::memcmp(&image[lba * kSector], &request.data[i * kSector], kSector) != 0) {
                fail("block " + std::to_string(lba) + " differs");
            }
        }
    };
    for (uint64_t until = bench.now + cycles; bench.now < until; bench.cycle()) {
        if (cuts && bench.now >= cut_until) {
            bench.top->cut = 0;
            if (random.below(30000) == 0) {
                bench.top->cut = 1u << random.below(DISKS);
                cut_until = bench.now + random.below(random.percent(70) ? 3000 : 120000);
            }
        }
    }
    bench.top->cut = 0;
    stop = true;
    bench.until([&] { return bench.host->idle() && bench.top->idle; }, 1000000, "the end");
    bench.until([&] { return bench.top->ready; }, 1000000, "ready again");
    std::printf("good %llu gone %llu again %llu\n", (unsigned long long)good, (unsigned long long)gone, (unsigned long long)bench.agains);
    return 0;
}

int speed_run(unsigned blocks, uint64_t count) {
    Bench bench(8, 0, 1);
    bench.until_ready();
    for (Op op : {kWrite, kRead}) {
        uint64_t frames = bench.frames, cycles = bench.stream(op, blocks, count);
        std::printf("%s %llu %s_frames %llu ", op == kWrite ? "write" : "read", (unsigned long long)cycles,
                    op == kWrite ? "write" : "read", (unsigned long long)(bench.frames - frames));
    }
    std::printf("words %llu again %llu\n", (unsigned long long)(count * kSector / 4), (unsigned long long)bench.agains);
    return 0;
}

int single_run() {
    Bench bench(1, 0, 1);
    bench.until_ready();
    for (Op op : {kWrite, kRead}) {
        uint64_t cycles = bench.stream(op, 1, 64) / 64;
        std::printf("%s %llu ", op == kWrite ? "write" : "read", (unsigned long long)cycles);
    }
    std::printf("\n");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (what == "random" && argc > 3) return random_run(std::strtoull(argv[2], nullptr, 0), std::strtoull(argv[3], nullptr, 0), argc > 4);
    if (what == "speed" && argc > 3) return speed_run(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 0));
    if (what == "single") return single_run();
    std::fprintf(stderr, "usage: aoe_array_bench random SEED CYCLES [cut], speed BLOCKS COUNT, single\n");
    return 2;
}
