// SPDX-License-Identifier: Apache-2.0 OR MIT
// Random accesses of several masters, compared with a scalar model: every word that is loaded is the one that was stored last.
//
// Accesses to the same word are never under way together, because AXI gives them no order. A refused access is expected where
// the model knows a reason; where faults are injected, an error is allowed, but never a wrong word.
#pragma once

#include <algorithm>
#include <map>

#include "smmu_system.hpp"

namespace straightway::smmu {

class Load {
public:
    System system;
    Random random;
    unsigned accesses = 0, refused = 0, logged = 0;

    Load(uint64_t seed, DeviceModel model) : system(seed, model), random(seed), model_(system.start) {
        if (!EXTERNAL) fail("random loads need a drive of the bench's");
        // Each page of the drive is in one table at most. Contexts 0 and 1 share a table, 2 has its own, 3 may only read.
        std::vector<uint32_t> numbers(kDrivePages);
        for (unsigned i = 0; i < kDrivePages; ++i) numbers[i] = i;
        for (unsigned i = kDrivePages - 1; i > 0; --i) std::swap(numbers[i], numbers[random.below(i + 1)]);
        unsigned next = 0;
        for (unsigned in : {0u, 2u}) {
            for (unsigned page = 0; page < kPages; ++page) {
                Mapped mapped{Mapped::kGood, next < kDrivePages ? numbers[next] : 0, !random.percent(15)};
                if (random.percent(4) || next == kDrivePages) mapped.what = Mapped::kNothing;
                else if (random.percent(4)) mapped.what = Mapped::kBeyond;
                else ++next;
                uint32_t number = mapped.what == Mapped::kBeyond ? kDrivePages + random.below(100) : mapped.number;
                system.table(in, page) = mapped.what == Mapped::kNothing ? 0 : entry(kOnDrive, mapped.writable, number);
                mapped_[in].push_back(mapped);
            }
        }
        system.set_context(0, 0, kPages, true, true);
        system.set_context(1, 0, kPages / 2, true, false);
        system.set_context(2, 2, kPages - 1, true, true);
        system.set_context(3, 2, kPages, false, true);
        system.bus.write(kDirtyLimit, random.below(kFrames));
        system.bus.write(kAhead, random.percent(50) ? random.below(4) : 0);
        system.enable();
        shake();
    }

    void shake() {
        system.bus.stall_percent = random.percent(50) ? random.below(60) : 0;
        system.masters.stall_percent = random.percent(50) ? random.below(60) : 0;
        system.bus.latency = random.below(30);
        system.masters.latency = random.below(30);
        focus_ = random.below(kPages);
    }

    // Starts accesses, at most `depth` at the same time.
    void run(unsigned many, unsigned depth = 8) {
        for (unsigned i = 0; i < many; ++i) {
            uint64_t limit = 4000000;
            while (system.masters.open >= depth)
                if (system.bus.cycle(), collect(), limit-- == 0) fail("no access ends");
            begin();
            for (uint64_t wait = random.percent(20) ? random.below(100) : 0; wait; --wait) system.bus.cycle();
            collect();
            if (i % 16 == 15) drain_log();
        }
        system.settle(8000000);
        collect();
        drain_log();
    }
    // Each refusal was reported, with its reason and address, or counted where the log was full.
    void drain_log() {
        Logged found;
        while (system.take_log(found)) {
            ++logged;
            if (found.reason == kReadFailed || found.reason == kWriteFailed) {
                CHECK(found.address < kDrivePages * kPage);
                ++failures;
            }
        }
    }
    void check_log() {
        drain_log();
        unsigned lost = system.bus.read(kLogLost);
        CHECK(logged + lost >= refused);
        if (lost == 0) CHECK(logged == refused + failures);
    }
    unsigned failures = 0;

    // After a good flush, the drive has every page that the model has; and so has what a power cut leaves.
    void check_drive() {
        CHECK(system.drive->bytes() == model_);
        CHECK(system.drive->cut(BlockDevice::kLost, random) == model_);
    }

private:
    static constexpr unsigned kPages = 24;
    struct Mapped {
        enum { kGood, kNothing, kBeyond } what;
        uint32_t number;
        bool writable;
    };
    struct Open {
        Shared access;
        std::vector<uint64_t> at;          // of each beat's word on the drive
        std::vector<uint32_t> expected;
        unsigned reason;
    };

    static unsigned table_of(unsigned context) { return context < 2 ? 0 : 2; }
    unsigned expected_reason(const Access& access, bool odd) {
        if (odd) return kBurst;
        if (access.context > 3) return kContext;
        uint64_t page = access.address >> kPageLog2;
        const unsigned last[] = {kPages - 1, kPages / 2 - 1, kPages - 2, kPages - 1};
        if (access.address >> WINDOW_BITS || page > last[access.context]) return kRange;
        if (access.write ? access.context == 1 : access.context == 3) return kRights;
        const Mapped& mapped = mapped_[table_of(access.context)][page];
        if (mapped.what == Mapped::kNothing) return kUnmapped;
        if (mapped.what == Mapped::kBeyond) return kDrive;
        if (access.write && !mapped.writable) return kRights;
        return kNone;
    }

