# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Remote disks with the other ends that Linux has: its driver `aoe` and our target, `vblade` and our initiator.

Own guests: the process at the other end of a network card must run before QEMU starts.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "rtl"))
sys.path.insert(0, str(ROOT / "tests"))
import benches  # noqa: E402
from scripted import own_guest  # noqa: E402
from test_aoe import SHAPES  # noqa: E402

# The targets' slots, the largest frame of their cards, and what the driver puts into one.
TARGETS = {"default": (3, 1500, 1024), "jumbo": (4, 9000, 8192)}

START = """
modprobe virtio_net; modprobe ext4; mkdir /tmp/mnt
busybox ip link set eth0 mtu 1500 up; busybox ip link set eth1 mtu 9000 up
modprobe aoe
"""
# For a disk at slot %d whose frames have %d bytes of data.
TRIAL = r"""
N=e7.%d; D=/dev/etherd/$N; B=/sys/block/etherd!$N
until [ -b $D ]; do :; done
same "$(cat $B/size)" 49152 "the capacity of $N"
same "$(cat $B/state)" up "the state of $N"
same "$(cat $B/payload)" %d "the data of a frame of $N"
raw() { rc 0 fio --name=raw --filename=$D --direct=1 --size=1M --offset=8M --rw=randrw --bsrange=512-64k --ioengine=libaio --iodepth=16 \
    --verify=crc32c --verify_fatal=1 --randseed=$1; }
raw 2
rc 1 dd if=$D of=/dev/null bs=512 skip=40960 count=1 iflag=direct; said "Input/output error"
rc 1 dd if=/dev/zero of=$D bs=512 seek=40960 count=1 oflag=direct; said "Input/output error"
rc 0 dd if=$D of=/dev/null bs=512 skip=40961 count=1 iflag=direct
# Away for some requests, with a power cut: the driver repeats them.
rc 0 dd if=$D of=/dev/null bs=512 skip=49151 count=1 iflag=direct
raw 3
"""
FILES = r"""
rc 0 mkfs.ext4 -q -b 4096 $D
rc 0 mount $D /tmp/mnt
rc 0 fio --name=files --directory=/tmp/mnt --size=512k --numjobs=2 --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 \
    --end_fsync=1 --verify=crc32c --verify_fatal=1 --randseed=1
rc 0 umount /tmp/mnt
rc 0 mount $D /tmp/mnt
rc 0 fio --name=files --directory=/tmp/mnt --size=512k --numjobs=2 --rw=randread --bs=4k --verify_only --verify=crc32c --verify_fatal=1 --randseed=1
rc 0 umount /tmp/mnt
rc 0 e2fsck -fn $D
"""
# Away for longer than the driver waits; it returns when all targets are queried again and again.
AWAY = r"""
rc 0 dd if=$D of=/dev/null bs=512 skip=49150 count=1 iflag=direct
echo 1 >/sys/module/aoe/parameters/aoe_deadsecs
rc 1 dd if=$D of=/dev/null bs=512 count=1 iflag=direct; said "Input/output error"
same "$(cat $B/state)" down "the state of $N without its target"
echo 180 >/sys/module/aoe/parameters/aoe_deadsecs
until [ "$(cat $B/state)" = up ]; do echo 1 >/dev/etherd/discover; sleep 0.1; done
raw 4
"""


def program(name):
    return benches.build(f"aoe_{name}", "aoe_sim", "aoe/aoe_bench.cpp", SHAPES[name], core="aoe_sim", shared=True)


@contextlib.contextmanager
def running(log, *words):
    with open(log, "w") as file:
        process = subprocess.Popen([*map(str, words)], stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition, process, log):
    while not condition():
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)


# partner: Linux's aoe | initiator
def test_the_driver_of_linux(tmp_path):
    """mkfs, fio with verification, bad blocks, targets that lose their power or leave; frames of 1,500 and of 9,000 bytes."""
    with contextlib.ExitStack() as stack:
        options = []
        for name, (slot, _, _) in TARGETS.items():
            socket, log = tmp_path / name, tmp_path / f"{name}.log"
            server = stack.enter_context(running(log, program(name), "serve", socket, slot))
            until(socket.is_socket, server, log)
            options += ["--network", str(socket)]
        trials = [TRIAL % (slot, payload) for slot, _, payload in TARGETS.values()]
        own_guest(START + FILES.join(trials) + AWAY, *options, "--no-iommu", timeout=600)
        for name, (_, _, payload) in TARGETS.items():
            lines = (tmp_path / f"{name}.log").read_text().splitlines()
            left = lines.count("left"), lines.count("returned")
            assert f"sectors {payload // 512}" in lines and left == ((2, 2) if name == "jumbo" else (1, 1)), lines


VBLADE = r"""
modprobe virtio_net; modprobe af_packet; busybox ip link set eth0 up
cd %s
truncate -s 1M /tmp/disk
vblade 7 3 eth0 /tmp/disk >/dev/null 2>&1 & V=$!
>attach.begin
until [ -e attach.kill ]; do sleep 0.1; done
kill $V; wait $V
>attach.killed
until [ -e attach.start ]; do sleep 0.1; done
vblade 7 3 eth0 /tmp/disk >/dev/null 2>&1 &
until [ -e attach.done ]; do sleep 0.1; done
"""


# partner: vblade | target
@pytest.mark.skipif(shutil.which("vblade", path="/usr/sbin:/usr/bin:/sbin:/bin") is None, reason="vblade is missing; run: tools/setup lab")
def test_a_target_of_others(tmp_path):
    """vblade in a guest and our initiator: all blocks are read, written and read again; vblade ends, and starts again."""
    log = tmp_path / "log"
    with running(log, program("default"), "attach", tmp_path / "attach") as client:
        until((tmp_path / "attach").is_socket, client, log)
        own_guest(VBLADE % tmp_path, "--network", str(tmp_path / "attach"), "--share", str(tmp_path), "--no-iommu", timeout=300)
        assert client.wait(60) == 0, log.read_text()
    assert "blocks 2048" in log.read_text()
