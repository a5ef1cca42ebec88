"""`straightway sustain`: a frozen file system is seen by all that arrive meanwhile, and the drive is given back."""

import csv
import json
import threading
import time

import pytest
import scripted
from figure_areas import freeze
from scripted import ROOT, guest

OUT = ROOT / "out" / "test-freeze"


@pytest.fixture(scope="module")
def frozen():
    """One guest that freezes each path's file system in turn, with the machine to itself.

    Once more for the paths for which the machine was too busy: that is seen from the load, not from the result."""
    drives = ["--drive", "size=256M,serial=LAB1", "--drive", "size=64M,serial=LAB2"]
    paths = freeze.PATHS
    for _ in range(2):
        done = freeze.script("$S", "LAB1", paths, "out/test-freeze")
        guest(f"{done}\ndriver_is nvme\n", *drives, timeout=900, alone=True)
        paths = [path for path in paths if freeze.Frozen(OUT / path).why_not_judged()]
        if not paths:
            break


@pytest.mark.parametrize("path", freeze.PATHS)
def test_a_frozen_file_system_is_seen_by_all_that_arrive_meanwhile(frozen, path):
    seen = freeze.Frozen(OUT / path)
    run = seen.run
    if why := seen.why_not_judged():
        pytest.skip(why)
    most, least = seen.model_p99_s()
    print(f"{path}: frozen for {seen.held_s:.3f} to {seen.stall_s:.3f} s, p99 {run['response']['p99_ns'] / 1e9:.4f} s, "
          f"model {least:.4f} to {most:.4f} s, {100 * seen.error():+.2f} %; service p99 {run['service']['p99_ns'] / 1e6:.2f} ms")
    assert seen.stall_s >= seen.held_s >= freeze.FROZEN_S
    assert run["arrivals"] == freeze.RATE * freeze.SECONDS
    assert run["response"]["p99_ns_ci95"] is None or run["response"]["p99_ns_ci95"][0] <= run["response"]["p99_ns"]
    assert abs(seen.error()) <= 0.05, seen.error()
    # Half of the arrivals or more came in the stall or behind it: that is no rare miss.
    assert (run["verdict"], seen.status) == ("does_not", 1), run["reason"]
    # The stall counts from the call; the first writes after it may still pass.
    assert run["smallest_safe_buffer_bytes"] >= 0.95 * freeze.FROZEN_S * freeze.RATE * 4096
    rows = list(csv.DictReader((OUT / path / "samples.csv").read_text().splitlines()))
    assert len(rows) == run["arrivals"]
    assert max(int(row["response_ns"]) for row in rows) == run["response"]["max_ns"]
    assert "<svg" in (OUT / path / "report.html").read_text()


def test_a_closed_loop_would_have_hidden_it(frozen):
    """The service times of one synchronous writer: one of three thousand saw the stall."""
    seen = freeze.Frozen(OUT / "ext4-direct")
    if why := seen.why_not_judged():
        pytest.skip(why)
    assert seen.run["service"]["p99_ns"] < seen.model_p99_s()[1] * 1e9 / 10


def write_frozen(folder, p99_s, held_s, stall_s):
    """What a guest leaves of one path, but for its samples."""
    (folder / "control").mkdir(exist_ok=True)
    report = {"arrivals": 3000, "queue_depth": 1, "service": {"p50_ns": 100_000}, "response": {"p99_ns": round(p99_s * 1e9)}}
    for one in (folder, folder / "control"):
        (one / "sustain.json").write_text(json.dumps(report))
    for name, text in (("status", 1), ("held_s", held_s), ("stall_s", stall_s)):
        (folder / name).write_text(str(text))


def test_a_freeze_that_takes_long_to_begin_is_judged_by_what_can_have_waited(tmp_path):
    (tmp_path / "samples.csv").write_text("response_ns,service_ns\n100000,100000\n")
    # For 300 ms the call wrote back what was dirty; whether writes passed meanwhile is not to be seen from outside.
    for p99_s, error in ((1.45, 0), (1.6, 0), (1.3, -0.1), (1.93, 0.1)):
        write_frozen(tmp_path, p99_s, 1.5, 1.8)
        assert abs(freeze.Frozen(tmp_path).error() - error) < 0.015, (p99_s, freeze.Frozen(tmp_path).error())


def test_a_path_that_was_late_before_the_freeze_is_not_judged(tmp_path):
    write_frozen(tmp_path, 1.45, 1.49, 1.5)
    for late_ns, judged in ((0, True), (488_000_000, False)):
        rows = [(100_000, 100_000), (1_469_000_000 + late_ns, 1_469_000_000), (1_500_000_000, 100_000)]
        lines = ["response_ns,service_ns", *(f"{response},{service}" for response, service in rows)]
        (tmp_path / "samples.csv").write_text("\n".join(lines) + "\n")
        assert (freeze.Frozen(tmp_path).why_not_judged() is None) == judged


