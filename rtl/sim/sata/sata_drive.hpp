// SPDX-License-Identifier: Apache-2.0 OR MIT
// A Serial ATA drive on one port: command set, queue, write cache, power cuts, and faults at the n-th event.
//
// The queue's states are those of the device command layer in Serial ATA (3.5, 11.15 "FPDMA QUEUED command protocol"): each is named
// where the model takes it (DFPDMAQ1 ...). rtl/sata_states.py has the text behind each transition that belongs to an error.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>

#include "sata_port.hpp"

namespace straightway::sata {

struct DriveModel {
    uint64_t blocks = 4096;
    bool queue = true;            // native command queuing, 32 places
    bool activates = true;        // supports auto-activate in DMA Setup
    bool reorder = false;
    bool collects = false;        // one Set Device Bits for the commands that have ended, after a while
    bool big_sectors = false;     // blocks of 4 KiB
    bool is_packet = false;       // signature of a packet device
    unsigned command_latency = 0; // cycles from a command to its effect; those of queued commands overlap
    int write_latency = -1;       // the same for a write; -1: as command_latency
    // The medium: words that it moves in a thousand cycles (0: no limit), and cycles that each command takes of it besides.
    // Unlike the latencies these do not overlap. A frame waits for the one before it.
    unsigned read_rate = 0, write_rate = 0, read_cycles = 0, write_cycles = 0;
    uint64_t stall_after = 0;     // words written until the drive pauses for stall_cycles
    uint64_t stall_cycles = 0;
    unsigned start_cycles = 200;  // from COMRESET to the signature
};

struct DriveFault {
    uint8_t lose_fis = 0;         // the drive's n-th FIS of this type is not sent
    uint64_t lose_at = 0;
    uint8_t double_fis = 0;
    uint64_t double_at = 0;
    uint64_t error_at = 0;        // the n-th read or write fails (media error) ...
    uint64_t read_error_at = 0, write_error_at = 0;  // ... or the n-th of one kind
    uint64_t silent_at = 0;       // the n-th read or write is accepted but never completed
    uint64_t give_up_at = 0;      // the n-th time that the drive requests data, it fails the command instead
    uint64_t setup_tag_at = 0;    // the n-th DMA setup has a tag that is not outstanding
    uint64_t bits_tag_at = 0;     // the n-th set device bits names another tag
    uint64_t comreset_at = 0;     // the drive restarts at the n-th read or write
    bool never_ready = false;     // no signature after COMRESET
    enum When { kBefore, kHalf, kAfter } when = kBefore;  // it fails before its data, after the first frame of them, or after all
    bool no_log = false;          // the queued error log is refused
    bool silent_log = false;      // ... or never answered
    bool damaged_log = false;     // ... or sent with a wrong CRC
    bool no_log_data = false;     // ... or ends after the PIO setup
    bool log_tag = false;         // ... or names another tag
    bool no_clear = false;        // no Set Device Bits before the log
    uint64_t refuse_at = 0;       // the n-th read or write is refused: no such address ...
    uint8_t refuse_error = 0x10;  // ... with IDNF, or with ABRT
    uint8_t error = 0x40;         // the error of the command that fails: UNC
    uint64_t fault_at = 0;        // at the n-th read or write the drive has a device fault, until its power is cycled
    bool bits_while_busy = false; // an error is reported by Set Device Bits although a command is not answered yet
    uint8_t diagnosis = 0x01;     // the code in the signature: 1 is good
    uint64_t flush_error_at = 0;  // the n-th flush cannot write a block, and drops it
    uint64_t mixed_at = 0;        // instead of accepting the n-th queued command, the drive reports one that is not queued among them
    unsigned answer_delay = 0;    // cycles until the drive has answered a queued command with its register FIS
    uint8_t fail_code = 0;        // the n-th command of this code is aborted ...
    uint64_t fail_at = 0;
    uint8_t slow_code = 0;        // ... or takes this long
    uint64_t slow_cycles = 0;
    enum State { kNone, kAccepted, kData, kFailed, kLog, kFlush } comreset_in = kNone;  // the drive restarts when it is here
    bool short_read = false;      // the `error_at`-th read ends without its data and without an error
};

// Memory that reads as zeroes until it is written. Zeroes take no memory.
class Store {
public:
    explicit Store(size_t size) : size_(size), bytes_(static_cast<uint8_t*>(std::calloc(size, 1))) {
        if (!bytes_) throw std::bad_alloc();
    }
    size_t size() const { return size_; }
    uint8_t& operator[](size_t at) { return bytes_.get()[at]; }

private:
    struct Free {
        void operator()(uint8_t* bytes) const { std::free(bytes); }
    };
    size_t size_;
    std::unique_ptr<uint8_t, Free> bytes_;
};

class Drive {
public:
    static constexpr unsigned kBlock = 512, kBigBlock = 4096, kFrameWords = 2048;
    Port port;
    DriveModel model;
    const unsigned block_bytes = model.big_sectors ? kBigBlock : kBlock;
    DriveFault fault;
    Store bytes;
    uint64_t commands = 0, resets = 0, words_written = 0;
    std::function<void(const char*)> broken = [](const char* what) { throw std::logic_error(std::string("the host sent ") + what); };

