# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The figures of CharIO: instructions per call, predictability, rates compared with the kernel's paths.

Three lab runs. `counts` boots with the counting plugin and one CPU; `predictability` reads and writes
64 MiB by each path and counts the drive's commands and interrupts of each call; `rates` is
`straightway compare` in one boot. Counts repeat; rates are those of an emulated machine, so only their
ratios within the boot are given.
"""

import json
import os
import statistics
import subprocess
import sys

from .chario_report import report
from .support import ROOT, TARGET, run

OUT = ROOT / "out" / "chario"
WINDOW = "memmap=64M$0x20000000"
WARM_UP = 32
KERNEL = "stock-x86_64"


def lab(script, *options, timeout=1500, **settings):
    command = [ROOT / "lab/run", *options, "--timeout", str(timeout), "--", "bash", "-c", script]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **settings)
    if done.returncode != 0:
        sys.exit(f"figures: a lab run ended with {done.returncode}: {done.stdout[-2000:]}")
    return done.stdout


TO_CHARIO = """
B=/sys/bus/pci/devices/0000:00:04.0
echo chario >$B/driver_override; echo 0000:00:04.0 >$B/driver/unbind; echo 0000:00:04.0 >/sys/bus/pci/drivers_probe
[ -c /dev/chardisk0n1 ] || exit 9
"""


def counts(figures):
    program = ROOT / "build" / "chario" / "count"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-static", "-I", ROOT / "kernel/chario", "-I", ROOT / "lab/count",
                    "-o", program, ROOT / "tests/chario/count.c"], check=True)  # fmt: skip
    small, large = 4096, 2 << 20
    runs = [("kernel_pread", "pread /dev/nvme0n1", small, 100), ("kernel_pread", "pread /dev/nvme0n1", large, 20)]
    for mode in ("pread", "pread-poll", "pread-registered", "pread-poll-registered", "phys", "phys-poll"):
        runs.append((mode.replace("-", "_"), f"{mode} /dev/chardisk0n1", small, 100))
    for mode in ("pread", "pread-registered", "phys"):
        runs.append((mode.replace("-", "_"), f"{mode} /dev/chardisk0n1", large, 20))
    lines, moved = ["set -e", f"insmod build/chario/{KERNEL}/chario.ko windows=0x20000000:64M"], False
    for _, words, size, number in runs:
        if "chardisk" in words and not moved:
            lines.append(TO_CHARIO)
            moved = True
        lines.append(f"{program} {words} {size} {number} 0x20000000")
    output = OUT / "counts.txt"
    # A drive that answers immediately: otherwise the kernel's other work during a wait would be counted too.
    drive = ("--drive", "backend=null,size=128M")
    lab("\n".join(lines), "--count", str(output), "--icount", "0", *drive, "--kernel-args", WINDOW)
    rows = [list(map(int, line.split())) for line in output.read_text().splitlines()]
    found, at = {}, 0
    targets = {"pread": "<= 3500", "pread_poll_registered": "<= 1500"}
    for name, _, size, number in runs:
        part = rows[at + WARM_UP : at + WARM_UP + number]
        at += WARM_UP + number
        label = f"chario.{name}_{'4k' if size == small else '2m'}"
        target = targets.get(name) if size == small else None
        # Waiting is the drive's time: the idle loop, and the loop that polls a ring. A call that waited in the idle loop has two
        # context switches; a call that was answered before has none.
        slept = [user + kernel for _, user, kernel, waiting, _ in part if waiting]
        awake = [user + kernel for _, user, kernel, waiting, _ in part if not waiting]
        if "poll" in name:
            slept, awake = slept + awake, []
        found[name, size] = statistics.median(slept or awake)
        figures.add(f"{label}_instructions", int(found[name, size]), "instructions/call", target)
        if awake and slept:
            figures.add(f"{label}_answered_at_once_instructions", int(statistics.median(awake)), "instructions/call")
    if at != len(rows):
        sys.exit(f"figures: {len(rows)} counts, not {at}")
    less = 100 * (1 - found["phys", large] / found["pread", large])
    figures.add("chario.phys_below_plain_2m", less, "%", ">= 40")


PREDICTABILITY = r"""
import json, mmap, os, subprocess, sys
length, calls = 64 << 20, int(sys.argv[2])
area = mmap.mmap(-1, length)
area[:] = os.urandom(1 << 20) * 64
results = []

def interrupts(action):
    total = 0
    for line in open("/proc/interrupts"):
        words = line.split()
        if words[-1].startswith(action) and words[-1] != "nvme0q0":
            total += sum(int(word) for word in words[1:1 + os.cpu_count()])
    return total

def commands(source):
    if source == "chario":
        log = open("/sys/class/chario/chardisk0n1/health_log", "rb").read()
    else:
        log = subprocess.run(["nvme", "get-log", "/dev/nvme0", "-i", "2", "-l", "512", "-b"], stdout=subprocess.PIPE).stdout
    return int.from_bytes(log[64:80], "little"), int.from_bytes(log[80:96], "little")

def measure(name, path, flags, source, offset):
    file = os.open(path, flags)
    for operation in ("read", "write"):
        for _ in range(calls):
            if not flags & os.O_DIRECT and source != "chario":
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            before = commands(source), interrupts(source if source == "chario" else "nvme0q")
            done = os.preadv(file, [area], offset) if operation == "read" else os.pwritev(file, [area], offset)
            if operation == "write" and source != "chario":
                os.fdatasync(file)
            after = commands(source), interrupts(source if source == "chario" else "nvme0q")
            assert done == length, done
            results.append([name, operation, after[0][operation == "write"] - before[0][operation == "write"], after[1] - before[1]])
    os.close(file)

