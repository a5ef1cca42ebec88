#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Serves a volume through the simulated file system core: the command's `hwfs:SOCKET`. `make sim-hwfs` calls it.

`sim_hwfs.py IMAGE SOCKET`: the image is a file with a volume whose nodes have at most 512 bytes (`straightway format IMAGE --size 64M --node 512`).
It is written back when a client leaves. Builds the simulation first, which takes a minute.
"""

import os
import sys
from pathlib import Path

import benches


def build(level="-O1"):
    """The bench; the simulation is faster, and its compilation slower, with a higher level."""
    return benches.build("hwfs_axi", "hwfs_axi_sim", "hwfs_axi/hwfs_axi_bench.cpp", {"BlockSizeLog2": 9, "TimeoutCycles": 20000},
                         core="hwfs_axi_sim", level=level)  # fmt: skip


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: sim_hwfs.py IMAGE SOCKET")
    image, socket = map(Path, sys.argv[1:])
    if not image.is_file():
        sys.exit(f"sim-hwfs: {image}: there is no such file\nhint: straightway format {image} --size 64M --node 512")
    # An address of a socket has 107 bytes.
    if len(os.fsencode(socket)) > 107:
        sys.exit(f"sim-hwfs: {socket}: longer than 107 bytes\nhint: use a path in /tmp")
    program = build()
    print(f"straightway ls hwfs:{socket} --long", flush=True)
    os.execv(program, [program, image, socket])


if __name__ == "__main__":
    main()
