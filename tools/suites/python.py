# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tests that pytest runs: all suites in one run, counted from its report file, not from its output."""

import os
import xml.etree.ElementTree as xml

from . import arm64, order, process
from .result import ROOT, Result

REPORT = ROOT / "build" / "test" / "pytest.xml"
# Tests with guests are a separate suite unless another suite names their file.
FILES = {
    # First, because it may have others' files.
    "arm64": arm64.FILES,
    "chario": ("tests/test_chario.py", "tests/test_chario_faults.py"),
    "firmware": ("tests/test_coprocessor.py", "tests/test_coprocessor_faults.py", "tests/test_coprocessor_formats.py",
                 "tests/test_coprocessor_mapped.py", "tests/test_firmware_stack.py"),
    "servers": ("tests/test_fabric.py", "tests/test_fabric_loss.py", "tests/test_serve.py"),
    "counts": ("tests/test_counts.py", "lab/tests/test_count.py"),
    "iommufd": ("tests/test_iommufd.py",),
    "rtl": ("rtl/test",),
}
OTHERS = ("lab", ("lab/tests", "tests"))


def run(suites, pattern=None):
    """Runs these suites' tests whose names contain the pattern: a result for each."""
    words = [path for suite in suites for path in FILES.get(suite, OTHERS[1])]
    if OTHERS[0] in suites:
        left = [path for suite, paths in FILES.items() if suite not in suites for path in paths]
        words = [word for word in words if not word.startswith(("tests/", "lab/"))] + [OTHERS[1][0], *(f"--ignore={path}" for path in left)]
    program = ROOT / "build" / "venv" / "bin" / "pytest"
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.unlink(missing_ok=True)
    # Two for each processor: guests wait for drives with limits and for each other, and beside other programs more workers get
    # more of the processors.
    workers = str(2 * (os.cpu_count() or 1))
    command = [program, "-q", "--tb=short", "-n", workers, "--dist", "loadscope", f"--junitxml={REPORT}",
               *(["-k", pattern] if pattern else []), *words]  # fmt: skip
    status, output, _ = process.shown(command)
    results = {suite: Result(suite) for suite in suites}
    # 5: no test has that name.
    if status == 5 and pattern:
        return results
    if REPORT.exists():
        count(results)
    if status != 0 and not any(result.failed for result in results.values()):
        results[suites[0]].failed.append(("pytest", output))
    return results


def count(results):
    """Adds the results of pytest's report, and stores the cost of each test for the order of the next run."""
    costs = {}
    for case in xml.parse(REPORT).getroot().iter("testcase"):
        file = case.get("classname", "").replace(".", "/") + ".py"
        result = results[suite_of(file)]
        name = f"{file.rpartition('/')[2].removesuffix('.py')}::{case.get('name')}"
        found = {one.get("name"): one.get("value") for one in case.iter("property")}
        cpu_s = float(found.get("cpu_s", "0"))
        result.times.append((float(case.get("time", "0")), cpu_s, name))
        result.seconds += float(case.get("time", "0"))
        result.cpu_s += cpu_s
        # A test that passed and whose fixture then failed has both.
        trouble = [child for child in case if child.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if trouble:
            result.failed.append((name, "\n".join(child.text or child.get("message", "") for child in trouble)))
        elif skipped is not None:
            result.skipped.append(skipped.get("message", "no reason given"))
        else:
            result.passed += 1
            costs[f"{file}::{case.get('name')}"] = [round(cpu_s, 1), found.get("kind", ""), round(float(case.get("time", "0")), 1)]
    order.keep(costs)


def suite_of(file):
    """The suite that a test's file belongs to."""
    for suite, paths in FILES.items():
        if any(file == path or file.startswith(path + "/") for path in paths):
            return suite
    return OTHERS[0]
