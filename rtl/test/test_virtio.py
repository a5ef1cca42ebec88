# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The virtio-blk device: its registers, requests, random chains, hostile rings and resets, over a RAM disk and an array.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cocotb_bench  # noqa: E402
import benches  # noqa: E402
import cores  # noqa: E402
import sizes  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from suites import deal  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

BASE = {"Requests": 1, "External": 0, "Sata": 0, "Queues": 1, "BlockSizeLog2": 9, "Disks": 1, "DiskBlocks": 1024,
        "MaxTransfer": 0, "Cached": 0}
# Name: the differences from one queue on a RAM disk with blocks of 512 bytes.
SHAPES = {
    "one_queue": {},
    "three_queues_array": {"Queues": 3, "BlockSizeLog2": 6, "Disks": 2, "DiskBlocks": 8192, "MaxTransfer": 5, "Cached": 1},
    "big_blocks": {"BlockSizeLog2": 12, "DiskBlocks": 128},
    # On a device that the bench plays, which reorders and fails, with one request and several at once; and on an array.
    "one_request": {"External": 1, "Cached": 1},
    "four_requests": {"Requests": 4, "External": 1, "Cached": 1},
    "three_requests_array": {"Requests": 3, "Queues": 2, "BlockSizeLog2": 6, "Disks": 2, "DiskBlocks": 8192, "MaxTransfer": 5,
                             "Cached": 1},
}
# One queue and several, one request and several, the device that reorders and an array, blocks of 512 bytes and of 64.
ALWAYS = {"three_queues_array", "four_requests"}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("virtio_blk", "virtio", {}),
    ("virtio_blk", "virtio", {"Queues": 3, "QueueSize": 8, "BlockSizeLog2": 6, "Platform": 0}),
    ("virtio_blk", "virtio", {"Queues": 4, "QueueSize": 1024, "BlockSizeLog2": 16}),
    ("virtio_blk", "virtio", {"Requests": 8}),
    ("virtio_blk", "virtio", {"Requests": 3, "Queues": 3, "QueueSize": 8, "BlockSizeLog2": 6}),
    ("virtio_sim", "virtio_sim", {"Sata": 1}),
    ("example_virtio", "example_virtio", {}),
    ("example_virtio_sim", "virtio_sim", {}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.repeated()
def test_yosys_reads_it_too():
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; memories are block RAMs."""
    assert sizes.block_rams("virtio_blk", "xc7") == 0.5
    assert sizes.block_rams("example_virtio", "xc7") == 9


def bench(name):
    return benches.build(f"virtio_{name}", "virtio_sim", "virtio/virtio_bench.cpp", BASE | SHAPES[name], core="virtio_sim", shared=True)


def run(name, *words):
    done = subprocess.run([bench(name), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{name}: virtio_bench {' '.join(words)}\n{done.stdout[-2000:]}"
    return done.stdout


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("what", ["registers", "requests"])
def test_directed(name, what):
    """The initialisation sequence; each request type, each error and each chain that cannot be answered."""
    run(name, what)


@pytest.mark.repeated()
def test_the_initialisation_of_the_specification(monkeypatch):
    """In cocotb, independent of the C++ driver: every step in its order, refused ones, requests, a reset."""
    assert cocotb_bench.run(monkeypatch, "virtio_sim", "virtio", "bench_virtio", BASE, core="virtio_sim") == 2


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", SHAPES)
def test_random_chains(name):
    """Reads return the written data with random rings, tables, segment boundaries, event indexes and pauses."""
    for seed in range(SEED, SEED + deal.share(4)):
        run(name, "random", str(seed), "200")


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", SHAPES)
def test_hostile_rings(name):
    """No access outside the descriptors' memory, an end within bounded time, and a device that works after a reset."""
    for seed in range(SEED, SEED + deal.share(2)):
        run(name, "hostile", str(seed), "120")


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", ["one_queue", "one_request", "four_requests"])
def test_resets(name):
    """A reset at any time is answered soon, and no access follows it."""
    run(name, "resets", str(SEED), "100")


@pytest.mark.shapes("name", always=ALWAYS)
@pytest.mark.parametrize("name", ["one_request", "four_requests"])
@pytest.mark.parametrize("latency", [20, 500, 20000])
def test_a_driver_that_does_not_wait_for_a_reset(name, latency):
    """Linux's registers over MMIO, with requests in flight at each reset: each probe succeeds, no old memory is touched."""
    run(name, "linux", str(SEED), str(latency))


def test_several_requests():
    """Used entries in the order of completion; one of several requests fails; a flush covers completed writes; a broken ring."""
    for seed in range(SEED, SEED + 4):
        run("four_requests", "parallel", str(seed))


def test_the_example_with_a_serial_ata_drive():
    """From the registers to single bits on the cable: concurrent requests, flush, discard, an unplugged cable."""
    program = benches.build("example_virtio", "example_virtio_sim", "virtio/example_virtio_bench.cpp",
                                {"Requests": 8, "TimeoutCycles": 20000}, core="virtio_sim")
    done = subprocess.run([program, str(SEED)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"example_virtio_bench {SEED}\n{done.stdout[-2000:]}"


@pytest.mark.parametrize("requests", [1, 4])
def test_a_driver_of_the_registry(requests):
    """The crate virtio-drivers on the registers: initialisation, blocking requests, errors, concurrent requests."""
    shape = BASE | SHAPES["four_requests"] | {"Requests": requests}
    program = benches.build(f"virtio_driver_{requests}", "virtio_sim", "virtio/virtio_driver_bench.cpp", shape,
                                core="virtio_sim", libraries=benches.build_virtio_driver(), shared=True)
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]


def test_cycles():
    """The cycles of requests on an ideal disk: 4 KiB are 1,024 words."""
    cycles = {tuple(line.split()[:2]): float(line.split()[2]) for line in run("one_queue", "rate").splitlines()}
    assert cycles.keys() == {(op, size) for op in ("read", "write") for size in ("4096", "65536")}
    assert all(cycles[op, "4096"] <= 1130 and cycles[op, "65536"] <= 16500 for op in ("read", "write")), cycles
