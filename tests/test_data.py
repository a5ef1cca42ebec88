"""What one path writes, every other path reads, byte for byte.

Own guests: QEMU adds no second namespace to a guest that is up.
"""

import pytest

from scripted import DRIVE, guest, own_guest

# Each path writes a stretch of its own; then each path reads all of them.
EXCHANGE = r"""
LEN=$((2 << 20))
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
by_dd=$(dd if=$DEVICE bs=1M iflag=direct count=$((index * 2)) status=none | sum)
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
def test_every_path_reads_what_every_path_wrote(drive, machine):
    script = f"DEVICE=/dev/nvme0n1; WRITERS='{VFIO} {KERNEL}'\n" + EXCHANGE
    guest(script, *machine, "--drive", drive)


def test_the_second_of_two_namespaces():
    script = f"DEVICE=/dev/nvme0n2; WRITERS='vfio/poll vfio/interrupt {KERNEL}'\n" + EXCHANGE
    script += r"""
    first=$(checksum /dev/nvme0n1 --length 24M --path vfio)
    same "$first" "$(head -c 24M /dev/zero | sum)" "the first namespace, which nobody wrote"
    """
    own_guest(script, "--drive", f"{DRIVE},namespaces=2")


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
