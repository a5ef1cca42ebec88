// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives sata_stream_sim: the streaming port of the Serial ATA host, with a drive model.
//
// `sata_stream_bench random SEED COMMANDS`: random commands, lengths and pauses; everything read is compared.
// `sata_stream_bench errors queued|single`: each kind of error, with the status that the user sees; every command ends
// once, and the next one works.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "Vsata_stream_sim.h"
#include "clocked.hpp"
#include "pins.hpp"
#include "sata/sata_drive.hpp"

using namespace straightway;
using sata::Drive;
using sata::DriveModel;

namespace {

constexpr uint32_t kBlockWords = Drive::kBlock / 4;

struct Command {
    Op op = kRead;
    uint64_t lba = 0;
    uint32_t count = 1;
    std::vector<uint32_t> words = {};  // of the write stream; `last` is with the last of these
};

struct Outcome {
    unsigned status = 0;
    uint16_t detail = 0;
    bool framing = false;
    std::vector<uint32_t> words = {};  // of the read stream
};

std::vector<uint32_t> pattern(Random& random, uint32_t blocks) {
    std::vector<uint32_t> words(uint64_t(blocks) * kBlockWords);
    for (uint32_t& word : words) word = random.next();
    return words;
}

struct Bench : Clocked<Vsata_stream_sim> {
    Drive drive;
    Random random;
    unsigned stall_percent = 0;
    uint64_t moved = 0;                // words of the current command
    std::function<void()> at_cycle = [] {};

    Bench(DriveModel model, uint64_t seed) : drive(model, seed), random(seed) { reset(); }

    void cycle() {
        top->clk_i = 0;
        top->eval();
        sata::Word word = drive.step({top->tx_data, bool(top->tx_k)}, top->reset);
        top->clk_i = 1;
        top->eval();
        top->rx_data = word.data;
        top->rx_k = word.k;
        top->rx_bad = word.bad;
        top->up = drive.up();
    }
    void until_ready() {
        for (int i = 0; !top->ready; ++i) {
            if (i == 100000) fail("the drive never became ready");
            cycle();
        }
    }

    // Runs one command to its status. The pins keep their values until the handshake, as rule B1 requires.
    Outcome run(const Command& command) {
        Outcome outcome;
        bool offered = true;
        size_t given = 0;
        moved = 0;
        top->cmd_valid = 1;
        top->cmd_op = command.op;
        top->cmd_lba = command.lba;
        top->cmd_count = command.count;
        for (uint64_t i = 0;; ++i) {
            if (i == 1000000) fail("a command never ended");
            if (!top->write_valid && given < command.words.size() && !random.percent(stall_percent)) {
                top->write_valid = 1;
                top->write_data = command.words[given];
                top->write_last = given + 1 == command.words.size();
            }
            top->read_ready = !random.percent(stall_percent);
            top->status_ready = !random.percent(stall_percent);
            top->clk_i = 0;
            top->eval();
            bool taken = top->cmd_valid && top->cmd_ready, gave = top->write_valid && top->write_ready;
            bool got = top->read_valid && top->read_ready, ended = top->status_valid && top->status_ready;
            if (offered && !taken && (gave || got || ended)) fail("words or a status without a command");
            if (got) {
                outcome.words.push_back(top->read_data);
                bool last = outcome.words.size() == uint64_t(command.count) * kBlockWords;
                if (command.op != kRead || bool(top->read_last) != last) fail("`last` of the read stream is wrong");
            }
            if (ended) outcome = {top->status_code, top->status_detail, bool(top->status_framing), outcome.words};
            cycle();
            at_cycle();
            if (taken) top->cmd_valid = offered = false;
            if (gave) top->write_valid = 0, ++given, ++moved;
            moved += got;
            if (ended) break;
        }
        if (given != command.words.size()) fail("the write stream was not taken completely");
        for (int i = 0; i < 20; ++i) {
            top->clk_i = 0;
            top->eval();
            if (top->status_valid || top->read_valid) fail("a second status, or words after the status");
            cycle();
        }
        if (!top->idle) fail("the checker still sees a request");
        return outcome;
    }
};

int random_run(uint64_t seed, unsigned commands) {
    Random random(seed);
    DriveModel model;
    model.blocks = 512;
    model.queue = random.percent(50);
    model.command_latency = random.below(200);
    Bench bench(model, seed);
    bench.stall_percent = random.percent(50) ? random.below(60) : 0;
    bench.drive.port.latency = random.below(9);
    bench.drive.port.hold_percent = random.below(30);
    bench.until_ready();
    std::vector<uint32_t> held(model.blocks * kBlockWords);
    for (unsigned i = 0; i < commands; ++i) {
        unsigned kind = random.below(100);
        Command command;
        command.op = kind < 45 ? kRead : kind < 90 ? kWrite : kFlush;
        command.count = command.op == kFlush ? 0 : 1 + random.below(random.percent(10) ? 40 : 5);
        command.lba = command.op == kFlush ? 0 : random.below(model.blocks - command.count + 1);
        if (command.op == kWrite) command.words = pattern(random, command.count);
        Outcome outcome = bench.run(command);
        if (outcome.status != kOk || outcome.detail || outcome.framing) fail("an error without a fault");
        auto at = held.begin() + command.lba * kBlockWords;
        if (command.op == kWrite) std::copy(command.words.begin(), command.words.end(), at);
        if (command.op == kRead && !std::equal(outcome.words.begin(), outcome.words.end(), at)) fail("a read differs");
        if (outcome.words.size() != (command.op == kRead ? command.count * kBlockWords : 0)) fail("a read's length is wrong");
    }
    std::printf("%u commands\n", commands);
    return 0;
}

// One row of the test: a fault, a command, and the expected result.
class Errors {
public:
    explicit Errors(bool queue) : bench_({512, queue}, 3) {
        bench_.stall_percent = 10;
        bench_.drive.port.latency = 2;
        bench_.until_ready();
    }
    Bench& bench() { return bench_; }

