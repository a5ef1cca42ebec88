# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's sections 3.3 to 3.5 and appendix E.1, and of the paper: speed, processor time, copying."""

from .evidence import (
    BOTH, KIB, MIB, MUCH, SPEEDS, TIME, WHERE, Claim, Finding, Row, all_of, bulk, cell, cells, faster, is_emulated, most_of, much_faster, need, only, ratios,
    share_interval, size,
)  # fmt: skip

TMPFS = (4 * KIB, 64 * KIB, 512 * KIB, MIB, 16 * MIB)
SMALL, SWEPT = (512, 4 * KIB), (512, 4 * KIB, 64 * KIB, 512 * KIB, MIB, 16 * MIB)
COUNTED = (4 * KIB, 64 * KIB, 128 * KIB, 512 * KIB, MIB, 16 * MIB)
PROFILES = tuple(f"profile-block-{how}-{name}" for how in ("buffered", "direct") for name in ("4K", "128K", "1M", "16M"))


def speed_ratios(run, where, operation, sizes):
    """Direct over buffered, sequential."""
    return [
        (number, *(cell(run, path=f"{where}-{how}", operation=operation, pattern="sequential", block_size_bytes=number) for how in ("direct", "buffered")))
        for number in sizes
    ]  # fmt: skip


def direct_is(wanted, sizes):
    """Whether direct I/O is much faster (or much slower) than buffered in each sequential cell of these sizes."""

    def judge(run):
        texts, truths = [], []
        for where in WHERE:
            for operation in BOTH:
                found = speed_ratios(run, where, operation, sizes)
                texts.append(f"{where} {operation} " + ratios([(n, d["throughput_mib_s"] / b["throughput_mib_s"]) for n, d, b in found]))
                truths += [much_faster(*((d, b) if wanted else (b, d))) for _, d, b in found]
        return Finding("direct over buffered: " + "; ".join(texts), all_of(truths), TIME, is_emulators=wanted)

    return judge


def coalesces(counts):
    """Commands a MiB at 4 KiB: buffered I/O gathers, direct does not."""
    texts, truths = [], []
    for where in WHERE:
        for operation in BOTH:
            of = {how: bulk(counts, f"{where}-{how}", operation, "sequential", 4 * KIB)["commands_per_mib"] for how in ("buffered", "direct")}
            texts.append(f"{where} {operation} {of['buffered']:.3g} and {of['direct']:.4g}")
            truths.append(of["direct"] > 10 * of["buffered"])
    return Finding("commands a MiB in blocks of 4 KiB, buffered and direct: " + ", ".join(texts), all_of(truths))


def nears(one, other):
    """Whether a cell has at least four fifths of another's speed, by their intervals."""
    slower = faster(other, one, 1 / 0.8)
    return None if slower is None else not slower


def largest_twice(run):
    """Only of a real machine: here the ratio is one of the emulator's prices over another."""
    most = [max(one["throughput_mib_s"] for one in cells(run, path=f"block-{how}")) for how in ("direct", "buffered")]
    ratio = most[0] / most[1]
    if is_emulated(run):
        text = f"{ratio:.0f} times: the ratio is the price of a copy by the emulated processor over one by the emulated drive"
        return Finding(text, None, TIME, is_emulators=True)
    return Finding(f"{ratio:.2f} times", 1.6 <= ratio <= 2.2, TIME)


def random_nears_sequential(run):
    """Random over sequential speed: surely below at 4 KiB, surely near at 16 MiB."""
    texts, truths = [], []
    for path in ("ext4-buffered", "block-buffered"):
        of = {}
        for number in (4 * KIB, 16 * MIB):
            pair = [cell(run, path=path, operation="read", pattern=pattern, block_size_bytes=number) for pattern in ("random", "sequential")]
            of[number] = pair[0]["throughput_mib_s"] / pair[1]["throughput_mib_s"]
            truths.append(much_faster(*reversed(pair)) if number == 4 * KIB else nears(*pair))
        texts.append(f"{path} {ratios(of.items())}")
    return Finding("random over sequential reads: " + "; ".join(texts), all_of(truths), TIME)


