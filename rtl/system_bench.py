# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The simulated system: its builds, volumes and scripts, for the tests and the figures."""

import os
import subprocess
from pathlib import Path

import benches
import cores

RETRY_TICKS, TRIES, TICK = 40, 2, 256
SHAPE = {"DataWidth": 32, "Lanes": 8, "DiskBlocks": 2048, "StripeBlocks": 2, "RetryTicks": RETRY_TICKS}
# A request to a node that does not answer ends within so many cycles (rtl/aoe/README.md, bounds).
LOST_CYCLES = ((2**TRIES - 1) * RETRY_TICKS + 2 * TRIES + RETRY_TICKS) * TICK
NETWORKS = ("torus", "tree")


def build(width=32):
    """The bench with a head of this width; the seed scan is in that of 32 bits."""
    return benches.build(f"system_{width}", "system_sim", "system/system_bench.cpp", SHAPE | {"DataWidth": width},
                             core="system_sim", level="-O1")


def run(program, lines, timeout_s=300):
    """What the bench prints for a script, a list of words for each line. Numbers are numbers."""
    done = subprocess.run([program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=timeout_s)
    if done.returncode != 0:
        raise AssertionError("\n".join(lines) + "\n" + done.stdout[-2000:])
    return [[int(word) if word.isdigit() else word for word in line.split()] for line in done.stdout.splitlines()]


def named(results, name):
    """The numbers of the lines that begin with this word."""
    return [words[1:] for words in results if words[0] == name]


class Search:
    """Queries in a stream: the seed scan's table, and the seeds that the software finds (crates/blast)."""

    def __init__(self, folder, stream, queries):
        build_ = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-blast", "--example", "core_image"]
        subprocess.run(build_, cwd=cores.ROOT, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target"))
        (folder / "query.fa").write_text("".join(f">q{at}\n{query}\n" for at, query in enumerate(queries)))
        (folder / "stream").write_bytes(stream)
        # The core's default: 4,096 entries and buckets.
        self.command = [target / "release" / "examples" / "core_image", folder / "query.fa", folder / "stream", "12", "12"]
        lines = self.model()
        self.table = folder / "table"
        self.table.write_text("".join(" ".join(words) + "\n" for words in lines[:3]))
        self.expected = [(int(base), int(position)) for base, position in named(lines, "hit")]

    def model(self, *words):
        done = subprocess.run([*self.command, *words], check=True, stdout=subprocess.PIPE, text=True)
        return [line.split() for line in done.stdout.splitlines()]

    def meaning(self, hits):
        """The scan's registers for some hits, as places in the stream and in the queries."""
        pairs = [f"{base}:{entry}" for base, entry in hits]
        return [(int(words[1]), int(words[2])) for words in self.model("--", *pairs) if words[0] == "found"] if pairs else []
