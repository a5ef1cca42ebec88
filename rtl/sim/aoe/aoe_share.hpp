// SPDX-License-Identifier: Apache-2.0 OR MIT
// One target, the core's initiator, and others that the bench plays: each has its share of the target, whatever the others ask for.
#pragma once

#include <map>

#include "aoe_directed.hpp"
#include "aoe_random.hpp"

namespace straightway::aoe {

// An initiator with `window` requests under way, to `kBlocks` blocks of its own, whose contents it knows. An answer that does not come
// was lost, and so was its request or every copy of it, when `kAgain` cycles have passed.
class Other {
public:
    static constexpr uint64_t kBlocks = 64, kAgain = 20000;
    const uint64_t mac;
    unsigned window;
    bool stop = false;
    uint64_t sectors = 0, agains = 0;

    Other(Machine& machine, uint64_t mac_, uint64_t first, unsigned window_, Faults faults, uint64_t seed)
        : mac(mac_), window(window_), machine_(machine), random_(seed), to_(machine.t_rx, false, seed * 3), first_(first),
          blocks_(kBlocks, Bytes(kSector)), busy_(kBlocks) {
        to_.faults = faults;
        for (uint64_t i = 0; i < kBlocks; ++i) std::copy(blocks_[i].begin(), blocks_[i].end(), &machine.disk->bytes()[(first + i) * kSector]);
    }
    bool idle() const { return open_.empty(); }

    void take(const Bytes& bytes) {
        if (random_.below(1000) < to_.faults.loss) return;
        Frame answer = decode(bytes);
        auto found = open_.find(answer.tag);
        if (found == open_.end()) return;
        Ask& ask = found->second;
        if (answer.failed() || answer.ata_error()) fail("another initiator's request failed");
        for (unsigned i = 0; i < ask.count; ++i) {
            Bytes& block = blocks_[ask.at + i];
            if (ask.frame.data.empty()) {
                if (std::memcmp(&answer.data[kSector * i], block.data(), kSector)) fail("another initiator read wrong data");
            } else {
                block.assign(&ask.frame.data[kSector * i], &ask.frame.data[kSector * i] + kSector);
            }
            busy_[ask.at + i] = false;
        }
        sectors += ask.count;
        open_.erase(found);
    }
    void cycle() {
        to_.cycle();
        if (!stop && open_.size() < window) begin();
        for (auto& [tag, ask] : open_) {
            if (machine_.now < ask.due) continue;
            agains += ask.due != 0;
            to_.send(ask.frame.encode());
            ask.due = machine_.now + kAgain;
        }
    }

private:
    struct Ask {
        Frame frame;
        uint64_t at, due;
        unsigned count;
    };
    void begin() {
        Ask ask{{}, random_.below(kBlocks - 1), 0, unsigned(1 + random_.below(2))};
        for (unsigned i = 0; i < ask.count; ++i)
            if (busy_[ask.at + i]) return;
        for (unsigned i = 0; i < ask.count; ++i) busy_[ask.at + i] = true;
        bool write = random_.percent(50);
        ask.frame = ata(write ? 0x34 : 0x24, first_ + ask.at, ask.count, kExtended | (write ? kWriteFlag : 0), ++tag_);
        ask.frame.from = mac;
        if (write) {
            ask.frame.data.resize(kSector * ask.count);
            for (auto& byte : ask.frame.data) byte = uint8_t(random_.next());
        }
        open_[tag_] = ask;
    }

