# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The order in which the tests run, and their report."""

import json
import os
import re
import subprocess
import sys

import pytest

from suites import deal, order, process, python, result, rust
from suites.result import ROOT


def test_long_tests_go_first_and_a_worker_keeps_to_its_guests():
    # A test that waits for its guest occupies a worker like one that computes.
    costs = {"a::long": [5, "", 100], "a::stock1": [24, "stock", 24], "a::stock2": [30, "stock", 10], "a::rt1": [18, "rt", 18],
             "a::rt2": [15, "rt", 15], "a::own": [3, "", 23]}  # fmt: skip
    waiting = {name: [name] for name in [*costs, "a::new"]}
    one, two = order.Order(costs), []
    for worker in ("w0", "w1", "w1", "w1", "w0", "w0", "w1"):
        two.append(one.choose(worker, waiting))
        del waiting[two[-1]]
    # The long one; each worker completes a different kind, the larger first; then tests that need no running guest.
    assert two == ["a::long", "a::stock1", "a::stock2", "a::rt1", "a::own", "a::new", "a::rt2"]


def test_a_long_test_boots_no_second_guest_of_a_kind_that_another_worker_has():
    costs = {"a::short": [9, "stock", 9], "a::long": [40, "stock", 40], "a::own": [3, "", 23]}
    waiting = {name: [name] for name in costs}
    one = order.Order(costs)
    assert one.choose("w0", waiting) == "a::long"
    del waiting["a::long"]
    assert one.choose("w1", waiting) == "a::own"
    # Its own long test comes before its short ones.
    costs["a::longer"] = [50, "stock", 50]
    waiting["a::longer"] = ["a::longer"]
    assert one.choose("w0", waiting) == "a::longer"


def test_units_of_another_worker_s_guests_are_taken_when_nothing_else_is_left():
    costs = {"a::rt1": [20, "rt", 20], "a::rt2": [15, "rt", 15], "a::rt3": [5, "rt", 5]}
    waiting = {name: [name] for name in costs}
    shares = order.Order(costs)
    assert shares.choose("w0", waiting) == "a::rt1"
    del waiting["a::rt1"]
    assert shares.choose("w1", waiting) == "a::rt2"


