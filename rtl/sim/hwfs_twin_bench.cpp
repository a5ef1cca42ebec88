// SPDX-License-Identifier: Apache-2.0 OR MIT
// Runs the file system core and the software's volume side by side in one process: the same random operations on
// both, on volumes of random shapes. `bench SEED SECONDS` runs sequences until the time is over, but at least eight. With
// a third argument `damage` one bit of a file is inverted in each image that the core leaves, which must be detected.
//
// After each sequence the two images have the same bytes where FORMAT.md determines them, each side mounts the
// other's image, checks it (the software) and compares each file's bytes. In every other sequence the power is cut on
// both sides, at different moments: each side recovers the other's image, no synced data are lost, and the software's
// check passes after the core's recovery.
//
// Prints `sequences N cuts N operations N cycles N mcycles_per_s X` (of processor time in the simulation alone), or
// `FAILED: why` with the sequence's seed; given as SEED, that sequence is the first one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <set>

#include "Vhwfs_sim.h"
#include "block_device.hpp"
#include "hwfs_app.hpp"
#include "twin.hpp"
#include "verilated.h"

using namespace straightway;

namespace {

using Bytes = std::vector<uint8_t>;
constexpr unsigned kDataBytes = DATA_WIDTH / 8;
constexpr uint64_t kBlock = 1u << BLOCK_SIZE_LOG2;
enum { kFsOk = 0, kFsNotFound = 25, kFsExists = 26, kFsTableFull = 27, kFsNoSpace = 28 };
constexpr int kCut = -1;

[[noreturn]] void fail(const std::string& why) { throw std::runtime_error(why); }

// The core in simulation, on a device in memory.
struct Core {
    VerilatedContext context;
    std::unique_ptr<Vhwfs_sim> top = std::make_unique<Vhwfs_sim>(&context);
    std::unique_ptr<BlockDevice> device;
    std::unique_ptr<Application<Vhwfs_sim>> app;
    uint64_t cycles = 0, stop_after = 0;
    std::clock_t spent = 0;

    ~Core() { top->final(); }
    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    void start(const Bytes& image, Random& random) {
        DeviceModel model;
        model.data_bytes = kDataBytes;
        model.block_bytes = kBlock;
        model.block_count = image.size() / kBlock;
        model.journal = true;
        bool slow = random.percent(30);
        model.read_latency = slow ? random.below(30) : 0;
        model.write_latency = slow ? random.below(20) : 0;
        model.flush_latency = slow ? random.below(60) : 0;
        model.stall_percent = slow ? random.below(20) : 0;
        device = std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*top, , ), model, random.next(), image);
        app = std::make_unique<Application<Vhwfs_sim>>(*top, kDataBytes, slow ? random.below(20) : 0, random.next());
        top->ready = 1;
        top->cached = 1;
        top->read_only = 0;
        top->block_count = model.block_count;
        top->max_transfer_blocks = 0xffffff;
        stop_after = 0;
        top->rst_ni = 0;
        app->drive();
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }
    // The status; kCut if the power was cut.
    int run(Command op, unsigned file, unsigned flags, const std::string& name, const std::string& name2,
            uint64_t offset, uint64_t length, Bytes data = {}) {
        if (is_cut()) return kCut;
        app->begin(op, file, flags, name, name2, offset, length, std::move(data));
        std::clock_t from = std::clock();
        for (; !app->done() && !is_cut(); ++cycles) {
            edge();
            device->sample();
            app->sample();
            device->drive();
            app->drive();
        }
        spent += std::clock() - from;
        return is_cut() ? kCut : int(app->answer().status);
    }
    bool is_cut() const { return stop_after != 0 && device->writes + device->flushes >= stop_after; }
    int simple(Command op, unsigned file = 0, const std::string& name = "") { return run(op, file, 0, name, "", 0, 0); }
};

uint64_t number_at(const Bytes& bytes, size_t at, unsigned size) {
    uint64_t value = 0;
    std::memcpy(&value, &bytes[at], size);
    return value;
}

// The files' contents, and the state of each that a power cut may leave.
struct File {
    Bytes data;
    uint64_t synced = 0;    // bytes that survive a cut
    bool is_durable = false; // survives a cut
    bool sums = false;       // has checksums of its data
};

class Sequence {
public:
    Sequence(Core& core, uint64_t seed, bool damage)
        : core_(core), random_(seed), cuts_(!damage && random_.percent(50)), damage_(damage) {}
    uint64_t operations = 0, grown = 0;
    bool cuts() const { return cuts_; }

