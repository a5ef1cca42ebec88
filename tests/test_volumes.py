# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A volume on an emulated NVMe drive: every path gets the files that any other path puts, and every verb agrees."""

# partner: QEMU's nvme | drive
# partner: Linux | host kernel

import pytest

from scripted import DRIVE, guest

# Each path puts a file; then each path gets all of them, and moves or removes its own.
EXCHANGE = r"""
DEVICE=/dev/nvme0n1
v() { local verb=$1; shift; rc 0 $S $verb $DEVICE "$@" --path ${way%%/*} --mode ${way##*/}; }
rc 2 $S format $DEVICE
said "nothing was done"
rc 2 $S format $DEVICE --destroy-data LAB2
rc 3 $S ls $DEVICE --path sync
said "no Straightway volume"
way=$FIRST
v format --destroy-data LAB1 --checksums --label exchange
driver_is nvme
index=0
for way in $WAYS; do
  # Odd sizes; the second file is put without checksums.
  head -c $((1000001 + index * 70001)) /dev/urandom >/tmp/data$index
  checksums=--checksums; [ $index = 1 ] && checksums=--no-checksums
  v put /tmp/data$index file$index $checksums --verify --block-size $((96 << 10))
  driver_is nvme
  index=$((index + 1))
done
for way in $WAYS; do
  for ((file = 0; file < index; file++)); do
    v get file$file /tmp/got
    same "$(sum </tmp/got)" "$(sum </tmp/data$file)" "file$file over $way"
    rm /tmp/got
  done
  v get file0 - --offset 65537 --length 200000
  same "$(sum </tmp/out)" "$(tail -c +65538 /tmp/data0 | head -c 200000 | sum)" "a part of file0 over $way"
  v ls
  same "$(grep -c '^file' /tmp/out)" $index "files listed over $way"
  v check $([ $way = $FIRST ] && echo --read-data)
  grep -q "^sound: $index files" /tmp/out || fail "$(cat /tmp/out)"
  driver_is nvme
done
# The drive's bytes, as a file and behind the model controller.
dd if=$DEVICE of=/tmp/disk.img bs=1M iflag=direct status=none
for device in /tmp/disk.img file:/tmp/disk.img model:$(stat -c %s /tmp/disk.img),file=/tmp/disk.img; do
  [ $BLOCK = 512 ] || continue
  rc 0 $S get $device file0 /tmp/got --force --verify
  same "$(sum </tmp/got)" "$(sum </tmp/data0)" "file0 on $device"
  rc 0 $S check $device --read-data
done
file=0
for way in $WAYS; do
  v mv file$file moved$file
  v stat moved$file
  v rm moved$file
  file=$((file + 1))
done
rc 0 $S stat $DEVICE --path sync --json
python3 - <<'P'
import json
volume = json.load(open("/tmp/out"))["volume"]
assert volume["files"] == 0 and volume["clean"] and volume["label"] == "exchange", volume
assert volume["free_bytes"] == volume["capacity_bytes"], volume
P
driver_is nvme
"""

KERNEL = "io_uring/interrupt passthrough/interrupt sync/interrupt"
VFIO = "vfio/hybrid"


def exchange(ways, block=512):
    return f"WAYS='{ways}'; FIRST={ways.split()[0]}; BLOCK={block}\n" + EXCHANGE


@pytest.mark.parametrize(
    ("drive", "block"),
    [
        pytest.param(DRIVE, 512, id="512-byte-blocks"),
        pytest.param(f"{DRIVE},logical_block_size=4096,mdts=1", 4096, id="4k-blocks-mdts-1"),
    ],
)
def test_what_one_path_puts_every_path_gets(drive, block):
    guest(exchange(f"{VFIO} {KERNEL}", block), "--drive", drive, timeout=480)


def test_without_an_iommu():
    script = "echo 48 >/proc/sys/vm/nr_hugepages\n" + exchange(f"noiommu/poll {KERNEL}")
    guest(script, "--no-iommu", "--drive", DRIVE, timeout=480)


def test_a_file_s_volume_is_a_drive_s():
    guest(
        r"""
        head -c 7000003 /dev/urandom >/tmp/data
        rc 0 $S format /tmp/disk.img --size 128M --checksums
        rc 0 $S put /tmp/disk.img /tmp/data --checksums
        dd if=/tmp/disk.img of=/dev/nvme0n1 bs=1M oflag=direct status=none
        rc 0 $S get /dev/nvme0n1 data /tmp/got --path vfio --verify
        same "$(sum </tmp/got)" "$(sum </tmp/data)" "what came over the drive"
        rc 0 $S format model:128M,file=/tmp/model.img --checksums
        rc 0 $S put model:128M,file=/tmp/model.img /tmp/data
        dd if=/tmp/model.img of=/dev/nvme0n1 bs=1M oflag=direct status=none
        rc 0 $S get /dev/nvme0n1 data - --path io_uring
        same "$(sum </tmp/out)" "$(sum </tmp/data)" "what came from the model"
        for path in vfio io_uring block-direct passthrough; do
          rc 0 $S put /dev/nvme0n1 /tmp/data gone --path $path
          lba=$($S stat /dev/nvme0n1 gone --json --path $path | grep -m 1 '"lba"' | tr -dc 0-9)
          rc 0 $S rm /dev/nvme0n1 gone --path $path
          rc 0 $S trim /dev/nvme0n1 --path $path
          dd if=/dev/nvme0n1 bs=512 skip=$lba count=2000 iflag=direct status=none | tr -d '\0' >/tmp/left
          same "$(wc -c </tmp/left)" 0 "bytes that $path left in the drive's free space"
          rc 0 $S get /dev/nvme0n1 data /tmp/got --force --verify --path $path
        done
        rc 0 $S format ram:64M
        rc 3 $S ls ram:64M
        said "no Straightway volume"
        """,
        "--drive", DRIVE,
    )


