# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claims of the thesis, and what our runs say to each.

A claim is judged by one function, which reads the runs' JSON and returns a Finding: what we found, whether it agrees (True,
False, or None if the runs cannot tell), and what that rests on. Counts (commands, bytes, instructions) are those of a real
machine. Times are the lab's, whose drive and processors are emulated: a row that rests on them says so, whichever way it falls.

A judge refuses what it cannot decide by `need()`: a condition of the claim that the runs did not reach, nothing to compare, a
count that leaves out the price in question. A run that is missing, damaged, interrupted or not valid gives no verdict either.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from math import comb
from pathlib import Path

COUNTS, TIME = "counts", "the lab's time"
KIB, MIB = 1 << 10, 1 << 20
WHERE, BOTH = ("ext4", "block"), ("read", "write")
KERNEL = tuple(f"{where}-{how}" for where in WHERE for how in ("buffered", "direct"))
SPEEDS = "an emulated drive, which answers from the host's memory, and two emulated processors"
VERDICTS = ("holds by counts", "holds in the lab's time", "does not hold", "cannot be told here")
# What "much" and "far" ask for at least.
MUCH = 1.5
REASONS = Path(__file__).with_name("reasons.toml")


class Untold(Exception):
    """The runs cannot decide, and why."""


def need(condition, reason):
    if not condition:
        raise Untold(reason)


@dataclass(frozen=True)
class Reason:
    """Why a verdict follows: the claim's condition, what is read, and what would have made the verdict the opposite."""

    premise: str
    evidence: str
    opposite: str

    def __str__(self):
        return f"{self.premise}: {self.evidence}. Turned by {self.opposite}"


def reasons(file=REASONS):
    return {name: Reason(**words) for name, words in tomllib.loads(file.read_text()).items()}


@dataclass(frozen=True)
class Finding:
    text: str
    holds: bool | None
    basis: str = COUNTS
    # The result may follow from the emulator's price of a copy or an instruction, which is not a board's.
    is_emulators: bool = False

    @property
    def verdict(self):
        if self.holds is None:
            return "cannot be told here"
        if not self.holds:
            return f"does not hold ({'by counts' if self.basis == COUNTS else 'in ' + self.basis})"
        return "holds by counts" if self.basis == COUNTS else f"holds in {self.basis}"


@dataclass(frozen=True)
class Claim:
    """A sentence of the thesis; `judge` takes the results of `runs` in their order. `name` is its key in reasons.toml."""

    name: str
    text: str
    runs: tuple
    judge: Callable

    def finding(self, result):
        results = {name: result(name) for name in self.runs}
        for what, is_refused in REFUSED.items():
            if names := [name for name, run in results.items() if is_refused(run)]:
                return Finding(f"{what}: {', '.join(names)}", None)
        try:
            return self.judge(*results.values())
        except Untold as untold:
            return Finding(str(untold), None)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            return Finding(f"damaged or incomplete: {', '.join(self.runs)} ({type(error).__name__}: {error})", None)


# Runs that give no verdict. A busy machine, for instance: the run says so itself.
REFUSED = {
    "not run": lambda run: run is None,
    "damaged": lambda run: not isinstance(run, dict) or "damaged" in run,
    "interrupted": lambda run: not run.get("complete", True),
    "not valid": lambda run: not run.get("valid", True),
}


def is_emulated(run):
    """Whether the run's drive or processor is an emulator's, by their names; what names neither is."""
    names = [(run.get("environment_before") or {}).get("cpu_model"), (run.get("device") or {}).get("model")]
    return any(not name or "QEMU" in name or "Virtual" in name or "Straightway" in name for name in names)


@dataclass(frozen=True)
class Row:
    """A figure or table, or several of one experiment."""

    figures: str
    # What was run by the thesis.
    thesis: str
    claims: tuple
    # What differs in our run: each a sentence.
    differences: tuple = ()
    # For a row without runs: why.
    remark: str = ""
    # The numbers that the thesis prints, and ours: lines of the page, of the results.
    numbers: Callable | None = None
    source: str = "The thesis"
    runs: tuple = field(init=False)

    def __post_init__(self):
        names = dict.fromkeys(name for claim in self.claims for name in claim.runs)
        object.__setattr__(self, "runs", tuple(names))


def cells(run, **wanted):
    """The cells of a sweep or a comparison that have these values."""
    every = [one for comparison in run["comparisons"] for one in comparison["results"]] if "comparisons" in run else run["results"]
    return [one for one in every if all(one[name] == value for name, value in wanted.items())]


def only(found, what="a part of a run"):
    """The one element; what is there twice or not at all decides nothing."""
    found = list(found)
    need(len(found) == 1, f"{'not' if not found else 'more than once'} in the run: {what}")
    return found[0]


def cell(run, **wanted):
    """The cell with these values. One with errors or without speed measured something else."""
    what = " ".join(size(value) if name == "block_size_bytes" else str(value) for name, value in wanted.items())
    found = only(cells(run, **wanted), what)
    need(not found.get("errors"), f"operations failed: {what}")
    need(found["throughput_mib_s"] > 0, f"nothing was moved: {what}")
    return found


