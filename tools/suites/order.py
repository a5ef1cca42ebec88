# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which test runs next, and on which worker: from the costs of the last run.

Owns the file of costs: processor time, the kind of guest and the time of each test, from the last run (build/test), or
as committed for a machine that has no last run. Long tests run first, so that no worker is left with one at the end, except those whose
guest another worker has: a worker prefers the kinds of guests that it has booted, and takes tests of other workers' kinds only when nothing
else is left.
"""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "tests" / "costs.json"
LAST = ROOT / "build" / "test" / "costs.json"
# These run before all others.
LONG_S = 25.0
# The assumed cost of a test without a measurement: that of tests that are omitted from the committed file.
UNKNOWN_S = 2.0


def committed() -> dict[str, float]:
    """Test (file::name) to seconds of processor time, as committed: the same for everyone who has the commit."""
    return {test: cost[0] for test, cost in json.loads(COMMITTED.read_text("utf-8")).items()}


def known() -> dict[str, list]:
    """Test (file::name) to [seconds of processor time, kind of guest, seconds]."""
    costs = {}
    for path in (COMMITTED, LAST):
        if path.exists():
            costs |= json.loads(path.read_text("utf-8"))
    return costs


def keep(costs: dict[str, list]) -> None:
    """Adds to the costs of the last runs."""
    LAST.parent.mkdir(parents=True, exist_ok=True)
    last = json.loads(LAST.read_text("utf-8")) if LAST.exists() else {}
    _write(LAST, last | costs)


def commit() -> None:
    """Writes the costs of the last complete run to the committed file, except negligible ones."""
    last = json.loads(LAST.read_text("utf-8"))
    _write(COMMITTED, {test: cost for test, cost in last.items() if cost[1] or cost[2] >= UNKNOWN_S})


def _write(path: Path, costs: dict[str, list]) -> None:
    lines = [f"  {json.dumps(test)}: {json.dumps(cost)}" for test, cost in sorted(costs.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


class Order:
    """Hands out units of work: tests that stay together, by the unit's name."""

    def __init__(self, costs: dict[str, list]) -> None:
        self._costs = costs
        self._owner: dict[str, str] = {}

    def choose(self, worker: str, waiting: dict[str, list[str]]) -> str:
        """The next unit for this worker, of the waiting ones (name to tests)."""
        units = {name: self._cost(tests) for name, tests in waiting.items()}
        totals: dict[str, float] = {}
        for seconds, kind in units.values():
            totals[kind] = totals.get(kind, 0.0) + seconds

        def rank(name: str) -> tuple:
            seconds, kind = units[name]
            # A long test is no reason to boot another guest of a kind that a worker has.
            if kind and self._owner.get(kind, worker) != worker:
                place = 4
            elif kind and kind not in self._owner:
                place = 2
            elif seconds >= LONG_S:
                place = 0
            else:
                place = 1 if kind else 3
            # Of new kinds the one with the most work, and all of it before another kind; of others' the one with the most left.
            return place, -totals[kind] if place in (2, 4) else 0.0, -seconds, name

        chosen = min(units, key=rank)
        kind = units[chosen][1]
        if kind:
            self._owner.setdefault(kind, worker)
        return chosen

    def _cost(self, tests: list[str]) -> tuple[float, str]:
        """How long the tests occupy a worker, including waits for its guest, and their kind of guest."""
        costs = [self._costs.get(test, [0.0, "", UNKNOWN_S]) for test in tests]
        return sum(seconds for _, _, seconds in costs), next((kind for _, kind, _ in costs if kind), "")
