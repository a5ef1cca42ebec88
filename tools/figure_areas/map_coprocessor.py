# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Storage as memory in the coprocessor's firmware: what a fault costs, in the lab. It repeats exactly."""

import re
import sys

from .support import ROOT, run

sys.path.insert(0, str(ROOT / "firmware"))
import build  # noqa: E402

PAGES = 64


def coprocessor_counts(figures):
    """Instructions of a load whose page is absent, from the trap to the instruction's repetition: both harts, the drive's driver
    included, without polls that found nothing."""
    try:
        firmware, image = build.build(64, ["mapped"], "virt-mapped"), build.application()
    except build.Missing as missing:
        figures.remark(f"SKIPPED: the coprocessor's faults: {missing}")
        return
    # With all frames free, and with fewer than the pages that the program loads from.
    for name, frames in (("", 64), ("_with_eviction", 8)):
        log = run([ROOT / "lab" / "coprocessor", "--bits", "64", "--firmware", firmware, "--qemu=-device",
                   f"--qemu=loader,file={image}", "--drive", "size=16M,serial=LAB1", "--icount", "0",
                   "--orders", f"mode=map frames={frames} context=cold:ro:0+{PAGES * 4096}"])  # fmt: skip
        found = dict(re.findall(r"^context 0: (\w+) (\d+)", log, re.M))
        if "cold" not in found:
            sys.exit(f"figures: no count in the coprocessor's log:\n{log}")
        cost = int(found["cold"]) - int(found["present"])
        figures.add(f"map.coprocessor_cold_load{name}_instructions", cost, "instructions")
