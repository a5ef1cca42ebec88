"""The workload generator, alone and in the example system on AXI, under cocotb.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import sys
from pathlib import Path

import pytest
from cocotb_tools.runner import get_results, get_runner

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from hwfs_script import cores  # noqa: E402
from test_hwfs import SEED, volume_with  # noqa: E402


def cocotb_run(monkeypatch, top, name, module, parameters, environment):
    """Builds the top and runs the module's tests; how many ran."""
    for key in ("PATH", "VERILATOR_ROOT"):
        monkeypatch.setenv(key, cores.environment()[key])
    monkeypatch.setenv("MAKEFLAGS", cores.make_flags("-O0")[1])
    monkeypatch.setenv("STRAIGHTWAY_SEED", str(SEED))
    for key, value in environment.items():
        monkeypatch.setenv(key, str(value))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    runner = get_runner("verilator")
    folder = cores.BUILD / f"cocotb_{name}"
    # Cocotb makes all signals public, so Verilator sees structures as wholes and a loop where fields have none.
    runner.build(sources=cores.files("sim"), hdl_toplevel=top, build_dir=folder, always=True,
                 build_args=["--assert", "-Wno-UNOPTFLAT"], parameters=parameters,
                 log_file=folder.with_suffix(".build.log"))
    results = runner.test(hdl_toplevel=top, test_module=module, build_dir=folder, test_dir=folder,
                          log_file=folder.with_suffix(".log"))
    ran, failed = get_results(results)
    log = folder.with_suffix(".log").read_text("utf-8", errors="replace")
    assert failed == 0, f"STRAIGHTWAY_SEED={SEED}\n{log[-3000:]}"
    return ran


@pytest.mark.parametrize("width", [32, 128])
def test_the_generator_alone(monkeypatch, width):
    assert cocotb_run(monkeypatch, "workload_sim", f"workload_{width}", "bench_workload", {"DataWidth": width}, {}) == 6


def test_the_example_on_axi(monkeypatch, tmp_path):
    """Two striped disks on a clock of their own. The volume in their memory is the command's before and after."""
    image = volume_with(tmp_path / "v", {"old": b"before"}, size="384K", slots=8)
    ran = cocotb_run(monkeypatch, "example_sim", "example", "bench_example", {"Disks": 2, "Async": 1, "DataWidth": 64},
                     {"STRAIGHTWAY_IMAGE": image, "STRAIGHTWAY_AFTER": tmp_path / "after"})
    assert ran == 2
    hw.check(tmp_path / "after")
    assert hw.names_on(tmp_path / "after") == {"old", "second"}
