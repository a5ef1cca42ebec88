"""The claims of the thesis's chapter 3 and appendix E, and of the paper's section 3: what the kernel's paths cost."""

from . import printed
from .evidence import (
    TIME, Claim, Finding, Row, all_of, average, bulk, cell, cells, faster, most_of, only, pairs_hold, peaks, quantile, ratios,
    requests, size,
)  # fmt: skip

KIB, MIB = 1 << 10, 1 << 20
WHERE, BOTH = ("ext4", "block"), ("read", "write")
KERNEL = tuple(f"{where}-{how}" for where in WHERE for how in ("buffered", "direct"))
SMALL, SWEPT = (512, 4 * KIB), (512, 4 * KIB, 64 * KIB, 512 * KIB, MIB, 16 * MIB)
COUNTED = (4 * KIB, 64 * KIB, 128 * KIB, 512 * KIB, MIB, 16 * MIB)
NAMES = ("4K", "8K", "40K", "80K")


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
    """The share of the routines that copy to and from user space."""
    of = {"block-buffered": [], "block-direct": []}
    for run in runs:
        own = sum(one["own_share"] for one in run["functions"] if "copy" in one["name"] and "user" in one["name"])
        of[run["path"]].append((run["block_size_bytes"], 100 * own))
    return Finding(
        f"% of the busy samples in the copy routines: buffered {ratios(of['block-buffered'])}; direct {ratios(of['block-direct'])}",
        all_of([min(share for _, share in of["block-buffered"]) > 20, max(share for _, share in of["block-direct"]) < 1]),
        TIME,
        is_emulators=True,
    )


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


def all_explained(run):
    parts = ", ".join(f"{part['name']} {100 * part['share']:.0f} %" for part in run["parts"])
    return Finding(f"{parts}; together {100 * run['coverage']:.0f} % of the time", run["coverage"] >= 0.95, TIME)


