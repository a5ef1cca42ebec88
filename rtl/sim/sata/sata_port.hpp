// SPDX-License-Identifier: Apache-2.0 OR MIT
// The link layer of a drive: complete frames in both directions, flow control, CONT, ALIGN, and the cable's delay and faults.
// One call of `step` exchanges one dword in each direction.
#pragma once

#include <deque>
#include <functional>

#include "../pins.hpp"
#include "sata_words.hpp"

namespace straightway::sata {

// The n-th event of one kind fails (n counts from 1; 0: none).
struct LinkFault {
    uint32_t out_primitive = 0;   // this primitive of the drive is damaged ...
    uint64_t out_primitive_at = 0;
    uint64_t out_data_at = 0;     // a data word of the drive has a wrong bit; only the CRC shows it
    uint64_t out_code_at = 0;     // a data word of the drive is not a valid character
    uint32_t in_primitive = 0;    // a primitive of the host is damaged
    uint64_t in_primitive_at = 0;
    uint64_t in_data_at = 0;
    uint64_t refuse_at = 0;       // the drive answers a good frame with R_ERR
    uint64_t mute_at = 0;         // the drive receives a data frame and never answers it
    uint64_t drop_at = 0;         // the link is lost during a frame of the drive
    uint64_t sync_at = 0;         // the drive aborts a frame of the host with SYNC
    bool ignore_hold = false;     // the drive ignores the host's HOLD
    uint64_t out_stuck_at = 0;    // after this data word the drive sends HOLD indefinitely ...
    uint64_t in_stuck_at = 0;     // ... or after this one of the host, until SYNC aborts the frame
    uint64_t power_gap = 0;       // while idle for this long, the drive requests a low-power state, until the host answers
};

// The same for single bits within frames (sata_cable.hpp).
struct LineFault {
    uint64_t drive_bit_at = 0, host_bit_at = 0;      // this bit is wrong
    uint64_t drive_slip_at = 0, host_slip_at = 0;    // this bit is lost: all following words are misaligned
    uint64_t drive_noise_at = 0, host_noise_at = 0;  // 400 bits of noise
    uint64_t dip_at = 0;                             // the drive's line is idle for 300 ns
    uint64_t pull_at = 0;                            // the cable is unplugged for 20 us
    uint64_t error_gap = 0;                          // average distance of wrong bits, also outside frames
    bool deaf = false;                               // COMRESET is not answered
    unsigned deaf_times = 0, asleep_times = 0;       // number of COMRESET, COMWAKE that are not answered
};

class Port {
public:
    LineFault line_fault;
    unsigned latency = 0;        // delay of the cable in words, each way
    unsigned hold_percent = 0;   // how often the drive pauses, in each direction
    LinkFault fault;
    std::function<void(const std::vector<uint32_t>&)> received;           // called for a good frame of the host
    std::function<void(bool good)> sent;                                  // called at the end of the drive's frame
    std::function<void()> damaged;                                        // called for a bad frame of the host
    std::function<void()> dropped;                                        // called when the link is lost by a fault
    std::deque<std::vector<uint32_t>> frames;                             // frames to be sent
    uint64_t cycles = 0;
    unsigned faults = 0;         // number of faults so far

    // Counts a fault that happens now.
    bool happens(bool condition) {
        faults += condition;
        return condition;
    }

    explicit Port(uint64_t seed) : random_(seed) {}

    void restart() {
        state_ = kIdle;
        stuck_ = false;
        frames.clear();
        in_.clear();
        out_.clear();
        continued_ = false;
        last_ = kSync;
        repeat_ = 0;
    }
    // Restarts the counters of events.
    void count_from_now() {
        in_primitives_ = in_data_ = out_primitives_ = out_data_ = good_frames_ = data_frames_ = frames_begun_ = 0;
    }
    // A bit of the drive's next data is wrong.
    void spoil_data() { fault.out_data_at = out_data_ + 20; }
    bool in_frame_out() const { return state_ == kSendData; }
    bool in_frame_in() const { return state_ == kRcv; }
    bool idle() const { return state_ == kIdle && frames.empty(); }

