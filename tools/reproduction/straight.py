# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's sections 4.3 and 4.4: CharIO."""

from statistics import mean as average

from . import printed
from .evidence import (
    BOTH, KERNEL, KIB, MIB, SPEEDS, TIME, Claim, Finding, Row, all_of, bulk, cell, device_share, faster, is_emulated, most_of, need, pairs_hold, quantile,
    ratios, requests, several_peaks, size, traces,
)  # fmt: skip

CHARIO = ("chario", "chario-phys")
EIGHTY = traces(("ext4-direct", "block-direct", "chario"), ("read",), ("80K",))
TABLE = (4 * KIB, 128 * KIB, MIB, 16 * MIB)


def less_in_kernel(counts):
    """Kernel instructions of a read: CharIO below each of the kernel's paths, with physical addresses below CharIO's own."""
    texts, truths = [], []
    for number in (40 * KIB, 80 * KIB):
        of = {path: average(requests(counts, path, "read", number)["kernel"]) for path in (*KERNEL, *CHARIO)}
        texts.append(f"{size(number)}: " + ", ".join(f"{path} {value:,.0f}" for path, value in of.items()))
        truths += [of["chario"] < min(of[path] for path in KERNEL), of["chario-phys"] < of["chario"]]
    return Finding("kernel instructions of a read, " + "; ".join(texts), all_of(truths))


def total_of_80k(*runs):
    """None below a fifth: two runs of the same differ by as much."""
    of = {run["path"]: quantile(run, 0.5) / 1e3 for run in runs}
    ratio = of["chario"] / min(of[path] for path in ("ext4-direct", "block-direct"))
    text = "median read of 80 KiB, us: " + ", ".join(f"{path} {value:.0f}" for path, value in of.items())
    return Finding(text, None if 0.8 < ratio < 1.25 else ratio < 1, TIME)


def shifts_to_device(*runs):
    """The device's part of a read's time, CharIO's beside the kernel's: only of a real drive."""
    of = {run["path"]: device_share(run) for run in runs}
    text = "the device's part of a read of 80 KiB: " + ", ".join(f"{path} {100 * share:.0f} %" for path, share in of.items())
    if any(map(is_emulated, runs)):
        return Finding("the emulated drive's response is the host's", None, TIME)
    return Finding(text, of["chario"] > max(of["ext4-direct"], of["block-direct"]), TIME)


def spreads(run, operation):
    """Of each of the kernel's paths: most less least of its calls' commands, and of their interrupts."""
    of = {}
    for path in KERNEL:
        calls = [one[3:] for one in run["calls"] if one[1:3] == [path, operation]]
        need(len(calls) >= 20, f"only {len(calls)} calls: {path} {operation}")
        of[path] = tuple(max(values) - min(values) for values in zip(*calls))
    return of


def told(of):
    return ", ".join(f"{path} {commands} commands ({interrupts} interrupts)" for path, (commands, interrupts) in of.items())


def as_computed(run):
    ours = {operation: [tuple(one[3:]) for one in run["calls"] if one[1:3] == ["chario", operation]] for operation in BOTH}
    need(all(len(calls) >= 100 for calls in ours.values()), "fewer than 100 calls of CharIO")
    every, expected = [call for calls in ours.values() for call in calls], tuple(run["computed"])
    other = sum(one != expected for one in every)
    return Finding(f"{len(every)} calls of 64 MiB on two kernels: {expected[0]} commands and {expected[1]} interrupts in all but {other}", other == 0)


def kernel_varies(run):
    """Each of the kernel's paths varies, also both with direct I/O, which no limit of dirty pages reaches."""
    of = spreads(run, "write")
    constant = [path for path, (commands, _) in of.items() if not commands]
    direct = [path for path in constant if path.endswith("direct")]
    text = f"writes, most less least: {told(of)}" + (f"; always the same number: {', '.join(constant)}" if constant else "")
    return Finding(text, False if direct else None if constant else True)


def as_large_as_the_thesis(run, text):
    """512 MiB a call, half of the board's memory: the kernel begins to write while the program still does."""
    need(run["computed"][0] >= 4096, f"{text}; in calls of 64 MiB, which stay below the kernel's limit of dirty pages")


def writes_vary_more(run):
    """Ten times as much, since the thesis's reads vary by 5 commands."""
    of = {operation: max(spread[0] for spread in spreads(run, operation).values()) for operation in BOTH}
    text = f"commands, most less least of any path: writes {of['write']}, reads {of['read']}"
    as_large_as_the_thesis(run, text)
    return Finding(text, of["write"] >= 10 * max(of["read"], 1))


def buffered_varies_most(run):
    """By commands, as the row's other claims: how many of them one interrupt answers is the emulator's timing."""
    of = spreads(run, "write")
    text = f"writes, most less least: {told(of)}"
    as_large_as_the_thesis(run, text)
    rest = [spread for path, (spread, _) in of.items() if path != "block-buffered"]
    return Finding(text, of["block-buffered"][0] > max(rest))


