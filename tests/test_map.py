# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A drive and a volume's file as memory, in user space over VFIO, with the faults of Debian's kernel."""

# partner: Linux | host kernel
# partner: QEMU's nvme | drive

import os
import re
import subprocess

import pytest
from scripted import PYTHON, ROOT, guest

# Built by `tools/test lab`.
PROGRAM = os.environ.get("STRAIGHTWAY_MAP_EXAMPLE", str(ROOT / "target/release/examples/map"))


def test_a_drive_and_a_file_are_read_through_memory_within_the_limit():
    said = guest(
        rf"""
        MAP="{PROGRAM} drive"
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
        mv /tmp/err /tmp/first
        tail -c +3000002 /tmp/data | $MAP nvme0n1 taken 7000000 2>/tmp/err || {{ cat /tmp/err >&2; fail "it does not grow"; }}
        rc 0 $S get nvme0n1 taken /tmp/grown
        cmp /tmp/grown /tmp/data || fail "the grown file"
        rc 0 $S check nvme0n1
        driver_is nvme
        cat /tmp/first
        """,
        "--drive", "size=16M,serial=LAB1",
    )  # fmt: skip
    reads, evicted, kept = map(int, re.search(r"reads: (\d+).*evictions: (\d+).* (\d+) bytes in memory", said).groups())
    # Pages of 64 KiB, of which 16 are kept.
    assert (reads, evicted, kept) == (46, 30, 1 << 20), said


@pytest.mark.parametrize("iommu", [[], ["--no-iommu"]], ids=["iommu", "no-iommu"])
def test_another_drive_reads_and_writes_the_memory_by_itself(iommu):
    """Its commands name the memory's bus addresses, so no processor copies. Without an IOMMU these are the physical ones, of pages
    that are held where they are although memory is compacted; only root is told them."""
    said = guest(
        rf"""
        MAP="{PROGRAM} window"
        head -c 4M /dev/urandom >/tmp/data; head -c 4M /dev/urandom >/tmp/back
        dd if=/tmp/data of=/dev/nvme0n1 bs=1M oflag=direct status=none
        (while [ ! -e /tmp/enough ]; do echo 1 >/proc/sys/vm/compact_memory; done) & compacting=$!
        $MAP nvme0n1 nvme1n1 3145728 out --destroy-data || fail "out"
        same "$(dd if=/dev/nvme1n1 bs=1M count=3 iflag=direct status=none | sum)" "$(head -c 3M /tmp/data | sum)" "written out"
        same "$(dd if=/dev/nvme1n1 bs=1M skip=3 iflag=direct status=none | tr -d '\0' | wc -c)" 0 "nothing else"
        dd if=/tmp/back of=/dev/nvme1n1 bs=1M oflag=direct status=none
        $MAP nvme0n1 nvme1n1 1048576 in --destroy-data || fail "in"
        dd if=/dev/nvme0n1 of=/tmp/now bs=1M count=4 iflag=direct status=none
        cmp /tmp/now <(head -c 1M /tmp/back; tail -c +1048577 /tmp/data) || fail "read in"
        touch /tmp/enough; wait $compacting
        $MAP nvme0n1 nvme1n1 1000 out --destroy-data 2>/tmp/err && fail "parts of pages are granted"
        cat /tmp/err
        driver_is nvme
        """,
        "--drive", "size=4M,serial=LAB1", "--drive", "size=4M,serial=LAB2", *iommu,
    )  # fmt: skip
    assert "not whole pages" in said, said


