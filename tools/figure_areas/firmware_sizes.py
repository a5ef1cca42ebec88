# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bytes of what runs without an operating system: the coprocessor's firmware, and the driver alone (firmware/footprint)."""

import os
import re
import shutil
import subprocess
import sys

from .stack import Unbounded, deepest
from .support import ROOT, TARGET, run

sys.path.insert(0, str(ROOT / "firmware"))
import build  # noqa: E402

# With their targets for code and for static RAM without data buffers.
PROGRAMS = (
    ("blocks", [], "<= 24576", None),
    ("blocks_files", ["files"], "<= 49152", "<= 65536"),
    ("blocks_files_stream", ["stream"], None, None),
    ("blocks_files_stream_check", None, None, None),
)
ARM = "aarch64-unknown-none"
FOOTPRINT = ROOT / "firmware" / "footprint"


def firmware(figures, bits):
    for name, features, text, ram in PROGRAMS:
        program = build.build(bits, features)
        found = build.sections(program)
        prefix = f"firmware.riscv{bits}_{name}"
        bounds = (text, ram) if bits == 32 else (None, None)
        figures.add(f"{prefix}_text_bytes", found.get(".text", 0), "bytes", bounds[0])
        for section in ("rodata", "data", "bss"):
            figures.add(f"{prefix}_{section}_bytes", found.get(f".{section}", 0), "bytes")
        state = sum(found.get(section, 0) for section in build.STATE)
        figures.add(f"{prefix}_static_ram_bytes", state, "bytes", bounds[1])
        bound_of_stack(figures, prefix, program, "trap_entry", f"<= {found.get('.stack', 0)}")


def bound_of_stack(figures, prefix, program, trap=None, target=None):
    try:
        stack, _ = deepest(program, ["_start"], trap)
    except Unbounded as why:
        figures.remark(f"{prefix}: no bound of the stack: {why}")
        return
    figures.add(f"{prefix}_stack_bound_bytes", stack, "bytes", target)


def driver(figures, processor, cargo, triple, environment):
    """Every entry point of the driver, linked for a bare machine and never run."""
    target = TARGET.absolute() / "footprint"
    run([*cargo, "--quiet", "--release", "--locked", "--target", triple, "--manifest-path", FOOTPRINT / "Cargo.toml"],
        # There is its configuration of cargo.
        cwd=FOOTPRINT, env={**os.environ, "CARGO_TARGET_DIR": str(target), **environment}, stderr=subprocess.DEVNULL)  # fmt: skip
    program = target / triple / "release" / "straightway-footprint"
    rows = (line.split() for line in run(["size", "-A", program]).splitlines())
    found = {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}
    prefix = f"firmware.{processor}_driver"
    for section in ("text", "rodata", "data", "bss"):
        # The linker for Arm keeps the compiler's sections apart.
        bytes_ = sum(size for name, size in found.items() if re.match(rf"\.{section}(\.|$)", name))
        figures.add(f"{prefix}_{section}_bytes", bytes_, "bytes")
    if processor.startswith("riscv"):
        bound_of_stack(figures, prefix, program)
    else:
        figures.remark(f"{prefix}: no bound of the stack: it is found in RISC-V's instructions only")


def drivers(figures):
    for bits in (32, 64):
        cargo, arguments, environment = build.toolchain(bits)
        driver(figures, f"riscv{bits}", [*cargo, "build", *arguments], build.TRIPLES[bits], environment)
    if not list(ROOT.glob(f"build/rust-aarch64/toolchains/*/lib/rustlib/{ARM}")) or not shutil.which("aarch64-linux-gnu-gcc"):
        figures.remark(f"SKIPPED: the driver's size on 64-bit Arm: no Rust for {ARM}; run: tools/setup aarch64")
        return
    driver(figures, "aarch64", [ROOT / "tools" / "cross", "cargo", "build"], ARM, {})


def firmware_sizes(figures):
    try:
        for bits in (32, 64):
            firmware(figures, bits)
        drivers(figures)
    except build.Missing as missing:
        figures.remark(f"SKIPPED: the sizes of firmware: {missing}")
