#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Measures the nucleotide seed scan behind the file system core: bases a cycle, cycles in which it stalled the core, comparisons, size. A base in 600
is ambiguous, and the list of masked bases has 64 places: the processor refills it as the stream goes on.

Writes a JSON list of [name, value, unit, target] to the file in its first argument; `tools/figures blast` compares with the targets.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
import sizes

os.environ.setdefault("STRAIGHTWAY_SEED", "7")
sys.path.insert(0, str(Path(__file__).resolve().parent / "test"))
import test_blastn  # noqa: E402

BASES = 200_000
# An ideal disk, and the RAM disk of 2012: four words in five cycles.
DISKS = {"ideal": (1, 1), "four_fifths": (4, 5)}


def main():
    rows = []
    for disk, (words, cycles) in DISKS.items():
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
            found = test_blastn.scan_of_a_volume(patch, Path(folder), BASES, 400, name=f"blastn_{disk}",
                                                 MaskLog2=6, ReadRateWords=words, ReadRateCycles=cycles)
        share = 100 * found["words"] / found["cycles"]
        rows.append([f"blast.rtl_{disk}_bases_per_cycle", 16 * found["words"] / found["cycles"], "bases", None])
        rows.append([f"blast.rtl_{disk}_percent_of_a_word_a_cycle", share, "%", f">= {97 * words / cycles}"])
        rows.append([f"blast.rtl_{disk}_stall_cycles", found["stalls"], "cycles", "<= 0"])
        rows.append([f"blast.rtl_{disk}_mask_entries", found["mask_entries"], "entries", ">= 256"])
        rows.append([f"blast.rtl_{disk}_unchecked_hits", found["unchecked"], "hits", "<= 0"])
        rows.append([f"blast.rtl_{disk}_comparisons_per_word", found["compares"] / found["words"], "comparisons", None])
    for name in ("blastn", "blastn_16k", "blastn_two_hit"):
        found = sizes.measure(name, "xc7")
        for key, unit in (("lut", "LUT cells"), ("ff", "flip-flops"), ("bram", "block RAMs")):
            rows.append([f"blast.size_{name}_{key}", found[key], unit, None])
    Path(sys.argv[1]).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
