# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes docs/hardware-verdicts.md from the figures that docs/hardware-verdicts.json keeps and rtl/SIZES.md."""

from pathlib import Path

from . import hardware, page
from .evidence import reasons

PAGE, REASONS = hardware.ROOT / "docs/hardware-verdicts.md", Path(__file__).with_name("hardware_reasons.toml")
COMMANDS = {"figures": "- `make figures ONLY=hwfs,sata`", "sizes": "- `rtl/sizes.py --check` ([SIZES.md](../rtl/SIZES.md))"}
HEAD = """# The dissertation's evaluation, and the cores here

Chapter 4 of A. Mendon's dissertation (2012) measures a file system in hardware on RAM disks and on Serial ATA drives. Below is each of its
tables and figures: what was run there, what differs here, and its claims, with the verdicts and rules of [reproduce.md](reproduce.md).
The dissertation makes few claims and many figures; where its figure is the question, the claim is ours, and marked so.
`tools/reproduce --document` writes this page from the figures that `make figures ONLY=hwfs,sata` leaves (`docs/hardware-verdicts.json` keeps
them) and from [rtl/SIZES.md](../rtl/SIZES.md).

Counts are cycles of the simulated cores, and cells of a synthesis. No core of this project has run on the dissertation's boards: a cycle is
not a time, and a MB/s of the dissertation is turned into percent of a line of 300 MB/s, which carries a word a cycle at 75 MHz. A verdict that
rests on the model of a drive is marked with (*): its latencies and rates are those that the dissertation measured, and no faster, but what
that drive did between them is not known, and a difference of a twentieth tells nothing. For LUT two ways of counting exist, and a verdict needs both to agree.
"""
NEEDED = """## Measurements that are missing

What would tell the claims that cannot be told:

- Ext2 on a processor, on the same simulated disk, in cycles: tables 4.4 and figure 4.13, the dissertation's main result.
- The instructions of Linux's virtio driver for a request, for the figures of the driver on the soft core.
- The cycles of a command in which the disk is busy (table 4.2), and the state of the core before its deletes.
- A model of a hard disk (figure 4.6).
- The Serial ATA core on the model of the drive of 2012: by transfer size from 4 KB to 8 MB (4.7), and random 4 KB at depths from 1 to 32 (4.8).
- Files in extents of 8 KiB (4.10), and random requests of 4 to 128 KB on Serial ATA (4.12).
- A core with blocks of 16 KB, for the block RAM of table 4.6, and a place and route for Virtex-6 for its clocks.
"""


def judged():
    """`(row, claim, finding)` of every claim."""
    return [(row, claim, claim.finding(hardware.result)) for row in hardware.ROWS for claim in row.claims]


def write(found):
    findings, why = {claim.name: finding for _, claim, finding in found}, reasons(REASONS)
    lines = [HEAD, f"Of {len(found)} claims {page.count(found)}.", ""]
    for row in hardware.ROWS:
        lines += page.section(row, findings, [], why, [COMMANDS[name] for name in row.runs])
    PAGE.write_text("\n".join(lines) + "\n" + NEEDED)
