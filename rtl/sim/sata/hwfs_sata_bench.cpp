// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives hwfs_sata_sim with a script: the file system core and drive models, each in its own clock domain. Each line
// (standard input) is a command.
//
//   drives BLOCKS [key=value]...   powers up empty drives. read_latency, write_latency: cycles of the drive's
//                         clock; read_rate, write_rate: words of its medium in a thousand of them; read_cycles, write_cycles: of the
//                         medium for each command; cable: its delay in words; hold: how often a drive pauses; queue, reorder: 0 or 1; app_stall,
//                         seed; host_period, drive_period: of the clocks, in any unit
//   load IMAGE            writes the volume's bytes to the drives
//   save IMAGE BYTES      writes the volume's bytes on the drives to a file (of mirrors: those of the first valid drive)
//   paint AT BYTES OFFSET SEED   writes a file's contents from OFFSET to the volume's byte AT
//   cut CYCLES            the power fails after this many cycles; until `power` each command prints CUT
//   power [DRIVES]        cuts the power unless it is off, and restores it; mirrors: with these drives, as bits
//   error DISK N          the drive's N-th read or write from now fails
//   late DISK N           the same for its N-th write, after all its data
//   unflushed DISK        its next flush of something fails, and drops a block
//   leave DISK | return DISK     unplugs the drive, and plugs it in again
//   failed                mirrors: the stale drives, as bits
//   random READ|WRITE FILE BYTES LENGTH COUNT SEED   transfers of LENGTH bytes at random multiples of 4 KiB of a file of
//                         BYTES; prints `random` and the total cycles
//   the commands of hwfs_verbs.hpp, each prints `status value cycles`
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>

#include "Vhwfs_sata_sim.h"
#include "hwfs_verbs.hpp"
#include "sata/sata_drive.hpp"
#include "verilated.h"

using namespace straightway;

namespace {

struct Options : std::map<std::string, uint64_t> {
    uint64_t get(const char* name, uint64_t otherwise) const {
        auto found = find(name);
        return found == end() ? otherwise : found->second;
    }
};

struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vhwfs_sata_sim> top = std::make_unique<Vhwfs_sata_sim>(&context);
    std::vector<std::unique_ptr<sata::Drive>> drives;
    std::unique_ptr<Application<Vhwfs_sata_sim>> app;
    Options options;
    uint64_t cycles = 0, host_edge = 0, drive_edge = 0, cut_at = 0;
    bool was_cut = false;
    std::vector<bool> here = std::vector<bool>(DISKS);
    std::vector<sata::Word> words = std::vector<sata::Word>(DISKS);  // from the drives

    ~Bench() { top->final(); }

    void start(uint64_t blocks, Options options_) {
        options = options_;
        drives.clear();
        for (unsigned i = 0; i < DISKS; ++i) {
            sata::DriveModel model;
            model.blocks = blocks;
            model.queue = options.get("queue", 1);
            model.reorder = options.get("reorder", 0);
            model.command_latency = options.get("read_latency", 0);
            model.write_latency = options.get("write_latency", 0);
            model.read_rate = options.get("read_rate", 0), model.write_rate = options.get("write_rate", 0);
            model.read_cycles = options.get("read_cycles", 0), model.write_cycles = options.get("write_cycles", 0);
            drives.push_back(std::make_unique<sata::Drive>(model, options.get("seed", 1) + 100 * i));
            drives[i]->port.latency = options.get("cable", 0);
            drives[i]->port.hold_percent = options.get("hold", 0);
            here[i] = true;
        }
        power(0xff, false);
    }
    // The next edge of one of the clocks, or of both.
    void step() {
        bool host = host_edge <= drive_edge, drive = drive_edge <= host_edge;
        words.assign(DISKS, {});
        for (unsigned i = 0; i < DISKS && drive; ++i) words[i] = drives[i]->step({top->tx_data[i], bool(top->tx_k[i])}, top->reset[i]);
        if (host && top->rst_ni) app->sample();
        top->clk_i = host;
        top->drive_clk_i = drive;
        top->eval();
        for (unsigned i = 0; i < DISKS && drive; ++i) {
            top->rx_data[i] = words[i].data;
            top->rx_k[i] = words[i].k;
            top->rx_bad[i] = words[i].bad;
            top->up[i] = here[i] && drives[i]->up();
        }
        if (host) app->drive();
        top->clk_i = top->drive_clk_i = 0;
        top->eval();
        if (host) host_edge += options.get("host_period", 1), ++cycles;
        if (drive) drive_edge += options.get("drive_period", 2);
    }
    // `resync`: a mirror's drives may differ, and are equal when the mirror is ready.
    void power(unsigned enable, bool resync) {
        if (!was_cut) cut();
        top->enable = enable;
        top->resync = resync;
        was_cut = false;
        app = std::make_unique<Application<Vhwfs_sata_sim>>(*top, 4, options.get("app_stall", 0), options.get("seed", 1));
        app->drive();
        for (unsigned i = 0; i < DISKS; ++i) top->up[i] = false;
        top->rst_ni = 0;
        for (int i = 0; i < 40; ++i) step();
        top->rst_ni = 1;
        for (int i = 0; i < (resync ? 100000000 : 1000000) && !top->ready; ++i) step();
        if (!top->ready) throw std::runtime_error("the drives did not become ready");
        for (uint64_t lba = 0; resync && lba < drives[0]->model.blocks; ++lba)
            for (unsigned i = 1; i < DISKS; ++i)
                if (std::memcmp(block(lba, i), block(lba, 0), sata::Drive::kBlock) != 0)
                    throw std::runtime_error("the mirror is ready, and its drives differ");
    }
    void cut() {
        was_cut = true;
        cut_at = 0;
        for (auto& drive : drives) drive->cut();
    }
    const Answer& run(Command op, unsigned file, unsigned flags, const std::string& name, const std::string& name2,
                      uint64_t offset, uint64_t length, Bytes data) {
        app->begin(op, file, flags, name, name2, offset, length, std::move(data));
        while (!app->done() && !was_cut) {
            step();
            if (cut_at && cycles >= cut_at) cut();
        }
        return app->answer();
    }
    auto runner() {
        return [this](auto&&... command) -> const Answer& { return run(std::forward<decltype(command)>(command)...); };
    }

