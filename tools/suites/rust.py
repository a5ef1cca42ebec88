# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The crates' tests. cargo builds them; this runs the programs, two per processor at a time: many tests wait.

cargo runs one test program after the other, and each waits for its slowest test.
"""

import json
import os
import re
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import process
from .result import ROOT, Result

# `test NAME ... ok <0.012s>`; output of a test without a line's end can precede the verdict.
LINE = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (?:.*?)(ok|FAILED|ignored)(?:, (.*?))?(?: <([\d.]+)s>)?$", re.M)
COUNTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
SKIPPED = re.compile(r"^SKIPPED: *(.*)$", re.M)
# Times of the tests need an option that libtest has in every release, but calls unstable.
TIMED = ["-Z", "unstable-options", "--report-time"]
# Examples that any machine can run, with their arguments; volume's is in its documentation and runs with that. The others are
# checked by clippy, and built for their users.
EXAMPLES = {"read_block": (), "record": (), "file_read": ("Cargo.toml",)}
# Searches that get longer than their crate's default.
BUDGETS = {"coprocessor/ring": "5s"}
# How long each program took the last time: the longest run first.
TIMES = ROOT / "build" / "test" / "rust.json"


def run(pattern=None):
    """All crates' unit, integration and documentation tests whose names contain the pattern."""
    package, pattern = package_of(pattern), None if package_of(pattern) else pattern
    programs, total = build(package)
    if total.failed:
        return total
    known = json.loads(TIMES.read_text("utf-8")) if TIMES.exists() else {}
    programs.sort(key=lambda program: -known.get(program[0], 0))
    times = {}
    with ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        for name, seconds, result in pool.map(lambda program: run_one(*program, pattern), programs):
            times[name] = seconds
            total.add(result)
    if not pattern and not package:
        TIMES.parent.mkdir(parents=True, exist_ok=True)
        TIMES.write_text(json.dumps(times, indent=1), "utf-8")
    total.add(documentation(pattern, package))
    return total


def package_of(pattern):
    """The package of a pattern that is a crate's folder, such as crates/nvme; None for other patterns."""
    manifest = ROOT / pattern / "Cargo.toml" if pattern and pattern.startswith("crates/") else None
    if not manifest or not manifest.exists():
        return None
    return tomllib.loads(manifest.read_text("utf-8"))["package"]["name"]


def build(package=None):
    """Builds the tests, of all crates or of one: [(name, program, the crate's folder)], and a result that has failed if that goes wrong."""
    examples = [word for name in EXAMPLES if not package for word in ("--example", name)]
    command = ["cargo", "test", *(["-p", package] if package else ["--workspace"]), "--locked", "--lib", "--bins", "--tests", *examples, "--no-run",
               "--message-format=json-render-diagnostics"]  # fmt: skip
    done = process.kept(command)
    programs, said = [], []
    for line in done.output.splitlines():
        if not line.startswith("{"):
            said.append(line)
            continue
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message["executable"]:
            continue
        kind = message["target"]["kind"][0]
        if message["profile"]["test"] or kind == "example":
            folder = Path(message["manifest_path"]).parent
            name = folder.name if kind in ("lib", "bin") else f"{folder.name}/{message['target']['name']}"
            programs.append((name, message["executable"], folder))
    return programs, Result("rust", failed=[("the build", "\n".join(said))] if done.status else [], cpu_s=done.cpu_s)


def run_one(name, program, folder, pattern):
    """Runs one program: its name, its time in seconds, and its tests."""
    begin = time.monotonic()
    if Path(program).parent.name == "examples":
        return example(name, program, folder, pattern)
    words = [program, "--show-output", *([pattern] if pattern else [])]
    # As cargo does: in the crate's folder.
    env = {"CARGO_MANIFEST_DIR": str(folder), "RUST_BACKTRACE": "0", "RUSTC_BOOTSTRAP": "1"}
    if name in BUDGETS:
        env["STRAIGHTWAY_BUDGET"] = os.environ.get("STRAIGHTWAY_BUDGET", BUDGETS[name])
    done = process.kept([*words, *TIMED], cwd=folder, env=env)
    if COUNTS.search(done.output) is None and "unstable-options" in done.output:
        done = process.kept(words, cwd=folder, env=env)
    seconds = time.monotonic() - begin
    result = counted(name, done)
    if result.passed or result.failed or result.skipped:
        print(f"{name}: {result.passed} passed, {len(result.failed)} failed in {seconds:.1f} s, {result.cpu_s:.1f} s of processor time", flush=True)
    return name, seconds, result


def example(name, program, folder, pattern):
    """Runs an example, which must exit with 0."""
    begin, result, named = time.monotonic(), Result("rust"), f"{name} example"
    if not pattern or pattern in named:
        status, output, cpu_s = process.kept([program, *EXAMPLES[name.partition("/")[2]]], cwd=folder)
        result = Result("rust", passed=int(status == 0), failed=[(named, output)] if status else [], cpu_s=cpu_s)
        print(f"{named}: {'passed' if status == 0 else 'failed'}", flush=True)
    return name, time.monotonic() - begin, result


def counted(name, done):
    """The results of a program's tests, from its output."""
    status, output, cpu_s = done
    result = Result("rust", cpu_s=cpu_s)
    verdicts = LINE.findall(output)
    for test, verdict, reason, seconds in verdicts:
        if seconds:
            result.times.append((float(seconds), None, f"{name} {test}"))
        if verdict == "FAILED":
            result.failed.append((f"{name} {test}", of_test(test, output)))
        elif verdict == "ignored":
            result.skipped.append(reason or f"{test} is marked as ignored")
    reasons = SKIPPED.findall(output)
    result.skipped += reasons
    found = COUNTS.search(output)
    if found:
        result.passed = int(found[1]) - len(reasons)
    if status != 0 and not result.failed:
        result.failed.append((name, output))  # It died, or could not be started.
    return result


def of_test(test, output):
    """What a failed test printed."""
    parts = re.split(r"^---- (.+) stdout ----$", output, flags=re.M)
    return next((text for name, text in zip(parts[1::2], parts[2::2]) if name == test), output)


def documentation(pattern, package=None):
    """The examples in the documentation."""
    words = ["cargo", "test", *(["-p", package] if package else ["--workspace"]), "--locked", "--doc", "--quiet", "--no-fail-fast"]
    status, output, cpu_s = process.kept([*words, "--", pattern] if pattern else words)
    result = Result("rust", passed=sum(int(counts[0]) for counts in COUNTS.findall(output)), cpu_s=cpu_s)
    if status != 0:
        result.failed.append(("documentation", output))
    print(f"documentation: {result.passed} passed, {len(result.failed)} failed", flush=True)
    return result
