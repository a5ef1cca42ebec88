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

}  // namespace straightway::sata