    Drive(DriveModel model_, uint64_t seed)
        : port(seed), model(model_), bytes(model_.blocks * block_bytes), random_(seed + 1) {
        port.received = [this](const std::vector<uint32_t>& frame) { receive(frame); };
        port.sent = [this](bool good) { sent(good); };
        port.damaged = [this] { if (expecting_ != 0) data_refused_ = true; };
        port.dropped = [this] { down(50); };
    }

    bool up() const { return down_ == 0; }

    // Exchanges one dword in each direction. `reset`: the host requests COMRESET.
    Word step(Word from_host, bool reset) {
        ++now_;
        if (reset && up()) down(50);
        if (down_ != 0) {
            if (!reset && --down_ == 0) begin_at_ = now_ + model.start_cycles;
            return {kAlign, true};
        }
        if (begin_at_ && now_ >= begin_at_) {
            begin_at_ = 0;
            // Signature.
            if (!port.happens(fault.never_ready)) send({0x00500034u | uint32_t(fault.diagnosis) << 24, model.is_packet ? 0x00EB1401u : 0x00000001u, 0, 1, 0});
        }
        if (start_again_) {
            start_again_ = false;
            down(50);
            return {kAlign, true};
        }
        while (!answers_.empty() && now_ >= answers_.front().first) send(answers_.front().second), answers_.pop_front();
        if (ended_bits_ && !current_ && port.idle() && random_.below(300) == 0) send_bits(0x40, 0);
        if (is_paced_ && now_ >= medium_free_) {
            is_paced_ = false;
            if (current_) current_->write ? activate() : send_data();
        }
        if (now_ >= stalled_until_ && now_ >= medium_free_) serve();
        Word word = port.step(from_host);
        // The data were answered with R_ERR: the command ends with an interface CRC error.
        if (data_refused_ && current_) fail(0x84);
        data_refused_ = false;
        return word;
    }

    // Cuts and restores the power: each block in the cache is lost or kept.
    void cut() {
        for (auto& [lba, block] : cached_)
            if (!random_.below(2)) std::memcpy(&bytes[lba * block_bytes], block.data(), block_bytes);
        cached_.clear();
        broken_ = false;
        down(50);
    }
    // The number of reads and writes so far, which `fault` refers to.
    uint64_t ios() const { return ios_; }
    // The n-th write from now fails after its data.
    void fail_write_late(uint64_t n) { fault.write_error_at = writes_ + n, fault.when = DriveFault::kAfter; }
    // The next flush of something fails.
    void fail_flush() { fault.flush_error_at = flushes_ + 1; }

private:
    struct Command {
        uint8_t code;
        unsigned tag;
        uint64_t lba;
        uint32_t count;
        bool fua, queued, write;
        uint64_t due;
        bool fails, silent;
        unsigned failing;  // DriveFault::When
    };

    void down(unsigned cycles) {
        ++resets;
        down_ = cycles;
        port.restart();
        waiting_.clear();
        current_ = nullptr;
        expecting_ = 0;
        begin_at_ = 0;
        waits_for_clear_ = activates_ = is_paced_ = false;
        medium_free_ = 0;
        outstanding_ = ended_bits_ = 0;
        answers_.clear();
    }
    // The drive restarts if the fault is that it does so here.
    bool restarts(DriveFault::State state) {
        if (!port.happens(fault.comreset_in == state)) return false;
        fault.comreset_in = DriveFault::kNone;
        return start_again_ = true;
    }

