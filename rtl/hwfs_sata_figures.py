# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the file system core on Serial ATA drives, in percent of what one drive's line carries, a word in each of its cycles. The core
has two cycles for each of a line's, as in 2012. `sata_figures.py` writes the rows.

There are two models of a drive. The ideal one answers immediately, so that only the link and the hardware count. The other
one has the latencies that explain the figures of 2012 with one command at a time: 4 KiB took 56.9 us to read and 42.7 us to
write at 75 MHz. The Serial ATA core of 2012 took 1,153 and 1,638 cycles of this; the rest is the drive's latency before a transfer.
Its medium moves no more than that drive did in any measurement of 2012: 279 MB/s read and 276 written in long transfers (figure 4.7),
and 44,366 and 50,337 commands of 4 KiB a second, read and written, 32 deep (figure 4.8). What the drive could do beyond that is not known.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import benches
import cores

sys.path.insert(0, str(Path(__file__).resolve().parent / "test"))
import make_volume  # noqa: E402

CORE_CYCLES = 2  # of the file system core in one of a line
# What 2012 measured was in MB/s on lines of 75 MHz, 300 MB/s.
DRIVE_MHZ, LINE_MB_S = 75, 300
LATENCIES = {"read_latency": round(4096 / 72 * DRIVE_MHZ) - 1153, "write_latency": round(4096 / 96 * DRIVE_MHZ) - 1638}
MEDIUM = {"read": (279, 44_366), "write": (276, 50_337)}  # MB/s in long transfers, commands of 4 KiB in a second


def medium(op):
    """The model's parameters: words in a thousand cycles of the line, and the cycles of a command that 4 KiB at this rate leave."""
    rate, commands = MEDIUM[op]
    return {"rate": round(1000 * rate / LINE_MB_S), "cycles": round(DRIVE_MHZ * 1e6 / commands - 1024 * LINE_MB_S / rate)}


def at_random(model):
    """The same drive at random offsets, where it was measured with commands of 4 KiB only: no request moves faster than those did."""
    rates = {f"{op}_rate": round(1000 * 4096 * commands / (LINE_MB_S * 1e6)) for op, (_, commands) in MEDIUM.items()}
    return {**model, **rates, "read_cycles": 0, "write_cycles": 0} if model else {}


DRIVES = {"ideal": {}, "drive_2012": {**LATENCIES, **{f"{op}_{name}": value for op in MEDIUM for name, value in medium(op).items()}}}
SHAPES = {
    # One extent at a time: a clock crossing without a buffer.
    "one": {"Disks": 1, "Slots": 0, "StripeBlocks": 4096},
    # 16 concurrent reads of 4 KiB, in 64 KiB of RAM; four such writes in 16 KiB.
    "one_in_order": {"Disks": 1, "Slots": 16, "SlotBlocks": 8, "StripeBlocks": 4096},
    # 16 KiB stripes, 8 concurrent reads from each drive, in 128 KiB of RAM each; four writes in 64 KiB each.
    "two_striped": {"Disks": 2, "Slots": 8, "SlotBlocks": 32, "StripeBlocks": 32, "WriteSlots": 1,
                    "WriteWords": 16384},
    "two_mirrored": {"Disks": 2, "Mirror": 1, "Slots": 8, "SlotBlocks": 32, "StripeBlocks": 4096},
}
UNIT = NODE = 4096
LONG, PIECES, BIG = 2 << 20, 1 << 20, 1 << 30
RANDOM, TIMES = 64 << 10, 24


def build(shape):
    return benches.build(f"hwfs_sata_{shape}_fast", "hwfs_sata_sim", "sata/hwfs_sata_bench.cpp",
                             {"NodeLog2Max": 12, "DriveTimeoutCycles": 1_000_000, "TimeoutCycles": 4_000_000,
                              "Mirror": 0, **SHAPES[shape]}, fast=True, core="hwfs_sata_sim")


def run(shape, lines):
    done = subprocess.run([build(shape)], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, text=True)
    words = [line.split() for line in done.stdout.splitlines()]
    if done.returncode != 0 or any(line[0] not in ("0", "random") for line in words):
        raise RuntimeError(f"{shape}: {done.stdout[-500:]}")
    return words


def rate(size, cycles):
    return 100 * (size / 4) / (int(cycles) / CORE_CYCLES)


def drives(size, **options):
    return " ".join([f"drives {size // 512}", *(f"{key}={value}" for key, value in options.items())])


