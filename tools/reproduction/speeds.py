# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's sections 3.3 to 3.5 and appendix E.1, and of the paper: speed, processor time, copying."""

from .evidence import (
    BOTH, KIB, MIB, SPEEDS, TIME, WHERE, Claim, Finding, Row, all_of, bulk, cell, cells, faster, most_of, only, ratios, share_interval, size,
)  # fmt: skip

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
    """Whether direct I/O is faster (or slower) than buffered in each sequential cell of these sizes."""

    def judge(run):
        texts, truths = [], []
        for where in WHERE:
            for operation in BOTH:
                found = speed_ratios(run, where, operation, sizes)
                texts.append(f"{where} {operation} " + ratios([(n, d["throughput_mib_s"] / b["throughput_mib_s"]) for n, d, b in found]))
                truths += [None if (one := faster(d, b)) is None else one == wanted for _, d, b in found]
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


def random_nears_sequential(run):
    """Random over sequential speed: below at 4 KiB, not below at 16 MiB."""
    texts, truths = [], []
    for path in ("ext4-buffered", "block-buffered"):
        of = {}
        for number in (4 * KIB, 16 * MIB):
            pair = [cell(run, path=path, operation="read", pattern=pattern, block_size_bytes=number) for pattern in ("random", "sequential")]
            of[number] = pair[0]["throughput_mib_s"] / pair[1]["throughput_mib_s"]
            slower = faster(pair[1], pair[0])
            truths.append(slower if number == 4 * KIB else slower is not True)
        texts.append(f"{path} {ratios(of.items())}")
    return Finding("random over sequential reads: " + "; ".join(texts), all_of(truths), TIME)


def tmpfs_is_faster(run, tmpfs):
    texts, truths = [], []
    for one in cells(tmpfs):
        number = one["block_size_bytes"]
        standard = max((cell(run, path=f"{where}-buffered", operation="read", pattern="sequential", block_size_bytes=number) for where in WHERE),
                       key=lambda found: found["throughput_mib_s"])  # fmt: skip
        texts.append((number, one["throughput_mib_s"] / standard["throughput_mib_s"]))
        truths.append(faster(one, standard))
    return Finding("tmpfs over standard reads: " + ratios(texts), all_of(truths), TIME)


def less_utilisation(run):
    pairs = [
        (cell(run, path=f"{where}-direct", **words), cell(run, path=f"{where}-buffered", **words))
        for where in WHERE
        for operation in BOTH
        for pattern in ("sequential", "random")
        for number in SWEPT
        for words in [{"operation": operation, "pattern": pattern, "block_size_bytes": number}]
    ]
    truths = [direct["cpu_percent"] < buffered["cpu_percent"] for direct, buffered in pairs]
    more = sorted({f"{d['path']} {d['operation']} {size(d['block_size_bytes'])}" for (d, _), less in zip(pairs, truths) if not less})
    text = f"less in {sum(truths)} of {len(truths)} cells" + (f"; more with {', '.join(more)}" if more else "")
    return Finding(text, most_of(truths), TIME)


def less_per_mib(sizes, wanted=True):
    """Whether direct takes fewer instructions a MiB in the sequential cells of these sizes (or, not wanted: more in most)."""

    def judge(counts):
        texts, truths = [], []
        for where in WHERE:
            for operation in BOTH:
                of = {
                    number: [bulk(counts, f"{where}-{how}", operation, "sequential", number)["instructions_per_mib"] for how in ("direct", "buffered")]
                    for number in sizes
                }
                texts.append(f"{where} {operation} " + ratios((number, a / b) for number, (a, b) in of.items()))
                truths += [(a < b) == wanted for a, b in of.values()]
        return Finding("instructions a MiB, direct over buffered: " + "; ".join(texts), all_of(truths) if wanted else most_of(truths, 0.6))

    return judge


def flat_and_growing(counts):
    """The spread over block sizes of what a MiB takes: small when buffered, large when direct."""
    texts, truths = [], []
    for where in WHERE:
        for operation in BOTH:
            spread = {}
            for how in ("buffered", "direct"):
                of = [bulk(counts, f"{where}-{how}", operation, "sequential", number)["instructions_per_mib"] for number in COUNTED]
                spread[how] = max(of) / min(of)
            texts.append(f"{where} {operation} {spread['buffered']:.2g} and {spread['direct']:.2g}")
            truths.append(spread["buffered"] < 2 and spread["direct"] > 4)
    return Finding("instructions a MiB, most over least of the block sizes, buffered and direct: " + ", ".join(texts), all_of(truths))


def falls_again(counts):
    """Instructions a MiB at 16 MiB over the least of the smaller blocks."""
    texts, truths = [], []
    for where in WHERE:
        for operation in BOTH:
            *smaller, largest = (bulk(counts, f"{where}-direct", operation, "sequential", number)["instructions_per_mib"] for number in COUNTED)
            texts.append(f"{where} {operation} {largest / min(smaller):.2g}")
            truths.append(largest > min(smaller))
    return Finding("instructions a MiB of direct I/O, 16 MiB over the least of smaller blocks: " + ", ".join(texts), any(truths))


def counted_copy(counts):
    copy = only(one for one in counts["requests"] if one["path"] == "copy")
    share = sum(copy["kernel"]) / (sum(copy["kernel"]) + sum(copy["user"]))
    return Finding(f"{100 * share:.1f} % of the instructions are the kernel's", share > 0.97)


