// SPDX-License-Identifier: Apache-2.0 OR MIT
// An initiator and a target, joined by a network with faults, against a model of the disk's contents.
#pragma once

#include "aoe_machine.hpp"

namespace straightway::aoe {

// Random requests to the disk's first `blocks`, or to all, checked against the contents that they must have.
class Load {
public:
    Load(Machine& machine, uint64_t seed, uint64_t blocks = 0)
        : machine_(machine), random_(seed), blocks_(blocks ? blocks : machine.model.block_count) {
        image_.resize(blocks_ * kSector);
        for (auto& byte : image_) byte = uint8_t(random_.next());
        std::copy(image_.begin(), image_.end(), machine.disk->bytes().begin());
        unknown_.resize(blocks_), busy_.resize(blocks_);
        machine.host->source = [this](Request& request) { return source(request); };
        machine.host->finished = [this](const Request& request) { finished(request); };
    }
    bool stop = false, may_leave = false;
    uint64_t good = 0, gone = 0, bad = 0, flushes = 0, sectors = 0;

    // What is on the disk is what its host knows.
    void compare() const {
        for (uint64_t lba = 0; lba < blocks_; ++lba)
            if (!unknown_[lba] && std::memcmp(&image_[lba * kSector], &machine_.disk->bytes()[lba * kSector], kSector) != 0)
                fail("the disk has other contents in block " + std::to_string(lba));
    }

private:
    bool source(Request& request) {
        if (stop || !machine_.top->ready) return false;
        unsigned kind = random_.below(100);
        request.op = kind < 45 ? kRead : kind < 95 ? kWrite : kFlush;
        if (request.op == kFlush) return true;
        // Few blocks, so that they are soon written again.
        request.count = 1 + random_.below(random_.percent(10) ? 20 : 5);
        request.lba = random_.below(blocks_ - request.count + 1);
        for (uint64_t i = 0; i < request.count; ++i)
            if (busy_[request.lba + i]) return false;  // overlapping requests have no order
        for (uint64_t i = 0; i < request.count; ++i) busy_[request.lba + i] = true;
        if (request.op == kWrite) {
            request.data.resize(request.count * kSector);
            for (auto& byte : request.data) byte = uint8_t(random_.next());
        }
        return true;
    }
    void finished(const Request& request) {
        bool expect_bad = false;
        for (uint64_t i = 0; i < request.count; ++i) {
            busy_[request.lba + i] = false;
            const auto& set = request.op == kRead ? machine_.disk->bad_reads : machine_.disk->bad_writes;
            expect_bad |= set.count(request.lba + i) != 0;
        }
        if (request.status == kGone && may_leave) ++gone;
        else if (request.status == kDevice && expect_bad) {
            ++bad;
            if (request.detail != (request.op == kRead ? 0x4041 : 0x0461)) fail("a wrong detail of an error");
        } else if (request.status != kOk) fail("status " + std::to_string(request.status) + " of a request");
        else if (expect_bad) fail("a bad block gave no error");
        else ++good, sectors += request.op == kFlush ? 0 : request.count;
        flushes += request.op == kFlush && request.status == kOk;
        if (request.op == kRead) {
            if (request.data.size() != uint64_t(request.count) * kSector) fail("a read returned the wrong number of words");
            for (uint64_t i = 0; i < request.count && request.status == kOk; ++i)
                if (!unknown_[request.lba + i] &&
                    std::memcmp(&image_[(request.lba + i) * kSector], &request.data[i * kSector], kSector) != 0)
                    fail("block " + std::to_string(request.lba + i) + " differs");
        } else if (request.op == kWrite) {
            for (uint64_t i = 0; i < request.count; ++i) unknown_[request.lba + i] = request.status != kOk;
            if (request.status == kOk) std::memcpy(&image_[request.lba * kSector], request.data.data(), request.data.size());
        }
    }

