"""Linux's own virtio_blk on the verilated core: a file system, fio with verification, and a power cut, on a RAM disk, an
array, a SATA drive.

Own guests: the device of each is a process that must run before QEMU starts and that ends with it.
"""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "rtl"))
sys.path.insert(0, str(ROOT / "tests"))
import cores  # noqa: E402
from scripted import PRELUDE, own_guest  # noqa: E402

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


# Each file is named on standard output when `sync` has returned, while fio writes to the file system without a flush. Ends only
# with the machine.
FILES = 6
UNTIL_THE_CUT = r"""
modprobe virtio_blk && modprobe ext4
D=/dev/vda
until [ -b $D ]; do :; done
mkdir /tmp/mnt
rc 0 mkfs.ext4 -q -F -b 4096 $D
rc 0 mount $D /tmp/mnt
fio --name=noise --directory=/tmp/mnt --size=2M --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=8 \
    --time_based --runtime=1000 >/dev/null 2>&1 &
until [ -s /tmp/mnt/noise.0.0 ]; do :; done
for ((i = 1; ; i++)); do
  printf '%20000s' $i >/tmp/mnt/file$i
  sync /tmp/mnt/file$i || fail "sync"
  echo "durable $i"
done
"""
AFTER_THE_CUT = r"""
modprobe virtio_blk && modprobe ext4
D=/dev/vda
until [ -b $D ]; do :; done
mkdir /tmp/mnt
rc 0 mount $D /tmp/mnt
for ((i = 1; i <= %d; i++)); do
  same "$(</tmp/mnt/file$i)" "$(printf '%%20000s' $i)" "file $i after the power cut"
done
rc 0 umount /tmp/mnt
rc 0 e2fsck -fn $D
"""


@contextlib.contextmanager
def served(name, folder, *options):
    """The path of the socket at which the disk `name` is served."""
    program = cores.build_bench(f"vhost_user_{name}", "virtio_sim", "virtio/vhost_user.cpp",
                                {"Requests": 1, "Queues": 2, "BlockSizeLog2": 9, "Disks": 1, "Sata": 0} | DISKS[name][0], fast=True,
                                core="virtio_sim", level="-O1")
    socket, log = folder / "socket", folder / "log"
    with open(log, "w") as file:
        server = subprocess.Popen([program, socket, *options], stdout=file, stderr=file)
    try:
        while not socket.is_socket():
            assert server.poll() is None, log.read_text()
            time.sleep(0.05)
        yield server, socket
        assert server.wait(60) == 0, log.read_text()
        print(log.read_text())
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("name", DISKS)
def test_stock_virtio_blk(name, tmp_path):
    _, cache, more = DISKS[name]
    with served(name, tmp_path, *([str(BAD_BYTE)] if more == BAD else [])) as (_, socket):
        own_guest(SCRIPT % cache + more, "--cpus", "2", "--vhost-user", str(socket), "--no-iommu", timeout=300)


@pytest.mark.parametrize("name", DISKS)
def test_a_power_cut(name, tmp_path):
    """Guest, core and drive stop in the middle of writes, and unflushed blocks of the drive's cache are lost: the next guest's
    ext4 recovers, and has each file whose `sync` had returned."""
    with served(name, tmp_path) as (server, socket):
        options = ["--quick", "--cpus", "2", "--vhost-user", str(socket), "--no-iommu"]
        command = [ROOT / "lab" / "run", *options, "--timeout", "300", "--", "bash", "-c",
                   PRELUDE + UNTIL_THE_CUT]
        with open(tmp_path / "errors", "w+") as errors:
            guest = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
            durable = 0
            for line in guest.stdout:
                durable = int(line.removeprefix("durable "))
                if durable == FILES:
                    break
            assert durable == FILES, (tmp_path / "errors").read_text()
            server.send_signal(signal.SIGUSR1)
            guest.terminate()
            # Some more files may have become durable before the cut.
            durable += guest.stdout.read().count("\n")
            guest.stdout.close()
            guest.wait()
        own_guest(AFTER_THE_CUT % durable, *options, timeout=300)
