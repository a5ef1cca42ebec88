// SPDX-License-Identifier: Apache-2.0 OR MIT
// A driver of the virtio-blk device: one split ring in a memory that knows which bytes the device may touch.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "virtio_bus.hpp"

namespace straightway::virtio {

enum : uint32_t { kTypeIn = 0, kTypeOut = 1, kTypeFlush = 4, kTypeGetId = 8, kTypeDiscard = 11, kTypeWriteZeroes = 13 };
enum : uint16_t { kNext = 1, kWritable = 2, kTable = 4 };

[[noreturn]] inline void fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    std::exit(1);
}

// The guest's memory. The device may access only granted ranges; any other access ends the run.
class GuestMemory {
public:
    static constexpr uint64_t kBase = 0x1'0000'0000, kSize = 1 << 20;
    std::vector<uint8_t> bytes = std::vector<uint8_t>(kSize);
    uint64_t fault_from = 0, fault_to = 0;  // accesses here fail
    bool frozen = false;                    // any access of the device is an error

    struct Grant {
        uint64_t from, to;
        bool write;
    };
    std::multimap<unsigned, Grant> grants;  // by owner
    void grant(unsigned owner, uint64_t from, uint64_t length, bool write) {
        if (length) grants.insert({owner, {from, from + length, write}});
    }

    uint8_t* at(uint64_t address) { return &bytes[address - kBase]; }
    template <typename T> T load(uint64_t address) {
        T value;
        std::memcpy(&value, at(address), sizeof value);
        return value;
    }
    template <typename T> void store(uint64_t address, T value) { std::memcpy(at(address), &value, sizeof value); }

    Memory port() {
        return {[this](uint64_t address, uint32_t& word) {
                    // The device reads whole words, even if it needs only some of their bytes.
                    if (!covered(address, 1, false) && !covered(address + 1, 1, false) && !covered(address + 2, 1, false) &&
                        !covered(address + 3, 1, false))
                        refuse("read", address);
                    if (!holds(address)) return false;
                    std::memcpy(&word, at(address), 4);
                    return true;
                },
                [this](uint64_t address, uint32_t word, unsigned strobe) {
                    for (unsigned i = 0; i < 4; ++i)
                        if (strobe >> i & 1 && !covered(address + i, 1, true)) refuse("write", address + i);
                    if (!holds(address)) return false;
                    for (unsigned i = 0; i < 4; ++i)
                        if (strobe >> i & 1) *at(address + i) = uint8_t(word >> 8 * i);
                    return true;
                }};
    }

private:
    bool holds(uint64_t address) const {
        return address >= kBase && address + 4 <= kBase + kSize && !(address >= fault_from && address < fault_to);
    }
    bool covered(uint64_t address, uint64_t length, bool write) const {
        if (frozen) return false;
        for (const auto& [owner, grant] : grants)
            if (grant.write == write && address >= grant.from && address + length <= grant.to) return true;
        return false;
    }
    [[noreturn]] void refuse(const char* what, uint64_t address) {
        char text[80];
        std::snprintf(text, sizeof text, "the device's %s of %012llx is outside the granted memory%s", what,
                      (unsigned long long)address, frozen ? " (it was reset)" : "");
        fail(text);
    }
};

struct Segment {
    uint64_t address;
    uint32_t length;
    bool writable;
};

// One queue of the device, from set-up to used entries.
class Queue {
public:
    static constexpr unsigned kRings = 1u << 31;  // the owner of the rings' grants
    uint64_t desc, driver, device;
    unsigned index, size;
    uint16_t available = 0, seen = 0;
    bool event_index;

    Queue(Bus& bus, GuestMemory& memory, unsigned index_, unsigned size_, uint64_t base, bool event_index_, unsigned odd = 0)
        : index(index_), size(size_), event_index(event_index_), bus_(bus), memory_(memory), busy_(size_) {
        desc = base;
        driver = desc + 16 * size + 2 * odd;  // the available ring needs an alignment of only 2
        device = (driver + 6 + 2 * size + 3) / 4 * 4;
        end = device + 6 + 8 * size;
        std::memset(memory.at(base), 0, end - base);
        memory.grants.erase(kRings + index);
        memory.grant(kRings + index, desc, 16 * size, false);
        memory.grant(kRings + index, driver, 6 + 2 * size, false);
        memory.grant(kRings + index, device, 6 + 8 * size, true);
    }
    uint64_t end;

