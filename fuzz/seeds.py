#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Writes what a search would take long to guess into fuzz/seeds: a whole handshake, files with their magic numbers. Run by hand, after
a change to what a target's first byte means; with build/venv's Python, which has mcap."""

import io
import struct
from pathlib import Path

from mcap.writer import CompressionType, Writer

SEEDS = Path(__file__).resolve().parent / "seeds"


def seed(target, name, data):
    folder = SEEDS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def option(code, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", code, len(data)) + data


def request(kind, offset, length, payload=b"", flags=0):
    return struct.pack(">IHHQQI", 0x25609513, flags, kind, 7, offset, length) + payload


def nbd():
    """proto.md of NBD: options LIST 3, INFO 6, GO 7, STRUCTURED_REPLY 8, SET_META_CONTEXT 10; then each command."""
    name = struct.pack(">I", 0) + struct.pack(">H", 0)
    context = struct.pack(">I", 0) + struct.pack(">I", 1) + struct.pack(">I", 15) + b"base:allocation"
    commands = (request(1, 512, 1024, bytes(1024)) + request(0, 0, 512) + request(3, 0, 0) + request(4, 512, 512)
                + request(6, 512, 512, flags=1) + request(7, 0, 4096) + request(2, 0, 0))  # fmt: skip
    flags = struct.pack(">I", 3)
    seed("nbd", "export-name", b"\0" + flags + option(1) + commands)
    seed("nbd", "go", b"\0" + flags + option(8) + option(10, context) + option(3) + option(6, name) + option(7, name) + commands)
    seed("nbd", "read-only", b"\1" + flags + option(7, name) + commands)


def pcapng():
    """pcapng: a section, an interface of nanoseconds, two packets, the statistics."""
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    datagram = bytes([0x45, 0, 0, 36, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]) + struct.pack(">HHHH", 9, 9, 16, 0) + b"datagram"
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 228, 0, 0) + struct.pack("<HHI", 9, 1, 9) + struct.pack("<HH", 0, 0))
    packet = block(6, struct.pack("<IIIII", 0, 1, 2, len(datagram), len(datagram)) + datagram)
    statistics = block(5, struct.pack("<III", 0, 1, 3) + struct.pack("<HHQ", 4, 8, 2) + struct.pack("<HHQ", 5, 8, 1) + struct.pack("<HH", 0, 0))
    seed("pcapng", "file", b"\x40" + section + interface + packet * 2 + statistics)


def mcap():
    for name, compression in (("plain", CompressionType.NONE), ("lz4", CompressionType.LZ4), ("zstd", CompressionType.ZSTD)):
        out = io.BytesIO()
        writer = Writer(out, chunk_size=200, compression=compression)
        writer.start("ros2", "seed")
        schema = writer.register_schema("std_msgs/msg/String", "ros2msg", b"string data")
        channel = writer.register_channel("/topic", "cdr", schema)
        for number in range(8):
            writer.add_message(channel, number * 1000, b"message %d" % number * 3, number * 1000)
        writer.add_attachment(1, 2, "a", "text/plain", b"attached")
        writer.add_metadata("m", {"key": "value"})
        writer.finish()
        seed("mcap", name, b"\x20" + out.getvalue())
        seed("mcap", f"{name}-gap", b"\x21" + out.getvalue())


def sigmf():
    text = b"""{"global": {"core:datatype": "ci16_le", "core:version": "1.2.0", "core:sample_rate": 1e6, "core:num_channels": 1,
"core:sha512": "00", "core:extensions": []}, "captures": [{"core:sample_start": 0, "core:global_index": 0, "core:frequency": 4e8,
"core:datetime": "2024-02-29T12:00:00.5Z", "core:header_bytes": 8}], "annotations": [{"core:sample_start": 10, "core:sample_count": 5,
"core:label": "x"}]}"""
    line = struct.pack("<QQQQ", 4096, 8192, 1000, 1) + bytes(32)
    seed("sigmf", "described", b"\0" + text)
    seed("sigmf", "gap", b"\1" + line + text)


def volume():
    seed("volume", "whole", b"\0")
    seed("volume", "repair", b"\4")
    seed("volume", "abandoned", b"\2" + bytes([2, 24, 0, 3, 255, 255, 255, 255]))


def others():
    seed("virtio", "direct", b"\1")
    seed("virtio", "indirect", b"\3")
    seed("nvme_tcp", "unchanged", bytes(8))
    seed("blast", "alias", b"\2" + b"TITLE x\nDBLIST a b\nNSEQ 3\nLENGTH 100\n")
    seed("blast", "query", b"\4" + b">one\nACGTNRYK\n>two\nacgt\n")


for part in (nbd, pcapng, mcap, sigmf, volume, others):
    part()
