"""The tests that pytest runs: counted from the report that it writes, not from what it prints."""

import os
import xml.etree.ElementTree as xml

from . import process
from .result import ROOT, Result

REPORTS = ROOT / "build" / "test"


def run(suite, *paths, share="loadscope", pattern=None):
    """Runs the tests below these paths whose names contain the pattern."""
    program = ROOT / "build" / "venv" / "bin" / "pytest"
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"{suite}.xml"
    report.unlink(missing_ok=True)
    # Two guests at a time: more on two processors would only run into their time limits.
    workers = str(min(2, os.cpu_count() or 1))
    command = [program, "-q", "--tb=short", "-n", workers, "--dist", share, f"--junitxml={report}",
               *(["-k", pattern] if pattern else []), *paths]  # fmt: skip
    status, output = process.shown(command)
    # 5: no test has that name.
    if status == 5 and pattern:
        return Result(suite)
    if not report.exists():
        return Result(suite, failed=[("pytest", output)])
    result = counted(suite, report)
    if status != 0 and not result.failed:
        result.failed.append(("pytest", output))
    return result


def counted(suite, report):
    """What pytest's report says."""
    result = Result(suite)
    for case in xml.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        result.times.append((float(case.get("time", "0")), name))
        # A test that passed and whose fixture then failed has both.
        trouble = [child for child in case if child.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if trouble:
            result.failed.append((name, "\n".join(child.text or child.get("message", "") for child in trouble)))
        elif skipped is not None:
            result.skipped.append(skipped.get("message", "no reason given"))
        else:
            result.passed += 1
    return result
