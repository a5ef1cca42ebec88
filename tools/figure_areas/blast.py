# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The nucleotide search: instructions and rates of the software's scans beside NCBI's blastn, in one run on one machine; and the core in
hardware: bases a cycle behind the file system core, cycles in which it stalled that, sizes."""

import json
import random
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

from .support import ROOT, build_example, run

OUT = ROOT / "build" / "blast"
RESULTS = ROOT / "build" / "rtl" / "blast_figures.json"
BASES, QUERY_BASES, SEED = 64_000_000, 500, 7
COUNTED_BASES = 4_000_000
TIMES, ROUNDS = 8, 3


def database(name, bases, pick):
    """A database of one random sequence, and a query that is a part of it."""
    OUT.mkdir(parents=True, exist_ok=True)
    letters = pick.randbytes(bases).translate(bytes(b"ACGT"[value & 3] for value in range(256))).decode()
    (OUT / f"{name}.fa").write_text(f">s\n{letters}\n")
    (OUT / "query.fa").write_text(f">q\n{letters[bases // 2:bases // 2 + QUERY_BASES]}\n")
    run(["makeblastdb", "-dbtype", "nucl", "-in", OUT / f"{name}.fa", "-out", OUT / name], stderr=subprocess.DEVNULL)
    (OUT / f"{name}.fa").unlink()
    return OUT / name


def cpu_s(command):
    """Seconds of the processor, user and system, of a command: the least of some runs."""
    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(command)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return min(once() for _ in range(ROUNDS))


def instructions(command):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], cwd=ROOT, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def blast_counts(figures):
    """Instructions a base, which repeat exactly."""
    if shutil.which("makeblastdb") is None:
        sys.exit("figures: makeblastdb is missing; run: tools/setup blast")
    program = build_example("straightway-blast", "scan_cost")
    small = database("counted", COUNTED_BASES, random.Random(SEED))
    counts = {mode: instructions([program, mode, small, OUT / "query.fa", "1"]) for mode in ("none", "scalar", "fast", "search")}
    for mode in ("scalar", "fast", "search"):
        figures.add(f"blast.{mode}_instructions_per_base", round((counts[mode] - counts["none"]) / COUNTED_BASES, 3), "instructions")


def rates(figures):
    program = build_example("straightway-blast", "scan_cost")
    large = database("large", BASES, random.Random(SEED + 1))
    query = OUT / "query.fa"
    found = {mode: cpu_s([program, mode, large, query, str(TIMES)]) for mode in ("none", "scalar", "fast", "search")}
    rate = {mode: BASES * TIMES / max(found[mode] - found["none"], 1e-3) for mode in ("scalar", "fast", "search")}
    options = ["-task", "blastn", "-word_size", "11", "-ungapped", "-dust", "no", "-strand", "both", "-outfmt", "6", "-num_threads", "1"]
    theirs = [cpu_s(["blastn", *options, "-db", name, "-query", query]) for name in (large, OUT / "counted")]
    # Beyond its start, which a small database shows.
    rate["blastn"] = (BASES - COUNTED_BASES) / max(theirs[0] - theirs[1], 1e-3)
    for name, value in rate.items():
        figures.add(f"blast.{name}_gigabases_per_s", round(value / 1e9, 3), "Gbases/s")
    figures.add("blast.fast_over_scalar", round(rate["fast"] / rate["scalar"], 2), "times")
    figures.add("blast.search_over_blastn", round(rate["search"] / rate["blastn"], 2), "times")
    # Software's rate as a clock of the core: 16 bases a cycle.
    figures.add("blast.core_clock_as_fast_as_blastn", round(rate["blastn"] / 16e6, 1), "MHz")


def core(figures):
    """The core in hardware, by rtl/blast_figures.py."""
    run([ROOT / "build" / "venv" / "bin" / "python", "rtl/blast_figures.py", RESULTS])
    for row in json.loads(Path(RESULTS).read_text()):
        figures.add(*row)


def blast(figures):
    blast_counts(figures)
    rates(figures)
    core(figures)
