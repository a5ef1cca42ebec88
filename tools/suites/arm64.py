# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The programs that guests with 64-bit Arm run, and the tests that run there."""

import os

from . import process
from .result import ROOT

# Built together: cargo compiles a dependency again for each set of packages that needs other features of it. Unoptimised: that is a
# third of the time.
PACKAGES = ("straightway-cli", "straightway-preload", "straightway-map", "straightway-c", "straightway-block", "straightway-simulator")
BUILD = ["tools/cross", "cargo", "build", "--profile", "test", "--locked", "--quiet",
         *(word for name in PACKAGES for word in ("-p", name)), "--lib", "--bins", "--example", "map", "--example", "litmus"]  # fmt: skip
# Part of every run, and with STRAIGHTWAY_ARCH=aarch64 whole files: not those with programs of this machine's own, with Serial ATA
# or with counts of instructions.
PART = ("tests/test_arm64.py",)
ALL = tuple(f"tests/test_{name}.py" for name in (
    "data", "volumes", "power", "formats", "faults", "unplug", "boards", "compare", "sustain", "arrays", "fabric", "mount", "chario",
    "chario_faults", "events", "instrument", "arm64", "arm64_programs",
))  # fmt: skip
FILES = ALL if os.environ.get("STRAIGHTWAY_ARCH") == "aarch64" else PART


def why_not():
    """Why nothing can run there, or None."""
    if not (ROOT / "build/lab/root-aarch64/bin/bash").exists():
        return "there is no root for arm64; run: tools/setup lab-aarch64"
    done = process.kept(["tools/cross", "true"])
    return done.output.strip() if done.status else None


def build():
    return process.kept(BUILD)
