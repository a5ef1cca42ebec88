// SPDX-License-Identifier: Apache-2.0 OR MIT
// Drives two links that a line joins (link_sim). Every run checks that each word leaves once, in order and unchanged.
//
// `link_bench random SEED CYCLES`: random traffic, pauses and damage; then everything arrives within a bound.
// `link_bench recover SEED EVENTS`: the longest pause of a saturated link after each kind of damage, within a bound.
// `link_bench latency SEED`: cycles from one side to the other, of single words and under load, within a bound.
// `link_bench rate PACKET DELAY`: words a block, both directions saturated, over a line of that many blocks.
// `link_bench session SEED EVENTS`: resets of a side and long dead times; sessions end and begin within bounds.
// `link_bench lock SEED`: the numbers of headers that gain and lose lock.
// `link_bench record WORDS FILE`: the blocks that a side sends, and the words of its packets.
// `link_bench play FILE`: blocks for a side from a file; prints the words that leave.
#include <cinttypes>
#include <deque>
#include <fstream>
#include <iostream>

#include "Vlink_sim.h"
#include "clocked.hpp"
#include "link/link_line.hpp"

using namespace straightway;

namespace {

const unsigned kWindow = 1u << WINDOW_LOG2, kFrame = FRAME_WORDS, kDead = 1u << DEAD_LOG2;
// Slots of the longest frame with what is around it; cycles from a symbol to the other side's `rx_valid` without the line.
const unsigned kFrameSlots = kFrame + 3, kPipeline = 8;
// Finding the boundary again takes about two headers at each of 66 places, and the blocks that are not examined.
const unsigned kRelock = 66 * (SLIP_BLOCKS + 1) + 300 + 64;

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

struct Sent {
    uint64_t cycle, index, packets;
};

// One direction: what a side has sent in its sessions, and what the other has taken in its own.
struct Stream {
    uint64_t key = 0, packet = 20;
    unsigned session = 0, receives = 0;       // sessions of the sender, and the one that the receiver is in
    uint64_t sent = 0, taken = 0, packets = 0;  // in this session
    uint64_t total = 0, last_cycle = 0, longest = 0;
    std::deque<Sent> under_way;

    uint64_t word(unsigned in, uint64_t index) const { return mix(key ^ mix(uint64_t(in) << 40 ^ index)); }
    // Packets of `packet` words on average; 0: of random lengths that change.
    bool last(unsigned in, uint64_t index) const {
        uint64_t length = packet != 0 ? packet : 1 + mix(key ^ index / 2048) % 300;
        return length == 1 || mix(word(in, index)) % length == 0;
    }
};

struct Pace {
    unsigned percent = 100;
    bool now(Random& random) const { return percent == 100 || random.percent(percent); }
};

struct Bench : Clocked<Vlink_sim> {
    Random random;
    unsigned delay;
    uint64_t cycle = 0;
    Line lines[2];
    Stream streams[2];  // from side 0, from side 1
    Pace offer[2], take[2];
    unsigned gearbox = 0;  // 1: no block in one of 33 cycles; 2: at random
    bool stays_up = false, bounded = false;
    uint64_t damaged[2] = {}, back[2] = {}, blocks[2] = {};
    bool was_up[2] = {};

    Bench(uint64_t seed, unsigned delay_blocks) : random(seed), delay(delay_blocks), lines{Line(delay_blocks), Line(delay_blocks)} {
        for (unsigned side = 0; side < 2; ++side) {
            streams[side].key = mix(seed * 2 + side);
            top->restart[side] = 0;
            top->in_valid[side] = 0;
        }
        Clocked::reset();
    }

    [[noreturn]] void wrong(unsigned side, const std::string& why) {
        fail("side " + std::to_string(side) + ", cycle " + std::to_string(cycle) + ": " + why);
    }

