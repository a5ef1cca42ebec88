// SPDX-License-Identifier: Apache-2.0 OR MIT
// A block device in memory that drives the device's side of one interface. It is fast: only the journal of
// unflushed writes allocates memory in a cycle.
//
// It obeys every rule that block_checker asserts. Within these rules it behaves as badly as its model
// requests: delays, a data rate, stalls, reads and responses out of order, failing blocks, and a power cut
// that loses, keeps or tears each write that no flush had covered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <vector>

#include "pins.hpp"

namespace straightway {

struct DeviceModel {
    unsigned data_bytes = 4;
    unsigned block_bytes = 64;
    uint64_t block_count = 1024;
    unsigned depth = 16;           // outstanding requests
    unsigned read_latency = 0;     // cycles from a request to its first word, or its response
    unsigned write_latency = 0;    // cycles from the last word to the response
    unsigned flush_latency = 0;
    unsigned rate_words = 1;       // each stream moves rate_words words ...
    unsigned rate_cycles = 1;      // ... in rate_cycles cycles
    unsigned stall_percent = 0;    // how often each ready or valid pauses
    bool reorder = false;          // reads and responses in any order
    bool reads_first = false;      // takes no word of a write while a word of a read or a response waits
    bool writes_first = false;     // sends no word of a read while words of a write are missing
    bool journal = false;          // record the data that `cut` needs
    unsigned hang_percent = 0;     // requests that end only when the host cancels
};

class BlockDevice {
public:
    BlockDevice(Pins pins, DeviceModel model, uint64_t seed, std::vector<uint8_t> image = {})
        : pins_(pins), model_(model), random_(seed), bytes_(std::move(image)) {
        bytes_.resize(model.block_count * model.block_bytes);
        if (model_.journal) durable_ = bytes_;
        drive();
    }

    // The device's contents, including its volatile cache. A test may change them between requests.
    std::vector<uint8_t>& bytes() { return bytes_; }

    // Requests that touch one of these blocks fail, with kDevice and this detail.
    std::set<uint64_t> bad_reads, bad_writes;
    uint16_t detail = 0x0281;
    // A failed flush drops some of the blocks that it could not write, as drives do, if there is a journal. Each fails, or the n-th one.
    bool bad_flush = false;
    uint64_t bad_flush_in = 0;
    // The host cancels (rule B13); a bench sets it before `sample`.
    bool cancel = false;
    // The medium has left: every request ends, with kGone.
    bool away = false;

    uint64_t reads = 0, writes = 0, flushes = 0, read_words = 0, write_words = 0;

    enum Cut { kLost, kKept, kTorn };

    // The image that a power cut now leaves: each block that no flush covered is lost, kept, or by
    // chance (`kTorn`): lost, kept, or half of each.
    std::vector<uint8_t> cut(Cut how, Random& random) const {
        if (!model_.journal) throw std::logic_error("a cut needs a device with a journal");
        std::vector<uint8_t> image = durable_;
        for (const Unflushed& entry : unflushed_) {
            if (how == kLost) continue;
            size_t from = 0, to = entry.bytes.size();
            if (how == kTorn) {
                uint64_t fate = random.below(3);
                if (fate == 0) continue;
                if (fate == 2) (random.below(2) ? from : to) = model_.block_bytes / 2;
            }
            std::memcpy(&image[entry.block * model_.block_bytes + from], &entry.bytes[from], to - from);
        }
        return image;
    }

    // For a search through all images that a cut may leave. Changes with each written block and each completed flush.
    uint64_t version = 0;
    // True if no request is outstanding.
    bool is_idle() const { return open_ == 0; }
    unsigned under_way() const { return open_; }
    // The writes that no flush covers, in the order in which they began: each may be lost, kept or torn by itself.
    std::vector<uint64_t> unflushed() const {
        std::vector<uint64_t> found;
        for (const Unflushed& entry : unflushed_)
            if (std::find(found.begin(), found.end(), entry.request) == found.end()) found.push_back(entry.request);
        return found;
    }
    // The image that remains when each of `unflushed()` is lost, kept, or torn into halves of blocks by `random`.
    std::vector<uint8_t> cut(const std::vector<Cut>& fates, Random& random) const {
        std::vector<uint64_t> requests = unflushed();
        std::vector<uint8_t> image = durable_;
        size_t half = model_.block_bytes / 2;
        for (const Unflushed& entry : unflushed_) {
            Cut fate = fates[std::find(requests.begin(), requests.end(), entry.request) - requests.begin()];
            for (size_t from : {size_t(0), half})
                if (fate == kKept || (fate == kTorn && random.below(2)))
                    std::memcpy(&image[entry.block * model_.block_bytes + from], &entry.bytes[from], half);
        }
        return image;
    }

    void sample() {
        ++now_;
        if (read_debt_ >= model_.rate_words) read_debt_ -= model_.rate_words; else read_debt_ = 0;
        if (write_debt_ >= model_.rate_words) write_debt_ -= model_.rate_words; else write_debt_ = 0;
        if (*pins_.rsp_valid && *pins_.rsp_ready) close(response_);
        if (*pins_.read_valid && *pins_.read_ready) take_read();
        if (*pins_.write_valid && *pins_.write_ready) take_write();
        if (*pins_.req_valid && *pins_.req_ready) open();
        if (cancel || away) end_all();
    }

