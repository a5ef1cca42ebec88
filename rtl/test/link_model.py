# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The link's blocks and frames, written from its README and bit by bit, for comparison with the core."""

import zlib
from dataclasses import dataclass

DATA, CONTROL = 2, 1  # the sync bits, the first on the line in the lowest
IDLE, START, END = 0x1E, 0x78, 0xD2
MASK = (1 << 58) - 1


class Scrambler:
    """x^58 + x^39 + 1; bit 0 of a block is first. The history has the latest bit in its lowest."""

    def __init__(self, history=MASK):
        self.history = history

    def scramble(self, data):
        result = 0
        for i in range(64):
            bit = data >> i & 1 ^ self.history >> 38 & 1 ^ self.history >> 57 & 1
            self.history = (self.history << 1 | bit) & MASK
            result |= bit << i
        return result

    def descramble(self, data):
        result = 0
        for i in range(64):
            bit = data >> i & 1
            result |= (bit ^ self.history >> 38 & 1 ^ self.history >> 57 & 1) << i
            self.history = (self.history << 1 | bit) & MASK
        return result


@dataclass
class Frame:
    """A frame's header, its words, and whether the last of them ends a packet."""

    up: bool
    heard: bool
    sequence: int = 0
    words: tuple = ()
    last: bool = False
    received: int = 0
    taken: int = 0
    retry: bool = False
    attempt: bool = False

    def octets(self):
        flags = self.attempt | self.retry << 1 | self.heard << 2 | self.up << 3
        header = bytes([flags]) + b"".join(field.to_bytes(2, "little") for field in (self.sequence, self.received, self.taken))
        return header, b"".join(word.to_bytes(8, "little") for word in self.words), bytes([self.last])

    def blocks(self):
        """Sync bits and data, not scrambled."""
        header, words, end = self.octets()
        crc = zlib.crc32(header + words + end).to_bytes(4, "little")
        yield CONTROL, int.from_bytes(bytes([START]) + header, "little")
        yield from ((DATA, word) for word in self.words)
        yield CONTROL, int.from_bytes(bytes([END]) + end + crc + bytes(2), "little")


def parse(blocks):
    """The frames in blocks that are not scrambled; anything but whole, correct frames with an idle block behind is an error."""
    blocks = iter(blocks)
    for sync, data in blocks:
        if (sync, data) == (CONTROL, IDLE):
            continue
        octets = data.to_bytes(8, "little")
        assert sync == CONTROL and octets[0] == START, f"a frame begins with {sync} {data:016x}"
        words = []
        for sync, word in blocks:
            if sync == CONTROL:
                break
            words.append(word)
        else:
            return
        flags, header = octets[1], octets[2:]
        sequence, received, taken = (int.from_bytes(header[i:i + 2], "little") for i in (0, 2, 4))
        frame = Frame(bool(flags & 8), bool(flags & 4), sequence, tuple(words), bool(word >> 8 & 1), received, taken,
                      bool(flags & 2), bool(flags & 1))
        assert [*frame.blocks()][-1] == (sync, word) and flags < 16, f"the end of {frame} is {sync} {word:016x}"
        behind = next(blocks, (CONTROL, IDLE))
        assert behind == (CONTROL, IDLE), f"behind a frame is {behind}"
        yield frame
