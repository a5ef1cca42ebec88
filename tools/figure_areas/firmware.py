# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The storage coprocessor: sizes (firmware_sizes.py) and instructions, which repeat exactly, and rates, which do not."""

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .firmware_sizes import firmware_sizes
from .support import ROOT, TARGET, build_example, dumps, run

sys.path.insert(0, str(ROOT / "firmware"))
import build  # noqa: E402

LAB = ROOT / "lab" / "coprocessor"
COMMAND_BYTES = 128 << 10
STREAM_BLOCK_BYTES = 64 << 10
STREAM_BLOCKS = 256
# The clock of the small processor in the targets; one instruction per clock.
CLOCK_HZ = 100_000_000
RATE_BYTES = "256M"
LIMITED_BYTES = "1G"
# The thesis's measurements of its drive, with the driver on the main CPU.
THESIS_MIB_PER_S = {"read": 1444, "write": 1004}
UNLIMITED = 0
ROUNDS = 5


def instructions(figures, bits):
    """The driver alone in the machine: submit to completion of a sequential 128 KiB command."""
    firmware = build.build(bits)
    log = run([LAB, "--bits", str(bits), "--firmware", firmware, "--drive", "size=16M,serial=LAB1", "--benchmark",
               "--icount", "0"])  # fmt: skip
    for way in ("read", "write"):
        found = re.findall(rf"benchmark {way}: instructions (\d+) a command, worst (\d+)", log)
        if not found:
            sys.exit(f"figures: no count in the coprocessor's log:\n{log}")
        mean, worst = map(int, found[-1])
        target = "<= 600" if bits == 32 else None
        figures.add(f"firmware.riscv{bits}_{way}_128k_instructions", mean, "instructions", target)
        figures.add(f"firmware.riscv{bits}_{way}_128k_worst_instructions", worst, "instructions")