def sparse(path, image):
    """Writes the image as a sparse file."""
    with open(path, "wb") as file:
        for at in range(0, len(image), 1 << 16):
            piece = image[at:at + (1 << 16)]
            if piece.strip(b"\0"):
                file.seek(at)
                file.write(piece)
        file.truncate(len(image))
    return path


def streams(folder, shape, **options):
    """The rate of a long file in the layout that the file system chooses: {read, write}."""
    image = sparse(folder / "empty", make_volume.make(LONG * 2, UNIT, NODE, 64, 512))
    found = run(shape, [drives(LONG * 2, **options), f"load {image}", "mount", "put warm 1 1", f"put file {LONG} 2",
                        f"get file 0 {LONG} 2"])
    return {"write": rate(LONG, found[2][2]), "read": rate(LONG, found[3][2])}


def pieces(folder, shape, piece, **options):
    """The same for a file in scattered extents of `piece` bytes, which is read and overwritten."""
    image = make_volume.make(PIECES * 2, UNIT, NODE, 64, 512)
    places = make_volume.scatter(image, "file", PIECES, piece)
    lines = [drives(PIECES * 2, **options), f"load {sparse(folder / 'pieces', image)}",
             *(f"paint {at} {piece} {number * piece} 2" for number, at in enumerate(places)),
             "mount", "openw 0 file", f"read 0 0 {PIECES} 2", f"write 0 0 {PIECES} 3", f"read 0 0 {PIECES} 3"]
    found = run(shape, lines)
    return {"read": rate(PIECES, found[2][2]), "write": rate(PIECES, found[3][2])}


def scattered(folder, shape, **options):
    """The same for reads and overwrites of 64 KiB at random offsets in a file of 1 GiB."""
    image = make_volume.make(BIG + (16 << 20), UNIT, NODE, 64, 512)
    (start, *_) = make_volume.scatter(image, "file", BIG, BIG)
    lines = [drives(BIG + (16 << 20), **options), f"load {sparse(folder / 'big', image)}", f"paint {start} {BIG} 0 2",
             "mount", "openw 0 file", f"random read 0 {BIG} {RANDOM} {TIMES} 2", f"random write 0 {BIG} {RANDOM} {TIMES} 2"]
    found = run(shape, lines)
    return {"read": rate(RANDOM * TIMES, found[2][1]), "write": rate(RANDOM * TIMES, found[3][1])}


def rows():
    """[name, value, unit, target] of each figure. The targets are the corresponding figures of 2012, in MB/s."""
    found = []

    def add(name, values, read=None, write=None):  # targets in MB/s
        for op, target in (("read", read), ("write", write)):
            found.append([f"hwfs_sata.{name}_{op}", values[op], "% of a line", target and f"> {100 * target / LINE_MB_S:.2f}"])
        return values

    with tempfile.TemporaryDirectory(dir=cores.BUILD) as name:
        folder = Path(name)
        for drive, model in DRIVES.items():
            # A drive without a queue. In 2012, one command at a time, with blocks of 4 and of 16 KB.
            single = add(f"{drive}_single_long", streams(folder, "one", queue=0, **model), 72, 96)
            add(f"{drive}_single_4K_pieces", pieces(folder, "one", UNIT, queue=0, **model), 72, 96)
            add(f"{drive}_single_16K_pieces", pieces(folder, "one", 4 * UNIT, queue=0, **model), 152, 190)
            # A queue. In 2012, 32 commands of 4 KB, and its best: 16 of 16 KB.
            queued = add(f"{drive}_queued_long", streams(folder, "one", reorder=1, **model), 241.2, 219.85)
            ordered = add(f"{drive}_in_order_long", streams(folder, "one_in_order", reorder=1, **model), 241.2, 219.85)
            add(f"{drive}_in_order_4K_pieces", pieces(folder, "one_in_order", UNIT, reorder=1, **model), 170, 181)
            add(f"{drive}_in_order_random_64K", scattered(folder, "one_in_order", reorder=1, **at_random(model)), 129.6, 136.18)
            two = add(f"{drive}_two_striped_long", streams(folder, "two_striped", reorder=1, **model), 430.56, 383.29)
            for op in ("read", "write"):
                best = max(single[op], queued[op], ordered[op])  # the best of the three for one drive
                found.append([f"hwfs_sata.{drive}_two_striped_{op}_speedup", two[op] / best, "times", ">= 1.95"])
            add(f"{drive}_two_mirrored_long", streams(folder, "two_mirrored", reorder=1, **model))
    return found


if __name__ == "__main__":
    for row in rows():
        print(*row, flush=True)
