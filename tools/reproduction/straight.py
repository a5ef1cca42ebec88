# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's chapter 4: CharIO, the driver in user space, and the coprocessor."""

from statistics import mean as average

from . import printed
from .evidence import (
    BOTH, KERNEL, KIB, MIB, SPEEDS, TIME, Claim, Finding, Row, all_of, bulk, cell, cells, faster, most_of, pairs_hold, quantile,
    ratios, requests, several_peaks, size, traces,
)  # fmt: skip

CHARIO = ("chario", "chario-phys")
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


def spreads(run, operation):
    """Of each of the kernel's paths: most less least of its calls' commands, and of their interrupts."""
    of = {}
    for path in KERNEL:
        calls = [one[3:] for one in run["calls"] if one[1:3] == [path, operation]]
        of[path] = tuple(max(values) - min(values) for values in zip(*calls))
    return of


def told(of):
    return ", ".join(f"{path} {commands} commands ({interrupts} interrupts)" for path, (commands, interrupts) in of.items())


def as_computed(run):
    ours = [tuple(one[3:]) for one in run["calls"] if one[1] == "chario"]
    expected = tuple(run["computed"])
    other = sum(one != expected for one in ours)
    return Finding(f"{len(ours)} calls of 64 MiB on two kernels: {expected[0]} commands and {expected[1]} interrupts in all but {other}", other == 0)


def kernel_varies(run):
    of = spreads(run, "write")
    return Finding(f"writes, most less least: {told(of)}", all_of(any(of[f"{where}-{how}"][0] for where in ("ext4", "block")) for how in ("buffered", "direct")))


def writes_vary_more(run):
    of = {operation: max(spread[0] for spread in spreads(run, operation).values()) for operation in BOTH}
    return Finding(f"commands, most less least of any path: writes {of['write']}, reads {of['read']}", of["write"] > of["read"])


def buffered_varies_most(run):
    """By commands, as the row's other claims: how many of them one interrupt answers is the emulator's timing."""
    of = spreads(run, "write")
    rest = [spread for path, (spread, _) in of.items() if path != "block-buffered"]
    return Finding(f"writes, most less least: {told(of)}", of["block-buffered"][0] > max(rest))


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
        return Finding("CharIO over the best of them: " + "; ".join(texts), most_of(truths) if None in truths else all_of(truths), TIME)

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


def user_space_over(path, number, operations=BOTH, **wanted):
    def judge(run):
        texts, truths = [], []
        for operation in operations:
            of = [cell(run, path=name, operation=operation, block_size_bytes=number, **wanted) for name in ("straightway-poll", path)]
            texts.append(f"{operation} {of[0]['throughput_mib_s'] / of[1]['throughput_mib_s']:.2f} ({of[0]['throughput_mib_s']:.0f} over {of[1]['throughput_mib_s']:.0f} MiB/s)")
            truths.append(faster(*of))
        return Finding(f"user space over {path}, {size(number)}: " + ", ".join(texts), all_of(truths), TIME)

    return judge


def direct_gains_with_size(run):
    of = {
        how: [cell(run, path=f"block-{how}", operation="read", block_size_bytes=number)["throughput_mib_s"] for number in (128 * KIB, 16 * MIB)]
        for how in ("direct", "buffered")
    }
    gains = {how: large / small for how, (small, large) in of.items()}
    text = f"16 MiB over 128 KiB: direct {gains['direct']:.2f}, standard {gains['buffered']:.2f}"
    return Finding(text, gains["direct"] > 1.3 > gains["buffered"], TIME)


def writes_behind(run):
    of = [cell(run, path=path, operation="write") for path in ("straightway-poll", "io_uring")]
    text = f"user space writes {of[0]['throughput_mib_s'] / of[1]['throughput_mib_s']:.2f} of the block device's speed"
    return Finding(text + ": the thesis's driver waits for each write, ours does not", faster(of[1], of[0]), TIME)


def kernel_share(run):
    of = {name: max(one["cpu_percent"] for one in cells(run, path=name)) for name in ("straightway-poll", "io_uring")}
    return Finding(f"at most {of['straightway-poll']:.0f} % of a core polling, {of['io_uring']:.0f} % with the kernel: whose time it is, is not measured", None, TIME)


def curve(run, path, operation, pattern="sequential"):
    return {one["block_size_bytes"]: one for one in cells(run, path=path, operation=operation, pattern=pattern)}


def rises_to_128k(run):
    """Speed at 128 KiB is several times that at 4 KiB, and hardly rises after it."""
    texts, truths = [], []
    for path in ("io_uring", "straightway-poll"):
        for pattern in ("sequential", "random"):
            of = {number: one["throughput_mib_s"] for number, one in curve(run, path, "read", pattern).items()}
            before, after = of[128 * KIB] / of[4 * KIB], of[16 * MIB] / of[128 * KIB]
            texts.append(f"{path} {pattern} {before:.3g} and {after:.2f}")
            truths.append(before > 4 and after < 1.2)
    return Finding("reads, 128 KiB over 4 KiB and 16 MiB over 128 KiB: " + ", ".join(texts), all_of(truths), TIME)


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
        of = [(n, a["throughput_mib_s"] / b["throughput_mib_s"]) for n, a, b in pairs(run, operation, (128 * KIB, 512 * KIB, MIB, 16 * MIB))]
        return Finding("user space over the kernel: " + ratios(of), all_of(0.9 <= ratio <= 1.1 for _, ratio in of), TIME)

    return judge


