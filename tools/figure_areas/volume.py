# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Volumes: instructions of a data request, commands and bytes of the work, sizes; and in the lab
the same work compared with kernel file systems, and the rates of whole files."""

import platform
import statistics

from .support import build_example, dumps, run
from .volume_lab import Phases, rates, show, traffic
from .volume_size import text_on_riscv32

APPEND = 131072
RECORD = 4096


class Counted:
    """Submissions and polls of one kind of request."""

    def __init__(self, program, target, kind, length, depth, rounds):
        self.depth = depth
        counts = dumps([program, target, kind, *map(str, (length, depth, rounds))])
        rounds = [counts[at:at + 2 * depth] for at in range(0, len(counts), 2 * depth)]
        # In the first round the driver and the volume cache their lengths.
        self.first, self.rounds = rounds[0], rounds[1:]

    def typical(self):
        return statistics.median(sum(one) for one in self.rounds) / self.depth

    def submit(self):
        return statistics.median(count for one in self.rounds for count in one[:self.depth])

    def poll(self):
        return statistics.median(count for one in self.rounds for count in one[self.depth:])

    def worst_submit(self):
        return max(count for one in [self.first, *self.rounds] for count in one[:self.depth])

    def worst_poll(self):
        return max(count for one in [self.first, *self.rounds] for count in one[self.depth:])


def instructions(figures):
    """crates/figures/examples/volume_count under Callgrind: requests to a file and to the driver."""
    program = build_example("straightway-figures", "volume_count")

    def count(target, kind, length, depth=1, rounds=100):
        return Counted(program, target, kind, length, depth, rounds)

    for name, kind, length, target in (
        ("append_128k", "write", APPEND, "<= 400"),
        ("append_4k", "write", RECORD, None),
        ("read_128k", "read", APPEND, None),
        ("read_4k", "read", RECORD, None),
    ):
        alone, filed = count("driver", kind, length), count("file", kind, length)
        above = filed.typical() - alone.typical()
        figures.add(f"volume.{name}_instructions", filed.typical(), "instructions")
        figures.add(f"volume.{name}_driver_alone_instructions", alone.typical(), "instructions")
        figures.add(f"volume.{name}_above_driver_instructions", above, "instructions", target)
        figures.add(f"volume.{name}_submit_above_driver_instructions", filed.submit() - alone.submit(), "instructions")
        figures.add(f"volume.{name}_poll_above_driver_instructions", filed.poll() - alone.poll(), "instructions")
        # A round is compared with the driver's round of the same number, because both fill their caches in the same way.
        worst = max(
            sum(ours) - sum(own)
            for ours, own in zip([filed.first, *filed.rounds], [alone.first, *alone.rounds])
        )
        figures.add(f"volume.{name}_above_driver_worst_instructions", worst, "instructions", target)

    # The maximum of steps: the fourth of four extents; the 32nd of 32 appends processed together.
    alone = count("driver", "write", APPEND)
    scattered = count("scattered", "write", APPEND, depth=4, rounds=20)
    figures.add("volume.append_128k_fourth_extent_submit_above_driver_worst_instructions",
                scattered.worst_submit() - alone.worst_submit(), "instructions")
    scattered = count("scattered", "read", RECORD, depth=4, rounds=20)
    own = count("driver", "read", RECORD, depth=4, rounds=20)
    figures.add("volume.read_4k_fourth_extent_submit_above_driver_worst_instructions",
                scattered.worst_submit() - own.worst_submit(), "instructions")
    deep, own = (count(target, "write", APPEND, depth=32, rounds=4) for target in ("file", "driver"))
    figures.add("volume.append_128k_depth_32_newest_first_above_driver_instructions",
                deep.typical() - own.typical(), "instructions")
    figures.add("volume.append_128k_depth_32_newest_first_poll_above_driver_worst_instructions",
                deep.worst_poll() - own.worst_poll(), "instructions")
    summed = count("checksums", "write", APPEND, rounds=10)
    figures.add("volume.append_128k_checksums_instructions_a_byte", summed.typical() / APPEND, "instructions/byte")


def on_memory(figures):
    """The commands of the work, on memory, which repeat exactly."""
    program = build_example("straightway-figures", "volume_io")
    for block in (512, 4096):
        phases = Phases.parse(run([program, f"ram:{block}", "64"]))
        show(figures, f"volume.memory_{block}", phases, targets=True)


def many(figures):
    """Many files on memory: 10,000 into a new volume; and one of 1,000,000, beside one of 1,000. A minute of work."""
    program = build_example("straightway-figures", "volume_many")

    def counts(*words):
        return {name: float(value) for name, value in (line.split() for line in run([program, *words]).splitlines())}

    put = counts("put", "10000")
    figures.add("volume.put_10000_files_flushes", int(put["flushes"]), "flushes", "<= 160")
    # Each file's slot has two members, which are written apart: fewer than 2 only where neighbours share a command.
    figures.add("volume.put_10000_files_node_writes", put["node_writes"], "writes/file", "<= 1.2")
    figures.add("volume.put_10000_files_moves", int(put["moves"]), "files")
    few, most = counts("one", "1000"), counts("one", "1000000")
    for verb in ("stat", "get", "put", "rm"):
        figures.add(f"volume.{verb}_of_1000_files_most_reads", int(few[f"{verb}_reads"]), "reads")
        bound = f"<= {int(few[f'{verb}_reads'])}"
        figures.add(f"volume.{verb}_of_1000000_files_most_reads", int(most[f"{verb}_reads"]), "reads", bound)
        figures.add(f"volume.{verb}_of_1000000_files_most_read_bytes", int(most[f"{verb}_read_bytes"]), "bytes", "<= 65536")
    figures.add("volume.check_of_1000000_files_reads", int(most["check_reads"]), "reads")
    figures.add("volume.check_of_1000000_files_reads_a_64k", most["check_reads_over_64k"], "reads/64 KiB", "<= 1")


def state(figures):
    """Bytes of memory, on this machine."""
    program = build_example("straightway-figures", "volume_io")
    for line in run([program, "sizes", "0"]).splitlines():
        name, size = line.split()
        target = "<= 272" if name == "volume" else None
        figures.add(f"volume.{name}_bytes", int(size), "bytes", target)


def volume_counts(figures):
    """The figures that repeat exactly, and so may gate a change."""
    if platform.machine() == "x86_64":
        instructions(figures)
    else:
        figures.remark("SKIPPED: instructions are counted on x86-64")
    on_memory(figures)
    state(figures)


def volume(figures):
    volume_counts(figures)
    text_on_riscv32(figures)
    traffic(figures)
    rates(figures)
    many(figures)
