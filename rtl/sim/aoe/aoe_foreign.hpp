// SPDX-License-Identifier: Apache-2.0 OR MIT
// The initiator with a target that the bench plays: one of the first generation, and answers that must not be accepted.
#pragma once

#include "aoe_directed.hpp"

namespace straightway::aoe {

struct Foreign {
    unsigned buffers = 2, sectors = 0, blocks = 300;
    bool extended = true;
    std::string text;
    Bytes image;
    std::deque<Frame> requests;  // of data, not yet answered
    unsigned most = 0;           // waiting at the same time
    uint64_t queried = 0;        // when
    std::function<void(Frame&)> change = [](Frame&) {};

    void send(Machine& machine, Frame answer, const Frame& request) {
        answer.to = kInitiatorMac, answer.from = kTargetMac, answer.flags |= 8, answer.shelf = 7, answer.slot = 3;
        answer.command = request.command, answer.tag = request.tag;
        change(answer);
        machine.i_rx.frames.emplace_back(answer.encode(), false);
    }
    void take(Machine& machine, const Bytes& bytes) {
        Frame request = decode(bytes);
        CHECK(request.version == 1 && request.flags == 0 && request.error == 0 && request.shelf == 7 && request.slot == 3);
        CHECK(bytes.size() >= kLeast && get(bytes, 34, 2) == 0);  // no mark for a target that does not have the checksum
        Frame answer = request;
        answer.data.clear();
        if (request.command == kConfig) {
            CHECK(request.to == kBroadcast);
            queried = machine.now;
            put(answer.argument, 0, 2, buffers), answer.argument[4] = sectors, answer.argument[5] = 0x10;
            put(answer.argument, 6, 2, text.size());
            for (size_t i = 0; i < text.size() && i < 4; ++i) answer.argument[8 + i] = text[i];
            send(machine, answer, request);
        } else if (request.ata() == 0xec) {
            answer.argument[3] = 0x40;
            answer.data.resize(kSector);
            auto word = [&](unsigned number, unsigned value) {
                answer.data[2 * number] = uint8_t(value), answer.data[2 * number + 1] = uint8_t(value >> 8);
            };
            word(60, blocks), word(61, 0), word(100, blocks), word(83, extended ? 0x4400 : 0x4000), word(86, extended ? 0x0400 : 0);
            send(machine, answer, request);
        } else {
            CHECK(request.to == kTargetMac);
            requests.push_back(request);
            most = std::max<unsigned>(most, requests.size());
        }
    }
    Frame answer(const Frame& request) {
        Frame answer = request;
        bool write = request.ata_flags() & kWriteFlag;
        CHECK(request.ata() == (request.ata() == 0xe7 ? 0xe7 : 0x20 + (write ? 0x10 : 0) + (extended ? 4 : 0)));
        uint64_t lba = request.lba();
        if (!extended && request.ata() != 0xe7) {
            CHECK(lba >> 28 == 0xe);
            lba &= 0xfffffff;
        }
        answer.argument[3] = 0x40;
        answer.data.clear();
        if (request.ata() == 0xe7) return answer;
        CHECK(bool(request.ata_flags() & kExtended) == extended && request.count() >= 1 && request.count() <= std::max(sectors ? sectors : 2, 1u));
        size_t size = request.count() * kSector;
        if (write) std::copy(request.data.begin(), request.data.begin() + size, image.begin() + lba * kSector);
        else answer.data.assign(image.begin() + lba * kSector, image.begin() + lba * kSector + size);
        return answer;
    }
};

struct Trial {
    Machine machine;
    Foreign target;
    std::deque<Request> wanted;
    std::deque<Request> done;