def varies_less(run):
    """The standard deviation over the mean."""
    truths = []
    for operation in BOTH:
        for _, ours, theirs in pairs(run, operation, (4 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, MIB, 16 * MIB)):
            truths.append(ours["throughput_mib_s_stddev"] / ours["throughput_mib_s"] < theirs["throughput_mib_s_stddev"] / theirs["throughput_mib_s"])
    return Finding(f"a smaller standard deviation over the mean in {sum(truths)} of {len(truths)} cells", pairs_hold(truths), TIME)


def standard_is(pattern, fastest):
    """Standard reads of the block device, faster (or slower) than both others in each size."""

    def judge(run):
        of = {path: curve(run, path, "read", pattern) for path in ("block-buffered", "io_uring", "straightway-poll")}
        texts, truths = [], []
        for number, standard in of["block-buffered"].items():
            others = [of[path][number] for path in ("io_uring", "straightway-poll")]
            texts.append((number, standard["throughput_mib_s"] / min(one["throughput_mib_s"] for one in others)))
            truths += [None if (one := faster(standard, other)) is None else one == fastest for other in others]
        return Finding("standard over the slower of the others: " + ratios(texts), all_of(truths), TIME, is_emulators=True)

    return judge


def cpu_falls_with_size(counts):
    texts, truths = [], []
    for operation in BOTH:
        small, large = (bulk(counts, "block-direct", operation, "sequential", number)["instructions_per_mib"] for number in (4 * KIB, 16 * MIB))
        texts.append(f"{operation} {small / large:.0f} times")
        truths.append(small > 4 * large)
    return Finding("instructions a MiB of direct I/O, 4 KiB over 16 MiB: " + ", ".join(texts), all_of(truths))


def polls_all_the_time(run):
    least = min(one["cpu_percent"] for one in cells(run, path="straightway-poll"))
    return Finding(f"at least {least:.0f} % of a core in every cell", least > 90, TIME)


def coprocessor(figures):
    names = {"the kernel's block device": "block_device", "the driver in user space": "user_space_driver", "the ring": "ring"}
    of = {text: figures[f"firmware.main_cpu_{name}_instructions_per_mib"] for text, name in names.items()}
    text = "instructions of the main processor for a MiB: " + ", ".join(f"{name} {value:,.0f}" for name, value in of.items())
    return Finding(text, of["the ring"] < of["the driver in user space"] < of["the kernel's block device"])


def coprocessor_keeps_up(figures):
    found = {operation: figures[f"firmware.sequential_{operation}_of_a_limited_drive_ring_percent"] for operation in BOTH}
    text = ", ".join(f"{operation} {value:.1f} %" for operation, value in found.items())
    return Finding(f"of the main processor's speed, on a drive limited to a known rate: {text}", all(value >= 97 for value in found.values()), TIME)


