"""What a coprocessor and its clients do when something is missing, wrong, hostile or dead."""

import json
import mmap
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from coprocessor_lab import FILES, ROOT, coprocessor, wait_until
from volatile_drive import Drive, Durable

DRIVE = "size=64M,serial=LAB1"
PAGE = 4096
ATTACH, ACCESS, TAIL, ENDED, REASON = 0, 4, 8, 0x44, 0x48
BAD_INDEX = 0x84


def refused(running, words):
    status, _, errors = running.straightway("info", running.name)
    assert status == 3 and words in errors, errors


def test_no_drive(tmp_path):
    with coprocessor(tmp_path, ready="failed") as running:
        refused(running, "there is no NVMe drive")
        assert running.count("failed: there is no NVMe drive") == 1


def test_no_root_complex(tmp_path):
    # The machine's own tree, with the root complex under another name.
    tree = tmp_path / "tree"
    dumped = subprocess.run(
        ["qemu-system-riscv32", "-M", f"virt,dumpdtb={tree}", "-bios", "none", "-smp", "4", "-m", "112M",
         "-object", "memory-backend-ram,id=a,size=16M", "-object", "memory-backend-ram,id=b,size=64M",
         "-object", "memory-backend-ram,id=c,size=32M", "-numa", "node,cpus=0,memdev=a",
         "-numa", "node,cpus=1,memdev=b", "-numa", "node,cpus=2-3,memdev=c", "-display", "none"],
        capture_output=True, timeout=60)  # fmt: skip
    assert dumped.returncode == 0, dumped.stderr
    blob = tree.read_bytes()
    assert blob.count(b"pci-host-ecam-generic") == 1
    tree.write_bytes(blob.replace(b"pci-host-ecam-generic", b"pci-host-of-no-driver"))
    with coprocessor(tmp_path, "--drive", DRIVE, "--qemu=-dtb", f"--qemu={tree}", ready="failed") as running:
        refused(running, "no PCI Express root complex")


def test_two_drives_are_told_apart_by_an_order(tmp_path):
    both = ["--drive", DRIVE, "--drive", "size=32M,serial=LAB2"]
    with coprocessor(tmp_path, *both, ready="failed") as running:
        refused(running, "several drives")
        assert running.count("a drive at bus 0, device 1") == running.count("a drive at bus 0, device 2") == 1
    with coprocessor(tmp_path, *both, "--orders", "drive=00:02.0") as running:
        assert json.loads(running.good("info", running.name, "--json"))["serial"] == "LAB2"
    with coprocessor(tmp_path, *both, "--orders", "drive=00:07.0", ready="failed") as running:
        refused(running, "there is no NVMe drive")


def test_a_drive_s_own_error_comes_through(tmp_path):
    rules = tmp_path / "rules"
    rules.write_text('[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "4096"\nonce = "off"\n')
    with coprocessor(tmp_path, "--drive", f"{DRIVE},blkdebug={rules}") as running:
        status, _, errors = running.straightway("read", running.name, "--offset", "2M", "--length", "4K",
                                                "--output", tmp_path / "data")  # fmt: skip
        assert status == 1 and "the drive answered" in errors, errors
        running.good("read", running.name, "--length", "4K", "--output", tmp_path / "data")


def test_a_window_without_a_coprocessor(tmp_path):
    with coprocessor(tmp_path, "--drive", DRIVE) as running:
        running.good("info", running.name)
    # The file is still there, and says that it is ready.
    begin = time.monotonic()
    status, _, errors = running.straightway("info", running.name)
    assert status == 3 and "does not answer" in errors, errors
    assert time.monotonic() - begin < 60


def test_a_machine_that_starts_anew_is_noticed(tmp_path):
    control = tmp_path / "qmp"
    with coprocessor(tmp_path, "--drive", DRIVE, "--qmp", control) as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        grower = subprocess.Popen([FILES, running.window, "grow", "take"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)  # fmt: skip
        assert grower.stdout.readline().startswith("durable")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(control))
            stream = connection.makefile("rw")
            stream.readline()
            for command in ("qmp_capabilities", "system_reset"):
                stream.write(json.dumps({"execute": command}) + "\n")
                stream.flush()
                stream.readline()
            _, errors = grower.communicate(timeout=120)
        assert grower.returncode != 0 and "no longer answers" in errors, errors
        running.wait_for("ready", count=2)
        assert "take" in running.files("ls")


def test_a_killed_client_s_place_is_free_at_once(tmp_path):
    with coprocessor(tmp_path, "--drive", DRIVE) as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        for round_ in range(5):
            grower = subprocess.Popen([FILES, running.window, "grow", f"take {round_}"], stdout=subprocess.PIPE,
                                      text=True)  # fmt: skip
            for _ in range(3):
                last = int(grower.stdout.readline().split()[1])
            grower.kill()
            grower.wait()
            sizes = dict(line.split(maxsplit=1)[::-1] for line in running.files("ls").splitlines())
            assert int(sizes[f"take {round_}"]) >= last
        assert running.count("client") == 0, running.log


