// SPDX-License-Identifier: Apache-2.0 OR MIT
// The verilated virtio-blk device behind a vhost-user socket: an unpatched QEMU (`-device vhost-user-blk-pci`) gives its
// guest the device as a PCI disk. The core reads the guest's rings and moves its data; this process only carries
// registers, notifications and interrupts between QEMU's messages and the core's pins, and translates addresses.
//
// `vhost_user SOCKET [BYTE]` listens on the socket, serves one connection, prints statistics of the core, and exits. The RAM
// disk's memory fails at that byte. Exits with 1, and the reason, if the core needs a reset or a message is not supported.
// SIGUSR1 cuts the power of core and drive in the middle of whatever they do, ends the connection, and serves another one.
// SIGUSR2 prints where the server, the core and each ring stand.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "asked.hpp"
#include "sata/sata_drive.hpp"
#include "virtio_bus.hpp"

using namespace straightway;
using namespace straightway::virtio;

namespace {

// The numbers of QEMU's docs/interop/vhost-user.rst.
enum Request : uint32_t {
    kGetFeatures = 1, kSetFeatures = 2, kSetOwner = 3, kSetMemTable = 5, kSetVringNum = 8, kSetVringAddr = 9,
    kSetVringBase = 10, kGetVringBase = 11, kSetVringKick = 12, kSetVringCall = 13, kSetVringErr = 14,
    kGetProtocolFeatures = 15, kSetProtocolFeatures = 16, kGetQueueNum = 17, kSetVringEnable = 18, kGetConfig = 24,
    kSetConfig = 25
};
constexpr uint32_t kFlagVersion = 1, kFlagReply = 4, kFlagNeedReply = 8;
constexpr uint64_t kProtocolFeatures = 1ull << 30, kProtocolMq = 1, kProtocolReplyAck = 8, kProtocolConfig = 1ull << 9;

volatile std::sig_atomic_t cut = 0;  // SIGUSR1

[[noreturn]] void fail(const std::string& why) {
    std::printf("FAILED: %s\n", why.c_str());
    std::exit(1);
}

struct Message {
    uint32_t alignment;  // not sent; makes header and body contiguous, with an aligned body
    uint32_t request, flags, size;
    union {
        uint64_t number;
        struct { uint32_t index, value; } vring;
        struct { uint32_t index, flags; uint64_t desc, used, available, log; } address;
        struct { uint32_t count, padding; struct { uint64_t guest, size, user, offset; } regions[8]; } memory;
        struct { uint32_t offset, size, flags; uint8_t bytes[256]; } config;
    } body;
};
constexpr size_t kHeader = offsetof(Message, body) - offsetof(Message, request);
static_assert(kHeader == 12);

// The guest's memory, which QEMU shares.
class SharedMemory {
public:
    ~SharedMemory() { clear(); }

    void take(const Message& message, const std::vector<int>& descriptors) {
        clear();
        for (uint32_t i = 0; i < message.body.memory.count && i < descriptors.size(); ++i) {
            auto& from = message.body.memory.regions[i];
            void* mapped = mmap(nullptr, from.size + from.offset, PROT_READ | PROT_WRITE, MAP_SHARED, descriptors[i], 0);
            if (mapped == MAP_FAILED) fail("a region of the guest's memory cannot be mapped");
            regions_.push_back({from.guest, from.user, from.size, static_cast<uint8_t*>(mapped) + from.offset, mapped, from.size + from.offset});
        }
    }
    // QEMU passes its own virtual addresses of the rings; the core needs the guest's addresses.
    uint64_t guest_of(uint64_t user) const {
        for (const Region& region : regions_)
            if (user - region.user < region.size) return user - region.user + region.guest;
        fail("a ring is outside the guest's memory");
    }
    uint8_t* at(uint64_t guest) const {
        for (const Region& region : regions_)
            if (guest - region.guest < region.size) return region.bytes + (guest - region.guest);
        return nullptr;
    }

private:
    struct Region {
        uint64_t guest, user, size;
        uint8_t* bytes;
        void* mapped;
        size_t mapped_size;
    };
    void clear() {
        for (Region& region : regions_) munmap(region.mapped, region.mapped_size);
        regions_.clear();
    }
    std::vector<Region> regions_;
};

class Server {
public:
    Server(Bus& bus, int socket) : bus_(bus), socket_(socket) {
        bus_.memory = {[this](uint64_t address, uint32_t& word) {
                           uint8_t* from = memory_.at(address);
                           if (from) word = *reinterpret_cast<volatile uint32_t*>(from);
                           return from != nullptr;
                       },
                       [this](uint64_t address, uint32_t word, unsigned strobe) {
                           volatile uint8_t* to = memory_.at(address);
                           if (!to) return false;
                           // Half a word is an index, which the driver reads in one access.
                           if (strobe == 12) *reinterpret_cast<volatile uint16_t*>(to + 2) = uint16_t(word >> 16);
                           else if (strobe == 15) *reinterpret_cast<volatile uint32_t*>(to) = word;
                           else
                               for (unsigned i = 0; i < 4; ++i)
                                   if (strobe >> i & 1) to[i] = uint8_t(word >> 8 * i);
                           return true;
                       }};
    }