def copying(*runs):
    """The share of the routines that copy to and from user space: above a tenth with standard I/O, none with direct I/O.

    None is less than a tenth of standard I/O's least share. Samples are few, so both are judged by their intervals."""
    of = {"block-buffered": [], "block-direct": []}
    for run in runs:
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
    """Operations a second with a processor four times as fast; the drive answers at once, as only an emulated one does."""
    points = [run["points"][0] for run in runs]
    texts = []
    for path in ("block-buffered", "block-direct"):
        for operation in BOTH:
            of = []
            for number in (4 * KIB, 512 * KIB, 16 * MIB):
                rates = [
                    only(one["iops"] for one in point["results"] if (one["path"], one["operation"], one["block_size_bytes"]) == (path, operation, number))
                    for point in (points[0], points[-1])
                ]
                of.append((number, rates[0] / rates[1]))
            texts.append(f"{path} {operation} {ratios(of)}")
    speed = points[-1]["loop_ns"] / points[0]["loop_ns"]
    return Finding(f"with a processor {speed:.2g} times as fast: " + "; ".join(texts), None, TIME)


ROWS = [
    Row(
        "3.3, 3.4: call graphs of a copy",
        "a copy of 2 GiB in ext4 by read and append of 4 KiB, cold caches, OProfile on a server",
        (
            Claim("about 99 % of the time is spent in the kernel", ("counts",), counted_copy),
            Claim("just over 10 % is spent in copy_user_generic_string", ("counts",), lambda counts: Finding(
                "a string instruction counts once whatever it copies, and its time is the emulator's", None)),
        ),
        ("32 MiB", "instructions instead of cycles"),
    ),
    Row(
        "3.5, 3.6, 3.11, 3.12; paper's 2: speed by block size",
        "fio, 20 GiB for each size from 512 B, hard disk, SATA and NVMe drives, a server and a board; tmpfs on the board",
        (
            Claim("in 512 B and 4 KiB, sequential, direct I/O is much slower than standard", ("sweep",), direct_is(False, SMALL)),
            Claim("because standard I/O is gathered into larger transfers", ("counts",), coalesces),
            Claim("on the NVMe drive direct I/O is much faster from 512 KiB on", ("sweep",), direct_is(True, (512 * KIB, MIB, 16 * MIB))),
            Claim("the largest direct speeds are almost twice the standard ones (board)", ("sweep",), lambda run: Finding(
                f"{max(one['throughput_mib_s'] for one in cells(run, path='block-direct')) / max(one['throughput_mib_s'] for one in cells(run, path='block-buffered')):.0f} times: "
                "the ratio is the price of a copy by the emulated processor over one by the emulated drive", None, TIME, is_emulators=True)),
            Claim("small random accesses are slow; large ones near the sequential speed", ("sweep",), random_nears_sequential),
            Claim("tmpfs is far faster than the drives with standard I/O", ("sweep", "sweep-tmpfs"), tmpfs_is_faster),
        ),
        (SPEEDS, "one NVMe drive", "span of 512 MiB in 256 MiB of memory, 5 rounds of 0.2 s"),
    ),
    Row(
        "3.7, 3.8, 3.13, 3.14; paper's 3: CPU utilisation",
        "the same runs; fio's and dstat's CPU time",
        (
            Claim("direct I/O utilises the processors less in almost all cells", ("sweep",), less_utilisation),
            Claim("the exceptions are small blocks", ("counts",), less_per_mib((64 * KIB, 128 * KIB, 512 * KIB, MIB, 16 * MIB))),
        ),
        (SPEEDS, "the second claim by instructions a MiB, flush included; the copies are not in them, so standard I/O is in fact dearer"),
    ),
    Row(
        "3.9, 3.10, 3.15, 3.16: speed for each per cent of CPU",
        "the same runs",
        (
            Claim("large blocks raise direct I/O's efficiency; standard I/O's is nearly constant", ("counts",), flat_and_growing),
            Claim("from 512 KiB on direct I/O is far more efficient", ("counts",), less_per_mib((512 * KIB, MIB, 16 * MIB))),
            Claim("with small blocks standard I/O is more efficient (board)", ("counts",), less_per_mib((4 * KIB,), wanted=False)),
            Claim("direct I/O's efficiency can fall again with the largest blocks", ("counts",), falls_again),
        ),
        (SPEEDS, "instructions a MiB instead of time: a real machine's copies come on top of standard I/O's"),
    ),
    Row(
        "3.17; paper's 4: time in the copy routines",
        "operf beside the runs on the board; hard disk and NVMe drive",
        (Claim("standard I/O spends a large part of its time copying, direct I/O none", PROFILES, copying),),
        (SPEEDS, "reads of the block device", "the cache flush of the board's DMA does not exist on a coherent machine"),
    ),
    Row(
        "3.18, 3.19, E.1 to E.4: speed by CPU frequency",
        "200 to 800 MHz on the board",
        (Claim("the solid-state drives' speeds rise about linearly with the frequency", ("speed-0", "speed-1", "speed-2"), by_speed),),
        ("instructions per virtual nanosecond (`--icount 0`, `1`, `2`) instead of a frequency", "the emulated drive does not slow down with the "
         "processor, and answers in host time: how much of a request is software is not a board's"),
    ),
]  # fmt: skip
