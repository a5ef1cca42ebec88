# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The window and the memory ports of the storage memory management unit with an AXI manager and AXI memories that were not written for it:
those of cocotbext-axi. Run by test_smmu.py."""

import logging
import random

import cocotb
from axil_bus import OKAY, SEED, Registers
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiBurstType, AxiBus, AxiMaster, AxiRam
from cocotbext.axi.constants import AxiResp

STATUS, CONTROL, COMMAND, FRAMES, CONTEXT, LOG = 0x08, 0x04, 0x0C, 0x10, 0x100, 0x40
READY, STARTED, BUSY = 1, 1 << 7, 1 << 1
FLUSH = 1
ON_DRIVE, WRITABLE = 1 << 30, 1 << 29
TABLE, FRAME_BASE, MEMORY = 0x10000, 0x100000, 1 << 21
PAGE, PAGES = 4096, 7


async def set_up(dut):
    """Clocks, memories, a table whose pages are those of the drive: the manager of the window, and the registers."""
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    registers = Registers(dut)
    for pin in ("away", "generation", "read_only", "s_awcontext", "s_arcontext"):
        getattr(dut, pin).value = 0
    dut.rst_ni.value = 0
    # Its lines about each burst take more time than the bursts.
    logging.getLogger("cocotb.smmu_sim").setLevel(logging.WARNING)
    manager = AxiMaster(AxiBus.from_prefix(dut, "s"), dut.clk_i, dut.rst_ni, reset_active_level=False)
    pages = AxiRam(AxiBus.from_prefix(dut, "m"), dut.clk_i, dut.rst_ni, reset_active_level=False, size=MEMORY)
    frames = AxiRam(AxiBus.from_prefix(dut, "d"), dut.clk_i, dut.rst_ni, reset_active_level=False, size=MEMORY, mem=pages.mem)
    source = random.Random(SEED)
    for part in (manager.write_if.aw_channel, manager.write_if.w_channel, manager.write_if.b_channel, manager.read_if.ar_channel,
                 manager.read_if.r_channel, frames.write_if.b_channel, frames.read_if.r_channel):
        part.set_pause_generator(iter(lambda: source.randrange(4) == 0, None))
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    for page in range(PAGES):
        pages.write_dword(TABLE + 4 * page, ON_DRIVE | WRITABLE | page)
    while (await registers.read(STATUS)) & (READY | STARTED) != READY | STARTED:
        pass
    # Context 0 exists, reads and writes; its last page; its table's address.
    for at, value in ((FRAMES, FRAME_BASE), (FRAMES + 4, 0), (CONTEXT, 7), (CONTEXT + 4, PAGES - 1), (CONTEXT + 8, TABLE), (CONTEXT + 12, 0),
                      (CONTROL, 1)):
        assert await registers.write(at, value) == OKAY
    return manager, registers, source


# partner: cocotbext-axi | program
@cocotb.test()
async def test_bursts_of_every_width_and_alignment(dut):
    """What the manager stores is what it loads, through more pages than frames, by bursts that it divides itself."""
    manager, registers, source = await set_up(dut)
    model = bytearray(PAGES * PAGE)
    # Whole pages first, so that the contents are known.
    for page in range(PAGES):
        await manager.write(page * PAGE, bytes(PAGE))
    for _ in range(60):
        size, length = source.randrange(3), source.randrange(1, 200)
        if source.randrange(4) == 0:
            length = source.randrange(1, 9)
        address = source.randrange(len(model) - length)
        if source.randrange(2):
            data = source.randbytes(length)
            done = await manager.write(address, data, size=size)
            model[address:address + length] = data
            assert done.resp == AxiResp.OKAY
        else:
            done = await manager.read(address, length, size=size)
            assert done.resp == AxiResp.OKAY and done.data == model[address:address + length], (address, length, size)
    # Several under way at once, of different pages.
    asked = [(address, manager.init_read(address, 64, size=address % 3)) for address in range(5, PAGES * PAGE - 64, PAGE // 2 + 1)]
    for address, reading in asked:
        await reading.wait()
        assert reading.data.data == model[address:address + 64]
    assert await registers.write(COMMAND, FLUSH) == OKAY
    while (await registers.read(STATUS)) & BUSY:
        pass
    assert (await registers.read(LOG)) >> 31 == 0


# partner: cocotbext-axi | program
@cocotb.test()
async def test_fixed_bursts(dut):
    """The last word of a fixed store stays, and a fixed load returns one word again and again."""
    manager, _, source = await set_up(dut)
    for words in (1, 2, 5, 16):
        at = 4 * source.randrange(PAGES * PAGE // 4)
        data = source.randbytes(4 * words)
        done = await manager.write(at, data, burst=AxiBurstType.FIXED)
        assert done.resp == AxiResp.OKAY
        assert (await manager.read(at, 4)).data == data[-4:]
        done = await manager.read(at, 4 * words, burst=AxiBurstType.FIXED)
        assert done.resp == AxiResp.OKAY and done.data == data[-4:] * words


# partner: cocotbext-axi | program
@cocotb.test()
async def test_refusals(dut):
    """The manager's own check of identifiers and of the number of words holds for a burst that is refused, too."""
    manager, registers, _ = await set_up(dut)
    for length in (1, 4, 64, 1000):
        done = await manager.read(PAGES * PAGE, length)
        assert done.resp == AxiResp.SLVERR and done.data == bytes(length)
        assert (await manager.write(PAGES * PAGE, bytes(length))).resp == AxiResp.SLVERR
    assert (await registers.read(LOG)) >> 31 == 1
