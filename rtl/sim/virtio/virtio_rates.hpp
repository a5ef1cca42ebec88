// SPDX-License-Identifier: Apache-2.0 OR MIT
// Rates on an ideal disk and on the Serial ATA host.
#pragma once

#include "sata/sata_drive.hpp"
#include "virtio_ready.hpp"

namespace straightway::virtio {

inline int rate() {
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

// Segments of 4 KiB in a table of their own, as Linux sends them. From the end of the first `depth` requests to that of the last of `requests`, and
// as many follow as are under way: all are counted under the same load.
inline int sata_rate(bool in, bool random_places, uint32_t bytes, unsigned depth, unsigned latency, unsigned requests) {
    sata::DriveModel model;
    model.blocks = DISK_BLOCKS;
    model.command_latency = latency;
    sata::Drive drive(model, 1);
    sata::Word word{};
    // Declared after the drive, so that it is destroyed first.
    Bus bus(1);
    GuestMemory memory;
    bus.memory = memory.port();
    bus.each = [&] { word = drive.step({bus.top->sata_tx_data, bool(bus.top->sata_tx_k)}, bus.top->sata_reset); };
    bus.driven = [&] {
        bus.top->sata_rx_data = word.data;
        bus.top->sata_rx_k = word.k;
        bus.top->sata_rx_bad = word.bad;
        bus.top->sata_up = drive.up();
    };
    for (unsigned limit = 1000000; bus.read(kConfig) == 0;)
        if (limit-- == 0) fail("the disk did not become ready");
    reset(bus);
    negotiate(bus, kAll & ~(1ull << kWriteZeroesFeature) | 1ull << kFlushFeature);
    CHECK(bus.read(kStatus) & kFeaturesOk);
    Queue queue(bus, memory, 0, 128, kBase, true);
    queue.set_up();
    driver_ok(bus);
    Random random(1);
    uint64_t each = (bytes + 0x1fff) / 0x1000 * 0x1000;
    if (kBuffers + depth * each > kBase + GuestMemory::kSize) fail("the guest's memory is too small");
    std::map<unsigned, uint64_t> arenas;
    unsigned added = 0, ended = 0, head;
    uint32_t length;
    uint64_t first = 0, last = 0;
    auto add = [&](uint64_t at) {
        uint64_t sectors = bytes / 512, places = kCapacity / sectors;
        uint64_t sector = (random_places ? random.below(places) : added % places) * sectors;
        memory.store<uint32_t>(at, in ? kTypeIn : kTypeOut), memory.store<uint32_t>(at + 4, 0), memory.store<uint64_t>(at + 8, sector);
        *memory.at(at + 16) = 0xff;
        std::vector<Segment> segments{{at, 16, false}};
        for (uint32_t i = 0; i < bytes; i += 4096) segments.push_back({at + 0x1000 + i, std::min(bytes - i, 4096u), in});
        segments.push_back({at + 16, 1, true});
        arenas[queue.add(segments, 0, at + 0x100)] = at;
        ++added;
    };
    for (unsigned i = 0; i < depth; ++i) add(kBuffers + i * each);
    queue.kick();
    for (uint64_t limit = uint64_t(requests) * (latency + bytes + 10000); ended < requests; bus.cycle()) {
        if (limit-- == 0) fail("requests were not answered");
        while (queue.take(head, length)) {
            uint64_t at = arenas[head];
            CHECK(*memory.at(at + 16) == 0);
            last = bus.now;
            if (++ended == depth) first = last;
            if (ended == requests) break;
            if (added < requests + depth) {
                add(at);
                if (queue.wants_kick()) queue.kick();
            }
        }
    }
    std::printf("%.1f cycles %.4f words/cycle\n", double(last - first) / (requests - depth), double(requests - depth) * bytes / 4 / (last - first));
    return 0;
}

}  // namespace straightway::virtio
