# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The link between nodes: every word once and in order over a line that damages, loses and shifts; bounds; blocks against a model.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import benches  # noqa: E402
import cores  # noqa: E402
import sizes  # noqa: E402
from link_model import CONTROL, IDLE, Frame, Scrambler, parse  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1

SHAPES = {
    "default": {"WindowLog2": 10, "FrameWords": 128, "DeadLog2": 13, "SlipBlocks": 32},
    "short": {"WindowLog2": 8, "FrameWords": 16, "DeadLog2": 12, "SlipBlocks": 8},
    # The window does not cover the line: words wait for receipts.
    "small": {"WindowLog2": 5, "FrameWords": 5, "DeadLog2": 12, "SlipBlocks": 4},
}


@pytest.mark.cells("top")
@pytest.mark.parametrize("top,core,parameters", [
    ("link", "link", {}),
    ("link", "link", {"WindowLog2": 14, "FrameWords": 1, "DeadLog2": 20, "SlipBlocks": 1}),
    ("link_sim", "link_sim", {}),
])
def test_lint(top, core, parameters):
    assert cores.lint(top, core, parameters) == ""


@pytest.mark.repeated()
def test_yosys_reads_it_too():
    """The second reader: slang, in Yosys. Latches and combinational loops are errors; memories are block RAMs."""
    assert 0 < sizes.block_rams("link", "xc7") <= 4


