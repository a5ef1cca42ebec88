# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The judges of tools/reproduction: runs in which the thesis is right, and runs in which it is wrong, get those verdicts."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from reproduction import page, responses, runs, speeds, straight
from reproduction.evidence import COUNTS, TIME, VERDICTS, Claim, Finding, all_of, faster, most_of, pairs_hold, peaks, quantile, share_interval
from reproduction.runs import MEASURED, commands

KIB, MIB = 1 << 10, 1 << 20
CLAIMS = [claim for _, rows in page.CHAPTERS for row in rows for claim in row.claims]
# No run of an emulator can tell these.
NEVER_TOLD = (
    "just over 10 %", "the largest direct speeds", "the solid-state drives' speeds", "most of the time is software's", "time shifts",
    "its CPU time is all",
)  # fmt: skip
# The server's claim and the board's exclude each other.
NOT_TOGETHER = "direct I/O has the higher throughput in four of seven"
BOTH, KERNEL = ("read", "write"), ("ext4-buffered", "ext4-direct", "block-buffered", "block-direct")


def cell(path, operation, pattern, size, speed, cpu=50, deviation=0.01):
    return {
        "path": path, "operation": operation, "pattern": pattern, "block_size_bytes": size, "throughput_mib_s": speed, "cpu_percent": cpu,
        "throughput_mib_s_ci95": [speed * 0.99, speed * 1.01], "throughput_mib_s_stddev": speed * deviation, "samples": [],
    }  # fmt: skip


def sweep(right):
    def speed(path, pattern, size):
        if "direct" in path:
            return (4 if size < 64 * KIB else 100 if size == 64 * KIB else 180) if right else (180 if size < 64 * KIB else 50)
        if pattern == "random":
            return (10 if size < 64 * KIB else 99) if right else (100 if size < 64 * KIB else 40)
        return 100

    return {
        "results": [
            cell(path, operation, pattern, size, speed(path, pattern, size), 100 if "buffered" in path else 30 if right else 120)
            for path in KERNEL for operation in BOTH for pattern in ("sequential", "random") for size in speeds.SWEPT
        ]
    }  # fmt: skip


