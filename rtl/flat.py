#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cores with plain ports, for tools and languages that have no SystemVerilog structures: writes rtl/flat from rtl/flat/wrappers.toml.

A wrapper has the core's parameters. Each field of a structure is a port; AXI ports have the names from which tools infer an interface, and
an AXI4 manager the constant signals that the core leaves out. `flat.py` writes the wrappers and their FuseSoC cores, `--check` compares,
`--verilog NAME FILE [PARAMETER=VALUE]...` converts one with all that is in it to plain Verilog, by Yosys.
"""

import argparse
import functools
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import NamedTuple

import cores

FOLDER = cores.RTL / "flat"
DESCRIPTION = FOLDER / "wrappers.toml"
LICENCE = "SPDX-License-Identifier: Apache-2.0 OR MIT"
# The signals of an AXI4 manager that are constant: whole words at rising addresses, bufferable, not cached, data, unprivileged, secure.
CONSTANT = {"burst": (2, "2'b01"), "cache": (4, "4'b0011"), "prot": (3, "3'b000")}


class Port(NamedTuple):
    name: str
    direction: str  # input, output
    bits: str  # the range as written, or empty
    text: str = ""  # a comment


class Wire(NamedTuple):
    """One of the core's ports, and what it is connected to."""

    name: str
    value: str


@functools.cache
def description():
    return tomllib.loads(DESCRIPTION.read_text("utf-8"))


# --- The core's own ports --------------------------------------------------------------------------


@functools.cache
def elaborated(name):
    """The core's ports with their types, by slang: {name: type}, and the values of its parameters."""
    from pyslang import driver

    reader = driver.Driver()
    reader.addStandardArgs()
    files = [str(file) for file in cores.sources(description()[name]["core"])]
    if not reader.parseCommandLine(" ".join(["slang", "--top", name, *files])) or not reader.processOptions() or not reader.parseAllSources():
        raise RuntimeError(f"{name}: slang does not read its sources")
    compilation = reader.createCompilation()
    (top,) = compilation.getRoot().topInstances
    kept_alive.append((reader, compilation))
    return {port.name: port.type for port in top.body.portList}, {one.name: one.value for one in top.body.parameters}


kept_alive = []


def header(name):
    """The text of the module's head: its parameters and its ports, a line each."""
    (file,) = (file for file in cores.sources(description()[name]["core"]) if file.name == f"{name}.sv")
    text = file.read_text("utf-8")
    found = re.search(rf"^module {name}\b.*?(?:#\((?P<parameters>.*?)^\) \(|\()(?P<ports>.*?)^\);", text, re.M | re.S)
    return (found["parameters"] or "").splitlines(), found["ports"].splitlines()


def parameters(name):
    """The lines of the wrapper's parameters, with plain types, and the names."""
    _, values = elaborated(name)
    lines, names = [], []
    for line in header(name)[0]:
        found = re.match(r"\s*(parameter|localparam)\s+(.*?)(\w+)\s*=\s*(.*?),?\s*(//.*)?$", line)
        if not found:
            continue
        kind, type_, parameter, value, _ = found.groups()
        if re.search(r"\b[A-Za-z_]+Words\b", value):  # a package's constant
            value = str(int(values[parameter].value))
        lines.append(f"  {kind} {type_}{parameter} = {value}")
        if kind == "parameter":
            names.append(parameter)
    return lines, names


# --- The wrapper's ports ---------------------------------------------------------------------------


def fields(type_, path=()):
    """The leaves of a structure in their order: (names, bits)."""
    canonical = type_.canonicalType
    if "PackedStruct" not in str(canonical.kind):
        yield path, canonical.bitWidth
        return
    for field in canonical:
        yield from fields(field.type, (*path, field.name))


def axi_name(path):
    """A field's name as tools infer it: aw_valid, aw.address, w_strobe are awvalid, awaddr, wstrb."""
    words = "_".join(path).split("_")
    short = {"address": "addr", "strobe": "strb", "context": "user"}
    return "".join(short.get(word, word) for word in words)


