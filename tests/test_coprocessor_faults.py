# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A coprocessor and its clients when something is missing, wrong, hostile or dead."""

# partner: QEMU's riscv machine | machine

import contextlib
import json
import mmap
import os
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from coprocessor_lab import FILES, ROOT, command, coprocessor, wait_until
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


@pytest.mark.parametrize(("first", "starts"), [
    ("kill -SEGV $$", 2),
    ("echo failed; kill -SEGV $$", 1),
    # Its word arrives after its end was seen.
    ("(while kill -0 $$; do :; done; echo failed) 2>/dev/null & kill -SEGV $$", 1),
    ("exit 1", 1),
])  # fmt: skip
def test_an_emulator_that_dies_before_the_firmware_s_first_word_is_started_once_more(tmp_path, monkeypatch, first, starts):
    emulator = tmp_path / "qemu-system-riscv32"
    emulator.write_text(f"#!/bin/sh\necho >>{tmp_path}/starts; [ $(wc -l <{tmp_path}/starts) = 1 ] && {{ {first}; }}\n"
                        "echo ready; exec sleep 600\n")  # fmt: skip
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LAB_BOOTS", str(tmp_path / "boots"))
    with contextlib.nullcontext() if starts == 2 else pytest.raises(AssertionError, match="no 'ready'"):
        with coprocessor(tmp_path, "--firmware", emulator) as running:
            assert running.log == ["ready"]
    assert (tmp_path / "starts").read_text().count("\n") == starts
    assert (tmp_path / "boots").exists() == (starts == 2)