    ~Server() {
        for (Vring& vring : vrings_)
            for (int descriptor : {vring.kick, vring.call})
                if (descriptor >= 0) close(descriptor);
        close(socket_);
    }

    // Until QEMU ends the connection, or the power is cut.
    void serve() {
        while (!cut) {
            tell();
            doing = bus_.top->idle ? "waits for a message or a kick" : "looks for a message or a kick";
            std::vector<pollfd> waits{{socket_, POLLIN, 0}};
            for (Vring& vring : vrings_) waits.push_back({vring.started ? vring.kick : -1, POLLIN, 0});
            if (poll(waits.data(), waits.size(), bus_.top->idle ? 1000 : 0) < 0) {
                if (errno == EINTR) continue;
                fail("poll");
            }
            doing = "works";
            for (unsigned i = 0; i < QUEUES; ++i)
                if (waits[i + 1].revents & POLLIN) kicked(i);
            if (waits[0].revents && !message()) return;
            for (int i = 0; i < 4000 && !bus_.top->idle && !cut; ++i) {
                bus_.cycle();
                if (bus_.top->irq) interrupt();
            }
            if (bus_.top->irq && !cut) interrupt();
        }
    }
    unsigned kicks = 0, interrupts = 0;

private:
    struct Vring {
        int kick = -1, call = -1;
        uint32_t size = 0;
        uint64_t desc = 0, available = 0, used = 0;
        bool enabled = false, started = false;
    };

    // What a test prints when its guest is stuck.
    void tell() {
        if (!asked) return;
        asked = 0;
        std::printf("%llu cycles, idle %u, interrupt %u, reset %u, %u requests at the disk, ring's state %u, notified %x, status %x, %u kicks, %u interrupts%s\n",
                    (unsigned long long)bus_.now, bus_.top->idle, bus_.top->irq, bus_.top->resetting, bus_.top->under_way, bus_.top->ring_state,
                    bus_.top->notified, bus_.read(kStatus), kicks, interrupts, bus_.top->ready ? "" : ", the disk is not ready");
        for (Vring& one : vrings_) {
            if (!one.started) continue;
            auto field = [&](uint64_t user, uint64_t offset) {
                uint8_t* from = memory_.at(memory_.guest_of(user) + offset);
                return from ? *reinterpret_cast<volatile uint16_t*>(from) : 0u;
            };
            std::printf("queue %d: available %u, its flags %u, used_event %u; used %u, avail_event %u\n", int(&one - vrings_.data()), field(one.available, 2),
                        field(one.available, 0), field(one.available, 4 + 2 * one.size), field(one.used, 2), field(one.used, 4 + 8 * one.size));
        }
        std::fflush(stdout);
    }
    void kicked(unsigned index) {
        uint64_t count;
        if (read(vrings_[index].kick, &count, 8) != 8) return;
        ++kicks;
        bus_.write(kQueueNotify, index);
    }
    void interrupt() {
        uint32_t why = bus_.read(kInterruptStatus);
        bus_.write(kInterruptAck, why);
        if (bus_.read(kStatus) & kNeedsReset) fail("the device needs a reset: the driver's rings are wrong");
        if (!(why & 1)) return;
        ++interrupts;
        uint64_t one = 1;
        // The core has one interrupt for all queues.
        for (Vring& vring : vrings_)
            if (vring.started && vring.call >= 0 && write(vring.call, &one, 8) != 8) fail("an interrupt was lost");
    }

