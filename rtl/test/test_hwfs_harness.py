# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The benches of the file system core end: a command that the core refuses before it has taken its names is not given up amid
these, and a core that moves nothing ends the simulation with what it was about."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


def test_commands_on_a_volume_that_is_refused_end(program, tmp_path):
    (tmp_path / "v").write_bytes(bytes(1 << 20))
    script = hw.Session(program, tmp_path, tmp_path / "v")
    script.mount()
    script.open(0, "a-name-that-is-longer-than-what-the-core-takes-before-it-answers")
    script.read(0, 0, 512)
    script.put("another-name-of-several-words", bytes(2000))
    script.rename("from-here", "to-there")
    script.get("name", 0, 512)
    script.unmount()
    assert [result.status for result in script.run()] == [hw.NOT_A_VOLUME, *[hw.NOT_MOUNTED] * 6]


def test_a_core_that_does_not_answer_ends_the_simulation(program, tmp_path):
    image = hw.make_volume(tmp_path / "v")
    script = hw.Session(program, tmp_path, image)
    script.silent(500)
    script.mount()  # reads more than 64 slots
    with pytest.raises(AssertionError, match=r"FAILED: command 0 is not answered: nothing moved for 501 cycles, \d+ after its offer"):
        script.run()