def run(name, *words):
    program = benches.build(f"link_{name}", "link_sim", "link/link_bench.cpp", SHAPES[name], core="link_sim", shared=True)
    done = subprocess.run([program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, f"{name}: link_bench {' '.join(map(str, words))}\n{done.stdout[-2000:]}"
    return done.stdout


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_every_word_once_and_in_order(name):
    """Changed bits, bursts, lost blocks, lost bits with the loss of lock, dead times; then all arrive within a bound."""
    returns = 0
    for seed in range(SEED, SEED + 6):
        returns += int(run(name, "random", seed, 100000).split(" returns")[0].split()[-1])
    assert returns > 100


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_recovery_is_bounded(name):
    run(name, "recover", SEED, 6)


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", ["default", "short"])
def test_latency_is_bounded(name):
    """Of single words, and of words behind others; with and without the pauses of a gearbox. A single word comes at once."""
    found = dict(line.split() for line in run(name, "latency", SEED).splitlines())
    assert int(found["plain_1"]) <= 16


def test_the_rate():
    """Both directions at once; only start, end and an idle block are between the words of two frames, on lines of up to 300 blocks."""
    limit = 128 / 131
    for delay in (1, 300):
        rates = [float(line.split()[1]) for line in run("default", "rate", 100000, delay).splitlines()]
        assert len(rates) == 2
        assert all(max(0.97, 0.999 * limit) <= rate <= limit for rate in rates), (delay, rates)


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_sessions(name):
    """After a reset or a long dead time both sides start from zero; no word of a session is taken into another."""
    run(name, "session", SEED, 8)


@pytest.mark.shapes("name", always={"default"})
@pytest.mark.parametrize("name", SHAPES)
def test_block_lock(name):
    """64 correct headers gain it, 16 wrong ones among 64 lose it."""
    run(name, "lock", SEED)


def test_sent_blocks_are_those_of_the_model(tmp_path):
    """Scrambler, block types, header, CRC, sequence: as an independent model reads them."""
    path = tmp_path / "blocks"
    run("small", "record", 2000, path)
    lines = [line.split() for line in path.read_text().splitlines()]
    scrambler = Scrambler()
    blocks = [(int(words[1]), scrambler.descramble(int(words[2], 16))) for words in lines if words[0] == "B"]
    sent = [(int(words[1], 16), words[2] == "1") for words in lines if words[0] == "W"]
    frames = list(parse(blocks[2:]))  # the first is not scrambled with the model's history
    assert [frame.up for frame in frames[:3]] == [False] * 3
    numbers, found = 1 << 7, {}
    base = 0
    for frame in (frame for frame in frames if frame.up):
        base += (frame.sequence - base + numbers // 2) % numbers - numbers // 2
        assert len(frame.words) <= 5
        for index, word in enumerate(frame.words, base):
            ends = frame.last and index == base + len(frame.words) - 1
            assert found.setdefault(index, (word, ends)) == (word, ends)
    assert len(found) >= 2000 and [found[index] for index in range(len(found))] == sent[:len(found)]


def session():
    """Blocks with which the core enters a session, after the time in which it does not listen."""
    blocks = [(CONTROL, IDLE)] * (200 + (2 << SHAPES["small"]["DeadLog2"]))
    for greeting in [Frame(up=False, heard=False)] * 20 + [Frame(up=False, heard=True)] * 3 + [Frame(up=True, heard=True)]:
        blocks += [*greeting.blocks(), (CONTROL, IDLE)]
    return blocks


def play(tmp_path, blocks):
    """The words that the core delivers for these blocks, with `last`, and how many frames were damaged."""
    scrambler = Scrambler(random.Random(SEED).getrandbits(58))
    path = tmp_path / "blocks"
    path.write_text("".join(f"{sync} {scrambler.scramble(data):x}\n" for sync, data in [*blocks, *[(CONTROL, IDLE)] * 50]))
    *lines, end = run("small", "play", path).splitlines()
    return [(int(line.split()[0], 16), line.split()[1] == "1") for line in lines], int(end.split()[1])


def test_blocks_of_the_model_are_received(tmp_path):
    """Good frames in sequence are delivered, also if they begin again or after ordered sets; changed, repeated and skipping ones are not."""
    rand = random.Random(SEED)
    blocks, wanted, damaged, sequence = session(), [], 0, 0
    for _ in range(400):
        words = tuple(rand.getrandbits(64) for _ in range(rand.randrange(12)))
        frame = Frame(True, True, sequence, words, last=bool(words) and rand.random() < 0.5, attempt=rand.random() < 0.5,
                      taken=0, received=0)
        sort = rand.choice(["good"] * 4 + ["changed", "interrupted", "cut", "repeated", "skipping", "ordered"])
        if sort in ("repeated", "skipping"):
            frame.sequence = (sequence + (1 if sort == "skipping" else -1)) % 128
        made = list(frame.blocks())
        if sort == "changed":
            at = rand.randrange(len(made))
            bit = rand.randrange(8, 48)
            made[at] = made[at][0], made[at][1] ^ 1 << bit
            damaged += 1
        elif sort == "interrupted":
            at = rand.randrange(1, len(made))
            made.insert(at, rand.choice([(CONTROL, IDLE), (0, rand.getrandbits(64)), (3, rand.getrandbits(64)), (CONTROL, 0xFF)]))
            damaged += 1
        elif sort == "cut":
            # It begins again before its end.
            del made[rand.randrange(1, len(made)):]
            made += frame.blocks()
            damaged += 1
        elif sort == "ordered":
            made = [(CONTROL, rand.getrandbits(56) << 8 | rand.choice([0x4B, 0x55, 0x2D, 0x66]))] + made
        if sort in ("good", "cut", "ordered"):
            wanted += [(word, frame.last and index == len(words) - 1) for index, word in enumerate(words)]
            sequence = (sequence + len(words)) % 128
        blocks += made + [(CONTROL, IDLE)] * rand.randrange(1, 3)
    assert play(tmp_path, blocks) == (wanted, damaged), f"seed {SEED}"


def test_no_bit_of_a_frame_may_change(tmp_path):
    """One wrong bit anywhere, sync bits included: the frame is not delivered; the next with the same sequence is."""
    rand = random.Random(SEED)
    blocks, wanted, damaged, sequence = session(), [], 0, 0
    for at in range(4):
        for bit in range(66):
            frame = Frame(True, True, sequence, tuple(rand.getrandbits(64) for _ in range(2)), last=bool(bit % 2))
            made = list(frame.blocks())
            sync, data = made[at]
            made[at] = (sync ^ 1 << bit, data) if bit < 2 else (sync, data ^ 1 << bit - 2)
            # Without its start a frame is none.
            damaged += at != 0 or bit >= 10
            blocks += [*made, (CONTROL, IDLE), *frame.blocks(), (CONTROL, IDLE)]
            wanted += [(frame.words[0], False), (frame.words[1], frame.last)]
            sequence = (sequence + 2) % 128
    assert play(tmp_path, blocks) == (wanted, damaged), f"seed {SEED}"
