# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's sections 3.6 to 3.9 and appendices E.2 and E.3: single requests, periodic tasks, applications."""

from . import printed
from statistics import mean as average

from .evidence import (
    BOTH, KERNEL, KIB, SPEEDS, TIME, WHERE, Claim, Finding, Row, all_of, device_share, is_emulated, need, pairs_hold, quantile, ratios, requests, several_peaks,
    size, traces,
)  # fmt: skip

PERIODIC = ("periodic", "periodic-10")
APPLICATIONS = ("webserver", "fileserver", "varmail", "videoserver", "netsfs", "webproxy", "oltp")
WORKLOADS = tuple(f"workload-{name}-{how}" for name in APPLICATIONS for how in ("standard", "direct"))


def late_by_period(run):
    """Firings come late at a period below the longest write, and at none above it: so there must be both."""
    late = {one["period_ns"] // 1_000_000: one["overruns"] for one in run["cells"]}
    longest = max(one["service"]["max_ns"] for one in run["cells"]) / 1e6
    text = "late by period: " + ", ".join(f"{period} ms {count}" for period, count in sorted(late.items())) + f"; longest write {longest:.1f} ms"
    above, below = [period for period in late if period > longest], [period for period in late if period <= longest]
    need(above, f"{text}: no period exceeds it")
    need(below, f"{text}: every period exceeds it")
    return Finding(text, any(late[period] for period in below) and not any(late[period] for period in above), TIME)


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
        need(of, "no condition was run")
        for conditions in of:
            need(not (other := wanted(*conditions)) or other in of, f"not in the run: {' '.join(map(str, other or ()))}")
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


def direct_is_flatter(*runs):
    """Direct I/O's asynchronous writes beside its synchronous ones: the quartiles' distance is less than half."""
    pairs = [pair for path in ("ext4-direct", "block-direct") for pair in compared(runs, to_synchronous, operation="write", path=path)]
    smaller = [2 * (ours["quartile3_ns"] - ours["quartile1_ns"]) < theirs["quartile3_ns"] - theirs["quartile1_ns"] for ours, theirs in pairs]
    return Finding(f"less than half as wide in {sum(smaller)} of {len(smaller)} conditions", pairs_hold(smaller), TIME)


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
            need(len(of["direct"]["moved_bytes"]) > 1, f"nothing was counted: {where}-direct read {size(number)}")
            largest = max(of["buffered"]["moved_bytes"])
            truths += [largest > number, all(moved == number for moved in of["direct"]["moved_bytes"])]
            texts.append(f"{where} {size(number)}: up to {size(largest)}, in one of {1 / average(one > 0 for one in of['buffered']['commands']):.3g}")
    return Finding("a buffered read fetches " + "; ".join(texts) + "; a direct one what it asks", all_of(truths))


def ext4_writes_more_often(counts):
    """Half an access more on average; less than a tenth is no difference that the thesis's pictures would show."""
    texts, more = [], []
    for number in (4 * KIB, 8 * KIB, 40 * KIB, 80 * KIB):
        of = {path: average(requests(counts, path, "write", number)["commands"]) for path in KERNEL}
        more += [of[f"ext4-{how}"] - of[f"block-{how}"] for how in ("buffered", "direct")]
        texts.append(f"{size(number)} {of['ext4-buffered']:.2f} and {of['block-buffered']:.2f}")
    holds = True if min(more) >= 0.5 else False if max(more) <= 0.1 else None
    return Finding("commands and flushes of a synchronous write, ext4 and block device: " + "; ".join(texts), holds)


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
    """Kernel instructions of an 8 KiB write over one of 4 KiB.

    The count leaves out standard I/O's copies, which double: at most 4,096 more instructions, if each byte took one. With them it
    must hold too.
    """
    texts, truths = [], []
    for path in KERNEL:
        small, large = (average(requests(counts, path, "write", number)["kernel"]) for number in (4 * KIB, 8 * KIB))
        with_copies = (large + 8 * KIB) / (small + 4 * KIB) if path.endswith("buffered") else large / small
        truths.append(False if large >= 1.25 * small else True if with_copies < 1.25 else None)
        texts.append(f"{path} {large / small:.2f}")
    return Finding("kernel instructions of 8 KiB over 4 KiB, without the copies: " + ", ".join(texts), all_of(truths))


def prefetches(counts):
    of = {path: average(requests(counts, path, "read", 40 * KIB)["commands"]) for path in KERNEL}
    text = ", ".join(f"{path} {value:.2f}" for path, value in of.items())
    return Finding(f"commands a read of 40 KiB: {text}", all_of(of[f"{where}-buffered"] < 1 == of[f"{where}-direct"] for where in WHERE))


def reads_more_simply(counts):
    texts, truths = [], []
    for where in WHERE:
        of = []
        for number in (40 * KIB, 80 * KIB):
            direct, buffered = (average(requests(counts, f"{where}-{how}", "read", number)["kernel"]) for how in ("direct", "buffered"))
            of.append((number, direct / buffered))
            truths.append(direct < buffered)
        texts.append(f"{where} {ratios(of)}")
    return Finding("kernel instructions of a read, direct over buffered: " + "; ".join(texts), all_of(truths))


def mostly_software(*runs):
    texts, truths = [], []
    for run in runs:
        device = device_share(run)
        truths.append(device < 0.5)
        texts.append(f"{run['path']} {run['operation']} {size(run['block_size_bytes'])} {100 * (1 - device):.0f} %")
    return Finding("outside the device: " + ", ".join(texts), None if any(map(is_emulated, runs)) else pairs_hold(truths), TIME)


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


def paired(runs, whole, each):
    """Of each application `(name, standard's value, direct's, standard's in each of its runs, direct's)`."""
    for standard, direct in zip(runs[::2], runs[1::2]):
        need(all(len(run["runs"]) >= 3 for run in (standard, direct)), f"fewer than three runs: {standard['workload']}")
        yield standard["workload"], whole(standard), whole(direct), *([each(one) for one in run["runs"]] for run in (standard, direct))


def apart(ours, theirs):
    """Whether each run of ours is above each of theirs, and their means by a quarter: three short runs of the same differ by less."""
    is_above = min(ours) > max(theirs) and average(ours) > 1.25 * average(theirs)
    return True if is_above else False if max(ours) < min(theirs) and 1.25 * average(ours) < average(theirs) else None


def applications(unit, value, expected):
    """Whether standard I/O has the higher value in the applications `expected` names, and direct I/O in the others."""

    def judge(*runs):
        of = list(paired(runs, value, value))
        need(len(of) == len(APPLICATIONS), "not all applications were run")
        found = {name: apart(standards, directs) for name, _, _, standards, directs in of}
        agrees = {name: None if found[name] is None else found[name] == (name in expected) for name in found}
        texts = [f"{name} {standard:.3g}/{direct:.3g}" for name, standard, direct, _, _ in of]
        for what, truth in (("the other way round", False), ("too near to tell", None)):
            if names := [name for name, one in agrees.items() if one is truth]:
                texts[-1] += f"; {what}: {', '.join(names)}"
        return Finding(f"{unit}, standard/direct: " + ", ".join(texts), all_of(agrees.values()), TIME, is_emulators=True)

    return judge


def throughput(run):
    return run["throughput_mib_s"]


def latency(run):
    return run["mean_latency_ns"] / 1e6


def higher_standard(platform, first):
    """The applications in which the thesis's standard I/O has the higher throughput (`first` 0) or the higher latency (2)."""
    numbers = {name: platforms[platform][first : first + 2] for name, platforms in printed.APPLICATIONS.items()}
    return {name for name, (standard, direct) in numbers.items() if standard > direct}


ROWS = [
    Row(
        "3.20: one request's events",
        "the profiling timer's output of one 4 KiB write to ext4",
        (),
        remark="The picture makes no claim; `trace` gives the parts of a request, and their sum, for the rows below",
    ),
    Row(
        "3.21: periods of 5 to 25 ms",
        "10,000 synchronous writes of 256 KiB to the block device, high load, low priority, an RT kernel",
        (Claim("3.21-late", "firings come late until the period exceeds the longest write, then none", ("periods",), late_by_period),),
        (SPEEDS, "200 firings a period, to 200 ms"),
    ),
    *[
        Row(
            f"{number}, {appendix}: periodic, synchronous, {name}",
            "256 KiB, three loads, two priorities, RT kernel, 25 ms and 10 ms",
            (
                Claim(f"{number}-longest", "direct I/O's longest response is shorter", PERIODIC, direct_beside_buffered(where, "max_ns")),
                Claim(f"{number}-writes", "direct I/O writes faster in the median", PERIODIC, direct_beside_buffered(where, "median_ns", ("write",))),
                Claim(f"{number}-reads", "but does not read faster in the median", PERIODIC, direct_beside_buffered(where, "median_ns", ("read",), less=False)),
            ),
            (SPEEDS, "200 firings in each of 12 conditions at each period; both periods together"),
        )
        for number, appendix, where, name in (("3.22", "E.5", "block", "block device"), ("3.23", "E.6", "ext4", "ext4"))
    ],
    Row(
        "3.24, 3.25, E.7, E.8: periodic, asynchronous",
        "the same without O_SYNC",
        (
            Claim("3.24-faster", "median writes are faster than synchronous ones", PERIODIC, async_is("faster")),
            Claim("3.24-flatter", "and their distribution is flatter", PERIODIC, async_is("flatter")),
            Claim("3.24-direct", "with direct I/O much flatter", PERIODIC, direct_is_flatter),
            Claim("3.25-outliers", "but standard I/O on ext4 has more extreme outliers", PERIODIC, more_extreme_on_ext4),
        ),
        (SPEEDS, "writes of four paths in 24 conditions at each period; both periods together", "a read is synchronous either way, so the reads are those of the rows above"),
    ),
    Row("E.9, E.10: raw devices", "the same through /dev/raw", (), remark="Not run: Linux removed raw devices in 5.14; CharIO's rows are the nearest"),
    Row(
        "3.26 to 3.29: requests one by one",
        "20 synchronous requests of each kind, the profiling timer",
        (
            Claim("3.26-ahead", "a standard read fetches more than it asks for, a direct one exactly that", ("counts",), buffered_reads_ahead),
            Claim("3.27-ext4", "a write to ext4 accesses the device more often than one to the block device", ("counts",), ext4_writes_more_often),
            Claim("3.27-one", "a direct write to the block device is one transfer of the whole block", ("counts",), one_transfer),
            Claim("3.29-simpler", "direct writes of 40 and 80 KiB are simpler than standard ones", ("counts",), direct_is_simpler),
            Claim("3.27-doubling", "a write's software overhead hardly changes when its size doubles from 4 KiB", ("counts",), doubling),
            Claim("3.26-software", "most of the time is software's, not the device's", traces(KERNEL, names=("4K", "40K")), mostly_software),
        ),
        ("200 requests of each kind, after 32 that fill caches", "the blocks were written before, and ext4's allocated",
         "the last claim: the emulated drive's time and the emulated processors' are no board's"),
    ),
    Row(
        "3.30 to 3.33: densities of reads and writes",
        "1,000 requests of 4, 8, 40 and 80 KiB, with and without direct I/O, ext4 and block device",
        (
            Claim("3.30-peaks", "many densities have several peaks", traces(KERNEL), several_peaks),
            Claim("3.30-outliers", "the most extreme outliers are standard I/O's", traces(KERNEL), extreme_without_direct),
        ),
        (SPEEDS,),
    ),
    Row(
        "3.34: averages of reads",
        "10,000 reads of 40 and 80 KiB",
        (
            Claim("3.34-prefetches", "standard I/O prefetches: not every read reaches the device", ("counts",), prefetches),
            Claim("3.34-efficient", "direct I/O is the more efficient", ("counts",), reads_more_simply),
        ),
        ("200 reads, by instructions; the copies are not in them",),
    ),
    Row(
        "tables 3.1, 3.2: seven applications",
        "Filebench, an hour each, files of twice the memory, NVMe drive; a server and a board",
        (
            Claim("t3.1-throughput", "direct I/O has the higher throughput in all seven (server)", WORKLOADS,
                  applications("MiB/s", throughput, higher_standard(0, 0))),
            Claim("t3.2-throughput", "direct I/O has the higher throughput in four of seven, the ones with large transfers, and netsfs (board)", WORKLOADS,
                  applications("MiB/s", throughput, higher_standard(1, 0))),
            Claim("t3.1-latency", "standard I/O has the lower mean latency in videoserver, netsfs and oltp (server)", WORKLOADS,
                  applications("ms", latency, higher_standard(0, 2))),
            Claim("t3.2-latency", "standard I/O has the lower mean latency in webserver, varmail, netsfs and oltp (board)", WORKLOADS,
                  applications("ms", latency, higher_standard(1, 2))),
        ),
        (SPEEDS, "512 MiB of files in 256 MiB of memory, three runs of 4 s each; runs that differ by less than a quarter tell nothing", "our engine with the same steps; where it is not Filebench's: [measure.md](measure.md)"),
        numbers=printed.applications,
    ),
]  # fmt: skip