    void run() {
        bool large = random_.percent(10);  // units of 128 KiB to 1 MiB
        sums_ = random_.percent(40);
        uint64_t size = large ? 24 << 20 : (256 + 256 * random_.below(4) + (sums_ ? 2048 : 0)) << 10;
        SoftwareVolume volume(BLOCK_SIZE_LOG2, size);
        software_ = &volume;
        unsigned node_log2 = std::max<unsigned>(8, BLOCK_SIZE_LOG2) + random_.below(5);
        uint64_t unit = large ? (128 << 10) << random_.below(4) : std::max<uint64_t>(kBlock, 64) << random_.below(sums_ ? 4 : 8);
        if (volume.format(unit, 1u << node_log2, 8u << random_.below(3), random_.next(), sums_) != 0) return;  // too small for this shape
        // The core with the longer control store knows tables that have grown; on a small volume there may be no room for that.
        if (PROGRAM_LOG2 > 12) {
            for (auto& name : names_) name += "-" + std::to_string(random_.below(1000));
            must(volume.mount() == 0, "the twin mounts");
            for (unsigned left = random_.below(14); left != 0 && volume.grow() == 0;) --left;
            must(volume.unmount() == 0, "the twin unmounts");
        }
        Bytes image = volume.image();
        core_.start(image, random_);
        must(volume.mount() == 0, "the twin mounts");
        must(core_.simple(kMount) == kFsOk, "the core mounts");
        if (cuts_) {
            core_.stop_after = core_.device->writes + core_.device->flushes + 1 + random_.below(120);
            volume.stop_after(1 + random_.below(120));
        }
        // One side may be cut before the other: then each has its own model.
        Model software, hardware;
        for (unsigned i = 0; i < 40 && !(software.is_cut && hardware.is_cut) && !full_; ++i) operate(volume, software, hardware);
        finish(volume, software, hardware);
        compare(volume, size, software, hardware);
    }

private:
    struct Model {
        std::map<std::string, File> files;
        std::map<std::string, Bytes> gone;  // contents of names that have been removed, or will be
        std::set<std::string> doubtful;     // names that the operation under way at the cut touches
        bool is_cut = false;
    };

    void must(bool good, const std::string& what) { if (!good) fail("violated: " + what); }

    Bytes bytes(uint64_t length) {
        Bytes data(length);
        for (auto& byte : data) byte = random_.next();
        return data;
    }
    std::string name() { return names_[random_.below(names_.size())]; }

    // Compares the outcomes of both sides unless one was cut; returns whether the operation succeeded.
    bool agree(const char* what, int core, int64_t twin, Model& software, Model& hardware, std::set<std::string> names) {
        ++operations;
        if (software_->is_off()) twin = kTwinGone;
        if (core == kCut && !hardware.is_cut) hardware.is_cut = true, hardware.doubtful = names;
        if (twin == kTwinGone && !software.is_cut) software.is_cut = true, software.doubtful = names;
        if (core == kFsNoSpace || twin == kTwinNoSpace) full_ = true;
        if (full_) return false;
        static const std::map<int, int64_t> same = {{kFsOk, 0}, {kFsNotFound, kTwinNotFound}, {kFsExists, kTwinExists}, {kFsTableFull, kTwinTableFull}};
        if (core != kCut && twin != kTwinGone) {
            auto found = same.find(core);
            if (found == same.end() || found->second != twin)
                fail(std::string(what) + ": the core says " + std::to_string(core) + ", the twin " + std::to_string(twin));
        }
        return core == kFsOk || twin == 0;
    }
    // Applies a change to the models of the sides that still have power.
    template <class Change>
    void change(Model& software, Model& hardware, Change apply) {
        for (Model* model : {&software, &hardware})
            if (!model->is_cut) apply(*model);
    }

