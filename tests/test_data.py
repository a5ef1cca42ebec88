# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every path reads the data that any other path wrote, byte for byte.

Own guests: QEMU adds no second namespace to a guest that is up.
"""

# partner: Linux | host kernel
# partner: QEMU's nvme | drive

import pytest

from scripted import DRIVE, guest, own_guest

# Each path writes its own range; then each path reads all of them.
EXCHANGE = r"""
LEN=$((1 << 20))
index=0
for writer in $WRITERS; do
  path=${writer%%/*}; mode=${writer##*/}
  head -c $LEN /dev/urandom >/tmp/data
  cat /tmp/data >>/tmp/all
  rc 0 $S write $DEVICE --destroy-data LAB1 --offset $((index * LEN)) --input /tmp/data --flush \
    --path $path --mode $mode --block-size $((96 << 10))
  driver_is nvme
  index=$((index + 1))
done
expected=$(sum </tmp/all)
for reader in $WRITERS; do
  path=${reader%%/*}; mode=${reader##*/}
  got=$(checksum $DEVICE --length $((index * LEN)) --path $path --mode $mode)
  same "$got" "$expected" "what all paths wrote, read over $reader"
  driver_is nvme
done
by_dd=$(dd if=$DEVICE bs=1M iflag=direct count=$index status=none | sum)
same "$by_dd" "$expected" "what all paths wrote, read by dd"
"""

KERNEL = "io_uring/interrupt passthrough/interrupt sync/interrupt"
VFIO = "vfio/poll vfio/interrupt vfio/hybrid"


@pytest.mark.parametrize(
    ("drive", "machine"),
    [
        pytest.param(DRIVE, (), id="512-byte-blocks"),
        pytest.param(f"{DRIVE},logical_block_size=4096", ("--iommu-width", "48"), id="4k-blocks-48-bits"),
        pytest.param(f"{DRIVE},mdts=1", (), id="mdts-1"),
        pytest.param(DRIVE, ("--kernel", "rt"), id="preempt-rt"),
    ],
)
def test_every_path_reads_what_every_path_wrote(drive, machine, module=None):
    """CharIO's too, if a module for the guest's kernel is given."""
    chario = " chario/poll chario/interrupt" if module else ""
    script = f"DEVICE=/dev/nvme0n1; WRITERS='{VFIO} {KERNEL}{chario}'\n" + EXCHANGE
    if module:
        script = f"insmod build/chario/{module}/chario.ko\n{script}rmmod chario\n"
    guest(script, *machine, "--drive", drive)


def test_the_second_of_two_namespaces():
    script = f"DEVICE=/dev/nvme0n2; WRITERS='vfio/poll vfio/interrupt {KERNEL}'\n" + EXCHANGE
    script += r"""
    first=$(checksum /dev/nvme0n1 --length 8M --path vfio)
    same "$first" "$(head -c 8M /dev/zero | sum)" "the first namespace, which was not written"
    """
    own_guest(script, "--drive", f"{DRIVE},namespaces=2")


def test_blocks_above_a_page():
    guest(
        r"""
        head -c 3M /dev/urandom >/tmp/data
        for index in 0 1; do
          BDF=$(linked /sys/class/nvme/nvme$index/device); block=$((8192 << index))
          for writer in vfio/poll vfio/hybrid passthrough/interrupt; do
            rc 0 $S write nvme$index --destroy-data LAB$((1 + index)) --input /tmp/data --flush --offset $((block * 3)) \
              --path ${writer%/*} --mode ${writer#*/} --block-size $((block * 3)) --queue-depth 3
            for reader in vfio/interrupt passthrough/interrupt; do
              got=$(checksum nvme$index --offset $((block * 3)) --length 3M --path ${reader%/*} --mode ${reader#*/})
              same "$got" "$(sum </tmp/data)" "blocks of $block, written by $writer, read by $reader"
            done
            shuf -i 0-9 -n 9 >/tmp/more; cat /tmp/more /tmp/data | head -c 3M >/tmp/data2; mv /tmp/data2 /tmp/data
          done
          rc 2 $S read nvme$index --path vfio --length 4096 --checksum; said multiple
          driver_is nvme
        done
        """,
        "--drive", f"{DRIVE},logical_block_size=8192", "--drive", "size=64M,serial=LAB2,logical_block_size=16384",
    )  # fmt: skip


def test_without_an_iommu():
    script = "echo 32 >/proc/sys/vm/nr_hugepages; rc 4 $S read /dev/nvme0n1 --path vfio --length 4096 --checksum\n"
    script += f"DEVICE=/dev/nvme0n1; WRITERS='noiommu/poll {KERNEL}'\n" + EXCHANGE
    guest(script, "--no-iommu", "--drive", DRIVE)


def test_two_drives_are_told_apart():
    guest(
        r"""
        head -c 1M /dev/urandom >/tmp/data
        rc 2 $S write /dev/nvme1n1 --destroy-data LAB1 --input /tmp/data --path vfio
        rc 0 $S write /dev/nvme1n1 --destroy-data LAB2 --input /tmp/data --path vfio
        same "$(checksum /dev/nvme1n1 --length 1M --path io_uring)" "$(sum </tmp/data)" "the second drive"
        same "$(checksum /dev/nvme0n1 --length 1M --path vfio)" "$(head -c 1M /dev/zero | sum)" "the first drive"
        rc 0 $S list --json
        python3 - <<'P'
import json
listed = json.load(open("/tmp/out"))["controllers"]
assert sorted(c["serial"] for c in listed) == ["LAB1", "LAB2"], listed
P
        """,
        "--drive", DRIVE, "--drive", "size=64M,serial=LAB2",
    )


def test_generic_commands_reach_the_drive_and_nothing_else_changes():
    guest(
        r"""
        nvme id-ctrl /dev/nvme0 -b >/tmp/kernel
        rc 0 $S command $BDF admin 0x06 --cdw10 1 --read 4K --allow identify --output /tmp/ours
        cmp /tmp/kernel /tmp/ours || fail "identify"
        driver_is nvme
        head -c 512 /dev/urandom >/tmp/block; sum </dev/nvme0n1 >/tmp/before
        rc 2 $S command $BDF io 0x01 --write /tmp/block --allow write; said 'destroy-data'
        rc 2 $S command $BDF io 0x01 --write /tmp/block --destroy-data LAB1; said 'refused'
        rc 2 $S command $BDF admin 0x80 --allow format-nvm; said 'destroy-data'
        same "$(sum </dev/nvme0n1)" "$(cat /tmp/before)" "the drive after what was refused"
        rc 0 $S command $BDF io 0x01 --cdw10 9 --write /tmp/block --allow write --destroy-data LAB1
        rc 0 $S command $BDF io 0x02 --cdw10 9 --read 512 --allow read --output /tmp/got
        cmp /tmp/got /tmp/block || fail "what was written"
        dd if=/dev/nvme0n1 bs=512 skip=9 count=1 iflag=direct status=none | cmp - /tmp/block || fail "what the kernel reads"
        # QEMU's drive has no vendor specific commands.
        rc 1 $S command $BDF admin 0xc1 --write /tmp/block --allow vendor-c1 --destroy-data LAB1; said 'Invalid Command Opcode\|0xc1 failed'
        driver_is nvme
        """,
        "--drive", DRIVE,
    )  # fmt: skip
