"""The files of a volume on a drive as a folder: what ordinary programs read over the straight path."""

from scripted import DRIVE, guest


def test_programs_read_a_volume_over_the_straight_path():
    guest(
        r"""
        modprobe fuse
        mkdir -p /tmp/src/deep /tmp/at
        head -c 20M /dev/urandom >/tmp/src/deep/big; head -c 100001 /dev/urandom >/tmp/src/odd
        python3 - <<'P'
import sqlite3
base = sqlite3.connect("/tmp/src/base.sqlite")
base.execute("create table t (n integer)")
base.executemany("insert into t values (?)", [(n,) for n in range(10000)])
base.commit()
P
        rc 0 $S format nvme0n1 --destroy-data LAB1 --checksums
        rc 0 $S put nvme0n1 /tmp/src
        $S mount nvme0n1 /tmp/at --path vfio 2>/tmp/said & server=$!
        for i in $(seq 300); do grep -q ' at /tmp/at' /tmp/said && break; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
        driver_is vfio-pci
        diff -r /tmp/src /tmp/at/src || fail "the files differ"
        mkdir /tmp/copy; cp -a /tmp/at/src /tmp/copy/ || fail "cp"
        tar -C /tmp/at -cf - src | tar -C /tmp/copy -df - || fail "tar"
        same "$(python3 -c "
import sqlite3
print(sqlite3.connect('file:/tmp/at/src/base.sqlite?mode=ro&immutable=1', uri=True).execute('select sum(n) from t').fetchone()[0])
")" 49995000 "what SQLite reads"
        umount /tmp/at; wait $server; same $? 0 "the exit status"
        driver_is nvme
        # Ctrl-C ends it too, and the drive goes back.
        $S mount nvme0n1 /tmp/at --path vfio 2>/tmp/said & server=$!
        for i in $(seq 300); do grep -q ' at /tmp/at' /tmp/said && break; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
        kill -INT $server; wait $server; same $? 0 "the exit status"
        mountpoint -q /tmp/at && fail "it is still mounted"
        driver_is nvme
        """,
        "--drive", DRIVE,
    )  # fmt: skip
