# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs recorders in a guest, round after round, and prints a line of JSON for each run: recorders_guest.py ROUNDS.

The source has a device's buffer of any size: a block is produced when it is due, and waits there until the recorder takes it. The
most that waited is the buffer that this recorder would have needed to lose nothing.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path

BLOCK_BYTES = 256 << 10
STREAM_BYTES_PER_S, STREAM_S = 16_000_000, 8
FASTEST_BYTES = 256 << 20
MESSAGE_BYTES, MESSAGES_BYTES_PER_S, MESSAGES_S = 64 << 10, 4_000_000, 8
PACKET_BYTES, PACKETS_PER_S, PACKETS_S, PORT = 1400, 500, 8, 7000
S, VOLUME, DISK, OTHER = "target/release/straightway", "/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1"
FOLDER, NOISE = Path("/tmp/ext4"), Path("/tmp/noise")
FILE = FOLDER / "take"
RECORD = [S, "--quiet", "record", VOLUME, "take", "--deadline", "1s"]
SIGMF = ["--format", "sigmf", "--sigmf-datatype", "ci16_le", "--sample-rate", str(STREAM_BYTES_PER_S // 4)]
STREAMS = {
    "straightway": RECORD,
    "straightway_sigmf": [*RECORD, *SIGMF],
    "filesink": ["gst-launch-1.0", "-q", "fdsrc", "!", "filesink", f"location={FILE}"],
    "cat": ["sh", "-c", f"cat >{FILE}"],
    "dd_direct": ["dd", f"of={FILE}", "bs=1M", "iflag=fullblock", "oflag=direct", "status=none"],
}
LEFT_BYTES, NOISE_MIB_PER_S = 320 << 20, 16
PIPE_BYTES, F_SETPIPE_SZ = 1 << 20, 1031


def run(*words):
    return subprocess.run([*map(str, words)], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def ours(name):
    return name.startswith("straightway")


def started(words):
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)
    fcntl.fcntl(process.stdin, F_SETPIPE_SZ, PIPE_BYTES)
    return process


def ended(name, process):
    """Waits until all of it is durable. Status 7 of straightway: blocks were late, none was lost."""
    process.stdin.close()
    said = process.stderr.read().decode()
    if process.wait() not in ((0, 7) if ours(name) else (0,)):
        sys.exit(f"{name} ended with {process.returncode}: {said}")
    if not ours(name):
        run("sync", "-f", FOLDER)


def stored_bytes(name):
    return json.loads(run(S, "stat", "--json", VOLUME, "take"))["file"]["size_bytes"] if ours(name) else FILE.stat().st_size


def removed(name):
    if ours(name):
        run(S, "--quiet", "rm", VOLUME, *run(S, "ls", VOLUME).split())
    else:
        FILE.unlink()
        run("sync", "-f", FOLDER)


def written(stream, data):
    """The whole block: a pipe takes what it has room for."""
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def fed(take, block, count, bytes_per_s):
    """Feeds blocks as they are due, and returns the most bytes that were produced and not yet taken."""
    began, most = time.monotonic(), 0
    for number in range(count):
        due = began + (number + 1) * len(block) / bytes_per_s
        time.sleep(max(0, due - time.monotonic()))
        take(block)
        most = max(most, (time.monotonic() - began) * bytes_per_s - number * len(block))
    return most


def ready(process):
    """Waits until the recorder has read what is in its pipe: a source that cannot wait starts after it."""
    left = bytearray(4)
    while fcntl.ioctl(process.stdin, termios.FIONREAD, left) == 0 and any(left):
        time.sleep(0.01)


def paced(name, words):
    block, count = os.urandom(BLOCK_BYTES), STREAM_S * STREAM_BYTES_PER_S // BLOCK_BYTES
    process = started(words)
    written(process.stdin, block)
    ready(process)
    waiting = fed(lambda data: written(process.stdin, data), block, count, STREAM_BYTES_PER_S)
    ended(name, process)
    assert stored_bytes(name) == (count + 1) * BLOCK_BYTES
    removed(name)
    return {"waiting_bytes": waiting}


def fastest(name, words):
    block = os.urandom(BLOCK_BYTES)
    process = started(words)
    written(process.stdin, block)
    ready(process)
    began = time.monotonic()
    for _ in range(1, FASTEST_BYTES // BLOCK_BYTES):
        written(process.stdin, block)
    ended(name, process)
    took = time.monotonic() - began
    assert stored_bytes(name) == FASTEST_BYTES
    removed(name)
    return {"bytes_per_s": FASTEST_BYTES / took}


class Pipe:
    """A pipe as the writer of MCAP needs it: it asks how much it has written."""

    def __init__(self, stream):
        self.stream, self.bytes = stream, 0

    def write(self, data):
        written(self.stream, data)
        self.bytes += len(data)
        return len(data)

    def tell(self):
        return self.bytes

    def flush(self):
        pass


def messages(name):
    """The same writer of MCAP for both: into a file, as its users do, or into straightway's standard input."""
    from mcap.writer import CompressionType, Writer

    process = started([*RECORD, "--format", "mcap"]) if ours(name) else None
    target = process.stdin if process else FILE.open("wb")
    writer = Writer(Pipe(target) if process else target, compression=CompressionType.NONE)
    writer.start()
    if process:
        ready(process)
    channel = writer.register_channel("points", "raw", writer.register_schema("points", "", b""))
    count = MESSAGES_S * MESSAGES_BYTES_PER_S // MESSAGE_BYTES
    waiting = fed(lambda data: writer.add_message(channel, 0, data, 0), os.urandom(MESSAGE_BYTES), count, MESSAGES_BYTES_PER_S)
    writer.finish()
    if process:
        ended(name, process)
    else:
        target.close()
        run("sync", "-f", FOLDER)
    removed(name)
    return {"waiting_bytes": waiting}


CAPTURES = {
    "straightway": [*RECORD, "--from", f"udp://127.0.0.1:{PORT}", "--format", "pcapng", "--policy", "drop"],
    "tcpdump": ["tcpdump", "-i", "lo", "-w", str(FILE), "udp", "and", "dst", "port", str(PORT)],
}


def packets(name):
    """Datagrams are lost if they are not taken: how many."""
    # Beside tcpdump something must have the port, or each datagram is answered with an error.
    taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if not ours(name):
        taker.bind(("127.0.0.1", PORT))
    process = subprocess.Popen(CAPTURES[name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ours(name):
        while f":{PORT:04X} " not in Path("/proc/net/udp").read_text():
            time.sleep(0.05)
    else:
        while "listening on" not in process.stderr.readline():
            assert process.poll() is None
    sender, payload = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), os.urandom(PACKET_BYTES)
    fed(lambda data: sender.sendto(data, ("127.0.0.1", PORT)), payload, PACKETS_S * PACKETS_PER_S, PACKETS_PER_S * PACKET_BYTES)
    # The kernel gives tcpdump a buffer that is not full after a second.
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    errors = process.communicate()[1]
    if process.returncode not in ((0, 7) if ours(name) else (0,)):
        sys.exit(f"{name} ended with {process.returncode}: {errors}")
    taker.close()
    captured = FILE
    if ours(name):
        captured = Path("/dev/shm/capture")
        run(S, "--quiet", "export", VOLUME, "take", captured)
    kept = len(run("tcpdump", "-nn", "-q", "-t", "-r", captured).splitlines())
    captured.unlink()
    if ours(name):
        removed(name)
    return {"lost_packets": PACKETS_PER_S * PACKETS_S - kept}


OTHERS = """
import sys, time
from pathlib import Path
folder, left, block = Path(sys.argv[1]), int(sys.argv[2]), bytes(1 << 20)
facts = dict(line.split()[:2] for line in Path("/proc/meminfo").read_text().splitlines())
held = bytearray(max(0, int(facts["MemAvailable:"]) * 1024 - left))
(folder / "read").write_bytes(block * 256)
print("ready", flush=True)
turn, began = 0, time.monotonic()
log, read = (folder / "log").open("wb"), (folder / "read").open("rb")
while True:
    log.write(block)
    if len(read.read(1 << 20)) == 0:
        read.seek(0)
    if log.tell() >= 256 << 20:
        log.seek(0)
    turn += 1
    time.sleep(max(0, began + turn / int(sys.argv[3]) - time.monotonic()))
"""


@contextlib.contextmanager
def pressure():
    """Another program holds most of the memory, and writes a log and reads a file through the page cache, on a drive of their own."""
    others = subprocess.Popen([sys.executable, "-c", OTHERS, NOISE, str(LEFT_BYTES), str(NOISE_MIB_PER_S)], stdout=subprocess.PIPE, text=True)
    assert others.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        others.kill()
        others.wait()


def all_of(condition, turn):
    for kind, measure in (("paced", paced), ("fastest", fastest)):
        for name, words in STREAMS.items():
            tell(condition, turn, kind, name, measure(name, words))
    for kind, measure, other in (("messages", messages, "file"), ("packets", packets, "tcpdump")):
        for name in ("straightway", other):
            tell(condition, turn, kind, name, measure(name))


def tell(condition, turn, kind, name, measured):
    print(json.dumps({"condition": condition, "turn": turn, "kind": kind, "name": name, **measured}), flush=True)


def main():
    run(S, "--quiet", "format", VOLUME, "--destroy-data", "LAB1")
    for disk, at in ((DISK, FOLDER), (OTHER, NOISE)):
        run("mkfs.ext4", "-q", "-F", disk)
        at.mkdir()
        run("mount", disk, at)
    for turn in range(int(sys.argv[1])):
        all_of("calm", turn)
        with pressure():
            all_of("pressure", turn)


if __name__ == "__main__":
    main()
