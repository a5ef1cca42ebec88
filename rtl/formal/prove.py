#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs the proofs of proofs.toml, and their mutations, each of which must make its proof fail.

Yosys turns a proof into one circuit of single bits, in which the design's inputs, its undriven wires and the registers without
a reset are free. ABC then searches for an input sequence that violates a property.

Prints a line for each and ends with `N passed, M failed`. Arguments name the proofs to run. `--again` repeats proofs
that have already succeeded with the same sources, script and tools.

STRAIGHTWAY_CELLS (tools/suites/deal.py) takes a part: every proof, with a quarter of its mutations, at least one; and a proof with
`shallow` in three of four parts for so many cycles only.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from pyosys import libyosys

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402
import kept  # noqa: E402

sys.path.insert(0, str(cores.ROOT / "tools"))
from suites import deal  # noqa: E402

ABC = Path(libyosys.__file__).parent / "yosys-abc"
# On a busy machine the slowest takes some minutes.
LIMIT_S = 900
# Results that were as expected, by the content of all their inputs.
PROVEN = cores.BUILD / "proofs" / "proven"
# Cycles from the reset in which a mutation of an induction must be found.
MUTATED_DEPTH = 8


def elaboration(proof, files):
    """Yosys' commands: the design with its assertions and assumptions, as an and-inverter graph."""
    top = proof["name"]
    return [f"read_slang --threads 1 --top {top} " + " ".join(file.name for file in files),
            f"prep -flatten -top {top}", "memory_map", "opt -full",
            *(["clk2fflogic"] if proof.get("clocks") == "many" else ["async2sync", "dffunmap"]),
            "chformal -assume -early", "chformal -live -fair -cover -remove", "opt_clean",
            "formalff -setundef -clk2ff -ff2anyinit -assume", "setundef -undriven -anyseq", "setattr -unset keep",
            "delete -output", "opt -full", "techmap", "formalff -clk2ff -ff2anyinit", "simplemap", "dffunmap",
            "aigmap", "write_aiger -I -B -zinit -no-startoffset -ywmap proof.map proof.aig"]


def search(proof, mutated):
    """ABC's commands. A mutation must fail with a counterexample: an induction that does not succeed proves nothing."""
    depth = proof["shallow"]["cycles"] if is_shallow(proof, mutated) else proof.get("depth", MUTATED_DEPTH)
    engine = "pdr" if proof["mode"] == "prove" and not mutated and not is_shallow(proof, mutated) else f"bmc3 -F {depth}"
    return f"read_aiger proof.aig; fold; strash; dc2; {engine}", depth


def is_shallow(proof, mutated):
    """Whether this run leaves the whole depth of the proof to another part."""
    return not mutated and "shallow" in proof and not proof["is_whole"]


def sources(proof, folder, mutation):
    """Copies of the design's files, the mutated one among them; or why there are none."""
    files = []
    for source in [*cores.sources(proof["core"]), cores.RTL / "formal" / f"{proof['name']}.sv"]:
        copy = folder / source.name
        text = source.read_text("utf-8")
        if mutation and source == cores.RTL / mutation["file"]:
            if text.count(mutation["from"]) != 1:
                raise ValueError(f"the mutation's text occurs {text.count(mutation['from'])} times in {mutation['file']}")
            text = text.replace(mutation["from"], mutation["to"])
        copy.write_text(text, "utf-8")
        files.append(copy)
    return files


