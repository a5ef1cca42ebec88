# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The firmware's stack: the maximum that the code can need fits into its section."""

import shutil
import subprocess

import pytest

from figure_areas import firmware_sizes
from figure_areas.stack import OBJDUMP, deepest


CASES = [(bits, features, "virt") for _, features, *_ in firmware_sizes.PROGRAMS for bits in (32, 64)]


@pytest.mark.cells("bits")
@pytest.mark.parametrize(("bits", "features", "board"), [*CASES, (64, ["mapped"], "virt-mapped")], ids=str)
def test_the_stack_is_as_large_as_its_bound(bits, features, board):
    if not shutil.which(OBJDUMP):
        pytest.skip(f"there is no {OBJDUMP}: tools/setup riscv")
    program = firmware_sizes.build.build(bits, features, board)
    bound, _ = deepest(program, ["_start"], "trap_entry")
    assert bound <= firmware_sizes.build.sections(program)[".stack"]


def test_the_second_hart_s_stack_is_as_large_as_its_bound():
    if not shutil.which(OBJDUMP):
        pytest.skip(f"there is no {OBJDUMP}: tools/setup riscv")
    program = firmware_sizes.build.build(64, ["mapped"], "virt-mapped")
    bound, _ = deepest(program, ["second_start", "second_entry"])
    assert 0 < bound <= symbol_bytes(program, "SECOND_STACK")


def symbol_bytes(program, name):
    listing = subprocess.run(["nm", "-S", program], check=True, capture_output=True, text=True).stdout
    (size,) = (int(row[1], 16) for row in map(str.split, listing.splitlines()) if row[-1] == name)
    return size