    Machine& machine_;
    Random random_;
    uint64_t blocks_;
    Bytes image_;
    std::vector<bool> unknown_, busy_;
};

const uint64_t kLife = uint64_t(LIFE_TICKS) << TICK_LOG2;

// What the initiator has sent so far: a tag is used once within the tags' period.
class Tags {
public:
    void sent(const Bytes& frame) {
        uint32_t tag = uint32_t(get(frame, 20, 4));
        if (!used_.insert(tag).second) fail("a tag was used twice");
    }
    void forget() { used_.clear(); }

private:
    std::set<uint32_t> used_;
};

inline int random_run(uint64_t seed, uint64_t cycles) {
    Random random(seed);
    DeviceModel model;
    model.block_count = 200;
    model.reorder = random.percent(70);
    model.read_latency = random.below(300);
    model.write_latency = random.below(600);
    model.flush_latency = random.below(400);
    model.stall_percent = random.percent(40) ? random.below(50) : 0;
    model.depth = 1 + random.below(8);
    Machine machine(model, 1 + random.below(12), random.percent(40) ? random.below(50) : 0, seed);
    Network to(machine.t_rx, false, seed * 3), back(machine.i_rx, true, seed * 5);
    Tags tags;
    machine.i_tx.deliver = [&](const Bytes& frame) { tags.sent(frame), to.send(frame); };
    machine.t_tx.deliver = [&](const Bytes& frame) { back.send(frame); };
    machine.each = [&] { to.cycle(), back.cycle(); };
    for (Out* out : {&machine.i_tx, &machine.t_tx}) out->stall = random.percent(50) ? random.below(40) : 0;
    for (In* in : {&machine.i_rx, &machine.t_rx}) in->stall = random.percent(50) ? random.below(40) : 0;
    Load load(machine, seed * 7);
    // A frame whose damage is not noticed by the line is noticed by the checksum above it, if both ends have it.
    bool heavy = random.percent(50);
    Faults faults;
    faults.loss = random.below(heavy ? 60 : 12);
    faults.repeat = random.below(60);
    faults.damage = random.below(heavy ? 60 : 12);
    faults.unnoticed = TARGET_CHECKS != 0;
    faults.least = random.below(200);
    faults.most = faults.least + random.below(random.percent(40) ? kLife / 5 : 500);
    to.faults = back.faults = faults;
    if (random.percent(50)) {
        for (int i = 0; i < 3; ++i) machine.disk->bad_reads.insert(random.below(model.block_count));
        machine.disk->bad_writes.insert(random.below(model.block_count));
    }
    // Too many losses in a row, and the target is taken for lost.
    load.may_leave = true;
    machine.until([&] { return machine.top->ready; }, kLife * 40, "the target is found");
    if (machine.top->block_count != model.block_count) fail("the wrong size");
    if (!machine.top->cache) fail("the target's cache was not noticed");
    uint64_t resets = 0, away = 0;
    for (uint64_t until = machine.now + cycles; machine.now < until;) {
        machine.cycle();
        if (random.below(50000) == 0) machine.reset_target(), ++resets;
        if (random.below(200000) == 0 && away == 0) away = machine.now + random.below(kLife * 3);
        to.cut = back.cut = machine.now < away;
        if (machine.now >= away) away = 0;
    }
    load.stop = true;
    to.cut = back.cut = false;
    to.faults = back.faults = {};
    machine.until([&] { return machine.host->idle() && machine.top->idle; }, kLife * 20, "the requests' end");
    load.stop = false;
    uint64_t before = load.good;
    load.may_leave = false;
    machine.until([&] { return load.good > before + 20; }, kLife * 40, "all works again");
    load.stop = true;
    machine.until([&] { return machine.host->idle() && machine.top->idle && machine.top->disk_idle && to.empty(); }, kLife * 10, "the end");
    load.compare();
    std::printf("good %llu bad %llu gone %llu flushes %llu again %llu damaged %llu lost %llu repeated %llu losses %llu resets %llu full %llu\n",
                (unsigned long long)load.good, (unsigned long long)load.bad, (unsigned long long)load.gone,
                (unsigned long long)load.flushes, (unsigned long long)machine.agains, (unsigned long long)machine.damages,
                (unsigned long long)(to.lost + back.lost), (unsigned long long)(to.repeated + back.repeated),
                (unsigned long long)machine.losses, (unsigned long long)resets, (unsigned long long)machine.fulls);
    return 0;
}

// The target leaves under load, and returns: each request ends within the bound, and it becomes ready by itself, with another
// generation. The same with a line that takes no word, in the middle of a frame or between two.
inline int leave_run(uint64_t seed) {
    Random random(seed);
    DeviceModel model;
    model.block_count = 300;
    model.read_latency = 50, model.write_latency = 80;
    Machine machine(model, 8, 0, seed);
    Network to(machine.t_rx, false, seed * 3), back(machine.i_rx, true, seed * 5);
    machine.i_tx.deliver = [&](const Bytes& frame) { to.send(frame); };
    machine.t_tx.deliver = [&](const Bytes& frame) { back.send(frame); };
    machine.each = [&] { to.cycle(), back.cycle(); };
    to.faults.least = back.faults.least = to.faults.most = back.faults.most = 20;
    Load load(machine, seed * 7);
    // The last attempt's time, for the frames that are under way, and the line that takes nothing.
    const uint64_t bound = ((uint64_t(RETRY_TICKS) << TRIES) + LIFE_TICKS + 2 * TRIES + 4) << TICK_LOG2;
    uint64_t longest = 0;
    for (int round = 0; round < 6; ++round) {
        machine.until([&] { return machine.top->ready; }, kLife * 3, "ready");
        unsigned generation = machine.top->generation;
        load.may_leave = false;
        for (uint64_t i = 5000 + random.below(3000); i > 0; --i) machine.cycle();
        load.may_leave = true;
        if (round % 3 == 2) machine.top->disk_away = 1;  // the target answers that its device is not available
        else if (round % 3 == 1) machine.i_tx.closed = true;
        else to.cut = true;
        uint64_t from = machine.now;
        machine.until([&] { return !machine.top->ready; }, bound, "lost");
        machine.until([&] { return machine.host->idle() && machine.top->idle; }, bound, "the requests' end");
        longest = std::max(longest, machine.now - from);
        for (uint64_t i = random.below(kLife * 2); i > 0; --i) machine.cycle();
        if (machine.top->ready) fail("ready without a target");
        machine.i_tx.closed = to.cut = machine.top->disk_away = false;
        machine.until([&] { return machine.top->ready; }, kLife * 4, "ready again");
        if (machine.top->generation == generation) fail("the generation is the same");
    }
    load.stop = true;
    machine.until([&] { return machine.host->idle() && machine.top->idle && machine.top->disk_idle && to.empty(); }, kLife * 10, "the end");
    load.compare();
    std::printf("good %llu gone %llu longest %llu bound %llu\n", (unsigned long long)load.good, (unsigned long long)load.gone,
                (unsigned long long)longest, (unsigned long long)bound);
    return load.gone > 0 ? 0 : 1;
}

}  // namespace straightway::aoe
