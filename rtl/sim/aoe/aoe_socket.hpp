// SPDX-License-Identifier: Apache-2.0 OR MIT
// The target, or the initiator, on the network card of a guest: QEMU's `-netdev dgram` sends and receives each Ethernet frame as a
// datagram of a Unix socket. The process has the socket PATH, QEMU PATH.guest.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "aoe_machine.hpp"
#include "asked.hpp"

namespace straightway::aoe {

class Wire {
public:
    explicit Wire(const std::string& path) : socket_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
        sockaddr_un own = address(path);
        peer_ = address(path + ".guest");
        unlink(path.c_str());
        if (socket_ < 0 || bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0) fail("the socket cannot be bound");
    }
    // A frame is lost if the guest does not exist yet or any more. With a full queue it waits, as it would in a switch with flow control:
    // a guest that does not run for a while is not a network that loses frames.
    void send(const Bytes& frame) {
        while (sendto(socket_, frame.data(), frame.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&peer_), sizeof peer_) < 0 &&
               (errno == EAGAIN || errno == ENOBUFS || errno == EINTR))
            usleep(1000);
    }
    bool receive(Bytes& frame) {
        frame.resize(10000);
        ssize_t got = recv(socket_, frame.data(), frame.size(), MSG_DONTWAIT);
        if (got <= 0) return false;
        frame.resize(std::max<size_t>(got, kLeast));  // as a card pads it
        return true;
    }
    void wait(int milliseconds) {
        pollfd one{socket_, POLLIN, 0};
        poll(&one, 1, milliseconds);
    }

private:
    static sockaddr_un address(const std::string& path) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path.size() >= sizeof address.sun_path) fail("the socket's path is too long");
        std::memcpy(address.sun_path, path.c_str(), path.size());
        return address;
    }
    int socket_;
    sockaddr_un peer_;
};

constexpr uint64_t kServedBlocks = 49152, kBadBlock = 40960;

// Serves a disk of 24 MiB until it is killed. It fails reads and writes of one block. After a read of the last block alone the target
// is away for three requests, and loses what it was doing; after one of the block before, until all targets were queried four times (the driver
// does so once a minute by itself).
inline int serve(const char* path, unsigned slot) {
    DeviceModel model;
    model.block_count = kServedBlocks;
    model.reorder = true;
    model.read_latency = 50, model.write_latency = 50;
    Machine machine(model, 1, 0, 1);
    machine.disk->bad_reads = machine.disk->bad_writes = {kBadBlock};
    machine.top->slot = slot;
    Wire wire(path);
    answer_when_asked();
    std::printf("serving\n");
    unsigned skip = 0, quiet = 0, most = 0, queries = 0;
    bool away = false, leave = false, leave_long = false;
    machine.t_tx.deliver = [&](const Bytes& bytes) {
        Frame answer = decode(bytes);
        wire.send(bytes);
        bool alone = answer.command == kAta && answer.ata() == 0x40 && answer.count() == 1 && !(answer.ata_flags() & kWriteFlag);
        leave |= alone && answer.lba() == kServedBlocks - 1;
        leave_long |= alone && answer.lba() == kServedBlocks - 2;
    };
    for (Bytes frame;;) {
        doing = quiet > 500 ? "waits for a frame" : "works";
        if (asked) {
            asked = 0;
            std::printf("%llu cycles, %s, %zu frames not taken yet, sending %u, %u requests at the disk, quiet for %u cycles\n", (unsigned long long)machine.now,
                        away ? "away" : skip ? "away for some requests" : "here", machine.t_rx.frames.size(), machine.top->t_tx_valid,
                        machine.disk->under_way(), quiet);
        }
        if (quiet > 500) wire.wait(1000);
        while (wire.receive(frame)) {
            quiet = 0;
            Frame request = decode(frame);
            if (request.type != 0x88a2) continue;
            if (away && request.command == kConfig && request.shelf == 0xffff && ++queries == 4) {
                away = false;
                std::printf("returned\n");
            }
            if (skip != 0) {
                if (--skip == 0) machine.reset_target(), std::printf("returned\n");
                continue;
            }
            if (away) continue;
            if (request.command == kAta && request.count() > most) std::printf("sectors %u\n", most = request.count());
            machine.t_rx.frames.emplace_back(frame, false);
        }
        for (int i = 0; i < 200; ++i) {
            machine.cycle();
            bool still = machine.t_rx.frames.empty() && !machine.top->t_tx_valid && machine.disk->is_idle();
            quiet = still ? quiet + 1 : 0;
        }
        if (leave) leave = false, skip = 3, std::printf("left\n");
        if (leave_long) leave_long = false, away = true, queries = 0, machine.reset_target(), std::printf("left\n");
    }
}

