// SPDX-License-Identifier: Apache-2.0 OR MIT
// Plays the application of the file system core: one command at a time, with its names, data and
// answer. Pauses at random, and can stop sending or taking data permanently. A core that moves nothing for `most_silent` cycles
// amid a command ends the simulation.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "pins.hpp"

namespace straightway {

enum Command : uint8_t { kMount, kUnmount, kOpen, kCreate, kReadFile, kWriteFile, kReserve, kCommit, kSync, kClose,
                         kDelete, kRename, kList };

struct Answer {
    unsigned status = 0;
    uint64_t value = 0;
    uint64_t cycles = 0;        // from the offer of the command to its answer
    uint64_t flush_cycles = 0;  // those of them in which only a flush was outstanding
    bool last = false;          // the data ended with `last`
    std::vector<uint8_t> data;
};

template <class Top>
class Application {
public:
    Application(Top& top, unsigned data_bytes, unsigned stall_percent, uint64_t seed)
        : top_(top), data_bytes_(data_bytes), stall_percent_(stall_percent), random_(seed) {}

    // The application stops sending or taking data after this many words. -1: never.
    long give_limit = -1, take_limit = -1;
    // A hundred times what a mount or a delete of the tests takes, and a minute of the slowest simulation. The core's own
    // time-out is another matter: it ends a command with a status.
    uint64_t most_silent = 10'000'000;

    void begin(Command op, unsigned file, unsigned flags, const std::string& name, const std::string& name2,
               uint64_t offset, uint64_t length, std::vector<uint8_t> data) {
        answer_ = Answer();
        op_ = op;
        silent_ = 0;
        done_ = false;
        offered_ = true;
        top_.cmd_op = op;
        top_.cmd_file = file;
        top_.cmd_flags = flags;
        top_.cmd_name_bytes = name.size();
        top_.cmd_name2_bytes = name2.size();
        top_.cmd_offset = offset;
        top_.cmd_length = length;
        words_.clear();
        for (const std::string* text : {&name, &name2})
            for (size_t at = 0; at < text->size(); at += 4) {
                uint32_t word = 0xa5a5a5a5;  // the bytes after the name are ignored
                std::memcpy(&word, text->data() + at, std::min<size_t>(4, text->size() - at));
                words_.push_back(word);
            }
        word_ = 0;
        given_ = std::move(data);
        given_at_ = 0;
        given_words_ = taken_words_ = 0;
        give_held_ = name_held_ = false;
        drive();
    }

    bool done() const { return done_; }
    const Answer& answer() const { return answer_; }

    void sample() {
        if (done_) return;
        ++answer_.cycles;
        bool moves = (top_.cmd_valid && top_.cmd_ready) || (top_.name_valid && top_.name_ready) || (top_.give_valid && top_.give_ready) ||
                     (top_.take_valid && top_.take_ready) || (top_.answer_valid && top_.answer_ready);
        silent_ = moves ? 0 : silent_ + 1;
        if (silent_ > most_silent) throw std::runtime_error(stuck());
        if (top_.cmd_valid && top_.cmd_ready) offered_ = false;
        if (top_.name_valid && top_.name_ready) ++word_, name_held_ = false;
        if (top_.give_valid && top_.give_ready) {
            given_at_ += data_bytes_;
            ++given_words_;
            give_held_ = false;
        }
        if (top_.take_valid && top_.take_ready) {
            const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&top_.take_data);
            for (unsigned i = 0; i < data_bytes_; ++i)
                if (top_.take_keep >> i & 1) answer_.data.push_back(bytes[i]);
            answer_.last = top_.take_last;
            ++taken_words_;
        }
        if (top_.answer_valid && top_.answer_ready) {
            answer_.status = top_.answer_status;
            answer_.value = top_.answer_value;
            answered_ = true;
        }
        // Data that were still in the output registers when the answer came. The core may answer before it has taken the names, which
        // belong to the command all the same.
        if (answered_ && word_ == words_.size() && !(top_.take_valid && !top_.take_ready)) quiet_ = top_.take_valid ? 0 : quiet_ + 1;
        if (answered_ && (quiet_ > 2 || (take_limit >= 0 && taken_words_ >= take_limit))) {
            done_ = true;
            answered_ = false;
            answer_.cycles -= quiet_;
            quiet_ = 0;
        }
    }

    void drive() {
        top_.cmd_valid = !done_ && offered_;
        if (!name_held_) name_held_ = !done_ && word_ < words_.size() && !pauses();
        top_.name_valid = name_held_;
        if (name_held_) top_.name_data = words_[word_];
        if (!give_held_) give_held_ = !done_ && given_at_ < given_.size() && !pauses() &&
                                      (give_limit < 0 || given_words_ < give_limit);
        top_.give_valid = give_held_;
        if (give_held_) {
            uint8_t* bytes = reinterpret_cast<uint8_t*>(&top_.give_data);
            std::memset(bytes, 0x5a, data_bytes_);
            std::memcpy(bytes, &given_[given_at_], std::min<size_t>(data_bytes_, given_.size() - given_at_));
        }
        top_.take_ready = !pauses() && (take_limit < 0 || taken_words_ < take_limit);
        top_.answer_ready = !pauses();
    }

private:
    bool pauses() { return random_.percent(stall_percent_); }
    std::string stuck() const {
        return "command " + std::to_string(unsigned(op_)) + (offered_ ? " is not taken" : answered_ ? " does not end" : " is not answered") +
               ": nothing moved for " + std::to_string(silent_) + " cycles, " + std::to_string(answer_.cycles) + " after its offer";
    }

    Top& top_;
    unsigned data_bytes_, stall_percent_;
    Random random_;
    Answer answer_;
    Command op_ = kMount;
    uint64_t silent_ = 0;
    std::vector<uint32_t> words_;
    std::vector<uint8_t> given_;
    size_t word_ = 0, given_at_ = 0;
    long given_words_ = 0, taken_words_ = 0;
    unsigned quiet_ = 0;
    bool done_ = true, offered_ = false, answered_ = false, give_held_ = false, name_held_ = false;
};

}  // namespace straightway
