# SPDX-License-Identifier: Apache-2.0 OR MIT
"""lab/run against real guests: build/venv/bin/pytest lab/tests.

Own guests: lab/run itself is tested, and it boots one each time. One boot shows several things where that is possible, and
only where the default machine matters (test_look.py) does it have the default's two processors, which cost half as much again.
"""

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.cells("lab")

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = REPOSITORY / "lab" / "run"
BUILD = REPOSITORY / "build" / "lab"
OUT = REPOSITORY / "out"
CHEAP = ("--cpus", "1", "--quick")


def lab(*words: str, check: int | None = 0, **options) -> subprocess.CompletedProcess:
    """Runs lab/run; its output is bytes."""
    done = subprocess.run([RUN, *words], stdin=subprocess.DEVNULL, capture_output=True, cwd=REPOSITORY, **options)
    assert check is None or done.returncode == check, (done.returncode, done.stdout, done.stderr)
    return done


def shell(script: str, *options: str, check: int | None = 0) -> subprocess.CompletedProcess:
    return lab(*CHEAP, *options, "--", "sh", "-c", script, check=check)


@pytest.fixture
def scratch():
    """A file name in out/ of this process alone."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"lab-test-{os.getpid()}"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


# --- The command's status and streams -------------------------------------------------------------


def test_a_shell_has_a_terminal_as_large_as_the_caller_s_and_ends_with_its_input():
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (31, 99))
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen([RUN, *CHEAP, "--shell"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY)
    shown = b""
    # Each prompt begins with this sequence of readline. What Ctrl-C ends is the guest's program.
    for prompts, typed in enumerate((b"sleep 1000\n", b"\x03", b"tty; stty size; echo $((6 * 7)) $STRAIGHTWAY_LAB; (exit 7)\n", b"\x04"), 1):
        wanted = (b"\x1b[?2004l", 1) if typed == b"\x03" else (b"\x1b[?2004h", prompts - (prompts > 2))
        while shown.count(wanted[0]) < wanted[1]:
            shown += os.read(ours, 4096)
        os.write(ours, typed)
    while process.poll() is None:
        ready, _, _ = select.select([ours], [], [], 1)
        shown += os.read(ours, 4096) if ready else b""
    # What it left in the terminal.
    while select.select([ours], [], [], 0)[0]:
        shown += os.read(ours, 4096)
    assert b"/dev/hvc0\r\n31 99\r\n42 1\r\n" in shown, shown
    assert process.returncode == 7, shown
    assert termios.tcgetattr(theirs) == before


def test_streams_and_arguments_are_exact_in_a_shared_folder(tmp_path):
    done = subprocess.run([RUN, "--", "pwd"], capture_output=True, cwd=tmp_path, text=True)
    assert done.returncode == 2 and f"--share {tmp_path}" in done.stderr
    both = bytes(range(256)) * 5000
    (tmp_path / "both").write_bytes(both)
    words = ["a b", "", "'", '"$HOME"', "é\n*", "--drive"]
    script = 'pwd >where; cat both; tr "\\000-\\377" "\\001-\\377\\000" <both >&2; printf "%s\\0" "$@"'
    command = [RUN, *CHEAP, "--share", tmp_path, "--", "sh", "-c", script, "sh", *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == both + b"".join(word.encode() + b"\0" for word in words)
    assert done.stderr == bytes((byte + 1) % 256 for byte in range(256)) * 5000
    assert (tmp_path / "where").read_text() == f"{tmp_path}\n"


def test_output_is_live_and_out_is_shared_both_ways_and_temporary_files_are_gone(scratch):
    # The command ends only after this test has seen its first line and has answered through out/.
    script = 'test -b /dev/nvme0n1 && echo ready; until [ -e "$0" ]; do sleep 0.05; done; echo from the guest >"$0"'
    command = [RUN, *CHEAP, "--drive", "backend=null,size=1T", "--timeout", "120", "--", "sh", "-c", script, scratch]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"ready\n"
        # Other runs are active at the same time, so only files with this run's number are checked.
        assert (BUILD / f"run-{run.pid}").exists() and (BUILD / f"console-{run.pid}.log").exists()
        scratch.touch()
        assert run.wait() == 0
    assert scratch.read_text() == "from the guest\n"
    assert not list(BUILD.glob(f"run-{run.pid}*")) and not list(BUILD.glob(f"console-{run.pid}*"))


def test_runs_at_the_same_time_do_not_meet_and_one_has_no_iommu_and_is_ended_by_a_signal():
    script = 'cat /sys/block/nvme0n1/size; ls /sys/kernel/iommu_groups | wc -l; eval "$0"'
    kinds = [("--iommu-width", "48", "exit 2"), ("--no-iommu", "kill -TERM $$")]
    runs = [subprocess.Popen([RUN, *CHEAP, "--drive", f"size={size}M", *options, "--", "sh", "-c", script, end],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for size, (*options, end) in zip((1, 2), kinds)]  # fmt: skip
    outputs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [2, 143], outputs
    (first, groups), (second, none) = (stdout.split() for stdout, _ in outputs)
    assert (first, second, none) == (b"2048", b"4096", b"0") and int(groups) > 0
    assert [stderr for _, stderr in outputs] == [b"", b""]


# --- Other machines -------------------------------------------------------------------------------


def test_preempt_rt_and_a_status_and_a_qemu_that_crashes_before_the_command_is_started_once_more(tmp_path):
    real = shutil.which("qemu-system-x86_64")
    fake = tmp_path / "qemu-system-x86_64"
    fake.write_text(f'#!/bin/sh\n[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; kill -SEGV $$; }}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = lab(*CHEAP, "--kernel", "rt", "--", "sh", "-c", "uname -v; exit 7", check=7, env=environment)
    assert b"PREEMPT_RT" in done.stdout
    said = done.stderr.decode().splitlines()
    assert said == ["lab/run: QEMU was ended by signal 11, before it started its command; retrying"], said


def test_icount_counts_one_cpu_in_guest_time():
    done = lab("--icount", "0", "--", "sh", "-c", "nproc; cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
    assert done.stdout.split() == [b"1", b"tsc"]


@pytest.mark.skipif(not (BUILD / "root-aarch64").exists(), reason="run: tools/setup lab-aarch64")
@pytest.mark.parametrize("kernel", ["stock", "rt"])
def test_aarch64(kernel):
    script = "uname -m; uname -v; pwd; ls lab/run; cat /sys/block/nvme0n1/size; ls /sys/kernel/iommu_groups | wc -l; nvme version"
    lines = shell(script, "--arch", "aarch64", "--kernel", kernel, "--drive", "size=1M").stdout.decode().splitlines()
    assert lines[0] == "aarch64" and ("PREEMPT_RT" in lines[1]) == (kernel == "rt")
    assert lines[2:5] == [str(REPOSITORY), "lab/run", "2048"] and int(lines[5]) > 0
    assert lines[6].startswith("nvme version")


# --- Drives and their files -----------------------------------------------------------------------


def test_drives_keep_a_file_fail_have_ports_and_limits_and_move_to_vfio_pci(tmp_path):
    disk, rules = tmp_path / "disk.img", tmp_path / "rules"
    rules.write_text('[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "2048"\nonce = "off"\n')
    trace = tmp_path / "trace"
    script = """
        printf kept | dd of=/dev/nvme0n1 bs=512 seek=8 conv=sync,fsync 2>/dev/null
        dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct skip=255 2>/dev/null; echo $?
        dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct skip=256 2>/dev/null; echo $?
        readlink -f /sys/class/nvme/nvme1/device
        began=$(date +%s%N)
        dd if=/dev/nvme1n1 of=/dev/null bs=4k count=60 iflag=direct status=none && echo $(($(date +%s%N) - began))
        device=$(basename "$(readlink /sys/class/nvme/nvme0/device)")
        echo vfio-pci >/sys/bus/pci/devices/$device/driver_override
        echo $device >/sys/bus/pci/devices/$device/driver/unbind
        echo $device >/sys/bus/pci/drivers_probe
        basename "$(readlink /sys/bus/pci/devices/$device/driver)"
        test -c /dev/vfio/$(basename "$(readlink /sys/bus/pci/devices/$device/iommu_group)") && echo group
        # Capability register, bits 21:16: the widest address less one.
        cap=$(cat /sys/class/iommu/dmar0/intel-iommu/cap); echo $((((0x$cap >> 16) & 63) + 1))
    """
    done = shell(script, "--drive", f"file={disk},size=4M,blkdebug={rules}", "--drive", "size=64M,iops=50,port=on",
                 "--trace", f"pci_nvme_read={trace}", "--iommu-width", "48")  # fmt: skip
    reads, fails, place, took_ns, *moved = done.stdout.decode().split()
    assert (reads, fails) == ("0", "1")
    assert place.endswith("/0000:01:00.0")
    # A slow machine takes longer, and no machine less than the limit allows.
    assert int(took_ns) > 600_000_000
    assert moved == ["vfio-pci", "group", "48"]
    assert disk.stat().st_size == 4 << 20
    assert disk.read_bytes()[4096:4608] == b"kept".ljust(512, b"\0")
    assert "lba 0x800" in trace.read_text()


# --- Ends that are not the command's --------------------------------------------------------------


def remove_console(done: subprocess.CompletedProcess) -> None:
    """A failed run keeps its log and names it."""
    (REPOSITORY / re.search(r"build/lab/console-\d+\.log", done.stderr.decode())[0]).unlink()


def test_timeout():
    # Generous, because the guest has to boot within it.
    began = time.monotonic()
    done = shell("echo begun; sleep 1000", "--timeout", "60", check=124)
    assert done.stdout == b"begun\n" and b"timed out" in done.stderr and b"  qemu-system-x86" in done.stderr
    # The guest's own report: where the command waits.
    assert b"late: sleep S, " in done.stderr, done.stderr
    remove_console(done)
    assert time.monotonic() - began >= 60


def test_panic_shows_the_console():
    done = shell("echo c >/proc/sysrq-trigger; sleep 1000", check=125)
    assert b"stopped before its command ended" in done.stderr
    assert b"sysrq triggered crash" in done.stderr
    remove_console(done)


def test_a_guest_that_never_starts_shows_the_console():
    done = lab(*CHEAP, "--kernel-args", "rdinit=/nothing", "--", "true", check=125)
    assert b"before it started its command" in done.stderr and b"lines of its console" in done.stderr
    remove_console(done)


def test_a_boot_that_hangs_is_tried_once_more():
    done = lab(*CHEAP, "--kernel-args", "rdinit=/bin/busybox -- sleep 1000", "--timeout", "5", "--", "true", check=125)
    said = done.stderr.decode()
    assert said.count("did not start its command within 5 s; QEMU had") == 2, said
    assert said.count("retrying") == 1 and "lines of its console" in said, said
    remove_console(done)


def test_sigterm_ends_qemu_and_cleans_up():
    command = [RUN, *CHEAP, "--drive", "size=1G", "--", "sh", "-c", "echo begun; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"begun\n"
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        assert len(children) == 1 and (BUILD / f"run-{run.pid}").exists()
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 143
    assert not Path(f"/proc/{children[0]}").exists()
    assert not (BUILD / f"run-{run.pid}").exists() and not (BUILD / f"console-{run.pid}.log").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["true"], "true"),
        (["--"], "no command"),
        (["--kernel", "fast", "--", "true"], "fast"),
        (["--drive", "size=4q", "--", "true"], "not a size"),
        (["--drive", "", "--", "true"], "empty word"),
        (["--drive", "namespaces=0", "--", "true"], "1 to 256"),
        (["--drive", "backend=null,file=x", "--", "true"], "keeps no data"),
        (["--drive", "nonsense=1", "--", "true"], "nonsense"),
        (["--drive", "logical_block_size=1000", "--", "true"], "power of 2"),
        (["--icount", "99", "--", "true"], "shift"),
        (["--icount", "0", "--cpus", "2", "--", "true"], "one CPU"),
        (["--kernel", "16k", "--", "true"], "only for aarch64"),
        (["--kernel", "backports", "--arch", "aarch64", "--", "true"], "only for x86_64"),
        (["--kernel", "iommufd", "--arch", "aarch64", "--", "true"], "only for x86_64"),
        (["--trace", "x", "--", "true"], "PATTERN=FILE"),
        (["--share", "/no/such/folder", "--", "true"], "no such folder"),
        (["--timeout", "0", "--", "true"], "above 0"),
        (["--drive", "port=perhaps", "--", "true"], "port=on"),
        (["--drive", "iops=0", "--", "true"], "from 1 on"),
    ],
)
def test_wrong_usage(words, reason):
    done = lab(*words, check=2)
    assert reason in done.stderr.decode()


def test_a_guest_with_one_processor_has_memory_barriers():
    """QEMU omits them if there can be only one processor, and its drives then miss commands (lab/machine.py)."""
    for words, processors in ((["--cpus", "1"], "1,maxcpus=2"), ([], "2"), (["--icount", "0"], "1")):
        line = shlex.split(lab("--dry-run", *words).stdout.decode())
        assert line[line.index("-smp") + 1] == processors, words


def test_dry_run_prints_and_leaves_nothing():
    done = lab("--dry-run", "--drive", "mdts=1,size=1M", "--iommu-width", "48")
    assert b"aw-bits=48" in done.stdout and b"mdts=1" in done.stdout and done.stdout.count(b"\n") == 1


# --- Parts without a guest ------------------------------------------------------------------------


def test_the_end_mark_is_cut_wherever_it_is_split(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "lab"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import guest

    mark = b"\1end\1"
    for text in (b"", b"abc", b"abc\1", b"\1en\1\1e"):
        whole = text + mark + b"late"
        for cut in range(len(whole)):
            sent = []
            monkeypatch.setattr(guest.os, "write", lambda _, data: sent.append(bytes(data)) or len(data))
            output = guest.Output(1, "end")
            output.write(whole[:cut])
            output.write(whole[cut:])
            assert b"".join(sent) == text and output.ended


def test_sizes(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "lab"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import drives

    assert [drives.parse_size(text) for text in ("512", "1K", "1KiB", "1KB", "2G")] == [512, 1024, 1024, 1000, 2 << 30]
    for text in ("", "4q", "-1", "1.5G", "1 G", "0x10"):
        with pytest.raises(drives.BadOption):
            drives.parse_size(text)