def counts(right):
    def bulk(path, size):
        if "buffered" in path:
            return 1_000_000 if right or size < MIB else 80_000
        by_size = (2_000_000, 250_000, 200_000, 120_000, 90_000, 99_000) if right else (400_000, 390_000, 380_000, 370_000, 360_000, 350_000)
        return dict(zip(speeds.COUNTED, by_size))[size]

    def request(path, operation, size):
        record = {"path": path, "operation": operation, "block_size_bytes": size, "user": [10] * 4, "waiting": [0] * 4}
        price = 2_000 if path == "chario" else 1_000 if path == "chario-phys" else 60_000 if "buffered" in path else 20_000
        if not right:
            price = {60_000: 20_000, 20_000: 60_000, 2_000: 70_000, 1_000: 80_000}[price] * size // (4 * KIB)
        record["kernel"] = [price] * 4
        if not path.startswith("chario"):
            cached = "buffered" in path and operation == "read" and right
            more = "ext4" in path and operation == "write" and right
            record["commands"] = [1, 0, 0, 0] if cached else [4, 3, 3, 3] if more else [2] * 4 if operation == "write" else [1] * 4
            record["moved_bytes"] = [128 * KIB, 0, 0, 0] if cached else [size] * 4 if right or operation == "read" else [size // 2] * 4
        return record

    return {
        "bulk": [
            {"path": path, "operation": operation, "pattern": pattern, "block_size_bytes": size, "commands_per_mib": 8 if "buffered" in path and right else 256,
             "instructions_per_mib": bulk(path, size), "kernel_instructions_per_mib": bulk(path, size)}
            for path in KERNEL for operation in BOTH for pattern in ("sequential", "random") for size in speeds.COUNTED
        ],
        "requests": [
            {"path": "copy", "operation": "copy", "block_size_bytes": 4096, "user": [1 if right else 50], "kernel": [99 if right else 50], "waiting": [0]},
            *[request(path, operation, size * KIB) for path in (*KERNEL, *straight.CHARIO) for operation in BOTH for size in (4, 8, 40, 80, 128, 1024, 16384)],
        ],
    }  # fmt: skip


def trace(name, right):
    *path, operation, size = name.removeprefix("trace-").split("-")
    path, number = "-".join(path), int(size[:-1]) * KIB
    extreme, width = path.endswith("buffered") == right, 1.5 if (path == "chario") == right else 1.2
    longest, median = (9e6 if extreme else 1e6), 70e3 if (path == "chario") == right else 100e3
    peak, two = [0.0, 0.5, 1.0, 0.5, 0.0], right
    return {
        "path": path, "operation": operation, "block_size_bytes": number, "coverage": 1.0 if right else 0.8,
        "parts": [{"name": "application", "share": 0.2}, {"name": "device", "share": 0.8}],
        "exceedance": [[median * 0.9, 1.0], [median, 0.5], [median * width, 0.05], [longest, 0.001]],
        "density": [[float(at), value] for at, value in enumerate(peak + peak if two else peak)],
    }  # fmt: skip


def periodic(right):
    cells = []
    for path in KERNEL:
        for operation in BOTH:
            for synchronous in (True, False):
                for condition in range(6):
                    direct = "direct" in path
                    # Reads are not faster with direct I/O; asynchronous writes are faster and flatter, but further out on ext4.
                    slow = 2e6 if operation == "write" and not direct or operation == "read" and direct else 1e6
                    median, spread = (slow if synchronous else slow / 2), 4e5 if synchronous else 1e5
                    longest = (5e6 if direct else 9e6) * (4 if path == "ext4-buffered" and not synchronous else 1)
                    if not right:
                        median, spread, longest = 3e6 - median, 5e5 - spread, 1e7 + 4e7 - longest
                    box = {"median_ns": median, "quartile1_ns": median, "quartile3_ns": median + spread, "max_ns": longest}
                    cells.append({"path": path, "operation": operation, "priority": "normal", "load": str(condition), "synchronous": synchronous, "response": box})
    return {"cells": cells}


def periods(right):
    return {"cells": [{"period_ns": ms * 1_000_000, "overruns": late if right else 9, "service": {"max_ns": 18e6}} for ms, late in ((5, 100), (15, 3), (20, 0), (25, 0))]}


def profile(name, right):
    how, size = name.removeprefix("profile-block-").split("-")
    share = 0.5 if (how == "buffered") == right else 0.0
    number = {"4K": 4 * KIB, "128K": 128 * KIB, "1M": MIB, "16M": 16 * MIB}[size]
    return {"path": f"block-{how}", "block_size_bytes": number, "busy_samples": 900, "functions": [{"name": "copy_user_generic_string", "own_share": share}, {"name": "memset", "own_share": 0.3}]}


def interrupts(right):
    calls = [["stock", "chario", operation, 512, 16 if right else 17] for operation in BOTH]
    varies = {"block-buffered": 60, "block-direct": 2, "ext4-buffered": 5, "ext4-direct": 3} if right else dict.fromkeys(KERNEL, 0)
    for path, spread in varies.items():
        for operation in BOTH:
            calls += [["stock", path, operation, 512 + extra, 100 + extra] for extra in (0, spread if operation == "write" else 1)]
    return {"computed": [512, 16], "calls": calls}


def speed(_):
    paths = ("block-buffered", "block-direct")
    return {"points": [{"loop_ns": 1, "results": [{"path": p, "operation": o, "block_size_bytes": s, "iops": 1.0} for p in paths for o in BOTH for s in (4 * KIB, 512 * KIB, 16 * MIB)]}]}


def tables(name, right):
    sequential = lambda path, number, read, write: [cell(path, operation, "sequential", number, rate) for operation, rate in (("read", read), ("write", write))]
    if name == "table-41":
        of = {"chario": 150, "ext4-direct": 120, "block-direct": 110, "ext4-buffered": 100, "block-buffered": 40}
        return {"results": [one for path, rate in of.items() for number in straight.TABLE for one in sequential(path, number, rate if right else 200 - rate, rate if right else 200 - rate)]}
    if name == "table-42":
        of = [("block-buffered", 798, 646, 730, 514), ("block-direct", 803, 691, 1378, 764), ("straightway-poll", 1444, 1005, 1444, 1005)]
        scale = {"block-direct": 1, "block-buffered": 1, "straightway-poll": 1 if right else 0.1}
        return {"results": [one for path, *rates in of for number, (r, w) in ((128 * KIB, rates[:2]), (16 * MIB, rates[2:] if right else rates[:2]))
                            for one in sequential(path, number, r * scale[path], w * scale[path])]}  # fmt: skip
    if name == "table-43":
        of = {"io_uring": (744, 559), "straightway-poll": (1415, 445)} if right else {"io_uring": (1415, 445), "straightway-poll": (744, 559)}
        return {"results": [cell(path, operation, "random", 4096, rate) for path, rates in of.items() for operation, rate in zip(BOTH, rates)]}
    results = []
    for path in ("block-buffered", "io_uring", "straightway-poll"):
        for operation in BOTH:
            for pattern in ("sequential", "random"):
                for number in (4 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, MIB, 16 * MIB):
                    ours = path == "straightway-poll"
                    rate = (30 if ours else 20) if number < 128 * KIB else 200
                    if path == "block-buffered":
                        rate = 300 if (pattern == "sequential") == right else 5
                    elif not right:
                        rate = 30 if ours else 40
                    results.append(cell(path, operation, pattern, number, rate, 99 if right else 40, 0.01 if ours == right else 0.1))
    return {"results": results}


def workload(name, right):
    _, kind, how = name.split("-")
    rate, mean = (20 if how == "direct" else 10), 2e6 if how == "direct" else 1e6
    if not right:
        rate, mean = 30 - rate, 3e6 - mean
    return {"workload": kind, "runs": [{"throughput_mib_s": rate + run, "mean_latency_ns": mean + run} for run in range(3)]}


def figures(right):
    names = {"block_device": 138_320, "user_space_driver": 3_280, "ring": 872 if right else 200_000}
    return {
        **{f"firmware.main_cpu_{name}_instructions_per_mib": value for name, value in names.items()},
        **{f"firmware.sequential_{operation}_of_a_limited_drive_ring_percent": 100 if right else 50 for operation in BOTH},
    }


def world(right):
    """The result of each run, of a machine on which the thesis is right, or wrong."""
    whole = {
        "sweep": sweep, "counts": counts, "periodic": periodic, "periodic-10": periodic, "periods": periods, "interrupts": interrupts, "figures": figures,
        "sweep-tmpfs": lambda right: {"results": [cell("file-buffered", "read", "sequential", size, 300 if right else 50) for size in speeds.SWEPT]},
    }  # fmt: skip
    named = {"trace": trace, "profile": profile, "table": tables, "by": tables, "workload": workload}

    def result(name):
        if name in whole:
            return whole[name](right)
        kind = name.split("-")[0]
        return speed(right) if kind == "speed" else named[kind](name, right)

    return result


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text[:60])
def test_a_claim_gets_the_verdict_of_the_runs(claim):
    found = {right: claim.finding(world(right)) for right in (True, False)}
    if claim.text.startswith(NEVER_TOLD):
        assert [one.holds for one in found.values()] == [None, None]
    elif claim.text.startswith(NOT_TOGETHER):
        assert [one.holds for one in found.values()] == [False, False]
    else:
        assert [one.holds for one in found.values()] == [True, False], [one.text for one in found.values()]
    assert all(one.verdict.startswith(VERDICTS) for one in found.values())


def test_the_board_s_applications_are_judged_by_how_many_gain():
    claim = next(claim for claim in CLAIMS if claim.text.startswith(NOT_TOGETHER))
    mixed = lambda name: workload(name, responses.APPLICATIONS.index(name.split("-")[1]) % 2 == 0)
    assert claim.finding(mixed).holds


def test_a_run_that_is_missing_tells_nothing():
    finding = CLAIMS[0].finding(lambda name: None)
    assert finding.holds is None and "not run: counts" in finding.text


def test_a_run_that_is_not_valid_tells_nothing():
    claim = next(claim for claim in CLAIMS if claim.runs == ("sweep",))
    result = world(True)
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
    assert faster(a, b) is None and faster(cell("c", "read", "sequential", 4096, 120), a) is True


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
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    claim = Claim("water is wet", (), lambda: Finding("yes", True))
    found = [("3.1", claim, claim.finding(lambda name: None))]
    page.KEPT.write_text('{"3.1: water is wet": "holds in the lab\'s time"}')
    assert page.changed(found) == ["3.1: water is wet: holds in the lab's time before, holds by counts now"]
    page.KEPT.write_text('{"3.1: water is wet": "holds by counts"}')
    assert page.changed(found) == []
