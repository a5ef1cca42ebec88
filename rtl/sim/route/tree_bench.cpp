// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives a tree (route_tree) with random load in both directions, and with phases in which all leaves send at the same time: each word
// arrives once, in order, from where it was sent to where, within the bounds while the root and the leaves take all words.
//
// `tree_bench SEED CYCLES PAUSES`: in percent of the cycles; with any, or an Interval of 1, the latencies are only printed.
#include <algorithm>
#include <cinttypes>
#include <deque>
#include <string>

#include "Vroute_tree.h"
#include "clocked.hpp"
#include "pins.hpp"

using namespace straightway;

namespace {

constexpr unsigned power(unsigned base, unsigned exponent) { return exponent == 0 ? 1 : base * power(base, exponent - 1); }
// Of all levels: the words of the other leaves below each.
constexpr unsigned others(unsigned level) { return level == 0 ? 0 : power(WAYS, level) - 1 + others(level - 1); }
constexpr unsigned kLeaves = power(WAYS, LEVELS), kBound = LEVELS + others(LEVELS);

struct Sent {
    uint64_t word, cycle;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: tree_bench SEED CYCLES PAUSES\n");
        return 2;
    }
    uint64_t seed = std::strtoull(argv[1], nullptr, 0), cycles = std::strtoull(argv[2], nullptr, 0);
    unsigned pauses = unsigned(std::strtoull(argv[3], nullptr, 0));
    bool bounded = pauses == 0 && INTERVAL > 1;
    Random random(seed);
    Clocked<Vroute_tree> bench;
    auto& pins = *bench.top;
    for (unsigned leaf = 0; leaf < kLeaves; ++leaf) pins.in_valid_i[leaf] = 0;
    pins.root_valid_i = 0;
    bench.reset();

    std::deque<Sent> up[kLeaves], down[kLeaves];
    uint64_t next = 1, longest = 0, words = 0, rest = 0, token[kLeaves] = {};
    unsigned percent = 100;
    auto where = [&](uint64_t cycle) { return "seed " + std::to_string(seed) + ", cycle " + std::to_string(cycle) + ": "; };
    for (uint64_t cycle = 0; cycle < cycles + 100 * kBound; ++cycle) {
        bool ends = cycle >= cycles;
        if (random.below(20 * INTERVAL + 200) == 0) {
            // All rest, so that they have their tokens at the same time.
            percent = random.percent(50) ? 100 : 1 + unsigned(random.below(40));
            rest = cycle + 4 * INTERVAL + 2 * kBound;
        }
        for (unsigned leaf = 0; leaf < kLeaves; ++leaf) {
            if (pins.in_valid_i[leaf]) continue;
            pins.in_valid_i[leaf] = !ends && cycle >= rest && random.percent(percent);
            if (pins.in_valid_i[leaf]) pins.in_data_i[leaf] = next++;
        }
        if (!pins.root_valid_i) {
            pins.root_valid_i = !ends && random.percent(80);
            pins.root_to_i = unsigned(random.below(kLeaves));
            pins.root_data_i = next++;
        }
        pins.root_ready_i = ends || !random.percent(pauses);
        for (unsigned leaf = 0; leaf < kLeaves; ++leaf) pins.out_ready_i[leaf] = ends || !random.percent(pauses);
        pins.clk_i = 0;
        pins.eval();
        if (pins.root_valid_o && pins.root_ready_i) {
            auto& queue = up[pins.root_from_o];
            if (queue.empty() || queue.front().word != pins.root_data_o) fail(where(cycle) + "a word at the root is another");
            longest = std::max(longest, cycle - queue.front().cycle);
            if (uint64_t latency = cycle - queue.front().cycle; bounded && latency > kBound) {
                fail(where(cycle) + "a latency of " + std::to_string(latency) + " cycles, more than " + std::to_string(kBound));
            }
            queue.pop_front();
            ++words;
        }
        for (unsigned leaf = 0; leaf < kLeaves; ++leaf) {
            if (pins.out_valid_o[leaf] && pins.out_ready_i[leaf]) {
                auto& queue = down[leaf];
                if (queue.empty() || queue.front().word != pins.out_data_o[leaf]) fail(where(cycle) + "a word at a leaf is another");
                if (bounded && cycle - queue.front().cycle != LEVELS) fail(where(cycle) + "a word to a leaf has another latency");
                queue.pop_front();
                ++words;
            }
            if (!pins.in_valid_i[leaf]) continue;
            if (pins.in_ready_o[leaf]) {
                if (cycle < token[leaf]) fail(where(cycle) + "a word is before its interval");
                token[leaf] = cycle + INTERVAL;
                up[leaf].push_back({pins.in_data_i[leaf], cycle});
            } else if (bounded && cycle >= token[leaf]) {
                fail(where(cycle) + "a leaf with a token waits");
            }
        }
        bool root_taken = pins.root_valid_i && pins.root_ready_o, taken[kLeaves];
        if (root_taken) down[pins.root_to_i].push_back({pins.root_data_i, cycle});
        else if (bounded && pins.root_valid_i) fail(where(cycle) + "a word of the root waits");
        for (unsigned leaf = 0; leaf < kLeaves; ++leaf) taken[leaf] = pins.in_valid_i[leaf] && pins.in_ready_o[leaf];
        pins.clk_i = 1;
        pins.eval();
        if (root_taken) pins.root_valid_i = 0;
        for (unsigned leaf = 0; leaf < kLeaves; ++leaf)
            if (taken[leaf]) pins.in_valid_i[leaf] = 0;
    }
    for (unsigned leaf = 0; leaf < kLeaves; ++leaf)
        if (!up[leaf].empty() || !down[leaf].empty()) fail("words are missing, seed " + std::to_string(seed));
    std::printf("words %" PRIu64 " latency %" PRIu64 " bound %u\n", words, longest, kBound);
    return 0;
}
