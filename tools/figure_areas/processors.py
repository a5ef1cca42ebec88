# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Counts instructions on processors that this machine does not have: firmware/count in QEMU's user mode, with lab/count's plug-in."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .support import ROOT, TARGET, run

sys.path.insert(0, str(ROOT / "lab"))
import count  # noqa: E402

TARGETS = {"aarch64": "aarch64-unknown-none", "riscv64": "riscv64imac-unknown-none-elf"}
HINT = "run: tools/setup aarch64"


def why_not(architecture):
    """Why nothing can be counted, or None."""
    if not shutil.which(f"qemu-{architecture}"):
        return f"no qemu-{architecture}; {HINT}"
    if not list(ROOT.glob(f"build/rust-aarch64/toolchains/*/lib/rustlib/{TARGETS[architecture]}")):
        return f"no Rust for {TARGETS[architecture]}; {HINT}"
    done = subprocess.run(["tools/cross", "true"], cwd=ROOT, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else None


def build(architecture):
    target = TARGET.absolute() / "count"
    run(["tools/cross", "cargo", "build", "--quiet", "--release", "--locked", "--target", TARGETS[architecture],
         "--manifest-path", "firmware/count/Cargo.toml", "--target-dir", target])  # fmt: skip
    return target / TARGETS[architecture] / "release" / "straightway-count"


def counts(architecture, program, bursts):
    """Each scenario's counts, in the order in which its bursts ran, less the cost of the markers. `bursts`: of each scenario."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "counts"
        said = run([f"qemu-{architecture}", "-plugin", count.plugin_option(output), program])
        rows = [int(line.split()[1]) for line in output.read_text().splitlines()]
    # The program's own account of what it ran.
    ran = {line.split()[0]: int(line.split()[1]) for line in said.splitlines()}
    assert ran == bursts, f"{ran} is not {bursts}"
    found = {}
    for name, number in bursts.items():
        number *= 1 if name == "empty" else 2
        markers, *found[name] = rows[:number + 1]
        found[name] = [one - markers for one in found[name]]
        del rows[:number + 1]
    assert not rows, f"{len(rows)} counts too many"
    return found
