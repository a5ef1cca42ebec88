// SPDX-License-Identifier: Apache-2.0 OR MIT
// Single frames to the target, and their answers: each command, each error, each kind of frame that is ignored.
#pragma once

#include "aoe_machine.hpp"

namespace straightway::aoe {

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) fail(std::string(#condition " at line ") + std::to_string(__LINE__)); \
    } while (0)

const uint64_t kSectors = 1u << SECTORS_LOG2;

class Asker {
public:
    explicit Asker(Machine& machine) : machine_(machine) {
        machine.t_tx.deliver = [this](const Bytes& frame) { answers.push_back(frame); };
    }
    std::deque<Bytes> answers;

    void send(const Bytes& bytes, bool damaged = false) { machine_.t_rx.frames.emplace_back(bytes, damaged); }
    // The answer to a request, whose fields are those that every answer has.
    Frame ask(const Frame& request) {
        send(request.encode());
        machine_.until([&] { return !answers.empty(); }, 20000, "an answer");
        raw = answers.front();
        answers.pop_front();
        Frame answer = decode(raw);
        CHECK(answer.to == request.from && answer.from == kTargetMac && answer.type == 0x88a2 && answer.version == 1);
        CHECK(answer.response() && answer.shelf == 7 && answer.slot == 3 && answer.command == request.command);
        CHECK(answer.tag == request.tag && raw.size() >= kLeast && raw.size() % 4 == 0);
        CHECK(answer.failed() == (answer.error != 0));
        return answer;
    }
    void none(const Bytes& bytes, bool damaged = false) {
        send(bytes, damaged);
        for (int i = 0; i < 3000; ++i) machine_.cycle();
        if (!answers.empty()) fail("a frame of " + std::to_string(bytes.size()) + " bytes was answered that must be ignored, tag " + std::to_string(get(bytes, 20, 4)));
    }
    Bytes raw;

private:
    Machine& machine_;
};

inline Frame ata(uint8_t command, uint64_t lba, uint8_t count, uint8_t flags, uint32_t tag) {
    Frame frame;
    frame.set_ata(command, lba, count, flags).tag = tag;
    return frame;
}
inline Frame query(uint8_t command = 0, const std::string& text = "") {
    Frame frame;
    frame.command = kConfig, frame.tag = 99;
    frame.argument = Bytes(12);
    frame.argument[5] = 0x10 | command;
    put(frame.argument, 6, 2, text.size());
    for (size_t i = 0; i < text.size(); ++i)
        i < 4 ? void(frame.argument[8 + i] = text[i]) : frame.data.push_back(text[i]);
    frame.data.resize((frame.data.size() + 3) / 4 * 4);
    return frame;
}

inline void check_config(Asker& asker) {
    Frame ask = query();
    for (uint64_t to : {kTargetMac, kBroadcast})
        for (unsigned any = 0; any < 4; ++any) {
            ask.to = to, ask.shelf = any & 1 ? 0xffff : 7, ask.slot = any & 2 ? 0xff : 3;
            Frame answer = asker.ask(ask);
            CHECK(get(answer.argument, 0, 2) == BUFFERS / INITIATORS && answer.argument[4] == kSectors && answer.argument[5] == 0x10);
            CHECK(get(answer.argument, 6, 2) == (TARGET_CHECKS ? 4 : 0) && !answer.failed());
            CHECK(!TARGET_CHECKS || std::string(answer.argument.begin() + 8, answer.argument.end()) == "SWC1");
        }
    const std::string own = TARGET_CHECKS ? "SWC1" : "";
    asker.ask(query(1, own));
    asker.none(query(1, own + "x").encode());
    asker.none(query(1, TARGET_CHECKS ? "SWC2" : "x").encode());
    asker.none(query(1, TARGET_CHECKS ? "SWC" : "SWC1").encode());
    for (size_t i = 0; i <= own.size(); ++i) asker.ask(query(2, own.substr(0, i)));
    asker.none(query(2, "T").encode());
    asker.none(query(2, own + "1").encode());
    // The string cannot be changed.
    CHECK(asker.ask(query(3, "mine")).error == (TARGET_CHECKS ? 4 : 2));
    for (uint8_t command : {4, 5, 15}) CHECK(asker.ask(query(command, "mine")).error == 2);
}

inline void check_errors(Machine& machine, Asker& asker) {
    for (uint8_t command : {2, 3, 4, 0x80, 0xff}) {  // masks of addresses, reservations, unknown and vendors' commands
        Frame frame = ata(kAta, 0, 0, 0, 5);
        frame.command = command;
        CHECK(asker.ask(frame).error == 1);
    }
    for (uint8_t version : {0, 2, 15}) {
        Frame frame = ata(0xec, 0, 1, 0, 6);
        frame.version = version;
        CHECK(asker.ask(frame).error == 5);
    }
    struct { uint8_t command, count, flags; } bad[] = {
        {0x24, 1, 0}, {0x34, 1, kWriteFlag}, {0x20, 1, kExtended}, {0x30, 1, kWriteFlag | kExtended},  // 48 bits or 28
        {0x24, 1, kExtended | kWriteFlag}, {0x34, 1, kExtended}, {0x30, 1, 0}, {0x20, 1, kWriteFlag},      // direction
        {0x24, 0, kExtended}, {0x20, 0, 0}, {0x24, kSectors + 1, kExtended}, {0x34, 255, kExtended | kWriteFlag},
        {0xec, 1, kWriteFlag}, {0xe7, 0, kWriteFlag}, {0xea, 0, kWriteFlag}};
    for (auto& one : bad) {
        Frame frame = ata(one.command, 3, one.count, one.flags, 7);
        frame.data = Bytes(kSectors * kSector, 0x77);
        CHECK(asker.ask(frame).error == 2);
    }
    // The disk's own refusals are ATA's: an unknown command, a range past the end.
    for (uint8_t command : {0x00, 0x25, 0x35, 0xa1, 0xe5, 0xef}) {
        Frame answer = asker.ask(ata(command, 0, 1, 0, 8));
        CHECK(!answer.failed() && answer.ata() == 0x41 && answer.ata_error() == 0x04);
    }
    const uint64_t blocks = machine.model.block_count;
    for (uint64_t lba : {blocks, uint64_t(1) << 40, (uint64_t(1) << 48) - 1}) {
        Frame answer = asker.ask(ata(0x24, lba, 1, kExtended, 9));
        CHECK(!answer.failed() && answer.ata() == 0x41 && answer.ata_error() == 0x10 && answer.data.size() == kLeast - kHeader);
    }
    machine.disk->bad_reads.insert(10), machine.disk->bad_writes.insert(11), machine.disk->bad_flush = true;
    Frame unread = asker.ask(ata(0x24, 10, 1, kExtended, 10));
    CHECK(unread.ata() == 0x41 && unread.ata_error() == 0x40);
    Frame write = ata(0x34, 11, 1, kExtended | kWriteFlag, 11);
    write.data = Bytes(kSector);
    Frame unwritten = asker.ask(write);
    CHECK(unwritten.ata() == 0x61 && unwritten.ata_error() == 0x04);
    CHECK(asker.ask(ata(0xe7, 0, 0, 0, 12)).ata() == 0x61);
    machine.disk->bad_reads.clear(), machine.disk->bad_writes.clear(), machine.disk->bad_flush = false;
    // Without its device.
    machine.top->disk_away = 1;
    asker.none(query().encode());
    CHECK(asker.ask(ata(0x24, 0, 1, kExtended, 13)).error == 3 && asker.ask(ata(0xec, 0, 1, 0, 14)).error == 3);
    machine.top->disk_away = 0;
}

inline void check_ignored(Machine& machine, Asker& asker) {
    Bytes before = machine.disk->bytes();
    Frame good = ata(0x34, 20, 1, kExtended | kWriteFlag, 20);
    good.data = Bytes(kSector, 0x99);
    auto ignored = [&](auto change) {
        Frame frame = good;
        change(frame);
        asker.none(frame.encode());
    };
    ignored([](Frame& frame) { frame.type = 0x0800; });
    ignored([](Frame& frame) { frame.flags = 8; });  // an answer
    ignored([](Frame& frame) { frame.shelf = 8; });
    ignored([](Frame& frame) { frame.slot = 4; });
    ignored([](Frame& frame) { frame.shelf = 0xffff; });  // only a query may go to all
    ignored([](Frame& frame) { frame.slot = 0xff; });
    ignored([](Frame& frame) { frame.to = kBroadcast; });
    ignored([](Frame& frame) { frame.to = kTargetMac ^ 1; });
    ignored([](Frame& frame) { frame.data.resize(kSector - 4); });  // short
    ignored([](Frame& frame) { frame.data.clear(); });
    ignored([](Frame& frame) { put(frame.argument, 10, 2, 0xc32d); });  // neither zero nor the mark
    asker.none(good.encode(), true);                                    // the line found it damaged
    for (size_t size : {4, 12, 24, 32, 36}) {
        Bytes cut = good.encode();
        cut.resize(size);
        asker.none(cut);
    }
    if (TARGET_CHECKS) {
        good.check = true;
        for (size_t byte : {15, 22, 24, 26, 27, 28, 33, 36, 547, 548, 551}) {
            Bytes bytes = good.encode();
            bytes[byte] ^= 0x10;
            asker.none(bytes);
        }
        good.check = false;
    }
    CHECK(machine.disk->bytes() == before);
}

inline void check_data(Machine& machine, Asker& asker, Random& random) {
    const uint64_t blocks = machine.model.block_count;
    Bytes image = machine.disk->bytes();
    for (unsigned i = 0; i < 60; ++i) {
        bool extended = random.percent(50), write = random.percent(50);
        uint8_t count = 1 + random.below(kSectors);
        uint64_t lba = random.below(blocks - count + 1);
        Frame frame = ata(0x20 + (write ? 0x10 : 0) + (extended ? 4 : 0), lba, count, (extended ? kExtended : 0) | (write ? kWriteFlag : 0), 100 + i);
        frame.argument[0] |= (random.percent(20) ? kHead : 0) | (write && random.percent(20) ? kAsync : 0);
        if (!extended) frame.argument[7] |= 0xe0, frame.argument[8] = 0xff, frame.argument[9] = 0xff;  // not part of the address
        frame.check = TARGET_CHECKS && random.percent(50);
        if (write) {
            frame.data.resize(count * kSector);
            for (auto& byte : frame.data) byte = uint8_t(random.next());
            std::copy(frame.data.begin(), frame.data.end(), image.begin() + lba * kSector);
        }
        Frame answer = asker.ask(frame);
        CHECK(!answer.failed() && answer.ata() == 0x40 && answer.count() == count && answer.check == frame.check);
        size_t size = write ? 0 : count * kSector;
        CHECK(!frame.check || checksum_is_right(asker.raw, size));
        CHECK(asker.raw.size() == std::max<size_t>(kLeast, kHeader + size + (frame.check ? 4 : 0)));
        CHECK(write || std::equal(answer.data.begin(), answer.data.begin() + size, image.begin() + lba * kSector));
    }
    CHECK(machine.disk->bytes() == image);
    uint64_t flushes = machine.disk->flushes;
    CHECK(asker.ask(ata(0xe7, 0, 0, 0, 200)).ata() == 0x40 && asker.ask(ata(0xea, 0, 0, kExtended, 201)).ata() == 0x40);
    CHECK(machine.disk->flushes == flushes + 2);
    for (bool check : {false, TARGET_CHECKS != 0}) {
        Frame frame = ata(0xec, 0, 1, 0, 202);
        frame.check = check;
        Frame answer = asker.ask(frame);
        CHECK(!check || checksum_is_right(asker.raw, kSector));
        auto word = [&](unsigned number) { return unsigned(answer.data[2 * number] | answer.data[2 * number + 1] << 8); };
        CHECK((word(83) & 0x7400) == 0x7400 && (word(86) & 0x0400) && (word(85) & 0x20) && (word(49) & 0x0200));
        CHECK(word(60) + (word(61) << 16) == blocks && word(100) + (word(101) << 16) == blocks && word(102) == 0);
        std::string model, serial;
        for (unsigned i = 27; i < 47; ++i) model += char(word(i) >> 8), model += char(word(i));
        for (unsigned i = 10; i < 20; ++i) serial += char(word(i) >> 8), serial += char(word(i));
        CHECK(model == "Straightway AoE disk                    " && serial == "020000000002        ");
    }
}

// Requests in flight together, more than the target can hold, and a write that is repeated before one to the same block.
inline void check_together(Machine& machine, Asker& asker) {
    asker.answers.clear();
    for (unsigned i = 0; i < 4 * BUFFERS; ++i) asker.send(ata(0x24, i, 1, kExtended, 300 + i).encode());
    for (int i = 0; i < 30000; ++i) machine.cycle();
    CHECK(asker.answers.size() >= BUFFERS && asker.answers.size() <= 4 * BUFFERS);
    asker.answers.clear();
    for (unsigned round = 0; round < 20; ++round) {
        Frame first = ata(0x34, 30, 1, kExtended | kWriteFlag, 400), second = ata(0x34, 30, 1, kExtended | kWriteFlag, 401);
        first.data = Bytes(kSector, uint8_t(2 * round)), second.data = Bytes(kSector, uint8_t(2 * round + 1));
        asker.send(first.encode());
        if (BUFFERS >= 4) asker.send(first.encode());
        asker.send(second.encode());
        if (BUFFERS >= 4) asker.send(ata(0x24, 30, 1, kExtended, 402).encode());
        machine.until([&] { return asker.answers.size() == (BUFFERS >= 4 ? 4 : 2); }, 20000, "all answers");
        CHECK(machine.disk->bytes()[30 * kSector] == uint8_t(2 * round + 1));
        for (const Bytes& bytes : asker.answers)
            CHECK(get(bytes, 20, 4) != 402 || bytes[kHeader] == uint8_t(2 * round + 1));
        asker.answers.clear();
    }
}

inline int directed_run(uint64_t seed) {
    Random random(seed);
    DeviceModel model;
    model.block_count = 1000;
    model.reorder = true;
    model.read_latency = random.below(60), model.write_latency = random.below(200), model.flush_latency = random.below(200);
    model.stall_percent = random.percent(50) ? random.below(40) : 0;
    model.rate_cycles = 1 + 4 * random.below(2);  // a read could overtake the data of a write
    Machine machine(model, 1, 0, seed);
    Asker asker(machine);
    machine.t_tx.stall = random.percent(50) ? random.below(40) : 0;
    machine.t_rx.stall = random.percent(50) ? random.below(40) : 0;
    check_config(asker);
    check_ignored(machine, asker);
    check_errors(machine, asker);
    check_data(machine, asker, random);
    check_together(machine, asker);
    check_data(machine, asker, random);
    std::printf("cycles %llu\n", (unsigned long long)machine.now);
    return 0;
}

}  // namespace straightway::aoe