def test_two_processes_cannot_have_one_volume():
    guest(
        r"""
        rc 0 $S format /dev/nvme0n1 --destroy-data LAB1 --path io_uring
        mkfifo /tmp/source
        for path in vfio io_uring passthrough sync; do
          $S put /dev/nvme0n1 - slow --path $path </tmp/source 2>/tmp/said & pid=$!
          exec 3>/tmp/source
          head -c 3000000 /dev/urandom | tee /tmp/data >&3
          # The path is printed once the drive is locked.
          until grep -q path: /tmp/said; do
            kill -0 $pid || fail "the put ended: $(cat /tmp/said)"
            sleep 0.1
          done
          for other in vfio io_uring passthrough sync; do
            rc 3 $S rm /dev/nvme0n1 slow --path $other
          done
          exec 3>&-
          wait $pid || fail "$(cat /tmp/said)"
          driver_is nvme
          rc 0 $S get /dev/nvme0n1 slow /tmp/got --force --path vfio
          same "$(sum </tmp/got)" "$(sum </tmp/data)" "what was put over $path"
          rc 0 $S rm /dev/nvme0n1 slow --path $path
        done
        rc 0 $S check /dev/nvme0n1
        """,
        "--drive", DRIVE, timeout=480,
    )


def test_others_read_what_is_recorded_whatever_drives_the_drive():
    """By the name that the drive had, too: while it is driven from user space the kernel knows none."""
    guest(
        r"""
        rc 0 $S format /dev/nvme0n1 --destroy-data LAB1 --checksums
        mkfifo /tmp/source
        head -c 4M /dev/urandom >/tmp/data
        for path in vfio io_uring sync; do
          $S record /dev/nvme0n1 take --path $path --block 64K --commit-bytes 1M --deadline 60min --acknowledge \
            </tmp/source >/tmp/durable 2>/tmp/said & pid=$!
          exec 3>/tmp/source
          head -c 2M /tmp/data >&3
          until grep -qx "durable $((2 << 20))" /tmp/durable; do
            kill -0 $pid || fail "the recording ended: $(cat /tmp/said)"
            sleep 0.1
          done
          rc 0 $S ls /dev/nvme0n1
          same "$(cat /tmp/out)" take "the files over $path"
          $S get /dev/nvme0n1 take - --follow >/tmp/got 2>/tmp/told 3>&- & follower=$!
          rc 0 $S get $BDF take - --length 1M
          same "$(sum </tmp/out)" "$(head -c 1M /tmp/data | sum)" "the beginning over $path"
          rc 0 $S export /dev/nvme0n1 take /tmp/exported --force
          rc 0 $S cat $BDF take
          for copy in /tmp/out /tmp/exported; do
            same "$(sum <$copy)" "$(head -c 2M /tmp/data | sum)" "$copy over $path"
          done
          rc 3 $S rm /dev/nvme0n1 take
          tail -c 2M /tmp/data >&3
          exec 3>&-
          wait $pid || fail "$(cat /tmp/said)"
          wait $follower || fail "$(cat /tmp/told)"
          same "$(sum </tmp/got)" "$(sum </tmp/data)" "what the follower got over $path"
          driver_is nvme
          rc 0 $S rm /dev/nvme0n1 take
        done
        rc 0 $S check /dev/nvme0n1
        """,
        "--drive", DRIVE,
    )


def test_a_put_that_is_interrupted_or_killed_leaves_a_sound_volume():
    guest(
        r"""
        rc 0 $S format /dev/nvme0n1 --destroy-data LAB1
        mkfifo /tmp/source
        for signal in INT KILL; do
          $S put /dev/nvme0n1 - slow --path vfio </tmp/source 2>/tmp/said & pid=$!
          exec 3>/tmp/source
          head -c 3000000 /dev/urandom >&3
          until grep -q path: /tmp/said; do
            kill -0 $pid || fail "the put ended: $(cat /tmp/said)"
            sleep 0.1
          done
          kill -$signal $pid
          wait $pid; same $? $([ $signal = INT ] && echo 130 || echo 137) "the end by $signal"
          exec 3>&-
          # The next command first returns the drive, if the last one could not.
          rc 0 $S check /dev/nvme0n1 --repair
          rc 0 $S put /dev/nvme0n1 /etc/passwd slow --force
          rc 0 $S get /dev/nvme0n1 slow -
          cmp /tmp/out /etc/passwd || fail "the file after $signal"
          rc 0 $S rm /dev/nvme0n1 slow
          driver_is nvme
        done
        """,
        "--drive", DRIVE, timeout=480,
    )
