// SPDX-License-Identifier: Apache-2.0 OR MIT
// A driver with one initialised queue, and the backing block device, if the bench plays it.
#pragma once

#include "block_device.hpp"
#include "virtio_driver.hpp"

namespace straightway::virtio {

constexpr uint64_t kBase = GuestMemory::kBase;
constexpr uint64_t kBuffers = kBase + 0x40000;
constexpr uint64_t kAll = 1ull << kIndirect | 1ull << kEventIndex | 1ull << kVersion1 | 1ull << kWriteZeroesFeature;

const unsigned kUnit = BLOCK_SIZE_LOG2 > 9 ? 1u << BLOCK_SIZE_LOG2 : 512u, kSectors = kUnit / 512;
const uint64_t kCapacity = (uint64_t(DISK_BLOCKS) * DISKS << BLOCK_SIZE_LOG2) / 512;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) fail(std::string(#condition " at line ") + std::to_string(__LINE__)); \
    } while (0)

// The backing block device, if the bench plays it.
struct Disk {
    std::unique_ptr<BlockDevice> device;
    unsigned most = 0;  // maximum number of concurrent requests

    Disk(Bus& bus, DeviceModel model, uint64_t seed) {
        if (!EXTERNAL) return;
        model.block_bytes = 1u << BLOCK_SIZE_LOG2;
        model.block_count = DISK_BLOCKS;
        device = std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*bus.top, , ), model, seed);
        bus.each = [this] {
            device->sample();
            most = std::max(most, device->under_way());
        };
        bus.driven = [this] { device->drive(); };
    }
};

// A bench with one initialised queue.
struct Ready {
    Bus bus;
    Disk disk;
    GuestMemory memory;
    std::unique_ptr<Queue> queue;

    explicit Ready(uint64_t features = kAll, uint64_t seed = 1, unsigned size = 16, unsigned odd = 0, DeviceModel model = {})
        : bus(seed), disk(bus, model, seed) {
        bus.memory = memory.port();
        begin(features, size, odd);
    }
    void begin(uint64_t features, unsigned size = 16, unsigned odd = 0) {
        reset(bus);
        memory.grants.clear();
        negotiate(bus, features);
        queue = std::make_unique<Queue>(bus, memory, 0, size, kBase, features >> kEventIndex & 1, odd);
        queue->set_up();
        driver_ok(bus);
        CHECK(bus.read(kStatus) == (kAcknowledge | kDriver | kFeaturesOk | kDriverOk));
    }
    void until_idle(unsigned limit = 3000000) {
        for (int i = 0; i < 8; ++i) bus.cycle();
        while (!bus.top->idle)
            if (bus.cycle(), limit-- == 0) fail("the device did not become idle");
        bus.cycle();  // the status follows
    }
    void header(uint64_t at, uint32_t type, uint64_t sector) {
        memory.store<uint32_t>(at, type);
        memory.store<uint32_t>(at + 4, 0);
        memory.store<uint64_t>(at + 8, sector);
    }
    struct Outcome {
        unsigned status;
        uint32_t length;
    };
    // Runs one request alone. The caller supplies the segments between header and status.
    Outcome ask(uint32_t type, uint64_t sector, const std::vector<Segment>& data) {
        header(kBuffers, type, sector);
        std::vector<Segment> segments{{kBuffers, 16, false}};
        segments.insert(segments.end(), data.begin(), data.end());
        segments.push_back({kBuffers + 33, 1, true});
        return send(segments);
    }
    Outcome send(const std::vector<Segment>& segments) {
        *memory.at(kBuffers + 33) = 0xff;
        unsigned head, used;
        uint32_t length;
        head = queue->add(segments, segments.size(), 0);
        queue->kick();
        until_idle();
        CHECK(!(bus.read(kStatus) & kNeedsReset));
        CHECK(queue->take(used, length) && used == head);
        CHECK(!queue->take(used, length));
        return {*memory.at(kBuffers + 33), length};
    }
    // The same for a chain that cannot be answered.
    void breaks(const std::vector<Segment>& segments, const std::function<void()>& spoil) {
        queue->add(segments, segments.size(), 0);
        spoil();
        queue->kick();
        until_idle();
        CHECK(bus.read(kStatus) & kNeedsReset);
        CHECK(bus.read(kInterruptStatus) & 2);
        CHECK(memory.load<uint16_t>(queue->device + 2) == queue->seen);
        uint64_t accesses = bus.accesses;
        queue->kick();
        for (int i = 0; i < 200; ++i) bus.cycle();
        CHECK(bus.accesses == accesses);
        memory.fault_to = 0;
        begin(kAll);
        CHECK(ask(kTypeFlush, 0, {}).status == 0);
        begin(kAll);
    }
};

}  // namespace straightway::virtio
