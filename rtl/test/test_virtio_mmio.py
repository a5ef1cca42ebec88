# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Linux's virtio_mmio on the core's registers: its accesses to QEMU's device are recorded while it probes, leaves and comes back, and
replayed on the verilated core with requests in flight at every reset.

Own guests: a board whose devices are on MMIO, with no more than a shell, because QEMU traces all accesses of all devices.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))
import image  # noqa: E402
from test_virtio import SEED, run  # noqa: E402

ARCH, QEMU = "aarch64", "qemu-system-aarch64"
# The drivers, and what they need, are loaded one after the other.
INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
io() {
  until [ -b /dev/vda ]; do :; done
  dd if=/dev/vda of=/dev/null bs=4k count=8 iflag=direct && dd if=/dev/zero of=/dev/vda bs=16k count=4 oflag=direct && echo lab: moved
}
%s
echo "lab: kernel $(uname -r)"
io
echo -n virtio0 >/sys/bus/virtio/drivers/virtio_blk/unbind
echo -n virtio0 >/sys/bus/virtio/drivers/virtio_blk/bind
io
rmmod virtio_blk
insmod /lib/virtio_blk.ko
io
rmmod virtio_blk && rmmod virtio_mmio && echo lab: left
reboot -f
"""
ACCESS = re.compile(r"^memory_region_ops_(read|write) cpu \d+ mr \S+ addr (\S+) value (\S+) size \d name 'virtio-mmio'$", re.M)
DEVICE_ID, BLOCK = 0x8, 2


def initrd(kernel):
    """A shell, the two drivers, and INIT."""
    needs = {}
    for line in (kernel.modules / "modules.dep").read_text().replace(".ko.xz", ".ko").splitlines():
        path, _, others = line.partition(":")
        needs[Path(path).name] = [path, *others.split()]
    # Each module's needs are in the order in which they depend on each other, the nearest first.
    order = dict.fromkeys(path for name in ("virtio_mmio.ko", "virtio_blk.ko") for path in reversed(needs[name]))
    archive = image.Archive()
    for folder in ("bin", "dev", "lib", "proc", "sys"):
        archive.folder(folder)
    archive.character_device("dev/console", 5, 1)
    archive.character_device("dev/null", 1, 3)
    archive.file("bin/busybox", image._busybox(ARCH).read_bytes(), 0o755)
    for path in order:
        archive.file(f"lib/{Path(path).name}", image._module(kernel.modules / path), 0o644)
    archive.file("init", (INIT % "\n".join(f"insmod /lib/{Path(path).name}" for path in order)).encode(), 0o755)
    return archive.finish()


def recorded(flavour, folder):
    """The accesses to the block device's registers, as (kind, offset, value)."""
    try:
        kernel = image.find_kernel(flavour, ARCH)
        (folder / "initrd").write_bytes(initrd(kernel))
    except image.NotSetUp as error:
        pytest.skip(str(error))
    if not shutil.which(QEMU):
        pytest.skip(f"there is no {QEMU}; run: tools/setup lab-aarch64")
    with open(folder / "disk", "wb") as disk:
        disk.truncate(4 << 20)
    command = [QEMU, "-M", "virt,gic-version=3", "-cpu", "cortex-a76" if flavour == "16k" else "cortex-a72", "-accel", "tcg", "-m", "512M",
               "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
               "-kernel", image.boot_image(kernel), "-initrd", folder / "initrd",
               "-append", "console=ttyAMA0 panic=-1 oops=panic quiet cryptomgr.notests",
               "-global", "virtio-mmio.force-legacy=false", "-drive", f"file={folder / 'disk'},if=none,id=disk,format=raw",
               "-device", "virtio-blk-device,drive=disk",
               "-trace", "memory_region_ops_read", "-trace", "memory_region_ops_write", "-D", folder / "accesses"]  # fmt: skip
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0 and done.stdout.count("lab: moved") == 3 and "lab: left" in done.stdout, done.stdout + done.stderr
    print(f"seed {SEED}, Linux {kernel.release}")
    accesses = [(kind[0], int(address, 16), int(value, 16))
                for kind, address, value in ACCESS.findall((folder / "accesses").read_text())]  # fmt: skip
    # The board has 32 such devices, each with 512 bytes.
    base = {address & ~0x1ff for kind, address, value in accesses if kind == "r" and address & 0x1ff == DEVICE_ID and value == BLOCK}
    assert len(base) == 1, base
    return [(kind, address & 0x1ff, value) for kind, address, value in accesses if address & ~0x1ff in base]


# partner: Linux's virtio_mmio | guest driver
@pytest.mark.parametrize("flavour", ["stock", "16k"])
def test_the_registers_as_linux_uses_them(flavour, tmp_path):
    """Probe, requests, unbind, bind, unload, load. Every reset finds requests in flight, and is not waited for."""
    accesses = recorded(flavour, tmp_path)
    # After the reset that a driver leaves with, Linux stops the queue and reads whether it has stopped, once, before it frees it.
    leave = [("w", 0x70, 0), ("w", 0x30, 0), ("w", 0x44, 0), ("r", 0x44, 0)]
    assert sum(accesses[at:at + 4] == leave for at in range(len(accesses))) == 3, accesses
    trace = tmp_path / "trace"
    trace.write_text("".join(f"{kind} {offset:x} {value:x}\n" for kind, offset, value in accesses))
    behind = 0
    for shape, latency in (("one_request", 500), ("one_request", 20000), ("four_requests", 500), ("four_requests", 20000)):
        words = run(shape, "trace", str(SEED), str(latency), str(trace)).split()
        counts = dict(zip(words[::2], map(int, words[1::2])))
        # Three times each: with no pause between two accesses, a short one and a long one.
        assert counts["accesses"] == 3 * len(accesses) and counts["lives"] == 9 and counts["resets"] >= 9, counts
        assert counts["requests"] > 30, counts
        behind += counts["behind"]
    # Drivers that were ready while the disk still had the requests of the one before.
    assert behind > 0
