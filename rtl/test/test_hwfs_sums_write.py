# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files with data checksums that the file system core writes: the command reads and verifies them, also after power cuts.
`hwfs_sums.py` makes the volumes.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402
from hwfs_sums import CHUNK, SEED, checked, create, empty_volume, place_of_sum, seeded, volume_with  # noqa: E402


@pytest.fixture(scope="module")
def program():
    return hw.build("sums", DataChecksums=1)


# On a device with blocks of 64 bytes, so that a block of checksums has 16.
@pytest.fixture(scope="module", params=[32, 64, 256])
def any_width(request):
    return hw.build(f"sums_{request.param}", DataWidth=request.param, BlockSizeLog2=6, DataChecksums=1)


@pytest.mark.cells("any_width")
@pytest.mark.parametrize("options", [{}, {"stall": 10, "app_stall": 10, "read_latency": 7, "write_latency": 5},
                                     {"max_blocks": 8, "app_stall": 40}])
def test_writes_what_the_command_reads(any_width, tmp_path, options):
    """Appends in odd pieces, with commits, syncs, closes, a mount between them; read by both sides."""
    pick = seeded(f"writes {options}")
    image = empty_volume(tmp_path / "v", unit=pick.choice([512, 1024, 4096]))
    script = hw.Session(any_width, tmp_path, image, seed=SEED, **options)
    script.mount()
    files, reads = {}, []
    for number in range(4):
        name, data = f"made-{number}", bytearray()
        create(script, number % 4, name, pick.choice([0, 700, 100_000]))
        for _ in range(pick.randint(1, 6)):
            piece = pick.randbytes(pick.choice([1, 3, 512, pick.randint(1, 3000), CHUNK, pick.randint(1, 2 * CHUNK),
                                                CHUNK - len(data) % CHUNK]))
            script.write(number % 4, len(data), piece)
            data += piece
            turn = pick.randrange(6)
            if turn == 0:
                script.sync(number % 4)
            elif turn == 1:
                script.commit(number % 4)
                script.read(number % 4, 0, len(data), f"out{len(reads)}")
                reads.append(bytes(data))
            elif turn == 2:
                script.close(number % 4)
                script.open(number % 4, name, "w")
            elif turn == 3:
                script.reserve(number % 4, 5000)
        files[name] = bytes(data)
        script.close(number % 4)
        script.get(name, 0, len(data), f"out{len(reads)}")
        reads.append(bytes(data))
    script.unmount()
    script.save(tmp_path / "after")
    results = script.run()
    assert {result.status for result in results} == {hw.OK}, results
    for number, data in enumerate(reads):
        assert (tmp_path / f"out{number}").read_bytes() == data, number
    for name, data in files.items():
        assert hw.contents(tmp_path / "after", name, tmp_path) == data
    checked(tmp_path / "after")


@pytest.mark.parametrize("unit", [512, 4096])
def test_a_power_cut_loses_nothing(program, tmp_path, unit):
    """A short workload across chunk boundaries, cut at writes and flushes (STRAIGHTWAY_CUTS): the remaining data have valid
    checksums, whether the core or the command recovered the volume."""
    pick = seeded(f"cuts {unit}")
    data = pick.randbytes(2 * CHUNK + 700)
    image = empty_volume(tmp_path / "v", unit=unit, size="1M", slots=8)

    def fresh():
        model = hw.Model()
        model.data["one"] = data
        nothing = lambda: None  # noqa: E731
        may = lambda *lengths: lambda: model.lengths.setdefault("one", set()).update(lengths)  # noqa: E731
        is_now = lambda length: lambda: model.lengths.update(one={length})  # noqa: E731
        steps, at = [(("command", 3, 0, 2, 0, 300, "one"), may(None, 0), is_now(0))], 0
        for length, verb in ((CHUNK - 100, "sync"), (300, "commit"), (CHUNK + 100, "sync"), (400, "close")):
            steps.append(((0, at, data[at:at + length]), nothing, nothing))
            at += length
            steps.append(((verb, 0), may(at), nothing if verb == "commit" else is_now(at)))
        return model, steps

    for where, _, repaired in hw.sweep(program, tmp_path, image, fresh, pick, hw.share(2), f"unit {unit}"):
        checked(repaired)
        script = hw.Session(program, tmp_path, tmp_path / "cut")
        script.mount()
        script.open(0, "one")
        opened = script.run()[1]
        if opened.status == hw.OK:
            script.read(0, 0, opened.value)
            script.get("one", 0, opened.value)
            assert [result.status for result in script.run()] == [hw.OK] * 4, where
        else:
            assert opened.status == hw.NOT_FOUND, where


