# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `export` makes of recordings, in readers of other languages: of MCAP's own project in TypeScript, and of gopacket in Go.

tests/readers pins them; `tools/setup readers` installs and builds them, as `make test-all` does.
"""

import json
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import zlib
from pathlib import Path

import pytest

from scripted import ROOT
from test_export_readers import MAGIC, MESSAGES, WRITERS, export, payload, record
from test_power import COMMAND, good

READERS = ROOT / "build/readers"


def messages_in(path):
    """The messages of a file as both readers find them, from its beginning and by its indexes; and how many other things it has."""
    found = []
    for way in ("stream", "index"):
        command = ["node", ROOT / "tests/readers/mcap.mjs", READERS, way, path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{way}: {done.stderr}"
        *lines, last = done.stdout.splitlines()
        messages = [line.split(" ") for line in lines]
        found.append(([(topic, int(at), bytes.fromhex(data)) for topic, at, data in messages], int(last.split()[1])))
    (stream, others), (index, indexed) = found
    assert sorted(stream) == sorted(index) and others == indexed
    return stream, others


def numbers_in(path):
    """The numbers of the messages, whose data and topics are right."""
    messages, others = messages_in(path)
    assert all(data == payload(number) and topic == ("/left", "/right")[number % 2] for topic, number, data in messages)
    return sorted(number for _, number, _ in messages), others


# partner: @mcap/core | reader
def test_the_typescript_reader_finds_what_was_recorded():
    if not shutil.which("node") or not (READERS / "node_modules").is_dir():
        pytest.skip("no @mcap/core; run tools/setup readers")
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        bag, target = folder / "bag.mcap", folder / "out.mcap"
        for kind, write in WRITERS.items():
            write(bag)
            device = f"file:{folder / kind}"
            good("--quiet", "format", device, "--size", 8 << 20)
            stream = bag.read_bytes()
            segments = sorted(record(device, stream, "--format", "mcap"))
            report = export(device, "run.0*", target, 0)
            kept = report["mcap"]["attachments"] + report["mcap"]["metadata"]
            assert numbers_in(target) == (list(range(MESSAGES)), kept)
            # One segment alone, all without it, and a stream that ends anywhere.
            hole = segments[len(segments) // 2]
            report = export(device, hole, target, 7)
            alone = numbers_in(target)[0]
            assert alone and report["mcap"]["messages"] == len(alone)
            good("rm", device, hole)
            report = export(device, "run.0*", target, 7)
            rest = numbers_in(target)[0]
            assert report["mcap"]["messages"] == len(rest) and not set(alone) & set(rest)
            good("--quiet", "put", device, "-", "cut", stdin=stream[: len(stream) * 2 // 3])
            export(device, "cut", target, 0)
            begin = numbers_in(target)[0]
            assert begin == list(range(len(begin))) and len(begin) > MESSAGES // 3


def bag_of(*records):
    make = struct.Struct("<BQ")
    return MAGIC + b"".join(make.pack(opcode, len(content)) + content for opcode, content in records) + MAGIC


# partner: @mcap/core | reader
def test_the_typescript_reader_opens_what_rules_were_broken_in():
    if not shutil.which("node") or not (READERS / "node_modules").is_dir():
        pytest.skip("no @mcap/core; run tools/setup readers")
    text = lambda word: struct.pack("<I", len(word)) + word
    header, data_end, footer = (1, text(b"") * 2), (15, bytes(4)), (2, bytes(20))
    channel = lambda number: (4, struct.pack("<HH", number, 0) + text(b"/left" if number == 1 else b"/right") + text(b"json") + text(b""))
    message = lambda number: (5, struct.pack("<HIQQ", 1 + number % 2, number, number, number) + payload(number))
    both = [header, channel(1), channel(2)]
    late = bag_of(*both, message(0), data_end, *map(message, range(1, 6)), footer)
    zeroes = bag_of(*both, *map(message, range(20)), (0, bytes(700)), *map(message, range(20, 40)), data_end, footer)
    inner = bag_of(channel(1), channel(2), *map(message, range(40)))[len(MAGIC) : -len(MAGIC)]
    lz4 = pytest.importorskip("lz4.frame")
    stored = lz4.compress(inner[:3000]) + lz4.compress(inner[3000:])
    chunk = struct.pack("<QQQI", 0, 39, len(inner), zlib.crc32(inner)) + text(b"lz4") + struct.pack("<Q", len(stored)) + stored
    frames = bag_of(header, (6, chunk), data_end, footer)
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        device, bag, target = f"file:{folder / 'image'}", folder / "bag.mcap", folder / "out.mcap"
        good("--quiet", "format", device, "--size", 8 << 20)
        for number, (stream, count, status, is_readable) in enumerate([(late, 6, 0, True), (zeroes, 40, 6, True), (frames, 40, 0, False)]):
            bag.write_bytes(stream)
            command = ["node", ROOT / "tests/readers/mcap.mjs", READERS, "stream", bag]
            original = subprocess.run(command, capture_output=True, text=True, timeout=120)
            # It takes 0 for an opcode that it does not know, and reads the first frame of LZ4 only.
            has_all = original.returncode == 0 and len(original.stdout.splitlines()) == count + 1
            assert has_all == is_readable, original.stderr
            good("--quiet", "put", device, bag, f"{number}.mcap")
            export(device, f"{number}.mcap", target, status)
            assert numbers_in(target)[0] == list(range(count))


# partner: gopacket | reader
def test_gopacket_reads_recorded_packets():
    if not (READERS / "pcapng").is_file():
        pytest.skip("no gopacket; run tools/setup readers")
    with tempfile.TemporaryDirectory(prefix="sw-") as name, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        folder = Path(name)
        device, target = f"file:{folder / 'image'}", folder / "out.pcapng"
        good("--quiet", "format", device, "--size", 8 << 20)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [COMMAND, "record", device, "run", "--from", f"udp://127.0.0.1:{port}", "--format", "pcapng", "--acknowledge",
                   "--block", "4K", "--commit-bytes", "4K", "--commit-interval", "50ms", "--deadline", "60min"]
        sender.bind(("127.0.0.1", 0))
        sender.connect(("127.0.0.1", port))
        sent, began = [], time.time()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
            # The first block comes back as durable, so none is lost to a recorder that does not listen yet. One is longer than a block.
            while len(sent) < 60:
                data = b"packet %06d " % len(sent) + bytes(6000 if len(sent) == 20 else 700)
                try:
                    sender.send(data)
                    sent.append(data)
                except ConnectionRefusedError:
                    assert recorder.poll() is None, recorder.stderr.read()
                    sent.clear()
                    time.sleep(0.05)
                if len(sent) % 5 == 4:
                    assert recorder.stdout.readline().startswith(b"durable ")
            recorder.send_signal(signal.SIGINT)
            _, errors = recorder.communicate(timeout=60)
        assert recorder.returncode == 7 and b"1 DATAGRAM CUT" in errors, errors
        ended = time.time()
        report = export(device, "run", target, 0)
        assert report["pcapng"] == {"packets": 60, "cut_packets": 1, "lost_packets": 0, "skipped_bytes": 0}
        done = subprocess.run([READERS / "pcapng", target], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        *packets, statistics = map(json.loads, done.stdout.splitlines())
        assert len(packets) == statistics["received"] == 60 and statistics["sections"] > 3, statistics
        source = f"127.0.0.1:{sender.getsockname()[1]}"
        times = [packet["time_ns"] for packet in packets]
        assert times == sorted(times) and (began - 1) * 1e9 < times[0] and times[-1] < (ended + 1) * 1e9
        for number, (packet, data) in enumerate(zip(packets, sent)):
            found = bytes.fromhex(packet["payload"])
            assert packet["source"].split("(")[0] == source and packet["destination"] == "127.0.0.1", packet
            if number == 20:
                assert packet["captured"] < packet["length"] == len(data) + 28 and data.startswith(found) and len(found) > 3000
            else:
                assert found == data and packet["captured"] == packet["length"] and "problem" not in packet, packet
