// SPDX-License-Identifier: Apache-2.0 OR MIT
// A Serial ATA drive at the transceiver's pins of a verilated top, beside the bus of its other pins: 150 MHz beside 100.
#pragma once

#include "../axi_bus.hpp"
#include "sata_cable.hpp"

namespace straightway::sata {

template <class Top>
class Plug {
public:
    Drive drive;
    Cable cable;

    Plug(AxiBus<Top>& bus, const DriveModel& model, uint64_t seed) : drive(model, seed), cable(drive, {}, seed), top_(*bus.top) {
        cable.host_edge = [this](uint64_t bits) {
            top_.rx_bits = bits;
            top_.rx_clk = 1;
            top_.eval();
            top_.rx_clk = 0;
            top_.eval();
        };
        cable.refused = [](const char* what) {
            std::printf("FAILED: %s from the host violates the specification\n", what);
            std::exit(1);
        };
        top_.rate_now = cable.host_rate;
        top_.rx_idle = 1;
    }
    // The drive's clock in a cycle of the bus.
    void cycle() {
        for (debt_ += 3; debt_ >= 2; debt_ -= 2) edge();
    }
    // Once more, now that all clocks run.
    void reset(AxiBus<Top>& bus) {
        top_.rst_ni = 0;
        for (int i = 0; i < 8; ++i) bus.cycle();
        top_.rst_ni = 1;
    }

private:
    void edge() {
        top_.sata_clk = 0;
        top_.eval();
        uint64_t bits = top_.tx_bits;
        bool idle = top_.tx_idle;
        top_.sata_clk = 1;
        top_.eval();
        cable.step(bits, idle, top_.rate);
        top_.rx_idle = cable.idle();
        top_.rate_now = cable.host_rate;
    }
    Top& top_;
    unsigned debt_ = 0;
};

}  // namespace straightway::sata