    void operate(SoftwareVolume& volume, Model& software, Model& hardware) {
        unsigned kind = random_.below(100);
        unsigned place = random_.below(FILES);
        auto& opened = open_[place];
        auto closed = [&](const std::string& file) {
            return std::none_of(std::begin(open_), std::end(open_), [&](const std::string& other) { return other == file; });
        };
        Model& model = software.is_cut ? hardware : software;
        if (opened.empty()) {
            std::string file = name();
            if (!closed(file)) return;
            if (kind < 40) {
                uint64_t reserve = random_.percent(50) ? random_.below(20000) : 0;
                bool sums = sums_ && random_.percent(70);
                if (agree("create", core_.run(kCreate, place, sums ? 2 : 0, file, "", 0, reserve), volume.create(place, file, reserve, sums), software, hardware, {file})) {
                    opened = file;
                    change(software, hardware, [&](Model& m) { m.files[file] = File{{}, 0, true, sums}; });
                }
            } else if (kind < 60) {
                if (agree("open", core_.run(kOpen, place, 1, file, "", 0, 0), volume.open(place, file, true), software, hardware, {})) opened = file;
            } else if (kind < 75) {
                if (agree("delete", core_.simple(kDelete, 0, file), volume.remove(file), software, hardware, {file}))
                    change(software, hardware, [&](Model& m) { m.files.erase(file); });
            } else if (kind < 85) {
                std::string to = name();
                if (!closed(to) || to == file) return;
                if (agree("rename", core_.run(kRename, 0, 0, file, to, 0, 0), volume.rename(file, to), software, hardware, {file, to}))
                    change(software, hardware, [&](Model& m) { m.files[to] = m.files[file]; m.files.erase(file); });
            } else {
                Bytes data = bytes(random_.below(12000));
                int64_t twin = volume.create(place, file, data.size(), false);
                if (twin == 0) twin = volume.append(place, data);
                if (twin == 0) twin = volume.commit(place, true);
                if (twin == 0 || twin == kTwinNoSpace) { int64_t end = volume.close(place); if (twin == 0) twin = end; }
                if (agree("put", core_.run(kCreate, place, 1, file, "", 0, data.size(), data), twin, software, hardware, {file}))
                    change(software, hardware, [&](Model& m) { m.files[file] = File{data, data.size(), true}; });
            }
            return;
        }
        std::string file = opened;
        uint64_t size = model.files[file].data.size();
        if (kind < 45) {
            if (size % kBlock != 0) return;  // only a file's last append ends inside a block
            // For files with checksums: the ends of chunks, and, with small units, the ends of spans.
            uint64_t most = !model.files[file].sums || random_.percent(50) ? 64 : random_.percent(15) ? 16384 : 2048;
            Bytes data = bytes(random_.percent(80) ? kBlock * (1 + random_.below(most)) : 1 + random_.below(4000));
            if (agree("write", core_.run(kWriteFile, place, 0, "", "", size, data.size(), data), volume.append(place, data), software, hardware, {}))
                change(software, hardware, [&](Model& m) { auto& all = m.files[file].data; all.insert(all.end(), data.begin(), data.end()); });
        } else if (kind < 55) {
            // A cut during an overwrite leaves old or new bytes, so overwrites are only tested without cuts.
            uint64_t blocks = size / kBlock;
            if (cuts_ || blocks == 0 || model.files[file].sums) return;
            uint64_t first = random_.below(blocks), count = 1 + random_.below(blocks - first);
            Bytes data = bytes(count * kBlock);
            if (agree("overwrite", core_.run(kWriteFile, place, 0, "", "", first * kBlock, data.size(), data), volume.overwrite(place, first * kBlock, data), software, hardware, {}))
                change(software, hardware, [&](Model& m) { std::copy(data.begin(), data.end(), m.files[file].data.begin() + first * kBlock); });
        } else if (kind < 75) {
            bool durable = random_.percent(60);
            if (agree("commit", core_.simple(durable ? kSync : kCommit, place), volume.commit(place, durable), software, hardware, {file}) && durable)
                change(software, hardware, [&](Model& m) { m.files[file].synced = m.files[file].data.size(); });
        } else if (kind < 85) {
            compare_read(volume, place, file, model);
        } else close(volume, place, software, hardware);
    }

    void close(SoftwareVolume& volume, unsigned place, Model& software, Model& hardware) {
        std::string file = open_[place];
        open_[place].clear();
        if (agree("close", core_.simple(kClose, place), volume.close(place), software, hardware, {file}))
            change(software, hardware, [&](Model& m) { m.files[file].synced = m.files[file].data.size(); });
    }

