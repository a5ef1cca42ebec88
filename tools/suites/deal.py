# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which cells of a table of tests a run takes: a test on each of several kernels, machines or widths is one cell for each of them.

The cells of a dimension are dealt into four parts, and a run of all tests takes the part that the number of commits chooses, so that four
commits in a row take all. A run of `make test-all`, of some tests by name, and of one machine's whole suite takes every cell. The marks:

`cells("kernel")`: each test with a value of the parameter `kernel` is a cell. Each part has every value: those that fewer than four
tests have are in more than one part. `cells("kernel", "backports")` names the value of a test without the parameter.
`shapes("name", always={...})`: all tests of a file with the same value of `name` are one cell, since they share a build. Those of
`always` are in every part: together they have each value of each parameter that the shapes differ in.
`repeated()`: a test that shows once more, with another partner or a longer measurement, what others show in every part.

A test in which a fault would lose data has no mark: it runs on each kernel each time.
"""

import os
import subprocess

from . import order
from .result import ROOT

VARIABLE = "STRAIGHTWAY_CELLS"
PARTS = 4
ALL = "all"


def choose(is_whole_run):
    """Sets the variable for the processes of this run, unless the user has."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(_by_commits()) if is_whole_run else ALL
    part()


def part():
    """The part that this run takes, from 0; None for every cell."""
    text = os.environ.get(VARIABLE, ALL)
    if text == ALL:
        return None
    if not text.isdigit() or int(text) >= PARTS:
        raise ValueError(f"{VARIABLE}={text}: give a part, 0 to {PARTS - 1}, or {ALL}")
    return int(text)


def _by_commits():
    """Of an archive without a repository: the first."""
    counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(counted.stdout) % PARTS if counted.returncode == 0 else 0


def share(count):
    """How many of so many random runs this part makes: each run of the tests has others."""
    return count if part() is None else -(-count // PARTS)


def cell(item):
    """The cell of pytest's test, and the group that is dealt together, or None if it runs each time."""
    file, params = item.nodeid.partition("::")[0], getattr(getattr(item, "callspec", None), "params", {})
    if mark := item.get_closest_marker("shapes"):
        value = str(params[mark.args[0]])
        return None if value in mark.kwargs.get("always", ()) else (f"{file} {mark.args[0]} {value}", (file, mark.args[0]))
    if mark := item.get_closest_marker("cells"):
        dimension, *value = mark.args
        return item.nodeid, (dimension, str(value[0]) if value else str(params[dimension]) if dimension in params else None)
    if item.get_closest_marker("repeated"):
        return item.nodeid, ("repeated", None)
    return None


def taken(cells, costs=None):
    """The names of the cells that this run takes, for programs that pytest does not run; see `dealt`."""
    if (now := part()) is None:
        return set(cells)
    return {name for name, parts in dealt(cells, costs or {}).items() if now in parts}


def dealt(cells, costs):
    """The parts of each cell: {name: set of parts}, from {name: (dimension, value)} and each one's processor time in seconds."""
    groups = {}
    for name, group in cells.items():
        groups.setdefault(group, []).append(name)
    parts = {}
    for names in groups.values():
        # The dearest first, each to the part that has least; names decide between equal ones.
        names.sort(key=lambda name: (-costs.get(name, order.UNKNOWN_S), name))
        if len(names) < PARTS:
            for index, name in enumerate(names):
                parts[name] = {part for part in range(PARTS) if part % len(names) == index}
            continue
        loads = [0.0] * PARTS
        for name in names:
            least = loads.index(min(loads))
            loads[least] += costs.get(name, order.UNKNOWN_S)
            parts[name] = {least}
    return parts