def test_a_hostile_client_is_logged_once_and_the_others_go_on(tmp_path):
    with coprocessor(tmp_path, "--drive", DRIVE) as running:
        with running.window.open("r+b") as file, mmap.mmap(file.fileno(), 64 << 10) as window:
            page = 4 * PAGE  # The fourth client's.

            def put(offset, value):
                window[page + offset:page + offset + 4] = struct.pack("<I", value)

            def get(offset):
                return struct.unpack("<I", window[page + offset:page + offset + 4])[0]

            for number in (11, 12):
                put(TAIL, 0xFFFFFF00)
                put(ACCESS, 1)
                put(ATTACH, number)
                wait_until(lambda: get(ENDED) == number, "the session was not ended")
                assert get(REASON) == BAD_INDEX
        running.good("read", running.name, "--length", "64K", "--output", tmp_path / "data")
        assert running.count("client 3: the client's ring indices are impossible") == 2, running.log


def test_the_watchdog_ends_what_does_not_progress(tmp_path):
    import sys
    sys.path.insert(0, str(ROOT / "firmware"))
    import build

    firmware = build.build(32, ["files", "hang"])
    with coprocessor(tmp_path, "--drive", DRIVE, "--firmware", firmware) as running:
        with running.window.open("r+b") as file, mmap.mmap(file.fileno(), 64 << 10) as window:
            page = 4 * PAGE
            window[page + 0x800:page + 0x804] = struct.pack("<I", 0x7F)
            window[page + ACCESS:page + ACCESS + 4] = struct.pack("<I", 1)
            window[page + ATTACH:page + ATTACH + 4] = struct.pack("<I", 5)
            wait_until(lambda: window[page + 0x40] == 5, "the session was not accepted")
            window[page + TAIL:page + TAIL + 4] = struct.pack("<I", 1)
        running.wait_for("watchdog")
        running.wait_for("ready", count=2)
        running.good("read", running.name, "--length", "64K", "--output", tmp_path / "data")


SIZE = 64 << 20
MOMENTS = 8


def byte_at(at):
    return (at ^ at >> 8 ^ at >> 16) & 0xFF


def check_image(image, path, known, running):
    """What the power cut left: it mounts, has what was acknowledged, changes, and is sound."""
    path.write_bytes(image)
    device, copy = f"file:{path}", path.with_name("copy")
    status, _, errors = running.straightway("--quiet", "get", device, "take", copy)
    size = 0
    if status != 0:
        assert known == 0 and "no file has this name" in errors, errors
    else:
        data = copy.read_bytes()
        size = len(data)
        assert size >= known, f"{known} bytes were acknowledged and {size} are there"
        assert data == bytes(byte_at(at) for at in range(size))
        copy.unlink()
    running.good("--quiet", "put", device, "-", "after", stdin=b"the power is back")
    checked = json.loads(running.good("--quiet", "check", device, "--json"))
    assert checked["sound"] and not checked["findings"], checked
    return size


@pytest.mark.parametrize("client", [["grow", "take"], ["record", "take", 1 << 30, 0]],
                         ids=["appends", "record"])  # fmt: skip
def test_nothing_acknowledged_is_lost_when_the_power_goes(tmp_path, client):
    seed = int(os.environ.get("STRAIGHTWAY_SEED", random.SystemRandom().getrandbits(32)))
    print(f"STRAIGHTWAY_SEED={seed}")
    choice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:
        drive = Drive(SIZE, Path(folder) / "nbd")
        # QEMU 7.2's drive takes force unit access and does not pass it on: fua=off.
        options = ["--drive", f"nbd={drive.socket_path},serial=LAB1", "--orders", "fua=off"]
        acknowledged = []
        try:
            with coprocessor(tmp_path, *options) as running:
                running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
                with drive.lock:
                    formatted, start = bytes(drive.image), len(drive.log)
                grower = subprocess.Popen([FILES, running.window, *map(str, client)], stdout=subprocess.PIPE, text=True)
                for line in grower.stdout:
                    with drive.lock:
                        acknowledged.append((len(drive.log) - start, int(line.split()[1])))
                    if len(acknowledged) == 12:
                        os.kill(running.qemu(), signal.SIGKILL)
                        break
                grower.kill()
                grower.wait()
        finally:
            drive.close()
        log = list(drive.log)[start:]
        assert sum(entry.data is None for entry in log) > len(acknowledged), "flushes do not reach the drive"
        durable = Durable(formatted, log)
        for moment in sorted([*choice.sample(range(1, len(log)), MOMENTS - 1), len(log)]):
            durable.go_to(moment)
            known = max((offset for place, offset in acknowledged if place <= moment), default=0)
            size = check_image(durable.image(choice), Path(folder) / "image", known, running)
            print(f"{moment}: {known} acknowledged, {size} there")
