# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Storage as memory for a bare application on the coprocessor's second hart: what it loads is what the drive has, what it
stores and syncs is what the drive gets, and what is not its own is refused.

The firmware has the feature `leak`: the tables of each context have a page of the firmware, so that the memory protection
below the tables is tested too.
"""

# partner: QEMU's riscv machine | machine

import functools
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from coprocessor_lab import COMMAND, ROOT, coprocessor, run_to_end, wait_until
from volatile_drive import Drive, Durable

sys.path.insert(0, str(ROOT / "firmware"))
import build  # noqa: E402

WORD = 0xFFFFFFFFFFFFFFFF
PAGE = 4096
ACCESSES = 400
OUTSIDE, NO_RIGHT, BAD_CALL, DRIVE_ERROR = 0x82, 0x85, 0x80, 9


@functools.cache
def machine():
    firmware = build.build(64, ["leak"], "virt-mapped")
    return ["--bits", 64, "--firmware", firmware, "--qemu=-device", f"--qemu=loader,file={build.application()}"]


def log_of(folder, drive, *orders):
    return run_to_end(folder, *machine(), "--drive", f"serial=LAB1,{drive}", "--orders", " ".join(("mode=map", *orders)))


def run(folder, drive, *orders):
    """Runs the contexts until they have ended: [(context, name, value)], and the whole log."""
    log = log_of(folder, drive, *orders)
    assert "ready" in log and "mapped: " in log, log
    found = re.findall(r"^context (\d): (\w+) (\d+)$", log, re.M)
    return [(int(context), name, int(value)) for context, name, value in found], log


def straightway(*words):
    return subprocess.run([COMMAND, *map(str, words)], check=True, capture_output=True, text=True, timeout=120).stdout


def counts(log):
    names = ("faults", "reads", "writes", "evictions", "most resident")
    return dict(zip(names, map(int, re.search(r"mapped: " + ", ".join(f"{name} (\\d+)" for name in names), log).groups())))


def mixed(state):
    """splitmix64: the numbers that the programs draw."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & WORD
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & WORD
        yield z ^ z >> 31


