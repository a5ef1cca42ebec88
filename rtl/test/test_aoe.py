# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Remote disks by ATA over Ethernet: single frames, faulty networks, targets that leave, arrays of remote disks.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import benches  # noqa: E402
import cores  # noqa: E402
import hwfs_script as hw  # noqa: E402
import sizes  # noqa: E402
from test_hwfs import volume_with  # noqa: E402
from test_hwfs_disks import pattern  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

SHAPE = {"Slots": 8, "Buffers": 4, "Initiators": 1, "SectorsLog2": 1, "Tries": 5, "TickLog2": 8, "RetryTicks": 8, "LifeTicks": 64, "TargetChecks": 1}
SHAPES = {
    "default": SHAPE,
    # Frames of 9,000 bytes, a target without the checksum.
    "jumbo": SHAPE | {"Slots": 4, "Buffers": 2, "SectorsLog2": 4, "TargetChecks": 0},
}

# One target for two initiators, or for three.
SHARED = {name: SHAPE | {"RetryTicks": 32} | shape
          for name, shape in {"two_initiators": {"Initiators": 2}, "three_initiators": {"Buffers": 8, "Initiators": 3}}.items()}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("aoe_target", "aoe", {}),
    ("aoe_target", "aoe", {"Buffers": 2, "SectorsLog2": 0, "Checksums": 0, "LeastWords": 9}),
    ("aoe_target", "aoe", {"Buffers": 16, "Initiators": 3, "SectorsLog2": 4}),
    ("aoe_initiator", "aoe", {}),
    ("aoe_initiator", "aoe", {"Slots": 2, "SectorsLog2": 0, "Tries": 2, "Checksums": 0, "LeastWords": 9}),
    ("aoe_initiator", "aoe", {"Slots": 16, "SectorsLog2": 4, "Tries": 8}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.repeated()
@pytest.mark.parametrize("name,rams", [("aoe_target", 2), ("aoe_initiator", 4)])
def test_yosys_reads_it_too(name, rams):
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; data are in block RAM."""
    assert sizes.block_rams(name, "xc7") == rams


def build(name):
    return benches.build(f"aoe_{name}", "aoe_sim", "aoe/aoe_bench.cpp", (SHAPES | SHARED)[name], core="aoe_sim", shared=True)


def run(name, *words):
    done = subprocess.run([build(name), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{name}: aoe_bench {' '.join(map(str, words))}\n{done.stdout[-2000:]}"
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_single_frames(name):
    """Each command, each error of the protocol and of ATA, each kind of frame that is ignored; copies of a write in order."""
    for seed in range(SEED, SEED + 2):
        run(name, "directed", seed)


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_a_target_of_others(name):
    """Of any size of frames and number of buffers, with 28 or 48 bits of address; wrong answers; copies; the attempts' times."""
    run(name, "foreign", SEED)


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_a_faulty_network(name):
    """Loss, copies, delays, other orders and damage, power cuts of the target: each block has the contents that its host wrote last."""
    floors = {"good": 400, "again": 50, "damaged": 10, "repeated": 20, "resets": 10}
    total = dict.fromkeys(floors, 0)
    # At least eight networks; a few more where chance gave these too little to show.
    for seed in range(SEED, SEED + 16):
        if seed >= SEED + 8 and all(total[key] > floor for key, floor in floors.items()):
            break
        found = run(name, "random", seed, 250000)
        total = {key: count + found[key] for key, count in total.items()}
    assert all(total[key] > floor for key, floor in floors.items()), total


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_a_target_that_leaves(name):
    """Under load, and with a line that takes no more words: each request ends within the bound; the target is found again."""
    found = run(name, "leave", SEED)
    assert found["gone"] > 5 and found["longest"] <= found["bound"]


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("what", ["fair", "greedy", "loss"])
def test_initiators_that_share_a_target(name, what):
    """Each gets what it was told, also beside one that asks for more: nothing of it is dropped, and its requests take their bound."""
    run(name, "share", SEED, what)


# Remote RAM disks behind raid0, each over links of its own. `make figures ONLY=aoe` runs eight of them, too.
ARRAY = {"Disks": 4, "UpWidth": 128, "StripeBlocks": 8, "Linked": 1}


def test_an_array():
    """Random requests; then lines that carry nothing at times, for so long that a link's session ends or a disk is lost."""
    program = benches.build("aoe_array", "aoe_array_sim", "aoe/aoe_array_bench.cpp", ARRAY, core="aoe_array_sim")
    total = dict.fromkeys(("good", "gone", "again"), 0)
    cuts = (["random", seed, 100000, "cut"] for seed in range(SEED + 1, SEED + 17))
    for words in (["random", SEED, 20000], *cuts):
        done = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, f"aoe_array_bench {' '.join(map(str, words))}\n{done.stdout[-2000:]}"
        found = done.stdout.split()
        total = {key: count + int(found[found.index(key) + 1]) for key, count in total.items()}
        # In some 5 % of the cut runs no session begins again.
        if words[-1] == "cut" and total["good"] > 50 and total["again"] > 0:
            break
    assert total["good"] > 50 and total["again"] > 0, total


def test_files_on_a_remote_disk(tmp_path):
    """The file system core on a RAM disk behind links: files of the command are read, others are written for it."""
    shape = {"Disks": 1, "DataWidth": 32, "DiskWidth": 32, "BlockSizeLog2": 9, "DiskBlocks": 2048, "NodeLog2Max": 9, "TimeoutCycles": 100000}
    program = benches.build("hwfs_remote", "hwfs_disks_sim", "hwfs_disks_bench.cpp", shape, level="-O0", core="aoe_array_sim",
                                instead={"ramdisks.sv": "aoe/ramdisks.sv"})
    theirs = pattern(7, 0, 30001)
    image = volume_with(tmp_path / "v", {"theirs": theirs, "gone": b"x" * 5000}, size="1M", slots=16)
    lines = [f"load {image}", "mount", "get theirs 0 30001 7", "delete gone", "put whole 50000 1", "create 0 pieces 4000",
             "write 0 0 3000 2", "write 0 3000 7001 2", "sync 0", "read 0 100 9000 2", "close 0", "unmount",
             f"save {tmp_path / 'after'} {1 << 20}"]
    done = subprocess.run([program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    assert {line.split()[0] for line in done.stdout.splitlines()} == {str(hw.OK)}, done.stdout
    assert "3 files" in hw.check(tmp_path / "after")
    for name, data in {"theirs": theirs, "whole": pattern(1, 0, 50000), "pieces": pattern(2, 0, 10001)}.items():
        assert hw.contents(tmp_path / "after", name, tmp_path) == data, name
