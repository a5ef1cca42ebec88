# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Serial ATA host with the drive of `sata_drive.py`. Run by test_sata.py."""

import os

import cocotb
from block_bus import DEVICE, FLUSH, OK, READ, WRITE, Host
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from sata_drive import BLOCK, Drive

SEED = int(os.environ["STRAIGHTWAY_SEED"])
BLOCKS = 512
ABORTED, GONE = 8, 9


async def start(dut, pause_percent=0, **model):
    """A host and a drive that is ready."""
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    for pin in ("cancel", "up", "rx_bad", "rx_data", "rx_clk_i", "rx_bits", "rx_idle", "rate_now"):
        getattr(dut, pin).value = 0
    dut.rx_k.value = 1
    host = Host(dut, 4, BLOCK, SEED, pause_percent)
    drive = Drive(dut, BLOCKS, SEED, **model)
    dut.rst_ni.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    cocotb.start_soon(drive.run())
    await ready(dut)
    assert int(dut.block_count.value) == BLOCKS
    return host, drive


async def ready(dut):
    for _ in range(5000):
        await RisingEdge(dut.clk_i)
        if dut.ready.value == 1:
            return
    raise AssertionError("the drive never became ready")


def writes(random, number):
    """Writes that do not overlap; one is longer than a data frame."""
    lengths = [17, *(random.randint(1, 6) for _ in range(number - 1))]
    starts = random.sample(range(0, BLOCKS - 20, 20), number)
    return [(WRITE, lba, count, random.randbytes(count * BLOCK)) for lba, count in zip(starts, lengths)]


async def round_trip(host, drive, number=8):
    """Writes, a flush, and reads of the same blocks."""
    wrote = writes(host.random, number)
    assert {result[0] for result in await host.run(wrote, limit_cycles=100000)} == {OK}
    assert [result[0] for result in await host.run([(FLUSH, 0, 0, None)])] == [OK]
    for _, lba, count, data in wrote:
        assert drive.data[lba * BLOCK:(lba + count) * BLOCK] == data
    reads = [(READ, lba, count, None) for _, lba, count, _ in wrote]
    for (_, _, _, data), (status, _, got) in zip(wrote, await host.run(reads, limit_cycles=100000)):
        assert (status, got) == (OK, data)


@cocotb.test()
async def a_queue_that_reorders(dut):
    """Both sides pause; the idle drive requests a low-power state, which the host refuses."""
    host, drive = await start(dut, pause_percent=30, hold_percent=10, power=True)
    await round_trip(host, drive)
    assert drive.resets == 0 and drive.naks and drive.setups == 16


@cocotb.test()
async def one_command_at_a_time(dut):
    """The host's consumer is slow: its HOLD reaches the drive in the middle of frames."""
    host, drive = await start(dut, pause_percent=60, queue=False, hold_percent=10)
    await round_trip(host, drive, 4)
    assert drive.resets == 0 and drive.setups == 0 and drive.holds


@cocotb.test()
async def refused_commands_are_repeated(dut):
    """R_ERR for the first command of the host, IDENTIFY, and for one that is queued."""
    host, drive = await start(dut, refuse=[1, 4])
    await round_trip(host, drive, 3)
    assert drive.resets == 0


@cocotb.test()
async def a_refused_data_frame_fails_its_write(dut):
    """The frame after IDENTIFY, SET FEATURES and the write; it is not repeated, and the next write works."""
    host, drive = await start(dut, queue=False, refuse=[4])
    results = await host.run([(WRITE, 5, 2, bytes(2 * BLOCK)), (WRITE, 9, 2, bytes(2 * BLOCK))])
    assert [result[:2] for result in results] == [(DEVICE, 0x8451), (OK, 0)]
    assert drive.resets == 0
    await round_trip(host, drive, 3)


@cocotb.test()
async def a_wrong_crc_in_data_of_the_drive(dut):
    """One read of four fails with the drive's interface error, which the log names; the others are aborted or good."""
    host, drive = await start(dut, spoil=[3])  # the first is IDENTIFY's
    results = await host.run([(READ, lba, 2, None) for lba in (0, 10, 20, 30)])
    statuses = [result[0] for result in results]
    assert statuses.count(DEVICE) == 1 and set(statuses) <= {OK, DEVICE, ABORTED}
    assert results[statuses.index(DEVICE)][1] == 0x8441
    assert drive.resets == 0
    await round_trip(host, drive, 3)


@cocotb.test()
async def a_queued_command_fails_after_its_data(dut):
    """The drive discards the queue before its log: that ends no command well. One error, the others are aborted or on the drive."""
    host, drive = await start(dut)
    for number, op in ((3, WRITE), (11, READ)):
        drive.does = {"fail": number}
        requests = [(op, 20 * at, 2, host.random.randbytes(2 * BLOCK) if op == WRITE else None) for at in range(8)]
        results = await host.run(requests, limit_cycles=100000)
        statuses = [result[0] for result in results]
        assert statuses.count(DEVICE) == 1 and set(statuses) <= {OK, DEVICE, ABORTED}, statuses
        assert results[statuses.index(DEVICE)][1] == 0x4041
        for (_, lba, count, data), status in zip(requests, statuses):
            assert op == READ or status != OK or drive.data[lba * BLOCK:(lba + count) * BLOCK] == data
    assert drive.resets == 0 and drive.clears == 2
    await round_trip(host, drive, 3)


@cocotb.test()
async def a_queued_command_fails_before_its_data(dut):
    host, drive = await start(dut, does={"fail": 3}, when="before")
    statuses = [result[0] for result in await host.run(writes(host.random, 8), limit_cycles=100000)]
    assert statuses.count(DEVICE) == 1 and set(statuses) <= {OK, DEVICE, ABORTED}, statuses
    assert drive.resets == 0 and drive.clears == 1
    await round_trip(host, drive, 3)


@cocotb.test()
async def a_wrong_tag_resets_the_drive(dut):
    host, drive = await start(dut, lie=[2])
    statuses = {result[0] for result in await host.run([(READ, lba, 2, None) for lba in (0, 10, 20, 30)])}
    assert DEVICE in statuses and statuses <= {OK, DEVICE, GONE} and drive.resets == 1
    await ready(dut)
    await round_trip(host, drive, 3)
