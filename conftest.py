# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The distribution of tests over pytest's workers (`tools/test`), and reports of their guests and costs.

An idle worker takes the next test in the order of tools/suites/order.py. The tests of a file with a module fixture
(scope="module") stay together, so that only one worker creates the fixture; so do those of a hardware file, whose benches
are built into one folder. Every boot of a guest adds a line to build/lab/boots.jsonl, and whatever befell a
test's guest one to build/lab/befell.jsonl; the last lines of a run count and name them. A test that does not end fails, with
a report of its processes.
"""

import contextlib
import functools
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tools"))

from suites import deal, order, process  # noqa: E402

# pytest compares unequal values in full, and without a limit, where one of these is set: for megabytes that takes an hour.
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:
    LoadScopeScheduling = object


@functools.cache
def stays_together(file):
    return file.startswith("rtl/") or 'scope="module"' in (ROOT / file).read_text(encoding="utf-8")


class ByCost(LoadScopeScheduling):
    """xdist's scheduling of scopes, where a scope is a test, or a file whose tests stay together."""

    def __init__(self, config, log):
        super().__init__(config, log)
        self._order = order.Order(order.known())

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if stays_together(file) else nodeid

    def _assign_work_unit(self, node):
        chosen = self._order.choose(node.gateway.id, {scope: list(tests) for scope, tests in self.workqueue.items()})
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    # Options of the user have priority, such as --dist loadfile.
    return ByCost(config, log) if config.getvalue("dist") == "loadscope" else None


# --- The cells that this run takes ------------------------------------------------------------------


def pytest_collection_modifyitems(config, items):
    """Leaves out the cells that another part has (tools/suites/deal.py)."""
    if (part := deal.part()) is None:
        return
    costs, cells, members = order.committed(), {}, {}
    for item in items:
        if found := deal.cell(item):
            name, group = found
            cells[name] = group
            members.setdefault(name, []).append(item.nodeid)
    parts = deal.dealt(cells, {name: sum(costs.get(test, order.UNKNOWN_S) for test in tests) for name, tests in members.items()})
    left = {test for name, tests in members.items() if part not in parts[name] for test in tests}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
    items[:] = [item for item in items if item.nodeid not in left]


# --- What a test costs ---------------------------------------------------------------------------


def processor_time_s():
    """Of this process, of its children that have ended, and of the guests that are up."""
    pool = sys.modules.get("pool")
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses) + (pool.POOL.processor_time_s() if pool else 0.0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    item.began_s = processor_time_s()
    if pool := sys.modules.get("pool"):
        pool.POOL.last_kind = ""
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    try:
        with limited():
            return (yield)
    finally:
        pool = sys.modules.get("pool")
        item.user_properties.append(("cpu_s", f"{processor_time_s() - item.began_s:.2f}"))
        item.user_properties.append(("kind", pool.POOL.last_kind if pool else ""))


# --- A test that does not end --------------------------------------------------------------------

# Far longer than the longest test on a busy machine: every wait has its own limit, and this one is for waits without a limit. It
# applies to each step of a test (set-up, call, teardown).
LIMIT_S = float(os.environ.get("STRAIGHTWAY_TEST_LIMIT_S", "1200"))


def shown(pid):
    """A process: its number, its parent's, its state, what it waits for in the kernel, and its command line."""
    try:
        folder = Path(f"/proc/{pid}")
        state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{pid} of {parent} {state} {(folder / 'wchan').read_text()}: {words[:300]}"
    except OSError as error:
        return f"{pid}: {error}"


def end_test(number, frame):
    """Ends the processes of the test, except guests that others will use, and fails the test."""
    pool = sys.modules.get("pool")
    idle = pool.POOL.processes() if pool else set()
    started = [child for child in process.children(os.getpid()) if child not in idle]
    lines = [shown(pid) for child in started for pid in (child, *process.descendants(child))]
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
    pytest.fail("\n".join([f"no end within {LIMIT_S:g} s; the test's processes:", *lines]))


@contextlib.contextmanager
def limited():
    before = signal.signal(signal.SIGALRM, end_test)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with limited():
        return (yield)


# --- Guests --------------------------------------------------------------------------------------

LAB = ROOT / "build" / "lab"


def pytest_configure(config):
    for mark in ("cells(dimension, value)", "shapes(parameter, always)", "repeated()"):
        config.addinivalue_line("markers", f"{mark}: dealt into parts, of which a run takes one (tools/suites/deal.py)")
    # lab/guest.py adds a line to this file for each boot.
    os.environ.setdefault("LAB_BOOTS", str(LAB / "boots.jsonl"))
    config.guests_since = time.time()


def lines_since(path, since):
    if not path.exists():
        return []
    return [line for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if line["at"] >= since]


def pytest_terminal_summary(terminalreporter, config):
    boots = lines_since(Path(os.environ["LAB_BOOTS"]), config.guests_since)
    for line in lines_since(LAB / "befell.jsonl", config.guests_since):
        terminalreporter.write_line(f"a guest of {line['test']}: {line['why']}")
    if boots:
        repeated = sum(boot["retry"] for boot in boots)
        terminalreporter.write_line(f"guests: {len(boots)} booted in {sum(boot['seconds'] for boot in boots):.0f} s, "
                                    f"{repeated} of them repeated")  # fmt: skip
