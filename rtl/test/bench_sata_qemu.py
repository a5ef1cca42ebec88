# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Serial ATA host with QEMU's drive. Run by test_sata.py."""

import os
from pathlib import Path

import bench_sata
import cocotb
import sata_states
from bench_sata import ready
from block_bus import DEVICE, DISCARD, FLUSH, OK, READ, WRITE, Host
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from qemu_drive import Ahci, QemuDrive
from sata_drive import BLOCK

FOLDER = Path(os.environ["STRAIGHTWAY_FOLDER"])
QUEUE = os.environ["STRAIGHTWAY_QUEUE"] == "1"
BLOCKS, BAD = 4096, 3000


async def start(dut, errors=(), **device):
    image = FOLDER / "image"
    image.write_bytes(bytes(BLOCKS * BLOCK))
    ahci = Ahci(image, FOLDER, errors, **device)
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    for pin in ("cancel", "up", "rx_bad", "rx_data", "rx_clk_i", "rx_bits", "rx_idle", "rate_now"):
        getattr(dut, pin).value = 0
    dut.rx_k.value = 1
    host = Host(dut, 4, BLOCK, bench_sata.SEED)
    drive = QemuDrive(dut, ahci, bench_sata.SEED)
    dut.rst_ni.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    cocotb.start_soon(drive.run())
    if "ide-cd" not in ahci.device:
        await ready(dut)
    return host, drive, image


@cocotb.test()
async def what_is_written_is_on_the_drive(dut):
    """IDENTIFY DEVICE, queued or single writes and reads up to 40 blocks, a flush, and a discard, as QEMU understands them."""
    host, drive, image = await start(dut)
    try:
        assert int(dut.block_count.value) == BLOCKS and int(dut.volatile_write_cache.value) and int(dut.discard.value)
        wrote = [(WRITE, 100 * at + 7, count, host.random.randbytes(count * BLOCK)) for at, count in enumerate((40, 1, 2, 17, 16, 5, 3, 8))]
        assert {result[0] for result in await host.run(wrote, limit_cycles=200000)} == {OK}
        assert [result[0] for result in await host.run([(FLUSH, 0, 0, None)])] == [OK]
        held = image.read_bytes()
        wanted = bytearray(BLOCKS * BLOCK)
        for _, lba, count, data in wrote:
            wanted[lba * BLOCK:(lba + count) * BLOCK] = data
        assert held == wanted
        reads = await host.run([(READ, lba, count, None) for _, lba, count, _ in wrote], limit_cycles=200000)
        assert [(status, data) for status, _, data in reads] == [(OK, data) for _, _, _, data in wrote]
        assert [result[0] for result in await host.run([(DISCARD, 16, 24, None)])] == [OK]
        wanted[16 * BLOCK:40 * BLOCK] = bytes(24 * BLOCK)
        assert (await host.run([(READ, 7, 40, None)], limit_cycles=100000))[0] == (OK, 0, wanted[7 * BLOCK:47 * BLOCK])
        assert image.read_bytes() == wanted
        assert drive.resets == 0 and drive.codes.keys() == {0xEC, 0xEF, 0xEA, 0x06} | ({0x60, 0x61} if QUEUE else {0x25, 0x35})
    finally:
        drive.ahci.close()


@cocotb.test()
@cocotb.parametrize(op=[READ, WRITE])
async def a_block_that_fails(dut, op):
    """Without a queue the one command fails. QEMU has no READ LOG EXT, so a queue is ended by a reset: as the row `log-refused`."""
    host, drive, image = await start(dut, [({READ: "read", WRITE: "write"}[op], BAD)])
    try:
        requests = [(op, lba, 2, host.random.randbytes(2 * BLOCK) if op == WRITE else None) for lba in (0, 40, BAD - 1, 80, 120)]
        results = await host.run(requests, limit_cycles=200000)
        counts = {status: sum(result[0] == status for result in results) for status in {result[0] for result in results}}
        detail = next((detail for status, detail, _ in results if status == DEVICE), 0)
        ended = sata_states.outcome(counts, detail, drive.resets)
        assert ended == (sata_states.ROWS["log-refused"] if QUEUE else "one error 0441"), results
        assert results[2][0] != OK and drive.happened, results
        await ready(dut)
        data = host.random.randbytes(3 * BLOCK)
        for one, wanted in (((WRITE, 200, 3, data), (OK, 0, b"")), ((FLUSH, 0, 0, None), (OK, 0, b"")), ((READ, 200, 3, None), (OK, 0, data))):
            assert (await host.run([one], limit_cycles=100000))[0] == wanted
        held = image.read_bytes()
        for (_, lba, _, data), (status, _, _) in zip(requests, results):
            assert op == READ or status != OK or held[lba * BLOCK:(lba + 2) * BLOCK] == data
    finally:
        drive.ahci.close()


@cocotb.test()
async def a_flush_that_fails(dut):
    """QEMU's drive keeps the block, whatever became of it on the host."""
    host, drive, image = await start(dut, [("flush", None)])
    try:
        data = host.random.randbytes(2 * BLOCK)
        results = await host.run([(WRITE, 5, 2, data)]) + await host.run([(FLUSH, 0, 0, None)]) + await host.run([(READ, 5, 2, None)])
        assert results == [(OK, 0, b""), (DEVICE, 0x0441, b""), (OK, 0, data)] and drive.resets == 0
        assert image.read_bytes()[5 * BLOCK:7 * BLOCK] == data
    finally:
        drive.ahci.close()


@cocotb.test()
@cocotb.parametrize(option=["write-cache=on", "write-cache=off", "discard_granularity=0"])
async def what_a_drive_says_of_itself(dut, option):
    _, drive, _ = await start(dut, device=f"ide-hd,{option}")
    try:
        said = {name: int(getattr(dut, name).value) for name in ("volatile_write_cache", "discard", "block_count")}
        assert said == {"volatile_write_cache": option != "write-cache=off", "discard": option != "discard_granularity=0", "block_count": BLOCKS}
    finally:
        drive.ahci.close()


@cocotb.test()
async def a_packet_device_is_not_used(dut):
    _, drive, _ = await start(dut, device="ide-cd")
    try:
        for _ in range(30000):
            await RisingEdge(dut.clk_i)
            assert dut.ready.value == 0
        assert drive.codes == {} and drive.resets == 0
    finally:
        drive.ahci.close()
