// SPDX-License-Identifier: Apache-2.0 OR MIT
// Frames between an initiator and a target: their fields, the pins on which they enter and leave, and a network that loses, repeats,
// delays, reorders and damages them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pins.hpp"

namespace straightway::aoe {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kInitiatorMac = 0x020000000001, kTargetMac = 0x020000000002, kBroadcast = 0xffffffffffff;
constexpr unsigned kSector = 512, kHeader = 36, kLeast = 60;
constexpr uint16_t kChecked = 0xc32c;
enum Command : uint8_t { kAta = 0, kConfig = 1 };
enum AtaFlag : uint8_t { kExtended = 0x40, kWriteFlag = 0x01, kAsync = 0x02, kHead = 0x10 };

inline uint64_t get(const Bytes& bytes, size_t at, unsigned count) {
    uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i) value = value << 8 | (at + i < bytes.size() ? bytes[at + i] : 0);
    return value;
}
inline void put(Bytes& bytes, size_t at, unsigned count, uint64_t value) {
    if (bytes.size() < at + count) bytes.resize(at + count);
    for (unsigned i = 0; i < count; ++i) bytes[at + i] = uint8_t(value >> 8 * (count - 1 - i));
}

// CRC-32C bit by bit, from the definition.
inline uint32_t crc32c(const uint8_t* from, size_t size) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; ++i) {
        crc ^= from[i];
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

// The fields of a frame, and the frame. `encode` gives the shortest that Ethernet has at least.
struct Frame {
    uint64_t to = kTargetMac, from = kInitiatorMac;
    uint16_t type = 0x88a2;
    uint8_t version = 1, flags = 0, error = 0;
    uint16_t shelf = 7;
    uint8_t slot = 3, command = kAta;
    uint32_t tag = 0;
    Bytes argument = Bytes(12);
    Bytes data;
    bool check = false;  // mark it, and add a CRC32C

    bool response() const { return flags & 8; }
    bool failed() const { return flags & 4; }
    uint8_t ata_flags() const { return argument[0]; }
    uint8_t ata_error() const { return argument[1]; }
    uint8_t count() const { return argument[2]; }
    uint8_t ata() const { return argument[3]; }  // command, or status
    uint64_t lba() const {
        uint64_t lba = 0;
        for (int i = 5; i >= 0; --i) lba = lba << 8 | argument[4 + i];
        return lba;
    }
    Frame& set_ata(uint8_t number, uint64_t lba, uint8_t count, uint8_t ata_flags) {
        argument = Bytes(12);
        argument[0] = ata_flags, argument[2] = count, argument[3] = number;
        for (int i = 0; i < 6; ++i) argument[4 + i] = uint8_t(lba >> 8 * i);
        return *this;
    }

    Bytes encode() const {
        Bytes bytes;
        put(bytes, 0, 6, to), put(bytes, 6, 6, from), put(bytes, 12, 2, type);
        put(bytes, 14, 1, version << 4 | flags), put(bytes, 15, 1, error), put(bytes, 16, 2, shelf), put(bytes, 18, 1, slot);
        put(bytes, 19, 1, command), put(bytes, 20, 4, tag);
        bytes.insert(bytes.end(), argument.begin(), argument.end());
        if (check) put(bytes, 34, 2, kChecked);
        bytes.insert(bytes.end(), data.begin(), data.end());
        if (check) {
            uint32_t crc = crc32c(&bytes[12], bytes.size() - 12);
            for (int i = 0; i < 4; ++i) bytes.push_back(uint8_t(crc >> 8 * i));
        }
        if (bytes.size() < kLeast) bytes.resize(kLeast);
        return bytes;
    }
};

// `data` are all bytes behind the header, with padding and checksum.
inline Frame decode(const Bytes& bytes) {
    Frame frame;
    frame.to = get(bytes, 0, 6), frame.from = get(bytes, 6, 6), frame.type = get(bytes, 12, 2);
    frame.version = get(bytes, 14, 1) >> 4, frame.flags = get(bytes, 14, 1) & 15, frame.error = get(bytes, 15, 1);
    frame.shelf = get(bytes, 16, 2), frame.slot = get(bytes, 18, 1), frame.command = get(bytes, 19, 1);
    frame.tag = get(bytes, 20, 4);
    frame.check = get(bytes, 34, 2) == kChecked && frame.command == kAta;
    if (bytes.size() >= kHeader) {
        frame.argument.assign(bytes.begin() + 24, bytes.begin() + kHeader);
        frame.data.assign(bytes.begin() + kHeader, bytes.end());
    }
    return frame;
}

// Whether the checksum behind so many bytes of data is right.
inline bool checksum_is_right(const Bytes& bytes, size_t data) {
    if (bytes.size() < kHeader + data + 4) return false;
    uint32_t crc = crc32c(&bytes[12], kHeader + data - 12), sent = 0;
    for (int i = 3; i >= 0; --i) sent = sent << 8 | bytes[kHeader + data + i];
    return crc == sent;
}

// One direction's pins: words from a core, or to it.
struct Out {
    uint8_t *valid, *ready, *last;
    uint32_t* data;
    unsigned stall = 0;  // percent
    bool closed = false;  // takes nothing
    Bytes frame{};
    std::function<void(const Bytes&)> deliver{};

    void sample() {
        if (!(*valid && *ready)) return;
        for (int i = 0; i < 4; ++i) frame.push_back(uint8_t(*data >> 8 * i));
        if (!*last) return;
        Bytes whole = std::move(frame);
        frame.clear();
        deliver(whole);
    }
    void drive(Random& random) { *ready = !closed && !random.percent(stall); }
};

struct In {
    uint8_t *valid, *last, *bad;
    uint32_t* data;
    unsigned stall = 0;
    std::deque<std::pair<Bytes, bool>> frames{};
    size_t at = 0;

    void drive(Random& random) {
        *valid = 0;
        if (frames.empty() || random.percent(stall)) return;
        const auto& [bytes, damaged] = frames.front();
        *valid = 1;
        uint32_t word = 0;
        for (int i = 0; i < 4; ++i) word |= uint32_t(at + i < bytes.size() ? bytes[at + i] : 0) << 8 * i;
        *data = word;
        at += 4;
        *last = at + 3 >= bytes.size();  // a part of a word at the end is dropped
        *bad = *last && damaged;
        if (*last) frames.pop_front(), at = 0;
    }
};

struct Faults {
    unsigned loss = 0, repeat = 0, damage = 0;  // per mille of the frames
    unsigned least = 0, most = 0;               // delay in cycles; frames overtake each other within it
    bool unnoticed = false;                     // the line does not notice all damage to ATA frames
};

// One direction. A copy that the network makes of a request follows it at once; one of an answer has a delay of its own.
class Network {
public:
    Network(In& to, bool answers, uint64_t seed) : to_(to), answers_(answers), random_(seed) {}
    Faults faults;
    bool cut = false;
    uint64_t lost = 0, repeated = 0, damaged = 0, carried = 0;

    void send(const Bytes& frame) {
        ++carried;
        if (cut || hits(faults.loss)) {
            ++lost;
            return;
        }
        Flight flight{now_ + delay(), frame, false};
        if (hits(faults.damage)) damage(flight);
        flights_.push_back(flight);
        if (!hits(faults.repeat)) return;
        ++repeated;
        if (answers_) flight.due = now_ + delay();
        flights_.push_back(flight);
    }
    void cycle() {
        ++now_;
        for (size_t i = 0; i < flights_.size();) {
            if (flights_[i].due > now_) {
                ++i;
                continue;
            }
            if (!cut) to_.frames.emplace_back(std::move(flights_[i].frame), flights_[i].bad);
            flights_.erase(flights_.begin() + i);
        }
    }
    bool empty() const { return flights_.empty() && to_.frames.empty(); }

private:
    struct Flight {
        uint64_t due;
        Bytes frame;
        bool bad;
    };
    bool hits(unsigned chance) { return random_.below(1000) < chance; }
    uint64_t delay() { return faults.least + random_.below(faults.most - faults.least + 1); }
    void damage(Flight& flight) {
        ++damaged;
        bool ata = get(flight.frame, 19, 1) == kAta;
        flight.bad = !faults.unnoticed || !ata || random_.percent(30);
        switch (random_.below(3)) {
        case 0:  // single bits, not of what says that it is an ATA command
            for (uint64_t i = 0; i <= random_.below(3); ++i) flip(flight.frame);
            break;
        case 1:  // a burst
            for (uint64_t i = random_.below(40); i > 0; --i) flip(flight.frame);
            break;
        default: flight.frame.resize(4 + random_.below(flight.frame.size() - 4));
        }
    }
    void flip(Bytes& frame) { frame[random_.below(frame.size())] ^= 1 << random_.below(8); }

    In& to_;
    bool answers_;
    Random random_;
    uint64_t now_ = 0;
    std::vector<Flight> flights_;
};

}  // namespace straightway::aoe
