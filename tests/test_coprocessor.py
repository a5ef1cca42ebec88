# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The storage coprocessor on QEMU's riscv machine: the self-test against what the host wrote, every
verb through the ring, and files through the coprocessor's own volume.

Own guests: one has the coprocessor's window among its functions from the start (--window)."""

# partner: QEMU's riscv machine | machine

import json
import re
import signal
import struct
import subprocess

import pytest

from coprocessor_lab import COMMAND, FILES, coprocessor, run_to_end
from scripted import own_guest

WORD = 0xFFFFFFFFFFFFFFFF
DRIVE = "serial=LAB1"


def word(at, seed):
    """The eight bytes that the firmware's self-test has at byte `at` (splitmix64)."""
    z = (at + seed * 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & WORD
    return z ^ z >> 31


def pattern(size, seed):
    return struct.pack(f"<{size // 8}Q", *(word(at, seed) for at in range(0, size, 8)))


# Not a whole number of commands, so that the last one is short.
SIZE = (3 << 20) + 512 * 7


@pytest.mark.cells("bits")
@pytest.mark.parametrize("bits", [32, 64])
def test_the_self_test_reads_what_the_host_wrote_and_the_host_what_it_wrote(tmp_path, bits):
    image = tmp_path / "image"
    image.write_bytes(pattern(SIZE, 5))
    log = run_to_end(tmp_path, "--bits", bits, "--drive", f"file={image},{DRIVE}", "--self-test", "--orders", "seed=5")
    assert f"self-test read: {SIZE} bytes, 25 commands" in log, log
    for name in ("read", "write", "read back"):
        assert re.search(rf"self-test {name}: .* 0 errors, 0 wrong words", log), log
    assert image.read_bytes() == pattern(SIZE, 6)


def test_the_self_test_finds_a_wrong_byte(tmp_path):
    image = tmp_path / "image"
    data = bytearray(pattern(SIZE, 5))
    data[1234567] ^= 1
    image.write_bytes(data)
    log = run_to_end(tmp_path, "--drive", f"file={image},{DRIVE}", "--orders", "mode=verify seed=5")
    assert re.search(r"verify read: .* 0 errors, 1 wrong words", log), log
    assert f"first wrong word at byte {1234567 // 8 * 8}" in log, log


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--drive", f"size=64M,{DRIVE}"], id="32-bits"),
        pytest.param(["--bits", 64, "--drive", f"size=64M,{DRIVE}"], id="64-bits"),
        pytest.param(["--drive", f"size=64M,port=on,{DRIVE}"], id="behind-a-root-port"),
        pytest.param(["--drive", f"size=64M,logical_block_size=4096,{DRIVE}"], id="blocks-of-4096"),
        pytest.param(["--board", "virt-split", "--drive", f"size=64M,{DRIVE}"], id="buffers-elsewhere"),
        pytest.param(
            # A port, a switch, a drive below it, and another device.
            ["--qemu=-device", "--qemu=pcie-root-port,id=up,chassis=9,slot=9",
             "--qemu=-device", "--qemu=x3130-upstream,id=switch,bus=up",
             "--qemu=-device", "--qemu=xio3130-downstream,id=down,bus=switch,chassis=10,slot=10",
             "--qemu=-device", "--qemu=virtio-rng-pci",
             "--qemu=-blockdev", "--qemu=driver=null-co,node-name=nothing,size=67108864,read-zeroes=on",
             "--qemu=-device", "--qemu=nvme,serial=LAB1,bus=down,drive=nothing"],
            id="behind-a-switch"),
    ],
)  # fmt: skip
def test_the_drive_answers_wherever_it_is(tmp_path, options):
    with coprocessor(tmp_path, *options) as running:
        facts = json.loads(running.good("info", running.name, "--json"))
        assert facts["serial"] == "LAB1" and facts["namespaces"][0]["size_bytes"] == 64 << 20
        zeroes = tmp_path / "zeroes"
        running.good("read", running.name, "--length", "1M", "--output", zeroes)
        assert zeroes.read_bytes() == bytes(1 << 20)


