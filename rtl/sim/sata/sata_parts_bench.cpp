// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives sata_parts_sim: the code against its rules, the out-of-band signals at the edges of their tolerances.
//
// `sata_parts_bench code`: every byte and control code at both disparities, every symbol, every error of one bit.
// `sata_parts_bench oob SEED`: gaps that must be accepted and refused at each rate, and the lengths of sent signals.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "Vsata_parts_sim.h"
#include "clocked.hpp"
#include "pins.hpp"
#include "sata/sata_code.hpp"

using namespace straightway;

namespace {

struct Parts : Clocked<Vsata_parts_sim> {
    void reset(unsigned rate) {
        top->rate = rate;
        top->idle = 1;
        top->send = 0;
        Clocked::reset();
    }
};

int code_run() {
    Parts parts;
    auto& top = *parts.top;
    sata::Decoder decoder;
    unsigned symbols = 0, errors = 0, later = 0;
    for (unsigned positive = 0; positive < 2; ++positive) {
        top.positive = positive;
        for (unsigned bits = 0; bits < 1024; ++bits) {
            unsigned meaning = decoder.meaning[positive][bits];
            top.symbol = bits;
            top.eval();
            bool good = !top.bad_code && !top.bad_disparity;
            std::string name = std::to_string(bits) + " at " + (positive ? "+" : "-");
            if (good != (meaning != 0)) fail("symbol " + name + (good ? " is accepted" : " is refused"));
            // A symbol of the other disparity is a disparity error, not a code error.
            if (!good && decoder.meaning[!positive][bits] && top.bad_code) fail("a code error is reported for " + name);
            if (!meaning) continue;
            ++symbols;
            if ((top.decoded_k << 8 | top.decoded) != (meaning & 511)) fail("symbol " + name + " is decoded incorrectly");
            bool k = meaning & 256;
            sata::Symbol right = sata::encode(meaning & 255, k, positive);
            top.k = k;
            top.data = meaning & 255;
            top.eval();
            if (top.encoded != right.bits || top.encoded_positive != right.positive || top.decoded_positive != right.positive)
                fail("symbol " + name + " is encoded incorrectly");
            // One wrong bit is detected immediately, or it changes the disparity, which the next unbalanced symbol shows.
            for (unsigned bit = 0; bit < 10; ++bit) {
                top.symbol = bits ^ 1u << bit;
                top.eval();
                ++errors;
                if (top.bad_code || top.bad_disparity) continue;
                ++later;
                if (top.decoded_positive == right.positive) fail("a wrong bit in " + name + " is undetectable");
            }
            top.symbol = bits;
        }
    }
    if (symbols != 2 * (256 + 12)) fail(std::to_string(symbols) + " symbols");
    std::printf("%u symbols, %u errors of one bit: %u seen at once, %u by the disparity behind\n", symbols, errors,
                errors - later, later);
    return 0;
}

// A line with six bursts of 106.7 ns and gaps of this length, sampled by a clock of any phase.
bool hears(Parts& parts, unsigned rate, double gap_ns, bool wake, double phase) {
    const double cycle_ns = 80.0 / 3 / (1 << rate), burst_ns = 320.0 / 3;
    parts.reset(rate);
    auto& top = *parts.top;
    bool heard = false;
    for (unsigned n = 0; n < 400u << rate; ++n) {
        double at = (n + phase) * cycle_ns - 100;
        double part = at - std::max(0.0, double(int64_t(at / (burst_ns + gap_ns)))) * (burst_ns + gap_ns);
        top.idle = at < 0 || at > 6 * burst_ns + 5 * gap_ns || part >= burst_ns;
        parts.edge();
        heard |= wake ? top.wake : top.init;
        if (wake ? top.init : top.wake) fail("one signal is detected as the other");
    }
    if (top.init || top.wake) fail("a signal is still reported after its end");
    return heard;
}

int oob_run(uint64_t seed) {
    Parts parts;
    auto& top = *parts.top;
    Random random(seed);
    // Must be detected from the first to the second; must not be detected up to the third and from the fourth.
    struct { bool wake; double least, most, below, above; } edges[] = {{false, 304, 336, 175, 525}, {true, 101.3, 112, 35, 175}};
    unsigned checks = 0;
    for (unsigned rate = 0; rate < 3; ++rate) {
        for (auto& edge : edges) {
            for (unsigned n = 0; n < 200; ++n) {
                double phase = n / 200.0, share = random.below(1001) / 1000.0;
                std::string where = " at rate " + std::to_string(rate) + ", phase " + std::to_string(phase) + ", seed " + std::to_string(seed);
                for (double gap : {edge.least, edge.most, edge.least + share * (edge.most - edge.least)}) {
                    ++checks;
                    if (!hears(parts, rate, gap, edge.wake, phase)) fail("a gap of " + std::to_string(gap) + " ns is refused" + where);
                }
                for (double gap : {edge.below, edge.above, edge.above + share * 300}) {
                    if (edge.wake && gap > 190) continue;  // that may be COMINIT
                    ++checks;
                    if (hears(parts, rate, gap, edge.wake, phase)) fail("a gap of " + std::to_string(gap) + " ns is accepted" + where);
                }
            }
        }
        for (bool wake : {false, true}) {
            parts.reset(rate);
            top.send = 1;
            top.is_wake = wake;
            unsigned bursts = 0, length = 0, cycles = 0;
            bool last = true;
            for (parts.edge(); !top.done; parts.edge()) {
                if (++cycles == 2000) fail("a signal does not end");
                if (top.burst == last) {
                    ++length;
                    continue;
                }
                if (length != (last || wake ? 4u : 12u) << rate) fail("a part of " + std::to_string(length) + " cycles is sent");
                bursts += last;
                last = top.burst;
                length = 1;
            }
            bursts += last;
            if (bursts != 6) fail(std::to_string(bursts) + " bursts are sent");
        }
    }
    std::printf("%u gaps\n", checks);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (what == "code") return code_run();
    if (what == "oob" && argc == 3) return oob_run(std::strtoull(argv[2], nullptr, 0));
    std::fprintf(stderr, "usage: sata_parts_bench code | oob SEED\n");
    return 2;
}