def test_stores_are_tracked_and_written_also_amid_failures():
    # Also by a user who may serve only the loads and stores of a program, not those of system calls.
    guest(
        rf"""
        {PROGRAM} soak 400
        {PROGRAM} soak short
        {PROGRAM} storm 1
        same "$(cat /proc/sys/vm/unprivileged_userfaultfd)" 0 "what users may do"
        setpriv --reuid 65534 --regid 65534 --clear-groups {PROGRAM} soak 400
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
            {PROGRAM} drive nvme0n1 >/tmp/out 2>/tmp/err && fail "it ended well"
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


# Each program, the package that has it, how it makes the file $F, and how it reads the file $1.
PROGRAMS = {
    "sqlite": (
        "sqlite3", "sqlite3",
        """sqlite3 $F "PRAGMA page_size=4096; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
          WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)
          INSERT INTO t SELECT i, printf('row %d', i * 7919 % 20000) FROM n; CREATE INDEX x ON t(b)" """,
        """sqlite3 -readonly $1 "PRAGMA mmap_size=100000000" "SELECT count(*), sum(a) FROM t WHERE b LIKE 'row 1%'" \
          "SELECT a FROM t WHERE b = 'row 77'" "PRAGMA integrity_check" """,
    ),
    "ripgrep": (
        "ripgrep", "rg",
        "seq 300000 >$F",
        "rg --mmap --color never -n '99[0-9]*7$' $1",
    ),
    "numpy": (
        "python3-numpy", "python3 -c 'import numpy'",
        "python3 -c 'import numpy; numpy.arange(400000, dtype=\"<u4\").tofile(\"'$F'\")'",
        """python3 -c 'import numpy, sys
data = numpy.memmap(sys.argv[1], dtype="<u4", mode="r")
print(data.shape, data.sum(dtype="u8"), data[::5000].tolist(), data[-3:])' $1""",
    ),
    "lmdb": (
        "python3-lmdb", "python3 -c 'import lmdb'",
        """python3 -c 'import lmdb, sys
with lmdb.open(sys.argv[1], subdir=False, lock=False, map_size=1 << 24) as data, data.begin(write=True) as change:
    for key in range(20000): change.put(b"%08d" % key, b"value %d" % (key * 7919))' $F""",
        """python3 -c 'import lmdb, sys
with lmdb.open(sys.argv[1], subdir=False, lock=False, readonly=True) as data, data.begin() as view:
    print(data.stat(), view.get(b"00000777"), sum(len(value) for _, value in view.cursor()))' $1""",
    ),
}  # fmt: skip


def why_missing(package, command):
    """Why a program cannot be used, or None."""
    check = command.replace("python3", PYTHON) if " " in command else f"command -v {command}"
    if subprocess.run(["bash", "-c", check], capture_output=True).returncode == 0:
        return None
    return f"needs {package}: apt-get install {package}"


# partner: sqlite3 | reader
@pytest.mark.cells("program")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_reads_a_file_of_a_volume_as_it_reads_one_of_ext4(name):
    package, command, make, query = PROGRAMS[name]
    if why := why_missing(package, command):
        pytest.skip(why)
    said = guest(
        rf"""
        F=/tmp/file
        {make} || fail "no file"
        cat >/tmp/query <<'END'
{query}
END
        mkfs.ext4 -q /dev/nvme1n1; mkdir /tmp/ext4; mount /dev/nvme1n1 /tmp/ext4
        mkdir /tmp/seen; cp $F /tmp/ext4/file; cd /tmp/ext4
        bash /tmp/query file >/tmp/expected || fail "on ext4"
        cd - >/dev/null; umount /tmp/ext4
        [ -s /tmp/expected ] || fail "it found nothing"
        rc 0 $S format nvme0n1 --destroy-data LAB1
        rc 0 $S put nvme0n1 $F file
        S=$PWD/$S; cd /tmp/seen
        for page in 4K 64K; do
          rc 0 $S map nvme0n1 file --page-size $page --memory 512K --path vfio -- bash /tmp/query file
          cmp /tmp/out /tmp/expected || fail "through memory in pages of $page"
          cat /tmp/err
        done
        driver_is nvme
        """,
        "--drive", "size=32M,serial=LAB1", "--drive", "size=32M,serial=LAB2",
    )  # fmt: skip
    # It read more than the memory holds, so pages made room for others.
    assert len(re.findall(r"(\d+) faults; (\d+) pages", said)) == 2, said
