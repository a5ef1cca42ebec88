// SPDX-License-Identifier: Apache-2.0 OR MIT
// The parts that all benches of a verilated top share: the top, its clock, its reset, and the report of a failure.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "verilated.h"

namespace straightway {

[[noreturn]] inline void fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    std::exit(1);
}

template <class Top>
struct Clocked {
    VerilatedContext context;
    std::unique_ptr<Top> top = std::make_unique<Top>(&context);

    ~Clocked() { top->final(); }
    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    void reset() {
        top->rst_ni = 0;
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }
};

}  // namespace straightway
