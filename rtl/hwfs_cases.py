# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures cases that the tables leave out: commands on a file of 1 KB in less favourable conditions, on one RAM disk
(hwfs_tables.py).

Units are 64 B, nodes 256 B. Each case is a separate script on a new volume; its figure is the cycles of one line.
"""

import tempfile
from pathlib import Path

import hwfs_tables
import make_volume

VOLUME = 4 << 20
WARM = "put warm 1 1"
FILE = "put file 1024 2"
# Name: (the lines before, the measured line).
CASES = {
    "put": ([WARM], FILE),
    "put_first_after_mount": ([], FILE),
    "put_behind_a_write_not_synced": ([WARM, "create 0 open 1024", "write 0 0 1024 5"], FILE),
    "delete": ([WARM, FILE, "get file 0 1024 2"], "delete file"),
    "delete_slot_to_be_read": ([WARM, FILE, "put other 1 3"], "delete file"),
    "delete_while_a_file_is_open": ([WARM, "put other 1024 3", FILE, "open 0 other"], "delete file"),
}
# Files of half the length, of which every other one is deleted: the free units are fragmented.
PIECES, PIECE = 33, 512
NAME_BYTES = (4, 16, 64)


def run(program, lines):
    """Status and cycles of each line, on a new volume that is mounted."""
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "volume"
        image.write_bytes(make_volume.make(VOLUME, 64, 256, 64))
        results = hwfs_tables.run(program, [f"load {image}", "mount", *lines])[1:]
    return [(result[0], int(result[2])) for result in results]


def cycles(program, lines):
    """Cycles of the last line; all lines must succeed."""
    results = run(program, lines)
    if any(status != "0" for status, _ in results):
        raise RuntimeError(f"{lines}: {results}")
    return results[-1][1]


def longest(program):
    """Bytes of the longest file that fits, in whole units."""
    fits, too_long = 0, VOLUME
    while too_long - fits > 64:
        middle = (fits + too_long) // 2 // 64 * 64
        status = run(program, [WARM, f"put filler {middle} 1"])[-1][0]
        fits, too_long = (middle, too_long) if status == "0" else (fits, middle)
    return fits


def in_pieces(program):
    """Cycles of the second put into fragments of free units; the first one also wraps at the end of the volume."""
    names = [f"p{index:03}" for index in range(PIECES)]
    lines = [WARM, f"put filler {longest(program) - (PIECES - 1) * PIECE} 1"]
    lines += [f"put {name} {PIECE} 1" for name in names[:-1]]
    lines += [f"delete {name}" for name in names[:-1:2]]
    return cycles(program, [*lines, "put first 1024 2", FILE])


def names(program):
    """Cycles of a put, a get and a delete, by the name's length."""
    for length in NAME_BYTES:
        name = "n" * length
        lines = [WARM, f"put {name} 1024 2", "put other 1 3", f"get {name} 0 1024 2", f"delete {name}"]
        results = run(program, lines)
        if any(status != "0" for status, _ in results):
            raise RuntimeError(f"{lines}: {results}")
        for what, line in (("put", 1), ("get", 3), ("delete", 4)):
            yield f"name_{length}_{what}", results[line][1]


def cases():
    """The rows of all cases."""
    program = hwfs_tables.build(1)
    found = {name: cycles(program, [*before, line]) for name, (before, line) in CASES.items()}
    found["put_into_pieces"] = in_pieces(program)
    found |= dict(names(program))
    return [[f"hwfs.case_1K_{name}", value, "cycles", None] for name, value in found.items()] + grown()


def grown():
    """The same commands with the program for grown tables: on a table that has not grown, and on one that has, where the file is in a
    bucket of the format, or in one that was added (of 56 added to 8). The goals are the cycles of the other program on a volume with the same
    units in use, and 5 % more on a table that has grown."""
    program, rows = hwfs_tables.build(1, program_log2=13), []
    for file in ("1K", "100K"):
        for what, added in (("not_grown", 0), ("near", 1), ("far", 56)):
            then = hwfs_tables.measure(hwfs_tables.build(1), 64, [file], added, has_grown=False)[file]
            now = hwfs_tables.measure(program, 64, [file], added)[file]
            for verb, value, before in zip(("get", "put", "delete"), now, then):
                rows.append([f"hwfs.grown_{file}_{verb}_{what}", value, "cycles", f"<= {before if added == 0 else before * 1.05:.0f}"])
    return rows
