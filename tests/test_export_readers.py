# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `export` makes of recordings that lack something, or that others made, in readers and checkers which nobody of this project wrote:
they read the original too, where it is a file, and their two answers are compared."""

# partner: mcap, small-mcap | reader, writer
# partner: pymcap-cli, sigmf | reader

import functools
import json
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from pathlib import Path

import lz4.frame
import numpy
import pytest
import sigmf
import small_mcap
import zstandard
from mcap.reader import NonSeekingReader, make_reader
from mcap.writer import CompressionType, Writer

from test_power import COMMAND, good, straightway

MESSAGES = 900
MAGIC = b"\x89MCAP0\r\n"
PYMCAP = Path(sys.executable).with_name("pymcap-cli")
PART = 16 << 10
SEGMENT = ["--segment", "96K", "--block", "16K", "--commit-bytes", "16K", "--deadline", "60min"]


@functools.cache
def payload(number):
    return b'{"count": %d, "noise": "%s"}' % (number, random.Random(number).randbytes(300).hex().encode())


def by_mcap(path, **options):
    """As the writer of the format's project writes it."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=20 << 10, **options)
        writer.start(profile="ros2", library="a test")
        schema = writer.register_schema("Count", "jsonschema", b"{}")
        topics = [writer.register_channel(topic, "json", schema) for topic in ("/left", "/right")]
        for number in range(MESSAGES):
            writer.add_message(topics[number % 2], log_time=number, publish_time=number, data=payload(number))
            if number == MESSAGES - 10:
                writer.add_attachment(1, 2, "map", "text/plain", b"a map" * 100)
                writer.add_metadata("place", {"name": "here"})
        writer.finish()


def by_small_mcap(path):
    """Its schemas and channels are outside of chunks."""
    with path.open("wb") as file:
        writer = small_mcap.McapWriter(file, chunk_size=20 << 10, compression=small_mcap.CompressionType.LZ4)
        writer.start("ros2")
        writer.add_schema(7, "Count", "jsonschema", b"{}")
        for channel, topic in ((3, "/left"), (9, "/right")):
            writer.add_channel(channel, topic, "json", 7)
        for number in range(MESSAGES):
            writer.add_message((3, 9)[number % 2], number, payload(number), number)
        writer.finish()


WRITERS = {
    "zstd": lambda path: by_mcap(path, compression=CompressionType.ZSTD),
    "plain": lambda path: by_mcap(path, compression=CompressionType.NONE),
    "loose": lambda path: by_mcap(path, use_chunking=False),
    "small": by_small_mcap,
}


def record(device, stream, *options):
    """Records in segments: each part is durable before the next one is sent, so that a segment ends by its size. Returns the sizes."""
    command = [COMMAND, "record", device, "run", "--from", "-", "--acknowledge", *SEGMENT, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False) as recorder:
        for at in range(0, len(stream), PART):
            part = stream[at : at + PART]
            recorder.stdin.write(part)
            recorder.stdin.flush()
            while len(part) == PART and (line := recorder.stdout.readline()) != b"durable %d\n" % (at + PART):
                assert line, recorder.stderr.read()
        _, errors = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, errors
    files = json.loads(good("ls", device, "--json"))["files"]
    sizes = {file["name"]: file["size_bytes"] for file in files if not file["name"].endswith("meta")}
    assert len(sizes) >= 4 and sum(sizes.values()) == len(stream), sizes
    return sizes


def numbers_in(path):
    """The messages of a file, as each reader finds them: by the indexes, and from the beginning to the end."""
    found = []
    for read in (make_reader, NonSeekingReader):
        with path.open("rb") as file:
            messages = list(read(file, validate_crcs=True).iter_messages())
        assert all(channel.topic == ("/left", "/right")[message.log_time % 2] for _, channel, message in messages)
        assert all(message.data == payload(message.log_time) for _, _, message in messages)
        found.append(sorted(message.log_time for _, _, message in messages))
    with path.open("rb") as file:
        found.append(sorted(message.log_time for _, _, message in small_mcap.read_message(file)))
    with path.open("rb") as file:
        statistics = make_reader(file).get_summary().statistics
    assert found[0] == found[1] == found[2] and statistics.message_count == len(found[0])
    return found[0], statistics


