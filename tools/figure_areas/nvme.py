# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The driver: instructions, sizes, and 4 KiB reads in the lab compared with the kernel's paths."""

import re
import statistics

from . import processors
from .support import ROOT, build_example, dumps, run

# Instructions: crates/figures/examples/driver_count under Callgrind, firmware/count in QEMU.
BURSTS = {"qd32": 140, "qd1": 300, "large": 140, "empty": 20}
TARGETS = {"qd32": "<= 90", "qd1": "<= 130", "empty": "<= 10"}


def callgrind(program):
    """Each scenario's counts, in the order in which its bursts ran."""
    return {name: dumps([program, name, str(count)]) for name, count in BURSTS.items()}


def add_instructions(figures, counts, prefix):
    def split(name, depth):
        submit, reap = counts[name][0::2], counts[name][1::2]
        # In the first burst the queue caches the length of the transfers: it is reported separately below.
        both = [(one + other) / depth for one, other in zip(submit, reap)]
        return both[0], both[1:], statistics.median(submit[1:]) / depth, statistics.median(reap[1:]) / depth

    for name, depth, second in (("qd32", 32, "reap"), ("qd1", 1, "complete")):
        first, both, submit, reap = split(name, depth)
        figure = f"{prefix}read_4k_{name}"
        figures.add(f"{figure}_instructions", statistics.median(both), "instructions/read", TARGETS[name])
        figures.add(f"{figure}_submit_instructions", submit, "instructions/read")
        figures.add(f"{figure}_{second}_instructions", reap, "instructions/read")
        figures.add(f"{figure}_worst_instructions", max(both), "instructions/read")
        figures.add(f"{figure}_worst_over_typical", max(both) / statistics.median(both), "times", "<= 1")
        figures.add(f"{figure}_first_instructions", first, "instructions/read")
    first, both, _, _ = split("large", 1)
    figures.add(f"{prefix}read_128k_instructions", statistics.median(both), "instructions/read")
    figures.add(f"{prefix}read_128k_worst_instructions", max([first, *both]), "instructions/read")
    empty = [count / 1000 for count in counts["empty"]]
    figures.add(f"{prefix}empty_poll_instructions", max(empty), "instructions/poll", TARGETS["empty"])


def instructions(figures):
    add_instructions(figures, callgrind(build_example("straightway-figures", "driver_count")), "nvme.")


def instructions_elsewhere(figures):
    """The same driver, drive and reads on other processors; the targets are those of x86-64."""
    for architecture in processors.TARGETS:
        if why := processors.why_not(architecture):
            figures.remark(f"SKIPPED: instructions on {architecture}: {why}")
            continue
        counts = processors.counts(architecture, processors.build(architecture), BURSTS)
        add_instructions(figures, counts, f"nvme.{architecture}_")


def size(figures):
    program = build_example("straightway-nvme", "footprint", "footprint")
    symbols = run(["nm", "-S", "-C", "--defined-only", program])
    text = 0
    for line in symbols.splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and fields[2] in "tT" and re.search(r"\b(?:straightway_)?(?:nvme|block)::|footprint_", fields[3]):
            text += int(fields[1], 16)
    assert text > 8192, f"{text} bytes: the driver's symbols have other names"
    figures.add("nvme.core_text_bytes", text, "bytes", "<= 16384")
    states = dict(line.split() for line in run([program]).splitlines())
    figures.add("nvme.controller_state_bytes", int(states["controller"]), "bytes")
    figures.add("nvme.queue_pair_state_depth_32_bytes", int(states["queue_pair_32"]), "bytes")
    # The core is built without an allocator: `alloc` is in none of its crates.
    sources = [*ROOT.glob("crates/block/src/*.rs"), *ROOT.glob("crates/nvme/src/*.rs")]
    uses = [s for s in sources if re.search(r"^\s*extern crate alloc|\balloc::", s.read_text(), re.M)]
    figures.add("nvme.core_files_that_use_a_heap", len(uses), "files", "<= 0")


def rates(figures):
    """One boot, random 4 KiB reads at queue depth 32; medians of 7 rounds."""
    program = build_example("straightway-figures", "iops")
    for name, machine in (("iommu", []), ("no_iommu", ["--no-iommu"])):
        output = run(["lab/run", *machine, "--drive", "backend=null,size=4G", "--",
                      str(program), "/dev/nvme0n1", "7", "300"])
        paths, counts = {}, {}
        for line in output.splitlines():
            fields = line.split()
            if fields[0] == "path":
                paths.setdefault(fields[1], []).append(int(fields[2]))
            else:
                counts[fields[0]] = fields[1]
        medians = {path: statistics.median(values) for path, values in paths.items()}
        straight = {path: medians.pop(path) for path in list(medians) if path.startswith("straightway")}
        ours = max(straight.values())
        best = max(medians, key=medians.get)
        figures.add(f"nvme.lab_{name}_iops_straightway", int(ours), "reads/s")
        figures.add(f"nvme.lab_{name}_iops_kernel_best_{best}", int(medians[best]), "reads/s")
        figures.add(f"nvme.lab_{name}_iops_ratio", ours / medians[best], "times", ">= 3.5")
        commands = int(counts["burst_commands"])
        submission = int(counts["burst_submission_doorbells"]) / commands
        completion = int(counts["burst_completion_doorbells"]) / commands
        figures.add(f"nvme.lab_{name}_submission_doorbells", submission, "doorbells/command", "<= 0.03125")
        figures.add(f"nvme.lab_{name}_completion_doorbells", completion, "doorbells/command", "<= 0.03125")
        figures.add(f"nvme.lab_{name}_polling_interrupts", int(counts["polling_interrupts"]), "interrupts", "<= 0")
        longest = int(counts["large_read_max_transfer_bytes"])
        expected = -(-int(counts["large_read_bytes"]) // longest)
        extra = abs(int(counts["large_read_commands"]) - expected)
        figures.add(f"nvme.lab_{name}_large_read_commands", int(counts["large_read_commands"]), "commands")
        figures.add(f"nvme.lab_{name}_large_read_commands_off", extra, "commands", "<= 0")


def nvme_counts(figures):
    """The figures that repeat exactly, and so may gate a change."""
    instructions(figures)
    instructions_elsewhere(figures)
    size(figures)


def nvme(figures):
    nvme_counts(figures)
    rates(figures)
