// SPDX-License-Identifier: Apache-2.0 OR MIT
// Linux's virtio_mmio and virtio_blk (6.1) as the registers see them, with requests in flight at every reset.
//
// The driver writes 0 to Status and goes on: it reads nothing back, sets the device up again, or frees the rings. From the
// answer to that write on, the device may not touch memory that it was granted before.
#pragma once

#include "virtio_ready.hpp"

namespace straightway::virtio {

class Linux {
public:
    Linux(uint64_t seed, unsigned latency) : random_(seed), latency_(latency), ready_(kAll, seed, 16, 0, model(random_, latency)) {
        disk().assign(disk().size(), kOld);
    }

    // `rounds` lives of a driver, each with `gap` cycles between its accesses.
    void run(unsigned rounds, unsigned gap) {
        gap_ = gap;
        for (unsigned round = 0; round < rounds; ++round) {
            start();
            unsigned way = random_.below(3);
            reset();
            if (way == 1) remove();
            // kexec in the middle of a probe: another reset while the first user's requests still end.
            if (way == 2) {
                negotiate();
                reset();
            }
            probe();
            ready_.until_idle(limit());
            check_disk();
        }
    }
    unsigned behind = 0, busy = 0;  // probes that ended before the old requests; resets with requests in flight
    uint64_t longest = 0;           // cycles to the answer of a reset

protected:
    static constexpr uint8_t kOld = 0x55, kFirst = 0x3c;
    static constexpr unsigned kMany = 5, kMost = 24;  // requests, and their units

    struct Write {
        uint64_t unit;
        std::vector<uint8_t> bytes;
    };

    // Some disks take a write's words before a read's, some the other way, some as they come.
    static DeviceModel model(Random& random, unsigned latency) {
        DeviceModel model;
        model.read_latency = model.write_latency = latency;
        model.flush_latency = latency;
        model.reorder = random.percent(50);
        model.stall_percent = random.percent(50) ? 30 : 0;
        model.reads_first = random.percent(30);
        model.rate_cycles = random.percent(30) ? 8 : 1;
        return model;
    }
    unsigned limit() const { return 2000000 + 20 * latency_; }
    std::vector<uint8_t>& disk() { return ready_.disk.device->bytes(); }
    void pause(uint64_t cycles) {
        for (; cycles; --cycles) ready_.bus.cycle();
    }
    uint32_t readl(uint32_t at) {
        uint32_t value = ready_.bus.read(at);
        pause(gap_);
        return value;
    }
    void writel(uint32_t value, uint32_t at) {
        ready_.bus.write(at, value);
        pause(gap_);
    }

    // Requests in flight, at any point of their way.
    void start() {
        Bus& bus = ready_.bus;
        bus.stall_percent = random_.percent(50) ? random_.below(50) : 0;
        bus.latency = random_.below(30);
        writes_.clear();
        uint64_t total = 0;
        for (unsigned i = 0; i < kMany; ++i) {
            uint64_t at = buffers() + 0x8000 * i, unit = 32 * i;
            uint32_t bytes = kUnit * (1 + random_.below(kMost));
            bool in = random_.percent(50);
            ready_.header(at, in ? kTypeIn : kTypeOut, unit * kSectors);
            unsigned odd = random_.percent(20) ? random_.below(4) : 0;  // not aligned: byte by byte
            for (uint32_t j = 0; j < bytes; ++j) *ready_.memory.at(at + 0x1000 + odd + j) = uint8_t(1 + random_.below(255));
            uint8_t* data = ready_.memory.at(at + 0x1000 + odd);
            if (!in) writes_.push_back({unit, std::vector<uint8_t>(data, data + bytes)});
            ready_.queue->add({{at, 16, false}, {at + 0x1000 + odd, bytes, in}, {at + 33, 1, true}}, random_.below(3), at + 0x100);
            total += bytes;
        }
        ready_.queue->kick();
        pause(random_.below(random_.percent(50) ? 600 : total / 2 + 2 * latency_ + 600));
    }

    // virtio_reset_device in virtio.c: vm_reset in virtio_mmio.c writes Status, and nothing reads it.
    void reset() {
        Bus& bus = ready_.bus;
        busy += !bus.top->idle;
        uint64_t before = bus.now;
        bus.write(kStatus, 0);
        longest = std::max(longest, bus.now - before);
        ready_.memory.grants.clear();
        ready_.queue.reset();
        CHECK(!bus.top->irq);
        pause(gap_);
    }

    // virtblk_remove in virtio_blk.c: the reset, then vm_del_vq for each queue, which warns of one that stays ready; then the
    // memory is free.
    void remove() {
        writel(0, kQueueSel);
        writel(0, kQueueReady);
        CHECK(readl(kQueueReady) == 0);
        pause(random_.below(2 * latency_ + 2000));
    }