def tmpfs_is_faster(run, tmpfs):
    texts, truths = [], []
    for number in TMPFS:
        one = cell(tmpfs, path="file-buffered", operation="read", pattern="sequential", block_size_bytes=number)
        standard = max((cell(run, path=f"{where}-buffered", operation="read", pattern="sequential", block_size_bytes=number) for where in WHERE),
                       key=lambda found: found["throughput_mib_s"])  # fmt: skip
        texts.append((number, one["throughput_mib_s"] / standard["throughput_mib_s"]))
        truths.append(much_faster(one, standard, is_same_run=False))
    return Finding("tmpfs over standard reads: " + ratios(texts), all_of(truths), TIME)


def utilisations(run):
    """Direct and buffered in pairs of cells."""
    return [
        (cell(run, path=f"{where}-direct", **words), cell(run, path=f"{where}-buffered", **words))
        for where in WHERE
        for operation in BOTH
        for pattern in ("sequential", "random")
        for number in SWEPT
        for words in [{"operation": operation, "pattern": pattern, "block_size_bytes": number}]
    ]


def less_utilisation(run):
    pairs = utilisations(run)
    truths = [direct["cpu_percent"] < buffered["cpu_percent"] for direct, buffered in pairs]
    return Finding(f"less in {sum(truths)} of {len(truths)} cells", most_of(truths, 0.9), TIME, is_emulators=True)


def exceptions_are_small(run):
    """Cells in which direct I/O utilises the processors more: none above 4 KiB. Without any there is nothing to judge."""
    more = [direct for direct, buffered in utilisations(run) if direct["cpu_percent"] > buffered["cpu_percent"]]
    need(more, "there is no exception: direct I/O utilises the processors less in every cell")
    names = sorted({f"{one['path']} {one['operation']} {one['pattern']} {size(one['block_size_bytes'])}" for one in more})
    return Finding(f"more with {', '.join(names)}", all(one["block_size_bytes"] in SMALL for one in more), TIME, is_emulators=True)


def per_mib(counts, sizes):
    """Instructions a MiB, direct over buffered, of sequential transfers: as text, and as numbers."""
    texts, found = [], []
    for where in WHERE:
        for operation in BOTH:
            of = []
            for number in sizes:
                direct, buffered = (bulk(counts, f"{where}-{how}", operation, "sequential", number)["instructions_per_mib"] for how in ("direct", "buffered"))
                of.append((number, direct / buffered))
            texts.append(f"{where} {operation} " + ratios(of))
            found += [ratio for _, ratio in of]
    return "instructions a MiB, direct over buffered: " + "; ".join(texts), found


def far_more_efficient(counts):
    """The copies, which the count leaves out, only standard I/O pays: it can only understate the claim."""
    text, found = per_mib(counts, (512 * KIB, MIB, 16 * MIB))
    return Finding(text, all_of(ratio < 1 / MUCH for ratio in found))


def small_are_more_efficient(run, counts):
    """Standard I/O's speed for each per cent of processor time, on a real machine: a count leaves out its copies."""
    text, _ = per_mib(counts, (4 * KIB,))
    if is_emulated(run):
        return Finding(f"{text}: without the copies, which only standard I/O pays, so the count cannot decide for it", None)
    texts, truths = [], []
    for where in WHERE:
        for operation in BOTH:
            of = []
            for number, direct, buffered in speed_ratios(run, where, operation, SMALL):
                of.append((number, buffered["mib_s_per_cpu_percent"] / direct["mib_s_per_cpu_percent"]))
            texts.append(f"{where} {operation} {ratios(of)}")
            truths += [ratio > 1 for _, ratio in of]
    return Finding("MiB/s for each per cent of a core, buffered over direct: " + "; ".join(texts), all_of(truths), TIME)


def flat_and_growing(counts):
    """What a MiB takes: over block sizes about the same when buffered; when direct, far more in 4 KiB than in 16 MiB.

    The copies, which the count leaves out, are the same for each MiB: they make standard I/O flatter still.
    """
    texts, truths = [], []
    for where in WHERE:
        for operation in BOTH:
            of = {
                how: [bulk(counts, f"{where}-{how}", operation, "sequential", number)["instructions_per_mib"] for number in COUNTED]
                for how in ("buffered", "direct")
            }
            spread, gain = max(of["buffered"]) / min(of["buffered"]), of["direct"][0] / of["direct"][-1]
            texts.append(f"{where} {operation} {spread:.2g} and {gain:.2g}")
            truths.append(spread < 2 and gain > 4)
    return Finding("instructions a MiB, buffered: most over least of the block sizes, direct: 4 KiB over 16 MiB: " + ", ".join(texts), all_of(truths))


