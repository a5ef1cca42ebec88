# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The code of firmware/footprint on a 32-bit RISC-V core."""

import os
import shutil
import subprocess
from pathlib import Path

from .support import ROOT, TARGET, run

TRIPLE = "riscv32imac-unknown-none-elf"
FOLDER = ROOT / "firmware" / "footprint"
LINKER = "riscv64-unknown-elf-ld"
# Debian's own compiler builds the core library from its source package.
DEBIAN = {"RUSTC_BOOTSTRAP": "1", "RUSTC": "/usr/bin/rustc", "RUSTDOC": "/usr/bin/rustdoc"}
DEBIAN_CORE = ["-Zbuild-std=core,compiler_builtins", "-Zbuild-std-features=compiler-builtins-mem"]


def toolchain():
    """(cargo, its further arguments, environment), preferring an ordinary toolchain; or None."""
    rustup = shutil.which("rustup")
    if rustup:
        listing = subprocess.run([rustup, "target", "list", "--installed"], cwd=FOLDER,
                                 capture_output=True, text=True)
        if TRIPLE in listing.stdout.split():
            return ["cargo"], [], {}
    sources = Path("/usr/src")
    if os.access("/usr/bin/cargo", os.X_OK) and any(sources.glob("rustc-*/library/core")):
        return ["/usr/bin/cargo"], DEBIAN_CORE, DEBIAN
    return None


def section_bytes(program):
    """{section: bytes}."""
    listing = run(["size", "-A", program])
    rows = (line.split() for line in listing.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[0].startswith(".")}


def text_on_riscv32(figures):
    found = toolchain()
    missing = [what for what, there in (("a Rust toolchain for it", found), (LINKER, shutil.which(LINKER))) if not there]
    if missing:
        figures.remark(f"SKIPPED: riscv32 sizes: no {' and no '.join(missing)}; run: tools/setup riscv")
        return
    cargo, arguments, environment = found
    target = TARGET.absolute() / "footprint"
    for name, features, bound in (
        ("driver", [], None),
        ("block_nvme_volume", ["--features", "volume"], "<= 40960"),
        ("block_nvme_volume_check", ["--features", "check"], None),
    ):
        run([*cargo, "build", "--quiet", "--release", "--locked", "--target", TRIPLE, *arguments, *features],
            cwd=FOLDER, env={**os.environ, "CARGO_TARGET_DIR": str(target), **environment},
            stderr=subprocess.DEVNULL)
        sections = section_bytes(target / TRIPLE / "release" / "straightway-footprint")
        figures.add(f"volume.riscv32_{name}_text_bytes", sections.get(".text", 0), "bytes", bound)
        figures.add(f"volume.riscv32_{name}_rodata_bytes", sections.get(".rodata", 0), "bytes")
        writable = sections.get(".data", 0) + sections.get(".bss", 0)
        figures.add(f"volume.riscv32_{name}_data_bytes", writable, "bytes", "<= 0")
