#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the link between nodes: the share of the blocks that are payload, latency, recovery, its size; `tools/figures link`
compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file in its argument.
"""

import json
import subprocess
import sys
from pathlib import Path

import benches
import sizes

SHAPE = {"WindowLog2": 10, "FrameWords": 128, "DeadLog2": 13, "SlipBlocks": 32}
SEED = 1
# Words of the longest frame, and the blocks that it takes with the idle block behind it.
FRAME = SHAPE["FrameWords"] / (SHAPE["FrameWords"] + 3)


def bench(*words):
    """What the bench prints: words of each line."""
    program = benches.build("link_figures", "link_sim", "link/link_bench.cpp", SHAPE, fast=True, core="link_sim")
    output = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split() for line in output.splitlines()]


def rates():
    for name, packet, delay, target in (("long_packets", 100000, 40, ">= 97"), ("line_300_blocks", 100000, 300, ">= 97"),
                                        ("packets_16_words", 16, 40, None), ("packets_1_word", 1, 40, None)):
        rate = min(float(rate) for _, rate in bench("rate", packet, delay))
        yield f"link.{name}_share", 100 * rate, "% of the blocks' payload", target
        if packet > SHAPE["FrameWords"]:
            yield f"link.{name}_share_of_framing", 100 * rate / FRAME, "% of the framing's payload limit", ">= 97"


def latencies():
    found = {name: int(cycles) for name, cycles in bench("latency", SEED)}
    yield "link.latency_one_word", found["plain_1"], "cycles without the line", None
    yield "link.latency_half_load", found["plain_50"], "cycles without the line", None
    for what, longest, bound in bench("recover", SEED, 50):
        yield f"link.pause_after_{what}", int(longest), "cycles, line of 40 blocks", f"<= {bound}"


def size_rows():
    for name in (name for name in sizes.CONFIGURATIONS if name.split("_")[0] == "link"):
        size = sizes.measure(name, "xc7")
        yield f"link.size_{name}_lut", size["lut"] + size["lutram"], "LUT cells", None
        yield f"link.size_{name}_sites", size["sites"], "LUT6 sites", None
        yield f"link.size_{name}_ff", size["ff"], "FF", None
        yield f"link.size_{name}_bram", size["bram"], "36 Kib", None


def main():
    rows = [*rates(), *latencies(), *size_rows()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
