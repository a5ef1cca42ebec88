# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The virtio-blk device's registers in the order of the specification (virtio 1.2, 3.1.1 and 4.2.3), and requests through a
memory on AXI4. Run by test_virtio.py."""

import cocotb
from axil_bus import OKAY, SEED, Registers
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

MAGIC, VERSION, DEVICE_ID, FEATURES, FEATURES_SEL, DRIVER_FEATURES, DRIVER_FEATURES_SEL = 0, 4, 8, 0x10, 0x14, 0x20, 0x24
QUEUE_SEL, QUEUE_NUM_MAX, QUEUE_NUM, QUEUE_READY, QUEUE_NOTIFY = 0x30, 0x34, 0x38, 0x44, 0x50
INTERRUPT_STATUS, INTERRUPT_ACK, STATUS, GENERATION, CONFIG = 0x60, 0x64, 0x70, 0xFC, 0x100
DESCRIPTORS, AVAILABLE, USED = 0x80, 0x90, 0xA0
ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK, NEEDS_RESET = 1, 2, 4, 8, 64
VERSION_1, BLK_SIZE, READ_ONLY = 1 << 32, 1 << 6, 1 << 5
TABLE, RING, RETURNED, HEADER, DATA, RESULT = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x7000
IN, OUT, GET_ID = 0, 1, 8
NEXT, WRITE = 1, 2
BLOCKS, SIZE = 1024, 8


class Memory:
    """Answers the core's AXI4 bursts, and pauses at random."""

    def __init__(self, dut, random):
        self.dut, self.random, self.bytes, self.accesses = dut, random, bytearray(0x8000), 0

    def put(self, address, value, size):
        self.bytes[address:address + size] = value.to_bytes(size, "little")

    def get(self, address, size):
        return int.from_bytes(self.bytes[address:address + size], "little")

    async def serve(self):
        dut, reads, writes, answers = self.dut, [], [], 0
        while True:
            dut.m_arready.value = dut.m_awready.value = 1
            dut.m_wready.value = int(bool(writes) and self.random.randrange(3) > 0)
            dut.m_rvalid.value = int(bool(reads))
            if reads:
                dut.m_rdata.value, dut.m_rlast.value = self.get(reads[0][0], 4), int(reads[0][1] == 1)
            dut.m_bvalid.value = int(answers > 0)
            await ReadOnly()
            if reads and dut.m_rready.value == 1:
                reads[0] = (reads[0][0] + 4, reads[0][1] - 1)
                reads = reads[1:] if reads[0][1] == 0 else reads
            if dut.m_arvalid.value == 1:
                reads.append((int(dut.m_araddr.value), int(dut.m_arlen.value) + 1))
                self.accesses += 1
            answers -= int(answers > 0 and dut.m_bready.value == 1)
            if dut.m_wready.value == 1 and dut.m_wvalid.value == 1:
                address, left = writes[0]
                value, strobe = int(dut.m_wdata.value).to_bytes(4, "little"), int(dut.m_wstrb.value)
                for lane in range(4):
                    if strobe >> lane & 1:
                        self.bytes[address + lane] = value[lane]
                assert (dut.m_wlast.value == 1) == (left == 1)
                writes[0] = (address + 4, left - 1)
                if left == 1:
                    writes.pop(0)
                    answers += 1
            if dut.m_awvalid.value == 1:
                writes.append((int(dut.m_awaddr.value), int(dut.m_awlen.value) + 1))
                self.accesses += 1
            await RisingEdge(dut.clk_i)


class Device(Registers):
    async def put(self, register, value):
        assert await self.write(register, value) == OKAY

    async def features(self):
        words = []
        for half in (0, 1):
            await self.put(FEATURES_SEL, half)
            words.append(await self.read(FEATURES))
        return words[0] | words[1] << 32

    async def negotiate(self, features):
        """From the reset to FEATURES_OK; returns whether the device accepts."""
        await self.put(STATUS, 0)
        assert await self.read(STATUS) == 0
        await self.put(STATUS, ACKNOWLEDGE)
        await self.put(STATUS, ACKNOWLEDGE | DRIVER)
        for half in (0, 1):
            await self.put(DRIVER_FEATURES_SEL, half)
            await self.put(DRIVER_FEATURES, features >> 32 * half & 0xFFFFFFFF)
        await self.put(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK)
        return bool(await self.read(STATUS) & FEATURES_OK)

    async def queue(self):
        await self.put(QUEUE_SEL, 0)
        assert await self.read(QUEUE_READY) == 0
        assert await self.read(QUEUE_NUM_MAX) >= SIZE
        await self.put(QUEUE_NUM, SIZE)
        for register, address in ((DESCRIPTORS, TABLE), (AVAILABLE, RING), (USED, RETURNED)):
            await self.put(register, address)
            await self.put(register + 4, 0)
        await self.put(QUEUE_READY, 1)
        assert await self.read(QUEUE_READY) == 1

    async def interrupt(self):
        """Waits for the interrupt, acknowledges it, and returns its causes."""
        for _ in range(20000):
            await ReadOnly()
            raised = self.dut.irq.value == 1
            await RisingEdge(self.dut.clk_i)
            if raised:
                break
        else:
            raise AssertionError("no interrupt")
        causes = await self.read(INTERRUPT_STATUS)
        await self.put(INTERRUPT_ACK, causes)
        assert await self.read(INTERRUPT_STATUS) == 0
        return causes


