"""The nucleotide seed scan under cocotb, against the scalar model in Rust, and its lint. STRAIGHTWAY_SEED=... repeats a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cocotb_bench  # noqa: E402
from hwfs_script import cores  # noqa: E402


@pytest.mark.parametrize("parameters", [{}, {"EntriesLog2": 14, "BucketLog2": 14, "HitsLog2": 4},
                                        {"EntriesLog2": 16, "BucketLog2": 15}])
def test_lint(parameters):
    assert cores.lint("blastn", "blastn", parameters) == ""


def test_the_seed_scan(monkeypatch, tmp_path):
    build = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-blast", "--example", "core_image"]
    subprocess.run(build, cwd=cores.ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target"))
    ran = cocotb_bench.run(monkeypatch, "blastn_sim", "blastn", "bench_blastn", {"EntriesLog2": 8, "BucketLog2": 7, "HitsLog2": 4},
                           environment={"EXAMPLE": target / "release" / "examples" / "core_image", "BLASTN_FOLDER": tmp_path},
                           core="blastn_sim")
    assert ran == 3
