# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`straightway sustain`: all arrivals during a freeze of the file system see it, and the drive is returned to its driver."""

import csv
import json

import pytest
from figure_areas import freeze
from scripted import ROOT, guest

OUT = ROOT / "out" / "test-freeze"


# The path that one synchronous writer has.
CLOSED_LOOP = "ext4-direct"


@pytest.fixture(scope="module")
def frozen(request):
    """One guest that freezes the file system of each path that a test of this run is about, in turn."""
    wanted = {CLOSED_LOOP} | {item.callspec.params["path"] for item in request.session.items if item.path == request.path and hasattr(item, "callspec")}
    drives = ["--drive", "size=256M,serial=LAB1", "--drive", "size=64M,serial=LAB2"]
    done = freeze.script("$S", "LAB1", [path for path in freeze.PATHS if path in wanted], "out/test-freeze")
    guest(f"{done}\ndriver_is nvme\n", *drives, timeout=900)


@pytest.mark.cells("frozen")
@pytest.mark.parametrize("path", freeze.PATHS)
def test_a_frozen_file_system_is_seen_by_all_arrivals_during_the_freeze(frozen, path):
    seen = freeze.Frozen(OUT / path)
    run, served_s, late_s = seen.run, seen.served_p99_s(), seen.begun_late_s()
    most, least = seen.model_p99_s()
    p99_s = run["response"]["p99_ns"] / 1e9
    print(f"{path}: frozen for {seen.held_s:.3f} to {seen.stall_s:.3f} s, p99 {p99_s:.4f} s, {served_s:.4f} s by the writes' times, begun up to {late_s:.4f} s late, "
          f"{least:.4f} to {most:.4f} s by the stall's; service p99 {run['service']['p99_ns'] / 1e6:.2f} ms")
    assert seen.stall_s >= seen.held_s >= freeze.FROZEN_S
    assert run["arrivals"] == len(seen.response_s) == freeze.RATE * freeze.SECONDS
    assert run["response"]["p99_ns_ci95"] is None or run["response"]["p99_ns_ci95"][0] <= run["response"]["p99_ns"]
    # A write waited for the thaw, and each arrival for those before it, however busy the machine is.
    assert max(seen.service_s) >= freeze.FROZEN_S / 2
    # The schedule does not wait for the path, and no arrival is served before the writes before it, nor later than they explain.
    assert all(abs(due - index / freeze.RATE) < 1e-8 for index, due in enumerate(seen.due_s))
    assert served_s - 1e-6 <= p99_s <= 1.02 * served_s + late_s, (served_s, p99_s, late_s)
    # Half of the arrivals or more came during or after the stall: such misses are not rare.
    assert (run["verdict"], seen.status) == ("does_not", 1), run["reason"]
    # The stall counts from the call; the first writes after it may still pass.
    assert run["peak_backlog_blocks"] + 1 >= 0.95 * freeze.FROZEN_S * freeze.RATE
    # None if the path did not catch up with the arrivals until the end, as on a busy machine.
    assert run["smallest_safe_buffer_bytes"] in (None, (run["peak_backlog_blocks"] + 1) * 4096)
    rows = list(csv.DictReader((OUT / path / "samples.csv").read_text().splitlines()))
    assert max(int(row["response_ns"]) for row in rows) == run["response"]["max_ns"]
    assert "<svg" in (OUT / path / "report.html").read_text()


def test_a_closed_loop_would_have_hidden_it(frozen):
    """One synchronous writer's own times: only one of three thousand has the stall, too few for a 99th percentile to show it."""
    seen = freeze.Frozen(OUT / CLOSED_LOOP)
    waited = {what: sum(time >= freeze.FROZEN_S / 2 for time in times)
              for what, times in (("service", seen.service_s), ("response", seen.response_s))}  # fmt: skip
    assert 1 <= waited["service"] < 0.01 * len(seen.service_s), waited
    assert waited["response"] >= 0.95 * freeze.FROZEN_S / 2 * freeze.RATE, waited


def write_frozen(folder, p99_s, held_s, stall_s):
    """The results of one path from a guest, without the samples."""
    (folder / "control").mkdir(exist_ok=True)
    report = {"arrivals": 3000, "queue_depth": 1, "service": {"p50_ns": 100_000}, "response": {"p99_ns": round(p99_s * 1e9)}}
    for one in (folder, folder / "control"):
        (one / "sustain.json").write_text(json.dumps(report))
    for name, text in (("status", 1), ("held_s", held_s), ("stall_s", stall_s)):
        (folder / name).write_text(str(text))


def test_a_freeze_that_takes_long_to_begin_is_judged_by_what_can_have_waited(tmp_path):
    (tmp_path / "samples.csv").write_text("due_ns,response_ns,service_ns\n0,100000,100000\n")
    # For 300 ms the call wrote back dirty data; whether writes passed during this time cannot be seen from outside.
    for p99_s, error in ((1.45, 0), (1.6, 0), (1.3, -0.1), (1.93, 0.1)):
        write_frozen(tmp_path, p99_s, 1.5, 1.8)
        assert abs(freeze.Frozen(tmp_path).error() - error) < 0.015, (p99_s, freeze.Frozen(tmp_path).error())


