# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The simulator: steps of each kind of world, hours of a recorder, memory, and how short the scripts of known faults become."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

from .support import ROOT, TARGET, run

KINDS = ("volume", "arrays", "recorder", "mirror", "stripe", "network")
STEPS = 400_000
HOURS = 100
README = ROOT / "crates" / "simulator" / "README.md"
SHORT = 20
MILLION = 1_000_000


def spent(words):
    """A run's output, its processor time, and the most memory that it had."""
    process = subprocess.Popen([TARGET / "release" / "straightway-simulator", *map(str, words)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"figures: the simulator ended with {process.returncode}:\n{output}")
    return output, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def simulator(figures):
    run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "straightway-simulator"])
    memory = []
    for kind in KINDS:
        output, cpu_s, mib = spent(["--only", kind, "--seed", 1, "--steps", STEPS])
        steps = int(re.search(r"(\d+) steps,", output)[1])
        figures.add(f"simulator.{kind}_steps_per_s", round(steps / cpu_s), "steps/s", ">= 100000")
        memory.append(mib)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "long.txt"
        script.write_text(f"world recorder 1\nlong 0 {HOURS * 3600} 3 1\n")
        _, cpu_s, mib = spent(["--script", script])
    figures.add("simulator.recorder_hours_per_core_hour", round(HOURS * 3600 / cpu_s), "h/h", ">= 10000")
    figures.add("simulator.memory_mib", round(max(*memory, mib)), "MiB", "<= 512")
    table = README.read_text("utf-8").partition("<!-- mutations -->")[2].partition("<!-- end of mutations -->")[0]
    lengths = [int(cells[4]) for line in table.splitlines() if len(cells := line.split("|")) > 5 and cells[4].strip().isdigit()]
    rows = [line.split("|") for line in table.splitlines()]
    steps = [int(cells[3].replace(",", "")) for cells in rows if len(cells) > 5 and cells[4].strip().isdigit()]
    short = sum(length <= SHORT for length in lengths)
    figures.add("simulator.faults_found", sum(number <= MILLION for number in steps), "faults", ">= 42")
    figures.add("simulator.short_scripts_percent", round(100 * short / len(lengths)), "%", ">= 90")
