// SPDX-License-Identifier: Apache-2.0 OR MIT
// The pins of one block interface, as pointers into a verilated model, and the two phases of a cycle.
//
// A bench's cycle: evaluate with the clock low, let every agent `sample` its inputs, evaluate with
// the clock high, let every agent `drive` its next values. An agent's pins depend only on its own
// state, so the order of the agents does not matter.
#pragma once

#include <cstdint>
#include <cstring>

namespace straightway {

enum Op : uint8_t { kRead = 0, kWrite = 1, kFlush = 2, kDiscard = 3, kWriteZeroes = 4 };
enum Status : uint8_t { kOk, kEmpty, kTooLarge, kOutOfRange, kUnsupported, kReadOnly, kDevice, kTimedOut,
                        kAborted, kGone };

struct Pins {
    // From the host.
    uint8_t *req_valid, *req_op, *req_fua, *req_tag;
    uint64_t* req_lba;
    uint32_t* req_count;
    uint8_t *write_valid, *write_tag, *write_last;
    uint8_t* write_data;  // data_bytes of it, little-endian
    uint8_t *read_ready, *rsp_ready;
    // From the device.
    uint8_t *req_ready, *write_ready, *read_valid, *read_tag, *read_last;
    uint8_t* read_data;
    uint8_t *rsp_valid, *rsp_tag, *rsp_status;
    uint16_t* rsp_detail;
};

// Pins of a verilated top, for an interface whose ports have this prefix and suffix: empty for the
// host's (`STRAIGHTWAY_PINS(*top, , )`), `disk_` and an index for an array's disk.
#define STRAIGHTWAY_PINS(top, prefix, suffix)                                                          \
    ::straightway::Pins {                                                                              \
        &(top).prefix##req_valid suffix, &(top).prefix##req_op suffix, &(top).prefix##req_fua suffix,  \
            &(top).prefix##req_tag suffix, &(top).prefix##req_lba suffix,                              \
            &(top).prefix##req_count suffix, &(top).prefix##write_valid suffix,                        \
            &(top).prefix##write_tag suffix, &(top).prefix##write_last suffix,                         \
            reinterpret_cast<uint8_t*>(&(top).prefix##write_data suffix),                              \
            &(top).prefix##read_ready suffix, &(top).prefix##rsp_ready suffix,                         \
            &(top).prefix##req_ready suffix, &(top).prefix##write_ready suffix,                        \
            &(top).prefix##read_valid suffix, &(top).prefix##read_tag suffix,                          \
            &(top).prefix##read_last suffix, reinterpret_cast<uint8_t*>(&(top).prefix##read_data suffix), \
            &(top).prefix##rsp_valid suffix, &(top).prefix##rsp_tag suffix,                            \
            &(top).prefix##rsp_status suffix, &(top).prefix##rsp_detail suffix                         \
    }

// A small random number generator (xorshift64*), with the same sequence for a seed on every machine.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
    uint64_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545f4914f6cdd1dull >> 16;
    }
    uint64_t below(uint64_t bound) { return next() % bound; }
    bool percent(unsigned chance) { return chance != 0 && below(100) < chance; }

private:
    uint64_t state_;
};

}  // namespace straightway
