# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Speculation in the file system core: data are requested before the slot is verified, data are stored before the name is
looked up, a superblock is sealed before it may be written. A wrong guess has no effect.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from test_hwfs import SEED, seeded, slot_of, volume_with  # noqa: E402


# Outstanding 1: a device that may answer in any order, so the core requests nothing ahead.
@pytest.fixture(scope="module", params=[2, 1])
def program(request):
    return hw.build("test") if request.param == 2 else hw.build("test_one", level="-O0", Outstanding=request.param)


def test_gets_by_name(program, tmp_path):
    """Parts of files with one and with several extents, long and short names, any offset; and refused reads."""
    pick = seeded("gets")
    files = {"a": 1, "abcdefgh": 700, "abcdefghi": 5000, "n" * 16: 513, "n" * 17: 9000, "x" * 64: 20000, "none": 0}
    files = {name: pick.randbytes(size) for name, size in files.items()}
    image = volume_with(tmp_path / "v", files)
    script = hw.Session(program, tmp_path, image, seed=SEED, read_latency=9, stall=10, app_stall=10, max_blocks=16)
    script.mount()
    wanted = []
    for number in range(60):
        name = pick.choice(sorted(files))
        offset = pick.randint(0, len(files[name]))
        length = pick.choice([len(files[name]) - offset, pick.randint(0, len(files[name]) - offset)])
        wanted.append(files[name][offset:offset + length])
        script.get(name, offset, length, f"out{number}")
    script.get("a", 0, 2)
    script.get("a", 2**64 - 1, 2)
    script.get("b", 0, 1)
    script.get("n" * 15, 0, 1)
    script.get("bad\udcff", 0, 1)
    script.get("a", 0, 1, "again")
    results = script.run()
    assert [result.status for result in results] == [hw.OK] * 61 + [
        hw.PAST_END, hw.PAST_END, hw.NOT_FOUND, hw.NOT_FOUND, hw.BAD_NAME, hw.OK], f"STRAIGHTWAY_SEED={SEED}"
    for number, data in enumerate(wanted):
        assert (tmp_path / f"out{number}").read_bytes() == data, f"STRAIGHTWAY_SEED={SEED} {script.lines[number + 2]}"
    assert (tmp_path / "again").read_bytes() == files["a"]


def test_a_slot_that_rots_after_the_mount(program, tmp_path):
    """The member that the index names is damaged: the other one is read, and no data of the damaged one are delivered."""
    image = volume_with(tmp_path / "v", {"one": b"1" * 3000, "two": b"2" * 600})
    places = slot_of(image, "one")
    for first, second in (places, places[::-1]):
        for offset in (0, 33, 70, 81, 144, 152, 300):
            script = hw.Session(program, tmp_path, image)
            script.mount("ro")
            script.flip(first + offset)
            script.get("two", 0, 600)
            script.get("one", 0, 3000, "out")
            script.get("two", 0, 600)
            script.flip(second + offset)
            script.get("one", 0, 3000)
            script.get("two", 0, 600, "other")
            assert [result.status for result in script.run()] == [hw.OK] * 4 + [hw.CORRUPT, hw.OK], (first, offset)
            assert (tmp_path / "out").read_bytes() == b"1" * 3000
            assert (tmp_path / "other").read_bytes() == b"2" * 600


def test_a_read_that_fails_ahead(program, tmp_path):
    """Errors of reads of the slot and of the data that were requested together with it."""
    image = volume_with(tmp_path / "v", {"one": bytes(3000)})
    slots = [place // 512 for place in slot_of(image, "one")]
    data_start = int.from_bytes(image.read_bytes()[104:112], "little") // 512
    script = hw.Session(program, tmp_path, image)
    script.mount("ro")
    for blocks in (slots, range(data_start, data_start + 8)):
        for block in blocks:
            script.bad("read", block)
        script.get("one", 0, 3000)
        script.bad("none")
        script.get("one", 0, 3000, "out")
        script.get("none", 0, 1)
        script.mount("ro")
    results = script.run()
    assert [result.status for result in results] == [hw.OK] + [hw.DEVICE, hw.OK, hw.NOT_FOUND, hw.OK] * 2
    assert (tmp_path / "out").read_bytes() == bytes(3000)


def test_a_put_that_comes_to_nothing(program, tmp_path):
    """The put fails after its data were taken or its superblock was sealed: the volume stays mounted and consistent."""
    image = volume_with(tmp_path / "v", {"one": b"1" * 3000})
    script = hw.Session(program, tmp_path, image)
    script.mount()
    script.put("two", b"2" * 700)
    script.put("one", b"3" * 5000)
    script.put("bad\udcff", b"3" * 5000)
    script.put("one", b"3" * (8 << 20))
    script.stop("give", 50)
    script.put("three", b"3" * 5000)
    script.stop("give", 0)
    script.put("four", b"4" * 5000)
    script.stop("give", -1)
    script.put("five", b"5" * 5000)
    script.get("one", 0, 3000, "out")
    script.get("five", 0, 5000, "five")
    script.delete("two")
    script.unmount()
    script.save(tmp_path / "after")
    assert [result.status for result in script.run()] == [
        hw.OK, hw.OK, hw.EXISTS, hw.BAD_NAME, hw.NO_SPACE, hw.TIMED_OUT, hw.TIMED_OUT, hw.OK, hw.OK, hw.OK, hw.OK, hw.OK]
    assert (tmp_path / "out").read_bytes() == b"1" * 3000
    assert (tmp_path / "five").read_bytes() == b"5" * 5000
    assert "2 files" in hw.check(tmp_path / "after")
    assert hw.contents(tmp_path / "after", "five", tmp_path) == b"5" * 5000
