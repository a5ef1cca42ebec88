# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No core becomes slower: the logic depth of each on 7 series, its clock on an ECP5 by place and route, and what measures both."""

import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "rtl"))
import cores  # noqa: E402
import netlists  # noqa: E402
import timing  # noqa: E402


@pytest.mark.cells("core")
@pytest.mark.parametrize("core", timing.GOALS)
def test_no_core_becomes_deeper(core):
    bound = timing.GOALS[core].levels
    assert timing.levels(core) <= bound, f"more than {bound} LUTs between two registers: build/rtl/timing/{core}.levels has the chain"


@pytest.mark.skipif(not os.environ.get("STRAIGHTWAY_PLACE"), reason="place and route, minutes for each core: a part of make test-all")
@pytest.mark.parametrize("core", timing.GOALS)
def test_no_core_loses_its_clock(core):
    measured = timing.measure(core)
    assert measured.mhz >= timing.GOALS[core].mhz, measured.path


def test_the_document_has_each_core_within_its_bounds():
    rows = {name: timing.parsed(row) for name, row in timing.documented().items()}
    assert rows.keys() == timing.GOALS.keys()
    for name, goal in timing.GOALS.items():
        assert rows[name].levels <= goal.levels and rows[name].mhz >= goal.mhz, name


# --- What measures ---------------------------------------------------------------------------------

ADDER = """
module tiny (input logic clk_i, input logic rst_ni, input logic [7:0] a_i, output logic [7:0] sum_o);
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) sum_o <= '0;
    else sum_o <= sum_o + a_i;
endmodule
"""


@pytest.fixture
def netlist(monkeypatch):
    """The netlist of one module's text, by the program that is given."""
    folder = cores.BUILD / "timing" / "tiny"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setitem(netlists.sizes.CONFIGURATIONS, "tiny", ("tiny", "tiny", {}))
    monkeypatch.setattr(netlists, "files", lambda name: [folder / "tiny.sv"])

    def made(text, program):
        (folder / "tiny.sv").write_text(text, "utf-8")
        return netlists.made("tiny", program, folder / "netlist.json")

    return made


def test_the_hash_is_that_of_the_logic(netlist):
    """Comments, lines and names do not count; a bit, an inverter or a connection does."""
    first = netlists.hash_of(netlist(ADDER, netlists.ECP5))
    other = "// A comment.\n\n" + ADDER.replace("    else", "    else  // Another.\n     ")
    assert netlists.hash_of(netlist(other, netlists.ECP5)) == first
    for changed in (ADDER.replace("+ a_i", "- a_i"), ADDER.replace("+ a_i", "+ {a_i[6:0], a_i[7]}"), ADDER.replace("[7:0]", "[8:0]")):
        assert netlists.hash_of(netlist(changed, netlists.ECP5)) != first
    assert netlists.hash_of(netlist(ADDER, netlists.ECP5), "--seed") != first


@pytest.mark.repeated()
def test_the_depth_is_that_of_the_longest_chain(netlist):
    """An AND of 6 bits is one LUT, of more bits more."""
    wide = """
    module tiny (input logic clk_i, input logic [WIDTH-1:0] a_i, output logic all_o);
      always_ff @(posedge clk_i) all_o <= &a_i;
    endmodule"""
    depths = [netlists.Depth(netlist(wide.replace("WIDTH", str(width)), netlists.XC7)) for width in (6, 36, 300)]
    assert depths[0].luts == 1 < depths[1].luts < depths[2].luts
    assert [(len(depth.chain), depth.carries) for depth in depths] == [(depth.luts, 0) for depth in depths]


def test_a_register_ends_a_chain(tmp_path):
    """By hand: two LUTs behind each other and a carry, then a register, then one more LUT."""

    def cell(kind, inputs, output):
        return {"type": kind, "port_directions": {"I": "input", "O": "output"}, "connections": {"I": inputs, "O": [output]}}

    cells = {"a": cell("LUT6", [2, 3], 4), "b": cell("CARRY4", [4], 5), "c": cell("LUT2", [5, 2], 6), "d": cell("FDCE", [6], 7),
             "e": cell("LUT3", [7], 8)}
    path = tmp_path / "netlist.json"
    path.write_text(json.dumps({"modules": {"t": {"attributes": {"top": "1"}, "cells": cells}}}), "utf-8")
    depth = netlists.Depth(path)
    assert (depth.luts, depth.carries, depth.chain) == (2, 1, ["a", "b", "c"])


def test_a_path_is_divided_by_instance():
    def step(kind, source, target, ns):
        return {"type": kind, "delay": ns, "from": {"cell": source}, "to": {"cell": target}}

    first, middle, last = "u.u_front.words_q_TRELLIS_FF_Q_3", "u.u_core.u_tags.taken_q_LUT4_Z", "u.u_core.state_q_TRELLIS_FF_Q"
    path = [step("clk-to-q", first, first, 0.5), step("routing", first, middle, 1.0), step("logic", middle, middle, 0.25),
            step("routing", middle, last, 2.0), step("setup", last, last, 0.0)]
    assert timing.described(path) == "`u_front.words_q` to `u_core.state_q`: u_front 0.5, u_core.u_tags 1.2, u_core 2.0 ns"
