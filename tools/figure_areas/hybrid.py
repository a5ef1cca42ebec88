# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hybrid direct I/O by the side of the page cache and of direct I/O: rates, and the counts behind them.

Every cell of sequential reads and writes of 4 KiB to 16 MiB, of a block device and of a file on ext4, with the flush at the end
of writes included and nothing cached at the beginning. `counts` boots with the counting plugin; `rates` is one boot. In both the
paths of a cell follow each other, round after round. The better path is the one with the lower median, and a figure is the median
of the rounds' ratios to it: the lower of two in each round would be a mark that neither path reaches. `_spread` is the distance
between the first and the third quarter of these ratios, in percent points.
"""

import os
import statistics
import subprocess

from .chario import lab
from .support import ROOT, build_example

OUT = ROOT / "out" / "hybrid"
SIZES = (4 << 10, 128 << 10, 1 << 20, 16 << 20)
PATHS = ("buffered", "direct", "ring", "hybrid")
DISKS = {"block": ("/dev/nvme0n1", "nvme0n1"), "ext4": ("/tmp/ext4/file", "nvme1n1")}
TOTAL = 192 << 20
SHORT_TOTAL = 32 << 20
RANDOM = 8 << 20
COUNTED = 16 << 20
COUNTED_SHORT = 2 << 20
DRIVES = ("--drive", "size=512M", "--drive", "size=512M", "--memory", "2G")
PREPARE = """set -e
mkfs.ext4 -q -F /dev/nvme1n1; mkdir -p /tmp/ext4; mount /dev/nvme1n1 /tmp/ext4; fallocate -l MIBM /tmp/ext4/file
head -c 1M /dev/urandom >/tmp/mib
for target in /tmp/ext4/file /dev/nvme0n1; do
  # Blocks that were never written would be read without a command.
  for i in $(seq MIB); do cat /tmp/mib; done | dd of=$target bs=1M iflag=fullblock conv=notrunc,fsync status=none
done
"""


def rounds():
    return int(os.environ.get("STRAIGHTWAY_ROUNDS", "7"))


def amount(size, most):
    short = SHORT_TOTAL if most == TOTAL else COUNTED_SHORT
    return most if size > 4 << 10 else short


def cells(most=TOTAL):
    """(where, operation, pattern, size, total, paths) of each cell, with at most so many bytes."""
    for where in DISKS:
        for operation in ("read", "write"):
            for size in SIZES:
                yield where, operation, "sequential", size, amount(size, most), PATHS
    for where in DISKS if most == TOTAL else ():
        yield where, "read", "random", 4 << 10, RANDOM, ("direct", "ring", "hybrid")


def runs(most=TOTAL):
    return [(*cell[:5], path) for cell in cells(most) for path in cell[5]]


def name(where, operation, pattern, size):
    kind = operation if pattern == "sequential" else f"random_{operation}"
    return f"hybrid.{where}_{kind}_{size >> 10}k"


def script(program, most=TOTAL):
    lines = []
    for where, operation, pattern, size, total, path in runs(most):
        file, disk = DISKS[where]
        lines.append(f"{program} {file} {disk} {path} {operation} {pattern} {size} {total}")
    return lines


def spoken(printed):
    """The numbers of each line of numbers."""
    lines = (line.split() for line in printed.splitlines())
    return [list(map(int, words)) for words in lines if words and all(word.isdigit() for word in words)]


def ratios(cell, references, costs=True):
    """100 times our cost over that of the better reference, or its inverse, a round each."""
    better = min(references, key=lambda path: statistics.median(cell[path]))
    pairs = zip(cell["hybrid"], cell[better], strict=True)
    return [100 * ours / theirs if costs else 100 * theirs / ours for ours, theirs in pairs]


def add_ratio(figures, label, values, target):
    quarters = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
    figures.add(label, round(statistics.median(values)), "%", target)
    figures.add(f"{label}_spread", round(quarters[2] - quarters[0]), "%")


def hybrid_counts(figures):
    """Instructions of user space and kernel, without waiting, and commands, of each path."""
    OUT.mkdir(parents=True, exist_ok=True)
    program = build_example("straightway-figures", "hybrid_io")
    counter = ROOT / "build" / "chario" / "count"
    counter.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-static", "-I", ROOT / "kernel/chario", "-I", ROOT / "lab/count",
                    "-o", counter, ROOT / "tests/chario/count.c"], check=True)  # fmt: skip
    output = OUT / "counts.txt"
    # The first program tells the plugin where the kernel waits; its own lines are dropped.
    every = runs(COUNTED) * rounds()
    lines = [PREPARE.replace("MIB", "64"), f"{counter} empty /dev/nvme0n1 4096 1", *script(program, COUNTED) * rounds()]
    printed = lab("\n".join(lines), "--count", str(output), "--icount", "0", *DRIVES)
    rows = [list(map(int, line.split())) for line in output.read_text().splitlines()][-len(every) :]
    found = {}
    for run, row, words in zip(every, rows, spoken(printed)[-len(every) :], strict=True):
        found.setdefault(run, []).append((row[1] + row[2], words[1]))
    for where, operation, pattern, size, total, paths in cells(COUNTED):
        label = name(where, operation, pattern, size)
        cell = {path: found[where, operation, pattern, size, total, path] for path in paths}
        instructions = {path: [pair[0] for pair in pairs] for path, pairs in cell.items()}
        for path, pairs in cell.items():
            mib = total >> 20
            figures.add(f"{label}_{path}_instructions_per_mib", round(statistics.median(instructions[path]) / mib), "instructions/MiB")
            figures.add(f"{label}_{path}_commands", round(statistics.median(pair[1] for pair in pairs)), "commands")
        if pattern == "sequential":
            add_ratio(figures, f"{label}_instructions_percent_of_better", ratios(instructions, ("buffered", "direct")), "<= 100")


def rates(figures):
    program = build_example("straightway-figures", "hybrid_io")
    lines = [PREPARE.replace("MIB", "256"), *script(program) * rounds()]
    times = {}
    for run, words in zip(runs() * rounds(), spoken(lab("\n".join(lines), *DRIVES)), strict=True):
        times.setdefault(run, []).append(words[0])
    for where, operation, pattern, size, total, paths in cells():
        label = name(where, operation, pattern, size)
        cell = {path: times[where, operation, pattern, size, total, path] for path in paths}
        for path, each in cell.items():
            figures.add(f"{label}_{path}_mib_per_s", round((total >> 20) / (statistics.median(each) / 1e6)), "MiB/s")
        is_sequential = pattern == "sequential"
        references, of = (("buffered", "direct"), "better") if is_sequential else (("direct", "ring"), "direct")
        add_ratio(figures, f"{label}_rate_percent_of_{of}", ratios(cell, references, costs=False), ">= 97")


def hybrid(figures):
    hybrid_counts(figures)
    rates(figures)
