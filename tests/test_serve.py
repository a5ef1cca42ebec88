"""A drive that `straightway serve` takes from its driver, as a block device of Debian's kernel by the kernel's own client (nbd-client)."""

import shutil

import pytest
from scripted import guest


@pytest.mark.skipif(shutil.which("nbd-client", path="/usr/sbin:/usr/bin") is None, reason="nbd-client is missing: tools/setup lab")
def test_the_kernel_reads_and_writes_a_drive_over_the_straight_path():
    guest(
        r"""
        PATH=$PATH:/usr/sbin
        modprobe nbd max_part=0 nbds_max=1
        ip link set lo up 2>/dev/null
        head -c 4M /dev/urandom >/tmp/data
        # It refuses what is mounted, to write.
        mkfs.ext4 -qF /dev/nvme0n1 && mkdir -p /tmp/at && mount /dev/nvme0n1 /tmp/at
        rc 3 $S serve nvme0n1 --write --destroy-data LAB1 --nbd /tmp/s.sock; said 'is mounted at'
        umount /tmp/at
        $S serve nvme0n1 --write --destroy-data LAB1 --nbd /tmp/s.sock --json >/tmp/report 2>/tmp/said & server=$!
        for i in $(seq 300); do grep -q ' at nbd' /tmp/said && break; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
        driver_is vfio-pci
        rc 0 nbd-client -unix /tmp/s.sock /dev/nbd0 -b 512
        same "$(cat /sys/block/nbd0/size)" 32768 "sectors"
        # A file system that the kernel made on the drive before is seen through the server.
        mount /dev/nbd0 /tmp/at && cp /tmp/data /tmp/at/data && sync && umount /tmp/at || fail "a file system"
        rc 0 nbd-client -d /dev/nbd0
        kill -TERM $server; wait $server || fail "the server: $(cat /tmp/said)"
        grep -q '"failed_requests": 0' /tmp/report || fail "$(cat /tmp/report)"
        grep -q '"refused_requests": 0' /tmp/report || fail "$(cat /tmp/report)"
        driver_is nvme
        # What the kernel wrote over the network block device is on the drive.
        mount -o ro /dev/nvme0n1 /tmp/at && cmp /tmp/at/data /tmp/data || fail "the data"
        umount /tmp/at
        modprobe -r nbd || fail "the module is in use"
        """,
        "--drive", "size=16M,serial=LAB1",
    )  # fmt: skip


def test_a_server_without_requests_gives_a_recalled_drive_back():
    guest(
        r"""
        $S serve nvme0n1 --nbd /tmp/s.sock >/tmp/report 2>/tmp/said & server=$!
        for i in $(seq 300); do grep -q ' at nbd' /tmp/said && break; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
        driver_is vfio-pci
        echo $BDF >/sys/bus/pci/drivers/vfio-pci/unbind
        wait $server; same $? 3 "the exit status"
        grep -q 'no longer answers' /tmp/said || fail "$(cat /tmp/said)"
        [ ! -e /tmp/s.sock ] || fail "the socket is left"
        until [ -b /dev/nvme0n1 ]; do sleep 0.1; done
        driver_is nvme
        """,
        "--drive", "size=16M,serial=LAB1",
    )  # fmt: skip
