# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files of a volume on a drive as a folder: what ordinary programs read and write over the straight path."""

# partner: Linux | host kernel
# partner: coreutils | program

import os
import subprocess

from scripted import DRIVE, FUNCTIONS, ROOT, TARGET, guest


# partner: sqlite3 | program
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
        same "$(df --output=source /tmp/at | tail -1)" nvme0n1 "the device in df's first column"
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


MOUNTS = r"""
modprobe fuse; mkdir -p /tmp/at
mounts() {
  $S mount nvme0n1 /tmp/at --path "$@" 2>/tmp/said & server=$!
  for i in $(seq 300); do grep -q ' at /tmp/at' /tmp/said && return; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
}
ends() { umount /tmp/at; wait $server; same $? 0 "the exit status"; }
"""


# Every rule and error of a folder that is written; of a full volume, what was accepted is whole.
RULES = r"""
rules() { # FOLDER
    python3 tests/mount_guest.py "$1" || fail "a rule"
    accepted=$(python3 tests/mount_guest.py "$1" fill full) || fail "ENOSPC"
}
whole() { # DEVICE
    rc 0 $S check $1 --read-data
    same "$($S ls $1 --json | python3 -c 'import json, sys; print(*[file["size_bytes"] for file in json.load(sys.stdin)["files"]])')" "$accepted" "the size"
}
"""


# partner: Linux | host kernel
def test_every_rule_and_error_of_a_folder_that_is_written(kernel=()):
    guest(
        MOUNTS + RULES + r"""
        rc 0 $S format nvme0n1 --destroy-data LAB1 --checksums
        mounts vfio --write
        driver_is vfio-pci
        rules /tmp/at
        ends
        whole nvme0n1
        driver_is nvme
        # Without --write everything is EROFS.
        mounts io_uring
        (: >/tmp/at/x) 2>/tmp/err && fail "it was made"
        said 'Read-only file system'
        ends
        """,
        *kernel, "--drive", DRIVE,
    )  # fmt: skip


# partner: Linux | host kernel
def test_every_rule_and_error_of_a_folder_without_checksums_and_for_other_users():
    """The rules do not depend on what drives the drive: with this machine's kernel in a tenth of the time, where it has FUSE and this is root."""
    rules = r"""
        rc 0 $S format $on --checksums
        mounts $on --write --allow-other
        python3 tests/mount_guest.py $at --allow-other || fail "a rule"
        ends
        rc 0 $S format $on
        mounts $on --write
        rules $at
        ends
        whole $on
        """
    here = r"""
        dir=$(mktemp -d); on=$dir/image; at=$dir/at; mkdir $at
        trap 'umount -l $at 2>/dev/null; rm -rf $dir' EXIT
        rc() { local want=$1 got; shift; "$@" >$dir/out 2>$dir/err; got=$?; [ $got = $want ] || fail "'$*' ended with $got: $(cat $dir/err)"; }
        mounts() {
          $S mount $1 $at "${@:2}" 2>$dir/said & server=$!
          for i in $(seq 300); do grep -q " at $at" $dir/said && return; kill -0 $server || fail "$(cat $dir/said)"; sleep 0.1; done
          fail "it is not mounted: $(cat $dir/said)"
        }
        ends() { umount $at; wait $server; same $? 0 "the exit status"; }
        truncate -s 128M $on
        """
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK):
        drive = "on=nvme0n1; at=/tmp/at\nformatted() { $S format $1 --destroy-data LAB1 \"${@:2}\"; }\n"
        there = rules.replace("mounts $on", "mounts io_uring").replace("$S format", "formatted")
        guest(MOUNTS + RULES + drive + there, "--drive", DRIVE)
        return
    script = f"S={TARGET.command}\n" + FUNCTIONS + RULES + here + rules.replace("format $on", "format $on --force")
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


