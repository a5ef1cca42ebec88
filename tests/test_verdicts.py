# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each verdict of docs/reproduce.md follows from its runs: a run changed as its reason says turns it, and one without evidence has none."""

import fnmatch
import json
import sys
import tomllib
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tools")]

import thesis_runs
from reproduction import page, runs
from reproduction.evidence import MIB, VERDICTS, Finding, reasons

DOCTORED = tomllib.loads(Path(__file__).with_name("doctored.toml").read_text())
CLAIMS = [claim for _, rows in page.CHAPTERS for row in rows for claim in row.claims]
NAMES = [claim.name for claim in CLAIMS]
# The tools have no measurement that could tell these.
UNTOLD = {"3.3-copying", "3.17-flush", "t4.3-cpu", "4.12-shift"}
# An emulated processor or drive leaves nothing of these.
OF_A_BOARD = {"3.11-twice", "3.15-small", "3.18-linear", "3.26-software", "4.4-device", "4.10-rises", "4.10-equal", "4.11-equal", "4.11-random"}
TOLD = [claim for claim in CLAIMS if claim.name not in UNTOLD]
CALL = ("kernel", "path", "operation", "commands", "interrupts")
each = pytest.mark.parametrize("claim", TOLD, ids=lambda claim: claim.name)


def world(claim, machine=thesis_runs.BOARD):
    """A machine on which the claim holds; the thesis's own two differ in their applications."""
    return thesis_runs.world(1 if claim.name.startswith("t3.2") else 0, machine)


def records(run):
    """Every object of a run, and every call of `interrupts`, as a getter and a setter by names."""
    if isinstance(run, dict):
        yield run, run.get, run.__setitem__
        for value in run.values():
            yield from records(value)
    elif isinstance(run, list) and len(run) == len(CALL) and isinstance(run[1], str):
        yield run, dict(zip(CALL, run)).get, lambda name, value: run.__setitem__(CALL.index(name), value)
    elif isinstance(run, list):
        for value in run:
            yield from records(value)


def change(run, wanted, field, value):
    """Sets a field of the records that have it and these values; `speed` is a cell's, with its interval. Returns how many there were."""
    wanted = dict(word.split("=") for word in wanted.split())
    names = {"speed": ("throughput_mib_s",)}.get(field) or (tuple(field.split(".", 1)) if field.startswith("response.") else (field,))
    changed = 0
    for record, get, put in list(records(run)):
        if get(names[0]) is None or any(not fnmatch.fnmatch(str(get(key)), text) for key, text in wanted.items()):
            continue
        if len(names) == 2:
            get(names[0])[names[1]] = value
        else:
            put(names[0], value)
        if field == "speed":
            record["throughput_mib_s_ci95"] = [value * 0.99, value * 1.01]
        changed += 1
    return changed


@each
def test_a_run_that_is_changed_as_the_reason_says_turns_the_verdict(claim):
    result = world(claim)
    before = claim.finding(result)
    assert before.holds is True, before.text
    for names, *words in DOCTORED[claim.name]:
        chosen = [name for name in claim.runs if fnmatch.fnmatch(name, names)]
        assert chosen and all(change(result(name), *words) for name in chosen), f"changes nothing: {names} {words}"
    after = claim.finding(result)
    assert after.holds is False, after.text
    assert before.verdict.startswith(VERDICTS) and after.verdict.startswith("does not hold")


def test_every_claim_has_a_reason_and_a_changed_run():
    assert sorted(NAMES) == sorted(set(NAMES)) == sorted(reasons())
    assert set(NAMES) == set(DOCTORED) | UNTOLD and not set(DOCTORED) & UNTOLD


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.name in UNTOLD], ids=lambda claim: claim.name)
def test_a_claim_without_a_measurement_is_not_told(claim):
    assert claim.finding(world(claim)).holds is None


