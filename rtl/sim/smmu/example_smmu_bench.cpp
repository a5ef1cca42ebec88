// SPDX-License-Identifier: Apache-2.0 OR MIT
// The example of an accelerator that reads a file by loads: the bench is the processor, which writes the file's extents into a
// table, the memory, and the Serial ATA drive. No word of the file is moved by the processor.
//
// `example_smmu_bench directed SEED`: searches a file in three extents with fewer frames than pages, again, a part of it that is
// resident, with an unmapped page and past the end; refused registers; a context that is taken away during a run.
// `example_smmu_bench volume SEED IMAGE TABLE FILE`: searches FILE, which is in the volume IMAGE, by the TABLE that the
// command has written.
#include <fstream>
#include <iterator>

#include "Vexample_smmu_sim.h"
#include "Vexample_smmu_sim___024root.h"
#include "sata/sata_plug.hpp"
#include "smmu_frames.hpp"
#include "smmu_registers.hpp"

using namespace straightway;
using namespace straightway::smmu;

namespace {

constexpr uint64_t kPage = 4096, kTable = 0x10000, kFrameBase = 0x100000;
constexpr unsigned kPageWords = kPage / 4, kDrivePages = DRIVE_PAGES, kFrames = 8, kContextOfScan = 0;
constexpr uint32_t kKey = 0x6b657931;
enum Scan : uint32_t {
    kScanId = 0x00, kScanControl = 0x04, kScanStatus = 0x08, kScanKey = 0x0c, kScanFrom = 0x10, kScanWords = 0x18,
    kScanMatches = 0x20, kScanFirst = 0x24, kScanSum = 0x28, kScanErrors = 0x2c, kScanCycles = 0x30
};

using Words = std::vector<uint32_t>;

struct Extent {
    unsigned first, pages;  // on the drive
};

Words entries_of(const std::vector<Extent>& extents) {
    Words entries;
    for (const Extent& extent : extents)
        for (unsigned i = 0; i < extent.pages; ++i) entries.push_back(entry(kOnDrive, false, extent.first + i));
    return entries;
}

struct Result {
    uint32_t matches = 0, first = 0xffffffff, sum = 0, errors = 0, cycles = 0;
};

// Some keys in every page, in the file and beside it.
Words random_words(uint64_t seed) {
    Random random(seed);
    Words words(kDrivePages * kPageWords);
    for (auto& word : words) word = random.percent(1) ? kKey : uint32_t(random.next());
    return words;
}

Words words_of(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (!file || bytes.size() % 4) fail(std::string("no words in ") + path);
    Words words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    return words;
}

struct Machine {
    using Plug = sata::Plug<Vexample_smmu_sim>;
    std::unique_ptr<Plug> plug;  // destroyed after the bus
    AxiBus<Vexample_smmu_sim> bus;
    Frames memory;
    FramePort<Vexample_smmu_sim> frames;
    Words drive;
    std::vector<unsigned> file;  // the drive's page of each page of the file

