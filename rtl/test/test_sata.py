# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Serial ATA host against a model of a drive, word by word and bit by bit: random requests with power cuts, the
fault matrix, the 8b/10b code, out-of-band signals and how a link starts.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import cocotb_bench  # noqa: E402
import benches  # noqa: E402
import cores  # noqa: E402
import sata_faults  # noqa: E402
import sata_soak  # noqa: E402
import sata_states  # noqa: E402
import sizes  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from suites import budget, deal  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("sata", "sata", {}),
    ("sata", "sata", {"Ncq": 0, "Trim": 0, "BlockSizeLog2": 12}),
    ("sata_link", "sata", {"SendCont": 0}),
    ("sata_host", "sata", {}),
    ("sata_host", "sata", {"Ncq": 0, "Trim": 0, "Fastest": 1, "Slowest": 1}),
    ("sata_stream", "sata", {}),
    ("sata_stream", "sata", {"DataWidth": 64, "BlockSizeLog2": 12}),
    ("sata_sim", "sata_sim", {}),
    ("sata_sim", "sata_sim", {"Serial": 1}),
    ("sata_parts_sim", "sata_sim", {}),
    ("sata_stream_sim", "sata_sim", {}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.parametrize("serial,seeds", [(False, 16), (True, 12)])
def test_random_requests_and_power_cuts(serial, seeds):
    """Drives with and without a queue, latencies, pauses on both sides, stalls, power cuts; the block interface is checked.
    With single bits: clocks up to 5,700 ppm apart, every rate, occasional wrong bits."""
    program = sata_faults.bench(serial)
    # 1047: a frame of the drive that began after a quarter of the time-out was aborted with SYNC.
    # 2405646: a write of several frames failed in one of them; the next write, taken one cycle later, began with its words.
    # 5001379: the answer to a write's last frame was missing; the host waited for it indefinitely.
    # 9915319: the drive requested a low-power state between a frame's end and its first SYNC, which no drive does.
    for seed in (1047, 2405646, 5001379, 9915319, *range(SEED, SEED + deal.share(seeds))):
        try:
            sata_faults.run(program, "random", str(seed), "100" if not serial else "60")
        except RuntimeError as error:
            pytest.fail(f"STRAIGHTWAY_SEED={seed}\n{error}")


def test_a_drive_with_blocks_of_4_kib():
    """The core that is built for them: the same random requests and power cuts."""
    program = benches.build("sata_4096", "sata_sim", "sata/sata_bench.cpp",
                                {"Ncq": 1, "TimeoutCycles": 20000, "BlockSizeLog2": 12}, core="sata_sim")
    for seed in range(SEED, SEED + deal.share(4)):
        try:
            sata_faults.run(program, "random", str(seed), "60")
        except RuntimeError as error:
            pytest.fail(f"STRAIGHTWAY_SEED={seed}\n{error}")


def test_a_drive_that_pauses_after_many_writes():
    """Nine tenths of the time-out without a word: no write fails, nothing is reset. `make figures ONLY=sata` runs 32 MiB and 800 ms."""
    words, cycles = sata_faults.run(sata_faults.bench(), "stall", "512", "18000").replace(",", "").split()[:3:2]
    assert int(cycles) < 1.05 * int(words)


@pytest.mark.shapes("serial")
@pytest.mark.parametrize("serial,fastest", [(0, 2), (1, 2), (1, 1), (1, 0)])
def test_deadlines_are_times_for_each_kind_of_command(serial, fastest):
    """Until the drive is ready, for a flush or a discard, and for data, the same at each rate of the link."""
    shape = {"Ncq": 1, "ClockKhz": 3, "TimeoutCycles": 4000, "FlushCycles": 8000, "SignatureCycles": 16000}
    program = benches.build(f"sata_deadlines_{serial}", "sata_sim", "sata/sata_bench.cpp",
                            shape | ({"Serial": 1} if serial else {}), core="sata_sim")
    share = 1 << (2 - fastest)
    expected = f"signature {48000 // share}, flush {24000 // share}, data {12000 // share}\n"
    assert sata_faults.run(program, "deadlines", str(fastest)) == expected


def test_lives_with_faults_cuts_cancels_and_pulled_cables():
    """STRAIGHTWAY_BUDGET (1000 lives, or 300s) makes it longer; `make soak` does."""
    seconds = budget.seconds(0)
    lives, requests = sata_soak.soak(0 if seconds else budget.states(8), seconds, SEED)
    print(f"STRAIGHTWAY_SEED={SEED}: {lives} lives, {requests} requests")


@pytest.mark.repeated()
def test_the_drive_in_python(monkeypatch):
    """Another model of a drive, written independently, in cocotb: queued and single commands, flow control, errors, a reset."""
    assert cocotb_bench.run(monkeypatch, "sata_sim", "sata", "bench_sata", {"TimeoutCycles": 20000}, core="sata_sim") == 8


@pytest.mark.repeated()
def test_the_error_states_with_the_drive_in_python(monkeypatch):
    """Each row that both models play has the same outcome with either (rtl/sata_states.py)."""
    ran = cocotb_bench.run(monkeypatch, "sata_sim", "sata_states", "bench_sata_states", {"TimeoutCycles": 4000}, core="sata_sim")
    assert ran == len(sata_states.ROWS.keys() - sata_states.CPP_ONLY)


# partner: QEMU's ide-hd | drive
@pytest.mark.cells("qemu")
@pytest.mark.parametrize("queue", [1, 0])
def test_the_drive_of_qemu(monkeypatch, tmp_path, queue):
    """A drive that nobody here wrote: its IDENTIFY DEVICE, its view of each command, and its errors."""
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("no qemu-system-x86_64: run tools/setup lab")
    ran = cocotb_bench.run(monkeypatch, "sata_sim", f"sata_qemu_{queue}", "bench_sata_qemu", {"TimeoutCycles": 20000, "Ncq": queue},
                           environment={"STRAIGHTWAY_FOLDER": tmp_path, "STRAIGHTWAY_QUEUE": queue}, core="sata_sim")
    assert ran == 8


def test_a_power_cut_behind_a_discard_and_a_flush():
    """A write after them may be lost: the block then reads as discarded, which the bench accepts."""
    assert sata_faults.run(sata_faults.bench(), "discard", str(SEED)) == "as expected\n"


def test_a_request_that_begins_while_the_host_cancels_ends():
    """No other request is outstanding; the host keeps `cancel` high until the request has ended."""
    assert sata_faults.run(sata_faults.bench(), "cancel", str(SEED)) == "each was cancelled\n"


def parts(*arguments):
    program = benches.build("sata_parts", "sata_parts_sim", "sata/sata_parts_bench.cpp", {}, core="sata_sim")
    return sata_faults.run(program, *arguments)


def stream(*arguments):
    program = benches.build("sata_stream", "sata_stream_sim", "sata/sata_stream_bench.cpp", {}, core="sata_sim")
    return sata_faults.run(program, *arguments)


def test_streaming_port_random_commands():
    """Reads, writes and flushes with pauses on every side; the block interface under the port is checked."""
    for seed in range(SEED, SEED + deal.share(8)):
        try:
            stream("random", str(seed), "60")
        except RuntimeError as error:
            pytest.fail(f"STRAIGHTWAY_SEED={seed}\n{error}")


@pytest.mark.parametrize("drive", ["queued", "single"])
def test_streaming_port_errors(drive):
    """Each error results in one status; no command hangs, and the next one works."""
    assert len(stream("errors", drive).splitlines()) == 17


@pytest.mark.repeated()
def test_yosys_reads_the_streaming_port_too():
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; memories are block RAMs."""
    assert sizes.block_rams("sata_stream", "xc7") == 0


def test_the_code():
    """256 bytes and 12 control codes at both disparities, compared with tables from the code's rules; every single-bit error."""
    assert parts("code").startswith("536 symbols, 5360 errors of one bit")


def test_out_of_band_signals():
    """At each rate: gaps at the limits of the tolerances are accepted and refused, and sent signals have the right lengths."""
    parts("oob", str(SEED))


@pytest.mark.shapes("host", always={"2"})
@pytest.mark.parametrize("host,fastest,slowest,outcome", [
    (2, 2, 0, "ready rate 2"), (2, 1, 0, "ready rate 1"), (2, 0, 0, "ready rate 0"),  # the slower of the two
    (1, 2, 0, "ready rate 1"), (1, 0, 0, "ready rate 0"),
    (1, 2, 2, "waits rate "),                                                         # no common rate
])
def test_a_link_starts_at_the_fastest_rate_that_both_have(host, fastest, slowest, outcome):
    found = sata_faults.run(sata_faults.bench(True, host), "start", str(fastest), str(slowest))
    assert found.startswith(outcome)


def test_drives_are_plugged_in_and_pulled():
    sata_faults.run(sata_faults.bench(True), "plug")


def test_the_fault_matrix():
    """docs/sata-faults.md matches the core's behaviour; the bench also checks each row itself."""
    document = cores.ROOT / "docs" / "sata-faults.md"
    assert sata_faults.matrix() == document.read_text("utf-8"), \
        "docs/sata-faults.md is out of date: run rtl/sata_faults.py > docs/sata-faults.md"
