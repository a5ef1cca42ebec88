# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pandas, pyarrow, zarr, xarray and h5py on a volume, by the file system that the Python module registers with fsspec."""

import os
import subprocess

import pytest

from scripted import ROOT
from test_guides import script_of

PYTHON = ROOT / "build" / "data-venv" / "bin" / "python"
CRATE = ROOT / "crates" / "python"


@pytest.fixture(scope="module")
def environment():
    if not PYTHON.exists():
        pytest.skip("no build/data-venv; run: tools/setup data")
    done = subprocess.run([CRATE / "build", "--test"], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    unpacked = ROOT / "build" / "wheels" / "test" / "unpacked"
    path = f"{PYTHON.parent}:{ROOT}/target/release:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(unpacked), "PYTHONDONTWRITEBYTECODE": "1"}


def test_libraries_for_data_write_and_read_a_volume(tmp_path, environment):
    words = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/t", "tests/data_tools.py"]
    done = subprocess.run(words, cwd=CRATE, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout.splitlines()[-1])


def test_the_guide_for_data_does_what_it_says(tmp_path, environment):
    done = subprocess.run(["bash", "-c", script_of("data")], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    print(done.stdout)
