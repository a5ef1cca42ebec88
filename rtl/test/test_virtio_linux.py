"""Linux's own virtio_blk on the verilated core: a file system, fio with verification, on a RAM disk, an array, a SATA drive.

Own guests: the device of each is a process that must run before QEMU starts and that ends with it.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "rtl"))
sys.path.insert(0, str(ROOT / "tests"))
import cores  # noqa: E402
from scripted import own_guest  # noqa: E402

BAD_BYTE = 20 << 20
# Only reads and writes that touch BAD_BYTE fail.
BAD = r"""
rc 1 dd if=$D of=/dev/null bs=4k skip=5120 count=1 iflag=direct; said "Input/output error"
rc 1 dd if=/dev/zero of=$D bs=4k seek=5120 count=1 oflag=direct; said "Input/output error"
rc 0 dd if=$D of=/dev/null bs=4k skip=5121 count=1 iflag=direct
"""
DISCARD = "rc 0 blkdiscard -o 8M -l 1M $D"
# The backing devices: parameters of virtio_sim, the cache mode that Linux reports, and further commands.
DISKS = {
    "ram_disk": ({"DiskBlocks": 49152}, "write through", BAD),
    "array": ({"Requests": 4, "Disks": 2, "DiskBlocks": 24576}, "write through", ""),
    "sata": ({"Requests": 8, "Sata": 1, "DiskBlocks": 49152}, "write back", DISCARD),
}
SCRIPT = r"""
modprobe virtio_blk && modprobe ext4
D=/dev/vda
until [ -b $D ]; do :; done
same "$(cat /sys/block/vda/size)" 49152 "the capacity"
same "$(cat /sys/block/vda/queue/write_cache)" "%s" "the cache"
same "$(cat /sys/block/vda/serial)" straightway-virtio-0 "the name"
same "$(ls /sys/block/vda/mq | wc -l)" 2 "the queues"
rc 0 mkfs.ext4 -q -b 4096 $D
mkdir /tmp/mnt
rc 0 mount $D /tmp/mnt
rc 0 fio --name=files --directory=/tmp/mnt --size=1M --numjobs=2 --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 \
    --end_fsync=1 --verify=crc32c --verify_fatal=1 --randseed=1
rc 0 umount /tmp/mnt
rc 0 mount $D /tmp/mnt
rc 0 fio --name=files --directory=/tmp/mnt --size=1M --numjobs=2 --rw=randread --bs=4k --verify_only --verify=crc32c --verify_fatal=1 --randseed=1
rc 0 umount /tmp/mnt
rc 0 e2fsck -fn $D
rc 0 fio --name=raw --filename=$D --direct=1 --size=4M --offset=8M --rw=randrw --bsrange=512-64k --ioengine=libaio --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --randseed=2
rc 0 blkdiscard -z -o 12M -l 1M $D
rc 0 cmp -n 1M -i 12M:0 $D /dev/zero
"""


@pytest.mark.parametrize("name", DISKS)
def test_stock_virtio_blk(name, tmp_path):
    parameters, cache, more = DISKS[name]
    program = cores.build_bench(f"vhost_user_{name}", "virtio_sim", "virtio/vhost_user.cpp",
                                {"Requests": 1, "Queues": 2, "BlockSizeLog2": 9, "Disks": 1, "Sata": 0} | parameters, fast=True,
                                core="virtio_sim", level="-O1")
    socket = tmp_path / "socket"
    with open(tmp_path / "log", "w") as log:
        server = subprocess.Popen([program, socket, *([str(BAD_BYTE)] if more == BAD else [])], stdout=log, stderr=log)
    try:
        while not socket.is_socket():
            assert server.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.05)
        own_guest(SCRIPT % cache + more, "--cpus", "2", "--vhost-user", str(socket), "--no-iommu", timeout=300)
        assert server.wait(60) == 0, (tmp_path / "log").read_text()
        print((tmp_path / "log").read_text())
    finally:
        server.kill()
        server.wait()
