// SPDX-License-Identifier: Apache-2.0 OR MIT
// Accesses on AXI4, the memory that both manager ports of the core see, and what answers the port of the frames (d_).
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "axi_bus.hpp"
#include "clocked.hpp"

namespace straightway::smmu {

enum Burst : unsigned { kFixed = 0, kIncr = 1, kWrap = 2 };

struct Access {
    bool write = false;
    unsigned context = 0, id = 0, len = 0, size = 2, burst = kIncr;
    uint64_t address = 0;
    std::vector<uint32_t> words;     // a write's data; what was read
    std::vector<uint8_t> strobes;
    unsigned response = 0;
    bool done = false;
    uint64_t asked = 0, first = 0, last = 0;  // cycles: the address is taken, the first word (or the answer), the last one

    // The address of the beat's first byte (AXI, A3.4.1): only the first beat can be unaligned, and every beat of a fixed burst.
    uint64_t beat(unsigned i) const {
        uint64_t bytes = uint64_t(1) << size;
        if (burst == kFixed || i == 0) return address;
        if (burst != kWrap) return address / bytes * bytes + i * bytes;
        uint64_t whole = (len + 1) * bytes, base = address / whole * whole;
        return base + (address - base + i * bytes) % whole;
    }
    // The lanes of the port that the beat uses: to the end of its size (A3.4.3).
    unsigned lanes(unsigned i) const {
        unsigned from = beat(i) & 3, to = size < 2 ? (from | ((1u << size) - 1)) : 3;
        return (2u << to) - (1u << from);
    }
    uint32_t lane_mask(unsigned i) const {
        uint32_t mask = 0;
        for (unsigned lane = 0; lane < 4; ++lane) mask |= (lanes(i) >> lane & 1) * (0xffu << 8 * lane);
        return mask;
    }
};
using Shared = std::shared_ptr<Access>;

// Memory that both manager ports see.
struct Frames {
    uint64_t base = 0x10000, bad_from = 0, bad_to = 0;
    std::vector<uint8_t> bytes = std::vector<uint8_t>(4 << 20);
    uint32_t* word(uint64_t address) {
        if (address < base || address - base + 4 > bytes.size()) fail("an access outside of the memory: " + std::to_string(address));
        return reinterpret_cast<uint32_t*>(&bytes[(address & ~3ull) - base]);
    }
    void put(uint64_t address, uint32_t value, unsigned strobe) {
        uint8_t* to = reinterpret_cast<uint8_t*>(word(address));
        for (unsigned i = 0; i < 4; ++i)
            if (strobe >> i & 1) to[i] = uint8_t(value >> (8 * i));
    }
};

template <class Top>
class FramePort {
public:
    unsigned stall_percent = 0, latency = 0;
    uint64_t low = 0, high = ~0ull;  // the frames: nothing else is accessed through their port
    uint64_t frame_reads = 0;

    FramePort(AxiBus<Top>& bus, Frames& frames, uint64_t seed) : bus_(bus), random_(seed + 77), frames_(frames) {}

    void sample() {
        auto& t = *bus_.top;
        if (t.d_arvalid && t.d_arready) reads_.push_back(run(t.d_araddr, t.d_arlen, t.d_arsize, t.d_arburst));
        if (t.d_awvalid && t.d_awready) writes_.push_back(run(t.d_awaddr, t.d_awlen, t.d_awsize, t.d_awburst));
        if (t.d_rvalid && t.d_rready) {
            ++frame_reads;
            offered_ = false;
            if (reads_.front().beat++ == reads_.front().access.len) reads_.pop_front();
        }
        if (t.d_wvalid && t.d_wready) {
            Run& now = writes_.front();
            if (t.d_wstrb & ~now.access.lanes(now.beat)) fail("a strobe to the frames outside of its beat");
            frames_.put(now.access.beat(now.beat), t.d_wdata, t.d_wstrb);
            if (bool(t.d_wlast) != (now.beat == now.access.len)) fail("WLAST to the frames is wrong");
            if (now.beat++ == now.access.len) writes_.pop_front(), ++answers_;
        }
        if (t.d_bvalid && t.d_bready) --answers_, answer_ = false;
    }
    void drive() {
        auto& t = *bus_.top;
        t.d_arready = reads_.size() < 4 && !random_.percent(stall_percent);
        // No more than three writes whose answers were not taken.
        t.d_awready = writes_.size() + answers_ < 3 && !random_.percent(stall_percent);
        t.d_wready = !writes_.empty() && !random_.percent(stall_percent);
        if (!offered_ && !reads_.empty() && bus_.now >= reads_.front().due && !random_.percent(stall_percent)) {
            const Run& now = reads_.front();
            uint32_t mask = now.access.lane_mask(now.beat);  // the other lanes are undefined
            t.d_rdata = (*frames_.word(now.access.beat(now.beat)) & mask) | (random_.next() & ~mask);
            t.d_rlast = now.beat == now.access.len;
            offered_ = true;
        }
        t.d_rvalid = offered_;
        if (!answer_) answer_ = answers_ != 0 && !random_.percent(stall_percent);
        t.d_bvalid = answer_;
    }

protected:
    AxiBus<Top>& bus_;
    Random random_;

private:
    struct Run {
        Access access;
        unsigned beat = 0;
        uint64_t due = 0;
    };
    Run run(uint64_t address, unsigned len, unsigned size, unsigned burst) {
        if (address < low || (burst == kWrap ? address : address + (len << size)) >= high) fail("an access outside of the frames");
        if (burst == kFixed || address % (1u << size)) fail("a fixed or unaligned burst to the frames");
        if (burst == kIncr && address >> 12 != (address + (len << size)) >> 12) fail("a burst crosses 4 KiB");
        Run run;
        run.access.address = address, run.access.len = len, run.access.size = size, run.access.burst = burst;
        run.due = bus_.now + latency;
        return run;
    }

    Frames& frames_;
    std::deque<Run> reads_, writes_;
    unsigned answers_ = 0;
    bool offered_ = false, answer_ = false;
};

}  // namespace straightway::smmu