    void drive() {
        drive_read();
        drive_response();
        *pins_.req_ready = open_ < model_.depth && !random_.percent(model_.stall_percent);
        bool behind = model_.reads_first && (read_count_ != 0 || reading_ != kTags || response_ != kTags);
        *pins_.write_ready = write_head_ != write_tail_ && write_debt_ < model_.rate_words + model_.rate_cycles &&
                             !behind && !random_.percent(model_.stall_percent);
    }

private:
    enum class Stage : uint8_t { kFree, kData, kAnswer };
    struct Request {
        Stage stage = Stage::kFree;
        Op op;
        bool fua, bad, aborted, gone, hangs;
        uint64_t lba, due, order, offset, end;  // offset and end in bytes
    };
    struct Unflushed {
        uint64_t block, order, request;
        std::vector<uint8_t> bytes;
    };
    static constexpr unsigned kTags = 32;
    static constexpr uint64_t kNever = 1ull << 60;

    bool touches(const std::set<uint64_t>& bad, uint64_t lba, uint64_t count) const {
        if (bad.empty()) return false;
        auto first = bad.lower_bound(lba);
        return first != bad.end() && *first < lba + count;
    }

    void open() {
        Request& request = requests_[*pins_.req_tag];
        uint64_t count = *pins_.req_count;
        request.op = static_cast<Op>(*pins_.req_op);
        request.fua = *pins_.req_fua;
        request.lba = *pins_.req_lba;
        // A flush has no range, whatever its address says.
        if (request.op != kFlush && request.lba + count > model_.block_count) throw std::logic_error("a request beyond the device");
        request.offset = request.lba * model_.block_bytes;
        request.end = request.offset + count * model_.block_bytes;
        request.order = ++order_;
        request.aborted = request.gone = false;
        request.hangs = random_.percent(model_.hang_percent);
        request.due = now_ + model_.read_latency + (request.hangs ? kNever : 0);
        request.stage = Stage::kData;
        ++open_;
        switch (request.op) {
        case kRead:
            ++reads;
            request.bad = touches(bad_reads, request.lba, count);
            read_queue_[read_count_++] = *pins_.req_tag;
            break;
        case kWrite:
            ++writes;
            request.bad = touches(bad_writes, request.lba, count);
            write_queue_[write_tail_++ % kTags] = *pins_.req_tag;
            break;
        case kWriteZeroes:
            ++writes;
            request.bad = touches(bad_writes, request.lba, count);
            if (!request.bad) write_zeroes(request, count);
            request.due = now_ + model_.write_latency + (request.hangs ? kNever : 0);
            answer(*pins_.req_tag);
            break;
        default:
            ++flushes;
            request.bad = request.op == kFlush && (bad_flush || (bad_flush_in && --bad_flush_in == 0));
            request.due = now_ + model_.flush_latency + (request.hangs ? kNever : 0);
            answer(*pins_.req_tag);
        }
    }

    void write_zeroes(const Request& request, uint64_t count) {
        std::memset(&bytes_[request.offset], 0, count * model_.block_bytes);
        for (uint64_t i = 0; model_.journal && i < count; ++i)
            unflushed_.push_back({request.lba + i, request.order, request.order, std::vector<uint8_t>(model_.block_bytes)});
        ++version;
    }

    void answer(unsigned tag) {
        requests_[tag].stage = Stage::kAnswer;
        answer_queue_[answer_count_++] = tag;
    }

    void close(unsigned tag) {
        Request& request = requests_[tag];
        if (request.op == kFlush && !request.bad) {
            if (model_.journal) flush(request.order);
        } else if (request.op == kFlush && model_.journal) {
            drop();
        } else if (request.op == kWrite && request.fua && !request.bad && model_.journal) {
            uint64_t from = request.lba * model_.block_bytes;
            std::memcpy(&durable_[from], &bytes_[from], request.end - from);
            // A cut must not restore the blocks' previous contents.
            unflushed_.erase(std::remove_if(unflushed_.begin(), unflushed_.end(), [&](const Unflushed& entry) {
                return entry.block >= request.lba && entry.block * model_.block_bytes < request.end;
            }), unflushed_.end());
        } else if ((request.op == kWrite || request.op == kWriteZeroes) && model_.journal) {
            // A flush that is submitted from now on covers this write; an earlier one does not (rule B12).
            for (Unflushed& entry : unflushed_)
                if (entry.order == request.order) entry.order = order_ | kCompleted;
        }
        request.stage = Stage::kFree;
        response_ = kTags;
        --open_;
    }

    static constexpr uint64_t kCompleted = 1ull << 63;

