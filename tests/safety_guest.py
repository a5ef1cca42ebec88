# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a lab guest: tries every verb that can write on every kind of target, and prints the tables as Markdown.

A refusal counts only with the reason of its column in the message, and with every byte of the target as it was.

Programs are slow to start here, and this is mostly starts: what can be done without one is done in this process.
"""

import contextlib
import fcntl
import mmap
import os
import shutil
import struct
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

S, BEGAN, STARTED = sys.argv[1], time.monotonic(), 0
DRIVE, PARTITION, SERIAL = "/dev/nvme0n1", "/dev/nvme0n1p1", "SAFE1"
FOLDER = Path("/tmp/safety")
BDF = os.path.basename(os.path.realpath("/sys/class/nvme/nvme0/device"))
# Requests of linux/fs.h.
BLKROSET, BLKRRPART = 0x125D, 0x125F
UNPRIVILEGED = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def run(*words, **more):
    global STARTED
    STARTED += 1
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)


def ok(*words):
    done = run(*words)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_until(condition, what):
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def content(path):
    """All bytes of the file, or of the drive itself, bypassing the page cache."""
    if not str(path).startswith("/dev/"):
        return Path(path).read_bytes()
    drive = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, os.lseek(drive, 0, os.SEEK_END)) as memory:
        view, at = memoryview(memory), 0
        while at < len(memory):
            moved = os.preadv(drive, [view[at:at + (1 << 20)]], at)
            assert moved > 0, f"{path} ended at {at}"
            at += moved
        view.release()
        os.close(drive)
        return memory[:]


# --- The verbs ---------------------------------------------------------------------------------

def device_verbs(device, is_file):
    """Each verb with its arguments, in an order in which all of them succeed on an idle device."""
    destroy = ["--destroy-data", device if is_file else SERIAL]
    path = "file-buffered" if is_file else "block-direct"
    short = ["--span", "1M", *destroy]
    cell = ["--sizes", "4K", "--patterns", "sequential", "--rounds", "1", "--cell-duration", "10ms", "--paths", path]
    verbs = {
        "write": ["write", device, *destroy, "--input", FOLDER / "4k"],
        "format": ["format", device, *(["--force"] if is_file else destroy)],
        "put": ["put", device, FOLDER / "4k", "x"],
        "rm": ["rm", device, "x"],
        "record": ["record", device, "r", "--from", "pattern", "--size", "1M", "--rate", "100M", "--deadline", "60s"],
        "check --repair": ["check", device, "--repair"],
        "workload": ["workload", "varmail", device, "--dataset", "1M", "--duration", "10ms"],
        "wipe": ["wipe", device, *destroy],
        "compare": ["compare", device, "--operations", "write", *cell, *short],
        "sustain": ["sustain", device, "--operation", "write", "--rate", "1M", "--block", "4K", "--deadline", "60s",
                    "--duration", "10ms", "--path", path, *short],
    }  # fmt: skip
    if not is_file:
        verbs["read --path vfio"] = ["read", device, "--path", "vfio", "--length", "4K", "--checksum"]
        verbs["bind"] = ["bind", device]
    return verbs


def sink_verbs(source, target):
    return {
        "get": ["get", source, "a", target],
        "read --output": ["read", source, "--output", target],
        "play --to": ["play", source, "a", "--to", target],
    }


def cell(words, reason, before=()):
    """Runs a verb and returns its cell of the table. A reason of None: it must succeed."""
    done = run(*before, S, "--quiet", *words)
    told = f"{' '.join(map(str, words))}: {done.returncode} {done.stdout[-300:]} {done.stderr}"
    if reason is None:
        # A measurement on a busy machine may be invalid, and a verdict may be negative: it ran in any case.
        ran = (0, 1, 5) if words[0] in ("compare", "sweep", "sustain", "periodic", "workload") else (0,)
        assert done.returncode in ran, told
        return "done"
    assert done.returncode not in (0, 1, 5) and reason in done.stderr, f"wanted `{reason}`\n{told}"
    return f"refused ({done.returncode})"


# --- The kinds of targets ----------------------------------------------------------------------

@contextlib.contextmanager
def mounted(device):
    """Read-only, so that the file system itself changes no byte."""
    ok("mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-N", "16", device)
    at = FOLDER / "at"
    at.mkdir(exist_ok=True)
    ok("mount", "-o", "ro", device, at)
    yield
    ok("umount", at)


@contextlib.contextmanager
def swap(device):
    ok("mkswap", device)
    ok("swapon", device)
    yield
    ok("swapoff", device)


@contextlib.contextmanager
def loop(device):
    """A loop device over it, with a file system that is mounted."""
    ok("losetup", "/dev/loop0", device)
    with mounted("/dev/loop0"):
        yield
    ok("losetup", "-d", "/dev/loop0")


@contextlib.contextmanager
def device_mapper(device):
    with open(device, "rb") as drive:
        sectors = drive.seek(0, os.SEEK_END) // 512
    ok("dmsetup", "create", "safety", "--table", f"0 {sectors} linear {device} 0")
    yield
    ok("dmsetup", "remove", "--retry", "safety")


@contextlib.contextmanager
def md(device):
    """An array of one disk without metadata, by the requests of linux/raid/md_u.h: the guest has no mdadm."""
    number = os.stat(device).st_rdev
    if not os.path.exists("/dev/md0"):
        os.mknod("/dev/md0", 0o60600, os.makedev(9, 0))
    array = os.open("/dev/md0", os.O_RDWR)
    fields = [0] * 18
    # Version 0.90, linear (-1), one disk, not persistent, chunks of 64 KiB.
    fields[1], fields[4], fields[6], fields[7], fields[9], fields[17] = 90, -1, 1, 1, 1, 64 << 10
    fcntl.ioctl(array, 0x40480923, struct.pack("<18i", *fields))
    # Its only disk, active and in step.
    fcntl.ioctl(array, 0x40140921, struct.pack("<5i", 0, os.major(number), os.minor(number), 0, 6))
    fcntl.ioctl(array, 0x400C0930, bytes(12))
    yield
    fcntl.ioctl(array, 0x0932)
    os.close(array)


def first_block(data):
    """Writes the partition table and lets the kernel read it."""
    drive = os.open(DRIVE, os.O_RDWR)
    os.pwrite(drive, data, 0)
    os.fsync(drive)
    fcntl.ioctl(drive, BLKRRPART)
    os.close(drive)


@contextlib.contextmanager
def partitioned(kind):
    """The drive with one partition, which is used as `kind`."""
    table = bytearray(512)
    table[446:462] = struct.pack("<B3sB3sII", 0, b"\0\0\0", 0x83, b"\0\0\0", 2048, 8 << 11)
    table[510:] = b"\x55\xaa"
    first_block(table)
    wait_until(lambda: os.path.exists(PARTITION), "no partition")
    with kind(PARTITION):
        yield
    first_block(bytes(512))


@contextlib.contextmanager
def writer(path):
    """Another process has it open for writing."""
    with open(path, "r+b"):
        yield


def set_read_only(device, is_read_only):
    with open(device, "rb") as drive:
        fcntl.ioctl(drive, BLKROSET, struct.pack("i", is_read_only))


@contextlib.contextmanager
def read_only(device):
    set_read_only(device, True)
    yield
    # A drive that was bound has a new device node.
    set_read_only(device, False)


@contextlib.contextmanager
def put_under_way(path):
    """Another straightway process writes the volume."""
    ok(S, "--quiet", "format", path, "--force")
    said = open(FOLDER / "said", "w+")
    put = subprocess.Popen([S, "put", path, "-", "slow"], stdin=subprocess.PIPE, stderr=said)
    wait_until(lambda: "path:" in (FOLDER / "said").read_text(), "the put did not begin")
    yield
    put.stdin.close()
    assert put.wait() == 0, (FOLDER / "said").read_text()
    ok(S, "--quiet", "check", path)


@contextlib.contextmanager
def nothing(_path):
    yield


DRIVES = {
    # The row, how it is set up, the text of the refusal.
    "mounted": (mounted, "is mounted at"),
    "swap": (swap, "is swap space"),
    "behind a loop device": (loop, "is the backing store of loop0"),
    "device mapper": (device_mapper, "is part of dm-"),
    "md": (md, "is part of md0"),
}
EXTRA = {
    "open for writing": (writer, "is open for writing in process"),
    "read-only": (read_only, "read-only"),
}
FILES = {
    "behind a loop device": (loop, "is the backing store of loop0"),
    "volume in use": (put_under_way, "(straightway)"),
    "open for writing": (writer, "is open for writing in process"),
    "another user's": (nothing, "no permission"),
    "a FIFO": (nothing, "is a pipe, not"),
    "a directory": (nothing, "is a directory, not"),
}


def give_back():
    ok(S, "--quiet", "release", BDF)
    wait_until(lambda: os.path.exists(DRIVE), "the drive did not come back")


def drive_column(name, kind, reason, rows, on_partition=False):
    made = partitioned(kind) if on_partition else kind(DRIVE)
    with made:
        before = content(DRIVE)
        verbs = device_verbs(DRIVE, False)
        # A read-only drive may be read; and taking it from its driver changes nothing.
        may = ("read --path vfio", "bind") if kind == read_only else ()
        # If layers are the reason, no lock is taken before they are detected.
        workers = 4 if kind in [layer for layer, _ in DRIVES.values()] else 1
        with ThreadPoolExecutor(workers) as pool:
            tried = pool.map(lambda verb: cell(verbs[verb], None if verb in may else reason), verbs)
            for verb, told in zip(verbs, tried):
                rows[verb][name] = told
        if may:
            give_back()
        assert content(DRIVE) == before, f"{name}: the drive changed"


def drives():
    rows = {}
    for verb, words in device_verbs(DRIVE, False).items():
        rows.setdefault(verb, {})["idle"] = cell(words, None)
    give_back()
    for name, (kind, reason) in DRIVES.items():
        drive_column(name, kind, reason, rows)
        drive_column(f"{name}: its partition", kind, reason, rows, on_partition=True)
    for name, (kind, reason) in EXTRA.items():
        drive_column(name, kind, reason, rows)
    return rows


def files():
    rows, disk, folder, fifo = {}, FOLDER / "disk.img", FOLDER / "as-drive", FOLDER / "fifo-as-drive"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    os.mkfifo(fifo)
    disk.write_bytes(bytes(16 << 20))
    for verb, words in device_verbs(disk, True).items():
        rows.setdefault(verb, {})["idle"] = cell(words, None)
    for name, (kind, reason) in FILES.items():
        before_words = UNPRIVILEGED if name == "another user's" else ()
        target = {"a FIFO": fifo, "a directory": folder}.get(name, disk)
        if target == disk:
            disk.write_bytes(bytes(16 << 20))
            disk.chmod(0o644)
        with kind(target):
            # A running put may write; its volume is checked at its end.
            before = content(disk) if target == disk and kind != put_under_way else None
            for verb, words in device_verbs(target, True).items():
                if name == "a directory" and verb == "workload":
                    rows[verb][name] = cell(words, None) + ", in a folder of its own"
                else:
                    rows[verb][name] = cell(words, reason, before_words)
            assert before is None or content(disk) == before, f"{name}: the file changed"
    assert os.listdir(folder) == ["mine"] and (folder / "mine").read_text() == "mine"
    return rows


def sinks():
    rows, source, target = {}, FOLDER / "source.img", FOLDER / "target"
    ok(S, "--quiet", "format", source, "--size", "1M")
    ok(S, "--quiet", "put", source, FOLDER / "4k", "a")
    kept = content(source)
    columns = {
        "nothing": (nothing, target, [], None),
        "a file": (nothing, target, [], "exists"),
        "a file, --force": (nothing, target, ["--force"], None),
        "own source": (nothing, source, ["--force"], "is the source itself"),
        "behind a loop device": (loop, target, ["--force"], "is the backing store of loop0"),
        "volume in use": (put_under_way, target, ["--force"], "(straightway)"),
        "open for writing": (writer, target, ["--force"], "is open for writing in process"),
        "another user's": (nothing, target, ["--force"], "no permission"),
        "a directory": (nothing, FOLDER / "folder", ["--force"], "is a directory"),
        "a FIFO": (nothing, FOLDER / "fifo", [], None),
        "/dev/null": (nothing, "/dev/null", [], None),
        "a drive": (nothing, DRIVE, ["--force"], "is a block device"),
        "mounted drive": (mounted, DRIVE, ["--force"], "is a block device"),
        "a drive's character device": (nothing, "/dev/ng0n1", ["--force"], "is a drive"),
    }
    (FOLDER / "folder").mkdir()
    os.mkfifo(FOLDER / "fifo")
    for name, (kind, path, force, reason) in columns.items():
        for verb in sink_verbs(source, path):
            words = [*sink_verbs(source, path)[verb], *force]
            row = rows.setdefault(verb, {})
            if name == "a directory" and verb == "get":
                row[name] = cell([word for word in words if word != "--force"], None) + ", under its name"
                assert (FOLDER / "folder/a").read_bytes() == (FOLDER / "4k").read_bytes()
                continue
            if path == target:
                target.unlink(missing_ok=True)
                if name != "nothing":
                    target.write_bytes(bytes(8 << 20))
                    target.chmod(0o644)
            drain = None
            if name == "a FIFO":
                drain = subprocess.Popen(["cat", str(path)], stdout=open(FOLDER / "drained", "wb"))
            with kind(path):
                holds_still = reason and kind != put_under_way and (Path(path).is_file() or path == DRIVE)
                before = content(path) if holds_still else None
                row[name] = cell(words, reason, UNPRIVILEGED if name == "another user's" else ())
                assert before is None or content(path) == before, f"{verb} changed {name}"
            if drain:
                assert drain.wait() == 0
                assert (FOLDER / "drained").stat().st_size == (1 << 20 if verb == "read --output" else 4096)
            if reason is None and path == target:
                assert target.stat().st_size in (4096, 1 << 20)
                row[name] += ", whole or not at all"
    assert content(source) == kept, "the source changed"
    return rows


def report_verbs(place):
    """Verbs that save several files in a folder: each with its arguments, and the file in the table."""
    one = ["--sizes", "4K", "--patterns", "sequential", "--rounds", "1", "--cell-duration", "1ms"]
    return {
        "compare --output": (["compare", "ram:4M", *one, "--output", place], "report.html"),
        "import --output": (["import", FOLDER / "fio.json", "--output", place], "fio.csv"),
        "man": (["man", place], "straightway-read.1"),
    }


def reports():
    (FOLDER / "fio.json").write_text(
        """{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "error": 0, "job options": {"rw": "randread", "bs": "4k"},
        "read": {"io_bytes": 41943040, "runtime": 2000, "total_ios": 10240}}]}"""
    )
    mine = bytes(4 << 20)
    columns = {
        # How the file is made, additional arguments, the text of the refusal.
        "nothing": (nothing, [], None),
        "of an earlier run": (nothing, [], None),
        "another file": (nothing, [], "exists"),
        "another file, --force": (nothing, ["--force"], None),
        "behind a loop device": (loop, ["--force"], "is the backing store of loop0"),
        "open for writing": (writer, ["--force"], "is open for writing in process"),
        "another user's": (nothing, ["--force"], "no permission"),
        "a directory": (nothing, ["--force"], "is a directory"),
        "a link to a drive": (nothing, ["--force"], "is a block device"),
    }
    rows = {}
    for verb in report_verbs(""):
        place = FOLDER / verb.partition(" ")[0]
        words, name = report_verbs(place)[verb]
        for column, (kind, force, reason) in columns.items():
            file = place / name
            if column not in ("nothing", "of an earlier run"):
                # Without the rest of an earlier report: otherwise it would count as the verb's own.
                shutil.rmtree(place)
                place.mkdir()
                if column == "a directory":
                    file.mkdir()
                elif column == "a link to a drive":
                    file.symlink_to(DRIVE)
                else:
                    file.write_bytes(mine)
                    file.chmod(0o644)
            with kind(file):
                before = sorted(os.listdir(place)) if place.exists() else []
                kept = content(file) if reason and file.is_file() else None
                told = cell([*words, *force], reason, UNPRIVILEGED if column == "another user's" else ())
                if reason:
                    assert sorted(os.listdir(place)) == before, f"{verb}, {column}: {os.listdir(place)}"
                    assert kept is None or content(file) == kept, f"{verb} changed {column}"
                else:
                    assert 0 < file.stat().st_size != len(mine)
            rows.setdefault(verb, {})[column] = told
    return rows


def table(title, rows):
    """A line for each kind of target, a column for each verb."""
    kinds = list(dict.fromkeys(kind for row in rows.values() for kind in row))
    lines = [f"| {title} | " + " | ".join(f"`{verb}`" for verb in rows) + " |", "| --- " * (len(rows) + 1) + "|"]
    lines += [f"| {kind} | " + " | ".join(row[kind] for row in rows.values()) + " |" for kind in kinds]
    return "\n".join(lines)


FOLDER.mkdir()
(FOLDER / "4k").write_bytes(os.urandom(4096))
for module in ("loop", "dm-mod", "md-mod", "linear"):
    ok("modprobe", module)
TABLES = {
    "drives": ("the drive is", drives), "files": ("the file is", files), "sinks": ("the target is", sinks),
    "reports": ("the file of that name is", reports),
}  # fmt: skip
for which, (heading, make) in TABLES.items():
    try:
        print(f"<!-- table: {which} -->", table(heading, make()), "<!-- end -->", sep="\n", flush=True)
    except Exception:
        # The other tables are made in any case.
        traceback.print_exc(file=sys.stdout)
    print(f"{which}: made after {time.monotonic() - BEGAN:.0f} s, with {STARTED} programs so far", flush=True)
