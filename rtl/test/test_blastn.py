# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The nucleotide seed scan under cocotb, against the scalar model in Rust, and its lint. STRAIGHTWAY_SEED=... repeats a run."""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cocotb_bench  # noqa: E402
from hwfs_script import cores  # noqa: E402
from test_hwfs import volume_with  # noqa: E402


@pytest.mark.parametrize("parameters", [{}, {"EntriesLog2": 14, "BucketLog2": 14, "HitsLog2": 4},
                                        {"EntriesLog2": 16, "BucketLog2": 15},
                                        {"DiagonalsLog2": 12}])
def test_lint(parameters):
    assert cores.lint("blastn", "blastn", parameters) == ""


def environment(folder):
    build = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-blast", "--example", "core_image"]
    subprocess.run(build, cwd=cores.ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target"))
    return {"EXAMPLE": target / "release" / "examples" / "core_image", "BLASTN_FOLDER": folder}


def test_the_seed_scan(monkeypatch, tmp_path):
    ran = cocotb_bench.run(monkeypatch, "blastn_sim", "blastn", "bench_blastn", {"EntriesLog2": 8, "BucketLog2": 7, "HitsLog2": 4, "MaskLog2": 3, "DiagonalsLog2": 5},
                           environment=environment(tmp_path), core="blastn_sim")
    assert ran == 6


def database(folder, bases, pick, apart=0):
    """The bytes of a database's sequences, which makeblastdb wrote, with an ambiguous base so far apart. Returns them and a query."""
    letters = "".join(pick.choice("ACGT") for _ in range(bases))
    cuts = sorted(pick.randrange(bases) for _ in range(4))
    parts = [letters[first:end] for first, end in zip([0, *cuts], [*cuts, bases]) if end - first > 10]
    stretch = apart or bases
    rows = [part[:5] + "NRN" + "N".join(part[at:at + stretch] for at in range(5, len(part), stretch)) for part in parts]
    (folder / "db.fa").write_text("".join(f">s{at}\n{row}\n" for at, row in enumerate(rows)))
    if shutil.which("makeblastdb") is None:
        pytest.skip("makeblastdb is not installed; run: tools/setup blast")
    make = ["makeblastdb", "-dbtype", "nucl", "-in", folder / "db.fa", "-out", folder / "db"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return (folder / "db.nsq").read_bytes(), max(parts, key=len)[20:]


def scan_of_a_volume(monkeypatch, folder, bases, query_bases, name="blastn_hwfs", **parameters):
    """Scans a database on a volume by the core behind the file system core; returns the core's counters."""
    pick = random.Random(cocotb_bench.SEED)
    stream, part = database(folder, bases, pick, apart=600)
    image = volume_with(folder / "v", {"db.nsq": stream}, size="384K", slots=8)
    queries = [part[100:100 + query_bases], part[600:640]]
    ran = cocotb_bench.run(monkeypatch, "blastn_hwfs_sim", name, "bench_blastn_hwfs", parameters,
                           environment={**environment(folder), "STRAIGHTWAY_IMAGE": image, "STRAIGHTWAY_NSQ": folder / "db.nsq",
                                        "STRAIGHTWAY_QUERIES": " ".join(queries), "RESULT": folder / "result.json"},
                           core="blastn_hwfs_sim")
    assert ran == 1
    return json.loads((folder / "result.json").read_text())


def test_a_database_on_a_volume_that_the_file_system_core_reads(monkeypatch, tmp_path):
    found = scan_of_a_volume(monkeypatch, tmp_path, 20000, 120, MaskLog2=4)
    # No cycle of the file system core was lost; the processor refilled the list in time, and found nothing left to check.
    assert found["stalls"] == 0 and found["hits"] > 20
    assert found["unchecked"] == 0 and found["mask_entries"] > 2 * 16