    void check(const char* what, const Command& command, unsigned status, bool framing = false) {
        Outcome outcome = bench_.run(command);
        bench_.at_cycle = [] {};
        bench_.drive.fault = {};
        bench_.drive.port.fault = {};
        if (outcome.status != status || outcome.framing != framing)
            fail(std::string(what) + ": status " + std::to_string(outcome.status) + ", framing " + std::to_string(outcome.framing));
        if (command.op == kRead && outcome.words.size() != uint64_t(command.count) * kBlockWords)
            fail(std::string(what) + ": the read stream has " + std::to_string(outcome.words.size()) + " words");
        std::printf("%s: status %u detail %04x\n", what, outcome.status, outcome.detail);
        works(what);
    }
    Command write(uint64_t lba, uint32_t count) { return {kWrite, lba, count, pattern(bench_.random, count)}; }

private:
    void works(const char* what) {
        bench_.until_ready();
        Command command = write(100, 3);
        if (bench_.run(command).status != kOk) fail(std::string(what) + ": the next write fails");
        Outcome read = bench_.run({kRead, 100, 3});
        if (read.status != kOk || read.words != command.words) fail(std::string(what) + ": the next read differs");
    }
    Bench bench_;
};

int errors_run(bool queue) {
    Errors errors(queue);
    Bench& bench = errors.bench();
    Drive& drive = bench.drive;
    auto at_io = [&](unsigned n) { return drive.ios() + n; };

    drive.fault.error_at = at_io(1);
    errors.check("a bad block, read", {kRead, 7, 4}, kDevice);
    drive.fault.error_at = at_io(1);
    errors.check("a bad block, write", errors.write(7, 4), kDevice);
    drive.fault.silent_at = at_io(1);
    errors.check("a drive that never answers", {kRead, 7, 4}, kTimedOut);

    // The link drops when this many words have passed.
    auto drop_at = [&](uint64_t words) {
        bench.at_cycle = [&bench, words, dropped = false]() mutable {
            if (dropped || bench.moved < words) return;
            dropped = true;
            bench.drive.cut();
        };
    };
    drop_at(300);
    errors.check("the link drops amid a read", {kRead, 0, 8}, kGone);
    drop_at(300);
    errors.check("the link drops amid a write", errors.write(0, 8), kGone);
    // Longer than the memory for queued writes: its words are passed directly to the drive.
    drop_at(5000);
    errors.check("the link drops amid a long write", errors.write(0, 64), kGone);
    drive.cut();
    for (int i = 0; i < 10; ++i) bench.cycle();
    errors.check("no link", errors.write(0, 2), kGone);

    errors.check("past the end, read", {kRead, 510, 3}, kOutOfRange);
    errors.check("past the end, write", errors.write(510, 3), kOutOfRange);
    errors.check("no blocks, read", {kRead, 0, 0}, kEmpty);
    errors.check("no blocks, write", {kWrite, 0, 0}, kEmpty);
    errors.check("write zeroes", {kWriteZeroes, 0, 1}, kUnsupported);
    errors.check("discard", {kDiscard, 0, 1}, kOk);

    Command early = errors.write(200, 4);
    early.words.resize(3 * kBlockWords + 1);
    errors.check("`last` too early", early, kAborted, true);
    early = errors.write(200, 4);
    early.words.pop_back();
    errors.check("`last` one word too early", early, kAborted, true);
    Command late = errors.write(300, 4);
    late.words.resize(5 * kBlockWords);
    errors.check("`last` too late", late, kOk, true);
    Outcome read = bench.run({kRead, 300, 4});
    late.words.resize(4 * kBlockWords);
    if (read.words != late.words) fail("the words before a late `last` are not on the drive");
    Command refused = errors.write(510, 3);
    refused.words.resize(7);
    errors.check("past the end, `last` too early", refused, kOutOfRange, true);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (what == "random" && argc == 4) return random_run(std::strtoull(argv[2], nullptr, 0), std::strtoul(argv[3], nullptr, 0));
    if (what == "errors" && argc == 3) return errors_run(std::string(argv[2]) == "queued");
    std::fprintf(stderr, "usage: sata_stream_bench random SEED COMMANDS | errors queued|single\n");
    return 2;
}
