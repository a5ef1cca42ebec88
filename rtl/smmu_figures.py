#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the storage memory management unit: cycles of hits and misses, the rate of a master that streams, its size, and
the same stream through the file system core. `tools/figures map` compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file in its argument.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import benches
import hwfs_figures
import sizes

# Name: pages of 4 KiB and of 64 KiB, on a drive of 1 MiB and 4 MiB that moves a word in each cycle.
SHAPES = {
    "4k": {"PageLog2": 12, "Frames": 128, "DrivePages": 256},
    "64k": {"PageLog2": 16, "Frames": 32, "DrivePages": 64},
}
BASE = {"BlockSizeLog2": 9, "TlbEntries": 64, "WindowBits": 40, "External": 1, "Sata": 0, "Disks": 1}
# A word of 32 bits in a cycle.
PORT = 4
MIB = 1 << 20


def cycles(name):
    """What the bench prints, by name."""
    program = benches.build(f"smmu_figures_{name}", "smmu_sim", "smmu/smmu_bench.cpp", BASE | SHAPES[name], fast=True,
                                core="smmu_sim")
    output = subprocess.run([program, "rates"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name: float(value) for name, value in map(str.split, output.splitlines())}


def rates():
    for name in SHAPES:
        found = cycles(name)
        yield f"map.rtl_hit_added_{name}", found["hit_added"], "cycles", "<= 4"
        yield f"map.rtl_write_hit_{name}", found["write_hit"], "cycles", None
        if "walked" in found:
            yield f"map.rtl_tlb_miss_{name}", found["walked"], "cycles", None
        yield f"map.rtl_miss_{name}", found["miss"], "cycles", None
        yield f"map.rtl_miss_all_dirty_{name}", found["miss_all_dirty"], "cycles", None
        for latency in (0, 500, 2000):
            for ahead in (0, 1, 3):
                rate = found[f"stream_latency_{latency}_ahead_{ahead}"]
                target = ">= 95" if (latency, ahead) == (0, 3) else None
                yield f"map.rtl_stream_{name}_latency_{latency}_ahead_{ahead}", 100 * rate / PORT, "% of the block port", target
        for length in (1, 4, 16, 64):
            yield f"map.rtl_stream_{name}_resident_bursts_of_{length}", found[f"stream_resident_{length}"], "B a cycle", None


def through_hwfs():
    """The same stream of 1 MiB as a file of the file system core, on an ideal drive."""
    with tempfile.TemporaryDirectory() as folder:
        get, _, _ = hwfs_figures.measure(hwfs_figures.program(), Path(folder), 4096, MIB)
    yield "map.rtl_stream_hwfs", 100 * MIB / get / PORT, "% of the block port", None


def size_rows():
    for family in sizes.FAMILIES:
        size = sizes.measure("smmu", family)
        yield f"map.rtl_size_{family}_lut", size["lut"] + size["lutram"], "LUT cells", "<= 3000"
        yield f"map.rtl_size_{family}_sites", size["sites"], "LUT6 sites", None
        yield f"map.rtl_size_{family}_ff", size["ff"], "FF", None
        yield f"map.rtl_size_{family}_bram", size["bram"], "36 Kib", "<= 12"


def main():
    rows = [*rates(), *through_hwfs(), *size_rows()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
