# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The profiling timer: stamps, order, counts, overflow, pause, trigger and clear, against a model that watches the pins. Run by
test_timer.py."""

import json
import mmap
import os
import socket
import struct
import subprocess

import cocotb
from axil_bus import OKAY, SEED, SLVERR, Registers
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

ID, SHAPE, CONTROL, STATUS, EVENT, LINES, TRIGGER = range(0, 0x1c, 4)
STORED, LOST, NOW_LOW, NOW_HIGH, AT_LOW, AT_HIGH, TAG, SOURCE, NEXT = range(0x20, 0x44, 4)
WRITTEN, BASE_LOW, BASE_HIGH, LIMIT = range(0x44, 0x54, 4)
COUNTS = 0x80
RECORD, ARM, CLEAR, STREAM = 1, 2, 4, 8
FAILED, STREAMING = 16, 32
BASE = 0x1_2345_6000


class Model:
    """Every software event and every rise of a line, by the cycle in which it is on the pins."""

    def __init__(self, dut):
        self.dut, self.cycle, self.seen = dut, 0, []
        self.before = (1 << len(dut.lines)) - 1

    async def watch(self):
        dut = self.dut
        while True:
            await ReadOnly()
            if dut.awvalid.value == 1 and dut.awready.value == 1 and int(dut.awaddr.value) == EVENT:
                self.seen.append((self.cycle, None, int(dut.wdata.value)))
            lines = int(dut.lines.value)
            for line in range(len(dut.lines)):
                if lines >> line & 1 and not self.before >> line & 1:
                    self.seen.append((self.cycle, line, line))
            self.before = lines
            await RisingEdge(dut.clk_i)
            self.cycle += 1


async def begin(dut):
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    registers = Registers(dut)
    dut.lines.value, dut.trigger.value, dut.rst_ni.value = 0, 0, 0
    # A simulator with unknown values has one on each pin that nothing drives.
    for pin in ("awready", "wready", "bvalid", "bresp", "arready", "rvalid", "rlast", "rresp", "rdata"):
        getattr(dut, f"m_{pin}").value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    model = Model(dut)
    cocotb.start_soon(model.watch())
    for _ in range(2):
        await RisingEdge(dut.clk_i)
    return registers, model


async def drain(registers):
    """Everything in the buffer, as the model has it."""
    events = []
    while await registers.read(STATUS) & 4:
        at = await registers.read(AT_LOW) | await registers.read(AT_HIGH) << 32
        is_line, tag = await registers.read(SOURCE) & 1, await registers.read(TAG)
        events.append((at, tag if is_line else None, tag))
        assert await registers.write(NEXT, 0) == OKAY
    return events


async def cycles(dut, count):
    for _ in range(count):
        await RisingEdge(dut.clk_i)


@cocotb.test()
async def stamps_the_cycle_of_the_write_and_of_the_line(dut):
    registers, model = await begin(dut)
    assert await registers.read(ID) == 0x524d4954
    assert await registers.read(SHAPE) & 0x7f == len(dut.lines)
    assert await registers.write(LINES, (1 << len(dut.lines)) - 1) == OKAY
    assert await registers.write(CONTROL, RECORD) == OKAY
    chosen = registers.random
    for turn in range(60):
        model.seen.clear()
        for _ in range(6):
            dut.lines.value = chosen.randrange(1 << len(dut.lines))
            if chosen.random() < 0.6:
                assert await registers.write(EVENT, chosen.randrange(1 << 32)) == OKAY
            else:
                await cycles(dut, chosen.randrange(1, 9))
            dut.lines.value = 0
            # At most 5 events in a cycle, so that none is missed.
            await cycles(dut, 6)
            events = model.seen[:]
            assert await drain(registers) == events, (SEED, turn)
            model.seen.clear()
    assert await registers.read(LOST) == 0


@cocotb.test()
async def what_does_not_fit_is_counted_and_replaces_nothing(dut):
    registers, model = await begin(dut)
    await registers.write(LINES, (1 << len(dut.lines)) - 1)
    await registers.write(CONTROL, RECORD)
    for _ in range(12):
        # All lines at once, too often for the groups; then more events than the buffer holds.
        for _ in range(12):
            dut.lines.value = (1 << len(dut.lines)) - 1
            await cycles(dut, 1)
            dut.lines.value = 0
            await cycles(dut, 1)
        for tag in range(8):
            await registers.write(EVENT, tag)
        await cycles(dut, 40)
    stored, lost = await registers.read(STORED), await registers.read(LOST)
    assert stored + lost == len(model.seen) and lost > 0 and await registers.read(STATUS) & 8
    kept = await drain(registers)
    assert len(kept) == stored >= 1 << 4 and kept == sorted(kept, key=lambda event: event[0])
    assert set(kept) <= set(model.seen)
    # Whatever was missed for lack of room in a group, the first group is whole.
    assert kept[:len(dut.lines)] == model.seen[:len(dut.lines)]
    for line in range(len(dut.lines)):
        assert await registers.read(COUNTS + 4 * line) == sum(event[1] == line for event in model.seen)


@cocotb.test()
async def records_only_when_it_should(dut):
    registers, model = await begin(dut)
    assert await registers.write(EVENT, 1) == OKAY  # paused
    assert await registers.read(STORED) == 0
    await registers.write(CONTROL, ARM)
    await registers.write(EVENT, 2)
    assert await registers.read(STATUS) == 2
    dut.trigger.value = 1
    await cycles(dut, 1)
    dut.trigger.value = 0
    await registers.write(EVENT, 3)
    await registers.write(CONTROL, 0)
    await registers.write(EVENT, 4)
    await registers.write(CONTROL, ARM)
    await registers.write(TRIGGER, 0)
    await registers.write(EVENT, 5)
    await cycles(dut, 8)
    assert [event[2] for event in await drain(registers)] == [3, 5]
    await registers.write(EVENT, 6)
    await cycles(dut, 8)
    await registers.write(CONTROL, RECORD | CLEAR)
    await registers.write(EVENT, 7)
    await cycles(dut, 8)
    assert await registers.read(STORED) == 1
    assert [event[2] for event in await drain(registers)] == [7]
    # A line that is not enabled is counted and not stamped; the clear has reset its count.
    dut.lines.value = 1
    await cycles(dut, 8)
    assert await registers.read(COUNTS) == 1 and await registers.read(STORED) == 0
    await registers.write(CONTROL, CLEAR)
    assert await registers.read(COUNTS) == 0
    low, high = await registers.read(NOW_LOW), await registers.read(NOW_HIGH)
    assert 0 <= model.cycle - (low | high << 32) < 60
    for address in (ID, STORED, LOST, WRITTEN, 0x7c, COUNTS, 0x200):
        assert await registers.write(address, 0) == SLVERR
    for address in (EVENT, TRIGGER, NEXT, 0x54, COUNTS + 4 * len(dut.lines)):
        assert await registers.read(address, good=False) == SLVERR


class Memory:
    """What the stream writes: a file that others map. Channels and answers are delayed at random; some addresses fail."""

    def __init__(self, dut, random, path, size=1 << 12):
        self.dut, self.random, self.bad, self.bursts = dut, random, range(0), 0
        with open(path, "w+b") as file:
            file.truncate(size)
            self.bytes = mmap.mmap(file.fileno(), size)

    async def serve(self):
        dut, addresses, ended, index = self.dut, [], [], 0
        while True:
            dut.m_awready.value, dut.m_wready.value = self.random.randrange(2), int(bool(addresses) and self.random.randrange(3) > 0)
            dut.m_bvalid.value = int(bool(ended) and self.random.randrange(3) == 0)
            dut.m_bresp.value = SLVERR if ended and ended[0] - BASE in self.bad else OKAY
            await ReadOnly()
            if dut.m_bvalid.value == 1 and dut.m_bready.value == 1:
                ended.pop(0)
            if dut.m_wready.value == 1 and dut.m_wvalid.value == 1:
                at = addresses[0] - BASE + 4 * index
                assert (dut.m_wlast.value == 1) == (index == 3)
                if addresses[0] - BASE not in self.bad:
                    self.bytes[at:at + 4] = int(dut.m_wdata.value).to_bytes(4, "little")
                index = (index + 1) % 4
                if index == 0:
                    ended.append(addresses.pop(0))
            if dut.m_awready.value == 1 and dut.m_awvalid.value == 1:
                addresses.append(int(dut.m_awaddr.value))
                assert int(dut.m_awlen.value) == 3 and int(dut.m_awsize.value) == 2 and addresses[-1] % 16 == 0
                self.bursts += 1
            await RisingEdge(dut.clk_i)

    def records(self, count):
        records = [struct.unpack_from("<QII", self.bytes, 16 * index) for index in range(count)]
        assert all(source & 2 for _, _, source in records)
        return [(at, tag if source & 1 else None, tag) for at, tag, source in records]


async def stream(registers, limit, base=BASE):
    assert await registers.write(BASE_LOW, base & 0xffffffff) == OKAY
    assert await registers.write(BASE_HIGH, base >> 32) == OKAY
    assert await registers.write(LIMIT, limit) == OKAY


async def settled(registers):
    for _ in range(200):
        if not await registers.read(STATUS) & STREAMING:
            return
    raise AssertionError("the stream does not end")


@cocotb.test()
async def streams_every_event_in_order_and_counts_what_memory_refuses(dut):
    registers, model = await begin(dut)
    memory = Memory(dut, registers.random, os.path.join(os.environ["TIMER_FOLDER"], "streamed"))
    cocotb.start_soon(memory.serve())
    assert await registers.read(SHAPE) & 0x80
    await registers.write(LINES, (1 << len(dut.lines)) - 1)
    for turn in range(4):
        limit = 200 if turn == 0 else registers.random.randrange(8, 40)
        await registers.write(CONTROL, CLEAR)
        await settled(registers)
        memory.bad = range(16 * 5, 16 * 6) if turn == 3 else range(0)
        memory.bytes[:] = bytes(len(memory.bytes))
        await stream(registers, limit)
        await registers.write(CONTROL, STREAM | RECORD)
        assert await registers.write(LIMIT, 1) == SLVERR, "the limit changed under the stream"
        model.seen.clear()
        for _ in range(60):
            dut.lines.value = registers.random.randrange(1 << len(dut.lines)) if registers.random.randrange(3) == 0 else 0
            if registers.random.randrange(2):
                await registers.write(EVENT, registers.random.randrange(1 << 32))
            await cycles(dut, registers.random.randrange(1, 30))
            dut.lines.value = 0
            await cycles(dut, 6)
        await cycles(dut, 400)
        await settled(registers)
        written, stored, lost = [await registers.read(register) for register in (WRITTEN, STORED, LOST)]
        assert memory.records(written) == model.seen[:written], (SEED, turn)
        assert written + stored + lost == len(model.seen), (SEED, turn)
        assert await registers.read(SOURCE) == 0, "an event can be read while it is streamed"
        failed = bool(await registers.read(STATUS) & FAILED)
        assert failed == (turn == 3)
        if turn == 3:
            assert written == 5 and lost > 0
        else:
            assert written == min(limit, len(model.seen)) and memory.bytes[16 * written:16 * written + 16] == bytes(16)
        # What the limit kept back, or the failure, is read by registers.
        await registers.write(CONTROL, 0)
        await settled(registers)
        assert len(await drain(registers)) == stored
    assert memory.bursts > 0
    # A clear amid a stream: what is in flight is written, and is not counted afterwards.
    await registers.write(CONTROL, CLEAR)
    await settled(registers)
    memory.bad = range(0)
    await stream(registers, 100)
    await registers.write(CONTROL, STREAM | RECORD)
    for tag in range(6):
        await registers.write(EVENT, tag)
    await registers.write(CONTROL, STREAM | RECORD | CLEAR)
    await registers.write(EVENT, 77)
    await cycles(dut, 100)
    await settled(registers)
    assert await registers.read(WRITTEN) == 1 and memory.records(1)[0][2] == 77


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


async def serve(registers, command, path, out):
    """Runs the command, which reaches the timer by the socket at `path`, and returns its exit status."""
    dut, listener = registers.dut, socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    with open(out, "wb") as file, subprocess.Popen(command, stdout=file, stderr=file) as program:
        listener.settimeout(60)
        client = listener.accept()[0]
        # The simulation runs only during a request, so its time is that of the requests.
        while request := client.recv(12, socket.MSG_WAITALL):
            operation, register, value = struct.unpack("<B3xII", request)
            if operation == ord("w"):
                answer = await registers.write(register, value), 0
            else:
                dut.araddr.value = register
                await registers.take(dut.arvalid, dut.arready)
                answer = await registers.response(dut.rvalid, dut.rready, dut.rresp, dut.rdata)
            client.sendall(struct.pack("<II", *answer))
            # A processor does more than stamp: the memory, with its pauses, keeps up.
            await cycles(dut, 12)
        client.close()
    listener.close()
    return program.returncode


@cocotb.test()
async def what_a_program_stamps_is_in_the_timeline(dut):
    """The chain: the library's stamps, the timer, the memory that it streams to, a dump, and the command's timeline."""
    registers, model = await begin(dut)
    folder = os.environ["TIMER_FOLDER"]
    memory, out, dump, path = (os.path.join(folder, name) for name in ("memory", "out", "dump", "timer.sock"))
    cocotb.start_soon(Memory(dut, registers.random, memory).serve())

    async def rise():
        while True:
            await cycles(dut, 90)
            dut.lines.value = 4
            await cycles(dut, 1)
            dut.lines.value = 0

    rises = cocotb.start_soon(rise())
    status = await serve(registers, [os.environ["EXAMPLE"], path, memory, hex(BASE), "40", dump], path, out)
    rises.cancel()
    text = read(out)
    assert status == 0 and ", 0 lost" in text, text
    shown = subprocess.run([os.environ["STRAIGHTWAY"], "timeline", dump, "--json"], capture_output=True, text=True, check=True)
    events = json.loads(shown.stdout)["events"]
    tags = [event["tag"] for event in events if not event["is_line"]]
    assert tags == list(range(0x100, 0x128)), (tags, text)
    lines = [event for event in events if event["is_line"]]
    assert lines and all(event["name"] == "line 2" for event in lines)
    # Each tag stands between the same rises as on the pins. Recording began after any number of rises, so the first tag aligns the two.
    seen, shown = [(event[2], event[1] is not None) for event in model.seen], [(event["tag"], event["is_line"]) for event in events]
    first = seen.index((0x100, False)) - shown.index((0x100, False))
    assert first >= 0 and shown == seen[first:first + len(shown)], (SEED, first)
    printed = subprocess.run([os.environ["STRAIGHTWAY"], "timeline", dump], capture_output=True, text=True, check=True).stdout
    assert "line 2" in printed and "0x127" in printed and "timer (0):" in printed

    # The command's own stamps, read back by registers.
    os.unlink(path)
    command = [os.environ["STRAIGHTWAY"], "trace", "model:32M", "--span", "8M", "--requests", "10", f"--timer={path}", "--json"]
    status = await serve(registers, command, path, out)
    text = read(out)
    assert status in (0, 5), text
    # A busy machine is reported after the result.
    traced = json.JSONDecoder().raw_decode(text[text.index("{"):])[0]
    assert (traced["source"], traced["requests"], traced["lost_events"], traced["coverage"]) == ("timer", 10, 0, 1.0)
