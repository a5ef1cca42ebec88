# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's sections 4.5 to 4.7: the driver in user space, and the coprocessor."""

from . import printed
from .evidence import (
    BOTH, KIB, MIB, SPEEDS, TIME, Claim, Finding, Row, all_of, bulk, cell, cells, faster, is_emulated, need, pairs_hold, ratios, size,
)  # fmt: skip
from .speeds import untold

SIZES = (4 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, MIB, 16 * MIB)
THREADED = ("block-buffered", "block-direct", "straightway-poll")
SIZED, THREADS = ("by-size",), ("by-size-threads",)


def user_space_over(path, number, operations=BOTH, **wanted):
    def judge(run):
        texts, truths = [], []
        for operation in operations:
            of = [cell(run, path=name, operation=operation, block_size_bytes=number, **wanted) for name in ("straightway-poll", path)]
            texts.append(f"{operation} {of[0]['throughput_mib_s'] / of[1]['throughput_mib_s']:.2f} ({of[0]['throughput_mib_s']:.0f} over {of[1]['throughput_mib_s']:.0f} MiB/s)")
            truths.append(faster(*of))
        return Finding(f"user space over {path}, {size(number)}: " + ", ".join(texts), all_of(truths), TIME)

    return judge


def beside_very_large(run, queue):
    """User space in 128 KiB beside direct I/O in very large blocks; the thesis's program has up to 1,023 commands in flight."""
    texts, truths = [], []
    for operation in BOTH:
        alone = cell(run, path="straightway-poll", operation=operation, block_size_bytes=128 * KIB)
        theirs = cell(run, path="block-direct", operation=operation, block_size_bytes=16 * MIB)
        ours = cell(queue, path="straightway-poll", operation=operation, block_size_bytes=128 * KIB)
        texts.append(f"{operation} {ours['throughput_mib_s']:.0f} (one in flight: {alone['throughput_mib_s']:.0f}) over {theirs['throughput_mib_s']:.0f} MiB/s")
        need(ours["queue_depth"] >= 32, f"{', '.join(texts)}: {ours['queue_depth']} in flight, the thesis's program up to 1,023")
        truths.append(faster(ours, theirs, is_same_run=False))
    return Finding(", ".join(texts), all_of(truths), TIME)


def direct_gains_with_size(run):
    texts, truths = [], []
    for operation in BOTH:
        gains = {}
        for how in ("direct", "buffered"):
            small, large = (cell(run, path=f"block-{how}", operation=operation, block_size_bytes=number)["throughput_mib_s"] for number in (128 * KIB, 16 * MIB))
            gains[how] = large / small
        texts.append(f"{operation} direct {gains['direct']:.2f}, standard {gains['buffered']:.2f}")
        truths.append(gains["buffered"] < 1.3 < gains["direct"] / gains["buffered"])
    return Finding("16 MiB over 128 KiB: " + "; ".join(texts), all_of(truths), TIME)


def writes_behind(run):
    """As the thesis's driver: each thread waits for its write."""
    of = [cell(run, path=path, operation="write") for path in ("straightway-poll", "block-direct")]
    ratio = of[0]["throughput_mib_s"] / of[1]["throughput_mib_s"]
    need(all(one["threads"] >= 4 and one["queue_depth"] == 1 for one in of), "not run with threads that wait for each write, as the thesis's driver does")
    return Finding(f"user space writes {ratio:.2f} of the block device's speed", faster(of[1], of[0]), TIME)


def curve(run, path, operation, pattern="sequential"):
    return {number: cell(run, path=path, operation=operation, pattern=pattern, block_size_bytes=number) for number in SIZES}


def needs_a_limited_drive(run, text):
    """Where the thesis's curves meet, its drive is the limit; the emulated one has none."""
    need(not is_emulated(run), f"{text}; the emulated drive has no speed of its own that would limit both")


def rises_to_128k(run):
    """Speed at 128 KiB is several times that at 4 KiB, and hardly rises after it."""
    texts, truths = [], []
    for path in ("io_uring", "straightway-poll"):
        for pattern in ("sequential", "random"):
            of = {number: one["throughput_mib_s"] for number, one in curve(run, path, "read", pattern).items()}
            before, after = of[128 * KIB] / of[4 * KIB], of[16 * MIB] / of[128 * KIB]
            texts.append(f"{path} {pattern} {before:.3g} and {after:.2f}")
            truths.append(before > 4 and after < 1.2)
    text = "reads, 128 KiB over 4 KiB and 16 MiB over 128 KiB: " + ", ".join(texts)
    needs_a_limited_drive(run, text)
    return Finding(text, all_of(truths), TIME)


