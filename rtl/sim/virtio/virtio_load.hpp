// SPDX-License-Identifier: Apache-2.0 OR MIT
// Random requests on all queues, and rings with random contents.
#pragma once

#include <algorithm>

#include "virtio_ready.hpp"

namespace straightway::virtio {

// --- Random requests on all queues -----------------------------------------------------------------

struct Flight {
    uint32_t type;
    uint64_t sector;
    std::vector<Segment> data;
    std::vector<uint8_t> expected;  // of a read
    uint64_t arena, status;
    unsigned good;                  // the status that it must have
    bool claimed = false;           // no other request may touch its sectors until it ends
    unsigned number = 0;            // in the order in which requests were made available
};

class Load {
public:
    Load(uint64_t seed, unsigned requests)
        : random_(seed), bus_(seed), disk_(bus_, model(random_), seed), image_(kCapacity * 512), left_(requests) {
        // Bad blocks, unless requests are split: these may have changed some blocks before they fail.
        for (unsigned i = 0; EXTERNAL && !MAX_TRANSFER && i < DISK_BLOCKS / 64; ++i) {
            bad_reads_.insert(random_.below(DISK_BLOCKS));
            bad_writes_.insert(random_.below(DISK_BLOCKS));
        }
        if (EXTERNAL) disk_.device->bad_reads = bad_reads_, disk_.device->bad_writes = bad_writes_;
        bus_.memory = memory_.port();
        features_ = kAll | (random_.percent(50) && QUEUES > 1 ? 1ull << kMq : 0);
        if (random_.percent(30)) features_ &= ~(1ull << kEventIndex);
        bus_.stall_percent = random_.percent(60) ? random_.below(60) : 0;
        bus_.latency = random_.percent(50) ? random_.below(40) : 0;
        reset(bus_);
        negotiate(bus_, features_);
        uint64_t base = kBase;
        for (unsigned i = 0; i < QUEUES; ++i) {
            unsigned size = 4u << random_.below(6);
            queues_.emplace_back(bus_, memory_, i, size, base, features_ >> kEventIndex & 1, random_.below(4));
            queues_.back().set_up();
            base = (queues_.back().end + 15) / 16 * 16;
        }
        driver_ok(bus_);
        flights_.resize(QUEUES);
        for (unsigned i = 0; i < kArenas; ++i) arenas_.push_back(kBuffers + i * kArena);
    }

    int run() {
        while (left_ || under_way_) {
            unsigned index = random_.below(QUEUES);
            Queue& queue = queues_[index];
            bool added = false;
            while (left_ && !arenas_.empty() && queue.room() > 10 && random_.percent(85)) add(index), added = true;
            if (left_ && !added && queue.outstanding() == 0 && !arenas_.empty()) add(index), added = true;
            if (added && queue.wants_kick()) queue.kick();
            if (features_ >> kEventIndex & 1) queue.want_interrupt(queue.seen + random_.below(3));
            uint64_t until = bus_.now + random_.below(random_.percent(50) ? 300 : 6000);
            while (bus_.now < until && !bus_.top->irq) bus_.cycle();
            if (bus_.top->irq) {
                ++interrupts_;
                CHECK(bus_.read(kInterruptStatus) == 1);
                bus_.write(kInterruptAck, 1);
            }
            for (unsigned i = 0; i < QUEUES; ++i) take(i);
            // 8 KiB, one byte at a time and with pauses, take about 600,000 cycles.
            if (under_way_ && bus_.now > progress_ + 2000000) fail("requests were not answered");
        }
        CHECK(!(bus_.read(kStatus) & kNeedsReset));
        unsigned kicks = 0;
        for (Queue& queue : queues_) kicks += queue.kicks;
        if (disk_.most > REQUESTS) fail(std::to_string(disk_.most) + " requests were under way at once");
        std::printf("%llu cycles, %u kicks, %u interrupts, %u at once, %u overtook, %u failed\n", (unsigned long long)bus_.now,
                    kicks, interrupts_, disk_.most, overtook_, failed_);
        return 0;
    }

private:
    // The backing device's properties, if the bench plays it: slow, fast, half duplex, in order or not.
    static DeviceModel model(Random& random) {
        DeviceModel model;
        model.depth = random.percent(80) ? 32 : 1 + random.below(3);
        model.reorder = random.percent(80);
        model.read_latency = random.below(random.percent(50) ? 3000 : 20);
        model.write_latency = random.below(random.percent(50) ? 3000 : 20);
        model.flush_latency = random.below(3000);
        model.stall_percent = random.percent(50) ? random.below(50) : 0;
        unsigned which = random.below(3);
        model.reads_first = which == 1;
        model.writes_first = which == 2;
        return model;
    }
    static bool touches(const std::set<uint64_t>& bad, uint64_t sector, uint64_t bytes) {
        auto first = bad.lower_bound((sector << 9) >> BLOCK_SIZE_LOG2);
        return first != bad.end() && *first < ((sector << 9) + bytes) >> BLOCK_SIZE_LOG2;
    }

