#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the virtio-blk device on an ideal disk and on the Serial ATA host, and the rate of that host alone;
`tools/figures virtio` compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file in its argument.
"""

import json
import subprocess
import sys
from pathlib import Path

import benches
import sata_faults
import sizes

# 4 KiB are 1,024 words, 64 KiB are 16,384; the device adds the other cycles.
GOALS = {"4096": "<= 1150", "65536": "<= 16600"}
SHAPE = {"Requests": 1, "External": 0, "Sata": 0, "Queues": 1, "BlockSizeLog2": 9, "Disks": 1, "DiskBlocks": 1024,
         "MaxTransfer": 0, "Cached": 0}
SATA = {"Sata": 1, "DiskBlocks": 49152}
# Cycles that a drive needs for a command: a random read of a flash drive, 100 us of a line of 3 Gb/s.
DRIVE = 7500


def bench(name, **parameters):
    return benches.build(name, "virtio_sim", "virtio/virtio_bench.cpp", SHAPE | parameters, fast=True, core="virtio_sim")


def ideal():
    """Cycles of a request on an ideal disk."""
    lines = subprocess.run([bench("virtio_figures"), "rate"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    for op, size, cycles in map(str.split, lines):
        yield f"virtio.{op}_{size}", float(cycles), "cycles", GOALS[size]


def over_sata():
    """The same on the Serial ATA host, in segments of 4 KiB as Linux sends them, with one request in flight and with eight."""
    programs = {number: bench(f"virtio_figures_sata_{number}", Requests=number, **SATA) for number in (1, 8)}
    core = benches.build("sata_figures", "sata_sim", "sata/sata_bench.cpp", {"Ncq": 1, "TimeoutCycles": 20000}, fast=True,
                             core="sata_sim")

    def rate(number, op, places, size, depth, latency, requests):
        words = [programs[number], "sata", op, places, *map(str, (size, depth, latency, requests))]
        return float(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0])

    def own(op, size, depth, requests):
        return float(sata_faults.run(core, "rate", op, "queued", str(size // 512), str(depth), "0", str(requests)).split()[1])

    for op in ("read", "write"):
        alone = own(op, 65536, 4, 20)
        for number in programs:
            share = alone / rate(number, op, "sequential", 65536, 4, 0, 20)
            yield f"virtio.sata_{op}_64k_requests_{number}_share", share, "of the core's own rate", ">= 0.95"
    for depth in (1, 8):
        alone = own("read", 4096, depth, 100)
        for number in programs:
            cycles = rate(number, "read", "random", 4096, depth, 0, 100)
            yield f"virtio.sata_random_read_4k_qd{depth}_requests_{number}", cycles, "cycles", None
            yield f"virtio.sata_random_read_4k_qd{depth}_requests_{number}_share", alone / cycles, "of the core's own rate", None
            cycles = rate(number, "read", "random", 4096, depth, DRIVE, 10 * depth + 10)
            yield f"virtio.sata_random_read_4k_qd{depth}_requests_{number}_slow", cycles, "cycles", None


def size_rows():
    for name in (name for name in sizes.CONFIGURATIONS if name.startswith("virtio_blk")):
        for family in sizes.FAMILIES:
            size = sizes.measure(name, family)
            yield f"virtio.size_{name}_{family}_lut", size["lut"] + size["lutram"], "LUT cells", None
            yield f"virtio.size_{name}_{family}_sites", size["sites"], "LUT6 sites", "<= 1500" if name == "virtio_blk" else None
            yield f"virtio.size_{name}_{family}_ff", size["ff"], "FF", None
            yield f"virtio.size_{name}_{family}_bram", size["bram"], "36 Kib", None


def main():
    rows = [*ideal(), *over_sata(), *size_rows()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
