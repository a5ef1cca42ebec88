# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The plugin that counts instructions between markers (count.c): built when it is needed."""

import subprocess
from pathlib import Path

from drives import BadOption
from image import BUILD

SOURCE = Path(__file__).resolve().parent
PLUGIN = BUILD / "count" / "count.so"


def build() -> Path:
    """The plugin, compiled again when its source is newer."""
    sources = [SOURCE / "count.c", SOURCE / "marker.h"]
    if PLUGIN.exists() and all(PLUGIN.stat().st_mtime > source.stat().st_mtime for source in sources):
        return PLUGIN
    PLUGIN.parent.mkdir(parents=True, exist_ok=True)
    new = PLUGIN.with_name(f".new-{PLUGIN.name}")
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-o", new, sources[0]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadOption(f"--count: the plugin cannot be built; install gcc and libc6-dev (tools/setup base): {done.stderr.strip()}")
    new.replace(PLUGIN)
    return PLUGIN


def plugin_option(output: Path) -> str:
    """What QEMU's -plugin takes."""
    return ",".join(f"{key}={value}".replace(",", ",,") for key, value in (("file", build()), ("out", output)))