    static constexpr unsigned kArenas = 12, kArena = 0xc000;

    // Splits bytes into segments: mostly at multiples of 512, sometimes at any byte, sometimes empty.
    std::vector<Segment> cut(uint64_t address, uint32_t length, bool writable, unsigned most) {
        std::vector<Segment> segments;
        bool odd = random_.percent(25);
        if (odd) address += random_.below(8);
        while (length) {
            uint32_t part = most <= 1 ? length : odd ? random_.below(length + 1) : std::min<uint32_t>(length, 512 * (1 + random_.below(8)));
            segments.push_back({address, part, writable});
            address += part + (odd ? random_.below(4) : 0);
            length -= part;
            if (most) --most;
        }
        return segments;
    }

    void add(unsigned index) {
        Queue& queue = queues_[index];
        Flight flight;
        flight.arena = arenas_.back();
        arenas_.pop_back();
        flight.status = flight.arena + random_.below(8);
        flight.good = 0;
        unsigned kind = random_.below(100);
        flight.type = kind < 45 ? kTypeIn : kind < 85 ? kTypeOut : kind < 90 ? kTypeFlush : kind < 93 ? kTypeGetId : kTypeWriteZeroes;
        uint32_t blocks = 1 + random_.below(random_.percent(20) ? 24 : 6), length = blocks * kUnit;
        if (length > 0x2000) length = kUnit, blocks = 1;
        flight.sector = random_.below(kCapacity / kSectors - blocks) * kSectors;
        if (busy(flight.sector, blocks * kSectors)) flight.type = kTypeFlush;
        bool bad = flight.type == kTypeIn ? touches(bad_reads_, flight.sector, length)
                                          : (flight.type == kTypeOut || flight.type == kTypeWriteZeroes) &&
                                                touches(bad_writes_, flight.sector, length);
        uint64_t header = flight.arena + 16 + random_.below(16), data = flight.arena + 0x100;
        bool whole = flight.type == kTypeIn || flight.type == kTypeOut;
        if (bad) flight.good = 1, ++failed_;
        else if (flight.type == kTypeOut && random_.percent(5)) flight.sector = kCapacity, flight.good = 1;
        std::vector<Segment> segments = cut(header, 16, false, random_.percent(80) ? 1 : 2);
        uint8_t words[16];
        uint32_t unused = uint32_t(random_.next());
        std::memcpy(words, &flight.type, 4), std::memcpy(words + 4, &unused, 4), std::memcpy(words + 8, &flight.sector, 8);
        uint8_t* from = words;
        for (const Segment& segment : segments) {
            std::memcpy(memory_.at(segment.address), from, segment.length);
            from += segment.length;
        }
        if (whole) {
            flight.data = cut(data, length, flight.type == kTypeIn, 1 + random_.below(7));
            if (flight.type == kTypeIn && !bad) flight.expected.assign(&image_[flight.sector * 512], &image_[flight.sector * 512 + length]);
            uint64_t at = flight.sector * 512;
            flight.claimed = bad || !flight.good;
            for (const Segment& segment : flight.data)
                for (uint32_t i = 0; i < segment.length; ++i, ++at) {
                    *memory_.at(segment.address + i) = uint8_t(random_.next());
                    if (flight.type == kTypeOut && !flight.good) image_[at] = *memory_.at(segment.address + i);
                }
            if (flight.claimed) claim(flight.sector, blocks * kSectors);
        } else if (flight.type == kTypeGetId) {
            flight.data = cut(data, 20, true, 2);
            for (char letter : std::string("straightway-virtio-0")) flight.expected.push_back(letter);
        } else if (flight.type == kTypeWriteZeroes) {
            memory_.store<uint64_t>(data, flight.sector);
            memory_.store<uint32_t>(data + 8, blocks * kSectors);
            memory_.store<uint32_t>(data + 12, 0);
            flight.data = {{data, 16, false}};
            claim(flight.sector, blocks * kSectors);
            flight.claimed = true;
            if (!bad) std::fill_n(image_.begin() + flight.sector * 512, blocks * kUnit, 0);
        }
        segments.insert(segments.end(), flight.data.begin(), flight.data.end());
        segments.push_back({flight.status, 1, true});
        *memory_.at(flight.status) = 0xff;
        size_t room = queue.room();
        bool indirect = random_.percent(50) || segments.size() > room;
        size_t direct = indirect ? random_.below(std::min(segments.size(), room)) : segments.size();
        flight.number = ++number_;
        flights_[index][queue.add(segments, direct, flight.arena + 0x8000 + 4 * random_.below(4))] = flight;
        --left_;
        if (under_way_++ == 0) progress_ = bus_.now;
    }
    void take(unsigned index) {
        unsigned head;
        uint32_t length;
        while (queues_[index].take(head, length)) {
            Flight flight = flights_[index][head];
            if (*memory_.at(flight.status) != flight.good)
                fail("type " + std::to_string(flight.type) + " ended with " + std::to_string(*memory_.at(flight.status)));
            CHECK(length == (flight.good && flight.type == kTypeIn ? 0 : flight.expected.size() + 1));
            overtook_ += flight.number < newest_;
            newest_ = std::max(newest_, flight.number);
            size_t at = 0;
            if (!flight.expected.empty())
                for (const Segment& segment : flight.data)
                    for (uint32_t i = 0; i < segment.length; ++i)
                        if (*memory_.at(segment.address + i) != flight.expected[at++]) fail("wrong data at byte " + std::to_string(at - 1));
            if (flight.claimed) release(flight.sector);
            arenas_.push_back(flight.arena);
            --under_way_;
            progress_ = bus_.now;
        }
    }
    // Concurrent requests on different queues have no order, so they must not overlap.
    bool busy(uint64_t sector, uint64_t count) const {
        for (auto [from, length] : claims_)
            if (sector < from + length && from < sector + count) return true;
        return false;
    }
    void claim(uint64_t sector, uint64_t count) { claims_[sector] = count; }
    void release(uint64_t sector) { claims_.erase(sector); }