def tighter(*runs):
    """A sign test over the kinds of request: with physical addresses the 95th percentile over the median is smaller."""
    of = {}
    for run in runs:
        of.setdefault((run["operation"], run["block_size_bytes"]), {})[run["path"]] = quantile(run, 0.95) / quantile(run, 0.5)
    texts = [f"{operation} {size(number)} {both['chario']:.2f} and {both['chario-phys']:.2f}" for (operation, number), both in of.items()]
    truth = pairs_hold(both["chario-phys"] < both["chario"] for both in of.values())
    return Finding("95th percentile over median, plain and physical: " + ", ".join(texts), truth, TIME)


def chario_over(paths, sizes, operations=BOTH):
    """CharIO faster than the best of these paths."""

    def judge(run):
        texts, truths = [], []
        for operation in operations:
            of = []
            for number in sizes:
                words = {"operation": operation, "block_size_bytes": number}
                best = max((cell(run, path=path, **words) for path in paths), key=lambda one: one["throughput_mib_s"])
                ours = cell(run, path="chario", **words)
                of.append((number, ours["throughput_mib_s"] / best["throughput_mib_s"]))
                truths.append(faster(ours, best))
            texts.append(f"{operation} {ratios(of)}")
        return Finding("CharIO over the best of them: " + "; ".join(texts), all_of(truths) if False in truths else most_of(truths), TIME)

    return judge


def least_cpu(counts):
    """Kernel instructions a MiB: CharIO beside the least of the kernel's paths."""
    texts, truths = [], []
    for operation in BOTH:
        of = []
        for number in TABLE:
            ours, *direct = (average(requests(counts, path, operation, number)["kernel"]) * MIB / number for path in ("chario", "ext4-direct", "block-direct"))
            buffered = [bulk(counts, path, operation, "sequential", number)["kernel_instructions_per_mib"] for path in ("ext4-buffered", "block-buffered")]
            of.append((number, ours / min(*direct, *buffered)))
            truths.append(ours < min(*direct, *buffered))
        texts.append(f"{operation} {ratios(of)}")
    return Finding("kernel instructions a MiB, CharIO over the least of the kernel's paths: " + "; ".join(texts), all_of(truths))


ROWS = [
    Row(
        "4.4: 40 and 80 KiB reads",
        "means of 10,000 reads through ext4, the block device and CharIO, the profiling timer",
        (
            Claim("4.4-kernel", "CharIO computes less in the kernel than ext4 or the block device, and less still with physical addresses", ("counts",),
                  less_in_kernel),
            Claim("4.4-total", "its total latency is slightly better on the larger transfer", EIGHTY, total_of_80k),
            Claim("4.4-device", "time shifts into the drive's response", EIGHTY, shifts_to_device),
        ),
        ("200 reads by instructions, 1,000 by time", SPEEDS),
    ),
    Row(
        "4.5, 4.6: interrupts of large transfers",
        "1,000 reads and 1,000 writes of 512 MiB on each path, counted by the profiling timer",
        (
            Claim("4.5-computed", "CharIO's number can be computed, and is met each time", ("interrupts",), as_computed),
            Claim("4.5-varies", "the kernel's paths vary, even with direct I/O", ("interrupts",), kernel_varies),
            Claim("4.6-writes", "writes vary far more than reads", ("interrupts",), writes_vary_more),
            Claim("4.6-most", "standard I/O on the block device varies most", ("interrupts",), buffered_varies_most),
        ),
        ("64 MiB; 200 calls of CharIO on each of two kernels, 50 of each of the kernel's paths", "the kernel's paths by commands, which the thesis counts by "
         "their interrupts: in the lab one interrupt answers several commands that end together, how many is the emulator's timing"),
    ),
    Row(
        "4.7, 4.8: densities of CharIO's reads and writes",
        "1,000 requests of 4, 8, 40 and 80 KiB, plain and with physical addresses",
        (
            Claim("4.7-tighter", "physical addresses make slightly tighter distributions", traces(CHARIO), tighter),
            Claim("4.7-peaks", "the densities have peaks and troughs", traces(CHARIO), several_peaks),
        ),
        (SPEEDS,),
    ),
    Row(
        "table 4.1: speed and CPU by path",
        "dd, 100 GiB sequentially, on a board",
        (
            Claim("t4.1-fastest", "CharIO is the fastest of all from 128 KiB on", ("table-41",), chario_over(KERNEL, TABLE[1:])),
            Claim("t4.1-direct", "in 4 KiB it is faster than direct I/O", ("table-41",), chario_over(("ext4-direct", "block-direct"), TABLE[:1])),
            Claim("t4.1-standard", "in 4 KiB it writes faster than standard I/O on the block device", ("table-41",),
                  chario_over(("block-buffered",), TABLE[:1], ("write",))),
            Claim("t4.1-cpu", "it takes the least CPU of the kernel in every transfer", ("counts",), least_cpu),
        ),
        (SPEEDS, "700 MiB in 400 MiB of memory, 15 rounds", "standard I/O's instructions contain its flush, but not the price of its copies"),
        numbers=printed.table_41,
    ),
]  # fmt: skip
