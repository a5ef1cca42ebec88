# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No signal goes from one clock into another but where rtl/crossings.toml says so, and what says so finds the others."""

import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "rtl"))
import cores  # noqa: E402
import crossings  # noqa: E402

LISTED = crossings.listed()
ENTRIES = LISTED["crossing"]
TOPS = {top["top"]: top for top in LISTED["top"]}


@functools.cache
def searched(top):
    return crossings.searched(TOPS[top])


def names(found):
    return {(one.source, one.target) for one in found}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top", TOPS)
def test_every_crossing_is_listed(top):
    """And without its line in the list, each is found."""
    found, all_ = searched(top)
    assert crossings.unlisted(found, all_, ENTRIES) == [] == found.unsettled(all_, ENTRIES)
    used = [entry for entry in ENTRIES if any(found.is_listed(one, entry) for one in all_)]
    assert len(used) >= 2
    for entry in used:
        others = [one for one in ENTRIES if one is not entry]
        assert crossings.unlisted(found, all_, others) == [one for one in all_ if found.is_listed(one, entry)], entry


def test_each_line_of_the_list_is_a_crossing():
    reached = set()
    for top in ("hwfs_sata", "sata_phy"):
        found, all_ = searched(top)
        reached |= {index for index, entry in enumerate(ENTRIES) if any(found.is_listed(one, entry) for one in all_)}
    assert reached == set(range(len(ENTRIES)))


def test_a_core_with_two_clocks_is_searched():
    """Each module with two ports for clocks is a top of the list, or a part of one."""
    for path in cores.RTL.glob("*/*.sv"):
        clocks = re.findall(r"^  input +logic +(?:\[[^]]*\] *)?(\w*clk_i)\b", path.read_text("utf-8"), re.M)
        if len(clocks) > 1 and path.parent.name not in ("sim", "formal", "flat"):
            assert path.stem in TOPS, path


def test_the_constraints_and_the_table_are_those_of_the_list():
    for path, text in crossings.written().items():
        assert path.read_text("utf-8") == text, f"{path.name}: run rtl/crossings.py --write"
        if path.suffix in (".xdc", ".sdc"):
            assert path.name in next(path.parent.glob("*.core")).read_text("utf-8")


TWO = """
module two (input logic a_clk_i, input logic b_clk_i, input logic a_rst_ni, input logic b_rst_ni, input logic d_i, output logic q_o);
  logic a_q, meta_q, sync_q, c_q;
  always_ff @(posedge b_clk_i) c_q <= a_q;
  always_ff @(posedge a_clk_i or negedge a_rst_ni) if (!a_rst_ni) a_q <= 1'b0; else a_q <= d_i;
  always_ff @(posedge b_clk_i or negedge b_rst_ni)
    if (!b_rst_ni) {sync_q, meta_q} <= '0;
    else           {sync_q, meta_q} <= {meta_q, a_q};
  assign q_o = sync_q;
endmodule
"""
ENTRY = {"core": "two", "module": "two", "kind": "level", "from": "a_q", "to": "meta_q"}


@pytest.mark.parametrize("change, found, unsettled", [
    (None, set(), []),
    (("{meta_q, a_q}", "{meta_q, ~a_q}"), {("a_q", "meta_q")}, []),                         # logic before the first flip-flop
    (("{meta_q, a_q}", "{a_q, a_q}"), {("a_q", "sync_q")}, []),  # one flip-flop
    (("q_o = sync_q", "q_o = sync_q ^ c_q"), {("a_q", "c_q")}, []),
    (("{meta_q, a_q}", "{meta_q & d_i, a_q}"), {("d_i", "a_q"), ("d_i", "sync_q")}, ["meta_q is read by logic"]),  # an input in two clocks
    (("a_q <= d_i", "a_q <= d_i ^ sync_q"), {("sync_q", "a_q")}, []),
    (("negedge b_rst_ni", "negedge a_q"), {("a_q", "meta_q's reset"), ("a_q", "sync_q's reset")}, []),
])  # fmt: skip
def test_what_is_not_in_the_list_is_found(change, found, unsettled, monkeypatch, tmp_path):
    text = TWO.replace(*change) if change else TWO
    if change and "negedge a_q" in text:
        text = text.replace("if (!b_rst_ni)", "if (!a_q)")
    assert (text != TWO) == bool(change)
    (tmp_path / "two.sv").write_text(text, "utf-8")
    monkeypatch.setattr(cores, "sources", lambda core: [tmp_path / "two.sv"])
    one, all_ = crossings.searched({"top": "two", "core": "two"})
    assert names(crossings.unlisted(one, all_, [ENTRY])) == found
    assert one.unsettled(all_, [ENTRY]) == unsettled