    explicit Trial(uint64_t seed) : machine(DeviceModel(), 8, 0, seed) {
        machine.i_tx.deliver = [this](const Bytes& bytes) { target.take(machine, bytes); };
        machine.host->source = [this](Request& request) {
            if (wanted.empty() || !machine.top->ready) return false;
            request = wanted.front();
            wanted.pop_front();
            return true;
        };
        machine.host->finished = [this](const Request& request) { done.push_back(request); };
    }
    void begin() {
        target.image.resize(target.blocks * kSector);
        for (auto& byte : target.image) byte = uint8_t(machine.random.next());
        machine.until([&] { return machine.top->ready; }, uint64_t(LIFE_TICKS) << (TICK_LOG2 + 3), "ready");
        CHECK(machine.top->block_count == target.blocks && machine.top->cache);
        CHECK(target.queried >= uint64_t(LIFE_TICKS) << TICK_LOG2);  // what was sent before a reset may still arrive
    }
    void want(Op op, uint64_t lba, uint32_t count) {
        Request request;
        request.op = op, request.lba = lba, request.count = count;
        if (op == kWrite)
            for (uint32_t i = 0; i < count * kSector; ++i) request.data.push_back(uint8_t(machine.random.next()));
        wanted.push_back(request);
    }
    Frame next() {
        machine.until([&] { return !target.requests.empty(); }, 100000, "a request");
        Frame request = target.requests.front();
        target.requests.pop_front();
        return request;
    }
    Request ended() {
        machine.until([&] { return !done.empty(); }, 100000, "a response");
        Request request = done.front();
        done.pop_front();
        return request;
    }
    void run(int cycles) {
        for (int i = 0; i < cycles; ++i) machine.cycle();
    }
};

inline void check_shapes(uint64_t seed) {
    for (bool extended : {true, false})
        for (unsigned sectors : {0u, 1u, 2u, 17u})
            for (unsigned buffers : {1u, 3u, 100u}) {
                if (sectors > 2 && !extended) continue;
                Trial trial(++seed);
                trial.target.extended = extended, trial.target.sectors = sectors, trial.target.buffers = buffers;
                trial.target.text = "not ours";
                trial.begin();
                Bytes expected = trial.target.image;
                trial.want(kWrite, 3, 7), trial.want(kRead, 100, 5), trial.want(kFlush, 0, 0), trial.want(kRead, 20, 33);
                for (unsigned ended = 0; ended < 4;) {
                    trial.run(100);
                    CHECK(trial.target.requests.size() <= std::min<size_t>(buffers, SLOTS));
                    if (!trial.target.requests.empty()) trial.target.send(trial.machine, trial.target.answer(trial.target.requests.front()), trial.target.requests.front()), trial.target.requests.pop_front();
                    while (!trial.done.empty()) {
                        Request one = trial.done.front();
                        trial.done.pop_front();
                        ++ended;
                        CHECK(one.status == kOk);
                        if (one.op == kWrite) std::copy(one.data.begin(), one.data.end(), expected.begin() + one.lba * kSector);
                        if (one.op == kRead) CHECK(std::equal(one.data.begin(), one.data.end(), expected.begin() + one.lba * kSector));
                    }
                }
                CHECK(trial.target.most == std::min<unsigned>(buffers, trial.target.most) && (buffers == 1 || trial.target.most > 1));
                CHECK(trial.target.image == expected);
            }
}

// Answers that are not this request's have no effect; the right one does.
inline void check_answers(uint64_t seed) {
    Trial trial(seed);
    trial.begin();
    std::function<void(Frame&)> wrong[] = {
        [](Frame& frame) { frame.tag ^= 1u << 31; },       // discovery's
        [](Frame& frame) { frame.tag ^= 1u << 12; },       // another generation's
        [](Frame& frame) { frame.tag += SLOTS; },          // an attempt's that was not made
        [](Frame& frame) { frame.tag ^= SLOTS / 2; },      // another entry's
        [](Frame& frame) { frame.flags &= ~8; },           // a request
        [](Frame& frame) { frame.shelf = 1; }, [](Frame& frame) { frame.slot = 1; },
        [](Frame& frame) { frame.to = kBroadcast; }, [](Frame& frame) { frame.from = 5; },
        [](Frame& frame) { frame.type = 0x0806; }, [](Frame& frame) { frame.version = 2; },
        [](Frame& frame) { frame.command = 1; }, [](Frame& frame) { frame.command = 2; },
        [](Frame& frame) { frame.data.resize(kSector - 4); },
        [](Frame& frame) { frame.check = true; }};
    for (auto& change : wrong) {
        trial.want(kRead, 50, 1);
        Frame request = trial.next();
        Frame answer = trial.target.answer(request);
        Frame other = answer;
        std::fill(other.data.begin(), other.data.end(), 0x55);
        trial.target.change = change;
        trial.target.send(trial.machine, other, request);
        trial.target.change = [](Frame&) {};
        trial.run(600);
        CHECK(trial.done.empty());
        for (int i = 0; i < 3; ++i) trial.target.send(trial.machine, answer, request);  // it counts once
        Request one = trial.ended();
        CHECK(one.status == kOk && std::equal(one.data.begin(), one.data.end(), trial.target.image.begin() + 50 * kSector));
        trial.run(1500);
        CHECK(trial.done.empty());
        trial.target.requests.clear();
    }
    // Errors: of the protocol, of the disk. A failed command brings no data.
    struct { uint8_t flags, error, status, ata_error; Status wanted; uint16_t detail; } errors[] = {
        {4, 2, 0x24, 0, kDevice, 0x0200}, {4, 6, 0x24, 0, kDevice, 0x0600}, {0, 0, 0x41, 0x40, kDevice, 0x4041}, {0, 0, 0x61, 0x04, kDevice, 0x0461}};
    for (auto& error : errors) {
        trial.want(kRead, 60, 6);  // the first piece fails, the others do not
        for (unsigned piece = 0; piece < 3; ++piece) {
            Frame request = trial.next();
            Frame answer = trial.target.answer(request);
            if (piece == 0) answer.flags = error.flags, answer.error = error.error, answer.argument[3] = error.status, answer.argument[1] = error.ata_error, answer.data.clear();
            trial.target.send(trial.machine, answer, request);
        }
        Request one = trial.ended();
        CHECK(one.status == error.wanted && one.detail == error.detail && one.data.size() == 6 * kSector);
        CHECK(std::equal(one.data.begin() + 2 * kSector, one.data.end(), trial.target.image.begin() + 62 * kSector));
    }
}

// A write that was sent twice ends only when both copies were answered, or after a frame's lifetime; a read ends at once. The second
// attempt comes after RetryTicks, the third after twice as long.
inline void check_copies(uint64_t seed) {
    Trial trial(seed);
    trial.begin();
    const uint64_t tick = 1u << TICK_LOG2;
    for (int answers = 1; answers <= 2; ++answers)
        for (Op op : {kRead, kWrite}) {
            trial.want(op, 7, 1);
            Frame first = trial.next();
            uint64_t sent = trial.machine.now;
            Frame second = trial.next();
            uint64_t waited = trial.machine.now - sent;
            CHECK(second.tag == first.tag + SLOTS && waited >= RETRY_TICKS * tick && waited < (RETRY_TICKS + 2) * tick + 400);
            trial.target.send(trial.machine, trial.target.answer(second), second);
            trial.target.send(trial.machine, trial.target.answer(second), second);  // one copy's answer twice is not both copies'
            if (answers == 2) {
                trial.run(3000);
                CHECK(trial.done.size() == (op == kRead));
                trial.target.send(trial.machine, trial.target.answer(first), first);
            }
            uint64_t from = trial.machine.now;
            trial.ended();
            uint64_t took = trial.machine.now - from;
            bool settles = op == kWrite && answers == 1;
            CHECK(settles ? took >= LIFE_TICKS * tick && took < (LIFE_TICKS + 2) * tick + 1000 : took < 2000);
            trial.run(400);
            CHECK(trial.done.empty() && trial.target.requests.empty());
        }
    trial.want(kRead, 9, 1);
    uint64_t last = 0;
    for (unsigned attempt = 0; attempt < TRIES; ++attempt) {
        trial.machine.until([&] { return !trial.target.requests.empty(); }, RETRY_TICKS * tick << TRIES, "an attempt");
        trial.next();
        if (attempt) CHECK(trial.machine.now - last >= (RETRY_TICKS * tick << (attempt - 1)));
        last = trial.machine.now;
    }
    trial.machine.until([&] { return !trial.done.empty(); }, RETRY_TICKS * tick << TRIES, "the end");
    uint64_t lost = trial.machine.now;
    CHECK(trial.ended().status == kGone && !trial.machine.top->ready);
    trial.machine.until([&] { return trial.machine.top->ready; }, LIFE_TICKS * tick * 3, "ready again");
    CHECK(trial.target.queried > lost + (LIFE_TICKS - 1) * tick);
}

inline int foreign_run(uint64_t seed) {
    check_shapes(seed);
    check_answers(seed);
    check_copies(seed);
    return 0;
}

}  // namespace straightway::aoe
