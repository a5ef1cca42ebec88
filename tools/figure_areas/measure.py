# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The measuring verbs: their overhead, what they report of a stall, how much of a request they explain.

Instructions, allocations and system calls of the timed path come from Callgrind, on a device that does
nothing: two runs of different length differ only by their operations. The stall and the
parts of requests are measured in the lab.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from . import freeze as frozen
from .support import ROOT, TARGET, build_example, run

OUT = ROOT / "out" / "measure"
# Long enough that both allocate their records in fresh pages: both then make the same number of calls for them.
FEW, MANY = 30_000, 60_000
# The timed paths with everything that they call, but without preparation and evaluation.
TIMED = ("*ClosedLoop::serve*", "*OpenLoop::serve*", "count_loops::bare*")


def counted(program, loop, operations):
    """Operations done, instructions, calls of the allocator, system calls."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--trace-syscalls=yes",
                   *[f"--toggle-collect={name}" for name in TIMED], str(program), loop, str(operations)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"figures: count_loops {loop} ended with {done.returncode}: {done.stderr[-500:]}")
        text = out.read_text()
    total = int(re.search(r"^(?:totals|summary): (\d+)", text, re.M)[1])
    system_calls = len(re.findall(r"SYSCALL\[", done.stderr + done.stdout))
    return int(done.stdout.strip().splitlines()[-1]), total, allocations(text), system_calls


def allocations(text):
    """Calls of malloc, calloc, realloc and free that Callgrind saw."""
    names, calls, callee = {}, 0, ""
    for line in text.splitlines():
        found = re.match(r"cfn=\((\d+)\)(?: (.*))?", line)
        if found:
            if found[2]:
                names[found[1]] = found[2]
            callee = names.get(found[1], "")
        elif found := re.match(r"fn=\((\d+)\) (.*)", line):
            names[found[1]] = found[2]
        elif line.startswith("calls=") and re.fullmatch(r"(malloc|calloc|realloc|free|aligned_alloc)(@.*)?", callee):
            calls += int(line.split()[0].removeprefix("calls="))
    return calls


def overhead(figures):
    program = build_example("straightway-measure", "count_loops")
    per_operation = {}
    for loop in ("bare", "closed", "closed32", "open"):
        few, many = counted(program, loop, FEW), counted(program, loop, MANY)
        operations = many[0] - few[0]
        per_operation[loop] = [(more - less) / operations for more, less in zip(many[1:], few[1:])]
    bare = per_operation.pop("bare")[0]
    figures.add("measure.device_and_clock_instructions", bare, "instructions/operation")
    for loop, (instructions, allocated, called) in per_operation.items():
        figures.add(f"measure.{loop}_loop_instructions", instructions - bare, "instructions/operation", "<= 150")
        figures.add(f"measure.{loop}_loop_allocations", allocated, "calls/operation", "<= 0")
        figures.add(f"measure.{loop}_loop_system_calls", called, "calls/operation", "<= 0")


def lab(script, *options, timeout=900):
    """Runs bash in a guest; the results are in the files that it writes below out/."""
    command = [ROOT / "lab/run", *options, "--timeout", str(timeout), "--", "bash", "-c", script]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"figures: a lab run of the instrument ended with {done.returncode}: {done.stdout[-2000:]}")


def freeze(figures, straightway):
    folder = OUT / "freeze"
    drives = ["--drive", "size=256M", "--drive", "size=64M"]
    lab(frozen.script(straightway, "straightway0", frozen.PATHS, folder), *drives)
    for path in frozen.PATHS:
        seen = frozen.Frozen(folder / path)
        name = f"measure.freeze_{path.replace('-', '_')}"
        if why := seen.why_not_judged():
            figures.remark(f"{name}: not judged: {why}")
            continue
        figures.add(f"{name}_p99_ms", seen.run["response"]["p99_ns"] / 1e6, "ms")
        figures.add(f"{name}_model_ms", 1e3 * seen.model_p99_s()[0], "ms")
        figures.add(f"{name}_p99_error", 100 * abs(seen.error()), "%", "<= 5")
        figures.add(f"{name}_service_p99_ms", seen.run["service"]["p99_ns"] / 1e6, "ms")


def coverage(figures, straightway):
    paths = ("block-direct", "ext4-direct", "io_uring", "straightway-poll")
    lines = [
        f"{straightway} --quiet trace /dev/nvme0n1 --destroy-data straightway0 --path {path} --block 40K --requests 500 "
        f"--span 16M --output {OUT}/trace-{path} >/dev/null || [ $? = 5 ]"
        for path in paths
    ]
    lab("\n".join([f"set -e; mkdir -p {OUT}", *lines]), "--drive", "size=256M,mdts=5")
    for path in paths:
        traced = json.loads((OUT / f"trace-{path}" / "trace.json").read_text())
        name = path.replace("-", "_")
        figures.add(f"measure.trace_{name}_coverage", 100 * traced["coverage"], "%", ">= 95")
        figures.add(f"measure.trace_{name}_lost_events", traced["lost_events"], "events")
        if traced["source"] == "tracefs":
            figures.add(f"measure.trace_{name}_probe_cost", traced["probe_cost_ns"] / 1e3, "us/request")


def measure_counts(figures):
    """The figures that repeat exactly, and so may gate a change."""
    overhead(figures)


def measure(figures):
    measure_counts(figures)
    run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "straightway-cli"])
    straightway = TARGET / "release" / "straightway"
    freeze(figures, straightway)
    coverage(figures, straightway)
