# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Remote disks with the other ends that Linux has: its driver `aoe` and our target, `vblade` and our initiator.

Own guests: the process at the other end of a network card must run before QEMU starts.
"""

import contextlib
import re
import shutil
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "rtl"))
sys.path.insert(0, str(ROOT / "tests"))
import benches  # noqa: E402
from scripted import own_guest  # noqa: E402
from servers import running, told  # noqa: E402
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


# The initiator's ticks are longer than those of the other benches: the frames of eight slots move 4,000 cycles, and the guest's time must
# count, not that of the simulation.
ATTACHED = SHAPES["default"] | {"TickLog2": 11, "TimeoutCycles": 2000000}


def program(name):
    return benches.build(f"aoe_{name}", "aoe_sim", "aoe/aoe_bench.cpp", (SHAPES | {"attached": ATTACHED})[name], core="aoe_sim", shared=True)


# partner: Linux's aoe | initiator
@pytest.mark.cells("linux")
def test_the_driver_of_linux(tmp_path):
    """mkfs, fio with verification, bad blocks, targets that lose their power or leave; frames of 1,500 and of 9,000 bytes."""
    with contextlib.ExitStack() as stack:
        options, servers = [], []
        for name, (slot, _, _) in TARGETS.items():
            socket = tmp_path / name
            servers.append(stack.enter_context(running(tmp_path / f"{name}.log", program(name), "serve", socket, slot)))
            servers[-1].until(socket.is_socket)
            options += ["--network", str(socket)]
        stack.enter_context(told(*servers))
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
# A step of the initiator, which may end instead.
step() {
  echo "waits for $1" >&2
  until [ -e attach.$1 ]; do
    [ ! -e attach.ended ] || fail "the initiator ended before $1"
    [ -z "$V" ] || kill -0 $V || fail "vblade ended before $1"
    sleep 0.1
  done
}
serve() { vblade 7 3 eth0 /tmp/disk >/dev/null 2>&1 & V=$!; }
serve
>attach.begin
step kill
kill $V; wait $V; V=
>attach.killed
step start
serve
step done
"""


# partner: vblade | target
@pytest.mark.skipif(shutil.which("vblade", path="/usr/sbin:/usr/bin:/sbin:/bin") is None, reason="vblade is missing; run: tools/setup lab")
@pytest.mark.cells("linux")
def test_a_target_of_others(tmp_path):
    """vblade in a guest and our initiator: all blocks are read, written and read again; vblade ends, and starts again."""
    socket, ended = tmp_path / "attach", tmp_path / "attach.ended"
    with running(tmp_path / "log", program("attached"), "attach", socket) as client, told(client):
        client.until(socket.is_socket)
        watch = threading.Thread(target=lambda: (client.process.wait(), ended.touch()))
        watch.start()
        try:
            own_guest(VBLADE % tmp_path, "--network", str(socket), "--share", str(tmp_path), "--no-iommu", timeout=300)
            assert client.process.wait(60) == 0
        finally:
            client.end()
            watch.join()
    found = dict(re.findall(r"^(blocks|again) (\d+)$", client.said, re.M))
    assert found["blocks"] == "2048"
    # Of 3,000 frames. An initiator whose time is that of the simulation sends each a second time before the guest can answer, and gives up
    # when the guest stands still.
    assert int(found["again"]) < 1000
