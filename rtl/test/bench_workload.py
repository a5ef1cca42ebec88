# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The workload generator with a simulated file system: the data that it sends and receives, its counters, its handling of
errors and of a file system that stops. Run by test_workload.py."""

import os
import random

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

SEED = int(os.environ["STRAIGHTWAY_SEED"])
MOUNT, UNMOUNT, PUT, FILL, READ, RANDOM_READ, RANDOM_WRITE, DELETE = range(8)
CMD = ("mount", "unmount", "open", "create", "read", "write", "reserve", "commit", "sync", "close", "delete")
NAME = "file-number-1"


def pattern(place):
    value = place & 0xffffffff
    value ^= value << 13 & 0xffffffff
    value ^= value >> 17
    return value ^ value << 5 & 0xffffffff


def data_of(seed, offset, length):
    first = offset // 4
    return b"".join(pattern(seed + first + at).to_bytes(4, "little") for at in range(length // 4 + 2))[:length]


class Core:
    """Plays the core, with pauses; records the commands and the data."""

    def __init__(self, dut, seed, pause_percent=30):
        self.dut, self.random, self.pause_percent = dut, random.Random(seed), pause_percent
        self.width = len(dut.give_data) // 8
        self.commands, self.names, self.given, self.content = [], [], [], b""
        self.fail, self.spoil, self.silent = {}, None, False
        self.late_data = False  # the answer to a read comes before its last words
        for pin in ("start", "cmd_ready", "name_ready", "answer_valid", "give_ready", "take_valid"):
            getattr(dut, pin).value = 0

    def pauses(self):
        return self.random.randrange(100) < self.pause_percent

    async def one(self, valid, ready, values=()):
        """Takes one offer and returns its values. It is an error if the offer changes or is withdrawn."""
        held = None
        while True:
            ready.value = int(not self.pauses())
            await ReadOnly()
            if held is not None:
                assert valid.value == 1, "an offer was withdrawn"
                assert [int(pin.value) for pin in values] == held, "an offer changed"
            taken = valid.value == 1 and ready.value == 1
            if valid.value == 1:
                held = [int(pin.value) for pin in values]
            await RisingEdge(self.dut.clk_i)
            if taken:
                ready.value = 0
                return held

    async def serve(self):
        dut = self.dut
        while True:
            op, flags, file, name_bytes, offset, length = await self.one(dut.cmd_valid, dut.cmd_ready, (
                dut.cmd_op, dut.cmd_flags, dut.cmd_file, dut.cmd_name_bytes, dut.cmd_offset, dut.cmd_length))
            self.commands.append((CMD[op], flags, file, offset, length))
            name = b""
            while len(name) < name_bytes:
                name += (await self.one(dut.name_valid, dut.name_ready, (dut.name_data,)))[0].to_bytes(4, "little")
            self.names.append(name[:name_bytes].decode())
            if self.silent:
                return
            status = self.fail.get(CMD[op], 0)
            if CMD[op] == "write" or (CMD[op] == "create" and flags):
                data = b""
                while len(data) < length and not (status and len(data) >= length // 2):
                    data += (await self.one(dut.give_valid, dut.give_ready, (dut.give_data,)))[0].to_bytes(
                        self.width, "little")
                self.given.append((offset, data[:length]))
            sending = None
            if CMD[op] == "read":
                sending = cocotb.start_soon(self.send(offset, length, bool(status)))
                if not self.late_data:
                    await sending
            await self.answer(status, length)
            if sending:
                await sending

    async def send(self, offset, length, short):
        dut, at = self.dut, 0
        while at < length and not (short and at >= length // 2):
            while self.pauses():
                await RisingEdge(dut.clk_i)
            word = bytearray(self.content[offset + at:offset + min(length, at + self.width)])
            count = len(word)
            if self.spoil is not None and offset + at <= self.spoil < offset + at + count:
                word[self.spoil - offset - at] ^= 0x40
            dut.take_data.value = int.from_bytes(word + bytes(self.width - count), "little")
            dut.take_keep.value = (1 << count) - 1
            dut.take_last.value = int(at + self.width >= length)
            dut.take_valid.value = 1
            await ReadOnly()
            assert dut.take_ready.value == 1
            await RisingEdge(dut.clk_i)
            dut.take_valid.value = 0
            at += self.width

    async def answer(self, status, value):
        self.dut.answer_status.value, self.dut.answer_value.value = status, value
        self.dut.answer_valid.value = 1
        while True:
            await ReadOnly()
            taken = self.dut.answer_ready.value == 1
            await RisingEdge(self.dut.clk_i)
            if taken:
                self.dut.answer_valid.value = 0
                return

    async def run(self, run, limit=60000, **config):
        """Runs to the end and returns the counters."""
        dut = self.dut
        self.commands.clear(), self.names.clear(), self.given.clear()
        config = {"file": 0, "name_bytes": len(NAME), "file_bytes": 0, "block_bytes": 64, "count": 0, "align_log2": 0,
                  "seed": 1, **config}
        for key, value in config.items():
            getattr(dut, key).value = value
        dut.run.value = run
        dut.file_name.value = int.from_bytes(NAME.encode(), "little")
        dut.start.value = 1
        await RisingEdge(dut.clk_i)
        dut.start.value = 0
        for _ in range(limit):
            await ReadOnly()
            busy = int(dut.busy.value)
            await RisingEdge(dut.clk_i)
            if not busy:
                break
        else:
            raise AssertionError(f"the run did not end; commands so far: {self.commands}")
        return {key: int(getattr(dut, key).value) for key in (
            "cycles", "bytes_moved", "operations", "errors", "mismatches", "latency_min", "latency_max", "status")}


async def begin(dut, pause_percent=30):
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    core = Core(dut, SEED, pause_percent)
    dut.rst_ni.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    await RisingEdge(dut.clk_i)
    cocotb.start_soon(core.serve())
    return core


@cocotb.test()
async def fills_a_file_block_by_block(dut):
    core = await begin(dut)
    size, block = 1000, 10 * core.width
    found = await core.run(FILL, file=2, file_bytes=size, block_bytes=block, seed=77)
    blocks = -(-size // block)
    assert core.commands[0] == ("create", 0, 2, 0, size) and core.names[0] == NAME
    assert core.commands[1:-2] == [("write", 0, 2, at, min(block, size - at)) for at in range(0, size, block)]
    assert [command[0] for command in core.commands[-2:]] == ["sync", "close"]
    assert b"".join(data for _, data in core.given) == data_of(77, 0, size)
    assert (found["bytes_moved"], found["operations"], found["errors"], found["status"]) == (size, blocks, 0, 0)
    assert 0 < found["latency_min"] <= found["latency_max"] < found["cycles"]


@cocotb.test()
async def puts_a_file_and_knows_the_simple_commands(dut):
    core = await begin(dut)
    for size in (0, 1, 333):
        found = await core.run(PUT, file_bytes=size, seed=5)
        assert core.commands == [("create", 1, 0, 0, size)] and core.given == [(0, data_of(5, 0, size))]
        assert (found["bytes_moved"], found["operations"], found["errors"]) == (size, 1, 0)
    for run, command, name in ((MOUNT, "mount", ""), (UNMOUNT, "unmount", ""), (DELETE, "delete", NAME)):
        found = await core.run(run)
        assert core.commands == [(command, 0, 0, 0, 0)] and core.names == [name]
        assert (found["operations"], found["errors"]) == (0, 0)


@cocotb.test()
async def reads_and_checks_every_byte(dut):
    """Sequential and random reads; an answer before the last words; one wrong bit is counted as one wrong word."""
    core = await begin(dut)
    size, block = 777, 5 * core.width
    core.content = data_of(9, 0, size)
    for core.late_data in (False, True):
        found = await core.run(READ, file_bytes=size, block_bytes=block, seed=9)
        assert core.commands[1:-1] == [("read", 0, 0, at, min(block, size - at)) for at in range(0, size, block)]
        assert (found["bytes_moved"], found["mismatches"], found["errors"]) == (size, 0, 0)
    found = await core.run(RANDOM_READ, file_bytes=size, block_bytes=block, count=40, seed=9)
    places = [command[3] for command in core.commands[1:-1]]
    assert len(places) == 40 == found["operations"] and len(set(places)) > 10
    assert all(place % core.width == 0 and place + block <= size for place in places)
    assert (found["bytes_moved"], found["mismatches"]) == (40 * block, 0)
    await core.run(RANDOM_READ, file_bytes=size, block_bytes=block, count=10, seed=9, align_log2=7)
    assert all(command[3] % 128 == 0 for command in core.commands[1:-1])
    for place in (0, size - 1, core.random.randrange(size)):
        core.spoil = place
        found = await core.run(READ, file_bytes=size, block_bytes=block, seed=9)
        assert (found["mismatches"], found["errors"]) == (1, 0)
    core.spoil = None
    found = await core.run(READ, file_bytes=size, block_bytes=block, seed=10)
    assert found["mismatches"] == -(-size // core.width)


@cocotb.test()
async def writes_anywhere_what_a_reader_expects(dut):
    core = await begin(dut)
    size, block = 900, 4 * core.width
    found = await core.run(RANDOM_WRITE, file_bytes=size, block_bytes=block, count=25, seed=3)
    assert core.commands[0] == ("open", 1, 0, 0, 0) and found["operations"] == 25 == len(core.given)
    assert [command[0] for command in core.commands[-2:]] == ["sync", "close"]
    for offset, data in core.given:
        assert data == data_of(3, offset, block)


@cocotb.test()
async def an_error_ends_the_run_and_closes_the_file(dut):
    core = await begin(dut)
    core.content = data_of(1, 0, 640)
    core.fail = {"open": 25}
    found = await core.run(READ, file_bytes=640)
    assert [command[0] for command in core.commands] == ["open"]
    assert (found["errors"], found["status"], found["operations"]) == (1, 25, 0)
    for run, verb, left in ((READ, "read", ["open", "read", "close"]),
                            (FILL, "write", ["create", "write", "close"]),
                            (PUT, "create", ["create"])):
        core.fail = {verb: 6}
        found = await core.run(run, file_bytes=640, block_bytes=160)
        assert [command[0] for command in core.commands] == left
        assert (found["errors"], found["status"], found["operations"], found["bytes_moved"]) == (1, 6, 1, 0)
    core.fail = {}
    found = await core.run(READ, file_bytes=640, block_bytes=160)
    assert (found["errors"], found["mismatches"], found["bytes_moved"]) == (0, 0, 640)


@cocotb.test()
async def what_makes_no_sense_is_refused_and_silence_times_out(dut):
    core = await begin(dut)
    for run, config in ((9, {}), (READ, {"block_bytes": 0}), (READ, {"block_bytes": core.width + 1}),
                        (READ, {"name_bytes": 0}), (READ, {"name_bytes": 17}),
                        (RANDOM_READ, {"file_bytes": 63, "block_bytes": 64})):
        found = await core.run(run, **config)
        assert core.commands == [] and (found["errors"], found["status"]) == (1, 16), (run, config)
    core.silent = True
    found = await core.run(READ, file_bytes=640)
    assert (found["errors"], found["status"]) == (1, 7) and found["cycles"] < 1000
