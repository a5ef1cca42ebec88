#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the file system core in cycles, next to the tables of 2012; `tools/figures hwfs` compares with the targets.

Writes a JSON list of [name, value, unit, target] to the file in its first argument, prints the tables, and writes the
plots to out/.
Further arguments choose parts: `tables` (hwfs_tables.py), `long` (the same, with a file of 100 MB for each unit
size: some minutes longer), `cases` (hwfs_cases.py), `ideal`, `scattered`, `arrays`, `speed`, `size`.
"""

import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sizes

sys.path.insert(0, str(Path(__file__).resolve().parent / "test"))
import benches  # noqa: E402
import cores  # noqa: E402
import hwfs_script as hw  # noqa: E402
import hwfs_cases  # noqa: E402
import hwfs_tables  # noqa: E402
import make_volume  # noqa: E402

# The device of hwfs_bench, with the read rate of the memory that fits the one-disk figures of 2012.
DISK = {"read_latency": 24, "write_latency": 9, "rate_words": 4, "rate_cycles": 5}
OPTIONS = {"cached": 1}
RANDOM_FILE, RANDOM_READS = 1 << 30, 40


def program():
    return hw.build("figures", fast=True, BlockSizeLog2=6, NodeLog2Max=12, TimeoutCycles=1_000_000)


def measure(bench, folder, unit, size, **options):
    """Cycles of a get and a put of one file of this size, on an ideal device."""
    image = folder / f"volume_{unit}"
    image.write_bytes(make_volume.make(4 << 20, unit, 256, 64))
    data = bytes(index * 7 & 255 for index in range(size))
    script = hw.Session(bench, folder, image, **{**OPTIONS, **options})
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


def ideal():
    """An ideal device: the cycles that the core adds to the transfer, and plot 4.3."""
    bench, rows, cells = program(), [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in ("1K", "10K", "100K", "1M"):
            for unit in hwfs_tables.UNITS:
                get, put, delete = measure(bench, folder, unit, hwfs_tables.BYTES[file])
                cells[file, "read", unit], cells[file, "write", unit] = get, put
                if (file, unit) == ("1K", 64):
                    first_delete = delete
        _, unflushed, _ = measure(bench, folder, 64, 1024, cached=0)
    hwfs_tables.plot(cores.ROOT / "out" / "hwfs_plot_4_3.svg", "An ideal disk, 32 bits: efficiency", cells)
    put = cells["1K", "write", 64]
    rows.append(["hwfs.ideal_1K_get_beyond_raw", cells["1K", "read", 64] - 256, "cycles", "<= 100"])
    rows.append(["hwfs.ideal_1K_put_beyond_raw", put - 256, "cycles", "<= 250"])
    rows.append(["hwfs.ideal_1K_put_flush_waits", put - unflushed, "cycles", None])
    rows.append(["hwfs.ideal_1K_delete", first_delete, "cycles", None])
    for (file, direction, unit), cycles in cells.items():
        efficiency = 100 * hwfs_tables.BYTES[file] / 4 / cycles
        rows.append([f"hwfs.ideal_{file}_{direction}_{unit}_efficiency", efficiency, "%", ">= 99" if file == "1M" else None])
    return rows


def scattered():
    """Random reads in a file of 1 GB: the number of nodes that each read fetches, counted by the device, and its cycles.
    With 64 extents, which the slot names, and with 8,192, which leaves name."""
    bench, rows = program(), []
    with tempfile.TemporaryDirectory(dir=cores.BUILD) as name:
        for piece in (RANDOM_FILE // 64, RANDOM_FILE // 8192):
            rows += random_reads(bench, Path(name), piece)
    return rows


def random_reads(bench, folder, piece):
    """The rows for a file in extents of `piece` bytes. Each block of the volume's data is filled with its number."""
    image = make_volume.make(RANDOM_FILE + (16 << 20), 4096, 4096, 64)
    places = make_volume.scatter(image, "big", RANDOM_FILE, piece)
    volume, block, first = folder / "volume", 4096, min(places)
    if not volume.exists():
        numbers = (number.to_bytes(8, "little") * (block // 8) for number in range(RANDOM_FILE // block))
        volume.write_bytes(bytes(first) + b"".join(numbers))
    with open(volume, "r+b") as file:
        file.write(image[:first])
        file.seek(first + RANDOM_FILE)
        file.write(image[first + RANDOM_FILE:])
    del image

    def wanted(offset, length):
        """The expected bytes of the file: the numbers of its blocks in the volume."""
        begin = offset // block
        data = b"".join(((places[at * block // piece] - first + at * block % piece) // block).to_bytes(8, "little") *
                        (block // 8) for at in range(begin, (offset + length - 1) // block + 1))
        return data[offset - begin * block:offset - begin * block + length]

    pick = random.Random("scattered")
    script = hw.Session(bench, folder, volume, **OPTIONS, **DISK)
    script.mount("ro")
    script.open(0, "big")
    reads = []
    for length in (4 << 10, 16 << 10, 64 << 10, 128 << 10):
        for _ in range(RANDOM_READS):
            offset = pick.randrange(RANDOM_FILE - length + 1)
            script.count()
            script.read(0, offset, length, f"out{len(reads)}")
            reads.append((offset, length))
    script.count()
    results = script.run()
    if results[0].status or results[1].status:
        raise RuntimeError(f"a file in pieces: {results[:2]}")
    counts, answers, found = results[2::2], results[3::2], {}
    for number, ((offset, length), answer) in enumerate(zip(reads, answers)):
        if answer.status != hw.OK or (folder / f"out{number}").read_bytes() != wanted(offset, length):
            raise RuntimeError(f"a read of {length} bytes at {offset} of a file in pieces went wrong")
        extents = (offset + length - 1) // piece - offset // piece + 1
        nodes = counts[number + 1][0] - counts[number][0] - extents
        found.setdefault(length, []).append((nodes, answer.cycles))
    rows = []
    for length, measured in found.items():
        nodes, cycles = zip(*measured)
        name = f"hwfs.random_read_{length >> 10}K_of_{RANDOM_FILE // piece}_extents"
        rows.append([f"{name}_most_node_fetches", max(nodes), "fetches", "<= 1"])
        rows.append([f"{name}_mean_cycles", sum(cycles) / len(cycles), "cycles", None])
        rows.append([f"{name}_efficiency", 25 * length * len(cycles) / sum(cycles), "%", None])
    return rows


def arrays():
    """Files on two and four disks, with a stream as wide as all disks together, compared with one disk."""
    rows, found = [], {}
    with tempfile.TemporaryDirectory() as name:
        image = Path(name) / "volume"
        image.write_bytes(make_volume.make(8 << 20, 1024, 256, 64))
        for disks in (1, 2, 4):
            size = 4 << 20
            results = hwfs_tables.run(hwfs_tables.build(disks, 32 * disks), [
                f"load {image}", "mount", "put warm 1 1", f"put file {size} 2", "put other 1 3", f"get file 0 {size} 2"])
            if any(result[0] != "0" for result in results):
                raise RuntimeError(f"{disks} disks: {results}")
            found[disks] = {"read": int(results[4][2]), "write": int(results[2][2])}
    for disks, target in ((2, ">= 1.95"), (4, ">= 3.8")):
        for direction in ("read", "write"):
            rows.append([f"hwfs.{disks}_disks_{32 * disks}_bits_4M_{direction}_speedup",
                         found[1][direction] / found[disks][direction], "times", target])
    return rows


def speed():
    """The speed of the simulation of the core with the software's volume (test_hwfs_twin.py), in processor time."""
    done = subprocess.run([benches.build_twin_bench(), "1", "15"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout)
    words = done.stdout.split()
    return [["hwfs.sim_mcycles_per_s", float(words[words.index("mcycles_per_s") + 1]), "Mcycles/s", ">= 2"]]


def size():
    """Rows of the core's size at two widths; SIZES.md has more configurations."""
    rows = []
    jobs = [(name, family) for name in ("hwfs_32", "hwfs_64") for family in sizes.FAMILIES]
    with ThreadPoolExecutor(2) as pool:
        measured = pool.map(lambda job: sizes.measure(*job), jobs)
        for (name, family), counts in zip(jobs, measured):
            rows.append([f"hwfs.size_{name}_{family}_lut", counts["lut"] + counts["lutram"], "LUT",
                         "<= 2600" if name == "hwfs_32" else None])
            rows.append([f"hwfs.size_{name}_{family}_lut6_sites", counts["sites"], "LUT6",
                         "<= 2600" if name == "hwfs_32" else None])
            rows.append([f"hwfs.size_{name}_{family}_ff", counts["ff"], "FF", None])
            rows.append([f"hwfs.size_{name}_{family}_bram", counts["bram"], "36 Kib",
                         "<= 6" if name == "hwfs_32" else None])
    return rows


def build_all():
    """Builds every bench, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(benches.build_twin_bench), pool.submit(program),
                *(pool.submit(hwfs_tables.build, *shape) for shape in ((1,), (2,), (2, 64), (4, 128)))]
        for job in jobs:
            job.result()


def main():
    parts = {"tables": hwfs_tables.tables, "long": lambda: hwfs_tables.tables(hwfs_tables.UNITS), "cases": hwfs_cases.cases,
             "ideal": ideal, "scattered": scattered, "arrays": arrays, "speed": speed, "size": size}
    names = sys.argv[2:] or [name for name in parts if name != "long"]
    if len(names) > 1:
        build_all()
    rows = [row for name in names for row in parts[name]()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
