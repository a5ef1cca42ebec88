#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures remote disks: rates of 1, 4 and 8 of them, cycles of overhead a frame, single requests, sizes; `tools/figures aoe`
compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file in its argument.
"""

import json
import subprocess
import sys
from pathlib import Path

import benches
import sizes

DISKS = (1, 4, 8)
# Least speed-up by this number of disks.
TARGETS = {4: 3.8, 8: 7.6}
SHAPE = {"SectorsLog2": 1, "StripeBlocks": 8, "DiskBlocks": 2048, "Delay": 50, "Linked": 0}


def program(disks, **more):
    """The bench for so many disks, each behind a line of its own that carries a word of 32 bits in each cycle."""
    return benches.build(f"aoe_array_{disks}", "aoe_array_sim", "aoe/aoe_array_bench.cpp",
                             SHAPE | {"Disks": disks, "UpWidth": 32 * disks} | more, fast=True, core="aoe_array_sim", level="-O1")


def bench(disks, *words):
    """What the bench prints: names and numbers."""
    output = subprocess.run([program(disks), *map(str, words)], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return dict(zip(output[::2], map(int, output[1::2])))


def rates():
    single = {}
    for disks in DISKS:
        bench(disks, "random", 1, 20000)
        # The same length for each disk.
        found = bench(disks, "speed", 16 * disks, 1024 * disks)
        assert found["again"] == 0
        for what in ("write", "read"):
            rate = found["words"] / found[what]
            if disks == 1:
                single[what] = rate
                yield f"aoe.{what}_share_of_the_line", 100 * rate, "% of the line's words", ">= 90"
                # The writes' or reads' data are that many words; the rest of the time is overhead.
                yield (f"aoe.{what}_overhead_a_frame", (found[what] - found["words"]) / found[f"{what}_frames"],
                       "cycles a frame of two sectors", "<= 20")
            else:
                yield f"aoe.{what}_speedup_{disks}_disks", rate / single[what], "x one remote disk", f">= {TARGETS[disks]}"
    found = bench(1, "single")
    for what in ("write", "read"):
        yield f"aoe.{what}_one_block", found[what], "cycles, 512 B, line of 50 cycles each way", None


def size_rows():
    for name in (name for name in sizes.CONFIGURATIONS if name.split("_")[0] == "aoe"):
        size = sizes.measure(name, "xc7")
        yield f"aoe.size_{name}_lut", size["lut"] + size["lutram"], "LUT cells", None
        yield f"aoe.size_{name}_sites", size["sites"], "LUT6 sites", None
        yield f"aoe.size_{name}_ff", size["ff"], "FF", None
        yield f"aoe.size_{name}_bram", size["bram"], "36 Kib", None


def main():
    rows = [*rates(), *size_rows()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