def falls_again(counts):
    """Instructions a MiB in the largest blocks over the least of smaller ones.

    One rise is enough to hold. Without any only sizes as large as the thesis's, which ends at 768 MiB, can deny it.
    """
    texts, truths = [], []
    *sizes, largest = sorted({one["block_size_bytes"] for one in counts["bulk"]})
    for where in WHERE:
        for operation in BOTH:
            smaller = [bulk(counts, f"{where}-direct", operation, "sequential", number)["instructions_per_mib"] for number in sizes]
            last = bulk(counts, f"{where}-direct", operation, "sequential", largest)["instructions_per_mib"]
            texts.append(f"{where} {operation} {last / min(smaller):.2g}")
            truths.append(last > 1.1 * min(smaller))
    text = f"instructions a MiB of direct I/O, {size(largest)} over the least of smaller blocks: " + ", ".join(texts)
    if not any(truths) and largest < 256 * MIB:
        return Finding(f"{text}; no size as large as the thesis's was run", None)
    return Finding(text, any(truths))


def counted_copy(counts):
    copy = only((one for one in counts["requests"] if one["path"] == "copy"), "copy")
    need(sum(copy["kernel"]) > 0 and sum(copy["user"]) > 0, "nothing was counted: copy")
    share = sum(copy["kernel"]) / (sum(copy["kernel"]) + sum(copy["user"]))
    return Finding(f"{100 * share:.1f} % of the instructions are the kernel's", share > 0.97)


def copying(*runs):
    """The share of the routines that copy to and from user space: above a tenth with standard I/O, none with direct I/O.

    None is less than a tenth of standard I/O's least share. Samples are few, so both are judged by their intervals."""
    of = {"block-buffered": [], "block-direct": []}
    for run in runs:
        need(run["busy_samples"] > 0 and run["functions"], "no sample was taken")
        share = sum(one["own_share"] for one in run["functions"] if "copy" in one["name"] and "user" in one["name"])
        of[run["path"]].append((run["block_size_bytes"], share, share_interval(share, run["busy_samples"])))
    least_low, least_high = (min(interval[end] for _, _, interval in of["block-buffered"]) for end in (0, 1))
    most_low, most_high = (max(interval[end] for _, _, interval in of["block-direct"]) for end in (0, 1))
    texts = {path: ratios((number, 100 * share) for number, share, _ in shares) for path, shares in of.items()}
    return Finding(
        f"% of the busy samples in the copy routines: buffered {texts['block-buffered']}; direct {texts['block-direct']}",
        all_of([
            True if least_low > 0.1 else False if least_high < 0.1 else None,
            True if most_high < least_low / 10 else False if most_low > least_high / 10 else None,
        ]),
        TIME,
        is_emulators=True,
    )  # fmt: skip


def by_speed(*runs):
    """Operations a second by the processor's speed. An emulated drive answers at once, so the runs decide only on a real machine."""
    points = [run["points"][0] for run in runs]
    speed = points[-1]["loop_ns"] / points[0]["loop_ns"]
    texts, truths = [], []
    for path in ("block-buffered", "block-direct"):
        for operation in BOTH:
            of = []
            for number in (4 * KIB, 512 * KIB, 16 * MIB):
                words, what = (path, operation, number), f"{path} {operation} {size(number)}"
                rates = [
                    only((one["iops"] for one in point["results"] if (one["path"], one["operation"], one["block_size_bytes"]) == words), what)
                    for point in (points[0], points[-1])
                ]
                of.append((number, rates[0] / rates[1]))
            texts.append(f"{path} {operation} {ratios(of)}")
            truths += [0.75 <= ratio / speed <= 1.25 for _, ratio in of]
    text = f"with a processor {speed:.2g} times as fast: " + "; ".join(texts)
    if any(map(is_emulated, runs)):
        return Finding(text, None, TIME)
    need(speed >= 2, f"{text}: too near to each other")
    return Finding(text, all_of(truths), TIME)


def untold(reason):
    """A claim for which the tools have no measurement."""
    return lambda *_: Finding(reason, None)


