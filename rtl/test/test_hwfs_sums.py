# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files with data checksums on the file system core: it reads the command's files and verifies them. A wrong bit is detected
before the last word of the read. `hwfs_sums.py` makes the volumes.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402
from hwfs_sums import CHUNK, SEED, place_of_byte, place_of_sum, seeded, slot_of, volume_with  # noqa: E402

SIZES = (0, 1, 511, 512, 5000, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 200_003)


@pytest.fixture(scope="module")
def program():
    return hw.build("sums", DataChecksums=1)


# On a device with blocks of 64 bytes, so that a block of checksums has 16.
@pytest.fixture(scope="module", params=[32, 64, 256])
def any_width(request):
    return hw.build(f"sums_{request.param}", DataWidth=request.param, BlockSizeLog2=6, DataChecksums=1)


def reads(script, pick, files, wanted):
    """Reads each file by open file and by name: completely and in part, also at chunk boundaries."""
    for name, data in files.items():
        script.open(0, name)
        for turn in range(6):
            offset = pick.choice([0, 0, pick.randint(0, len(data)), pick.randint(0, len(data)) // CHUNK * CHUNK])
            length = pick.choice([1, pick.randint(0, len(data)), len(data) - offset, CHUNK])
            length = min(length, len(data) - offset)
            wanted.append(data[offset:offset + length])
            script.read(0, offset, length, f"out{len(wanted) - 1}")
            if turn % 2:
                wanted.append(data[offset:offset + length])
                script.get(name, offset, length, f"out{len(wanted) - 1}")
        script.read(0, 0, len(data) + 1)
        script.read(0, len(data) + 1, 0)
        script.get(name, len(data), 1)
        script.close(0)


@pytest.mark.cells("any_width")
@pytest.mark.parametrize("options", [{}, {"stall": 10, "app_stall": 10, "read_latency": 7}, {"app_stall": 60},
                                     {"stall": 50, "max_blocks": 8}])
def test_reads_what_the_command_stored(any_width, tmp_path, options):
    pick = seeded(f"reads {options}")
    files = {f"file-{size}": pick.randbytes(size) for size in SIZES}
    files["plain"] = pick.randbytes(70_001)
    image = volume_with(tmp_path / "v", files, plain=("plain",), unit=pick.choice([512, 1024, 4096]))
    script = hw.Session(any_width, tmp_path, image, seed=SEED, **options)
    script.mount()
    wanted = []
    reads(script, pick, files, wanted)
    script.unmount()
    script.save(tmp_path / "after")
    results = script.run()
    assert results[0].status == results.pop().status == hw.OK
    for number, (name, data) in enumerate(files.items()):
        part = results[1 + number * 14:][:14]
        assert [result.status for result in part] == [hw.OK] * 10 + [hw.PAST_END] * 3 + [hw.OK], (name, part)
        assert part[0].value == len(data)
    for number, data in enumerate(wanted):
        out = tmp_path / f"out{number}"
        assert (out.read_bytes() if data else b"") == data, number
    hw.check(tmp_path / "after")


def test_a_core_without_the_parameter_refuses_them(tmp_path):
    image = volume_with(tmp_path / "v", {"one": bytes(5000), "plain": bytes(5000)}, plain=("plain",))
    script = hw.Session(hw.build("test"), tmp_path, image)
    script.mount()
    script.open(0, "one")
    script.get("one", 0, 5000)
    script.open(0, "one", "w")
    script.get("plain", 0, 5000)
    script.delete("one")
    assert [result.status for result in script.run()] == [hw.OK] + [hw.UNSUPPORTED] * 3 + [hw.OK] * 2


@pytest.mark.cells("any_width")
def test_reads_over_the_border_of_a_span(any_width, tmp_path):
    """Units of 512 bytes: the second checksum unit follows 8 MiB of data."""
    pick = seeded("span")
    border = 16384 * 512
    data = pick.randbytes(border + 2 * CHUNK + 77)
    image = volume_with(tmp_path / "v", {"long": data}, size="10M")
    script = hw.Session(any_width, tmp_path, image)
    script.mount()
    script.open(0, "long")
    parts = [(border - CHUNK, 2 * CHUNK), (border - 3 * CHUNK - 5, len(data) - border + 3 * CHUNK + 5), (border - 1, 2),
             (border, CHUNK), (border + 2 * CHUNK, 77)]
    for number, (offset, length) in enumerate(parts):
        script.read(0, offset, length, f"out{number}")
    script.flip(place_of_byte(image, "long", border + 5))
    script.read(0, border, CHUNK)
    script.flip(place_of_byte(image, "long", border + 5))
    script.flip(place_of_sum(image, "long", border // CHUNK + 1))
    script.read(0, border, CHUNK)
    script.read(0, border, 2 * CHUNK)
    assert [result.status for result in script.run()] == [hw.OK] * 7 + [hw.CORRUPT, hw.OK, hw.CORRUPT]
    for number, (offset, length) in enumerate(parts):
        assert (tmp_path / f"out{number}").read_bytes() == data[offset:offset + length], number


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """The data of a file in the gaps of a full volume, and the image."""
    folder = tmp_path_factory.mktemp("pieces")
    small = {f"small-{number}": bytes(2048) for number in range(64)}
    image = volume_with(folder / "v", small, plain=small, size="1M", slots=256)
    units = int.from_bytes(image.read_bytes()[112:120], "little")
    (folder / "source").write_bytes(bytes((units - 256 - 40) * 512))
    hw.command("put", image, folder / "source", "filler", "--no-checksums")
    hw.command("rm", image, *(name for number, name in enumerate(small) if number % 2 == 0))
    data = seeded("pieces").randbytes(CHUNK + 33)
    (folder / "source").write_bytes(data)
    hw.command("put", image, folder / "source", "pieces", "--checksums")
    return data, image


@pytest.mark.cells("any_width")
def test_a_file_in_pieces(any_width, pieces, tmp_path):
    """More extents in a chunk than concurrent fetches, and a map with a leaf."""
    data, image = pieces
    script = hw.Session(any_width, tmp_path, image, seed=SEED, read_latency=20, stall=5)
    script.mount()
    script.get("pieces", 0, len(data), "whole")
    script.open(0, "pieces")
    script.read(0, 0, CHUNK, "first")
    script.read(0, 1234, len(data) - 1234, "rest")
    assert [result.status for result in script.run()] == [hw.OK] * 5
    assert (tmp_path / "whole").read_bytes() == data
    assert (tmp_path / "first").read_bytes() == data[:CHUNK]
    assert (tmp_path / "rest").read_bytes() == data[1234:]


@pytest.fixture(scope="module")
def units_of_64(tmp_path_factory):
    """A volume with units of 64 bytes, which the command does not support on plain files, made from FORMAT.md alone, with a
    fragmented file of two spans and a map with leaves. Returns its data, the image, and the offset of a byte in the image."""
    data = seeded("units of 64").randbytes((1 << 20) + 2 * CHUNK + 77)
    spans = -(-len(data) // (1 << 20))
    body = bytearray()
    for span in range(spans):
        part = data[span << 20:span + 1 << 20]
        sums = [make_volume.crc32c(part[at:at + CHUNK]) for at in range(0, len(part) // CHUNK * CHUNK, CHUNK)]
        body += b"".join(value.to_bytes(4, "little") for value in sums).ljust(64, b"\0") + part
    tail = make_volume.crc32c(data[len(data) // CHUNK * CHUNK:])
    piece = 4096
    image = make_volume.make(3 << 20, 64, 512, 8)
    starts = make_volume.scatter(image, "long", -(-len(body) // piece) * piece, piece)
    for number, start in enumerate(starts):
        part = body[number * piece:][:piece]
        image[start:start + len(part)] = part
    path = tmp_path_factory.mktemp("units") / "v"
    path.write_bytes(image)
    at = max((int.from_bytes(image[at + 8:at + 16], "little"), at) for at in slot_of(path, "long"))[1]
    for place, value, size in ((32, len(data), 8), (64, 1, 4), (68, tail, 4)):
        make_volume.put(image, at + place, value, size)
    image[at:at + 512] = make_volume.sealed(image[at:at + 512], bytes(image[24:40]), at, 4)
    for at in (0, 65536):
        image[at + 56] = 1
        image[at:at + 256] = make_volume.sealed(image[at:at + 256], b"", at, 8)
    path.write_bytes(image)
    return data, path, lambda byte: starts[byte // piece] + byte % piece


@pytest.mark.cells("any_width")
def test_units_of_64_bytes(any_width, units_of_64, tmp_path):
    data, image, place = units_of_64
    pick = seeded("units of 64 reads")
    border = 1 << 20
    parts = [(0, len(data)), (border - CHUNK, 2 * CHUNK), (border - 3, 7), (border + CHUNK, CHUNK + 77)]
    parts += [(offset, pick.randint(1, len(data) - offset)) for offset in (pick.randrange(len(data)) for _ in range(3))]
    script = hw.Session(any_width, tmp_path, image, seed=SEED, read_latency=5)
    script.mount()
    script.open(0, "long")
    for number, (offset, length) in enumerate(parts):
        script.read(0, offset, length, f"out{number}")
    # The first two checksums of the second checksum unit, which follows 16,385 units.
    for bad in (place(16385 * 64), place(16385 * 64 + 7), place(16386 * 64 + 2 * CHUNK - 1)):
        script.flip(bad)
        script.get("long", border - CHUNK, 2 * CHUNK)
        script.get("long", border + CHUNK, CHUNK)
        script.flip(bad)
    statuses = [result.status for result in script.run()]
    assert statuses == [hw.OK] * (2 + len(parts)) + [hw.CORRUPT, hw.OK] + [hw.OK, hw.CORRUPT] * 2
    for number, (offset, length) in enumerate(parts):
        assert (tmp_path / f"out{number}").read_bytes() == data[offset:offset + length], number


def with_tail_turned(image, name):
    """Inverts one bit of TAIL_CRC in both members of the slot, and seals them with valid checksums."""
    data = bytearray(image.read_bytes())
    node = 1 << data[49]
    for place in slot_of(image, name):
        data[place + 68] ^= 16
        data[place:place + node] = make_volume.sealed(data[place:place + node], bytes(data[24:40]), place, 4)
    return bytes(data)


@pytest.mark.cells("any_width")
@pytest.mark.parametrize("options", [{}, {"stall": 10, "app_stall": 30, "read_latency": 9}])
def test_rot_is_found(any_width, tmp_path, options):
    """A wrong bit in the data, in a stored checksum, or in the last part's checksum: the read ends with `Corrupt` without the
    chunk's last word, and the core continues to work. Reads of partial chunks are not verified and succeed."""
    pick = seeded("rot")
    data = pick.randbytes(3 * CHUNK + 1235)
    plain = pick.randbytes(3000)
    image = volume_with(tmp_path / "v", {"one": data, "plain": plain}, plain=("plain",), unit=pick.choice([512, 4096]))
    chunk = pick.randrange(3)
    rotten = {"data": place_of_byte(image, "one", chunk * CHUNK + pick.choice([0, CHUNK - 1, pick.randrange(CHUNK)])),
              "sum": place_of_sum(image, "one", chunk) + pick.randrange(4),
              "tail": place_of_byte(image, "one", 3 * CHUNK + pick.choice([0, 1234, pick.randrange(1235)]))}
    for what, place in rotten.items():
        start, end = (3 * CHUNK, len(data)) if what == "tail" else (chunk * CHUNK, chunk * CHUNK + CHUNK)
        script = hw.Session(any_width, tmp_path, image, seed=SEED, **options)
        script.mount()
        script.flip(place)
        script.open(0, "one")
        bad = [(0, len(data)), (start, end - start)]
        good = [(start + 1, len(data) - start - 1) if what == "tail" else (start + 1, CHUNK),
                (start, end - start - 1), (3 * CHUNK if what != "tail" else 0, 1235)]
        for number, (offset, length) in enumerate(bad):
            script.read(0, offset, length, f"bad{number}")
            script.get("one", offset, length, "bad")
            script.get("plain", 0, 3000, "plain")
        for offset, length in good:
            script.read(0, offset, length)
        script.flip(place)
        script.read(0, 0, len(data), "whole")
        statuses = [result.status for result in script.run()]
        assert statuses == [hw.OK] * 2 + [hw.CORRUPT, hw.CORRUPT, hw.OK] * 2 + [hw.OK] * 4, (what, place)
        for number, (offset, _) in enumerate(bad):
            got = (tmp_path / f"bad{number}").read_bytes()
            assert len(got) < end - offset, what
            wanted = bytearray(data[offset:offset + len(got)])
            if what != "sum":
                different = [at for at, pair in enumerate(zip(got, wanted)) if pair[0] != pair[1]]
                assert len(different) <= 1, what
            else:
                assert got == wanted
        assert (tmp_path / "plain").read_bytes() == plain
        assert (tmp_path / "whole").read_bytes() == data
    (tmp_path / "turned").write_bytes(with_tail_turned(image, "one"))
    script = hw.Session(any_width, tmp_path, tmp_path / "turned", seed=SEED, **options)
    script.mount()
    script.get("one", 0, 3 * CHUNK)
    script.get("one", 0, len(data))
    script.get("one", 3 * CHUNK, 1235)
    script.get("one", 3 * CHUNK, 1234)
    assert [result.status for result in script.run()] == [hw.OK, hw.OK, hw.CORRUPT, hw.CORRUPT, hw.OK]


def test_what_fails_while_it_is_compared(program, tmp_path):
    """A device error is reported as such; a read times out if the application stops taking data or the device hangs."""
    data = seeded("fails").randbytes(2 * CHUNK + 9)
    image = volume_with(tmp_path / "v", {"one": data})
    script = hw.Session(program, tmp_path, image)
    script.mount()
    script.open(0, "one")
    script.bad("read", place_of_byte(image, "one", CHUNK + 700) // 512)
    script.read(0, 0, len(data))
    script.read(0, 0, CHUNK)
    script.bad("none")
    script.bad("read", place_of_sum(image, "one", 0) // 512)
    script.read(0, 0, len(data))
    script.read(0, 0, 100)
    script.bad("none")
    script.stop("take", 20_000)
    script.read(0, 0, len(data))
    script.stop("take", -1)
    script.idle(100)
    script.read(0, 0, len(data), "out")
    script.hang(1)
    script.read(0, 0, len(data))
    script.hang(0)
    results = script.run()
    assert [result.status for result in results] == [hw.OK, hw.OK, hw.DEVICE, hw.OK, hw.DEVICE, hw.OK, hw.TIMED_OUT, hw.OK,
                                                     hw.TIMED_OUT]
    assert results[2].value == results[4].value == 0x0281
    assert (tmp_path / "out").read_bytes() == data
