# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The file system core on striped arrays of RAM disks, in several configurations. The command reads the core's volumes; a
failing disk causes an error only for the data on it. Mirrors: test_hwfs_sata.py.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from hwfs_script import benches  # noqa: E402
from test_hwfs import SEED, seeded, volume_with  # noqa: E402

SLOW = {"ReadLatency": 7, "ReadRateWords": 4, "ReadRateCycles": 5, "WriteLatency": 5, "WriteRateWords": 25,
        "WriteRateCycles": 32}
# Configurations that no other test has: of the array, and the core's maximum numbers of files and node sizes.
SHAPES = {
    "five_striped": {"Disks": 5, "DataWidth": 128, "StripeBlocks": 4, "SlotBlocks": 2, "NodeLog2Max": 12, "Files": 8,
                     "Outstanding": 7},
    "eight_striped": {"Disks": 8, "DataWidth": 256, "StripeBlocks": 4, "SlotBlocks": 2, "NodeLog2Max": 12, "Files": 8,
                      "Outstanding": 8},
}
IMAGE_BYTES = 1 << 20


def pattern(seed, offset, size):
    """The bytes that the bench generates from a seed (`byte_at` in hwfs_verbs.hpp)."""
    first = offset // 8
    words = b"".join(((first + at + seed) * 0x9e3779b97f4a7c15 & 2**64 - 1).to_bytes(8, "little")
                     for at in range(size // 8 + 2))
    return words[offset % 8:offset % 8 + size]


@pytest.fixture(scope="module", params=SHAPES)
def array(request):
    """A bench and its configuration."""
    shape = {"BlockSizeLog2": 6, "DiskWidth": 32, "DiskBlocks": 20000, "TimeoutCycles": 20000, **SLOW, **SHAPES[request.param]}
    program = benches.build(f"hwfs_disks_{request.param}", "hwfs_disks_sim", "hwfs_disks_bench.cpp", shape, level="-O0")
    return program, SHAPES[request.param]


def run(program, lines):
    done = subprocess.run([program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=300)
    assert done.returncode == 0, "\n".join(lines) + done.stdout[-2000:]
    return [line.split() for line in done.stdout.splitlines()]


def statuses(results):
    return [int(result[0]) for result in results if result[0] != "count"]


def test_files_on_an_array(array, tmp_path):
    """Reads the command's file, creates and deletes files by every command, and compares the result with the command."""
    program, shape = array
    pick = seeded("arrays")
    node = 1 << shape["NodeLog2Max"]
    theirs = pattern(7, 0, 30001)
    image = volume_with(tmp_path / "v", {"theirs": theirs, "gone": b"x" * 5000}, size="1M", node=node, slots=16)
    file = shape["Files"] - 1
    lines = [f"load {image}", "mount", "get theirs 0 30001 7", "delete gone", "put whole 50000 1"]
    size, wanted = 0, {"theirs": theirs, "whole": pattern(1, 0, 50000)}
    lines.append(f"create {file} pieces 4000")
    for _ in range(8):
        piece = pick.choice([1, 64, 3000, pick.randint(1, 9000)])
        lines.append(f"write {file} {size} {piece} 2")
        size += piece
    lines += [f"close {file}", f"openw {file} pieces"]
    for _ in range(4):
        offset = pick.randrange(size)
        lines.append(f"write {file} {offset} {pick.randint(1, size - offset)} 2")
    lines += [f"sync {file}"]
    for _ in range(4):
        offset = pick.randrange(size)
        lines.append(f"read {file} {offset} {pick.randint(1, size - offset)} 2")
    lines += [f"close {file}", "unmount", f"save {tmp_path / 'after'} {IMAGE_BYTES}"]
    wanted["pieces"] = pattern(2, 0, size)
    results = run(program, lines)
    assert set(statuses(results)) == {hw.OK}, f"STRAIGHTWAY_SEED={SEED} {results}"
    assert "3 files" in hw.check(tmp_path / "after")
    for name, data in wanted.items():
        assert hw.contents(tmp_path / "after", name, tmp_path) == data, f"STRAIGHTWAY_SEED={SEED} {name}"


def test_a_disk_that_fails(array, tmp_path):
    """One disk's memory fails at a file's data: reads of them end with Device, other data can be read."""
    program, shape = array
    size = 40000
    image = volume_with(tmp_path / "v", {"one": pattern(3, 0, size)}, size="1M", node=1 << shape["NodeLog2Max"],
                        slots=16)
    data = int.from_bytes(image.read_bytes()[104:112], "little")
    # On an empty volume, a file begins at the start of the data area.
    stripe = shape["StripeBlocks"] * 64
    disk, address = data // stripe % shape["Disks"], data // stripe // shape["Disks"] * stripe + data % stripe
    lines = [f"load {image}", "mount", f"fault {disk} {address}", f"get one 0 {size} 3", f"get one {size // 2} 1000 3",
             "openw 0 one", "write 0 0 1000 3", "count", "close 0", f"get one {size // 2} 1000 3", "fault none",
             "mount", "put two 3000 4", f"get one {size // 2} 1000 3", "unmount",
             f"save {tmp_path / 'after'} {IMAGE_BYTES}"]
    results = run(program, lines)
    failed = next(int(result[5]) for result in results if result[0] == "count")
    got = statuses(results)
    assert got[:4] == [hw.OK, hw.DEVICE, hw.OK, hw.OK] and failed == 0
    assert got[4] == hw.DEVICE
    assert set(got[9:]) == {hw.OK}, got
    assert "2 files" in hw.check(tmp_path / "after")
    assert hw.names_on(tmp_path / "after") == {"one", "two"}
    assert hw.contents(tmp_path / "after", "two", tmp_path) == pattern(4, 0, 3000)
