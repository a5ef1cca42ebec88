"""The plugin that counts instructions between markers (count.c): built when it is needed."""

import subprocess
from pathlib import Path

from drives import BadOption
from image import BUILD, find_kernel

SOURCE = Path(__file__).resolve().parent
PLUGIN = BUILD / "count" / "count.so"
# What the kernel runs while it has nothing to do, with idle=poll.
IDLE = ("cpu_idle_poll",)


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


def idle_ranges(kernel: str, arch: str) -> list[tuple[int, int]]:
    """First and last address of each function in IDLE, which `nokaslr` leaves where System.map says."""
    release = find_kernel(kernel, arch)
    lines = (release.image.parent / f"System.map-{release.release}").read_text().splitlines()
    symbols = sorted((int(line.split()[0], 16), line.split()[2]) for line in lines)
    ranges = []
    for (address, name), (following, _) in zip(symbols, symbols[1:]):
        if name in IDLE:
            ranges.append((address, following - 1))
    return ranges


def plugin_option(kernel: str, arch: str, output: Path) -> str:
    """What QEMU's -plugin takes."""
    words = [f"file={build()}", f"out={output}".replace(",", ",,")]
    words += [f"wait={first:x}-{last:x}" for first, last in idle_ranges(kernel, arch)]
    return ",".join(words)
