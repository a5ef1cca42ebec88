// SPDX-License-Identifier: Apache-2.0 OR MIT
// The cable and the drive's PHY: single bits each way, idle lines, out-of-band signals, rates, two clocks.
//
// One call of `step` is a cycle of the host. The host's receive clock follows the drive's. If their rates differ, each side
// samples the other's bits at its own rate.
#pragma once

#include <vector>

#include "sata_code.hpp"
#include "sata_drive.hpp"

namespace straightway::sata {

using Femtoseconds = uint64_t;
constexpr Femtoseconds kNanosecond = 1000000;

struct PhyModel {
    unsigned fastest = 2, slowest = 0;
    int ppm = 0;                            // of the drive's clock against the host's; spread spectrum: down to -5,700
    bool announces = true;                  // sends COMINIT at power-up and when it is plugged in
    Femtoseconds late = 0;                  // delay from COMRESET to its answer
};

class Bits {
public:
    void push(bool bit) {
        bits_[tail_++ % kSize] = bit;
        if (tail_ - head_ > kSize) ++head_;
    }
    bool pop() { return head_ == tail_ ? false : bits_[head_++ % kSize]; }
    size_t size() const { return tail_ - head_; }
    void clear() { head_ = tail_; }

private:
    static constexpr size_t kSize = 4096;
    bool bits_[kSize] = {};
    size_t head_ = 0, tail_ = 0;
};

// Aligns words to their comma and decodes them.
class Receiver {
public:
    // Returns true if this bit completes a word.
    bool take(bool bit, Word& word) {
        shift_ = shift_ >> 1 | uint64_t(bit) << 39;
        ++count_;
        unsigned first = shift_ & 1023;
        if ((first == 0x17C || first == 0x283) && (!known_ || count_ == 40)) known_ = true, count_ = 40;
        if (!known_ || count_ != 40) return false;
        count_ = 0;
        word = {0, false, false};
        for (unsigned i = 0; i < 4; ++i) {
            unsigned bits = shift_ >> 10 * i & 1023, ones = __builtin_popcount(bits), meaning = decoder_.meaning[positive_][bits];
            if (ones != 5) positive_ = ones > 5;
            if (!meaning || (i && (meaning & 256))) word.bad = true;
            word.data |= (meaning & 255) << 8 * i;
            if (i == 0) word.k = meaning & 256;
        }
        damaged_ = word.bad ? damaged_ + 1 : 0;
        if (damaged_ == 4) restart();
        if (word.bad) word.k = false;
        return true;
    }
    void restart() { known_ = false, damaged_ = 0; }

private:
    Decoder decoder_;
    uint64_t shift_ = 0;
    unsigned count_ = 0, damaged_ = 0;
    bool known_ = false, positive_ = false;
};

class Cable {
public:
    PhyModel model;
    unsigned host_rate = 2;                        // current rate of the host's transceiver
    std::function<void(uint64_t bits)> host_edge;  // a cycle of the host's receiving clock
    std::function<void(const char*)> refused;      // the host violates the specification

    Cable(Drive& drive, PhyModel model_, uint64_t seed)
        : model(model_), drive_(drive), fault_(drive.port.line_fault), random_(seed + 3), rate_(model_.fastest) {
        quiet();
        if (model.announces) answer(kNanosecond * 2000);
    }

    bool ready() const { return phase_ == kReady; }
    unsigned drive_rate() const { return rate_; }
    bool idle() const { return !plugged_ || dip_until_ > now_ || line_idle(); }
    void plug(bool in) {
        plugged_ = in;
        plugged_at_ = now_;
        if (!in) return quiet();
        if (!model.announces) return;
        drive_.step({kAlign, true}, true);  // power-up
        answer(kNanosecond * 5000);
    }

