// SPDX-License-Identifier: Apache-2.0 OR MIT
// The file system core with its processor interface as a device behind a socket: a program plays the processor. It accesses
// the registers and 1 MiB of memory, which the device sees at 0x1'0000'0000. The simulation runs only during a request.
//
//   hwfs_axi_bench IMAGE SOCKET [stall=PERCENT] [latency=CYCLES] [read_latency=CYCLES] [seed=N]
//
// IMAGE is the block device. It is written back when a client disconnects; the core keeps its state for the next client.
//
// A request is 16 bytes, little-endian: operation (1), zero (3), length (4), address (8), then the data. Answers:
//   'r'  register           response (4), value (4)
//   'w'  register, 4 bytes  response (4), zero (4)
//   'i'  waits for the interrupt, `length` cycles at most: 1 or 0 (4), zero (4)
//   'R'  memory             `length` bytes
//   'W'  memory, the bytes  8 zero bytes
//   'f'  `length` bytes of memory from `address` fail with SLVERR (0: none); outside memory it is DECERR: 8 zero bytes
//   'b'  reads and writes of the device's block `address` fail, or of none (`length` 0): 8 zero bytes
//   'c'  cycles so far      (8)
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "Vhwfs_axi_sim.h"
#include "axi_bus.hpp"
#include "block_device.hpp"

using namespace straightway;

namespace {

constexpr uint64_t kBase = 0x1'0000'0000, kSize = 1 << 20;
constexpr unsigned kBlockBytes = 1u << BLOCK_SIZE_LOG2;

[[noreturn]] void die(const std::string& why) {
    std::fprintf(stderr, "hwfs_axi_bench: %s\n", why.c_str());
    std::exit(1);
}

struct Request {
    uint8_t op, nothing[3];
    uint32_t length;
    uint64_t address;
};
static_assert(sizeof(Request) == 16);

class Server {
public:
    Server(const std::string& image, std::map<std::string, uint64_t> options) : path_(image), bus_(options["seed"]) {
        std::ifstream file(image, std::ios::binary);
        if (!file) die("cannot read " + image);
        DeviceModel model;
        model.block_bytes = kBlockBytes;
        std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
        model.block_count = bytes.size() / kBlockBytes;
        model.read_latency = options["read_latency"];
        model.stall_percent = options["stall"];
        bus_.top->block_count = model.block_count;
        bus_.stall_percent = options["stall"];
        bus_.latency = options["latency"];
        device_ = std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*bus_.top, , ), model, options["seed"] + 1, bytes);
        bus_.each = [this] { device_->sample(); };
        bus_.driven = [this] { device_->drive(); };
        bus_.memory.read = [this](uint64_t at, uint32_t& word) {
            if (!reaches(at)) return false;
            std::memcpy(&word, &memory_[at - kBase], 4);
            return true;
        };
        bus_.memory.write = [this](uint64_t at, uint32_t word, unsigned strobe) {
            if (!reaches(at)) return false;
            for (unsigned i = 0; i < 4; ++i)
                if (strobe >> i & 1) memory_[at - kBase + i] = uint8_t(word >> 8 * i);
            return true;
        };
    }

    // Serves one client until it disconnects.
    void serve(int socket) {
        socket_ = socket;
        Request request;
        while (receive(&request, sizeof request)) answer(request);
        // Beside the image and then in its place: who ends this program now has the old one or the new one.
        std::string beside = path_ + ".new";
        std::ofstream file(beside, std::ios::binary);
        file.write(reinterpret_cast<const char*>(device_->bytes().data()), device_->bytes().size());
        file.close();
        if (!file || std::rename(beside.c_str(), path_.c_str()) != 0) die("cannot write " + path_);
    }

private:
    bool reaches(uint64_t at) {
        bool inside = at >= kBase && at < kBase + kSize, faulty = at + 4 > fault_from_ && at < fault_to_;
        if (!inside || faulty) bus_.bad_response = inside ? 2 : 3;
        return inside && !faulty;
    }
    bool receive(void* to, size_t bytes) {
        for (auto at = static_cast<char*>(to); bytes != 0;) {
            ssize_t got = recv(socket_, at, bytes, 0);
            if (got <= 0) return false;
            at += got, bytes -= got;
        }
        return true;
    }
    void send_all(const void* from, size_t bytes) {
        for (auto at = static_cast<const char*>(from); bytes != 0;) {
            ssize_t sent = ::send(socket_, at, bytes, MSG_NOSIGNAL);
            if (sent <= 0) return;  // the client has disconnected: the next receive reports it
            at += sent, bytes -= sent;
        }
    }
    void reply(uint32_t first, uint32_t second = 0) {
        uint32_t words[2] = {first, second};
        send_all(words, sizeof words);
    }
    uint8_t* memory(const Request& request) {
        if (request.address < kBase || request.address + request.length > kBase + kSize) die("memory that is not there");
        return &memory_[request.address - kBase];
    }

    void answer(const Request& request) {
        switch (request.op) {
            case 'r': {
                uint32_t value = bus_.read(request.address);
                return reply(bus_.response, value);
            }
            case 'w': {
                uint32_t value = 0;
                if (request.length != 4 || !receive(&value, 4)) die("a register has 4 bytes");
                bus_.write(request.address, value);
                return reply(bus_.response);
            }
            case 'i': {
                uint32_t left = request.length;
                while (!bus_.top->irq && left-- != 0) bus_.cycle();
                return reply(bus_.top->irq);
            }
            case 'R': return send_all(memory(request), request.length);
            case 'W':
                if (!receive(memory(request), request.length)) return;
                return reply(0);
            case 'f':
                fault_from_ = request.address, fault_to_ = request.length ? request.address + request.length : 0;
                return reply(0);
            case 'b':
                if (request.length == 0) device_->bad_reads.clear(), device_->bad_writes.clear();
                else device_->bad_reads.insert(request.address), device_->bad_writes.insert(request.address);
                return reply(0);
            case 'c': return send_all(&bus_.now, 8);
            default: die("no such operation");
        }
    }

    std::string path_;
    AxiBus<Vhwfs_axi_sim> bus_;
    std::unique_ptr<BlockDevice> device_;
    std::vector<uint8_t> memory_ = std::vector<uint8_t>(kSize);
    uint64_t fault_from_ = 0, fault_to_ = 0;
    int socket_ = -1;
};

}  // namespace

int main(int count, char** words) {
    if (count < 3) die("IMAGE SOCKET [key=value]...");
    std::map<std::string, uint64_t> options;
    for (int i = 3; i < count; ++i) {
        std::string word = words[i];
        options[word.substr(0, word.find('='))] = std::stoull(word.substr(word.find('=') + 1));
    }
    Server server(words[1], options);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(words[2]) >= sizeof address.sun_path) die("the socket's path is too long");
    std::strcpy(address.sun_path, words[2]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(words[2]);
    if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener, 4) != 0)
        die("no socket");
    for (;;) {
        int client = accept(listener, nullptr, nullptr);
        if (client < 0) die("no client");
        server.serve(client);
        close(client);
    }
}
