# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a script in a lab guest: in one that stays up and gets fresh drives (`guest`), or in one of its own
(`own_guest`). The script sees the command as $S, the first drive's PCI address as $BDF, and these functions:

`rc N COMMAND...` runs it and fails unless it ends with N; its output is in /tmp/out and /tmp/err.
`measured COMMAND...` runs it and fails unless it ends with 0, or with 5 because the machine was busy: that its figures
are not valid does not make its counts and its files wrong.
`said WORDS` fails unless the last command's standard error has them. `same A B WHAT` compares.
`linked PATH` names what a link leads to: `linked /sys/class/nvme/nvme1/device` is the second drive's PCI address.
`driver_is NAME` fails unless the drive's PCI function is bound to that driver (or `none`).
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pool import POOL, TestBroke

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Target:
    """The machine on which the scripts run: its architecture, the command for it, an interpreter of Python, memory that its
    Linux does not use in guests that stay up, the lab's name of its kernel unless a test requests another."""

    arch: str
    command: str
    python: str
    window: str
    kernel: str = "stock"

    @property
    def options(self) -> tuple[str, ...]:
        """Those of lab/run."""
        return ("--arch", self.arch, "--kernel", self.kernel)

    def script(self, script: str) -> list[str]:
        """The words that run a script there."""
        first = f"export PYTHONDONTWRITEBYTECODE=1; S={self.command}; mkdir -p /tmp/bin; ln -s {self.python} /tmp/bin/python3; PATH=/tmp/bin:$PATH\n"
        return ["bash", "-c", first + FUNCTIONS + script]


# The interpreter itself: a version manager's is a shell script, which takes seconds in a guest.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else os.path.realpath(sys.executable)
X86 = Target("x86_64", os.environ.get("STRAIGHTWAY_COMMAND", "target/release/straightway"), PYTHON, "0x20000000:64M")
ARM64 = Target("aarch64", "target/aarch64-unknown-linux-gnu/debug/straightway", "/usr/bin/python3", "0x7c000000:64M")
# A file of tests for another machine replaces it (test_arm64.py), or the environment for all.
TARGET = ARM64 if os.environ.get("STRAIGHTWAY_ARCH") == "aarch64" else X86

FUNCTIONS = r"""
set -u
# A program takes a tenth of a second to start under emulation: use the shell's builtins where possible.
linked() { (cd -P "$1" 2>/dev/null && echo "${PWD##*/}"); }
BDF=$(linked /sys/class/nvme/nvme0/device)
fail() { echo "FAIL: $*" >&2; exit 1; }
same() { [ "$1" = "$2" ] || fail "$3: '$1' is not '$2'"; }
rc() {
  local want=$1 got; shift
  "$@" >/tmp/out 2>/tmp/err; got=$?
  [ $got = $want ] || { cat /tmp/err >&2; fail "'$*' ended with $got, not $want"; }
}
measured() {
  local got
  "$@" >/tmp/out 2>/tmp/err; got=$?
  [ $got = 0 ] || { [ $got = 5 ] && grep -q 'the machine was busy' /tmp/err; } ||
    { cat /tmp/err >&2; fail "'$*' ended with $got"; }
}
said() { grep -q -- "$1" /tmp/err || { cat /tmp/err >&2; fail "did not say '$1'"; }; }
driver() { linked /sys/bus/pci/devices/$BDF/driver || echo none; }
driver_is() { same "$(driver)" "$1" "the driver of $BDF"; }
sum() { local line; line=$(sha256sum); echo "${line%% *}"; }
checksum() { rc 0 $S read "$@" --checksum; cat /tmp/out; }
"""


# One processor takes a third less of the host's time than two. Tests of several processors request them.
ONE_CPU = ("--cpus", "1", "--quick")


def needs(program):
    """Skips a test on a machine whose small root has no such program."""
    root = ROOT / "build/lab/root-aarch64"
    if TARGET is ARM64 and not any((root / folder / program).exists() for folder in ("bin", "usr/bin")):
        pytest.skip(f"the root for {TARGET.arch} (tools/setup lab-aarch64) has no {program}")


def guest(script, *options, timeout=600):
    """Runs `script` (bash) in the guest that stays up for these options of lab/run, with the drives of `--drive`.

    Fails with the end of its output unless it ends with 0."""
    try:
        done, console = POOL.run((*ONE_CPU, *TARGET.options, *options), TARGET.script(script), timeout)
    except TestBroke as broke:
        why, console = broke.args
        pytest.fail(summary(why, "", "", console), pytrace=False)
    if done.status != 0:
        pytest.fail(summary(f"the script ended with {done.status}", done.stdout, done.stderr, console), pytrace=False)
    return done.stdout


def lab_run(script, *options, timeout=600):
    """The words that boot a guest for this script."""
    words = (*TARGET.options, *options, "--timeout", str(timeout), "--", *TARGET.script(script))
    return [ROOT / "lab" / "run", *words]


def own_guest(script, *options, timeout=600):
    """The same in a guest that boots for it alone. A file that uses this says why in its first comment."""
    done = subprocess.run(lab_run(script, *ONE_CPU, *options, timeout=timeout), cwd=ROOT, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", env=os.environ)  # fmt: skip
    if done.returncode != 0:
        pytest.fail(summary(f"lab/run ended with {done.returncode}", done.stdout, done.stderr, []), pytrace=False)
    return done.stdout


def summary(what, stdout, stderr, console):
    """A summary of a failed script: at most a screen, with the reason last."""
    parts = [what]
    for name, lines, most in (("its output", stdout.splitlines(), 6), ("the guest's console", console, 30),
                              ("its errors", stderr.splitlines(), 18)):  # fmt: skip
        if lines:
            parts += [f"--- {name}" + (f", the last {most} of {len(lines)} lines" if len(lines) > most else "")]
            parts += lines[-most:]
    return "\n".join(parts)


def disturbed(run):
    """Whether a busy machine is the only reason why this run is not valid; no reason at all is fine too."""
    return all(reason.startswith("the machine was busy") for reason in run["invalid_reasons"])


DRIVE = "size=128M,serial=LAB1"