def run(proof, label, mutation=None, again=False):
    """The verdict (PASS, FAIL or an error), the property that failed, and whether the verdict is from an earlier run."""
    folder = cores.BUILD / "proofs" / label
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        files = sources(proof, folder, mutation)
    except ValueError as error:
        return str(error), "", False
    script, (commands, depth) = elaboration(proof, files), search(proof, mutation is not None)
    wanted = "FAIL" if mutation else "PASS"
    key = kept.key(*script, commands, *files)
    if not again and (broken := kept.found(PROVEN / key, key)) is not None:
        return wanted, broken, True
    os.chdir(folder)
    for command in script:
        libyosys.run_pass(command, DESIGN)
    properties = json.loads(Path("proof.map").read_text("utf-8"))["asserts"]
    try:
        done = subprocess.run([ABC, "-c", commands], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"no answer in {LIMIT_S} s", "", False
    print(done.stdout, flush=True)
    violated = re.search(r"^Output (\d+) of miter .* was asserted in frame", done.stdout, re.M)
    passed = re.search(rf"^(No output asserted in {depth} frames|Property proved)\.", done.stdout, re.M)
    if not properties or bool(violated) == bool(passed):
        return f"ERROR: {len(properties)} properties: " + (done.stdout.strip().splitlines() or ["no output"])[-1], "", False
    verdict, broken = ("FAIL", ".".join(properties[int(violated[1])]).replace("\\", "")) if violated else ("PASS", "")
    if verdict == wanted:
        kept.keep(PROVEN / key, key, broken)
        os.chdir(cores.BUILD)
        shutil.rmtree(folder, ignore_errors=True)
    return verdict, broken, False


def judge(proof, number, again):
    """Runs a proof (number 0) or one of its mutations: whether the result is the expected one, and the line that reports it."""
    started = time.monotonic()
    if number == 0:
        verdict, _, is_known = run(proof, proof["name"], again=again)
        depth = proof["shallow"]["cycles"] if is_shallow(proof, False) else proof.get("depth")
        bound = "" if proof["mode"] == "prove" and not is_shallow(proof, False) else f", {depth} cycles"
        good = verdict == "PASS"
        line = f"{proof['name']}: {proof['says']}{bound}" + ("" if good else f": {verdict}")
    else:
        mutation = proof["mutation"][number - 1]
        verdict, broken, is_known = run(proof, f"{proof['name']}_mutation_{number}", mutation, again)
        good = verdict == "FAIL"
        outcome = broken if good else f"{verdict}: the proof does not detect `{mutation['to']}`"
        line = f"{proof['name']} mutation {number}: {outcome}"
    note = ", proven before" if is_known else ""
    return good, f"{'pass' if good else 'FAIL'} {line}{note} ({time.monotonic() - started:.1f} s)"


def forked(proof, number, again):
    """Starts a process for one proof: Yosys is loaded once, and each design is a new one. Its number, and where its result will be."""
    folder = cores.BUILD / "proofs"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{proof['name']}_{number}"
    result, log = folder / f"{name}.json", folder / f"{name}.log"
    result.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with open(log, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            result.write_text(json.dumps(judge(proof, number, again)), "utf-8")
        finally:
            sys.stdout.flush()
            os._exit(0)
    return child, (result, log, name)


def verdict_of(result, log, name):
    """What a process has left: its result, or the end of its log."""
    if result.exists():
        return json.loads(result.read_text("utf-8"))
    last = (log.read_text("utf-8", errors="replace").strip().splitlines() or ["no output"])[-1]
    return False, f"FAIL {name}: ERROR: {last} (0.0 s)"


def cells(proofs):
    """The proofs and mutations that this run takes: [(proof, number)], number 0 is the proof itself."""
    costs = {proof["name"]: proof["shallow"]["saves_s"] for proof in proofs if "shallow" in proof}
    whole = deal.taken(dict.fromkeys(costs, "shallow"), costs)
    mutations = {f"{proof['name']} {number}": proof["name"] for proof in proofs for number in range(1, len(proof["mutation"]) + 1)}
    mutated = deal.taken(mutations)
    for proof in proofs:
        proof["is_whole"] = proof["name"] in whole
    return [(proof, number) for proof in proofs for number in range(len(proof["mutation"]) + 1)
            if number == 0 or f"{proof['name']} {number}" in mutated]  # fmt: skip


def main():
    words = sys.argv[1:]
    again = "--again" in words
    proofs = tomllib.loads((Path(__file__).parent / "proofs.toml").read_text("utf-8"))["proof"]
    names = [word for word in words if word != "--again"] or [proof["name"] for proof in proofs]
    work = cells([proof for proof in proofs if proof["name"] in names])
    passed = failed = 0
    # Both are cached: each process needs them.
    kept.tools()
    cores.cores()
    running = {}
    while work or running:
        # Two for each processor, as the other tests: of one that is shared, they get the same part.
        while work and len(running) < 2 * (os.cpu_count() or 1):
            child, place = forked(*work.pop(0), again)
            running[child] = place
        child, _ = os.wait()
        good, line = verdict_of(*running.pop(child))
        passed, failed = passed + good, failed + (not good)
        print(line, flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


DESIGN = libyosys.Design()

if __name__ == "__main__":
    main()