@each
def test_an_emulated_machine_tells_only_what_it_can(claim):
    assert claim.finding(world(claim, thesis_runs.LAB)).holds is (None if claim.name in OF_A_BOARD else True)


def emptied(run):
    return {} if isinstance(run, dict) and not run else {k: emptied(v) for k, v in run.items()} if isinstance(run, dict) else [] if isinstance(run, list) else run


@each
def test_nothing_to_compare_tells_nothing(claim):
    """No record, in any one run of the claim."""
    for name in [name for name in claim.runs if name != "figures"]:
        result = world(claim)
        finding = claim.finding(lambda asked, name=name, result=result: emptied(result(asked)) if asked == name else result(asked))
        assert finding.holds is None, f"{name}: {finding.text}"


@each
def test_a_part_that_is_missing_gives_no_other_verdict(claim):
    """A key that was cut off: without a verdict, or, if the claim does not read it, with the same; never an exception."""
    for name in claim.runs:
        for key in world(claim)(name):
            result = world(claim)
            del result(name)[key]
            assert claim.finding(result).holds in (None, True), f"{name} without {key}"


@each
def test_a_drive_too_small_gives_no_other_verdict(claim):
    """Without the cells above 1 MiB, which a small drive has no room for."""
    result = world(claim)
    for name in claim.runs:
        for key in ("results", "bulk", "requests"):
            if key in result(name):
                result(name)[key] = [one for one in result(name)[key] if one["block_size_bytes"] <= MIB]
    finding = claim.finding(result)
    assert finding.holds in (None, True)
    assert finding.holds is True or "not in the run" in finding.text or claim.name in ("3.18-linear", "3.9-falls"), finding.text


@each
def test_an_interrupted_or_invalid_run_tells_nothing(claim):
    for name in claim.runs:
        for key, text in (("complete", "interrupted"), ("valid", "not valid")):
            result = world(claim)
            result(name)[key] = False
            finding = claim.finding(result)
            assert finding.holds is None and finding.text == f"{text}: {name}"


def test_operations_that_failed_tell_nothing():
    claim = next(claim for claim in CLAIMS if claim.name == "3.5-large")
    for field, value, text in (("errors", 3, "operations failed"), ("throughput_mib_s", 0, "nothing was moved")):
        result = world(claim)
        assert change(result("sweep"), "path=ext4-direct block_size_bytes=1048576", field, value)
        assert claim.finding(result).holds is None and text in claim.finding(result).text


