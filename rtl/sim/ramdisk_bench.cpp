// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives ramdisk_sim: one RAM disk, or an array of them, on a memory with the model's delays.
//
// `ramdisk_bench single OP BLOCKS N` executes N requests one after the other and prints the mean number of
// cycles from the cycle in which a request is taken to its last word. `ramdisk_bench stream OP BLOCKS
// CYCLES` keeps 16 requests outstanding and prints the words per cycle. All data that are read are
// compared with the written data.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "Vramdisk_sim.h"
#include "block_host.hpp"
#include "clocked.hpp"

using namespace straightway;

namespace {

constexpr unsigned kBlockBytes = 1u << BLOCK_SIZE_LOG2;

struct Bench : Clocked<Vramdisk_sim> {
    BlockHost host;

    explicit Bench(unsigned depth) : host(STRAIGHTWAY_PINS(*top, , ), UP_WIDTH / 8, kBlockBytes, depth, 0, 1) {
        reset();
    }
    void cycle() {
        top->clk_i = 0;
        top->eval();
        host.sample();
        top->clk_i = 1;
        top->eval();
        host.drive();
    }
};

uint8_t byte_at(uint64_t address) { return (address * 0x9e3779b97f4a7c15ull) >> 56; }

void expect(const Request& request) {
    if (request.status != kOk) fail("an error");
    for (size_t i = 0; i < request.data.size(); ++i)
        if (request.data[i] != byte_at(request.lba * kBlockBytes + i)) fail("the data differ");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) return std::fprintf(stderr, "usage: ramdisk_bench single|stream read|write BLOCKS N\n"), 2;
    bool single = std::string(argv[1]) == "single";
    Op op = std::string(argv[2]) == "write" ? kWrite : kRead;
    uint32_t count = std::strtoul(argv[3], nullptr, 0);
    uint64_t limit = std::strtoull(argv[4], nullptr, 0);
    Bench bench(single ? 1 : 16);
    bench.edge();
    uint64_t blocks = bench.top->block_count / count * count, next = 0, sent = 0, finished = 0, cycles = 0;
    Op now = kWrite;
    bench.host.source = [&](Request& request) {
        if (sent == (now != op ? blocks / count : single ? limit : ~0ull)) return false;
        ++sent;
        request.op = now;
        request.count = count;
        request.lba = next;
        next = (next + count) % blocks;
        if (now == kWrite) {
            request.data.resize(uint64_t(count) * kBlockBytes);
            for (size_t i = 0; i < request.data.size(); ++i) request.data[i] = byte_at(request.lba * kBlockBytes + i);
        }
        return true;
    };
    bench.host.finished = [&](const Request& request) {
        if (request.op == kRead) expect(request);
        // The response comes at least one cycle after the last word of a read (rule B7).
        cycles += request.done - request.sent - (request.op == kRead);
        ++finished;
    };
    if (op == kRead) {
        while (!(finished == blocks / count && bench.host.idle())) bench.cycle();
        now = kRead;
        sent = finished = cycles = next = 0;
    }
    uint64_t start = bench.host.now();
    if (single) {
        while (finished != limit) bench.cycle();
        std::printf("cycles %.3f\n", double(cycles) / finished);
    } else {
        while (bench.host.now() - start < 2000) bench.cycle();  // until the pipeline is full
        uint64_t words = bench.host.words;
        start = bench.host.now();
        while (bench.host.now() - start < limit) bench.cycle();
        std::printf("words_per_cycle %.4f\n", double(bench.host.words - words) / limit);
    }
    return 0;
}
