// Plays a driver of virtio_sim over a RAM disk.
//
// `virtio_bench registers`: the initialisation sequence, and every step of it done wrong.
// `virtio_bench requests`: each request type, its errors, the segments' borders.
// `virtio_bench random SEED REQUESTS`: queues, chains in rings and tables cut anywhere, event index, pauses.
// `virtio_bench hostile SEED ROUNDS`: rings of random nonsense; then the device must work again after a reset.
// `virtio_bench resets SEED ROUNDS`: resets in the middle of anything: no access after Status reads 0.
// `virtio_bench rate`: cycles of a 4 KiB request, and words a cycle of a 64 KiB one.
#include <algorithm>

#include "virtio_driver.hpp"

using namespace straightway;
using namespace straightway::virtio;

namespace {

constexpr uint64_t kBase = GuestMemory::kBase;
constexpr uint64_t kBuffers = kBase + 0x40000;
constexpr uint64_t kAll = 1ull << kIndirect | 1ull << kEventIndex | 1ull << kVersion1 | 1ull << kWriteZeroesFeature;

constexpr unsigned kUnit = BLOCK_SIZE_LOG2 > 9 ? 1u << BLOCK_SIZE_LOG2 : 512u, kSectors = kUnit / 512;
constexpr uint64_t kCapacity = (uint64_t(DISK_BLOCKS) * DISKS << BLOCK_SIZE_LOG2) / 512;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) fail(std::string(#condition " at line ") + std::to_string(__LINE__)); \
    } while (0)

// A bench with one queue that is ready.
struct Ready {
    Bus bus;
    GuestMemory memory;
    std::unique_ptr<Queue> queue;

    explicit Ready(uint64_t features = kAll, uint64_t seed = 1, unsigned size = 16, unsigned odd = 0) : bus(seed) {
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
            if (bus.cycle(), limit-- == 0) fail("the device never came to rest");
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
    // One request from header to status, by itself: the segments between header and status are the caller's.
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
    // The same for a chain that no device can answer.
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
    CHECK(bus.read(kConfig) == kCapacity);
    CHECK(bus.read(kConfig + 4) == 0 && bus.read(kConfig + 12) == 126);
    CHECK(bus.read(kConfig + 20) == kUnit);

    // FEATURES_OK only for what is offered, with VIRTIO_F_VERSION_1, after DRIVER.
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
    bus.write(kDriverFeatures, 1);  // after FEATURES_OK: without effect
    CHECK(bus.read(kStatus) == (kAcknowledge | kDriver | kFeaturesOk));

    // A queue: not before FEATURES_OK, not while it is ready; less than a word changes nothing.
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

    // A ring that cannot be: DEVICE_NEEDS_RESET at once, and an interrupt once the driver is running.
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
    // Borders anywhere, empty segments, the header and the data in one, the status behind the data.
    ready.header(data - 16, kTypeOut, 9 * kSectors);
    CHECK(ready.send({{data - 16, 5, false}, {data - 11, 0, false}, {data - 11, 13, false}, {data + 2, 2 * kUnit - 2, false},
                      {kBuffers + 33, 1, true}}).status == 0);
    ready.header(data - 16, kTypeIn, 9 * kSectors);
    std::memset(memory.at(back), 0, 3 * kUnit);
    *memory.at(back + 3 + 2 * kUnit) = 0xff;
    read = ready.send({{data - 16, 16, false}, {back + 3, 1, true}, {back + 4, kUnit + 1, true}, {back + 5 + kUnit, kUnit - 1, true}});
    CHECK(read.length == 2 * kUnit + 1 && *memory.at(back + 3 + 2 * kUnit) == 0);
    CHECK(!std::memcmp(memory.at(data), memory.at(back + 3), 2 * kUnit) && *memory.at(back + 2) == 0);
    // The name, whole and in part.
    for (unsigned room : {20u, 7u, 30u}) {
        std::memset(memory.at(back), 'x', 40);
        auto name = ready.ask(kTypeGetId, 0, {{back, room, true}});
        unsigned given = std::min(room, 20u);
        CHECK(name.status == 0 && name.length == given + (room <= 20));
        CHECK(!std::memcmp(memory.at(back), "straightway-virtio-0", given) && *memory.at(back + given) == 'x');
    }
    // Flushes: the driver's own; after each change where it did not accept them and the device has a cache.
    unsigned flushes = bus.top->flushes;
    CHECK(ready.ask(kTypeFlush, 0, {}).status == 0 && bus.top->flushes == flushes + 1);
    CHECK(ready.ask(kTypeOut, 0, {{data, kUnit, false}}).status == 0);
    CHECK(bus.top->flushes == flushes + (CACHED ? 2 : 1));
    if (CACHED) {
        ready.begin(kAll | 1ull << kFlushFeature);
        CHECK(ready.ask(kTypeOut, 0, {{data, kUnit, false}}).status == 0 && bus.top->flushes == flushes + 2);
    }
    // Ranges: zeroes in two places at once; discard, which this device has not.
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
    // What is refused, and why.
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
    // Memory that fails under data, under the header, in the disk; a disk that is away.
    memory.fault_from = back + 64, memory.fault_to = back + 68;
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 1);
    CHECK(ready.ask(kTypeOut, 0, {{back, kUnit, false}}).status == 1);
    memory.fault_from = kBuffers, memory.fault_to = kBuffers + 4;
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 1);
    memory.fault_to = 0;
    bus.top->fault = 1, bus.top->fault_address = 0;
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 1);
    bus.top->fault = 0;
    CHECK(ready.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 0);
    // A chain that no device can answer, or whose rings fail.
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