    Machine(uint64_t seed, Words content) : bus(seed), frames(bus, memory, seed), drive(std::move(content)) {
        CHECK(drive.size() == kDrivePages * kPageWords);
        frames.low = kFrameBase, frames.high = kFrameBase + kFrames * kPage;
        frames.latency = bus.latency = 8;
        frames.stall_percent = bus.stall_percent = 5;
        bus.memory.read = [this](uint64_t address, uint32_t& word) { return word = *memory.word(address), true; };
        bus.memory.write = [this](uint64_t address, uint32_t word, unsigned strobe) { return memory.put(address, word, strobe), true; };
        bus.each = [this] { frames.sample(); };
        bus.driven = [this] {
            frames.drive();
            if (plug) plug->cycle();
        };
        fill(seed);
        while (~bus.read(kStatusRegister) & (kStarted | kReady)) bus.cycle();
    }
    void fill(uint64_t seed) {
#if SATA
        sata::DriveModel model;
        model.blocks = kDrivePages * kPage / 512;
        plug = std::make_unique<Plug>(bus, model, seed);
        for (unsigned i = 0; i < 4 * drive.size(); ++i) plug->drive.bytes[i] = uint8_t(drive[i / 4] >> 8 * (i % 4));
        plug->reset(bus);
#else
        (void)seed;
        auto& top = *bus.top->rootp;
        auto put = [this](auto& words, unsigned disk) {  // a stripe is a page
            for (unsigned i = 0; i < drive.size() / DISKS; ++i)
                words[i] = drive[(i / kPageWords * DISKS + disk) * kPageWords + i % kPageWords];
        };
        put(top.example_smmu_sim__DOT__gen_memory__BRA__2__KET____DOT__u_memory__DOT__words_q, 0);
#if DISKS > 1
        put(top.example_smmu_sim__DOT__gen_memory__BRA__3__KET____DOT__u_memory__DOT__words_q, 1);
#endif
#endif
    }
    uint32_t scan_read(uint32_t at) {
        bus.top->upper = 1;
        uint32_t value = bus.read(at);
        bus.top->upper = 0;
        return value;
    }
    unsigned scan_write(uint32_t at, uint32_t value) {
        bus.top->upper = 1;
        bus.write(at, value);
        bus.top->upper = 0;
        return bus.response;
    }
    uint32_t& table(unsigned page) { return *memory.word(kTable + 4 * page); }
    // What a processor does to open a file for the accelerator: its table goes into memory.
    void map(const Words& entries) {
        for (unsigned i = 0; i < entries.size(); ++i) {
            table(i) = entries[i];
            file.push_back(entries[i] & ~entry(kInFrame, true, 0) & ~entry(kOnDrive, false, 0));
            CHECK(file.back() < kDrivePages);
        }
        bus.write64(kFramesLow, kFrameBase);
        bus.write(kFramesCount, kFrames);
        set_context(bus, kContextOfScan, 0, kTable, file.size(), true, false);
        bus.write(kAhead, 3);
        bus.write(kControl, 3);
        CHECK(bus.response == 0 && (bus.read(kStatusRegister) & kUsable));
    }
    void start(uint64_t from, uint32_t words, uint32_t key = kKey) {
        CHECK(scan_write(kScanKey, key) == 0 && scan_write(kScanFrom, uint32_t(from)) == 0 && scan_write(kScanFrom + 4, uint32_t(from >> 32)) == 0);
        CHECK(scan_write(kScanWords, words) == 0 && scan_write(kScanControl, 3) == 0);
    }
    Result end() {
        for (unsigned limit = 2000000; !bus.top->scan_irq; bus.cycle())
            if (limit-- == 0) fail("a run did not end");
        CHECK(scan_read(kScanStatus) == 2);
        return {scan_read(kScanMatches), scan_read(kScanFirst), scan_read(kScanSum), scan_read(kScanErrors), scan_read(kScanCycles)};
    }
    // The file by its extents. The accelerator gets no word of the pages for which `refused` is true.
    Result expected(unsigned from, unsigned words, const std::function<bool(unsigned page)>& refused) const {
        Result result;
        for (unsigned i = 0; i < words; ++i) {
            unsigned page = (from + i) / kPageWords;
            if (page >= file.size() || refused(page)) {
                ++result.errors;
                continue;
            }
            uint32_t word = drive[file[page] * kPageWords + (from + i) % kPageWords];
            result.sum += word;
            if (word == kKey && result.matches++ == 0) result.first = i;
        }
        return result;
    }
    Result scan(unsigned from, unsigned words, const std::function<bool(unsigned page)>& refused = [](unsigned) { return false; }) {
        start(4 * uint64_t(from), words);
        Result got = end(), want = expected(from, words, refused);
        CHECK(got.matches == want.matches && got.first == want.first && got.sum == want.sum && got.errors == want.errors);
        return got;
    }
    // One entry for each burst that was refused, all with this reason, from this address on; the log keeps sixteen.
    void check_log(unsigned reason, uint64_t from, unsigned bursts) {
        Logged logged;
        CHECK(bus.top->irq);
        for (unsigned i = 0; i < std::min(bursts, 16u); ++i)
            CHECK(take_log(bus, logged) && logged.reason == reason && !logged.write && logged.about == kContextOfScan && logged.address == from + 64 * i);
        CHECK(!take_log(bus, logged) && !bus.top->irq);
    }
};

int directed(uint64_t seed) {
    Machine machine(seed, random_words(seed));
    auto& bus = machine.bus;
    CHECK(bus.read(kId) == 0x534d4d55 && machine.scan_read(kScanId) == 0x5343414e);

    // Before a context exists, no load gets a word.
    CHECK(machine.scan(0, 16).errors == 16);
    bus.write(kControl, 2);
    machine.check_log(kContext, 0, 1);

    machine.map(entries_of({{40, 13}, {3, 9}, {20, 8}}));
    const unsigned pages = machine.file.size(), words = pages * kPageWords;
    Result cold = machine.scan(0, words);
    CHECK(cold.matches > 0 && cold.errors == 0 && bus.read(kFills) == pages);
    machine.scan(0, words);
    CHECK(bus.read(kFills) == 2 * pages);
    // A part that is resident needs no drive.
    machine.scan(10 * kPageWords, 4 * kPageWords);
    for (unsigned i = 0; i < 20000; ++i) bus.cycle();  // what was read ahead
    uint32_t fills = bus.read(kFills);
    Result warm = machine.scan(10 * kPageWords, 4 * kPageWords);
    CHECK(bus.read(kFills) == fills && bus.read(kPageWrites) == 0 && !bus.top->irq);

    // From within a page, past the end of the file: the rest is refused, and what is beside the file on the drive is not read.
    machine.scan(words - 48, 48 + 32);
    machine.check_log(kRange, pages * kPage, 2);
    // A hole.
    bus.write(kCommand, kDropPages);
    for (unsigned limit = 100000; !bus.top->irq; bus.cycle())
        if (limit-- == 0) fail("a command did not end");
    bus.write(kStatusRegister, kFinished);
    machine.table(20) = 0;
    Result hole = machine.scan(19 * kPageWords, 3 * kPageWords, [](unsigned page) { return page == 20; });
    CHECK(hole.errors == kPageWords && bus.read(kLogLost) == kPageWords / 16 - 16);
    machine.check_log(kUnmapped, 20 * kPage, kPageWords / 16);

    // Registers that are refused change nothing; during a run, none may be written.
    CHECK(machine.scan_write(kScanFrom, 32) == 2 && machine.scan_write(kScanFrom + 4, 1 << 16) == 2 && machine.scan_write(kScanWords, 8) == 2);
    CHECK(machine.scan_write(kScanSum, 0) == 2 && machine.scan_write(0xffc, 0) == 2);
    machine.scan_read(0x1c);
    CHECK(bus.response == 2 && machine.scan_read(kScanFrom) == 19 * kPage && machine.scan_read(kScanWords) == 3 * kPageWords);
    machine.start(0, 12 * kPageWords);
    CHECK(machine.scan_write(kScanControl, 1) == 2 && machine.scan_write(kScanKey, 0) == 2 && machine.scan_write(kScanWords, 16) == 2);
    CHECK(machine.scan_write(kScanFrom, 0) == 2 && (machine.scan_read(kScanStatus) & 1));
    // The processor takes the context away during the run: it ends, each word was delivered or refused.
    for (unsigned i = 0; i < 6000; ++i) bus.cycle();
    bus.write(kContexts, 0);
    Result taken = machine.end();
    CHECK(taken.errors > 0 && taken.errors < 12 * kPageWords && taken.errors % 16 == 0);
    Result part = machine.expected(0, 12 * kPageWords - taken.errors, [](unsigned) { return false; });
    CHECK(taken.sum == part.sum && taken.matches == part.matches);
    std::printf("%u words: %u cycles cold; %u words resident: %u cycles\n", words, cold.cycles, 4 * kPageWords, warm.cycles);
    return 0;
}

int volume(uint64_t seed, const char* image, const char* table, const char* path) {
    Machine machine(seed, words_of(image));
    Words file = words_of(path);
    machine.map(words_of(table));
    const unsigned pages = machine.file.size();
    CHECK(pages > kFrames && file.size() == pages * kPageWords);
    // Not by the table: what the file has.
    auto search = [&](unsigned from, unsigned words) {
        Result want;
        const uint32_t key = file[from + words * 2 / 3];
        for (unsigned i = 0; i < words; ++i) {
            want.sum += file[from + i];
            if (file[from + i] == key && want.matches++ == 0) want.first = i;
        }
        machine.start(4 * uint64_t(from), words, key);
        Result got = machine.end();
        CHECK(got.errors == 0 && got.sum == want.sum && got.matches == want.matches && got.first == want.first);
        return got;
    };
    Result got = search(0, file.size());
    CHECK(machine.bus.read(kFills) == pages);
    // A sum does not show the order of the pages.
    for (unsigned page = 0; page < pages; ++page) search(page * kPageWords, kPageWords);
    CHECK(machine.bus.read(kPageWrites) == 0 && !machine.bus.top->irq);
    std::printf("%zu words: %u cycles\n", file.size(), got.cycles);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 2 ? argv[1] : "";
    uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 0;
    if (what == "directed" && argc == 3) return directed(seed);
    if (what == "volume" && argc == 6) return volume(seed, argv[3], argv[4], argv[5]);
    std::fprintf(stderr, "usage: example_smmu_bench directed SEED | volume SEED IMAGE TABLE FILE\n");
    return 2;
}