# partner: rsync, sqlite3 | program
def test_programs_write_a_volume_over_the_straight_path():
    guest(
        MOUNTS + r"""
        rm -rf /tmp/src; mkdir -p /tmp/src/deep/er
        head -c 9M /dev/urandom >/tmp/src/deep/big; head -c 100001 /dev/urandom >/tmp/src/odd; : >/tmp/src/deep/er/empty
        truncate -s 1M /tmp/src/sparse; chmod 755 /tmp/src/odd
        rc 0 $S format nvme0n1 --destroy-data LAB1 --checksums
        mounts vfio --write
        here=$PWD; cd /tmp/at || exit 9
        cp -r /tmp/src copied || fail "cp -r"
        cp -a /tmp/src kept || fail "cp -a"
        diff -r /tmp/src copied && diff -r /tmp/src kept || fail "the copies differ"
        same "$(stat -c %y kept/odd)" "$(stat -c %y /tmp/src/odd)" "the time"
        mkdir tarred; tar -C /tmp -cf - src | tar -C tarred -xf - || fail "tar"
        diff -r /tmp/src tarred/src || fail "tar's files differ"
        tar -C /tmp -cf files.tar src && mkdir again && tar -C again -xf files.tar && diff -r /tmp/src again/src || fail "tar to a file"
        if command -v rsync >/dev/null; then
            rsync -a /tmp/src synced || fail "rsync"
            same "$(rsync -ai --no-perms /tmp/src synced)" "" "what a second rsync does"
            echo more >>/tmp/src/odd
            rsync -a --append /tmp/src synced && diff -r /tmp/src synced/src || fail "rsync --append"
            rsync -a --inplace /tmp/src inplace && diff -r /tmp/src inplace/src || fail "rsync --inplace of new files"
            rsync -a --whole-file /tmp/src kept && diff -r /tmp/src kept/src || fail "rsync of changed files"
        else
            echo "SKIPPED: rsync is not installed: tools/setup lab"
        fi
        dd if=/tmp/src/deep/big of=dd bs=64k conv=fsync status=none && cmp dd /tmp/src/deep/big || fail "dd conv=fsync"
        dd if=/tmp/src/deep/big of=dd bs=64k conv=notrunc count=1 status=none 2>/tmp/err && fail "the middle was overwritten"
        said 'not supported'
        dd if=/tmp/src/deep/big of=dd bs=1M oflag=append conv=notrunc count=1 status=none || fail "dd oflag=append"
        same "$(stat -c %s dd)" $((10 << 20)) "the size after appending"
        for i in 1 2 3; do echo line $i >>log; done; same "$(cat log)" "$(printf 'line 1
line 2
line 3')" "the log"
        sed -i s/line/LINE/ log || fail "an editor's save by rename"
        same "$(head -1 log)" "LINE 1" "the edited file"
        mv copied moved && [ ! -e copied ] && diff moved/sparse /tmp/src/sparse || fail "mv of a folder"
        # What SQLite can do with a file that only grows: read it.
        python3 - <<'P' || fail "sqlite"
import shutil, sqlite3
base = sqlite3.connect("/tmp/base.sqlite")
base.execute("create table if not exists t (n integer)")
base.executemany("insert into t values (?)", [(n,) for n in range(10000)])
base.commit()
shutil.copy("/tmp/base.sqlite", "/tmp/at/base.sqlite")
there = sqlite3.connect("file:/tmp/at/base.sqlite?mode=ro", uri=True)
assert there.execute("select sum(n) from t").fetchone()[0] == 49995000
try:
    writer = sqlite3.connect("/tmp/at/base.sqlite")
    writer.execute("insert into t values (1)")
    writer.commit()
    raise SystemExit("it was written")
except sqlite3.OperationalError as error:
    print(error)
assert there.execute("select sum(n) from t").fetchone()[0] == 49995000
P
        if command -v ffmpeg >/dev/null; then
            ffmpeg -v error -f lavfi -i testsrc=size=320x240:rate=5 -t 2 -movflags frag_keyframe+empty_moov video.mp4 && ffprobe -v error video.mp4 || fail "ffmpeg"
        else
            echo "SKIPPED: ffmpeg is not installed (200 MB of packages)"
        fi
        cd "$here"; ends; driver_is nvme
        rc 0 $S check nvme0n1 --read-data
        # Killed: what was synced or closed is there, what was removed while it was open has libfuse's name for it.
        mounts io_uring --write
        exec 5>/tmp/at/killed; dd if=/tmp/src/deep/big of=/dev/fd/5 bs=1M count=3 conv=fsync status=none
        head -c 5000 /tmp/src/odd >&5; echo closed >/tmp/at/closed
        exec 6</tmp/at/log; rm /tmp/at/log
        kill -KILL $server; wait $server; exec 5>&- 6<&-
        umount /tmp/at
        rc 0 $S check nvme0n1 --read-data
        rc 0 $S get nvme0n1 killed /tmp/killed --force
        cmp -n $((3 << 20)) /tmp/killed /tmp/src/deep/big || fail "what was synced"
        same "$($S cat nvme0n1 closed)" closed "what was closed"
        $S ls nvme0n1 | grep -q fuse_hidden || fail "the removed file that was open"
        mounts io_uring --write; rm /tmp/at/.fuse_hidden*; ends
        rc 0 $S check nvme0n1
        """,
        "--drive", DRIVE,
    )  # fmt: skip