    void compare_read(SoftwareVolume& volume, unsigned place, const std::string& file, Model& model) {
        const Bytes& data = model.files[file].data;
        if (cuts_ || data.empty()) return;
        // Only committed data can be read.
        if (core_.simple(kCommit, place) != kFsOk || volume.commit(place, false) != 0) fail("commit before a read");
        uint64_t offset = random_.below(data.size()) / kBlock * kBlock, length = 1 + random_.below(data.size() - offset);
        Bytes theirs(length), wanted(data.begin() + offset, data.begin() + offset + length);
        must(volume.read(place, offset, theirs) == 0 && theirs == wanted, "the twin reads " + file);
        must(core_.run(kReadFile, place, 0, "", "", offset, length) == kFsOk && core_.app->answer().data == wanted, "the core reads " + file);
    }

    void finish(SoftwareVolume& volume, Model& software, Model& hardware) {
        if (full_) return;
        for (unsigned place = 0; place < FILES && !full_; ++place)
            if (!open_[place].empty()) close(volume, place, software, hardware);
        if (full_) return;
        // If the operations ended before the cut, it happens now or not at all.
        if (!hardware.is_cut) must(core_.simple(kUnmount) != kFsOk ? core_.is_cut() : true, "the core unmounts");
        if (core_.is_cut()) hardware.is_cut = true;
        if (!software.is_cut) {
            int64_t result = volume.unmount();
            must(result == 0 || volume.is_off(), "the twin unmounts");
            software.is_cut = volume.is_off();
        }
    }

    void compare(SoftwareVolume& volume, uint64_t size, Model& software, Model& hardware) {
        Bytes from_software, from_core;
        if (full_) {
            // The two sides may run out of space at different points. What exists must be consistent nevertheless.
            volume.abandon();
            from_software = volume.image();
            from_core = core_.device->bytes();
            software.is_cut = hardware.is_cut = true;
            for (Model* model : {&software, &hardware})
                for (auto& file : model->files) model->doubtful.insert(file.first);
        } else {
            volume.abandon();
            from_software = volume.image(software.is_cut, random_.next());
            from_core = hardware.is_cut ? core_.device->cut(BlockDevice::kTorn, random_) : core_.device->bytes();
        }
        if (from_software.size() != size || from_core.size() != size) fail("an image has the wrong size");
        if (!software.is_cut && !hardware.is_cut) compare_images(from_software, from_core);
        for (auto& [file, wanted] : hardware.files) {
            if (!damage_ || full_ || wanted.data.size() < 16) continue;
            auto found = std::search(from_core.begin(), from_core.end(), wanted.data.begin(), wanted.data.begin() + 16);
            if (found != from_core.end()) *found ^= 1;
        }
        // The software takes over what the core left.
        must(volume.load(from_core) == 0, "the twin takes the core's image");
        must(volume.mount() == 0, "the twin mounts what the core left");
        expect(volume, hardware, "the core's image under the twin");
        must(volume.unmount() == 0, "the twin unmounts what the core left");
        // The core takes over what the software left, and hands it back.
        core_.start(from_software, random_);
        must(core_.simple(kMount) == kFsOk, "the core mounts what the twin left");
        for (auto& [file, wanted] : software.files) {
            if (software.is_cut && (software.doubtful.count(file) || !wanted.is_durable)) continue;
            must(core_.run(kReadFile, 0, 0, file, "", 0, wanted.synced) == kFsOk, "the core finds " + file);
            must(std::equal(core_.app->answer().data.begin(), core_.app->answer().data.end(), wanted.data.begin()), "the core reads the bytes of " + file);
        }
        must(core_.simple(kUnmount) == kFsOk, "the core unmounts what the twin left");
        must(volume.load(core_.device->bytes()) == 0 && volume.mount() == 0, "the twin has its volume back");
        expect(volume, software, "the twin's image back from the core");
        must(volume.unmount() == 0, "the twin unmounts at the end");
    }

    // The volume passes the check and has the model's files.
    void expect(SoftwareVolume& volume, Model& model, const std::string& where) {
        int64_t count = volume.check();
        must(count >= 0, where + " is sound");
        for (auto& [file, wanted] : model.files) {
            if (model.doubtful.count(file)) continue;
            int64_t size = volume.size(file);
            must(size >= int64_t(wanted.synced) && size <= int64_t(wanted.data.size()), where + ": " + file + " has its length");
            must(model.is_cut || size == int64_t(wanted.data.size()), where + ": " + file + " has all its bytes");
            Bytes data(size);
            must(volume.open(0, file, false) == 0, where + ": " + file + " can be opened");
            must(volume.read(0, 0, data) == 0 && std::equal(data.begin(), data.end(), wanted.data.begin()), where + ": " + file + " has its bytes");
            must(volume.close(0) == 0, where + ": " + file + " can be closed");
        }
        if (!model.is_cut) must(count == int64_t(model.files.size()), where + " has no other files");
    }

