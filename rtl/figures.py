#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures RAM disks and arrays; `tools/figures raid0` compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file in its argument.
"""

import json
import subprocess
import sys
from pathlib import Path

import benches
import sizes

# A memory model that matches the one-disk figures of 2012: a read takes 24 + 1.25 cycles a word, a write
# 9 + 1.28, at 32 bits.
MODEL = {"ReadLatency": 25, "ReadRateWords": 4, "ReadRateCycles": 5,
         "WriteLatency": 8, "WriteRateWords": 25, "WriteRateCycles": 32}
FIT = {"read": (24, 1.25), "write": (9, 1.28)}
REQUEST_BLOCKS = 64  # 4 KiB, of 64 B


def bench(name, **parameters):
    shape = {"BlockSizeLog2": 6, "UpWidth": 32, "DiskWidth": 32, "Disks": 1, "StripeBlocks": 8, **parameters}
    program = benches.build(f"figures_{name}", "ramdisk_sim", "ramdisk_bench.cpp", shape, fast=True)

    def measure(*arguments):
        done = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{name} {arguments}: {done.stdout}")
        return float(done.stdout.split()[1])

    return measure


def line(points):
    """The least-squares line through (x, y): (intercept, slope)."""
    n = len(points)
    mean_x, mean_y = (sum(column) / n for column in zip(*points))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def main():
    rows = []
    single = bench("one", **MODEL)
    ideal = bench("ideal")
    one = {}
    for op in ("read", "write"):
        points = [(blocks * 16, single("single", op, blocks, 200)) for blocks in (1, 2, 4, 8, 16)]
        intercept, slope = line(points)
        rows.append([f"raid0.one_disk_{op}_fixed_cycles", intercept, "cycles", None])
        rows.append([f"raid0.one_disk_{op}_word_cycles", slope, "cycles/word", None])
        worst = max(abs(cycles - (FIT[op][0] + FIT[op][1] * words)) for words, cycles in points)
        rows.append([f"raid0.one_disk_{op}_off_the_model_cycles", worst, "cycles", "<= 1"])
        one[op] = single("stream", op, REQUEST_BLOCKS, 100000)
        rows.append([f"raid0.one_disk_{op}_stream", one[op], "words/cycle", None])
        rows.append([f"raid0.ideal_disk_{op}_stream", ideal("stream", op, REQUEST_BLOCKS, 100000), "words/cycle", None])
        extra = ideal("single", op, 1, 200) - 16
        rows.append([f"raid0.ideal_disk_{op}_beyond_raw_cycles", extra, "cycles", None])
    for disks, up, target in ((2, 64, ">= 1.95"), (4, 128, ">= 3.8"), (2, 32, None)):
        array = bench(f"{disks}_disks_{up}", Disks=disks, UpWidth=up, **MODEL)
        for op in ("read", "write"):
            rate = array("stream", op, REQUEST_BLOCKS, 100000) * up / 32
            rows.append([f"raid0.{disks}_disks_{up}_bits_{op}_speedup", rate / one[op], "times", target])
    shape = {"Disks": 2, "Mirror": 0, "UpWidth": 64, "DiskWidth": 32, "BlockSizeLog2": 6, "StripeBlocks": 4,
             "SlotBlocks": 4, "Async": 0, "DiskBlocks": 2048}
    program = benches.build("figures_speed", "raid0_sim", "array_bench.cpp", shape, fast=True)
    runs = [subprocess.run([program, "speed", "1000000"], stdout=subprocess.PIPE, text=True).stdout.split()
            for _ in range(3)]
    rows.append(["raid0.simulation_speed", max(float(words[1]) for words in runs), "Mcycles/s", ">= 2"])
    for name in (name for name in sizes.CONFIGURATIONS if name.startswith(("block", "ramdisk", "raid"))):
        for family in sizes.FAMILIES:
            size = sizes.measure(name, family)
            rows.append([f"raid0.size_{name}_{family}_lut", size["lut"] + size["lutram"], "LUT", None])
            rows.append([f"raid0.size_{name}_{family}_ff", size["ff"], "FF", None])
            rows.append([f"raid0.size_{name}_{family}_bram", size["bram"], "36 Kib", None])
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
