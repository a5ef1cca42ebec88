// SPDX-License-Identifier: Apache-2.0 OR MIT
// Plays the host's side of one block interface: sends the requests of a source, any number of them
// concurrently, and returns each with its data and status. Obeys the host's rules (docs/rtl-interfaces.md).
#pragma once

#include <functional>
#include <vector>

#include "pins.hpp"

namespace straightway {

struct Request {
    Op op = kRead;
    bool fua = false;
    uint64_t lba = 0;
    uint32_t count = 0;
    std::vector<uint8_t> data;  // of a write: set by the source; of a read: set at its end
    Status status = kOk;
    uint16_t detail = 0;
    uint64_t sent = 0, first_word = 0, done = 0;  // cycles
};

class BlockHost {
public:
    BlockHost(Pins pins, unsigned data_bytes, unsigned block_bytes, unsigned depth, unsigned stall_percent,
              uint64_t seed)
        : pins_(pins), data_bytes_(data_bytes), block_bytes_(block_bytes), depth_(depth),
          stall_percent_(stall_percent), random_(seed) {}

    std::function<bool(Request&)> source;         // supplies the next request; false: none at present
    std::function<void(const Request&)> finished;

    bool idle() const { return open_ == 0 && !offered_; }
    unsigned under_way() const { return open_; }
    uint64_t now() const { return now_; }
    uint64_t words = 0;

    void sample() {
        ++now_;
        if (*pins_.req_valid && *pins_.req_ready) {
            requests_[tag_].sent = now_;
            if (requests_[tag_].op == kWrite && requests_[tag_].count != 0) writes_[write_tail_++ % 32] = tag_;
            offered_ = false;
        }
        if (*pins_.write_valid && *pins_.write_ready) {
            ++words;
            offset_ += data_bytes_;
            write_held_ = false;
            if (*pins_.write_last) ++write_head_, offset_ = 0;
        }
        if (*pins_.read_valid && *pins_.read_ready) {
            Request& request = requests_[*pins_.read_tag];
            if (request.data.empty()) request.first_word = now_;
            request.data.insert(request.data.end(), pins_.read_data, pins_.read_data + data_bytes_);
            ++words;
        }
        if (*pins_.rsp_valid && *pins_.rsp_ready) {
            unsigned tag = *pins_.rsp_tag;
            Request& request = requests_[tag];
            request.status = static_cast<Status>(*pins_.rsp_status);
            request.detail = *pins_.rsp_detail;
            request.done = now_;
            used_[tag] = false;
            --open_;
            finished(request);
        }
    }

    void drive() {
        if (!offered_ && open_ < depth_ && !random_.percent(stall_percent_)) {
            Request request;
            if (source(request)) {
                do tag_ = next_tag_++ % 32; while (used_[tag_]);
                used_[tag_] = true;
                ++open_;
                offered_ = true;
                *pins_.req_op = request.op;
                *pins_.req_fua = request.fua;
                *pins_.req_tag = tag_;
                *pins_.req_lba = request.lba;
                *pins_.req_count = request.count;
                requests_[tag_] = std::move(request);
            }
        }
        *pins_.req_valid = offered_;
        if (!write_held_) {
            write_held_ = write_head_ != write_tail_ && !random_.percent(stall_percent_);
            *pins_.write_valid = write_held_;
            if (write_held_) {
                unsigned tag = writes_[write_head_ % 32];
                const Request& request = requests_[tag];
                *pins_.write_tag = tag;
                *pins_.write_last = offset_ + data_bytes_ == request.data.size();
                std::memcpy(pins_.write_data, &request.data[offset_], data_bytes_);
            }
        }
        *pins_.read_ready = !random_.percent(stall_percent_);
        *pins_.rsp_ready = !random_.percent(stall_percent_);
    }

private:
    Pins pins_;
    unsigned data_bytes_, block_bytes_, depth_, stall_percent_;
    Random random_;
    Request requests_[32];
    bool used_[32] = {};
    unsigned writes_[32];
    unsigned write_head_ = 0, write_tail_ = 0, tag_ = 0, next_tag_ = 0, open_ = 0;
    size_t offset_ = 0;
    bool offered_ = false, write_held_ = false;
    uint64_t now_ = 0;
};

}  // namespace straightway
