# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The workload generator, alone and in the example system on AXI, under cocotb.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

# partner: cocotb | program

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cocotb_bench  # noqa: E402
import hwfs_script as hw  # noqa: E402
from test_hwfs import volume_with  # noqa: E402


@pytest.mark.parametrize("width", [32, 128])
def test_the_generator_alone(monkeypatch, width):
    assert cocotb_bench.run(monkeypatch, "workload_sim", f"workload_{width}", "bench_workload", {"DataWidth": width}) == 6


def test_the_example_on_axi(monkeypatch, tmp_path):
    """Two striped disks with their own clock. The command makes the volume in their memory, and checks it afterwards."""
    image = volume_with(tmp_path / "v", {"old": b"before"}, size="384K", slots=8)
    ran = cocotb_bench.run(monkeypatch, "example_sim", "example", "bench_example",
                           {"Disks": 2, "Async": 1, "DataWidth": 64},
                           environment={"STRAIGHTWAY_IMAGE": image, "STRAIGHTWAY_AFTER": tmp_path / "after"})
    assert ran == 2
    hw.check(tmp_path / "after")
    assert hw.names_on(tmp_path / "after") == {"old", "second"}


def test_the_processor_in_the_example(monkeypatch, tmp_path):
    """One disk, and the processor's interface instead of the generator."""
    old = bytes(word % 251 for word in range(2400))
    image = volume_with(tmp_path / "v", {"old": old}, size="384K", slots=8)
    ran = cocotb_bench.run(monkeypatch, "example_sim", "example_processor", "bench_example_processor",
                           {"Disks": 1, "Async": 1, "DataWidth": 32, "Processor": 1},
                           environment={"STRAIGHTWAY_IMAGE": image, "STRAIGHTWAY_AFTER": tmp_path / "after"})
    assert ran == 1
    hw.check(tmp_path / "after")
    assert hw.names_on(tmp_path / "after") == {"old", "copy"}
    assert hw.contents(tmp_path / "after", "copy", tmp_path) == old[:2000]
