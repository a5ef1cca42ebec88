// SPDX-License-Identifier: Apache-2.0 OR MIT
// system_torus or system_tree alone: every flit arrives once, where it was sent to, in the order of its source; on the torus within the
// bound and at the rates of README.md, on the tree also at ends that pause.
//
// `network_bench SEED CYCLES PERCENT`: each source offers a flit in that share of the cycles; 100 also asserts the rates.
#include <deque>

#if __has_include("Vsystem_torus.h")
#include "Vsystem_torus.h"
using Top = Vsystem_torus;
constexpr bool kTorus = true;
#else
#include "Vsystem_tree.h"
using Top = Vsystem_tree;
constexpr bool kTorus = false;
#endif
#include "clocked.hpp"
#include "pins.hpp"

using namespace straightway;

namespace {

constexpr unsigned kDisks = WAYS * PORTS;
// Hops in the row and in the column, the wait at the turn, and two.
constexpr uint64_t kBound = PORTS + (WAYS - 1) + (WAYS - 1) + 2;

struct Flit {
    uint32_t content;
    uint64_t entered;
};

struct Bench : Clocked<Top> {
    std::deque<Flit> up[kDisks], down[kDisks];  // under way between a disk and its port
    uint64_t now = 0, taken_up = 0, taken_down = 0, least_up[kDisks] = {}, longest = 0;

    void arrives(std::deque<Flit>& way, uint32_t content, const char* where, unsigned disk) {
        std::string what = std::string(where) + " disk " + std::to_string(disk) + ": ";
        if (way.empty()) fail(what + "a flit that was not sent");
        if (way.front().content != content) fail(what + "another flit than the next one");
        longest = std::max(longest, now - way.front().entered);
        way.pop_front();
    }
    void run(uint64_t seed, uint64_t cycles, unsigned percent) {
        Random random(seed);
        reset();
        uint32_t number = 0;
        for (; now < cycles; ++now) {
            top->clk_i = 0;
            for (unsigned disk = 0; disk < kDisks; ++disk) {
                // An offer stays until it is taken.
                if (!top->disk_valid_i[disk] && random.percent(percent)) top->disk_valid_i[disk] = 1, top->disk_flit_i[disk] = ++number;
                top->disk_ready_i[disk] = kTorus || percent == 100 || random.percent(70);
            }
            for (unsigned port = 0; port < PORTS; ++port) {
                if (!top->head_valid_i[port] && random.percent(percent))
                    top->head_valid_i[port] = 1, top->head_flit_i[port] = ++number, top->head_to_i[port] = random.below(WAYS);
                top->head_ready_i[port] = kTorus || percent == 100 || random.percent(70);
            }
            top->eval();
            bool disk_taken[kDisks], head_taken[PORTS];
            for (unsigned disk = 0; disk < kDisks; ++disk) {
                if (top->disk_valid_o[disk] && top->disk_ready_i[disk]) arrives(down[disk], top->disk_flit_o[disk], "at", disk);
                disk_taken[disk] = top->disk_valid_i[disk] && top->disk_ready_o[disk];
                if (disk_taken[disk]) up[disk].push_back({top->disk_flit_i[disk], now}), ++taken_up, ++least_up[disk];
            }
            for (unsigned port = 0; port < PORTS; ++port) {
                unsigned from = port * WAYS + top->head_from_o[port], to = port * WAYS + top->head_to_i[port];
                if (top->head_valid_o[port] && top->head_ready_i[port]) arrives(up[from], top->head_flit_o[port], "from", from);
                head_taken[port] = top->head_valid_i[port] && top->head_ready_o[port];
                if (head_taken[port]) down[to].push_back({top->head_flit_i[port], now}), ++taken_down;
            }
#if __has_include("Vsystem_torus.h")
            if (top->deflected_o) fail("a flit was deflected");
#endif
            top->clk_i = 1;
            top->eval();
            for (unsigned disk = 0; disk < kDisks; ++disk) top->disk_valid_i[disk] &= !disk_taken[disk];
            for (unsigned port = 0; port < PORTS; ++port) top->head_valid_i[port] &= !head_taken[port];
        }
        if (kTorus && longest > kBound) fail("a flit took " + std::to_string(longest) + " cycles of " + std::to_string(kBound));
        for (const auto* ways : {up, down})
            for (unsigned disk = 0; disk < kDisks; ++disk)
                if (!ways[disk].empty() && now - ways[disk].front().entered > 1000)
                    fail("a flit " + std::string(ways == up ? "from" : "to") + " disk " + std::to_string(disk) + " has not arrived");
        if (percent < 100) return;
        // Flits in a cycle. On the torus a disk has one in 2 x WAYS cycles, and a port one in two cycles that are left by those that pass
        // it, at most PORTS - 1 in 2 x WAYS cycles. On the tree the root has one in each cycle, each way.
        constexpr double kInterval = 2.0 * WAYS;
        double all_up = kTorus ? kDisks / kInterval : 1, all_down = kTorus ? PORTS * (kInterval - (PORTS - 1)) / 2 / kInterval : 1;
        if (taken_up < 0.95 * all_up * cycles) fail("slow to the head: " + std::to_string(taken_up));
        if (taken_down < 0.95 * all_down * cycles) fail("slow to the disks: " + std::to_string(taken_down));
        for (uint64_t taken : least_up)
            if (taken < 0.9 * all_up / kDisks * cycles) fail("a disk is served less than others");
    }
};

}  // namespace

int main(int, char** argv) {
    Bench bench;
    bench.run(std::strtoull(argv[1], nullptr, 0), std::strtoull(argv[2], nullptr, 0), std::atoi(argv[3]));
    std::printf("up %llu down %llu longest %llu\n", (unsigned long long)bench.taken_up, (unsigned long long)bench.taken_down,
                (unsigned long long)bench.longest);
}
