# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The networks between nodes: each word once, where it was sent to, in order, within the bounds; and under more load than they can bear.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import benches  # noqa: E402
import cores  # noqa: E402
import sizes  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

# Columns, rows, interval.
TORUSES = {
    "torus_4_4": (4, 4, 32),
    "torus_2_2": (2, 2, 8),
    "torus_8_2": (8, 2, 32),
    "torus_4_4_spread": (4, 4, 8),
    "torus_4_4_loaded": (4, 4, 1),
}
# Ways, levels, interval.
TREES = {
    "tree_4_2": (4, 2, 64),
    "tree_2_3": (2, 3, 32),
    "tree_4_2_loaded": (4, 2, 1),
}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,parameters", [
    ("route_torus", {}),
    ("route_torus", {"Width": 256, "Columns": 2, "Rows": 8, "Interval": 1}),
    ("route_tree", {}),
    ("route_tree", {"Width": 256, "Ways": 2, "Levels": 1}),
    ("tree_link_sim", {}),
])
def test_lint(top, parameters):
    assert cores.lint(top, "route_sim", parameters) == ""


@pytest.mark.repeated()
@pytest.mark.parametrize("name", ["route_router", "route_switch"])
def test_yosys_reads_it_too(name):
    """The second reader: slang, in Yosys. Latches and combinational loops are errors."""
    assert sizes.block_rams(name, "xc7") == 0


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{program} {' '.join(map(str, words))}\n{done.stdout[-2000:]}"
    return done.stdout.replace(",", "").split()


def torus(name, what, seed, cycles):
    columns, rows, interval = TORUSES[name]
    program = benches.build(f"route_{name}", "route_torus", "route/torus_bench.cpp",
                                {"Width": 64, "Columns": columns, "Rows": rows, "Interval": interval}, core="route")
    return run(program, what, seed, cycles)


def tree(name, *words):
    ways, levels, interval = TREES[name]
    program = benches.build(f"route_{name}", "route_tree", "route/tree_bench.cpp",
                                {"Width": 64, "Ways": ways, "Levels": levels, "Interval": interval}, core="route")
    words = run(program, *words)
    return dict(zip(words[::2], map(int, words[1::2])))


@pytest.mark.shapes("name", always={"torus_4_4"})
@pytest.mark.parametrize("name", [name for name in TORUSES if name.count("_") == 2])
def test_a_torus_keeps_its_bounds(name):
    """The wait at the source, the latency and the order, for all patterns of destinations."""
    columns, _, _ = TORUSES[name]
    words, _, _, wait, _, latency = torus(name, "bounded", SEED, 100000)
    assert int(words) > 10000 and columns / 2 <= int(wait) < columns < int(latency)


def test_a_torus_whose_nodes_share_the_columns():
    """A shorter interval is enough if fewer nodes send into each column; more of them break the bounds."""
    words, _, _, _, _, latency = torus("torus_4_4_spread", "spread", SEED, 100000)
    assert int(words) > 40000 and int(latency) > 6
    with pytest.raises(AssertionError, match="FAILED"):
        torus("torus_4_4_spread", "bounded", SEED, 100000)


def test_a_torus_under_load_loses_nothing():
    """Without intervals words are deflected and overtake others, and each still arrives once."""
    words = torus("torus_4_4_loaded", "loaded", SEED, 20000)
    found = dict(zip(words[::2], words[1::2]))
    assert int(found["deflected"]) > 0 and float(found["a_node_a_cycle"]) > 0.25


@pytest.mark.shapes("name", always={"tree_4_2"})
@pytest.mark.parametrize("name", TREES)
def test_a_tree_keeps_its_bound(name):
    """Each word once, in order, with its leaf; down in a cycle for each level; up within the bound if leaves keep the interval."""
    found = tree(name, SEED, 60000, 0)
    assert found["words"] > 40000
    ways, levels, _ = TREES[name]
    if "loaded" in name:
        # All leaves together use the root's whole rate.
        assert found["words"] > 60000 * 1.7
    else:
        assert ways ** levels - 1 <= found["latency"] <= found["bound"]


@pytest.mark.shapes("name", always={"tree_4_2"})
@pytest.mark.parametrize("name", TREES)
def test_a_tree_waits_for_who_does_not_take(name):
    """Root and leaves pause at random: each word once, in order."""
    assert tree(name, SEED, 60000, 30)["words"] > 10000


def test_a_tree_over_links():
    """The switch's children are in other nodes, on lines with errors: each word once, in order."""
    program = benches.build("route_tree_link", "tree_link_sim", "route/tree_link_bench.cpp", {}, core="route_sim")
    for seed in range(SEED, SEED + 3):
        words = run(program, seed, 60000)
        found = dict(zip(words[::2], map(int, words[1::2])))
        assert found["up"] > 20000 and found["down"] > 20000 and found["damages"] > 50