// --- Random requests on all queues -----------------------------------------------------------------

struct Flight {
    uint32_t type;
    uint64_t sector;
    std::vector<Segment> data;
    std::vector<uint8_t> expected;  // a read's
    uint64_t arena, status;
    unsigned good;                  // the status that it must have
};

class Load {
public:
    Load(uint64_t seed, unsigned requests) : random_(seed), bus_(seed), image_(kCapacity * 512), left_(requests) {
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
            // 8 KiB byte by byte, through pauses, are some 600,000 cycles.
            if (under_way_ && bus_.now > progress_ + 2000000) fail("requests were never answered");
        }
        CHECK(!(bus_.read(kStatus) & kNeedsReset));
        unsigned kicks = 0;
        for (Queue& queue : queues_) kicks += queue.kicks;
        std::printf("%llu cycles, %u kicks, %u interrupts\n", (unsigned long long)bus_.now, kicks, interrupts_);
        return 0;
    }

private:
    static constexpr unsigned kArenas = 12, kArena = 0xc000;

    // Cuts bytes into segments: mostly at multiples of 512, sometimes anywhere, sometimes empty.
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
        uint64_t header = flight.arena + 16 + random_.below(16), data = flight.arena + 0x100;
        bool whole = flight.type == kTypeIn || flight.type == kTypeOut;
        if (flight.type == kTypeOut && random_.percent(5)) flight.sector = kCapacity, flight.good = 1;
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
            if (flight.type == kTypeIn) flight.expected.assign(&image_[flight.sector * 512], &image_[flight.sector * 512 + length]);
            uint64_t at = flight.sector * 512;
            for (const Segment& segment : flight.data)
                for (uint32_t i = 0; i < segment.length; ++i, ++at) {
                    *memory_.at(segment.address + i) = uint8_t(random_.next());
                    if (flight.type == kTypeOut && !flight.good) image_[at] = *memory_.at(segment.address + i);
                }
            if (!flight.good) claim(flight.sector, blocks * kSectors);
        } else if (flight.type == kTypeGetId) {
            flight.data = cut(data, 20, true, 2);
            for (char letter : std::string("straightway-virtio-0")) flight.expected.push_back(letter);
        } else if (flight.type == kTypeWriteZeroes) {
            memory_.store<uint64_t>(data, flight.sector);
            memory_.store<uint32_t>(data + 8, blocks * kSectors);
            memory_.store<uint32_t>(data + 12, 0);
            flight.data = {{data, 16, false}};
            claim(flight.sector, blocks * kSectors);
            std::fill_n(image_.begin() + flight.sector * 512, blocks * kUnit, 0);
        }
        segments.insert(segments.end(), flight.data.begin(), flight.data.end());
        segments.push_back({flight.status, 1, true});
        *memory_.at(flight.status) = 0xff;
        size_t room = queue.room();
        bool indirect = random_.percent(50) || segments.size() > room;
        size_t direct = indirect ? random_.below(std::min(segments.size(), room)) : segments.size();
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
            CHECK(length == flight.expected.size() + 1);
            size_t at = 0;
            if (!flight.expected.empty())
                for (const Segment& segment : flight.data)
                    for (uint32_t i = 0; i < segment.length; ++i)
                        if (*memory_.at(segment.address + i) != flight.expected[at++]) fail("wrong data at byte " + std::to_string(at - 1));
            if (!flight.good && flight.type != kTypeFlush && flight.type != kTypeGetId) release(flight.sector);
            arenas_.push_back(flight.arena);
            --under_way_;
            progress_ = bus_.now;
        }
    }
    // Requests under way on different queues have no order, so none overlap.
    bool busy(uint64_t sector, uint64_t count) const {
        for (auto [from, length] : claims_)
            if (sector < from + length && from < sector + count) return true;
        return false;
    }
    void claim(uint64_t sector, uint64_t count) { claims_[sector] = count; }
    void release(uint64_t sector) { claims_.erase(sector); }

    Random random_;
    Bus bus_;
    GuestMemory memory_;
    std::vector<Queue> queues_;
    std::vector<std::map<unsigned, Flight>> flights_;
    std::vector<uint64_t> arenas_;
    std::vector<uint8_t> image_;
    std::map<uint64_t, uint64_t> claims_;
    uint64_t features_, progress_ = 0;
    unsigned left_, under_way_ = 0, interrupts_ = 0;
};

