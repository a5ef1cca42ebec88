// SPDX-License-Identifier: Apache-2.0 OR MIT
// Plays a driver of virtio_sim over a RAM disk.
//
// `virtio_bench registers`: the initialisation sequence, and errors in each of its steps.
// `virtio_bench requests`: each request type, its errors, segments with arbitrary boundaries.
// `virtio_bench random SEED REQUESTS`: queues, chains in rings and tables with arbitrary segments, event index, pauses.
// `virtio_bench hostile SEED ROUNDS`: rings of random nonsense; then the device must work again after a reset.
// `virtio_bench resets SEED ROUNDS`: resets at random times; no access after Status reads 0.
// `virtio_bench linux SEED LATENCY`: Linux's driver resets, leaves and comes back while requests are in flight on a disk that needs
// LATENCY cycles. `virtio_bench trace SEED LATENCY FILE`: recorded accesses of a driver, likewise.
// `virtio_bench sata read|write sequential|random BYTES DEPTH LATENCY REQUESTS`: cycles of a request on a Serial ATA drive that
// needs LATENCY cycles for a command, with DEPTH concurrent requests.
// `virtio_bench parallel SEED`: concurrent requests on a device that reorders: completion order, errors, flushes.
// `virtio_bench rate`: cycles of requests of 4 KiB and 64 KiB.
#include "virtio_linux.hpp"
#include "virtio_load.hpp"
#include "virtio_rates.hpp"
#include "virtio_several.hpp"
#include "virtio_trace.hpp"

using namespace straightway;
using namespace straightway::virtio;

