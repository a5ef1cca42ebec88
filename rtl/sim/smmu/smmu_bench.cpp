// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tests of the storage memory management unit: each register and reason; random accesses; a fault at each request to the
// drive and each access to the memory; a drive that leaves and returns; cycles of hits, misses and streams.
#include "smmu_load.hpp"
#include "smmu_rates.hpp"

namespace straightway::smmu {
namespace {

// Contexts 0 and 1 (read only) with table 0: page p is page p of the drive.
void map_all(System& system, unsigned pages = kDrivePages) {
    for (unsigned i = 0; i < pages; ++i) system.table(0, i) = entry(kOnDrive, true, i);
    system.set_context(0, 0, pages, true, true);
    system.set_context(1, 0, pages, true, false);
    system.enable();
    CHECK(system.bus.response == 0);
}

int registers() {
    System system(1);
    Bus& bus = system.bus;
    CHECK(bus.read(kId) == 0x534d4d55 && bus.read(kShape) == (WINDOW_BITS << 24 | kPageLog2 << 16 | kFrames));
    CHECK(bus.read(kFramesLow) == kFrameBase && bus.read(kFramesCount) == kFrames && bus.read(kControl) == 0);
    auto refused = [&](uint32_t at, uint32_t value) { bus.write(at, value); return bus.response == 2; };
    CHECK(refused(kFramesLow, kFrameBase + 4) && refused(kFramesLow + 4, 1 << 16) && bus.read(kFramesLow) == kFrameBase);
    CHECK(refused(kFramesCount, 3) && refused(kFramesCount, kFrames + 1) && refused(kDirtyLimit, kFrames + 1));
    CHECK(refused(kCommand, 0) && refused(kCommand, 4) && refused(kDirty, 0) && refused(kContexts + 0x80, 1) && refused(0xffc, 0));
    bus.read(0x7c);
    CHECK(bus.response == 2);
    bus.write(kControl, 1, 1);
    CHECK(bus.response == 2 && bus.read(kControl) == 0);
    map_all(system);
    CHECK(refused(kFramesLow, 0) && refused(kFramesCount, 8) && bus.read(kFramesCount) == kFrames);
    CHECK(bus.read(kStatusRegister) == (kReady | kUsable | kStarted));
    bus.write(kAhead, 99);
    CHECK(bus.read(kAhead) == 15);
    bus.write(kControl, 3);
    CHECK(!bus.top->irq);
    CHECK(system.load(7, 0)->response == 2 && bus.top->irq);
    Logged logged;
    CHECK(system.take_log(logged) && logged.reason == kContext && logged.about == 7 && !bus.top->irq);
    CHECK(system.command(kDropPages) && bus.top->irq);
    bus.write(kStatusRegister, kFinished);
    CHECK(!bus.top->irq);
    // The log is full: the first sixteen stay, the others are counted.
    for (unsigned i = 0; i < 20; ++i) CHECK(system.load(7, 4 * i)->response == 2);
    CHECK(bus.read(kLogLost) == 4);
    for (unsigned i = 0; i < 16; ++i) CHECK(system.take_log(logged) && logged.address == 4 * i);
    CHECK(!system.take_log(logged));
    return 0;
}

int refusals() {
    System system(2);
    Bus& bus = system.bus;
    map_all(system, 32);
    auto expect = [&](const Shared& access, unsigned reason) {
        Logged logged;
        if (reason == kNone) {
            CHECK(access->response == 0);
        } else {
            CHECK(access->response == 2 && system.take_log(logged));
            if (logged.reason != reason) fail("reason " + std::to_string(logged.reason) + " in place of " + std::to_string(reason));
            CHECK(logged.address == access->address && logged.about == access->context && logged.write == access->write);
        }
        CHECK(!system.take_log(logged));
    };
    auto form = [&](unsigned burst, unsigned size, unsigned len, uint64_t address, unsigned reason) {
        for (bool write : {false, true}) {
            Access access;
            access.write = write, access.burst = burst, access.size = size, access.len = len, access.address = address;
            access.words.assign(write ? len + 1 : 0, 0), access.strobes.assign(len + 1, 0);
            expect(system.run(access), reason);
        }
    };
    form(kIncr, 2, 0, 0, kNone), form(kIncr, 2, 255, 0, kNone), form(kWrap, 2, 3, 12, kNone), form(kIncr, 0, 0, 3, kNone);
    // Fixed, narrow and unaligned ones, to the last byte of a 4 KiB block.
    form(kFixed, 2, 0, 8, kNone), form(kFixed, 2, 1, 8, kNone), form(kFixed, 1, 15, 3, kNone), form(kWrap, 0, 15, 5, kNone);
    form(kIncr, 1, 1, 0, kNone), form(kIncr, 0, 255, 4096 - 256, kNone), form(kIncr, 2, 0, 2, kNone), form(kIncr, 1, 0, 1, kNone);
    form(kIncr, 2, 7, 4096 - 29, kNone), form(kIncr, 2, 0, 4095, kNone), form(kFixed, 2, 15, 4095, kNone);
    // What AXI4 forbids.
    form(kIncr, 2, 7, 4096 - 28, kBurst), form(kIncr, 2, 15, 4096 - 32, kBurst), form(kIncr, 2, 1, 4092, kBurst);
    form(kIncr, 0, 255, 4096 - 255, kBurst), form(kFixed, 2, 16, 8, kBurst), form(kIncr, 3, 0, 0, kBurst), form(3, 2, 0, 0, kBurst);
    form(kWrap, 2, 4, 0, kBurst), form(kWrap, 2, 3, 2, kBurst), form(kWrap, 1, 0, 0, kBurst);
    // The bytes of each form, of a page that the drive gave and of a store that it got.
    auto place = [&](Access access) {
        access.address += 2 * kPage;
        Shared read = system.run(access);
        std::vector<uint8_t> bytes(&system.start[2 * kPage], &system.start[2 * kPage] + kPage);
        access.write = true;
        for (unsigned i = 0; i <= access.len; ++i) {
            uint32_t was;
            uint64_t at = access.beat(i) - 2 * kPage & ~3ull;
            std::memcpy(&was, &bytes[at], 4);
            CHECK(((read->words[i] ^ was) & access.lane_mask(i)) == 0);
        }
        for (unsigned i = 0; i <= access.len; ++i) {
            uint64_t at = access.beat(i) - 2 * kPage & ~3ull;
            access.words.push_back(0x01020304 * (i + 1)), access.strobes.push_back(access.lanes(i));
            for (unsigned lane = 0; lane < 4; ++lane)
                if (access.lanes(i) >> lane & 1) bytes[at + lane] = uint8_t(access.words[i] >> 8 * lane);
        }
        CHECK(system.run(access)->response == 0);
        CHECK(system.command(kFlushPages) && !std::memcmp(&system.drive->bytes()[2 * kPage], bytes.data(), kPage));
        std::memcpy(&system.start[2 * kPage], bytes.data(), kPage);
    };
    for (unsigned burst : {kFixed, kIncr, kWrap})
        for (unsigned size = 0; size < 3; ++size)
            for (unsigned offset = 0; offset < 4; ++offset)
                for (unsigned len : {0u, 1u, 3u, 15u}) {
                    if (burst == kWrap && (len == 0 || offset % (1u << size))) continue;
                    Access access;
                    access.burst = burst, access.size = size, access.len = len, access.address = 64 * size + offset;
                    place(access);
                }
    expect(system.load(0, 31 * kPage), kNone), expect(system.load(0, 32 * kPage), kRange);
    expect(system.load(0, 1ull << WINDOW_BITS), kRange), expect(system.load(0, 1ull << 47), kRange);
    expect(system.load(1, 0), kNone), expect(system.store(1, 0, 1), kRights), expect(system.load(5, 0), kContext);
    system.table(0, 3) = entry(kOnDrive, false, 3);
    expect(system.load(0, 3 * kPage), kNone), expect(system.store(0, 3 * kPage, 1), kRights);
    system.table(0, 4) = 0, system.table(0, 5) = entry(kOnDrive, true, kDrivePages);
    system.table(0, 6) = 0xffffffff, system.table(0, 7) = entry(kInFrame, true, 0), system.table(0, 8) = entry(kInFrame, true, 4000);
    expect(system.load(0, 4 * kPage), kUnmapped), expect(system.load(0, 5 * kPage), kDrive);
    for (unsigned page : {6u, 7u, 8u}) expect(system.load(0, page * kPage), kTable);
    // A table that names another page's frame.
    expect(system.load(0, 9 * kPage), kNone);
    system.table(0, 10) = system.table(0, 9);
    expect(system.store(0, 10 * kPage, 1), kTable);
    // A table that cannot be read.
    system.fail_access = system.accesses;
    expect(system.load(0, 11 * kPage), kTable), expect(system.load(0, 11 * kPage), kNone);
    // A page that cannot be read: poisoned until it is dropped.
    system.fail_request = system.requests;
    Shared poisoned = system.load(0, 12 * kPage);
    Logged logged;
    CHECK(system.take_log(logged) && logged.reason == kReadFailed && logged.about == kDevice && logged.address == 12 * kPage);
    expect(poisoned, kPoisoned), expect(system.load(0, 12 * kPage), kPoisoned), expect(system.store(0, 12 * kPage, 1), kPoisoned);
    CHECK(system.command(kDropPages));
    expect(system.load(0, 12 * kPage), kNone);
    // A memory that does not take a page.
    system.fail_access = system.accesses + 40;
    poisoned = system.load(0, 13 * kPage);
    CHECK(system.take_log(logged) && logged.reason == kReadFailed && logged.address == 13 * kPage);
    expect(poisoned, kPoisoned);
    // The same for the page's last word, whose answer comes after the drive's.
    for (unsigned page = 14; page < 20; ++page) {
        system.bus.stall_percent = 70;
        system.fail_access = system.accesses + 1 + kPage / 4;
        poisoned = system.load(0, page * kPage);
        CHECK(system.take_log(logged) && logged.reason == kReadFailed && logged.address == page * kPage);
        expect(poisoned, kPoisoned);
        system.bus.stall_percent = 0;
    }
    // A drive that may only be read, and none.
    auto exchange = [&](bool read_only) {
        CHECK(system.command(kFlushPages));
        bus.top->away = 1;
        bus.cycle();
        expect(system.load(0, 30 * kPage), kGoneAway);
        bus.top->read_only = read_only, bus.top->generation = bus.top->generation + 1, bus.top->away = 0;
        bus.cycle();
        expect(system.load(0, 30 * kPage), kGoneAway);
        system.enable(false);
        expect(system.load(0, 0), kContext);
        system.enable();
        CHECK(bus.response == 2 && system.command(kDropPages));
        system.enable();
        CHECK(bus.response == 0);
    };
    exchange(true);
    expect(system.store(0, 0, 1), kRights), expect(system.load(0, 0), kNone);
    exchange(false);
    expect(system.store(0, 0, 1), kNone);
    // A dirty page whose write fails is kept, reported, and written by the next flush.
    bus.write(kDirtyLimit, kFrames);
    expect(system.store(0, 20 * kPage + 8, 0), kNone);
    CHECK(system.command(kFlushPages) && bus.read(kDirty) == 0);
    expect(system.store(0, 20 * kPage + 8, 0x12345678), kNone);
    CHECK(bus.read(kDirty) == 1);
    system.fail_request = system.requests;
    CHECK(!system.command(kFlushPages) && bus.read(kFailed) == 1 && bus.read(kDirty) == 0);
    CHECK(system.take_log(logged) && logged.reason == kWriteFailed && logged.address == 20 * kPage && logged.write);
    CHECK(system.load(0, 20 * kPage + 8)->words[0] == 0x12345678);
    CHECK(system.command(kDropPages) && bus.read(kFailed) == 1);
    CHECK((bus.read(kStatusRegister) & kLost) && system.command(kFlushPages) && bus.read(kFailed) == 0);
    CHECK(system.word_on_drive(20 * kPage + 8) == 0x12345678);
    bus.write(kStatusRegister, kLost);
    CHECK(!(bus.read(kStatusRegister) & kLost));
    // A flush that fails.
    system.fail_request = system.requests;
    CHECK(!system.command(kFlushPages) && system.command(kFlushPages));
    // All frames are dirty and none can be written: a miss is refused, hits go on.
    std::set<uint64_t> all;
    for (uint64_t i = 0; i < kDrivePages * kPage / kBlockBytes; ++i) all.insert(i);
    CHECK(system.command(kDropPages));
    system.drive->bad_writes = all;
    std::vector<unsigned> kept;
    for (unsigned page = 0; page < 32; ++page) {
        if ((page >= 4 && page <= 10) || page == 3 || page == 13) continue;
        system.drive->bad_writes = all;
        Shared store = system.store(0, page * kPage, 0x1000 + page);
        if (store->response == 0) kept.push_back(page);
        while (system.take_log(logged)) {}
        if (store->response) break;
    }
    CHECK(kept.size() == std::min(kFrames, 23u));
    if (kept.size() == kFrames) expect(system.load(0, 31 * kPage), kNoFrame);
    for (unsigned page : kept) CHECK(system.load(0, page * kPage)->words[0] == 0x1000 + page);
    system.drive->bad_writes.clear();
    CHECK(system.command(kFlushPages));
    for (unsigned page : kept) CHECK(system.word_on_drive(page * kPage) == 0x1000 + page);
    while (system.take_log(logged)) {}
    expect(system.load(0, 31 * kPage), kNone);
    // After a reset, entries that name frames are refused until software writes them again, though memory has the pages.
    expect(system.load(0, 21 * kPage), kNone);
    CHECK(system.table(0, 21) >> 30 == kInFrame);
    system.bus.reset();
    while (~bus.read(kStatusRegister) & (kStarted | kReady)) bus.cycle();
    bus.write64(kFramesLow, kFrameBase);
    system.set_context(0, 0, 32, true, true);
    system.enable();
    expect(system.load(0, 21 * kPage), kTable);
    system.table(0, 21) = entry(kOnDrive, true, 21);
    expect(system.load(0, 21 * kPage), kNone);
    return 0;
}

int random_load(uint64_t seed, unsigned many) {
    Random random(seed + 1000);
    DeviceModel model;
    model.reorder = random.percent(70);
    model.read_latency = random.below(400), model.write_latency = random.below(400);
    model.stall_percent = random.percent(50) ? random.below(50) : 0;
    model.reads_first = random.percent(20), model.writes_first = !model.reads_first && random.percent(20);
    Load load(seed, model);
    for (unsigned round = 0; round < 4; ++round) {
        load.run(many / 4);
        if (round == 1) CHECK(load.system.command(kDropPages));
        CHECK(load.system.command(kFlushPages));
        load.check_drive();
        load.shake();
    }
    load.check_log();
    std::printf("%u accesses, %u refused, %u pages read, %u written\n", load.accesses, load.refused,
                load.system.bus.read(kFills), load.system.bus.read(kPageWrites));
    return 0;
}

// A fault at the n-th request to the drive, or at the n-th access to pages and tables.
int faults(uint64_t seed, unsigned rounds) {
    Random random(seed + 2000);
    for (unsigned round = 0; round < rounds; ++round) {
        Load load(seed + round, {});
        bool memory = random.percent(50);
        // In sight of the first evictions.
        if (memory) load.system.fail_access = random.percent(50) ? random.below(100) : random.below(60 * kPage / 4);
        else load.system.fail_request = random.below(40);
        load.run(150);
        bool flushed = load.system.command(kFlushPages);
        CHECK(flushed || load.system.injected);
        // Once nothing fails, all that was stored is on the drive.
        load.system.fail_access = load.system.fail_request = ~0ull;
        CHECK(load.system.command(kFlushPages) && load.system.bus.read(kDirty) == 0 && load.system.bus.read(kFailed) == 0);
        load.check_drive();
        load.check_log();
    }
    return 0;
}

// The drive leaves under load, and returns as another one.
int leave(uint64_t seed, unsigned rounds) {
    for (unsigned round = 0; round < rounds; ++round) {
        Random random(seed + round + 3000);
        DeviceModel model;
        model.read_latency = model.write_latency = random.below(2000);
        Load load(seed + round, model);
        System& system = load.system;
        load.run(random.below(100));
        unsigned wait = random.below(3000);
        auto driven = system.bus.driven;
        system.bus.driven = [&, driven] {
            driven();
            if (wait != 0 && --wait == 0) system.injected = system.drive->away = system.bus.top->away = true;
        };
        load.run(150);
        while (wait != 0) system.bus.cycle();
        CHECK(!system.command(kFlushPages));
        CHECK(!(system.bus.read(kStatusRegister) & kUsable));
        // Another drive is there: it gets nothing of the first one's, and accesses wait for the software.
        for (unsigned i = 0; i < 3000 || !system.drive->is_idle(); ++i) system.bus.cycle();
        std::vector<uint8_t> before = system.drive->bytes();
        system.drive->away = system.bus.top->away = false;
        system.bus.top->generation = 1 + round % 15;
        load.run(50);
        bool dirty = system.bus.read(kDirty) + system.bus.read(kFailed) != 0;
        CHECK(!system.command(kFlushPages) && system.drive->bytes() == before);
        system.enable(false);
        system.enable();
        CHECK(system.bus.response == 2);
        if (dirty) {
            CHECK(system.command(kDropPages));
            system.enable();
            CHECK(system.bus.response == 2);
        }
        CHECK(system.command(kDiscardPages) && system.bus.read(kDirty) == 0 && system.bus.read(kFailed) == 0);
        system.enable();
        CHECK(system.bus.response == 0 && (system.bus.read(kStatusRegister) & kUsable) && system.drive->bytes() == before);
        CHECK(system.command(kFlushPages));
        load.drain_log();
    }
    return 0;
}

// A master that copies within the window takes no read data until its writes have ended: nothing else may depend on it, and the
// frames that it reads from stay. Likewise one that gives no write data until other pages were read.
int stalled() {
    System system(4);
    map_all(system, 40);
    system.bus.write(kDirtyLimit, 0);
    for (unsigned round = 0; round < 3; ++round) {
        system.masters.hold_reads = true;
        Access access;
        access.len = 15;
        std::vector<Shared> held;
        for (unsigned i = 0; i < 3; ++i) {
            access.address = i * kPage, access.id = i;
            held.push_back(system.masters.start(access));
        }
        for (unsigned page = 0; page < 40; ++page) system.masters.start(system.store_access(0, page * kPage + 64, {page + round}));
        uint64_t limit = 3000000;
        while (system.masters.open > 3)
            if (system.bus.cycle(), limit-- == 0) fail("writes wait for reads");
        system.masters.hold_reads = false;
        system.settle();
        for (const Shared& read : held) CHECK(!std::memcmp(read->words.data(), &system.start[read->address], 64));
    }
    system.masters.hold_writes = true;
    Shared store = system.masters.start(system.store_access(0, 5 * kPage + 128, {0xabcd}));
    for (unsigned page = 8; page < 40; ++page) {
        Access access;
        access.address = page * kPage;
        Shared load = system.masters.start(access);
        for (uint64_t limit = 100000; !load->done; system.bus.cycle())
            if (limit-- == 0) fail("reads wait for a write's data");
    }
    system.masters.hold_writes = false;
    system.settle();
    CHECK(system.load(0, 5 * kPage + 128)->words[0] == 0xabcd);
    // Commands end while masters use one page all the time.
    system.bus.write(kDirtyLimit, kFrames);
    system.masters.latency = 60;
    std::array<Shared, 12> busy;
    auto driven = system.bus.driven;
    system.bus.driven = [&, driven] {
        driven();
        for (unsigned i = 0; i < busy.size(); ++i) {
            if (busy[i] && !busy[i]->done) continue;
            Access load;
            load.address = 6 * kPage;
            busy[i] = system.masters.start(i % 2 ? load : system.store_access(0, 7 * kPage + 256, std::vector<uint32_t>(64, 7)));
        }
    };
    for (int i = 0; i < 3000; ++i) system.bus.cycle();
    CHECK(system.command(kFlushPages, 20000) && system.command(kDropPages, 20000));
    system.bus.driven = driven;
    system.settle();
    CHECK(system.command(kFlushPages));
    for (unsigned page = 0; page < 40; ++page) CHECK(system.word_on_drive(page * kPage + 64) == page + 2);
    CHECK(system.word_on_drive(5 * kPage + 128) == 0xabcd);
    return 0;
}

// The same over a RAM disk or an array: what is stored comes back, through more pages than frames.
int disks(uint64_t seed) {
    System system(seed);
    map_all(system);
    for (unsigned pass = 0; pass < 2; ++pass)
        for (unsigned page = 0; page < kDrivePages; ++page) {
            uint64_t at = page * kPage + 4 * (page + pass);
            if (pass) CHECK(system.load(0, at - 4)->words[0] == page * 3 + 1);
            CHECK(system.store(0, at, page * 3 + 1 + pass)->response == 0);
        }
    CHECK(system.command(kFlushPages) && system.command(kDropPages));
    for (unsigned page = 0; page < kDrivePages; ++page)
        CHECK(system.load(1, page * kPage + 4 * page, 2)->words == (std::vector<uint32_t>{page * 3 + 1, page * 3 + 2}));
    return 0;
}

}  // namespace
}  // namespace straightway::smmu

int main(int argc, char** argv) {
    using namespace straightway::smmu;
    std::string what = argc > 1 ? argv[1] : "";
    uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 1;
    unsigned many = argc > 3 ? std::strtoul(argv[3], nullptr, 0) : 1;
    if (what == "registers") return registers();
    if (what == "refusals" && EXTERNAL) return refusals();
    if (what == "stalled" && EXTERNAL) return stalled();
    if (what == "disks") return disks(seed);
    if (what == "rates" && EXTERNAL) return rates();
    if (what == "random" && argc == 4) return random_load(seed, many);
    if (what == "faults" && argc == 4) return faults(seed, many);
    if (what == "leave" && argc == 4) return leave(seed, many);
    std::fprintf(stderr, "usage: smmu_bench registers | refusals | stalled | disks SEED | rates | random SEED ACCESSES | faults SEED ROUNDS | leave SEED ROUNDS\n");
    return 2;
}
