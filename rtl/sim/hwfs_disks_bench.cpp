// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives hwfs_disks_sim with a script: the file system core on a RAM disk or an array of them. The bench generates and
// compares the files' contents from a seed, so that long files need no copy. Each line (standard input) is a command and
// prints `status value cycles`. A difference in the data ends the program.
//
//   load IMAGE            resets the core and writes the image's blocks to the disks, except zeroes
//   save IMAGE BYTES      resets the core and writes the disks' first bytes to the file
//   the commands of hwfs_verbs.hpp
//   random FILE BYTES LENGTH COUNT SEED   COUNT reads of LENGTH bytes at random offsets of a file of BYTES; prints
//                         `random`, the total cycles, the most node reads of one read, the total node reads
//   fault DISK ADDRESS | fault none       that disk's memory fails accesses to the address
//   count                 node reads, data reads, writes and flushes of the core so far, failed disks
//   speed                 million cycles per second of processor time since the last load
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "Vhwfs_disks_sim.h"
#include "block_host.hpp"
#include "hwfs_verbs.hpp"
#include "verilated.h"

using namespace straightway;

namespace {

constexpr unsigned kBlockBytes = 1u << BLOCK_SIZE_LOG2;
constexpr unsigned kDataBytes = DATA_WIDTH / 8;
constexpr unsigned kLongest = 64;  // blocks of a bench's own request

struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vhwfs_disks_sim> top = std::make_unique<Vhwfs_disks_sim>(&context);
    std::unique_ptr<BlockHost> host;
    Application<Vhwfs_disks_sim> app{*top, kDataBytes, 0, 1};
    uint64_t cycles = 0, started = 0;
    std::clock_t start = 0;

    Bench() : host(std::make_unique<BlockHost>(STRAIGHTWAY_PINS(*top, , ), kDataBytes, kBlockBytes, 8, 0, 1)) {
        host->source = [](Request&) { return false; };
        top->loading = 1;
        top->rst_ni = 0;
        app.drive();
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }
    ~Bench() { top->final(); }

    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    // Executes the bench's own requests until the source has no more.
    void transfer(std::function<bool(Request&)> source, std::function<void(const Request&)> finished) {
        top->loading = 1;
        for (int i = 0; i < 4; ++i) edge();
        bool more = true;
        host->source = [&](Request& request) { return more = source(request); };
        host->finished = [&](const Request& request) {
            if (request.status != kOk) throw std::runtime_error("the disks fail");
            if (finished) finished(request);
        };
        while (more || !host->idle()) {
            edge();
            host->sample();
            host->drive();
        }
        host->source = [](Request&) { return false; };
        host->drive();
        top->loading = 0;
        for (int i = 0; i < 4; ++i) edge();
    }
    void load(const Bytes& image) {
        for (int limit = 1000000; !top->ready; edge())  // remote disks are found first
            if (limit-- == 0) throw std::runtime_error("the disks are not ready");
        uint64_t next = 0, blocks = image.size() / kBlockBytes;
        if (blocks > top->block_count) throw std::runtime_error("the image is longer than the disks");
        auto empty = [&](uint64_t block) {
            auto from = image.begin() + block * kBlockBytes;
            return std::all_of(from, from + kBlockBytes, [](uint8_t byte) { return byte == 0; });
        };
        transfer([&](Request& request) {
            while (next < blocks && empty(next)) ++next;
            if (next == blocks) return false;
            uint64_t first = next;
            while (next < blocks && next - first < kLongest && !empty(next)) ++next;
            request.op = kWrite;
            request.lba = first;
            request.count = next - first;
            request.data.assign(image.begin() + first * kBlockBytes, image.begin() + next * kBlockBytes);
            return true;
        }, nullptr);
        start = std::clock();
        started = cycles;
    }
    Bytes save(uint64_t bytes) {
        Bytes image(bytes);
        uint64_t next = 0, blocks = bytes / kBlockBytes;
        transfer([&](Request& request) {
            if (next == blocks) return false;
            request.op = kRead;
            request.lba = next;
            request.count = std::min<uint64_t>(kLongest, blocks - next);
            next += request.count;
            return true;
        }, [&](const Request& request) {
            std::copy(request.data.begin(), request.data.end(), image.begin() + request.lba * kBlockBytes);
        });
        return image;
    }
    const Answer& run(Command op, unsigned file, unsigned flags, const std::string& name, const std::string& name2,
                      uint64_t offset, uint64_t length, Bytes data) {
        app.begin(op, file, flags, name, name2, offset, length, std::move(data));
        for (; !app.done(); ++cycles) {
            edge();
            app.sample();
            app.drive();
        }
        return app.answer();
    }
    auto runner() {
        return [this](auto&&... command) -> const Answer& { return run(std::forward<decltype(command)>(command)...); };
    }
};

void random_reads(Bench& bench, unsigned file, uint64_t size, uint64_t length, uint64_t count, uint64_t seed) {
    Random random(seed);
    uint64_t cycles = 0, most = 0, all = 0;
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t before = bench.top->loads;
        const Answer& answer = compared_read(bench.runner(), file, "", random.below(size - length + 1), length, seed);
        if (answer.status != 0) throw std::runtime_error("a random read ended with " + std::to_string(answer.status));
        cycles += answer.cycles;
        most = std::max<uint64_t>(most, bench.top->loads - before);
        all += bench.top->loads - before;
    }
    std::printf("random %llu %llu %llu\n", (unsigned long long)cycles, (unsigned long long)most, (unsigned long long)all);
}

int run() {
    Bench bench;
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string verb, name;
        uint64_t file = 0, offset = 0, length = 0, seed = 0, count = 0;
        if (!(words >> verb)) continue;
        if (verb == "load") {
            words >> name;
            bench.load(bytes_of(name));
        } else if (verb == "save") {
            words >> name >> length;
            Bytes image = bench.save(length);
            std::ofstream output(name, std::ios::binary);
            output.write(reinterpret_cast<const char*>(image.data()), image.size());
            if (!output) throw std::runtime_error("cannot write " + name);
        } else if (verb == "fault") {
            bench.top->fault = 0;
            if (words >> file >> offset) bench.top->fault = 1u << file, bench.top->fault_address = offset;
        } else if (verb == "count") {
            std::printf("count %u %u %u %u %u\n", bench.top->loads, bench.top->fetches, bench.top->writes,
                        bench.top->flushes, unsigned(bench.top->failed));
        } else if (verb == "speed") {
            double seconds = double(std::clock() - bench.start) / CLOCKS_PER_SEC;
            std::printf("speed %.3f\n", (bench.cycles - bench.started) / seconds / 1e6);
        } else if (verb == "random") {
            words >> file >> offset >> length >> count >> seed;
            random_reads(bench, file, offset, length, count, seed);
        } else {
            print(file_verb(bench.runner(), verb, words));
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