    // register_virtio_device and virtio_dev_probe in virtio.c. virtio_add_status reads Status and writes it with another bit.
    void add_status(uint32_t bit) { writel(readl(kStatus) | bit, kStatus); }
    void negotiate() {
        CHECK(readl(kStatus) == 0);
        add_status(kAcknowledge);
        add_status(kDriver);
        // vm_get_features
        writel(1, kDeviceFeaturesSel);
        uint64_t features = uint64_t(readl(kDeviceFeatures)) << 32;
        writel(0, kDeviceFeaturesSel);
        features |= readl(kDeviceFeatures);
        CHECK(features >> kVersion1 & 1);
        // vm_finalize_features
        writel(1, kDriverFeaturesSel);
        writel(uint32_t((features & kAll) >> 32), kDriverFeatures);
        writel(0, kDriverFeaturesSel);
        writel(uint32_t(features & kAll), kDriverFeatures);
        // virtio_features_ok
        add_status(kFeaturesOk);
        CHECK(readl(kStatus) == (kAcknowledge | kDriver | kFeaturesOk));
    }
    void probe() {
        // virtio_mmio_probe
        CHECK(readl(kMagic) == 0x74726976 && readl(kVersion) == 2 && readl(kDeviceId) == 2);
        writel(0, kStatus);  // register_virtio_device
        negotiate();
        // vm_setup_vq
        writel(0, kQueueSel);
        CHECK(readl(kQueueReady) == 0);
        CHECK(readl(kQueueNumMax) >= 16);
        side_ ^= 1;
        ready_.queue = std::make_unique<Queue>(ready_.bus, ready_.memory, 0, 16, kBase + 0x20000 * side_, true);
        Queue& queue = *ready_.queue;
        writel(16, kQueueNum);
        for (auto [at, address] : {std::pair{kQueueDesc, queue.desc}, {kQueueDriver, queue.driver}, {kQueueDevice, queue.device}}) {
            writel(uint32_t(address), at);
            writel(uint32_t(address >> 32), at + 4);
        }
        writel(1, kQueueReady);
        // virtblk_probe reads the capacity, and virtio_device_ready is last.
        CHECK(readl(kConfig) == kCapacity && readl(kConfig + 4) == 0);
        add_status(kDriverOk);
        CHECK(readl(kStatus) == (kAcknowledge | kDriver | kFeaturesOk | kDriverOk));
        behind += !ready_.bus.top->idle;
        // The first request is made available while the old ones may still be under way.
        queue.want_interrupt(0);
        Read first = read(0);
        queue.kick();
        await_interrupt();
        // vm_interrupt
        CHECK(readl(kInterruptStatus) == 1);
        writel(1, kInterruptAck);
        CHECK(ready_.memory.load<uint16_t>(queue.device + 2) == 1);
        unsigned head;
        uint32_t length;
        CHECK(queue.take(head, length) && length == kUnit + 1);
        check(first);
    }

    // A read of one unit that no other request changes.
    struct Read {
        uint64_t at, unit;
        unsigned head;
    };
    Read read(unsigned place) {
        Read read{buffers() + 0x8000 * place, 32 * kMany + random_.below(200), 0};
        std::memset(&disk()[read.unit * kUnit], kFirst + read.unit % 7, kUnit);
        ready_.header(read.at, kTypeIn, read.unit * kSectors);
        *ready_.memory.at(read.at + 33) = 0xff;
        std::memset(ready_.memory.at(read.at + 0x1000), 0, kUnit);
        read.head = ready_.queue->add({{read.at, 16, false}, {read.at + 0x1000, kUnit, true}, {read.at + 33, 1, true}}, 0, read.at + 0x100);
        return read;
    }
    void check(const Read& read) {
        CHECK(*ready_.memory.at(read.at + 33) == 0);
        for (unsigned i = 0; i < kUnit; ++i) CHECK(*ready_.memory.at(read.at + 0x1000 + i) == uint8_t(kFirst + read.unit % 7));
    }
    void await_interrupt() {
        for (unsigned left = limit(); !ready_.bus.top->irq; ready_.bus.cycle())
            if (left-- == 0) fail("a request after a reset does not end");
    }
    uint64_t buffers() const { return kBuffers + 0x60000 * side_; }

    // The disk took a write whole, or cut off and filled with zeroes, or not at all.
    void check_disk() {
        for (const Write& write : writes_) {
            uint8_t* now = &disk()[write.unit * kUnit];
            size_t same = 0, size = write.bytes.size(), end = size;
            while (same < size && now[same] == write.bytes[same]) ++same;
            while (end > same && now[end - 1] == 0) --end;
            bool untouched = std::all_of(now, now + size, [](uint8_t byte) { return byte == kOld; });
            if (end != same && !untouched) fail("a write that a reset cut left other bytes than its own and zeroes, at " + std::to_string(same));
            std::fill_n(now, size, kOld);
        }
    }

    Random random_;
    unsigned latency_, gap_ = 0;
    unsigned side_ = 0;
    Ready ready_;
    std::vector<Write> writes_;
};

inline int as_linux(uint64_t seed, unsigned latency) {
    Linux machine(seed, latency);
    for (unsigned gap : {0u, 20u, 100u, 500u, 2000u}) machine.run(latency > 5000 ? 6 : 16, gap);
    // The answer waits for at most two bursts, whatever the disk does.
    if (machine.longest > 4000) fail("a reset was answered after " + std::to_string(machine.longest) + " cycles");
    CHECK(machine.busy > 20 && (latency < 5000 || machine.behind > 5));
    std::printf("latency %u: %u resets over requests, %u probes ahead of the old ones, answered within %u cycles\n", latency, machine.busy,
                machine.behind, unsigned(machine.longest));
    return 0;
}

}  // namespace straightway::virtio