    Word step(Word from_host) {
        ++cycles;
        in_.push_back(from_host);
        if (in_.size() > latency) {
            from_host = in_.front();
            in_.pop_front();
        } else {
            from_host = {kAlign, true};
        }
        out_.push_back(spoil(react(from_host)));
        Word word = {kAlign, true};
        if (out_.size() > latency) {
            word = out_.front();
            out_.pop_front();
        }
        return word;
    }

private:
    enum State { kIdle, kPower, kSendRdy, kSendSof, kSendData, kSendCrc, kSendEof, kWait, kRcvRdy, kRcv, kGood, kBad, kLeave, kMute };

    Word react(Word word) {
        // A primitive, or data; after CONT, the previous primitive.
        bool skip = word.k && word.data == kAlign;
        uint32_t primitive = kData;
        bool is_data = false;
        if (!skip) {
            if (word.k && word.data == fault.in_primitive && happens(++in_primitives_ == fault.in_primitive_at)) word = {word.data ^ 0x0100, false, true};
            if (word.k && word.data == kCont) continued_ = true, primitive = last_;
            else if (!word.k && continued_) primitive = last_;
            else if (word.k) continued_ = false, primitive = last_ = word.data;
            else is_data = true, last_ = kData;
        }
        bool align = cycles % 256 < 2;
        State next = state_;
        switch (state_) {
        case kIdle:
            if (primitive == kXrdy) next = kRcvRdy;
            else if (!frames.empty() && !align) next = kSendRdy;
            // Idle means that SYNC was sent, at least once: without it the host's last R_OK or R_ERR never ends.
            else if (fault.power_gap && said_ == kSync && happens(++idle_ % fault.power_gap == 0)) next = kPower, slumbers_ = !slumbers_;
            break;
        case kPower:
            if (primitive == kPmNak) next = kIdle;
            else if (primitive == kXrdy) next = kRcvRdy;
            else if (!frames.empty() && !align) next = kSendRdy;
            break;
        case kSendRdy:
            if (primitive == kRrdy && !align) next = kSendSof;
            break;  // X_RDY from the host: the drive yields
        case kSendSof:
        case kSendData:
            if (primitive == kSync) next = kIdle, end(false);
            else if (!align) next = index_ < frames.front().size() || state_ == kSendSof ? kSendData : kSendCrc;
            break;
        case kSendCrc: if (!align) next = kSendEof; break;
        case kSendEof: next = kWait; break;
        case kWait:
            if (primitive == kRok) next = kIdle, end(true);
            else if (primitive == kRerr || primitive == kSync) next = kIdle, end(false);
            break;
        case kRcvRdy:
            if (primitive == kSof) next = kRcv, words_.clear(), scrambler_.restart(), bad_ = false;
            else if (!skip && primitive != kXrdy) next = kIdle;
            break;
        case kRcv:
            if (is_data) {
                if (happens(++in_data_ == fault.in_data_at)) word.data ^= 4;
                words_.push_back(word.data ^ scrambler_.next());
                bad_ |= word.bad;
                if (happens(in_data_ == fault.sync_at)) next = kLeave;
            }
            if (primitive == kEof) {
                bool good = !bad_ && words_.size() > 1;
                if (good) {
                    uint32_t crc = words_.back();
                    words_.pop_back();
                    good = crc == crc_of(words_);
                }
                if (good && happens(++good_frames_ == fault.refuse_at)) good = false;
                next = good ? kGood : kBad;
                if (good && (words_[0] & 0xFF) == 0x46 && happens(++data_frames_ == fault.mute_at)) next = kMute;
                if (good) received(words_);
                else damaged();
            } else if (primitive == kWtrm) next = kBad, damaged();
            else if (primitive == kSync) next = kIdle, damaged();
            break;
        case kMute:
            if (primitive == kSync) next = kIdle;
            break;
        case kGood: case kBad: case kLeave:
            if (primitive == kSync || primitive == kXrdy) next = kIdle;
            break;
        }
        if (!skip) hold_ = primitive == kHold;
        if (stuck_ && next == kIdle) stuck_ = false, fault.out_stuck_at = fault.in_stuck_at = 0;
        state_ = next;
        if (align) return {kAlign, true};
        switch (state_) {
        case kPower: return say(slumbers_ ? kPmReqS : kPmReqP);
        case kSendRdy: return say(kXrdy);
        case kSendSof:
            scrambler_.restart();
            index_ = 0;
            repeat_ = 0;
            if (happens(++frames_begun_ == fault.drop_at)) drop_in_ = 3;
            return {kSof, true};
        case kSendData: return data();
        case kSendCrc: repeat_ = 0; return {crc_of(frames.front()) ^ scrambler_.next()};
        case kSendEof: repeat_ = 0; return {kEof, true};
        case kWait: return say(kWtrm);
        case kRcvRdy: return say(kRrdy);
        case kMute: return say(kRip);
        case kRcv:
            if (fault.in_stuck_at && in_data_ >= fault.in_stuck_at) {
                if (!stuck_) happens(true), stuck_ = true;
                return say(kHold);
            }
            return say(random_.percent(hold_percent) ? kHold : hold_ ? kHolda : kRip);
        case kGood: return say(kRok);
        case kBad: return say(kRerr);
        default: return say(kSync);
        }
    }

