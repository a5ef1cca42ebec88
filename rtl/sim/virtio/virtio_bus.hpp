// SPDX-License-Identifier: Apache-2.0 OR MIT
// The pins of virtio_sim, and the device's registers.
#pragma once

#include "axi_bus.hpp"

// A bench of another top with the same pins includes and names that top before.
#ifndef VIRTIO_BUS_TOP
#include "Vvirtio_sim.h"
#define VIRTIO_BUS_TOP Vvirtio_sim
#endif

namespace straightway::virtio {

using Bus = AxiBus<VIRTIO_BUS_TOP>;

// Offsets of registers (virtio 1.2, section 4.2.2).
enum Register : uint32_t {
    kMagic = 0x00, kVersion = 0x04, kDeviceId = 0x08, kDeviceFeatures = 0x10, kDeviceFeaturesSel = 0x14,
    kDriverFeatures = 0x20, kDriverFeaturesSel = 0x24, kQueueSel = 0x30, kQueueNumMax = 0x34, kQueueNum = 0x38,
    kQueueReady = 0x44, kQueueNotify = 0x50, kInterruptStatus = 0x60, kInterruptAck = 0x64, kStatus = 0x70,
    kQueueDesc = 0x80, kQueueDriver = 0x90, kQueueDevice = 0xa0, kConfigGeneration = 0xfc, kConfig = 0x100
};
enum : uint32_t { kAcknowledge = 1, kDriver = 2, kDriverOk = 4, kFeaturesOk = 8, kNeedsReset = 64, kFailed = 128 };
enum Feature { kReadOnlyFeature = 5, kBlkSize = 6, kFlushFeature = 9, kMq = 12, kDiscardFeature = 13, kWriteZeroesFeature = 14,
               kIndirect = 28, kEventIndex = 29, kVersion1 = 32, kAccessPlatform = 33, kOrderPlatform = 36 };

inline uint64_t device_features(Bus& bus) {
    bus.write(kDeviceFeaturesSel, 1);
    uint64_t high = bus.read(kDeviceFeatures);
    bus.write(kDeviceFeaturesSel, 0);
    return high << 32 | bus.read(kDeviceFeatures);
}

}  // namespace straightway::virtio
