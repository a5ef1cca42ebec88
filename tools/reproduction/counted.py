# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Repeats requests between the markers of lab/count, and saves what each took: instructions, commands and bytes.

Guests with the counting plugin and one processor. `requests` are single calls, `bulk` is a transfer from an empty cache to
durable data. Instructions are those of the path; the idle loop's are left out. A string instruction counts once however much it
copies, so a buffered path's instructions do not contain the price of its copies.
"""

import json
import subprocess
from dataclasses import dataclass

from figure_areas.chario import TO_CHARIO, lab
from figure_areas.support import ROOT, build_example

KIB, MIB = 1 << 10, 1 << 20
WARM_UP = 32
WINDOW_BYTES = "0x20000000"
FILES = {"block": ("/dev/nvme0n1", "nvme0n1"), "ext4": ("/tmp/ext4/file", "nvme1n1")}
# The drive's largest command is the thesis's: 128 KiB.
DRIVES = ("--drive", "size=512M,serial=LAB1,mdts=5", "--drive", "size=512M,serial=LAB2,mdts=5", "--memory", "1G")
PREPARE = """set -e
mkfs.ext4 -q -F /dev/nvme1n1; mkdir -p /tmp/ext4; mount /dev/nvme1n1 /tmp/ext4; fallocate -l 256M /tmp/ext4/file
head -c 1M /dev/urandom >/tmp/mib
for target in /tmp/ext4/file /dev/nvme0n1; do
  # Blocks that were never written would be read without a command.
  for i in $(seq 256); do cat /tmp/mib; done | dd of=$target bs=1M iflag=fullblock conv=notrunc,fsync status=none
done
"""


@dataclass(frozen=True)
class Calls:
    """Single calls: the words of tests/chario/count.c, and how many."""

    path: str
    operation: str
    size: int
    count: int

    def words(self):
        if self.path == "copy":
            return f"copy {FILES['ext4'][0]} {self.size} {self.count}"
        if self.path.startswith("chario"):
            call = {"chario": {"read": "pread", "write": "pwrite"}, "chario-phys": {"read": "phys", "write": "phys-write"}}
            return f"{call[self.path][self.operation]} /dev/chardisk0n1 {self.size} {self.count} {WINDOW_BYTES}"
        where, how = self.path.split("-")
        node, disk = FILES[where]
        mode = ("pread" if self.operation == "read" else "pwrite-sync") + ("-buffered" if how == "buffered" else "")
        return f"{mode} {node} {self.size} {self.count} 0 /sys/block/{disk}/stat"

    @property
    def has_stat(self):
        return self.words().endswith("/stat")


@dataclass(frozen=True)
class Bulk:
    """A transfer of hybrid_io: so many bytes, the flush included."""

    path: str
    operation: str
    pattern: str
    size: int

    @property
    def total(self):
        return (2 if self.size < 64 * KIB else 16) * MIB

    def words(self):
        where, how = self.path.split("-")
        node, disk = FILES[where]
        return f"{node} {disk} {how} {self.operation} {self.pattern} {self.size} {self.total}"


KERNEL = [f"{where}-{how}" for where in FILES for how in ("buffered", "direct")]
BOTH = ("read", "write")
BULKS = [
    Bulk(path, operation, pattern, size)
    for path in KERNEL
    for operation in BOTH
    for pattern, sizes in (("sequential", (4, 64, 128, 512, 1024, 16384)), ("random", (4, 512)))
    for size in (number * KIB for number in sizes)
]
REQUESTS = [
    Calls("copy", "copy", 4 * KIB, 8192),
    *[Calls(path, operation, size * KIB, 200) for path in KERNEL for operation in BOTH for size in (4, 8, 40, 80)],
    *[Calls(f"{where}-direct", operation, size * KIB, count) for where in FILES for operation in BOTH for size, count in ((128, 64), (1024, 16), (16384, 4))],
]
CHARIO = [
    Calls(path, operation, size * KIB, count)
    for path in ("chario", "chario-phys")
    for operation in BOTH
    for size, count in ((4, 200), (8, 200), (40, 200), (80, 200), (128, 64), (1024, 16), (16384, 4))
]


# Each in a guest of its own.
BOOTS = ("kernel", [*REQUESTS, *BULKS]), ("chario", CHARIO)


def count(folder):
    """Boots, counts, and writes counts.json into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    counter = folder / "count"
    programs = {Bulk: build_example("straightway-figures", "hybrid_io"), Calls: counter}
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-static", "-I", ROOT / "kernel/chario", "-I", ROOT / "lab/count",
                    "-o", counter, ROOT / "tests/chario/count.c"], check=True)  # fmt: skip
    subprocess.run([ROOT / "kernel/chario/build", "stock-x86_64"], cwd=ROOT, check=True, capture_output=True)
    found = {"requests": [], "bulk": []}
    for name, wanted in BOOTS:
        before = PREPARE if name == "kernel" else f"insmod build/chario/stock-x86_64/chario.ko windows=0x20000000:64M\n{TO_CHARIO}"
        # Each program's output in a block of its own.
        lines = [before, *[f"echo =; {programs[type(one)]} {one.words()}" for one in wanted]]
        rows = folder / f"{name}.txt"
        printed = lab("\n".join(lines), "--count", str(rows), "--icount", "0", *DRIVES, "--kernel-args", "memmap=64M$0x20000000")
        blocks = [[list(map(int, line.split())) for line in block.splitlines() if line] for block in printed.split("=\n")[1:]]
        taken = [list(map(int, line.split())) for line in rows.read_text().splitlines()]
        read(wanted, blocks, taken, found)
    (folder / "counts.json").write_text(json.dumps(found, indent=1))


def read(wanted, blocks, taken, found):
    """What the programs printed and the plugin's rows, as one record a run added to `found`."""
    rows = iter(taken)
    for one, block in zip(wanted, blocks, strict=True):
        if isinstance(one, Bulk):
            _, user, kernel, _, _ = next(rows)
            found["bulk"].append({"path": one.path, "operation": one.operation, "pattern": one.pattern, "block_size_bytes": one.size,
                                  "instructions_per_mib": (user + kernel) / (one.total / MIB), "kernel_instructions_per_mib": kernel / (one.total / MIB),
                                  "commands_per_mib": block[0][1] / (one.total / MIB)})  # fmt: skip
            continue
        number = 1 if one.path == "copy" else one.count + WARM_UP
        own = [next(rows) for _ in range(number)][0 if one.path == "copy" else WARM_UP :]
        record = {"path": one.path, "operation": one.operation, "block_size_bytes": one.size,
                  "user": [row[1] for row in own], "kernel": [row[2] for row in own], "waiting": [row[3] for row in own]}  # fmt: skip
        if one.has_stat:
            stat = block[WARM_UP:]
            place = 0 if one.operation == "read" else 2
            record["commands"] = [after[place] - before[place] for before, after in zip(stat, stat[1:])]
            record["other_commands"] = [after[2 - place] - before[2 - place] for before, after in zip(stat, stat[1:])]
            record["moved_bytes"] = [512 * (after[place + 1] - before[place + 1]) for before, after in zip(stat, stat[1:])]
        found["requests"].append(record)
    if next(rows, None) is not None:
        raise ValueError("the plugin counted more than was run")
