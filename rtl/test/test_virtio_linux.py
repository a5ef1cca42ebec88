# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Linux's own virtio_blk on the verilated core: a file system, fio with verification, and a power cut, on a RAM disk, an
array, a SATA drive, which one guest has at the same time.

Own guests: the device of each is a process that must run before QEMU starts and that ends with it.
"""

# partner: Linux's virtio_blk | guest driver

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "rtl"))
sys.path.insert(0, str(ROOT / "tests"))
import benches  # noqa: E402
sys.path.insert(0, str(ROOT / "tools"))
from scripted import lab_run, own_guest  # noqa: E402
from servers import running, told  # noqa: E402
from suites import deal  # noqa: E402

BAD_BYTE = 20 << 20
# Only reads and writes that touch BAD_BYTE fail.
BAD = r"""
rc 1 dd if=$D of=/dev/null bs=4k skip=5120 count=1 iflag=direct; said "Input/output error"
rc 1 dd if=/dev/zero of=$D bs=4k seek=5120 count=1 oflag=direct; said "Input/output error"
rc 0 dd if=$D of=/dev/null bs=4k skip=5121 count=1 iflag=direct
"""
DISCARD = "rc 0 blkdiscard -o 8M -l 1M $D\n"
# The backing devices, from /dev/vda: parameters of virtio_sim, the cache mode that Linux reports, and further commands.
DISKS = {
    "ram_disk": ({"DiskBlocks": 49152}, "write through", BAD),
    "array": ({"Requests": 4, "Disks": 2, "DiskBlocks": 24576}, "write through", ""),
    "sata": ({"Requests": 8, "Sata": 1, "DiskBlocks": 49152}, "write back", DISCARD),
}
START = """
modprobe virtio_blk && modprobe ext4
mkdir /tmp/mnt
"""
# For a disk of the name %s at /dev/%s with the cache %s.
TRIAL = r"""
NAME=%s V=%s D=/dev/$V
until [ -b $D ]; do :; done
same "$(cat /sys/block/$V/size)" 49152 "the capacity of $NAME"
same "$(cat /sys/block/$V/queue/write_cache)" "%s" "the cache of $NAME"
same "$(cat /sys/block/$V/serial)" straightway-virtio-0 "the name of $NAME"
same "$(ls /sys/block/$V/mq | wc -l)" 2 "the queues of $NAME"
rc 0 mkfs.ext4 -q -b 4096 $D
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
until_the_cut() {
  local name=$1 disk=/dev/$2 at=/tmp/mnt/$1
  until [ -b $disk ]; do :; done
  mkdir $at
  mkfs.ext4 -q -F -b 4096 $disk && mount $disk $at || fail "$name"
  fio --name=noise --directory=$at --size=2M --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=8 \
      --time_based --runtime=1000 >/dev/null 2>&1 &
  until [ -s $at/noise.0.0 ]; do :; done
  for ((i = 1; ; i++)); do
    printf '%20000s' $name$i >$at/file$i
    sync $at/file$i || fail "sync of $name"
    echo "durable $name $i"
  done
}
"""
AFTER_THE_CUT = r"""
NAME=%s D=/dev/%s
until [ -b $D ]; do :; done
rc 0 mount $D /tmp/mnt
for ((i = 1; i <= %d; i++)); do
  same "$(</tmp/mnt/file$i)" "$(printf '%%20000s' $NAME$i)" "file $i of $NAME after the power cut"
done
rc 0 umount /tmp/mnt
rc 0 e2fsck -fn $D
"""


@contextlib.contextmanager
def served(folder):
    """The server processes of the disks, and the options of lab/run for their sockets."""
    servers, options = [], ["--cpus", "2", "--no-iommu"]
    with contextlib.ExitStack() as stack:
        for name, (parameters, _, more) in DISKS.items():
            program = benches.build(f"vhost_user_{name}", "virtio_sim", "virtio/vhost_user.cpp",
                                        {"Requests": 1, "Queues": 2, "BlockSizeLog2": 9, "Disks": 1, "Sata": 0} | parameters, fast=True,
                                        core="virtio_sim", level="-O1", shared=True)
            socket = folder / name
            servers.append(stack.enter_context(running(folder / f"{name}.log", program, socket, *([BAD_BYTE] if more == BAD else []))))
            servers[-1].until(socket.is_socket)
            options += ["--vhost-user", str(socket)]
        with told(*servers):
            yield servers, options
            for server in servers:
                assert server.process.wait(60) == 0


def nodes():
    """Each disk's name and the name of its block device."""
    return zip(DISKS, ("vda", "vdb", "vdc"))


@pytest.mark.cells("linux")
def test_stock_virtio_blk(tmp_path):
    taken = deal.taken(dict.fromkeys(DISKS, "disk"))
    with served(tmp_path) as (_, options):
        trials = (TRIAL % (name, node, DISKS[name][1]) + DISKS[name][2] for name, node in nodes() if name in taken)
        own_guest(START + "".join(trials), *options, timeout=600)


def test_a_power_cut(tmp_path):
    """Guest, cores and drives stop in the middle of writes, and unflushed blocks of a drive's cache are lost: the next guest's
    ext4 recovers, and has each file whose `sync` had returned."""
    with served(tmp_path) as (servers, options):
        script = START + UNTIL_THE_CUT + "".join(f"until_the_cut {name} {node} &\n" for name, node in nodes()) + "wait\n"
        command = lab_run(script, "--quick", *options)
        durable = dict.fromkeys(DISKS, 0)
        with open(tmp_path / "errors", "w+") as errors:
            guest = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)

            def note(line):
                _, name, number = line.split()
                durable[name] = int(number)

            for line in guest.stdout:
                note(line)
                if min(durable.values()) >= FILES:
                    break
            assert min(durable.values()) >= FILES, f"{durable}: {(tmp_path / 'errors').read_text()}"
            for server in servers:
                server.process.send_signal(signal.SIGUSR1)
            guest.terminate()
            # Some more files may have become durable before the cut; the last line can be incomplete.
            for line in guest.stdout.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    note(line)
            guest.stdout.close()
            guest.wait()
        checks = (AFTER_THE_CUT % (name, node, durable[name]) for name, node in nodes())
        own_guest(START + "".join(checks), *options, timeout=600)
