// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives a switch and two children over links (tree_link_sim), on lines that change bits, lose blocks and are dead for a while: each word
// arrives once, in order, from the child that has sent it, or at the child that it is for.
//
// `tree_link_bench SEED CYCLES`
#include <cinttypes>
#include <deque>
#include <string>

#include "Vtree_link_sim.h"
#include "clocked.hpp"
#include "link/link_line.hpp"

using namespace straightway;

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: tree_link_bench SEED CYCLES\n");
        return 2;
    }
    uint64_t seed = std::strtoull(argv[1], nullptr, 0), cycles = std::strtoull(argv[2], nullptr, 0);
    Random random(seed);
    Clocked<Vtree_link_sim> bench;
    auto& pins = *bench.top;
    Line lines[4] = {Line(20), Line(20), Line(20), Line(20)};
    for (unsigned line = 0; line < 4; ++line) pins.arrive_valid[line] = 0;
    for (unsigned child = 0; child < 2; ++child) pins.in_valid[child] = 0;
    pins.send_valid = 0;
    bench.reset();

    std::deque<uint64_t> to_root[2], to_child[2];
    uint64_t next = 1, up_words = 0, down_words = 0, damages = 0, stop = 0, cycle = 0, quiet = 0;
    auto wrong = [&](const std::string& why) { fail("seed " + std::to_string(seed) + ", cycle " + std::to_string(cycle) + ": " + why); };
    bool started = false;
    for (; stop == 0 || cycle < stop + 20000; ++cycle) {
        if (!started && pins.up) {
            started = true;
            stop = cycle + cycles;
        }
        if (!started && cycle > 100000) wrong("the links have no session");
        if (started && !pins.up) wrong("a link has lost its session");
        bool ends = !started || cycle >= stop;
        if (!ends && cycle >= quiet && random.below(100) == 0) {
            auto what = random.percent(2) ? Damage::kDead : Damage(random.below(3));
            lines[random.below(4)].damage(what, random, 200);
            ++damages;
            // Until lock is regained: again and again without it, the session would end.
            if (what == Damage::kDead) quiet = cycle + 3000;
        }
        for (unsigned child = 0; child < 2; ++child) {
            if (!pins.in_valid[child] && !ends && random.percent(60)) pins.in_valid[child] = 1, pins.in_data[child] = next++;
            pins.out_ready[child] = ends || random.percent(80);
        }
        if (!pins.send_valid && !ends && random.percent(90)) {
            pins.send_valid = 1;
            pins.send_to = random.below(2);
            pins.send_data = next++;
        }
        pins.root_ready = ends || random.percent(95);
        for (unsigned line = 0; line < 4; ++line) {
            Block block;
            if (pins.slip[line]) lines[line].slip();
            pins.arrive_valid[line] = lines[line].take(block);
            pins.arrive_data[line] = block.data;
            pins.arrive_sync[line] = block.sync;
        }
        pins.clk_i = 0;
        pins.eval();
        bool sent = pins.send_valid && pins.send_ready, taken[2];
        if (sent) to_child[pins.send_to].push_back(pins.send_data);
        for (unsigned child = 0; child < 2; ++child) {
            taken[child] = pins.in_valid[child] && pins.in_ready[child];
            if (taken[child]) to_root[child].push_back(pins.in_data[child]);
            if (!pins.out_valid[child] || !pins.out_ready[child]) continue;
            if (to_child[child].empty() || to_child[child].front() != pins.out_data[child]) wrong("a word at a child is another");
            to_child[child].pop_front();
            ++down_words;
        }
        if (pins.root_valid && pins.root_ready) {
            auto& queue = to_root[pins.root_from];
            if (queue.empty() || queue.front() != pins.root_data) wrong("a word at the root is another");
            queue.pop_front();
            ++up_words;
        }
        for (unsigned line = 0; line < 4; ++line) lines[line].give({pins.line_data[line], pins.line_sync[line]}, random);
        pins.clk_i = 1;
        pins.eval();
        if (sent) pins.send_valid = 0;
        for (unsigned child = 0; child < 2; ++child)
            if (taken[child]) pins.in_valid[child] = 0;
    }
    for (unsigned child = 0; child < 2; ++child)
        if (!to_root[child].empty() || !to_child[child].empty()) wrong("words are missing");
    std::printf("up %" PRIu64 " down %" PRIu64 " damages %" PRIu64 "\n", up_words, down_words, damages);
    return 0;
}
