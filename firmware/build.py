#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Builds the coprocessor's firmware and prints the size of each of its sections.

The Rust toolchain is rustup's with the target, or Debian's with its library sources.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "coprocessor"
ROOT = FOLDER.parent.parent
LINKER = "riscv64-unknown-elf-ld"
TRIPLES = {32: "riscv32imac-unknown-none-elf", 64: "riscv64imac-unknown-none-elf"}
# Debian's own compiler builds the core library from its source package.
DEBIAN = {"RUSTC_BOOTSTRAP": "1", "RUSTC": "/usr/bin/rustc", "RUSTDOC": "/usr/bin/rustdoc"}
DEBIAN_CORE = ["-Zbuild-std=core,compiler_builtins", "-Zbuild-std-features=compiler-builtins-mem"]
CODE = (".text", ".rodata")
STATE = (".data", ".bss", ".stack", ".queues", ".nodes")


class Missing(Exception):
    """A tool that this machine lacks, and how to install it."""


def toolchain(bits):
    """(cargo, its additional arguments, environment); rustup is preferred."""
    if not shutil.which(LINKER):
        raise Missing(f"no {LINKER}; run: tools/setup riscv")
    rustup = shutil.which("rustup")
    if rustup:
        listing = subprocess.run([rustup, "target", "list", "--installed"], cwd=FOLDER,
                                 capture_output=True, text=True)
        if TRIPLES[bits] in listing.stdout.split():
            return ["cargo"], [], {}
    if os.access("/usr/bin/cargo", os.X_OK) and any(Path("/usr/src").glob("rustc-*/library/core")):
        return ["/usr/bin/cargo"], DEBIAN_CORE, DEBIAN
    raise Missing(f"no Rust toolchain for {TRIPLES[bits]}; run: tools/setup riscv")


def build(bits=32, features=None, board="virt", quiet=True):
    """Builds the firmware and returns the program. `features`: None for the default ones."""
    cargo, arguments, environment = toolchain(bits)
    name = f"coprocessor-{bits}-{board}-{'default' if features is None else '-'.join(features) or 'plain'}"
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "firmware"
    chosen = [] if features is None else ["--no-default-features", "--features", ",".join(features)]
    command = [*cargo, "build", "--release", "--locked", "--target", TRIPLES[bits], *arguments, *chosen]
    target.mkdir(parents=True, exist_ok=True)
    # All builds write to the same name: no other build may begin before this one is copied to its own.
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return compile_as(target / name, command, bits, board, target, environment, quiet)


def application():
    """Builds the programs that run on mapped storage and returns their image."""
    cargo, arguments, environment = toolchain(64)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "firmware"
    command = [*cargo, "build", "--release", "--locked", "--target", TRIPLES[64], *arguments,
               "-p", "straightway-coprocessor-application"]  # fmt: skip
    target.mkdir(parents=True, exist_ok=True)
    with (target / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return compile_as(target / "application", command, 64, "virt", target, environment, True, "application")


def compile_as(program, command, bits, board, target, environment, quiet, binary="coprocessor"):
    done = subprocess.run([*command, "--quiet"] if quiet else command, cwd=FOLDER, text=True,
                          stderr=subprocess.PIPE if quiet else None,
                          env={**os.environ, "CARGO_TARGET_DIR": str(target), "BOARD": board, **environment})
    if done.returncode != 0:
        sys.stderr.write(done.stderr or "")
        sys.exit(f"build: cargo ended with {done.returncode}")
    # One folder for all, so that the core library is built once; each program gets its own name.
    built = target / TRIPLES[bits] / "release" / binary
    # An emulator may be running the existing program.
    new = program.with_suffix(".new")
    shutil.copy2(built, new)
    new.replace(program)
    return program


def sections(program):
    """{section: bytes}."""
    listing = subprocess.run(["size", "-A", program], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in listing.splitlines())
    names = (*CODE, *STATE, ".buffers")
    return {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0] in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", type=int, choices=(32, 64), default=32)
    parser.add_argument("--features", help="a comma-separated list instead of the default")
    parser.add_argument("--board", default="virt", help="a memory map of coprocessor/boards")
    parser.add_argument("--application", action="store_true", help="build the programs for mapped storage instead")
    arguments = parser.parse_args()
    features = None if arguments.features is None else [one for one in arguments.features.split(",") if one]
    try:
        if arguments.application:
            print(application())
            return
        program = build(arguments.bits, features, arguments.board, quiet=False)
    except Missing as missing:
        sys.exit(f"build: {missing}")
    found = sections(program)
    for name, size in found.items():
        print(f"{name:10} {size:9} bytes")
    print(f"{'code':10} {sum(found.get(name, 0) for name in CODE):9} bytes")
    print(f"{'static RAM':10} {sum(found.get(name, 0) for name in STATE):9} bytes, without data buffers")
    print(program)


if __name__ == "__main__":
    main()
