// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives hwfs_sim with a script: the core on a device in memory. A line of the script (standard input)
// is a command; each prints a line.
//
//   device IMAGE [key=value]...   the device's bytes; read_latency, write_latency, flush_latency, rate_words,
//                                 rate_cycles, stall, app_stall, seed, depth, max_blocks, cached, read_only, journal, cut, cut_delay,
//                                 cut_flush
//   mount [ro] | unmount
//   open FILE NAME [w] | create FILE NAME BYTES | close FILE | commit FILE | sync FILE | reserve FILE BYTES
//   read FILE OFFSET BYTES [OUT]  writes the data to the file OUT
//   write FILE OFFSET IN          takes the data from the file IN
//   put NAME IN                   create, write and sync in one command
//   get NAME OFFSET BYTES [OUT]   read from a file that need not be open
//   delete NAME | rename NAME NAME | list SLOT
//   command OP FILE FLAGS OFFSET BYTES NAME    any command, to test which ones are refused
//   bad read|write|flush BLOCK    requests that touch that block fail until `bad none`; `bad flush N`: the N-th flush
//   stop give|take WORDS          the application stops after this many words; -1: never
//   flip BYTE                     inverts a bit of that byte of the device
//   hang 0|1                      the device neither takes nor sends anything
//   silent CYCLES                 for how long nothing may move between application and core amid a command (default 10,000,000)
//   save IMAGE | cut lost|kept|torn SEED IMAGE   the device's bytes, or those that a power cut leaves
//   count                         reads, writes, flushes and cycles so far
//
// With `cut=N` the simulation stops `cut_delay` cycles after the device has taken its N-th write or flush. With
// `cut_flush=N` it stops when the N-th flush has begun but has not written anything, where most data are at risk. From
// then on each command prints CUT, and `cut` saves the remaining image (`journal=1`).
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "Vhwfs_sim.h"
#include "block_device.hpp"
#include "hwfs_app.hpp"
#include "verilated.h"

using namespace straightway;

namespace {

const unsigned kDataBytes = DATA_WIDTH / 8;
const unsigned kBlockBytes = 1u << BLOCK_SIZE_LOG2;

using Bytes = std::vector<uint8_t>;

Bytes load(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

void store(const std::string& path, const Bytes& bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!file) throw std::runtime_error("cannot write " + path);
}

struct Bench {
    VerilatedContext context;
    std::unique_ptr<Vhwfs_sim> top = std::make_unique<Vhwfs_sim>(&context);
    std::unique_ptr<BlockDevice> device;
    std::unique_ptr<Application<Vhwfs_sim>> app;
    uint64_t now = 0, cut = 0, cut_delay = 0, cut_flush = 0;
    bool was_cut = false, hangs = false;

    ~Bench() { top->final(); }

    void start(const Bytes& image, std::map<std::string, uint64_t> options) {
        auto option = [&](const char* name, uint64_t otherwise) {
            auto found = options.find(name);
            return found == options.end() ? otherwise : found->second;
        };
        DeviceModel model;
        model.data_bytes = kDataBytes;
        model.block_bytes = kBlockBytes;
        model.block_count = image.size() / kBlockBytes;
        model.depth = option("depth", 16);
        model.read_latency = option("read_latency", 0);
        model.write_latency = option("write_latency", 0);
        model.flush_latency = option("flush_latency", 0);
        model.rate_words = option("rate_words", 1);
        model.rate_cycles = option("rate_cycles", 1);
        model.stall_percent = option("stall", 0);
        model.journal = option("journal", 0);
        uint64_t seed = option("seed", 1);
        cut = option("cut", 0);
        cut_delay = option("cut_delay", 0);
        cut_flush = option("cut_flush", 0);
        top->ready = 1;
        top->cached = option("cached", 1);
        top->read_only = option("read_only", 0);
        top->block_count = model.block_count;
        top->max_transfer_blocks = option("max_blocks", 0xffffff);
        device = std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*top, , ), model, seed, image);
        app = std::make_unique<Application<Vhwfs_sim>>(*top, kDataBytes, option("app_stall", 0), seed + 1);
        top->rst_ni = 0;
        app->drive();
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }
    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    void cycle() {
        top->clk_i = 0;
        if (hangs) top->req_ready = top->write_ready = top->read_valid = top->rsp_valid = 0;
        top->eval();
        ++now;
        if (!hangs) device->sample();
        app->sample();
        top->clk_i = 1;
        top->eval();
        if (!hangs) device->drive();
        app->drive();
        if (cut != 0 && device->writes + device->flushes >= cut && cut_delay-- == 0) was_cut = true;
        if (cut_flush != 0 && device->flushes >= cut_flush) was_cut = true;
    }
    // Runs the current command to its end; false: the power was cut.
    bool finish() {
        while (!app->done() && !was_cut) cycle();
        return !was_cut;
    }
};

