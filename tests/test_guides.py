# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each guide of docs/guides, followed to the letter: its indented lines are one script.

Own guests: the first command of the guides boots one.
"""

import os
import subprocess

import pytest

from scripted import ROOT, guest

FOLDER = ROOT / "docs" / "guides"
# The one that starts the coprocessor itself runs here, the others in a guest.
PAGES = ["sdr", "camera", "robot", "fpga"]
DRIVE = "size=512M,serial=LAB1"


def script_of(page):
    """The commands of a page, and nothing else: blocks that are indented by four columns."""
    lines = (FOLDER / f"{page}.md").read_text("utf-8").splitlines()
    commands = [line[4:] for line in lines if line.startswith("    ")]
    assert commands, page
    return "\n".join(["set -euo pipefail", *commands])


def test_every_guide_is_followed():
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted([*PAGES, "firmware", "data", "README"])
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert all(f"({page}.md)" in readme for page in [*PAGES, "firmware", "data"])


def test_the_first_command_of_the_guides_gives_a_shell_with_the_drive_that_they_use():
    (first,) = (line[4:] for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if line.startswith("    "))
    typed = "PATH=$PWD/target/release:$PATH\nstraightway list --json\n"
    done = subprocess.run(["bash", "-c", first], cwd=ROOT, input=typed, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and "nvme0n1" in done.stdout and "LAB1" in done.stdout, done
    assert DRIVE in first


@pytest.mark.cells("guide")
@pytest.mark.parametrize("page", PAGES)
def test_a_guide_does_what_it_says(page):
    said = guest(f"PATH=$PWD/target/release:$PATH\n{script_of(page)}\necho the end", "--drive", DRIVE, timeout=300)
    assert said.splitlines()[-1] == "the end"


def test_the_guide_for_firmware_does_what_it_says():
    done = subprocess.run(["bash", "-c", script_of("firmware")], cwd=ROOT, capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL, env=os.environ, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
