"""The figures that repeat to the last digit gate every change: instructions and code size."""

import json
import platform
import subprocess

import pytest

from scripted import ROOT

GATED = {
    "nvme.read_4k_qd32_instructions",
    "nvme.read_4k_qd1_instructions",
    "nvme.empty_poll_instructions",
    "nvme.core_text_bytes",
    "nvme.core_files_that_use_a_heap",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the targets are for x86-64 instructions")
def test_instructions_and_size_are_within_their_targets(tmp_path):
    output = tmp_path / "figures.json"
    command = [ROOT / "tools" / "figures", "nvme-counts", "--output", output]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = {figure["name"]: figure for figure in json.loads(output.read_text())["figures"]}
    assert GATED <= set(figures)
    short = [figures[name] for name in GATED if figures[name]["verdict"] != "ok"]
    assert not short, short