    void send(std::vector<uint32_t> frame) {
        uint8_t type = frame[0] & 0xFF;
        if (type == fault.lose_fis && port.happens(++lost_ == fault.lose_at)) {
            if (type == 0x46) done_sending();
            return;
        }
        bool twice = type == fault.double_fis && port.happens(++doubled_ == fault.double_at);
        port.frames.push_back(frame);
        if (twice) port.frames.push_back(frame);
    }
    // The interrupt bit is set but for the answer to a queued command (DFPDMAQ2) and before the log (DFPDMAQ14).
    static std::vector<uint32_t> register_fis(uint8_t status, uint8_t error) {
        return {(status == 0x40 ? 0x34u : 0x4034u) | status << 16 | uint32_t(error) << 24, 0x40000000, 0, 0, 0};
    }
    void status(uint8_t status, uint8_t error) { send(register_fis(status, error)); }
    void set_bits(uint32_t bits, uint8_t status, uint8_t error) {
        send({(bits == 0xFFFFFFFF ? 0xA1u : 0x40A1u) | status << 16 | uint32_t(error) << 24, bits});
    }
    void send_bits(uint8_t status, uint8_t error) {
        outstanding_ &= ~ended_bits_;
        set_bits(ended_bits_, status, error);
        ended_bits_ = 0;
    }
    void answer(uint8_t status_, uint8_t error) {
        if (fault.answer_delay == 0) return status(status_, error);
        port.happens(true);
        answers_.push_back({now_ + fault.answer_delay, register_fis(status_, error)});
    }

    void receive(const std::vector<uint32_t>& frame) {
        uint8_t type = frame[0] & 0xFF;
        if (type == 0x46) return take_data(frame);
        if (type != 0x27 || frame.size() != 5 || !(frame[0] & 0x8000)) return;
        Command command{};
        command.code = frame[0] >> 16;
        command.lba = (frame[1] & 0xFFFFFF) | uint64_t(frame[2] & 0xFFFFFF) << 24;
        command.count = frame[3] & 0xFFFF;
        command.queued = command.code == 0x60 || command.code == 0x61;
        if (command.queued) {
            command.tag = frame[3] >> 3 & 31;
            command.count = frame[0] >> 24 | (frame[2] >> 24) << 8;
            command.fua = frame[1] >> 31;
        }
        command.write = command.code == 0x61 || command.code == 0x35 || command.code == 0x3D || command.code == 0x06;
        command.fua |= command.code == 0x3D;
        command.due = now_ + (command.write && model.write_latency >= 0 ? model.write_latency : model.command_latency);
        ++commands;
        bool io = command.queued || command.code == 0x25 || command.code == 0x35 || command.code == 0x3D;
        if (io) {
            ++ios_;
            if (port.happens(ios_ == fault.fault_at)) {
                broken_ = true;
                return command.queued ? refuse(command.tag, 0x04, 0x71) : answer(0x71, 0x04);
            }
            if (port.happens(ios_ == fault.comreset_at)) return void(start_again_ = true);
            command.fails = fault.short_read ? !command.write && ++short_reads_ == fault.error_at : ios_ == fault.error_at;
            command.fails |= command.write ? ++writes_ == fault.write_error_at : ++reads_ == fault.read_error_at;
            command.failing = fault.when;
            command.silent = ios_ == fault.silent_at;
            port.happens(command.fails || command.silent);
        }
        if (command.code == fault.slow_code && fault.slow_cycles) port.happens(true), command.due = now_ + fault.slow_cycles;
        // A device fault aborts each command, IDENTIFY DEVICE and READ LOG EXT as well (ACS-5, DEVICE FAULT bit).
        if (broken_) return answer(0x71, 0x04);
        if (!answers_.empty()) broken("a command while the drive has not answered the last one: BSY is set");
        if (waits_for_clear_) {
            // DFPDMAQ13 WaitforClear: READ LOG EXT of the queued error log leads to DFPDMAQ14, any other command to DFPDMAQ12.
            if (command.code != 0x2F || (command.lba & 0xFF) != 0x10) return answer(0x51, 0x04);
            if (restarts(DriveFault::kLog)) return;
            // DFPDMAQ14 SendQueue_CleanACK: Set Device Bits with ERR 0 and each bit of ACT one, then the log (DPIOI0).
            waits_for_clear_ = false;
            outstanding_ = 0;
            if (!port.happens(fault.no_clear)) set_bits(0xFFFFFFFF, 0x40, 0);
            command.silent = port.happens(fault.silent_log);
        } else if (!command.queued && outstanding_) {
            // DI: any other command while queued ones are outstanding leads to DFPDMAQ12, and the log has NQ (Serial ATA 2.6, 13.5.2).
            broken("a command that is not queued while queued ones are outstanding");
            return refuse(0x80, 0x04);
        } else if (command.queued) {
            // DFPDMAQ1 AddCommandToQueue: a malformed command leads to DFPDMAQ12, for an address out of range with IDNF or ABRT.
            if (outstanding_ >> command.tag & 1) broken("a tag is used twice");
            if (port.happens(ios_ == fault.mixed_at)) return refuse(0x80, 0x04);
            if (port.happens(ios_ == fault.refuse_at)) return refuse(command.tag, fault.refuse_error);
            // DFPDMAQ2 ClearInterfaceBsy; the command is not under way before.
            outstanding_ |= 1u << command.tag;
            command.due += fault.answer_delay;
            if (ios_ >= 5 && restarts(DriveFault::kAccepted)) return;
            answer(0x40, 0);
        } else if (io && port.happens(ios_ == fault.refuse_at)) {
            return status(0x51, fault.refuse_error);
        }
        if (command.code == 0x06 && frame[0] >> 24 != 0x01) return status(0x51, 0x04);  // without TRIM
        if (command.code == fault.fail_code && port.happens(++failed_codes_ == fault.fail_at)) return status(0x51, 0x04);
        // SET FEATURES, which enables DMA Setup Auto-Activate.
        if (command.code == 0xEF && frame[0] >> 24 == 0x10 && command.count == 2) activates_ = model.activates;
        waiting_.push_back(command);
    }
    // DFPDMAQ12 BrokenHost_ClearBusy: a register FIS with ERR; the commands stop until the host reads the log.
    void refuse(unsigned tag, uint8_t error, uint8_t status_ = 0x51) {
        current_ = nullptr;
        expecting_ = 0;
        port.frames.clear();
        halt(tag, status_, error);
        answer(status_, error);
    }
    void halt(unsigned tag, uint8_t status, uint8_t error) {
        failed_tag_ = tag;
        failed_status_ = status;
        failed_error_ = error;
        waits_for_clear_ = true;
        waiting_.clear();
    }

