#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The size of each hardware module, synthesised by Yosys for Xilinx 6 and 7 series.

Prints a table; `measure(name)` gives one configuration's figures. The counts belong to the Yosys
version that requirements-rtl.lock pins: another gives others.

`sizes.py [NAME]...` measures those named, or all. With `--write` the document rtl/SIZES.md gets what was measured;
with `--check` it is compared with the document, and each difference is an error. `--family xc7` measures one only.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import cores

# Name: core, top, parameters. The file system core's own default is 4 files, nodes of at most 512 B, an index of
# 1,024 slots, 2 concurrent fetches.
CONFIGURATIONS = {
    "block_front_32": ("block", "block_front", {}),
    "block_cdc_32": ("block", "block_cdc", {}),
    "ramdisk_32": ("ramdisk", "ramdisk", {}),
    "ramdisk_64": ("ramdisk", "ramdisk", {"DataWidth": 64}),
    "raid0_2x32_to_32": ("raid0", "raid0", {"SlotBlocks": 1, "LbaBits": 32}),
    "raid0_2x32_to_64": ("raid0", "raid0", {"UpWidth": 64, "LbaBits": 32}),
    "raid0_4x32_to_128": ("raid0", "raid0", {"Disks": 4, "UpWidth": 128, "LbaBits": 32}),
    "raid1_2x32_to_32": ("raid0", "raid0", {"Mirror": 1, "LbaBits": 32}),
    "hwfs_32": ("hwfs", "hwfs", {}),
    "hwfs_64": ("hwfs", "hwfs", {"DataWidth": 64}),
    "hwfs_128": ("hwfs", "hwfs", {"DataWidth": 128}),
    "hwfs_256": ("hwfs", "hwfs", {"DataWidth": 256}),
    "hwfs_32_files_1": ("hwfs", "hwfs", {"Files": 1}),
    "hwfs_32_files_8": ("hwfs", "hwfs", {"Files": 8}),
    "hwfs_32_nodes_256": ("hwfs", "hwfs", {"NodeLog2Max": 8}),
    "hwfs_32_nodes_4096": ("hwfs", "hwfs", {"NodeLog2Max": 12}),
    "hwfs_32_blocks_4096": ("hwfs", "hwfs", {"NodeLog2Max": 12, "BlockSizeLog2": 12}),
    "hwfs_32_program_8192": ("hwfs", "hwfs", {"ProgramLog2": 13}),
    "hwfs_32_sums": ("hwfs", "hwfs", {"DataChecksums": 1}),
    "hwfs_256_sums": ("hwfs", "hwfs", {"DataWidth": 256, "DataChecksums": 1}),
    "sata": ("sata", "sata", {}),
    "sata_no_trim": ("sata", "sata", {"Trim": 0}),
    "sata_one_at_a_time": ("sata", "sata", {"Ncq": 0, "Trim": 0}),
    "sata_link": ("sata", "sata_link", {}),
    "virtio_blk": ("virtio", "virtio_blk", {}),
    "virtio_blk_four_queues": ("virtio", "virtio_blk", {"Queues": 4}),
    "virtio_blk_two_requests": ("virtio", "virtio_blk", {"Requests": 2}),
    "virtio_blk_eight_requests": ("virtio", "virtio_blk", {"Requests": 8}),
    "sata_phy": ("sata", "sata_phy", {}),
    "sata_host": ("sata", "sata_host", {}),
    "sata_stream": ("sata", "sata_stream", {}),
    "hwfs_sata": ("hwfs_sata", "hwfs_sata", {}),
    "hwfs_sata_in_order": ("hwfs_sata", "hwfs_sata", {"Slots": 16}),
    "hwfs_sata_two_striped": ("hwfs_sata", "hwfs_sata", {"Disks": 2, "Slots": 8, "SlotBlocks": 32}),
    "hwfs_axi": ("hwfs_axi", "hwfs_axi", {}),
    "timer_1k": ("timer", "timer", {"DepthLog2": 10}),
    "timer_1k_stream": ("timer", "timer", {"DepthLog2": 10, "Stream": 1}),
    "blastn": ("blastn", "blastn", {}),
    "blastn_two_hit": ("blastn", "blastn", {"DiagonalsLog2": 12}),
    "blastn_16k": ("blastn", "blastn", {"EntriesLog2": 14, "BucketLog2": 14}),
    "smmu": ("smmu", "smmu", {}),
    "smmu_64k": ("smmu", "smmu", {"PageLog2": 16}),
    "smmu_256": ("smmu", "smmu", {"DataWidth": 256}),
    "link": ("link", "link", {}),
    "link_send": ("link", "link_send", {}),
    "link_receive": ("link", "link_receive", {}),
    "link_encode": ("link", "link_encode", {}),
    "link_decode": ("link", "link_decode", {}),
    "route_router": ("route", "route_router", {}),
    "route_switch": ("route", "route_switch", {}),
    "route_torus": ("route", "route_torus", {}),
    "route_tree": ("route", "route_tree", {}),
    "aoe_target": ("aoe", "aoe_target", {}),
    "aoe_target_jumbo": ("aoe", "aoe_target", {"SectorsLog2": 4}),
    "aoe_target_two_buffers": ("aoe", "aoe_target", {"Buffers": 2}),
    "aoe_initiator": ("aoe", "aoe_initiator", {}),
    "aoe_initiator_jumbo": ("aoe", "aoe_initiator", {"SectorsLog2": 4}),
    "aoe_initiator_four_slots": ("aoe", "aoe_initiator", {"Slots": 4}),
    "system_head_port": ("system", "system_head_port", {}),
    "system_disk_node": ("system", "system_disk_node", {}),
    "system_torus": ("system", "system_torus", {}),
    "system_tree": ("system", "system_tree", {}),
    "workload_32": ("workload", "workload", {}),
    "workload_256": ("workload", "workload", {"DataWidth": 256}),
    "example_one_disk": ("example", "example_top", {}),
    "example_processor": ("example", "example_top", {"Processor": 1}),
    "example_virtio": ("example_virtio", "example_virtio", {}),
    "example_virtio_one_request": ("example_virtio", "example_virtio", {"Requests": 1}),
    "example_smmu": ("example_smmu", "example_smmu", {}),
    "example_smmu_array": ("example_smmu", "example_smmu", {"Disks": 2}),
    "example_smmu_sata": ("example_smmu", "example_smmu", {"Sata": 1}),
    "example_two_disks_apart": ("example", "example_top", {"Disks": 2, "DataWidth": 64, "Async": 1}),
}
FAMILIES = ("xc6v", "xc7")

