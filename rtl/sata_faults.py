#!/usr/bin/env python3
"""Writes the fault matrix of the Serial ATA host: `rtl/sata_faults.py > docs/sata-faults.md`."""

import subprocess

import cores

HEAD = """# The fault matrix of the Serial ATA host

What the drive or the cable does wrong (`rtl/sim/sata/sata_faults.hpp`), and how the requests of `rtl/sata` end: 40
random requests, 8 or 1 at a time, at a drive model with 4 dwords of cable latency, its own order and pauses. This
page is written by `rtl/sata_faults.py > docs/sata-faults.md`; `rtl/test/test_sata.py` compares it with what the core
does now. In every row each request ends exactly once, every word is counted, whatever is read without an error is
right, and the drive works again when the fault is gone (30 requests more, all `Ok`), except where it cannot be used.

The columns count requests by their status, then link resets (COMRESET by either side, or a lost link); the detail is
that of the first `Device`: ATA error and status, FF01 for data damaged on the link, FF02 for a drive that broke the
protocol. A time-out is 20,000 cycles here.

"""

LINE_HEAD = """
## The line

The same with the PHY (`sata_host`) and single bits between it and the drive, both with clocks of their own, at 6 Gb/s. Bits
are counted within frames. A wrong bit was seen as a wrong symbol, a wrong disparity or a wrong CRC.

"""

TABLE = """| fault | Ok | Device | TimedOut | Aborted | Gone | resets | detail |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def bench(serial=False, fastest=2):
    """The host and a drive; with `serial`, bits between them."""
    parameters = {"Ncq": 1, "TimeoutCycles": 20000} | ({"Serial": 1, "Fastest": fastest} if serial else {})
    name = f"sata_serial_{fastest}" if serial else "sata"
    return cores.build_bench(name, "sata_sim", "sata/sata_bench.cpp", parameters, core="sata_sim")


def run(program, *arguments):
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def matrix():
    return HEAD + table(bench()) + LINE_HEAD + table(bench(serial=True))


def table(program):
    text = TABLE
    for line in run(program, "list").splitlines():
        name, says = line.split("\t")
        *counts, detail = run(program, "fault", name).split()
        text += f"| **{name}**: {says} | {' | '.join(counts)} | {detail.upper() if int(detail, 16) else '-'} |\n"
    return text


if __name__ == "__main__":
    print(matrix(), end="")