def test_a_path_that_was_late_before_the_freeze_is_not_judged(tmp_path):
    write_frozen(tmp_path, 1.45, 1.49, 1.5)
    for late_ns, judged in ((0, True), (488_000_000, False)):
        rows = [(100_000, 100_000), (1_469_000_000 + late_ns, 1_469_000_000), (1_500_000_000, 100_000)]
        lines = ["due_ns,response_ns,service_ns", *(f"0,{response},{service}" for response, service in rows)]
        (tmp_path / "samples.csv").write_text("\n".join(lines) + "\n")
        assert (freeze.Frozen(tmp_path).why_not_judged() is None) == judged


def test_the_model_of_the_writes_own_times_against_what_can_be_counted_by_hand():
    # Ten per second: the third takes a second, and those after it no time. Each is delayed only by those before it.
    times = [round(time, 6) for time in freeze.served_times_s(10, [0, 0, 1.0, *[0.0] * 12], 1)]
    assert times == [0, 0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0, 0]
    # Two servers: the other continues.
    assert [round(time, 6) for time in freeze.served_times_s(10, [0, 0, 1.0, 0.15, 0.15], 2)] == [0, 0, 1.0, 0.15, 0.2]


def test_only_what_the_program_was_late_for_is_explained_by_it():
    # Due every 0.1 s. The second began 0.02 s late; the third 0.01 s after it had ended, so its delay is 0.03 s; the fourth in time.
    due, service = [0, 0.1, 0.2, 0.5], [0.05, 0.2, 0.1, 0.1]
    begun = [0, 0.12, 0.33, 0.5]
    response = [start + time - at for at, start, time in zip(due, begun, service)]
    assert [round(late, 6) for late in freeze.begun_late_s(due, response, service, 1)] == [0, 0.02, 0.03, 0]
    # With another server the third had to begin when it was due.
    assert round(freeze.begun_late_s(due, response, service, 2)[2], 6) == 0.13
    with pytest.raises(ValueError, match="no server was free"):
        freeze.begun_late_s(due, [0.05, 0.22, 0.1, 0.1], service, 1)


def test_the_arrival_model_against_what_can_be_counted_by_hand():
    # Ten per second for ten seconds, one second of stall, writes that take no time: ten wait, 1.0 s, 0.9 s, ... 0.1 s.
    times = freeze.response_times_s(10, 10, 2.0, 1.0, 0.0)
    waited = sorted(time for time in times if time > 0)
    assert [round(time, 6) for time in waited] == [round(0.1 * i, 6) for i in range(1, 11)]
    assert round(freeze.percentile(times, 0.99), 6) == 0.9
    # With writes of 50 ms, which is half of an interval, the queue takes as long again to empty.
    busy = freeze.response_times_s(10, 10, 2.0, 1.0, 0.05)
    assert sum(time > 0.0501 for time in busy) in (19, 20)
    # As printed by fio for 500 per second and 1.5 s of 6 s, from the arrivals: 1.44 s.
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
        # A mounted drive is refused.
        mkfs.ext4 -q -F /dev/nvme0n1; mkdir -p /tmp/m; mount /dev/nvme0n1 /tmp/m
        rc 3 $S sustain /dev/nvme0n1 $Q --deadline 1us --operation write --destroy-data LAB1 --path block-direct
        said 'mounted'
        umount /tmp/m
        # A full disk for the results: they are on standard output, and the drive is returned to its driver.
        mkdir -p /tmp/full; mount -t tmpfs -o size=4k none /tmp/full; head -c 4096 /dev/zero >/tmp/full/x
        rc 8 $S sustain /dev/nvme0n1 $Q --deadline 5s --miss-rate 0.05 --path block-direct --json --output /tmp/full
        said 'No space left'
        python3 -c 'import json; json.load(open("/tmp/out"))' || fail "no JSON"
        # What keeps a block: the drive alone, and while another program has it write 64 MiB again and again.
        caused() { python3 -c 'import json, sys; w = json.load(open("/tmp/out"))["why"]; c = [one["cause"] for one in w["causes"]]; print(w["late"], c); sys.exit(w["late"] == 0 or ("others" in c) != (sys.argv[1] == "others"))' $1; }
        W="$Q --deadline 20us --miss-rate 0.05 --path block-direct --why --json"
        $S sustain /dev/nvme0n1 $W >/tmp/out 2>/tmp/err; caused nothing || fail "others are named where there are none"
        (while :; do dd if=/dev/zero of=/dev/nvme0n1 bs=1M seek=64 count=64 oflag=direct status=none; done) & other=$!
        $S sustain /dev/nvme0n1 $W >/tmp/out 2>/tmp/err; caused others || fail "others are not named"
        kill $other; wait $other
        # Ctrl-C in the middle: the results so far are saved, and marked.
        $S sustain /dev/nvme0n1 --rate 20iops --block 4K --span 16M --duration 600s --warm-up 100ms \
          --deadline 1s --json --path straightway-poll >/tmp/out 2>/tmp/err & pid=$!
        until grep -q 'blocks per second' /tmp/err; do sleep 0.1; done
        sleep 8; kill -INT $pid; wait $pid; same $? 130 "the exit status"
        python3 -c 'import json; r = json.load(open("/tmp/out")); assert not r["complete"] and r["arrivals"] > 10' || fail "no part"
        driver_is nvme
        """,
        "--drive", "size=256M,serial=LAB1", timeout=500,
    )
