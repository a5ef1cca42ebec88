# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of other files, and of `straightway serve --ublk`, on the newest kernel that Debian offers for this release (its backports)."""

# partner: Linux | host kernel

import pytest
import test_chario
import test_data
import test_events
import test_fabric
import test_mount
from pool import image
from scripted import DRIVE, guest

KERNEL = "backports"


@pytest.fixture(autouse=True)
def kernel():
    try:
        image.find_kernel(KERNEL, "x86_64")
    except image.NotSetUp:
        pytest.skip("the newest kernel is not there; run: tools/setup backports chario")


def test_every_path_reads_what_every_path_wrote():
    test_data.test_every_path_reads_what_every_path_wrote(DRIVE, ("--kernel", KERNEL))


@pytest.mark.cells("kernel", KERNEL)
def test_every_call_of_chario_does_what_the_manual_says():
    test_chario.test_every_call_does_what_the_manual_says(KERNEL)


@pytest.mark.cells("kernel", KERNEL)
def test_a_read_of_chario_is_a_timeline():
    test_events.test_a_read_of_chario_is_a_timeline(KERNEL)


@pytest.mark.cells("kernel", KERNEL)
def test_files_on_its_target():
    test_fabric.test_files_on_a_target_with_digests_and_queues_and_what_is_refused(("--kernel", KERNEL))


# partner: Linux | host kernel
@pytest.mark.cells("kernel", KERNEL)
def test_every_rule_of_a_folder_that_is_written():
    test_mount.test_every_rule_and_error_of_a_folder_that_is_written(("--kernel", KERNEL))


def test_a_drive_over_the_straight_path_is_a_block_device_of_the_kernel():
    """ublk needs Linux 6.6."""
    guest(
        r"""
        # Before the module there is a hint, and nothing has happened to the drive.
        rmmod ublk_drv 2>/dev/null
        rc 4 $S serve nvme0n1 --ublk; said 'modprobe ublk_drv'
        driver_is nvme
        modprobe ublk_drv || fail "no ublk_drv"
        ready() {
          for i in $(seq 300); do grep -q " at /dev/ublkb" /tmp/said && return; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
          fail "not ready: $(cat /tmp/said)"
        }
        head -c 8M /dev/urandom >/tmp/data
        $S serve nvme0n1 --write --destroy-data LAB1 --ublk --json >/tmp/report 2>/tmp/said & server=$!
        ready; driver_is vfio-pci
        same "$(</sys/block/ublkb0/size)" 65536 "sectors"
        same "$(</sys/block/ublkb0/ro)" 0 "read-only"
        rc 0 dd if=/tmp/data of=/dev/ublkb0 bs=1M oflag=direct conv=fsync
        dd if=/dev/ublkb0 bs=256K count=32 iflag=direct 2>/dev/null | cmp - /tmp/data || fail "the data"
        rc 0 mkfs.ext4 -qF /dev/ublkb0
        mkdir -p /tmp/at && mount /dev/ublkb0 /tmp/at && cp /tmp/data /tmp/at/data && sync && umount /tmp/at || fail "a file system"
        rc 0 e2fsck -fn /dev/ublkb0
        kill -TERM $server; wait $server || fail "the server: $(cat /tmp/said)"
        grep -q '"failed_requests": 0' /tmp/report || fail "$(cat /tmp/report)"
        [ ! -e /sys/block/ublkb0 ] && [ ! -e /dev/ublkc0 ] || fail "the device is left"
        driver_is nvme
        mount -o ro /dev/nvme0n1 /tmp/at && cmp /tmp/at/data /tmp/data || fail "the data on the drive"
        umount /tmp/at
        # Without --write the kernel has a disk that is read-only.
        $S serve nvme0n1 --ublk 2>/tmp/said & server=$!
        ready
        same "$(</sys/block/ublkb0/ro)" 1 "read-only"
        ! dd if=/tmp/data of=/dev/ublkb0 bs=4K count=1 oflag=direct 2>/dev/null || fail "written"
        # A server that is killed: readers have errors, and the next one says so and deletes what is left.
        kill -KILL $server; wait $server
        timeout 60 sh -c 'while dd if=/dev/ublkb0 of=/dev/null bs=4K count=1 iflag=direct 2>/dev/null; do :; done' || fail "still read"
        [ -e /dev/ublkc0 ] || fail "nothing is left"
        $S serve nvme0n1 --ublk 2>/tmp/said & server=$!
        ready
        grep -q 'left by a server that was killed' /tmp/said || fail "$(cat /tmp/said)"
        kill -INT $server; wait $server || fail "the server: $(cat /tmp/said)"
        driver_is nvme
        rmmod ublk_drv || fail "the module is in use"
        """,
        "--drive", "size=32M,serial=LAB1", "--kernel", KERNEL,
    )  # fmt: skip
