#!/usr/bin/env python3
"""Makes an empty volume from FORMAT.md alone, also for devices with blocks of 64 bytes, which plain files
under the command do not have.

    make_volume.py FILE SIZE_BYTES UNIT_BYTES NODE_BYTES SLOTS [BLOCK_BYTES]
"""

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
    """The node with its checksum, which covers the identity, the address and all but itself."""
    crc = crc32c(identity + address.to_bytes(8, "little") + node[:field] + node[field + 4:])
    return node[:field] + crc.to_bytes(4, "little") + node[field + 4:]


def put(node, offset, value, size):
    node[offset:offset + size] = value.to_bytes(size, "little")


def make(size, unit, node, slots, block=64):
    """The image as a bytearray."""
    if any(value & (value - 1) for value in (unit, node, block)):
        raise ValueError("units, nodes and blocks are powers of two")
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


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(make(*map(int, sys.argv[2:])))