    Random random_;
    Bus bus_;
    Disk disk_;
    GuestMemory memory_;
    std::set<uint64_t> bad_reads_, bad_writes_;
    std::vector<Queue> queues_;
    std::vector<std::map<unsigned, Flight>> flights_;
    std::vector<uint64_t> arenas_;
    std::vector<uint8_t> image_;
    std::map<uint64_t, uint64_t> claims_;
    uint64_t features_, progress_ = 0;
    unsigned left_, under_way_ = 0, interrupts_ = 0, number_ = 0, newest_ = 0, overtook_ = 0, failed_ = 0;
};

// --- Random rings -----------------------------------------------------------------------------------

class Nonsense {
public:
    explicit Nonsense(uint64_t seed) : random_(seed), ready_(kAll, seed) {}

    int run(unsigned rounds) {
        unsigned broken = 0, returned = 0;
        // A long run has rings of both kinds: further rounds where chance gave it too few.
        unsigned floor = rounds >= 100 ? rounds / 4 : 0, round = 0;
        for (; round < rounds || (std::min(broken, returned) < floor && round < 10 * rounds); ++round) {
            ready_.bus.stall_percent = random_.percent(30) ? random_.below(40) : 0;
            ready_.begin(random_.percent(80) ? kAll : kAll & ~(1ull << kIndirect), 4u << random_.below(4), random_.below(3));
            fill();
            ready_.queue->kick();
            ready_.until_idle();
            bool needs_reset = ready_.bus.read(kStatus) & kNeedsReset;
            uint16_t used = ready_.memory.load<uint16_t>(ready_.queue->device + 2);
            uint16_t available = ready_.memory.load<uint16_t>(ready_.queue->driver + 2);
            if (!needs_reset && used != available) fail("chains were dropped without an error: " + std::to_string(used) + " of " + std::to_string(available) + " in round " + std::to_string(round));
            broken += needs_reset;
            returned += used;
            // The device works normally after a reset.
            ready_.bus.stall_percent = 0;
            ready_.begin(kAll);
            GuestMemory& memory = ready_.memory;
            uint64_t data = kBuffers + 0x1000, back = kBuffers + 0x8000;
            for (unsigned i = 0; i < kUnit; ++i) *memory.at(data + i) = uint8_t(random_.next());
            CHECK(ready_.ask(kTypeOut, 0, {{data, kUnit, false}}).status == 0);
            CHECK(ready_.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 0);
            CHECK(!std::memcmp(memory.at(data), memory.at(back), kUnit));
        }
        if (std::min(broken, returned) < floor) fail("the random rings are not varied enough");
        std::printf("%u rounds: %u broken, %u chains returned\n", round, broken, returned);
        return 0;
    }

private:
    uint64_t place(bool good) {
        if (good || random_.percent(90)) return kBuffers + random_.below(0x40000);
        switch (random_.below(5)) {
        case 0: return kBase + GuestMemory::kSize - random_.below(600);
        case 1: return 0xffff'ffff'ffff - random_.below(600);
        case 2: return random_.next() << 20;
        case 3: return random_.below(4096);
        default: return 1ull << (48 + random_.below(16)) | kBuffers;
        }
    }
    uint32_t length(bool good) {
        static const uint32_t lengths[] = {0, 1, 15, 16, 17, 20, 32, 511, 512, 1024, 4096, 513};
        if (!good && random_.percent(3)) return 1u << 26 | uint32_t(random_.next()) << 28;
        return lengths[random_.below(12)];
    }
    void descriptor(uint64_t table, unsigned at, unsigned count, bool good) {
        uint16_t flags = 0;
        bool last = at + 1 == count;
        if (random_.percent(last ? 95 : good ? 10 : 30)) flags |= kWritable;
        if (random_.percent(last ? (good ? 1 : 10) : 85)) flags |= kNext;
        if (random_.percent(good ? 2 : 8)) flags |= kTable;
        if (random_.percent(good ? 0 : 1)) flags |= uint16_t(random_.next());
        uint16_t next = random_.percent(good ? 97 : 80) ? at + 1 : random_.percent(80) ? random_.below(count) : uint16_t(random_.next());
        uint32_t bytes = at == 0 && random_.percent(80) ? 16 : length(good);
        if (flags & kTable && random_.percent(80)) bytes = 16 * (1 + random_.below(6));
        uint64_t address = place(good);
        if (flags & kTable && random_.percent(80)) address &= ~15ull;
        if (at == 0 && random_.percent(80)) flags &= ~(kWritable | kTable);
        ready_.queue->put_descriptor(table, at, {address, bytes, false}, flags, next);
    }
    // Grants the memory of each descriptor for its direction, including those of tables.
    void grant(uint64_t table, unsigned count, bool nested) {
        GuestMemory& memory = ready_.memory;
        for (unsigned i = 0; i < count; ++i) {
            uint64_t at = table + 16 * i;
            if (at < kBase || at + 16 > kBase + GuestMemory::kSize) return;
            uint64_t address = memory.load<uint64_t>(at);
            uint32_t bytes = memory.load<uint32_t>(at + 8);
            uint16_t flags = memory.load<uint16_t>(at + 12);
            if (address >> 48) continue;
            memory.grant(1, address, bytes, !(flags & kTable) && flags & kWritable);
            if (flags & kTable && !nested) grant(address, bytes / 16, true);
        }
    }
    void fill() {
        GuestMemory& memory = ready_.memory;
        Queue& queue = *ready_.queue;
        // Headers at all addresses, most of them valid, and tables.
        for (uint64_t at = kBuffers; at < kBuffers + 0x48000; at += 16) {
            if (random_.percent(30)) {
                descriptor(at, 0, 1, false);
                memory.store<uint16_t>(at + 14, random_.below(6));
            } else {
                static const uint32_t types[] = {0, 1, 4, 8, 11, 13, 5, 0, 1};
                memory.store<uint32_t>(at, types[random_.below(9)]);
                memory.store<uint32_t>(at + 4, 0);
                memory.store<uint64_t>(at + 8, random_.percent(90) ? random_.below(kCapacity) : random_.next() << random_.below(17));
            }
        }
        // No segment overlaps the rings: writing it would change them, but not the grants.
        bool good = random_.percent(60);
        for (unsigned i = 0; i < queue.size; ++i) descriptor(queue.desc, i, queue.size, good);
        grant(queue.desc, queue.size, false);
        unsigned chains = random_.percent(good ? 98 : 90) ? 1 + random_.below(random_.percent(50) ? 3 : queue.size) : random_.below(65536);
        for (unsigned i = 0; i < queue.size; ++i)
            memory.store<uint16_t>(queue.driver + 4 + 2 * i, random_.percent(good ? 99 : 97) ? random_.below(queue.size) : uint16_t(random_.next()));
        memory.store<uint16_t>(queue.driver + 2, chains);
    }

    Random random_;
    Ready ready_;
};

}  // namespace straightway::virtio
