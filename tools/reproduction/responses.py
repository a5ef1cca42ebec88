# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The claims of the thesis's sections 3.6 to 3.9 and appendices E.2 and E.3: single requests, periodic tasks, applications."""

from . import printed
from statistics import mean as average

from .evidence import BOTH, KERNEL, KIB, SPEEDS, TIME, WHERE, Claim, Finding, Row, all_of, pairs_hold, quantile, ratios, requests, several_peaks, size, traces

PERIODIC = ("periodic", "periodic-10")
APPLICATIONS = ("webserver", "fileserver", "varmail", "videoserver", "netsfs", "webproxy", "oltp")
WORKLOADS = tuple(f"workload-{name}-{how}" for name in APPLICATIONS for how in ("standard", "direct"))


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
    """Kernel instructions of an 8 KiB request over one of 4 KiB."""
    texts, truths = [], []
    for path in KERNEL:
        for operation in BOTH:
            small, large = (average(requests(counts, path, operation, number)["kernel"]) for number in (4 * KIB, 8 * KIB))
            if operation == "write":
                truths.append(large < 1.25 * small)
                texts.append(f"{path} {large / small:.2f}")
    return Finding("kernel instructions of 8 KiB over 4 KiB: " + ", ".join(texts), all_of(truths))


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
    texts = []
    for run in runs:
        device = sum(part["share"] for part in run["parts"] if part["name"] == "device")
        texts.append(f"{run['path']} {run['operation']} {size(run['block_size_bytes'])} {100 * (1 - device):.0f} %")
    return Finding("outside the device: " + ", ".join(texts), None, TIME)


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


ROWS = [
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
            Claim("standard I/O prefetches: not every read reaches the device", ("counts",), prefetches),
            Claim("direct I/O is the more efficient", ("counts",), reads_more_simply),
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
