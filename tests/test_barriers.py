# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The instructions of crates/block/src/barrier.rs, as assemblers of the machines that have them understand them.

The literals are assembled and disassembled: what the processor gets is what the module's table names, for 64-bit Arm, and for
RISC-V with 32 and 64 bits; and a firmware that the tests built contains them. Compiled Arm code is in test_arm64.py; x86 is not
covered; and of the firmware's fences only `fence w, o` cannot come from the core library's own.
"""

# partner: binutils | reader

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "firmware"))
import build  # noqa: E402

SOURCE = ROOT / "crates" / "block" / "src" / "barrier.rs"
ROW = re.compile(r"^//! \|.*\[`(\w+)`\] \|.*\| `([^`]+)` \| `([^`]+)` \|$", re.M)
BARRIER = re.compile(r'^    (\w+), "([^"]+)", "([^"]+)",', re.M)
# The encodings by the architectures' manuals: DMB with CRm (Arm ARM, C6.2), and FENCE with its sets (RISC-V unprivileged ISA, 2.7).
DMB = {"osh": 0x3, "oshst": 0x2, "oshld": 0x1}
ARM = ("aarch64-linux-gnu-as", "aarch64-linux-gnu-objdump", ())
RISCV = [("riscv64-unknown-elf-as", "riscv64-unknown-elf-objdump", (f"-march=rv{bits}imac", f"-mabi={abi}"))
         for bits, abi in ((32, "ilp32"), (64, "lp64"))]  # fmt: skip


def tables():
    text = SOURCE.read_text(encoding="utf-8")
    rows = {name: (arm, riscv) for name, arm, riscv in ROW.findall(text)}
    code = {name: (arm, riscv) for name, arm, riscv in BARRIER.findall(text)}
    assert len(code) == text.count("barrier! {\n") == 5
    return rows, code


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}")


def words(tools, lines, folder):
    """The 32-bit instructions that these lines become, with their disassembly."""
    assembler, disassembler, options = tools
    needs(assembler, disassembler)
    source, program = folder / "barriers.s", folder / "barriers.o"
    source.write_text("\n".join(lines) + "\n")
    subprocess.run([assembler, *options, "-o", program, source], check=True)
    listing = subprocess.run([disassembler, "-d", program], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^\s+[0-9a-f]+:\s+([0-9a-f]{8})\s+(.+)$", listing, re.M)
    return [(int(word, 16), " ".join(text.split())) for word, text in found]


def fence(text):
    before, after = re.fullmatch(r"fence (\w+), ?(\w+)", text).groups()
    bits = {"i": 8, "o": 4, "r": 2, "w": 1}
    sets = [sum(bits[letter] for letter in letters) for letters in (before, after)]
    return sets[0] << 24 | sets[1] << 20 | 0x0F


def test_the_table_of_the_module_is_its_code():
    rows, code = tables()
    assert rows == code


def test_arm_gets_the_barriers_that_are_named(tmp_path):
    _, code = tables()
    names = [arm for arm, _ in code.values()]
    for name, (word, text) in zip(names, words(ARM, names, tmp_path), strict=True):
        print(f"{word:08x} {text}")
        assert word == 0xD50330BF | DMB[name.removeprefix("dmb ")] << 8, name
        assert text == name


@pytest.mark.parametrize("tools", RISCV, ids=["riscv32", "riscv64"])
def test_riscv_gets_the_barriers_that_are_named(tools, tmp_path):
    _, code = tables()
    names = [riscv for _, riscv in code.values()]
    for name, (word, text) in zip(names, words(tools, names, tmp_path), strict=True):
        print(f"{word:08x} {text}")
        assert word == fence(name), name
        assert text.replace(",", ", ") == name or text == name


def test_the_firmware_has_the_barriers_of_the_driver():
    needs("riscv64-unknown-elf-objdump")
    try:
        program = build.build(32)
    except build.Missing as missing:
        pytest.skip(str(missing))
    listing = subprocess.run(["riscv64-unknown-elf-objdump", "-d", program], check=True, capture_output=True, text=True).stdout
    present = set(re.findall(r"\t(fence)\t(\w+),(\w+)", listing))
    _, code = tables()
    # The firmware has neither shadow doorbells towards a drive nor a register before memory on every board.
    for name in ("after_entry", "before_index", "before_register_write"):
        expected = tuple(re.fullmatch(r"(fence) (\w+), (\w+)", code[name][1]).groups())
        print(name, *expected)
        assert expected in present, f"{name}: {expected} is not among {sorted(present)}"
