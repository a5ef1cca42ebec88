# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A drive that `straightway serve` takes from its driver, as a block device of Debian's kernel by the kernel's own client (nbd-client),
and as the disk of a virtual machine.

Own guests: a disk that is served by vhost-user is there when the machine begins.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import time

import pytest
from scripted import ROOT, TARGET, guest, own_guest


# partner: Linux's nbd | initiator
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


# partner: Linux's nbd | drive
# partner: nbdkit, qemu-nbd | target
@pytest.mark.skipif(shutil.which("nbd-client", path="/usr/sbin:/usr/bin") is None, reason="nbd-client is missing: tools/setup lab")
@pytest.mark.skipif(shutil.which("nbdkit") is None, reason="nbdkit is missing: tools/setup lab")
def test_volumes_live_on_the_servers_of_others():
    """A volume on the kernel's client of nbdkit and of qemu-nbd, whose server is killed under a recording: what was durable is there."""
    guest(
        r"""
        PATH=$PATH:/usr/sbin
        modprobe nbd max_part=0 nbds_max=1
        ip link set lo up 2>/dev/null
        head -c 3M /dev/urandom >/tmp/data; head -c 16M /dev/urandom >/tmp/stream
        serving() {
          if [ $1 = nbdkit ]; then nbdkit --foreground --unix /tmp/n.sock file /tmp/disk & server=$!
          else qemu-nbd --persistent --format raw --socket /tmp/n.sock /tmp/disk & server=$!; fi
          until [ -S /tmp/n.sock ]; do kill -0 $server || fail "$1"; sleep 0.1; done
          # Without a limit the driver may never return from a request that it sent to a server as that was killed.
          rc 0 nbd-client -unix /tmp/n.sock /dev/nbd0 -b 512 -t 30
        }
        for program in nbdkit qemu-nbd; do
          rm -f /tmp/disk; truncate -s 48M /tmp/disk
          serving $program
          rc 0 $S format /dev/nbd0 --destroy-data nbd0
          rc 0 $S put /dev/nbd0 /tmp/data a
          for path in auto block-direct; do
            rc 0 $S get /dev/nbd0 a - --path $path; cmp /tmp/out /tmp/data || fail "$program over $path"
          done
          rc 0 $S check /dev/nbd0
          # The server ends in the middle, without a word to its clients.
          for i in {0..255}; do dd if=/tmp/stream bs=64K count=1 skip=$i 2>/dev/null || break; sleep 0.05; done |
            $S record /dev/nbd0 take --block 64K --commit-interval 100ms --deadline 60s --acknowledge \
            >/tmp/durable 2>/tmp/said & recorder=$!
          until [ "$(grep -c durable /tmp/durable)" -ge 3 ]; do kill -0 $recorder || fail "$program: $(cat /tmp/said)"; sleep 0.1; done
          kill -KILL $server; wait $server 2>/dev/null
          wait $recorder && fail "$program: the recording does not say that it ended"
          durable=$(tail -n 1 /tmp/durable); durable=${durable##* }
          nbd-client -d /dev/nbd0 >/tmp/out 2>&1
          rm -f /tmp/n.sock
          serving $program
          rc 0 $S get /dev/nbd0 take /tmp/take
          size=$(stat -c %s /tmp/take)
          [ $size -ge $durable ] || fail "$program: $size bytes of $durable durable ones"
          cmp -n $size /tmp/take /tmp/stream || fail "$program: the recording"
          rm /tmp/take
          rc 0 $S put /dev/nbd0 /tmp/data b
          rc 0 $S check /dev/nbd0 --read-data
          rc 0 nbd-client -d /dev/nbd0
          kill -TERM $server; wait $server 2>/dev/null
          rm -f /tmp/n.sock
        done
        modprobe -r nbd || fail "the module is in use"
        """
    )


@contextlib.contextmanager
def served(folder, *words):
    """A server on this machine: its socket, and at the end its report."""
    socket, errors = folder / "s.sock", folder / "errors"
    with open(errors, "w") as file:
        server = subprocess.Popen([TARGET.command, "serve", *words, "--vhost-user", socket, "--json"],
                                  cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True)  # fmt: skip
    report = {}
    try:
        while " at unix:" not in errors.read_text():
            assert server.poll() is None, errors.read_text()
            time.sleep(0.05)
        yield socket, report
        server.send_signal(signal.SIGTERM)
        printed, _ = server.communicate(timeout=60)
        assert server.returncode == 0, errors.read_text()
        report.update(json.loads(printed))
    finally:
        server.kill()
        server.wait()


