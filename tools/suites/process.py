"""Running a program, with what it prints shown as it comes or kept for when it fails."""

import os
import subprocess
import sys

from .result import ROOT


def shown(command, env=None):
    """Runs a command, shows what it prints as it comes, and returns (status, output)."""
    process = subprocess.Popen([str(word) for word in command], cwd=ROOT, env={**os.environ, **(env or {})},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    parts = []
    while part := os.read(process.stdout.fileno(), 1 << 16):
        parts.append(part)
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    return process.wait(), b"".join(parts).decode(errors="replace")


def kept(command, cwd=ROOT, env=None):
    """Runs a command and returns (status, output)."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **(env or {})},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    return done.returncode, done.stdout.decode(errors="replace")
