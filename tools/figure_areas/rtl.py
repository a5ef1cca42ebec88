# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The hardware: what rtl/figures.py, rtl/hwfs_figures.py, rtl/sata_figures.py, rtl/virtio_figures.py, rtl/smmu_figures.py,
rtl/link_figures.py, rtl/aoe_figures.py, rtl/system_figures.py and rtl/timing.py measure."""

import json

from .support import ROOT, run

RESULTS = ROOT / "build" / "rtl" / "figures.json"
HWFS_RESULTS = ROOT / "build" / "rtl" / "hwfs_figures.json"
SATA_RESULTS = ROOT / "build" / "rtl" / "sata_figures.json"
VIRTIO_RESULTS = ROOT / "build" / "rtl" / "virtio_figures.json"
SMMU_RESULTS = ROOT / "build" / "rtl" / "smmu_figures.json"
LINK_RESULTS = ROOT / "build" / "rtl" / "link_figures.json"
AOE_RESULTS = ROOT / "build" / "rtl" / "aoe_figures.json"
TIMING_RESULTS = ROOT / "build" / "rtl" / "timing.json"
SYSTEM_RESULTS = ROOT / "build" / "rtl" / "system_figures.json"


def raid0(figures):
    """RAM disks and arrays of them: the memory model, the rates, the sizes, the simulation's speed."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/figures.py", RESULTS])
    for row in json.loads(RESULTS.read_text()):
        figures.add(*row)


def hwfs(figures):
    """The file system core: files in cycles compared with the tables of 2012, its size."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/hwfs_figures.py", HWFS_RESULTS])
    for row in json.loads(HWFS_RESULTS.read_text()):
        figures.add(*row)


def sata(figures):
    """The Serial ATA host: shares of the link, cycles of a command; the file system on one drive and on two; their sizes."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/sata_figures.py", SATA_RESULTS])
    for row in json.loads(SATA_RESULTS.read_text()):
        figures.add(*row)


def virtio(figures):
    """The virtio-blk device: cycles of a request on an ideal disk, its size."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/virtio_figures.py", VIRTIO_RESULTS])
    for row in json.loads(VIRTIO_RESULTS.read_text()):
        figures.add(*row)


def smmu(figures):
    """The storage memory management unit: cycles of hits and misses, streams, its size. A part of the area `map`."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/smmu_figures.py", SMMU_RESULTS])
    for row in json.loads(SMMU_RESULTS.read_text()):
        figures.add(*row)


def link(figures):
    """The link between nodes: the share of the blocks that are payload, latency, recovery, its size."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/link_figures.py", LINK_RESULTS])
    for row in json.loads(LINK_RESULTS.read_text()):
        figures.add(*row)


def aoe(figures):
    """Remote disks: rates of 1, 4 and 8 of them, cycles of overhead a frame, single requests, sizes."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/aoe_figures.py", AOE_RESULTS])
    for row in json.loads(AOE_RESULTS.read_text()):
        figures.add(*row)


def system(figures):
    """A head node and its disk nodes on a torus and a tree: files, the search, a model of 64 disks, sizes."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/system_figures.py", SYSTEM_RESULTS])
    for row in json.loads(SYSTEM_RESULTS.read_text()):
        figures.add(*row)


def timing(figures):
    """Clocks by place and route, and logic depth; rtl/SIZES.md gets them, too. Cores whose netlist is that of SIZES.md are not placed again."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/timing.py", "--write", "--figures", TIMING_RESULTS])
    for row in json.loads(TIMING_RESULTS.read_text()):
        figures.add(*row)
