# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The example system with the processor's interface, driven through its registers: reads a file into memory and writes
another one from there. Run by test_workload.py."""

import os
from pathlib import Path

import cocotb
from axil_bus import OKAY
from bench_example import begin
from cocotb.triggers import ReadOnly, RisingEdge, with_timeout

IMAGE = os.environ["STRAIGHTWAY_IMAGE"]
AFTER = os.environ["STRAIGHTWAY_AFTER"]
ID, SHAPE, CONTROL, STATUS, COMMAND, LENGTH, ADDRESS, VALUE, MOVED, NAME = (
    0x00, 0x04, 0x08, 0x0c, 0x10, 0x20, 0x28, 0x30, 0x38, 0x80)
MOUNT, UNMOUNT, CREATE, READ = 0, 1, 3, 4


async def run(registers, op, name=b"", flags=0, length=0, address=0):
    """Runs a command from its registers to the interrupt; returns status, value and bytes moved."""
    words = [(NAME + at, int.from_bytes(name[at:at + 4], "little")) for at in range(0, len(name), 4)]
    for register, value in [*words, (LENGTH, length), (ADDRESS, address),
                            (COMMAND, op | flags << 4 | len(name) << 16), (CONTROL, 3)]:
        assert await registers.write(register, value) == OKAY
    await ReadOnly()
    if registers.dut.irq.value == 0:
        await with_timeout(RisingEdge(registers.dut.irq), 2000, "us")
    await RisingEdge(registers.dut.clk_i)
    status = await registers.read(STATUS)
    assert status & 7 == 6, hex(status)
    return status >> 8 & 63, await registers.read(VALUE), await registers.read(MOVED)


@cocotb.test()
async def a_file_in_and_a_file_out(dut):
    registers = await begin(dut)
    disk, memory = dut.gen_memory[0].u_memory.words_q, dut.u_buffer.words_q
    image = Path(IMAGE).read_bytes()
    for at in range(0, len(image), 4):
        if any(image[at:at + 4]):
            disk[at // 4].value = int.from_bytes(image[at:at + 4], "little")
    assert await registers.read(ID) == 0x46485753
    assert await registers.read(SHAPE) == 64 << 24 | 6 << 16 | 1 << 8 | 1
    assert (await run(registers, MOUNT))[0] == 0
    assert await run(registers, READ, b"old", length=2400, address=0x1004) == (0, 2400, 2400)
    found = b"".join(int(memory[0x1004 // 4 + word].value).to_bytes(4, "little") for word in range(600))
    assert found == bytes(word % 251 for word in range(2400))
    # The buffer has 32 KiB; the addresses after it are unassigned.
    assert (await run(registers, READ, b"old", length=2400, address=0x7ffc))[0] == 49
    assert (await run(registers, CREATE, b"copy", flags=1, length=2000, address=0x1004))[0] == 0
    assert (await run(registers, UNMOUNT))[0] == 0
    after = b"".join(int(disk[at].value).to_bytes(4, "little") for at in range(len(image) // 4))
    Path(AFTER).write_bytes(after)
