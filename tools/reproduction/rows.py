"""The thesis's findings, row by row, and how our runs are compared with them.

A judge takes results and returns two texts: our finding, and whether the thesis's conclusion holds (yes, no, partly), or
why the lab cannot decide. It reads only the runs' JSON.
"""

from dataclasses import dataclass
from typing import Callable

from .runs import commands, result

MIB = 1 << 20
NO_RUN = ("not run here", "-")


@dataclass
class Row:
    figures: str
    thesis: str
    runs: tuple
    judge: Callable | None = None
    # Replaces a judge: the fixed texts.
    fixed: tuple = NO_RUN
    # The command for your own drive, if it is not that of the first run.
    command: str | None = None

    def judged(self):
        if self.judge is None:
            return self.fixed
        results = [result(name) for name in self.runs]
        return NO_RUN if any(one is None for one in results) else self.judge(*results)


def cells(run):
    return [one for comparison in run["comparisons"] for one in comparison["results"]] if "comparisons" in run else run["results"]


def pick(run, key="throughput_mib_s", **wanted):
    found = [one[key] for one in cells(run) if all(one[name] == value for name, value in wanted.items())]
    return found[0] if found else None


def ratio(run, ours, theirs, key="throughput_mib_s", **wanted):
    a, b = pick(run, key, path=ours, **wanted), pick(run, key, path=theirs, **wanted)
    return a / b if a and b else None


def verdict(*truths):
    return "yes" if all(truths) else "partly" if any(truths) else "no"


def times(value):
    return "-" if value is None else f"{value:.2f}"


def speed_by_size(run):
    small = [ratio(run, "ext4-direct", "ext4-buffered", operation=op, block_size_bytes=4096) for op in ("read", "write")]
    large = [ratio(run, "ext4-direct", "ext4-buffered", operation=op, block_size_bytes=16 * MIB) for op in ("read", "write")]
    text = f"direct over buffered on ext4: 4 KiB {times(small[0])} reading, {times(small[1])} writing; 16 MiB {times(large[0])}, {times(large[1])}"
    return text, verdict(*[one < 1 for one in small], *[one > 1 for one in large])


def cpu_by_size(run):
    less = total = 0
    for kind in ("ext4", "block"):
        for one in cells(run):
            if one["path"] != f"{kind}-direct":
                continue
            other = pick(run, "mib_s_per_cpu_percent", path=f"{kind}-buffered", operation=one["operation"], block_size_bytes=one["block_size_bytes"])
            total += 1
            less += one["mib_s_per_cpu_percent"] > other
    return f"direct takes less CPU per MiB in {less} of {total} cells", verdict(less > total / 2, less > 0.8 * total)


def efficiency(run):
    growth = {}
    for path in ("ext4-buffered", "ext4-direct"):
        small, large = (pick(run, "mib_s_per_cpu_percent", path=path, operation="read", block_size_bytes=size) for size in (4096, 16 * MIB))
        growth[path] = large / small
    text = f"MiB/s per CPU %, 16 MiB over 4 KiB: direct {growth['ext4-direct']:.1f}, buffered {growth['ext4-buffered']:.1f}"
    return text, verdict(growth["ext4-direct"] > growth["ext4-buffered"], growth["ext4-direct"] > 2)


def in_kernel(run):
    kinds = dict(run["kinds"])
    user = kinds.get("application", 0) + kinds.get("user space", 0)
    return f"{100 * (1 - user):.1f} % of the busy samples in the kernel", verdict(user < 0.1)


def copying(buffered, direct):
    of = [dict(run["kinds"]).get("copying", 0) for run in (buffered, direct)]
    return f"copying: {100 * of[0]:.0f} % buffered, {100 * of[1]:.1f} % direct", verdict(of[0] > 0.5, of[1] < 0.1)


