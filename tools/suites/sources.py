# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The compiler whose sources are installed, with which a sanitizer's standard library is built."""

import os
import subprocess

from .result import ROOT

# What `tools/setup sources` adds the sources to: the toolchain for other targets.
OWN = ROOT / "build/rust-aarch64/toolchains"
HINT = "tools/setup sources, or rustup component add rust-src"


def environment():
    """The environment in which cargo is that compiler's; None if no compiler has its sources."""
    usual = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    for sysroot in (usual, *map(str, OWN.glob("*"))):
        if os.path.exists(f"{sysroot}/lib/rustlib/src/rust/library/std/Cargo.toml"):
            return {**os.environ, "PATH": f"{sysroot}/bin:{os.environ['PATH']}", "RUSTC_BOOTSTRAP": "1"}
    return None
