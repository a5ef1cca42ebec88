# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Lets the tests import `scripted` and the code that they share with the figures; ends their guests."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

# Only `make test-arm64` builds the programs that these tests run.
collect_ignore = [] if os.environ.get("STRAIGHTWAY_ARCH") == "aarch64" else ["test_arm64_programs.py"]


def pytest_sessionfinish():
    # A worker of xdist may end without its atexit functions.
    if pool := sys.modules.get("pool"):
        pool.POOL.close()