ROWS = [
    Row(
        "3.3, 3.4: call graphs of a copy",
        "a copy of 2 GiB in ext4 by read and append of 4 KiB, cold caches, OProfile on a server",
        (
            Claim("3.3-kernel", "about 99 % of the time is spent in the kernel", ("counts",), counted_copy),
            Claim("3.3-copying", "just over 10 % is spent in copy_user_generic_string", ("counts",),
                  untold("a string instruction counts once whatever it copies, and its time is the emulator's")),
        ),
        ("32 MiB", "instructions instead of cycles"),
    ),
    Row(
        "3.5, 3.6, 3.11, 3.12; paper's 2: speed by block size",
        "fio, 20 GiB for each size from 512 B, hard disk, SATA and NVMe drives, a server and a board; tmpfs on the board",
        (
            Claim("3.5-small", "in 512 B and 4 KiB, sequential, direct I/O is much slower than standard", ("sweep",), direct_is(False, SMALL)),
            Claim("3.5-gathered", "because standard I/O is gathered into larger transfers", ("counts",), coalesces),
            Claim("3.5-large", "on the NVMe drive direct I/O is much faster from 512 KiB on", ("sweep",), direct_is(True, (512 * KIB, MIB, 16 * MIB))),
            Claim("3.11-twice", "the largest direct speeds are almost twice the standard ones (board)", ("sweep",), largest_twice),
            Claim("3.5-random", "small random accesses are slow; large ones near the sequential speed", ("sweep",), random_nears_sequential),
            Claim("3.11-tmpfs", "tmpfs is far faster than the drives with standard I/O", ("sweep", "sweep-tmpfs"), tmpfs_is_faster),
        ),
        (SPEEDS, "one NVMe drive", "span of 512 MiB in 256 MiB of memory, 5 rounds of 0.2 s", "tmpfs: reads"),
    ),
    Row(
        "3.7, 3.8, 3.13, 3.14; paper's 3: CPU utilisation",
        "the same runs; fio's and dstat's CPU time",
        (
            Claim("3.7-less", "direct I/O utilises the processors less in almost all cells", ("sweep",), less_utilisation),
            Claim("3.7-exceptions", "the exceptions are small blocks", ("sweep",), exceptions_are_small),
        ),
        (SPEEDS, "the whole machine's time; the paper's is the busier core's"),
    ),
    Row(
        "3.9, 3.10, 3.15, 3.16: speed for each per cent of CPU",
        "the same runs",
        (
            Claim("3.9-flat", "large blocks raise direct I/O's efficiency; standard I/O's is nearly constant", ("counts",), flat_and_growing),
            Claim("3.9-large", "from 512 KiB on direct I/O is far more efficient", ("counts",), far_more_efficient),
            Claim("3.15-small", "with small blocks standard I/O is more efficient (board)", ("sweep", "counts"), small_are_more_efficient),
            Claim("3.9-falls", "direct I/O's efficiency can fall again with the largest blocks", ("counts",), falls_again),
        ),
        (SPEEDS, "instructions a MiB instead of time: a real machine's copies come on top of standard I/O's", "blocks of 16 MiB at most"),
    ),
    Row(
        "3.17; paper's 4: time in the copy routines",
        "operf beside the runs on the board; hard disk and NVMe drive",
        (
            Claim("3.17-copying", "standard I/O spends a large part of its time copying, direct I/O none", PROFILES, copying),
            Claim("3.17-flush", "direct writes spend a large part of it flushing the processor's cache", PROFILES,
                  untold("a coherent machine has no such flush, and only reads were profiled")),
        ),
        (SPEEDS, "reads of the block device"),
    ),
    Row(
        "the paper: blocks of 512 and 768 MiB, the busier core's time",
        "fio on the board; speed, the most that either core was busy, time in the copy routines",
        (),
        remark="Not run: sizes end at 16 MiB here, and a sweep records the machine's time, not each core's; what the paper shares with the thesis is above",
    ),
    Row(
        "3.18, 3.19, E.1 to E.4: speed by CPU frequency",
        "200 to 800 MHz on the board",
        (Claim("3.18-linear", "the solid-state drives' speeds rise about linearly with the frequency", ("speed-0", "speed-1", "speed-2"), by_speed),),
        ("instructions per virtual nanosecond (`--icount 0`, `1`, `2`) instead of a frequency", "the emulated drive does not slow down with the "
         "processor, and answers in host time: how much of a request is software is not a board's"),
    ),
]  # fmt: skip