def test_the_arrival_model_against_what_can_be_counted_by_hand():
    # Ten a second for ten seconds, one second of stall, writes that take no time: ten wait, 1.0 s, 0.9 s, ... 0.1 s.
    times = freeze.response_times_s(10, 10, 2.0, 1.0, 0.0)
    waited = sorted(time for time in times if time > 0)
    assert [round(time, 6) for time in waited] == [round(0.1 * i, 6) for i in range(1, 11)]
    assert round(freeze.percentile(times, 0.99), 6) == 0.9
    # With writes of 50 ms, which is half of an interval, the queue takes as long again to empty.
    busy = freeze.response_times_s(10, 10, 2.0, 1.0, 0.05)
    assert sum(time > 0.0501 for time in busy) in (19, 20)
    # As fio prints it for 500 a second and 1.5 s of 6 s, from the arrivals: 1.44 s.
    assert round(freeze.model_p99_s(500, 6, 1.5, 0.0), 3) == 1.44


def test_verdicts_exit_codes_and_bad_input():
    guest(
        r"""
        Q="--rate 20iops --block 4K --span 16M --duration 4s --warm-up 200ms"
        rc 0 $S sustain /dev/nvme0n1 $Q --deadline 5s --miss-rate 0.05 --path block-direct
        grep -q SUSTAINS /tmp/out || fail "no verdict"
        rc 5 $S sustain /dev/nvme0n1 $Q --deadline 5s --miss-rate 0.0001 --path block-direct
        grep -q 'A run of' /tmp/out || fail "no run length"
        rc 1 $S sustain /dev/nvme0n1 $Q --deadline 1us --path straightway-poll
        rc 2 $S sustain /dev/nvme0n1 $Q --deadline 1us --operation write
        said 'destroy-data LAB1'
        rc 2 $S sustain /dev/nvme0n1 $Q --deadline 1us --path nonesuch
        rc 4 $S sustain /dev/nvme0n1 $Q --deadline 1us --path ext4-direct
        rc 3 $S sustain /dev/nvme9n1 $Q --deadline 1us
        # A mounted drive is left alone.
        mkfs.ext4 -q -F /dev/nvme0n1; mkdir -p /tmp/m; mount /dev/nvme0n1 /tmp/m
        rc 3 $S sustain /dev/nvme0n1 $Q --deadline 1us --operation write --destroy-data LAB1 --path block-direct
        said 'mounted'
        umount /tmp/m
        # A full disk for the results: they are on standard output, and the drive is given back.
        mkdir -p /tmp/full; mount -t tmpfs -o size=4k none /tmp/full; head -c 4096 /dev/zero >/tmp/full/x
        rc 8 $S sustain /dev/nvme0n1 $Q --deadline 5s --miss-rate 0.05 --path block-direct --json --output /tmp/full
        said 'No space left'
        python3 -c 'import json; json.load(open("/tmp/out"))' || fail "no JSON"
        # Ctrl-C in the middle: what was measured is there, and marked.
        $S sustain /dev/nvme0n1 --rate 20iops --block 4K --span 16M --duration 600s --warm-up 100ms \
          --deadline 1s --json --path straightway-poll >/tmp/out 2>/tmp/err & pid=$!
        until grep -q 'blocks a second' /tmp/err; do sleep 0.1; done
        sleep 8; kill -INT $pid; wait $pid; same $? 130 "the exit status"
        python3 -c 'import json; r = json.load(open("/tmp/out")); assert not r["complete"] and r["arrivals"] > 10' || fail "no part"
        driver_is nvme
        """,
        "--drive", "size=256M,serial=LAB1", timeout=500,
    )


def test_a_guest_that_is_alone_waits_for_others_and_lets_none_in_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(scripted, "ROOT", tmp_path)
    order, inside = [], threading.Event()

    def run(name, alone, after=None):
        with scripted.turn(alone):
            order.append(name)
            inside.set()
            if after:
                after.wait(10)
            order.append(f"{name} ends")

    leave = threading.Event()
    first = threading.Thread(target=run, args=("first", False, leave))
    first.start()
    assert inside.wait(10)
    # Beside it goes another, but not one that is to be alone, nor one that comes after that.
    run("beside", False)
    late = [threading.Thread(target=run, args=("alone", True)), threading.Thread(target=run, args=("last", False))]
    for thread in late:
        thread.start()
        time.sleep(0.5)
    assert order == ["first", "beside", "beside ends"]
    leave.set()
    for thread in [first, *late]:
        thread.join(10)
    assert order[3:] == ["first ends", "alone", "alone ends", "last", "last ends"]
