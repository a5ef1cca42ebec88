// SPDX-License-Identifier: Apache-2.0 OR MIT
// The example of a Serial ATA drive as a virtio disk: a driver on one end, single bits to the model of a drive on the other, three
// unrelated clocks.
//
// `example_virtio_bench SEED`: starts, writes, flushes, reads back with many concurrent requests, and discards. Then the cable
// is unplugged during reads and plugged in again.
#include "Vexample_virtio_sim.h"
#define VIRTIO_BUS_TOP Vexample_virtio_sim
#include "sata/sata_plug.hpp"
#include "virtio_driver.hpp"

using namespace straightway;
using namespace straightway::virtio;

namespace {

constexpr uint64_t kBase = GuestMemory::kBase, kBuffers = kBase + 0x40000, kArena = 0x4000;
constexpr unsigned kLatency = 10000;  // of the drive, in its cycles
constexpr unsigned kMany = 24, kBytes = 8192, kSectors = kBytes / 512;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) fail(std::string(#condition " at line ") + std::to_string(__LINE__)); \
    } while (0)

struct Machine {
    Bus bus;
    GuestMemory memory;
    sata::Plug<Vexample_virtio_sim> sata;

    explicit Machine(uint64_t seed) : bus(seed), sata(bus, fast(), seed) {
        bus.memory = memory.port();
        bus.driven = [this] { sata.cycle(); };
        sata.reset(bus);
    }
    static sata::DriveModel fast() {
        sata::DriveModel model;
        model.reorder = true;
        model.command_latency = kLatency;
        return model;
    }
    void until_capacity(bool there) {
        for (unsigned limit = 200000; (bus.read(kConfig) != 0) != there;)
            if (limit-- == 0) fail(there ? "the drive never became ready" : "the drive did not disappear");
    }
};

// Requests that are made available together, each in its own memory.
class Batch {
public:
    Batch(Machine& machine, Queue& queue) : machine_(machine), queue_(queue) {}
    uint8_t* data(unsigned number) { return machine_.memory.at(at(number) + 0x1000); }
    void add(uint32_t type, uint64_t sector, uint32_t bytes) {
        uint64_t arena = at(count_);
        GuestMemory& memory = machine_.memory;
        memory.store<uint32_t>(arena, type), memory.store<uint32_t>(arena + 4, 0), memory.store<uint64_t>(arena + 8, sector);
        *memory.at(arena + 16) = 0xff;
        std::vector<Segment> segments{{arena, 16, false}};
        if (bytes) segments.push_back({arena + 0x1000, bytes, type == kTypeIn});
        segments.push_back({arena + 16, 1, true});
        numbers_[queue_.add(segments, 0, arena + 0x100)] = count_++;
    }
    // Returns the statuses when all requests have ended. The cable is unplugged after the given number of cycles.
    std::vector<unsigned> run(unsigned pull_after = 0) {
        queue_.kick();
        unsigned head;
        uint32_t length;
        std::vector<unsigned> statuses(count_);
        for (unsigned ended = 0, limit = 3000000; ended < count_; machine_.bus.cycle()) {
            if (limit-- == 0) fail("requests were never answered");
            if (pull_after && --pull_after == 0) machine_.sata.cable.plug(false);
            while (queue_.take(head, length)) {
                unsigned number = numbers_.at(head);
                statuses[number] = *machine_.memory.at(at(number) + 16);
                ++ended;
            }
        }
        return statuses;
    }

private:
    static uint64_t at(unsigned number) { return kBuffers + kArena * number; }
    Machine& machine_;
    Queue& queue_;
    unsigned count_ = 0;
    std::map<unsigned, unsigned> numbers_;
};

bool all(const std::vector<unsigned>& statuses, unsigned status) {
    return std::all_of(statuses.begin(), statuses.end(), [&](unsigned one) { return one == status; });
}

int run(uint64_t seed) {
    Random random(seed);
    Machine machine(seed);
    Bus& bus = machine.bus;
    machine.until_capacity(true);
    CHECK(bus.read(kConfig) == Machine::fast().blocks);
    reset(bus);
    uint64_t features = 1ull << kFlushFeature | 1ull << kDiscardFeature | 1ull << kIndirect | 1ull << kEventIndex | 1ull << kVersion1 |
                        1ull << kAccessPlatform | 1ull << kOrderPlatform;
    CHECK((device_features(bus) & features) == features);
    negotiate(bus, features);
    Queue queue(bus, machine.memory, 0, 128, kBase, true);
    queue.set_up();
    driver_ok(bus);
    CHECK(bus.read(kStatus) == (kAcknowledge | kDriver | kFeaturesOk | kDriverOk));

    std::vector<std::vector<uint8_t>> written;
    Batch writes(machine, queue);
    for (unsigned i = 0; i < kMany; ++i) {
        writes.add(kTypeOut, 64 + i * kSectors, kBytes);
        for (unsigned j = 0; j < kBytes; ++j) writes.data(i)[j] = uint8_t(random.next());
        written.emplace_back(writes.data(i), writes.data(i) + kBytes);
    }
    CHECK(all(writes.run(), 0));
    CHECK(bus.top->irq && bus.read(kInterruptStatus) == 1);
    bus.write(kInterruptAck, 1);
    Batch flush(machine, queue);
    flush.add(kTypeFlush, 0, 0);
    CHECK(all(flush.run(), 0));
    auto read_all = [&](Batch& reads, unsigned pull_after) {
        for (unsigned i = 0; i < kMany; ++i) reads.add(kTypeIn, 64 + i * kSectors, kBytes);
        return reads.run(pull_after);
    };
    auto compare = [&](Batch& reads, const std::vector<unsigned>& statuses) {
        for (unsigned i = 0; i < kMany; ++i)
            CHECK(statuses[i] != 0 || !std::memcmp(reads.data(i), written[i].data(), kBytes));
    };
    uint64_t before = bus.now;
    Batch reads(machine, queue);
    std::vector<unsigned> statuses = read_all(reads, 0);
    CHECK(all(statuses, 0));
    compare(reads, statuses);
    // The requests overlapped on the drive: one at a time, their latencies alone would take longer.
    uint64_t cycles = bus.now - before;
    CHECK(cycles < kMany * kLatency * 2 / 3 / 2);
    Batch discard(machine, queue);
    discard.add(kTypeDiscard, 0, 16);
    machine.memory.store<uint64_t>(kBuffers + 0x1000, 64 + kMany * kSectors);
    machine.memory.store<uint64_t>(kBuffers + 0x1008, 8);
    CHECK(all(discard.run(), 0));

    // The cable is unplugged during the reads: each request ends, some with an error, none with wrong data.
    uint32_t generation = bus.read(kConfigGeneration);
    Batch pulled(machine, queue);
    statuses = read_all(pulled, 20000);
    CHECK(!all(statuses, 0) && all({statuses.back()}, 1));
    compare(pulled, statuses);
    machine.until_capacity(false);
    Batch away(machine, queue);
    CHECK(all(read_all(away, 0), 1));
    machine.sata.cable.plug(true);
    machine.until_capacity(true);
    CHECK(bus.read(kConfigGeneration) != generation && (bus.read(kInterruptStatus) & 2));
    Batch again(machine, queue);
    statuses = read_all(again, 0);
    CHECK(all(statuses, 0));
    compare(again, statuses);
    std::printf("%llu cycles, %llu of them for %u reads, rate %u\n", (unsigned long long)bus.now, (unsigned long long)cycles, kMany,
                unsigned(bus.top->rate));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2) return run(std::strtoull(argv[1], nullptr, 0));
    std::fprintf(stderr, "usage: example_virtio_bench SEED\n");
    return 2;
}