    // The medium moves these words from now on; with the first of a command it is busy with the command, too.
    void occupy(uint32_t words, bool first) {
        unsigned rate = current_->write ? model.write_rate : model.read_rate;
        if (rate == 0) return;
        medium_free_ = now_ + uint64_t(words) * 1000 / rate;
        if (first) medium_free_ += current_->write ? model.write_cycles : model.read_cycles;
    }
    bool is_first() const { return left_ == current_->count * block_bytes / 4; }
    bool waits_for_medium() {
        is_paced_ = now_ < medium_free_;
        return is_paced_;
    }

    // Begins the next due command if no other is in progress.
    void serve() {
        if (current_ || !port.idle() || waiting_.empty()) return;
        size_t chosen = model.reorder ? random_.below(waiting_.size()) : 0;
        if (waiting_[chosen].due > now_) return;
        is_paced_ = false;
        now_served_ = waiting_[chosen];
        waiting_.erase(waiting_.begin() + chosen);
        if (now_served_.silent) return;
        current_ = &now_served_;
        Command& command = *current_;
        if (command.fails && !fault.short_read && command.failing == DriveFault::kBefore) return fail(fault.error);
        data_refused_ = false;
        offset_ = command.lba * block_bytes;
        left_ = command.count * block_bytes / 4;
        switch (command.code) {
        case 0xEC: return send_pio(identity());
        case 0x2F: return send_log();
        case 0xEF: return finish();
        case 0xEA:
            if (restarts(DriveFault::kFlush)) return;
            if (!cached_.empty() && port.happens(++flushes_ == fault.flush_error_at)) {
                // The first block that cannot be written ends the command and leaves the cache; the next flush goes on.
                auto lost = cached_.begin();
                std::memcpy(&bytes[lost->first * block_bytes], lost->second.data(), block_bytes);
                cached_.erase(lost);
                return fail(0x40);
            }
            cached_.clear();
            return finish();
        case 0x06: left_ = expecting_ = 128; return send({0x00000039});
        case 0x60: case 0x61: setup(); break;
        }
        if (ios_ >= 5 && restarts(DriveFault::kData)) return;
        if (!command.write) send_data();
        else if (!(command.queued && activates_)) activate();
        else occupy(expecting_ = std::min(left_, kFrameWords), true);
    }

