// SPDX-License-Identifier: Apache-2.0 OR MIT
// Directed power cuts: checks whether the file system core, with the microprogram that `+microcode=FILE` names, keeps its
// guarantees in each of the scenarios below. Whenever the result of a cut would change, the software's volume in the same
// process mounts and checks every image that a cut may leave (each unflushed write is lost, kept or torn).
//
// `bench +microcode=FILE [SCENARIO]...` runs those scenarios, or all. It prints `kept SCENARIO: N images` for each, and
// exits with 0. At the first violated guarantee it prints `BROKEN SCENARIO: after what, and how`, and exits with 1.
// rtl/test/test_hwfs_barriers.py removes the microprogram's barriers one at a time.
#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>

#include "Vhwfs_sim.h"
#include "block_device.hpp"
#include "hwfs_app.hpp"
#include "twin.hpp"
#include "verilated.h"

using namespace straightway;

namespace {

using Bytes = std::vector<uint8_t>;
using Files = std::map<std::string, Bytes>;
constexpr unsigned kDataBytes = DATA_WIDTH / 8;
constexpr uint64_t kBlock = 1u << BLOCK_SIZE_LOG2;

struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

Bytes contents(const std::string& name, size_t length) {
    Bytes data(length);
    for (size_t i = 0; i < length; ++i) data[i] = uint8_t(name[0] * 31 + name.back() * 7 + i + (i >> 8) * 3);
    return data;
}

// Whether the node at this address of a volume has its checksum (FORMAT.md, "Checksums of nodes").
bool is_valid(const Bytes& image, uint64_t address, uint64_t length) {
    Bytes covered(image.begin() + 24, image.begin() + 40);
    for (unsigned i = 0; i < 8; ++i) covered.push_back(uint8_t(address >> 8 * i));
    covered.insert(covered.end(), image.begin() + address, image.begin() + address + 4);
    covered.insert(covered.end(), image.begin() + address + 8, image.begin() + address + length);
    uint32_t crc = ~0u, found;
    for (uint8_t byte : covered) {
        crc ^= byte;
        for (unsigned bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    std::memcpy(&found, &image[address + 4], 4);
    return found == ~crc;
}

// The core on a device in memory, which can outlive it.
struct Core {
    VerilatedContext& context;
    std::unique_ptr<Vhwfs_sim> top = std::make_unique<Vhwfs_sim>(&context);
    std::unique_ptr<BlockDevice> device;
    std::unique_ptr<Application<Vhwfs_sim>> app;

    explicit Core(VerilatedContext& context) : context(context) {}
    ~Core() { top->final(); }
    void edge() {
        top->clk_i = 0;
        top->eval();
        top->clk_i = 1;
        top->eval();
    }
    void insert(const Bytes& image) {
        DeviceModel model;
        model.data_bytes = kDataBytes;
        model.block_bytes = kBlock;
        model.block_count = image.size() / kBlock;
        model.journal = true;
        device = std::make_unique<BlockDevice>(STRAIGHTWAY_PINS(*top, , ), model, 1, image);
        top->ready = 1;
        top->cached = 1;
        top->read_only = 0;
        top->block_count = model.block_count;
        top->max_transfer_blocks = 0xffffff;
        reset();
    }
    // The core is reset; the device keeps its contents and its cache.
    void reset() {
        app = std::make_unique<Application<Vhwfs_sim>>(*top, kDataBytes, 0, 1);
        top->rst_ni = 0;
        app->drive();
        for (int i = 0; i < 4; ++i) edge();
        top->rst_ni = 1;
        edge();
    }
    // `each` is called in every cycle; it ends the command by returning true.
    template <class Each>
    bool run(Command op, unsigned file, unsigned flags, const std::string& name, const std::string& name2,
             uint64_t offset, uint64_t length, Bytes data, Each each) {
        app->begin(op, file, flags, name, name2, offset, length, std::move(data));
        for (uint64_t cycles = 0; !app->done(); ++cycles) {
            edge();
            device->sample();
            app->sample();
            device->drive();
            app->drive();
            if (cycles > 5'000'000) throw Broken("the core does not answer");
            if (each()) return false;
        }
        return true;
    }
};

// The effects of the scenario. After a cut or a reset of the core `files` has several alternatives: the operation under way
// took effect or did not.
struct Model {
    std::vector<Files> files;               // durable
    std::map<unsigned, std::string> opened;
    std::map<unsigned, Bytes> written;      // by number of the open file: all bytes that were written
};

class Search {
public:
    Search(VerilatedContext& context, const Bytes& blank) : core_(context), judge_(BLOCK_SIZE_LOG2, blank.size()), blank_(blank) {}
    uint64_t images = 0;

    // `prepare` creates the volume's files in software. `before` runs without cuts, `cut` with cuts.
    void cuts(const std::string& prepare, const std::string& before, const std::string& cut) {
        Model model;
        core_.insert(prepared(prepare, model));
        run(before, model, false);
        run(cut, model, true);
    }
    // The core is reset at each moment of `dies` at which no request is outstanding, while the device continues; then `after`.
    void deaths(const std::string& prepare, const std::string& before, const std::string& dies, const std::string& after) {
        Model first;
        Bytes image = prepared(prepare, first);
        for (uint64_t moment = 1;; ++moment) {
            Model model = first;
            core_.insert(image);
            run(before, model, false);
            moments_ = moment;
            run(dies, model, false);
            bool died = moments_ == 0;
            moments_ = 0;
            if (!died) return;
            core_.reset();
            Model again{allowed_, {}, {}};
            run(after, again, true);
        }
    }
    // `after` begins with each image that a cut during `cut` may leave, and is cut again.
    void recoveries(const std::string& prepare, const std::string& before, const std::string& cut, const std::string& after) {
        Model model;
        core_.insert(prepared(prepare, model));
        run(before, model, false);
        keep_ = true;
        run(cut, model, true);
        keep_ = false;
        auto kept = std::move(kept_);
        kept_.clear();
        for (const auto& [image, either] : kept) {
            core_.insert(image);
            Model again{either, {}, {}};
            run(after, again, true);
        }
    }

    // The software changes the volume (`grow`: adds a bucket; `mv NAME NAME`; `rm NAME`) and is cut at each write and flush. In what that
    // leaves the core finds each file that no change touches, in both buckets of a split that is not complete, lists each once if it may
    // not write, and recovers; the software finds its volume sound again.
    void interrupted(const std::string& prepare, const std::vector<std::string>& changes) {
        Model model;
        const Bytes image = prepared(prepare, model);
        // The files after each change, and those that none touches.
        std::vector<Files> states = {model.files.front()};
        Files kept = states.front();
        for (const std::string& change : changes) {
            auto [verb, name, name2] = words(change);
            states.push_back(states.back());
            if (verb == "mv") states.back()[name2] = states.back().at(name);
            if (verb != "grow") states.back().erase(name), kept.erase(name), kept.erase(name2);
        }
        for (uint64_t number = 1;; ++number) {
            if (judge_.load(image) != 0 || judge_.mount() != 0) throw std::runtime_error("the prepared volume");
            judge_.stop_after(number);
            for (const std::string& change : changes) {
                auto [verb, name, name2] = words(change);
                int64_t result = verb == "grow" ? judge_.grow() : verb == "mv" ? judge_.rename(name, name2) : judge_.remove(name);
                if (judge_.is_off()) break;
                if (result != 0) throw std::runtime_error(change);
            }
            bool is_off = judge_.is_off();
            judge_.abandon();
            std::set<Bytes> lefts;
            for (uint64_t seed = 0; seed < 24; ++seed) lefts.insert(judge_.image(is_off, seed));
            for (const Bytes& left : lefts) {
                at_ = "the software's write " + std::to_string(number);
                core_.insert(left);
                found(kept, states, 1);
                core_.reset();
                found(kept, states, 0);
                expect(0, kCreate, 1, "new", 700, contents("new", 700));
                expect(0, kDelete, 0, "a", 0);
                expect(0, kUnmount, 0, "", 0);
                allowed_ = states;
                for (Files& files : allowed_) files.erase("a"), files["new"] = contents("new", 700);
                clean_ = false;
                seen_.clear();
                Bytes whole = core_.device->bytes();
                judge(whole);
                // A slot that became free is zero, also where its name was long.
                uint64_t tables[2], bytes = 1u << whole[49];
                std::memcpy(tables, &whole[72], 16);
                for (uint64_t slot = 0; slot < 8; ++slot) {
                    auto member = [&](unsigned which) { return whole.begin() + tables[which] + slot * bytes; };
                    for (unsigned which : {0, 1})
                        if (member(which)[56] == 0 && is_valid(whole, member(which) - whole.begin(), bytes) &&
                            std::any_of(member(which) + 24, member(which) + bytes, [](uint8_t byte) { return byte != 0; }))
                            throw Broken(at_ + ": the free slot " + std::to_string(slot) + " is not zero");
                }
                // The table node's pair: recovery makes the members equal but for their checksums and numbers.
                if (whole[56] & 32) {
                    uint64_t node = 1u << whole[49], data, unit = 0;
                    std::memcpy(&data, &whole[104], 8);
                    std::memcpy(&unit, &whole[252], 4);
                    auto member = whole.begin() + data + (unit << whole[48]);
                    auto other = member + std::max<uint64_t>(node, 1u << whole[48] >> 1);
                    if (!std::equal(member + 16, member + node, other + 16)) throw Broken(at_ + ": the table node's members differ");
                }
            }
            if (!is_off) return;
        }
    }

private:
    void expect(unsigned status, Command op, unsigned flags, const std::string& name, uint64_t length, Bytes data = {}) {
        core_.run(op, 0, flags, name, "", 0, length, std::move(data), [] { return false; });
        if (core_.app->answer().status != status)
            throw Broken(at_ + ": " + std::to_string(op) + " " + name + ": status " + std::to_string(core_.app->answer().status));
    }
    static std::tuple<std::string, std::string, std::string> words(const std::string& change) {
        std::istringstream stream(change);
        std::string verb, name, name2;
        stream >> verb >> name >> name2;
        return {verb, name, name2};
    }
    // The core mounts the volume (1: to read), finds these files, and lists as many as one of the states has with names that it knows.
    void found(const Files& files, const std::vector<Files>& states, unsigned flags) {
        expect(0, kMount, flags, "", 0);
        for (const auto& [name, data] : files) {
            expect(0, kReadFile, 0, name, data.size());
            if (core_.app->answer().data != data) throw Broken(at_ + ": other bytes in " + name);
        }
        expect(25, kReadFile, 0, "nobody", 1);
        size_t listed = 0;
        for (uint64_t slot = 0;; ++listed) {
            core_.run(kList, 0, 0, "", "", slot, 0, {}, [] { return false; });
            if (core_.app->answer().status != 0) break;
            slot = core_.app->answer().value;
        }
        auto known = [](const auto& file) { return file.first.size() <= 64; };
        if (std::none_of(states.begin(), states.end(), [&](const Files& state) { return size_t(std::count_if(state.begin(), state.end(), known)) == listed; }))
            throw Broken(at_ + ": " + std::to_string(listed) + " files are listed");
    }
    Bytes prepared(const std::string& script, Model& model) {
        if (judge_.load(blank_) != 0 || judge_.mount() != 0) throw std::runtime_error("the blank volume");
        std::istringstream words(script);
        std::string verb, name;
        size_t length;
        Files files;
        while (words >> verb >> name) {
            if (verb == "rm") {
                if (judge_.remove(name) != 0) throw std::runtime_error("rm " + name);
                files.erase(name);
                continue;
            }
            words >> length;
            Bytes data = contents(name, length);
            if (judge_.create(0, name, length, false) != 0 || (length != 0 && judge_.append(0, data) != 0) || judge_.close(0) != 0)
                throw std::runtime_error("put " + name);
            files[name] = data;
        }
        model.files = {files};
        if (judge_.unmount() != 0) throw std::runtime_error("unmount");
        Bytes image = judge_.image();
        judge_.abandon();
        return image;
    }

    // Runs commands (those of hwfs_bench.cpp, but with the length of the data instead of the data). With `judged`, checks all
    // images that cuts may leave. Ends where the core is reset; `allowed_` then has the allowed contents of the files.
    void run(const std::string& script, Model& model, bool judged) {
        std::istringstream lines(script);
        std::string line;
        while (std::getline(lines, line, ';')) {
            Model next = model;
            std::function<void(Files&)> change = [](Files&) {};
            std::istringstream words(line);
            std::string verb, name, name2;
            unsigned file = 0, flags = 0;
            uint64_t offset = 0, length = 0;
            Command op;
            Bytes data;
            words >> verb;
            if (verb == "mount") op = kMount;
            else if (verb == "unmount") op = kUnmount;
            else if (verb == "create") {
                op = kCreate;
                words >> file >> name >> length;
                change = [&](Files& files) { files[name] = {}; };
                next.opened[file] = name;
                next.written[file] = {};
            } else if (verb == "write") {
                op = kWriteFile;
                words >> file >> length;
                offset = model.written.at(file).size();
                Bytes all = contents(model.opened.at(file), offset + length);
                data.assign(all.begin() + offset, all.end());
                next.written[file] = all;
            } else if (verb == "reserve") {
                op = kReserve;
                words >> file >> length;
            } else if (verb == "sync" || verb == "close") {
                op = verb == "sync" ? kSync : kClose;
                words >> file;
                change = [&](Files& files) { files[model.opened.at(file)] = model.written.at(file); };
                if (op == kClose) next.opened.erase(file);
            } else if (verb == "put") {
                op = kCreate, flags = 1;
                words >> name >> length;
                data = contents(name, length);
                change = [&](Files& files) { files[name] = data; };
            } else if (verb == "delete") {
                op = kDelete;
                words >> name;
                change = [&](Files& files) { files.erase(name); };
            } else if (verb == "rename") {
                op = kRename;
                words >> name >> name2;
                change = [&](Files& files) {
                    files[name2] = files.at(name);
                    files.erase(name);
                };
            } else throw std::runtime_error("unknown command: " + verb);
            at_ = line;
            for (Files& files : next.files) change(files);
            allowed_ = model.files;
            allowed_.insert(allowed_.end(), next.files.begin(), next.files.end());
            // A put with more data than one operation can take creates the file before the data are written.
            if (op == kCreate && flags == 1)
                for (const Files& files : next.files) allowed_.push_back(files), allowed_.back()[name] = {};
            clean_ = false;
            uint64_t version = core_.device->version;
            bool whole = core_.run(op, file, flags, name, name2, offset, length, data, [&] {
                if (core_.device->version == version) return false;
                if (moments_ != 0) {
                    if (!core_.device->is_idle()) return false;
                    version = core_.device->version;
                    return --moments_ == 0;
                }
                version = core_.device->version;
                if (judged) judge();
                return false;
            });
            if (!whole) return;
            if (core_.app->answer().status != 0)
                throw Broken(line + ": status " + std::to_string(core_.app->answer().status));
            model = next;
            allowed_ = model.files;
            clean_ = op == kUnmount;
            if (judged) judge();
        }
    }

    // Checks all images that a cut may leave now.
    void judge() {
        size_t count = core_.device->unflushed().size();
        std::vector<BlockDevice::Cut> fates(count, BlockDevice::kLost);
        Random random(core_.device->version);
        if (count <= 6) {
            for (unsigned choice = 0; choice < 1u << count; ++choice) {
                for (size_t i = 0; i < count; ++i) fates[i] = choice >> i & 1 ? BlockDevice::kKept : BlockDevice::kLost;
                judge(core_.device->cut(fates, random));
            }
        } else {
            for (bool all : {false, true})
                for (size_t one = 0; one <= count; ++one) {
                    for (size_t i = 0; i < count; ++i) fates[i] = (i == one) != all ? BlockDevice::kKept : BlockDevice::kLost;
                    judge(core_.device->cut(fates, random));
                }
        }
        for (unsigned turn = 0; count != 0 && turn < 16; ++turn) {
            for (auto& fate : fates) fate = random.below(2) ? BlockDevice::kTorn : random.below(2) ? BlockDevice::kKept : BlockDevice::kLost;
            judge(core_.device->cut(fates, random));
        }
        seen_.clear();
    }

    void judge(const Bytes& image) {
        uint64_t hash = 0;
        for (size_t at = 0; at + 8 <= image.size(); at += 8) {
            uint64_t word;
            std::memcpy(&word, &image[at], 8);
            hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
            hash ^= hash >> 29;
        }
        if (!seen_.insert(hash).second) return;
        ++images;
        auto broken = [&](const std::string& what) { throw Broken(at_ + ": " + what); };
        // Both superblocks report a clean volume: after an unmount has been answered, either of them may be damaged.
        if (clean_)
            for (size_t super : {0, 65536})
                if ((image[super + 52] & 1) == 0) broken("a superblock is not clean after an unmount");
        if (judge_.load(image) != 0) throw std::runtime_error("the software refuses the image");
        if (judge_.mount() != 0) broken("the software does not mount it");
        int64_t count = judge_.check();
        if (count < 0) broken("the software finds damage");
        bool fits = std::any_of(allowed_.begin(), allowed_.end(), [&](const Files& files) {
            return int64_t(files.size()) == count && std::all_of(files.begin(), files.end(), [&](const auto& file) {
                if (judge_.size(file.first) != int64_t(file.second.size())) return false;
                Bytes data(file.second.size());
                if (judge_.open(0, file.first, false) != 0) return false;
                bool good = data.empty() || judge_.read(0, 0, data) == 0;
                judge_.close(0);
                return good && data == file.second;
            });
        });
        judge_.abandon();
        if (!fits) broken("other files than there may be: " + std::to_string(count));
        if (keep_ && kept_hashes_.insert(hash).second) kept_.push_back({image, allowed_});
    }

    Core core_;
    SoftwareVolume judge_;
    Bytes blank_;
    std::vector<Files> allowed_;
    std::set<uint64_t> seen_, kept_hashes_;
    std::vector<std::pair<Bytes, std::vector<Files>>> kept_;
    std::string at_;
    uint64_t moments_ = 0;  // the core is reset after this many
    bool clean_ = false, keep_ = false;
};

enum Blank { kSmall, kLarge, kGrown, kWide };

struct Scenario {
    const char* name;
    std::function<void(Search&)> run;
    Blank volume = kSmall;
};

// A volume whose free units are isolated, except for eight at the end.
std::string in_pieces(unsigned units) {
    std::ostringstream script;
    unsigned singles = 24, tail = 8;
    for (unsigned i = 0; i < singles; ++i) script << "put s" << i << " 256 ";
    script << "put filler " << (units - singles - tail) * 256 << " ";
    for (unsigned i = 0; i < singles; i += 2) script << "rm s" << i << " ";
    return script.str();
}

int run(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    constexpr size_t kImage = 184 * 1024;
    auto formatted = [](uint32_t slots, unsigned added = 0, uint32_t node = 256) {
        SoftwareVolume volume(BLOCK_SIZE_LOG2, kImage);
        if (volume.format(256, node, slots, 7, false) != 0) throw std::runtime_error("format");
        if (added == 0) return volume.image();
        if (volume.mount() != 0) throw std::runtime_error("mount");
        while (added-- != 0)
            if (volume.grow() != 0) throw std::runtime_error("grow");
        if (volume.unmount() != 0) throw std::runtime_error("unmount");
        return volume.image();
    };
    // With one bucket, the next name gets the slot that was freed last. Fragmentation needs many files.
    const Bytes small = formatted(8), large = formatted(64), grown = formatted(8, 2), broad = formatted(8, 0, 512);
    const std::string wide(100, 'w'), wider(255, 'v');
    uint64_t units;
    std::memcpy(&units, &large[112], 8);
    std::string pieces = in_pieces(unsigned(units));
    const std::vector<Scenario> scenarios = {
        {"create", [](Search& s) { s.cuts("put a 300 ", "mount;put p 300", "rename a b;create 0 x 0;close 0;create 1 y 600;write 1 600;sync 1;close 1;unmount"); }},
        {"put", [](Search& s) { s.cuts("put a 300 put b 300 ", "mount;put p 300", "put q 300;rename a c;put r 700;delete q;put t 300;delete r;unmount"); }},
        {"put, the long way", [](Search& s) { s.cuts("put a 300 ", "mount", "put p 300;create 0 x 0;close 0;rename a b;put q 20000;put r 300;unmount;mount;rename b a;create 1 y 900;close 1;unmount"); }},
        {"empty files", [](Search& s) { s.cuts("put a 300 ", "mount;create 0 x 0", "close 0;delete x;create 0 y 0;close 0;rename y x;delete x;unmount"); }},
        {"growth", [](Search& s) { s.cuts("put a 300 put b 300 ", "mount;create 0 x 0", "rename a c;write 0 700;sync 0;rename c a;write 0 1000;close 0;rename a c;delete b;unmount"); }},
        {"release", [](Search& s) { s.cuts("put a 300 ", "mount;create 0 x 2000;write 0 300;create 1 y 0;put z 600", "rename a b;delete z;close 0;rename b a;close 1;unmount"); }},
        {"renames", [](Search& s) { s.cuts("put a 300 put b 600 ", "mount", "rename a c;rename b a;rename c b;unmount"); }},
        {"leaves grow", [&](Search& s) { s.cuts(pieces, "mount;create 0 x 0", "reserve 0 3000;write 0 3000;sync 0;reserve 0 600;close 0;unmount"); }, kLarge},
        {"leaves shrink", [&](Search& s) { s.cuts(pieces, "mount;create 0 x 0;reserve 0 3000;write 0 100", "close 0;delete x;unmount"); }, kLarge},
        {"leaves go", [&](Search& s) { s.cuts(pieces, "mount;create 0 x 0;write 0 3000", "close 0;delete x;create 0 y 0;close 0;unmount"); }, kLarge},
        {"a death in a rename", [](Search& s) { s.deaths("put a 300 ", "mount;put p 300", "rename a b;put q 300", "mount;put r 300;unmount"); }},
        {"a death in an unmount", [](Search& s) { s.deaths("put a 300 ", "mount;put p 300", "unmount", "mount;create 0 r 0;close 0;unmount"); }},
        {"recovery", [](Search& s) { s.recoveries("put a 300 put b 600 ", "mount;put p 300", "put q 300;delete b;rename a c", "mount"); }},
        {"put in a grown table", [](Search& s) { s.cuts("put a 300 put b 300 ", "mount;put p 300", "put aa 300;rename a c;put u 700;delete aa;put t 300;delete u;put dl 300;delete dl;unmount"); }, kGrown},
        {"the long way in a grown table", [](Search& s) { s.cuts("put a 300 ", "mount", "put p 300;create 0 x 0;close 0;rename a b;put q 20000;put r 300;unmount;mount;rename b a;create 1 y 900;close 1;delete y;unmount"); }, kGrown},
        {"recovery in a grown table", [](Search& s) { s.recoveries("put a 300 put b 600 ", "mount;put p 300", "put q 300;delete b;rename a c", "mount"); }, kGrown},
        {"growth by software", [](Search& s) { s.interrupted("put a 300 put b 300 put c 300 put d 300 put e 300 put f 300 put g 300 ", {"grow", "grow", "grow"}); }},
        {"long names of software", [&](Search& s) { s.interrupted("put a 300 put b 300 put " + wide + " 600 put " + wider + " 700 ", {"mv " + wide + " c", "mv b " + wide, "rm " + wider}); }, kWide},
    };
    std::set<std::string> wanted;
    for (int i = 1; i < argc; ++i)
        if (argv[i][0] != '+') wanted.insert(argv[i]);
    for (const Scenario& scenario : scenarios) {
        if (!wanted.empty() && !wanted.count(scenario.name)) continue;
        // Each scenario has its own core: one that ends in the middle of a command must not affect the next.
        Search search(context, *std::array<const Bytes*, 4>{&small, &large, &grown, &broad}[scenario.volume]);
        try {
            scenario.run(search);
        } catch (const Broken& broken) {
            std::printf("BROKEN %s: %s\n", scenario.name, broken.what());
            return 1;
        }
        std::printf("kept %s: %llu images\n", scenario.name, (unsigned long long)search.images);
        std::fflush(stdout);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::printf("FAILED: %s\n", error.what());
        return 2;
    }
}