def word(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def hashed(values):
    result = 0
    for value in values:
        result = (((result << 5 | result >> 59) & WORD ^ value) * 0x9E3779B97F4A7C15) & WORD
    return result


def hash_of_random(data, seed):
    numbers = mixed(seed)
    return hashed(word(data, next(numbers) % (len(data) // 8) * 8) for _ in range(ACCESSES))


def after_stores(data, seed):
    """What the program `store` makes of this."""
    data, numbers = bytearray(data), mixed(seed)
    for _ in range(ACCESSES):
        at = next(numbers) % (len(data) // 8) * 8
        struct.pack_into("<Q", data, at, next(numbers))
    return bytes(data)


def exits(reports):
    return {context: value for context, name, value in reports if name == "exit"}


@pytest.mark.parametrize("block", [512, 4096])
def test_two_contexts_read_more_than_fits_and_each_its_own_range(tmp_path, block):
    image = tmp_path / "image"
    data = random.Random(1).randbytes(4 << 20)
    image.write_bytes(data)
    reports, log = run(tmp_path, f"file={image},logical_block_size={block}", "frames=8", "seed=5",
                       f"context=random:ro:{1 << 20}+{1 << 20}", f"context=random:ro:{2 << 20}+{1 << 19}")  # fmt: skip
    first, second = data[1 << 20:2 << 20], data[2 << 20:(2 << 20) + (1 << 19)]
    assert (0, "hash", hash_of_random(first, 5)) in reports, log
    assert (1, "hash", hash_of_random(second, 6)) in reports, log
    assert exits(reports) == {0: 0, 1: 0}
    found = counts(log)
    assert found["most resident"] == 8 and found["reads"] > 8 and found["writes"] == 0, found


def test_what_is_stored_and_synced_is_in_the_files_of_the_volume(tmp_path):
    image, first, second, back = (tmp_path / name for name in ("image", "first", "second", "back"))
    generator = random.Random(2)
    # Neither is a whole number of pages or of blocks.
    first.write_bytes(generator.randbytes(300_008))
    second.write_bytes(generator.randbytes(100_003))
    name = f"file:{image}"
    straightway("format", name, "--size", "64M", "--node", "4K")
    for path in (first, second):
        straightway("put", name, path, path.name)
    reports, log = run(tmp_path, f"file={image}", "frames=6", "seed=9", "context=store:rw:/first", "context=random:ro:/second")
    assert [value for _, what, value in reports if what == "sync"] == [0] * 4, log
    assert exits(reports) == {0: 0, 1: 0}, log
    assert (1, "hash", hash_of_random(second.read_bytes(), 10)) in reports, log
    found = counts(log)
    assert found["most resident"] == 6 and found["writes"] > 6, found
    for path, expected in ((first, after_stores(first.read_bytes(), 9)), (second, second.read_bytes())):
        straightway("get", name, path.name, back, "--force")
        assert back.read_bytes() == expected
    checked = json.loads(straightway("check", name, "--json"))
    assert checked["sound"] and not checked["findings"], checked


def test_what_is_not_its_own_is_refused_and_reported(tmp_path):
    image = tmp_path / "image"
    data = b"\xff" * (1 << 20)
    image.write_bytes(data)
    # With two frames the last page, of which only a block exists, gets one that was full of another page.
    reports, log = run(tmp_path, f"file={image}", "frames=2", f"context=escape:ro:0+{3 * PAGE + 512}",
                       f"context=random:rw:{1 << 19}+{1 << 19}")  # fmt: skip
    fetch, load, store = 12, 13, 15
    expected = {
        "beyond": OUTSIDE, "far": OUTSIDE | load << 32,
        "firmware": OUTSIDE | load << 32, "change": OUTSIDE | store << 32,
        # The tables allow this one.
        "leak": OUTSIDE | 5 << 32,
        "image": OUTSIDE | store << 32, "write": NO_RIGHT, "jump": OUTSIDE | fetch << 32,
        "register": BAD_CALL | 2 << 32, "null": OUTSIDE | load << 32,
        "own": 0, "tail": 0, "exit": 0,
    }  # fmt: skip
    assert {name: value for context, name, value in reports if context == 0} == expected, log
    assert (1, "hash", hash_of_random(data[1 << 19:], 2)) in reports, log
    assert image.read_bytes() == data


def test_a_context_without_a_handler_is_stopped_and_the_other_goes_on(tmp_path):
    image = tmp_path / "image"
    data = random.Random(3).randbytes(1 << 20)
    image.write_bytes(data)
    reports, log = run(tmp_path, f"file={image}", f"context=crash:ro:0+{PAGE}", f"context=random:ro:0+{1 << 20}")
    assert f"context 0: stopped at 0x{0x10_0000_0000 + 2 * PAGE:x}: status {OUTSIDE}, detail 0" in log, log
    assert (1, "hash", hash_of_random(data, 2)) in reports, log


def rules(folder, event, first_byte):
    path = folder / "rules"
    path.write_text(f'[inject-error]\nevent = "{event}"\nerrno = "5"\nsector = "{first_byte // 512}"\nonce = "off"\n')
    return path


def test_a_page_that_cannot_be_read_is_an_error_of_that_access_alone(tmp_path):
    image = tmp_path / "image"
    data = random.Random(4).randbytes(1 << 20)
    image.write_bytes(data)
    bad = 5
    reports, log = run(tmp_path, f"file={image},blkdebug={rules(tmp_path, 'read_aio', bad * PAGE)}", "frames=4",
                       f"context=each:ro:0+{16 * PAGE}")  # fmt: skip
    found = {name: value for _, name, value in reports}
    assert found["failed"] == 1 and found["status"] & 0xFFFF == DRIVE_ERROR, log
    assert found["hash"] == hashed(word(data, page * PAGE) for page in range(16) if page != bad), log
    assert found["exit"] == 0


def test_a_page_that_cannot_be_written_is_reported_by_each_sync_and_the_others_are_stored(tmp_path):
    image = tmp_path / "image"
    data = random.Random(5).randbytes(1 << 20)
    image.write_bytes(data)
    size, bad = 32 * PAGE, 7
    reports, log = run(tmp_path, f"file={image},blkdebug={rules(tmp_path, 'write_aio', bad * PAGE)}", "frames=6", "seed=3",
                       f"context=store:rw:0+{size}")  # fmt: skip
    syncs = [value & 0xFFFF for _, name, value in reports if name == "sync"]
    assert syncs == [DRIVE_ERROR] * 4, log
    assert "context 0: its stores could not be written: status 9" in log, log
    expected = bytearray(after_stores(data[:size], 3))
    expected[bad * PAGE:(bad + 1) * PAGE] = data[bad * PAGE:(bad + 1) * PAGE]
    assert image.read_bytes() == expected + data[size:]


@pytest.mark.parametrize(("orders", "why"), [
    (["context=random:ro:0+1048577"], "not inside the client's grant"),
    (["context=random:ro:1048576+1048576"], "not inside the client's grant"),
    (["context=random:ro:0+8192", "context=random:rw:4096+8192"], "uses the drive in a way that excludes"),
    (["context=random:ro:0+4096", "context=random:ro:/file"], "uses the drive in a way that excludes"),
    (["context=random:ro:/file"], "no volume that the coprocessor can mount"),
    (["context=random:wo:0+4096"], "flag, length or number"),
    (["frames=1", "context=random:ro:0+4096"], "flag, length or number"),
    ([], "the machine's description lacks something"),
], ids=["no-block", "past-the-end", "overlap", "mixed", "no-volume", "access", "one-frame", "none"])  # fmt: skip
def test_orders_that_cannot_be_served(tmp_path, orders, why):
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    log = log_of(tmp_path, f"file={image}", *orders)
    assert re.search(rf"^failed: .*{why}", log, re.M) and "ready" not in log, log


def test_what_a_sync_has_answered_survives_a_power_cut(tmp_path):
    seed = int(os.environ.get("STRAIGHTWAY_SEED", random.SystemRandom().getrandbits(32)))
    print(f"STRAIGHTWAY_SEED={seed}")
    choice = random.Random(seed)
    size, pages = 1 << 20, 8
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:
        drive = Drive(size, Path(folder) / "nbd")
        acknowledged = [(0, 0)]
        try:
            orders = f"mode=map frames=4 context=hold:rw:0+{pages * PAGE}"
            with coprocessor(tmp_path, *machine(), "--drive", f"nbd={drive.socket_path},serial=LAB1", "--orders",
                             orders) as running:  # fmt: skip
                for number in range(1, 7):
                    wait_until(lambda: f"context 0: durable {number}" in running.log, running.log)
                    with drive.lock:
                        acknowledged.append((len(drive.log), number))
                os.kill(running.qemu(), signal.SIGKILL)
        finally:
            drive.close()
        log = list(drive.log)
        assert sum(entry.data is None for entry in log) >= len(acknowledged) - 1, "flushes do not reach the drive"
        durable = Durable(bytes(size), log)
        for moment in sorted([*choice.sample(range(1, len(log)), 20), len(log)]):
            durable.go_to(moment)
            known = max(number for place, number in acknowledged if place <= moment)
            image = durable.image(choice)
            numbers = [word(image, page * PAGE) for page in range(pages)]
            assert min(numbers) >= known, (moment, known, numbers)
