// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives a torus (route_torus). Every run checks that each word arrives once and where it was sent to.
//
// `torus_bench bounded SEED CYCLES`: random load and destinations, with phases in which all send to one node or into one column, all at
// the same time: waits, latencies and order are within the bounds, and no word is deflected.
// `torus_bench spread SEED CYCLES`: the same where only as many nodes as there are rows send into any one column.
// `torus_bench loaded SEED CYCLES`: more than the network can bear, in a build with Interval 1; prints what it moved.
#include <algorithm>
#include <cinttypes>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "Vroute_torus.h"
#include "clocked.hpp"
#include "pins.hpp"

using namespace straightway;

namespace {

constexpr unsigned kNodes = COLUMNS * ROWS;

struct Way {
    uint64_t sent, injected;
    unsigned from, to;
};

struct Bench : Clocked<Vroute_torus> {
    Random random;
    uint64_t cycle = 0, moved = 0, deflected = 0, overtaken = 0;
    uint64_t longest_wait = 0, longest = 0, next = 1;
    std::map<uint64_t, Way> under_way;
    uint64_t newest[kNodes][kNodes] = {};
    bool offers[kNodes] = {};
    uint64_t since[kNodes] = {}, token[kNodes] = {};
    unsigned percent = 100, target = kNodes;  // of all words; no node: anywhere
    bool whole_column = false, bounded = true, spread = false;
    unsigned column_of[kNodes] = {};  // where each sends to, if spread

    explicit Bench(uint64_t seed) : random(seed) {
        for (unsigned node = 0; node < kNodes; ++node) top->in_valid_i[node] = 0;
        reset();
    }

    [[noreturn]] void wrong(uint64_t word, const std::string& why) {
        fail("cycle " + std::to_string(cycle) + ", word " + std::to_string(word) + ": " + why);
    }
    static uint64_t hops(unsigned from, unsigned to) {
        return (to % COLUMNS + COLUMNS - from % COLUMNS) % COLUMNS + (to / COLUMNS + ROWS - from / COLUMNS) % ROWS;
    }

    void step() {
        auto& pins = *top;
        for (unsigned node = 0; node < kNodes; ++node) {
            if (!offers[node] && random.percent(percent)) {
                offers[node] = true;
                since[node] = cycle;
                unsigned to = target < kNodes ? target : unsigned(random.below(kNodes));
                if (whole_column && target < kNodes) to = target % COLUMNS + COLUMNS * unsigned(random.below(ROWS));
                if (spread) to = column_of[node] + COLUMNS * (to / COLUMNS);
                pins.in_to_i[node] = to;
                pins.in_data_i[node] = next++;
            }
            pins.in_valid_i[node] = offers[node];
        }
        pins.clk_i = 0;
        pins.eval();
        for (unsigned node = 0; node < kNodes; ++node) {
            deflected += pins.deflected_o >> node & 1;
            if (pins.out_valid_o[node]) arrive(node, pins.out_data_o[node]);
        }
        for (unsigned node = 0; node < kNodes; ++node) {
            uint64_t from = std::max(since[node], token[node]);
            if (!pins.in_valid_i[node]) continue;
            if (pins.in_ready_o[node]) {
                if (cycle < token[node]) wrong(pins.in_data_i[node], "it was sent before its interval");
                longest_wait = std::max(longest_wait, cycle - from);
                under_way[pins.in_data_i[node]] = {from, cycle, node, pins.in_to_i[node]};
                token[node] = cycle + INTERVAL;
                offers[node] = false;
            } else if (bounded && cycle >= from + COLUMNS - 1) {
                wrong(pins.in_data_i[node], "it waits at its source for more than " + std::to_string(COLUMNS - 1) + " cycles");
            }
        }
        pins.clk_i = 1;
        pins.eval();
        ++cycle;
    }

    void arrive(unsigned node, uint64_t word) {
        auto found = under_way.find(word);
        if (found == under_way.end()) wrong(word, "it is not under way");
        Way way = found->second;
        if (way.to != node) wrong(word, "it arrives at another node");
        uint64_t latency = cycle - way.injected, bound = hops(way.from, way.to) + (spread ? ROWS : kNodes) - 1 + 2;
        longest = std::max(longest, latency);
        if (bounded && latency > bound) {
            wrong(word, "a latency of " + std::to_string(latency) + " cycles, more than " + std::to_string(bound));
        }
        uint64_t& newest_word = newest[way.from][way.to];
        overtaken += word < newest_word;
        if (bounded && word < newest_word) wrong(word, "a later one of the same nodes was before it");
        newest_word = std::max(newest_word, word);
        under_way.erase(found);
        ++moved;
    }

    void drain(uint64_t bound) {
        percent = 0;
        for (uint64_t from = cycle; !under_way.empty() || std::any_of(offers, offers + kNodes, [](bool is) { return is; }); step())
            if (cycle - from > bound) fail("words are still under way after " + std::to_string(bound) + " cycles");
    }
};

int bounded_run(uint64_t seed, uint64_t cycles, bool spread) {
    Bench bench(seed);
    bench.spread = spread;
    for (unsigned node = 0; node < kNodes; ++node) bench.column_of[node] = node % COLUMNS;
    for (uint64_t i = 0; i < cycles; ++i) {
        if (bench.random.below(20 * INTERVAL) == 0) {
            // All sources rest, so that they have their tokens at the same time.
            bench.drain(4 * INTERVAL);
            for (unsigned rest = 0; rest < INTERVAL; ++rest) bench.step();
            bench.percent = bench.random.percent(50) ? 100 : 1 + unsigned(bench.random.below(40));
            bench.target = unsigned(bench.random.below(bench.random.percent(70) ? kNodes : kNodes + 1));
            bench.whole_column = bench.random.percent(50);
            for (unsigned node = kNodes; node > 1; --node)
                std::swap(bench.column_of[node - 1], bench.column_of[bench.random.below(node)]);
        }
        bench.step();
    }
    bench.drain(4 * INTERVAL);
    if (bench.deflected != 0) fail("words were deflected");
    std::printf("%" PRIu64 " words, wait %" PRIu64 ", latency %" PRIu64 "\n", bench.moved, bench.longest_wait, bench.longest);
    return 0;
}

int loaded_run(uint64_t seed, uint64_t cycles) {
    Bench bench(seed);
    bench.bounded = false;
    for (uint64_t i = 0; i < cycles; ++i) bench.step();
    uint64_t moved = bench.moved;
    bench.drain(100000);
    std::printf("moved %" PRIu64 " a_node_a_cycle %.4f deflected %" PRIu64 " overtaken %" PRIu64 "\n", bench.moved,
                double(moved) / double(cycles) / kNodes, bench.deflected, bench.overtaken);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 0); };
    if ((what == "bounded" || what == "spread") && argc == 4) return bounded_run(number(2), number(3), what == "spread");
    if (what == "loaded" && argc == 4) return loaded_run(number(2), number(3));
    std::fprintf(stderr, "usage: torus_bench bounded SEED CYCLES | spread SEED CYCLES | loaded SEED CYCLES\n");
    return 2;
}
