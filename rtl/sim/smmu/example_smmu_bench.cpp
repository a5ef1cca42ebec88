// The example of an accelerator that reads a file by loads: the bench is the processor, which writes the file's extents into a
// table, and the memory. Three ports of memory, one drive, no word of the file moved by the processor.
//
// `example_smmu_bench SEED`: searches a file in three extents with fewer frames than pages, again, a part of it that is resident,
// with an unmapped page and past the end; refused registers; a context that is taken away during a run.
#include "Vexample_smmu_sim.h"
#include "smmu_frames.hpp"
#include "smmu_registers.hpp"

using namespace straightway;
using namespace straightway::smmu;

namespace {

constexpr uint64_t kPage = 4096, kTable = 0x10000, kFrameBase = 0x100000;
constexpr unsigned kPageWords = kPage / 4, kDrivePages = 64, kFrames = 8, kContextOfScan = 0;
constexpr uint32_t kKey = 0x6b657931;
enum Scan : uint32_t {
    kScanId = 0x00, kScanControl = 0x04, kScanStatus = 0x08, kScanKey = 0x0c, kScanFrom = 0x10, kScanWords = 0x18,
    kScanMatches = 0x20, kScanFirst = 0x24, kScanSum = 0x28, kScanErrors = 0x2c, kScanCycles = 0x30
};

struct Extent {
    unsigned first, pages;  // on the drive
};

struct Result {
    uint32_t matches = 0, first = 0xffffffff, sum = 0, errors = 0, cycles = 0;
};

struct Machine {
    AxiBus<Vexample_smmu_sim> bus;
    Frames memory;
    FramePort<Vexample_smmu_sim> frames;
    std::vector<uint32_t> drive = std::vector<uint32_t>(kDrivePages * kPageWords);
    std::vector<unsigned> file;  // the drive's page of each page of the file

    explicit Machine(uint64_t seed) : bus(seed), frames(bus, memory, seed) {
        frames.low = kFrameBase, frames.high = kFrameBase + kFrames * kPage;
        frames.latency = bus.latency = 8;
        frames.stall_percent = bus.stall_percent = 5;
        bus.memory.read = [this](uint64_t address, uint32_t& word) { return word = *memory.word(address), true; };
        bus.memory.write = [this](uint64_t address, uint32_t word, unsigned strobe) { return memory.put(address, word, strobe), true; };
        bus.each = [this] { frames.sample(); };
        bus.driven = [this] { frames.drive(); };
        // Some keys in every page, in the file and beside it.
        Random random(seed);
        auto& words = bus.top->rootp->example_smmu_sim__DOT__u_memory__DOT__words_q;
        for (unsigned i = 0; i < drive.size(); ++i) words[i] = drive[i] = random.percent(1) ? kKey : uint32_t(random.next());
        while (~bus.read(kStatusRegister) & (kStarted | kReady)) bus.cycle();
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
    // What a processor does to open a file for the accelerator: its extents become entries that may be read.
    void map(const std::vector<Extent>& extents) {
        for (const Extent& extent : extents)
            for (unsigned i = 0; i < extent.pages; ++i) {
                table(file.size()) = entry(kOnDrive, false, extent.first + i);
                file.push_back(extent.first + i);
            }
        bus.write64(kFramesLow, kFrameBase);
        bus.write(kFramesCount, kFrames);
        set_context(bus, kContextOfScan, 0, kTable, file.size(), true, false);
        bus.write(kAhead, 3);
        bus.write(kControl, 3);
        CHECK(bus.response == 0 && (bus.read(kStatusRegister) & kUsable));
    }
    void start(uint64_t from, uint32_t words) {
        CHECK(scan_write(kScanKey, kKey) == 0 && scan_write(kScanFrom, uint32_t(from)) == 0 && scan_write(kScanFrom + 4, uint32_t(from >> 32)) == 0);
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

int run(uint64_t seed) {
    Machine machine(seed);
    auto& bus = machine.bus;
    CHECK(bus.read(kId) == 0x534d4d55 && machine.scan_read(kScanId) == 0x5343414e);

    // Before a context exists, no load gets a word.
    CHECK(machine.scan(0, 16).errors == 16);
    bus.write(kControl, 2);
    machine.check_log(kContext, 0, 1);

    machine.map({{40, 13}, {3, 9}, {20, 8}});
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

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2) return run(std::strtoull(argv[1], nullptr, 0));
    std::fprintf(stderr, "usage: example_smmu_bench SEED\n");
    return 2;
}