class Attached {
    // Of two milliseconds: a minute. No frame is lost on the way to a target that runs, so this is for one that does not answer at all.
    static constexpr unsigned kPatience = 30000;

public:
    Attached(const char* path) : machine_(DeviceModel(), 8, 0, 1), wire_(path) {
        machine_.i_tx.deliver = [this](const Bytes& bytes) { wire_.send(bytes), moved_ = true, ++sent_; };
        machine_.host->source = [this](Request& request) {
            if (wanted_.empty()) return false;
            request = std::move(wanted_.front());
            wanted_.pop_front();
            return true;
        };
        machine_.host->finished = [this](const Request& request) { ended_.push_back(request), moved_ = true; };
    }
    // A guest under emulation is slow, and its machine may be busy: while nothing moves, two milliseconds are four cycles. After so
    // many of them a frame is taken for lost: the time until the core sends the next one is skipped. The shape's ticks must be so long that
    // no attempt ends while the frames of all slots move.
    unsigned patience = kPatience;
    bool hurry = true;
    template <class Condition>
    void until(Condition condition) {
        Bytes frame;
        bool skips = false;
        for (unsigned still = 0, turn = 0, silent = 0; !condition(); ++still) {
            if (asked) tell(silent);
            if (++turn % 32 == 0 || still > 60)
                while (wire_.receive(frame)) machine_.i_rx.frames.emplace_back(frame, false), ++received_;
            machine_.cycle();
            moved_ |= !machine_.i_rx.frames.empty() || machine_.top->i_tx_valid || machine_.top->write_valid || machine_.top->read_valid;
            if (moved_) still = silent = 0, skips = false;
            moved_ = false;
            if (!hurry && !skips && still > 60 && still % 4 == 0) {
                wire_.wait(2);
                skips = ++silent == patience;
                // The core takes only the answer to its last question, and one may need longer than the last few did.
                if (skips && patience < kPatience) patience *= 2;
            }
        }
    }
    void until_ready() { until([&] { return machine_.top->ready; }); }
    // Without a target the time between two queries is for the guest, whose target may not listen yet.
    void find() {
        hurry = true;
        until([&] { return machine_.top->i_tx_valid; });
        hurry = false;
        patience = 250;  // half a second, then twice as long each time
        until_ready();
        patience = kPatience;
    }
    std::vector<Request> run(std::deque<Request> requests) {
        size_t count = requests.size();
        wanted_ = std::move(requests);
        until([&] { return ended_.size() == count; });
        std::vector<Request> ended;
        ended.swap(ended_);
        return ended;
    }
    uint64_t blocks() const { return machine_.top->block_count; }
    bool ready() const { return machine_.top->ready; }
    uint64_t agains() const { return machine_.agains; }

private:
    // What a test prints when it is stuck.
    void tell(unsigned silent) {
        asked = 0;
        std::printf("%llu cycles, target %s, %zu requests to send, %u under way, %zu ended; %llu frames sent, %llu again, %llu received; silent %u of %u%s\n",
                    (unsigned long long)machine_.now, ready() ? "up" : "down", wanted_.size(), machine_.host->under_way(), ended_.size(),
                    (unsigned long long)sent_, (unsigned long long)agains(), (unsigned long long)received_, silent, patience, hurry ? ", hurries" : "");
    }

    uint64_t sent_ = 0, received_ = 0;
    Machine machine_;
    Wire wire_;
    std::deque<Request> wanted_;
    std::vector<Request> ended_;
    bool moved_ = false;
};

inline void wait_for(const std::string& path) {
    for (struct stat found; stat(path.c_str(), &found) != 0;) usleep(20000);
}

// Writes and reads a target in a guest. Between PATH.kill and PATH.killed the guest ends it, and starts it again after PATH.start.
inline int attach(const std::string& path) {
    answer_when_asked();
    Attached disk(path.c_str());
    doing = "waits for attach.begin";
    wait_for(path + ".begin");
    doing = "looks for the target";
    disk.find();
    std::printf("blocks %llu\n", (unsigned long long)disk.blocks());
    Random random(1);
    Bytes image(disk.blocks() * kSector);
    auto check = [&](const std::vector<Request>& ended) {
        for (const Request& one : ended) {
            if (one.status != kOk) fail("status " + std::to_string(one.status) + " detail " + std::to_string(one.detail));
            if (one.op == kRead && std::memcmp(one.data.data(), &image[one.lba * kSector], one.data.size()) != 0) fail("other contents");
        }
    };
    auto all = [&](Op op) {
        std::deque<Request> requests;
        for (uint64_t lba = 0, count; lba < disk.blocks(); lba += count) {
            Request request;
            request.op = op, request.lba = lba;
            request.count = count = std::min<uint64_t>(1 + random.below(60), disk.blocks() - lba);
            if (op == kWrite) {
                for (uint64_t i = 0; i < count * kSector; ++i) request.data.push_back(image[lba * kSector + i] = uint8_t(random.next()));
            }
            requests.push_back(std::move(request));
        }
        return requests;
    };
    doing = "reads an empty file";
    check(disk.run(all(kRead)));
    doing = "writes";
    check(disk.run(all(kWrite)));
    Request flush;
    flush.op = kFlush;
    check(disk.run({flush}));
    doing = "reads what it wrote";
    check(disk.run(all(kRead)));
    std::ofstream(path + ".kill");
    doing = "waits for attach.killed";
    wait_for(path + ".killed");
    doing = "reads without a target";
    disk.hurry = true;
    Request read;
    read.count = 9;
    if (disk.run({read})[0].status != kGone) fail("an answer without a target");
    disk.until([&] { return !disk.ready(); });
    std::ofstream(path + ".start");
    doing = "looks for the target again";
    disk.find();
    doing = "reads again";
    check(disk.run(all(kRead)));
    std::printf("again %llu\n", (unsigned long long)disk.agains());
    std::ofstream(path + ".done");
    return 0;
}

}  // namespace straightway::aoe