if sys.argv[1] == "chario":
    measure("chario", "/dev/chardisk0n1", os.O_RDWR, "chario", 128 << 20)
else:
    measure("block-buffered", "/dev/nvme0n1", os.O_RDWR, "nvme", 128 << 20)
    measure("block-direct", "/dev/nvme0n1", os.O_RDWR | os.O_DIRECT, "nvme", 128 << 20)
    os.system("mkfs.ext4 -q -F /dev/nvme0n1 && mkdir -p /tmp/m && mount /dev/nvme0n1 /tmp/m && fallocate -l 64M /tmp/m/file")
    # Blocks that were never written would be read without a command.
    os.system("dd if=/dev/urandom of=/tmp/m/file bs=1M count=64 conv=notrunc,fsync status=none")
    measure("ext4-buffered", "/tmp/m/file", os.O_RDWR, "nvme", 0)
    measure("ext4-direct", "/tmp/m/file", os.O_RDWR | os.O_DIRECT, "nvme", 0)
    os.system("umount /tmp/m")
for result in results:
    print(json.dumps(result))
"""


def predictability(figures):
    """CharIO's calls compared with the computed numbers; a quarter as many calls of the kernel's paths show their spread."""
    calls = int(os.environ.get("STRAIGHTWAY_CALLS", "200"))
    command, unit, length = 128 << 10, 4 << 20, 64 << 20
    expected = (length // command, length // unit)
    every = []
    for kernel in ("stock", "rt"):
        beside = f"python3 /tmp/predict.py kernel {calls // 4}" if kernel == "stock" else "true"
        script = f"""set -e
        cat >/tmp/predict.py <<'P'
{PREDICTABILITY}
P
        {beside}
        insmod build/chario/{kernel}-x86_64/chario.ko
        {TO_CHARIO}
        python3 /tmp/predict.py chario {calls}
        """
        output = lab(script, "--kernel", kernel, "--drive", "size=512M,mdts=5")
        rows = [json.loads(line) for line in output.splitlines() if line.startswith("[")]
        ours = [row for row in rows if row[0] == "chario"]
        other = sum((row[2], row[3]) != expected for row in ours)
        figures.add(f"chario.{kernel}_calls_of_64m", len(ours), "calls", f">= {2 * calls}")
        figures.add(f"chario.{kernel}_calls_not_as_computed", other, "calls", "<= 0")
        every += [[kernel, *row] for row in rows]
    for name in ("block-buffered", "block-direct", "ext4-buffered", "ext4-direct"):
        for operation in ("read", "write"):
            for place, what in ((3, "commands"), (4, "interrupts")):
                values = [row[place] for row in every if row[1] == name and row[2] == operation]
                label = f"chario.beside_{name}_{operation}_{what}".replace("-", "_")
                figures.add(f"{label}_spread", max(values) - min(values), what)
    (OUT / "predictability.json").write_text(json.dumps(every))
    return every, expected


def rates(figures, straightway):
    script = f"""set -e
    insmod build/chario/{KERNEL}/chario.ko windows=0x20000000:64M
    {straightway} --quiet compare /dev/nvme0n1 --destroy-data straightway0 --sizes 4K,128K,1M,16M --rounds 7 --cell-duration 100ms \\
      --patterns sequential --output out/chario/compare --json >/dev/null || [ $? = 5 ]
    """
    lab(script, "--drive", "size=512M,mdts=5", "--kernel-args", WINDOW)
    results = json.loads((OUT / "compare" / "compare.json").read_text())["results"]
    for operation in ("read", "write"):
        for size in (128 << 10, 1 << 20, 16 << 20):
            cells = [r for r in results if r["operation"] == operation and r["block_size_bytes"] == size]
            for key, label in (("throughput_mib_s", "rate"), ("mib_s_per_cpu_percent", "rate_per_cpu")):
                value = {r["path"]: r[key] for r in cells if r.get(key)}
                ours = {path: v for path, v in value.items() if path in ("chario", "chario-registered", "chario-phys")}
                # ext4-buffered and block-buffered answer partly from memory, so they do not measure the drive.
                kernels = {path: v for path, v in value.items() if not path.startswith(("chario", "straightway"))
                           and not path.endswith("-buffered")}  # fmt: skip
                if not ours or not kernels:
                    sys.exit(f"figures: no {label} for {operation} {size}")
                best = max(kernels, key=kernels.get)
                ratio = ours["chario"] / kernels[best]
                figures.add(f"chario.{operation}_{size >> 10}k_{label}_over_{best}".replace("-", "_"), ratio, "times", ">= 1")


def built():
    OUT.mkdir(parents=True, exist_ok=True)
    run(["kernel/chario/build"])


def chario_counts(figures):
    """The repeatable figures: instructions per call."""
    built()
    counts(figures)


def chario(figures):
    chario_counts(figures)
    every, computed = predictability(figures)
    run(["cargo", "build", "--quiet", "--locked", "--release", "-p", "straightway-cli"])
    rates(figures, TARGET / "release" / "straightway")
    ours = [row for row in figures.rows if row["name"].startswith("chario.")]
    (OUT / "report.html").write_text(report(every, computed, ours))