    Word data() {
        if (drop_in_ && --drop_in_ == 0) {
            dropped();
            return {kAlign, true};
        }
        if (index_ == frames.front().size()) return say(kHold);  // only for an empty frame
        if (hold_ && !happens(fault.ignore_hold)) return say(kHolda);
        if (fault.out_stuck_at && out_data_ >= fault.out_stuck_at && (stuck_ || happens(true))) stuck_ = true;
        bool pause = stuck_ || random_.percent(hold_percent);
        // After CONT, a primitive must precede the next word.
        if (pause || repeat_ > 2) {
            if (!pause) repeat_ = 0, said_ = 0;
            return say(kHold);
        }
        repeat_ = 0;
        said_ = 0;
        return {frames.front()[index_++] ^ scrambler_.next()};
    }

    Word say(uint32_t primitive) {
        repeat_ = primitive == said_ ? repeat_ + 1 : 1;
        said_ = primitive;
        if (repeat_ <= 2) return {primitive, true};
        if (repeat_ == 3) return {kCont, true};
        return {static_cast<uint32_t>(random_.next())};
    }

    void end(bool good) {
        said_ = 0;
        sent(good);
    }

    Word spoil(Word word) {
        if (word.k && word.data == fault.out_primitive && happens(++out_primitives_ == fault.out_primitive_at))
            return {word.data ^ 0x00010000, false, true};
        if (!word.k && state_ == kSendData) {
            ++out_data_;
            if (happens(out_data_ == fault.out_data_at)) word.data ^= 0x20;
            if (happens(out_data_ == fault.out_code_at)) word.bad = true;
        }
        return word;
    }

    Random random_;
    std::deque<Word> in_, out_;
    State state_ = kIdle;
    Scrambler scrambler_;
    std::vector<uint32_t> words_;
    size_t index_ = 0;
    bool continued_ = false, hold_ = false, bad_ = false, stuck_ = false, slumbers_ = false;
    uint32_t last_ = kSync, said_ = 0;
    unsigned repeat_ = 0, drop_in_ = 0;
    uint64_t in_primitives_ = 0, in_data_ = 0, out_primitives_ = 0, out_data_ = 0, good_frames_ = 0,
             data_frames_ = 0, frames_begun_ = 0, idle_ = 0;
};

}  // namespace straightway::sata