def pairs(run, operation, sizes):
    for pattern in ("sequential", "random"):
        ours, theirs = (curve(run, path, operation, pattern) for path in ("straightway-poll", "io_uring"))
        for number in sizes:
            yield number, ours[number], theirs[number]


def better_at_small(operation):
    def judge(run):
        of = list(pairs(run, operation, (4 * KIB, 32 * KIB)))
        return Finding("user space over the kernel: " + ratios((n, a["throughput_mib_s"] / b["throughput_mib_s"]) for n, a, b in of), all_of(faster(a, b) for _, a, b in of), TIME)

    return judge


def equal_from_128k(operation):
    def judge(run):
        of = [(n, a["throughput_mib_s"] / b["throughput_mib_s"]) for n, a, b in pairs(run, operation, SIZES[2:])]
        text = "user space over the kernel: " + ratios(of)
        needs_a_limited_drive(run, text)
        return Finding(text, all_of(0.9 <= ratio <= 1.1 for _, ratio in of), TIME)

    return judge


def random_writes_are_equal(run):
    """All three paths within a tenth in each size."""
    of = [curve(run, path, "write", "random") for path in THREADED]
    found = [(number, max(rates) / min(rates)) for number in SIZES for rates in [[one[number]["throughput_mib_s"] for one in of]]]
    text = "random writes, the fastest path over the slowest: " + ratios(found)
    needs_a_limited_drive(run, text)
    return Finding(text, all_of(ratio <= 1.1 for _, ratio in found), TIME)


def varies_less(run):
    """The standard deviation over the mean."""
    truths = []
    for operation in BOTH:
        for _, ours, theirs in pairs(run, operation, SIZES):
            truths.append(ours["throughput_mib_s_stddev"] / ours["throughput_mib_s"] < theirs["throughput_mib_s_stddev"] / theirs["throughput_mib_s"])
    return Finding(f"a smaller standard deviation over the mean in {sum(truths)} of {len(truths)} cells", pairs_hold(truths), TIME)


def standard_is(pattern, fastest):
    """Standard reads of the block device, faster (or slower) than both others in each size, with four threads each."""

    def judge(run):
        of = {path: curve(run, path, "read", pattern) for path in THREADED}
        texts, truths = [], []
        for number in SIZES:
            standard, *others = (of[path][number] for path in THREADED)
            need(all(one["threads"] >= 4 for one in (standard, *others)), f"not run with four threads: {size(number)}")
            texts.append((number, standard["throughput_mib_s"] / min(one["throughput_mib_s"] for one in others)))
            truths += [faster(standard, other) if fastest else faster(other, standard) for other in others]
        return Finding("standard over the slower of the others: " + ratios(texts), all_of(truths), TIME, is_emulators=True)

    return judge


def cpu_falls_with_size(counts, run):
    """The kernel's utilisation, which is what a MiB takes times the speed: by the processor's time, in each size less than in 4 KiB."""
    taken = []
    for operation in BOTH:
        small, large = (bulk(counts, "block-direct", operation, "sequential", number)["instructions_per_mib"] for number in (4 * KIB, 16 * MIB))
        taken.append(f"{operation} {small / large:.0f} times")
    texts, truths = [], []
    for operation in BOTH:
        for pattern in ("sequential", "random"):
            of = curve(run, "io_uring", operation, pattern)
            texts.append(f"{pattern} {operation} {of[4 * KIB]['cpu_percent']:.0f} and {of[16 * MIB]['cpu_percent']:.0f} %")
            truths.append(of[16 * MIB]["cpu_percent"] < 0.8 * of[4 * KIB]["cpu_percent"])
    text = f"utilisation of a core in 4 KiB and 16 MiB: {', '.join(texts)} (instructions a MiB fall, but speeds rise: {', '.join(taken)})"
    return Finding(text, all_of(truths), TIME)


def polls_all_the_time(run):
    found = cells(run, path="straightway-poll")
    need(found, "not in the run: straightway-poll")
    least = min(one["cpu_percent"] for one in found)
    return Finding(f"at least {least:.0f} % of a core in every cell", least > 90, TIME)


def coprocessor(figures):
    names = {"the kernel's block device": "block_device", "the driver in user space": "user_space_driver", "the ring": "ring"}
    of = {text: figures[f"firmware.main_cpu_{name}_instructions_per_mib"] for text, name in names.items()}
    text = "instructions of the main processor for a MiB: " + ", ".join(f"{name} {value:,.0f}" for name, value in of.items())
    return Finding(text, of["the ring"] < of["the driver in user space"] < of["the kernel's block device"])


