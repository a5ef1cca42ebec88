# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Compares the verilated file system core with the software's volume in one process (rtl/sim/hwfs_twin_bench.cpp).

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure. STRAIGHTWAY_BUDGET (100000 or 60s) sets the
operations or the duration of the search for differences, by default 8,000 operations.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import benches  # noqa: E402
from suites import budget  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1
SECONDS = budget.seconds(0)
BUDGET = f"{SECONDS}s" if SECONDS else str(budget.states(8000))


def run(*arguments, program_log2=12):
    return subprocess.run([benches.build_twin_bench(program_log2), *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600 + SECONDS + (0 if SECONDS else int(BUDGET) // 20))


@pytest.mark.parametrize("program_log2", [12, 13])
def test_the_core_and_the_software_do_the_same(program_log2):
    """The program for grown tables on such tables, and on others."""
    print(f"STRAIGHTWAY_SEED={SEED} STRAIGHTWAY_BUDGET={BUDGET}")
    done = run(SEED, BUDGET, program_log2=program_log2)
    assert done.returncode == 0, f"STRAIGHTWAY_SEED={SEED}\n{done.stdout[-2000:]}"
    words = done.stdout.split()
    found = dict(zip(words[::2], map(float, words[1::2])))
    print(done.stdout)
    assert found["sequences"] >= 8 and found["operations"] >= 8 * found["sequences"]
    assert found["grown"] == 0 if program_log2 == 12 else found["grown"] > found["sequences"] / 10


def test_a_bit_that_is_wrong_is_found():
    """Tests the comparison itself: it must detect one wrong bit of a file's data."""
    done = run(SEED, 0, "damage")
    assert done.returncode == 1 and "has its bytes" in done.stdout, done.stdout[-2000:]
