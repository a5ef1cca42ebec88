# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of the hardware: lint, cores, cocotb benches and randomised C++ benches.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import contextlib
import io
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from fusesoc.main import main as fusesoc_main

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cocotb_bench  # noqa: E402
from hwfs_script import benches, cores  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from suites import deal  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

# Name: disks, mirror, array width, disk width, log2 of the block size, stripe, slot, separate clocks.
ARRAYS = {
    "one_in_order": (1, 0, 32, 32, 6, 8, 2, 1),
    "two_striped_wide": (2, 0, 64, 32, 6, 4, 2, 0),
    "three_striped_apart": (3, 0, 64, 32, 6, 2, 2, 1),
    "four_striped_wide": (4, 0, 128, 32, 6, 8, 4, 0),
    "seven_striped": (7, 0, 64, 32, 6, 1, 1, 0),
    "eight_striped_wide": (8, 0, 256, 32, 6, 8, 4, 0),
    "three_mirrored": (3, 1, 32, 32, 6, 1, 2, 0),
}
# Striped and mirrored, with one clock and with others, wide and narrow.
ALWAYS = {"three_striped_apart", "three_mirrored"}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("ramdisk", "ramdisk", {}),
    ("ramdisk", "ramdisk", {"DataWidth": 256, "BlockSizeLog2": 6}),
    ("block_cdc", "block", {}),
    ("raid0", "raid0", {}),
    ("raid0", "raid0", {"Disks": 1, "Slots": 16, "WritePlaces": 16, "StripeBlocks": 32768, "SlotBlocks": 8}),
    ("raid0", "raid0", {"Mirror": 1, "Disks": 3, "SlotBlocks": 4}),
    ("raid0", "raid0", {"Disks": 8, "UpWidth": 256, "Async": 1, "StripeBlocks": 4, "SlotBlocks": 2}),
    ("raid0_sim", "sim", {}),
    ("ramdisk_sim", "sim", {"Disks": 2}),
    ("hwfs_sim", "sim", {}),
    *(("hwfs_ports", "hwfs", {"Outstanding": number}) for number in (1, 3, 4, 8, 16)),
    ("hwfs", "hwfs", {"DataWidth": 256, "NodeLog2Max": 12, "Files": 8, "Outstanding": 8}),
    ("hwfs_sim", "sim", {"Registered": 1, "DataChecksums": 1}),
    ("hwfs_disks_sim", "sim", {"Disks": 2, "Mirror": 1}),
    ("workload", "workload", {"DataWidth": 256}),
    ("example_top", "example", {"Async": 1}),
    ("example_top", "example", {"Processor": 1}),
    ("example_sim", "sim", {}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.parametrize("name", sorted(cores.cores()))
def test_fusesoc_knows_the_core(name, tmp_path):
    """FuseSoC finds the core and its dependencies, and copies all files."""
    core = cores.cores()[name][1]
    if "lint" not in core["targets"]:
        status, output = fusesoc(tmp_path, "core", "show", name)
        assert status == 0, output
        return
    status, output = fusesoc(tmp_path, "run", "--target=lint", "--setup", "--build-root", str(tmp_path / "build"), name)
    assert status == 0, output
    wanted = {file.name for file in cores.files(name.rsplit(":", 1)[1])}
    found = {file.name for file in (tmp_path / "build").rglob("*") if file.is_file()}
    assert wanted <= found


def fusesoc(folder, *arguments):
    """FuseSoC's exit status and output, from a fork of this process: loading it takes longer than what it does."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as fork:
        return fork.submit(fusesoc_here, folder, arguments).result()


def fusesoc_here(folder, arguments):
    os.chdir(folder)
    os.environ.update(cores.environment())
    sys.argv = ["fusesoc", "--cores-root", str(cores.RTL), *arguments]
    with io.StringIO() as output, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            status = fusesoc_main()
        except SystemExit as end:
            status = end.code
        return status or 0, output.getvalue()


@pytest.mark.parametrize("name,parameters", [
    ("slow", {"ReadLatency": 25, "ReadRateWords": 4, "ReadRateCycles": 5, "WriteLatency": 8,
              "WriteRateWords": 25, "WriteRateCycles": 32}),
    ("two_disks", {"Disks": 2, "UpWidth": 64}),
])
def test_ramdisk(name, parameters, monkeypatch):
    disk_blocks = 1024 // parameters.get("Disks", 1)
    tests = ["reads_back_what_was_written", "writes_zeroes_between_writes_with_data",
             "a_wrong_request_is_refused_and_counted_to_the_word"]
    if parameters.get("Disks", 1) == 1:
        tests.append("a_memory_fault_is_on_the_request_that_met_it")
    else:
        tests.remove("a_wrong_request_is_refused_and_counted_to_the_word")  # an array also supports DISCARD and other sizes
    ran = cocotb_bench.run(monkeypatch, "ramdisk_sim", f"ramdisk_{name}", "bench_ramdisk",
                           {"DiskBlocks": disk_blocks, **parameters}, tests)
    assert ran == len(tests)


def build_array(name):
    disks, mirror, up, disk, log2, stripe, slot, apart = ARRAYS[name]
    parameters = {"Disks": disks, "Mirror": mirror, "UpWidth": up, "DiskWidth": disk, "BlockSizeLog2": log2,
                  "StripeBlocks": stripe, "SlotBlocks": slot, "Async": apart, "DiskBlocks": 200}
    return benches.build(f"array_{name}", "raid0_sim", "array_bench.cpp", parameters)


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", ARRAYS)
def test_array_random(name):
    """Random requests, delays, orders, pauses and faults; every interface is checked in each cycle."""
    program = build_array(name)
    for seed in range(SEED, SEED + deal.share(20)):
        done = subprocess.run([program, "random", str(seed), "20000"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120)
        assert done.returncode == 0, f"array_{name}: {program} random {seed} 20000\n{done.stdout}"


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", ["three_striped_apart", "four_striped_wide", "three_mirrored"])
def test_disks_leave_and_return(name):
    """Every request ends, and those that a leaving disk interrupts end before the array is ready again (rule B14)."""
    program = build_array(name)
    busy = 0
    for seed in range(SEED, SEED + 6):
        done = subprocess.run([program, "leave", str(seed), "20000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120)
        assert done.returncode == 0, f"array_{name}: {program} leave {seed} 20000\n{done.stdout}"
        busy += int(done.stdout.split()[-1])
    assert busy != 0 or name == "three_mirrored", "no disk returned while requests were under way"


def test_a_mirror_whose_copies_differ_is_made_equal():
    """Before it is ready: at the start with `resync_i`, and when all disks were away and returned."""
    program = build_array("three_mirrored")
    # The first three: all disks leave when one has ended a write that another one has not.
    for seed in (37, 74, 80, *range(SEED, SEED + 4)):
        done = subprocess.run([program, "resync", str(seed)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120)
        assert done.returncode == 0, f"array_three_mirrored: {program} resync {seed}\n{done.stdout}"


def test_the_journal_of_the_device_in_memory(tmp_path):
    """The effect of a power cut on unflushed, flushed and FUA writes."""
    program = tmp_path / "journal"
    subprocess.run(["g++", "-std=c++17", "-Wall", "-Werror", f"-I{cores.RTL / 'sim'}", "-o", program,
                    str(cores.RTL / "test" / "journal_test.cpp")], check=True)
    done = subprocess.run([program], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
