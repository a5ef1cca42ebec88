# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the tables 4.1 and 4.3 and the plots 4.3 to 4.5 of 2012 on the file system core with RAM disks.

A cell is one command from its offer to its response: a put of a whole file (create, write, sync) or a get by
name (open, read), with the file's slot not in memory. The column gives the units; nodes have 256 B, device blocks 64 B,
all streams 32 bits. The volume is mounted, marked as in use, and its bitmap is in memory, because of an earlier put.
"""

import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import benches
import cores
import make_volume

# A memory model for each RAM disk that matches the one-disk figures of 2012: a read takes 24 + 1.25 cycles a word, a
# write 9 + 1.28.
MEMORY = {"ReadLatency": 25, "ReadRateWords": 4, "ReadRateCycles": 5,
          "WriteLatency": 8, "WriteRateWords": 25, "WriteRateCycles": 32}
# Cycles of 2012, by disks and file: columns as in COLUMNS.
THEN = {
    1: {"1K": (928, 1254, 1962, 940, 2830, 5177), "10K": (7359, 4580, 5128, 5230, 5955, 8302),
        "100K": (70984, 38097, 36632, 48300, 39156, 39665), "1M": (718e3, 376e3, 355e3, 490e3, 357e3, 354e3),
        "10M": (7.18e6, 3.744e6, 3.535e6, 4.897e6, 3.548e6, 3.482e6),
        "100M": (71.793e6, 37.433e6, 35.332e6, 48.965e6, 35.453e6, 34.769e6)},
    2: {"1K": (840, 1069, 1705, 1308, 2187, 3686), "10K": (6617, 3447, 4048, 7833, 5085, 6287),
        "100K": (63663, 27435, 27445, 73469, 34409, 32170), "1M": (640e3, 275e3, 269e3, 740e3, 337e3, 302e3),
        "10M": (6.43e6, 2.747e6, 2.67e6, 7.47e6, 3.354e6, 2.986e6),
        "100M": (64.328e6, 27.468e6, 26.784e6, 74.68e6, 33.53e6, 29.838e6)},
}
BYTES = {"1K": 1 << 10, "10K": 10 << 10, "100K": 100 << 10, "1M": 1 << 20, "10M": 10 << 20, "100M": 100 << 20}
UNITS = (64, 512, 1024)
COLUMNS = [(direction, unit) for direction in ("read", "write") for unit in UNITS]
# The memory's limit in percent of a word per cycle: an upper bound of a long file's efficiency.
ALLOWED = {(1, "read"): 80.0, (1, "write"): 78.125, (2, "read"): 100.0, (2, "write"): 100.0}
NAMES = {1: "one_disk", 2: "two_disks"}


def build(disks, width=32, program_log2=12):
    """The bench on this number of RAM disks, with streams of this width. Stripes of 512 B."""
    name = f"hwfs_disks_{disks}_{width}" + ("_grown" if program_log2 > 12 else "")
    return benches.build(name, "hwfs_disks_sim", "hwfs_disks_bench.cpp",
                             {"Disks": disks, "DataWidth": width, "DiskWidth": 32, "BlockSizeLog2": 6,
                              "StripeBlocks": 8, "DiskBlocks": (128 << 20) // 64, "ProgramLog2": program_log2, **MEMORY}, fast=True)


def run(program, lines):
    """Runs a script; returns the words of each line that it prints."""
    done = subprocess.run([program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{program}: {done.stdout[-500:]}")
    return [line.split() for line in done.stdout.splitlines()]


def measure(program, unit, files, added=0, has_grown=True):
    """Cycles of {file: (get, put, delete)}, each on a new volume, whose table has grown by this number of buckets, or of whose units as many are
    in use otherwise."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            size = BYTES[file]
            image = Path(folder) / "volume"
            volume = make_volume.make(max(4 << 20, size + size // 8), unit, 256, 64)
            extent = (max(1, 4096 // unit), added * max(1, 4096 // unit))
            if added and has_grown:
                make_volume.grow(volume, [extent], added)
            elif added:
                make_volume.take(volume, [(0, max(1, 512 // unit)), extent])
            image.write_bytes(volume)
            results = run(program, [f"load {image}", "mount", "put warm 1 1", f"put file {size} 2", "put other 1 3",
                                    f"get file 0 {size} 2", "delete file", "unmount"])
            if any(result[0] != "0" for result in results):
                raise RuntimeError(f"{unit} {file}: {results}")
            found[file] = tuple(int(results[index][2]) for index in (4, 2, 5))
    return found


def rows_of(disks, cells):
    """The figures of one table. Targets: each cell is below that of 2012, and long files are close to the memory's limit."""
    rows = []
    for (file, direction, unit), cycles in cells.items():
        then = THEN[disks][file][COLUMNS.index((direction, unit))]
        rows.append([f"hwfs.{NAMES[disks]}_{file}_{direction}_{unit}", cycles, "cycles", f"< {then:g}"])
    for (file, direction, unit), cycles in cells.items():
        if file == "100M":
            most = ALLOWED[disks, direction]
            rows.append([f"hwfs.{NAMES[disks]}_{file}_{direction}_{unit}_efficiency",
                         100 * BYTES[file] / 4 / cycles, "%", f">= {most * 0.99:g}"])
    return rows


def table(disks, cells):
    """The table as text: cycles, efficiency, the cycles of 2012 and whether they are fewer."""
    lines = [f"{'One RAM disk' if disks == 1 else 'Two RAM disks'}, 32 bits: cycles (efficiency) | those of 2012", "",
             "| file | " + " | ".join(f"{direction[0].upper()}{unit}" for direction, unit in COLUMNS) + " |",
             "| --- " * (len(COLUMNS) + 1) + "|"]
    for file, size in BYTES.items():
        line = [file]
        for place, (direction, unit) in enumerate(COLUMNS):
            then, cycles = THEN[disks][file][place], cells.get((file, direction, unit))
            if cycles is None:
                line.append(f"not run, {then:,.0f}")
            else:
                line.append(f"{cycles:,} ({25 * size / cycles:.1f} %) {'<' if cycles < then else '>='} {then:,.0f}")
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines) + "\n"


def tables(long_units=(1024,)):
    """Prints both tables, writes the plots, and returns the rows. A file of 100 MB simulates for a minute per unit size."""
    rows, cells = [], {1: {}, 2: {}}
    jobs = []
    with ThreadPoolExecutor(2) as pool:
        programs = {disks: build(disks) for disks in NAMES}
        for disks, program in programs.items():
            for unit in UNITS:
                short = [file for file in BYTES if file != "100M"]
                jobs.append((disks, unit, pool.submit(measure, program, unit, short)))
                if unit in long_units:
                    jobs.append((disks, unit, pool.submit(measure, program, unit, ["100M"])))
    deletes = {}
    for disks, unit, job in jobs:
        for file, (get, put, delete) in job.result().items():
            cells[disks][file, "read", unit], cells[disks][file, "write", unit] = get, put
            deletes[disks, file, unit] = delete
    for disks in NAMES:
        ordered = {(file, *column): cells[disks][file, *column] for file in BYTES for column in COLUMNS
                   if (file, *column) in cells[disks]}
        print(table(disks, ordered), flush=True)
        rows += rows_of(disks, ordered)
        plot(cores.ROOT / "out" / f"hwfs_plot_4_{3 + disks}.svg",
             f"{'One RAM disk' if disks == 1 else 'Two RAM disks'}, 32 bits: efficiency (dashed: 2012)", ordered, THEN[disks])
    rows.append(["hwfs.one_disk_1K_delete", deletes[1, "1K", 64], "cycles", "< 527"])
    return rows


def plot(path, title, cells, then=None):
    """Plots efficiency by file size, with a line for each direction and unit; the lines of 2012 are dashed."""
    width, height, left, top = 640, 360, 60, 40
    files = [file for file in BYTES if any(key[0] == file for key in cells)]
    colours = dict(zip(COLUMNS, ("#1f77b4", "#17becf", "#2ca02c", "#d62728", "#ff7f0e", "#9467bd")))

    def point(file, percent):
        return (f"{left + files.index(file) * (width - 200) / max(1, len(files) - 1):.0f},"
                f"{top + (100 - percent) * (height - 90) / 100:.0f}")

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
             f'font-size="12"><rect width="100%" height="100%" fill="white"/><text x="{left}" y="20">{title}</text>']
    for percent in range(0, 101, 20):
        x, y = point(files[0], percent).split(",")
        parts.append(f'<line x1="{x}" y1="{y}" x2="{width - 140}" y2="{y}" stroke="#ddd"/>'
                     f'<text x="20" y="{y}">{percent} %</text>')
    for file in files:
        x, y = point(file, 0).split(",")
        parts.append(f'<text x="{x}" y="{int(y) + 18}" text-anchor="middle">{file}</text>')
    for row, (direction, unit) in enumerate(COLUMNS):
        colour = colours[direction, unit]
        lines = {"": {file: cells[file, direction, unit] for file in files if (file, direction, unit) in cells}}
        if then:
            lines["6 4"] = {file: then[file][COLUMNS.index((direction, unit))] for file in files}
        for dashes, values in lines.items():
            points = " ".join(point(file, 25 * BYTES[file] / cycles) for file, cycles in values.items())
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
                         f'stroke-dasharray="{dashes}"/>')
        parts.append(f'<text x="{width - 125}" y="{top + 20 + 18 * row}" fill="{colour}">{direction} {unit} B</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")
