# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the workload of crates/figures/examples/volume_io on a kernel file system.

Runs as root in the lab: `peer_filesystem.py KIND DEVICE LARGE_MIB`, KIND being ext4 or ext2. DEVICE is
formatted. Prints the same lines; it counts only FUA itself, the other counts come from the drive's trace, which
the marks (see the example) divide.
"""

import mmap
import os
import random
import subprocess
import sys
from pathlib import Path

RECORD, MIB = 4 << 10, 1 << 20
RECORDS, FILES, READS, WARM_UP, COLD = 256, 64, 32, 16, 8
MARK, MARKS = 4096, 8 << 20
TRACING = Path("/sys/kernel/tracing")
MOUNTED = Path("/mnt")


class Marks:
    """Reads bypassing the page cache, from the end of the drive, outside the file system."""

    def __init__(self, device):
        self.file = os.open(device, os.O_RDONLY | os.O_DIRECT)
        self.first = os.lseek(self.file, 0, os.SEEK_END) - MARKS
        self.page = mmap.mmap(-1, MARK)
        self.next = 0
        # A write with force unit access has an F after its W in the block layer's trace.
        event = TRACING / "events/block/block_rq_issue"
        (event / "filter").write_text('rwbs ~ "WF*"')
        (event / "enable").write_text("1")

    def mark(self):
        os.preadv(self.file, [self.page], self.first + self.next * MARK)
        self.next += 1

    def begin(self):
        (TRACING / "trace").write_text("")
        self.mark()

    def end(self, name, operations, bytes_each):
        self.mark()
        trace = (TRACING / "trace").read_text().splitlines()
        fua = sum(1 for line in trace if not line.startswith("#"))
        print("phase", name, operations, operations * bytes_each, "- - - - -", fua, flush=True)


def write_all(file, data):
    if os.write(file, data) != len(data):
        sys.exit("a write was short")


def sync_folder():
    folder = os.open(MOUNTED, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def appends(marks, kind):
    record = os.urandom(RECORD)

    def records(name, allocate):
        file = os.open(MOUNTED / name, os.O_CREAT | os.O_WRONLY, 0o644)
        if allocate:
            os.posix_fallocate(file, 0, 5 * RECORDS * RECORD)
            os.fsync(file)
        for number in range(5 * RECORDS):
            if number == RECORDS:
                marks.begin()
            write_all(file, record)
            os.fsync(file)
        marks.end("append_sync_allocated" if allocate else "append_sync", 4 * RECORDS, RECORD)
        os.close(file)

    records("growing", False)
    # ext2 does not support allocation in advance: the library writes zeroes instead.
    if kind == "ext4":
        records("allocated", True)


def commits(marks):
    large = os.urandom(MIB)
    file = os.open(MOUNTED / "large", os.O_CREAT | os.O_WRONLY, 0o644)
    write_all(file, large)
    os.fsync(file)
    marks.begin()
    for _ in range(FILES):
        write_all(file, large)
        os.fsync(file)
    marks.end("sync_1m", FILES, MIB)
    os.close(file)
    os.unlink(MOUNTED / "large")
    sync_folder()


def files(marks):
    for name, data in (("create_remove", b""), ("create_remove_4k", os.urandom(RECORD))):
        for number in range(WARM_UP + FILES):
            if number == WARM_UP:
                marks.begin()
            file = os.open(MOUNTED / "short", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            if data:
                write_all(file, data)
            os.fsync(file)
            os.close(file)
            sync_folder()
            os.unlink(MOUNTED / "short")
            sync_folder()
        marks.end(name, FILES, len(data))


def fill(large_mib):
    for number in range(FILES):
        os.close(os.open(MOUNTED / f"other-{number}", os.O_CREAT | os.O_WRONLY, 0o644))
    data = os.urandom(MIB)
    file = os.open(MOUNTED / "big", os.O_CREAT | os.O_WRONLY, 0o644)
    for _ in range(large_mib):
        write_all(file, data)
    os.fsync(file)
    os.close(file)


def reads(marks, mount, large_mib):
    page = mmap.mmap(-1, RECORD)
    numbers = random.Random(1)

    def read(file):
        # Bypassing the page cache, like a read from a volume.
        os.preadv(file, [page], numbers.randrange(large_mib * MIB // RECORD) * RECORD)

    for _ in range(COLD):
        subprocess.run(["umount", MOUNTED], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("3")
        marks.begin()
        mount()
        file = os.open(MOUNTED / "big", os.O_RDONLY | os.O_DIRECT)
        read(file)
        marks.end("cold_open_read", 1, RECORD)
        os.close(file)

        marks.begin()
        for _ in range(READS):
            file = os.open(MOUNTED / "big", os.O_RDONLY | os.O_DIRECT)
            read(file)
            os.close(file)
        marks.end("open_read", READS, RECORD)


def main():
    kind, device, large_mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
    marks = Marks(device)
    # Work that mkfs defers would be counted in later phases.
    options = ["-E", "lazy_itable_init=0" + (",lazy_journal_init=0" if kind == "ext4" else "")]
    blocks = (marks.first // 4096 // 256) * 256
    subprocess.run(["mke2fs", "-q", "-F", "-t", kind, "-b", "4096", *options, device, str(blocks)], check=True)

    def mount():
        subprocess.run(["mount", "-t", kind, device, MOUNTED], check=True)

    mount()
    appends(marks, kind)
    commits(marks)
    files(marks)
    fill(large_mib)
    reads(marks, mount, large_mib)
    subprocess.run(["umount", MOUNTED], check=True)


if __name__ == "__main__":
    main()
