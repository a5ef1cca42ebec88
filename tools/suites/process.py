# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a program, with its output shown immediately or stored for a failure report, and its cost."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from .result import ROOT


class Done(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    # Processor time of the program and of the children that it waited for.
    cpu_s: float


# No program of the suites takes this long, even on a busy machine: it is ended, so that the others are counted.
LIMIT_S = float(os.environ.get("STRAIGHTWAY_PROGRAM_LIMIT_S", "1800"))


def children(pid: int) -> list[int]:
    """The running processes that this one has started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """The running children and their descendants."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def shown(command: list, env: dict[str, str] | None = None) -> Done:
    """Runs a command in the repository, and shows its output immediately, without a time limit."""
    return _run(command, ROOT, env, is_shown=True)


def kept(command: list, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Done:
    """Runs a command, and stores its output; a command that does not end is killed."""
    return _run(command, cwd, env, is_shown=False)


def _run(command: list, cwd: Path, env: dict[str, str] | None, is_shown: bool) -> Done:
    process = subprocess.Popen([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    parts, late = [], []

    def end():
        late.append(f"\nno end within {LIMIT_S:g} s: killed\n".encode())
        for pid in (process.pid, *descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    limit = threading.Timer(LIMIT_S, end)
    limit.daemon = True
    if not is_shown:
        limit.start()
    while part := os.read(process.stdout.fileno(), 1 << 16):
        parts.append(part)
        if is_shown:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    process.stdout.close()
    limit.cancel()
    # Only of this program: others run at the same time.
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Done(process.returncode, b"".join(parts + late).decode(errors="replace"), use.ru_utime + use.ru_stime)
