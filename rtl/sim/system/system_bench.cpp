// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives system_sim with a script: a head node and its disk nodes. Each line (standard input) is a command and prints `status value
// cycles`, or what is written behind it. A difference in the data ends the program.
//
//   system NETWORK DISKS WORD_CYCLES IMAGE   resets all nodes, loads the image's stripes into the disks' memories and switches them on;
//                         NETWORK: local, line, torus, tree
//   ready LIMIT           waits until the array is ready; prints `ready` and the cycles, or `never`
//   save IMAGE BYTES      writes the volume as the disks' memories have it
//   power DISK 0|1 [IMAGE]        switches a disk node off, or on, with its stripes of the image in its memory
//   off DISK CYCLES       switches it off after so many cycles
//   slow WORD_CYCLES      from now on
//   idle CYCLES
//   table FILE            loads the seed scan's table: lines `present`, `directory`, `entries` with hexadecimal words
//   scan NAME BYTES       the seed scan reads the file; prints `scan status cycles words hits stalls compares`, a line `hit BASE ENTRY` for each
//   first                 `first` and the cycles from the last command to its first data
//   count                 `count` frames sent, sent again, flits dropped at the head, at the disks, deflected, and cycles, so far
//   the commands of hwfs_verbs.hpp
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "Vsystem_sim.h"
#include "clocked.hpp"
#include "hwfs_verbs.hpp"
#include "verilated_sym_props.h"
#include "verilated_syms.h"

using namespace straightway;

namespace {

constexpr unsigned kDisks = 8;
constexpr uint64_t kStripe = STRIPE_BLOCKS * 512ull;
constexpr uint64_t kDisk = DISK_BLOCKS * 512ull;
constexpr uint32_t kControl = 0x08, kStatus = 0x0c, kAddress = 0x10, kBase = 0x20, kEntry = 0x24, kNext = 0x28, kWords = 0x2c;

struct Bench : Clocked<Vsystem_sim> {
    Application<Vsystem_sim> app{*top, DATA_WIDTH / 8, 0, 1};
    uint64_t now = 0, begun = 0, first = 0, sent = 0, again = 0, head_dropped = 0, disk_dropped = 0, deflected = 0, off_at = 0;
    unsigned off_disk = 0;
    uint8_t* memory[kDisks];

    Bench() {
        for (unsigned disk = 0; disk < kDisks; ++disk) {
            std::string name = "system_sim.gen_disk[" + std::to_string(disk) + "].u_node.u_memory";
            const VerilatedScope* scope = context.scopeFind(("TOP." + name).c_str());
            if (!scope) throw std::runtime_error("no memory at " + name);
            memory[disk] = static_cast<uint8_t*>(scope->varFind("words_q")->datap());
        }
    }
    void cycle() {
        edge();
        ++now;
        app.sample();
        if (first == 0 && top->take_valid && top->take_ready) first = now - begun;
        app.drive();
        sent += __builtin_popcount(top->sent), again += __builtin_popcount(top->again), deflected += top->deflected;
        head_dropped += __builtin_popcount(top->head_dropped), disk_dropped += __builtin_popcount(top->disk_dropped);
        if (off_at != 0 && now >= off_at) top->power = top->power & ~(1u << off_disk), off_at = 0;
    }
    // Where a byte of the array is.
    uint8_t* place(uint64_t offset) {
        uint64_t stripe = offset / kStripe;
        return memory[stripe % top->disks] + stripe / top->disks * kStripe + offset % kStripe;
    }
    void load(const Bytes& image, unsigned disks) {  // a bit for each
        for (unsigned disk = 0; disk < kDisks; ++disk)
            if (disks >> disk & 1) std::memset(memory[disk], 0, kDisk);
        for (uint64_t at = 0; at < image.size(); at += 512)
            if (disks >> (at / kStripe % top->disks) & 1) std::memcpy(place(at), &image[at], 512);
    }
    void start(const std::string& network, unsigned disks, unsigned word_cycles, const Bytes& image) {
        static const std::map<std::string, unsigned> networks = {{"local", 0}, {"line", 1}, {"torus", 2}, {"tree", 3}};
        if (image.size() > kDisk * disks) throw std::runtime_error("the image is longer than the disks");
        top->network = networks.at(network);
        top->disks = disks;
        top->word_cycles = word_cycles;
        top->power = 0, top->scan = 0, off_at = 0;
        top->awvalid = top->wvalid = top->bready = top->arvalid = top->rready = 0;
        app.drive();
        reset();
        load(image, 255);
        top->power = 255;
    }
    const Answer& finish() {
        while (!app.done()) cycle();
        return app.answer();
    }
    void begin(Command op, unsigned file, unsigned flags, const std::string& name, const std::string& other, uint64_t offset,
               uint64_t length, Bytes data) {
        begun = now, first = 0;
        app.begin(op, file, flags, name, other, offset, length, std::move(data));
    }

