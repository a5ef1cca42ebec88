// SPDX-License-Identifier: Apache-2.0 OR MIT
// A script's commands to the file system core, for benches that generate the contents of files from a seed, so that long
// files need no copy for the comparison.
//
//   mount | unmount
//   put NAME BYTES SEED   create, write and sync in one command
//   create FILE NAME BYTES | open FILE NAME | openw FILE NAME | close FILE | commit FILE | sync FILE
//   write FILE OFFSET BYTES SEED
//   putfrom NAME IN | writefrom FILE OFFSET IN    the same with the bytes of the file IN
//   get NAME OFFSET BYTES SEED | read FILE OFFSET BYTES SEED
//   delete NAME | rename NAME NAME
#pragma once

#include <fstream>
#include <istream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "hwfs_app.hpp"

namespace straightway {

using Bytes = std::vector<uint8_t>;

// The byte of a file at an offset. Each group of eight bytes differs, so that a shift by any distance is detected.
inline uint8_t byte_at(uint64_t seed, uint64_t offset) {
    return ((offset >> 3) + seed) * 0x9e3779b97f4a7c15ull >> (8 * (offset & 7));
}

inline Bytes pattern(uint64_t seed, uint64_t offset, uint64_t length) {
    Bytes data(length);
    for (uint64_t i = 0; i < length; ++i) data[i] = byte_at(seed, offset + i);
    return data;
}

inline Bytes bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

// Reads and compares; `run` as below.
template <class Run>
const Answer& compared_read(Run run, unsigned file, const std::string& name, uint64_t offset, uint64_t length, uint64_t seed) {
    const Answer& answer = run(kReadFile, file, 0, name, "", offset, length, Bytes());
    if (answer.status == 0 && answer.data.size() != length) throw std::runtime_error("a read returned too few or too many bytes");
    for (uint64_t i = 0; i < answer.data.size() && answer.status == 0; ++i)
        if (answer.data[i] != byte_at(seed, offset + i)) throw std::runtime_error("the data differ at byte " + std::to_string(offset + i));
    return answer;
}

// `run(op, file, flags, name, name2, offset, length, data)` executes a command and returns its answer.
template <class Run>
const Answer& file_verb(Run run, const std::string& verb, std::istream& words) {
    static const std::map<std::string, Command> of_a_file = {{"close", kClose}, {"commit", kCommit}, {"sync", kSync}};
    std::string name, other;
    uint64_t file = 0, offset = 0, length = 0, seed = 0;
    if (verb == "mount" || verb == "unmount") return run(verb == "mount" ? kMount : kUnmount, 0, 0, "", "", 0, 0, Bytes());
    if (verb == "put") {
        words >> name >> length >> seed;
        return run(kCreate, 0, 1, name, "", 0, length, pattern(seed, 0, length));
    }
    if (verb == "putfrom") {
        words >> name >> other;
        Bytes data = bytes_of(other);
        return run(kCreate, 0, 1, name, "", 0, data.size(), data);
    }
    if (verb == "create") {
        words >> file >> name >> length;
        return run(kCreate, file, 0, name, "", 0, length, Bytes());
    }
    if (verb == "open" || verb == "openw") {
        words >> file >> name;
        return run(kOpen, file, verb == "openw", name, "", 0, 0, Bytes());
    }
    if (of_a_file.count(verb)) {
        words >> file;
        return run(of_a_file.at(verb), file, 0, "", "", 0, 0, Bytes());
    }
    if (verb == "write") {
        words >> file >> offset >> length >> seed;
        return run(kWriteFile, file, 0, "", "", offset, length, pattern(seed, offset, length));
    }
    if (verb == "writefrom") {
        words >> file >> offset >> other;
        Bytes data = bytes_of(other);
        return run(kWriteFile, file, 0, "", "", offset, data.size(), data);
    }
    if (verb == "delete") {
        words >> name;
        return run(kDelete, 0, 0, name, "", 0, 0, Bytes());
    }
    if (verb == "rename") {
        words >> name >> other;
        return run(kRename, 0, 0, name, other, 0, 0, Bytes());
    }
    if (verb == "get") words >> name >> offset >> length >> seed;
    else if (verb == "read") words >> file >> offset >> length >> seed;
    else throw std::runtime_error("unknown command: " + verb);
    return compared_read(run, file, name, offset, length, seed);
}

inline void print(const Answer& answer) {
    std::printf("%u %llu %llu\n", answer.status, (unsigned long long)answer.value, (unsigned long long)answer.cycles);
}

}  // namespace straightway
