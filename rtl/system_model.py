#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cycle-approximate model of a long read by a head node from its disk nodes, for systems larger than those that are simulated.

Follows each frame from the request to the array, and each flit through the network's narrowest place, in the order of time. Nothing in it is
random. Constants are those of the RTL: buffers, window, words of a frame; and the pipelines' lengths, which rtl/test/test_system.py
holds against the simulation.

    system_model.py NETWORK WAYS PORTS KIB_PER_DISK [WORD_CYCLES [HEAD_WORDS]]
"""

import heapq
import sys
from dataclasses import dataclass

LANES = 8          # words of a flit
DATA_WORDS = 256   # a frame of two sectors
FRAME_WORDS = 266  # with header and checksum
FRAME_FLITS = -(-FRAME_WORDS // LANES)
REQUEST_WORDS = 10
PACK_FLITS, SWITCH_FLITS = 2, 2  # buffers of system_pack and of a switch's input
WINDOW_FRAMES, LANE_FRAMES = 4, 8  # under way at an initiator; of room in the array for each disk
COMMAND_CYCLES = 93  # the file system's and the array's part of the first word's latency
TARGET_CYCLES = 13   # a request through the target, and its disk's first word
FRAME_GAP = 1.7      # cycles between two frames of a target
ANSWER_CYCLES = 12   # from a frame's last word at the head to the array


@dataclass(frozen=True)
class Network:
    """The bounds of a network: flits of a source are `interval` cycles apart, each of `servers` places at the head takes one a cycle."""

    disks: int
    servers: int
    interval: int
    buffers: int      # flits of a source that can wait in front of the place
    latency: float    # cycles, mean of the disks, without waits

    def server(self, disk):
        return disk * self.servers // self.disks


def torus(ways, ports):
    """system_torus: a place for each port."""
    columns = 2 * ports
    return Network(ways * ports, ports, max(2 * ways, columns), PACK_FLITS, ports + (ways - 1) / 2 + 2)


def tree(ways, ports):
    """system_tree: the root is one place."""
    levels = (ways * ports - 1).bit_length()
    return Network(ways * ports, 1, 1, PACK_FLITS + SWITCH_FLITS * levels, levels)


def line():
    """One disk without a network."""
    return Network(1, 1, 1, PACK_FLITS, 0)


class Disk:
    """A disk node and its initiator: times of its frames, and of the flits of the frame that leaves."""

    def __init__(self):
        self.requested = -REQUEST_WORDS  # the last request
        self.memory_free = self.sent = 0.0  # when the memory and the target's sender are free
        self.begun = 0                   # frames that were requested
        self.delivered = 0.0             # when the last frame was in the array
        self.done = []                   # when each frame has left its initiator
        self.freed = []                  # when the array has given out each of them
        self.left = []                   # when the flits of the frame left the network
        self.entered = float("-inf")     # when the last flit entered it
        self.queue = []                  # frames that are ready to leave: the time of each


class Read:
    """A read of `frames` frames from each disk into a head that takes `head_words` words a cycle."""

    def __init__(self, network, frames, word_cycles=1, head_words=8):
        self.network, self.frames, self.word_cycles, self.head_words = network, frames, word_cycles, head_words
        self.disks = [Disk() for _ in range(network.disks)]
        self.busy = [0.0] * network.servers
        self.events = []         # (time, turn, disk): the disk's next flit reaches the head's place
        self.turn = 0
        self.piece, self.out = 0, float(COMMAND_CYCLES)  # the array's next piece, and when the one before it was out
        self.waiting = {}        # pieces that arrived before those in front of them

    def cycles(self):
        for number in range(self.network.disks):
            self.request(number)
        while self.events:
            time, _, number = heapq.heappop(self.events)
            self.leave(number, time)
        return self.out

    def request(self, number):
        """Requests what fits the window and the array's room, and lets the disk's memory read it."""
        disk = self.disks[number]
        while disk.begun < self.frames:
            index = disk.begun
            if index - WINDOW_FRAMES >= len(disk.done) or index - LANE_FRAMES >= len(disk.freed):
                return
            at = disk.requested + REQUEST_WORDS + 1
            if index >= WINDOW_FRAMES:
                at = max(at, disk.done[index - WINDOW_FRAMES])
            if index >= LANE_FRAMES:
                at = max(at, disk.freed[index - LANE_FRAMES])
            disk.requested, disk.begun = at, index + 1
            there = at + 2 * REQUEST_WORDS + self.network.latency + TARGET_CYCLES
            disk.memory_free = max(disk.memory_free, there) + DATA_WORDS * self.word_cycles
            disk.queue.append(disk.memory_free)
            if len(disk.queue) == 1 and not disk.left:
                self.offer(number)

    def offer(self, number):
        """The disk's next flit, if a frame is ready, on its way to the head's place."""
        disk, network = self.disks[number], self.network
        if not disk.queue:
            return
        flit = len(disk.left)
        if flit == 0:
            disk.start = max(disk.queue[0], disk.sent + FRAME_GAP)
            disk.packed = disk.start
        words = min(LANES, FRAME_WORDS - flit * LANES)
        room = disk.left[flit - network.buffers] if flit >= network.buffers else 0.0
        disk.packed = max(disk.packed + words, room)
        disk.entered = max(disk.packed, disk.entered + network.interval)
        self.turn += 1
        heapq.heappush(self.events, (disk.entered + network.latency, self.turn, number))

    def leave(self, number, time):
        """A flit passes the head's place."""
        disk, server = self.disks[number], self.network.server(number)
        self.busy[server] = max(self.busy[server] + 1, time)
        disk.left.append(self.busy[server])
        if len(disk.left) == FRAME_FLITS:
            disk.sent, disk.left = disk.packed, []
            disk.queue.pop(0)
            self.arrive(number, self.busy[server] + FRAME_WORDS % LANES)
        self.offer(number)

    def arrive(self, number, time):
        """A frame is at its initiator, which gives it to the array, a word a cycle."""
        disk = self.disks[number]
        first = max(time + ANSWER_CYCLES, disk.delivered)
        disk.delivered = first + DATA_WORDS
        self.waiting[len(disk.done) * self.network.disks + number] = (first, disk.delivered)
        disk.done.append(disk.delivered)
        while self.piece in self.waiting:
            first, last = self.waiting.pop(self.piece)
            self.out = max(self.out + DATA_WORDS / self.head_words, last, first + DATA_WORDS / self.head_words)
            owner = self.piece % self.network.disks
            self.disks[owner].freed.append(self.out)
            self.piece += 1
            if owner != number:
                self.request(owner)
        self.request(number)


def rate(network, frames, word_cycles=1, head_words=8):
    """Words a cycle of a whole read, and its cycles."""
    cycles = Read(network, frames, word_cycles, head_words).cycles()
    return network.disks * frames * DATA_WORDS / cycles, cycles


def main():
    name, ways, ports, kib, *more = sys.argv[1:]
    network = {"torus": torus, "tree": tree}[name](int(ways), int(ports))
    words, cycles = rate(network, int(kib), *map(int, more))
    print(f"{name} of {network.disks} disks: {words:.3f} words a cycle, {cycles:.0f} cycles")


if __name__ == "__main__":
    main()
