"""The firmware's stack: the maximum that the code can need fits into its section."""

import shutil

import pytest

from figure_areas import firmware
from figure_areas.stack import OBJDUMP, deepest


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("features", [features for _, features, *_ in firmware.PROGRAMS], ids=lambda words: str(words))
def test_the_stack_is_as_large_as_its_bound(bits, features):
    if not shutil.which(OBJDUMP):
        pytest.skip(f"there is no {OBJDUMP}: tools/setup riscv")
    program = firmware.build.build(bits, features)
    bound, _ = deepest(program, ["_start"], "trap_entry")
    assert bound <= firmware.build.sections(program)[".stack"]