def test_every_verb_works_through_the_ring(tmp_path):
    image, data, back = (tmp_path / name for name in ("image", "data", "back"))
    data.write_bytes(pattern(3 << 20, 9) + b"and not a whole block")
    with coprocessor(tmp_path, "--drive", f"size=96M,file={image},{DRIVE}") as running:
        status, _, errors = running.straightway("format", running.name)
        assert status == 2 and "--destroy-data" in errors, errors
        status, _, errors = running.straightway("format", running.name, "--destroy-data", "OTHER")
        assert status == 2 and "LAB1" in errors, errors
        running.good("format", running.name, "--destroy-data", "LAB1", "--checksums", "--node", "4K")
        running.good("put", running.name, data, "take", "--checksums")
        running.good("get", running.name, "take", back)
        assert back.read_bytes() == data.read_bytes()
        running.good("mv", running.name, "take", "take 2")
        assert "take 2" in running.good("ls", running.name)
        assert json.loads(running.good("stat", running.name, "take 2", "--json"))
        running.good("record", running.name, "pattern", "--from", "pattern", "--rate", "4M", "--for", "1s", "--block", "64K",
                     "--buffers", "64", "--deadline", "100s")  # fmt: skip
        played = json.loads(running.good("play", running.name, "pattern", "--to", back, "--force", "--json", "--block",
                                         "64K", "--buffers", "64", "--deadline", "100s"))  # fmt: skip
        assert played["length_bytes"] == len(back.read_bytes()) > 0
        checked = json.loads(running.good("check", running.name, "--json"))
        assert checked["sound"] and not checked["findings"], checked
        # The emulator keeps this machine busy: the figures are not valid, but the data is correct.
        status, compared, errors = running.straightway("compare", running.name, "--sizes", "128K", "--rounds", "1", "--json",
                                                       "--cell-duration", "50ms", "--patterns", "sequential")  # fmt: skip
        assert status in (0, 5), errors
        (result,) = json.loads(compared)["results"]
        assert result["path"] == "coprocessor" and result["errors"] == 0
        # The same volume, by the coprocessor's own files; and then by a different path.
        running.files("put", "its own", data)
        running.files("get", "its own", back)
        assert back.read_bytes() == data.read_bytes()
        running.files("get", "take 2", back)
        assert back.read_bytes() == data.read_bytes()
        names = {line.split(maxsplit=1)[1] for line in running.files("ls").splitlines()}
        assert names == {"its own", "take 2", "pattern"}
        running.files("rm", "take 2")
    running.good("get", f"file:{image}", "its own", back, "--force")
    assert back.read_bytes() == data.read_bytes()
    checked = json.loads(running.good("check", f"file:{image}", "--json"))
    assert checked["sound"] and not checked["findings"], checked


def recorded(size):
    """What the example records."""
    return bytes((at ^ at >> 8 ^ at >> 16) & 0xFF for at in range(size))


@pytest.mark.cells("bits")
@pytest.mark.parametrize("bits", [[], ["--bits", 64]], ids=["32-bits", "64-bits"])
def test_record_and_play_over_the_ring(tmp_path, bits):
    image, back = tmp_path / "image", tmp_path / "back"
    size = (3 << 20) + 1000
    with coprocessor(tmp_path, *bits, "--drive", f"size=96M,file={image},{DRIVE}") as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        # As fast as possible; and at a rate, while another client plays.
        output = running.files("record", "take", size, 0)
        assert f"durable {size}" in output and re.search(r"blocks 49 misses \d+ .* lost 0 in 0 gaps", output), output
        player = subprocess.Popen([FILES, running.window, "play", "take", back, "2000000"], stdout=subprocess.PIPE,
                                  text=True)  # fmt: skip
        output = running.files("record", "second", 1 << 20, 1000000)
        blocks, lost = map(int, re.search(r"blocks (\d+) .* lost (\d+) in", output).groups())
        assert blocks + lost == 16, output
        # The last block was due a second after the first, less a block's time.
        assert int(re.search(r", (\d+) us$", output.strip())[1]) > 900000, output
        played, _ = player.communicate(timeout=120)
        assert player.returncode == 0 and played.startswith("blocks 49 "), played
        assert int(re.search(r", (\d+) us$", played.strip())[1]) > 1400000, played
        assert back.read_bytes() == recorded(size)
        assert running.count("client") == 0, running.log
    back.unlink()
    running.good("get", f"file:{image}", "take", back)
    assert back.read_bytes() == recorded(size)
    checked = json.loads(running.good("check", f"file:{image}", "--json"))
    assert checked["sound"] and not checked["findings"], checked


