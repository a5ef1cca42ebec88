# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The results of a suite, and the report at the end of a run: a table, the slowest tests, one line that counts them all."""

import json
import os
import re
import resource
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The lab writes a line here for each guest that it starts: {"kind": ..., "seconds": ..., "retry": ..., "test": ...}.
BOOTS = ROOT / "build" / "lab" / "boots.jsonl"
SLOWEST = 10
# The last run of every cell: see `keep_whole`.
WHOLE = ROOT / "tests" / "whole.json"
# The budget of each suite, in seconds of processor time of a quiet machine, and what its last complete run took that passed.
BUDGETS = ROOT / "tests" / "budgets.json"
TAKEN = ROOT / "build" / "test" / "taken.json"
# Another machine's processors may take so much longer for the same work.
MARGIN = 1.5
# Beside other programs, the same work takes more processor time: they share caches, and a processor's two threads. A run is compared with
# the budgets if these took at most so much of the processors.
MOST_OTHERS = 0.1
# The report repeats the end of a failure's text, where the reason is.
FAILURE_LINES = 40


@dataclass
class Result:
    """The outcome of one suite."""

    name: str
    passed: int = 0
    skipped: list[str] = field(default_factory=list)
    # The test's name, and its text for the report.
    failed: list[tuple[str, str]] = field(default_factory=list)
    # Seconds, processor seconds (None: not measured) and name of each test that was timed.
    times: list[tuple[float, float | None, str]] = field(default_factory=list)
    # For suites whose tests share workers with others: the sum of its tests' times.
    seconds: float = 0.0
    cpu_s: float = 0.0
    boots: int = 0
    retries: int = 0

    def add(self, other: "Result") -> None:
        """Counts another part of the same suite."""
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        self.times += other.times
        self.seconds += other.seconds
        self.cpu_s += other.cpu_s
        self.boots += other.boots
        self.retries += other.retries


def boots_so_far() -> list[dict]:
    """The guests that were started in this run."""
    lines = BOOTS.read_text("utf-8").splitlines() if BOOTS.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def keep_taken(results: list[Result], part: int | None, others: float) -> None:
    """Stores the costs of the suites that passed, of a run that was dealt `part` (None: every cell) beside other programs that took
    `others` of the processors."""
    taken = _taken()
    taken |= {
        result.name: {"cpu_s": round(result.cpu_s), "part": part, "others": round(others, 2)} for result in results if not result.failed
    }
    TAKEN.parent.mkdir(parents=True, exist_ok=True)
    TAKEN.write_text(json.dumps(taken, indent=2) + "\n", "utf-8")


def _taken() -> dict[str, dict]:
    """The last run of each suite. Without those of a file of before, which did not say how they were run."""
    taken = json.loads(TAKEN.read_text("utf-8")) if TAKEN.exists() else {}
    return {suite: one for suite, one in taken.items() if isinstance(one, dict)}


def _is_comparable(one: dict) -> bool:
    """A run that a budget is for: with a part of the cells, and the machine to itself."""
    return one["part"] is not None and one["others"] <= MOST_OTHERS


def keep_whole(results: list[Result], wall_s: float) -> None:
    """Stores the result of a run of every cell, in the repository: what was tested last, and how it ended."""
    git = lambda *words: subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    suites = {result.name: {"passed": result.passed, "failed": len(result.failed), "skipped": len(result.skipped),
                            "cpu_s": round(result.cpu_s)} for result in results}  # fmt: skip
    counts = {name: sum(suite[name] for suite in suites.values()) for name in ("passed", "failed", "skipped", "cpu_s")}
    # Of the commit itself, or with changes to it.
    is_changed = bool(git("status", "--porcelain", "--untracked-files=no", "--", ".", f":!{WHOLE.relative_to(ROOT)}"))
    whole = {"commit": git("rev-parse", "HEAD"), "is_changed": is_changed, "date": time.strftime("%Y-%m-%d", time.gmtime()),
             "processors": os.cpu_count(), "seconds": round(wall_s), **counts, "suites": suites,
             "failed_tests": [f"{result.name}: {name}" for result in results for name, _ in result.failed]}  # fmt: skip
    WHOLE.write_text(json.dumps(whole, indent=2) + "\n", "utf-8")