def coprocessor_keeps_up(figures):
    """The thesis's point is a core of 100 MHz beside one of 1.2 GHz: without a clock there is no answer, whatever the speeds are."""
    found = {operation: figures[f"firmware.sequential_{operation}_of_a_limited_drive_ring_percent"] for operation in BOTH}
    text = "of the main processor's speed, on a drive limited to a known rate: " + ", ".join(f"{operation} {value:.1f} %" for operation, value in found.items())
    clock = figures.get("firmware.coprocessor_clock_mhz")
    need(clock, f"{text}; but the emulated core runs as fast as the host lets it, not at 100 MHz")
    return Finding(f"{text}, at {clock:g} MHz", all(value >= 97 for value in found.values()), TIME)


ROWS = [
    Row(
        "table 4.2: user space, sequential",
        "400 GB in 128 KiB (user space, as many commands at a time as a queue of 1,024 takes) and in 128 KiB and 512 MiB (block device, dd)",
        (
            Claim("t4.2-same", "user space is faster than direct I/O of the same size: 1.80 and 1.45 times", ("table-42",), user_space_over("block-direct", 128 * KIB)),
            Claim("t4.2-large", "and in 128 KiB faster than direct I/O with very large blocks: 1.05 and 1.32 times", ("table-42", "table-42-queue"), beside_very_large),
            Claim("t4.2-gains", "large blocks speed up direct I/O, not standard", ("table-42",), direct_gains_with_size),
        ),
        (SPEEDS, "one request at a time on both sides, but 64 in user space for the second claim; 16 MiB for 512 MiB", "beside io_uring eight deep: `table-42-deep`"),
        numbers=printed.table_42,
    ),
    Row(
        "table 4.3: user space, random 4 KiB",
        "fio, 16 threads and 32 queues, four cores",
        (
            Claim("t4.3-reads", "user space reads faster: 1415 against 744 MiB/s", ("table-43",), user_space_over("io_uring", 4 * KIB, ("read",))),
            Claim("t4.3-writes", "but writes slower: 445 against 559 MiB/s", ("table-43-threads",), writes_behind),
            Claim("t4.3-cpu", "its CPU time is all user space's", ("table-43",), untold("the time is not split into user space's and the kernel's")),
        ),
        (SPEEDS, "one thread, 32 deep, io_uring for libaio", "the thesis's driver waits for each write, ours does not: the second claim with four threads that wait"),
        numbers=printed.table_43,
    ),
    Row(
        "4.10, 4.11: speed by block size, four deep",
        "fio, four threads of four, sequential and random",
        (
            Claim("4.10-rises", "speed rises to 128 KiB, then holds", SIZED, rises_to_128k),
            *[
                claim
                for number, operation in zip(("4.10", "4.11"), BOTH)
                for claim in (
                    Claim(f"{number}-small", f"user space {operation}s faster in small blocks", SIZED, better_at_small(operation)),
                    Claim(f"{number}-equal", f"from 128 KiB on the {operation}s are equal", SIZED, equal_from_128k(operation)),
                )
            ],
            Claim("4.10-varies", "user space varies less", SIZED, varies_less),
            Claim("4.10-standard", "in sequence standard I/O is the fastest in every size", THREADS, standard_is("sequential", True)),
            Claim("4.10-random", "in random reads it is the slowest", THREADS, standard_is("random", False)),
            Claim("4.11-random", "random writes are equal on all paths", THREADS, random_writes_are_equal),
        ),
        (SPEEDS, "one thread of four; the last three claims four threads of one, since the kernel's asynchronous paths take one thread",
         "the emulated drive has no speed of its own to be limited by, so the paths never become equal"),
    ),
    Row(
        "4.12 to 4.15: CPU and efficiency, four deep",
        "the same runs",
        (
            Claim("4.12-falls", "the kernel's CPU falls as blocks grow", ("counts", "by-size"), cpu_falls_with_size),
            Claim("4.12-core", "user space takes a whole core, since it polls", SIZED, polls_all_the_time),
            Claim("4.12-shift", "in 16 and 32 MiB much of user space's time becomes the kernel's", SIZED,
                  untold("the time is not split into user space's and the kernel's")),
        ),
        (SPEEDS,),
    ),
    Row(
        "table 4.4: the coprocessor",
        "400 GB in 128 KiB by a MicroBlaze at 100 MHz, beside the driver on the main processor",
        (
            Claim("t4.4-speed", "it is as fast as the main processor's driver", ("figures",), coprocessor_keeps_up),
            Claim("t4.4-work", "and takes the work off the main processor", ("figures",), coprocessor),
        ),
        ("RISC-V in QEMU for the MicroBlaze", "figures of `make figures ONLY=firmware`", "no clock is emulated, so a hundred megahertz cannot be tried: "
         "the instructions of a command bound it, `firmware.riscv32_*`"),
    ),
    Row("table 4.5: interfaces compared", "a table of properties", (), remark="Not a measurement: README.md has ours, and [chario.md](chario.md)"),
]  # fmt: skip