    // --- Queues: a vring with all its parts becomes a queue of the core ------------------------------
    void begin(unsigned index) {
        Vring& vring = vrings_[index];
        if (vring.started || !vring.enabled || vring.kick < 0) return;
        if (!(bus_.read(kStatus) & kDriverOk)) {
            bus_.write(kStatus, kAcknowledge | kDriver);
            for (unsigned half = 0; half < 2; ++half) {
                bus_.write(kDriverFeaturesSel, half);
                bus_.write(kDriverFeatures, uint32_t(features_ >> 32 * half));
            }
            bus_.write(kStatus, kAcknowledge | kDriver | kFeaturesOk);
            if (!(bus_.read(kStatus) & kFeaturesOk)) fail("the device does not take the features");
            bus_.write(kStatus, kAcknowledge | kDriver | kFeaturesOk | kDriverOk);
        }
        bus_.write(kQueueSel, index);
        bus_.write(kQueueNum, vring.size);
        bus_.write64(kQueueDesc, memory_.guest_of(vring.desc));
        bus_.write64(kQueueDriver, memory_.guest_of(vring.available));
        bus_.write64(kQueueDevice, memory_.guest_of(vring.used));
        bus_.write(kQueueReady, 1);
        vring.started = true;
        bus_.write(kQueueNotify, index);  // the ring may already have entries
    }
    uint32_t end(unsigned index) {
        Vring& vring = vrings_[index];
        if (!vring.started) return 0;
        bus_.write(kQueueSel, index);
        bus_.write(kQueueReady, 0);
        doing = "waits for the end of a queue's requests";
        while (bus_.read(kQueueReady)) bus_.cycle(), tell();
        if (bus_.top->irq) interrupt();
        vring.started = false;
        // Chains are returned in order, so the used index is how far the available ring was read.
        uint16_t used = *reinterpret_cast<volatile uint16_t*>(memory_.at(memory_.guest_of(vring.used)) + 2);
        bool any = false;
        for (Vring& other : vrings_) any |= other.started;
        if (!any) {
            bus_.write(kStatus, 0);
            doing = "waits for the end of a reset";
            while (bus_.read(kStatus)) bus_.cycle(), tell();
        }
        return used;
    }

    // --- Messages ------------------------------------------------------------------------------------
    bool receive(Message& message, std::vector<int>& descriptors) {
        char control[CMSG_SPACE(8 * sizeof(int))];
        iovec part{&message.request, kHeader};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        ssize_t got = recvmsg(socket_, &header, MSG_WAITALL | MSG_CMSG_CLOEXEC);
        if (got <= 0) return false;
        if (got != kHeader || message.size > sizeof message.body) fail("invalid vhost-user message");
        for (cmsghdr* one = CMSG_FIRSTHDR(&header); one; one = CMSG_NXTHDR(&header, one)) {
            if (one->cmsg_type != SCM_RIGHTS) continue;
            size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            descriptors.resize(count);
            std::memcpy(descriptors.data(), CMSG_DATA(one), count * sizeof(int));
        }
        return message.size == 0 || recv(socket_, &message.body, message.size, MSG_WAITALL) == ssize_t(message.size);
    }
    void reply(Message& message, uint32_t size) {
        message.flags = kFlagVersion | kFlagReply;
        message.size = size;
        if (send(socket_, &message.request, kHeader + size, MSG_NOSIGNAL) != ssize_t(kHeader + size)) fail("QEMU does not accept an answer");
    }
    Vring& vring(uint32_t index) {
        if (index >= QUEUES) fail("queue " + std::to_string(index) + ": there are " + std::to_string(QUEUES));
        return vrings_[index];
    }
    // Replaces an eventfd with the one that the message carries.
    static void replace(int& descriptor, const Message& message, std::vector<int>& descriptors) {
        if (descriptor >= 0) close(descriptor);
        descriptor = -1;
        if (message.body.number & 0x100 || descriptors.empty()) return;
        descriptor = descriptors[0];
        descriptors.clear();
    }

