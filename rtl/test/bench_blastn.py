# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The nucleotide seed scan: its hits, their order and its counters against the scalar model in Rust. Run by test_blastn.py."""

import os
import random
import subprocess
from pathlib import Path

import cocotb
from axil_bus import OKAY, SEED, SLVERR, Registers
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

ID, SHAPE, CONTROL, STATUS, ADDRESS, PRESENT, DIRECTORY, ENTRY = range(0, 0x20, 4)
HIT_BASE, HIT_ENTRY, NEXT, WORDS, HITS, STALLS, COMPARES, MASK = range(0x20, 0x40, 4)
POSITION, WINDOW = 0x40, 0x44
START, STOP = 1, 2
BUSY, WAITS = 1, 2
UNCHECKED = 1 << 20
FOLDER = Path(os.environ["BLASTN_FOLDER"])


class Core:
    """The core with a processor and a source of words."""

    def __init__(self, dut):
        self.dut, self.registers, self.random = dut, Registers(dut), random.Random(SEED)
        self.memories, self.mask, self.mask_file, self.pairs = {}, [], FOLDER / "mask", "0:0"

    async def begin(self):
        dut = self.dut
        cocotb.start_soon(Clock(dut.clk_i, 10, "ns").start())
        dut.rst_ni.value = 0
        if hasattr(dut, "valid"):
            dut.valid.value = 0
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        for _ in range(2):
            await RisingEdge(dut.clk_i)
        self.shape = await self.registers.read(SHAPE)
        return self

    async def fill(self, register, words):
        """Writes a memory from address 0 on, as fast as the bus takes it; words that are there already are left out."""
        dut, before = self.dut, self.memories.get(register, [])
        at = None
        dut.bready.value = 1
        for index, word in enumerate(words):
            if index < len(before) and before[index] == word:
                continue
            for address, value in ([(ADDRESS, index)] if at != index else []) + [(register, word)]:
                dut.awaddr.value, dut.wdata.value, dut.awvalid.value, dut.wvalid.value = address, value, 1, 1
                await RisingEdge(dut.clk_i)
                dut.awvalid.value, dut.wvalid.value = 0, 0
                await RisingEdge(dut.clk_i)
            at = index + 1
        dut.bready.value = 0
        self.memories[register] = list(words)

    async def load(self, queries, stream, mask=()):
        """Loads the table for these queries; returns the hits that the model has in the stream, of which these ranges of bases (or what
        the index of a database names) are masked."""
        if isinstance(mask, Path):
            self.mask_file = mask
        else:
            self.mask_file.write_text("".join(f"{first} {end}\n" for first, end in mask))
        (FOLDER / "query.fa").write_text("".join(f">q{at}\n{query}\n" for at, query in enumerate(queries)))
        (FOLDER / "stream").write_bytes(stream)
        lines = self.model()
        image = {name: [int(word, 16) for word in rest] for name, *rest in lines[:5]}
        await self.fill(PRESENT, image["present"])
        await self.fill(DIRECTORY, image["directory"])
        await self.fill(ENTRY, image["entries"])
        if self.pairs != "0:0":
            await self.fill(POSITION, image["positions"])
        self.mask = image["mask"]
        return [(int(base), int(position)) for _, base, position in lines[5:]]

    def model(self, *words):
        shape = [str(self.shape >> 8 & 255), str(self.shape >> 16 & 255)]
        done = subprocess.run([os.environ["EXAMPLE"], FOLDER / "query.fa", FOLDER / "stream", *shape, self.mask_file, self.pairs, *words],
                              check=True, stdout=subprocess.PIPE, text=True)
        return [line.split() for line in done.stdout.splitlines()]

    def meaning_without_mask(self):
        """The hits of the model in the last stream as if nothing was masked."""
        file = self.mask_file
        self.mask_file = FOLDER / "no_mask"
        self.mask_file.write_text("")
        lines = self.model()
        self.mask_file = file
        return lines[5:]

    def meaning(self, hits):
        """Hits in registers as places in stream and table: those that the core has not checked only if they are seeds."""
        lines = self.model("--", *(f"{base}:{entry}" for base, entry in hits)) if hits else []
        return [(int(line[1]), int(line[2])) for line in lines if line[0] == "found"]

    async def send(self, stream, pause_percent):
        """Offers the words of the stream; returns the cycles from the first offer to the last word."""
        dut, cycles = self.dut, 0
        for at in range(0, len(stream), 4):
            while self.random.randrange(100) < pause_percent:
                await RisingEdge(dut.clk_i)
            word = stream[at:at + 4]
            dut.data.value = int.from_bytes(word + self.random.randbytes(4 - len(word)), "little")
            dut.keep.value, dut.last.value, dut.valid.value = (1 << len(word)) - 1, int(at + 4 >= len(stream)), 1
            taken = False
            while not taken:
                await ReadOnly()
                taken = dut.ready.value == 1
                await RisingEdge(dut.clk_i)
                cycles += 1
            dut.valid.value = 0
        return cycles

    async def take(self):
        """One hit that waits."""
        hit = (await self.registers.read(HIT_BASE), await self.registers.read(HIT_ENTRY))
        assert await self.registers.write(NEXT, 0) == OKAY
        return hit

    async def feed(self, most):
        """Writes as many entries of the mask as there is room for, at most so many."""
        for _ in range(min(most, len(self.mask), await self.registers.read(MASK))):
            if await self.registers.write(MASK, self.mask.pop(0)) != OKAY:
                return  # the stream has ended

    async def run(self, stream, pause_percent=0, most=5000, ahead=1000, entries=1000, late=0):
        """Sends a stream; returns its hits and the cycles of sending. The processor writes `ahead` entries of the mask before the first
        word, and up to `entries` after each hit that it takes; it looks `late` cycles after the first word."""
        assert await self.registers.write(CONTROL, START) == OKAY
        await self.feed(ahead)
        for _ in range(4):  # from a write until the entry is at work
            await RisingEdge(self.dut.clk_i)
        sending, hits = cocotb.start_soon(self.send(stream, pause_percent)), []
        for _ in range(late):
            await RisingEdge(self.dut.clk_i)
        while (status := await self.registers.read(STATUS)) and len(hits) <= most:
            if status & WAITS:
                hits.append(await self.take())
            if self.mask and status & BUSY:
                await self.feed(entries)
        return hits, await sending