def doctor(path):
    """The container's checker finds nothing that is worse than a remark."""
    done = subprocess.run([PYMCAP, "--quiet", "doctor", path, "--format", "jsonl"], capture_output=True, text=True, timeout=120)
    findings = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, done.stdout + done.stderr
    assert findings[-1]["complete"] and findings[-1]["errors"] == findings[-1]["warnings"] == 0, findings
    # A reader may take such a chunk for a damaged one.
    assert not [one for one in findings if one.get("code") == "EMPTY_CHUNK"], findings


def export(device, name, target, status, *options):
    """Exports; returns the report."""
    found, output, errors = straightway("export", device, name, target, "--force", "--json", *options)
    assert found == status, errors
    return json.loads(output)


def test_mcap_of_others_is_whole_whatever_is_missing():
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        bag, target = folder / "bag.mcap", folder / "out.mcap"
        for kind, write in WRITERS.items():
            write(bag)
            stream = bag.read_bytes()
            every, _ = numbers_in(bag)
            assert every == list(range(MESSAGES))
            device = f"file:{folder / kind}"
            good("--quiet", "format", device, "--size", 8 << 20)
            sizes = record(device, stream, "--format", "mcap")
            segments = sorted(sizes)

            report = export(device, "run.0*", target, 0)
            assert numbers_in(target)[0] == every and report["missing_segments"] == []
            kept = report["mcap"]["attachments"], report["mcap"]["metadata"]
            assert kept == ((0, 0) if kind == "small" else (1, 1))

            # One alone, and all without it.
            hole = segments[len(segments) // 2]
            report = export(device, hole, target, 7)
            alone, _ = numbers_in(target)
            assert alone and report["mcap"]["messages"] == len(alone)
            good("rm", device, hole)
            report = export(device, "run.0*", target, 7)
            rest, _ = numbers_in(target)
            assert report["missing_segments"][0]["missing_bytes"] == sizes[hole]
            # What neither has was in a record on a border of the segment: a message, or a chunk with some 30 of them.
            assert not set(alone) & set(rest)
            assert len(alone) + len(rest) >= MESSAGES - (2 if kind == "loose" else 120), (kind, len(alone), len(rest))
            doctor(target)

            # Without the beginning the end of the stream has the channels.
            good("rm", device, segments[0])
            export(device, "run.0*", target, 7)
            last, statistics = numbers_in(target)
            assert last and set(last) < set(rest) and last[-1] == MESSAGES - 1 and statistics.channel_count == 2

            # A stream that ends anywhere is no loss: the file ends there.
            good("--quiet", "put", device, "-", "cut", stdin=stream[: len(stream) * 2 // 3])
            report = export(device, "cut", target, 0)
            begin, _ = numbers_in(target)
            assert begin == list(range(len(begin))) and len(begin) > MESSAGES // 3 and not report["mcap"]["was_whole"]
            doctor(target)


def test_chunks_in_several_frames_become_what_every_reader_reads():
    records = struct.Struct("<BQ")
    record = lambda opcode, content: records.pack(opcode, len(content)) + content
    text = lambda word: struct.pack("<I", len(word)) + word
    inner = record(4, struct.pack("<HH", 1, 0) + text(b"/left") + text(b"json") + text(b""))
    inner += b"".join(record(5, struct.pack("<HIQQ", 1, number, number, number) + payload(number)) for number in range(0, 40, 2))
    pack = {"zstd": zstandard.ZstdCompressor().compress, "lz4": lz4.frame.compress}
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        device, bag, target = f"file:{folder / 'image'}", folder / "bag.mcap", folder / "out.mcap"
        good("--quiet", "format", device, "--size", 8 << 20)
        for kind, compress in pack.items():
            stored = compress(inner[:3000]) + compress(inner[3000:])
            fields = struct.pack("<QQQI", 0, 40, len(inner), zlib.crc32(inner)) + text(kind.encode()) + struct.pack("<Q", len(stored))
            end = record(15, bytes(4)) + record(2, bytes(20))
            bag.write_bytes(MAGIC + record(1, text(b"") + text(b"")) + record(6, fields + stored) + end + MAGIC)
            # The reader sees the first frame only.
            with pytest.raises(ValueError, match="crc validation failed"), bag.open("rb") as file:
                list(NonSeekingReader(file, validate_crcs=True).iter_messages())
            good("--quiet", "put", device, bag, f"{kind}.mcap")
            report = export(device, f"{kind}.mcap", target, 0)
            assert numbers_in(target)[0] == list(range(0, 40, 2)) and report["mcap"]["messages"] == 20
            doctor(target)


def put(device, folder, name, meta, samples, file):
    """Stores a recording as another program made it, and returns what the format's own reader finds in it."""
    (folder / f"{name}.sigmf-meta").write_text(json.dumps(meta))
    (folder / file).write_bytes(samples)
    original = sigmf.fromfile(str(folder / f"{name}.sigmf-meta"), skip_checksum=True)
    good("--quiet", "put", device, folder / file, folder / f"{name}.sigmf-meta")
    return original


def same(one, other):
    """Two recordings have the same captures, with the same samples."""
    assert one.sample_count == other.sample_count
    assert one.get_captures() == other.get_captures()
    for capture in range(len(one.get_captures())):
        assert numpy.array_equal(one.read_samples_in_capture(capture), other.read_samples_in_capture(capture)), capture


def test_sigmf_of_others_is_read_as_the_original():
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        (folder / "in").mkdir()
        device, target = f"file:{folder / 'image'}", folder / "out"
        good("--quiet", "format", device, "--size", 8 << 20)
        samples = random.Random(3).randbytes(16_000)
        base = {"core:datatype": "ci16_le", "core:version": "1.2.0", "core:sample_rate": 1000}
        captures = [{"core:sample_start": 0, "core:frequency": 1e6}, {"core:sample_start": 1000, "core:frequency": 2e6},
                    {"core:sample_start": 2500, "core:frequency": 3e6}]
        plain = {"global": base, "captures": captures, "annotations": []}
        original = put(device, folder / "in", "plain", plain, samples, "plain.sigmf-data")
        report = export(device, "plain", target, 0)
        assert report["sigmf"]["captures"] == 3
        exported = sigmf.fromfile(str(target))
        exported.validate()
        same(exported, original)

        # Numbers of samples are absolute: the reader wants them so, and they stay so.
        offset = {**plain, "global": {**base, "core:offset": 10_000},
                  "captures": [{**capture, "core:sample_start": capture["core:sample_start"] + 10_000} for capture in captures]}
        put(device, folder / "in", "offset", offset, samples, "offset.sigmf-data")
        export(device, "offset", target, 0)
        exported = sigmf.fromfile(str(target))
        exported.validate()
        assert exported.get_captures() == offset["captures"] and exported.get_global_field("core:offset") == 10_000
        assert (folder / "out.sigmf-data").read_bytes() == samples

        # A file of another format: its header and its end are not samples.
        for name, extra, header in (("header", {}, 6), ("trailing", {"core:trailing_bytes": 10}, 0), ("both", {"core:trailing_bytes": 4}, 12)):
            meta = {"global": {**base, **extra, "core:dataset": f"{name}.wav"},
                    "captures": [{"core:sample_start": 0, "core:header_bytes": header} if header else {"core:sample_start": 0}], "annotations": []}
            other = bytes(header) + samples + bytes(extra.get("core:trailing_bytes", 0))
            original = put(device, folder / "in", name, meta, other, f"{name}.wav")
            report = export(device, name, target, 0)
            assert report["sigmf"]["samples"] == 4000 and report["sigmf"]["cut_bytes"] == 0
            exported = sigmf.fromfile(str(folder / "out.sigmf-meta"))
            assert exported.sample_count == original.sample_count == 4000
            same(exported, original)
            for path in folder.glob("out.sigmf-*"):
                path.unlink()


def test_samples_behind_a_hole_are_where_the_reader_is_told():
    with tempfile.TemporaryDirectory(prefix="sw-") as name:
        folder = Path(name)
        device, target = f"file:{folder / 'image'}", folder / "out"
        good("--quiet", "format", device, "--size", 8 << 20)
        numbers = numpy.arange(200_000, dtype="<u4")
        names = sorted(record(device, numbers.tobytes(), "--format", "sigmf", "--sigmf-datatype", "ru32_le", "--sample-rate", "1M"))
        assert len(names) >= 5, names
        for hole in (names[1], names[3], names[0]):
            good("rm", device, hole)
            report = export(device, "run.0*", target, 7)
            recording = sigmf.fromfile(str(target), autoscale=False)
            recording.validate()
            found = recording.get_captures()
            assert len(found) == report["sigmf"]["captures"]
            read = numpy.fromfile(f"{target}.sigmf-data", dtype="<u4")
            assert recording.sample_count == len(read)
            ends = [capture["core:sample_start"] for capture in found[1:]] + [len(read)]
            for capture, end in zip(found, ends):
                begin, index = capture["core:sample_start"], capture.get("core:global_index", 0)
                assert numpy.array_equal(read[begin:end], numbers[index : index + end - begin]), capture
        missing = [(one["first"], one["last"]) for one in report["missing_segments"]]
        assert missing == [(1, 2), (4, 4)]


def test_later_segments_have_their_part_of_a_description():
    with tempfile.TemporaryDirectory(prefix="sw-") as name, warnings.catch_warnings():
        # It warns of annotations that go on behind the samples.
        warnings.simplefilter("error")
        folder = Path(name)
        (folder / "in").mkdir()
        device, target = f"file:{folder / 'image'}", folder / "out"
        good("--quiet", "format", device, "--size", 8 << 20)
        numbers = numpy.arange(200_000, dtype="<u4")
        sizes = record(device, numbers.tobytes(), "--format", "sigmf", "--sigmf-datatype", "ru32_le", "--sample-rate", "1M")
        names = sorted(sizes)
        begins = [sum(sizes[one] for one in names[:at]) // 4 for at in range(len(names) + 1)]
        choice = random.Random(7)
        borders = sorted(near + choice.randrange(-300, 300) for near in begins[1:-1] for _ in range(6))
        meta = {"global": {"core:datatype": "ru32_le", "core:version": "1.2.0", "core:sample_rate": 1000000},
                "captures": [{"core:sample_start": start, "core:frequency": start + 1} for start in [0, *borders[::2]]],
                "annotations": [{"core:sample_start": start, "core:sample_count": choice.choice((1, 40, 700, 60_000)), "core:label": str(start)}
                                for start in [0, *borders[1::2]]]}
        for annotation in meta["annotations"]:
            annotation["core:sample_count"] = min(annotation["core:sample_count"], len(numbers) - annotation["core:sample_start"])
        good("rm", device, "run.sigmf-meta")
        original = put(device, folder / "in", "run", meta, numbers.tobytes(), "run.sigmf-data")
        original.autoscale = False
        good("rm", device, "run.sigmf-data")

        def described(recording, at):
            labels = [one["core:label"] for one in recording.get_annotations(at)]
            return recording.get_capture_info(at)["core:frequency"], labels

        whole = [[one] for one in range(len(names))] + [[0, 2], [1, 2, 4], list(range(len(names)))]
        for chosen in whole:
            report = json.loads(good("export", device, *(names[one] for one in chosen), target, "--force", "--json"))
            recording = sigmf.fromfile(str(target), autoscale=False)
            recording.validate()
            read = recording.read_samples()
            expected = numpy.concatenate([numbers[begins[one] : begins[one + 1]] for one in chosen])
            assert numpy.array_equal(read, expected) and len(read) == report["sigmf"]["samples"]
            places = {near + more for near in range(0, len(read), 997) for more in (0, 1)}
            ends = [start + one["core:sample_count"] for start, one in zip([0, *borders[1::2]], meta["annotations"])]
            near = numpy.searchsorted(read, borders + begins + ends)
            places |= {int(at) + more for at in near for more in (-2, -1, 0, 1)}
            for at in sorted(place for place in places if 0 <= place < len(read)):
                assert described(recording, at) == described(original, int(read[at])), (chosen, at)
            captures = recording.get_captures()
            for number, capture in enumerate(captures):
                first = recording.read_samples_in_capture(number)[0]
                assert first == capture.get("core:global_index", capture["core:sample_start"]), (chosen, capture)


def packets_in(path):
    """The packets of a file as tshark finds them: time, addresses, payload, and whether its checksums are right."""
    fields = "frame.time_epoch", "ip.src", "ip.dst", "udp.srcport", "data.data", "ip.checksum.status", "udp.checksum.status"
    command = ["tshark", "-r", path, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-d", "udp.port==1-65535,data",
               "-T", "fields", *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    # It complains of what it cannot read, and of nothing else.
    assert done.returncode == 0 and "appears" not in done.stderr, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


# partner: tshark | reader
def test_tshark_reads_the_packets_of_segments_beside_a_hole():
    if not shutil.which("tshark"):
        pytest.skip("no tshark; run tools/setup")
    with tempfile.TemporaryDirectory(prefix="sw-") as name, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        folder = Path(name)
        device, target = f"file:{folder / 'image'}", folder / "out.pcapng"
        good("--quiet", "format", device, "--size", 8 << 20)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = ["--from", f"udp://127.0.0.1:{port}", "--format", "pcapng", "--acknowledge", "--block", "4K", "--commit-bytes", "4K",
                 "--commit-interval", "50ms", "--segment", "16K", "--deadline", "60min"]
        command = [COMMAND, "record", device, "run", *words]
        sender.bind(("127.0.0.1", 0))
        sender.connect(("127.0.0.1", port))
        sent, began = [], time.time()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
            # The first blocks come back as durable, so none is lost to a recorder that does not listen yet.
            while len(sent) < 150:
                data = b"packet %06d " % len(sent) + bytes(700)
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
        assert recorder.returncode == 0, errors
        ended = time.time()
        segments = sorted(file["name"] for file in json.loads(good("ls", device, "--json"))["files"])
        assert len(segments) >= 4, segments

        def numbers():
            """All that tshark finds is right; the numbers of the packets."""
            found = packets_in(target)
            times = [float(one[0]) for one in found]
            assert times == sorted(times) and began - 1 <= times[0] and times[-1] <= ended + 1
            source = str(sender.getsockname()[1])
            # 1: good; 3: none, which IPv4 allows (RFC 768).
            assert all(one[1:4] == ["127.0.0.1", "127.0.0.1", source] and one[5] == "1" and one[6] in "13" for one in found), [one[:4] + one[5:] for one in found[:3]]
            payloads = [bytes.fromhex(one[4]) for one in found]
            got = [int(payload.split()[1]) for payload in payloads]
            assert all(payload == sent[number] for payload, number in zip(payloads, got))
            return got

        report = export(device, "run.0*", target, 0)
        assert numbers() == list(range(len(sent)))
        assert report["pcapng"] == {"packets": len(sent), "cut_packets": 0, "lost_packets": 0, "skipped_bytes": 0}
        hole = segments[1]
        export(device, hole, target, 0)
        alone = numbers()
        good("rm", device, hole)
        report = export(device, "run.0*", target, 7)
        assert sorted(numbers() + alone) == list(range(len(sent))) and alone
        assert report["missing_segments"][0]["first"] == 2
        assert json.loads(Path(f"{target}.gaps.json").read_text())["missing_segments"] == report["missing_segments"]
