"""Running a program, with what it prints shown as it comes or kept for when it fails, and what it cost."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from .result import ROOT


class Done(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    # Processor time of it and of what it started and waited for.
    cpu_s: float


def shown(command: list, env: dict[str, str] | None = None) -> Done:
    """Runs a command in the repository, and shows what it prints as it comes."""
    return _run(command, ROOT, env, is_shown=True)


def kept(command: list, cwd: Path = ROOT, env: dict[str, str] | None = None) -> Done:
    """Runs a command, and keeps what it prints."""
    return _run(command, cwd, env, is_shown=False)


def _run(command: list, cwd: Path, env: dict[str, str] | None, is_shown: bool) -> Done:
    process = subprocess.Popen([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    parts = []
    while part := os.read(process.stdout.fileno(), 1 << 16):
        parts.append(part)
        if is_shown:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    process.stdout.close()
    # Of this program alone: others run beside it.
    _, status, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Done(process.returncode, b"".join(parts).decode(errors="replace"), use.ru_utime + use.ru_stime)
