# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power fails during recordings of samples and of a robot's messages: at each moment the export opens in the readers of the
formats' own projects, and holds everything that was acknowledged.

Own guests: its drive logs what it was given. One boot serves all moments: the log of writes and flushes is cut at seeded places.
"""

# partner: mcap, sigmf | reader, writer

import io
import os
import random
import struct
import subprocess
import tempfile
from pathlib import Path

import sigmf
from mcap.reader import make_reader
from mcap.records import Chunk, Message
from mcap.stream_reader import ReadDataStream, breakup_chunk
from mcap.writer import CompressionType, Writer

from scripted import ONE_CPU, ROOT, lab_run
from test_power import good, straightway
from volatile_drive import Drive, Durable

SIZE = 16 << 20
MOMENTS = 50
MESSAGES = 4000
MAGIC_BYTES, CHUNK = 8, 6
NAMES = "radio", "bag", "parts", "ring", "more"  # in the order in which they are recorded
OPTIONS = "--rate 4M --block 32K --buffers 96 --commit-bytes 128K --commit-interval 40ms --no-fua --deadline 60min --acknowledge"
SAMPLES = "--format sigmf --sigmf-datatype ci16_le --sample-rate 1M --frequency 433.92M --hardware 'a receiver' --from pattern"


def write_bag(path, compression):
    """Messages with their numbers."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=48 << 10, compression=compression)
        writer.start(profile="ros2", library="a test")
        schema = writer.register_schema("Count", "jsonschema", b"{}")
        topics = [writer.register_channel(topic, "json", schema) for topic in ("/left", "/right")]
        noise = random.Random(1)
        for number in range(MESSAGES):
            data = b'{"count": %d, "noise": "%s"}' % (number, noise.randbytes(200).hex().encode())
            writer.add_message(topics[number % 2], log_time=number * 1000, publish_time=number * 1000, data=data)
        writer.finish()


def ends_of(stream):
    """Where each chunk of a stream is complete, and how many messages have come until there."""
    at, messages, ends = MAGIC_BYTES, 0, [(0, 0)]
    while at + 9 <= len(stream) - MAGIC_BYTES:
        opcode, length = struct.unpack_from("<BQ", stream, at)
        if opcode == CHUNK:
            chunk = Chunk.read(ReadDataStream(io.BytesIO(stream[at + 9 : at + 9 + length])))
            inner = breakup_chunk(chunk)
            messages += sum(isinstance(record, Message) for record in inner)
            ends.append((at + 9 + length, messages))
        at += 9 + length
    return ends


def record(drive, folder):
    """Records both in a guest; returns what was acknowledged of each, with the position in the drive's log at which it was known."""
    script = f"""
    record() {{ "$S" record /dev/nvme0n1 "$@" {OPTIONS} >/tmp/pipe || [ $? = 7 ]; }}
    mkfifo /tmp/pipe
    while read -r line; do echo "radio $line"; done </tmp/pipe &
    record radio {SAMPLES} --size 2M --policy drop && wait $!
    while read -r line; do echo "bag $line"; done </tmp/pipe &
    record bag --format mcap --from {folder}/bag.mcap && wait $!
    while read -r line; do echo "parts $line"; done </tmp/pipe &
    record parts --format mcap --from {folder}/bag.mcap --segment 256K && wait $!
    while read -r line; do echo "ring $line"; done </tmp/pipe &
    record ring {SAMPLES} --size 2M --policy drop --segment 256K --keep 1M && wait $!
    while read -r line; do echo "more $line"; done </tmp/pipe &
    record more {SAMPLES} --size 512K && wait $!
    while read -r line; do echo "more $line"; done </tmp/pipe &
    record more --append --format sigmf --from pattern --size 512K && wait $!
    """
    command = lab_run(script, *ONE_CPU, "--drive", f"nbd={drive.socket_path},serial=LAB1", timeout=300)
    lab = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    acknowledged = {name: [] for name in NAMES}
    try:
        for line in lab.stdout:
            name, word, offset = line.split()
            assert word == "durable", line
            with drive.lock:
                acknowledged[name].append((len(drive.log), int(offset)))
        errors = lab.stderr.read()
        assert lab.wait(timeout=30) == 0, errors[-3000:]
    finally:
        lab.kill()
    return acknowledged


