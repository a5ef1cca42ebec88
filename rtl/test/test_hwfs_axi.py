# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The processor's interface to the file system core: registers and DMA, driven through the bench's socket.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import json
import os
import random
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from hwfs_script import cores  # noqa: E402
from test_hwfs import volume_with  # noqa: E402

sys.path.insert(0, str(cores.RTL))
import sim_hwfs  # noqa: E402
import sizes  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1
ID, SHAPE, CONTROL, STATUS, COMMAND, OFFSET, LENGTH, ADDRESS, VALUE, MOVED, DISK = (
    0x00, 0x04, 0x08, 0x0c, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x40)
NAME, NAME2 = 0x80, 0xc0
(MOUNT, UNMOUNT, OPEN, CREATE, READ, WRITE, RESERVE, COMMIT, SYNC, CLOSE, DELETE, RENAME, LIST) = range(13)
SLAVE_ERROR, DECODE_ERROR, BAD_TRANSFER = 48, 49, 50
BASE, MEMORY = 0x1_0000_0000, 1 << 20
OKAY, SLVERR = 0, 2


def build():
    return sim_hwfs.build("-O0")


class Front:
    """The registers and the memory, as a processor accesses them."""

    def __init__(self, image, folder, **options):
        path = folder / "front.sock"
        self.log = open(folder / "front.log", "w+")
        self.bench = subprocess.Popen([build(), image, path, *(f"{key}={value}" for key, value in options.items())],
                                      stdout=self.log, stderr=subprocess.STDOUT)
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(500):
            try:
                self.socket.connect(str(path))
                break
            except OSError:
                assert self.bench.poll() is None, self.says()
                time.sleep(0.01)
        self.ended = 0

    def says(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def ask(self, operation, address, length, data=b"", answer=8):
        try:
            self.socket.sendall(struct.pack("<c3xIQ", operation, length, address) + data)
            found = b""
            while len(found) < answer:
                part = self.socket.recv(answer - len(found))
                assert part, "the bench closed the connection"
                found += part
        except (OSError, AssertionError) as error:
            raise AssertionError(f"STRAIGHTWAY_SEED={SEED}: {error}: {self.says()}") from error
        return found

    def write(self, register, value):
        return struct.unpack_from("<I", self.ask(b"w", register, 4, struct.pack("<I", value)))[0]

    def read(self, register):
        response, value = struct.unpack("<II", self.ask(b"r", register, 0))
        assert response == OKAY, hex(register)
        return value

    def refuses(self, register):
        return struct.unpack_from("<I", self.ask(b"r", register, 0))[0] == SLVERR

    def write64(self, register, value):
        assert self.write(register, value & 0xffffffff) == self.write(register + 4, value >> 32) == OKAY

    def read64(self, register):
        return self.read(register) | self.read(register + 4) << 32

    def store(self, address, data):
        self.ask(b"W", address, len(data), data)

    def load(self, address, length):
        return self.ask(b"R", address, length, answer=length) if length else b""

    def faulty(self, address, length):
        self.ask(b"f", address, length)

    def cycles(self):
        return struct.unpack("<Q", self.ask(b"c", 0, 0))[0]

    def tell(self, op, name=b"", name2=b"", file=0, flags=0, offset=0, length=0, address=BASE, lengths=None):
        """Writes the registers of a command without starting it."""
        for register, text in ((NAME, name), (NAME2, name2)):
            for at in range(0, len(text), 4):
                assert self.write(register + at, int.from_bytes(text[at:at + 4], "little")) == OKAY
        first, second = lengths or (len(name), len(name2))
        self.write64(OFFSET, offset)
        self.write64(LENGTH, length)
        self.write64(ADDRESS, address)
        assert self.write(COMMAND, op | flags << 4 | file << 8 | first << 16 | second << 24) == OKAY

    def run(self, op, *arguments, limit=3_000_000, **more):
        """Runs a command from its registers to the interrupt; returns its status, value, and the bytes moved."""
        self.tell(op, *arguments, **more)
        assert self.write(CONTROL, 3) == OKAY
        assert struct.unpack_from("<I", self.ask(b"i", 0, limit))[0] == 1, f"STRAIGHTWAY_SEED={SEED}: the command did not end"
        status = self.read(STATUS)
        self.ended = self.ended + 1 & 255
        assert status & 7 == 6 and status >> 24 == self.ended, hex(status)
        return status >> 8 & 63, self.read64(VALUE), self.read(MOVED)

    def good(self, *arguments, **more):
        status, value, moved = self.run(*arguments, **more)
        assert status == hw.OK, (arguments, more, status, value)
        return value, moved

    def names(self):
        found, slot = {}, 0
        while True:
            status, value, moved = self.run(LIST, offset=slot, address=BASE + 64)
            if status == hw.NOT_FOUND:
                assert moved == 0
                return found
            assert (status, moved) == (hw.OK, 80)
            size, _, length = struct.unpack_from("<QII", entry := self.load(BASE + 64, 80))
            found[entry[16:16 + length].decode()] = size
            slot = value

    def leave(self):
        """Disconnects and waits until the image has been written back."""
        self.socket.close()
        other = socket.socket(socket.AF_UNIX)  # served only after the first one's image is written
        other.connect(str(Path(self.log.name).with_name("front.sock")))
        self.socket = other
        self.cycles()

    def close(self):
        self.socket.close()
        self.bench.terminate()
        self.bench.wait()
        self.log.close()


@pytest.fixture
def front(tmp_path):
    begun = []

    def begin(files, **options):
        image = volume_with(tmp_path / "v", files, size="2M", slots=64)
        begun.append(Front(image, tmp_path, **options))
        return begun[0]
    yield begin
    for each in begun:
        each.close()


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core", [("hwfs_axi", "hwfs_axi"), ("hwfs_axi_sim", "hwfs_axi_sim")])
def test_lint(top, core):
    assert cores.lint(top, core, {}) == ""


@pytest.mark.repeated()
def test_yosys_reads_it_too():
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; memories are block RAMs."""
    assert sizes.block_rams("hwfs_axi", "xc7") == 0.5


def pattern(seed, length):
    return random.Random(seed).randbytes(length)


@pytest.mark.parametrize("options", [{}, {"stall": 30, "latency": 20, "read_latency": 40}])
def test_files_by_registers(front, tmp_path, options):
    """Create, append, read, list, rename, delete; the command reads what the hardware wrote, and vice versa."""
    early = pattern(1, 5003)
    f = front({"early": early}, seed=SEED, **options)
    assert f.read(ID) == 0x46485753 and f.read(SHAPE) == 64 << 24 | 9 << 16 | 4 << 8 | 1
    assert f.read64(DISK) == (2 << 20) // 512
    assert f.run(READ, b"early", length=4)[0] == hw.NOT_MOUNTED
    assert f.good(MOUNT)[0] == 64
    assert f.good(READ, b"early", length=5003) == (5003, 5003)
    assert f.load(BASE, 5003) == early
    # A write changes exactly its own bytes, at any offset.
    for offset, length, at in ((0, 0, 0), (1, 1, 3), (1000, 3001, 0x3fd), (17, 1023, 0x400), (4999, 4, 0x7fe)):
        f.store(BASE, b"\xa5" * 8192)
        assert f.good(READ, b"early", offset=offset, length=length, address=BASE + at) == (length, length)
        assert f.load(BASE, 8192) == b"\xa5" * at + early[offset:offset + length] + b"\xa5" * (8192 - at - length)
    data = pattern(2, 30011)
    f.store(BASE + 0x1001, data)
    assert f.good(CREATE, b"late", file=1, length=len(data))[0] >= len(data)
    for begin, end in ((0, 10000), (10000, 10001), (10001, 20004), (20004, 30011)):
        assert f.good(WRITE, file=1, offset=begin, length=end - begin, address=BASE + 0x1001 + begin)[0] == end - begin
    assert f.good(SYNC, file=1)[0] == len(data)
    f.good(CLOSE, file=1)
    f.store(BASE + 4, data[:2222])
    assert f.good(CREATE, b"whole", flags=1, length=2222, address=BASE + 4) == (2222, 2222)
    assert f.names() == {"early": 5003, "late": 30011, "whole": 2222}
    f.good(RENAME, b"whole", b"n" * 64)
    f.good(DELETE, b"early")
    f.good(UNMOUNT)
    f.leave()
    hw.check(tmp_path / "v")
    assert hw.names_on(tmp_path / "v") == {"late", "n" * 64}
    assert hw.contents(tmp_path / "v", "late", tmp_path) == data
    assert hw.contents(tmp_path / "v", "n" * 64, tmp_path) == data[:2222]


def test_commands_that_cannot_be_carried_out(front, tmp_path):
    """Each refused command ends once with its status, and the next one works."""
    f = front({"early": b"0123456789" * 400}, seed=SEED)
    f.good(MOUNT)
    assert f.run(READ, b"early", length=4001)[0] == hw.PAST_END
    assert f.run(READ, b"early", offset=1 << 63, length=1 << 31)[0] == hw.PAST_END
    assert f.run(READ, b"nothing", length=16) == (hw.NOT_FOUND, 0, 0)
    assert f.run(READ, file=2, length=16)[0] == hw.NOT_OPEN
    assert f.run(READ, file=7, length=16)[0] == hw.BAD_COMMAND
    assert f.run(WRITE, file=2, length=100000)[0] == hw.NOT_OPEN
    assert f.run(15, length=16)[0] == hw.BAD_COMMAND
    assert f.run(CREATE, b"early", flags=1, length=3000)[0] == hw.EXISTS
    assert f.run(CREATE, b"huge", length=(1 << 64) - 1)[0] == hw.NO_SPACE
    assert f.run(CREATE, b"huge", flags=1, length=1 << 22, address=BASE)[0] == hw.NO_SPACE
    for name in (b"\xff", b"a\0b", b"\xc0\x80"):
        assert f.run(OPEN, name)[0] == hw.BAD_NAME, name
    for lengths in ((0, 0), (65, 0), (127, 127)):
        assert f.run(OPEN, b"early", lengths=lengths)[0] == hw.BAD_NAME, lengths
    for lengths in ((5, 0), (5, 65), (5, 127)):
        assert f.run(RENAME, b"early", b"x" * 64, lengths=lengths)[0] == hw.BAD_NAME, lengths
    # Outside the range that the port reaches: refused without asking the core.
    for length, address in ((1 << 32, BASE), ((1 << 64) - 1, BASE), (16, (1 << 48) - 15), (16, 1 << 63),
                            ((1 << 32) - 1, (1 << 64) - 1)):
        for op in (READ, WRITE):
            assert f.run(op, b"early" if op == READ else b"", length=length, address=address) == (BAD_TRANSFER, 0, 0)
    assert f.run(LIST, address=(1 << 48) - 79) == (BAD_TRANSFER, 0, 0)
    assert f.names() == {"early": 4000}
    f.good(UNMOUNT)
    f.leave()
    hw.check(tmp_path / "v")


def test_memory_that_fails(front, tmp_path):
    """SLVERR and DECERR are distinguished in each direction, and the next commands work."""
    data = pattern(3, 6000)
    f = front({"early": data}, seed=SEED, stall=20)
    f.good(MOUNT)
    f.faulty(BASE + 0x900, 4)
    assert f.run(READ, b"early", length=6000) == (SLAVE_ERROR, 6000, 6000)
    assert f.load(BASE, 0x900) == data[:0x900] and f.load(BASE + 0x904, 6000 - 0x904) == data[0x904:]
    assert f.good(READ, b"early", length=0x900) == (0x900, 0x900)
    f.good(CREATE, b"late", length=6000)
    assert f.run(WRITE, length=6000)[0] == SLAVE_ERROR
    # Before the file is committed the range can be written again.
    f.faulty(0, 0)
    f.store(BASE, data)
    assert f.good(WRITE, length=6000)[0] == 6000
    f.good(CLOSE)
    f.store(BASE, bytes(6000))
    assert f.good(READ, b"late", length=6000) == (6000, 6000) and f.load(BASE, 6000) == data
    for address in (BASE - 16, BASE + MEMORY - 64, 0):
        assert f.run(READ, b"early", length=128, address=address) == (DECODE_ERROR, 128, 128)
        assert f.run(LIST, address=address)[0] == DECODE_ERROR
    assert f.run(CREATE, b"put", flags=1, length=128, address=0)[0] == DECODE_ERROR
    f.good(DELETE, b"put")
    f.good(DELETE, b"late")
    assert f.names() == {"early": 6000}
    f.good(UNMOUNT)
    f.leave()
    hw.check(tmp_path / "v")


def test_a_device_that_fails(front):
    """The core's status is reported, with the words before the failure; the memory after them is unchanged."""
    data = pattern(4, 40000)
    f = front({"early": data}, seed=SEED)
    f.good(MOUNT)
    f.good(OPEN, b"early")
    bad = next(block for block in range((2 << 20) // 512) if Path(f.bench.args[1]).read_bytes()[block * 512:][:512] ==
               data[10240:10752])
    f.ask(b"b", bad, 1)
    f.store(BASE, b"\xa5" * 40000)
    status, _, moved = f.run(READ, length=40000)
    assert status == hw.DEVICE
    assert f.load(BASE, 40000)[moved:] == b"\xa5" * (40000 - moved)
    f.ask(b"b", 0, 0)
    f.good(MOUNT) if f.run(READ, b"early", length=4)[0] == hw.NOT_MOUNTED else None
    assert f.good(READ, b"early", length=40000) == (40000, 40000)
    assert f.load(BASE, 40000) == data


def test_registers(front):
    """Unassigned addresses, read-only registers, and a command in progress: SLVERR without an effect."""
    f = front({"early": b"x" * 3000}, seed=SEED)
    for register in (ID, SHAPE, STATUS, 0x14, VALUE, MOVED, 0x3c, DISK, 0x48, 0x7c, 0x100, 0xffc):
        assert f.write(register, 1) == SLVERR, hex(register)
    for register in (CONTROL, 0x14, 0x3c, 0x48, NAME, NAME2 + 0x3c, 0x100, 0xffc):
        assert f.refuses(register), hex(register)
    f.tell(MOUNT, length=7, offset=1 << 40)
    assert f.write(CONTROL, 1) == OKAY and f.read(STATUS) & 3 == 1
    assert f.write(CONTROL, 1) == f.write(LENGTH, 9) == f.write(COMMAND, 3) == f.write(NAME, 3) == SLVERR
    for _ in range(100000):
        if (status := f.read(STATUS)) & 1 == 0:
            break
    # Without the enable bit there is no interrupt; with it there is one until it is acknowledged.
    assert status >> 24 == 1 and status & 7 == 6 and struct.unpack_from("<I", f.ask(b"i", 0, 10))[0] == 0
    assert f.read64(LENGTH) == 7 and f.read64(OFFSET) == 1 << 40
    assert f.write(CONTROL, 2) == OKAY and struct.unpack_from("<I", f.ask(b"i", 0, 10))[0] == 1
    assert f.write(CONTROL, 6) == OKAY and struct.unpack_from("<I", f.ask(b"i", 0, 10))[0] == 0
    assert f.read(STATUS) & 7 == 4 and f.read(STATUS) >> 24 == 1


def build_library():
    """The library's example (crates/hwfs)."""
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "straightway-hwfs", "--example",
                           "files"], cwd=cores.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return Path(os.environ.get("CARGO_TARGET_DIR", cores.ROOT / "target")) / "release" / "examples" / "files"


def test_the_library(front, tmp_path):
    """crates/hwfs on the verilated core: the command reads what it stores, and vice versa."""
    early, data = pattern(6, 5003), pattern(7, 150001)
    f = front({"early": early}, seed=SEED, stall=10, read_latency=30)
    f.socket.close()
    program, there = build_library(), Path(f.log.name).with_name("front.sock")
    (tmp_path / "in").write_bytes(data)

    def files(*words, good=True):
        done = subprocess.run([program, there, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert (done.returncode == 0) == good, f"STRAIGHTWAY_SEED={SEED}: {words}: {done.stdout}{f.says()}"
        return done.stdout

    files("get", "early", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == early
    files("put", "späte Datei", tmp_path / "in")
    assert sorted(files("ls").splitlines()) == ["150001 späte Datei", "5003 early"]
    assert "the file exists" in files("put", "early", tmp_path / "in", good=False)
    assert "no such file" in files("get", "none", tmp_path / "none", good=False)
    (tmp_path / "huge").write_bytes(bytes(3 << 20))
    assert "no space left" in files("put", "huge", tmp_path / "huge", good=False)
    files("rm", "early")
    assert files("ls") == "150001 späte Datei\n"
    f.leave()
    hw.check(tmp_path / "v")
    assert hw.contents(tmp_path / "v", "späte Datei", tmp_path) == data


def one_sequence(name, letters):
    """The files of a BLAST database of version 4 with one sequence: index, sequences, headers."""
    codes = ["ACGT".index(letter) for letter in letters]
    four = [codes[at : at + 4] + [0] * (at + 4 - len(codes)) for at in range(0, len(codes) + 1, 4)]
    packed = bytearray(one << 6 | two << 4 | three << 2 | last for one, two, three, last in four)
    packed[-1] |= len(codes) % 4
    # Blast-def-line-set of one title and the identifier gnl|BL_ORD_ID|0, as makeblastdb 2.12 writes them.
    number = bytes.fromhex("a1803080aa803080a0801a09") + b"BL_ORD_ID" + bytes.fromhex("0000a180a080020100") + bytes(8)
    header = bytes.fromhex("30803080a0801a") + bytes([len(name)]) + name.encode() + bytes(2) + number + bytes(8)
    numbers = [4, 0, 0, 0, 1, 0, 0, 0, 0, len(header), 1, 1 + len(packed), 1 + len(packed), 1 + len(packed)]
    return {"nin": struct.pack(f">{len(numbers)}I", *numbers), "nsq": b"\0" + bytes(packed), "nhr": header}


def test_the_command(front, tmp_path):
    """`straightway` on `hwfs:SOCKET`: files stored through the hardware are read through the blocks, and vice versa."""
    early, data, newer = pattern(8, 5003), pattern(9, 150001), pattern(10, 70000)
    f = front({"early": early}, seed=SEED, stall=10, read_latency=30)
    f.socket.close()
    device = f"hwfs:{tmp_path / 'front.sock'}"
    source, target = tmp_path / "in", tmp_path / "out"

    def run(exit_status, verb, *words, stdin=None):
        done = hw.command("--quiet", verb, device, *words, good=False, stdin=stdin)
        assert done.returncode == exit_status, f"STRAIGHTWAY_SEED={SEED}: {verb} {words}: {done.stdout}{f.says()}"
        return done.stdout

    run(0, "get", "early", target)
    assert target.read_bytes() == early
    run(9, "get", "early", target)  # it exists
    run(10, "get", "none", tmp_path / "none")
    assert not (tmp_path / "none").exists()
    for words, part in ((["--offset", "5000"], early[5000:]), (["--offset", "1", "--length", "4097"], early[1:4098]),
                        (["--offset", "5003"], b""), (["--length", "0"], b"")):  # fmt: skip
        run(0, "get", "early", target, "--force", *words)
        assert target.read_bytes() == part
    for words in (["--offset", "5004"], ["--offset", "1", "--length", "5003"]):
        assert "5003 bytes" in run(2, "get", "early", target, "--force", *words)

    source.write_bytes(data)
    stored = json.loads(run(0, "put", source, "späte Datei", "--json"))
    assert (stored["path"], stored["length_bytes"], stored["requests"]) == ("hwfs", len(data), 3)
    run(0, "get", "späte Datei", target, "--force")
    assert target.read_bytes() == data
    run(9, "put", source, "early")
    # A whole file that has the replacement's name stays, and so does the old one.
    run(0, "put", "-", "early.new~", stdin=b"another")
    run(9, "put", source, "early", "--force")
    run(0, "mv", "early.new~", "another")
    assert run(0, "get", "another", "-") == "another" and run(0, "get", "early", target, "--force") == ""
    assert target.read_bytes() == early
    run(0, "rm", "another")
    source.write_bytes(newer)
    replaced = json.loads(run(0, "put", source, "early", "--force", "--verify", "--json"))
    assert replaced["replaced"] and replaced["verified"] and not stored["verified"]
    assert json.loads(run(0, "put", "-", "verified", "--verify", "--json", stdin=data))["verified"]
    run(0, "rm", "verified")
    source.write_bytes(bytes(3 << 20))
    run(8, "put", source, "huge")
    listed = json.loads(run(0, "ls", "--json"))["files"]
    assert [(file["name"], file["size_bytes"], file["allocated_bytes"], file["checksums"]) for file in listed] == [
        ("early", len(newer), None, None), ("späte Datei", len(data), None, None)]
    info = json.loads(run(0, "info", "--json"))
    assert (info["ready"], info["size_bytes"], info["block_size_bytes"]) == (True, 2 << 20, 512)
    assert (info["open_files"], info["name_bytes"], info["block_count"]) == (4, 64, 4096)
    assert "4096 blocks of 512 bytes" in run(0, "info")
    stat = json.loads(run(0, "stat", "--json"))
    assert stat["volume"] is None and stat["file"] is None
    assert stat["hardware"] == {"drive_bytes": 2 << 20, "block_size_bytes": 512, "data_bytes": len(newer) + len(data),
                                "files": 2, "slots": 64}  # fmt: skip
    assert "2 of 64" in run(0, "stat")
    stat = json.loads(run(0, "stat", "early", "--json"))["file"]
    assert (stat["name"], stat["size_bytes"], stat["extents"], stat["checksums"]) == ("early", len(newer), None, None)
    assert f"{len(data)} bytes" in run(0, "stat", "späte Datei")
    assert "`none`" in run(10, "stat", "none")
    # A stream of unknown length that ends inside a transfer. One that does not fit leaves no file.
    streamed = json.loads(run(0, "put", "-", "streamed", "--json", stdin=data))
    assert (streamed["length_bytes"], streamed["requests"]) == (len(data), 3)
    run(0, "get", "streamed", target, "--force")
    assert target.read_bytes() == data
    run(0, "rm", "streamed")
    run(8, "put", "-", "streamed", stdin=bytes(4 << 20))
    run(10, "rm", "streamed")
    # A database of 61 bases, searched as the hardware reads it.
    gene = "ACGTTGCAAGGCTTAACCGGATTACAGG"
    for suffix, content in one_sequence("s1", "TTTTTTTTTT" + gene + "G" * 23).items():
        run(0, "put", "-", f"db.{suffix}", stdin=content)
    (tmp_path / "q.fa").write_text(f">q\n{gene}\n")
    found = run(0, "blast", "db", tmp_path / "q.fa").splitlines()
    assert found[0].split("\t")[:10] == ["q", "s1", "100.000", "28", "0", "0", "1", "28", "11", "38"]
    assert "1 sequences with 61 bases" in found[1]
    run(10, "blast", "other", tmp_path / "q.fa")
    for suffix in ("nin", "nsq", "nhr"):
        run(0, "rm", f"db.{suffix}")
    run(0, "put", "-", "nothing", stdin=b"")
    source.write_bytes(b"")
    run(0, "put", source, "empty")
    run(0, "mv", "späte Datei", "renamed")
    run(9, "mv", "renamed", "early")
    assert "`none`" in run(10, "rm", "none", "empty", "nothing")
    assert run(0, "ls") == "early\nrenamed\n"
    f.leave()
    hw.check(tmp_path / "v")
    assert hw.command("ls", tmp_path / "v").stdout == "early\nrenamed\n"
    assert hw.contents(tmp_path / "v", "early", tmp_path) == newer
    assert hw.contents(tmp_path / "v", "renamed", tmp_path) == data


def test_what_it_costs(front):
    """The cycles of 64 KiB on an ideal device are close to those of the core alone."""
    data = pattern(5, 65536)
    f = front({"early": data}, latency=20)
    f.good(MOUNT)
    for op, more, most in ((READ, {"name": b"early"}, 17800), (CREATE, {"name": b"late", "flags": 1}, 19500)):
        f.tell(op, length=65536, **more)
        begin = f.cycles()
        assert f.write(CONTROL, 3) == OKAY
        f.ask(b"i", 0, 1_000_000)
        taken = f.cycles() - begin
        print(f"{'read' if op == READ else 'put'} of 64 KiB: {taken} cycles")
        f.ended += 1
        assert f.read(STATUS) >> 8 & 63 == hw.OK and taken < most
    assert f.load(BASE, 65536) == data
