# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds a verilated top for cocotb and runs a module's tests on it."""

import os
from pathlib import Path

import cocotb_tools.config
import pytest
from cocotb_tools.runner import get_results, get_runner
from hwfs_script import benches, cores

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1
MAIN = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"


def build(folder, top, parameters, core):
    """What cocotb's runner builds: a model with VPI, all of whose signals are public. It is small and runs in the pace of Python: it is
    not optimised."""
    files, libraries = cores.files(core), cocotb_tools.config.libs_dir
    # Verilator does not split structures with public signals, and reports loops that the fields do not have.
    verilate = ["verilator_bin", "--cc", "--vpi", "--public-flat-rw", "--assert", "-Wno-UNOPTFLAT", "--prefix", "Vtop", "--top-module", top,
                "--Mdir", str(folder), *(f"-G{key}={value}" for key, value in parameters.items()), *map(str, files)]

    def make():
        benches.run(verilate)
        benches.link(folder, top, "-O0", f'#include "{MAIN}"\n', [f"-Wl,-rpath,{libraries}", f"-L{libraries}", "-lcocotbvpi_verilator"],
                     (*benches.LIBRARY, "verilated_vpi"))

    return benches.made(folder, top, [*verilate, str(libraries)], [Path(__file__), MAIN, *files], make)


def run(monkeypatch, top, name, module, parameters, tests=None, environment=None, core="sim"):
    """Runs the tests (default: all of the module) on the core's top, asserts that they pass, and returns their number."""
    monkeypatch.setenv("STRAIGHTWAY_SEED", str(SEED))
    for key, value in (environment or {}).items():
        monkeypatch.setenv(key, str(value))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    folder = cores.BUILD / f"cocotb_{name}"
    program = build(folder, top, parameters, core)
    log = folder.with_suffix(".log")
    # The runner ends the program when a test fails, and takes a bench that left no results for one without failures.
    try:
        ran, failed = get_results(get_runner("verilator").test(hdl_toplevel=top, hdl_toplevel_lang="verilog", test_module=module,
                                                               build_dir=program.parent, test_dir=folder, testcase=tests, log_file=log))
    except SystemExit:
        ran, failed = 0, 1
    if failed:
        pytest.fail(f"STRAIGHTWAY_SEED={SEED}\n{log.read_text('utf-8', errors='replace')[-4000:]}", pytrace=False)
    return ran
