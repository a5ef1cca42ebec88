# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The nucleotide seed scan behind the file system core: a database's file of sequences on a volume, as the command stored it, is
scanned as it is. Run by test_blastn.py and by the figures; RESULT gets the counters."""

import json
import os
from pathlib import Path

import cocotb
from axil_bus import OKAY
from bench_blastn import BUSY, COMPARES, CONTROL, HITS, STALLS, START, STATUS, UNCHECKED, WAITS, WORDS, Core
from cocotb.triggers import ReadOnly, RisingEdge

MOUNT, READ = 0, 4
NAME = b"db.nsq"


async def command(dut, op, name=b"", length=0):
    """Gives a command to the file system core; returns its status and the cycles to its answer."""
    dut.cmd_op.value, dut.cmd_name_bytes.value, dut.cmd_length.value = op, len(name), length
    words = [int.from_bytes(name[at:at + 4], "little") for at in range(0, len(name), 4)]
    dut.cmd_valid.value, dut.answer_ready.value, cycles = 1, 1, 0
    while True:
        dut.name_valid.value = int(bool(words))
        if words:
            dut.name_data.value = words[0]
        await ReadOnly()
        offered, named, answered = (pin.value == 1 for pin in (dut.cmd_ready, dut.name_ready, dut.answer_valid))
        status = int(dut.answer_status.value)
        offered, named = offered and dut.cmd_valid.value == 1, named and bool(words)
        await RisingEdge(dut.clk_i)
        cycles += 1
        if offered:
            dut.cmd_valid.value = 0
        if named:
            words.pop(0)
        if answered:
            dut.answer_ready.value = 0
            return status, cycles
        assert cycles < 1_000_000


@cocotb.test()
async def a_database_on_a_volume(dut):
    for pin in ("cmd_valid", "cmd_flags", "cmd_file", "cmd_name2_bytes", "cmd_offset", "name_valid", "answer_ready", "give_valid",
                "give_data", "take_ready"):
        getattr(dut, pin).value = 0
    image = Path(os.environ["STRAIGHTWAY_IMAGE"]).read_bytes()
    words = dut.u_disks.gen_disk[0].u_memory.words_q
    for at in range(0, len(image), 4):
        if any(image[at:at + 4]):
            words[at // 4].value = int.from_bytes(image[at:at + 4], "little")
    core = await Core(dut).begin()
    database = Path(os.environ["STRAIGHTWAY_NSQ"])
    stream = database.read_bytes()
    expected = await core.load(os.environ["STRAIGHTWAY_QUERIES"].split(), stream, database.with_suffix(".nin"))
    entries = len(core.mask)
    assert (await command(dut, MOUNT))[0] == 0
    assert await core.registers.write(CONTROL, START) == OKAY
    await core.feed(entries)
    reading, hits = cocotb.start_soon(command(dut, READ, NAME, len(stream))), []
    while (status := await core.registers.read(STATUS)) & (BUSY | WAITS):
        if status & WAITS:
            hits.append(await core.take())
        if core.mask:
            await core.feed(8)
    status, cycles = await reading
    assert status == 0 and core.meaning(hits) == expected != []
    counters = {name: await core.registers.read(at) for name, at in
                (("words", WORDS), ("hits", HITS), ("stalls", STALLS), ("compares", COMPARES))}
    assert counters["words"] == -(-len(stream) // 4) and counters["hits"] == len(hits)
    unchecked = sum(bool(entry & UNCHECKED) for _, entry in hits)
    Path(os.environ["RESULT"]).write_text(json.dumps({**counters, "cycles": cycles, "unchecked": unchecked, "mask_entries": entries}))
