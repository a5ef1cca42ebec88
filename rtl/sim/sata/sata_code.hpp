// SPDX-License-Identifier: Apache-2.0 OR MIT
// 8b/10b for the drive model, computed from the code's construction rules instead of a table.
#pragma once

#include <array>
#include <cstdint>

namespace straightway::sata {

struct Symbol {
    uint16_t bits;  // bit 0 first on the line
    bool positive;  // the disparity after it
};

// Five bits ABCDE are sent unchanged, followed by a sixth, unless the result would be too far from balance: then single bits
// are changed. All bits are inverted if the disparity requires it.
inline Symbol encode(uint8_t byte, bool k, bool positive) {
    bool a = byte & 1, b = byte & 2, c = byte & 4, d = byte & 8, e = byte & 16, i = false;
    unsigned low = byte & 31, high = byte >> 5, ones = a + b + c + d;
    if (k && low == 28) {
        a = b = false, c = d = e = i = true;
    } else if (ones == 2) {
        i = !e;
    } else if (ones == 1) {
        if (low == 24) c = true, e = false;
        else if (e) i = true;
        else e = true;
    } else if (ones == 0) {
        b = c = true;
        i = e;
    } else if (ones == 4) {
        b = d = false;
        i = e;
    }
    unsigned six = a | b << 1 | c << 2 | d << 3 | e << 4 | i << 5;
    int weight = 2 * __builtin_popcount(six) - 6;
    if (weight != 0 && (weight > 0) == positive) six ^= 63;
    if (low == 7 && positive) six ^= 63;
    bool middle = weight ? !positive : positive;
    // Three bits and a fourth that balances them, if possible. Seven has a second form, which avoids five equal bits
    // in a row.
    unsigned four = 0;
    switch (high) {
    case 0: four = 0b0010; break;  // f g h j from bit 0 on
    case 3: four = 0b0011; break;
    case 4: four = 0b0100; break;
    case 7: four = 0b0111; break;
    default: four = high | (__builtin_popcount(high) == 1 ? 8u : 0u);
    }
    if (high == 7) {
        bool five = (six >> 4 & 3) == (middle ? 0u : 3u);  // e and i equal f, g and h
        if (k || five) four = 0b1110;
    }
    weight = 2 * __builtin_popcount(four) - 4;
    if (weight != 0 && (weight > 0) == middle) four ^= 15;
    if (high == 3 && middle) four ^= 15;
    if (k && low == 28 && weight == 0 && high != 3 && !middle) four ^= 15;
    return {uint16_t(six | four << 6), weight ? !middle : middle};
}

// The meaning of each symbol at each disparity: 512 plus the byte, plus 256 for K; 0 for an invalid symbol.
struct Decoder {
    Decoder() {
        static constexpr uint8_t controls[] = {0x1C, 0x3C, 0x5C, 0x7C, 0x9C, 0xBC, 0xDC, 0xFC, 0xF7, 0xFB, 0xFD, 0xFE};
        for (unsigned positive = 0; positive < 2; ++positive) {
            for (unsigned byte = 0; byte < 256; ++byte) meaning[positive][encode(byte, false, positive).bits] = 512 | byte;
            for (uint8_t byte : controls) meaning[positive][encode(byte, true, positive).bits] = 512 | 256 | byte;
        }
    }
    std::array<std::array<uint16_t, 1024>, 2> meaning{};
};

}  // namespace straightway::sata