def test_an_emulator_whose_start_is_interrupted_is_ended(tmp_path, monkeypatch):
    emulator = tmp_path / "qemu-system-riscv32"
    emulator.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid; kill -TERM $PPID; echo ready; exec sleep 600\n")
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = command(tmp_path / "window", "--firmware", emulator)
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 125, done
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_an_emulator_that_does_not_notice_a_signal_is_killed(tmp_path, monkeypatch):
    emulator = tmp_path / "qemu-system-riscv32"
    emulator.write_text("#!/bin/sh\ntrap '' TERM; echo ready; exec sleep 600\n")
    emulator.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    words = [*command(tmp_path / "window", "--firmware", emulator), "--", "true"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done


def machine_tree(path, old, new):
    """The machine's own device tree with some bytes changed, as options for the lab."""
    dumped = subprocess.run(
        ["qemu-system-riscv32", "-M", f"virt,dumpdtb={path}", "-bios", "none", "-smp", "4", "-m", "112M",
         "-object", "memory-backend-ram,id=a,size=16M", "-object", "memory-backend-ram,id=b,size=64M",
         "-object", "memory-backend-ram,id=c,size=32M", "-numa", "node,cpus=0,memdev=a",
         "-numa", "node,cpus=1,memdev=b", "-numa", "node,cpus=2-3,memdev=c", "-display", "none"],
        capture_output=True, timeout=60)  # fmt: skip
    assert dumped.returncode == 0, dumped.stderr
    blob = path.read_bytes()
    assert blob.count(old) == 1 and len(old) == len(new)
    path.write_bytes(blob.replace(old, new))
    return ["--qemu=-dtb", f"--qemu={path}"]


def test_no_root_complex(tmp_path):
    tree = machine_tree(tmp_path / "tree", b"pci-host-ecam-generic", b"pci-host-of-no-driver")
    with coprocessor(tmp_path, "--drive", DRIVE, *tree, ready="failed") as running:
        refused(running, "no PCI Express root complex")


def test_a_drive_that_never_becomes_ready(tmp_path):
    # According to the tree the processor accesses the bus at the end of the window, which is memory: the drive is found and
    # configured, but its registers are this memory, in which CSTS.RDY never changes.
    bus, reached = 0x4000_0000, 0x84C0_0000
    tree = machine_tree(tmp_path / "tree", struct.pack(">5I", 0x0200_0000, 0, bus, 0, bus),
                        struct.pack(">5I", 0x0200_0000, 0, bus, 0, reached))  # fmt: skip
    entries, contiguous, half_seconds, commands = 63, 1 << 16, 2 << 24, 1 << 37
    registers = struct.pack("<QI", entries | contiguous | half_seconds | commands, 0x0001_0400)
    memory = bytearray(64 << 20)
    at = reached - 0x8100_0000
    memory[at:at + len(registers)] = registers
    begin = time.monotonic()
    with coprocessor(tmp_path, "--drive", DRIVE, *tree, ready="failed", memory=memory) as running:
        assert running.count("enable: CSTS.RDY did not change in time") == 1, running.log
        assert running.count("failed: the drive did not become ready") == 1, running.log
        refused(running, "the drive did not become ready")
        # It was enabled, with the sizes of entries; and CC.EN was cleared again.
        with running.window.open("rb") as file:
            file.seek(at + 0x14)
            assert struct.unpack("<I", file.read(4))[0] == 0x46_0000
    assert time.monotonic() - begin < 60


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


RECORDED = (3 << 20) + 1000


def record_with_error(folder, once):
    """Records while the drive cannot write one block of the file; the rest of the drive works."""
    data = bytes(byte_at(at) for at in range(RECORDED))
    image = folder / "image"
    # The block's address: the same in each new volume.
    with coprocessor(folder, "--drive", f"{DRIVE},file={image}") as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        running.files("record", "take", RECORDED, 0)
    bad = 3 * RECORDED // 5 // 4096 * 4096
    place = image.read_bytes().index(data[bad:bad + 4096])
    image.unlink()
    rules = folder / "rules"
    rules.write_text(f'[inject-error]\nevent = "write_aio"\nerrno = "5"\nsector = "{place // 512}"\nonce = "{once}"\n')
    with coprocessor(folder, "--drive", f"{DRIVE},file={image},blkdebug={rules}") as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        words = [FILES, running.window, "record", "take", str(RECORDED), "0"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        durable = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("durable")]
        assert durable == sorted(durable)
        # The volume continues to work, and nothing was logged: the error is reported to the client.
        running.files("put", "after", rules)
        running.files("get", "take", folder / "back")
        assert running.count("client") == 0, running.log
    back = (folder / "back").read_bytes()
    assert back == data[:len(back)] and len(back) == durable[-1]
    status, _, found = running.straightway("get", f"file:{image}", "after", folder / "after")
    assert status == 0 and (folder / "after").read_bytes() == rules.read_bytes(), found
    checked = json.loads(running.good("check", f"file:{image}", "--json"))
    assert checked["sound"] and not checked["findings"], checked
    return done, bad, len(back)


def test_a_write_that_fails_once_in_the_middle_of_a_record_is_repeated(tmp_path):
    done, _, size = record_with_error(tmp_path, "on")
    assert done.returncode == 0 and size == RECORDED, done.stderr
    assert re.search(r"blocks 49 .* 1 writes repeated", done.stdout), done.stdout


def test_a_block_that_cannot_be_written_ends_the_record(tmp_path):
    done, bad, size = record_with_error(tmp_path, "off")
    assert done.returncode == 1 and "the drive answered" in done.stderr, done.stderr
    assert re.search(r" 3 writes repeated", done.stdout), done.stdout
    # Whole blocks before the bad one exist; nothing after it is reported as durable.
    assert 0 < size <= bad, (size, bad)


def test_a_window_without_a_coprocessor(tmp_path):
    with coprocessor(tmp_path, "--drive", DRIVE) as running:
        running.good("info", running.name)
    # The file still exists, and its header says ready.
    begin = time.monotonic()
    status, _, errors = running.straightway("info", running.name)
    assert status == 3 and "does not answer" in errors, errors
    assert time.monotonic() - begin < 60


def test_a_machine_that_restarts_is_noticed(tmp_path):
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
    """The state after the power cut: it mounts, has all acknowledged data, can be changed, and is sound."""
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
        # QEMU 7.2's drive accepts force unit access and does not pass it on: fua=off.
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
