// SPDX-License-Identifier: Apache-2.0 OR MIT
// Tests the journal of block_device.hpp on pins without a model: the contents after a power cut.
#include <cstdio>
#include <cstdlib>

#include "block_device.hpp"

using namespace straightway;

namespace {

struct Wires {
    uint8_t req_valid = 0, req_op = 0, req_fua = 0, req_tag = 0, write_valid = 0, write_tag = 0, write_last = 0,
            read_ready = 1, rsp_ready = 1, req_ready = 0, write_ready = 0, read_valid = 0, read_tag = 0,
            read_last = 0, rsp_valid = 0, rsp_tag = 0, rsp_status = 0;
    uint64_t req_lba = 0;
    uint32_t req_count = 0, write_data = 0, read_data = 0;
    uint16_t rsp_detail = 0;
    Pins pins() {
        return {&req_valid, &req_op, &req_fua, &req_tag, &req_lba, &req_count, &write_valid, &write_tag, &write_last,
                reinterpret_cast<uint8_t*>(&write_data), &read_ready, &rsp_ready, &req_ready, &write_ready,
                &read_valid, &read_tag, &read_last, reinterpret_cast<uint8_t*>(&read_data), &rsp_valid, &rsp_tag,
                &rsp_status, &rsp_detail};
    }
};

Wires wires;
BlockDevice* device;

void request(Op op, uint64_t lba, uint8_t fill, bool fua = false) {
    wires.req_valid = 1, wires.req_op = op, wires.req_fua = fua, wires.req_lba = lba;
    wires.req_count = op == kFlush ? 0 : 1;
    wires.write_data = fill * 0x01010101u;
    for (int i = 0; i < 200; ++i) {
        bool taken = wires.req_valid && wires.req_ready, answered = wires.rsp_valid;
        device->sample();
        if (taken) wires.req_valid = 0, wires.write_valid = op == kWrite;
        device->drive();
        if (answered) {
            wires.write_valid = 0;
            return;
        }
    }
    std::printf("FAILED: no answer\n");
    std::exit(1);
}

void expect(const char* what, const std::vector<uint8_t>& image, uint64_t block, uint8_t fill) {
    for (int i = 0; i < 64; ++i) {
        if (image[block * 64 + i] == fill) continue;
        std::printf("FAILED: %s: block %d contains %02x, expected %02x\n", what, int(block), image[block * 64 + i], fill);
        std::exit(1);
    }
}

}  // namespace

int main() {
    DeviceModel model;
    model.block_count = 8;
    model.journal = true;
    BlockDevice made(wires.pins(), model, 1);
    device = &made;
    Random random(1);
    request(kWrite, 0, 0x11);
    expect("unflushed, lost", made.cut(BlockDevice::kLost, random), 0, 0x00);
    expect("unflushed, kept", made.cut(BlockDevice::kKept, random), 0, 0x11);
    request(kFlush, 0, 0);
    expect("flushed", made.cut(BlockDevice::kLost, random), 0, 0x11);
    request(kWrite, 0, 0x22);
    request(kWrite, 0, 0x33, true);
    expect("fua, lost", made.cut(BlockDevice::kLost, random), 0, 0x33);
    expect("fua, the older write does not come back", made.cut(BlockDevice::kKept, random), 0, 0x33);
    request(kWrite, 0, 0x44);
    request(kFlush, 0, 0);
    expect("after fua and flush", made.cut(BlockDevice::kKept, random), 0, 0x44);
    bool lost = false, kept = false, torn = false;
    request(kWrite, 1, 0x55);
    for (int i = 0; i < 100; ++i) {
        auto image = made.cut(BlockDevice::kTorn, random);
        bool first = image[64] == 0x55, last = image[127] == 0x55;
        lost |= !first && !last, kept |= first && last, torn |= first != last;
    }
    if (!lost || !kept || !torn) return std::printf("FAILED: torn cuts did not produce every outcome\n"), 1;
    return 0;
}
