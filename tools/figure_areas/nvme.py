"""The driver: instructions, sizes, and 4 KiB reads in the lab compared with the kernel's paths."""

import re
import statistics

from .support import ROOT, build_example, dumps, run

# Instructions: crates/figures/examples/driver_count under Callgrind.

def bursts(program, name, count):
    return dumps([program, name, str(count)])


def instructions(figures):
    program = build_example("straightway-figures", "driver_count")

    def split(name, count, depth):
        counts = bursts(program, name, count)
        submit, reap = counts[0::2], counts[1::2]
        # In the first burst the queue caches the length of the transfers: it is reported separately below.
        both = [(one + other) / depth for one, other in zip(submit, reap)]
        return both[0], both[1:], statistics.median(submit[1:]) / depth, statistics.median(reap[1:]) / depth

    first, both, submit, reap = split("qd32", 140, 32)
    figures.add("nvme.read_4k_qd32_instructions", statistics.median(both), "instructions/read", "<= 90")
    figures.add("nvme.read_4k_qd32_submit_instructions", submit, "instructions/read")
    figures.add("nvme.read_4k_qd32_reap_instructions", reap, "instructions/read")
    figures.add("nvme.read_4k_qd32_worst_instructions", max(both), "instructions/read")
    figures.add("nvme.read_4k_qd32_worst_over_typical", max(both) / statistics.median(both), "times", "<= 1")
    figures.add("nvme.read_4k_qd32_first_instructions", first, "instructions/read")
    first, both, submit, reap = split("qd1", 300, 1)
    figures.add("nvme.read_4k_qd1_instructions", statistics.median(both), "instructions/read", "<= 130")
    figures.add("nvme.read_4k_qd1_submit_instructions", submit, "instructions/read")
    figures.add("nvme.read_4k_qd1_complete_instructions", reap, "instructions/read")
    figures.add("nvme.read_4k_qd1_worst_instructions", max(both), "instructions/read")
    figures.add("nvme.read_4k_qd1_worst_over_typical", max(both) / statistics.median(both), "times", "<= 1")
    figures.add("nvme.read_4k_qd1_first_instructions", first, "instructions/read")
    first, both, _, _ = split("large", 140, 1)
    figures.add("nvme.read_128k_instructions", statistics.median(both), "instructions/read")
    figures.add("nvme.read_128k_worst_instructions", max([first, *both]), "instructions/read")
    empty = [count / 1000 for count in bursts(program, "empty", 20)]
    figures.add("nvme.empty_poll_instructions", max(empty), "instructions/poll", "<= 10")


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
    size(figures)


def nvme(figures):
    nvme_counts(figures)
    rates(figures)