    // The bytes that the format determines: the shape; each slot's name, size, units and attributes.
    void compare_images(const Bytes& one, const Bytes& other) {
        for (size_t super : {size_t(0), size_t(65536)})
            for (auto [from, to] : {std::pair<size_t, size_t>(0, 8), {24, 52}, {72, 120}})
                must(std::equal(&one[super + from], &one[super + to], &other[super + from]), "the superblocks have one shape");
        uint64_t node = 1ull << one[49], slots = 8ull << one[50], tables[] = {number_at(one, 72, 8), number_at(one, 80, 8)};
        // Of a table that has grown: the table node, and its extents one after another.
        uint64_t unit = 1ull << one[48], data = number_at(one, 104, 8), format = slots, table = 0;
        if (one[56] & 32) {
            uint64_t a = data + number_at(one, 252, 4) * unit, b = a + std::max(node, unit / 2);
            table = number_at(one, a + 8, 8) > number_at(one, b + 8, 8) ? a : b;
            slots += number_at(one, table + 32, 8) / node / 2;
            ++grown;
        }
        auto added = [&](uint64_t slot, bool second) {
            uint64_t bucket = (slot - format) / 8;
            for (unsigned entry = 0;; ++entry) {
                uint64_t room = number_at(one, table + 152 + 16 * entry, 4) * unit / (16 * node);
                if (bucket < room) return data + number_at(one, table + 144 + 16 * entry, 8) * unit + (16 * bucket + 8 * second + slot % 8) * node;
                bucket -= room;
            }
        };
        auto newest = [&](const Bytes& image, uint64_t slot) {
            uint64_t a = slot < format ? tables[0] + slot * node : added(slot, false), b = slot < format ? tables[1] + slot * node : added(slot, true);
            return number_at(image, a + 8, 8) > number_at(image, b + 8, 8) ? a : b;
        };
        for (uint64_t slot = 0; slot < slots; ++slot) {
            uint64_t here = newest(one, slot), there = newest(other, slot);
            for (auto [from, to] : {std::pair<size_t, size_t>(32, 57), {58, 59}, {64, 144}})
                must(std::equal(&one[here + from], &one[here + to], &other[there + from]), "slot " + std::to_string(slot) + " is the same on both sides");
        }
    }

    Core& core_;
    SoftwareVolume* software_ = nullptr;
    Random random_;
    bool cuts_, damage_, full_ = false, sums_ = false;
    std::string open_[FILES];
    std::vector<std::string> names_ = {"a", "bb", "log", "a-longer-name.bin", "sensor/7", "x", "y", "snapshot-0001"};
};

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return std::fprintf(stderr, "usage: bench SEED OPERATIONS|SECONDSs [damage]\n"), 2;
    uint64_t seed = std::strtoull(argv[1], nullptr, 0), sequences = 0, cuts = 0, grown = 0, operations = 0;
    // The budget, as in STRAIGHTWAY_BUDGET: operations, which take the same work on any machine, or seconds (`60s`).
    char* unit = nullptr;
    uint64_t budget = std::strtoull(argv[2], &unit, 0);
    bool timed = *unit == 's';
    std::time_t end = std::time(nullptr) + std::time_t(timed ? budget : 0);
    Core core;
    try {
        for (; sequences < 8 || (timed ? std::time(nullptr) < end : operations < budget); ++sequences, ++seed) {
            Sequence sequence(core, seed, argc > 3);
            sequence.run();
            cuts += sequence.cuts();
            operations += sequence.operations;
            grown += sequence.grown;
        }
    } catch (const std::exception& error) {
        std::printf("FAILED: sequence %llu: %s\n", (unsigned long long)seed, error.what());
        return 1;
    }
    std::printf("sequences %llu cuts %llu grown %llu operations %llu cycles %llu mcycles_per_s %.3f\n", (unsigned long long)sequences,
                (unsigned long long)cuts, (unsigned long long)grown, (unsigned long long)operations, (unsigned long long)core.cycles,
                core.cycles / (double(core.spent) / CLOCKS_PER_SEC) / 1e6);
    return 0;
}
