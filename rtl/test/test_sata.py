"""The Serial ATA host against a model of a drive: random requests with power cuts, and the fault matrix.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402
import sata_faults  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1


@pytest.mark.parametrize("top,core,parameters", [
    ("sata", "sata", {}),
    ("sata", "sata", {"Ncq": 0, "Trim": 0, "BlockSizeLog2": 12}),
    ("sata_link", "sata", {"SendCont": 0}),
    ("sata_sim", "sata_sim", {}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


def test_random_requests_and_power_cuts():
    """Drives with and without a queue, latencies, pauses on both sides, stalls, cuts; the block interface checked."""
    program = sata_faults.bench()
    for seed in range(SEED, SEED + 16):
        try:
            sata_faults.run(program, "random", str(seed), "100")
        except RuntimeError as error:
            pytest.fail(f"STRAIGHTWAY_SEED={seed}\n{error}")


def test_the_fault_matrix():
    """docs/sata-faults.md is what the core does now; each row also judges itself (see there)."""
    document = cores.ROOT / "docs" / "sata-faults.md"
    assert sata_faults.matrix() == document.read_text("utf-8"), \
        "docs/sata-faults.md is out of date: run rtl/sata_faults.py > docs/sata-faults.md"