SIZED = ("by-size",)
ROWS = [
    Row(
        "4.4: 40 and 80 KiB reads",
        "means of 10,000 reads through ext4, the block device and CharIO, the profiling timer",
        (
            Claim("CharIO computes less in the kernel than ext4 or the block device, and less still with physical addresses", ("counts",), less_in_kernel),
            Claim("its total latency is slightly better on the larger transfer", traces(("ext4-direct", "block-direct", "chario"), ("read",), ("80K",)), total_of_80k),
            Claim("time shifts into the drive's response", ("counts",), lambda counts: Finding("the emulated drive's response is the host's", None)),
        ),
        ("200 reads by instructions, 1,000 by time", SPEEDS),
    ),
    Row(
        "4.5, 4.6: interrupts of large transfers",
        "1,000 reads and 1,000 writes of 512 MiB on each path, counted by the profiling timer",
        (
            Claim("CharIO's number can be computed, and is met each time", ("interrupts",), as_computed),
            Claim("the kernel's paths vary, even with direct I/O", ("interrupts",), kernel_varies),
            Claim("writes vary far more than reads", ("interrupts",), writes_vary_more),
            Claim("standard I/O on the block device varies most", ("interrupts",), buffered_varies_most),
        ),
        ("64 MiB; 200 calls of CharIO on each of two kernels, 50 of each of the kernel's paths", "the kernel's paths by commands, which the thesis counts by "
         "their interrupts: in the lab one interrupt answers several commands that end together, how many is the emulator's timing"),
    ),
    Row(
        "4.7, 4.8: densities of CharIO's reads and writes",
        "1,000 requests of 4, 8, 40 and 80 KiB, plain and with physical addresses",
        (
            Claim("physical addresses make slightly tighter distributions", traces(CHARIO), tighter),
            Claim("the densities have peaks and troughs", traces(CHARIO), several_peaks),
        ),
        (SPEEDS,),
    ),
    Row(
        "table 4.1: speed and CPU by path",
        "dd, 100 GiB sequentially, on a board",
        (
            Claim("CharIO is the fastest of all from 128 KiB on", ("table-41",), chario_over(KERNEL, TABLE[1:])),
            Claim("in 4 KiB it is faster than direct I/O", ("table-41",), chario_over(("ext4-direct", "block-direct"), TABLE[:1])),
            Claim("in 4 KiB it writes faster than standard I/O on the block device", ("table-41",), chario_over(("block-buffered",), TABLE[:1], ("write",))),
            Claim("it takes the least CPU of the kernel in every transfer", ("counts",), least_cpu),
        ),
        (SPEEDS, "700 MiB in 400 MiB of memory, 5 rounds", "standard I/O's instructions contain its flush, but not the price of its copies"),
        numbers=printed.table_41,
    ),
    Row(
        "table 4.2: user space, sequential",
        "400 GB in 128 KiB (user space) and in 128 KiB and 512 MiB (block device, dd)",
        (
            Claim("user space is faster than direct I/O of the same size: 1.80 and 1.45 times", ("table-42",), user_space_over("block-direct", 128 * KIB)),
            Claim("and in 128 KiB faster than direct I/O with very large blocks: 1.05 and 1.32 times", ("table-42",), lambda run: Finding(
                ", ".join(f"{operation} {one['throughput_mib_s']:.0f} over {other['throughput_mib_s']:.0f} MiB/s" for operation in BOTH
                          for one, other in [(cell(run, path="straightway-poll", operation=operation, block_size_bytes=128 * KIB),
                                              cell(run, path="block-direct", operation=operation, block_size_bytes=16 * MIB))]),
                all_of(faster(cell(run, path="straightway-poll", operation=operation, block_size_bytes=128 * KIB),
                              cell(run, path="block-direct", operation=operation, block_size_bytes=16 * MIB)) for operation in BOTH), TIME)),
            Claim("large blocks speed up direct I/O, not standard", ("table-42",), direct_gains_with_size),
        ),
        (SPEEDS, "one request at a time on both sides; 16 MiB for 512 MiB", "beside io_uring eight deep: `table-42-deep`"),
        numbers=printed.table_42,
    ),
    Row(
        "table 4.3: user space, random 4 KiB",
        "fio, 16 threads and 32 queues, four cores",
        (
            Claim("user space reads faster: 1415 against 744 MiB/s", ("table-43",), user_space_over("io_uring", 4 * KIB, ("read",))),
            Claim("but writes slower: 445 against 559 MiB/s", ("table-43",), writes_behind),
            Claim("its CPU time is all user space's", ("table-43",), kernel_share),
        ),
        (SPEEDS, "one thread, 32 deep, io_uring for libaio"),
        numbers=printed.table_43,
    ),
    Row(
        "4.10, 4.11: speed by block size, four deep",
        "fio, four threads of four, sequential and random",
        (
            Claim("speed rises to 128 KiB, then holds", SIZED, rises_to_128k),
            *[
                claim
                for operation in BOTH
                for claim in (
                    Claim(f"user space {operation}s faster in small blocks", SIZED, better_at_small(operation)),
                    Claim(f"from 128 KiB on the {operation}s are equal", SIZED, equal_from_128k(operation)),
                )
            ],
            Claim("user space varies less", SIZED, varies_less),
            Claim("in sequence standard I/O is the fastest in every size", SIZED, standard_is("sequential", True)),
            Claim("in random reads it is the slowest", SIZED, standard_is("random", False)),
        ),
        (SPEEDS, "one thread of four", "the emulated drive has no speed of its own to be limited by, so the paths never become equal", "standard I/O reads one at a time: there is no libaio that the page cache answers"),
    ),
    Row(
        "4.12 to 4.15: CPU and efficiency, four deep",
        "the same runs",
        (
            Claim("the kernel's CPU falls as blocks grow", ("counts",), cpu_falls_with_size),
            Claim("user space takes a whole core, since it polls", SIZED, polls_all_the_time),
        ),
        (SPEEDS, "the first claim one deep, by instructions"),
    ),
    Row(
        "table 4.4: the coprocessor",
        "400 GB in 128 KiB by a MicroBlaze at 100 MHz, beside the driver on the main processor",
        (
            Claim("it is as fast as the main processor's driver", ("figures",), coprocessor_keeps_up),
            Claim("and takes the work off the main processor", ("figures",), coprocessor),
        ),
        ("RISC-V in QEMU for the MicroBlaze", "figures of `make figures ONLY=firmware`", "no clock is emulated, so a hundred megahertz cannot be tried: "
         "the instructions of a command bound it, `firmware.riscv32_*`"),
    ),
    Row("table 4.5: interfaces compared", "a table of properties", (), remark="not a measurement: README.md has ours, and [chario.md](chario.md)"),
]  # fmt: skip