SYNTHESIS = "synth_xilinx -family {family} -top {top} -flatten -noiopad -noclkbuf"
# The steps that `measure` runs: all of them; and `block_rams`: those that map memories, without the mapping of logic, which
# takes most of the time. Then combinational loops and wires with several drivers or none are errors, too.
ALL = [SYNTHESIS]
MEMORIES = [SYNTHESIS + " -run begin:map_dsp", "memory -nomap", "opt_clean", SYNTHESIS + " -run map_memory:map_ffram",
            "check -assert"]

PROGRAM = """
import json, sys
from pyosys import libyosys
job = json.loads(sys.argv[1])
design = libyosys.Design()
def do(command): libyosys.run_pass(command, design)
do("read_slang --top " + job["top"] + " " + " ".join(f"-G {k}={v}" for k, v in job["parameters"].items())
   + " " + " ".join(job["files"]))
for step in job["steps"]:
    do(step)
do("tee -q -o " + job["output"] + " stat -tech xilinx -json")
"""


def count(cells):
    """LUT (logic, one a cell), LUT RAM (as LUTs), flip-flops, block RAM (of 36 Kib)."""
    total = {"lut": 0, "lutram": 0, "ff": 0, "bram": 0.0}
    ram = {"RAM32X1D": 2, "RAM64X1D": 2, "RAM32M": 4, "RAM64M": 4, "RAM128X1D": 4, "RAM32X1S": 1, "RAM64X1S": 1, "RAM128X1S": 2,
           "RAM256X1S": 4, "SRL16E": 1, "SRLC32E": 1}
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
        elif name.startswith(("LD", "dlatch", "adlatch", "sr", "_DLATCH")):
            raise RuntimeError(f"{name}: a latch")
    return total


