// Drives hwfs_disks_sim with a script: the file system core on RAM disks or an array of them. What files hold is
// made here from a seed and compared here, so that long files need no files. A line (standard input) is a command;
// each prints `status value cycles`. What is read and differs ends the program.
//
//   load IMAGE            the core is reset, and the image's blocks that are not zero go onto the disks
//   save IMAGE BYTES      the core is reset, and the first bytes of the disks go into the file
//   mount | unmount
//   put NAME BYTES SEED   create, write and sync in one command
//   create FILE NAME BYTES | open FILE NAME | openw FILE NAME | close FILE | sync FILE
//   write FILE OFFSET BYTES SEED
//   get NAME OFFSET BYTES SEED | read FILE OFFSET BYTES SEED
//   random FILE BYTES LENGTH COUNT SEED   COUNT reads of LENGTH bytes at random places of a file of BYTES; prints
//                         `random`, the cycles of all, the most node reads for one, node reads of all
//   delete NAME
//   fault DISK ADDRESS | fault none       that disk's memory fails what touches the address
//   count                 node reads, data reads, writes and flushes of the core so far, failed disks
//   speed                 million cycles a second of processor time, since the last load
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>

#include "Vhwfs_disks_sim.h"
#include "block_host.hpp"
#include "hwfs_app.hpp"
#include "verilated.h"

using namespace straightway;

namespace {

constexpr unsigned kBlockBytes = 1u << BLOCK_SIZE_LOG2;
constexpr unsigned kDataBytes = DATA_WIDTH / 8;
constexpr unsigned kLongest = 64;  // blocks of a bench's own request
using Bytes = std::vector<uint8_t>;

// The byte of a file at an offset: eight bytes from each eighth, so that a shift of any kind shows.
uint8_t byte_at(uint64_t seed, uint64_t offset) {
    return ((offset >> 3) + seed) * 0x9e3779b97f4a7c15ull >> (8 * (offset & 7));
}

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
    // Requests of the bench, until the source has no more.
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
    const Answer& run(Command op, unsigned file, unsigned flags, const std::string& name, uint64_t offset,
                      uint64_t length, Bytes data = {}) {
        app.begin(op, file, flags, name, "", offset, length, std::move(data));
        uint64_t limit = cycles + 2'000'000'000;
        while (!app.done()) {
            edge();
            app.sample();
            app.drive();
            if (++cycles > limit) throw std::runtime_error("no answer");
        }
        return app.answer();
    }
    const Answer& read(unsigned file, const std::string& name, uint64_t offset, uint64_t length, uint64_t seed) {
        const Answer& answer = run(kReadFile, file, 0, name, offset, length);
        if (answer.status == 0 && answer.data.size() != length) throw std::runtime_error("a read has not all its bytes");
        for (uint64_t i = 0; i < answer.data.size() && answer.status == 0; ++i)
            if (answer.data[i] != byte_at(seed, offset + i)) throw std::runtime_error("what was read differs at " + std::to_string(offset + i));
        return answer;
    }
};

Bytes pattern(uint64_t seed, uint64_t offset, uint64_t length) {
    Bytes data(length);
    for (uint64_t i = 0; i < length; ++i) data[i] = byte_at(seed, offset + i);
    return data;
}

void random_reads(Bench& bench, unsigned file, uint64_t size, uint64_t length, uint64_t count, uint64_t seed) {
    Random random(seed);
    uint64_t cycles = 0, most = 0, all = 0;
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t before = bench.top->loads;
        const Answer& answer = bench.read(file, "", random.below(size - length + 1), length, seed);
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
        const Answer* answer = nullptr;
        if (!(words >> verb)) continue;
        if (verb == "load") {
            words >> name;
            std::ifstream input(name, std::ios::binary);
            if (!input) throw std::runtime_error("cannot read " + name);
            bench.load(Bytes(std::istreambuf_iterator<char>(input), {}));
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
        } else if (verb == "mount") answer = &bench.run(kMount, 0, 0, "", 0, 0);
        else if (verb == "unmount") answer = &bench.run(kUnmount, 0, 0, "", 0, 0);
        else if (verb == "put") words >> name >> length >> seed, answer = &bench.run(kCreate, 0, 1, name, 0, length, pattern(seed, 0, length));
        else if (verb == "create") words >> file >> name >> length, answer = &bench.run(kCreate, file, 0, name, 0, length);
        else if (verb == "open" || verb == "openw") words >> file >> name, answer = &bench.run(kOpen, file, verb == "openw", name, 0, 0);
        else if (verb == "close") words >> file, answer = &bench.run(kClose, file, 0, "", 0, 0);
        else if (verb == "sync") words >> file, answer = &bench.run(kSync, file, 0, "", 0, 0);
        else if (verb == "write") words >> file >> offset >> length >> seed, answer = &bench.run(kWriteFile, file, 0, "", offset, length, pattern(seed, offset, length));
        else if (verb == "get") words >> name >> offset >> length >> seed, answer = &bench.read(0, name, offset, length, seed);
        else if (verb == "read") words >> file >> offset >> length >> seed, answer = &bench.read(file, "", offset, length, seed);
        else if (verb == "delete") words >> name, answer = &bench.run(kDelete, 0, 0, name, 0, 0);
        else throw std::runtime_error("no such verb: " + verb);
        if (answer != nullptr)
            std::printf("%u %llu %llu\n", answer->status, (unsigned long long)answer->value, (unsigned long long)answer->cycles);
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