    // --- The scan's registers, by AXI4-Lite ---
    void write(uint32_t address, uint32_t value) {
        top->awaddr = address, top->wdata = value, top->wstrb = 15;
        top->awvalid = top->wvalid = top->bready = 1;
        cycle();
        while (top->awvalid || top->wvalid || top->bready) {
            bool address_taken = top->awvalid && top->awready, data_taken = top->wvalid && top->wready;
            bool answered = top->bready && top->bvalid;
            if (answered && top->bresp != 0) throw std::runtime_error("a register refused a write");
            if (address_taken) top->awvalid = 0;
            if (data_taken) top->wvalid = 0;
            if (answered) top->bready = 0;
            cycle();
        }
    }
    uint32_t read(uint32_t address) {
        uint32_t value = 0;
        top->araddr = address, top->arvalid = top->rready = 1;
        cycle();
        while (top->arvalid || top->rready) {
            bool taken = top->arvalid && top->arready, answered = top->rready && top->rvalid;
            if (answered) value = top->rdata;
            if (taken) top->arvalid = 0;
            if (answered) top->rready = 0;
            cycle();
        }
        return value;
    }
    void table(std::istream& lines) {
        static const std::map<std::string, uint32_t> registers = {{"present", 0x14}, {"directory", 0x18}, {"entries", 0x1c}};
        std::string line, word;
        while (std::getline(lines, line)) {
            std::istringstream words(line);
            words >> word;
            uint32_t target = registers.at(word);
            write(kAddress, 0);
            while (words >> word) write(target, std::stoul(word, nullptr, 16));
        }
    }
    void scan(const std::string& name, uint64_t bytes) {
        write(kControl, 1);
        top->scan = 1;
        cycle();
        begin(kReadFile, 0, 0, name, "", 0, bytes, Bytes());
        std::vector<std::pair<uint32_t, uint32_t>> hits;
        for (uint32_t status; (status = read(kStatus)) != 0;) {
            if (status & 2) {
                hits.emplace_back(read(kBase), read(kEntry));
                write(kNext, 0);
            } else if (app.done() && app.answer().status != 0) {
                write(kControl, 2);  // the stream has no end
            }
        }
        const Answer& answer = finish();
        top->scan = 0;
        cycle();
        std::printf("scan %u %llu", answer.status, (unsigned long long)answer.cycles);
        for (unsigned i = 0; i < 4; ++i) std::printf(" %u", read(kWords + 4 * i));
        std::printf("\n");
        for (auto [base, entry] : hits) std::printf("hit %u %u\n", base, entry);
    }
};

int run() {
    Bench bench;
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string verb, name, path;
        uint64_t number = 0, more = 0;
        if (!(words >> verb)) continue;
        if (verb == "system") {
            unsigned word_cycles;
            words >> name >> number >> word_cycles >> path;
            bench.start(name, number, word_cycles, bytes_of(path));
        } else if (verb == "ready") {
            words >> number;
            uint64_t from = bench.now;
            while (!bench.top->ready && bench.now - from < number) bench.cycle();
            if (bench.top->ready) std::printf("ready %llu\n", (unsigned long long)(bench.now - from));
            else std::printf("never\n");
        } else if (verb == "save") {
            words >> path >> number;
            std::ofstream output(path, std::ios::binary);
            for (uint64_t at = 0; at < number; at += 512) output.write(reinterpret_cast<char*>(bench.place(at)), 512);
            if (!output) throw std::runtime_error("cannot write " + path);
        } else if (verb == "power") {
            words >> number >> more;
            if (words >> path) bench.load(bytes_of(path), 1u << number);
            unsigned bit = 1u << number;
            bench.top->power = more ? bench.top->power | bit : bench.top->power & ~bit;
        } else if (verb == "off") {
            words >> bench.off_disk >> number;
            bench.off_at = bench.now + number;
        } else if (verb == "slow") {
            words >> number;
            bench.top->word_cycles = number;
        } else if (verb == "idle") {
            for (words >> number; number != 0; --number) bench.cycle();
        } else if (verb == "table") {
            words >> path;
            std::ifstream file(path);
            bench.table(file);
        } else if (verb == "scan") {
            words >> name >> number;
            bench.scan(name, number);
        } else if (verb == "first") {
            std::printf("first %llu\n", (unsigned long long)bench.first);
        } else if (verb == "count") {
            std::printf("count %llu %llu %llu %llu %llu %llu\n", (unsigned long long)bench.sent, (unsigned long long)bench.again,
                        (unsigned long long)bench.head_dropped, (unsigned long long)bench.disk_dropped,
                        (unsigned long long)bench.deflected, (unsigned long long)bench.now);
        } else {
            print(file_verb([&](auto&&... command) -> const Answer& {
                bench.begin(std::forward<decltype(command)>(command)...);
                return bench.finish();
            }, verb, words));
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
