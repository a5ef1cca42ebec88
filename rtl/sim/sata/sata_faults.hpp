// SPDX-License-Identifier: Apache-2.0 OR MIT
// The rows of the fault matrix: each is a fault of the drive or the cable, at a given event.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sata_drive.hpp"

namespace straightway::sata {

struct FaultRow {
    std::string name, says;
    std::function<void(Drive&)> set;
    unsigned depth = 8;
    bool at_start = false;    // from power-up on
    bool usable = true;       // the drive works again without the fault
    unsigned cancel_at = 0;   // instead of a fault, the host cancels when this request has begun
    std::function<void(DriveModel&)> shape = [](DriveModel&) {};
    unsigned stall_percent = 10;  // how often the host pauses
    int then = -1;            // a last request of this kind, which meets the fault
    bool contained = false;   // the drive names the command: one error with its own code, no reset, the others are Ok or aborted
    bool until_power = false; // the drive is not usable until its power is cycled
};

// Faults of single bits and during link start, for a host with its PHY.
inline std::vector<FaultRow> line_rows() {
    std::vector<FaultRow> rows;
    auto both = [&](std::string name, std::string says, auto set) {
        auto on_line = [=](Drive& drive) { set(drive.port.line_fault); };
        rows.push_back({name, says + ", queued", on_line, 8, false, true, 0});
        rows.push_back({name + "-single", says + ", one command at a time", on_line, 1, false, true, 0,
                        [](DriveModel& model) { model.queue = false; }});
    };
    auto start = [&](std::string name, std::string says, auto set) {
        rows.push_back({name, says, [=](Drive& drive) { set(drive.port.line_fault); }, 8, true});
    };
    constexpr uint64_t kAt = 100000;  // bits within frames of one side: in data
    both("drive-bit", "a bit on the drive's line is wrong", [](LineFault& line) { line.drive_bit_at = kAt; });
    both("host-bit", "a bit on the host's line is wrong", [](LineFault& line) { line.host_bit_at = kAt; });
    both("drive-noise", "400 bits on the drive's line are noise", [](LineFault& line) { line.drive_noise_at = kAt; });
    both("host-noise", "400 bits on the host's line are noise", [](LineFault& line) { line.host_noise_at = kAt; });
    both("drive-slip", "a bit on the drive's line is lost", [](LineFault& line) { line.drive_slip_at = kAt; });
    both("host-slip", "a bit on the host's line is lost", [](LineFault& line) { line.host_slip_at = kAt; });
    both("dip", "the drive's line is idle for 300 ns", [](LineFault& line) { line.dip_at = kAt; });
    both("pull", "the cable is pulled in a frame, and put back after 20 us", [](LineFault& line) { line.pull_at = kAt; });
    rows.push_back({"comes-again", "the drive starts again at the 5th command: COMINIT out of nowhere",
                    [](Drive& d) { d.fault.comreset_at = 5; }});
    start("deaf", "COMRESET is never answered", [](LineFault& line) { line.deaf = true; });
    start("deaf-twice", "the first two COMRESET are not answered", [](LineFault& line) { line.deaf_times = 2; });
    start("asleep-once", "the first COMWAKE is not answered", [](LineFault& line) { line.asleep_times = 1; });
    return rows;
}

inline std::vector<FaultRow> fault_rows() {
    std::vector<FaultRow> rows;
    auto none = [](DriveModel&) {};
    auto single = [](DriveModel& model) { model.queue = false; };
    auto both = [&](std::string name, std::string says, std::function<void(Drive&)> set) {
        rows.push_back({name, says + ", queued", set, 8, false, true, 0, none});
        rows.push_back({name + "-single", says + ", one command at a time", set, 1, false, true, 0, single});
    };
    auto out = [](uint32_t primitive, uint64_t at) {
        return [=](Drive& drive) { drive.port.fault.out_primitive = primitive, drive.port.fault.out_primitive_at = at; };
    };
    auto in = [](uint32_t primitive, uint64_t at) {
        return [=](Drive& drive) { drive.port.fault.in_primitive = primitive, drive.port.fault.in_primitive_at = at; };
    };
    struct { const char* name; uint32_t primitive; } primitives[] = {
        {"sync", kSync}, {"x-rdy", kXrdy}, {"r-rdy", kRrdy}, {"sof", kSof}, {"eof", kEof}, {"r-ip", kRip},
        {"r-ok", kRok}, {"wtrm", kWtrm}, {"hold", kHold}, {"holda", kHolda}, {"cont", kCont}};
    for (auto& primitive : primitives) {
        std::string name = primitive.name;
        rows.push_back({"drive-" + name, "the drive's 5th " + name + " is damaged", out(primitive.primitive, 5)});
        rows.push_back({"host-" + name, "the host's 5th " + name + " is damaged", in(primitive.primitive, 5)});
    }
    both("drive-data-bit", "a bit of the drive's data is wrong", [](Drive& d) { d.port.fault.out_data_at = 300; });
    both("drive-data-code", "a word of the drive's data is no valid character", [](Drive& d) { d.port.fault.out_code_at = 300; });
    both("host-word-bit", "a bit of the host's 2nd word is wrong", [](Drive& d) { d.port.fault.in_data_at = 2; });
    both("host-data-bit", "a bit of the host's 1000th word is wrong", [](Drive& d) { d.port.fault.in_data_at = 1000; });
    both("refused-command", "the drive answers R_ERR to the host's 1st frame", [](Drive& d) { d.port.fault.refuse_at = 1; });
    both("refused-frame", "the drive answers R_ERR to the host's 6th frame", [](Drive& d) { d.port.fault.refuse_at = 6; });
    both("sync-in-frame", "the drive leaves a frame of the host's by SYNC", [](Drive& d) { d.port.fault.sync_at = 1000; });
    auto deaf = [](Drive& d) { d.port.fault.ignore_hold = true; };
    rows.push_back({"hold-ignored", "the drive does not stop at HOLD, queued, and the host is slow", deaf, 8, false, true, 0, none, 70});
    rows.push_back({"hold-ignored-single", "the drive does not stop at HOLD, one command at a time, and the host is slow", deaf, 1, false,
                    true, 0, single, 70});
    both("drive-stuck", "the drive holds indefinitely in a frame of its own", [](Drive& d) { d.port.fault.out_stuck_at = 600; });
    both("host-stuck", "the drive holds indefinitely in a frame of the host's", [](Drive& d) { d.port.fault.in_stuck_at = 1000; });
    both("unanswered", "the host's 3rd data frame arrives, and the drive never answers it", [](Drive& d) { d.port.fault.mute_at = 3; });
    both("drop-in-frame", "the link is lost in a frame of the drive's", [](Drive& d) { d.port.fault.drop_at = 6; });
    both("comreset", "the drive starts again at the 5th command", [](Drive& d) { d.fault.comreset_at = 5; });
    both("media-error", "the 5th command fails with a media error", [](Drive& d) { d.fault.error_at = 5; });
    both("gives-up", "the drive asks for data for the 3rd time, and fails the command instead", [](Drive& d) { d.fault.give_up_at = 3; });
    both("silent", "the 5th command is never done", [](Drive& d) { d.fault.silent_at = 5; });
    both("short-read", "the 3rd read ends without its data and without an error",
         [](Drive& d) { d.fault.error_at = 3, d.fault.short_read = true; });
    struct { const char* name; uint8_t type; bool queued, single; } fises[] = {
        {"register", 0x34, true, true}, {"activate", 0x39, false, true}, {"setup", 0x41, true, false},
        {"data", 0x46, true, true}, {"set-bits", 0xA1, true, false}};
    for (auto& fis : fises) {
        for (bool twice : {false, true}) {
            auto set = [=](Drive& d) {
                if (twice) d.fault.double_fis = fis.type, d.fault.double_at = 3;
                else d.fault.lose_fis = fis.type, d.fault.lose_at = 3;
            };
            std::string name = std::string(twice ? "doubled-" : "lost-") + fis.name;
            std::string says = std::string("the drive's 3rd ") + fis.name + " FIS " + (twice ? "comes twice" : "is lost");
            if (fis.queued) rows.push_back({name, says + ", queued", set});
            if (fis.single) rows.push_back({name + "-single", says + ", one command at a time", set, 1, false, true, 0, single});
        }
    }
    auto sleepy = [](Drive& d) { d.port.fault.power_gap = 40; };
    both("power", "the idle drive requests a low-power state again and again", sleepy);
    rows.push_back({"power-damaged", "the same, and the host's 5th refusal is damaged", [=](Drive& d) {
        sleepy(d);
        d.port.fault.in_primitive = kPmNak, d.port.fault.in_primitive_at = 5;
    }});
    rows.push_back({"wrong-setup-tag", "the 3rd DMA setup has another tag", [](Drive& d) { d.fault.setup_tag_at = 3; }});
    rows.push_back({"wrong-done-tag", "the 3rd set device bits names another tag", [](Drive& d) { d.fault.bits_tag_at = 3; }});
    rows.push_back({"media-error-no-log", "a queued media error, and the drive refuses its error log",
                    [](Drive& d) { d.fault.error_at = 5, d.fault.no_log = true; }});
    auto nothing = [](Drive&) {};
    rows.push_back({"cancel", "the host cancels with queued commands under way", nothing, 8, false, true, 12});
    rows.push_back({"cancel-single", "the host cancels, one command at a time", nothing, 1, false, true, 12, single});
    rows.push_back({"never-ready", "no signature comes at power-up", [](Drive& d) { d.fault.never_ready = true; }, 8, true, true});
    rows.push_back({"packet-device", "a packet device is attached", nothing, 8, true, false, 0,
                    [](DriveModel& model) { model.is_packet = true; }});
    rows.push_back({"big-sectors", "a drive with 4 KiB sectors at a core for 512 B", nothing, 8, true, false, 0,
                    [](DriveModel& model) { model.big_sectors = true; }});
    return rows;
}

// The states of the drive's side: each transition of an error in the protocols of the queue, DMA, PIO and commands without data.
inline std::vector<FaultRow> state_rows() {
    std::vector<FaultRow> rows;
    auto none = [](DriveModel&) {};
    auto single = [](DriveModel& model) { model.queue = false; };
    auto queued = [&](std::string name, std::string says, std::function<void(Drive&)> set, bool contained = false) {
        rows.push_back({name, says, set, 8, false, true, 0, none, 10, -1, contained});
    };
    auto alone = [&](std::string name, std::string says, std::function<void(Drive&)> set, bool contained = false, int then = -1) {
        rows.push_back({name + "-single", says + ", one command at a time", set, 1, false, true, 0, single, 10, then, contained});
    };
    struct { const char *name, *says; DriveFault::When when; } moments[] = {
        {"before", "before its data", DriveFault::kBefore}, {"half", "after the first frame of its data", DriveFault::kHalf},
        {"after", "after all its data", DriveFault::kAfter}};
    for (bool write : {false, true}) {
        for (auto& moment : moments) {
            auto set = [=](Drive& d) {
                (write ? d.fault.write_error_at : d.fault.read_error_at) = 5, d.fault.when = moment.when;
            };
            std::string kind = write ? "write" : "read", name = kind + "-error-" + moment.name;
            std::string says = "the 5th " + kind + " fails " + moment.says;
            queued(name, says + ": Set Device Bits with ERR (DFPDMAQ11)", set, true);
            alone(name, says + ": register FIS with ERR", set, true);
        }
    }
    auto late_write = [](Drive& d) { d.fault.write_error_at = 5, d.fault.when = DriveFault::kAfter; };
    rows.push_back({"error-with-ends", "the same for a write after its data, and the FIS also ends commands that are done (DFPDMAQ11)", late_write, 8,
                    false, true, 0, [](DriveModel& model) { model.collects = true; }, 10, -1, true});
    queued("no-address", "the 5th command is refused with IDNF: register FIS with ERR (DFPDMAQ12)", [](Drive& d) { d.fault.refuse_at = 5; }, true);
    alone("no-address", "the 5th command is refused with IDNF", [](Drive& d) { d.fault.refuse_at = 5; }, true);
    queued("no-address-abort", "the 5th command is refused with ABRT instead: register FIS with ERR (DFPDMAQ12)",
           [](Drive& d) { d.fault.refuse_at = 5, d.fault.refuse_error = 0x04; }, true);
    queued("no-address-late", "the 5th write is accepted, and IDNF comes later: Set Device Bits with ERR (DFPDMAQ11)",
           [](Drive& d) { d.fault.write_error_at = 5, d.fault.error = 0x10; }, true);
    queued("mixed", "the drive reports a command that is not queued among the 5th and others (DFPDMAQ12, NQ in the log)",
           [](Drive& d) { d.fault.mixed_at = 5; });
    queued("slow-answer", "each command is answered after 200 cycles (DFPDMAQ2)", [](Drive& d) { d.fault.answer_delay = 200; });
    queued("error-by-answer", "an error while the drive has not answered the next command: its register FIS has ERR, the log names the other (DFPDMAQ12)",
           [](Drive& d) { d.fault.write_error_at = 5, d.fault.answer_delay = 500; }, true);
    queued("error-while-busy", "the same by Set Device Bits, and the next command is answered by an abort (DFPDMAQ13, 12)",
           [](Drive& d) { d.fault.write_error_at = 5, d.fault.answer_delay = 500, d.fault.bits_while_busy = true; }, true);
    queued("refused-late", "the 5th command is refused with IDNF after 200 cycles",
           [](Drive& d) { d.fault.refuse_at = 5, d.fault.answer_delay = 200; }, true);
    auto log = [&](std::string name, std::string says, std::function<void(Drive&)> set, bool contained = false) {
        queued("log-" + name, "a write fails after its data, and " + says, [=](Drive& d) { late_write(d), set(d); }, contained);
    };
    log("refused", "the error log is aborted", [](Drive& d) { d.fault.no_log = true; });
    log("silent", "the error log is never answered", [](Drive& d) { d.fault.silent_log = true; });
    log("damaged", "the error log has a wrong CRC", [](Drive& d) { d.fault.damaged_log = true; });
    log("other-tag", "the error log names another tag", [](Drive& d) { d.fault.log_tag = true; });
    log("no-setup", "the PIO setup of the error log is lost", [](Drive& d) { d.fault.lose_fis = 0x5F, d.fault.lose_at = 1; });
    log("no-data", "the data of the error log are lost", [](Drive& d) { d.fault.no_log_data = true; });
    log("no-clear", "no Set Device Bits comes before the log (DFPDMAQ14 left out)", [](Drive& d) { d.fault.no_clear = true; }, true);
    struct { const char *name, *says; DriveFault::State state; } places[] = {
        {"accepted", "a queued command waits to be answered", DriveFault::kAccepted}, {"data", "the data of a command are due", DriveFault::kData},
        {"failed", "an error of the queue is due (DFPDMAQ11)", DriveFault::kFailed}, {"log", "the host has asked for the error log (DFPDMAQ13)", DriveFault::kLog}};
    for (auto& place : places) {
        queued(std::string("restart-") + place.name, std::string("the drive starts again when ") + place.says, [=](Drive& d) {
            if (place.state == DriveFault::kFailed || place.state == DriveFault::kLog) late_write(d);
            d.fault.comreset_in = place.state;
        });
    }
    alone("restart-data", "the drive starts again when the data of a command are due", [](Drive& d) { d.fault.comreset_in = DriveFault::kData; });
    alone("restart-flush", "the drive starts again in FLUSH CACHE EXT", [](Drive& d) { d.fault.comreset_in = DriveFault::kFlush; }, false, 2);
    struct { const char *name, *says; uint8_t code; int then; } aborts[] = {
        {"flush", "FLUSH CACHE EXT is aborted", 0xEA, 2}, {"trim", "DATA SET MANAGEMENT is aborted", 0x06, 3}};
    for (auto& one : aborts) {
        auto set = [=](Drive& d) { d.fault.fail_code = one.code, d.fault.fail_at = 1; };
        alone(std::string("abort-") + one.name, one.says, set, true, one.then);
        rows.push_back({std::string("abort-") + one.name, std::string(one.says) + ", after queued commands", set, 8, false, true, 0, none, 10, one.then, true});
    }
    auto at_start = [&](std::string name, std::string says, uint8_t code) {
        rows.push_back({name, says, [=](Drive& d) { d.fault.fail_code = code, d.fault.fail_at = 1; }, 8, true});
    };
    auto flush_error = [](Drive& d) { d.fault.flush_error_at = 1; };
    alone("flush-error", "FLUSH CACHE EXT cannot write a block, and drops it from the cache", flush_error, true, 2);
    rows.push_back({"flush-error", "FLUSH CACHE EXT cannot write a block, and drops it, after queued commands", flush_error, 8, false, true,
                    0, none, 10, 2, true});
    auto device_fault = [](Drive& d) { d.fault.fault_at = 5; };
    queued("device-fault", "from the 5th command on each is aborted with DF, until the power is cycled", device_fault);
    alone("device-fault", "from the 5th command on each is aborted with DF, until the power is cycled", device_fault);
    for (FaultRow& row : rows) row.until_power = row.name.rfind("device-fault", 0) == 0;
    rows.push_back({"bad-diagnosis", "the signature has the code of a failed diagnosis", [](Drive& d) { d.fault.diagnosis = 0x02, d.port.faults = 1; },
                    8, true});
    at_start("abort-identify", "the first IDENTIFY DEVICE is aborted", 0xEC);
    at_start("abort-mode", "SET FEATURES of the transfer mode is aborted", 0xEF);
    rows.push_back({"abort-activate", "SET FEATURES of DMA Setup Auto-Activate is aborted", [](Drive& d) { d.fault.fail_code = 0xEF, d.fault.fail_at = 2; },
                    8, true});
    return rows;
}

}  // namespace straightway::sata