namespace {

int registers() {
    Bus bus(1);
    GuestMemory memory;
    bus.memory = memory.port();
    CHECK(bus.read(kMagic) == 0x74726976 && bus.read(kVersion) == 2 && bus.read(kDeviceId) == 2);
    CHECK(bus.read(kStatus) == 0 && bus.read(kInterruptStatus) == 0 && !bus.top->irq);
    CHECK(bus.read(kQueueNumMax) == 128);
    bus.write(kQueueSel, QUEUES);
    CHECK(bus.read(kQueueNumMax) == 0);
    bus.write(kQueueSel, 0);
    uint64_t offered = device_features(bus);
    uint64_t always = kAll | 1ull << 1 | 1ull << 2 | 1ull << kBlkSize | 1ull << kAccessPlatform | 1ull << kOrderPlatform;
    CHECK(offered == (always | (QUEUES > 1 ? 1ull << kMq : 0) | (CACHED ? 1ull << kFlushFeature : 0)));
    // Section 4.2.2: bits from 32 times DeviceFeaturesSel on, and this device has none from 64 on.
    for (uint32_t word : {2u, 3u, 4u, 0x80000000u, 0x80000001u, 0xffffffffu}) {
        bus.write(kDeviceFeaturesSel, word);
        CHECK(bus.read(kDeviceFeatures) == 0);
    }
    CHECK(device_features(bus) == offered);
    // Nor can a driver accept one of those.
    for (uint32_t word : {2u, 3u, 0x80000001u}) {
        reset(bus);
        bus.write(kStatus, kAcknowledge);
        bus.write(kStatus, kAcknowledge | kDriver);
        bus.write(kDriverFeaturesSel, 1);
        bus.write(kDriverFeatures, 1);
        bus.write(kDriverFeaturesSel, word);
        bus.write(kDriverFeatures, 1u << kIndirect);
        bus.write(kStatus, kAcknowledge | kDriver | kFeaturesOk);
        CHECK(!(bus.read(kStatus) & kFeaturesOk));
    }
    reset(bus);
    CHECK(bus.read(kConfig) == kCapacity);
    CHECK(bus.read(kConfig + 4) == 0 && bus.read(kConfig + 12) == 126);
    CHECK(bus.read(kConfig + 20) == kUnit);

    // FEATURES_OK is accepted only after DRIVER, for offered features, with VIRTIO_F_VERSION_1.
    for (uint64_t bad : {kAll & ~(1ull << kVersion1), kAll | 1ull << kReadOnlyFeature, kAll | 1ull << 40, kAll | 1ull << 24}) {
        reset(bus);
        negotiate(bus, bad);
        CHECK(!(bus.read(kStatus) & kFeaturesOk));
        driver_ok(bus);
        CHECK(!(bus.read(kStatus) & kDriverOk));
    }
    reset(bus);
    bus.write(kDriverFeaturesSel, 1);
    bus.write(kDriverFeatures, 1);
    bus.write(kStatus, kAcknowledge | kDriver | kFeaturesOk);
    CHECK(!(bus.read(kStatus) & kFeaturesOk));  // the features were written before DRIVER
    reset(bus);
    negotiate(bus, kAll);
    bus.write(kDriverFeaturesSel, 2);
    bus.write(kDriverFeatures, 1);  // after FEATURES_OK: no effect
    CHECK(bus.read(kStatus) == (kAcknowledge | kDriver | kFeaturesOk));

    // A queue cannot be changed before FEATURES_OK or while it is ready. A partial write of a word has no effect.
    Queue queue(bus, memory, 0, 16, kBase, true);
    reset(bus);
    queue.set_up();
    CHECK(bus.read(kQueueReady) == 0);
    negotiate(bus, kAll);
    bus.write(kQueueSel, 0);
    queue.set_up();
    CHECK(bus.read(kQueueReady) == 1);
    bus.write(kQueueNum, 3);
    bus.write(kQueueDesc, 1);
    bus.write(kStatus, 0, 1);
    CHECK(bus.read(kStatus) == (kAcknowledge | kDriver | kFeaturesOk));
    bus.write(kQueueReady, 0);
    CHECK(bus.read(kQueueReady) == 0);

    // An invalid ring: DEVICE_NEEDS_RESET immediately, and an interrupt once the driver is running.
    const std::pair<uint32_t, uint32_t> wrong[] = {
        {kQueueNum, 0}, {kQueueNum, 3}, {kQueueNum, 256}, {kQueueNum, 0x10000}, {kQueueDesc, 8}, {kQueueDesc + 4, 0x10000},
        {kQueueDriver, 1}, {kQueueDriver + 4, 0x80000000}, {kQueueDevice, 2}, {kQueueDevice + 4, 0x10000}, {kQueueReady, 1}};
    for (auto [address, value] : wrong) {
        reset(bus);
        CHECK(bus.read(kQueueReady) == 0);
        negotiate(bus, kAll);
        driver_ok(bus);
        bus.write(address, value);
        CHECK(bus.read(kStatus) & kNeedsReset);
        CHECK(bus.read(kInterruptStatus) == 2 && bus.top->irq);
        bus.write(kInterruptAck, 2);
        CHECK(bus.read(kInterruptStatus) == 0 && !bus.top->irq);
    }
    // Another medium: a configuration change, with another generation.
    reset(bus);
    negotiate(bus, kAll);
    driver_ok(bus);
    uint32_t generation = bus.read(kConfigGeneration);
    bus.top->away = 1;
    CHECK(bus.read(kConfig) == 0 && bus.read(kInterruptStatus) == 2);
    bus.write(kInterruptAck, 2);
    bus.top->generation = 1;
    bus.top->away = 0;
    bus.cycle();
    CHECK(bus.read(kConfig) != 0 && bus.read(kInterruptStatus) == 2 && bus.read(kConfigGeneration) != generation);
    CHECK(bus.accesses == 0);
    // A disk that arrives, changes or leaves while the driver negotiates: the features stay as offered until the reset.
    // (Linux 6.1 reads both words in vm_get_features, writes both in vm_finalize_features, and gives up without FEATURES_OK.)
    auto place = [&](bool here) {
        if (here && bus.top->away) bus.top->generation = (bus.top->generation + 1) % 16;  // rule B14
        bus.top->away = !here;
        bus.cycle();
    };
    for (bool leaves : {false, true}) {
        for (unsigned step = 0; step < 4; ++step) {
            place(leaves);
            reset(bus);
            uint64_t before = device_features(bus);
            auto disk = [&](unsigned now) {
                if (now == step) place(!leaves);
            };
            bus.write(kStatus, kAcknowledge);
            disk(0);
            bus.write(kStatus, kAcknowledge | kDriver);
            disk(1);
            uint64_t shown = device_features(bus);
            CHECK(shown == before);
            CHECK((shown >> kWriteZeroesFeature & 1) == leaves && (shown >> kFlushFeature & 1) == (!leaves || CACHED));
            disk(2);
            bus.write(kDriverFeaturesSel, 1);
            bus.write(kDriverFeatures, uint32_t(shown >> 32));
            bus.write(kDriverFeaturesSel, 0);
            bus.write(kDriverFeatures, uint32_t(shown));
            disk(3);
            bus.write(kStatus, kAcknowledge | kDriver | kFeaturesOk);
            CHECK(bus.read(kStatus) & kFeaturesOk);
            CHECK(device_features(bus) == before);
            // The capacity is configuration, which changes at once.
            CHECK((bus.read(kConfig) != 0) == !leaves);
            reset(bus);
            CHECK((device_features(bus) >> kWriteZeroesFeature & 1) == !leaves);
        }
    }
    place(true);
    // No chain is taken before DRIVER_OK.
    reset(bus);
    negotiate(bus, kAll);
    Queue early(bus, memory, 0, 16, kBase, true);
    early.set_up();
    early.add({{kBuffers, 16, false}, {kBuffers + 33, 1, true}}, 2, 0);
    early.kick();
    for (int i = 0; i < 100; ++i) bus.cycle();
    CHECK(bus.accesses == 0);
    driver_ok(bus);
    for (int i = 0; i < 1000; ++i) bus.cycle();
    CHECK(memory.load<uint16_t>(early.device + 2) == 1);
    return 0;
}


int requests() {
    Ready ready;
    Bus& bus = ready.bus;
    GuestMemory& memory = ready.memory;
    uint64_t data = kBuffers + 0x1000, back = kBuffers + 0x8000;
    for (unsigned i = 0; i < 8 * kUnit; ++i) *memory.at(data + i) = uint8_t(i * 7 + i / 251);
    CHECK(ready.ask(kTypeOut, 4 * kSectors, {{data, 4 * kUnit, false}}).status == 0);
    auto read = ready.ask(kTypeIn, 4 * kSectors, {{back, 4 * kUnit, true}});
    CHECK(read.status == 0 && read.length == 4 * kUnit + 1);
    CHECK(!std::memcmp(memory.at(data), memory.at(back), 4 * kUnit));
    // Arbitrary segment boundaries, empty segments, header and data in one segment, the status after the data in one.
    ready.header(data - 16, kTypeOut, 9 * kSectors);
    CHECK(ready.send({{data - 16, 5, false}, {data - 11, 0, false}, {data - 11, 13, false}, {data + 2, 2 * kUnit - 2, false},
                      {kBuffers + 33, 1, true}}).status == 0);
    ready.header(data - 16, kTypeIn, 9 * kSectors);
    std::memset(memory.at(back), 0, 3 * kUnit);
    *memory.at(back + 3 + 2 * kUnit) = 0xff;
    read = ready.send({{data - 16, 16, false}, {back + 3, 1, true}, {back + 4, kUnit + 1, true}, {back + 5 + kUnit, kUnit - 1, true}});
    CHECK(read.length == 2 * kUnit + 1 && *memory.at(back + 3 + 2 * kUnit) == 0);
    CHECK(!std::memcmp(memory.at(data), memory.at(back + 3), 2 * kUnit) && *memory.at(back + 2) == 0);
    // The device's ID, complete and truncated.
    for (unsigned room : {20u, 7u, 30u}) {
        std::memset(memory.at(back), 'x', 40);
        auto name = ready.ask(kTypeGetId, 0, {{back, room, true}});
        unsigned given = std::min(room, 20u);
        CHECK(name.status == 0 && name.length == given + (room <= 20));
        CHECK(!std::memcmp(memory.at(back), "straightway-virtio-0", given) && *memory.at(back + given) == 'x');
    }
    // Flushes: the driver's, and, if the driver did not accept the feature and the device has a cache, one after each change.
    unsigned flushes = bus.top->flushes;
    CHECK(ready.ask(kTypeFlush, 0, {}).status == 0 && bus.top->flushes == flushes + 1);
    CHECK(ready.ask(kTypeOut, 0, {{data, kUnit, false}}).status == 0);
    CHECK(bus.top->flushes == flushes + (CACHED ? 2 : 1));
    if (CACHED) {
        ready.begin(kAll | 1ull << kFlushFeature);
        CHECK(ready.ask(kTypeOut, 0, {{data, kUnit, false}}).status == 0 && bus.top->flushes == flushes + 2);
    }
    // Ranges: zeroes in two ranges with one request; discard, which this device does not support.
    auto range = [&](unsigned at, uint64_t sector, uint32_t count, uint32_t flags) {
        memory.store<uint64_t>(back + 16 * at, sector);
        memory.store<uint32_t>(back + 16 * at + 8, count);
        memory.store<uint32_t>(back + 16 * at + 12, flags);
    };
    range(0, 5 * kSectors, kSectors, 0);
    range(1, 7 * kSectors, kSectors, 1);
    CHECK(ready.ask(kTypeWriteZeroes, 0, {{back, 32, false}}).status == 0);
    CHECK(ready.ask(kTypeIn, 4 * kSectors, {{back, 4 * kUnit, true}}).status == 0);
    for (unsigned i = 0; i < 4 * kUnit; ++i) CHECK(*memory.at(back + i) == (i / kUnit % 2 ? 0 : *memory.at(data + i)));
    range(0, 0, kSectors, 0);
    CHECK(ready.ask(kTypeDiscard, 0, {{back, 16, false}}).status == 2);
    range(0, 0, kSectors, 2);
    CHECK(ready.ask(kTypeWriteZeroes, 0, {{back, 16, false}}).status == 2);
    range(0, kCapacity - kSectors, 2 * kSectors, 0);
    CHECK(ready.ask(kTypeWriteZeroes, 0, {{back, 16, false}}).status == 1);
    range(0, 0, 0x80000000, 0);
    CHECK(ready.ask(kTypeWriteZeroes, 0, {{back, 16, false}}).status == 1);
    CHECK(ready.ask(kTypeWriteZeroes, 0, {{back, 15, false}}).status == 1);
    CHECK(ready.ask(kTypeWriteZeroes, 0, {}).status == 1);
    // Refused requests and their statuses.
    for (uint32_t type : {2u, 7u, 10u, 14u, 0xffffffffu}) CHECK(ready.ask(type, 0, {}).status == 2);
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit - 1, true}}).status == 1);
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit + 4, true}}).status == 1);
    CHECK(ready.ask(kTypeIn, 0, {}).status == 1 && ready.ask(kTypeOut, 0, {}).status == 1);
    CHECK(ready.ask(kTypeOut, 0, {{back, 100, false}}).status == 1);
    CHECK(ready.ask(kTypeIn, kCapacity - kSectors, {{back, kUnit, true}}).status == 0);
    CHECK(ready.ask(kTypeIn, kCapacity, {{back, kUnit, true}}).status == 1);
    CHECK(ready.ask(kTypeOut, kCapacity - kSectors, {{back, 2 * kUnit, false}}).status == 1);
    CHECK(ready.ask(kTypeIn, 1ull << 57, {{back, kUnit, true}}).status == 1);
    CHECK(ready.ask(kTypeIn, 1ull << 63, {{back, kUnit, true}}).status == 1);
    if (kSectors > 1) CHECK(ready.ask(kTypeIn, 1, {{back, kUnit, true}}).status == 1);
    CHECK(ready.send({{kBuffers, 15, false}, {kBuffers + 33, 1, true}}).status == 1);
    CHECK(ready.send({{kBuffers, 16, false}, {0xffff'0000'0000, 1u << 26, true}, {kBuffers + 33, 1, true}}).status == 1);
    CHECK(ready.send({{kBuffers, 16, false}, {0, 0xffffffff, false}, {kBuffers + 33, 1, true}}).status == 1);
    // Memory that fails for data, for the header, in the disk; a disk that is not ready.
    memory.fault_from = back + 64, memory.fault_to = back + 68;
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 1);
    CHECK(ready.ask(kTypeOut, 0, {{back, kUnit, false}}).status == 1);
    memory.fault_from = kBuffers, memory.fault_to = kBuffers + 4;
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 1);
    memory.fault_to = 0;
    bus.top->fault = 1, bus.top->fault_address = 0;
    if (EXTERNAL) ready.disk.device->bad_reads.insert(0);
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 1);
    bus.top->fault = 0;
    if (EXTERNAL) ready.disk.device->bad_reads.clear();
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 0);
    // A chain that cannot be answered, or whose rings fail.
    Segment header{kBuffers, 16, false}, in{back, kUnit, true}, status{kBuffers + 33, 1, true};
    auto descriptor = [&](unsigned i) { return ready.queue->desc + 16 * i; };
    auto loop = [&] { memory.store<uint16_t>(descriptor(1) + 14, 0), memory.store<uint16_t>(descriptor(1) + 12, kNext); };
    ready.breaks({header}, [] {});
    ready.breaks({header, in, status}, [&] { memory.store<uint16_t>(descriptor(1) + 14, 16); });
    ready.breaks({header, {back, 8, false}, status}, loop);
    ready.breaks({header, in, status}, loop);
    ready.breaks({header, in, header, status}, [] {});
    ready.breaks({header, in, {kBuffers + 33, 0, true}}, [&] { memory.store<uint32_t>(descriptor(1) + 8, 0); });
    ready.breaks({header, {0xffff'ffff'ff00, 512, true}, status}, [] {});
    ready.breaks({header, {1ull << 48, 512, true}, status}, [] {});
    ready.breaks({header, in, status}, [&] { memory.store<uint16_t>(descriptor(1) + 12, kTable | kNext); });
    for (uint32_t length : {0u, 8u, 24u}) {
        ready.breaks({header, {back, length, false}}, [&] { memory.store<uint16_t>(descriptor(1) + 12, kTable); });
    }
    ready.breaks({header, {back, 32, false}}, [&] {  // a table in a table
        memory.store<uint16_t>(descriptor(1) + 12, kTable);
        ready.queue->put_descriptor(back, 0, {back, 16, false}, kTable, 0);
    });
    ready.breaks({header, {back, 32, false}}, [&] {  // an index outside of the table
        memory.store<uint16_t>(descriptor(1) + 12, kTable);
        ready.queue->put_descriptor(back, 0, {back, 16, false}, kNext, 2);
    });
    ready.breaks({header, in, status}, [&] { memory.store<uint16_t>(ready.queue->driver + 4, 16); });
    ready.breaks({header, in, status}, [&] { memory.store<uint16_t>(ready.queue->driver + 2, 17); });
    for (uint64_t ring : {ready.queue->driver, ready.queue->driver + 4, ready.queue->desc + 16, ready.queue->device + 4}) {
        ready.breaks({header, in, status}, [&] { memory.fault_from = ring & ~3ull, memory.fault_to = memory.fault_from + 4; });
    }
    ready.begin(kAll & ~(1ull << kIndirect));
    ready.breaks({header, {back, 32, false}}, [&] { memory.store<uint16_t>(descriptor(1) + 12, kTable); });
    std::printf("%llu cycles\n", (unsigned long long)bus.now);
    return 0;
}
// --- Resets -----------------------------------------------------------------------------------------