// --- Nonsense ---------------------------------------------------------------------------------------

class Nonsense {
public:
    explicit Nonsense(uint64_t seed) : random_(seed), ready_(kAll, seed) {}

    int run(unsigned rounds) {
        unsigned broken = 0, returned = 0;
        for (unsigned round = 0; round < rounds; ++round) {
            ready_.bus.stall_percent = random_.percent(30) ? random_.below(40) : 0;
            ready_.begin(random_.percent(80) ? kAll : kAll & ~(1ull << kIndirect), 4u << random_.below(4), random_.below(3));
            fill();
            ready_.queue->kick();
            ready_.until_idle();
            bool needs_reset = ready_.bus.read(kStatus) & kNeedsReset;
            uint16_t used = ready_.memory.load<uint16_t>(ready_.queue->device + 2);
            uint16_t available = ready_.memory.load<uint16_t>(ready_.queue->driver + 2);
            if (!needs_reset && used != available) fail("chains were left without a word: " + std::to_string(used) + " of " + std::to_string(available) + " in round " + std::to_string(round));
            broken += needs_reset;
            returned += used;
            // It works as ever after a reset.
            ready_.bus.stall_percent = 0;
            ready_.begin(kAll);
            GuestMemory& memory = ready_.memory;
            uint64_t data = kBuffers + 0x1000, back = kBuffers + 0x8000;
            for (unsigned i = 0; i < kUnit; ++i) *memory.at(data + i) = uint8_t(random_.next());
            CHECK(ready_.ask(kTypeOut, 0, {{data, kUnit, false}}).status == 0);
            CHECK(ready_.ask(kTypeIn, 0, {{back, kUnit, true}}).status == 0);
            CHECK(!std::memcmp(memory.at(data), memory.at(back), kUnit));
        }
        if (rounds >= 100 && (broken < rounds / 4 || returned < rounds / 4)) fail("the nonsense is not varied");
        std::printf("%u rounds: %u broken, %u chains returned\n", rounds, broken, returned);
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
    // What a descriptor names may be read or written, as it says; a table's descriptors too.
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
        // Headers everywhere that make sense more often than not; and tables.
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
        // No segment is in the rings: they would change while the grants do not.
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

// --- Resets -----------------------------------------------------------------------------------------

int resets(uint64_t seed, unsigned rounds) {
    Random random(seed);
    Ready ready(kAll, seed);
    uint64_t data = kBuffers + 0x1000;
    unsigned ended = 0;
    for (unsigned round = 0; round < rounds; ++round) {
        ready.begin(kAll);
        ready.bus.stall_percent = random.below(50);
        ready.bus.latency = random.below(30);
        uint32_t bytes = kUnit * (1 + random.below(16384 / kUnit));
        bool in = random.percent(50);
        ready.header(kBuffers, in ? kTypeIn : kTypeOut, 0);
        *ready.memory.at(kBuffers + 33) = 0xff;
        ready.queue->add({{kBuffers, 16, false}, {data, bytes, in}, {kBuffers + 33, 1, true}}, random.below(4), kBuffers + 0x100);
        ready.queue->kick();
        for (uint64_t i = random.below(bytes / 2 + 1000); i; --i) ready.bus.cycle();
        ended += *ready.memory.at(kBuffers + 33) == 0;
        uint64_t before = ready.bus.now;
        reset(ready.bus);
        // What AXI has begun is finished, so a burst or two, however long the request is.
        if (ready.bus.now - before > 8000) fail("a reset took " + std::to_string(ready.bus.now - before) + " cycles");
        ready.memory.frozen = true;
        for (int i = 0; i < 500; ++i) ready.bus.cycle();
        ready.memory.frozen = false;
        ready.bus.stall_percent = 0;
        ready.begin(kAll);
        CHECK(ready.ask(kTypeIn, 0, {{data, kUnit, true}}).status == 0);
    }
    std::printf("%u of %u requests had ended\n", ended, rounds);
    return 0;
}

int rate() {
    Ready ready(kAll, 1, 128);
    uint64_t data = kBuffers + 0x1000;
    for (auto [name, type] : {std::pair{"read", kTypeIn}, std::pair{"write", kTypeOut}}) {
        for (uint32_t bytes : {4096u, 65536u}) {
            constexpr unsigned kRequests = 8;
            for (unsigned i = 0; i < kRequests; ++i) {
                uint64_t header = kBuffers + 64 * i;
                ready.header(header, type, 0);
                ready.queue->add({{header, 16, false}, {data, bytes, type == kTypeIn}, {header + 16, 1, true}}, 0, header + 0x800 + 64 * i);
            }
            ready.queue->kick();
            unsigned head;
            uint32_t length;
            uint64_t first = 0, last = 0;
            for (unsigned got = 0; got < kRequests; ready.bus.cycle())
                while (ready.queue->take(head, length)) {
                    last = ready.bus.now;
                    if (got++ == 0) first = last;
                }
            ready.until_idle();
            std::printf("%s %u %.1f\n", name, bytes, double(last - first) / (kRequests - 1));
        }
    }
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
    if (what == "random" && argc == 4) return Load(seed, many).run();
    if (what == "hostile" && argc == 4) return Nonsense(seed).run(many);
    if (what == "resets" && argc == 4) return resets(seed, many);
    std::fprintf(stderr, "usage: virtio_bench registers | requests | rate | random SEED REQUESTS | hostile SEED ROUNDS | resets SEED ROUNDS\n");
    return 2;
}