    void setup() {
        uint32_t tag = current_->tag;
        if (port.happens(++setups_ == fault.setup_tag_at)) tag = (tag + 7) % 32;
        uint32_t flags = current_->write ? (activates_ ? 0x8000u : 0u) : 0x2000u;
        send({0x41u | flags, tag, 0, 0, 0, left_ * 4, 0});
    }
    void activate() {
        if (waits_for_medium()) return;
        occupy(std::min(left_, kFrameWords), is_first());
        expecting_ = std::min(left_, kFrameWords);
        send({0x00000039});
    }
    void send_data() {
        if (current_->fails && fault.short_read) left_ = 0;
        if (fails_now()) return fail(fault.error);
        if (left_ == 0) return finish();
        if (waits_for_medium()) return;
        std::vector<uint32_t> frame{0x46};
        size_t words = std::min(left_, kFrameWords);
        occupy(words, is_first());
        frame.resize(1 + words);
        if (offset_ + words * 4 <= bytes.size()) std::memcpy(&frame[1], &bytes[offset_], words * 4);
        offset_ += words * 4;
        left_ -= words;
        send(frame);
    }
    void send_pio(const std::vector<uint16_t>& words) {
        std::vector<uint32_t> frame{0x46};
        for (size_t i = 0; i < 256; i += 2) frame.push_back(words[i] | uint32_t(words[i + 1]) << 16);
        left_ = 0;
        send({0x0058205F, 0, 0, 0x50000000, 512});
        send(frame);
    }
    // Whether the command under way fails after the data that were moved.
    bool fails_now() {
        const Command& command = *current_;
        if (!command.fails || fault.short_read) return false;
        uint32_t moved = command.count * block_bytes / 4 - left_;
        return command.failing == DriveFault::kHalf ? moved != 0 : command.failing == DriveFault::kAfter && left_ == 0;
    }
    void send_log() {
        if (fault.no_log) return fail(0x04);
        std::vector<uint16_t> words(256);
        // Serial ATA 2.6, 13.5.3.3.1: NQ and the tag, status, error; the sum of all bytes is 0.
        words[0] = port.happens(fault.log_tag) ? (failed_tag_ + 11) % 32 : failed_tag_;
        words[1] = failed_status_ | failed_error_ << 8;
        unsigned sum = 0;
        for (uint16_t word : words) sum += (word & 0xFF) + (word >> 8);
        words[255] = (0x100 - sum % 0x100) % 0x100 << 8;
        if (port.happens(fault.no_log_data)) return current_ = nullptr, send({0x0058205F, 0, 0, 0x50000000, 512});
        if (fault.damaged_log) port.spoil_data();
        send_pio(words);
    }

    void sent(bool good) {
        if (port.frames.empty()) return;
        std::vector<uint32_t> frame = port.frames.front();
        uint8_t type = frame[0] & 0xFF;
        if (good) {
            port.frames.pop_front();
            bool asks = type == 0x39 || (type == 0x41 && (frame[0] & 0x8000));
            if (asks && current_ && port.happens(++asked_ == fault.give_up_at)) return fail(0x40);
            if (type == 0x46 && !(port.frames.size() && port.frames.front() == frame)) done_sending();
        } else if (type == 0x46) {
            port.frames.clear();
            if (current_) fail(0x84);  // interface CRC error
        }  // other frames are sent again
    }
    void done_sending() {
        if (!current_) return;
        if (current_->code == 0xEC || current_->code == 0x2F) current_ = nullptr;  // PIO: the command ends with its data
        else send_data();
    }

