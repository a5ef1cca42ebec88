# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One guest of lab/run, and everything that README.md promises about it.

Own guests: lab/run itself is tested. This one serves every test here.
"""

import os

import pytest

from test_lab import OUT, REPOSITORY, lab

pytestmark = pytest.mark.cells("lab")

LOOK = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
say kernel "$(uname -rv)"
say host "$(hostname)"
say folder "$(pwd)"
say marker "$STRAIGHTWAY_LAB"
say path "$PATH"
say user "$(id -u)"
say cpus "$(nproc)"
say stdin "$(wc -c)"
say memlock "$(ulimit -l)"
say groups "$(ls /sys/kernel/iommu_groups | wc -l)"
# Capability register, bits 21:16: the widest address less one.
say width "$((((0x$(cat /sys/class/iommu/dmar0/intel-iommu/cap) >> 16) & 63) + 1))"
say block_0 "$(cat /sys/block/nvme0n1/queue/logical_block_size)"
say block_1 "$(cat /sys/block/nvme1n1/queue/logical_block_size)"
say bytes_1 "$(blockdev --getsize64 /dev/nvme1n1)"
say drives "$(echo /dev/nvme?n?)"
say serial_0 "$(cat /sys/class/nvme/nvme0/serial | tr -d ' ')"
say mdts "$(nvme id-ctrl /dev/nvme0 | sed -n 's/^mdts *: //p')"
say transfer_kib "$(cat /sys/block/nvme0n1/queue/max_hw_sectors_kb)"
say polls "$(cat /sys/module/nvme/parameters/poll_queues)"
say loop "$(ip -br addr show lo | grep -c 127.0.0.1)"
say mounted "$(awk '{ printf "%s:%s ", $3, $2 }' /proc/mounts)"
say module "$(modprobe nbd && test -d /sys/module/nbd && echo loaded)"
# At least one of them has moved twice by then.
moves() { sed -n 's/^se.nr_migrations *: *//p' $(pgrep -x perl | sed 's:.*:/proc/&/sched:'); }
say waking "$(until [ $(moves | sort -n | tail -n 1) -gt 1 ]; do sleep 0.1; done; moves | wc -l)"
echo 8 >/proc/sys/vm/nr_hugepages
say hugepages "$(cat /proc/sys/vm/nr_hugepages)"
echo again >/dev/stderr
say fio "$(fio --name=a --filename=/dev/nvme0n1 --rw=read --bs=4k --size=1M --direct=1 --ioengine=io_uring --hipri=1 |
    sed -n 's/.*issued rwts: total=\([0-9]*\),.*/\1/p')"
touch "$0"/written-in-the-guest && say overlay "$(ls "$0"/written-in-the-guest)"
"""


@pytest.fixture(scope="module")
def look(tmp_path_factory) -> dict[str, str]:
    done = lab("--drive", "mdts=1,logical_block_size=4096,size=256M", "--drive", "namespaces=2,size=64M",
               "--", "sh", "-c", LOOK, str(REPOSITORY / "lab"))  # fmt: skip
    assert done.stderr == b"again\n"
    return dict(line.split("=", 1) for line in done.stdout.decode().splitlines())


def test_the_guest_is_as_promised(look):
    assert (look["host"], look["user"], look["cpus"]) == ("lab", "0", "2")
    assert (look["stdin"], look["memlock"], look["loop"]) == ("0", "unlimited", "1")
    assert look["folder"] == str(REPOSITORY) and look["marker"] == "1"
    assert set(os.environ["PATH"].split(":")) <= set(look["path"].split(":"))
    # Two processes wake the processors by moving over them.
    assert look["waking"] == "2"
    assert "PREEMPT_RT" not in look["kernel"]
    assert look["module"] == "loaded" and look["hugepages"] == "8"


def test_the_usual_file_systems_are_mounted(look):
    for mount in ("proc:/proc", "sysfs:/sys", "devtmpfs:/dev", "devpts:/dev/pts", "tmpfs:/dev/shm", "tmpfs:/tmp",
                  "tmpfs:/run", "debugfs:/sys/kernel/debug", "tracefs:/sys/kernel/tracing",
                  "configfs:/sys/kernel/config", f"9p:{OUT}"):  # fmt: skip
        assert f"{mount} " in look["mounted"]


def test_drives_and_namespaces(look):
    assert look["drives"] == "/dev/nvme0n1 /dev/nvme1n1 /dev/nvme1n2"
    assert (look["block_0"], look["block_1"], look["bytes_1"]) == ("4096", "512", str(64 << 20))
    assert look["serial_0"] == "straightway0"


def test_mdts_reaches_the_drive(look):
    assert (look["mdts"], look["transfer_kib"]) == ("1", "8")


def test_an_iommu_is_there_by_default(look):
    assert int(look["groups"]) > 0 and look["width"] == "39"


def test_fio_reads_by_polling(look):
    assert look["polls"] == "1"
    assert look["fio"] == "256"


def test_what_the_guest_writes_stays_there(look):
    assert look["overlay"].endswith("written-in-the-guest")
    assert not (REPOSITORY / "lab" / "written-in-the-guest").exists()