def check_samples(device, folder, known, name="radio"):
    """The export of the samples; returns how many bytes of the source they come to, or None if there is no recording yet."""
    status, _, errors = straightway("--quiet", "export", device, name, folder / "radio", "--format", "sigmf", "--force")
    # 7: with gaps.
    if status not in (0, 7):
        # The readers do not open an empty file of samples.
        why = "no file has this name" in errors or "nothing was exported" in errors
        missing = status == 10 and why or status == 1 and "no whole sample" in errors
        assert missing and known < 4, errors
        return None
    # Compares the digest, too.
    recording = sigmf.fromfile(str(folder / "radio"))
    recording.validate()
    assert recording.get_global_field("core:datatype") == "ci16_le"
    assert recording.get_global_field("core:hw") == "a receiver"
    data = (folder / "radio.sigmf-data").read_bytes()
    assert recording.sample_count == len(data) // 4
    captures = recording.get_captures()
    ends = [capture["core:sample_start"] * 4 for capture in captures[1:]] + [len(data)]
    for capture, end in zip(captures, ends):
        begin, source = capture["core:sample_start"] * 4, capture.get("core:global_index", 0) * 4
        # Each eight bytes of the pattern are their own offset in the source.
        words = struct.unpack(f"<{(end - begin) // 8}Q", data[begin : begin + (end - begin) // 8 * 8])
        assert words == tuple(range(source, source + len(words) * 8, 8)), capture
        assert capture["core:frequency"] == 433920000 and capture["core:datetime"].endswith("Z")
        assert source >= begin
    # What the ring has removed, and what was dropped, is counted too.
    assert source + end - begin >= known // 4 * 4
    return source + end - begin


def check_ring(device, folder, known, choice):
    """The segments that a ring has kept, in one export and one of them alone."""
    there = check_samples(device, folder, known, "ring.0*")
    names = [name for name in good("ls", device, "ring.*").split() if name[-1].isdigit()] if there else []
    if names:
        check_samples(device, folder, 0, choice.choice(names))
    return there


def check_messages(device, folder, known, ends, name="bag"):
    """The export of the messages; returns how many there are, or None if there is no recording yet."""
    status, _, errors = straightway("--quiet", "export", device, name, folder / "bag", "--format", "mcap", "--force")
    if status != 0:
        why = "no file has this name" in errors or "nothing was exported" in errors
        missing = status == 10 and why or status == 1 and "no whole record" in errors
        assert missing and known == 0, errors
        return None
    with (folder / "bag").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        found = [(channel.topic, message.log_time) for _, channel, message in reader.iter_messages()]
    assert summary.statistics.message_count == len(found) == sum(summary.statistics.channel_message_counts.values())
    assert summary.statistics.chunk_count == len(summary.chunk_indexes)
    assert found == [(("/left", "/right")[number % 2], number * 1000) for number in range(len(found))]
    assert len(found) >= max(messages for end, messages in ends if end <= known)
    return len(found)


def test_readers_of_the_formats_open_what_a_power_cut_leaves():
    seed = int(os.environ.get("STRAIGHTWAY_SEED", random.SystemRandom().getrandbits(32)))
    print(f"STRAIGHTWAY_SEED={seed}")
    choice = random.Random(seed)
    (ROOT / "out").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sw-") as name, tempfile.TemporaryDirectory(prefix="formats-", dir=ROOT / "out") as shared:
        folder = Path(name)
        image = folder / "image"
        bag = Path(shared) / "bag.mcap"
        write_bag(bag, choice.choice(list(CompressionType)))
        ends = ends_of(bag.read_bytes())
        assert ends[-1][1] == MESSAGES
        good("--quiet", "format", f"file:{image}", "--size", SIZE, "--slots", 64)
        drive = Drive(SIZE, folder / "nbd")
        drive.image[:] = image.read_bytes()
        formatted = bytes(drive.image)
        try:
            acknowledged = record(drive, shared)
        finally:
            drive.close()
        log = list(drive.log)
        assert all(acknowledged.values())
        durable = Durable(formatted, log)
        told = []
        ends_at = {name: list[-1][0] for name, list in acknowledged.items()} | {NAMES[-1]: len(log)}
        begin, moments = 0, []
        for name, end in ends_at.items():
            moments += [(moment, name) for moment in sorted(choice.sample(range(begin + 1, end), min(MOMENTS, end - begin) - 1)) + [end]]
            begin = end
        for moment, name in moments:
            durable.go_to(moment)
            image.write_bytes(durable.image(choice))
            known = {name: max((offset for place, offset in list if place <= moment), default=0) for name, list in acknowledged.items()}
            # What was recorded before does not change any more.
            check = {
                "radio": lambda: check_samples(f"file:{image}", folder, known["radio"]),
                "bag": lambda: check_messages(f"file:{image}", folder, known["bag"], ends),
                "parts": lambda: check_messages(f"file:{image}", folder, known["parts"], ends, "parts.0*"),
                "ring": lambda: check_ring(f"file:{image}", folder, known["ring"], choice),
                "more": lambda: check_samples(f"file:{image}", folder, known["more"], "more"),
            }
            told.append((moment, known, check[name]()))
        print(*told, sep="\n")
        check_samples(f"file:{image}", folder, known["radio"])
        check_ring(f"file:{image}", folder, known["ring"], choice)
        for name in ("bag", "parts.0*"):
            assert check_messages(f"file:{image}", folder, known["bag"], ends, name) == MESSAGES
        assert len({there for _, _, there in told}) > 10
