// SPDX-License-Identifier: Apache-2.0 OR MIT
// Concurrent requests: completion order, an error of one of them, flushes, a broken ring.
#pragma once

#include <algorithm>

#include "virtio_ready.hpp"

namespace straightway::virtio {

// Numbered requests of one unit each, which are all made available before the device is notified.
class Several {
public:
    explicit Several(Ready& ready) : ready_(ready) {}
    void add(uint32_t type, uint64_t sector) {
        uint64_t at = arena(order_.size());
        ready_.header(at, type, sector);
        *ready_.memory.at(at + 33) = 0xff;
        std::vector<Segment> segments{{at, 16, false}};
        if (type != kTypeFlush) segments.push_back({at + 0x1000, kUnit, type == kTypeIn});
        segments.push_back({at + 33, 1, true});
        numbers_[ready_.queue->add(segments, 0, at + 0x100)] = order_.size();
        order_.push_back(0);
    }
    uint8_t* data(unsigned number) { return ready_.memory.at(arena(number) + 0x1000); }
    // Waits until all have ended and returns their statuses. `ends` has the order in which they ended.
    std::vector<unsigned> run() {
        ready_.queue->kick();
        unsigned head;
        uint32_t length;
        for (unsigned limit = 400000; ends.size() < order_.size(); ready_.bus.cycle()) {
            if (limit-- == 0) fail("requests were not answered");
            while (ready_.queue->take(head, length)) ends.push_back(numbers_.at(head));
        }
        std::vector<unsigned> statuses;
        for (unsigned i = 0; i < order_.size(); ++i) statuses.push_back(*ready_.memory.at(arena(i) + 33));
        ready_.until_idle();
        return statuses;
    }
    std::vector<unsigned> ends;

private:
    static uint64_t arena(unsigned number) { return kBuffers + 0x4000 * number; }
    Ready& ready_;
    std::vector<int> order_;
    std::map<unsigned, unsigned> numbers_;
};

// Alternating reads and writes on a device that takes no word of a write before all words of its reads have been taken, or vice
// versa, as rule B10 permits. A host that begins with the wrong direction would deadlock.
inline void mixed(uint64_t seed, bool reads_first) {
    DeviceModel model;
    model.read_latency = model.write_latency = 200;
    (reads_first ? model.reads_first : model.writes_first) = true;
    Ready ready(kAll, seed, 16, 0, model);
    for (unsigned round = 0; round < 4; ++round) {
        Several some(ready);
        for (unsigned i = 0; i < 8; ++i) some.add((i + round) % 2 ? kTypeIn : kTypeOut, i * kSectors);
        for (unsigned status : some.run()) CHECK(status == 0);
    }
}

inline int parallel(uint64_t seed) {
    mixed(seed, true);
    mixed(seed, false);
    Random random(seed);
    DeviceModel model;
    model.reorder = model.journal = true;
    model.read_latency = 4000, model.write_latency = 4000, model.flush_latency = 10;
    Ready ready(kAll | 1ull << kFlushFeature, seed, 16, 0, model);
    BlockDevice& device = *ready.disk.device;
    unsigned overtook = 0, flush_overtook = 0;
    constexpr unsigned kMany = 8;
    for (unsigned round = 0; round < 12; ++round) {
        // Writes to different units, one of which fails; the others succeed.
        unsigned bad = random.below(kMany);
        uint64_t first = 16 * round;
        device.bad_writes = {first + bad};
        std::vector<std::vector<uint8_t>> written;
        Several writes(ready);
        for (unsigned i = 0; i < kMany; ++i) {
            writes.add(kTypeOut, (first + i) * kSectors);
            for (unsigned j = 0; j < kUnit; ++j) writes.data(i)[j] = uint8_t(random.next());
            written.emplace_back(writes.data(i), writes.data(i) + kUnit);
        }
        std::vector<unsigned> statuses = writes.run();
        for (unsigned i = 0; i < kMany; ++i) CHECK(statuses[i] == (i == bad));
        overtook += !std::is_sorted(writes.ends.begin(), writes.ends.end());
        // A flush may end before concurrent writes. Writes that had ended before it was made available are durable after it.
        Several more(ready);
        for (unsigned i = 0; i < 3; ++i) more.add(kTypeOut, (first + kMany + i) * kSectors);
        more.add(kTypeFlush, 0);
        for (unsigned i = 3; i < 6; ++i) more.add(kTypeOut, (first + kMany + i) * kSectors);
        for (unsigned status : more.run()) CHECK(status == 0);
        flush_overtook += std::find(more.ends.begin(), more.ends.end(), 3u) < more.ends.begin() + 3;
        std::vector<uint8_t> left = device.cut(BlockDevice::kLost, random);
        for (unsigned i = 0; i < kMany; ++i)
            CHECK(i == bad || !std::memcmp(&left[(first + i) * kUnit], written[i].data(), kUnit));
        // Reads of all units, one of which fails.
        device.bad_reads = {first + bad};
        Several reads(ready);
        for (unsigned i = 0; i < kMany; ++i) reads.add(kTypeIn, (first + i) * kSectors);
        statuses = reads.run();
        for (unsigned i = 0; i < kMany; ++i) {
            CHECK(statuses[i] == (i == bad));
            CHECK(i == bad || !std::memcmp(reads.data(i), written[i].data(), kUnit));
        }
        overtook += !std::is_sorted(reads.ends.begin(), reads.ends.end());
    }
    // The backing device got as many concurrent requests as there are slots; used entries are in the order of completion.
    CHECK(ready.disk.most == REQUESTS);
    CHECK(overtook > 0 && flush_overtook > 0);
    // A ring that breaks while requests are outstanding: DEVICE_NEEDS_RESET, no access after it, and a reset that ends.
    for (unsigned round = 0; round < 20; ++round) {
        ready.begin(kAll);
        GuestMemory& memory = ready.memory;
        Several some(ready);
        for (unsigned i = 0; i < 3; ++i) some.add(random.percent(50) ? kTypeIn : kTypeOut, 900 + i * kSectors);
        ready.queue->publish(99);
        ready.queue->kick();
        for (unsigned limit = 100000; !(ready.bus.read(kStatus) & kNeedsReset);)
            if (limit-- == 0) fail("a head outside the ring was not detected");
        memory.frozen = true;
        for (unsigned i = random.below(8000); i; --i) ready.bus.cycle();
        memory.frozen = false;
    }
    ready.begin(kAll);
    CHECK(ready.ask(kTypeFlush, 0, {}).status == 0);
    std::printf("%u rounds out of order, %u flushes before writes\n", overtook, flush_overtook);
    return 0;
}

}  // namespace straightway::virtio