@pytest.mark.parametrize("damage", [
    lambda text: "", lambda text: text[: len(text) // 2], lambda text: text[:-1], lambda text: text.replace("100", "NaN", 1),
    lambda text: text.replace("100", "1e999", 1), lambda text: "[]", lambda text: text.replace("sweep", "compare", 1), lambda text: text + "}",
])  # fmt: skip
def test_a_damaged_file_tells_nothing(tmp_path, monkeypatch, damage):
    claim = next(claim for claim in CLAIMS if claim.name == "3.5-large")
    monkeypatch.setattr(runs, "OUT", tmp_path)
    (tmp_path / "sweep").mkdir()
    file, text = tmp_path / "sweep" / "sweep.json", json.dumps({"kind": "sweep", **thesis_runs.sweep()})
    file.write_text(text)
    assert claim.finding(runs.result).holds is True
    file.write_text(damage(text))
    finding = claim.finding(runs.result)
    assert finding.holds is None and finding.text == "damaged: sweep"


# The verdicts that once did not follow, as they were measured then.


def told(name, result):
    return next(claim for claim in CLAIMS if claim.name == name).finding(result)


def test_a_period_that_was_not_reached_tells_nothing():
    cells = [{"period_ns": ms * 1_000_000, "overruns": late, "service": {"max_ns": 249.3e6}} for ms, late in ((5, 199), (20, 0), (25, 0), (50, 9), (200, 0))]
    finding = told("3.21-late", lambda _: {"cells": cells})
    assert finding.holds is None and "no period exceeds it" in finding.text


def test_no_exception_is_not_small():
    result = thesis_runs.world()
    change(result("sweep"), "path=*-direct", "cpu_percent", 30)
    assert told("3.7-exceptions", result).holds is None


def test_a_count_without_the_copies_does_not_decide_for_the_copying_path():
    assert told("3.15-small", thesis_runs.world(machine=thesis_runs.LAB)).holds is None
    result = thesis_runs.world()
    for size, kernel in ((4096, 20_000), (8192, 23_000)):
        change(result("counts"), f"path=*-buffered operation=write block_size_bytes={size}", "kernel", [kernel] * 4)
    assert told("3.27-doubling", result).holds is None


def test_one_command_in_flight_is_not_the_thesis_s_program():
    result = thesis_runs.world()
    change(result("table-42-queue"), "", "queue_depth", 1)
    assert told("t4.2-large", result).holds is None


def test_instructions_for_a_mib_are_not_utilisation():
    """They fall 20 times, but a cell's processor time hardly does."""
    result = thesis_runs.world()
    change(result("by-size"), "path=io_uring", "cpu_percent", 90)
    assert told("4.12-falls", result).holds is False


def test_a_constant_number_on_the_block_device_is_named():
    result = thesis_runs.world()
    change(result("interrupts"), "path=block-*", "commands", 512)
    finding = told("4.5-varies", result)
    assert finding.holds is False and "always the same number: block-buffered, block-direct" in finding.text
    result("interrupts")["computed"] = [512, 16]
    assert told("4.6-most", result).holds is None and told("4.6-writes", result).holds is None


def test_a_third_of_the_densities_is_neither_many_nor_few():
    claim, result = next(claim for claim in CLAIMS if claim.name == "3.30-peaks"), thesis_runs.world()
    for name in claim.runs[10:]:
        change(result(name), "", "density", [[0, 0], [1, 1], [2, 0]])
    finding = claim.finding(result)
    assert finding.holds is None and finding.text == "several peaks in 10 of 32"


def test_applications_are_told_by_name_and_not_by_number():
    """Three with the lower latency, as on the server, but other ones."""
    result = thesis_runs.world()
    for name, value in (("oltp", 9e9), ("webproxy", 1)):
        change(result(f"workload-{name}-standard"), "", "mean_latency_ns", value)
    finding = told("t3.1-latency", result)
    assert finding.holds is False and "the other way round: webproxy, oltp" in finding.text


def test_a_core_without_a_clock_is_not_as_fast_as_one():
    assert told("t4.4-speed", lambda _: {name: value for name, value in thesis_runs.figures().items() if "clock" not in name}).holds is None


def test_a_finding_is_kept_only_under_its_rule(monkeypatch):
    claim, why = TOLD[0], reasons()[TOLD[0].name]
    last = {"holds": True, "basis": "counts", "is_emulators": False, "text": "as it was", "rule": str(why)}
    monkeypatch.setattr(page, "result", lambda name: None)
    assert page.finding_of(claim, last, why) == Finding("as it was", True)
    assert page.finding_of(claim, {**last, "rule": "another"}, why).text == "not run: counts"
    assert page.finding_of(claim, None, why).holds is None
    monkeypatch.setattr(page, "result", world(claim))
    assert page.finding_of(claim, last, why).text != "as it was"


def test_the_page_is_that_of_the_kept_findings():
    """No verdict on the page that its record does not have, and none without a reason."""
    text, claims = page.PAGE.read_text(), page.kept()["claims"]
    assert list(claims) == NAMES
    for claim in CLAIMS:
        last, why = claims[claim.name], reasons()[claim.name]
        finding = Finding(last["text"], last["holds"], last["basis"], last["is_emulators"])
        assert last["rule"] == str(why), claim.name
        assert f"| {claim.text} | {finding.text} | {finding.verdict}{' (*)' if finding.is_emulators else ''} | {why} |" in text