def test_what_runs_is_counted_for_its_suite_and_its_cost_is_kept(tmp_path, monkeypatch):
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.test_chario" name="one[rt]" time="3.0"><properties><property name="cpu_s" value="2.54"/>
        <property name="kind" value="rt"/></properties></testcase>
        <testcase classname="rtl.test.test_rtl" name="two" time="1.0"><failure>why</failure></testcase>
        <testcase classname="lab.tests.test_lab" name="three" time="0.5"><skipped message="no root"/></testcase>
        </testsuite></testsuites>""",
        "utf-8",
    )
    monkeypatch.setattr(python, "REPORT", report)
    monkeypatch.setattr(order, "LAST", tmp_path / "costs.json")
    results = {suite: result.Result(suite) for suite in ("chario", "lab", "rtl")}
    python.count(results)
    assert results["chario"].passed == 1 and results["chario"].cpu_s == 2.54
    assert results["rtl"].failed == [("test_rtl::two", "why")] and results["lab"].skipped == ["no root"]
    # A failed test says nothing about its cost.
    assert order.known()["tests/test_chario.py::one[rt]"] == [2.5, "rt", 3.0]
    assert "rtl/test/test_rtl.py::two" not in order.LAST.read_text("utf-8")


@pytest.fixture
def budgets(tmp_path, monkeypatch):
    monkeypatch.setattr(result, "TAKEN", tmp_path / "taken.json")
    return json.loads(result.BUDGETS.read_text("utf-8"))


def budget_line(suite):
    return next(line for line in result.budget_lines() if line.split()[0] == suite)


def test_budgets_are_listed_with_what_the_last_run_took(budgets):
    assert [line.split()[0] for line in result.budget_lines()[1:-1]] == list(budgets)
    slow, failed = result.Result("lab", cpu_s=1.2 * budgets["lab"]), result.Result("rust", cpu_s=5.0, failed=[("a", "b")])
    result.keep_taken([slow, failed], 2, 0.05)
    assert "over its budget by 20%" in budget_line("lab") and "-" in budget_line("rust")
    assert "over" not in budget_line("rtl") + budget_line("rust")


def test_a_suite_far_over_its_budget_is_a_problem_of_the_check(budgets):
    assert not result.over_budget()
    result.keep_taken([result.Result("lab", cpu_s=1.4 * budgets["lab"]), result.Result("rtl", cpu_s=1.6 * budgets["rtl"])], 0, 0.0)
    (problem,) = result.over_budget()
    assert "rtl took" in problem


def test_a_run_that_is_not_comparable_is_listed_and_no_problem(budgets):
    """Of every cell, and beside other programs: neither says that the suite became dearer."""
    for part, others, said in ((None, 0.0, "every cell"), (3, 0.4, "beside other programs (40% of the processors)")):
        result.keep_taken([result.Result("proofs", cpu_s=9 * budgets["proofs"])], part, others)
        assert not result.over_budget()
        assert said in budget_line("proofs") and str(round(9 * budgets["proofs"])) in budget_line("proofs")
    # A file of before, which does not say how its runs were made.
    result.TAKEN.write_text(json.dumps({"proofs": 9 * budgets["proofs"]}))
    assert not result.over_budget() and "-" in budget_line("proofs")


def test_what_other_programs_take_of_the_processors_is_told_from_our_own(monkeypatch):
    # Of all processors, busy, and of this process and its children.
    times = iter([(100.0, 40.0, 10.0), (120.0, 55.0, 20.0), (100.0, 40.0, 10.0), (120.0, 50.0, 30.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)])
    monkeypatch.setattr(result.Others, "_now", staticmethod(lambda: next(times)))
    assert result.Others().share() == 0.25
    # The kernel counts in ticks: never less than nothing.
    assert result.Others().share() == 0.0
    assert result.Others().share() == 0.0


def test_a_run_of_every_cell_leaves_its_commit_and_counts_in_the_repository(tmp_path, monkeypatch):
    monkeypatch.setattr(result, "WHOLE", result.ROOT / "build" / "test" / f"{tmp_path.name}.json")
    result.WHOLE.parent.mkdir(parents=True, exist_ok=True)
    results = [result.Result("lab", passed=3, failed=[("a", "b")], cpu_s=5.4), result.Result("rtl", passed=4, skipped=["c"])]
    try:
        result.keep_whole(results, 12.3)
        kept = json.loads(result.WHOLE.read_text("utf-8"))
    finally:
        result.WHOLE.unlink(missing_ok=True)
    assert (kept["passed"], kept["failed"], kept["skipped"], kept["cpu_s"], kept["seconds"]) == (7, 1, 1, 5, 12)
    assert kept["failed_tests"] == ["lab: a"] and kept["suites"]["rtl"]["passed"] == 4
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=result.ROOT, capture_output=True, text=True).stdout.strip()
    assert kept["commit"] == head


def test_a_crate_s_folder_is_its_package_and_nothing_else_is():
    assert rust.package_of("crates/volume") == "straightway-volume" and rust.package_of("crates/straightway") == "straightway"
    assert not any(map(rust.package_of, (None, "volume", "crates/none", "crates")))


@pytest.mark.parametrize("run", [process.kept, process.shown])
def test_a_program_s_end_output_and_cost_are_its_own(run):
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo done >&2; exit 3"
    done = run(["sh", "-c", busy])
    assert (done.status, done.output) == (3, "done\n")
    # Without the time of earlier programs in this process.
    assert 0 < done.cpu_s and run(["true"]).cpu_s < done.cpu_s


def test_a_program_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(process, "LIMIT_S", 0.2)
    # Its children are killed with it.
    done = process.kept(["sh", "-c", "echo begun; sleep 1000; true"])
    assert done.status == -9 and done.output.split("\n") == ["begun", "", "no end within 0.2 s: killed", ""]


HANGS = """
import subprocess

def test_hangs():
    subprocess.run(["sh", "-c", "sleep 1000; true"])

def test_goes_on():
    pass
"""


def pytest_of(folder, tests, *words, **variables):
    """What pytest prints about these tests, with this project's conftest.py."""
    (folder / "conftest.py").write_text((order.ROOT / "conftest.py").read_text("utf-8").replace(
        "ROOT = Path(__file__).parent", f"ROOT = Path({str(order.ROOT)!r})"), "utf-8")
    (folder / "test_one.py").write_text(tests, "utf-8")
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, folder],
                          env=os.environ | variables, capture_output=True, text=True).stdout  # fmt: skip


def test_a_test_that_does_not_end_fails_and_reports_where(tmp_path):
    output = pytest_of(tmp_path, HANGS, STRAIGHTWAY_TEST_LIMIT_S="1")
    assert "1 failed, 1 passed" in output, output
    assert "no end within 1 s" in output and "sleep 1000" in output and 'subprocess.run(["sh"' in output


def test_long_values_that_differ_are_not_compared_in_full(tmp_path):
    # Small enough to end where they are.
    output = pytest_of(tmp_path, "def test_it():\n    assert bytes(300) == b'1' * 300\n", CI="true")
    assert "1 failed" in output and "Use -v" in output and len(output) < 4000, output


