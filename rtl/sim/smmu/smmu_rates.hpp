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
        Access store = System::store_access(0, 4, {1});
        store.address = (kDrivePages - 1) * kPage;
        Shared stored = system.run(store);
        std::printf("write_hit %llu\n", (unsigned long long)(stored->first - stored->asked));
    }
    // A master that reads from the first page to the last, with four bursts of sixteen words under way.
    auto stream = [&](unsigned ahead, unsigned latency) {
        DeviceModel model;
        model.read_latency = latency;
        System system(1, model);
        prepare(system, ahead);
        uint64_t begin = system.bus.now, words = 0;
        std::deque<Shared> open;
        for (uint64_t at = 0; at < kDrivePages * kPage; at += 64) {
            Access access;
            access.address = at, access.len = 15;
            while (open.size() >= 4) {
                system.bus.cycle();
                while (!open.empty() && open.front()->done) {
                    for (unsigned i = 0; i < 16; ++i) {
                        uint32_t word;
                        std::memcpy(&word, &system.start[open.front()->address + 4 * i], 4);
                        CHECK(open.front()->words[i] == word);
                    }
                    open.pop_front();
                }
            }
            open.push_back(system.masters.start(access));
            words += 16;
        }
        system.settle();
        return 4.0 * words / (system.bus.now - begin);
    };
    for (unsigned latency : {0u, 500u, 2000u})
        for (unsigned ahead : {0u, 1u, 3u, 6u}) std::printf("stream_latency_%u_ahead_%u %.4f\n", latency, ahead, stream(ahead, latency));
    return 0;
}

}  // namespace straightway::smmu
