#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The crossings between clocks: finds each in a netlist, and writes constraints for those that rtl/crossings.toml lists.

`crossings.py` searches the tops that the list names and fails at a crossing that it lacks. With `--write` it writes each module's
scoped XDC and SDC, and the table of docs/rtl-crossings.md.

A crossing is a register or memory whose next value depends on one of another clock, on an input that belongs to no clock, or on an
input that is read in two clocks. The netlist is that of Yosys without mapping: nothing is merged or moved in it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

import cores

LIST = cores.RTL / "crossings.toml"
DOCUMENT = cores.ROOT / "docs" / "rtl-crossings.md"
BEGIN, END = "<!-- crossings.py writes from here -->\n", "<!-- crossings.py writes to here -->\n"
PROGRAM = """
import json, sys
from pyosys import libyosys
job = json.loads(sys.argv[1])
design = libyosys.Design()
def do(command): libyosys.run_pass(command, design)
do("read_slang --top " + job["top"] + " " + " ".join(f"-G {k}={v}" for k, v in job["parameters"].items()) + " " + " ".join(job["files"]))
do("prep -flatten -top " + job["top"])
do("memory_collect")
do("write_json " + job["output"])
"""
BITWISE = {"$and", "$or", "$xor", "$xnor", "$not", "$pos", "$mux", "$bwmux"}


class Crossing(NamedTuple):
    """A register or memory `target` that depends on the register, memory or input `source` of another clock."""

    source: str
    target: str
    clocks: tuple[str, str]
    through: frozenset[str]  # signals on the way
    is_direct: bool          # no logic is between them
    bit: object              # of the target, in the netlist


def listed():
    return tomllib.loads(LIST.read_text("utf-8"))


