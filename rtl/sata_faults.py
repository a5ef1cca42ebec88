#!/usr/bin/env python3
"""Writes the fault matrix of the Serial ATA host: `rtl/sata_faults.py > docs/sata-faults.md`."""

import subprocess

import benches

HEAD = """# The fault matrix of the Serial ATA host

Each row is a fault of the drive or the cable (`rtl/sim/sata/sata_faults.hpp`) and its effect on the requests to `rtl/sata`:
40 random requests, 8 or 1 at a time, to a drive model with 4 dwords of cable latency, which reorders commands and pauses.
`rtl/sata_faults.py > docs/sata-faults.md` generates this page; `rtl/test/test_sata.py` compares it with the behaviour of
the core. In every row each request ends exactly once, with exactly the requested words; data that is read without an error
is correct, and the drive works again after the fault (30 further requests, all `Ok`), unless it cannot be used at all.

The columns count the requests with each status, and link resets (COMRESET by either side, or a lost link). The detail is
that of the first `Device`: ATA error and status, FF01 for data damaged on the link, FF02 for a drive that broke the
protocol. The time-out is 20,000 cycles.

"""

STATES_HEAD = """
## The drive's error states

The transitions of the drive's side that belong to errors, as Serial ATA 3.5 has them in 11.15 "FPDMA QUEUED command protocol" (the states
are named) and ACS-3 in the protocols of DMA, PIO and commands without data. When a queued command fails, the drive stops (DFPDMAQ11 or 12)
and takes READ LOG EXT of page 10h only (DFPDMAQ13); it then discards the queue, Set Device Bits with ERR 0 and all bits of ACT
(DFPDMAQ14), and sends the log. Where the drive names the command in its log, that request alone ends with the drive's error, others
that were in the queue end with `Aborted`, and there is no reset. After each row each block of the drive is compared with what was answered.

"""

LINE_HEAD = """
## The line

The same with the PHY (`sata_host`) and single bits between it and the drive, with separate clocks, at 6 Gb/s. Bits are
counted within frames. A flipped bit is detected as an invalid symbol, a wrong disparity or a wrong CRC.

"""

TABLE = """| fault | Ok | Device | TimedOut | Aborted | Gone | resets | detail |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def bench(serial=False, fastest=2):
    """Builds the bench of the host and a drive; with `serial`, single bits connect them."""
    parameters = {"Ncq": 1, "TimeoutCycles": 20000} | ({"Serial": 1, "Fastest": fastest} if serial else {})
    name = f"sata_serial_{fastest}" if serial else "sata"
    return benches.build(name, "sata_sim", "sata/sata_bench.cpp", parameters, core="sata_sim")


def run(program, *arguments):
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{program} {' '.join(arguments)}\n{done.stdout}")
    return done.stdout


def matrix():
    return HEAD + table(bench()) + STATES_HEAD + table(bench(), "states") + LINE_HEAD + table(bench(serial=True))


def table(program, rows="list"):
    text = TABLE
    for line in run(program, rows).splitlines():
        name, says = line.split("\t")
        *counts, detail = run(program, "fault", name).split()
        text += f"| **{name}**: {says} | {' | '.join(counts)} | {detail.upper() if int(detail, 16) else '-'} |\n"
    return text


if __name__ == "__main__":
    print(matrix(), end="")
