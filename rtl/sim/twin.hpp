// SPDX-License-Identifier: Apache-2.0 OR MIT
// The software's volume (crates/twin), linked into a simulation: the functions of its C interface, and a class
// around them. A negative result is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

struct Twin;
extern "C" {
Twin* twin_new(uint8_t block_size_log2, const uint8_t* image, size_t len);
void twin_free(Twin*);
int64_t twin_format(Twin*, uint64_t unit, uint32_t node, uint32_t slots, uint64_t uuid, bool checksums);
int64_t twin_load(Twin*, const uint8_t* image, size_t len);
int64_t twin_image(Twin*, bool cut, uint64_t seed, uint8_t* image, size_t len);
int64_t twin_mount(Twin*, bool read_only);
int64_t twin_grow(Twin*);
int64_t twin_unmount(Twin*);
void twin_abandon(Twin*);
void twin_stop_after(Twin*, uint64_t number);
bool twin_is_off(Twin*);
int64_t twin_create(Twin*, size_t place, const uint8_t* name, size_t len, uint64_t reserve, bool checksums);
int64_t twin_open(Twin*, size_t place, const uint8_t* name, size_t len, bool to_write);
int64_t twin_append(Twin*, size_t place, const uint8_t* data, size_t len);
int64_t twin_overwrite(Twin*, size_t place, uint64_t offset, const uint8_t* data, size_t len);
int64_t twin_read(Twin*, size_t place, uint64_t offset, uint8_t* target, size_t len);
int64_t twin_commit(Twin*, size_t place, bool durable);
int64_t twin_close(Twin*, size_t place);
int64_t twin_delete(Twin*, const uint8_t* name, size_t len);
int64_t twin_rename(Twin*, const uint8_t* from, size_t from_len, const uint8_t* to, size_t to_len);
int64_t twin_size(Twin*, const uint8_t* name, size_t len);
int64_t twin_check(Twin*);
}

namespace straightway {

// `Status` of twin.rs.
enum TwinStatus : int64_t { kTwinGone = -2, kTwinNotFound = -3, kTwinExists = -4, kTwinNoSpace = -5, kTwinTableFull = -6 };

class SoftwareVolume {
public:
    using Bytes = std::vector<uint8_t>;

    SoftwareVolume(unsigned block_size_log2, size_t len) : len_(len) {
        Bytes image(len);
        twin_ = twin_new(block_size_log2, image.data(), len);
        if (twin_ == nullptr) throw std::runtime_error("the twin refuses this disk");
    }
    ~SoftwareVolume() { twin_free(twin_); }
    SoftwareVolume(const SoftwareVolume&) = delete;
    SoftwareVolume& operator=(const SoftwareVolume&) = delete;

    int64_t format(uint64_t unit, uint32_t node, uint32_t slots, uint64_t uuid, bool checksums) { return twin_format(twin_, unit, node, slots, uuid, checksums); }
    int64_t load(const Bytes& image) { return twin_load(twin_, image.data(), image.size()); }
    Bytes image(bool cut = false, uint64_t seed = 0) {
        Bytes bytes(len_);
        if (twin_image(twin_, cut, seed, bytes.data(), len_) != 0) throw std::runtime_error("the twin's disk has another size");
        return bytes;
    }
    int64_t mount(bool read_only = false) { return twin_mount(twin_, read_only); }
    int64_t grow() { return twin_grow(twin_); }
    int64_t unmount() { return twin_unmount(twin_); }
    void abandon() { twin_abandon(twin_); }
    void stop_after(uint64_t number) { twin_stop_after(twin_, number); }
    bool is_off() const { return twin_is_off(twin_); }
    int64_t create(size_t place, const std::string& name, uint64_t reserve, bool checksums) { return twin_create(twin_, place, text(name), name.size(), reserve, checksums); }
    int64_t open(size_t place, const std::string& name, bool to_write) { return twin_open(twin_, place, text(name), name.size(), to_write); }
    int64_t append(size_t place, const Bytes& data) { return twin_append(twin_, place, data.data(), data.size()); }
    int64_t overwrite(size_t place, uint64_t offset, const Bytes& data) { return twin_overwrite(twin_, place, offset, data.data(), data.size()); }
    int64_t read(size_t place, uint64_t offset, Bytes& target) { return twin_read(twin_, place, offset, target.data(), target.size()); }
    int64_t commit(size_t place, bool durable) { return twin_commit(twin_, place, durable); }
    int64_t close(size_t place) { return twin_close(twin_, place); }
    int64_t remove(const std::string& name) { return twin_delete(twin_, text(name), name.size()); }
    int64_t rename(const std::string& from, const std::string& to) { return twin_rename(twin_, text(from), from.size(), text(to), to.size()); }
    int64_t size(const std::string& name) { return twin_size(twin_, text(name), name.size()); }
    int64_t check() { return twin_check(twin_); }

private:
    static const uint8_t* text(const std::string& name) { return reinterpret_cast<const uint8_t*>(name.data()); }
    Twin* twin_;
    size_t len_;
};

}  // namespace straightway
