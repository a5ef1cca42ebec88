"""The profiling timer under cocotb, and its lint. STRAIGHTWAY_SEED=... repeats a run."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cocotb_bench  # noqa: E402
from hwfs_script import cores  # noqa: E402


@pytest.mark.parametrize("parameters", [{}, {"Lines": 1, "DepthLog2": 2, "Groups": 1}, {"Lines": 32}])
def test_lint(parameters):
    assert cores.lint("timer", "timer", parameters) == ""


def test_the_timer(monkeypatch):
    ran = cocotb_bench.run(monkeypatch, "timer_sim", "timer", "bench_timer", {"Lines": 4, "DepthLog2": 4, "Groups": 4},
                           core="timer_sim")
    assert ran == 3
