# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What servers and recorders cost outside the driver: instructions of user space, system calls, wake-ups; the peers beside.

Callgrind counts the instructions, of which a run without requests is subtracted; strace counts the calls. Both make a program slow, and
neither count depends on how slow, except that a reader that is late finds more in its pipe.
"""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from .support import ROOT, TARGET, run

READS = 4096
READ_BYTES = 4096
PIPE_MIB = 64
IDLE_S = 5


@contextlib.contextmanager
def serving(words, socket, wrapper=()):
    process = subprocess.Popen([*wrapper, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=socket.parent)
    until = time.monotonic() + 120
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"figures: {' '.join(map(str, words))} does not serve")
        time.sleep(0.05)
    # It has begun to serve: qemu-nbd forgets a signal that comes before that.
    run(["nbdinfo", "--size", address(socket)])
    try:
        yield process
    finally:
        # strace passes no signal on; valgrind is the program itself.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]) if children else process.pid, signal.SIGTERM)
        process.wait(timeout=120)
        socket.unlink(missing_ok=True)


def address(socket):
    return f"nbd+unix:///?socket={socket}"


def read_all(socket):
    """One read of 4 KiB after another, on one connection."""
    run(["nbdcopy", "--no-extents", "--synchronous", "--connections=1", "--requests=1", f"--request-size={READ_BYTES}",
         address(socket), "null:"])


def instructions(folder, words, socket):
    """Of user space, a read."""
    counts = []
    for reads in (False, True):
        out = folder / "callgrind"
        with serving(words, socket, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]):
            if reads:
                read_all(socket)
        counts.append(int(re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)[1]))
    return (counts[1] - counts[0]) / READS


def calls_of(text):
    """{system call: how many} from the table of `strace -c`."""
    rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", text, re.MULTILINE)
    return {name: int(count) for count, name in rows if name != "total"}


def traced(folder, words, **options):
    table = folder / "calls"
    run(["strace", "-f", "-c", "-o", table, *words], **options)
    return calls_of(table.read_text())


def nbd(figures, folder, command):
    data, socket = folder / "data", folder / "socket"
    with data.open("wb") as file:
        file.truncate(READS * READ_BYTES)
    servers = {
        "ours": [command, "serve", data, "--nbd", socket],
        "nbdkit": ["nbdkit", "--foreground", "--readonly", "--unix", socket, "file", data],
        "qemu_nbd": ["qemu-nbd", "--persistent", "--read-only", "--format=raw", f"--socket={socket}", data],
    }
    found = {name: instructions(folder, words, socket) for name, words in servers.items()}
    figures.add("speed.nbd_read_4k_user_instructions", round(found["ours"]), "instructions", "<= 3000")
    for peer in ("nbdkit", "qemu_nbd"):
        figures.add(f"speed.{peer}_read_4k_user_instructions", round(found[peer]), "instructions")
    table = folder / "calls"
    with serving(servers["ours"], socket, ["strace", "-f", "-c", "-o", table]):
        read_all(socket)
    calls = calls_of(table.read_text())
    data_path = sum(calls.get(name, 0) for name in ("recvfrom", "accept4", "ppoll", "poll", "pread64", "writev", "sendto", "futex"))
    figures.add("speed.nbd_read_4k_calls", round(data_path / READS, 2), "system calls", "<= 3")


def pipes(figures, folder, command):
    volume = f"file:{folder / 'volume'}"
    run([command, "--quiet", "format", volume, "--size", "256M"])
    quiet = [command, "--quiet", "record", volume, "--deadline", "1min"]
    data = subprocess.Popen(["head", "-c", f"{PIPE_MIB}M", "/dev/zero"], stdout=subprocess.PIPE)
    with data.stdout:
        calls = traced(folder, [*quiet, "stream"], stdin=data.stdout)
    data_path = sum(calls.get(name, 0) for name in ("read", "ppoll", "futex", "pwrite64", "pwritev2"))
    figures.add("speed.record_pipe_calls_per_mib", round(data_path / PIPE_MIB, 1), "system calls", "<= 6")
    silent = subprocess.Popen(["sleep", str(IDLE_S)], stdout=subprocess.PIPE)
    with silent.stdout:
        calls = traced(folder, [*quiet, "silent"], stdin=silent.stdout)
    waits = sum(calls.get(name, 0) for name in ("ppoll", "futex", "clock_nanosleep"))
    figures.add("speed.record_idle_wakeups_per_s", round(waits / IDLE_S, 1), "1/s", "<= 20")


def speed(figures):
    run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "straightway-cli"])
    command = TARGET / "release" / "straightway"
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as name:
        folder = Path(name)
        nbd(figures, folder, command)
        pipes(figures, folder, command)
