"""The tables of docs/safety.md, made by trying every cell in a guest. `SAFETY_WRITE=1` writes what came out.

Own guests: arrays, mappings and partitions are made of the drive, and md's module cannot be unloaded again.
"""

import os
import re

import pytest

from scripted import ROOT, own_guest

PAGE = ROOT / "docs" / "safety.md"


@pytest.mark.parametrize("which", ["drives", "files", "sinks"])
def test_the_table_is_what_happens(which):
    made = own_guest(f"python3 tests/safety_guest.py $S {which} || fail 'a cell'",
                     "--drive", "size=40M,serial=SAFE1", timeout=1800)  # fmt: skip
    made = made[made.index("| the "):].strip()
    page = PAGE.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- table: {which} -->\n).*?(<!-- end -->)", re.DOTALL)
    assert len(marked.findall(page)) == 1, f"{PAGE} has no place for the table `{which}`"
    written = marked.sub(lambda found: found[1] + made + "\n" + found[2], page)
    if os.environ.get("SAFETY_WRITE"):
        PAGE.write_text(written, encoding="utf-8")
    assert written == page or os.environ.get("SAFETY_WRITE"), f"SAFETY_WRITE=1 writes this to {PAGE}:\n{made}"
