#!/usr/bin/env python3
"""Measures the virtio-blk device over a disk that costs nothing; `tools/figures virtio` compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file named.
"""

import json
import subprocess
import sys
from pathlib import Path

import cores
import sizes

# 4 KiB are 1,024 words, 64 KiB are 16,384: what is beyond is the front end's.
GOALS = {"4096": "<= 1150", "65536": "<= 16600"}


def main():
    program = cores.build_bench("virtio_figures", "virtio_sim", "virtio/virtio_bench.cpp",
                                {"Queues": 1, "BlockSizeLog2": 9, "Disks": 1, "DiskBlocks": 1024, "MaxTransfer": 0, "Cached": 0},
                                fast=True, core="virtio_sim")
    lines = subprocess.run([program, "rate"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    rows = []
    for op, size, cycles in map(str.split, lines):
        rows.append([f"virtio.{op}_{size}", float(cycles), "cycles", GOALS[size]])
    for name in ("virtio_blk", "virtio_blk_four_queues"):
        for family in sizes.FAMILIES:
            size = sizes.measure(name, family)
            rows.append([f"virtio.size_{name}_{family}_lut", size["lut"] + size["lutram"], "LUT cells", None])
            rows.append([f"virtio.size_{name}_{family}_sites", size["sites"], "LUT6 sites", "<= 1500" if name == "virtio_blk" else None])
            rows.append([f"virtio.size_{name}_{family}_ff", size["ff"], "FF", None])
            rows.append([f"virtio.size_{name}_{family}_bram", size["bram"], "36 Kib", None])
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