def late_by_period(run):
    late = {one["period_ns"] // 1_000_000: one["overruns"] for one in run["cells"]}
    longest = max(one["service"]["max_ns"] for one in run["cells"]) / 1e6
    text = "late by period: " + ", ".join(f"{period} ms {count}" for period, count in sorted(late.items()))
    none_from = [period for period in late if all(not late[other] for other in late if other >= period)]
    holds = late[min(late)] > 0 and bool(none_from) and all(late[period] == 0 for period in late if period > longest)
    return Finding(f"{text}; longest write {longest:.1f} ms", holds, TIME)


def boxes(run, **wanted):
    """Box plots by the conditions other than the path's way of access."""
    found = {}
    for one in run["cells"]:
        if all(one[name] == value for name, value in wanted.items()):
            found[(one["path"], one["operation"], one["priority"], one["load"], one["synchronous"])] = one["response"]
    return found


def compared(runs, wanted, **words):
    """The boxes of the runs in pairs: those whose conditions `wanted` changes into another's, and that one's."""
    for run in runs:
        of = boxes(run, **words)
        yield from ((box, of[other]) for conditions, box in of.items() if (other := wanted(*conditions)) in of)


def direct_beside_buffered(where, key, operations=BOTH, less=True):
    """A sign test over the conditions of a figure: direct's `key` is smaller than buffered's."""

    def to_buffered(path, operation, priority, load, synchronous):
        return (f"{where}-buffered", operation, priority, load, synchronous) if path == f"{where}-direct" and operation in operations else None

    def judge(*runs):
        pairs = list(compared(runs, to_buffered, synchronous=True))
        smaller = [direct[key] < buffered[key] for direct, buffered in pairs]
        worst = [max(box[key] for box in side) / 1e6 for side in zip(*pairs)]
        name = {"max_ns": "longest", "median_ns": "largest median"}[key]
        text = f"less in {sum(smaller)} of {len(smaller)} conditions; {name} {worst[0]:.1f} ms direct, {worst[1]:.1f} ms buffered"
        return Finding(text, pairs_hold(one == less for one in smaller), TIME, is_emulators=key == "median_ns")

    return judge


def to_synchronous(path, operation, priority, load, synchronous):
    return None if synchronous else (path, operation, priority, load, True)


def async_is(what):
    """Asynchronous beside synchronous writes: faster in the median, or flatter (the quartiles' distance)."""

    def value(box):
        return box["median_ns"] if what == "faster" else box["quartile3_ns"] - box["quartile1_ns"]

    def judge(*runs):
        smaller = [value(ours) < value(theirs) for ours, theirs in compared(runs, to_synchronous, operation="write")]
        return Finding(f"{what} in {sum(smaller)} of {len(smaller)} conditions", pairs_hold(smaller), TIME)

    return judge


def more_extreme_on_ext4(*runs):
    """The longest over the median, ext4 with standard I/O: asynchronous beside synchronous."""
    pairs = compared(runs, to_synchronous, operation="write", path="ext4-buffered")
    more = [ours["max_ns"] / ours["median_ns"] > theirs["max_ns"] / theirs["median_ns"] for ours, theirs in pairs]
    return Finding(f"further out in {sum(more)} of {len(more)} conditions", pairs_hold(more), TIME)


def buffered_reads_ahead(counts):
    """Bytes that a read fetches: buffered more or fewer than it asks, direct exactly."""
    texts, truths = [], []
    for where in WHERE:
        for number in (4 * KIB, 8 * KIB, 40 * KIB, 80 * KIB):
            of = {how: requests(counts, f"{where}-{how}", "read", number) for how in ("buffered", "direct")}
            largest = max(of["buffered"]["moved_bytes"])
            truths += [largest > number, all(moved == number for moved in of["direct"]["moved_bytes"])]
            texts.append(f"{where} {size(number)}: up to {size(largest)}, in one of {1 / average(one > 0 for one in of['buffered']['commands']):.3g}")
    return Finding("a buffered read fetches " + "; ".join(texts) + "; a direct one what it asks", all_of(truths))


def ext4_writes_more_often(counts):
    texts, truths = [], []
    for number in (4 * KIB, 8 * KIB, 40 * KIB, 80 * KIB):
        of = {path: average(requests(counts, path, "write", number)["commands"]) for path in KERNEL}
        truths.append(of["ext4-buffered"] > of["block-buffered"] and of["ext4-direct"] > of["block-direct"])
        texts.append(f"{size(number)} {of['ext4-buffered']:.2f} and {of['block-buffered']:.2f}")
    return Finding("commands and flushes of a synchronous write, ext4 and block device: " + "; ".join(texts), all_of(truths))


def one_transfer(counts):
    """A direct write to the block device: one data command. The second is the flush, which O_SYNC asks for."""
    truths = [set(requests(counts, "block-direct", "write", number)["commands"]) == {2} for number in (4 * KIB, 8 * KIB, 40 * KIB, 80 * KIB)]
    exact = [set(requests(counts, "block-direct", "write", number)["moved_bytes"]) == {number} for number in (4 * KIB, 8 * KIB, 40 * KIB, 80 * KIB)]
    return Finding("one write of the whole block and one flush, in each of 4 x 200 calls", all_of(truths + exact))


def direct_is_simpler(counts):
    texts, truths = [], []
    for where in WHERE:
        of = [[average(requests(counts, f"{where}-{how}", "write", number)["kernel"]) for how in ("direct", "buffered")] for number in (40 * KIB, 80 * KIB)]
        texts.append(f"{where} " + ratios((number, a / b) for number, (a, b) in zip((40 * KIB, 80 * KIB), of)))
        truths += [a < b for a, b in of]
    return Finding("kernel instructions of a write, direct over buffered: " + "; ".join(texts), all_of(truths))


def doubling(counts):
    """Kernel instructions of an 8 KiB request over one of 4 KiB."""
    texts, truths = [], []
    for path in KERNEL:
        for operation in BOTH:
            small, large = (average(requests(counts, path, operation, number)["kernel"]) for number in (4 * KIB, 8 * KIB))
            if operation == "write":
                truths.append(large < 1.25 * small)
                texts.append(f"{path} {large / small:.2f}")
    return Finding("kernel instructions of 8 KiB over 4 KiB: " + ", ".join(texts), all_of(truths))


def mostly_software(*runs):
    texts = []
    for run in runs:
        device = sum(part["share"] for part in run["parts"] if part["name"] == "device")
        texts.append(f"{run['path']} {run['operation']} {size(run['block_size_bytes'])} {100 * (1 - device):.0f} %")
    return Finding("outside the device: " + ", ".join(texts), None, TIME)


def several_peaks(*runs):
    of = [peaks(run) for run in runs]
    return Finding(f"several peaks in {sum(one > 1 for one in of)} of {len(of)}", most_of([one > 1 for one in of], 0.5), TIME)


def extreme_without_direct(*runs):
    """The 99.9th percentile of each kind of request: larger without direct I/O."""
    groups = {}
    for run in runs:
        where, how = run["path"].split("-")
        groups.setdefault((where, run["operation"], run["block_size_bytes"]), {})[how] = quantile(run, 0.999) / 1e6
    further = [of["buffered"] > of["direct"] for of in groups.values()]
    furthest = {how: max(of[how] for of in groups.values()) for how in ("buffered", "direct")}
    text = f"99.9th percentile: longer in {sum(further)} of {len(further)}; longest {furthest['buffered']:.1f} ms buffered, {furthest['direct']:.1f} ms direct"
    return Finding(text, pairs_hold(further), TIME)


def paired(runs, value):
    """Of each application `(name, standard's runs, direct's)`."""
    for standard, direct in zip(runs[::2], runs[1::2]):
        yield standard["workload"], *([value(one) for one in run["runs"]] for run in (standard, direct))


def told(of, unit):
    return f"{unit}, standard/direct: " + ", ".join(f"{name} {average(standard):.3g}/{average(direct):.3g}" for name, standard, direct in of)


def apart(ours, theirs):
    """Whether each run of ours is above each of theirs; None if they overlap."""
    return True if min(ours) > max(theirs) else False if max(ours) < min(theirs) else None


def faster_applications(least, most):
    """Direct I/O's throughput is higher in so many of the seven."""

    def judge(*runs):
        of = list(paired(runs, lambda one: one["throughput_mib_s"]))
        found = [apart(direct, standard) for _, standard, direct in of]
        surely, perhaps = found.count(True), found.count(True) + found.count(None)
        holds = True if least <= surely and perhaps <= most else False if perhaps < least or surely > most else None
        return Finding(f"{told(of, 'MiB/s')}; direct is faster in {surely} to {perhaps} of {len(of)}", holds, TIME, is_emulators=True)

    return judge


def latency_applications(*runs):
    of = list(paired(runs, lambda one: one["mean_latency_ns"] / 1e6))
    found = [apart(direct, standard) for _, standard, direct in of]
    surely, perhaps = found.count(True), found.count(True) + found.count(None)
    holds = True if surely >= 3 else False if perhaps < 3 else None
    return Finding(f"{told(of, 'ms')}; standard is quicker in {surely} to {perhaps} of {len(of)}", holds, TIME)


def traces(paths, operations=BOTH, names=NAMES):
    return tuple(f"trace-{path}-{operation}-{name}" for path in paths for operation in operations for name in names)


PERIODIC = ("periodic", "periodic-10")
PROFILES = tuple(f"profile-block-{how}-{name}" for how in ("buffered", "direct") for name in ("4K", "128K", "1M", "16M"))
APPLICATIONS = ("webserver", "fileserver", "varmail", "videoserver", "netsfs", "webproxy", "oltp")
WORKLOADS = tuple(f"workload-{name}-{how}" for name in APPLICATIONS for how in ("standard", "direct"))
SPEEDS = "an emulated drive, which answers from the host's memory, and two emulated processors"
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
    Row(
        "3.20: one request's events",
        "the profiling timer's output of one 4 KiB write to ext4",
        (Claim("every part of a request is seen", ("trace-ext4-direct-write-4K",), all_explained),),
        ("tracefs instead of a timer on the FPGA; 1,000 writes",),
    ),
    Row(
        "3.21: periods of 5 to 25 ms",
        "10,000 synchronous writes of 256 KiB to the block device, high load, low priority, an RT kernel",
        (Claim("firings come late until the period exceeds the longest write, then none", ("periods",), late_by_period),),
        (SPEEDS, "200 firings a period, to 200 ms"),
    ),
    *[
        Row(
            f"{number}, {appendix}: periodic, synchronous, {name}",
            "256 KiB, three loads, two priorities, RT kernel, 25 ms and 10 ms",
            (
                Claim("direct I/O's longest response is shorter", PERIODIC, direct_beside_buffered(where, "max_ns")),
                Claim("direct I/O writes faster in the median", PERIODIC, direct_beside_buffered(where, "median_ns", ("write",))),
                Claim("but does not read faster in the median", PERIODIC, direct_beside_buffered(where, "median_ns", ("read",), less=False)),
            ),
            (SPEEDS, "200 firings in each of 12 conditions at each period; both periods together"),
        )
        for number, appendix, where, name in (("3.22", "E.5", "block", "block device"), ("3.23", "E.6", "ext4", "ext4"))
    ],
    Row(
        "3.24, 3.25, E.7, E.8: periodic, asynchronous",
        "the same without O_SYNC",
        (
            Claim("median writes are faster than synchronous ones", PERIODIC, async_is("faster")),
            Claim("and their distribution is flatter", PERIODIC, async_is("flatter")),
            Claim("but standard I/O on ext4 has more extreme outliers", PERIODIC, more_extreme_on_ext4),
        ),
        (SPEEDS, "writes of four paths in 24 conditions at each period; both periods together", "a read is synchronous either way, so the reads are those of the rows above"),
    ),
    Row("E.9, E.10: raw devices", "the same through /dev/raw", (), remark="Linux removed raw devices in 5.14; CharIO's rows are the nearest"),
    Row(
        "3.26 to 3.29: requests one by one",
        "20 synchronous requests of each kind, the profiling timer",
        (
            Claim("a standard read fetches more than it asks for, a direct one exactly that", ("counts",), buffered_reads_ahead),
            Claim("a write to ext4 accesses the device more often than one to the block device", ("counts",), ext4_writes_more_often),
            Claim("a direct write to the block device is one transfer of the whole block", ("counts",), one_transfer),
            Claim("direct writes of 40 and 80 KiB are simpler than standard ones", ("counts",), direct_is_simpler),
            Claim("a write's software overhead hardly changes when its size doubles from 4 KiB", ("counts",), doubling),
            Claim("most of the time is software's, not the device's", traces(KERNEL, names=("4K", "40K")), mostly_software),
        ),
        ("200 requests of each kind, after 32 that fill caches", "the blocks were written before, and ext4's allocated",
         "the last claim: the emulated drive's time and the emulated processors' are no board's"),
    ),
    Row(
        "3.30 to 3.33: densities of reads and writes",
        "1,000 requests of 4, 8, 40 and 80 KiB, with and without direct I/O, ext4 and block device",
        (
            Claim("many densities have several peaks", traces(KERNEL), several_peaks),
            Claim("the most extreme outliers are standard I/O's", traces(KERNEL), extreme_without_direct),
        ),
        (SPEEDS,),
    ),
    Row(
        "3.34: averages of reads",
        "10,000 reads of 40 and 80 KiB",
        (
            Claim("standard I/O prefetches: not every read reaches the device", ("counts",), lambda counts: Finding(
                "commands a read: " + ", ".join(f"{path} {average(requests(counts, path, 'read', 40 * KIB)['commands']):.2f}" for path in KERNEL),
                all_of([average(requests(counts, f"{w}-buffered", "read", 40 * KIB)["commands"]) < 1 == average(requests(counts, f"{w}-direct", "read", 40 * KIB)["commands"]) for w in WHERE]))),
            Claim("direct I/O is the more efficient", ("counts",), lambda counts: Finding(
                "kernel instructions of 40 and 80 KiB, direct over buffered: " + "; ".join(
                    f"{w} " + ratios((n, average(requests(counts, f"{w}-direct", "read", n)["kernel"]) / average(requests(counts, f"{w}-buffered", "read", n)["kernel"]))
                                     for n in (40 * KIB, 80 * KIB)) for w in WHERE),
                all_of([average(requests(counts, f"{w}-direct", "read", n)["kernel"]) < average(requests(counts, f"{w}-buffered", "read", n)["kernel"])
                        for w in WHERE for n in (40 * KIB, 80 * KIB)]))),
        ),
        ("200 reads, by instructions; the copies are not in them",),
    ),
    Row(
        "tables 3.1, 3.2: seven applications",
        "Filebench, an hour each, files of twice the memory, NVMe drive; a server and a board",
        (
            Claim("direct I/O has the higher throughput in all seven (server)", WORKLOADS, faster_applications(7, 7)),
            Claim("direct I/O has the higher throughput in four of seven, the ones with large transfers (board)", WORKLOADS, faster_applications(3, 5)),
            Claim("standard I/O has the lower mean latency in three or more", WORKLOADS, latency_applications),
        ),
        (SPEEDS, "512 MiB of files in 256 MiB of memory, three runs of 4 s each", "our engine with the same steps; where it is not Filebench's: [measure.md](measure.md)"),
        numbers=printed.applications,
    ),
]  # fmt: skip
