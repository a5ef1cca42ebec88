"""What a suite did, and the report that ends a run: a table, the slowest tests, one line that counts them all."""

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The lab writes a line here for each guest that it starts: {"kind": ..., "seconds": ..., "retry": ..., "test": ...}.
BOOTS = ROOT / "build" / "lab" / "boots.jsonl"
SLOWEST = 10
# Of a failure's text the report repeats the end, where the reason is.
FAILURE_LINES = 40


@dataclass
class Result:
    """The outcome of one suite."""

    name: str
    passed: int = 0
    skipped: list[str] = field(default_factory=list)
    # The test's name, and what a person needs to see of it.
    failed: list[tuple[str, str]] = field(default_factory=list)
    # Seconds and name of each test that was timed.
    times: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0
    boots: int = 0
    retries: int = 0

    def add(self, other: "Result") -> None:
        """Counts another part of the same suite."""
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        self.times += other.times


def boots_so_far() -> list[dict]:
    """The guests that were started in this run."""
    lines = BOOTS.read_text("utf-8").splitlines() if BOOTS.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def failure_text(text: str) -> str:
    """The end of a failure's text, without the colours of a terminal."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip().splitlines()
    return os.linesep.join(plain[-FAILURE_LINES:])


def print_report(results: list[Result]) -> None:
    """Prints what failed, why tests were skipped, a table of the suites, the slowest tests, and the count."""
    for result in results:
        for name, text in result.failed:
            print(f"\n--- failed: {result.name}: {name}")
            print(failure_text(text))
    reasons = [reason for result in results for reason in result.skipped]
    for reason in sorted(set(reasons)):
        print(f"skipped {reasons.count(reason)}: {reason}")
    slowest = sorted((time, result.name, name) for result in results for time, name in result.times)
    if slowest:
        print(f"\nslowest {min(SLOWEST, len(slowest))} tests:")
        for seconds, suite, name in reversed(slowest[-SLOWEST:]):
            print(f"  {seconds:7.1f} s  {suite}: {name}")
    print(f"\n{'suite':<10}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}{'guests':>8}{'retries':>9}")
    for result in results:
        print(f"{result.name:<10}{result.passed:>8}{len(result.failed):>8}{len(result.skipped):>8}"
              f"{result.seconds:>9.0f}{result.boots:>8}{result.retries:>9}")  # fmt: skip
    passed, failed, skipped = (sum(column) for column in zip(
        *((result.passed, len(result.failed), len(result.skipped)) for result in results)))  # fmt: skip
    for result in results:
        for name, _ in result.failed:
            print(f"FAILED {result.name}: {name}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