def serving(window, *words):
    """The coprocessor's own count for the last of these commands: the number of commands that it executed, and the
    instructions without empty rounds of its loop."""
    start = [LAB, "--firmware", build.build(32), "--drive", f"size=64M,serial=LAB1,file={window}.drive",
             "--window", window, "--orders", "mode=count", "--icount", "0"]  # fmt: skip
    machine = subprocess.Popen(start, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(machine, "ready")
        for command in words:
            run(list(map(str, command)))
            # It is printed when the coprocessor has noticed that the client left.
            line = wait_for(machine, "served")
    finally:
        machine.terminate()
        machine.communicate()
    commands, instructions = re.search(r"commands (\d+), .* instructions (\d+)", line).groups()
    return int(commands), int(instructions)


def wait_for(machine, start):
    """The next line of the coprocessor's log with this beginning."""
    for line in machine.stdout:
        if line.startswith(start):
            return line
    sys.exit(f"figures: the coprocessor never printed {start!r}")


def ring_instructions(figures):
    """Commands over the ring: everything that the coprocessor executes for one, including its driver."""
    example = build_example("straightway-figures", "coprocessor")
    run(["cargo", "build", "--quiet", "--locked", "--release", "-p", "straightway-cli"])
    command = TARGET / "release" / "straightway"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        window = Path(folder) / "window"
        for way in ("read", "write"):
            commands, instructions = serving(window, [example, window, "rate", way])
            each = instructions / commands
            figures.add(f"firmware.riscv32_ring_{way}_128k_instructions", each, "instructions")
            rate = COMMAND_BYTES * CLOCK_HZ / each / 1e6
            figures.add(f"firmware.riscv32_ring_{way}_128k_bound_mb_per_s_at_100_mhz", rate, "MB/s")
        _, instructions = serving(
            window, [command, "format", f"coprocessor:{window}", "--destroy-data", "LAB1", "--node", "4K"],
            [example, window, "record", "take", STREAM_BLOCK_BYTES * STREAM_BLOCKS, 0])  # fmt: skip
        figures.add("firmware.riscv32_ring_record_64k_block_instructions", instructions / STREAM_BLOCKS, "instructions")


def host_instructions(figures):
    """The main CPU's cost of a command over the ring, submission and completion."""
    program = build_example("straightway-figures", "coprocessor_count")
    for way in ("read", "write"):
        counts = dumps([program, way, "64"])
        both = [submit + reap for submit, reap in zip(counts[::2], counts[1::2])]
        figures.add(f"firmware.host_{way}_instructions", statistics.median(both), "instructions", "<= 120")
        figures.add(f"firmware.host_{way}_worst_instructions", max(both), "instructions")


def main_cpu(figures):
    """One table: the main CPU's instructions for a MiB that is read in commands of 128 KiB, by path.

    Instructions, which repeat: of the ring and of the user-space driver under Callgrind, of the kernel's
    block device (system call, block layer, driver, interrupt) in the lab, less what waits.
    """
    commands = (1 << 20) // COMMAND_BYTES
    counts = dumps([build_example("straightway-figures", "coprocessor_count"), "read", "64"])
    ring = statistics.median(submit + reap for submit, reap in zip(counts[::2], counts[1::2]))
    counts = dumps([build_example("straightway-figures", "driver_count"), "large", "64"])
    driver = statistics.median(submit + reap for submit, reap in zip(counts[::2], counts[1::2]))
    program = ROOT / "out" / "count"
    program.parent.mkdir(exist_ok=True)
    subprocess.run(["gcc", "-O2", "-static", "-I", ROOT / "kernel/chario", "-I", ROOT / "lab/count", "-o", program,
                    ROOT / "tests/chario/count.c"], check=True)  # fmt: skip
    output = ROOT / "out" / "main-cpu.txt"
    run(["lab/run", "--count", output, "--icount", "0", "--drive", "backend=null,size=128M", "--", program, "pread",
         "/dev/nvme0n1", str(COMMAND_BYTES), "64"])  # fmt: skip
    rows = [list(map(int, line.split())) for line in output.read_text().splitlines()][-64:]
    kernel = statistics.median(user + system for _, user, system, *_ in rows)
    for name, count in (("ring", ring), ("user_space_driver", driver), ("block_device", kernel)):
        figures.add(f"firmware.main_cpu_{name}_instructions_per_mib", count * commands, "instructions/MiB")
        figures.add(f"firmware.main_cpu_{name}_over_ring", count / ring, "times")


def rates(figures):
    """The same drive with the ring and without, in turns: wall time, as QEMU has it on this machine.

    Once with a drive as fast as QEMU allows: then the emulator is the limit, which needs two processors
    before the client gets any. And once with a drive as fast as that of the thesis (table 4.4), which is then
    the limit, as a real drive would be.
    """
    both = {"read": UNLIMITED, "write": UNLIMITED}
    percentages(figures, "sequential_{}", both, RATE_BYTES)
    percentages(figures, "sequential_{}_of_a_limited_drive", THESIS_MIB_PER_S, LIMITED_BYTES)


def percentages(figures, name, limits, size):
    """The ring's rate as a share of the driver's alone, for drives limited to `limit` MiB/s.

    The client waits like every user of the library: it polls for a while and then sleeps. A client that
    never sleeps is measured too.
    """
    for way, limit in limits.items():
        found = [one_round(way, limit, size) for _ in range(ROUNDS)]
        alone, ring, looking = (list(rates) for rates in zip(*found))
        prefix = f"firmware.{name.format(way)}"
        middle = statistics.median(alone)
        figures.add(f"{prefix}_without_ring_kib_per_s", middle, "KiB/s")
        figures.add(f"{prefix}_with_ring_kib_per_s", statistics.median(ring), "KiB/s")
        figures.add(f"{prefix}_ring_percent", 100 * statistics.median(ring) / middle, "%", ">= 98")
        figures.add(f"{prefix}_ring_percent_of_the_best", 100 * max(ring) / max(alone), "%")
        figures.add(f"{prefix}_ring_percent_without_sleep", 100 * statistics.median(looking) / middle, "%")


def one_round(way, limit, size):
    """KiB/s of the driver alone, over the ring, and over the ring by a client that never sleeps."""
    example = build_example("straightway-figures", "coprocessor")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        drive = f"size={size},serial=LAB1,file={folder}/drive"
        if limit:
            drive += f",iops={(limit << 20) // COMMAND_BYTES}"
        window = Path(folder) / "window"
        start = [LAB, "--firmware", build.build(32), "--drive", drive, "--window", window]
        log = run([*start, "--benchmark"])
        rates = [int(re.findall(rf"benchmark {way}: .* (\d+) KiB/s", log)[-1])]
        for words in ([], ["look"]):
            output = run([*start, "--", example, window, "rate", way, *words], stderr=subprocess.DEVNULL)
            moved, us = map(int, re.search(r"bytes (\d+) us (\d+)", output).groups())
            rates.append(moved * 1_000_000 // us >> 10)
    return rates


def firmware_counts(figures):
    """The figures that repeat exactly."""
    firmware_sizes(figures)
    try:
        for bits in (32, 64):
            instructions(figures, bits)
        ring_instructions(figures)
    except build.Missing as missing:
        figures.remark(f"SKIPPED: the coprocessor's instructions: {missing}")
    host_instructions(figures)
    main_cpu(figures)


def firmware(figures):
    firmware_counts(figures)
    try:
        rates(figures)
    except build.Missing as missing:
        figures.remark(f"SKIPPED: the coprocessor's rates: {missing}")
