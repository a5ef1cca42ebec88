// SPDX-License-Identifier: Apache-2.0 OR MIT
// The recorded register accesses of a driver, replayed on the core.
//
// A file has a line for each access: `r OFFSET VALUE` or `w OFFSET VALUE`, in hexadecimal. The driver saw another device then, so what it derives
// from reads is derived from this one's: the features that it accepts are those that both devices offer, the queue's size is at most
// this one's. Its rings are the bench's. A notification becomes a request, an interrupt is awaited before the driver reads its
// cause, and at each reset of a device that runs, requests are in flight.
#pragma once

#include <fstream>

#include "virtio_linux.hpp"

namespace straightway::virtio {

class Replay : public Linux {
public:
    using Linux::Linux;
    unsigned accesses = 0, resets = 0, requests = 0, lives = 0;

    void run(const std::string& path, unsigned gap) {
        gap_ = gap;
        std::ifstream file(path);
        std::string kind;
        uint64_t offset, value;
        while (file >> kind >> std::hex >> offset >> value) {
            if (kind == "r") read_as(uint32_t(offset), value);
            else if (kind == "w") write_as(uint32_t(offset), uint32_t(value));
            else fail("not an access: " + kind);
            ++accesses;
        }
        if (!file.eof()) fail("the file is not a trace");
        // What it left under way.
        reset_now();
        ready_.until_idle(limit());
        check_disk();
    }

private:
    static constexpr uint64_t kUsed = 1ull << kIndirect | 1ull << kEventIndex | 1ull << kVersion1;

    bool runs_ = true;    // DRIVER_OK; at first that of the driver before
    bool missed_ = false;  // an interrupt of the recorded device that this one has no reason for
    unsigned select_ = 0, size_ = 0, place_ = 0;
    std::vector<Read> open_;

    void reset_now() {
        if (runs_) {
            collect(true);
            ready_.until_idle(limit());
            check_disk();
            start();
            ++resets;
        }
        reset();
        runs_ = false;
    }
    void write_as(uint32_t at, uint32_t value) {
        switch (at) {
        case kStatus:
            if (value == 0) return reset_now();
            if (value & kDriverOk && !runs_) {
                runs_ = true, ++lives;
                ready_.queue->want_interrupt(0);
                behind += !ready_.bus.top->idle;
            }
            break;
        case kDriverFeaturesSel: select_ = value; break;
        case kDriverFeatures:
            writel(select_, kDeviceFeaturesSel);
            value &= readl(kDeviceFeatures);
            // What the bench's rings and requests use.
            CHECK((kUsed >> 32 * select_ & ~uint64_t(value) & 0xffffffff) == 0);
            break;
        case kQueueNum:
            size_ = value = std::min(value, readl(kQueueNumMax));
            side_ ^= 1;
            ready_.queue = std::make_unique<Queue>(ready_.bus, ready_.memory, 0, size_, kBase + 0x20000 * side_, true);
            break;
        case kQueueDesc: value = uint32_t(ready_.queue->desc); break;
        case kQueueDesc + 4: value = uint32_t(ready_.queue->desc >> 32); break;
        case kQueueDriver: value = uint32_t(ready_.queue->driver); break;
        case kQueueDriver + 4: value = uint32_t(ready_.queue->driver >> 32); break;
        case kQueueDevice: value = uint32_t(ready_.queue->device); break;
        case kQueueDevice + 4: value = uint32_t(ready_.queue->device >> 32); break;
        case kQueueNotify:
            CHECK(runs_);
            if (open_.size() == kMany) collect(true);
            open_.push_back(read(place_++ % kMany));
            ++requests;
            break;
        case kInterruptAck:
            if (missed_) return;
            writel(value, at);
            return collect(false);
        }
        writel(value, at);
    }
    void read_as(uint32_t at, uint64_t value) {
        if (at == kInterruptStatus) {
            missed_ = open_.empty();
            if (missed_) return;
            await_interrupt();
        }
        uint32_t now = readl(at & ~3u);
        // What does not depend on the device.
        for (uint32_t same : {kMagic, kVersion, kDeviceId, kStatus, kQueueReady, kInterruptStatus})
            if (at == same && now != value)
                fail("register " + std::to_string(at) + " reads " + std::to_string(now) + " in place of " + std::to_string(value) + ", access " +
                     std::to_string(accesses));
        if (at == kConfig) CHECK(now == kCapacity);
    }
    // The driver's handler of the interrupt: all requests that have ended; with `wait`, until all have.
    void collect(bool wait) {
        do {
            unsigned head;
            uint32_t length;
            while (ready_.queue->take(head, length)) {
                auto ended = std::find_if(open_.begin(), open_.end(), [&](const Read& read) { return read.head == head; });
                CHECK(ended != open_.end() && length == kUnit + 1);
                check(*ended);
                open_.erase(ended);
            }
            ready_.queue->want_interrupt(ready_.queue->seen);
            if (!wait || open_.empty()) return;
            ready_.bus.cycle();
        } while (true);
    }
};

inline int replay(uint64_t seed, unsigned latency, const char* path) {
    Replay machine(seed, latency);
    for (unsigned gap : {0u, 20u, 500u}) machine.run(path, gap);
    if (machine.longest > 4000) fail("a reset was answered after " + std::to_string(machine.longest) + " cycles");
    std::printf("accesses %u resets %u lives %u requests %u behind %u longest %u\n", machine.accesses, machine.resets, machine.lives,
                machine.requests, machine.behind, unsigned(machine.longest));
    return 0;
}

}  // namespace straightway::virtio
