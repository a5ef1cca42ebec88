# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Hybrid direct I/O on a real kernel and an emulated drive: the paths that gather, and `--hybrid` through a power-off."""

# partner: Linux | host kernel
# partner: QEMU's nvme | drive

import json

from scripted import ROOT, guest

GATHERED = ("ext4-gathered", "io_uring-gathered", "straightway-gathered")


def test_the_paths_that_gather_need_few_commands_for_short_accesses_and_one_for_long_ones():
    folder = ROOT / "out" / "test-hybrid"
    guest(
        rf"""
        rm -rf out/test-hybrid
        measured $S compare /dev/nvme0n1 --destroy-data LAB1 --paths {",".join(GATHERED)} --sizes 4K,128K --patterns sequential \
          --queue-depth 1 --rounds 3 --cell-duration 50ms --output out/test-hybrid
        driver_is nvme
        """,
        "--cpus", "2", "--drive", "size=512M,serial=LAB1", timeout=600,
    )
    comparison = json.loads((folder / "compare.json").read_text())
    assert not comparison["missing"], comparison["missing"]
    results = comparison["results"]
    assert {result["path"] for result in results} == set(GATHERED)
    for result in results:
        where = (result["path"], result["operation"], result["block_size_bytes"])
        each = result["device_commands"] / result["operations"]
        # What was read ahead at a cell's end, and what was gathered in another one, is in the counts.
        if result["block_size_bytes"] == 4096:
            assert each < 0.5, where
        else:
            assert each < 1.6, where


def test_what_was_written_short_by_hybrid_is_there_by_every_other_path():
    guest(
        r"""
        head -c 8M /dev/urandom >/tmp/in
        $S write /dev/nvme0n1 --destroy-data LAB1 --input /tmp/in --offset 1M --block-size 4K --hybrid --path io_uring || fail "write"
        cmp <(dd if=/dev/nvme0n1 bs=1M skip=1 count=8 iflag=direct status=none) /tmp/in || fail "it reads differently"
        $S read /dev/nvme0n1 --offset 1M --length 8M --block-size 512 --hybrid --path straightway --output /tmp/out.bin || fail "read"
        cmp /tmp/in /tmp/out.bin || fail "it reads differently by the straight path"
        driver_is nvme
        """,
        "--drive", "size=512M,serial=LAB1", timeout=600,
    )
