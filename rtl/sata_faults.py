#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes the fault matrix of the Serial ATA host: `rtl/sata_faults.py > docs/sata-faults.md`."""

import subprocess

import benches
import sata_states

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

STATES_HEAD = f"""
## The drive's error states

The transitions of the drive's side that belong to errors, with the text that has them, and who else says so. When a queued command
fails, the drive stops and takes READ LOG EXT of page 10h only; it then discards the queue and sends the log. Where the log names the
command, that request alone ends with the drive's error, others that were in the queue end with `Aborted`, and there is no reset.

Two models play these rows: the one above, and another that was written in Python from the same texts (`rtl/test/sata_drive.py`). A row
with "both" has the same outcome with either, except for the numbers of requests. Where it says "{sata_states.NONE}", no text allows what
the drive does: the row shows that the core copes with it. No real drive was connected. QEMU's drive plays
commands, failed reads, writes and flushes with the core (`test_the_drive_of_qemu`); for the rest the texts are the only evidence.

{sata_states.texts()}
{sata_states.table()}
Drives differ, and the core accepts each way: an address out of range is refused at once or later, with IDNF or with ABRT; the error of
a queued command comes by Set Device Bits or by the register FIS of another command. A failed flush drops the block that it could not
write: a later one that succeeds says nothing about it. A drive with a device fault is reset again and again, and is never `ready`.

What QEMU 7.2's `ide-hd` does that neither model did: its signature has status 30h, so DRDY is 0; PIO Setup of IDENTIFY DEVICE has D 0
and ends with status 58h; the first Set Device Bits after an error still has the error's code in its Error field, with ERR 0; it has 32
queue places, but aborts READ LOG EXT, so each error of a queued command ends with a reset; it takes DATA SET MANAGEMENT only with the
TRIM bit, which both models ignored.

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
    return HEAD + table(bench()) + STATES_HEAD + states() + LINE_HEAD + table(bench(serial=True))


def rows(program, kind):
    """(name, description, numbers of requests by status and of resets, detail) of each row."""
    for line in run(program, kind).splitlines():
        name, says = line.split("\t")
        *counts, detail = run(program, "fault", name).split()
        yield name, says, counts, detail


def line(name, says, counts, detail, *more):
    return f"| {' | '.join([f'**{name}**: {says}', *counts, detail.upper() if int(detail, 16) else '-', *more])} |\n"


def table(program):
    return TABLE + "".join(line(*row) for row in rows(program, "list"))


def states():
    """The drive's error states; each must end as `sata_states.ROWS` says, which the other model is compared with."""
    heading, rule = TABLE.splitlines()
    text, left = f"{heading} models |\n{rule} --- |\n", set(sata_states.ROWS)
    statuses = [sata_states.OK, sata_states.DEVICE, sata_states.TIMED_OUT, sata_states.ABORTED, sata_states.GONE]
    for name, says, counts, detail in rows(bench(), "states"):
        left.discard(name)
        *numbers, resets = map(int, counts)
        ended = sata_states.outcome({status: number for status, number in zip(statuses, numbers) if number}, int(detail, 16), resets)
        if ended != sata_states.ROWS.get(name):
            raise RuntimeError(f"{name} ended with {ended!r}; rtl/sata_states.py has {sata_states.ROWS.get(name)!r}")
        text += line(name, says, counts, detail, "C++" if name in sata_states.CPP_ONLY else "both")
    if left:
        raise RuntimeError(f"rtl/sata_states.py has rows that the bench does not play: {', '.join(sorted(left))}")
    return text


if __name__ == "__main__":
    print(matrix(), end="")
