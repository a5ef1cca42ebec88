# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the judges of tools/reproduction count with, and the page that they write; their verdicts are in test_verdicts.py."""

import json
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tools")]

from reproduction import page, runs, speeds
from reproduction.evidence import COUNTS, TIME, Claim, Finding, Reason, Row, all_of, faster, most_of, much_faster, pairs_hold, peaks, quantile, share_interval
from reproduction.runs import MEASURED, commands
from thesis_runs import cell, world

KIB = 1 << 10
CLAIMS = [claim for _, rows in page.CHAPTERS for row in rows for claim in row.claims]


def test_a_run_that_is_missing_tells_nothing():
    finding = CLAIMS[0].finding(lambda name: None)
    assert finding.holds is None and "not run: counts" in finding.text


def test_a_run_that_is_not_valid_tells_nothing():
    claim = next(claim for claim in CLAIMS if claim.runs == ("sweep",))
    result = world()
    finding = claim.finding(lambda name: {**result(name), "valid": False})
    assert finding.holds is None and finding.text == "not valid: sweep"


def test_runs_on_a_busy_host_are_not_valid(tmp_path, monkeypatch):
    guest = runs.Guest("periods", {"periods": "periodic"})
    monkeypatch.setattr(runs, "OUT", tmp_path)
    (tmp_path / "periods").mkdir()
    (tmp_path / "periods" / "periodic.json").write_text('{"valid": true}')
    monkeypatch.setattr(runs, "_boot", lambda guest: True)
    for others, valid in ((2.0, True), (3.0, False)):
        spent = iter([(0, 0, 0), (10 + others, 10, 10)])
        monkeypatch.setattr(runs, "_spent", lambda spent=spent: next(spent))
        assert runs.measure(guest)
        assert runs.result("periods")["valid"] == valid
    # A virtual clock does not see the host.
    (tmp_path / "periods" / "busy").unlink()
    guest.options = ("--icount", "0")
    spent = iter([(0, 0, 0), (20, 10, 10)])
    monkeypatch.setattr(runs, "_spent", lambda: next(spent))
    assert runs.measure(guest) and runs.result("periods")["valid"]


def test_intervals_that_overlap_tell_nothing():
    a, b = cell("a", "read", "sequential", 4096, 100), cell("b", "read", "sequential", 4096, 101)
    third = cell("c", "read", "sequential", 4096, 120)
    assert faster(a, b) is None and faster(third, a) is True
    # Surely faster, but not by half.
    assert much_faster(third, a) is False and much_faster(a, b) is None and much_faster(cell("d", "read", "sequential", 4096, 200), a) is True


def test_rounds_are_compared_in_pairs():
    """Both drift together: their intervals overlap, and each round says the same."""
    one, other = cell("a", "read", "sequential", 4096, 100, deviation=0.5), cell("b", "read", "sequential", 4096, 99, deviation=0.5)
    for this, more in ((one, 1), (other, 0)):
        this["samples"] = [{"round": number, "throughput_mib_s": 50 * number + more} for number in range(8)]
    assert faster(one, other) is True and faster(other, one) is False
    one["samples"] = [{"round": number, "throughput_mib_s": 50 * number + (-1) ** number} for number in range(8)]
    assert faster(one, other) is None


def test_a_sign_test_needs_more_than_chance_gives():
    assert pairs_hold([True] * 10 + [False] * 2) is True
    assert pairs_hold([True] * 9 + [False] * 3) is None
    assert pairs_hold([False] * 10 + [True] * 2) is False
    assert pairs_hold([True] * 5) is None and pairs_hold([]) is None


def test_few_samples_do_not_tell_a_share():
    def judged(direct, samples):
        runs = [
            {"path": path, "block_size_bytes": 4 * KIB, "busy_samples": samples, "functions": [{"name": "copy_user_x", "own_share": share}]}
            for path, share in (("block-buffered", 0.38), ("block-direct", direct))
        ]
        return speeds.copying(*runs).holds

    assert judged(0.011, 900) is True
    assert judged(0.011, 90) is None  # At most 6 %: that is more than a tenth of 38.
    assert judged(0.2, 900) is False
    assert share_interval(0.0, 0) == (0.0, 1.0)
    assert share_interval(0.5, 100) == pytest.approx((0.404, 0.596), abs=1e-3)


def test_truths_together():
    assert all_of([True, None]) is None and all_of([False, None]) is False and all_of([]) is None
    assert most_of([True] * 4 + [False]) is True and most_of([True] * 3 + [False] * 2) is None and most_of([None, None, True]) is None


def test_percentiles_are_of_the_whole_distribution():
    """Of a thousand requests, not of the twenty that a trace shows one by one."""
    distribution = {"exceedance": [[10.0, 1.0], [20.0, 0.5], [30.0, 0.01], [900.0, 0.001]], "shown": [[1.0]] * 20}
    assert quantile(distribution, 0.5) == 20 and quantile(distribution, 0.99) == 30 and quantile(distribution, 0.999) == 900


def test_peaks_are_counted():
    assert peaks({"density": [[0, value] for value in (0, 1, 0)]}) == 1
    assert peaks({"density": [[0, value] for value in (0, 1, 0.2, 0.8, 0)]}) == 2
    # A shoulder and noise far below the peak are none.
    assert peaks({"density": [[0, value] for value in (0, 1, 0.9, 0.95, 0, 0.01, 0)]}) == 1


def test_a_verdict_says_what_it_rests_on():
    assert Finding("", True).verdict == "holds by counts" and Finding("", True, TIME).verdict == "holds in the lab's time"
    assert Finding("", False, COUNTS).verdict == "does not hold (by counts)" and Finding("", None).verdict == "cannot be told here"


def test_every_run_of_a_claim_is_measured():
    assert {name for claim in CLAIMS for name in claim.runs} <= set(commands())
    assert len({guest.name for guest in MEASURED}) == len(MEASURED)


def test_a_changed_verdict_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "KEPT", tmp_path / "kept.json")
    claim = Claim("1", "water is wet", (), lambda: Finding("yes", True))
    found = [(Row("3.1", "", (claim,)), claim, claim.finding(lambda name: None))]
    last = {"holds": True, "basis": TIME, "text": "", "is_emulators": False, "rule": ""}
    page.KEPT.write_text(json.dumps({"claims": {"1": last}}))
    assert page.changed(found) == ["1: water is wet: holds in the lab's time before, holds by counts now"]
    page.KEPT.write_text(json.dumps({"claims": {"1": {**last, "basis": COUNTS}}}))
    assert page.changed(found) == []


def test_a_page_of_some_runs_keeps_the_rest(tmp_path, monkeypatch):
    """Findings, tables of numbers and the applications, of runs that are not there, or not valid."""
    monkeypatch.setattr(page, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "result", (result := world()))
    page.write(page.judged())
    whole, kept = page.PAGE.read_text(), page.KEPT.read_text()
    assert "| chario, read | 51 (0.51) / 150" in whole and "| sweep | " not in whole
    monkeypatch.setattr(page, "result", lambda name: result(name) if name == "counts" else None)
    page.write(page.judged())
    assert page.PAGE.read_text() == whole and page.KEPT.read_text() == kept
    # A run that was interrupted is there, and says nothing.
    monkeypatch.setattr(page, "result", lambda name: {**result(name), "complete": False})
    page.write(page.judged())
    assert "holds" not in {finding.verdict.split()[0] for _, _, finding in page.judged()}
    assert "| chario, read | 51 (0.51) / 150" in page.PAGE.read_text()


def test_a_reason_is_a_sentence():
    assert str(Reason("A", "b", "c")) == "A: b. Turned by c"
