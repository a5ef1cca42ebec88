# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Chapter 4 of A. Mendon's dissertation (2012), and what the simulated cores say to its tables and figures.

Evidence is what the repository's commands measure: figures of `make figures ONLY=hwfs,sata` (docs/hardware-verdicts.json keeps them, with
the number of 2012 as their target) and the tables of rtl/SIZES.md. Cycles and cells are counts; a clock is not one, and the model of a
drive is not a drive: a verdict that rests on it is marked, and needs a twentieth more or less.
"""

import json
import re
from dataclasses import replace

from .evidence import Claim, Finding, Row, all_of, need
from .runs import ROOT, read
from .speeds import untold

KEPT, SIZES = ROOT / "docs/hardware-verdicts.json", ROOT / "rtl/SIZES.md"
MEASURED = tuple(ROOT / "build/rtl" / f"{name}_figures.json" for name in ("hwfs", "sata"))
BOTH, UNITS = ("read", "write"), (64, 512, 1024)
FILES = ("1K", "10K", "100K", "1M", "10M", "100M")
LINE_MB_S, LINE_MHZ = 300, 75
# Tables 4.5 and 4.6: LUT, flip-flops, block RAM.
CORE_4K, WHOLE_16K = {"LUT": 2587, "FF": 636, "block RAM": 6}, {"LUT": 4225, "FF": 1845, "block RAM": 20}


def figures():
    """The figures that are kept: name, value and target; those of a run in build/rtl replace them when `keep` is called."""
    return read(KEPT)


def keep():
    """Takes over the figures that `make figures ONLY=hwfs,sata` left; each file only as a whole."""
    kept = figures() if KEPT.exists() else {}
    if "damaged" in kept:
        raise SystemExit(f"reproduce: {KEPT.relative_to(ROOT)} is damaged: {kept['damaged']}")
    for file in MEASURED:
        rows = read(file) if file.exists() else []
        if isinstance(rows, list):
            kept |= {name: {"value": value, "target": target} for name, value, _, target in rows if name.startswith(("hwfs.", "hwfs_sata.", "sata."))}
    kept = {name: one for name, one in kept.items() if name in NAMES}
    KEPT.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


def sizes():
    """The rows of rtl/SIZES.md, by configuration and family; of its clocks, by core."""
    text, found = SIZES.read_text("utf-8"), {}
    for line in re.findall(r"^\| (\w+ \| xc\w+ \| .*) \|$", text, re.M):
        name, family, cells, ram, sites, ff, bram = line.split(" | ")
        found[f"{name} {family}"] = {"cells": int(cells) + int(ram), "LUT": int(sites), "FF": int(ff), "block RAM": float(bram)}
    for line in re.findall(r"^\| (sata|hwfs_32) \| (\d+ \| .*) \|$", text, re.M):
        found[f"{line[0]} clock"] = {"mhz": float(line[1].split(" | ")[3])}
    return found


def result(name):
    return {"figures": figures, "sizes": sizes}[name]()


def value(of, name):
    """A measured figure; only positive numbers were measured."""
    need(name in of, f"not measured: {name}")
    found = of[name]["value"]
    need(isinstance(found, (int, float)) and 0 < found < 1e12, f"not a measurement: {name}")
    return found


def then(of, name):
    """The number of 2012 that is a figure's target."""
    value(of, name)
    need(of[name]["target"], f"without the number of 2012: {name}")
    return float(of[name]["target"].split()[1])


def cell(disks, file, direction, unit):
    return f"hwfs.{disks}_{file}_{direction}_{unit}"


def cells_below(disks):
    """Each of a table's 36 cells takes fewer cycles than in 2012."""

    def judge(of):
        names = [cell(disks, file, direction, unit) for file in FILES for direction in BOTH for unit in UNITS]
        ratios = {name: value(of, name) / then(of, name) for name in names}
        nearest = max(ratios, key=ratios.get)
        fewer = sum(ratio < 1 for ratio in ratios.values())
        text = f"fewer cycles in {fewer} of {len(names)} cells, {min(ratios.values()):.2f} to {max(ratios.values()):.3f} of those of 2012"
        return Finding(f"{text}; nearest: `{nearest.removeprefix('hwfs.')}`, {value(of, nearest):,} against {then(of, nearest):,.0f}", fewer == len(names))

    return judge