    // The location of a block on the drives, computed independently of the hardware; `copy` selects a mirror's drive.
    uint8_t* block(uint64_t lba, unsigned copy = 0) {
        uint64_t stripe = lba / STRIPE_BLOCKS;
        unsigned disk = MIRROR ? copy : stripe % DISKS;
        uint64_t there = MIRROR || DISKS == 1 ? lba : stripe / DISKS * STRIPE_BLOCKS + lba % STRIPE_BLOCKS;
        if (there >= drives[disk]->model.blocks) throw std::runtime_error("beyond the end of the drives");
        return &drives[disk]->bytes[there * sata::Drive::kBlock];
    }
    void store(uint64_t lba, const uint8_t* bytes) {
        for (unsigned copy = 0; copy < (MIRROR ? DISKS : 1); ++copy) std::memcpy(block(lba, copy), bytes, sata::Drive::kBlock);
    }
};

void load(Bench& bench, const std::string& path) {
    std::ifstream input(path, std::ios::binary);
    if (!input) throw std::runtime_error("cannot read " + path);
    Bytes bytes(sata::Drive::kBlock), empty(sata::Drive::kBlock);
    for (uint64_t lba = 0; input.read(reinterpret_cast<char*>(bytes.data()), bytes.size()); ++lba)
        if (bytes != empty) bench.store(lba, bytes.data());
}

void save(Bench& bench, const std::string& path, uint64_t length) {
    std::ofstream output(path, std::ios::binary);
    unsigned copy = 0;
    while (MIRROR && !((bench.top->enable & ~bench.top->failed) >> copy & 1)) ++copy;
    for (uint64_t lba = 0; lba < length / sata::Drive::kBlock; ++lba)
        output.write(reinterpret_cast<const char*>(bench.block(lba, copy)), sata::Drive::kBlock);
    if (!output) throw std::runtime_error("cannot write " + path);
}

void paint(Bench& bench, uint64_t at, uint64_t length, uint64_t offset, uint64_t seed) {
    Bytes bytes(sata::Drive::kBlock);
    for (uint64_t done = 0; done < length; done += bytes.size()) {
        for (uint64_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(seed, offset + done + i);
        bench.store((at + done) / bytes.size(), bytes.data());
    }
}

void scattered(Bench& bench, bool reads, unsigned file, uint64_t size, uint64_t length, uint64_t count, uint64_t seed) {
    Random random(seed);
    uint64_t cycles = 0;
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t offset = random.below((size - length) / 4096 + 1) * 4096;
        const Answer& answer = reads ? compared_read(bench.runner(), file, "", offset, length, seed)
                                     : bench.run(kWriteFile, file, 0, "", "", offset, length, pattern(seed, offset, length));
        if (answer.status != 0) throw std::runtime_error("a random transfer ended with " + std::to_string(answer.status));
        cycles += answer.cycles;
    }
    std::printf("random %llu\n", (unsigned long long)cycles);
}

int run() {
    Bench bench;
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string verb, name;
        uint64_t file = 0, offset = 0, length = 0, seed = 0, count = 0;
        if (!(words >> verb)) continue;
        if (verb == "drives") {
            Options options;
            words >> count;
            while (words >> name) options[name.substr(0, name.find('='))] = std::stoull(name.substr(name.find('=') + 1));
            bench.start(count, options);
        } else if (verb == "load") words >> name, load(bench, name);
        else if (verb == "save") words >> name >> length, save(bench, name, length);
        else if (verb == "paint") words >> offset >> length >> count >> seed, paint(bench, offset, length, count, seed);
        else if (verb == "cut") words >> count, bench.cut_at = bench.cycles + count;
        else if (verb == "power") {
            if (!(words >> count)) count = 0xff;
            words >> length;
            bench.power(count, length != 0);
        }
        else if (verb == "late") words >> file >> count, bench.drives.at(file)->fail_write_late(count);
        else if (verb == "unflushed") words >> file, bench.drives.at(file)->fail_flush();
        else if (verb == "error") words >> file >> count, bench.drives.at(file)->fault.error_at = bench.drives.at(file)->ios() + count;
        else if (verb == "leave" || verb == "return") words >> file, bench.here[file] = verb == "return";
        else if (verb == "failed") std::printf("failed %u\n", unsigned(bench.top->failed));
        else if (verb == "random") {
            words >> name >> file >> offset >> length >> count >> seed;
            scattered(bench, name == "read", file, offset, length, count, seed);
        } else if (bench.was_cut) std::printf("CUT\n");
        else {
            const Answer& answer = file_verb(bench.runner(), verb, words);
            if (bench.was_cut) std::printf("CUT\n");
            else print(answer);
        }
    }
    return 0;
}

}  // namespace

int main() {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    try {
        return run();
    } catch (const std::exception& error) {
        std::printf("FAILED: %s\n", error.what());
        return 1;
    }
}
