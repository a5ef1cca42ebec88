# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Common code of all areas: the figures so far, running commands, building examples, Callgrind."""

import operator
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from suites import programs

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


RELATIONS = {"<": operator.lt, "<=": operator.le, ">=": operator.ge, ">": operator.gt}


class Figures:
    """The figures measured so far."""

    def __init__(self):
        self.rows = []

    def add(self, name, value, unit, target=None):
        """`target` is for example `<= 90`, `< 90` or `>= 3.5`, or None."""
        verdict = "ok"
        if target is not None:
            relation, bound = target.split()
            met = RELATIONS[relation](value, float(bound))
            verdict = "ok" if met else "short"
        shown = f"{value:.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        print(f"{name} {shown} {unit} {(target or '-').replace(' ', '')} {verdict}", flush=True)
        row = {"name": name, "value": value, "unit": unit, "target": target, "verdict": verdict}
        self.rows.append(row)

    def remark(self, text):
        """Prints a line that is not a figure."""
        print(f"# {text}", flush=True)


def run(command, **options):
    """Runs a command and returns its standard output; exits with an error if it fails."""
    options = {"cwd": ROOT, **options}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"figures: {' '.join(map(str, command))} ended with {done.returncode}")
    return done.stdout


def build_example(package, example, profile="release"):
    is_one = package in programs.WITH_EXAMPLES and profile == "release"
    packages = programs.selection(programs.WITH_EXAMPLES) if is_one else ["-p", package]
    run(["cargo", "build", "--quiet", "--locked", "--profile", profile, *packages, "--example", example])
    return TARGET / profile / "examples" / example


def dumps(command):
    """Callgrind's counts of each of the program's dumps, less the cost of the markers."""
    with tempfile.TemporaryDirectory() as folder:
        run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no",
             f"--callgrind-out-file={folder}/out", *command],
            stderr=subprocess.DEVNULL,
        )
        parts = sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        totals = [int(re.search(r"^totals: (\d+)", part.read_text(), re.M)[1]) for part in parts]
    markers, *counts = totals
    return [count - markers for count in counts]
