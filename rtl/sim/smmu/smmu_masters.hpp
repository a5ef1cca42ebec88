// The masters of the window, with several accesses under way, and the memory behind the port of the frames.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "Vsmmu_sim.h"
#include "axi_bus.hpp"
#include "clocked.hpp"

namespace straightway::smmu {

using Bus = AxiBus<Vsmmu_sim>;

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

    // The address of the beat's first byte.
    uint64_t beat(unsigned i) const {
        uint64_t bytes = uint64_t(1) << size;
        if (burst == kFixed) return address;
        if (burst != kWrap) return address + i * bytes;
        uint64_t whole = (len + 1) * bytes, base = address / whole * whole;
        return base + (address - base + i * bytes) % whole;
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

class Masters {
public:
    unsigned stall_percent = 0, latency = 0;
    bool hold_reads = false, hold_writes = false;  // take no read data; give no write data
    uint64_t low = 0, high = ~0ull;  // the frames: nothing else is accessed through their port
    uint64_t frame_reads = 0;

    Masters(Bus& bus, Frames& frames, uint64_t seed) : bus_(bus), frames_(frames), random_(seed + 77) {}

    Shared start(Access access) {
        auto shared = std::make_shared<Access>(std::move(access));
        (shared->write ? aw_ : ar_).push_back(shared);
        if (shared->write) w_.push_back(shared);
        ++open;
        return shared;
    }
    unsigned open = 0;

    void sample() {
        auto& t = *bus_.top;
        if (t.s_arvalid && t.s_arready) {
            ar_.front()->asked = bus_.now;
            reads_[ar_.front()->id].push_back(ar_.front());
            ar_.pop_front();
            ar_offered_ = false;
        }
        if (t.s_awvalid && t.s_awready) {
            aw_.front()->asked = bus_.now;
            writes_[aw_.front()->id].push_back(aw_.front());
            aw_.pop_front();
            aw_offered_ = false;
        }
        if (t.s_wvalid && t.s_wready) {
            w_offered_ = false;
            if (w_beat_++ == w_.front()->len) w_beat_ = 0, w_.pop_front();
        }
        if (r_held_ && !t.s_rvalid) fail("a read word was taken back");
        r_held_ = t.s_rvalid && !t.s_rready;
        if (t.s_rvalid && t.s_rready) {
            auto& queue = reads_[t.s_rid];
            if (queue.empty()) fail("read data without a read");
            Access& access = *queue.front();
            if (access.words.empty()) access.first = bus_.now;
            access.words.push_back(t.s_rdata);
            if (t.s_rresp > access.response) access.response = t.s_rresp;
            if (bool(t.s_rlast) != (access.words.size() == access.len + 1)) fail("RLAST is wrong");
            if (t.s_rlast) end(queue);
        }
        if (t.s_bvalid && t.s_bready) {
            auto& queue = writes_[t.s_bid];
            if (queue.empty()) fail("an answer without a write");
            queue.front()->first = bus_.now;
            queue.front()->response = t.s_bresp;
            end(queue);
        }
        sample_memory();
    }

    void drive() {
        auto& t = *bus_.top;
        if (!ar_offered_) ar_offered_ = !ar_.empty() && !random_.percent(stall_percent);
        t.s_arvalid = ar_offered_;
        if (ar_offered_) {
            const Access& a = *ar_.front();
            t.s_araddr = a.address, t.s_arlen = a.len, t.s_arsize = a.size, t.s_arburst = a.burst;
            t.s_arid = a.id, t.s_arcontext = a.context;
        }
        if (!aw_offered_) aw_offered_ = !aw_.empty() && !random_.percent(stall_percent);
        t.s_awvalid = aw_offered_;
        if (aw_offered_) {
            const Access& a = *aw_.front();
            t.s_awaddr = a.address, t.s_awlen = a.len, t.s_awsize = a.size, t.s_awburst = a.burst;
            t.s_awid = a.id, t.s_awcontext = a.context;
        }
        if (!w_offered_) w_offered_ = !w_.empty() && !hold_writes && !random_.percent(stall_percent);
        t.s_wvalid = w_offered_;
        if (w_offered_) {
            const Access& a = *w_.front();
            t.s_wdata = a.words[w_beat_], t.s_wstrb = a.strobes[w_beat_], t.s_wlast = w_beat_ == a.len;
        }
        t.s_rready = !hold_reads && !random_.percent(stall_percent);
        t.s_bready = !random_.percent(stall_percent);
        drive_memory();
    }

private:
    struct Run {
        Access access;
        unsigned beat = 0;
        uint64_t due = 0;
    };
    void end(std::deque<Shared>& queue) {
        queue.front()->last = bus_.now;
        queue.front()->done = true;
        queue.pop_front();
        --open;
    }
    Run run(uint64_t address, unsigned len, unsigned size, unsigned burst) {
        if (address < low || (burst == kWrap ? address : address + (len << size)) >= high) fail("an access outside of the frames");
        if (burst == kIncr && address >> 12 != (address + (len << size)) >> 12) fail("a burst crosses 4 KiB");
        Run run;
        run.access.address = address, run.access.len = len, run.access.size = size, run.access.burst = burst;
        run.due = bus_.now + latency;
        return run;
    }
    void sample_memory() {
        auto& t = *bus_.top;
        if (t.d_arvalid && t.d_arready) memory_reads_.push_back(run(t.d_araddr, t.d_arlen, t.d_arsize, t.d_arburst));
        if (t.d_awvalid && t.d_awready) memory_writes_.push_back(run(t.d_awaddr, t.d_awlen, t.d_awsize, t.d_awburst));
        if (t.d_rvalid && t.d_rready) {
            ++frame_reads;
            d_offered_ = false;
            if (memory_reads_.front().beat++ == memory_reads_.front().access.len) memory_reads_.pop_front();
        }
        if (t.d_wvalid && t.d_wready) {
            Run& now = memory_writes_.front();
            frames_.put(now.access.beat(now.beat), t.d_wdata, t.d_wstrb);
            if (bool(t.d_wlast) != (now.beat == now.access.len)) fail("WLAST to the frames is wrong");
            if (now.beat++ == now.access.len) memory_writes_.pop_front(), ++answers_;
        }
        if (t.d_bvalid && t.d_bready) --answers_, d_answer_ = false;
    }
    void drive_memory() {
        auto& t = *bus_.top;
        t.d_arready = memory_reads_.size() < 4 && !random_.percent(stall_percent);
        t.d_awready = memory_writes_.size() < 2 && !random_.percent(stall_percent);
        t.d_wready = !memory_writes_.empty() && !random_.percent(stall_percent);
        if (!d_offered_ && !memory_reads_.empty() && bus_.now >= memory_reads_.front().due && !random_.percent(stall_percent)) {
            const Run& now = memory_reads_.front();
            t.d_rdata = *frames_.word(now.access.beat(now.beat));
            t.d_rlast = now.beat == now.access.len;
            d_offered_ = true;
        }
        t.d_rvalid = d_offered_;
        if (!d_answer_) d_answer_ = answers_ != 0 && !random_.percent(stall_percent);
        t.d_bvalid = d_answer_;
    }

    Bus& bus_;
    Frames& frames_;
    Random random_;
    std::deque<Shared> ar_, aw_, w_;
    std::array<std::deque<Shared>, 16> reads_, writes_;
    unsigned w_beat_ = 0, answers_ = 0;
    bool ar_offered_ = false, aw_offered_ = false, w_offered_ = false, d_offered_ = false, d_answer_ = false, r_held_ = false;
    std::deque<Run> memory_reads_, memory_writes_;
};

}  // namespace straightway::smmu
