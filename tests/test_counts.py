# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The figures that repeat exactly gate every change: instructions, code size, commands."""

import json
import platform
import subprocess

import pytest

from figure_areas import nvme, processors
from figure_areas.support import Figures
from scripted import ROOT

GATED = {
    "nvme.read_4k_qd32_instructions",
    "nvme.read_4k_qd1_instructions",
    "nvme.empty_poll_instructions",
    "nvme.core_text_bytes",
    "nvme.core_files_that_use_a_heap",
}

# The driver on other processors: the target if it is met, otherwise the measured value with a small margin for another compiler.
ELSEWHERE = {
    "aarch64": {"read_4k_qd32": 90, "read_4k_qd1": 130, "empty_poll": 10},
    "riscv64": {"read_4k_qd32": 93, "read_4k_qd1": 153, "empty_poll": 10.7},
}

# A volume's figures and their upper limits: the target if it is met, otherwise the measured value with a small margin for another
# compiler.
VOLUME_INSTRUCTIONS = {
    "volume.append_128k_above_driver_instructions": 400,
    "volume.append_128k_above_driver_worst_instructions": 400,
    "volume.append_128k_fourth_extent_submit_above_driver_worst_instructions": 285,
    "volume.append_128k_depth_32_newest_first_poll_above_driver_worst_instructions": 720,
    "volume.append_4k_above_driver_instructions": 400,
    "volume.read_128k_above_driver_instructions": 245,
    "volume.read_4k_above_driver_instructions": 245,
    "volume.read_4k_above_driver_worst_instructions": 295,
}
# What the named compiler makes of the driver and of a volume. A count that rises by more than 1 is a change that somebody must want: then
# it is written here, with the reason in the commit. With another compiler the counts are printed, and the test is skipped.
COUNTED_BY = "1.95.0"
COUNTED = {
    "nvme.read_4k_qd32_instructions": 88.3,
    "nvme.read_4k_qd1_instructions": 125,
    "nvme.read_128k_instructions": 414,
    "nvme.empty_poll_instructions": 8.4,
    "volume.append_128k_above_driver_instructions": 353,
    "volume.append_4k_above_driver_instructions": 349,
    "volume.read_128k_above_driver_instructions": 232,
    "volume.read_4k_above_driver_instructions": 227,
    "volume.append_128k_above_driver_worst_instructions": 398,
    "volume.append_4k_above_driver_worst_instructions": 394,
    "volume.read_128k_above_driver_worst_instructions": 277,
    "volume.read_4k_above_driver_worst_instructions": 277,
    "volume.append_128k_fourth_extent_submit_above_driver_worst_instructions": 251,
    "volume.read_4k_fourth_extent_submit_above_driver_worst_instructions": 201,
    "volume.append_128k_depth_32_newest_first_above_driver_instructions": 359.69,
    "volume.append_128k_depth_32_newest_first_poll_above_driver_worst_instructions": 674,
}
# Commands and bytes do not depend on the compiler: they must be exactly these.
VOLUME_COMMANDS = {
    "volume.memory_512_append_sync_write_amplification": 1.125,
    "volume.memory_4096_append_sync_write_amplification": 2.0,
    "volume.memory_512_append_sync_writes": 2,
    "volume.memory_512_append_sync_flushes": 1,
    "volume.memory_512_append_sync_fua": 1,
    "volume.memory_512_append_sync_reads": 0,
    "volume.memory_4096_append_sync_reads": 0,
    "volume.memory_512_append_reads": 0,
    "volume.memory_512_append_flushes": None,
    "volume.memory_512_append_writes": 1,
    "volume.memory_512_append_sync_reserving_reads": 0,
    "volume.memory_512_append_sync_reserving_writes": 2060 / 1024,
    "volume.memory_512_append_sync_reserving_flushes": 1028 / 1024,
    "volume.memory_512_commit_1m_write_amplification": 1 + 512 / 2**20,
    "volume.memory_4096_commit_1m_write_amplification": 1 + 4096 / 2**20,
    "volume.memory_512_commit_1m_reads": 0,
    "volume.memory_512_commit_1m_flushes": 1,
    "volume.memory_512_create_remove_writes": 4,
    "volume.memory_512_create_remove_flushes": 1,
    "volume.memory_512_create_remove_fua": 3,
    "volume.memory_512_create_remove_4k_writes": 10,
    "volume.memory_512_create_remove_4k_flushes": 6,
    "volume.memory_512_read_17_nodes_reads": 1,
    "volume.memory_512_read_3_nodes_reads": 1,
}
# Reads of a look-up: two buckets of eight slots, two members each, in addition to the data and, cold, the superblocks.
VOLUME_MOST = {
    "volume.memory_512_open_read_17_nodes_most_commands": 2 * 2 + 1,
    "volume.memory_512_open_read_3_nodes_most_commands": 2 * 2 * 8 + 1,
    "volume.memory_512_cold_open_read_17_nodes_most_commands": 2 + 2 * 2 + 1,
    "volume.memory_512_cold_open_read_3_nodes_most_commands": 2 + 2 * 2 * 8 + 1,
    "volume.volume_bytes": 416,
}


def measure(area, output):
    command = [ROOT / "tools" / "figures", area, "--output", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {figure["name"]: figure for figure in json.loads(output.read_text())["figures"]}


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return measure("nvme-counts", tmp_path_factory.mktemp("driver") / "figures.json")


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    return measure("volume-counts", tmp_path_factory.mktemp("volume") / "figures.json")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the counts are of x86-64 instructions")
def test_no_count_rises(driver, volume):
    found = {name: (driver | volume)[name]["value"] for name in COUNTED}
    version = subprocess.run(["rustc", "--version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()[1]
    if version != COUNTED_BY:
        print(json.dumps(found, indent=4))
        pytest.skip(f"the counts are those of Rust {COUNTED_BY}, and this is {version}: {found}")
    risen = {name: f"{value}, was {COUNTED[name]}" for name, value in found.items() if value > COUNTED[name] + 1}
    assert not risen, risen


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the targets are for x86-64 instructions")
def test_instructions_and_size_are_within_their_targets(driver):
    figures = driver
    assert GATED <= set(figures)
    short = [figures[name] for name in GATED if figures[name]["verdict"] != "ok"]
    assert not short, short


@pytest.mark.parametrize("architecture", ELSEWHERE)
def test_instructions_on_other_processors_repeat_and_are_within_their_bounds(architecture):
    if why := processors.why_not(architecture):
        pytest.skip(why)
    program = processors.build(architecture)
    counts = processors.counts(architecture, program, nvme.BURSTS)
    assert counts == processors.counts(architecture, program, nvme.BURSTS)
    figures = Figures()
    nvme.add_instructions(figures, counts, "")
    found = {row["name"]: row["value"] for row in figures.rows}
    above = {name: found[f"{name}_instructions"] for name, most in ELSEWHERE[architecture].items() if found[f"{name}_instructions"] > most}
    assert not above, above
    # A count that stops early, or of nothing, would be small.
    assert min(found["read_4k_qd32_instructions"] / 60, found["empty_poll_instructions"] / 5) > 1, found


def test_a_volume_asks_no_more_of_the_drive_and_the_processor_than_it_did(volume):
    figures = volume
    most = VOLUME_MOST | (VOLUME_INSTRUCTIONS if platform.machine() == "x86_64" else {})
    # A phase without any flush or write has no line for it.
    found = {name: figures.get(name, {"value": None})["value"] for name in VOLUME_COMMANDS}
    assert found == VOLUME_COMMANDS
    above = {name: figures[name]["value"] for name in most if figures[name]["value"] > most[name]}
    assert not above, above