    void taken(unsigned side, uint64_t data, bool last) {
        Stream& stream = streams[side ^ 1];
        if (stream.taken == 0) {
            // The first word of one of the sender's sessions, later than the last.
            unsigned in = stream.receives + 1;
            while (in <= stream.session && stream.word(in, 0) != data) ++in;
            if (in > stream.session) wrong(side, "the first word of a session is another");
            stream.receives = in;
        }
        if (data != stream.word(stream.receives, stream.taken)) wrong(side, "word " + std::to_string(stream.taken) + " is another");
        if (last != stream.last(stream.receives, stream.taken)) wrong(side, "the end of a packet is wrong");
        if (stream.receives == stream.session) {
            if (stream.taken >= stream.sent) wrong(side, "a word that was not sent");
            Sent& sent = stream.under_way.front();
            uint64_t latency = cycle - sent.cycle;
            stream.longest = std::max(stream.longest, latency);
            if (bounded && latency > bound(sent)) {
                wrong(side, "a latency of " + std::to_string(latency) + " cycles, more than " + std::to_string(bound(sent)));
            }
            stream.under_way.pop_front();
        }
        ++stream.taken;
        ++stream.total;
        stream.last_cycle = cycle;
    }

    // Cycles for a word with `index` words and `packets` ends of packets in front of it.
    uint64_t bound(const Sent& sent) const {
        uint64_t slots = 3 + sent.index + 3 * (sent.packets + sent.index / kFrame) + kFrame + 1;
        return slots + (gearbox == 1 ? slots / 32 + 1 : 0) + delay + kPipeline;
    }

    void step() {
        auto& pins = *top;
        for (unsigned side = 0; side < 2; ++side) {
            Stream& stream = streams[side];
            bool held = pins.tx_valid[side] && !accepted[side];
            if (!held) pins.tx_valid[side] = offer[side].now(random);
            pins.tx_data[side] = stream.word(stream.session, stream.sent);
            pins.tx_last[side] = stream.last(stream.session, stream.sent);
            pins.rx_ready[side] = take[side].now(random);
            pins.out_ready[side] = gearbox == 0 || (gearbox == 1 ? cycle % 33 != 0 : !random.percent(20));
            Block block;
            if (pins.slip[side]) lines[side ^ 1].slip();
            pins.in_valid[side] = lines[side ^ 1].take(block);
            pins.in_data[side] = block.data;
            pins.in_sync[side] = block.sync;
        }
        pins.clk_i = 0;
        pins.eval();
        for (unsigned side = 0; side < 2; ++side) {
            Stream& stream = streams[side];
            accepted[side] = pins.tx_valid[side] && pins.tx_ready[side];
            if (accepted[side]) {
                stream.packets += stream.last(stream.session, stream.sent);
                stream.under_way.push_back({cycle, stream.under_way.size(), 0});
                uint64_t packets = 0;
                for (uint64_t i = stream.taken; bounded && i < stream.sent; ++i) packets += stream.last(stream.session, i);
                stream.under_way.back().packets = packets;
                ++stream.sent;
            }
            if (pins.rx_valid[side] && pins.rx_ready[side]) taken(side, pins.rx_data[side], pins.rx_last[side]);
            if (pins.out_ready[side]) {
                ++blocks[side];
                lines[side].give({pins.out_data[side], pins.out_sync[side]}, random);
            }
        }
        pins.clk_i = 1;
        pins.eval();
        for (unsigned side = 0; side < 2; ++side) {
            damaged[side] += pins.damaged[side];
            back[side] += pins.back[side];
            if (was_up[side] && !pins.up[side]) {
                if (stays_up) wrong(side, "the session has ended");
                streams[side ^ 1].taken = 0;
            }
            if (!was_up[side] && pins.up[side]) {
                ++streams[side].session;
                streams[side].sent = 0;
                streams[side].under_way.clear();
            }
            was_up[side] = pins.up[side];
        }
        ++cycle;
    }

