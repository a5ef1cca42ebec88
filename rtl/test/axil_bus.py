# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Registers behind AXI4-Lite, driven as by a processor, for cocotb."""

import os
import random

import cocotb
from cocotb.triggers import ReadOnly, RisingEdge

SEED = int(os.environ["STRAIGHTWAY_SEED"])
OKAY, SLVERR = 0, 2


class Registers:
    def __init__(self, dut):
        self.dut, self.random = dut, random.Random(SEED)
        for pin in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            getattr(dut, pin).value = 0
        dut.wstrb.value = 15

    async def take(self, valid, ready, limit=50):
        """Waits until the offer on this channel is taken."""
        valid.value = 1
        for _ in range(limit):
            await ReadOnly()
            taken = ready.value == 1
            await RisingEdge(self.dut.clk_i)
            if taken:
                valid.value = 0
                return
        raise AssertionError("an offer was not taken")

    async def pause(self):
        for _ in range(self.random.randrange(3)):
            await RisingEdge(self.dut.clk_i)

    async def write(self, address, value):
        """Writes with address and data in either order; returns the response."""
        dut = self.dut
        dut.awaddr.value, dut.wdata.value = address, value
        first, second = self.random.sample([(dut.awvalid, dut.awready), (dut.wvalid, dut.wready)], 2)
        one = cocotb.start_soon(self.take(*first))
        await self.pause()
        await self.take(*second)
        await one
        return (await self.response(dut.bvalid, dut.bready, dut.bresp))[0]

    async def read(self, address, good=True):
        self.dut.araddr.value = address
        await self.take(self.dut.arvalid, self.dut.arready)
        status, value = await self.response(self.dut.rvalid, self.dut.rready, self.dut.rresp, self.dut.rdata)
        assert not good or status == OKAY, hex(address)
        return value if good else status

    async def response(self, valid, ready, *values):
        await self.pause()
        ready.value = 1
        for _ in range(50):
            await ReadOnly()
            found = [int(pin.value) for pin in values] if valid.value == 1 else None
            await RisingEdge(self.dut.clk_i)
            if found:
                ready.value = 0
                return found
        raise AssertionError("no response")
