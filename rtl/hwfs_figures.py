#!/usr/bin/env python3
"""Measures the file system core in cycles, beside the tables of 2012; `tools/figures hwfs` compares.

Writes a JSON list of [name, value, unit, target] to the file named, and prints the tables. Further arguments
choose parts: `cycles`, `size`.

A cell is one command from its offer to its answer: a put of a whole file (create, write, sync) or a get by
name (open, read), with the file's slot not in memory. Units are the column's, nodes 256 B, device blocks 64 B.
The volume is mounted, in use, and its bitmap in memory, which the first put brings about.
"""

import json
import sys
import tempfile
from pathlib import Path

import sizes

sys.path.insert(0, str(Path(__file__).resolve().parent / "test"))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402

# The memory that fits the one-disk figures of 2012: a read takes 24 + 1.25 cycles a word, a write 9 + 1.28. One
# model has one rate for both directions, so each direction has its own run.
DISK = {"read": {"read_latency": 24, "write_latency": 9, "rate_words": 4, "rate_cycles": 5},
        "write": {"read_latency": 24, "write_latency": 9, "rate_words": 25, "rate_cycles": 32}}
# The dissertation's one RAM disk: cycles by file and block size, read and write.
THEN = {"1K": (928, 1254, 1962, 940, 2830, 5177), "10K": (7359, 4580, 5128, 5230, 5955, 8302),
        "100K": (70984, 38097, 36632, 48300, 39156, 39665), "1M": (718e3, 376e3, 355e3, 490e3, 357e3, 354e3)}
BYTES = {"1K": 1 << 10, "10K": 10 << 10, "100K": 100 << 10, "1M": 1 << 20}
UNITS = (64, 512, 1024)
OPTIONS = {"cached": 1}


def program():
    return hw.build("figures", fast=True, BlockSizeLog2=6, NodeLog2Max=8, TimeoutCycles=1_000_000)


def measure(bench, folder, unit, size, model):
    """Cycles of a get, a put and a delete of one file of this size."""
    image = folder / f"volume_{unit}"
    image.write_bytes(make_volume.make(4 << 20, unit, 256, 64))
    data = bytes(index * 7 & 255 for index in range(size))
    script = hw.Session(bench, folder, image, **OPTIONS, **model)
    script.mount()
    script.put("warm", b"x")
    script.put("file", data)
    script.put("other", b"y")
    script.get("file", 0, size, "out")
    script.delete("file")
    results = script.run()
    if any(result.status != hw.OK for result in results) or (folder / "out").read_bytes() != data:
        raise RuntimeError(f"{unit} {size}: {results}")
    return results[4].cycles, results[2].cycles, results[5].cycles


def cycles():
    """The tables, printed; and their rows."""
    bench, rows, table = program(), [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, size in BYTES.items():
            raw, cells = size // 4, []
            for direction, place in (("read", 0), ("write", 1)):
                for column, unit in enumerate(UNITS):
                    cycles = measure(bench, folder, unit, size, DISK[direction])[place]
                    then = THEN[file][3 * place + column]
                    rows.append([f"hwfs.one_disk_{file}_{direction}_{unit}", cycles, "cycles", f"< {then:g}"])
                    cells.append(f"{cycles} ({100 * raw / cycles:.1f} %), {then:g}")
            table.append(f"| {file} | " + " | ".join(cells) + " |")
        print("One RAM disk, 32 bits: cycles (efficiency), and those of 2012\n\n"
              "| file | R64 | R512 | R1024 | W64 | W512 | W1024 |\n| --- | --- | --- | --- | --- | --- | --- |")
        print("\n".join(table))
        get, put, delete = measure(bench, folder, 64, 1024, {})
        rows.append(["hwfs.ideal_1K_get_beyond_raw", get - 256, "cycles", "<= 100"])
        rows.append(["hwfs.ideal_1K_put_beyond_raw", put - 256, "cycles", "<= 250"])
        rows.append(["hwfs.ideal_1K_delete", delete, "cycles", None])
        _, _, delete = measure(bench, folder, 64, 1024, DISK["write"])
        rows.append(["hwfs.one_disk_1K_delete", delete, "cycles", "< 527"])
        get, put, _ = measure(bench, folder, 1024, 1 << 20, {})
        rows.append(["hwfs.ideal_1M_read_efficiency", 100 * (1 << 18) / get, "%", ">= 99"])
        rows.append(["hwfs.ideal_1M_write_efficiency", 100 * (1 << 18) / put, "%", ">= 99"])
    return rows


def size():
    """Rows of the core's size in each configuration of sizes.py."""
    rows = []
    for name in (name for name in sizes.CONFIGURATIONS if name.startswith("hwfs")):
        for family in sizes.FAMILIES:
            counts = sizes.measure(name, family)
            rows.append([f"hwfs.size_{name}_{family}_lut", counts["lut"] + counts["lutram"], "LUT",
                         "<= 2600" if name == "hwfs_32" else None])
            rows.append([f"hwfs.size_{name}_{family}_ff", counts["ff"], "FF", None])
            rows.append([f"hwfs.size_{name}_{family}_bram", counts["bram"], "36 Kib",
                         "<= 6" if name == "hwfs_32" else None])
    return rows


def main():
    parts = {"cycles": cycles, "size": size}
    rows = [row for name in sys.argv[2:] or parts for row in parts[name]()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
