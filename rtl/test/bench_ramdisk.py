# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A RAM disk on its memory: data, faults, refused requests, the model's delays. Run by test_rtl.py."""

import os

import cocotb
from block_bus import DEVICE, EMPTY, FLUSH, OK, OUT_OF_RANGE, READ, UNSUPPORTED, WRITE, DISCARD, WRITE_ZEROES, Host
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

SEED = int(os.environ["STRAIGHTWAY_SEED"])
BLOCK = 64


async def start(dut, pause_percent=0):
    cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
    dut.fault.value = 0
    dut.fault_address.value = 0
    host = Host(dut, len(dut.write_data) // 8, BLOCK, SEED, pause_percent)
    dut.rst_ni.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    await RisingEdge(dut.clk_i)
    return host


@cocotb.test()
async def reads_back_what_was_written(dut):
    """Random writes and reads with pauses on both sides, compared with a copy in Python."""
    host = await start(dut, pause_percent=30)
    blocks = int(dut.block_count.value)
    image = bytearray(blocks * BLOCK)
    random = host.random
    for _ in range(6):
        writes = []
        free = list(range(0, blocks - 80, 80))
        for lba in random.sample(free, 6):
            count = random.randint(1, 70)  # up to more than a 4 KiB page
            data = random.randbytes(count * BLOCK)
            image[lba * BLOCK:(lba + count) * BLOCK] = data
            writes.append((WRITE, lba, count, data))
        assert all(result[0] == OK for result in await host.run(writes))
        reads = [(READ, write[1], write[2], None) for write in writes] + [(FLUSH, 0, 0, None)]
        for request, (status, _, data) in zip(reads, await host.run(reads)):
            assert status == OK
            if request[0] == READ:
                assert data == image[request[1] * BLOCK:(request[1] + request[2]) * BLOCK]


@cocotb.test()
async def writes_zeroes_between_writes_with_data(dut):
    """Write zeroes across a page boundary, among outstanding writes: the neighbouring blocks keep their bytes."""
    host = await start(dut, pause_percent=20)
    before, after, other = (host.random.randbytes(80 * BLOCK) for _ in range(3))
    assert [r[0] for r in await host.run([(WRITE, 20, 80, before), (WRITE, 100, 80, after)])] == [OK, OK]
    requests = [(WRITE, 200, 80, other), (WRITE_ZEROES, 50, 70, None), (WRITE_ZEROES, 300, 1, None),
                (WRITE, 400, 80, other)]
    assert [r[0] for r in await host.run(requests)] == [OK] * 4
    requests = [(READ, 20, 160, None), (READ, 200, 80, None), (READ, 300, 1, None), (READ, 400, 80, None)]
    results = await host.run(requests)
    assert results[0][2] == before[:30 * BLOCK] + bytes(70 * BLOCK) + after[20 * BLOCK:]
    assert [r[2] for r in results[1:]] == [other, bytes(BLOCK), other]


@cocotb.test()
async def a_memory_fault_is_on_the_request_that_met_it(dut):
    """SLVERR on one word: the requests that touch its burst fail with the AXI code, others do not."""
    host = await start(dut, pause_percent=10)
    dut.fault_address.value = 100 * BLOCK + 8
    data = bytes(4 * BLOCK)
    assert [r[0] for r in await host.run([(WRITE, 98, 4, data)])] == [OK]
    dut.fault.value = 1
    requests = [(READ, 90, 4, None), (READ, 98, 4, None), (READ, 104, 4, None), (WRITE, 98, 4, data),
                (WRITE, 110, 4, data), (FLUSH, 0, 0, None)]
    results = await host.run(requests)
    assert [r[0] for r in results] == [OK, DEVICE, OK, DEVICE, OK, OK]
    assert results[1][1] == results[3][1] == 2  # SLVERR
    assert len(results[1][2]) == 4 * BLOCK  # all words are transferred nevertheless


@cocotb.test()
async def a_wrong_request_is_refused_and_counted_to_the_word(dut):
    host = await start(dut, pause_percent=20)
    blocks = int(dut.block_count.value)
    requests = [(READ, blocks, 1, None), (READ, blocks - 1, 2, None), (WRITE, blocks - 1, 3, bytes(3 * BLOCK)),
                (READ, 5, 0, None), (WRITE, 5, 0, b""), (DISCARD, 0, 1, None), (READ, blocks - 1, 1, None),
                (WRITE_ZEROES, blocks - 1, 2, None), (7, 0, 1, None),
                (READ, (1 << 48) - 1, 2, None)]
    results = await host.run(requests)
    assert [r[0] for r in results] == [OUT_OF_RANGE, OUT_OF_RANGE, OUT_OF_RANGE, EMPTY, EMPTY, UNSUPPORTED, OK,
                                       OUT_OF_RANGE, UNSUPPORTED, OUT_OF_RANGE]
    assert [len(r[2]) for r in results] == [BLOCK, 2 * BLOCK, 0, 0, 0, 0, BLOCK, 0, 0, 2 * BLOCK]
    assert not any(results[1][2])  # zeroes
