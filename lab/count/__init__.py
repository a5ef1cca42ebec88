# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The plugin that counts instructions between markers (count.c), and a program that tells it which functions only wait (waits.c):
built when they are needed."""

import os
import subprocess
from pathlib import Path

from drives import BadOption
from image import BUILD

SOURCE = Path(__file__).resolve().parent
PLUGIN = BUILD / "count" / "count.so"
# A program for the guest that names a function which only waits.
WAITS = PLUGIN.with_name("waits")


def _build(built: Path, source: Path, *words: str) -> Path:
    """The file, compiled again when a source is newer."""
    sources = [source, SOURCE / "marker.h"]
    if built.exists() and all(built.stat().st_mtime > source.stat().st_mtime for source in sources):
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    new = built.with_name(f".new-{os.getpid()}-{built.name}")
    done = subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", *words, "-o", new, source], capture_output=True, text=True)
    if done.returncode != 0:
        raise BadOption(f"--count: {source.name} cannot be built; install gcc and libc6-dev (tools/setup base): {done.stderr.strip()}")
    new.replace(built)
    return built


def plugin_option(output: Path) -> str:
    """What QEMU's -plugin takes."""
    plugin = _build(PLUGIN, SOURCE / "count.c", "-shared", "-fPIC", "-fvisibility=hidden")
    return ",".join(f"{key}={value}".replace(",", ",,") for key, value in (("file", plugin), ("out", output)))


def waits() -> Path:
    """The program, which the guest sees at the same path."""
    return _build(WAITS, SOURCE / "waits.c", "-static")
