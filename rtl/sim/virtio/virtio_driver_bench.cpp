// SPDX-License-Identifier: Apache-2.0 OR MIT
// The device behind a driver that was not written for it: crates/twin/examples/virtio_driver.rs, which is linked with this bench
// and reaches the registers by the functions below. The device's memory is this process's, as far as the driver granted it.
//
// `virtio_driver_bench` uses a block device that reorders. Prints statistics, or the line of the driver's failed check.
#include <cstring>
#include <map>

#include "virtio_ready.hpp"

using namespace straightway;
using namespace straightway::virtio;

namespace {

DeviceModel slow() {
    DeviceModel model;
    model.reorder = true;
    model.read_latency = model.write_latency = 4000;
    return model;
}

// The number of grants of each range and direction.
class Granted {
public:
    void change(uint64_t address, uint64_t bytes, bool write, int by) {
        auto found = ranges_.try_emplace({write, address, address + bytes}, 0).first;
        found->second += by;
        if (found->second < 0) fail("the driver revokes a grant that does not exist");
        if (found->second == 0) ranges_.erase(found);
    }
    bool covers(uint64_t address, bool write) const {
        for (const auto& [range, count] : ranges_)
            if (std::get<0>(range) == write && address >= std::get<1>(range) && address < std::get<2>(range)) return true;
        return false;
    }
    bool empty() const { return ranges_.empty(); }

private:
    std::map<std::tuple<bool, uint64_t, uint64_t>, int> ranges_;
};

struct Machine {
    Bus bus{1};
    Disk disk{bus, slow(), 1};
    Granted granted;

    Machine() {
        bus.memory = {[this](uint64_t address, uint32_t& word) {
                          // The device reads whole words, even if it needs only some of their bytes.
                          bool any = false;
                          for (unsigned i = 0; i < 4; ++i) any |= granted.covers(address + i, false);
                          if (!any) fail("the device reads memory that was not granted");
                          std::memcpy(&word, reinterpret_cast<const void*>(address), 4);
                          return true;
                      },
                      [this](uint64_t address, uint32_t word, unsigned strobe) {
                          for (unsigned i = 0; i < 4; ++i) {
                              if (!(strobe >> i & 1)) continue;
                              if (!granted.covers(address + i, true)) fail("the device writes memory that was not granted");
                              *reinterpret_cast<uint8_t*>(address + i) = uint8_t(word >> 8 * i);
                          }
                          return true;
                      }};
    }
};

Machine& machine() {
    static Machine one;
    return one;
}

}  // namespace

extern "C" {
uint32_t virtio_driver(uint64_t capacity);

uint32_t bench_read(uint32_t address) { return machine().bus.read(address); }
void bench_write(uint32_t address, uint32_t value) { machine().bus.write(address, value); }
void bench_settle() {
    Bus& bus = machine().bus;
    for (int i = 0; i < 8; ++i) bus.cycle();
    for (unsigned limit = 2000000; !bus.top->idle; bus.cycle())
        if (limit-- == 0) fail("the device did not become idle");
}
void bench_grant(uint64_t address, uint64_t bytes, bool write) { machine().granted.change(address, bytes, write, 1); }
void bench_revoke(uint64_t address, uint64_t bytes, bool write) { machine().granted.change(address, bytes, write, -1); }
}

int main() {
    if (uint32_t line = virtio_driver(kCapacity)) fail("virtio_driver.rs:" + std::to_string(line));
    if (!machine().granted.empty()) fail("the driver did not revoke all grants");
    if (machine().disk.most != REQUESTS) fail(std::to_string(machine().disk.most) + " concurrent requests");
    if (machine().bus.top->flushes == 0) fail("the device received no flush");
    std::printf("%llu cycles, %u at once, %u flushes\n", (unsigned long long)machine().bus.now, machine().disk.most,
                unsigned(machine().bus.top->flushes));
    return 0;
}