    void set_up() {
        bus_.write(kQueueSel, index);
        bus_.write(kQueueNum, size);
        bus_.write64(kQueueDesc, desc);
        bus_.write64(kQueueDriver, driver);
        bus_.write64(kQueueDevice, device);
        bus_.write(kQueueReady, 1);
    }
    void put_descriptor(uint64_t table, unsigned at, const Segment& segment, uint16_t flags, uint16_t next) {
        memory_.store<uint64_t>(table + 16 * at, segment.address);
        memory_.store<uint32_t>(table + 16 * at + 8, segment.length);
        memory_.store<uint16_t>(table + 16 * at + 12, flags);
        memory_.store<uint16_t>(table + 16 * at + 14, next);
    }
    // Makes a chain available: its first `direct` segments in the ring, the rest in a table at `table` (or all in the ring).
    unsigned add(const std::vector<Segment>& segments, size_t direct, uint64_t table) {
        std::vector<unsigned> slots;
        size_t in_ring = direct < segments.size() ? direct + 1 : segments.size();
        for (unsigned i = 0; i < size && slots.size() < in_ring; ++i)
            if (!busy_[i]) slots.push_back(i);
        if (slots.size() < in_ring) fail("the driver's ring is full");
        unsigned head = slots[0];
        for (size_t i = 0; i < in_ring; ++i) {
            busy_[slots[i]] = true;
            uint16_t next = i + 1 < in_ring ? slots[i + 1] : 0xffff;
            if (i == direct && direct < segments.size()) {
                uint32_t length = 16 * uint32_t(segments.size() - direct);
                put_descriptor(desc, slots[i], {table, length, false}, kTable, 0xffff);
                memory_.grant(owner(head), table, length, false);
            } else {
                uint16_t flags = (segments[i].writable ? kWritable : 0) | (i + 1 < in_ring ? kNext : 0);
                put_descriptor(desc, slots[i], segments[i], flags, next);
            }
        }
        for (size_t i = direct; i < segments.size(); ++i) {
            bool last = i + 1 == segments.size();
            uint16_t flags = (segments[i].writable ? kWritable : 0) | (last ? 0 : kNext);
            put_descriptor(table, i - direct, segments[i], flags, last ? 0xffff : i + 1 - direct);
        }
        for (const Segment& segment : segments) memory_.grant(owner(head), segment.address, segment.length, segment.writable);
        chains_[head] = slots;
        publish(head);
        return head;
    }
    void publish(uint16_t head) {
        memory_.store<uint16_t>(driver + 4 + 2 * (available % size), head);
        memory_.store<uint16_t>(driver + 2, ++available);
    }
    bool wants_kick() {
        uint16_t event = memory_.load<uint16_t>(device + 4 + 8 * size), before = told_;
        told_ = available;
        if (event_index) return uint16_t(available - event - 1) < uint16_t(available - before);
        return !(memory_.load<uint16_t>(device) & 1);
    }
    void kick() {
        ++kicks;
        bus_.write(kQueueNotify, index);
    }
    // With the event index: interrupt when entry `at` is used.
    void want_interrupt(uint16_t at) { memory_.store<uint16_t>(driver + 4 + 2 * size, at); }
    bool take(unsigned& head, uint32_t& length) {
        if (memory_.load<uint16_t>(device + 2) == seen) return false;
        head = memory_.load<uint32_t>(device + 4 + 8 * (seen % size));
        length = memory_.load<uint32_t>(device + 8 + 8 * (seen % size));
        ++seen;
        auto chain = chains_.find(head);
        if (chain == chains_.end()) fail("a chain was returned that was not available: " + std::to_string(head));
        for (unsigned slot : chain->second) busy_[slot] = false;
        chains_.erase(chain);
        memory_.grants.erase(owner(head));
        return true;
    }
    size_t room() const { return std::count(busy_.begin(), busy_.end(), false); }
    size_t outstanding() const { return chains_.size(); }
    unsigned kicks = 0;

private:
    unsigned owner(unsigned head) const { return index << 16 | head; }
    Bus& bus_;
    GuestMemory& memory_;
    std::vector<bool> busy_;
    uint16_t told_ = 0;
    std::map<unsigned, std::vector<unsigned>> chains_;
};

// The initialisation sequence (section 3.1.1) up to FEATURES_OK; then queues, then `bus.write(kStatus, ... kDriverOk)`.
// A reset is complete when the write is answered.
inline void reset(Bus& bus) {
    bus.write(kStatus, 0);
    if (bus.read(kStatus) != 0) fail("the reset is not complete when it is answered");
}
inline void negotiate(Bus& bus, uint64_t features) {
    bus.write(kStatus, kAcknowledge);
    bus.write(kStatus, kAcknowledge | kDriver);
    bus.write(kDriverFeaturesSel, 0);
    bus.write(kDriverFeatures, uint32_t(features));
    bus.write(kDriverFeaturesSel, 1);
    bus.write(kDriverFeatures, uint32_t(features >> 32));
    bus.write(kStatus, kAcknowledge | kDriver | kFeaturesOk);
}
inline void driver_ok(Bus& bus) { bus.write(kStatus, kAcknowledge | kDriver | kFeaturesOk | kDriverOk); }

}  // namespace straightway::virtio
