"""Remote disks by ATA over Ethernet: single frames, faulty networks, targets that leave, arrays of remote disks.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402
import sizes  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

SHAPE = {"Slots": 8, "Buffers": 4, "SectorsLog2": 1, "Tries": 5, "TickLog2": 8, "RetryTicks": 8, "LifeTicks": 64, "TargetChecks": 1}
SHAPES = {
    "default": SHAPE,
    # Frames of 9,000 bytes, a target without the checksum.
    "jumbo": SHAPE | {"Slots": 4, "Buffers": 2, "SectorsLog2": 4, "TargetChecks": 0},
}


@pytest.mark.parametrize("top,core,parameters", [
    ("aoe_target", "aoe", {}),
    ("aoe_target", "aoe", {"Buffers": 2, "SectorsLog2": 0, "Checksums": 0, "LeastWords": 9}),
    ("aoe_target", "aoe", {"Buffers": 16, "SectorsLog2": 4}),
    ("aoe_initiator", "aoe", {}),
    ("aoe_initiator", "aoe", {"Slots": 2, "SectorsLog2": 0, "Tries": 2, "Checksums": 0, "LeastWords": 9}),
    ("aoe_initiator", "aoe", {"Slots": 16, "SectorsLog2": 4, "Tries": 8}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.parametrize("name,rams", [("aoe_target", 2), ("aoe_initiator", 4)])
def test_yosys_reads_it_too(name, rams):
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; data are in block RAM."""
    assert sizes.block_rams(name, "xc7") == rams


def build(name):
    return cores.build_bench(f"aoe_{name}", "aoe_sim", "aoe/aoe_bench.cpp", SHAPES[name], core="aoe_sim")


def run(name, *words):
    done = subprocess.run([build(name), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{name}: aoe_bench {' '.join(map(str, words))}\n{done.stdout[-2000:]}"
    words = done.stdout.split()
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.parametrize("name", SHAPES)
def test_single_frames(name):
    """Each command, each error of the protocol and of ATA, each kind of frame that is ignored; copies of a write in order."""
    for seed in range(SEED, SEED + 2):
        run(name, "directed", seed)


@pytest.mark.parametrize("name", SHAPES)
def test_a_target_of_others(name):
    """Of any size of frames and number of buffers, with 28 or 48 bits of address; wrong answers; copies; the attempts' times."""
    run(name, "foreign", SEED)


@pytest.mark.parametrize("name", SHAPES)
def test_a_faulty_network(name):
    """Loss, copies, delays, other orders and damage, power cuts of the target: each block has the contents that its host wrote last."""
    total = dict.fromkeys(("good", "bad", "again", "damaged", "repeated", "losses", "resets"), 0)
    for seed in range(SEED, SEED + 8):
        found = run(name, "random", seed, 250000)
        total = {key: count + found[key] for key, count in total.items()}
    assert total["good"] > 400 and total["again"] > 50 and total["damaged"] > 10 and total["repeated"] > 20 and total["resets"] > 10, total


@pytest.mark.parametrize("name", SHAPES)
def test_a_target_that_leaves(name):
    """Under load, and with a line that takes no more words: each request ends within the bound; the target is found again."""
    found = run(name, "leave", SEED)
    assert found["gone"] > 5 and found["longest"] <= found["bound"]
