"""The profiling timer: stamps, order, counts, overflow, pause, trigger and clear, against a model that watches the pins. Run by
test_timer.py."""

import cocotb
from axil_bus import OKAY, SEED, SLVERR, Registers
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

ID, SHAPE, CONTROL, STATUS, EVENT, LINES, TRIGGER = range(0, 0x1c, 4)
STORED, LOST, NOW_LOW, NOW_HIGH, AT_LOW, AT_HIGH, TAG, SOURCE, NEXT = range(0x20, 0x44, 4)
COUNTS = 0x80
RECORD, ARM, CLEAR = 1, 2, 4


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
    assert await registers.read(SHAPE) & 0xff == len(dut.lines)
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
    for turn in range(12):
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
    for address in (ID, STORED, LOST, 0x44, 0x7c, COUNTS, 0x200):
        assert await registers.write(address, 0) == SLVERR
    for address in (EVENT, TRIGGER, NEXT, 0x44, COUNTS + 4 * len(dut.lines)):
        assert await registers.read(address, good=False) == SLVERR