@pytest.mark.cells("bits")
@pytest.mark.parametrize("bits", [[], ["--bits", 64]], ids=["32-bits", "64-bits"])
def test_the_command_s_streams_are_the_coprocessor_s_own(tmp_path, bits):
    image, data, back = (tmp_path / name for name in ("image", "data", "back"))
    data.write_bytes(pattern(3 << 20, 5) + b"and not a whole block")
    size = data.stat().st_size
    slow = ["--block", "64K", "--deadline", "100s"]
    with coprocessor(tmp_path, *bits, "--drive", f"size=96M,file={image},{DRIVE}") as running:
        status, _, errors = running.straightway("play", running.name, "take", "--to", "null")
        assert status == 3 and "straightway format" in errors, errors
        running.good("format", running.name, "--destroy-data", "LAB1", "--checksums", "--node", "4K")
        # Data of a source that can wait is not lost, however fast the source is.
        status, said, errors = running.straightway("record", running.name, "take", "--checksums", "--acknowledge",
                                                   "--commit-bytes", "1M", *slow, stdin=data.read_bytes())  # fmt: skip
        assert status == 0 and "its own volume" in errors, errors
        acknowledged = [int(line.split()[1]) for line in said.splitlines() if line.startswith("durable ")]
        assert acknowledged == sorted(set(acknowledged)) and acknowledged[-1] == size, said
        # A source with its own pace, with a companion for lost blocks.
        words = ["record", running.name, "paced", "--from", "pattern", "--rate", "2M", "--for", "1s", "--policy", "drop",
                 "--json", *slow]  # fmt: skip
        status, said, errors = running.straightway(*words)
        report = json.loads(said)
        assert status == (7 if report["lost_blocks"] else 0), errors
        assert report["path"] == "coprocessor, its own volume" and report["buffers"] == 15, report
        assert report["length_bytes"] + report["lost_bytes"] == 2 << 20 and report["misses"] == 0, report
        assert report["elapsed_us"] >= 950_000 and report["ended_by"] == "length", report
        assert sum(bucket["count"] for bucket in report["latencies"]) == report["blocks"], report
        played = json.loads(running.good("play", running.name, "take", "--to", back, "--rate", "4M", "--json", *slow))
        assert back.read_bytes() == data.read_bytes()
        assert (played["length_bytes"], played["verified_bytes"], played["blocks"]) == (size, size, 49), played
        assert played["elapsed_us"] >= 700_000 and not played["has_gaps"], played
        # Blocks that are not whole chunks: checksums are still verified in chunks.
        played = json.loads(running.good("play", running.name, "take", "--to", "null", "--json", "--block", "4K"))
        assert (played["verified_bytes"], played["blocks"]) == (size, 49), played
        played = json.loads(running.good("play", running.name, "take", "--to", "null", "--json", "--block", "4K", "--no-verify"))
        assert (played["verified_bytes"], played["blocks"]) == (0, 769), played
        # The error is reported, and nothing is recorded.
        for words, code, text in [
            (["record", running.name, "take", "--from", data, "--rate", "1M"], 9, "nothing was recorded"),
            (["record", running.name, "other", "--from", data, "--rate", "1M", "--block", "16M"], 2, "do not fit"),
            (["record", running.name, "other", "--from", "pattern", "--rate", "1M", "--size", "1G"], 8, "nothing was recorded"),
            (["play", running.name, "other", "--to", "null"], 10, "other"),
            (["play", running.name, "take", "--to", "pattern"], 1, "pattern"),
        ]:
            status, said, errors = running.straightway(*words)
            assert status == code and text in errors, (words, errors)
        names = {"take", "paced", "paced.gaps"} if report["lost_blocks"] else {"take", "paced"}
        assert {entry["name"] for entry in json.loads(running.good("ls", running.name, "--json"))["files"]} == names
        # By blocks, if the user requests it.
        by_blocks = json.loads(running.good("play", running.name, "take", "--to", back, "--force", "--json", "--path", "coprocessor", *slow))
        assert by_blocks["path"] == "coprocessor" and back.read_bytes() == data.read_bytes()
        assert running.count("client") == 0, running.log
        # A changed byte on the drive.
        held = image.read_bytes()
        with image.open("r+b") as file:
            file.seek(held.index(data.read_bytes()[1 << 20 : (1 << 20) + 4096]))
            file.write(b"changed")
        status, _, errors = running.straightway("play", running.name, "take", "--to", "null", *slow)
        assert status == 6 and f"offset {1 << 20}" in errors, errors
    checked = json.loads(running.good("check", f"file:{image}", "--json"))
    assert checked["sound"] and not checked["findings"], checked