def faster(one, other, factor=1.0, is_same_run=True):
    """Whether a cell is faster than `factor` times another; None if that is not known at 95 %.

    Six rounds or more of one run, each with both cells, are compared in pairs; of fewer, and of two runs, the intervals are.
    """
    pairs = is_same_run and [
        (ours["throughput_mib_s"], theirs["throughput_mib_s"])
        for ours in one["samples"]
        for theirs in other["samples"]
        if ours["round"] == theirs["round"]
    ]
    if pairs and len(pairs) >= 6:
        return pairs_hold(ours > factor * theirs for ours, theirs in pairs)
    a, b = one["throughput_mib_s_ci95"], other["throughput_mib_s_ci95"]
    if not a or not b:
        return None
    return True if a[0] > factor * b[1] else False if a[1] < factor * b[0] else None


def much_faster(one, other, is_same_run=True):
    """Faster at 95 %, and by a factor of 1.5 in the mean; faster by less is not much."""
    is_faster = faster(one, other, is_same_run=is_same_run)
    return is_faster and one["throughput_mib_s"] >= MUCH * other["throughput_mib_s"]


def all_of(truths):
    """All hold; False if one does not; None if none fails and one cannot be told."""
    truths = list(truths)
    return False if False in truths else None if None in truths or not truths else True


def most_of(truths, share=0.8):
    """Most hold: at least this share of those that can be told. None between that and a half, or if too few can be told."""
    truths = list(truths)
    told = [one for one in truths if one is not None]
    if len(told) < len(truths) / 2 or not told:
        return None
    found = sum(told) / len(told)
    return True if found >= share else False if found <= 0.5 else None


def pairs_hold(truths):
    """A sign test over pairs of conditions: more than half at 95 % (two-sided), less than half, or neither."""
    truths = list(truths)
    total, wins = len(truths), sum(truths)
    # How many losses chance gives with at most 2.5 %.
    allowed, below = -1, 0
    for losses in range(total + 1):
        below += comb(total, losses)
        if below / 2**total > 0.025:
            break
        allowed = losses
    return True if total - wins <= allowed else False if wins <= allowed else None


def share_interval(share, samples):
    """Wilson's interval at 95 % of a share that was found in this many samples."""
    if not samples:
        return 0.0, 1.0
    z = 1.96
    middle, scale = share + z * z / (2 * samples), 1 + z * z / samples
    half = z * (share * (1 - share) / samples + z * z / (4 * samples * samples)) ** 0.5
    return max(0.0, (middle - half) / scale), (middle + half) / scale


def bulk(counts, path, operation, pattern, number):
    """The counts of a transfer from an empty cache to durable data."""
    words = (path, operation, pattern, number)
    what = f"{path} {operation} {pattern} {size(number)}"
    found = only((one for one in counts["bulk"] if (one["path"], one["operation"], one["pattern"], one["block_size_bytes"]) == words), what)
    need(found["instructions_per_mib"] > 0 and found["commands_per_mib"] > 0, f"nothing was counted: {what}")
    return found


def requests(counts, path, operation, number):
    """The counts of single calls."""
    words, what = (path, operation, number), f"{path} {operation} {size(number)}"
    found = only((one for one in counts["requests"] if (one["path"], one["operation"], one["block_size_bytes"]) == words), what)
    need(found["kernel"] and min(found["kernel"]) > 0, f"nothing was counted: {what}")
    return found


def quantile(trace, share):
    """The time that this share of the requests did not exceed, ns, from the whole distribution."""
    for value, exceeding in trace["exceedance"]:
        if exceeding <= 1 - share:
            return value
    return trace["exceedance"][-1][0]


def peaks(trace):
    """How many times the density rises to at least a twentieth of its highest value and falls to three quarters of that peak."""
    values = [value for _, value in trace["density"]]
    highest, found, rising, low, high = max(values), 0, True, 0.0, 0.0
    for value in values:
        if rising:
            high = max(high, value)
            if high >= highest / 20 and value < 0.75 * high:
                found, rising, low = found + 1, False, value
        else:
            low = min(low, value)
            if value >= highest / 20 and value > low / 0.75:
                rising, high = True, value
    return found + (rising and high >= highest / 20)


def device_share(trace):
    """The device's part of a request's time; of a run that explains less than 95 % of it, none."""
    found = [part["share"] for part in trace["parts"] if part["name"] == "device"]
    need(found and trace["coverage"] >= 0.95, f"too little of the time is explained: {trace['path']} {trace['operation']}")
    return sum(found)


def size(number):
    return f"{number >> 20} MiB" if number >= 1 << 20 else f"{number >> 10} KiB" if number >= 1024 else f"{number} B"


def ratios(pairs):
    """`4 KiB 0.21, 16 MiB 9.3` of (bytes, ratio)."""
    return ", ".join(f"{size(number)} {'-' if value is None else f'{value:.3g}'}" for number, value in pairs)


def traces(paths, operations=BOTH, names=("4K", "8K", "40K", "80K")):
    """The names of runs."""
    return tuple(f"trace-{path}-{operation}-{name}" for path in paths for operation in operations for name in names)


def several_peaks(*runs):
    """Whether most densities have several peaks, by a sign test: "many" and "landscapes" ask for no less."""
    of = [peaks(run) for run in runs]
    several = sum(one > 1 for one in of)
    return Finding(f"several peaks in {several} of {len(of)}", pairs_hold(one > 1 for one in of), TIME)
