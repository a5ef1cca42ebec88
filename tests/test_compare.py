# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`straightway compare` over every path, on a real kernel and an emulated drive.

Own guests: the emulator of one counts instructions, which a guest that stays up cannot switch on."""

import json

import pytest
import scripted
from chario_guest import built
from scripted import ROOT, disturbed, guest, own_guest

PATHS = {
    "ext4-buffered", "ext4-direct", "block-buffered", "block-direct", "io_uring", "io_uring-polled",
    "passthrough", "chario", "chario-poll", "chario-registered", "chario-phys",
    "straightway-poll", "straightway-interrupt",
}
KEYS = {
    "path", "operation", "pattern", "block_size_bytes", "throughput_mib_s", "cpu_percent",
    "device_commands", "interrupts", "operations",
}


@pytest.mark.repeated()
def test_every_path_is_compared_and_counted():
    folder = ROOT / "out" / "test-compare"
    module = built()
    guest(
        rf"insmod build/chario/{module}/chario.ko windows={scripted.TARGET.window}" + r"""
        rm -rf out/test-compare
        measured $S compare /dev/nvme0n1 --destroy-data LAB1 --sizes 4K,1M --span 32M --rounds 5 --cell-duration 10ms \
          --output out/test-compare
        grep -q straightway-poll /tmp/out || fail "no table was printed"
        driver_is nvme
        rmmod chario || fail "it is not unloaded"
        """,
        "--cpus", "2", "--drive", "size=512M,serial=LAB1,mdts=5", timeout=600,
    )
    comparison = json.loads((folder / "compare.json").read_text())
    results = comparison["results"]
    assert disturbed(comparison), comparison["invalid_reasons"]
    assert not comparison["missing"], comparison["missing"]
    assert {result["path"] for result in results} == PATHS
    assert len(results) == len(PATHS) * 2 * 2 * 2
    for result in results:
        where = (result["path"], result["operation"], result["pattern"], result["block_size_bytes"])
        assert KEYS <= set(result), where
        assert result["operations"] > 0 and result["errors"] == 0, where
        assert result["throughput_mib_s_ci95"][0] <= result["throughput_mib_s"] <= result["throughput_mib_s_ci95"][1], where
        if result["path"].startswith(("straightway", "chario")):
            # 128 KiB is the drive's largest command: exactly ceil(block / 128 KiB) each time.
            commands = -(-result["block_size_bytes"] // (128 << 10))
            assert result["device_commands"] == commands * result["operations"], where
        if result["path"] in ("straightway-poll", "chario-poll"):
            assert result["interrupts"] == 0, where
        if result["path"] in ("chario", "chario-registered", "chario-phys") and result["operation"] == "read":
            # One interrupt per call of up to 4 MiB.
            assert result["interrupts"] == result["operations"], where
        if result["path"] == "straightway-interrupt":
            assert result["interrupts"] > 0, where
    page = (folder / "report.html").read_text()
    assert "<svg" in page and "http" not in page.replace("http://www.w3.org", ""), "the report is one offline file"


def test_a_path_that_is_missing_is_named_with_a_hint():
    folder = ROOT / "out" / "test-compare-missing"
    guest(
        r"""
        rm -rf out/test-compare-missing
        measured $S compare /dev/nvme0n1 --sizes 4K --rounds 5 --cell-duration 40ms --output out/test-compare-missing
        driver_is nvme
        """,
        "--drive", "size=256M,serial=LAB1", "--no-iommu", timeout=300,
    )
    comparison = json.loads((folder / "compare.json").read_text())
    missing = {path["path"]: path for path in comparison["missing"]}
    # Nothing may be written without --destroy-data, and without an IOMMU there is no interrupt.
    # Nor is CharIO's module loaded.
    without = {"ext4-buffered", "ext4-direct", "straightway-interrupt", "chario", "chario-phys"}
    assert without <= set(missing), missing
    assert all(path["reason"] and path["hint"] for path in missing.values()), missing
    assert all(result["operation"] == "read" for result in comparison["results"])


def test_instructions_are_counted_and_rank_the_paths_where_times_cannot():
    # Where the processor has counters, as QEMU's for 64-bit Arm has, they count; the lab's emulator does for x86-64.
    has_counters = scripted.TARGET.arch != "x86_64"
    folder = ROOT / "out" / "test-compare-counts"
    folder.mkdir(parents=True, exist_ok=True)
    done = own_guest(
        """
        for run in 1 2; do
          measured $S compare /dev/nvme0n1 --sizes 4K --patterns random --rounds 1 --span 16M --cell-duration 10ms \
            --paths straightway-poll,straightway-interrupt,block-direct,io_uring,io_uring-polled --output out/test-compare-counts/$run
          cat /tmp/out
        done
        """,
        *(() if has_counters else ("--count", str(folder / "counts.txt"))), "--icount", "4",
        "--drive", "size=64M,serial=LAB1,iops=100", timeout=400,
    )
    lines = done.splitlines()
    answer = next(line for line in lines if line.startswith("Random read of 4 KiB: "))
    assert answer.startswith("Random read of 4 KiB: straightway-poll costs ") and "block-direct" in answer, answer
    # On Arm the driver is one without optimisation.
    assert has_counters or "without a spinning core straightway-interrupt" in answer, answer
    runs = [json.loads((folder / run / "compare.json").read_text()) for run in ("1", "2")]
    # A program built without optimisation for the tests on Arm.
    times = 1 if has_counters else 10
    costs = [{one["path"]: one["cost_per_operation"] for one in run["results"]} for run in runs]
    for run, cost in zip(runs, costs, strict=True):
        assert len(cost) == 5, run["missing"]
        assert ("perf_event" in run["instructions_counted_by"]) == has_counters, run
        (advice,) = run["advice"]
        assert advice["fewest_instructions"]["path"] == "straightway-poll", advice
        assert advice["fewest_instructions"]["baseline"] == "block-direct" and advice["fewest_instructions"]["baseline_times"] > times, advice
        calls = {path: one["system_calls"] for path, one in cost.items()}
        assert calls["straightway-poll"] == 0 and calls["block-direct"] == 1 and calls["straightway-interrupt"] > 0, calls
    # What always takes the same way repeats to an instruction in user space. The others have two: a drive that answers soon, and one
    # for which a path sleeps or looks twice.
    for path in ("straightway-poll", "block-direct"):
        first, second = (cost[path] for cost in costs)
        assert first["user_instructions"] == second["user_instructions"] and first["system_calls"] == second["system_calls"], (path, first, second)
