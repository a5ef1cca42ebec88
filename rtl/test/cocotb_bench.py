"""Builds a verilated top for cocotb and runs a module's tests on it."""

import os
from pathlib import Path

import pytest
from cocotb_tools.runner import get_results, get_runner
from hwfs_script import cores

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1


def run(monkeypatch, top, name, module, parameters, tests=None, environment=None, core="sim"):
    """Runs the tests (default: all of the module) on the core's top, asserts that they pass, and returns their number."""
    for key in ("PATH", "VERILATOR_ROOT"):
        monkeypatch.setenv(key, cores.environment()[key])
    monkeypatch.setenv("MAKEFLAGS", " ".join(cores.make_flags("-O0")))
    monkeypatch.setenv("STRAIGHTWAY_SEED", str(SEED))
    for key, value in (environment or {}).items():
        monkeypatch.setenv(key, str(value))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    runner = get_runner("verilator")
    folder = cores.BUILD / f"cocotb_{name}"
    # Cocotb makes all signals public. Verilator then does not split structures, and reports loops that the fields do not have.
    with cores.runtime("cocotb", folder):
        runner.build(sources=cores.files(core), hdl_toplevel=top, build_dir=folder, always=True,
                     build_args=["--assert", "-Wno-UNOPTFLAT"], parameters=parameters,
                     log_file=folder.with_suffix(".build.log"))
    log = folder.with_suffix(".log")
    # The runner ends the program when a test fails, and takes a bench that left no results for one without failures.
    try:
        ran, failed = get_results(runner.test(hdl_toplevel=top, test_module=module, build_dir=folder, test_dir=folder,
                                              testcase=tests, log_file=log))
    except SystemExit:
        ran, failed = 0, 1
    if failed:
        pytest.fail(f"STRAIGHTWAY_SEED={SEED}\n{log.read_text('utf-8', errors='replace')[-4000:]}", pytrace=False)
    return ran