def small_files_are_slow(of):
    """Below 80 % of a word a cycle on an ideal disk, from 1 to 10 KB, in blocks of each size."""
    found = {
        f"{file} {direction} {unit}": value(of, f"hwfs.ideal_{file}_{direction}_{unit}_efficiency")
        for file in ("1K", "10K") for direction in BOTH for unit in UNITS
    }  # fmt: skip
    text = ", ".join(f"{file} {direction} {found[f'{file} {direction} 1024']:.1f} %" for file in ("1K", "10K") for direction in BOTH)
    return Finding(f"in units of 1,024 B: {text}", all(share < 80 for share in found.values()))


def long_files_saturate(of):
    """95 % at 100 KB and no more than 5 above it at 1 MB."""
    texts, truths = [], []
    for direction in BOTH:
        small, large = (value(of, f"hwfs.ideal_{file}_{direction}_1024_efficiency") for file in ("100K", "1M"))
        texts.append(f"{direction} {small:.1f} and {large:.1f} %")
        truths.append(small >= 95 and large - small <= 5)
    return Finding("100 KB and 1 MB in units of 1,024 B: " + ", ".join(texts), all(truths))


def best_block_grows(disks):
    """1 KB is fastest in blocks of 64 B, 1 MB in blocks of 1,024 B, both read and written, by a tenth."""

    def judge(of):
        texts, truths = [], []
        for direction in BOTH:
            small, large = ([value(of, cell(disks, file, direction, unit)) for unit in (64, 1024)] for file in ("1K", "1M"))
            texts.append(f"{direction} {small[1] / small[0]:.2f} and {large[0] / large[1]:.2f}")
            truths.append(small[1] > 1.1 * small[0] and large[0] > 1.1 * large[1])
        return Finding("1 KB in 1,024 B over 64 B, 1 MB in 64 B over 1,024 B: " + ", ".join(texts), all(truths))

    return judge


def delete(of):
    """The dissertation does not say whether the file's inode was in the core: a verdict only if all three cases agree."""
    limit = then(of, "hwfs.one_disk_1K_delete")
    names = {"the slot in memory": "hwfs.one_disk_1K_delete", "to be read": "hwfs.case_1K_delete_slot_to_be_read", "while a file is open":
             "hwfs.case_1K_delete_while_a_file_is_open"}  # fmt: skip
    found = {text: value(of, name) for text, name in names.items()}
    fewer = [cycles < limit for cycles in found.values()]
    text = ", ".join(f"{cycles:,} ({text})" for text, cycles in found.items()) + f" against {limit:,.0f}"
    return Finding(text, fewer[0] if len(set(fewer)) == 1 else None)


def two_are_faster(of):
    """Two RAM disks beside one, in each cell of the tables."""
    names = [(file, direction, unit) for file in FILES for direction in BOTH for unit in UNITS]
    ratios = [value(of, cell("one_disk", *name)) / value(of, cell("two_disks", *name)) for name in names]
    return Finding(f"{min(ratios):.2f} to {max(ratios):.2f} times as fast in {len(ratios)} cells", all(ratio > 1 for ratio in ratios))


def little_overhead(of):
    """The core on a drive that answers at once: more of the line than the drive of 2012 gave, 279 and 276 of 300 MB/s."""
    found = {op: value(of, f"sata.{op}_share_latency_0") for op in BOTH}
    least = {"read": 279 / LINE_MB_S, "write": 276 / LINE_MB_S}
    text = ", ".join(f"{op} {100 * found[op]:.1f} % (2012: {100 * least[op]:.0f} %)" for op in BOTH)
    return Finding(f"transfers of 2 MiB on a drive without latency, of the line: {text}", all(found[op] > least[op] for op in BOTH))


