// SPDX-License-Identifier: Apache-2.0 OR MIT
// The top of the benches with its agents: the initiator's host, the target's device, the pins of frames on both sides.
#pragma once

#include <memory>

#include "Vaoe_sim.h"
#include "aoe_net.hpp"
#include "block_device.hpp"
#include "block_host.hpp"
#include "clocked.hpp"

namespace straightway::aoe {

struct Machine : Clocked<Vaoe_sim> {
    Random random;
    DeviceModel model;
    uint64_t seed, now = 0;
    std::unique_ptr<BlockDevice> disk;
    std::unique_ptr<BlockHost> host;
    Out i_tx{&top->i_tx_valid, &top->i_tx_ready, &top->i_tx_last, &top->i_tx_data};
    Out t_tx{&top->t_tx_valid, &top->t_tx_ready, &top->t_tx_last, &top->t_tx_data};
    In i_rx{&top->i_rx_valid, &top->i_rx_last, &top->i_rx_bad, &top->i_rx_data};
    In t_rx{&top->t_rx_valid, &top->t_rx_last, &top->t_rx_bad, &top->t_rx_data};
    std::function<void()> each = [] {};  // in each cycle
    uint64_t agains = 0, damages = 0, losses = 0, fulls = 0;

    Machine(DeviceModel wanted, unsigned depth, unsigned host_stall, uint64_t seed_)
        : random(seed_), model(wanted), seed(seed_) {
        model.block_bytes = kSector;
        top->shelf = 7, top->slot = 3;
        top->disk_blocks = model.block_count;
        top->disk_cache = 1;
        disk = std::make_unique<BlockDevice>(pins(), model, seed * 31);
        host = std::make_unique<BlockHost>(STRAIGHTWAY_PINS(*top, , ), 4, kSector, depth, host_stall, seed * 17);
        host->source = [](Request&) { return false; };
        host->finished = [](const Request&) {};
        i_tx.deliver = t_tx.deliver = [](const Bytes&) {};
        top->target_rst_ni = 0;
        reset();
        top->target_rst_ni = 1;
    }
    // The target loses its power and returns, with what is on its disk.
    void reset_target() {
        Bytes bytes = disk->bytes();
        std::set<uint64_t> bad_reads = disk->bad_reads, bad_writes = disk->bad_writes;
        top->target_rst_ni = 0;
        t_tx.frame.clear(), t_rx.frames.clear(), t_rx.at = 0;
        *t_rx.valid = 0, top->disk_read_valid = 0, top->disk_rsp_valid = 0;
        disk = std::make_unique<BlockDevice>(pins(), model, ++seed * 31, std::move(bytes));
        disk->bad_reads = bad_reads, disk->bad_writes = bad_writes;
        cycle(), cycle();
        top->target_rst_ni = 1;
    }
    void cycle() {
        ++now;
        top->clk_i = 0;
        top->eval();
        host->sample(), disk->sample(), i_tx.sample(), t_tx.sample();
        agains += top->again, damages += top->damaged + top->target_damaged, losses += top->lost, fulls += top->target_full;
        top->clk_i = 1;
        top->eval();
        each();
        host->drive(), disk->drive();
        i_tx.drive(random), t_tx.drive(random), i_rx.drive(random), t_rx.drive(random);
    }
    template <class Condition>
    void until(Condition condition, uint64_t limit, const char* what) {
        for (; !condition(); cycle())
            if (limit-- == 0) fail(std::string("never: ") + what);
    }

private:
    Pins pins() { return STRAIGHTWAY_PINS(*top, disk_, ); }
};

}  // namespace straightway::aoe