# partner: Linux's virtio_blk | guest driver
# partner: e2fsprogs | writer
def test_linux_uses_a_file_as_its_virtio_disk(tmp_path):
    disk = tmp_path / "disk"
    with open(disk, "wb") as file:
        file.truncate(64 << 20)
    with served(tmp_path, disk, "--write", "--destroy-data", disk) as (socket, report):
        own_guest(
            r"""
            modprobe virtio_blk
            Q=/sys/block/vda/queue
            same "$(</sys/block/vda/size)" 131072 "sectors"
            same "$(</sys/block/vda/ro)" 0 "read-only"
            same "$(<$Q/write_cache)" "write back" "the cache"
            [ $(<$Q/discard_max_bytes) -gt 0 ] || fail "no discards"
            [ $(<$Q/write_zeroes_max_bytes) -gt 0 ] || fail "no zeroing"
            head -c 8M /dev/urandom >/tmp/data
            rc 0 dd if=/tmp/data of=/dev/vda bs=1M oflag=direct conv=fsync
            dd if=/dev/vda bs=256K count=32 iflag=direct 2>/dev/null | cmp - /tmp/data || fail "the data"
            rc 0 blkdiscard -z -o 1M -l 2M /dev/vda
            dd if=/dev/vda bs=1M skip=1 count=2 iflag=direct 2>/dev/null | cmp - <(head -c 2M /dev/zero) || fail "zeroes"
            rc 0 mkfs.ext4 -qF /dev/vda
            mkdir -p /tmp/at && mount /dev/vda /tmp/at && cp /tmp/data /tmp/at/data && sync && fstrim /tmp/at && umount /tmp/at || fail "a file system"
            rc 0 e2fsck -fn /dev/vda
            mount /dev/vda /tmp/at && cmp /tmp/at/data /tmp/data && umount /tmp/at || fail "the file"
            """,
            "--vhost-user", str(socket), "--no-iommu",
        )  # fmt: skip
    assert report["failed_requests"] == 0
    assert report["refused_requests"] == 0
    requests = report["requests"]
    assert all(requests[kind] > 0 for kind in ("read", "write", "flush", "trim", "write_zeroes")), requests
    # What the guest's kernel flushed is in the file.
    subprocess.run(["e2fsck", "-fn", disk], check=True, capture_output=True, env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})


# A boot sector that copies sector 1 to sector 2, prints it on the first serial port, and ends the machine (isa-debug-exit).
BOOT_SECTOR = bytes.fromhex(
    "31c0 8ed8 8ec0 8ed0 bc007c"  # segments and a stack
    "be407c b442 cd13 7220"  # the BIOS's extended read
    "c606487c02 be407c b80043 cd13 7211"  # the same packet, sector 2, its extended write
    "be0080 b90002 ac baf803 ee e2f9"  # 512 bytes to the port
    "b000 eb02 b001 baf400 ee f4"  # status 0, or 1 after an error
)


def test_a_machine_boots_from_a_drive_over_the_straight_path():
    """The drive belongs to the server, by VFIO; the machine is a QEMU within the guest, and its BIOS has the driver."""
    packet = bytes.fromhex("1000 0100 0080 0000 0100000000000000")
    boot = BOOT_SECTOR.ljust(64, b"\xf4") + packet
    boot = boot.ljust(510, b"\0") + b"\x55\xaa"
    text = b"read by a BIOS over the straight path\n".ljust(512, b".")
    guest(
        r"""
        python3 - <<'END' | dd of=/dev/nvme0n1 bs=4K iflag=fullblock conv=sync,fsync 2>/dev/null
import sys
sys.stdout.buffer.write(%r)
END
        $S serve nvme0n1 --write --destroy-data LAB1 --vhost-user /tmp/s.sock --json >/tmp/report 2>/tmp/said & server=$!
        for i in $(seq 300); do grep -q ' at unix:' /tmp/said && break; kill -0 $server || fail "$(cat /tmp/said)"; sleep 0.1; done
        driver_is vfio-pci
        qemu-system-x86_64 -nodefaults -no-user-config -display none -accel tcg -M pc,memory-backend=m -m 16M \
            -object memory-backend-memfd,id=m,size=16M,share=on -chardev file,id=out,path=/tmp/printed -serial chardev:out \
            -chardev socket,id=s,path=/tmp/s.sock -device vhost-user-blk-pci,chardev=s,num-queues=1,bootindex=0 \
            -device isa-debug-exit,iobase=0xf4 2>/tmp/qemu; same $? 1 "the machine's end"
        kill -TERM $server; wait $server || fail "the server: $(cat /tmp/said)"
        grep -q '"failed_requests": 0' /tmp/report || fail "$(cat /tmp/report)"
        grep -q '"write": 1' /tmp/report || fail "$(cat /tmp/report)"
        driver_is nvme
        head -c 37 /tmp/printed | grep -qx 'read by a BIOS over the straight path' || fail "printed: $(cat /tmp/printed)"
        dd if=/dev/nvme0n1 bs=512 skip=2 count=1 2>/dev/null | cmp - <(head -c 512 /tmp/printed) || fail "sector 2"
        """ % (boot + text),
        "--drive", "size=16M,serial=LAB1",
    )  # fmt: skip
