#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes an empty volume from FORMAT.md alone, also for devices with blocks of 64 bytes, which plain files
under the command do not have.

    make_volume.py FILE SIZE_BYTES UNIT_BYTES NODE_BYTES SLOTS [BLOCK_BYTES]
"""

import math
import os
import sys

TABLE = []
for index in range(256):
    value = index
    for _ in range(8):
        value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    TABLE.append(value)


def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


def sealed(node, identity, address, field):
    """The node with its checksum, which covers the identity, the address and the rest of the node."""
    crc = crc32c(identity + address.to_bytes(8, "little") + node[:field] + node[field + 4:])
    return node[:field] + crc.to_bytes(4, "little") + node[field + 4:]


def put(node, offset, value, size):
    node[offset:offset + size] = value.to_bytes(size, "little")


def make(size, unit, node, slots, block=64):
    """The image as a bytearray."""
    if any(value & (value - 1) for value in (unit, node, block)):
        raise ValueError("units, nodes and blocks must be powers of two")
    buckets_log2 = max(0, (slots - 1) // 8).bit_length()
    slots = 8 << buckets_log2
    groups = -(-(size // unit) // (4 * node))
    slots_a = 131072
    bitmap_a = slots_a + slots * node
    slots_b = bitmap_a + groups * node
    bitmap_b = slots_b + slots * node
    data = -(-(bitmap_b + groups * node) // unit) * unit
    units = (size - data) // unit
    image, uuid = bytearray(size), os.urandom(16)
    for member, (slot_table, bitmaps) in enumerate(((slots_a, bitmap_a), (slots_b, bitmap_b))):
        for number in range(slots):
            bare = bytearray(node)
            bare[:4] = b"SWsl"
            put(bare, 8, member, 8)
            at = slot_table + number * node
            image[at:at + node] = sealed(bare, uuid, at, 4)
        for group in range(groups):
            bare = bytearray(node)
            bare[:4] = b"SWbm"
            put(bare, 8, member, 8)
            put(bare, 24, group, 8)
            free = min(4 * node, max(0, units - group * 4 * node))
            put(bare, 32, free, 4)
            bits = (1 << 4 * node) - (1 << free)
            put(bare, node // 2, bits, node // 2)
            at = bitmaps + group * node
            image[at:at + node] = sealed(bare, uuid, at, 4)
        bare = bytearray(256)
        bare[:8] = b"STRTWAY1"
        put(bare, 12, 1, 2)
        put(bare, 16, member, 8)
        bare[24:40] = uuid
        put(bare, 40, size, 8)
        for offset, value in ((48, unit), (49, node), (51, block)):
            bare[offset] = value.bit_length() - 1
        bare[50] = buckets_log2
        put(bare, 52, 1, 4)
        for offset, value in zip(range(72, 120, 8), (slots_a, slots_b, bitmap_a, bitmap_b, data, units)):
            put(bare, offset, value, 8)
        at = 65536 * member
        image[at:at + 256] = sealed(bare, b"", at, 8)
    return image


def slot_for(name, slots):
    """The first slot of the first bucket that the name may be in."""
    return crc32c(name.encode()) % (slots // 8) * 8


def grow(image, extents, buckets):
    """Adds buckets to the table of an empty volume: its table node is at unit 0, and the buckets are in `extents`, (first unit, units) each.
    Returns the addresses of the table node's members."""
    unit, node = 1 << image[48], 1 << image[49]
    data = int.from_bytes(image[104:112], "little")
    uuid, pair = bytes(image[24:40]), max(1, 2 * node // unit)
    in_each = [count * unit // (16 * node) for _, count in extents]
    if buckets > sum(in_each) or any(first < pair for first, _ in extents):
        raise ValueError("the buckets do not fit")
    left = buckets
    for (first, _), most in zip(extents, in_each):
        for place in range(min(left, most)):
            for member in range(2):
                for number in range(8):
                    bare = bytearray(node)
                    bare[:4] = b"SWsl"
                    put(bare, 8, member, 8)
                    at = data + first * unit + (16 * place + 8 * member + number) * node
                    image[at:at + node] = sealed(bare, uuid, at, 4)
        left -= min(left, most)
    members = [data, data + max(node, unit // 2)]
    for member, at in enumerate(members):
        bare = bytearray(node)
        bare[:4] = b"SWsl"
        put(bare, 8, member, 8)
        put(bare, 32, 16 * node * buckets, 8)
        put(bare, 40, sum(count for _, count in extents), 8)
        put(bare, 56, 3, 1)
        put(bare, 60, len(extents), 4)
        logical = 0
        for index, (first, count) in enumerate(extents):
            for offset, value, width in ((144, first, 8), (152, count, 4), (156, logical, 4)):
                put(bare, offset + 16 * index, value, width)
            logical += count
        image[at:at + node] = sealed(bare, uuid, at, 4)
        at = 65536 * member
        bare = bytearray(image[at:at + 256])
        put(bare, 56, 32, 4)
        put(bare, 252, 0, 4)
        image[at:at + 256] = sealed(bare, b"", at, 8)
    take(image, [(0, pair), *extents])
    return members


def take(image, used):
    """Marks these units as in use in both bitmaps: for each its first one, and how many."""
    bitmaps = [int.from_bytes(image[at:at + 8], "little") for at in (88, 96)]
    units = int.from_bytes(image[112:120], "little")
    node, uuid, taken = 1 << image[49], bytes(image[24:40]), 0
    for first, count in used:
        taken |= (1 << count) - 1 << first
    for group in range(-(-units // (4 * node))):
        mine = taken >> group * 4 * node & (1 << 4 * node) - 1
        for table in bitmaps:
            at = table + group * node
            bare = bytearray(image[at:at + node])
            put(bare, 4, 0, 4)
            put(bare, 32, int.from_bytes(bare[32:36], "little") - mine.bit_count(), 4)
            put(bare, node // 2, int.from_bytes(bare[node // 2:], "little") | mine, node // 2)
            image[at:at + node] = sealed(bare, uuid, at, 4)


def scatter(image, name, size, piece):
    """Adds a file to an empty volume: `size` bytes in extents of `piece` bytes, in an order other than the file's, under a map of one level of leaves at the volume's end. Returns where in the volume each extent begins.
    The data are the caller's."""
    unit, node, slots = 1 << image[48], 1 << image[49], 8 << image[50]
    slots_a, data, units = (int.from_bytes(image[at:at + 8], "little") for at in (72, 104, 112))
    uuid, pieces, each = bytes(image[24:40]), size // piece, piece // unit
    per_leaf, pair = (node - 64) // 16, max(1, 2 * node // unit)
    in_slot = pieces <= (node - 144) // 16
    leaves = 0 if in_slot else -(-pieces // per_leaf)
    if size % piece or piece % unit or leaves > (node - 144) // 16 or pieces * each + (leaves + 1) * pair > units:
        raise ValueError("the file does not fit")
    step = next(step for step in range(pieces // 3 | 1, 2 * pieces, 2) if math.gcd(step, pieces) == 1)
    starts = [index * step % pieces * each for index in range(pieces)]
    number = slot_for(name, slots)
    identity, used = number << 44 | 1, [(0, pieces * each)]
    entries = []
    for leaf in range(leaves):
        bare = bytearray(node)
        first_unit = (units // pair - leaves + leaf) * pair
        first = leaf * per_leaf
        count = min(per_leaf, pieces - first)
        bare[:4] = b"SWlf"
        for offset, value, width in ((24, identity, 8), (32, first * each, 8), (40, count, 4), (44, 1, 4)):
            put(bare, offset, value, width)
        for index in range(count):
            at = 64 + 16 * index
            put(bare, at, starts[first + index], 8)
            put(bare, at + 8, each, 4)
            put(bare, at + 12, (first + index) * each, 4)
        at = data + first_unit * unit
        image[at:at + node] = sealed(bare, uuid, at, 4)
        used.append((first_unit, pair))
        entries.append((first * each, first_unit))
    bare = bytearray(node)
    bare[:4] = b"SWsl"
    put(bare, 8, 2, 8)
    for offset, value, width in ((24, identity, 8), (32, size, 8), (40, pieces * each, 8), (56, 1, 1),
                                 (57, int(not in_slot), 1), (58, len(name), 1), (60, leaves or pieces, 4)):
        put(bare, offset, value, width)
    bare[80:80 + len(name)] = name.encode()
    for index in range(pieces if in_slot else 0):
        put(bare, 144 + 16 * index, starts[index], 8)
        put(bare, 152 + 16 * index, each, 4)
        put(bare, 156 + 16 * index, index * each, 4)
    for index, (logical, first_unit) in enumerate(entries):
        put(bare, 144 + 16 * index, logical, 8)
        put(bare, 152 + 16 * index, first_unit, 8)
    at = slots_a + number * node
    image[at:at + node] = sealed(bare, uuid, at, 4)
    take(image, used)
    return [data + start * unit for start in starts]


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(make(*map(int, sys.argv[2:])))