    void take_data(const std::vector<uint32_t>& frame) {
        if (expecting_ == 0 || !current_) return;
        Command& command = *current_;
        if (frame.size() - 1 != expecting_) return fail(0x04);
        expecting_ = 0;
        if (command.code == 0x06) {
            for (size_t i = 1; i + 1 < frame.size(); i += 2) {
                uint64_t lba = frame[i] | uint64_t(frame[i + 1] & 0xFFFF) << 32;
                for (uint32_t n = frame[i + 1] >> 16; n != 0 && lba < model.blocks; --n, ++lba) {
                    std::memset(&bytes[lba * block_bytes], 0, block_bytes);
                    cached_.erase(lba);
                }
            }
            return finish();
        }
        size_t count = (frame.size() - 1) * 4;
        left_ -= count / 4;
        if (fails_now()) return fail(fault.error);
        if (offset_ + count <= bytes.size()) {
            for (uint64_t at = offset_; at < offset_ + count; at += block_bytes) {
                if (command.fua) cached_.erase(at / block_bytes);
                else if (!cached_.count(at / block_bytes)) cached_[at / block_bytes] = {&bytes[at], &bytes[at] + block_bytes};
            }
            std::memcpy(&bytes[offset_], &frame[1], count);
        }
        offset_ += count;
        words_written += count / 4;
        if (model.stall_after && words_written >= model.stall_after) {
            words_written = 0;
            stalled_until_ = now_ + model.stall_cycles;
        }
        if (left_) activate();
        else finish();
    }

    void finish() {
        Command command = *current_;
        current_ = nullptr;
        if (!command.queued) return status(0x50, 0);
        unsigned tag = command.tag;
        if (port.happens(++bits_ == fault.bits_tag_at)) tag = (tag + 5) % 32;
        // DFPDMAQ10 SendStatus.
        ended_bits_ |= 1u << tag;
        if (!model.collects) send_bits(0x40, 0);
    }
    void fail(uint8_t error) {
        Command command = *current_;
        current_ = nullptr;
        expecting_ = 0;
        data_refused_ = false;
        if (!command.queued) return status(0x51, error);
        if (!answers_.empty() && !fault.bits_while_busy) {
            // BSY is set for a command that is not answered: its register FIS reports the error (Serial ATA 2.6, 13.5.4.1).
            port.happens(true);
            halt(command.tag, 0x51, error);
            answers_.clear();
            return status(0x51, error);
        }
        // DFPDMAQ11 ERROR: Set Device Bits with ERR; of ACT only the bits of those that had ended and were not reported.
        halt(command.tag, 0x41, error);
        if (!restarts(DriveFault::kFailed)) send_bits(0x41, error);
    }

    std::vector<uint16_t> identity() const {
        std::vector<uint16_t> words(256);
        words[75] = 31;
        words[76] = model.queue ? 1 << 8 | 6 : 6;
        words[78] = model.activates ? 1 << 2 : 0;
        words[83] = 0x7400;
        words[84] = 0x4020;  // general purpose logging, which a queue needs
        words[85] = 1 << 5;
        words[87] = 0x4040;
        for (int i = 0; i < 4; ++i) words[100 + i] = model.blocks >> 16 * i;
        if (model.big_sectors) words[106] = 0x5000, words[117] = kBigBlock / 2;
        words[169] = 1;
        return words;
    }

    std::map<uint64_t, std::vector<uint8_t>> cached_;  // previous contents of unflushed blocks, which a cut may restore
    Random random_;
    std::vector<Command> waiting_;
    Command now_served_{};
    Command* current_ = nullptr;
    uint64_t now_ = 0, begin_at_ = 0, offset_ = 0, stalled_until_ = 0;
    uint64_t lost_ = 0, doubled_ = 0, ios_ = 0, setups_ = 0, bits_ = 0, short_reads_ = 0, asked_ = 0, failed_codes_ = 0, reads_ = 0, writes_ = 0, flushes_ = 0;
    unsigned down_ = 100, left_ = 0, expecting_ = 0, failed_tag_ = 0, failed_status_ = 0, failed_error_ = 0;
    uint32_t outstanding_ = 0, ended_bits_ = 0;  // queued commands, by tag; those that have ended and were not reported
    std::deque<std::pair<uint64_t, std::vector<uint32_t>>> answers_;  // register FIS that are due later
    uint64_t medium_free_ = 0;  // until then the medium moves earlier data
    bool is_paced_ = false;     // the command under way waits for it
    bool start_again_ = false, waits_for_clear_ = false, data_refused_ = false, broken_ = false, activates_ = false;
};

}  // namespace straightway::sata