    // One cycle of the host: the bits that it sends, and its requested rate.
    void step(uint64_t bits, bool idle, unsigned wanted) {
        Femtoseconds period = word_time(host_rate);
        if (wanted != host_rate && ++settling_ == 20) host_rate = wanted, settling_ = 0, restart_host();
        heard_idle(!plugged_ || idle);
        for (unsigned i = 0; i < 40; ++i) {
            bool bit = plugged_ && !idle && (bits >> i & 1);
            if (wrong()) bit = !bit;
            bool counts = ready() && drive_.port.in_frame_in();
            host_bits_ += counts;
            if (counts && happens(host_bits_ == fault_.host_bit_at)) bit = !bit;
            if (counts && happens(host_bits_ == fault_.host_slip_at)) continue;
            if (counts && fault_.host_noise_at && host_bits_ >= fault_.host_noise_at && host_bits_ < fault_.host_noise_at + 400)
                bit = happens(true) && random_.below(2);
            // As sampled by the drive.
            if (host_rate > rate_ && i % (1u << (host_rate - rate_))) continue;
            for (unsigned n = 0; n < 1u << (rate_ > host_rate ? rate_ - host_rate : 0); ++n) hear(bit);
        }
        now_ += period;
        while (std::min(drive_next_, host_next_) <= now_) {
            if (drive_next_ <= host_next_) {
                drive_word();
                drive_next_ += drive_time(word_time(rate_));
            } else {
                host_word();
                host_next_ += drive_time(word_time(host_rate));
            }
        }
        if (unplugged_until_ && now_ >= unplugged_until_) unplugged_until_ = 0, plug(true);
    }

    void count_from_now() { host_bits_ = drive_bits_ = 0; }

private:
    enum Phase { kQuiet, kPause, kInit, kAwaitWake, kWake, kAligns, kReady };

    static Femtoseconds word_time(unsigned rate) { return Femtoseconds(6666666) << (2 - rate); }
    Femtoseconds drive_time(Femtoseconds time) const { return time - time / 1000000 * model.ppm; }
    bool happens(bool condition) { return drive_.port.happens(condition); }

    bool wrong() { return fault_.error_gap && ready() && happens(random_.below(fault_.error_gap) == 0); }

    // --- Drive: receiver --------------------------------------------------------------------------------------
    void heard_idle(bool idle) {
        if (idle != heard_idle_) {
            double ns = double(now_ - heard_since_) / kNanosecond;
            heard_idle_ = idle;
            heard_since_ = now_;
            // What the drive heard of a signal of the host's when the cable was plugged or pulled has any length.
            bool whole = now_ - plugged_at_ > 1000 * kNanosecond;
            if (idle) {
                was_burst_ = ns < 200;
                if (was_burst_ && whole && (ns < 103.5 || ns > 109.9)) refused("a burst");
            } else if (ns > 101.3 && ns < 112) {
                ++wakes_, resets_ = 0;
            } else if (ns > 304 && ns < 336) {
                ++resets_, wakes_ = 0;
            } else {
                if (was_burst_ && whole && ns < 525) refused("a gap");
                wakes_ = resets_ = 0;
            }
            return;
        }
        Femtoseconds length = now_ - heard_since_;
        if (idle && resets_ >= 4 && length > 525 * kNanosecond) {
            resets_ = 0;
            drive_.step({kAlign, true}, true);
            quiet();
            if (happens(fault_.deaf) || happens(fault_.deaf_times != 0 && fault_.deaf_times-- != 0)) return;
            answer(model.late);
        }
        if (idle && wakes_ >= 4 && length > 175 * kNanosecond) {
            wakes_ = 0;
            if (phase_ != kAwaitWake || happens(fault_.asleep_times != 0 && fault_.asleep_times-- != 0)) return;
            begin(kWake, 320 * kNanosecond / 3);
        }
        if (idle && phase_ == kReady && length > 2000 * kNanosecond) {
            drive_.step({kAlign, true}, true);
            quiet();
        }
    }
    void hear(bool bit) {
        Word word;
        if (heard_idle_) receiver_.restart();
        if (!receiver_.take(bit, word)) return;
        bool align = word.k && word.data == kAlign;
        if (align && phase_ == kAligns) phase_ = kReady, was_up_ = false, words_.clear();
        if (!align && words_.size() < 16) words_.push_back(word);
    }

