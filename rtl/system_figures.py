#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the whole system: files on four and eight remote disks over a torus and a tree compared with one remote disk, the first
word's latency, the search, sizes; and what the model says of 64 disks, with its differences from the simulation.

Writes a JSON list of [name, value, unit, target] to the file in its first argument; `tools/figures system` compares with the targets.
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path

import sizes
import system_bench as system
import system_model as model

os.environ.setdefault("STRAIGHTWAY_SEED", "7")
sys.path.insert(0, str(Path(__file__).resolve().parent / "test"))
import test_blastn  # noqa: E402
from test_hwfs import volume_with  # noqa: E402
from test_hwfs_disks import pattern  # noqa: E402

READY = 10 * system.RETRY_TICKS * system.TICK
SHAPES = [(network, disks) for network in system.NETWORKS for disks in (4, 8)]
# Least speed-up by this number of disks.
TARGETS = {4: 3.8, 8: 7.6}
PER_DISK = 64 << 10
BASES = 1_600_000
MODELS = {("torus", 4): model.torus(4, 1), ("torus", 8): model.torus(4, 2), ("tree", 4): model.tree(4, 1), ("tree", 8): model.tree(4, 2)}


def files(folder):
    """The core with 256 bits on disks that move a word a cycle, each as fast as its line: a file read, and written over."""
    program = system.build(256)
    image = volume_with(folder / "files", {"file": pattern(7, 0, 8 * PER_DISK)}, size="1M", slots=16)
    found = {}
    for network, disks in [("local", 8), ("line", 1), *SHAPES]:
        size = disks * PER_DISK
        lines = [f"system {network} {disks} 1 {image}", f"ready {READY}", "mount", "openw 0 file", f"read 0 0 {size} 7", "first",
                 f"write 0 0 {size} 7", "count"]
        results = system.run(program, lines)
        assert {words[0] for words in results} == {0, "ready", "first", "count"} and results[-1][2:6] == [0] * 4, results
        found[network, disks] = {"read": size / 4 / results[3][2], "write": size / 4 / results[5][2], "first": results[4][1]}
    one = found["line", 1]
    for what in ("read", "write"):
        yield f"system.line_1_{what}_words_per_cycle", one[what], "words a cycle", None
        for network, disks in SHAPES:
            rate = found[network, disks][what]
            yield f"system.{network}_{disks}_{what}_words_per_cycle", rate, "words a cycle", None
            yield f"system.{network}_{disks}_{what}_speedup", rate / one[what], "x one remote disk", f">= {TARGETS[disks]}"
    for (network, disks), rates in found.items():
        yield f"system.{network}_{disks}_first_word", rates["first"], "cycles", None
    for shape in SHAPES:
        modelled, _ = model.rate(MODELS[shape], PER_DISK >> 10)
        difference = 100 * abs(modelled / found[shape]["read"] - 1)
        yield f"system.model_{shape[0]}_{shape[1]}_difference", difference, "% of the simulated rate", "<= 2"


def search(folder):
    """The seed scan behind the core with 32 bits, over each network and on local RAM disks."""
    stream, part = test_blastn.database(folder, BASES, random.Random(7))
    seeds = system.Search(folder, stream, [part[100:500], part[600:640]])
    image = volume_with(folder / "search", {"db.nsq": stream}, size="1M", slots=16)
    program, shares = system.build(), {}
    for network, disks in [("local", 8), *SHAPES]:
        lines = [f"system {network} {disks} 1 {image}", f"ready {READY}", f"table {seeds.table}", "mount", f"scan db.nsq {len(stream)}"]
        results = system.run(program, lines)
        status, cycles, words, _, stalls, _ = system.named(results, "scan")[0]
        assert status == 0 and seeds.meaning([tuple(hit) for hit in system.named(results, "hit")]) == seeds.expected
        shares[network, disks] = words / cycles
        yield f"system.search_{network}_{disks}_percent_of_a_word_a_cycle", 100 * words / cycles, "%", ">= 97"
        yield f"system.search_{network}_{disks}_stall_cycles", stalls, "cycles", "<= 0"
        if network != "local":
            yield f"system.search_{network}_{disks}_percent_of_local", 100 * shares[network, disks] / shares["local", 8], "%", ">= 97"


def larger():
    """64 disk nodes by the model: disks that take nine cycles for a word, and disks as fast as their lines."""
    for name, network in (("torus", model.torus(8, 8)), ("tree", model.tree(8, 8))):
        for kind, word_cycles in (("slow", 9), ("fast", 1)):
            words, _ = model.rate(network, 256, word_cycles)
            one, _ = model.rate(model.line(), 256, word_cycles)
            yield f"system.model_{name}_64_{kind}_words_per_cycle", words, "words a cycle", None
            yield f"system.model_{name}_64_{kind}_speedup", words / one, "x one remote disk", None


def size_rows():
    for name in ("system_head_port", "system_disk_node", "system_torus", "system_tree"):
        size = sizes.measure(name, "xc7")
        yield f"system.size_{name}_sites", size["sites"], "LUT6 sites", None
        yield f"system.size_{name}_ff", size["ff"], "FF", None
        yield f"system.size_{name}_bram", size["bram"], "36 Kib", None


def main():
    with tempfile.TemporaryDirectory() as folder:
        rows = [*files(Path(folder)), *search(Path(folder)), *larger(), *size_rows()]
    Path(sys.argv[1]).write_text(json.dumps(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