    void begin() {
        Access access;
        access.write = random.percent(40);
        access.id = random.below(4);
        access.context = random.percent(2) ? 4 + random.below(4) : random.percent(70) ? 2 * random.below(2) : random.below(4);
        unsigned page = random.percent(60) ? (focus_ + random.below(3)) % kPages : random.below(kPages + 1);
        bool odd = false;
        unsigned form = random.below(20);
        uint64_t in_page = random.below(kPage / 4) * 4;
        access.len = random.percent(30) ? 0 : random.below(16);
        if (form < 3) {  // narrow
            access.size = random.below(2), access.len = random.percent(50) ? 0 : random.below(40);
            in_page = random.below(kPage);
        } else if (form < 6) {
            access.burst = kWrap, access.size = random.below(3), access.len = (2 << random.below(4)) - 1;
            in_page = random.below(kPage >> access.size) << access.size;
        } else if (form == 6) {
            unsigned what = random.below(6);
            odd = true;
            if (what == 0) access.burst = kFixed, access.len = 16 + random.below(4);
            if (what == 1) access.burst = kWrap, access.len = 3, in_page |= 1 + random.below(3);
            if (what == 2) access.size = 3, access.len = 0, in_page &= ~7ull;
            if (what == 3) access.len = 15, in_page = 4096 - 32;
            if (what == 4) access.burst = kWrap, access.len = 4;
            if (what == 5) access.burst = 3;
        } else if (form == 7) {
            access.burst = kFixed, access.size = random.below(3), in_page = random.below(kPage);
        } else if (form == 8) {  // not aligned
            in_page |= random.below(4);
        }
        uint64_t bytes = 1ull << access.size;
        if (!odd && access.burst == kIncr && in_page / bytes * bytes % 4096 + bytes * (access.len + 1) > 4096) in_page &= ~0xfffull;
        access.address = page * kPage + in_page;
        if (random.percent(1)) access.address += 1ull << WINDOW_BITS;
        if (random.percent(50)) focus_ = (page + random.below(2)) % kPages;

        Open open;
        open.reason = expected_reason(access, odd);
        if (open.reason == kNone) {
            uint64_t base = mapped_[table_of(access.context)][page].number * kPage;
            for (unsigned i = 0; i <= access.len; ++i) open.at.push_back(base + (access.beat(i) % kPage & ~3ull));
            for (uint64_t at : open.at) {
                auto found = busy_.find(at);
                if (found != busy_.end() && (access.write || found->second.second)) return;
            }
            for (uint64_t at : open.at) {
                auto& count = busy_[at];
                (access.write ? count.second : count.first) += 1;
                uint32_t word;
                std::memcpy(&word, &model_[at], 4);
                open.expected.push_back(word);
            }
        }
        for (unsigned i = 0; access.write && i <= access.len; ++i) {
            access.words.push_back(random.next());
            access.strobes.push_back(access.lanes(i) & (random.percent(70) ? 15 : random.below(16)));
        }
        open.access = system.masters.start(access);
        ++accesses;
        open_.push_back(std::move(open));
    }

    void collect() {
        for (size_t i = 0; i < open_.size();) {
            if (!open_[i].access->done) {
                ++i;
                continue;
            }
            settle(open_[i]);
            open_[i] = std::move(open_.back());
            open_.pop_back();
        }
    }
    void settle(const Open& open) {
        const Access& access = *open.access;
        if (access.response == 2) ++refused;
        else CHECK(access.response == 0);
        if (open.reason != kNone) CHECK(access.response == 2);
        else if (!system.injected) CHECK(access.response == 0);
        for (size_t i = 0; i < open.at.size(); ++i) {
            auto& count = busy_[open.at[i]];
            (access.write ? count.second : count.first) -= 1;
            if (count.first == 0 && count.second == 0) busy_.erase(open.at[i]);
            if (access.write && access.response == 0) {
                for (unsigned lane = 0; lane < 4; ++lane)
                    if (access.strobes[i] >> lane & 1) model_[open.at[i] + lane] = uint8_t(access.words[i] >> (8 * lane));
            } else if (!access.write && access.response == 0 && ((access.words[i] ^ open.expected[i]) & access.lane_mask(i))) {
                fail("context " + std::to_string(access.context) + " loaded a wrong word at " + std::to_string(access.address));
            }
        }
        if (!access.write && access.response == 2)
            for (uint32_t word : access.words) CHECK(word == 0);
    }

    std::vector<uint8_t> model_;
    std::map<unsigned, std::vector<Mapped>> mapped_;
    std::map<uint64_t, std::pair<unsigned, unsigned>> busy_;  // reads and writes under way, by the word's place on the drive
    std::vector<Open> open_;
    unsigned focus_ = 0;
};

}  // namespace straightway::smmu