async def begin(dut):
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    device = Device(dut)
    device.random.seed(SEED)
    memory = Memory(dut, device.random)
    dut.rst_ni.value = 0
    for _ in range(4):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    cocotb.start_soon(memory.serve())
    await RisingEdge(dut.clk_i)
    return device, memory


class Driver:
    """Submits one request at a time."""

    def __init__(self, device, memory):
        self.device, self.memory, self.number = device, memory, 0
        memory.bytes[RING:RING + 0x1000] = memory.bytes[RETURNED:RETURNED + 0x1000] = bytes(0x1000)

    async def ask(self, kind, sector, length):
        """Returns the status, and the length in the used entry."""
        memory = self.memory
        memory.put(HEADER, kind | sector << 64, 16)
        memory.put(RESULT, 0xFF, 1)
        chain = [(HEADER, 16, NEXT), (DATA, length, NEXT | (0 if kind == OUT else WRITE)), (RESULT, 1, WRITE)]
        for index, (address, size, flags) in enumerate(chain):
            memory.put(TABLE + 16 * index, address | size << 64 | flags << 96 | (index + 1) << 112, 16)
        memory.put(RING + 4 + 2 * (self.number % SIZE), 0, 2)
        self.number += 1
        memory.put(RING + 2, self.number, 2)
        await self.device.put(QUEUE_NOTIFY, 0)
        assert await self.device.interrupt() == 1
        assert memory.get(RETURNED + 2, 2) == self.number
        entry = RETURNED + 4 + 8 * ((self.number - 1) % SIZE)
        assert memory.get(entry, 4) == 0
        return memory.get(RESULT, 1), memory.get(entry + 4, 4)


@cocotb.test()
async def initialisation(dut):
    """The steps of the specification in their order, then requests; a reset, and the same again."""
    device, memory = await begin(dut)
    assert [await device.read(register) for register in (MAGIC, VERSION, DEVICE_ID)] == [0x74726976, 2, 2]
    for _ in range(2):
        await device.put(STATUS, 0)
        assert await device.features() & VERSION_1
        assert await device.negotiate(VERSION_1 | BLK_SIZE)
        before = await device.read(GENERATION)
        assert [await device.read(CONFIG + at) for at in (0, 4, 20)] == [BLOCKS, 0, 512]
        assert await device.read(GENERATION) == before
        await device.queue()
        assert memory.accesses == 0  # nothing before DRIVER_OK
        await device.put(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK)
        assert await device.read(STATUS) == ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK
        driver = Driver(device, memory)
        wrote = device.random.randbytes(2048)
        memory.bytes[DATA:DATA + 2048] = wrote
        assert await driver.ask(OUT, 100, 2048) == (0, 1)
        memory.bytes[DATA:DATA + 2048] = bytes(2048)
        assert await driver.ask(IN, 100, 2048) == (0, 2049)
        assert memory.bytes[DATA:DATA + 2048] == wrote
        assert await driver.ask(GET_ID, 0, 20) == (0, 21)
        assert memory.bytes[DATA:DATA + 20] == b"straightway-virtio-0"
        assert (await driver.ask(IN, BLOCKS, 512))[0] == 1  # beyond the end
        assert (await driver.ask(99, 0, 512))[0] == 2       # unknown
        await device.put(STATUS, 0)
        while await device.read(STATUS):
            pass
        assert await device.read(QUEUE_READY) == 0
        memory.accesses = 0


@cocotb.test()
async def steps_that_the_specification_refuses(dut):
    """Features without VERSION_1 or not offered; a queue size that is not a power of two."""
    device, memory = await begin(dut)
    for features in (BLK_SIZE, VERSION_1 | READ_ONLY, VERSION_1 | 1 << 40):
        assert not await device.negotiate(features)
        await device.put(STATUS, ACKNOWLEDGE | DRIVER | DRIVER_OK)
        assert not await device.read(STATUS) & DRIVER_OK
    assert await device.negotiate(VERSION_1)
    await device.put(QUEUE_NUM, 6)
    assert await device.read(STATUS) & NEEDS_RESET
    assert await device.negotiate(VERSION_1)
    await device.queue()
    assert memory.accesses == 0
