# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The example system, driven through its AXI4-Lite registers as by a processor: mount, create, write, read back,
random access, delete, and refused accesses. Run by test_workload.py."""

import os
from pathlib import Path

import cocotb
from axil_bus import OKAY, SLVERR, Registers
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout

IMAGE = os.environ["STRAIGHTWAY_IMAGE"]
AFTER = os.environ["STRAIGHTWAY_AFTER"]
ID, SHAPE, CONTROL, STATUS, RUN, FILE_LOW, FILE_HIGH, BLOCK, COUNT, PATTERN, DISK_LOW = range(0, 44, 4)
CYCLES, BYTES, OPERATIONS, ERRORS, MISMATCHES, LATENCY_MIN, LATENCY_MAX = 64, 72, 80, 84, 88, 92, 96
NAME = 128
MOUNT, UNMOUNT, PUT, FILL, READ, RANDOM_READ, RANDOM_WRITE, DELETE = range(8)
STRIPE = 512


class Generator(Registers):
    async def run(self, run, name="", size=0, block=64, count=0, seed=1, limit_us=2000):
        """Runs the generator from its registers to the interrupt; returns its counters."""
        for at in range(0, len(name), 4):
            assert await self.write(NAME + at, int.from_bytes(name.encode()[at:at + 4], "little")) == OKAY
        for register, value in ((RUN, run | len(name) << 8), (FILE_LOW, size), (FILE_HIGH, 0), (BLOCK, block),
                                (COUNT, count), (PATTERN, seed), (CONTROL, 3)):
            assert await self.write(register, value) == OKAY
        await ReadOnly()
        if self.dut.irq.value == 0:
            await with_timeout(RisingEdge(self.dut.irq), limit_us, "us")
        await RisingEdge(self.dut.clk_i)
        status = await self.read(STATUS)
        assert status & 7 == 6, hex(status)
        return {"status": status >> 8 & 63, **{key: await self.read(register) for key, register in (
            ("cycles", CYCLES), ("bytes", BYTES), ("operations", OPERATIONS), ("errors", ERRORS),
            ("mismatches", MISMATCHES), ("least", LATENCY_MIN), ("most", LATENCY_MAX))}}


def memories(dut):
    """The memory of each disk."""
    return [dut.gen_memory[index].u_memory.words_q for index in range(2)]


async def begin(dut):
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    cocotb.start_soon(Clock(dut.memory_clk_i, 7, "ns").start())  # unrelated to the other clock
    registers = Generator(dut)
    dut.rst_ni.value = dut.memory_rst_ni.value = 0
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = dut.memory_rst_ni.value = 1
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    return registers


@cocotb.test()
async def files_by_registers(dut):
    registers = await begin(dut)
    disks = memories(dut)
    image = Path(IMAGE).read_bytes()
    for at in range(0, len(image), 4):
        if any(image[at:at + 4]):
            stripe = at // STRIPE
            disks[stripe % 2][(stripe // 2 * STRIPE + at % STRIPE) // 4].value = int.from_bytes(image[at:at + 4], "little")
    assert await registers.read(ID) == 0x53465753
    assert await registers.read(SHAPE) == 16 << 24 | 6 << 16 | 8 << 8 | 2 << 1
    assert await registers.read(DISK_LOW) == 2 * 8192
    found = await registers.run(READ, "early", 100)
    assert (found["errors"], found["status"]) == (1, 17)  # not mounted
    assert (await registers.run(MOUNT))["errors"] == 0
    found = await registers.run(FILL, "samples", 20000, 1024, seed=11)
    assert (found["errors"], found["operations"], found["bytes"]) == (0, 20, 20000)
    assert 0 < found["least"] <= found["most"] < found["cycles"]
    found = await registers.run(READ, "samples", 20000, 2048, seed=11)
    assert (found["errors"], found["mismatches"], found["bytes"]) == (0, 0, 20000)
    found = await registers.run(RANDOM_WRITE, "samples", 20000, 512, count=6, seed=12)
    assert (found["errors"], found["operations"]) == (0, 6)
    found = await registers.run(READ, "samples", 20000, 2048, seed=11)
    assert found["errors"] == 0 and 0 < found["mismatches"] <= 6 * 512 // 8
    found = await registers.run(PUT, "second", 5000, seed=13)
    assert (found["errors"], found["operations"]) == (0, 1)
    found = await registers.run(RANDOM_READ, "second", 5000, 512, count=10, seed=13)
    assert (found["errors"], found["mismatches"], found["operations"]) == (0, 0, 10)
    assert (await registers.run(DELETE, "samples"))["errors"] == 0
    found = await registers.run(READ, "samples", 20000, 2048)
    assert (found["errors"], found["status"]) == (1, 25)  # not found
    assert (await registers.run(UNMOUNT))["errors"] == 0
    after = bytearray(len(image))
    for at in range(0, len(image), 4):
        stripe = at // STRIPE
        word = int(disks[stripe % 2][(stripe // 2 * STRIPE + at % STRIPE) // 4].value)
        after[at:at + 4] = word.to_bytes(4, "little")
    Path(AFTER).write_bytes(after)


@cocotb.test()
async def what_is_refused(dut):
    """Unassigned addresses, read-only registers and a configuration in use: SLVERR without an effect."""
    registers = await begin(dut)
    for address in (ID, STATUS, CYCLES, NAME + 16, 0x100, 0x800):
        assert await registers.write(address, 1) == SLVERR, hex(address)
    for address in (0x30, NAME + 16, 0x104):
        assert await registers.read(address, good=False) == SLVERR, hex(address)
    assert await registers.write(BLOCK, 128) == OKAY
    dut.wstrb.value = 3
    assert await registers.write(BLOCK, 256) == SLVERR
    dut.wstrb.value = 15
    assert await registers.read(BLOCK) == 128
    # A mount takes a while.
    assert await registers.write(RUN, MOUNT) == OKAY
    assert await registers.write(CONTROL, 1) == OKAY
    assert await registers.write(BLOCK, 256) == SLVERR
    assert await registers.write(CONTROL, 1) == SLVERR
    for _ in range(5000):
        status = await registers.read(STATUS)
        if status & 2:
            break
    assert status & 3 == 2 and await registers.read(OPERATIONS) == 0
    assert await registers.read(BLOCK) == 128 and dut.irq.value == 0