    bool message() {
        Message message;
        std::vector<int> descriptors;
        if (!receive(message, descriptors)) return false;
        auto& body = message.body;
        bool needs_reply = message.flags & kFlagNeedReply;
        switch (message.request) {
        case kGetFeatures:
            // Without the transport's feature bits: QEMU's own device handles these.
            body.number = (device_features(bus_) & ~(1ull << kAccessPlatform | 1ull << kOrderPlatform)) | kProtocolFeatures;
            return reply(message, 8), true;
        case kGetProtocolFeatures:
            body.number = kProtocolMq | kProtocolReplyAck | kProtocolConfig;
            return reply(message, 8), true;
        case kGetQueueNum:
            body.number = QUEUES;
            return reply(message, 8), true;
        case kGetConfig:
            for (uint32_t i = 0; i < body.config.size && i < sizeof body.config.bytes; ++i)
                body.config.bytes[i] = uint8_t(bus_.read(kConfig + (body.config.offset + i) / 4 * 4) >> 8 * ((body.config.offset + i) % 4));
            return reply(message, message.size), true;
        case kGetVringBase:
            body.vring.value = end((vring(body.vring.index), body.vring.index));
            return reply(message, 8), true;
        case kSetFeatures: features_ = body.number & ~kProtocolFeatures; break;
        case kSetMemTable: memory_.take(message, descriptors); break;
        case kSetVringNum: vring(body.vring.index).size = body.vring.value; break;
        case kSetVringAddr: {
            Vring& one = vring(body.address.index);
            one.desc = body.address.desc, one.available = body.address.available, one.used = body.address.used;
            break;
        }
        case kSetVringBase:
            if (body.vring.value != 0) fail("a ring that begins at entry " + std::to_string(body.vring.value) + ": the MMIO registers cannot set this");
            break;
        case kSetVringKick: replace(vring(body.number & 0xff).kick, message, descriptors), begin(body.number & 0xff); break;
        case kSetVringCall: replace(vring(body.number & 0xff).call, message, descriptors); break;
        case kSetVringEnable: vring(body.vring.index).enabled = body.vring.value, begin(body.vring.index); break;
        case kSetOwner: case kSetProtocolFeatures: case kSetVringErr: case kSetConfig: break;
        default: fail("message " + std::to_string(message.request) + " is not supported");
        }
        for (int descriptor : descriptors) close(descriptor);
        if (needs_reply) {
            body.number = 0;
            reply(message, 8);
        }
        return true;
    }

    Bus& bus_;
    int socket_;
    SharedMemory memory_;
    std::vector<Vring> vrings_ = std::vector<Vring>(QUEUES);
    uint64_t features_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    sockaddr_un name{};
    if (argc < 2 || argc > 3 || std::strlen(argv[1]) >= sizeof name.sun_path) {
        std::fprintf(stderr, "usage: vhost_user SOCKET [BYTE]\n");
        return 2;
    }
    Bus bus(1);
    bus.top->fault = argc == 3;
    bus.top->fault_address = argc == 3 ? std::strtoull(argv[2], nullptr, 0) : 0;
    sata::DriveModel model;
    model.blocks = SATA ? DISK_BLOCKS : 8;
    sata::Drive drive(model, 1);
    sata::Word word{};
    if (SATA) {
        bus.each = [&] { word = drive.step({bus.top->sata_tx_data, bool(bus.top->sata_tx_k)}, bus.top->sata_reset); };
        bus.driven = [&] {
            bus.top->sata_rx_data = word.data;
            bus.top->sata_rx_k = word.k;
            bus.top->sata_rx_bad = word.bad;
            bus.top->sata_up = drive.up();
        };
    }
    name.sun_family = AF_UNIX;
    std::strcpy(name.sun_path, argv[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) || listen(listener, 1)) fail(std::string(argv[1]) + ": cannot listen");
    std::signal(SIGUSR1, [](int) { cut = 1; });
    answer_when_asked();
    do {
        if (cut) {
            bus.reset();
            drive.cut();
            cut = 0;
        }
        // The features are known once the disk is.
        for (unsigned limit = 1000000; bus.read(kConfig) == 0;)
            if (--limit == 0) fail("the disk never became ready");
        int connection = accept(listener, nullptr, nullptr);
        if (connection < 0) fail("no connection");
        Server server(bus, connection);
        server.serve();
        std::printf("%llu cycles, %llu words, %u kicks, %u interrupts, %u flushes%s\n", (unsigned long long)bus.now,
                    (unsigned long long)bus.accesses, server.kicks, server.interrupts, unsigned(bus.top->flushes),
                    cut ? ", then a power cut" : "");
    } while (cut);
    return 0;
}