    void run(uint64_t cycles) {
        for (uint64_t i = 0; i < cycles; ++i) step();
    }
    bool up() const { return top->up[0] && top->up[1]; }
    bool locked() const { return top->locked[0] && top->locked[1]; }
    // Both sides deaf one after the other, lock, and some frames.
    uint64_t start_bound() const { return 6 * kDead + kRelock + 8 * (kFrameSlots + delay + kPipeline); }
    void start() {
        for (uint64_t from = cycle; !up(); step())
            if (cycle - from > start_bound()) fail("no session within " + std::to_string(start_bound()) + " cycles");
    }
    bool arrived(unsigned side) const { return streams[side].taken == streams[side].sent; }
    // A loss is visible after the frame that is damaged and the next; the request and the return take as long, then a frame comes.
    uint64_t recovery() const {
        uint64_t cycles = 5 * kFrameSlots + 5 + 3 * (delay + kPipeline);
        return gearbox == 0 ? cycles : cycles * 33 / 32 + 3;
    }

private:
    bool accepted[2] = {};
};

int random_run(uint64_t seed, uint64_t cycles) {
    Bench bench(seed, 1 + Random(seed).below(100));
    bench.gearbox = bench.random.below(3);
    for (auto& stream : bench.streams) stream.packet = 0;
    bench.start();
    bench.stays_up = true;
    uint64_t next = 0, quiet = 0;
    unsigned counts[kDamages] = {};
    for (uint64_t end = bench.cycle + cycles; bench.cycle < end; bench.step()) {
        if (bench.random.below(2000) == 0) {
            for (unsigned side = 0; side < 2; ++side) {
                bench.offer[side].percent = std::min<uint64_t>(100, bench.random.below(160));
                bench.take[side].percent = std::min<uint64_t>(100, bench.random.below(160));
            }
        }
        // 64 headers in a row must be correct to gain lock: with as much damage that could take longer than a session lasts.
        if (bench.cycle < next || !bench.locked()) continue;
        bool rare = bench.cycle >= quiet && bench.random.percent(10);
        auto what = Damage(bench.random.below(rare ? kDamages : 3));
        bench.lines[bench.random.below(2)].damage(what, bench.random, kDead / 4);
        ++counts[unsigned(what)];
        // What loses lock may not come again before it is regained: the session would end.
        if (rare) quiet = bench.cycle + kDead;
        next = bench.cycle + 1 + bench.random.below(bench.random.percent(50) ? 4 * kFrameSlots : 40);
    }
    for (unsigned side = 0; side < 2; ++side) bench.offer[side].percent = 0, bench.take[side].percent = 100;
    uint64_t bound = kDead + kRelock + 2 * bench.recovery() + 8 * kWindow, from = bench.cycle;
    for (; !(bench.arrived(0) && bench.arrived(1)); bench.step())
        if (bench.cycle - from > bound) fail("words are missing after " + std::to_string(bound) + " cycles");
    bench.run(4 * kFrameSlots);
    std::printf("%" PRIu64 " words, %" PRIu64 " damaged frames, %" PRIu64 " returns; bits %u, bursts %u, blocks %u, slips %u, dead %u\n",
                bench.streams[0].total + bench.streams[1].total, bench.damaged[0] + bench.damaged[1], bench.back[0] + bench.back[1],
                counts[0], counts[1], counts[2], counts[3], counts[4]);
    return 0;
}

int recover_run(uint64_t seed, unsigned events) {
    Bench bench(seed, 40);
    bench.start();
    bench.stays_up = true;
    const char* names[kDamages] = {"bits", "burst", "blocks", "slip", "dead"};
    for (unsigned what = 0; what < kDamages; ++what) {
        uint64_t longest = 0, bound = bench.recovery() + (what >= unsigned(Damage::kSlip) ? kRelock + 256 : 0);
        for (unsigned event = 0; event < events; ++event) {
            bench.run(3 * kWindow + bench.random.below(kFrameSlots));
            unsigned which = 1 + bench.random.below(3), lasts = 0;
            for (unsigned side = 0; side < 2; ++side)
                if (which >> side & 1) lasts = std::max(lasts, bench.lines[side].damage(Damage(what), bench.random, 500));
            bench.run(lasts);
            uint64_t end = bench.cycle, before[2] = {end, end};
            uint64_t last[2] = {bench.streams[0].last_cycle, bench.streams[1].last_cycle};
            while (bench.cycle - end < bound + kWindow) {
                bench.step();
                for (unsigned side = 0; side < 2; ++side) {
                    if (bench.streams[side].last_cycle != last[side]) before[side] = last[side] = bench.streams[side].last_cycle;
                    longest = std::max(longest, bench.cycle - before[side]);
                }
            }
            if (longest > bound) {
                fail(std::string(names[what]) + ": a pause of " + std::to_string(longest) + " cycles, more than " + std::to_string(bound));
            }
        }
        std::printf("%s %" PRIu64 " %" PRIu64 "\n", names[what], longest, bound);
    }
    return 0;
}

int latency_run(uint64_t seed) {
    const unsigned delay = 40;
    for (unsigned gearbox = 0; gearbox < 2; ++gearbox) {
        for (unsigned percent : {1u, 10u, 50u, 90u, 100u}) {
            Bench bench(seed + percent, delay);
            bench.gearbox = gearbox;
            bench.offer[0].percent = bench.offer[1].percent = 0;
            bench.start();
            bench.stays_up = bench.bounded = true;
            bench.offer[0].percent = percent;
            bench.offer[1].percent = 100;
            bench.streams[1].packet = 100000;
            bench.run(30000);
            if (bench.streams[0].total == 0) fail("no word");
            std::printf("%s_%u %" PRIu64 "\n", gearbox ? "gearbox" : "plain", percent, bench.streams[0].longest - delay);
        }
    }
    return 0;
}

int rate_run(uint64_t packet, unsigned delay) {
    Bench bench(1, delay);
    for (auto& stream : bench.streams) stream.packet = packet;
    bench.start();
    bench.stays_up = true;
    bench.run(4 * kWindow);
    uint64_t words[2] = {bench.streams[0].total, bench.streams[1].total}, from = bench.blocks[0];
    bench.run(200000);
    for (unsigned side = 0; side < 2; ++side)
        std::printf("words_a_block_%u %.6f\n", side, double(bench.streams[side].total - words[side]) / double(bench.blocks[0] - from));
    return 0;
}

int session_run(uint64_t seed, unsigned events) {
    Bench bench(seed, 1 + Random(seed).below(100));
    uint64_t ends = 0, begins = 0;
    for (unsigned event = 0; event < events; ++event) {
        uint64_t from = bench.cycle;
        bench.start();
        begins = std::max(begins, bench.cycle - from);
        bench.run(bench.random.below(6000));
        unsigned which = 1 + bench.random.below(3);
        from = bench.cycle;
        if (bench.random.below(2)) {
            for (unsigned side = 0; side < 2; ++side) bench.top->restart[side] = which >> side & 1;
            bench.run(1 + bench.random.below(50));
            for (unsigned side = 0; side < 2; ++side) bench.top->restart[side] = 0;
            if (bench.random.below(2)) bench.lines[bench.random.below(2)].damage(Damage::kDead, bench.random, 4 * kDead);
        } else {
            for (unsigned side = 0; side < 2; ++side) {
                while (which >> side & 1 && bench.lines[side].damage(Damage::kDead, bench.random, 8 * kDead) < kDead + 10) {}
            }
        }
        // Either side notices, at the latest when the other has been silent for so long.
        uint64_t bound = 2 * kDead + 4 * kFrameSlots + 2 * (bench.delay + kPipeline) + 64;
        bool down[2] = {};
        for (; !(down[0] && down[1]); bench.step()) {
            for (unsigned side = 0; side < 2; ++side) down[side] |= !bench.top->up[side];
            if (bench.cycle - from > bound) fail("a side still has its session after " + std::to_string(bound) + " cycles");
        }
        ends = std::max(ends, bench.cycle - from);
        bench.run(8 * kDead);
    }
    bench.start();
    uint64_t total = bench.streams[0].total;
    bench.run(4 * kWindow);
    if (bench.streams[0].total == total) fail("no words in the last session");
    std::printf("%u sessions, ended within %" PRIu64 " cycles, begun within %" PRIu64 "\n", bench.streams[0].session, ends, begins);
    return 0;
}

// Headers alone: `right` of them, then one wrong.
int lock_run(uint64_t seed) {
    Bench bench(seed, 1);
    auto& pins = *bench.top;
    auto header = [&](bool right) {
        pins.in_valid[0] = 1;
        pins.in_sync[0] = right ? 1 + bench.random.below(2) : 3 * bench.random.below(2);
        pins.in_data[0] = bench.random.next();
        bench.edge();
        pins.in_valid[0] = 0;
        return bool(pins.slip[0]);
    };
    auto unexamined = [&] { for (unsigned i = 0; i < SLIP_BLOCKS; ++i) if (header(false)) fail("a slip while the PHY slips"); };
    unexamined();
    for (unsigned right = 0; right < 64; ++right) {
        for (unsigned i = 0; i < right; ++i) if (header(true) || pins.locked[0]) fail("a slip or lock after " + std::to_string(i));
        if (!header(false) || pins.locked[0]) fail("no slip at a wrong header");
        unexamined();
    }
    for (unsigned i = 0; i < 64; ++i) {
        if (pins.locked[0]) fail("locked after " + std::to_string(i));
        header(true);
    }
    if (!pins.locked[0]) fail("not locked after 64");
    // 15 wrong ones among 64, anywhere, keep the lock; the next window is another.
    for (unsigned round = 0; round < 50; ++round) {
        unsigned wrong = 15;
        for (unsigned left = 64; left != 0; --left) {
            bool now = bench.random.below(left) < wrong;
            wrong -= now;
            if (header(!now) || !pins.locked[0]) fail("15 wrong headers lose lock");
        }
    }
    for (unsigned i = 0; i < 48; ++i) header(true);
    for (unsigned i = 0; i < 16; ++i)
        if (header(false) != (i == 15) || pins.locked[0] != (i != 15)) fail("lock and slip after wrong header " + std::to_string(i + 1));
    std::printf("headers are as in clause 49\n");
    return 0;
}

int record_run(uint64_t words, const std::string& path) {
    Bench bench(1, 10);
    bench.offer[0].percent = 60;
    bench.streams[0].packet = 30;
    std::ofstream file(path);
    while (bench.streams[0].total < words) {
        uint64_t sent = bench.streams[0].sent;
        file << "B " << unsigned(bench.top->out_sync[0]) << " " << std::hex << bench.top->out_data[0] << std::dec << "\n";
        bench.step();
        const Stream& stream = bench.streams[0];
        if (stream.sent > sent) {
            file << "W " << std::hex << stream.word(stream.session, sent) << std::dec << " " << stream.last(stream.session, sent) << "\n";
        }
        if (bench.cycle > 1000000) fail("too few words");
    }
    return 0;
}

int play_run(const std::string& path) {
    Bench bench(1, 1);
    auto& pins = *bench.top;
    std::ifstream file(path);
    unsigned sync;
    uint64_t data, damaged = 0;
    pins.rx_ready[0] = 1;
    pins.out_ready[0] = 1;
    while (file >> std::dec >> sync >> std::hex >> data) {
        pins.in_valid[0] = 1;
        pins.in_sync[0] = sync;
        pins.in_data[0] = data;
        pins.clk_i = 0;
        pins.eval();
        if (pins.rx_valid[0]) std::printf("%016" PRIx64 " %u\n", uint64_t(pins.rx_data[0]), unsigned(pins.rx_last[0]));
        pins.clk_i = 1;
        pins.eval();
        damaged += pins.damaged[0];
    }
    std::printf("damaged %" PRIu64 "\n", damaged);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string what = argc > 1 ? argv[1] : "";
    auto number = [&](int at) { return std::strtoull(argv[at], nullptr, 0); };
    if (what == "random" && argc == 4) return random_run(number(2), number(3));
    if (what == "recover" && argc == 4) return recover_run(number(2), unsigned(number(3)));
    if (what == "latency" && argc == 3) return latency_run(number(2));
    if (what == "rate" && argc == 4) return rate_run(number(2), unsigned(number(3)));
    if (what == "session" && argc == 4) return session_run(number(2), unsigned(number(3)));
    if (what == "lock" && argc == 3) return lock_run(number(2));
    if (what == "record" && argc == 4) return record_run(number(2), argv[3]);
    if (what == "play" && argc == 3) return play_run(argv[2]);
    std::fprintf(stderr, "usage: link_bench random SEED CYCLES | recover SEED EVENTS | latency SEED | rate PACKET DELAY | "
                         "session SEED EVENTS | lock SEED | record WORDS FILE | play FILE\n");
    return 2;
}