def test_an_interrupted_recording_of_the_coprocessor_s_is_durable(tmp_path):
    image, back = tmp_path / "image", tmp_path / "back"
    with coprocessor(tmp_path, "--drive", f"size=96M,file={image},{DRIVE}") as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        words = [COMMAND, "record", running.name, "take", "--from", "pattern", "--rate", "256K", "--for", "60s", "--block",
                 "64K", "--commit-bytes", "256K", "--acknowledge", "--deadline", "100s"]  # fmt: skip
        recorder = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3):
            assert recorder.stdout.readline().startswith("durable ")
        recorder.send_signal(signal.SIGINT)
        said, errors = recorder.communicate(timeout=120)
        assert recorder.returncode == 0, errors
        durable = int(said.splitlines()[-1].split()[1])
        running.good("get", running.name, "take", back)
        assert len(back.read_bytes()) == durable >= 3 * (256 << 10)
        running.good("play", running.name, "take", "--to", "pattern")


def test_a_stream_that_cannot_begin_leaves_no_file(tmp_path):
    with coprocessor(tmp_path, "--drive", f"size=96M,{DRIVE}") as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        paced = ["--from", "pattern", "--rate", "128K", "--for", "60s", "--block", "64K", "--commit-bytes", "64K",
                 "--deadline", "100s"]  # fmt: skip
        busy = [subprocess.Popen([COMMAND, "record", running.name, name, *paced, "--acknowledge"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name in ("one", "two")]  # fmt: skip
        for recorder in busy:
            assert recorder.stdout.readline().startswith("durable ")
        status, _, errors = running.straightway("record", running.name, "three", "--policy", "drop", *paced)
        assert status == 3 and "nothing was recorded" in errors, errors
        for recorder in busy:
            recorder.send_signal(signal.SIGINT)
            _, errors = recorder.communicate(timeout=120)
            assert recorder.returncode == 0, errors
        listed = json.loads(running.good("ls", running.name, "--json"))["files"]
        assert {entry["name"] for entry in listed} == {"one", "two"}


def test_several_processes_at_once(tmp_path):
    inputs = []
    with coprocessor(tmp_path, "--drive", f"size=96M,{DRIVE}") as running:
        running.good("format", running.name, "--destroy-data", "LAB1", "--node", "4K")
        for index in range(3):
            path = tmp_path / f"data{index}"
            path.write_bytes(pattern((1 << 20) + 4096 * index, index))
            inputs.append(path)
        writers = [subprocess.Popen([FILES, running.window, "put", path.name, path]) for path in inputs]
        assert [writer.wait(timeout=120) for writer in writers] == [0, 0, 0]
        for path in inputs:
            running.files("get", path.name, tmp_path / "back")
            assert (tmp_path / "back").read_bytes() == path.read_bytes()


def test_a_linux_guest_is_the_main_cpu(tmp_path):
    """The window as a PCI function's memory: data stored by the guest is in the drive's image."""
    image, data = tmp_path / "image", tmp_path / "data"
    data.write_bytes(pattern(1 << 20, 7))
    with coprocessor(tmp_path, "--drive", f"size=64M,file={image},{DRIVE}") as running:
        own_guest(
            r"""
            # The function with the window, in place of a drive.
            for BDF in $(ls /sys/bus/pci/devices); do
              W=/sys/bus/pci/devices/$BDF
              [ $(cat $W/vendor):$(cat $W/device) = 0x1af4:0x1110 ] && break
            done
            echo 1 >$W/enable
            C=coprocessor:$W/resource2
            rc 0 $S info $C --json; grep -q '"LAB1"' /tmp/out || fail "another drive"
            yes straightway | head -c 1M >/tmp/data
            rc 0 $S write $C --destroy-data LAB1 --input /tmp/data --offset 1M --flush
            same "$(checksum $C --offset 1M --length 1M)" "$(sum </tmp/data)" "what comes back"
            measured $S compare $C --sizes 128K --rounds 1 --cell-duration 50ms --patterns sequential --json
            grep -q '"coprocessor"' /tmp/out || fail "the path is not compared"
            """,
            "--window", running.window,
        )  # fmt: skip
        running.good("read", running.name, "--offset", "1M", "--length", "1M", "--output", data, "--force")
    with image.open("rb") as file:
        file.seek(1 << 20)
        assert file.read(1 << 20) == data.read_bytes() == (b"straightway\n" * 87382)[: 1 << 20]
