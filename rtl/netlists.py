# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Netlists of the hardware's cores for an ECP5 and for 7 series, made by Yosys, and the logic depth of the latter.

A netlist's hash does not depend on comments, nor on the lines of the source: cells and nets that Yosys named have no names in it.
"""

import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

import cores
import sizes

# Around the core, so that no pin limits it: each port is a part of a shift register, all clocks are one, and so are the resets.
ECP5 = """
import json, sys
from pyosys import libyosys
job = json.loads(sys.argv[1])
design = libyosys.Design()
def do(command): libyosys.run_pass(command, design)
top = job["top"]
do("read_slang --top " + top + " " + " ".join(f"-G {k}={v}" for k, v in job["parameters"].items()) + " " + " ".join(job["files"]))
do("hierarchy -top " + top)
do("proc")
do(f"write_json {job['folder']}/ports.json")
ports = json.load(open(f"{job['folder']}/ports.json"))["modules"][top]["ports"]
shared = {name: "clk" if "rst" not in name else "reset[1]" for name in ports
          if name.endswith(("clk_i", "rst_ni")) and len(ports[name]["bits"]) == 1}
connections, at = [f".{name}({net})" for name, net in shared.items()], {"input": 0, "output": 0}
for name, port in ports.items():
    if name not in shared:
        connections.append(f".{name}({port['direction']}s[{at[port['direction']]}+:{len(port['bits'])}])")
        at[port["direction"]] += len(port["bits"])
inputs, outputs = at["input"], at["output"]
open(f"{job['folder']}/harness.v", "w").write(f'''
module harness (input clk, input rst_n, input in, output out);
  reg [{inputs}:0] inputs;
  reg [{outputs - 1}:0] held;
  reg [1:0] reset;
  reg take;
  wire [{outputs - 1}:0] outputs;
  always @(posedge clk) begin
    inputs <= {{inputs[{inputs - 1}:0], in}};
    reset  <= {{reset[0], rst_n}};
    take   <= in & inputs[0];
    held   <= take ? outputs : {{held[{outputs - 2}:0], 1'b0}};
  end
  assign out = held[{outputs - 1}];
  {top} u ({', '.join(connections)});
endmodule
''')
do(f"read_verilog -sv {job['folder']}/harness.v")
do("synth_ecp5 -top harness")
do("setattr -unset src */a:src */c:* */w:*")
do(f"write_json {job['output']}")
"""
XC7 = """
import json, sys
from pyosys import libyosys
job = json.loads(sys.argv[1])
design = libyosys.Design()
def do(command): libyosys.run_pass(command, design)
do("read_slang --top " + job["top"] + " " + " ".join(f"-G {k}={v}" for k, v in job["parameters"].items()) + " " + " ".join(job["files"]))
do(f"synth_xilinx -family xc7 -top {job['top']} -flatten -noiopad -noclkbuf")
do(f"write_json {job['output']}")
"""


def files(name):
    return [file for file in cores.sources(sizes.CONFIGURATIONS[name][0]) if file.name != "block_checker.sv"]


def made(name, program, output):
    """The netlist of a configuration of sizes.py, as JSON in the file `output`."""
    _, top, parameters = sizes.CONFIGURATIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        job = {"top": top, "parameters": parameters, "folder": folder, "output": str(output),
               "files": [str(file.relative_to(cores.ROOT)) for file in files(name)]}
        done = subprocess.run([cores.BIN / "python", "-c", program, json.dumps(job)], text=True, cwd=cores.ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{name} does not synthesise:\n{done.stdout[-2000:]}")
    return output


def top_of(netlist):
    """The module that is the top."""
    (module,) = (one for one in json.loads(netlist.read_text("utf-8"))["modules"].values() if "top" in one["attributes"])
    return module


def count(netlist, kind):
    """The number of cells of this type."""
    return sum(cell["type"] == kind for cell in top_of(netlist)["cells"].values())


def hash_of(netlist, *words):
    """Of its cells, their parameters and connections: each cell by its own type and by what it is connected to, three steps far; and
    of the words."""
    module = top_of(netlist)
    ends, labels = {}, {}
    for name, cell in module["cells"].items():
        labels[name] = f"{cell['type']} {json.dumps(cell['parameters'], sort_keys=True)}"
        for port, bits in cell["connections"].items():
            for index, bit in enumerate(bits):
                ends.setdefault(bit, []).append((name, f"{port} {index}"))
    for _ in range(3):
        short = {name: hashlib.sha256(label.encode()).hexdigest()[:16] for name, label in labels.items()}
        nets = {bit: hashlib.sha256(repr(sorted((short[name], port) for name, port in there)).encode()).hexdigest()[:16]
                for bit, there in ends.items()}
        labels = {name: " ".join([short[name], *(nets[bit] if isinstance(bit, int) else bit
                                                 for _, bits in sorted(cell["connections"].items()) for bit in bits)])
                  for name, cell in module["cells"].items()}
    return hashlib.sha256("\n".join([*sorted(labels.values()), *words]).encode()).hexdigest()[:16]


class Depth:
    """The longest chain of LUTs between registers, memories and ports of a 7 series netlist; carries and wide multiplexers are
    counted beside it."""

    def __init__(self, netlist):
        module = top_of(netlist)
        self.cells = {name: cell for name, cell in module["cells"].items() if re.match(r"(LUT\d|INV|MUXF\d|CARRY4)$", cell["type"])}
        drivers = {bit: name for name, cell in self.cells.items() for port, bits in cell["connections"].items()
                   if cell["port_directions"][port] == "output" for bit in bits}
        self.before = {name: {drivers[bit] for port, bits in cell["connections"].items()
                              if cell["port_directions"][port] == "input" for bit in bits if drivers.get(bit, name) != name}
                       for name, cell in self.cells.items()}
        levels, last = {}, {}
        for name in self.order():
            best = max(self.before[name], key=lambda one: (levels[one], one), default=None)
            levels[name] = (levels[best] if best else 0) + (self.cells[name]["type"].startswith("LUT"))
            last[name] = best
        end = max(levels, key=lambda one: (levels[one], one), default=None)
        self.luts = levels.get(end, 0)
        self.chain = []
        while end:
            self.chain.append(end)
            end = last[end]
        self.chain.reverse()
        self.carries = sum(self.cells[name]["type"] == "CARRY4" for name in self.chain)

    def order(self):
        """The cells, each behind those that drive it."""
        done, ordered = set(), []
        for start in self.cells:
            stack = [(start, False)]
            while stack:
                name, is_left = stack.pop()
                if is_left:
                    ordered.append(name)
                elif name not in done:
                    done.add(name)
                    stack.append((name, True))
                    stack += [(one, False) for one in self.before[name] if one not in done]
        return ordered


def depth(name):
    with tempfile.TemporaryDirectory() as folder:
        return Depth(made(name, XC7, Path(folder) / "netlist.json"))