int run() {
    Bench bench;
    std::string line, word;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string verb, name, name2, path;
        uint64_t file = 0, offset = 0, length = 0;
        if (!(words >> verb)) continue;
        if (verb == "device") {
            words >> path;
            std::map<std::string, uint64_t> options;
            while (words >> word) options[word.substr(0, word.find('='))] = std::stoull(word.substr(word.find('=') + 1));
            bench.start(load(path), options);
            continue;
        }
        if (verb == "save") {
            words >> path;
            store(path, bench.device->bytes());
            continue;
        }
        if (verb == "cut") {
            std::string how;
            uint64_t seed;
            words >> how >> seed >> path;
            Random random(seed);
            store(path, bench.device->cut(how == "lost" ? BlockDevice::kLost : how == "kept" ? BlockDevice::kKept
                                                                                             : BlockDevice::kTorn, random));
            continue;
        }
        if (verb == "count") {
            std::printf("count %llu %llu %llu %llu\n", (unsigned long long)bench.device->reads,
                        (unsigned long long)bench.device->writes, (unsigned long long)bench.device->flushes,
                        (unsigned long long)bench.now);
            continue;
        }
        if (verb == "bad") {
            words >> word;
            if (word == "flush" && words >> offset) {
                bench.device->bad_flush_in = offset;
                continue;
            }
            if (words >> offset) (word == "read" ? bench.device->bad_reads : bench.device->bad_writes).insert(offset);
            bench.device->bad_flush = word == "flush";
            if (word == "none") bench.device->bad_reads.clear(), bench.device->bad_writes.clear(), bench.device->bad_flush_in = 0;
            continue;
        }
        if (verb == "stop") {
            long limit;
            words >> word >> limit;
            (word == "give" ? bench.app->give_limit : bench.app->take_limit) = limit;
            continue;
        }
        if (verb == "flip") {
            words >> offset;
            bench.device->bytes().at(offset) ^= 4;
            continue;
        }
        if (verb == "hang") {
            words >> bench.hangs;
            continue;
        }
        if (verb == "silent") {
            words >> bench.app->most_silent;
            continue;
        }
        if (verb == "idle") {
            words >> length;
            while (length-- != 0 && !bench.was_cut) bench.cycle();
            continue;
        }
        if (bench.was_cut) {
            std::printf("CUT\n");
            continue;
        }
        Bytes data;
        auto begin = [&](Command op, unsigned flags = 0) {
            bench.app->begin(op, file, flags, name, name2, offset, length, data);
        };
        if (verb == "mount") begin(kMount, words >> word ? 1 : 0);
        else if (verb == "unmount") begin(kUnmount);
        else if (verb == "open") words >> file >> name, begin(kOpen, words >> word ? 1 : 0);
        else if (verb == "create") words >> file >> name >> length, begin(kCreate);
        else if (verb == "close") words >> file, begin(kClose);
        else if (verb == "commit") words >> file, begin(kCommit);
        else if (verb == "sync") words >> file, begin(kSync);
        else if (verb == "reserve") words >> file >> length, begin(kReserve);
        else if (verb == "read") words >> file >> offset >> length, begin(kReadFile);
        else if (verb == "write") {
            words >> file >> offset >> path;
            data = load(path);
            length = data.size();
            begin(kWriteFile);
        } else if (verb == "put") {
            words >> name >> path;
            data = load(path);
            length = data.size();
            begin(kCreate, 1);
        } else if (verb == "get") {
            words >> name >> offset >> length;
            begin(kReadFile);
        } else if (verb == "delete") words >> name, begin(kDelete);
        else if (verb == "rename") words >> name >> name2, begin(kRename);
        else if (verb == "list") words >> offset, begin(kList);
        else if (verb == "command") {
            unsigned op, flags;
            words >> op >> file >> flags >> offset >> length >> name;
            begin(static_cast<Command>(op), flags);
        } else throw std::runtime_error("unknown command: " + verb);
        if (!bench.finish()) {
            std::printf("CUT\n");
            continue;
        }
        const Answer& answer = bench.app->answer();
        std::printf("%u %llu %llu", answer.status, (unsigned long long)answer.value, (unsigned long long)answer.cycles);
        if (verb == "list" && answer.status == 0) {
            std::printf(" ");
            for (uint8_t byte : answer.data) std::printf("%02x", byte);
        }
        std::printf("\n");
        if (verb == "read" || verb == "get") {
            bool whole = answer.data.size() == length && (length == 0 || answer.last);
            if (answer.status == 0 && !whole) throw std::runtime_error("a successful read returned too few bytes");
            if (words >> path) store(path, answer.data);
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
