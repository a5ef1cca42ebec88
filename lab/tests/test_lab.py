"""lab/run against real guests: build/venv/bin/pytest lab/tests.

Own guests: lab/run itself is tested, and it boots one each time. One boot shows several things where that is possible.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = REPOSITORY / "lab" / "run"
BUILD = REPOSITORY / "build" / "lab"
OUT = REPOSITORY / "out"


def lab(*words: str, check: int | None = 0, **options) -> subprocess.CompletedProcess:
    """Runs lab/run; its output is bytes."""
    done = subprocess.run([RUN, *words], stdin=subprocess.DEVNULL, capture_output=True, cwd=REPOSITORY, **options)
    assert check is None or done.returncode == check, (done.returncode, done.stdout, done.stderr)
    return done


def shell(script: str, *options: str, check: int | None = 0) -> subprocess.CompletedProcess:
    return lab(*options, "--", "sh", "-c", script, check=check)


@pytest.fixture
def scratch():
    """A file name in out/ of this process alone."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"lab-test-{os.getpid()}"
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


# --- The command's status and streams -------------------------------------------------------------


def test_streams_are_separate_and_exact(scratch):
    both = bytes(range(256)) * 5000
    scratch.write_bytes(both)
    done = lab("--", "sh", "-c", 'cat "$0"; tr "\\000-\\377" "\\001-\\377\\000" <"$0" >&2', str(scratch))
    assert done.stdout == both
    assert done.stderr == bytes((byte + 1) % 256 for byte in range(256)) * 5000