def enough_commands(of):
    """Cycles of a command of 4 KiB, 32 deep, beside those that the measured rates of 2012 leave at 75 MHz."""
    limit = {"read": LINE_MHZ * 1e6 / 44_366, "write": LINE_MHZ * 1e6 / 50_337}
    found = {op: value(of, f"sata.{op}_4k_qd32") for op in BOTH}
    text = ", ".join(f"{op} {found[op]:,.0f} cycles (2012: {limit[op]:,.0f})" for op in BOTH)
    return Finding(f"on a drive without latency: {text}", all(found[op] < limit[op] for op in BOTH))


def by_model(pairs):
    """Whether each value is above that of 2012. The model of a drive does not tell a twentieth."""
    ratios = [value / then for value, then in pairs]
    return all_of(True if ratio > 1.05 else False if ratio < 0.95 else None for ratio in ratios)


def at_least_then(name, says="of the line"):
    """Both directions of a figure of hwfs_sata above the number of 2012, on the model of that drive."""

    def judge(of):
        names = [f"hwfs_sata.drive_2012_{name}_{op}" for op in BOTH]
        text = ", ".join(f"{op} {value(of, one):.1f} % (2012: {then(of, one):.1f} %)" for op, one in zip(BOTH, names))
        return Finding(f"{says}: {text}", by_model((value(of, one), then(of, one)) for one in names), is_emulators=True)

    return judge


def best_of_one_drive(of):
    """The best of 2012, 241.2 and 219.85 MB/s, beside the better connection of one drive."""
    texts, pairs = [], []
    for op in BOTH:
        names = [f"hwfs_sata.drive_2012_{kind}_long_{op}" for kind in ("queued", "in_order")]
        pairs.append((max(value(of, name) for name in names), then(of, names[0])))
        texts.append(f"{op} {pairs[-1][0]:.1f} % (2012: {pairs[-1][1]:.1f} %)")
    return Finding("2 MiB, the better of two connections, of the line: " + ", ".join(texts), by_model(pairs), is_emulators=True)


def two_drives_scale(of):
    limit = {"read": 1.78, "write": 1.73}
    found = {op: value(of, f"hwfs_sata.drive_2012_two_striped_{op}_speedup") for op in BOTH}
    text = ", ".join(f"{op} {found[op]:.2f} times (2012: {limit[op]:.2f})" for op in BOTH)
    return Finding(f"against the best of one drive: {text}", by_model((found[op], limit[op]) for op in BOTH), is_emulators=True)


def no_larger(name, limits, what, note=""):
    """A resource of a configuration beside that of 2012. LUT are counted in two ways: a verdict only if both agree."""

    def judge(of):
        need(name in of, f"not in rtl/SIZES.md: {name}")
        one, limit = of[name], limits[what]
        need(one[what] > 0, f"not in rtl/SIZES.md: {name}")
        if what == "LUT":
            ways = [one["LUT"] <= limit, one["cells"] <= limit]
            text = f"{one['LUT']:,} LUT6 sites, {one['cells']:,} cells against {limit:,}"
            return Finding(text + note, ways[0] if len(set(ways)) == 1 else None)
        return Finding(f"{one[what]:,g} against {limit:,}{note}", one[what] <= limit)

    return judge


def clocks(of):
    found = {name: of[f"{name} clock"]["mhz"] for name in ("hwfs_32", "sata") if f"{name} clock" in of}
    need(len(found) == 2, "no clocks in rtl/SIZES.md")
    return Finding(f"another, slower family: `hwfs` {found['hwfs_32']:g}, `sata` {found['sata']:g} MHz on an ECP5; no tool here places for Virtex-6", None)


