# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`sweep`, `trace`, `periodic` and `explain` on a real kernel and an emulated drive.

Own guests: one whose clock counts instructions begins with that (--icount).
"""

import csv
import json
import subprocess

import pytest
from chario_guest import built
from scripted import ROOT, disturbed, guest, needs, own_guest

OUT = ROOT / "out" / "test-instrument"


def load(name, file):
    return json.loads((OUT / name / file).read_text())


def test_the_parts_of_requests_explain_their_time_on_each_kind_of_path():
    module = built()
    paths = ("block-direct", "ext4-direct", "io_uring", "passthrough", "chario", "straightway-poll",
             "straightway-interrupt")  # fmt: skip
    lines = "\n".join(
        f"measured $S trace /dev/nvme0n1 --destroy-data LAB1 --path {path} --block 40K --requests 100 --span 16M "
        f"--output out/test-instrument/trace-{path}"
        for path in paths
    )
    guest(
        rf"""
        rm -rf out/test-instrument/trace-*
        insmod build/chario/{module}/chario.ko
        [ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing
        {lines}
        [ -z "$(ls /sys/kernel/tracing/instances)" ] || fail "an instance of tracefs was left"
        driver_is nvme
        rmmod chario || fail "it is not unloaded"
        """,
        "--drive", "size=256M,serial=LAB1,mdts=5", timeout=900,
    )
    for path in paths:
        traced = load(f"trace-{path}", "trace.json")
        assert traced["coverage"] >= 0.95 and traced["requests"] >= 100, (path, traced["coverage"])
        assert traced["source"] == ("driver" if path.startswith("straightway") else "tracefs"), path
        parts = {part["name"]: part["mean_ns"] for part in traced["parts"]}
        assert abs(sum(parts.values()) / traced["total_mean_ns"] - traced["coverage"]) < 0.01, path
        assert parts["device"] > 0, (path, parts)
        if path in ("block-direct", "io_uring"):
            # 40 KiB is one command of at most 128 KiB.
            assert traced["commands_per_request"] == 1, path
            assert traced["probe_cost_ns_ci95"], path


def test_without_tracefs_this_is_reported():
    guest(
        r"""
        umount /sys/kernel/tracing /sys/kernel/debug/tracing /sys/kernel/debug 2>/dev/null
        mount -t tmpfs none /sys/kernel/tracing
        rc 3 $S trace /dev/nvme0n1 --path block-direct --span 16M
        said 'mount -t tracefs'
        measured $S trace /dev/nvme0n1 --path straightway-poll --span 16M --requests 50
        driver_is nvme
        """,
        "--drive", "size=128M,serial=LAB1", timeout=300,
    )


@pytest.mark.repeated()
def test_a_sweep_ranks_paths_and_compares_with_fio():
    """Whether fio is as fast depends on what else this machine does: here the comparison must be what its own figures say."""
    needs("fio")
    guest(
        r"""
        rm -rf out/test-instrument/sweep
        measured $S sweep /dev/nvme0n1 --sizes 4K,1M --patterns random --depths 1,4 --rounds 5 --cell-duration 50ms --fio \
          --paths block-direct,io_uring,straightway-poll,ram --span 16M --output out/test-instrument/sweep
        driver_is nvme
        """,
        "--cpus", "2", "--drive", "size=128M,serial=LAB1", timeout=900,
    )
    sweep = load("sweep", "sweep.json")
    assert disturbed(sweep), sweep["invalid_reasons"]
    assert [depth["queue_depth"] for depth in sweep["comparisons"]] == [1, 4]
    # Two sizes by pread at its one depth, and by io_uring at two; fio has no other path.
    assert len(sweep["agreements"]) == 2 + 4 and len(sweep["fio_missing"]) == 2
    for one in sweep["agreements"]:
        print(one["path"], one["block_size_bytes"], one["queue_depth"], one["ours_mean_mib_s"], one["fio_mean_mib_s"],
              f"fio itself {one['fio_own_percent']:.1f} % of a processor", one["agrees"], one["explained"])
        (ours, fio), (low, high) = (one["ours_ci95"], one["fio_ci95"]), one["difference_ci95"]
        assert ours[0] <= one["ours_mean_mib_s"] <= ours[1] and fio[0] <= one["fio_mean_mib_s"] <= fio[1], one
        # Rates of the same drive in the same minute: of the same order, however busy the machine is.
        assert 0.05 < one["ours_mean_mib_s"] / one["fio_mean_mib_s"] < 20, one
        is_level = (ours[0] <= fio[1] and fio[0] <= ours[1]) or low <= 0 <= high
        assert one["agrees"] == is_level and not (one["agrees"] and one["explained"]), one
    for comparison in sweep["comparisons"]:
        for one in comparison["results"]:
            if one["path"] != "ram" and one["block_size_bytes"] == 4096:
                assert abs(one["device_commands_per_operation"] - 1) < 0.01, one
    rows = list(csv.DictReader((OUT / "sweep" / "sweep.csv").read_text().splitlines()))
    assert len(rows) == sum(len(one["results"]) for one in sweep["comparisons"])


@pytest.mark.repeated()
def test_a_periodic_task_has_a_box_under_each_condition_on_both_kernels():
    for kernel in ("stock", "rt"):
        guest(
            rf"""
            rm -rf out/test-instrument/periodic-{kernel}
            measured $S periodic /dev/nvme0n1 --destroy-data LAB1 --paths block-direct,straightway-interrupt --period 30ms \
              --firings 10 --loads none,high --span 16M --output out/test-instrument/periodic-{kernel}
            driver_is nvme
            """,
            "--kernel", kernel, "--drive", "size=128M,serial=LAB1", timeout=600,
        )
        periodic = load(f"periodic-{kernel}", "periodic.json")
        # Reads, synchronous and asynchronous writes; two priorities; two loads; two paths.
        assert len(periodic["cells"]) == 3 * 2 * 2 * 2, periodic["missing"]
        assert all(cell["response"]["count"] == 10 for cell in periodic["cells"])


@pytest.mark.repeated()
def test_a_limit_is_named_and_confirmed():
    guest(
        r"""
        rm -rf out/test-instrument/explain
        $S explain /dev/nvme0n1 --path io_uring --block 4K --span 16M --output out/test-instrument/explain; got=$?
        [ $got = 0 ] || [ $got = 5 ] || fail "ended with $got"
        rc 10 $S explain /tmp/none.json
        echo '{"schema_version": 99}' >/tmp/newer.json
        rc 2 $S explain /tmp/newer.json
        said 'schema version 99'
        driver_is nvme
        """,
        "--drive", "size=128M,serial=LAB1", timeout=600,
    )
    (one,) = load("explain", "explain.json")["explanations"]
    print(one["limit"], one["confirmed"], one["reason"])
    assert one["trials"] and one["reason"]
    assert {"8 in flight", "blocks of 16 KiB", "polling, by io_uring-polled", "the same loop on memory"} == {
        trial["change"] for trial in one["trials"]
    }


@pytest.mark.repeated()
def test_the_processor_s_speed_is_told_from_guests_that_count_instructions():
    """Three guests, whose instructions take 1, 2 and 4 ns: memory is all work, and its rate follows exactly."""
    for shift in (0, 1, 2):
        own_guest(
            rf"""
            rm -rf out/test-instrument/speed-{shift}
            measured $S speed ram:16M --one --rounds 5 --cell-duration 20ms --span 8M --sizes 4K \
              --output out/test-instrument/speed-{shift}
            """,
            "--icount", str(shift), timeout=600,
        )
    runs = [OUT / f"speed-{shift}" / "speed.json" for shift in (0, 1, 2)]
    loops = [json.loads(run.read_text())["points"][0]["loop_ns"] for run in runs]
    print("fixed loop, ns:", loops)
    # Instructions are the clock: the loop has the same number in each guest, except for a reading of the clock.
    assert abs(loops[1] / loops[0] - 2) < 0.01 and abs(loops[2] / loops[0] - 4) < 0.02
    joined = OUT / "speed"
    command = [ROOT / "target/release/straightway", "--quiet", "speed", *runs, "--output", joined]
    assert subprocess.run(command, capture_output=True).returncode in (0, 5)
    (ram,) = json.loads((joined / "speed.json").read_text())["scalings"]
    print("memory:", ram["work_ns"], ram["rest_ns"], ram["work_share"], ram["misfit"])
    assert ram["work_share"] > 0.95 and ram["misfit"] < 0.05


@pytest.mark.repeated()
def test_a_profile_tells_copying_from_the_rest():
    needs("perf")
    guest(
        r"""
        rm -rf out/test-instrument/profile-*
        # A guest that gets little processor time gets few samples: then it runs for longer, as the command's hint says.
        profiled() { # PATH TIME...
          local path=$1 words; shift
          while :; do
            words="--path $path --block 1M --duration $1 --span 48M --output out/test-instrument/profile-$path"
            $S profile /dev/nvme0n1 $words >/tmp/out 2>/tmp/err; got=$?
            [ $got = 5 ] && [ $# -gt 1 ] && grep -q 'samples of busy processors are too few' /tmp/err || break
            shift
          done
          [ $got = 0 ] || { [ $got = 5 ] && grep -q 'the machine was busy' /tmp/err; } || { cat /tmp/err >&2; fail "profile of $path ended with $got"; }
        }
        # When bypassing the page cache the processor is mostly idle: it takes longer to get as many samples.
        profiled block-buffered 500ms 2s 8s 32s
        profiled block-direct 3s 12s 48s
        ls /tmp/straightway-perf-* 2>/dev/null && fail "perf's files were left"
        # Nor copies of sampled programs, which perf stores in the user's home by default.
        [ ! -e /run/lab/upper$HOME/.debug ] || fail "perf left $(du -sh /run/lab/upper$HOME/.debug)"
        driver_is nvme
        # Missing permission is reported, and nothing is left.
        head -c 1M /dev/zero >/tmp/file; chmod 644 /tmp/file
        echo 2 >/proc/sys/kernel/perf_event_paranoid
        [ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing
        rc 3 setpriv --reuid=65534 --regid=65534 --clear-groups $S profile /tmp/file --span 1M
        said 'perf_event_paranoid'
        rc 3 setpriv --reuid=65534 --regid=65534 --clear-groups $S trace /tmp/file --span 1M --requests 10
        said 'no permission'; said 'as root'
        """,
        "--drive", "size=128M,serial=LAB1", timeout=600,
    )
    kinds = {path: dict(load(f"profile-{path}", "profile.json")["kinds"]) for path in ("block-buffered", "block-direct")}
    print({path: {kind: round(share, 3) for kind, share in of.items() if share > 0.005} for path, of in kinds.items()})
    # The page cache copies every byte; without it the processor copies none.
    assert kinds["block-buffered"]["copying"] > 2 * kinds["block-direct"]["copying"]
    dot = (OUT / "profile-block-buffered" / "callgraph.dot").read_text()
    assert "copy" in dot and "->" in dot


def test_a_drive_in_use_is_left_alone_by_every_verb():
    needs("perf")
    guest(
        r"""
        mkfs.ext4 -q -F /dev/nvme0n1; mkdir -p /tmp/m; mount /dev/nvme0n1 /tmp/m; echo kept >/tmp/m/file; sync
        W="--destroy-data LAB1 --span 16M"
        rc 3 $S sustain /dev/nvme0n1 $W --rate 1M --block 4K --deadline 1s --operation write; said 'mounted'
        rc 3 $S sweep /dev/nvme0n1 $W --operations write; said 'mounted'
        rc 3 $S periodic /dev/nvme0n1 $W --operations write; said 'mounted'
        rc 3 $S trace /dev/nvme0n1 $W --operation write; said 'mounted'
        rc 3 $S explain /dev/nvme0n1 $W --operation write; said 'mounted'
        rc 3 $S profile /dev/nvme0n1 $W --operation write; said 'mounted'
        rc 3 $S speed /dev/nvme0n1 $W --one --operations write; said 'mounted'
        # Reads by a path that would take the drive away from its file system are refused as well.
        $S trace /dev/nvme0n1 --path straightway-poll --span 16M --requests 10 >/tmp/out 2>/tmp/err; got=$?
        [ $got = 3 ] || [ $got = 4 ] || fail "the drive was taken from under its file system: $got"
        said 'in use\|mounted'
        same "$(cat /tmp/m/file)" kept "the file"
        umount /tmp/m
        # Opened exclusively by another process.
        python3 -c 'import os, time; os.open("/dev/nvme0n1", os.O_RDWR | os.O_EXCL); print(1, flush=True); time.sleep(600)' >/tmp/held & pid=$!
        until [ -s /tmp/held ]; do sleep 0.05; done
        rc 3 $S sweep /dev/nvme0n1 $W --operations write --sizes 4K --paths block-direct
        kill $pid
        driver_is nvme
        """,
        "--drive", "size=128M,serial=LAB1", timeout=600,
    )


def test_ctrl_c_leaves_a_part_that_is_marked_and_the_drive_at_its_driver():
    verbs = {
        "sweep": "--paths straightway-poll --sizes 4K --rounds 1000",
        "periodic": "--paths straightway-poll --block 4K --period 20ms --firings 10000 --loads none --priorities normal,fifo",
        "trace": "--path straightway-poll --requests 1000000",
        "explain": "--path straightway-interrupt --rounds 1000",
    }
    lines = "\n".join(
        rf"""
        rm -rf out/test-instrument/ctrl-{verb}; : >/tmp/out
        $S {verb} /dev/nvme0n1 --span 16M {words} --output out/test-instrument/ctrl-{verb} >/tmp/out 2>/tmp/err & pid=$!
        # It measures, or is about to, when it has bound the drive.
        until [ "$(driver)" = vfio-pci ]; do kill -0 $pid || {{ cat /tmp/err >&2; fail "{verb} ended early"; }}; sleep 0.05; done
        kill -INT $pid; wait $pid; same $? 130 "{verb}"
        driver_is nvme
        """
        for verb, words in verbs.items()
    )
    guest(lines, "--drive", "size=128M,serial=LAB1", timeout=600)
    for verb in ("sweep", "periodic", "trace"):
        assert load(f"ctrl-{verb}", f"{verb}.json")["complete"] is False, verb