def packed(random_, count, letters):
    codes = [random_.randrange(letters) for _ in range(4 * count)]
    return bytes(codes[at] << 6 | codes[at + 1] << 4 | codes[at + 2] << 2 | codes[at + 3] for at in range(0, 4 * count, 4))


def until_reached(rounds, counts, floor, most=100):
    """Numbers of rounds: as many as given, and more while one of the counts is not above its floor."""
    for round_ in range(most):
        if round_ >= rounds and min(counts.values()) > floor:
            return
        yield round_
    raise AssertionError(f"not reached in {most} rounds: {counts}")


def letters_of(stream, first, count):
    return "".join("ACGT"[stream[at // 4] >> (6 - 2 * (at % 4)) & 3] for at in range(first, first + count))


@cocotb.test()
async def finds_what_the_model_finds_in_the_same_order(dut):
    """Streams of any length with few letters, which have many hits; several queries; pauses, and hits that wait."""
    core = await Core(dut).begin()
    assert await core.registers.read(ID) == 0x54534c42
    counts = {"found": 0}
    for round_ in until_reached(16, counts, 15):
        letters = core.random.choice((2, 3, 4))
        stream = packed(core.random, core.random.choice((1, 2, 3, 4, 5, 60, 121)) if round_ % 4 else 190, letters)
        queries = ["".join(core.random.choice("ACGT"[:letters]) for _ in range(core.random.randrange(11, 25))) + "N"
                   for _ in range(core.random.randrange(1, 3))]
        if len(stream) > 50:
            queries[0] += letters_of(stream, core.random.randrange(80), 30)
            queries[-1] += letters_of(stream, 4 * len(stream) - 15, 15)
        expected = await core.load(queries, stream)
        hits, _ = await core.run(stream, core.random.choice((0, 50)))
        assert core.meaning(hits) == expected, f"round {round_}"
        assert await core.registers.read(HITS) == len(expected)
        assert await core.registers.read(WORDS) == -(-len(stream) // 4)
        counts["found"] += len(expected)


@cocotb.test()
async def is_busy_until_its_last_hit_waits(dut):
    """A processor that looks in any cycle: it stops when the core neither is busy nor has a hit."""
    core = await Core(dut).begin()
    stream = packed(core.random, 3, 4)
    expected = await core.load([letters_of(stream, 0, 11) + "N"], stream)
    assert len(expected) == 1
    for late in range(40):
        hits, _ = await core.run(stream, late=late)
        assert core.meaning(hits) == expected, f"{late} cycles after the first word"


def ranges(random_, bases, most_bases, apart):
    """Ranges of bases in order."""
    at, all_ = random_.randrange(apart), []
    while at < bases:
        end = at + random_.randrange(1, most_bases)
        all_.append((at, end))
        at = end + random_.randrange(apart)
    return all_


@cocotb.test()
async def drops_what_is_masked_and_shows_what_it_could_not_check(dut):
    """Lists with one range and with one in each word; longer ones than the memory, refilled in time and too late."""
    core = await Core(dut).begin()
    assert await core.registers.read(MASK) == 8 and await core.registers.write(MASK, 0) == SLVERR
    counts = {"dropped": 0, "checked": 0, "unchecked": 0}
    for round_ in until_reached(12, counts, 5):
        unit = packed(core.random, 6, 4)
        stream = b"".join(core.random.choice((unit, packed(core.random, core.random.randrange(1, 9), 4)))
                          for _ in range(core.random.choice((1, 6, 24, 30))))
        queries = [letters_of(unit, core.random.randrange(4), 20)]
        mask = ranges(core.random, 4 * len(stream), *core.random.choice(((2, 25), (30, 60), (150, 150), (5, 300))))
        expected = await core.load(queries, stream, mask)
        everything = len(core.meaning_without_mask())
        in_time = round_ % 3 == 0
        if in_time:
            # All of the list is in the core before the first word.
            while len(core.mask) > 8:
                mask.pop()
                expected = await core.load(queries, stream, mask)
            everything = len(core.meaning_without_mask())
        ahead = 1000 if in_time else core.random.choice((0, 1, 8))
        hits, _ = await core.run(stream, core.random.choice((0, 50, 90)), ahead=ahead, entries=core.random.choice((1, 3, 8)))
        assert core.meaning(hits) == expected, f"round {round_}"
        flagged = sum(bool(entry & UNCHECKED) for _, entry in hits)
        assert not (in_time and flagged), f"round {round_}"
        counts["dropped"] += everything - len(hits)
        counts["checked"] += len(hits) - flagged
        counts["unchecked"] += flagged
    # The list is of one stream: the next one has none.
    expected = await core.load(queries, stream, ())
    core.mask = []
    hits, _ = await core.run(stream)
    assert core.meaning(hits) == expected and all(entry & UNCHECKED for _, entry in hits)


@cocotb.test()
async def drops_what_has_no_second_hit_on_its_diagonal(dut):
    """Windows of all sizes, more positions than slots, streams one after the other; without a mask all pass."""
    core = await Core(dut).begin()
    counts = {"dropped": 0, "passed": 0}
    for round_ in until_reached(8, counts, 5):
        unit = packed(core.random, core.random.choice((8, 12)), 4)
        stream = b""
        while len(stream) < 150:
            copy = bytearray(unit)
            for _ in range(core.random.randrange(4)):
                copy[core.random.randrange(len(copy))] ^= 1 << core.random.randrange(8)
            stream += bytes(copy) + core.random.randbytes(core.random.randrange(4))
        window = core.random.choice((0, 11, 20, 40, 90)) if round_ else 40
        # The core's slots: log2.
        core.pairs = f"5:{window}"
        assert await core.registers.write(WINDOW, window) == OKAY
        expected = await core.load([letters_of(unit * 2, 0, 4 * len(unit) + 20)], stream)
        core.pairs = "5:0"
        everything = len(core.meaning_without_mask())
        core.pairs = f"5:{window}"
        hits, _ = await core.run(stream, core.random.choice((0, 50)))
        assert core.meaning(hits) == expected, f"round {round_}"
        counts["dropped"] += everything - len(hits)
        counts["passed"] += len(hits)
        core.mask = []
    hits, _ = await core.run(stream)
    assert len(hits) == everything
    assert await core.registers.write(WINDOW, 0) == OKAY


@cocotb.test()
async def takes_a_word_a_cycle_and_counts_the_cycles_in_which_it_cannot(dut):
    core = await Core(dut).begin()
    core.memories = {}
    stream = packed(core.random, 4000, 4)
    queries = [letters_of(stream, 8000 * part + 100, 55) for part in range(2)]
    expected = await core.load(queries, stream)
    hits, cycles = await core.run(stream)
    assert core.meaning(hits) == expected and len(expected) >= 2 * (55 - 11) // 4
    assert (cycles, await core.registers.read(STALLS)) == (len(stream) // 4, 0)
    assert await core.registers.read(COMPARES) >= len(expected)
    # Ranges in each word: they do not cost a cycle, and all that the list reaches is dropped.
    mask = [(at, at + 1) for at in range(4, 4 * len(stream), 8)]
    assert await core.load(queries, stream, mask) == []
    core.mask = core.mask[:8]
    hits, cycles = await core.run(stream)
    assert core.meaning(hits) == [] and all(base >= 7 * 16 for base, _ in hits)
    assert (cycles, await core.registers.read(STALLS)) == (len(stream) // 4, 0)
    # One letter: each look-up has all entries. The source waits, and nothing is lost.
    stream = bytes(40)
    expected = await core.load(["A" * 30], stream)
    hits, cycles = await core.run(stream)
    assert core.meaning(hits) == expected and len(expected) > 500
    assert await core.registers.read(STALLS) == cycles - len(stream) // 4


@cocotb.test()
async def refuses_changes_in_a_run_and_stops(dut):
    core = await Core(dut).begin()
    core.memories = {}
    write = core.registers.write
    stream = bytes(400)
    await core.load(["A" * 30], stream)
    assert await write(NEXT, 0) == SLVERR and await write(CONTROL, START | STOP) == SLVERR and await write(0x48, 0) == SLVERR
    assert await core.registers.read(CONTROL, good=False) == SLVERR
    dut.valid.value, dut.data.value, dut.keep.value, dut.last.value = 1, 0, 15, 0
    for _ in range(5):
        await RisingEdge(dut.clk_i)
    assert await core.registers.read(STATUS) == 0 and dut.ready.value == 0
    assert await write(CONTROL, START) == OKAY
    for _ in range(100):
        await RisingEdge(dut.clk_i)
    for register in (CONTROL, ADDRESS, PRESENT, DIRECTORY, ENTRY, POSITION, WINDOW):
        assert await write(register, 1) == SLVERR
    # The mask alone is written in a run, while there is room.
    room = await core.registers.read(MASK)
    assert room == 8 and [await write(MASK, 0) for _ in range(room + 1)] == [OKAY] * room + [SLVERR]
    assert await core.registers.read(STATUS) == BUSY | WAITS
    assert await write(CONTROL, STOP) == OKAY
    assert await core.registers.read(STATUS) == 0
    dut.valid.value = 0
    # Nothing of it is in the next stream.
    hits, _ = await core.run(stream[:40])
    expected = await core.load(["A" * 30], stream[:40])
    assert core.meaning(hits) == expected != []