def wrapped(name):
    """The wrapper's ports, the connections of the core's ports, and further lines."""
    types, _ = elaborated(name)
    entry = description()[name]
    prefixes, names = entry.get("prefixes", {}), entry.get("names", {})
    clocks = {"clk_i": "aclk", "rst_ni": "aresetn"} if entry.get("clock") else {"clk_i": "clk", "rst_ni": "rst_n"}
    ports, wires, lines, managers = [], [], [], []
    for line in header(name)[1]:
        found = re.match(r"\s*(input|output)\s+([\w:]+)\s*((?:\[[^\]]*\]\s*)*)(\w+),?\s*(?://\s*(.*))?$", line)
        if not found:
            continue
        direction, type_name, bits, port, text = found.groups()
        bits, text = bits.strip(), text or ""
        base = re.sub(r"_(ni|i|o)$", "", port)
        kind = str(types[port].canonicalType.kind)
        array = type_name != "logic" and bits
        if type_name == "logic" or "Enum" in kind:
            plain = names.get(port) or clocks.get(port) or (f"{base}_n" if port.endswith("_ni") else base)
            if "Enum" in kind:
                bits = f"[{types[port].bitWidth - 1}:0]"
            wide = re.fullmatch(r"\[(.*)-1:0\]\s*\[(.*)-1:0\]", bits)
            if wide:
                bits = f"[{wide[1]}*{wide[2]}-1:0]"
            ports.append(Port(plain, direction, bits, text))
            cast = "Enum" in kind and direction == "input"
            wires.append(Wire(port, f"{types[port]}'({plain})" if cast else plain))
            continue
        prefix = prefixes[base]
        element = types[port].canonicalType.elementType if array else types[port]
        is_axi = re.match(r"(axi_pkg|axil_pkg|smmu_pkg)::", str(element))
        leaves = []
        for path, width in fields(element):
            leaf = f"{prefix}_{axi_name(path) if is_axi else '_'.join(path)}"
            leaves.append((leaf, width))
            if array:
                ports.append(Port(leaf, direction, f"[Disks{f'*{width}' if width > 1 else ''}-1:0]"))
            else:
                ports.append(Port(leaf, direction, f"[{width - 1}:0]" if width > 1 else ""))
        if array:
            local = f"{base}_{'in' if direction == 'input' else 'out'}"
            parts = ", ".join(f"{leaf}[{width}*i+:{width}]" for leaf, width in leaves)
            lines += [f"  logic [Disks-1:0][{sum(width for _, width in leaves) - 1}:0] {local};",
                      f"  for (genvar i = 0; i < Disks; i++) begin : gen_{local}",
                      *folded(f"    assign {local}[i] = {{{parts}}};" if direction == "input" else f"    assign {{{parts}}} = {local}[i];"),
                      "  end"]
            wires.append(Wire(port, local))
        else:
            wires.append(Wire(port, "{" + ", ".join(leaf for leaf, _ in leaves) + "}"))
            if str(element) == "axi_pkg::manager_t":
                managers.append(prefix)
    taken = {port.name for port in ports}
    for prefix in managers:
        for channel in ("aw", "ar"):
            for signal, (width, value) in CONSTANT.items():
                if f"{prefix}_{channel}{signal}" not in taken:
                    ports.append(Port(f"{prefix}_{channel}{signal}", "output", f"[{width - 1}:0]"))
                    lines.append(f"  assign {prefix}_{channel}{signal} = {value};")
        (data,) = (port for port in ports if port.name == f"{prefix}_wdata")
        if f"{prefix}_rdata" not in taken:  # a manager that does not read
            ports.append(Port(f"{prefix}_rdata", "input", data.bits))
        if f"{prefix}_wstrb" not in taken:
            ports.append(Port(f"{prefix}_wstrb", "output", data.bits.replace("-1:0", "/8-1:0")))
            lines.append(f"  assign {prefix}_wstrb = '1;")
    double = {port.name for port in ports if [one.name for one in ports].count(port.name) > 1}
    if double:
        raise RuntimeError(f"{name}: two ports are named {', '.join(sorted(double))}")
    return ports, wires, lines


def folded(line):
    """The line, folded at 132 characters."""
    indent = line[:len(line) - len(line.lstrip())]
    return textwrap.wrap(line, 132, subsequent_indent=indent + "  ", break_long_words=False, break_on_hyphens=False) or [line]