def test_what_cannot_be_done_with_them(program, tmp_path):
    """Overwrites, gaps, a put, writes to a file that is open for reading; a volume without the feature; no space."""
    image = empty_volume(tmp_path / "v", size="1M", slots=8)
    script = hw.Session(program, tmp_path, image)
    script.mount()
    create(script, 0, "one", 1000)
    create(script, 0, "two")
    create(script, 1, "one")
    script.command(3, 1, 3, 0, 10, "three")
    script.write(0, 0, b"x" * 70_000)
    script.write(0, 0, b"y")
    script.write(0, 70_001, b"y")
    script.read(0, 0, 70_000)
    script.commit(0)
    script.read(0, 0, 70_000, "out")
    script.delete("one")
    script.reserve(0, 1 << 30)
    script.reserve(0, (1 << 64) - 1)
    script.write(0, 70_000, b"z" * (1 << 20))
    script.write(0, 70_000, b"z")
    script.unmount()
    script.close(0)
    script.open(0, "one")
    script.write(0, 70_001, b"y")
    script.sync(0)
    script.open(1, "one", "w")
    script.close(0)
    script.unmount()
    script.save(tmp_path / "after")
    statuses = [result.status for result in script.run()]
    assert statuses == [hw.OK, hw.OK, hw.IN_USE, hw.EXISTS, hw.BAD_COMMAND, hw.OK, hw.UNSUPPORTED, hw.PAST_END, hw.PAST_END,
                        hw.OK, hw.OK, hw.IN_USE, hw.NO_SPACE, hw.NO_SPACE, hw.NO_SPACE, hw.OK, hw.IN_USE, hw.OK, hw.OK,
                        hw.NOT_WRITABLE, hw.NOT_WRITABLE, hw.IN_USE, hw.OK, hw.OK]
    assert (tmp_path / "out").read_bytes() == b"x" * 70_000
    assert hw.contents(tmp_path / "after", "one", tmp_path) == b"x" * 70_000 + b"z"
    checked(tmp_path / "after")
    script = hw.Session(program, tmp_path, hw.make_volume(tmp_path / "plain"))
    script.mount()
    create(script, 0, "one")
    assert [result.status for result in script.run()] == [hw.OK, hw.UNSUPPORTED]


@pytest.mark.cells("any_width")
def test_appends_over_the_border_of_a_span(any_width, tmp_path):
    """Units of 64 bytes, which the command does not support on plain files: a span has 1 MiB. The core reads the file back."""
    pick = seeded("append over a span")
    image = make_volume.make(3 << 20, 64, 512, 8)
    for at in (0, 65536):
        image[at + 56] = 1
        image[at:at + 256] = make_volume.sealed(image[at:at + 256], b"", at, 8)
    (tmp_path / "v").write_bytes(image)
    data = pick.randbytes((1 << 20) + CHUNK + 99)
    script = hw.Session(any_width, tmp_path, tmp_path / "v", seed=SEED)
    script.mount()
    create(script, 0, "long")
    first = (1 << 20) - pick.choice([0, 3, 64, 1000])
    for begin, end in ((0, first), (first, first + 1500), (first + 1500, len(data))):
        script.write(0, begin, data[begin:end])
    script.sync(0)
    script.read(0, 0, len(data), "out")
    script.close(0)
    script.unmount()
    script.save(tmp_path / "after")
    assert [result.status for result in script.run()] == [hw.OK] * 9
    assert (tmp_path / "out").read_bytes() == data
    after, sums = (tmp_path / "after").read_bytes(), []
    for chunk in range(len(data) // CHUNK):
        at = place_of_sum(tmp_path / "after", "long", chunk)
        sums.append(int.from_bytes(after[at:at + 4], "little"))
    assert sums == [make_volume.crc32c(data[at:at + CHUNK]) for at in range(0, len(data) // CHUNK * CHUNK, CHUNK)]


def test_what_comparing_costs(program, tmp_path):
    """1 MiB on an ideal device with and without checksums: they cost the blocks of checksums and some cycles per chunk."""
    data = seeded("cost").randbytes(1 << 20)
    image = volume_with(tmp_path / "v", {"sums": data, "plain": data}, plain=("plain",), unit=4096, size="6M")
    script = hw.Session(program, tmp_path, image)
    script.mount()
    script.get("plain", 0, len(data))
    script.get("sums", 0, len(data))
    script.create(0, "plain-made", 1 << 20)
    script.write(0, 0, data)
    create(script, 1, "sums-made", 1 << 20)
    script.write(1, 0, data)
    _, plain, sums, _, plain_made, _, sums_made = script.run()
    print(f"read: {plain.cycles} cycles without, {sums.cycles} with checksums")
    print(f"written: {plain_made.cycles} cycles without, {sums_made.cycles} with checksums")
    assert plain.cycles < sums.cycles < plain.cycles * 1.005
    assert plain_made.cycles < sums_made.cycles < plain_made.cycles * 1.04
