// SPDX-License-Identifier: Apache-2.0 OR MIT
// The words of a Serial ATA link as a drive sees them: primitives, scrambling, CRC. Written independently of the RTL.
#pragma once

#include <cstdint>
#include <vector>

namespace straightway::sata {

struct Word {
    uint32_t data;
    bool k = false, bad = false;
};

enum Primitive : uint32_t {
    kAlign = 0x7B4A4ABC, kSync = 0xB5B5957C, kXrdy = 0x5757B57C, kRrdy = 0x4A4A957C, kSof = 0x3737B57C,
    kEof = 0xD5D5B57C, kRip = 0x5555B57C, kRok = 0x3535B57C, kRerr = 0x5656B57C, kWtrm = 0x5858B57C,
    kHold = 0xD5D5AA7C, kHolda = 0x9595AA7C, kCont = 0x9999AA7C, kPmReqP = 0x1717B57C, kPmReqS = 0x7575957C,
    kPmNak = 0xF5F5957C,
    kData = 0
};

// The scrambler as a shift register of single bits.
class Scrambler {
public:
    uint32_t next() {
        uint32_t word = 0;
        for (int i = 0; i < 32; ++i) {
            uint32_t out = state_ >> 15 & 1;
            word |= out << i;
            state_ = (state_ << 1 ^ (out ? 0xA011 : 0)) & 0xFFFF;
        }
        return word;
    }
    void restart() { state_ = 0xFFFF; }

private:
    uint32_t state_ = 0xFFFF;
};

inline uint32_t crc_step(uint32_t crc, uint32_t data) {
    for (int i = 31; i >= 0; --i) {
        bool out = (crc >> 31 ^ data >> i) & 1;
        crc = crc << 1 ^ (out ? 0x04C11DB7 : 0);
    }
    return crc;
}

inline uint32_t crc_of(const std::vector<uint32_t>& words) {
    uint32_t crc = 0x52325032;
    for (uint32_t word : words) crc = crc_step(crc, word);
    return crc;
}

}  // namespace straightway::sata