    // The medium's contents of one unflushed block, and of each other by chance, take the place of the cache's.
    void drop() {
        std::set<uint64_t> dropped;
        for (const Unflushed& entry : unflushed_)
            if (dropped.empty() || random_.percent(50)) dropped.insert(entry.block);
        for (uint64_t block : dropped)
            std::memcpy(&bytes_[block * model_.block_bytes], &durable_[block * model_.block_bytes], model_.block_bytes);
        unflushed_.erase(std::remove_if(unflushed_.begin(), unflushed_.end(), [&](const Unflushed& entry) { return dropped.count(entry.block); }),
                         unflushed_.end());
        ++version;
    }

    void flush(uint64_t flush_order) {
        size_t kept = 0;
        ++version;
        for (size_t i = 0; i < unflushed_.size(); ++i) {
            Unflushed& entry = unflushed_[i];
            bool covered = (entry.order & kCompleted) && (entry.order & ~kCompleted) < flush_order;
            if (covered) {
                std::memcpy(&durable_[entry.block * model_.block_bytes], entry.bytes.data(), entry.bytes.size());
            } else {
                if (kept != i) unflushed_[kept] = std::move(entry);
                ++kept;
            }
        }
        unflushed_.resize(kept);
    }

    void take_read() {
        Request& request = requests_[reading_];
        request.offset += model_.data_bytes;
        read_debt_ += model_.rate_cycles;
        ++read_words;
        read_held_ = false;
        if (request.offset == request.end) {
            request.due = now_;
            answer(reading_);
            reading_ = kTags;
        }
    }

    void take_write() {
        unsigned tag = write_queue_[write_head_ % kTags];
        Request& request = requests_[tag];
        if (!request.bad) std::memcpy(&bytes_[request.offset], pins_.write_data, model_.data_bytes);
        request.offset += model_.data_bytes;
        write_debt_ += model_.rate_cycles;
        ++write_words;
        if (model_.journal && !request.bad && request.offset % model_.block_bytes == 0) {
            uint64_t block = request.offset / model_.block_bytes - 1;
            auto from = bytes_.begin() + block * model_.block_bytes;
            unflushed_.push_back({block, request.order, request.order, {from, from + model_.block_bytes}});
            ++version;
        }
        if (request.offset == request.end) {
            ++write_head_;
            request.due = now_ + model_.write_latency + (request.hangs && !request.aborted ? kNever : 0);
            answer(tag);
        }
    }

    // All outstanding requests end soon; whether they take effect is undefined.
    void end_all() {
        for (unsigned tag = 0; tag < kTags; ++tag) {
            Request& request = requests_[tag];
            if (request.stage == Stage::kFree || tag == response_) continue;
            request.aborted = true;
            request.gone = away;
            request.due = std::min(request.due, now_);
        }
    }

    // Takes one of a queue's entries that are due: the first, or any of them if the model reorders.
    unsigned pick(unsigned* queue, unsigned& count) {
        unsigned chosen = model_.reorder && count > 1 ? random_.below(count) : 0;
        unsigned tag = queue[chosen];
        if (requests_[tag].due > now_) return kTags;
        for (unsigned i = chosen + 1; i < count; ++i) queue[i - 1] = queue[i];
        --count;
        return tag;
    }

    void drive_read() {
        if (read_held_) return;
        if (reading_ == kTags && read_count_ != 0) reading_ = pick(read_queue_, read_count_);
        bool behind = model_.writes_first && write_head_ != write_tail_;
        read_held_ = reading_ != kTags && !behind && read_debt_ < model_.rate_words + model_.rate_cycles && !random_.percent(model_.stall_percent);
        *pins_.read_valid = read_held_;
        if (!read_held_) return;
        const Request& request = requests_[reading_];
        *pins_.read_tag = reading_;
        *pins_.read_last = request.offset + model_.data_bytes == request.end;
        // A failed read transfers all its words, but with other bytes than the block's.
        if (request.bad || request.aborted) std::memset(pins_.read_data, 0xee, model_.data_bytes);
        else std::memcpy(pins_.read_data, &bytes_[request.offset], model_.data_bytes);
    }

    void drive_response() {
        if (response_ != kTags) return;
        if (answer_count_ != 0 && !random_.percent(model_.stall_percent)) response_ = pick(answer_queue_, answer_count_);
        *pins_.rsp_valid = response_ != kTags;
        if (response_ == kTags) return;
        *pins_.rsp_tag = response_;
        const Request& request = requests_[response_];
        *pins_.rsp_status = request.gone ? kGone : request.aborted ? kAborted : request.bad ? kDevice : kOk;
        *pins_.rsp_detail = request.bad && !request.aborted ? detail : 0;
    }

    Pins pins_;
    DeviceModel model_;
    Random random_;
    std::vector<uint8_t> bytes_, durable_;
    std::vector<Unflushed> unflushed_;
    Request requests_[kTags];
    unsigned read_queue_[kTags], answer_queue_[kTags], write_queue_[kTags];
    unsigned read_count_ = 0, answer_count_ = 0, write_head_ = 0, write_tail_ = 0;
    unsigned reading_ = kTags, response_ = kTags, open_ = 0;
    unsigned read_debt_ = 0, write_debt_ = 0;
    bool read_held_ = false;
    uint64_t now_ = 0, order_ = 0;
};

}  // namespace straightway
