"""lab/run against real guests: build/venv/bin/pytest lab/tests. Each guest boots in seconds."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests"))
from scripted import turn  # noqa: E402

RUN = REPOSITORY / "lab" / "run"
BUILD = REPOSITORY / "build" / "lab"
OUT = REPOSITORY / "out"


def lab(*words: str, check: int | None = 0, **options) -> subprocess.CompletedProcess:
    """Runs lab/run, in turn with the guests of other tests; its output is bytes."""
    with turn(alone=False):
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


# --- One guest, many looks ------------------------------------------------------------------------

LOOK = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
say kernel "$(uname -rv)"
say host "$(hostname)"
say folder "$(pwd)"
say marker "$STRAIGHTWAY_LAB"
say path "$PATH"
say user "$(id -u)"
say cpus "$(nproc)"
say stdin "$(wc -c)"
say memlock "$(ulimit -l)"
say groups "$(ls /sys/kernel/iommu_groups | wc -l)"
say block_0 "$(cat /sys/block/nvme0n1/queue/logical_block_size)"
say block_1 "$(cat /sys/block/nvme1n1/queue/logical_block_size)"
say bytes_1 "$(blockdev --getsize64 /dev/nvme1n1)"
say drives "$(echo /dev/nvme?n?)"
say serial_0 "$(cat /sys/class/nvme/nvme0/serial | tr -d ' ')"
say mdts "$(nvme id-ctrl /dev/nvme0 | sed -n 's/^mdts *: //p')"
say transfer_kib "$(cat /sys/block/nvme0n1/queue/max_hw_sectors_kb)"
say polls "$(cat /sys/module/nvme/parameters/poll_queues)"
say loop "$(ip -br addr show lo | grep -c 127.0.0.1)"
say mounted "$(awk '{ printf "%s:%s ", $3, $2 }' /proc/mounts)"
say module "$(modprobe nbd && test -d /sys/module/nbd && echo loaded)"
echo 8 >/proc/sys/vm/nr_hugepages
say hugepages "$(cat /proc/sys/vm/nr_hugepages)"
echo again >/dev/stderr
say fio "$(fio --name=a --filename=/dev/nvme0n1 --rw=read --bs=4k --size=1M --direct=1 --ioengine=io_uring --hipri=1 |
    sed -n 's/.*issued rwts: total=\([0-9]*\),.*/\1/p')"
touch "$0"/written-in-the-guest && say overlay "$(ls "$0"/written-in-the-guest)"
"""


@pytest.fixture(scope="module")
def look(tmp_path_factory) -> dict[str, str]:
    done = lab("--drive", "mdts=1,logical_block_size=4096,size=256M", "--drive", "namespaces=2,size=64M",
               "--", "sh", "-c", LOOK, str(REPOSITORY / "lab"))  # fmt: skip
    assert done.stderr == b"again\n"
    return dict(line.split("=", 1) for line in done.stdout.decode().splitlines())


def test_the_guest_is_as_promised(look):
    assert (look["host"], look["user"], look["cpus"]) == ("lab", "0", "2")
    assert (look["stdin"], look["memlock"], look["loop"]) == ("0", "unlimited", "1")
    assert look["folder"] == str(REPOSITORY) and look["marker"] == "1"
    assert set(os.environ["PATH"].split(":")) <= set(look["path"].split(":"))
    assert "PREEMPT_RT" not in look["kernel"]
    assert look["module"] == "loaded" and look["hugepages"] == "8"


def test_the_usual_file_systems_are_mounted(look):
    for mount in ("proc:/proc", "sysfs:/sys", "devtmpfs:/dev", "devpts:/dev/pts", "tmpfs:/dev/shm", "tmpfs:/tmp",
                  "tmpfs:/run", "debugfs:/sys/kernel/debug", "tracefs:/sys/kernel/tracing",
                  "configfs:/sys/kernel/config", f"9p:{OUT}"):  # fmt: skip
        assert f"{mount} " in look["mounted"]


def test_drives_and_namespaces(look):
    assert look["drives"] == "/dev/nvme0n1 /dev/nvme1n1 /dev/nvme1n2"
    assert (look["block_0"], look["block_1"], look["bytes_1"]) == ("4096", "512", str(64 << 20))
    assert look["serial_0"] == "straightway0"


def test_mdts_reaches_the_drive(look):
    assert (look["mdts"], look["transfer_kib"]) == ("1", "8")


def test_an_iommu_is_there_by_default(look):
    assert int(look["groups"]) > 0


def test_fio_reads_by_polling(look):
    assert look["polls"] == "1"
    assert look["fio"] == "256"


def test_what_the_guest_writes_stays_there(look):
    assert look["overlay"].endswith("written-in-the-guest")
    assert not (REPOSITORY / "lab" / "written-in-the-guest").exists()


# --- The command's status and streams -------------------------------------------------------------


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -TERM $$", 143)])
def test_status(script, status):
    done = shell(script, check=status)
    assert done.stdout == b"" and done.stderr == b""


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


def test_no_iommu():
    assert shell("ls /sys/kernel/iommu_groups | wc -l", "--no-iommu").stdout == b"0\n"


def test_preempt_rt():
    assert b"PREEMPT_RT" in lab("--kernel", "rt", "--", "uname", "-v").stdout


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


@pytest.mark.parametrize("width", [39, 48])
def test_a_drive_moves_to_vfio_pci(width):
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
    done = shell(script, "--drive", "size=1M", "--iommu-width", str(width))
    assert done.stdout.split() == [b"vfio-pci", b"group", str(width).encode()]


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
    # Other runs go on beside this one: only what bears its number is looked at.
    command = [RUN, "--drive", "backend=null,size=1T", "--", "sh", "-c", "echo begun; test -b /dev/nvme0n1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"begun\n" and (BUILD / f"run-{run.pid}").exists()
        assert run.wait(600) == 0
    assert not list(BUILD.glob(f"run-{run.pid}*")) and not list(BUILD.glob(f"console-{run.pid}*"))


# --- Ends that are not the command's --------------------------------------------------------------


def remove_console(done: subprocess.CompletedProcess) -> None:
    """A failed run keeps its log and names it."""
    (REPOSITORY / re.search(r"build/lab/console-\d+\.log", done.stderr.decode())[0]).unlink()


def test_timeout(scratch):
    began = time.monotonic()
    done = shell("echo begun; sleep 1000", "--timeout", "60", check=124)
    assert done.stdout == b"begun\n" and b"timed out" in done.stderr
    assert 60 <= time.monotonic() - began < 120


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
    done = lab("--kernel-args", "rdinit=/bin/busybox -- sleep 1000", "--timeout", "25", "--", "true", check=125)
    said = done.stderr.decode()
    assert said.count("did not start its command within 25 s; QEMU had") == 2, said
    assert said.count("once more") == 1 and "lines of its console" in said, said
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
    runs = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE) for number in (1, 2, 3)]
    outputs = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [1, 2, 3] and outputs == [b"2048\n"] * 3


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