def netlist(top, core, parameters):
    """The flat module of a top, and the file from which each of its signals is."""
    with tempfile.TemporaryDirectory() as folder:
        job = {"top": top, "parameters": parameters, "output": f"{folder}/netlist.json",
               "files": [str(file) for file in cores.sources(core) if file.name != "block_checker.sv"]}
        done = subprocess.run([cores.BIN / "python", "-c", PROGRAM, json.dumps(job)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(f"{top} does not elaborate:\n{done.stdout[-2000:]}")
        return json.loads(Path(job["output"]).read_text("utf-8"))["modules"][top]


def module_of(item):
    """The module in whose file a signal or memory is declared."""
    return Path(item["attributes"].get("src", "").partition(":")[0]).stem


class Netlist:
    """What each register's next value depends on, bit by bit."""

    def __init__(self, module, any_clock=()):
        self.names, self.modules, self.users = {}, {}, {}
        for name, net in module["netnames"].items():
            if not net["hide_name"]:
                self.modules[name] = module_of(net)
                for bit in net["bits"]:
                    self.names.setdefault(bit, []).append(name)
        self.sources, self.before, self.targets, self.resets = {}, {}, [], []
        for name, cell in module["cells"].items():
            kind, pins = cell["type"], cell["connections"]
            if kind.startswith("$mem"):
                self.memory(name, cell)
            elif "CLK" in pins:
                clock = pins["CLK"][0]
                for index, bit in enumerate(pins["Q"]):
                    self.sources[bit] = (self.called(bit), clock)
                    inputs = [pins["D"][index], *(pin for port in ("EN", "SRST") for pin in pins.get(port, []))]
                    self.targets.append((self.called(bit), clock, inputs, bit))
                for port in ("ARST", "ALOAD"):
                    self.resets += [(self.called(pins["Q"][0]), clock, bit) for bit in pins.get(port, [])]
            elif kind not in ("$scopeinfo", "$check", "$print", "$assert", "$assume", "$cover"):
                self.logic(kind, cell)
        for name, port in module["ports"].items():
            if port["direction"] == "input":
                for bit in port["bits"]:
                    self.sources[bit] = (name, "any" if name in any_clock else None)
        for name, _, inputs, _ in self.targets:
            for index, bit in enumerate(inputs):
                self.users.setdefault(bit, []).append((name, index == 0))
        for bits in self.before.values():
            for bit in bits:
                self.users.setdefault(bit, []).append(("logic", False))
        self.clocks = {bit: self.called(bit) for bit in {clock for _, clock, _, _ in self.targets}}
        self.known = {}

    def called(self, bit):
        """A register's own name, or else the shortest: the one where it is declared, or of the outermost instance."""
        return min(self.names.get(bit, [f"net {bit}"]), key=lambda name: (not name.endswith("_q"), name.count("."), len(name), name))

    def logic(self, kind, cell):
        pins, ways = cell["connections"], cell["port_directions"]
        inputs = [port for port in pins if ways[port] == "input"]
        for port in pins:
            if ways[port] == "output":
                for index, bit in enumerate(pins[port]):
                    alike = kind in BITWISE and all(len(pins[one]) == len(pins[port]) for one in inputs if one != "S")
                    self.before[bit] = [one for way in inputs for one in ([pins[way][index]] if alike and way != "S" else pins[way])]

    def memory(self, name, cell):
        pins, parameters = cell["connections"], dict(cell["parameters"].items())
        width, address = int(parameters["WIDTH"], 2), int(parameters["ABITS"], 2)
        writers = sorted(set(pins["WR_CLK"][:int(parameters["WR_PORTS"], 2)]), key=str)
        self.modules[name] = module_of(cell)
        content = [("memory", name, clock) for clock in writers]
        for one in content:
            self.sources[one] = (name, one[2])
            self.targets.append((name, one[2], [*pins["WR_ADDR"], *pins["WR_DATA"], *pins["WR_EN"]], one))
        clocked = parameters["RD_CLK_ENABLE"][::-1]
        for port in range(int(parameters["RD_PORTS"], 2)):
            data, place = pins["RD_DATA"][port * width:(port + 1) * width], pins["RD_ADDR"][port * address:(port + 1) * address]
            if clocked[port] == "1":
                clock = pins["RD_CLK"][port]
                self.targets.append((name, clock, [*place, pins["RD_EN"][port], *content], None))
                self.sources |= dict.fromkeys(data, (name, clock))
            else:
                self.before |= {bit: [*place, *content] for bit in data}

    def reached(self, bit):
        """The clocks of the sources of a bit, and inputs that may belong to any."""
        stack, opened = [bit], set()
        while stack:
            one = stack[-1]
            below = [each for each in self.before.get(one, []) if not isinstance(each, str)]
            missing = [each for each in below if each not in self.known and each not in opened]
            if one in self.known:
                stack.pop()
            elif one in self.sources:
                clock = self.sources[one][1]
                self.known[one] = frozenset([("input", one) if clock is None else clock])
            elif missing:
                opened.add(one)
                stack += missing
            else:
                self.known[one] = frozenset().union(*(self.known.get(each, frozenset()) for each in below))
        return self.known[bit]

    def ways(self, start, wanted):
        """The sources of these clocks or inputs on which a bit depends, with the signals on the way."""
        found, stack, seen = [], [(start, frozenset())], set()
        while stack:
            bit, names = stack.pop()
            if bit in seen or isinstance(bit, str):
                continue
            seen.add(bit)
            names |= frozenset(self.names.get(bit, []))
            if bit in self.sources:
                name, clock = self.sources[bit]
                if (clock if clock is not None else ("input", bit)) in wanted:
                    found.append((bit, name, clock, names))
            else:
                stack += [(one, names) for one in self.before.get(bit, []) if not isinstance(one, str) and self.reached(one) & wanted]
        return found

    def crossings(self):
        targets = [(name, clock, bit, own) for name, clock, bits, own in self.targets for bit in bits if not isinstance(bit, str)]
        # An input belongs to the clock in which it is read, if that is one.
        readers = {}
        for _, clock, bit, _ in targets:
            for one in self.reached(bit):
                if isinstance(one, tuple):
                    readers.setdefault(one, set()).add(clock)
        shared = {one for one, clocks in readers.items() if len(clocks) > 1}
        found = set()
        for name, clock, bit, own in targets:
            wanted = frozenset(one for one in self.reached(bit) if one in shared or (not isinstance(one, tuple) and one != clock))
            for source_bit, source, source_clock, through in self.ways(bit, wanted) if wanted else []:
                clocks = (self.clocks.get(source_clock, "any"), self.clocks[clock])
                found.add(Crossing(source, name, clocks, through, source_bit == bit, own))
        for name, clock, bit in self.resets:
            wanted = frozenset(one for one in self.reached(bit) if not isinstance(one, tuple) and one != clock)
            for _, source, source_clock, through in self.ways(bit, wanted) if wanted else []:
                found.add(Crossing(source, f"{name}'s reset", (self.clocks.get(source_clock, "any"), self.clocks[clock]), through, False, None))
        return sorted(found, key=lambda one: (one.source, one.target, sorted(one.through), str(one.bit)))

    def is_listed(self, crossing, entry):
        """Whether this entry of the list is this crossing: its signals are the entry's, in one instance of the entry's module."""
        def instances(names, wanted):
            return {name[:-len(wanted)] for name in names if (name == wanted or name.endswith(f".{wanted}"))
                    and self.modules.get(name, entry["module"]) == entry["module"]}  # fmt: skip

        places = instances(crossing.through | {crossing.source}, entry.get("from") or entry["through"])
        if any(crossing.target.rpartition(".")[2] == name for name in entry.get("except", [])):
            return False
        if "to" in entry:
            places &= instances([crossing.target], entry["to"])
        return bool(places) and (crossing.is_direct or entry["kind"] == "held")


    def unsettled(self, crossings, entries):
        """First flip-flops that lead to anything but the second one: nobody may read what may not be settled."""
        first = {one.bit: one.target for one in crossings for entry in entries if "to" in entry and self.is_listed(one, entry)}
        readers = {bit: self.users.get(bit, []) for bit in first}
        return sorted({f"{name} is read by {', '.join(sorted(reader for reader, _ in readers[bit])) or 'nothing'}"
                       for bit, name in first.items() if [is_next for _, is_next in readers[bit]] != [True]})


def searched(top):
    """The netlist of an entry of the list of tops, and its crossings."""
    found = Netlist(netlist(top["top"], top["core"], top.get("parameters", {})), top.get("any", []))
    return found, found.crossings()


def unlisted(found, crossings, entries):
    return [one for one in crossings if not any(found.is_listed(one, entry) for entry in entries)]


def constraints(entries):
    """The text of each module's XDC and SDC, by path."""
    by_module = {}
    for entry in entries:
        by_module.setdefault((entry["core"], entry["module"]), []).append(entry)
    return {cores.RTL / core / f"{module}.{kind}": text(module, group) for (core, module), group in by_module.items()
            for kind, text in (("xdc", xdc), ("sdc", sdc))}  # fmt: skip


HEAD = """# SPDX-License-Identifier: Apache-2.0 OR MIT
# Written by rtl/crossings.py from rtl/crossings.toml.
"""


def xdc(module, entries):
    lines = [HEAD + f"""# The crossings of one instance of {module}: in Vivado `read_xdc -ref {module} {module}.xdc`, after the clocks.
# Not tried in Vivado.
"""]
    for entry in entries:
        start = (f"-from [get_cells -quiet {{{entry['from']}_reg*}}]" if entry.get("from", "").endswith("_q")
                 else f"-through [get_nets -quiet {{{entry.get('through', entry.get('from'))}*}}]")  # fmt: skip
        end = f" -to [get_cells -quiet {{{entry['to']}_reg*}}]" if "to" in entry else ""
        clock = "get_property -min PERIOD [get_clocks -of_objects [get_ports {0}]]"
        lines.append(f"# {entry['kind']}: {entry['says']}")
        if entry["kind"] == "level":
            lines.append(f"set_false_path {start}{end}")
        elif entry["kind"] == "gray":
            lines += [f"set period [{clock.format(entry['source'])}]", f"set_max_delay -datapath_only {start}{end} $period",
                      f"set_bus_skew {start}{end} $period"]  # fmt: skip
        elif "from" in entry:
            lines += [f"set period [{clock.format(entry['target'])}]", f"set_max_delay -datapath_only {start}{end} $period"]
        else:
            lines.append(f"set_false_path {start}")
    return "\n".join(lines) + "\n"


def sdc(module, entries):
    lines = [HEAD + f"""# The crossings of all instances of {module}, for tools that read SDC and find cells by a pattern of their path. Set `period` to the shortest
# period of the clocks that meet, in ns, before reading it. Not tried in a vendor's tool.
"""]
    for entry in entries:
        start = (f"-from [get_cells */{entry['from']}*]" if entry.get("from", "").endswith("_q")
                 else f"-through [get_nets */{entry.get('through', entry.get('from'))}*]")  # fmt: skip
        end = f" -to [get_cells */{entry['to']}*]" if "to" in entry else ""
        lines.append(f"# {entry['kind']}: {entry['says']}")
        lines.append(f"set_max_delay $period {start}{end}" if entry["kind"] == "gray" or "from" in entry and entry["kind"] == "held"
                     else f"set_false_path {start}{end}")  # fmt: skip
    return "\n".join(lines) + "\n"


def table(entries):
    lines = ["| module | from | to | clocks | kind | what |", "| --- | --- | --- | --- | --- | --- |"]
    for entry in entries:
        target = f"`{entry['to']}`" if "to" in entry else "its reader"
        lines.append(f"| `{entry['module']}` | `{entry.get('from') or entry['through']}` | {target} | `{entry['source']}` to `{entry['target']}` | "
                     f"{entry['kind']} | {entry['says']} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def written():
    """What the list says, by the path of each file."""
    entries = listed()["crossing"]
    text = DOCUMENT.read_text("utf-8")
    return constraints(entries) | {DOCUMENT: text.split(BEGIN)[0] + BEGIN + table(entries) + END + text.split(END)[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the constraints and the table")
    if parser.parse_args().write:
        for path, text in written().items():
            path.write_text(text, "utf-8")
        return
    entries, wrong = listed()["crossing"], 0
    for top in listed()["top"]:
        found, crossings = searched(top)
        bad = [f"{one.source} to {one.target}, {' to '.join(one.clocks)}" for one in unlisted(found, crossings, entries)]
        bad += found.unsettled(crossings, entries)
        print(f"{top['top']}: {len(crossings)} crossings", *bad, sep="\n  ")
        wrong += len(bad)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
