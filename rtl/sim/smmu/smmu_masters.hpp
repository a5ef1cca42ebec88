// SPDX-License-Identifier: Apache-2.0 OR MIT
// The masters of the window, with several accesses under way, before the memory behind the port of the frames.
#pragma once

#include <array>

#include "Vsmmu_sim.h"
#include "smmu_frames.hpp"

namespace straightway::smmu {

using Bus = AxiBus<Vsmmu_sim>;

class Masters : public FramePort<Vsmmu_sim> {
public:
    bool hold_reads = false, hold_writes = false;  // take no read data; give no write data

    Masters(Bus& bus, Frames& frames, uint64_t seed) : FramePort(bus, frames, seed) {}

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
        FramePort::sample();
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
        FramePort::drive();
    }

private:
    void end(std::deque<Shared>& queue) {
        queue.front()->last = bus_.now;
        queue.front()->done = true;
        queue.pop_front();
        --open;
    }
    std::deque<Shared> ar_, aw_, w_;
    std::array<std::deque<Shared>, 16> reads_, writes_;
    unsigned w_beat_ = 0;
    bool ar_offered_ = false, aw_offered_ = false, w_offered_ = false, r_held_ = false;
};

}  // namespace straightway::smmu