def cpu_speed(*runs):
    loops = [run["points"][0]["loop_ns"] for run in runs]
    texts, gains = [], {}
    for path in ("block-buffered", "block-direct", "ram"):
        rates = [next(one["iops"] for one in run["points"][0]["results"] if one["path"] == path) for run in runs]
        gains[path] = rates[0] / rates[-1]
        texts.append(f"{path} {gains[path]:.2f}")
    return (
        f"operations per second with a processor {loops[-1] / loops[0]:.1f} times as fast: " + ", ".join(texts),
        verdict(*[gain > 1.3 for gain in gains.values()]),
    )


def one_request(run):
    parts = ", ".join(f"{part['name']} {100 * part['share']:.0f} %" for part in run["parts"])
    return f"{parts}; the parts explain {100 * run['coverage']:.0f} %", verdict(run["coverage"] >= 0.95)


def software(*runs):
    shares = []
    for run in runs:
        device = sum(part["share"] for part in run["parts"] if part["name"] == "device")
        shares.append(100 * (1 - device))
    sizes = [f"{run['block_size_bytes'] >> 10} KiB {share:.0f} %" for run, share in zip(runs, shares)]
    return "outside the device: " + ", ".join(sizes), verdict(shares[0] > 50)


def densities(buffered, direct):
    """The tail is the 99th percentile over the median, from the individual requests."""
    tails = []
    for run in (buffered, direct):
        all_ns = sorted(sum(request) for request in run["shown"])
        tails.append(all_ns[int(0.99 * (len(all_ns) - 1))] / all_ns[len(all_ns) // 2])
    return f"99th percentile over median: buffered {tails[0]:.1f}, direct {tails[1]:.1f}", verdict(tails[0] > tails[1])


def averages(buffered, direct):
    means = [run["total_mean_ns"] / 1e3 for run in (buffered, direct)]
    return f"40 KiB on ext4: buffered {means[0]:.0f} us, direct {means[1]:.0f} us", verdict(means[1] < means[0])


def boxes(run, **wanted):
    return {
        (cell["path"], cell["priority"], cell["period_ns"]): cell["response"]
        for cell in run["cells"]
        if all(cell[name] == value for name, value in wanted.items())
    }


def extreme(box):
    return box["max_ns"] / box["median_ns"]


def periodic(synchronous):
    def judge(run):
        of = boxes(run, synchronous=synchronous)
        texts, truths = [], []
        for kind in ("block", "ext4"):
            worst = {how: max(box["max_ns"] for key, box in of.items() if key[0] == f"{kind}-{how}") / 1e6 for how in ("buffered", "direct")}
            texts.append(f"{kind}: longest {worst['buffered']:.1f} ms buffered, {worst['direct']:.1f} ms direct")
            truths.append(worst["direct"] < worst["buffered"])
        return "; ".join(texts), verdict(*truths)

    return judge


def short_period(run):
    of = boxes(run)
    worst = {path: max(box["max_ns"] for key, box in of.items() if key[0] == path) / 1e6 for path in ("block-buffered", "block-direct")}
    late = sum(cell["overruns"] for cell in run["cells"])
    return f"longest {worst['block-buffered']:.1f} ms buffered, {worst['block-direct']:.1f} ms direct; {late} firings came late", verdict(late > 0)


def periods(run):
    late = {cell["period_ns"] // 1_000_000: cell["overruns"] for cell in run["cells"]}
    longest = max(cell["service"]["max_ns"] for cell in run["cells"]) / 1e6
    text = "late firings by period: " + ", ".join(f"{period} ms {count}" for period, count in sorted(late.items()))
    shortest, widest = min(late), max(late)
    return f"{text}; longest write {longest:.1f} ms", verdict(late[shortest] > late[widest])


def applications(*runs):
    texts, faster = [], 0
    for standard, direct, volume in zip(runs[::3], runs[1::3], runs[2::3]):
        faster += direct["throughput_mib_s"] > standard["throughput_mib_s"]
        rates = "/".join(f"{one['throughput_mib_s']:.0f}" for one in (standard, direct, volume))
        texts.append(f"{standard['workload']} {rates}")
    text = "MiB/s on ext4 standard/direct/on a volume: " + ", ".join(texts)
    return text + f"; direct is faster in {faster} of {len(texts)}", verdict(faster == len(texts), faster > 0)


def parts_of(*runs):
    texts, outside = [], {}
    for run in runs:
        device = sum(part["share"] for part in run["parts"] if part["name"] == "device")
        us = (1 - device) * run["total_mean_ns"] / 1e3
        outside.setdefault(run["block_size_bytes"], {})[run["path"]] = us
        texts.append(f"{run['path']} {run['block_size_bytes'] >> 10} KiB {us:.0f} us")
    less = [paths["chario"] < paths["block-direct"] for paths in outside.values()]
    return "outside the device: " + ", ".join(texts), verdict(*less)


def chario_tail(plain, physical):
    spread = []
    for run in (plain, physical):
        all_ns = sorted(sum(request) for request in run["shown"])
        spread.append(all_ns[int(0.95 * (len(all_ns) - 1))] / all_ns[len(all_ns) // 2])
    return f"95th percentile over median: plain {spread[0]:.2f}, physical {spread[1]:.2f}", verdict(spread[1] <= spread[0])


def table_41(run):
    best = {}
    texts = []
    for size in (4096, 131072, MIB, 16 * MIB):
        kernel = max(pick(run, path=path, operation="read", block_size_bytes=size) for path in ("ext4-direct", "block-direct", "block-buffered"))
        best[size] = pick(run, path="chario", operation="read", block_size_bytes=size) / kernel
        texts.append(f"{size >> 10} KiB {best[size]:.2f}")
    return "CharIO over the kernel's best, reading: " + ", ".join(texts), verdict(*[best[size] > 1 for size in best if size > 4096])


def straight_over(path, *, size, pattern):
    def judge(run):
        of = {op: ratio(run, "straightway-poll", path, operation=op, pattern=pattern, block_size_bytes=size) for op in ("read", "write")}
        return f"straightway over {path}: {times(of['read'])} reading, {times(of['write'])} writing", verdict(*[one > 1 for one in of.values()])

    return judge


def by_size(run):
    texts, truths = [], []
    for size in (4096, 32768, 131072, 524288, MIB):
        one = ratio(run, "straightway-poll", "io_uring", operation="read", block_size_bytes=size)
        texts.append(f"{size >> 10} KiB {times(one)}")
        truths.append(one > (1 if size < 131072 else 0.9))
    return "straightway over io_uring, reading: " + ", ".join(texts), verdict(*truths)




WORKLOADS = tuple(name for name in commands() if name.startswith("workload-"))
CHAPTERS = [
    ("Chapter 3: what the kernel's paths cost", [
        Row("3.3, 3.4 call graphs of a copy", "99 % of the time in the kernel", ("profile-block-buffered",), in_kernel),
        Row("3.5, 3.6, 3.11, 3.12 speed by block size", "direct is faster from 512 KiB on, slower at 4 KiB and below", ("sweep",), speed_by_size),
        Row("3.7, 3.8, 3.13, 3.14 CPU", "direct takes less CPU almost everywhere", ("sweep",), cpu_by_size),
        Row("3.9, 3.10, 3.15, 3.16 speed for each CPU %", "buffered is flat; direct grows with the block", ("sweep",), efficiency),
        Row("3.17 share of copying", "copying dominates buffered transfers", ("profile-block-buffered", "profile-block-direct"), copying),
        Row("3.18, 3.19, E.1-E.4 CPU speed", "solid-state drives scale with the CPU", ("speed-0", "speed-1", "speed-2"), cpu_speed),
        Row("3.20 one request's events", "an example", ("trace-ext4-direct-4K",), one_request),
        Row("3.21 sweep over periods", "late until the period exceeds the worst write, 18 ms (periods of 5 to 25 ms; the lab is slower)", ("periods",), periods),
        Row("3.22, 3.23 synchronous, 25 ms", "direct removes most extreme outliers", ("periodic",), periodic(True)),
        Row("3.24, 3.25 asynchronous", "flatter, with a few more extreme outliers on ext4", ("periodic",), periodic(False)),
        Row("E.5-E.8 10 ms", "as with shorter periods: late firings", ("periodic-10",), short_period),
        Row("E.9, E.10 raw devices", "close to block devices", (), fixed=("none: Linux has no raw devices any more", "-"), command="none"),
        Row("3.26-3.29 requests one by one", "most of a small request is software", tuple(f"trace-ext4-direct-{size}" for size in ("4K", "40K", "80K")), software),
        Row("3.30-3.33 densities", "several peaks; outliers without direct I/O", ("trace-ext4-buffered-40K", "trace-ext4-direct-40K"), densities),
        Row("3.34 averages", "direct is the most efficient", ("trace-ext4-buffered-40K", "trace-ext4-direct-40K"), averages),
        Row("tables 3.1, 3.2 applications", "direct is faster in all on the server, in four on the board", WORKLOADS, applications),
    ]),
    ("Chapter 4: straighter paths", [
        Row("4.4 parts of 40 and 80 KiB reads", "CharIO spends less time in the kernel", tuple(
            f"trace-{path}-{size}" for path in ("block-direct", "chario", "chario-phys") for size in ("40K", "80K")), parts_of),
        Row("4.5, 4.6 interrupts of large transfers", "only CharIO's number can be computed", (), fixed=("see [chario.md](chario.md)", "yes"),
            command="`make figures ONLY=chario`"),
        Row("4.7, 4.8 densities of CharIO", "tighter with physical addresses", ("trace-chario-40K", "trace-chario-phys-40K"), chario_tail),
        Row("table 4.1 speed and CPU by path", "CharIO is fastest above 4 KiB and takes the least CPU", ("table-41",), table_41),
        Row("table 4.2 user space, sequential", "user space is fastest: 1444 against 1378 MiB/s reading", ("table-42",),
            straight_over("block-direct", size=131072, pattern="sequential")),
        Row("table 4.3 user space, random 4 KiB", "1415 against 744 MiB/s reading", ("table-43",), straight_over("io_uring", size=4096, pattern="random")),
        Row("4.10-4.15 by block size, four deep", "equal from 128 KiB on; user space varies less", ("by-size",), by_size),
        Row("table 4.4 the coprocessor", "equal to the main processor at a twelfth of the clock", (),
            fixed=("instructions of a command: see [coprocessor.md](coprocessor.md); the lab has no clock to compare", "-"),
            command="`make figures ONLY=firmware`"),
    ]),
]  # fmt: skip

HEAD = """# The thesis's figures and tables, repeated

Chapters 3 and 4 of R. Joyce's thesis (2018) measure storage on a server and on two Zynq boards. Below, each figure and
table: the command that repeats it, what the thesis found, what we found in the lab, and whether the same conclusion
holds there. `tools/reproduce` runs all of it (about half an hour) and leaves each run's report below `out/reproduce`;
`tools/reproduce --document` writes this file from those runs.

The lab's drive and processors are emulated. Counts (commands, interrupts, instructions) are those of a real machine;
speeds are not, and a conclusion about speed that does not hold there may well hold on a board. On your own drive use
the same commands with its name for `/dev/nvme0n1` and its serial number for `LAB1`.
"""

TAIL = """
## Stalls

Not in the thesis, but the reason for `sustain`: with a file system frozen for 1.5 s under 500 arrivals per second, 99 of
100 arrivals take up to 1.44 s, which follows from the arrivals' times alone. `make figures ONLY=measure` freezes one and compares.
"""


def document():
    lines = [HEAD]
    for title, rows in CHAPTERS:
        lines += [f"## {title}", "", "| figure, table | command | the thesis | ours, in the lab | holds |", "| --- | --- | --- | --- | --- |"]
        for row in rows:
            ours, holds = row.judged()
            lines.append(f"| {row.figures} | {row.command or words_of(row)} | {row.thesis} | {ours} | {holds} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n" + TAIL


def words_of(row):
    """The first run's command, and the number of similar ones."""
    more = f", and {len(row.runs) - 1} like it" if len(row.runs) > 1 else ""
    return f"`{' '.join(commands()[row.runs[0]].split())}`{more}"