def over_budget() -> list[str]:
    """Suites whose last comparable run took more than their budget, beyond what processors differ by."""
    budgets, taken = json.loads(BUDGETS.read_text("utf-8")), _taken()
    return [
        f"tests/budgets.json: {suite} took {taken[suite]['cpu_s']} s of processor time, and its budget is {most} s: make it cheaper, deal it, "
        "or raise the budget and say why in the commit"
        for suite, most in budgets.items()
        if suite in taken and _is_comparable(taken[suite]) and taken[suite]["cpu_s"] > MARGIN * most
    ]  # fmt: skip


def budget_lines() -> list[str]:
    """Each suite's budget, the cost of its last run, and why that run is not compared with the budget."""
    budgets, taken = json.loads(BUDGETS.read_text("utf-8")), _taken()
    lines = [f"{'suite':<10}{'budget':>8}{'taken':>8}  seconds of processor time"]
    for suite, most in budgets.items():
        one, remark = taken.get(suite), ""
        if one and one["part"] is None:
            remark = "  every cell: not compared"
        elif one and not _is_comparable(one):
            remark = f"  beside other programs ({one['others']:.0%} of the processors): not compared"
        elif one and one["cpu_s"] > most:
            remark = f"  over its budget by {one['cpu_s'] / most - 1:.0%} ({MARGIN - 1:.0%} is allowed)"
        lines.append(f"{suite:<10}{most:>8}{one['cpu_s'] if one else '-':>8}{remark}")
    return [*lines, f"{'all':<10}{sum(budgets.values()):>8}{sum(one['cpu_s'] for one in taken.values()) or '-':>8}"]


class Others:
    """How much of the processors' time others than this process and its children take, from its making on."""

    def __init__(self) -> None:
        self._begin = self._now()

    def share(self) -> float:
        """From 0 to 1: 0 if this kernel does not tell."""
        everything, busy, ours = (now - begin for now, begin in zip(self._now(), self._begin, strict=True))
        return max(0.0, busy - ours) / everything if everything > 0 else 0.0

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Seconds of all processors, those of them that were busy, and those of this process and the children that ended."""
        try:
            with open("/proc/stat", encoding="utf-8") as file:
                # user, nice, system, idle, iowait, irq, softirq, steal: what guests take is in `user`.
                ticks = [int(word) for word in file.readline().split()[1:9]]
        except (OSError, ValueError):
            return 0.0, 0.0, 0.0
        ours = sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
        rate = os.sysconf("SC_CLK_TCK")
        return sum(ticks) / rate, (sum(ticks) - ticks[3] - ticks[4]) / rate, ours


def failure_text(text: str) -> str:
    """The end of a failure's text, without the colours of a terminal."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip().splitlines()
    return os.linesep.join(plain[-FAILURE_LINES:])


def print_report(results: list[Result], wall_s: float) -> None:
    """Prints failures, reasons for skipped tests, a table of the suites, the slowest tests, and the count."""
    for result in results:
        for name, text in result.failed:
            print(f"\n--- failed: {result.name}: {name}")
            print(failure_text(text))
    reasons = [reason for result in results for reason in result.skipped]
    for reason in sorted(set(reasons)):
        print(f"skipped {reasons.count(reason)}: {reason}")
    times = [(seconds, cpu, f"{result.name}: {name}") for result in results for seconds, cpu, name in result.times]
    slowest = sorted(times, key=lambda time: -(time[0] if time[1] is None else time[1]))[:SLOWEST]
    if slowest:
        print(f"\nmost expensive {len(slowest)} tests (seconds, of processor time):")
        for seconds, cpu, name in slowest:
            print(f"  {seconds:7.1f} s  {'' if cpu is None else f'{cpu:.1f} s':>9}  {name}")
    print(f"\n{'suite':<10}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}{'cpu s':>8}{'guests':>8}{'retries':>9}")
    for result in results:
        print(f"{result.name:<10}{result.passed:>8}{len(result.failed):>8}{len(result.skipped):>8}"
              f"{result.seconds:>9.0f}{result.cpu_s:>8.0f}{result.boots:>8}{result.retries:>9}")  # fmt: skip
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"all in {wall_s:.0f} s, with {use.ru_utime + use.ru_stime:.0f} s of processor time on {os.cpu_count()} processors")
    passed, failed, skipped = (sum(column) for column in zip(
        *((result.passed, len(result.failed), len(result.skipped)) for result in results)))  # fmt: skip
    for result in results:
        for name, _ in result.failed:
            print(f"FAILED {result.name}: {name}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
