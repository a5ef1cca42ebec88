# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The profiling timer under cocotb, and its lint. STRAIGHTWAY_SEED=... repeats a run."""

# partner: cocotb | program

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cocotb_bench  # noqa: E402
from hwfs_script import cores, straightway  # noqa: E402


@pytest.mark.parametrize("parameters", [{}, {"Lines": 1, "DepthLog2": 2, "Groups": 1}, {"Lines": 32, "Stream": 1},
                                        {"Stream": 1, "Width": 64}, {"Stream": 1, "Width": 128}])
def test_lint(parameters):
    assert cores.lint("timer", "timer", parameters) == ""


def test_the_timer(monkeypatch, tmp_path):
    build = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-events", "--example", "timer"]
    subprocess.run(build, cwd=cores.ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target"))
    environment = {"STRAIGHTWAY": straightway(), "EXAMPLE": target / "release" / "examples" / "timer", "TIMER_FOLDER": tmp_path}
    ran = cocotb_bench.run(monkeypatch, "timer_sim", "timer", "bench_timer", {"Lines": 4, "DepthLog2": 4, "Groups": 4},
                           environment=environment, core="timer_sim")
    assert ran == 5
