# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A head node and its disk nodes on a torus and on a tree: the networks alone, files, a search, rates, nodes that are missing or leave.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import benches  # noqa: E402
import cores  # noqa: E402
import hwfs_script as hw  # noqa: E402
import sizes  # noqa: E402
import system_bench as system  # noqa: E402
import system_model as model  # noqa: E402
from test_blastn import database  # noqa: E402
from test_hwfs import SEED, volume_with  # noqa: E402
from test_hwfs_disks import pattern  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from suites import deal  # noqa: E402

# More than an initiator's silence and the time between two of its queries.
READY = (8 + 2) * system.RETRY_TICKS * system.TICK
VOLUME_BYTES = 512 << 10


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("system_head_port", "system", {}),
    ("system_disk_node", "system", {"Lanes": 2}),
    ("system_torus", "system", {}),
    ("system_torus", "system", {"Ports": 1, "Ways": 2}),
    ("system_tree", "system", {}),
    ("system_tree", "system", {"Ports": 1, "Ways": 8}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.repeated()
def test_yosys_reads_it_too():
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; data are in block RAM."""
    assert sizes.block_rams("system_disk_node", "xc7") == 4


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,ways,ports", [("system_torus", 4, 4), ("system_torus", 4, 1), ("system_tree", 8, 1), ("system_tree", 4, 2)])
def test_networks_alone(top, ways, ports):
    """Every flit once and in order; on the torus within the bound; with full load at the rates that README.md promises."""
    bench = benches.build(f"{top}_{ways}_{ports}", top, "system/network_bench.cpp", {"Ways": ways, "Ports": ports, "Width": 32},
                              core="system", level="-O0")
    for percent in (20, 100):
        words = [bench, str(SEED), "20000", str(percent)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, f"network_bench {' '.join(words[1:])}\n{done.stdout}"


@pytest.fixture(scope="module")
def program():
    return system.build()


def test_files_and_a_search_on_every_network(program, tmp_path):
    """Four and eight disks that were loaded at power-on: the core reads the command's files, writes another one, which the command
    reads, and the seed scan finds in a database what the software finds, without a stalled cycle and without a frame sent again."""
    pick = random.Random(SEED)
    stream, part = database(tmp_path, 120_000, pick)
    search = system.Search(tmp_path, stream, [part[100:220], part[600:640]])
    theirs, size = pattern(7, 0, 40001), pick.randint(1, 30000)
    image = volume_with(tmp_path / "v", {"theirs": theirs, "db.nsq": stream}, size="512K", slots=16)
    # Each network, and each number of disks.
    cells = {(network, disks): "system" for network in system.NETWORKS for disks in (4, 8)}
    apart = {shape: index for index, shape in enumerate(cells)}
    shapes = [shape for shape in cells if deal.part() is None or (apart[shape] + apart[shape] // 2 + deal.part()) % 2 == 0]
    lines = []
    for at, (network, disks) in enumerate(shapes):
        lines += [f"system {network} {disks} 1 {image}", f"ready {READY}", *([f"table {search.table}"] if at == 0 else []), "mount",
                  "get theirs 0 40001 7", f"scan db.nsq {len(stream)}", f"put ours {size} {at}", "delete theirs", "unmount",
                  f"save {tmp_path / f'after{at}'} {VOLUME_BYTES}", "count"]
    results = system.run(program, lines)
    assert {words[0] for words in results} == {hw.OK, "ready", "scan", "hit", "count"}, f"STRAIGHTWAY_SEED={SEED} {results}"
    scans = named_with_hits(results)
    assert len(scans) == len(shapes)
    for at, (status, _, words, hits, stalls, _, found) in enumerate(scans):
        where = f"STRAIGHTWAY_SEED={SEED} {shapes[at]}"
        assert status == hw.OK and words == -(-len(stream) // 4) and stalls == 0 and hits == len(found) > 10, where
        assert search.meaning(found) == search.expected, where
        assert "2 files" in hw.check(tmp_path / f"after{at}"), where
        assert hw.contents(tmp_path / f"after{at}", "ours", tmp_path) == pattern(at, 0, size), where
    sent, again, head_dropped, disk_dropped, deflected, _ = system.named(results, "count")[-1]
    assert (again, head_dropped, disk_dropped, deflected) == (0, 0, 0, 0) and sent > 4 * len(stream) // 1024, f"STRAIGHTWAY_SEED={SEED}"


def named_with_hits(results):
    """The numbers of each `scan`, and behind them its hits."""
    scans = []
    for words in results:
        if words[0] == "scan":
            scans.append([*words[1:], []])
        elif words[0] == "hit":
            scans[-1][-1].append((words[1], words[2]))
    return scans


def rates(program, image, size, shapes, word_cycles):
    """Bytes a cycle of a file with `size` bytes on each disk."""
    lines = []
    for network, disks in shapes:
        lines += [f"system {network} {disks} 1 {image}", f"ready {READY}", "mount", "open 0 file", f"slow {word_cycles}",
                  f"read 0 0 {size * disks} 7"]
    reads = [words for words in system.run(program, lines) if words[0] != "ready"][2::3]
    assert [words[0] for words in reads] == [hw.OK] * len(shapes)
    return {shape: size * shape[1] / words[2] for shape, words in zip(shapes, reads)}


def test_rates(program, tmp_path):
    """Disks that take nine cycles for a word: four of them deliver a file at 3.8 times the rate of one, eight at 7.6 times. A disk
    that is as fast as its line has the network's rate. The model of larger systems agrees; `make figures ONLY=system` compares it
    where a network's rate is used up."""
    size = 20 << 10
    image = volume_with(tmp_path / "v", {"file": pattern(7, 0, size * 8)}, size="512K", slots=16)
    models = {("line", 1): model.line(), ("torus", 4): model.torus(4, 1), ("torus", 8): model.torus(4, 2),
              ("tree", 4): model.tree(4, 1), ("tree", 8): model.tree(4, 2)}
    slow = rates(program, image, size, list(models), 9)
    for (network, disks), rate in slow.items():
        assert disks == 1 or rate >= 0.95 * disks * slow["line", 1], f"{network}, {disks} disks: {slow}"
    alone = {(network, 1): replace(models[network, 8], disks=1, servers=1) for network in system.NETWORKS}
    fast = rates(program, image, size, list(alone), 1)
    for word_cycles, found, networks in ((9, slow, models), (1, fast, alone)):
        for shape, rate in found.items():
            modelled = 4 * model.rate(networks[shape], size // 1024, word_cycles, head_words=1)[0]
            assert abs(modelled / rate - 1) < 0.02, f"{shape}: {modelled} in the model, {rate}"


@pytest.mark.parametrize("network", system.NETWORKS)
def test_nodes_that_are_missing_and_leave(network, program, tmp_path):
    """A disk node without power at the start, and one that leaves in a read and in a write: each command ends with Gone in bounded time.
    When the node is back, with the disk that it had or loaded again, the volume is in order."""
    size = 40000  # more than the array reads ahead
    image = volume_with(tmp_path / "v", {"file": pattern(7, 0, size), "other": pattern(8, 0, size)}, size="512K", slots=16)
    pick = random.Random(f"{SEED} {network}")
    disk = pick.randrange(4)
    read_off, write_off = pick.randint(300, 1200), pick.randint(500, 6000)
    lines = [f"system {network} 4 1 {image}", f"power {disk} 0", f"ready {READY // 4}", "mount",
             f"power {disk} 1 {image}", f"ready {READY}", "mount", f"get file 0 {size} 7",
             f"off {disk} {read_off}", f"get file 0 {size} 7", f"power {disk} 1", f"ready {READY}", "mount", f"get file 0 {size} 7",
             f"off {disk} {write_off}", "put new 30000 9", f"power {disk} 1", f"ready {READY}", "mount", f"get other 0 {size} 8",
             "put later 3000 3", "unmount", f"save {tmp_path / 'after'} {VOLUME_BYTES}", "count"]
    results = system.run(program, lines)
    told = f"STRAIGHTWAY_SEED={SEED} disk {disk} {results}"
    (never, absent, ready, mounted, whole, left, ready_2, again, whole_2, left_2, ready_3, again_3, other, later, unmounted,
     count) = results
    assert never == ["never"] and absent[0] == hw.GONE, told
    assert {words[0] for words in (ready, ready_2, ready_3)} == {"ready"}, told
    assert {words[0] for words in (mounted, whole, again, whole_2, again_3, other, later, unmounted)} == {hw.OK}, told
    for ended, off in ((left, read_off), (left_2, write_off)):
        assert ended[0] == hw.GONE and ended[2] <= off + system.LOST_CYCLES, told
    assert count[2] > 0, told
    assert hw.contents(tmp_path / "after", "later", tmp_path) == pattern(3, 0, 3000), told
    assert "3 files" in hw.check(tmp_path / "after") or "4 files" in hw.check(tmp_path / "after"), told