def wrapper(name):
    ports, wires, lines = wrapped(name)
    declared, names = parameters(name)
    width = max(len(port.bits) for port in ports)
    rows = [(f"  {port.direction:<6} logic {port.bits:<{width}} {port.name}", port.text) for port in ports]
    rows = [row + ("," if index + 1 < len(rows) else "") + (f"  // {text}" if text else "") for index, (row, text) in enumerate(rows)]
    head = folded(f"// {description()[name]['text'][0].upper()}{description()[name]['text'][1:]}, with plain ports. {name} has the meaning of "
                  "parameters and ports. Written by rtl/flat.py; do not edit.")
    head = [line.strip() if line.startswith("//") else f"// {line.strip()}" for line in head]
    connections = [folded(f"    .{wire.name}({wire.value}){',' if index + 1 < len(wires) else ''}") for index, wire in enumerate(wires)]
    given = f" #({', '.join(f'.{one}({one})' for one in names)})" if names else ""
    return "\n".join([f"// {LICENCE}", *head, f"module {name}_flat" + (" #(" if declared else " ("),
                      *([",\n".join(declared), ") ("] if declared else []),
                      *rows, ");", *lines, *folded(f"  {name}{given} u_{name} ("), *(line for group in connections for line in group), "  );",
                      "endmodule", ""])


def core(name):
    """The wrapper's FuseSoC core: a top level for simulations and for synthesis."""
    entry = description()[name]
    return f"""CAPI=2:
# {LICENCE}
# Written by rtl/flat.py; do not edit.

name: straightway:rtl:{name}_flat:0.1.0
description: "{entry['text']}, with plain ports"

filesets:
  rtl:
    files:
      - {name}_flat.sv
    file_type: systemVerilogSource
    depend:
      - straightway:rtl:{entry['core']}

targets:
  default: &default
    filesets: [rtl]
    toplevel: {name}_flat
  lint:
    <<: *default
    default_tool: verilator
    tools:
      verilator:
        mode: lint-only
        verilator_options: [-Wall, --assert]
  # A model in C++, without a bench.
  sim:
    <<: *default
    default_tool: verilator
    tools:
      verilator:
        mode: cc
        verilator_options: [--assert]
  synth:
    <<: *default
    default_tool: vivado
    tools:
      vivado:
        part: xc7a100tcsg324-1
"""


def written():
    """Every file and its text."""
    return {FOLDER / f"{name}_flat{suffix}": make(name) for name in description() for suffix, make in ((".sv", wrapper), (".core", core))}


# --- Plain Verilog ---------------------------------------------------------------------------------

CONVERT = """
import json, sys
from pyosys import libyosys
job = json.loads(sys.argv[1])
design = libyosys.Design()
def do(command): libyosys.run_pass(command, design)
do("read_slang --top " + job["top"] + " " + " ".join(f"-G {k}={v}" for k, v in job["parameters"].items()) + " " + " ".join(job["files"]))
do("hierarchy -check -top " + job["top"])
do("proc")
do("memory_collect")
do("bwmuxmap")
do("opt_clean")
do("check -assert")
do("write_verilog -noattr -renameprefix straightway " + job["output"])
"""


def convert(name, output, values=None):
    """The wrapper and all that is in it, with these parameters, as one file of plain Verilog."""
    files = [str(file) for file in cores.sources(f"{name}_flat") if file.name != "block_checker.sv"]
    job = {"top": f"{name}_flat", "parameters": values or {}, "files": files, "output": str(output)}
    done = subprocess.run([cores.BIN / "python", "-c", CONVERT, json.dumps(job)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{name} is not converted:\n{done.stdout[-2000:]}")
    text = Path(output).read_text("utf-8")
    Path(output).write_text(f"// {LICENCE}\n// {name}_flat as plain Verilog, converted by rtl/flat.py.\n{text}", "utf-8")
    return output


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help="compare with the files that are there")
    action.add_argument("--verilog", nargs=2, metavar=("NAME", "FILE"), help="convert one")
    parser.add_argument("parameters", nargs="*", metavar="PARAMETER=VALUE", help="for --verilog")
    arguments = parser.parse_args()
    if arguments.verilog:
        name, output = arguments.verilog
        if name not in description():
            parser.error(f"no wrapper of {name!r}: choose from {', '.join(description())}")
        if any("=" not in word for word in arguments.parameters):
            parser.error("give parameters as PARAMETER=VALUE")
        convert(name, output, dict(word.split("=", 1) for word in arguments.parameters))
        return
    wrong = 0
    for path, text in written().items():
        if arguments.check:
            if not path.exists() or path.read_text("utf-8") != text:
                print(f"flat: {path.relative_to(cores.ROOT)} is not what rtl/flat.py writes", file=sys.stderr)
                wrong += 1
        else:
            path.write_text(text, "utf-8")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
