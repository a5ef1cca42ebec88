# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tables of docs/safety.md, made by trying every cell in a guest. `SAFETY_WRITE=1` writes the results.

Own guests: arrays, mappings and partitions are made of the drive, and md's module cannot be unloaded again. One guest makes
all tables: it boots, and its Python starts, once.
"""

import os
import re

import pytest

from scripted import ROOT, own_guest

PAGE = ROOT / "docs" / "safety.md"
TABLE = r"(<!-- table: {} -->\n)(.*?)(\n<!-- end -->)"


@pytest.fixture(scope="module")
def made():
    return own_guest("python3 -IS tests/safety_guest.py $S || fail 'no tables'",
                     "--drive", "size=16M,serial=SAFE1", timeout=900)  # fmt: skip


@pytest.mark.parametrize("which", ["drives", "files", "sinks", "reports"])
def test_the_table_is_what_happens(made, which):
    marked = re.compile(TABLE.format(which), re.DOTALL)
    table = marked.search(made)
    print(*re.findall(r"^.* programs so far$", made, re.M), sep="\n")
    assert table, f"a cell of `{which}` is not as it should be:\n{made[-6000:]}"
    page = PAGE.read_text(encoding="utf-8")
    assert len(marked.findall(page)) == 1, f"{PAGE} has no place for the table `{which}`"
    written = marked.sub(lambda found: found[1] + table[2] + found[3], page)
    if os.environ.get("SAFETY_WRITE"):
        PAGE.write_text(written, encoding="utf-8")
    assert written == page or os.environ.get("SAFETY_WRITE"), f"SAFETY_WRITE=1 writes this to {PAGE}:\n{table[2]}"
