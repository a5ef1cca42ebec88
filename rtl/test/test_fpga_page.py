# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/fpga.md, followed to the letter: its indented lines are one script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import hwfs_script as hw
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "rtl"))


# partner: FuseSoC | reader
@pytest.mark.repeated()
def test_the_page_does_what_it_says(tmp_path):
    """In a folder of its own instead of the page's, and with the command of the build."""
    page = (ROOT / "docs" / "fpga.md").read_text("utf-8")
    commands = [line.strip() for line in page.splitlines() if re.match("    |       ", line)]
    assert sum("cmp - " in line for line in commands) == 2
    script = "\n".join(["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *commands]).replace("/tmp/fpga", str(tmp_path / "fpga"))
    path = f"{Path(hw.straightway()).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "PATH": path}, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + "".join(log.read_text()[-1000:] for log in tmp_path.glob("fpga/log"))