def test_each_part_has_each_value_and_all_parts_have_each_cell_about_equally():
    cells = {f"test_{test}[{kernel}]": ("kernel", kernel) for test in range(9) for kernel in ("stock", "rt")}
    cells |= {f"test_{width}": ("width", None) for width in range(3)}
    costs = {name: float(index) for index, name in enumerate(cells)}
    parts = deal.dealt(cells, costs)
    assert parts.keys() == cells.keys()
    for group in set(cells.values()):
        for part in range(deal.PARTS):
            assert any(part in parts[name] for name in cells if cells[name] == group), (group, part)
    for group in (("kernel", "stock"), ("kernel", "rt")):
        loads = [sum(costs[name] for name in cells if cells[name] == group and part in parts[name]) for part in range(deal.PARTS)]
        assert max(loads) < 1.5 * min(loads), loads
    assert deal.dealt(cells, costs) == parts


CELLS = """
import pytest

@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", ["a", "b"])
@pytest.mark.parametrize("number", range(4))
def test_dealt(kernel, number):
    print(f"ran {kernel}{number}")

def test_always():
    pass
"""


def test_a_run_takes_its_part_of_the_cells(tmp_path):
    for part in range(deal.PARTS):
        assert "3 passed, 6 deselected" in pytest_of(tmp_path, CELLS, STRAIGHTWAY_CELLS=str(part))
    assert "9 passed" in pytest_of(tmp_path, CELLS, STRAIGHTWAY_CELLS=deal.ALL)


SHAPES = """
import pytest

@pytest.mark.shapes("shape", always={"x"})
@pytest.mark.parametrize("shape", ["x", "a", "b", "c", "d"])
@pytest.mark.parametrize("what", ["one", "two"])
def test_shape(shape, what):
    print(f"ran {shape} {what}")

@pytest.mark.cells("kernel", "a")
def test_of_a_kernel():
    print("ran the kernel")

@pytest.mark.repeated()
@pytest.mark.parametrize("number", range(4))
def test_again(number):
    print(f"ran again {number}")
"""


def test_shapes_are_dealt_whole_and_a_value_that_only_one_test_has_is_in_every_part(tmp_path):
    seen = []
    for part in range(deal.PARTS):
        output = pytest_of(tmp_path, SHAPES, "-s", STRAIGHTWAY_CELLS=str(part))
        ran = set(re.findall(r"ran (\w+ \w+)", output))
        (other,) = {name.split()[0] for name in ran} - {"x", "the", "again"}
        assert {"x one", "x two", f"{other} one", f"{other} two", "the kernel"} <= ran and len(ran) == 6, ran
        seen.append((other, *(name for name in ran if "again" in name)))
    assert {one[0] for one in seen} == set("abcd") and len({one[1] for one in seen}) == 4, seen


def test_a_part_makes_a_quarter_of_the_random_runs(monkeypatch):
    for text, expected in (("all", (1, 16)), ("3", (1, 4))):
        monkeypatch.setenv(deal.VARIABLE, text)
        assert (deal.share(1), deal.share(16)) == expected
        assert len(deal.taken({str(number): "group" for number in range(8)})) == {"all": 8, "3": 2}[text]


DF = """#!/bin/sh
case $1 in
    --output=target) echo Mounted; [ "$4$3$2" = . ] && echo / || echo /other ;;
    *) echo Avail; [ "$3" = . ] && echo CLONE || echo OTHER ;;
esac
"""


def test_too_little_space_is_said_in_one_line(tmp_path):
    """Below the clone, and in the temporary folder."""
    df = tmp_path / "df"

    def space(clone, other):
        df.write_text(DF.replace("CLONE", clone).replace("OTHER", other))
        df.chmod(0o755)
        done = subprocess.run([ROOT / "tools" / "space"], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)},
                              capture_output=True, text=True)  # fmt: skip
        return done.returncode, done.stderr

    assert space("999999", "999999") == (0, "")
    status, said = space("100", "999999")
    assert status == 1 and said.startswith(f"test: {ROOT} has 100 MiB free") and said.count("\n") == 1 and "hint: " in said, said
    status, said = space("999999", "100")
    assert status == 1 and said.startswith(f"test: {tmp_path} has 100 MiB free") and "TMPDIR" in said, said


def test_a_part_that_does_not_exist_is_refused(monkeypatch):
    for text in ("4", "-1", "most"):
        monkeypatch.setenv(deal.VARIABLE, text)
        with pytest.raises(ValueError, match="give a part, 0 to 3, or all"):
            deal.part()
