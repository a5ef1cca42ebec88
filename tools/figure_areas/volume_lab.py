# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Volumes in the lab: the drive's commands, compared with kernel file systems; and rates of whole files."""

import json
import os
import re
import statistics
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path

from .support import ROOT, TARGET, build_example, run

DRIVE_BYTES = 2560 << 20
MARK_BYTES, MARKS_BYTES = 4096, 8 << 20
LARGE_MIB = 1024
EVENTS = ("pci_nvme_read", "pci_nvme_write", "pci_nvme_flush_ns")
COMMAND = re.compile(r"pci_nvme_(read|write|flush_ns)\b(?:.*?opname '(\w+)')?(?:.* count (\d+) lba 0x([0-9a-f]+))?")

# The table of targets, by block (and node) size; the rest is shown without a target.
TARGETS = {
    ("append_sync", "write_amplification"): {512: "<= 1.125", 4096: "<= 2"},
    ("append_sync", "flushes"): {512: "<= 1", 4096: "<= 1"},
    ("append", "reads"): {512: "<= 0", 4096: "<= 0"},
    ("append_sync", "reads"): {512: "<= 0", 4096: "<= 0"},
    ("commit_1m", "write_amplification"): {512: "<= 1.0005", 4096: "<= 1.004"},
}
LITTLEFS = (
    "littlefs 2.11, published, not measured here: 4 KiB append and sync 1.69 bytes written and 5.8 read a byte; "
    "a commit each MiB 1.004; 2 flushes in a sync; maximum reads in one append 65 MiB (of a 512 MiB file)"
)


@dataclass
class Phase:
    """The commands of one phase, or of all phases of one name."""

    name: str
    operations: int = 0
    data_bytes: int = 0
    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    write_bytes: int = 0
    flushes: int = 0
    fua: int = 0

    def add(self, other):
        for field in fields(self)[1:]:
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Phases:
    """The phases that a program printed, in their order."""

    def __init__(self, phases):
        self.list = phases

    @classmethod
    def parse(cls, output):
        words = (line.split() for line in output.splitlines() if line.startswith("phase "))
        return cls([Phase(name, *(0 if n == "-" else int(n) for n in numbers)) for _, name, *numbers in words])

    def by_name(self):
        """{name: (sum, most commands of one operation in any phase)}."""
        found = {}
        for phase in self.list:
            total, most = found.get(phase.name, (Phase(phase.name), 0))
            total.add(phase)
            most = max(most, (phase.reads + phase.writes + phase.flushes) / phase.operations)
            found[phase.name] = (total, most)
        return found


def show(figures, area, phases, targets=False):
    """Each phase a few lines; `targets` for a block size at the end of `area`."""
    def add(phase, what, value, unit):
        bound = TARGETS.get((phase, what), {}).get(int(area.rsplit("_", 1)[1])) if targets else None
        figures.add(f"{area}_{phase}_{what}", value, unit, bound)

    for name, (total, most) in phases.by_name().items():
        if name == "warm_up":
            continue
        each = total.operations
        if total.writes:
            if total.data_bytes:
                add(name, "write_amplification", total.write_bytes / total.data_bytes, "bytes/byte")
            else:
                add(name, "written", total.write_bytes / each, "bytes/operation")
            add(name, "writes", total.writes / each, "writes/operation")
        add(name, "reads", total.reads / each, "reads/operation")
        add(name, "read_bytes", total.read_bytes / each, "bytes/operation")
        if total.flushes or total.fua:
            add(name, "flushes", total.flushes / each, "flushes/operation")
            add(name, "fua", total.fua / each, "writes/operation")
        if "open_read" in name:
            add(name, "most_commands", most, "commands/operation")


# --- The drive's trace ----------------------------------------------------------------------------


def commands(trace):
    """(kind, bytes, lba) for each line of QEMU's trace."""
    for line in trace:
        match = COMMAND.match(line)
        if not match:
            continue
        kind, name, count, lba = match.groups()
        if kind == "flush_ns":
            yield "flush", 0, None
        elif kind == "read":
            yield "read", int(count), int(lba, 16)
        elif name == "NVME_NVM_CMD_WRITE":
            yield "write", int(count), int(lba, 16)
        else:
            # Zeroes that the drive makes itself: a command without bytes over the bus.
            yield "write", 0, int(lba, 16)


def fill_in(trace, works):
    """Counts the commands between the marks; `works` are (block, Phases), in the order in which
    they ran. FUA is as counted by each program, because the trace does not show it."""
    stream = commands(trace)
    for block, phases in works:
        first = (DRIVE_BYTES - MARKS_BYTES) // block
        number = 0

        def until_mark(phase):
            expected = first + number * MARK_BYTES // block
            for kind, count, lba in stream:
                if kind == "read" and count == MARK_BYTES and lba == expected:
                    return
                if phase is None:
                    continue
                if kind == "flush":
                    phase.flushes += 1
                else:
                    setattr(phase, f"{kind}s", getattr(phase, f"{kind}s") + 1)
                    setattr(phase, f"{kind}_bytes", getattr(phase, f"{kind}_bytes") + count)
            sys.exit(f"figures: mark {number} is not in the drive's trace")

        for phase in phases.list:
            until_mark(None)
            number += 1
            until_mark(phase)
            number += 1