    // --- Drive: transmitter -----------------------------------------------------------------------------------
    void quiet() {
        phase_ = kQuiet;
        rate_ = model.fastest;
        receiver_.restart();
    }
    void answer(Femtoseconds delay) {
        phase_ = kPause;
        until_ = now_ + delay;
    }
    // An out-of-band signal with gaps of this length.
    void begin(Phase phase, Femtoseconds gap) {
        phase_ = phase;
        began_ = now_;
        period_ = gap + 320 * kNanosecond / 3;
        until_ = now_ + 6 * period_ - gap;
    }
    bool line_idle() const {
        if (phase_ == kInit || phase_ == kWake)
            return now_ >= until_ || (now_ - began_) % period_ >= 320 * kNanosecond / 3;
        return phase_ != kAligns && phase_ != kReady;
    }
    void drive_word() {
        Word word = {kAlign, true};
        if (phase_ == kPause && now_ >= until_) begin(kInit, 320 * kNanosecond);
        if (phase_ == kInit && now_ >= until_) phase_ = kAwaitWake;
        if (phase_ == kWake && now_ >= until_) {
            phase_ = kAligns;
            until_ = now_ + 54613 * kNanosecond;
            receiver_.restart();
        }
        if (phase_ == kAligns && now_ >= until_) {
            if (rate_ == model.slowest) quiet();
            else --rate_, until_ = now_ + 54613 * kNanosecond, restart_host(), receiver_.restart();
        }
        if (phase_ == kReady) {
            Word heard = {kAlign, true};
            if (!words_.empty()) heard = words_.front(), words_.pop_front();
            word = drive_.step(heard, false);
            if (was_up_ && !drive_.up()) quiet(), answer(2000 * kNanosecond);
            was_up_ = drive_.up();
        }
        for (unsigned i = 0; i < 4; ++i) {
            Symbol symbol = encode(word.data >> 8 * i, i == 0 && word.k, positive_);
            if (word.bad && i == 1) symbol.bits = 0;  // not a valid symbol
            positive_ = symbol.positive;
            for (unsigned n = 0; n < 10; ++n) send(symbol.bits >> n & 1);
        }
    }
    void send(bool bit) {
        if (wrong()) bit = !bit;
        if (ready() && drive_.port.in_frame_out()) {
            ++drive_bits_;
            if (happens(drive_bits_ == fault_.drive_bit_at)) bit = !bit;
            if (happens(drive_bits_ == fault_.drive_slip_at)) return;
            if (fault_.drive_noise_at && drive_bits_ >= fault_.drive_noise_at && drive_bits_ < fault_.drive_noise_at + 400)
                bit = happens(true) && random_.below(2);
            if (happens(drive_bits_ == fault_.dip_at)) dip_until_ = now_ + 300 * kNanosecond;
            if (happens(drive_bits_ == fault_.pull_at)) plug(false), unplugged_until_ = now_ + 20000 * kNanosecond;
        }
        out_.push(bit);
    }
    // As sampled by the host; an idle line has noise.
    void host_word() {
        uint64_t bits = 0;
        if (out_.size() < 40u << (rate_ > host_rate ? rate_ - host_rate : 0)) restart_host();
        unsigned repeat = host_rate > rate_ ? 1u << (host_rate - rate_) : 1;
        unsigned skip = rate_ > host_rate ? 1u << (rate_ - host_rate) : 1;
        for (unsigned i = 0; i < 40; i += repeat) {
            bool bit = out_.pop();
            for (unsigned n = 1; n < skip; ++n) out_.pop();
            for (unsigned n = 0; n < repeat; ++n) bits |= uint64_t(bit) << (i + n);
        }
        if (idle()) bits = random_.next() & 0xFFFFFFFFFF;
        host_edge(bits);
    }
    // The host's receiver starts at an arbitrary bit of a word.
    void restart_host() {
        out_.clear();
        for (unsigned i = 0, n = 400 + random_.below(40); i < n; ++i) out_.push(random_.below(2));
    }

    Drive& drive_;
    LineFault& fault_;
    Random random_;
    Receiver receiver_;
    Bits out_;
    std::deque<Word> words_;
    Phase phase_ = kQuiet;
    Femtoseconds plugged_at_ = 0;
    Femtoseconds now_ = 0, drive_next_ = 0, host_next_ = 0, until_ = 0, began_ = 0, period_ = 1, heard_since_ = 0,
                 dip_until_ = 0, unplugged_until_ = 0;
    uint64_t host_bits_ = 0, drive_bits_ = 0;
    unsigned rate_, settling_ = 0, wakes_ = 0, resets_ = 0;
    bool plugged_ = true, was_burst_ = false, heard_idle_ = true, positive_ = false, was_up_ = false;
};

}  // namespace straightway::sata