# partner: stress-ng | program
def test_stress_in_a_folder_ends_and_loses_nothing():
    guest(
        MOUNTS + r"""
        command -v stress-ng >/dev/null || { echo "SKIPPED: stress-ng is not installed: tools/setup lab"; exit 0; }
        rc 0 $S format nvme0n1 --destroy-data LAB1 --checksums
        mounts vfio --write
        # All at the same time; each verifies what it can. The time ends only what would hang.
        works="chmod dir dirmany filename fstat getdent io open rename touch utime dentry hdd"
        words=(); for s in $works; do words+=("--$s" 1 "--$s-ops" 4); done
        (cd /tmp && stress-ng "${words[@]}" --dentries 4 --hdd-bytes 1M -t 120 --metrics-brief --temp-path /tmp/at --verify --yaml /tmp/ran >/tmp/out 2>&1) || fail "$(cat /tmp/out)"
        for s in $works; do
            grep -A1 "stressor: $s$" /tmp/ran | grep -q 'bogo-ops: [1-9]' || fail "$s did nothing: $(</tmp/out)"
        done
        same "$(ls -A /tmp/at)" "" "what is left"
        # What docs/mount.md refuses is refused, with its errno, and ends nothing.
        refused() { # STRESSOR ERRNO
            (cd /tmp && stress-ng --$1 1 --$1-ops 5 -t 60 --temp-path /tmp/at --verify >/tmp/out 2>&1)
            grep -Eq "errno=$2|= $2 " /tmp/out || fail "$1: $(cat /tmp/out)"
        }
        refused seek 95; refused fault 19
        rm -rf /tmp/at/*
        ends
        rc 0 $S check nvme0n1 --read-data
        same "$($S ls nvme0n1)" "" "the files"
        """,
        "--drive", DRIVE,
    )  # fmt: skip


def test_a_user_without_root_mounts_and_writes():
    guest(
        r"""
        command -v fusermount3 >/dev/null || { echo "SKIPPED: fusermount3 is not installed: tools/setup lab"; exit 0; }
        modprobe fuse; chmod 666 /dev/fuse  # as udev does it
        mkdir -p /tmp/mine/at
        rc 0 $S format /tmp/mine/disk --size 8M --checksums
        chown -R nobody /tmp/mine
        as_user() { setpriv --reuid nobody --regid nogroup --clear-groups "$@"; }
        as_user $S mount /tmp/mine/disk /tmp/mine/at --write 2>/tmp/said & server=$!
        for i in $(seq 300); do grep -q 's at /tmp/mine/at' /tmp/said && break; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
        as_user sh -c 'cd /tmp/mine/at && cp /etc/passwd one && cmp one /etc/passwd && echo more >>one && mkdir two && mv one two/one' || fail "another user cannot use the folder"
        as_user head -c 9M /dev/zero 2>/tmp/err >/tmp/mine/zeroes
        as_user cp /tmp/mine/zeroes /tmp/mine/at/ 2>/tmp/err && fail "9 MiB are on 8 MiB"
        said 'No space left'
        # Not even root sees the folder.
        ls /tmp/mine/at 2>/tmp/err && fail "root sees it"
        said 'Permission denied'
        as_user fusermount3 -u /tmp/mine/at || fail "unmounting"
        wait $server; same $? 0 "the exit status"
        rc 0 $S check /tmp/mine/disk --read-data
        same "$($S cat /tmp/mine/disk two/one | sum)" "$( (cat /etc/passwd; echo more) | sum)" "the file"
        """,
        "--drive", DRIVE,
    )  # fmt: skip