int resets(uint64_t seed, unsigned rounds) {
    Random random(seed);
    DeviceModel model;
    model.reorder = true;
    model.read_latency = model.write_latency = 500;
    Ready ready(kAll, seed, 16, 0, model);
    uint64_t data = kBuffers + 0x1000;
    unsigned ended = 0, asked = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        ready.begin(kAll);
        ready.bus.stall_percent = random.below(50);
        ready.bus.latency = random.below(30);
        // One request, or as many as the ring holds.
        unsigned many = REQUESTS == 1 ? 1 : 1 + random.below(5);
        uint64_t total = 0;
        for (unsigned i = 0; i < many; ++i) {
            uint64_t at = kBuffers + 0x8000 * i;
            uint32_t bytes = kUnit * (1 + random.below(16384 / kUnit));
            bool in = random.percent(50);
            ready.header(at, in ? kTypeIn : kTypeOut, 0);
            *ready.memory.at(at + 33) = 0xff;
            ready.queue->add({{at, 16, false}, {at + 0x1000, bytes, in}, {at + 33, 1, true}}, random.below(3), at + 0x100);
            total += bytes;
        }
        ready.queue->kick();
        for (uint64_t i = random.below(total / 2 + 1000); i; --i) ready.bus.cycle();
        for (unsigned i = 0; i < many; ++i) ended += *ready.memory.at(kBuffers + 0x8000 * i + 33) == 0;
        asked += many;
        uint64_t before = ready.bus.now;
        ready.bus.write(kStatus, 0);
        ready.memory.frozen = true;
        CHECK(ready.bus.read(kStatus) == 0);
        // Started AXI bursts are finished: one or two bursts, independent of the request's length.
        if (ready.bus.now - before > 4000) fail("a reset took " + std::to_string(ready.bus.now - before) + " cycles");
        for (uint64_t i = random.below(2000); i; --i) ready.bus.cycle();
        ready.memory.frozen = false;
        ready.bus.stall_percent = 0;
        ready.begin(kAll);
        CHECK(ready.ask(kTypeIn, 0, {{data, kUnit, true}}).status == 0);
    }
    std::printf("%u of %u requests had ended\n", ended, asked);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
    unsigned many = argc > 3 ? std::strtoul(argv[3], nullptr, 0) : 1;
    if (what == "registers") return registers();
    if (what == "requests") return requests();
    if (what == "rate") return rate();
    if (what == "sata" && argc == 8 && SATA)
        return sata_rate(std::string(argv[2]) == "read", std::string(argv[3]) == "random", std::strtoul(argv[4], nullptr, 0),
                         std::strtoul(argv[5], nullptr, 0), std::strtoul(argv[6], nullptr, 0), std::strtoul(argv[7], nullptr, 0));
    if (what == "parallel" && argc == 3 && EXTERNAL) return parallel(seed);
    if (what == "linux" && argc == 4 && EXTERNAL) return as_linux(seed, many);
    if (what == "trace" && argc == 5 && EXTERNAL) return replay(seed, many, argv[4]);
    if (what == "random" && argc == 4) return Load(seed, many).run();
    if (what == "hostile" && argc == 4) return Nonsense(seed).run(many);
    if (what == "resets" && argc == 4) return resets(seed, many);
    std::fprintf(stderr, "usage: virtio_bench registers | requests | rate | sata read|write sequential|random BYTES DEPTH LATENCY REQUESTS | parallel SEED | linux SEED LATENCY | trace SEED LATENCY FILE | random SEED REQUESTS | hostile SEED ROUNDS | resets SEED ROUNDS\n");
    return 2;
}
