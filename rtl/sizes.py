#!/usr/bin/env python3
"""The size of each hardware module, synthesised by Yosys for Xilinx 6 and 7 series.

Prints a table; `measure(name)` gives one configuration's figures. The counts belong to the Yosys
version that requirements-rtl.lock pins: another gives others.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import cores

# Name: core, top, parameters.
CONFIGURATIONS = {
    "block_front_32": ("block", "block_front", {}),
    "block_cdc_32": ("block", "block_cdc", {}),
    "ramdisk_32": ("ramdisk", "ramdisk", {}),
    "ramdisk_64": ("ramdisk", "ramdisk", {"DataWidth": 64}),
    "raid0_2x32_to_32": ("raid0", "raid0", {"SlotBlocks": 1, "LbaBits": 32}),
    "raid0_2x32_to_64": ("raid0", "raid0", {"UpWidth": 64, "LbaBits": 32}),
    "raid0_4x32_to_128": ("raid0", "raid0", {"Disks": 4, "UpWidth": 128, "LbaBits": 32}),
    "hwfs_32": ("hwfs", "hwfs", {}),
    "hwfs_64": ("hwfs", "hwfs", {"DataWidth": 64}),
    "raid1_2x32_to_32": ("raid0", "raid0", {"Mirror": 1, "LbaBits": 32}),
}
FAMILIES = ("xc6v", "xc7")

PROGRAM = """
import json, sys
from pyosys import libyosys
job = json.loads(sys.argv[1])
design = libyosys.Design()
def do(command): libyosys.run_pass(command, design)
do("read_slang --top " + job["top"] + " " + " ".join(f"-G {k}={v}" for k, v in job["parameters"].items())
   + " " + " ".join(job["files"]))
do(f"synth_xilinx -family {job['family']} -top {job['top']} -flatten -noiopad -noclkbuf")
do("tee -q -o " + job["output"] + " stat -json")
"""


def count(cells):
    """LUT (logic), LUT RAM (as LUTs), flip-flops, block RAM (of 36 Kib)."""
    total = {"lut": 0, "lutram": 0, "ff": 0, "bram": 0.0}
    ram = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM32M": 4, "RAM64M": 4, "RAM128X1D": 4, "RAM32X1S": 1, "RAM64X1S": 1,
           "SRL16E": 1, "SRLC32E": 1}
    for cell, number in cells.items():
        name = cell.lstrip("\\\\$")
        if name in ram:
            total["lutram"] += ram[name] * number
        elif name.startswith("LUT") or name == "INV":
            total["lut"] += number
        elif name.startswith("FD"):
            total["ff"] += number
        elif name.startswith("RAMB36"):
            total["bram"] += number
        elif name.startswith("RAMB18"):
            total["bram"] += number / 2
        elif name.startswith("LD"):
            raise RuntimeError(f"{name}: a latch")
    return total


def measure(name, family):
    core, top, parameters = CONFIGURATIONS[name]
    with tempfile.TemporaryDirectory() as folder:
        job = {"top": top, "parameters": parameters, "family": family, "output": f"{folder}/stat.json",
               "files": [str(file) for file in cores.sources(core) if file.name != "block_checker.sv"]}
        done = subprocess.run([cores.BIN / "python", "-c", PROGRAM, json.dumps(job)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(f"{name} does not synthesise:\n{done.stdout[-2000:]}")
        design = json.loads(Path(job["output"]).read_text("utf-8"))["design"]
    return count({cell: entry if isinstance(entry, int) else entry["count"]
                  for cell, entry in design["num_cells_by_type"].items()})


def main():
    print("| configuration | family | LUT | LUT RAM | FF | block RAM (36 Kib) |\n| --- | --- | --- | --- | --- | --- |")
    for name in sys.argv[1:] or CONFIGURATIONS:
        for family in FAMILIES:
            size = measure(name, family)
            print(f"| {name} | {family} | {size['lut']} | {size['lutram']} | {size['ff']} | {size['bram']:g} |", flush=True)


if __name__ == "__main__":
    main()