    Machine& machine_;
    Random random_;
    Network to_;
    uint64_t first_;
    std::vector<Bytes> blocks_;
    std::vector<bool> busy_;
    std::map<uint32_t, Ask> open_;
    uint32_t tag_ = 0;
};

struct Shared {
    uint64_t core = 0, least = ~0ull, most = 0;  // sectors of the core's initiator; of each of the others
    uint64_t core_agains = 0, agains = 0, full = 0;
};

inline Shared share(uint64_t seed, unsigned window, Faults faults, uint64_t cycles) {
    constexpr uint64_t kOwn = 120, kOtherMac = 0x020000000003;
    DeviceModel model;
    model.block_count = kOwn + Other::kBlocks * (INITIATORS - 1);
    model.reorder = true;
    model.read_latency = 200, model.write_latency = 300, model.stall_percent = 10;
    Machine machine(model, 8, 10, seed);
    // What the target tells.
    {
        Asker asker(machine);
        unsigned told = get(asker.ask(query()).argument, 0, 2);
        if (told != BUFFERS / INITIATORS) fail("the target tells another share");
        if (window == 0) window = told;
    }
    Network to(machine.t_rx, false, seed * 3), back(machine.i_rx, true, seed * 5);
    to.faults = back.faults = faults;
    Load load(machine, seed * 7, kOwn);
    std::vector<std::unique_ptr<Other>> others;
    for (unsigned i = 0; i + 1 < INITIATORS; ++i)
        others.push_back(std::make_unique<Other>(machine, kOtherMac + i, kOwn + Other::kBlocks * i, window, faults, seed * 11 + i));
    machine.i_tx.deliver = [&](const Bytes& frame) { to.send(frame); };
    machine.t_tx.deliver = [&](const Bytes& frame) {
        uint64_t mac = get(frame, 0, 6);
        if (mac == kInitiatorMac) return back.send(frame);
        if (mac < kOtherMac || mac >= kOtherMac + others.size()) fail("an answer to nobody");
        others[mac - kOtherMac]->take(frame);
    };
    machine.until([&] {
        to.cycle(), back.cycle();
        return machine.top->ready;
    }, kLife * 40, "the target is found");
    machine.each = [&] {
        to.cycle(), back.cycle();
        for (auto& other : others) other->cycle();
    };
    machine.agains = machine.fulls = 0;
    for (uint64_t i = 0; i < cycles; ++i) machine.cycle();
    Shared shared;
    shared.core = load.sectors, shared.core_agains = machine.agains, shared.full = machine.fulls;
    for (auto& other : others) {
        shared.least = std::min(shared.least, other->sectors), shared.most = std::max(shared.most, other->sectors);
        shared.agains += other->agains;
        other->stop = true;
    }
    load.stop = true;
    auto ended = [&] {
        bool all = machine.host->idle() && machine.top->idle;
        for (auto& other : others) all &= other->idle();
        return all;
    };
    machine.until(ended, kLife * 40, "the requests' end");
    load.compare();
    return shared;
}

inline int share_run(uint64_t seed, const std::string& what) {
    constexpr uint64_t kCycles = 150000;
    Faults quiet;
    quiet.least = quiet.most = 20;
    Shared fair = share(seed, 0, quiet, kCycles), shown = fair;
    // Who has no more under way than it was told loses nothing, and nobody has twice as much as another.
    if (fair.full || fair.core_agains || fair.agains) fail(std::to_string(fair.full) + " requests found no slot");
    if (std::max(fair.core, fair.most) > 2 * std::min(fair.core, fair.least)) fail("one initiator has more than twice as much as another");
    if (what == "greedy") {
        // The others ask for all.
        shown = share(seed, 2 * BUFFERS, quiet, kCycles);
        if (shown.core_agains) fail("a request within its share was dropped");
        if (shown.core * 4 < fair.core * 3) fail("others that ask for more take from an initiator's share");
        if (shown.full == 0) fail("the others asked for no more than their share");
    } else if (what == "loss") {
        Faults faults = quiet;
        faults.loss = 20, faults.repeat = 10, faults.most = 300;
        shown = share(seed, 0, faults, kCycles);
        if (shown.core == 0 || shown.least == 0) fail("an initiator is starved");
    }
    std::printf("core %llu least %llu most %llu core_again %llu again %llu full %llu\n", (unsigned long long)shown.core, (unsigned long long)shown.least,
                (unsigned long long)shown.most, (unsigned long long)shown.core_agains, (unsigned long long)shown.agains, (unsigned long long)shown.full);
    return 0;
}

}  // namespace straightway::aoe
