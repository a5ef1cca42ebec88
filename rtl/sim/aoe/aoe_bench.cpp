// SPDX-License-Identifier: Apache-2.0 OR MIT
// Remote disks: an initiator and a target of ATA over Ethernet.
//
// `aoe_bench directed SEED`: single frames to the target. `foreign SEED`: the initiator with a target that the bench plays.
// `random SEED CYCLES`: both, joined by a network with faults, against a model of the contents. `leave SEED`: the target leaves
// and returns. `share SEED fair|greedy|loss`: other initiators at the same target. `serve SOCKET [SLOT]` and `attach SOCKET`: the
// target, and the initiator, on the network card of a guest (aoe_socket.hpp).
#include "aoe_foreign.hpp"
#include "aoe_random.hpp"
#include "aoe_share.hpp"
#include "aoe_socket.hpp"

using namespace straightway::aoe;

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::string what = argc > 2 ? argv[1] : "";
    if (what == "serve") return serve(argv[2], argc > 3 ? std::atoi(argv[3]) : 3);
    if (what == "attach") return attach(argv[2]);
    uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 0;
    if (what == "directed") return directed_run(seed);
    if (what == "foreign") return foreign_run(seed);
    if (what == "leave") return leave_run(seed);
    if (what == "share" && argc > 3) return share_run(seed, argv[3]);
    if (what == "random" && argc > 3) return random_run(seed, std::strtoull(argv[3], nullptr, 0));
    std::fprintf(stderr, "usage: aoe_bench directed|foreign|leave SEED, random SEED CYCLES, share SEED fair|greedy|loss, serve SOCKET [SLOT], attach SOCKET\n");
    return 2;
}
