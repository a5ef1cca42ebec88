// SPDX-License-Identifier: Apache-2.0 OR MIT
// A line for the blocks of 66 bits of one direction, as a stream of bits with a constant delay: it can lose bits, so that the
// receiver's boundaries are wrong, lose blocks, change bits, and be dead.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "pins.hpp"

namespace straightway {

constexpr unsigned kBlockBits = 66;

struct Block {
    uint64_t data = 0;
    uint8_t sync = 0;
};

enum class Damage : unsigned { kBits, kBurst, kBlocks, kSlip, kDead };
constexpr unsigned kDamages = 5;

class Line {
public:
    explicit Line(unsigned delay_blocks) : delay_(delay_blocks) {}

    // A block in each cycle, and a bit more when the receiver has moved its boundary.
    bool take(Block& block) {
        if (written_ - read_ < kBlockBits * (delay_ + 1)) return false;
        block.sync = uint8_t(bit(read_) | bit(read_ + 1) << 1);
        block.data = 0;
        for (unsigned i = 0; i < 64; ++i) block.data |= uint64_t(bit(read_ + 2 + i)) << i;
        read_ += kBlockBits;
        return true;
    }
    void slip() { read_ += 1; }

    void give(Block block, Random& random) {
        if (lost_blocks_ != 0) {
            --lost_blocks_;
            return;
        }
        std::array<uint8_t, kBlockBits> bits;
        bits[0] = block.sync & 1;
        bits[1] = block.sync >> 1;
        for (unsigned i = 0; i < 64; ++i) bits[i + 2] = block.data >> i & 1;
        for (; flips_ != 0; --flips_) bits[random.below(kBlockBits)] ^= 1;
        for (unsigned i = 0; i < kBlockBits; ++i) {
            if (burst_bits_ != 0) {
                --burst_bits_;
                bits[i] = random.below(2);
            }
            if (dead_blocks_ != 0) bits[i] = dead_level_;
            if (lost_bits_ != 0) --lost_bits_;
            else bits_[written_++ % bits_.size()] = bits[i];
        }
        dead_blocks_ -= dead_blocks_ != 0;
    }

    // From the next block on; returns the number of blocks that it lasts. `longest` limits a dead time.
    unsigned damage(Damage what, Random& random, unsigned longest) {
        switch (what) {
            case Damage::kBits: flips_ = 1 + random.below(3); return 1;
            case Damage::kBurst: burst_bits_ = 1 + random.below(200); return 4;
            case Damage::kBlocks: return lost_blocks_ = 1 + random.below(5);
            case Damage::kSlip: lost_bits_ = 1 + random.below(kBlockBits - 1); return 1;
            case Damage::kDead:
                dead_level_ = random.below(2);
                return dead_blocks_ = 1 + random.below(longest);
        }
        return 0;
    }

private:
    uint8_t bit(uint64_t at) const { return bits_[at % bits_.size()]; }

    unsigned delay_;
    uint64_t written_ = 0, read_ = 0;
    std::vector<uint8_t> bits_ = std::vector<uint8_t>(1 << 17);
    unsigned flips_ = 0, burst_bits_ = 0, lost_blocks_ = 0, lost_bits_ = 0, dead_blocks_ = 0;
    uint8_t dead_level_ = 0;
};

}  // namespace straightway
