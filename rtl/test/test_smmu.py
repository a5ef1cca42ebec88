# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The storage memory management unit: its registers, every reason to refuse, random accesses against a scalar model, faults.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import benches  # noqa: E402
import cocotb_bench  # noqa: E402
import cores  # noqa: E402
import make_volume  # noqa: E402
import sizes  # noqa: E402
from hwfs_script import straightway  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from suites import deal  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

BASE = {"PageLog2": 12, "BlockSizeLog2": 9, "Frames": 16, "TlbEntries": 16, "WindowBits": 32, "External": 1, "Sata": 0, "Disks": 1,
        "DrivePages": 48}
# Name: the differences from pages of 4 KiB on a drive that the bench plays, with blocks of 512 bytes.
SHAPES = {
    "pages_4k": {},
    "pages_64k": {"PageLog2": 16, "WindowBits": 40, "BlockSizeLog2": 12},
    "few_frames": {"Frames": 4, "BlockSizeLog2": 6},
    "array": {"External": 0, "Disks": 2, "BlockSizeLog2": 6},
    "sata": {"External": 0, "Sata": 1},
}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("smmu", "smmu", {}),
    ("smmu", "smmu", {"DataWidth": 64, "PageLog2": 16, "Frames": 16, "WindowBits": 32, "BlockSizeLog2": 6}),
    ("smmu", "smmu", {"DataWidth": 256, "Frames": 4096, "TlbEntries": 256, "BlockSizeLog2": 12}),
    ("smmu_sim", "smmu_sim", {}),
    ("scan", "scan", {}),
    ("example_smmu", "example_smmu", {}),
    ("example_smmu", "example_smmu", {"Disks": 3, "Mirror": 1}),
    ("example_smmu", "example_smmu", {"Sata": 1}),
    ("example_smmu_sim", "smmu_sim", {"Disks": 2}),
    ("example_smmu_sim", "smmu_sim", {"Sata": 1}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.repeated()
def test_yosys_reads_it_too():
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; memories are block RAMs."""
    assert sizes.block_rams("smmu", "xc7") <= 12


def run(name, *words):
    program = benches.build(f"smmu_{name}", "smmu_sim", "smmu/smmu_bench.cpp", BASE | SHAPES[name], core="smmu_sim",
                            shared=True)
    done = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{name}: smmu_bench {' '.join(words)}\n{done.stdout[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("what", ["registers", "refusals", "stalled"])
def test_directed(what):
    """Each register; each reason to refuse, with its entry in the log; a master that does not take its reads."""
    run("pages_4k", what)


@pytest.mark.shapes("name", always={"pages_4k", "sata"})
@pytest.mark.parametrize("name,runs,accesses", [("pages_4k", 4, 400), ("pages_64k", 1, 200), ("few_frames", 4, 400)])
def test_random_accesses(name, runs, accesses):
    """Loads return what was stored; after a flush, the drive has it, even after a power cut."""
    for seed in range(SEED, SEED + deal.share(runs)):
        run(name, "random", str(seed), str(accesses))


@pytest.mark.shapes("name", always={"pages_4k", "sata"})
@pytest.mark.parametrize("name", ["pages_4k", "few_frames"])
def test_faults(name):
    """A request or an access that fails, at any place: no wrong word, no lost store, no hang, a report."""
    run(name, "faults", str(SEED), "20")


def test_drives_that_leave():
    """Every access ends; dirty pages are kept, and never written to another drive."""
    run("pages_4k", "leave", str(SEED), "10")


@pytest.mark.shapes("name", always={"pages_4k", "sata"})
@pytest.mark.parametrize("name", ["array", "sata"])
def test_over_disks(name):
    """What is stored comes back, through more pages than frames, and after the pages were dropped."""
    run(name, "disks", str(SEED))


@pytest.mark.repeated()
def test_an_axi_manager_of_others(monkeypatch):
    """The window, and both ports of memory, with the manager and the memories of cocotbext-axi."""
    pytest.importorskip("cocotbext.axi", reason="cocotbext-axi is not there; run: tools/setup rtl")
    shape = BASE | {"External": 0, "Frames": 4}
    assert cocotb_bench.run(monkeypatch, "smmu_sim", "smmu", "bench_smmu", shape, core="smmu_sim") == 3


# What is behind the example's window.
EXAMPLES = {"disk": {}, "array": {"Disks": 2}, "sata": {"Sata": 1}}


def run_example(name, what, *words):
    parameters = {"Frames": 16, "Sata": 0, "Disks": 1, "DrivePages": 128} | EXAMPLES[name]
    program = benches.build(f"example_smmu_{name}", "example_smmu_sim", "smmu/example_smmu_bench.cpp", parameters, core="smmu_sim")
    done = subprocess.run([program, what, str(SEED), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{name}: example_smmu_bench {what} {SEED}\n{done.stdout[-2000:]}"


def test_the_example_with_an_accelerator():
    """An accelerator searches a file by loads: more pages than frames, a hole, the end, a context that is taken away."""
    run_example("disk", "directed")


@pytest.mark.shapes("name", always={"pages_4k", "sata"})
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_accelerator_reads_a_file_of_a_volume_by_the_table_of_the_command(name, tmp_path):
    """The file is in four extents, in another order than the file's; RAM disk, array, and a drive with single bits on the cable."""
    image = make_volume.make(128 << 12, unit=4096, node=512, slots=8, block=512)
    size, piece = 20 << 12, 5 << 12
    places = make_volume.scatter(image, "table of words", size, piece)
    data = random.Random(SEED).randbytes(size)
    for index, place in enumerate(places):
        image[place:place + piece] = data[index * piece:][:piece]
    paths = {what: tmp_path / what for what in ("image", "table", "file")}
    paths["image"].write_bytes(image)
    paths["file"].write_bytes(data)

    def command(*words):
        return subprocess.run([straightway(), *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout

    command("table", paths["image"], "table of words", paths["table"])
    listed = json.loads(command("stat", paths["image"], "table of words", "--json"))["file"]["extent_list"]
    assert listed == [{"offset_bytes": index * piece, "lba": place // 512, "blocks": piece // 512}
                      for index, place in enumerate(places)]  # fmt: skip
    run_example(name, "volume", *map(str, paths.values()))
