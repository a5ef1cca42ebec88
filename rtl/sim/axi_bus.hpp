// SPDX-License-Identifier: Apache-2.0 OR MIT
// The AXI pins of a verilated top: registers over AXI4-Lite, and a memory for its AXI4 manager, which calls its owner
// for every access. Ends the run if the manager violates AXI's rules.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "pins.hpp"
#include "verilated.h"

namespace straightway {

// The accesses of the manager. Each function returns whether the access succeeds.
struct Memory {
    std::function<bool(uint64_t address, uint32_t& word)> read;
    std::function<bool(uint64_t address, uint32_t word, unsigned strobe)> write;
};

template <class Top>
class AxiBus {
public:
    VerilatedContext context;
    std::unique_ptr<Top> top = std::make_unique<Top>(&context);
    Memory memory;
    unsigned stall_percent = 0;
    unsigned bad_response = 2;      // the response to an access that fails
    unsigned response = 0;          // the response to the last access to a register
    unsigned latency = 0;           // cycles from an address to its first word
    uint64_t now = 0, accesses = 0;
    std::function<void()> each;     // called in each cycle before the edge, to sample and drive other pins
    std::function<void()> driven;   // called in each cycle after the edge

    explicit AxiBus(uint64_t seed) : random_(seed) { reset(); }
    ~AxiBus() { top->final(); }

    // Resets the top at any time: what was under way on the pins is forgotten.
    void reset() {
        reads_.clear();
        writes_.clear();
        answers_.clear();
        ar_ = aw_ = w_ = {};
        offered_ = answer_offered_ = bad_write_ = false;
        top->awvalid = top->wvalid = top->bready = top->arvalid = top->rready = 0;
        top->m_rvalid = top->m_bvalid = top->m_wready = 0;
        top->m_arready = top->m_awready = 1;
        top->rst_ni = 0;
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }

    void cycle() {
        top->clk_i = 0;
        top->eval();
        ++now;
        sample();
        if (each) each();
        top->clk_i = 1;
        top->eval();
        drive();
        if (driven) driven();
    }

    void write(uint32_t address, uint32_t value, unsigned strobe = 15) {
        top->awaddr = address;
        top->wdata = value;
        top->wstrb = strobe;
        top->awvalid = top->wvalid = 1;
        do cycle(); while (!write_taken_);
        top->awvalid = top->wvalid = 0;
        top->bready = 1;
        do cycle(); while (!write_answered_);
        top->bready = 0;
    }
    uint32_t read(uint32_t address) {
        top->araddr = address;
        top->arvalid = 1;
        do cycle(); while (!read_taken_);
        top->arvalid = 0;
        top->rready = 1;
        do cycle(); while (!read_answered_);
        top->rready = 0;
        return read_value_;
    }
    void write64(uint32_t address, uint64_t value) {
        write(address, uint32_t(value));
        write(address + 4, uint32_t(value >> 32));
    }

private:
    struct Burst {
        uint64_t address;
        unsigned words;
        uint64_t due;
    };
    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    void require(bool good, const char* what) {
        if (good) return;
        std::printf("FAILED: AXI4: %s\n", what);
        std::exit(1);
    }
    // A manager must not change an offer (ARM IHI 0022, A3.2.1), and a burst must not cross 4 KiB (A3.4.1).
    struct Offer {
        bool held = false;
        uint64_t value = 0;
    };
    void keeps(Offer& offer, bool valid, bool ready, uint64_t value, const char* what) {
        if (offer.held) require(valid && value == offer.value, what);
        offer = {valid && !ready, value};
    }
    static bool within_page(uint64_t address, unsigned words) {
        return address >> 12 == (address + 4 * uint64_t(words) - 1) >> 12;
    }

    void sample() {
        auto& t = *top;
        write_taken_ = t.awvalid && t.awready && t.wready;
        write_answered_ = t.bvalid && t.bready;
        read_taken_ = t.arvalid && t.arready;
        read_answered_ = t.rvalid && t.rready;
        if (write_answered_) response = t.bresp;
        if (read_answered_) read_value_ = t.rdata, response = t.rresp;

        keeps(ar_, t.m_arvalid, t.m_arready, t.m_araddr << 8 | t.m_arlen, "a read address was changed");
        keeps(aw_, t.m_awvalid, t.m_awready, t.m_awaddr << 8 | t.m_awlen, "a write address was changed");
        keeps(w_, t.m_wvalid, t.m_wready, uint64_t(t.m_wdata) << 8 | t.m_wstrb << 1 | t.m_wlast, "write data were changed");
        if (t.m_arvalid && t.m_arready) {
            require(within_page(t.m_araddr, t.m_arlen + 1u) && t.m_araddr % 4 == 0, "a read burst crosses 4 KiB");
            reads_.push_back({t.m_araddr, t.m_arlen + 1u, now + latency});
        }
        if (t.m_awvalid && t.m_awready) {
            require(within_page(t.m_awaddr, t.m_awlen + 1u) && t.m_awaddr % 4 == 0, "a write burst crosses 4 KiB");
            writes_.push_back({t.m_awaddr, t.m_awlen + 1u, now});
        }
        if (t.m_rvalid && t.m_rready) {
            Burst& burst = reads_.front();
            burst.address += 4;
            offered_ = false;
            if (--burst.words == 0) reads_.pop_front();
        }
        if (t.m_wvalid && t.m_wready) {
            require(!writes_.empty(), "write data without an address");
            Burst& burst = writes_.front();
            ++accesses;
            bad_write_ |= !memory.write(burst.address, t.m_wdata, t.m_wstrb);
            burst.address += 4;
            require(bool(t.m_wlast) == (--burst.words == 0), "WLAST is wrong");
            if (t.m_wlast) {
                writes_.pop_front();
                answers_.push_back(bad_write_);
                bad_write_ = false;
            }
        }
        if (t.m_bvalid && t.m_bready) {
            answers_.pop_front();
            answer_offered_ = false;
        }
    }

    void drive() {
        auto& t = *top;
        t.m_arready = reads_.size() < 4 && !random_.percent(stall_percent);
        t.m_awready = writes_.size() < 4 && !random_.percent(stall_percent);
        t.m_wready = !writes_.empty() && !random_.percent(stall_percent);
        if (!offered_ && !reads_.empty() && now >= reads_.front().due && !random_.percent(stall_percent)) {
            uint32_t word = 0xdeadbeef;
            ++accesses;
            t.m_rresp = memory.read(reads_.front().address, word) ? 0 : bad_response;
            t.m_rdata = word;
            t.m_rlast = reads_.front().words == 1;
            offered_ = true;
        }
        t.m_rvalid = offered_;
        if (!answer_offered_) answer_offered_ = !answers_.empty() && !random_.percent(stall_percent);
        t.m_bvalid = answer_offered_;
        t.m_bresp = answer_offered_ && answers_.front() ? bad_response : 0;
    }

    Random random_;
    std::deque<Burst> reads_, writes_;
    std::deque<bool> answers_;
    Offer ar_, aw_, w_;
    bool offered_ = false, answer_offered_ = false, bad_write_ = false;
    bool write_taken_ = false, write_answered_ = false, read_taken_ = false, read_answered_ = false;
    uint32_t read_value_ = 0;
};

}  // namespace straightway
