// SPDX-License-Identifier: Apache-2.0 OR MIT
// The core with its registers, tables, memory and drive.
#pragma once

#include "block_device.hpp"
#include "sata/sata_drive.hpp"
#include "smmu_masters.hpp"
#include "smmu_registers.hpp"

namespace straightway::smmu {

const unsigned kPageLog2 = PAGE_LOG2, kFrames = FRAMES, kDrivePages = DRIVE_PAGES;
const uint64_t kPage = 1ull << kPageLog2, kBlockBytes = 1ull << BLOCK_SIZE_LOG2, kTables = 0x10000, kFrameBase = 0x100000;

struct System {
    std::unique_ptr<sata::Drive> sata_drive;  // destroyed after the bus
    sata::Word sata_word{};
    Bus bus;
    Frames memory;
    Masters masters;
    std::unique_ptr<BlockDevice> drive;
    // The request to the drive, and the access of the port of pages and tables, that fails; none: never.
    uint64_t fail_request = ~0ull, fail_access = ~0ull, requests = 0, accesses = 0;
    bool injected = false;
    std::vector<uint8_t> start;  // the drive's contents at the start

    explicit System(uint64_t seed, DeviceModel model = {}) : bus(seed), masters(bus, memory, seed) {
        masters.low = kFrameBase, masters.high = kFrameBase + kFrames * kPage;
        bus.memory.read = [this](uint64_t address, uint32_t& word) {
            word = *memory.word(address);
            return access();
        };
        bus.memory.write = [this](uint64_t address, uint32_t word, unsigned strobe) {
            bool good = access();
            if (good) memory.put(address, word, strobe);
            return good;
        };
        Random random(seed + 5);
        start.resize(kDrivePages * kPage);
        for (auto& byte : start) byte = uint8_t(random.next());
        if (EXTERNAL) {
            model.block_bytes = kBlockBytes;
            model.block_count = kDrivePages * kPage / kBlockBytes;
            model.journal = true;
            drive = std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*bus.top, , ), model, seed, start);
        }
        if (SATA) {
            sata::DriveModel sata_model;
            sata_model.blocks = kDrivePages * kPage / kBlockBytes;
            sata_drive = std::make_unique<sata::Drive>(sata_model, seed);
        }
        bus.each = [this] {
            if (sata_drive) sata_word = sata_drive->step({bus.top->sata_tx_data, bool(bus.top->sata_tx_k)}, bus.top->sata_reset);
            masters.sample();
            if (drive) sample_drive();
        };
        bus.driven = [this] {
            masters.drive();
            if (sata_drive) drive_sata();
            if (drive) drive->drive();
        };
        while (~bus.read(kStatusRegister) & (kStarted | kReady)) bus.cycle();
        bus.write64(kFramesLow, kFrameBase);
        CHECK(bus.response == 0);
    }
    bool access() {
        if (accesses++ != fail_access) return true;
        injected = true;
        return false;
    }
    void drive_sata() {
        bus.top->sata_rx_data = sata_word.data, bus.top->sata_rx_k = sata_word.k, bus.top->sata_rx_bad = sata_word.bad;
        bus.top->sata_up = sata_drive->up();
    }
    void sample_drive() {
        auto& t = *bus.top;
        bool fails = t.req_valid && t.req_ready && requests++ == fail_request;
        if (fails) {
            injected = true;
            drive->bad_flush = true;
            for (uint32_t i = 0; i < std::max(1u, t.req_count); ++i) drive->bad_reads.insert(t.req_lba + i), drive->bad_writes.insert(t.req_lba + i);
        }
        drive->sample();
        if (fails) drive->bad_reads.clear(), drive->bad_writes.clear(), drive->bad_flush = false;
    }

    void set_context(unsigned number, unsigned table, uint32_t pages, bool read, bool write) {
        smmu::set_context(bus, number, table, kTables + 0x1000 * number, pages, read, write);
    }
    uint32_t& table(unsigned number, unsigned page) { return *memory.word(kTables + 0x1000 * number + 4 * page); }
    void enable(bool on = true) { bus.write(kControl, on); }

    // Runs until every access has ended. Fails if one does not.
    void settle(uint64_t limit = 2000000) {
        while (masters.open != 0)
            if (bus.cycle(), limit-- == 0) fail("an access did not end");
    }
    Shared run(Access access) {
        Shared shared = masters.start(std::move(access));
        settle();
        return shared;
    }
    Shared load(unsigned context, uint64_t address, unsigned words = 1, unsigned id = 0) {
        Access access;
        access.context = context, access.address = address, access.len = words - 1, access.id = id;
        return run(access);
    }
    static Access store_access(unsigned context, uint64_t address, std::vector<uint32_t> words) {
        Access access;
        access.write = true, access.context = context, access.address = address, access.len = words.size() - 1;
        access.strobes.assign(words.size(), 15);
        access.words = std::move(words);
        return access;
    }
    Shared store(unsigned context, uint64_t address, uint32_t word) { return run(store_access(context, address, {word})); }

    // Whether the command ended well.
    bool command(Command what, uint64_t limit = 4000000) {
        bus.write(kCommand, what);
        CHECK(bus.response == 0);
        uint32_t status;
        while ((status = bus.read(kStatusRegister)) & kBusy)
            if (limit-- == 0) fail("a command did not end");
        CHECK(status & kFinished);
        return !(status & kError);
    }
    bool take_log(Logged& logged) {
        return smmu::take_log(bus, logged);
    }
    uint32_t word_on_drive(uint64_t at) const {
        uint32_t word;
        std::memcpy(&word, &drive->bytes()[at], 4);
        return word;
    }
};

}  // namespace straightway::smmu
