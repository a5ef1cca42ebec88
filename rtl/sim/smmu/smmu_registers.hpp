// SPDX-License-Identifier: Apache-2.0 OR MIT
// The core's registers and entries of tables, as a processor uses them.
#pragma once

#include "axi_bus.hpp"
#include "clocked.hpp"

namespace straightway::smmu {

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) fail(std::string(#condition " at line ") + std::to_string(__LINE__)); \
    } while (0)

enum Register : uint32_t {
    kId = 0x00, kControl = 0x04, kStatusRegister = 0x08, kCommand = 0x0c, kFramesLow = 0x10, kFramesCount = 0x18,
    kDirtyLimit = 0x1c, kAhead = 0x20, kDirty = 0x24, kFailed = 0x28, kShape = 0x2c, kLog = 0x40, kLogLow = 0x44,
    kLogHigh = 0x48, kLogLost = 0x4c, kAccesses = 0x60, kWalks = 0x64, kFills = 0x68, kPageWrites = 0x6c,
    kContexts = 0x100
};
enum Command : uint32_t { kFlushPages = 1, kDropPages = 2, kDiscardPages = 3 };
enum StatusBit : uint32_t { kReady = 1, kBusy = 2, kFinished = 4, kError = 8, kLost = 16, kUsable = 32, kLogged = 64, kStarted = 128 };
enum Reason { kNone, kBurst, kContext, kRange, kRights, kUnmapped, kTable, kDrive, kGoneAway, kNoFrame, kPoisoned, kReadFailed, kWriteFailed };
enum Kind : uint32_t { kEmpty, kOnDrive, kInFrame };
constexpr uint32_t entry(Kind kind, bool writable, uint32_t number) { return kind << 30 | uint32_t(writable) << 29 | number; }

struct Logged {
    unsigned reason, write, about;
    uint64_t address;
};

template <class Top>
void set_context(AxiBus<Top>& bus, unsigned number, unsigned table, uint64_t address, uint32_t pages, bool read, bool write) {
    uint32_t at = kContexts + 16 * number;
    bus.write(at + 4, pages - 1);
    bus.write64(at + 8, address);
    bus.write(at, 1 | read << 1 | write << 2 | table << 8);
}

// Takes the first entry of the log, if it has one.
template <class Top>
bool take_log(AxiBus<Top>& bus, Logged& logged) {
    uint32_t info = bus.read(kLog);
    if (!(info >> 31)) return false;
    logged = {info & 15, info >> 4 & 1, info >> 8 & 15, uint64_t(bus.read(kLogHigh)) << 32 | bus.read(kLogLow)};
    bus.write(kLog, 0);
    return true;
}

}  // namespace straightway::smmu