def synthesise(name, family, steps):
    """The design's statistics after these steps, and the count of its cells. Latches are errors."""
    core, top, parameters = CONFIGURATIONS[name]
    steps = [step.format(family=family, top=top) for step in steps]
    with tempfile.TemporaryDirectory() as folder:
        job = {"top": top, "parameters": parameters, "steps": steps, "output": f"{folder}/stat.json",
               "files": [str(file) for file in cores.sources(core) if file.name != "block_checker.sv"]}
        done = subprocess.run([cores.BIN / "python", "-c", PROGRAM, json.dumps(job)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(f"{name} does not synthesise:\n{done.stdout[-2000:]}")
        design = json.loads(Path(job["output"]).read_text("utf-8"))["design"]
    return design, count({cell: entry if isinstance(entry, int) else entry["count"]
                          for cell, entry in design["num_cells_by_type"].items()})


def block_rams(name, family):
    """The number of block RAMs of 36 Kib."""
    return synthesise(name, family, MEMORIES)[1]["bram"]


def measure(name, family):
    design, total = synthesise(name, family, ALL)
    # As slices have them: two small functions in one, which is what vendors' tools count.
    return total | {"sites": int(design["estimated_num_lc"]) + total["lutram"]}


DOCUMENT = cores.RTL / "SIZES.md"
BEGIN, END = "<!-- sizes.py writes from here -->\n", "<!-- to here -->\n"
HEAD = ["| configuration | family | LUT cells | LUT RAM | LUT6 sites | FF | block RAM (36 Kib) |",
        "| --- | --- | --- | --- | --- | --- | --- |"]


def row(name, family):
    size = measure(name, family)
    return f"| {name} | {family} | {size['lut']} | {size['lutram']} | {size['sites']} | {size['ff']} | {size['bram']:g} |"


def documented():
    """The document's rows, by configuration and family."""
    table = DOCUMENT.read_text("utf-8").split(BEGIN)[1].split(END)[0]
    return {match.groups(): match[0] for match in re.finditer(r"^\| (\w+) \| (xc\w+) \|.*$", table, re.M)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a configuration; all without")
    parser.add_argument("--family", choices=FAMILIES, help="this one only")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="into rtl/SIZES.md")
    action.add_argument("--check", action="store_true", help="rtl/SIZES.md: the rows that it has, or those named")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in CONFIGURATIONS:
            parser.error(f"no configuration {name!r}: choose from {', '.join(CONFIGURATIONS)}")
    print("\n".join(HEAD), flush=True)
    wrong = 0
    wanted = [(name, family) for name in arguments.names or CONFIGURATIONS
              for family in ([arguments.family] if arguments.family else FAMILIES)]
    if arguments.check and not arguments.names:
        wanted = [key for key in wanted if key in documented()]
    for name, family in wanted:
        line = row(name, family)
        print(line, flush=True)
        rows = documented()
        if arguments.write:
            rows[name, family] = line
            ordered = [rows[key] for key in ((name, family) for name in CONFIGURATIONS for family in FAMILIES)
                       if key in rows]
            text = DOCUMENT.read_text("utf-8")
            before, after = text.split(BEGIN)[0], text.split(END)[1]
            DOCUMENT.write_text(before + BEGIN + "\n".join([*HEAD, *ordered]) + "\n" + END + after, "utf-8")
        elif arguments.check and rows.get((name, family)) != line:
            print(f"sizes: rtl/SIZES.md has {rows.get((name, family), 'no such row')!r}; "
                  f"run rtl/sizes.py --write {name}", file=sys.stderr)
            wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
