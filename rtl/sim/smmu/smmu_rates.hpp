// SPDX-License-Identifier: Apache-2.0 OR MIT
// Cycles of hits and misses, and the rate of a master that streams.
#pragma once

#include "smmu_system.hpp"

namespace straightway::smmu {

inline int rates() {
    auto prepare = [](System& system, unsigned ahead) {
        for (unsigned i = 0; i < kDrivePages; ++i) system.table(0, i) = entry(kOnDrive, true, i);
        system.set_context(0, 0, kDrivePages, true, true);
        system.bus.write(kAhead, ahead);
        system.enable();
        for (unsigned i = 0; i < 4 * kFrames; ++i) system.bus.cycle();
    };
    {
        System system(1);
        prepare(system, 0);
        auto load = [&](uint64_t address) {
            Shared access = system.load(0, address, 16);
            for (unsigned i = 0; i < 50; ++i) system.bus.cycle();
            return access->first - access->asked;
        };
        // The memory alone gives the first word one cycle after it took the address.
        uint64_t miss = load(0);
        std::printf("hit_added %llu\n", (unsigned long long)load(64) - 1);
        std::printf("miss %llu\n", (unsigned long long)miss);
        // More pages than the TLB has entries, and a resident page that has left it.
        uint64_t walked = 0;
        if (kFrames > TLB_ENTRIES + 8) {
            for (unsigned i = 1; i <= TLB_ENTRIES + 8; ++i) load(i * kPage);
            uint32_t walks = system.bus.read(kWalks), fills = system.bus.read(kFills);
            for (unsigned i = 0; i < 8; ++i) walked = std::max<uint64_t>(walked, load(i * kPage));
            CHECK(system.bus.read(kWalks) > walks && system.bus.read(kFills) == fills);
            std::printf("walked %llu\n", (unsigned long long)walked);
        }
        // A victim that must be written first.
        system.bus.write(kDirtyLimit, kFrames);
        for (unsigned i = 0; i < kFrames; ++i) system.store(0, i * kPage, i);
        uint64_t dirty = 0;
        for (unsigned i = 0; i < 4; ++i) dirty = std::max<uint64_t>(dirty, load((kDrivePages - 1 - i) * kPage));
        std::printf("miss_all_dirty %llu\n", (unsigned long long)dirty);
        for (unsigned i = 0; i < 50; ++i) system.bus.cycle();
        Shared stored = system.store(0, (kDrivePages - 4) * kPage, 1);
        std::printf("write_hit %llu\n", (unsigned long long)(stored->first - stored->asked));
    }
    // A master that reads page after page, with four bursts of `words` words under way: bytes in a cycle, without the time to
    // the first pages.
    auto stream = [&](System& system, unsigned first, unsigned pages, unsigned length) {
        std::deque<Shared> open;
        uint64_t begin = 0, end = (first + pages) * kPage, from = (first + pages / 8) * kPage;
        for (uint64_t at = first * kPage; at < end; at += 4 * length) {
            Access access;
            access.address = at, access.len = length - 1;
            if (at == from) begin = system.bus.now;
            while (open.size() >= 4) {
                system.bus.cycle();
                while (!open.empty() && open.front()->done) {
                    CHECK(!std::memcmp(open.front()->words.data(), &system.start[open.front()->address], 4 * length));
                    open.pop_front();
                }
            }
            open.push_back(system.masters.start(access));
        }
        system.settle();
        return double(end - from) / double(system.bus.now - begin);
    };
    for (unsigned latency : {0u, 500u, 2000u}) {
        DeviceModel model;
        model.read_latency = latency;
        for (unsigned ahead : {0u, 1u, 3u}) {
            System system(1, model);
            prepare(system, ahead);
            std::printf("stream_latency_%u_ahead_%u %.4f\n", latency, ahead, stream(system, 0, kDrivePages, 16));
        }
    }
    System system(1);
    prepare(system, 0);
    stream(system, 0, 16, 16);
    for (unsigned length : {1u, 4u, 16u, 64u}) std::printf("stream_resident_%u %.4f\n", length, stream(system, 0, 16, length));
    return 0;
}

}  // namespace straightway::smmu
