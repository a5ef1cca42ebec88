"""A drive and a volume's file as memory, in user space over VFIO, with the faults of Debian's kernel."""

import os
import re

from scripted import ROOT, guest

# Built by `tools/test lab`.
EXAMPLES = os.environ.get("STRAIGHTWAY_MAP_EXAMPLES", str(ROOT / "target/release/examples"))


def test_a_drive_and_a_file_are_read_through_memory_within_the_limit():
    said = guest(
        rf"""
        MAP={EXAMPLES}/map_drive
        head -c 6M /dev/urandom >/tmp/data
        dd if=/tmp/data of=/dev/nvme0n1 bs=1M oflag=direct status=none
        same "$($MAP nvme0n1 2>/tmp/err | head -c 6M | sum)" "$(sum </tmp/data)" "the drive"
        driver_is nvme
        rc 0 $S format nvme0n1 --destroy-data LAB1
        head -c 3000001 /tmp/data >/tmp/file
        rc 0 $S put nvme0n1 /tmp/file taken
        $MAP nvme0n1 taken >/tmp/out 2>/tmp/err || {{ cat /tmp/err >&2; fail "the map failed"; }}
        cmp /tmp/out /tmp/file || fail "the file"
        driver_is nvme
        cat /tmp/err
        """,
        "--drive", "size=8M,serial=LAB1",
    )  # fmt: skip
    reads, evicted, kept = map(int, re.search(r"reads: (\d+).*evictions: (\d+).* (\d+) bytes in memory", said).groups())
    # Pages of 64 KiB, of which 16 are kept.
    assert (reads, evicted, kept) == (46, 30, 1 << 20), said


def test_stores_are_tracked_and_written():
    # Also by a user who may serve only the loads and stores of a program, not those of system calls.
    guest(
        rf"""
        {EXAMPLES}/map_soak 400
        same "$(cat /proc/sys/vm/unprivileged_userfaultfd)" 0 "what users may do"
        setpriv --reuid 65534 --regid 65534 --clear-groups {EXAMPLES}/map_soak 400
        """
    )  # fmt: skip


def test_a_drive_that_fails_reads_gives_the_error_to_the_one_who_touched_it(tmp_path):
    rules = ROOT / "out" / f"blkdebug-{os.getpid()}-{tmp_path.name}.cfg"
    rules.parent.mkdir(exist_ok=True)
    # Sector 4096 (2 MiB) can never be read.
    rules.write_text('[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "4096"\n')
    try:
        said = guest(
            rf"""
            {EXAMPLES}/map_drive nvme0n1 >/tmp/out 2>/tmp/err && fail "it ended well"
            driver_is nvme
            stat -c 'size %s' /tmp/out; cat /tmp/err
            """,
            "--drive", f"size=4M,serial=LAB1,blkdebug={rules}",
        )  # fmt: skip
    finally:
        rules.unlink()
    # All before the page with this sector was written, and the system call that touched it has failed.
    assert "size 2097152" in said, said
    assert re.search(r"offset_bytes: 2097152, write: false, error: Nvme", said), said
    assert "Bad address" in said, said
