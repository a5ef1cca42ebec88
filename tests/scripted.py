"""Runs a script in a lab guest. The script sees the command as $S and these functions:

`rc N COMMAND...` runs it and fails unless it ends with N; its output is in /tmp/out and /tmp/err.
`measured COMMAND...` runs it and fails unless it ends with 0, or with 5 because the machine was busy: that its figures
are not valid does not make its counts and its files wrong.
`said WORDS` fails unless the last command's standard error has them. `same A B WHAT` compares.
`driver_is NAME` fails unless the drive's PCI function is bound to that driver (or `none`).
`given_back` waits for the kernel's driver and its device nodes after a process was killed.
"""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# The interpreter itself: a version manager's is a shell script, which takes seconds in a guest.
PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else os.path.realpath(sys.executable)
PRELUDE = f"mkdir -p /tmp/bin; ln -s {PYTHON} /tmp/bin/python3; PATH=/tmp/bin:$PATH" + r"""
set -u
S=${STRAIGHTWAY_COMMAND:-target/release/straightway}
BDF=0000:00:04.0
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
driver() {
  local link=/sys/bus/pci/devices/$BDF/driver
  if [ -e $link ]; then basename $(readlink $link); else echo none; fi
}
driver_is() { same "$(driver)" "$1" "the driver of $BDF"; }
sum() { sha256sum | cut -d' ' -f1; }
checksum() { rc 0 $S read "$@" --checksum; cat /tmp/out; }
"""


# The longest wait for other guests; then it goes on beside them.
TURN_S = 900


def locked(file, how, until):
    """Locks an open file, unless that takes too long: a guest too many is better than none."""
    while time.monotonic() < until:
        try:
            return fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)


@contextlib.contextmanager
def turn(alone):
    """A place among the guests of all test processes: beside others, or alone.

    Whoever wants to be alone holds the gate while those inside finish, so that no new ones come before it."""
    build, until = ROOT / "build", time.monotonic() + TURN_S
    build.mkdir(exist_ok=True)
    with open(build / ".guests-gate", "w") as gate, open(build / ".guests", "w") as inside:
        locked(gate, fcntl.LOCK_EX, until)
        locked(inside, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, until)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def guest(script, *options, timeout=600, alone=False):
    """Runs `script` (bash) in a guest and fails with its output unless it ends with 0.

    `alone`: beside no other guest, for what depends on the host's time."""
    command = [ROOT / "lab" / "run", *options, "--timeout", str(timeout), "--", "bash", "-c", PRELUDE + script]
    with turn(alone):
        done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", env=os.environ)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def disturbed(run):
    """Whether all that makes this run not valid is that the machine was busy; no reason at all is fine too."""
    return all(reason.startswith("the machine was busy") for reason in run["invalid_reasons"])


DRIVE = "size=128M,serial=LAB1"