def test_output_is_live_and_out_is_shared_both_ways(scratch):
    # The command ends only after this test has seen its first line and has answered through out/.
    script = 'echo ready; until [ -e "$0" ]; do sleep 0.05; done; echo from the guest >"$0"'
    with subprocess.Popen([RUN, "--timeout", "120", "--", "sh", "-c", script, scratch], stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"ready\n"
        scratch.touch()
        assert run.wait() == 0
    assert scratch.read_text() == "from the guest\n"


def test_arguments_arrive_as_they_are():
    words = ["a b", "", "'", '"$HOME"', "é\n*", "--drive"]
    done = lab("--", "printf", "%s\\0", *words)
    assert done.stdout == b"".join(word.encode() + b"\0" for word in words)


# --- Other machines -------------------------------------------------------------------------------


def test_no_iommu_and_the_status_of_a_signal():
    done = shell("ls /sys/kernel/iommu_groups | wc -l; kill -TERM $$", "--no-iommu", check=143)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def test_preempt_rt_and_a_status_and_a_qemu_that_crashes_before_the_command_is_started_once_more(tmp_path):
    real = shutil.which("qemu-system-x86_64")
    fake = tmp_path / "qemu-system-x86_64"
    fake.write_text(f'#!/bin/sh\n[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; kill -SEGV $$; }}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = lab("--kernel", "rt", "--", "sh", "-c", "uname -v; exit 7", check=7, env=environment)
    assert b"PREEMPT_RT" in done.stdout
    said = done.stderr.decode().splitlines()
    assert said == ["lab/run: QEMU was ended by signal 11, before it started its command; retrying"], said


def test_icount_counts_one_cpu_in_guest_time():
    done = shell("nproc; cat /sys/devices/system/clocksource/clocksource0/current_clocksource", "--icount", "0")
    assert done.stdout.split() == [b"1", b"tsc"]


@pytest.mark.skipif(not (BUILD / "root-aarch64").exists(), reason="run: tools/setup lab-aarch64")
@pytest.mark.parametrize("kernel", ["stock", "rt"])
def test_aarch64(kernel):
    script = "uname -m; uname -v; pwd; ls lab/run; cat /sys/block/nvme0n1/size; ls /sys/kernel/iommu_groups | wc -l; nvme version"
    lines = shell(script, "--arch", "aarch64", "--kernel", kernel, "--drive", "size=1M").stdout.decode().splitlines()
    assert lines[0] == "aarch64" and ("PREEMPT_RT" in lines[1]) == (kernel == "rt")
    assert lines[2:5] == [str(REPOSITORY), "lab/run", "2048"] and int(lines[5]) > 0
    assert lines[6].startswith("nvme version")


def test_a_drive_moves_to_vfio_pci_behind_the_wide_iommu():
    script = """
        device=$(basename "$(readlink /sys/class/nvme/nvme0/device)")
        echo vfio-pci >/sys/bus/pci/devices/$device/driver_override
        echo $device >/sys/bus/pci/devices/$device/driver/unbind
        echo $device >/sys/bus/pci/drivers_probe
        basename "$(readlink /sys/bus/pci/devices/$device/driver)"
        test -c /dev/vfio/$(basename "$(readlink /sys/bus/pci/devices/$device/iommu_group)") && echo group
        # Capability register, bits 21:16: the widest address less one.
        cap=$(cat /sys/class/iommu/dmar0/intel-iommu/cap); echo $((((0x$cap >> 16) & 63) + 1))
    """
    done = shell(script, "--drive", "size=1M", "--iommu-width", "48")
    assert done.stdout.split() == [b"vfio-pci", b"group", b"48"]


# --- Drives and their files -----------------------------------------------------------------------


def test_a_file_is_kept_and_errors_are_injected(tmp_path):
    disk, rules = tmp_path / "disk.img", tmp_path / "rules"
    rules.write_text('[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "2048"\nonce = "off"\n')
    trace = tmp_path / "trace"
    script = """
        printf kept | dd of=/dev/nvme0n1 bs=512 seek=8 conv=sync,fsync 2>/dev/null
        dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct skip=255 2>/dev/null; echo $?
        dd if=/dev/nvme0n1 of=/dev/null bs=4k count=1 iflag=direct skip=256 2>/dev/null; echo $?
    """
    done = shell(script, "--drive", f"file={disk},size=4M,blkdebug={rules}", "--trace", f"pci_nvme_read={trace}")
    assert done.stdout.split() == [b"0", b"1"]
    assert disk.stat().st_size == 4 << 20
    assert disk.read_bytes()[4096:4608] == b"kept".ljust(512, b"\0")
    assert "lba 0x800" in trace.read_text()


def test_temporary_drives_and_logs_are_gone():
    # Other runs are active at the same time, so only files with this run's number are checked.
    command = [RUN, "--drive", "backend=null,size=1T", "--", "sh", "-c", "echo begun; test -b /dev/nvme0n1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        # Looked for from the start: on a busy machine the guest has ended before its first line is seen here.
        folder = BUILD / f"run-{run.pid}"
        while not (existed := folder.exists()) and run.poll() is None:
            time.sleep(0.01)
        assert existed and run.stdout.readline() == b"begun\n"
        assert run.wait(600) == 0
    assert not list(BUILD.glob(f"run-{run.pid}*")) and not list(BUILD.glob(f"console-{run.pid}*"))


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
    done = lab("--kernel-args", "rdinit=/nothing", "--", "true", check=125)
    assert b"before it started its command" in done.stderr and b"lines of its console" in done.stderr
    remove_console(done)


def test_a_boot_that_hangs_is_tried_once_more():
    done = lab("--kernel-args", "rdinit=/bin/busybox -- sleep 1000", "--timeout", "5", "--", "true", check=125)
    said = done.stderr.decode()
    assert said.count("did not start its command within 5 s; QEMU had") == 2, said
    assert said.count("retrying") == 1 and "lines of its console" in said, said
    remove_console(done)


def test_sigterm_ends_qemu_and_cleans_up():
    command = [RUN, "--drive", "size=1G", "--", "sh", "-c", "echo begun; sleep 1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"begun\n"
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        assert len(children) == 1 and (BUILD / f"run-{run.pid}").exists()
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 143
    assert not Path(f"/proc/{children[0]}").exists()
    assert not (BUILD / f"run-{run.pid}").exists() and not (BUILD / f"console-{run.pid}.log").exists()


def test_runs_at_the_same_time_do_not_meet():
    command = [RUN, "--drive", "size=1M", "--", "sh", "-c", 'cat /sys/block/nvme0n1/size; exit "$0"']
    runs = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) for number in (1, 2)]
    outputs = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [1, 2] and outputs == [b"2048\n"] * 2


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
        (["--trace", "x", "--", "true"], "PATTERN=FILE"),
        (["--share", "/no/such/folder", "--", "true"], "no such folder"),
        (["--timeout", "0", "--", "true"], "above 0"),
    ],
)
def test_wrong_usage(words, reason):
    done = lab(*words, check=2)
    assert reason in done.stderr.decode()


def test_a_folder_that_the_guest_hides_is_named(tmp_path):
    done = subprocess.run([RUN, "--", "pwd"], capture_output=True, cwd=tmp_path, text=True)
    assert done.returncode == 2 and f"--share {tmp_path}" in done.stderr
    command = [RUN, "--share", tmp_path, "--", "sh", "-c", "pwd; echo x >y"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}\n") and (tmp_path / "y").read_text() == "x\n"


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
