# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Volumes whose files have data checksums, and the locations of checksums and data in an image.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import random

import hwfs_script as hw

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1
CHUNK = 65536


def seeded(name):
    print(f"STRAIGHTWAY_SEED={SEED} {name}")
    return random.Random(f"{SEED} {name}")


def volume_with(path, files, plain=(), unit=512, node=512, size="4M", slots=64):
    """A volume whose files have data checksums, except those in `plain`."""
    hw.command("format", path, "--size", size, "--unit", unit, "--node", node, "--slots", slots, "--checksums")
    for name, data in files.items():
        source = path.parent / "source"
        source.write_bytes(data)
        hw.command("put", path, source, name, "--no-checksums" if name in plain else "--checksums")
    return path


def slot_of(image, name):
    """The offsets of the members of a file's slot in the image."""
    data = image.read_bytes()
    node = 1 << data[49]
    tables = [int.from_bytes(data[at:at + 8], "little") for at in (72, 80)]
    places = [table + slot * node for slot in range(8 << data[50]) for table in tables]
    return [at for at in places if data[at + 80:at + 80 + len(name) + 1] == name.encode() + b"\0"]


def extents(image, name):
    """The extents in the file's slot as (first unit, units), the offset of unit 0, and the unit's size in bytes."""
    data = image.read_bytes()
    unit = 1 << data[48]
    start = int.from_bytes(data[104:112], "little")
    at = max((int.from_bytes(data[at + 8:at + 16], "little"), at) for at in slot_of(image, name))[1]
    assert data[at + 57] == 0, "the map has leaves"
    count = int.from_bytes(data[at + 60:at + 64], "little")
    entries = [data[at + 144 + 16 * place:at + 160 + 16 * place] for place in range(count)]
    return [(int.from_bytes(entry[:8], "little"), int.from_bytes(entry[8:12], "little")) for entry in entries], start, unit


def place_in_file(image, name, unit_of_file, byte):
    """The offset in the image of a byte of a unit of the file, checksum units included."""
    found, start, unit = extents(image, name)
    for first, units in found:
        if unit_of_file < units:
            return start + (first + unit_of_file) * unit + byte
        unit_of_file -= units
    raise AssertionError("the unit does not exist")


def place_of_byte(image, name, byte):
    unit = extents(image, name)[2]
    number = byte // unit
    return place_in_file(image, name, number + number // 16384 + 1, byte % unit)


def place_of_sum(image, name, chunk):
    unit = extents(image, name)[2]
    return place_in_file(image, name, chunk // (unit // 4) * 16385, chunk % (unit // 4) * 4)


def create(script, file, name, reserve=0):
    """Stores a new file with data checksums."""
    script.command(3, file, 2, 0, reserve, name)


def empty_volume(path, unit=512, size="4M", node=512, slots=64):
    hw.command("format", path, "--size", size, "--unit", unit, "--node", node, "--slots", slots, "--checksums")
    return path


def checked(path):
    """`straightway check` finds the volume sound, and each chunk of each file with checksums as it was written."""
    hw.command("check", path, "--read-data")