F, S = ("figures",), ("sizes",)
MODEL = "a model of the drive: latencies and largest rates of the dissertation's own measurements"
ROWS = [
    Row(
        "Figure 4.3: efficiency in simulation", "an ideal disk, files of 1 KB to 250 KB and more, blocks of 64, 512 and 1,024 B",
        (
            Claim("m4.3-small", "files of 1 to 10 KB stay below 80 % of a word a cycle", F, small_files_are_slow),
            Claim("m4.3-long", "files of 100 KB reach 95 %, and longer ones hardly more", F, long_files_saturate),
        ),
        ("each put and get by name is one command; blocks are units of allocation, nodes have 256 B",),
    ),
    Row(
        "Table 4.1, figure 4.4: one RAM disk", "files of 1 KB to 100 MB on a board, 32 bits at 100 MHz",
        (
            Claim("m4.1-cells", "our core takes fewer cycles in each cell (not a claim of 2012)", F, cells_below("one_disk")),
            Claim("m4.1-blocks", "small files are fastest in blocks of 64 B, long ones in 1,024 B", F, best_block_grows("one_disk")),
        ),
        ("a simulated memory with the latency and rate that the board's figures show", "our commands are durable at their end, those of 2012 were not"),
    ),
    Row(
        "Table 4.2: where the time of 1 KB goes", "write 9.29 us, read 9.16 us, delete 5.27 us, each split into the file system's time and the RAM disk's",
        (
            Claim("m4.2-split", "the file system takes 5.54, 4.32 and 2.66 us of it", F, untold("the benches count a command's cycles, not those in which the disk is busy")),
            Claim("m4.2-delete", "our core deletes in fewer cycles (not a claim of 2012)", F, delete),
        ),
    ),
    Row(
        "Table 4.3, figure 4.5: two RAM disks", "the same, striped",
        (
            Claim("m4.3t-cells", "our core takes fewer cycles in each cell (not a claim of 2012)", F, cells_below("two_disks")),
            Claim("m4.3t-gain", "two disks are faster than one", F, two_are_faster),
        ),
    ),
    Row(
        "Figure 4.6: the core on a hard disk", "transfers of up to 1 GB, 107 MB/s from 32 MB on",
        (Claim("m4.6-disk", "a hard disk limits the core to 107 MB/s", F, untold("there is no model of a hard disk")),),
    ),
    Row(
        "Figure 4.7: the core on a solid-state drive", "transfers of 4 KB to 8 MB, 279 MB/s read and 276 MB/s written at most",
        (
            Claim("m4.7-overhead", "the core by itself induces minimum overhead", F, little_overhead),
            Claim("m4.7-sizes", "from 1 MB on the drive's peak is nearly reached, and small writes are faster than reads", F,
                  untold("transfers were measured in 4 KiB and 2 MiB only, on a drive without latency")),
        ),
    ),
    Row(
        "Figure 4.8: random 4 KB by queue depth", "44,366 reads and 50,337 writes a second 32 deep",
        (
            Claim("m4.8-peak", "the core is not the limit of these rates", F, enough_commands),
            Claim("m4.8-depth", "reads scale almost linearly with the depth, writes until four", F,
                  untold("depths 1 and 32 were measured, on a drive without latency, which has nothing to overlap")),
        ),
    ),
    Row(
        "Figures 4.9 to 4.11: sequential files by block size", "1 GB in blocks of 4, 8 and 16 KB, with and without a queue",
        (
            Claim("m4.9-alone", "in 4 KB without a queue: 72 and 96 MB/s", F, untold("the model's latencies were taken from this very figure")),
            Claim("m4.9-queued", "our core is faster in 4 KB with 32 commands: 170 and 181 MB/s (not a claim of 2012)", F, at_least_then("in_order_4K_pieces", "extents of 4 KiB")),
            Claim("m4.10-8K", "in 8 KB without a queue: 112 and 148 MB/s", F, untold("extents of 8 KiB were not measured")),
            Claim("m4.11-alone", "our core is faster in 16 KB without a queue: 152 and 190 MB/s (not a claim of 2012)", F,
                  at_least_then("single_16K_pieces", "extents of 16 KiB")),
            Claim("m4.11-best", "our core is faster than the best of one drive: 241 and 220 MB/s (not a claim of 2012)", F, best_of_one_drive),
        ),
        (MODEL, "2 MiB, and 1 MiB in extents", "percent of a line of 300 MB/s, which is 75 MHz"),
    ),
    Row(
        "Figure 4.12: random requests", "4 KB to 128 KB in a file of 1 GB",
        (
            Claim("m4.12-64K", "our core is faster in 64 KB: 129.6 and 136.2 MB/s (not a claim of 2012)", F, at_least_then("in_order_random_64K")),
            Claim("m4.12-sizes", "speed rises with the size, near to sequential speed", F, untold("on Serial ATA 64 KiB is the one size that was measured")),
        ),
        (MODEL,),
    ),
    Row(
        "Table 4.4, figure 4.13: beside Ext2 on a processor", "1 GB in sequence, 64 KB at random; a soft core of 100 MHz and a server of 2.1 GHz",
        (
            Claim("m4.4t-soft", "10.9 to 16.4 times as fast as a soft core", F, untold("no processor with Ext2 was measured in cycles on the same simulated disk")),
            Claim("m4.4t-server", "1.29 to 2.15 times as fast as a server", F, untold("no server with Ext2 was measured on such a drive")),
            Claim("m4.4t-driver", "the core under Linux on the soft core: 22.15 MB/s read, 13.41 written", F,
                  untold("`virtio` was measured without Linux, and no figure counts the driver's instructions for a request")),
        ),
    ),
    Row(
        "Figure 4.14: two drives", "430.56 and 383.29 MB/s in blocks of 16 KB",
        (
            Claim("m4.14-rate", "our core is faster (not a claim of 2012)", F, at_least_then("two_striped_long", "of one line")),
            Claim("m4.14-scale", "two of our drives gain more than 1.78 and 1.73 times (not a claim of 2012)", F, two_drives_scale),
        ),
        (MODEL,),
    ),
    Row(
        "Table 4.5: size of the file system", "blocks of 4 KB, synthesised by XST for Virtex-6",
        (
            Claim("m4.5-lut", "our core has no more LUT than 2,587 (not a claim of 2012)", S, no_larger("hwfs_32_nodes_4096 xc6v", CORE_4K, "LUT")),
            Claim("m4.5-ff", "and no more flip-flops than 636", S, no_larger("hwfs_32_nodes_4096 xc6v", CORE_4K, "FF")),
            Claim("m4.5-ram", "and no more block RAM than 6", S, no_larger("hwfs_32_nodes_4096 xc6v", CORE_4K, "block RAM")),
        ),
        ("Yosys; nodes of 4 KiB", "XST counts LUT after packing: LUT6 sites are Yosys' estimate of that, cells are LUT one by one with LUT RAM"),
    ),
    Row(
        "Table 4.6: size of the whole", "file system, Serial ATA and what joins them, blocks of 16 KB: 4,225 LUT, 1,845 flip-flops, 20 block RAM",
        (
            Claim("m4.6-lut", "ours has no more LUT (not a claim of 2012)", S, no_larger("hwfs_sata xc6v", WHOLE_16K, "LUT")),
            Claim("m4.6-ff", "and no more flip-flops", S, no_larger("hwfs_sata xc6v", WHOLE_16K, "FF")),
            Claim("m4.6-ram", "and no more block RAM", S, untold("`hwfs_sata` in rtl/SIZES.md has nodes of 512 B, and the core's are 4 KiB at most: 15 of the 20 held blocks of 16 KB")),
        ),
        ("Yosys; nodes of 512 B; without a transceiver on either side",),
    ),
    Row(
        "Clocks", "100 MHz (RAM disks), 150 MHz (drives) and 75 MHz (the line)",
        (Claim("m-clocks", "our cores reach these clocks (not a claim of 2012)", S, clocks),),
    ),
]  # fmt: skip
ROWS = [replace(row, source="The dissertation") for row in ROWS]
NAMES = {
    *(cell(disks, file, direction, unit) for disks in ("one_disk", "two_disks") for file in FILES for direction in BOTH for unit in UNITS),
    *(f"hwfs.ideal_{file}_{direction}_{unit}_efficiency" for file in ("1K", "10K", "100K", "1M") for direction in BOTH for unit in UNITS),
    "hwfs.one_disk_1K_delete", "hwfs.case_1K_delete_slot_to_be_read", "hwfs.case_1K_delete_while_a_file_is_open",
    *(f"sata.{op}_{what}" for op in BOTH for what in ("share_latency_0", "4k_qd32")),
    *(f"hwfs_sata.drive_2012_{what}_{op}" for op in BOTH for what in
      ("queued_long", "in_order_long", "in_order_4K_pieces", "single_16K_pieces", "in_order_random_64K", "two_striped_long")),
    *(f"hwfs_sata.drive_2012_two_striped_{op}_speedup" for op in BOTH),
}  # fmt: skip