def emptied(phases):
    """The same phases, with only FUA counted."""
    return Phases([Phase(p.name, p.operations, p.data_bytes, fua=p.fua) for p in phases.list])


def traffic(figures):
    """One boot with four drives of a kind: ours at both block sizes, ext4, ext2."""
    program = build_example("straightway-figures", "volume_io")
    peer = ROOT / "tools" / "figure_areas" / "peer_filesystem.py"
    names = ("volume_512", "volume_4096", "ext4", "ext2")
    script = " && ".join((
        f"echo work {names[0]} && {program} /dev/nvme0n1 {LARGE_MIB}",
        f"echo work {names[1]} && {program} /dev/nvme1n1 {LARGE_MIB}",
        f"echo work {names[2]} && python3 {peer} ext4 /dev/nvme2n1 {LARGE_MIB}",
        f"echo work {names[3]} && python3 {peer} ext2 /dev/nvme3n1 {LARGE_MIB}",
    ))
    # The host need not make anything durable: the drive's trace shows each flush in any case.
    drive = f"size={DRIVE_BYTES},cache=unsafe"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "trace"
        traces = [word for event in EVENTS for word in ("--trace", f"{event}={log}")]
        drives = [drive, f"{drive},logical_block_size=4096", drive, drive]
        output = run(["lab/run", "--quiet", "--timeout", "3000", *(w for d in drives for w in ("--drive", d)), *traces,
                      "--", "sh", "-c", script])
        parts = dict(part.split("\n", 1) for part in output.split("work ")[1:])
        told = {name: Phases.parse(parts[name]) for name in names}
        seen = {name: emptied(told[name]) for name in names}
        with open(log, encoding="utf-8", errors="replace") as trace:
            fill_in(trace, [(4096 if name == "volume_4096" else 512, seen[name]) for name in names])
    for name in names:
        ours = name.startswith("volume_")
        show(figures, "volume.lab_" + name.removeprefix("volume_") if ours else f"volume.lab_{name}", seen[name], ours)
        if ours:
            # Two counts of the same commands: by the program, and by the drive.
            differ = sum(one != other for one, other in zip(told[name].list, seen[name].list))
            figures.add(f"volume.lab_{name.removeprefix('volume_')}_phases_that_differ", differ, "phases", "<= 0")
    figures.remark(LITTLEFS)


# --- Whole files ----------------------------------------------------------------------------------


def rates(figures):
    """1 GiB by put and get, and by write and read of the same drive, in turns in one boot."""
    rounds = 5
    run(["cargo", "build", "--quiet", "--locked", "--release", "-p", "straightway-cli"])
    program = TARGET / "release" / "straightway"
    turn = "\n".join((
        f"{program} --quiet put nvme0 /tmp/input large --json",
        f"{program} --quiet write nvme0 --destroy-data straightway0 --offset 1280M --length 1G --input /tmp/input --flush --json",
        f"{program} --quiet get nvme0 large /dev/null --json",
        f"{program} --quiet read nvme0 --offset 1280M --length 1G --output /dev/null --json",
        f"{program} --quiet rm nvme0 large",
    ))
    script = "\n".join((
        "set -e",
        "yes straightway | head -c 1G >/tmp/input",
        f"{program} --quiet format nvme0 --size 1280M --destroy-data straightway0 >&2",
        # In the first round the drive's memory is not allocated yet.
        *([turn] * (rounds + 1)),
    ))
    # The drive is in memory; otherwise the host's disk would be measured.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.NamedTemporaryFile(dir=memory, prefix="straightway-") as drive:
        drive.truncate(DRIVE_BYTES)
        output = run(["lab/run", "--quiet", "--memory", "2560M", "--timeout", "1500", "--drive", f"file={drive.name}",
                      "--", "sh", "-c", script])
    reports = [json.loads(text) for text in re.findall(r"^\{$.*?^\}$", output, re.M | re.S)]
    if len(reports) != 4 * (rounds + 1):
        sys.exit(f"figures: {len(reports)} reports of straightway instead of {4 * (rounds + 1)}")
    reports = reports[4:]
    kinds = {name: reports[index::4] for index, name in enumerate(("put", "write", "get", "read"))}
    for file, raw in (("put", "write"), ("get", "read")):
        rate = {name: statistics.median(r["length_bytes"] / r["elapsed_us"] for r in kinds[name]) for name in (file, raw)}
        ratios = [r["elapsed_us"] / f["elapsed_us"] for f, r in zip(kinds[file], kinds[raw])]
        figures.add(f"volume.lab_{file}_1g_rate", rate[file], "MB/s")
        figures.add(f"volume.lab_{raw}_1g_rate", rate[raw], "MB/s")
        figures.add(f"volume.lab_{file}_1g_over_{raw}", rate[file] / rate[raw], "times", ">= 0.97")
        figures.add(f"volume.lab_{file}_1g_over_{raw}_least_of_{rounds}", min(ratios), "times")
        figures.add(f"volume.lab_{file}_1g_over_{raw}_most_of_{rounds}", max(ratios), "times")
