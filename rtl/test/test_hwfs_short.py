# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The fast paths of the file system core: a put to units that are known to be free, and a delete of a file with one extent.
Mixed with commands that take the general path, with devices that fail at each step, and with damaged slots.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from test_hwfs import SEED, seeded, slot_of, volume_with  # noqa: E402


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


@pytest.fixture(scope="module", params=[32, 256])
def any_width(request):
    if request.param == 32:
        return hw.build("test")
    return hw.build("test_256", level="-O0", DataWidth=256, BlockSizeLog2=6)


@pytest.mark.cells("any_width")
@pytest.mark.parametrize("unit", [512, 2048])
def test_puts_and_deletes_in_turns(any_width, tmp_path, unit):
    """With gets, and files that are open, written and renamed in between, up to a full volume; requests are short, so
    that some puts need several."""
    pick = seeded(f"turns {unit}")
    image = hw.make_volume(tmp_path / "v", size="512K", slots=32, unit=unit)
    script = hw.Session(any_width, tmp_path, image, seed=SEED, stall=5, app_stall=5, write_latency=3, max_blocks=48)
    script.mount()
    files, wanted, statuses = {}, {}, [{hw.OK}]
    for count in range(150):
        kind = pick.choice(["put"] * 4 + ["delete"] * 3 + ["get", "get", "write", "rename", "unmount"])
        name = pick.choice(sorted(files)) if files else None
        if kind == "put" or not files:
            # A full volume or table refuses the put; the contents are checked below.
            name, data = f"put-{count}" + "n" * pick.choice([0, 3, 20, 50]), pick.randbytes(pick.choice(
                [1, unit, unit + 1, pick.randint(1, 9000), pick.randint(1, 40000)]))
            script.put(name, data)
            if sum(len(held) + unit for held in files.values()) + len(data) < 300_000 and len(files) < 8:
                files[name] = data
                statuses.append({hw.OK})
            else:
                statuses.append({hw.OK, hw.NO_SPACE, hw.TABLE_FULL})
                script.delete(name)
                statuses.append({hw.OK, hw.NOT_FOUND})
        elif kind == "delete":
            script.delete(name)
            statuses.append({hw.OK})
            del files[name]
        elif kind == "get":
            offset = pick.randint(0, len(files[name]))
            script.get(name, offset, len(files[name]) - offset, f"out{count}")
            wanted[count] = files[name][offset:]
            statuses.append({hw.OK})
        elif kind == "write":
            piece = pick.randbytes(pick.randint(1, 3000))
            script.open(0, name, "w")
            script.write(0, len(files[name]), piece)
            files[name] += piece
            statuses += [{hw.OK}] * 2
            if pick.random() < 0.5 and len(files) > 1:
                other = pick.choice(sorted(set(files) - {name}))
                script.delete(other)
                statuses.append({hw.OK})
                del files[other]
            script.close(0)
            statuses.append({hw.OK})
        elif kind == "rename":
            script.rename(name, f"moved-{count}")
            statuses.append({hw.OK, hw.TABLE_FULL})
            script.rename(f"moved-{count}", name)
            statuses.append({hw.OK, hw.NOT_FOUND})
        else:
            script.unmount()
            script.mount()
            statuses += [{hw.OK}] * 2
    script.unmount()
    script.save(tmp_path / "after")
    for line, result, allowed in zip((line for line in script.lines[1:]), script.run(), [*statuses, {hw.OK}]):
        assert result.status in allowed, f"STRAIGHTWAY_SEED={SEED} {unit}: {line}: {result}"
    for count, data in wanted.items():
        assert (tmp_path / f"out{count}").read_bytes() == data, f"STRAIGHTWAY_SEED={SEED} {unit}: {count}"
    hw.check(tmp_path / "after")
    assert hw.names_on(tmp_path / "after") == set(files)
    for name, data in files.items():
        assert hw.contents(tmp_path / "after", name, tmp_path) == data, f"STRAIGHTWAY_SEED={SEED} {unit}: {name}"


def test_a_device_that_fails_a_short_way(program, tmp_path):
    """Errors of each write and flush of a put or a delete: the device's status is reported. Either nothing has changed and the
    volume stays mounted, or it must be mounted again and passes the check."""
    image = volume_with(tmp_path / "v", {"one": b"1" * 1000})
    held = image.read_bytes()
    slots, bitmaps, data = ([int.from_bytes(held[at:at + 8], "little") for at in places]
                            for places in ((72, 80), (88, 96), (104,)))
    nodes = 64
    regions = {"super": (0, 128), "slots": [block for at in slots for block in range(at // 512, at // 512 + nodes)],
               "bitmaps": [at // 512 + group for at in bitmaps for group in range(4)], "flush": (),
               "data": range(data[0] // 512, len(held) // 512)}
    for verb in ("put", "delete"):
        for region, blocks in regions.items():
            script = hw.Session(program, tmp_path, image)
            script.mount()
            script.put("first", b"f" * 700)
            script.put("second", b"s" * 700)
            for block in blocks:
                script.bad("write", block)
            if region == "flush":
                script.bad("flush")
            script.put("third", b"t" * 700) if verb == "put" else script.delete("second")
            script.bad("none")
            script.get("one", 0, 1000)
            script.mount()
            script.put("fourth", b"4" * 700)
            script.delete("first")
            script.unmount()
            script.save(tmp_path / "after")
            results = [result.status for result in script.run()]
            what = f"{verb} {region}: {results}"
            if verb == "delete" and region == "data":
                assert set(results) == {hw.OK}, what
                continue
            assert results[:4] == [hw.OK, hw.OK, hw.OK, hw.DEVICE], what
            assert results[4] in (hw.NOT_MOUNTED, hw.OK) and set(results[5:]) == {hw.OK}, what
            hw.check(tmp_path / "after")
            names = hw.names_on(tmp_path / "after")
            assert {"one", "fourth"} <= names <= {"one", "fourth", "second", "third"}, f"{what}: {names}"
            assert verb == "delete" or "second" in names, what
            for name in names & {"second", "third"}:
                assert hw.contents(tmp_path / "after", name, tmp_path) == name[:1].encode() * 700, what


def test_a_short_way_over_a_slot_that_rots(program, tmp_path):
    """One member of the slot that a put uses is damaged after the mount. If the other member is free too, this has no effect; if it has
    the previous file, as builds of before left it, the slot is damaged."""
    fresh = hw.make_volume(tmp_path / "v")
    used = volume_with(tmp_path / "u", dict.fromkeys(("first", "third"), b"x" * 700))
    script = hw.Session(program, tmp_path, used)
    script.mount()
    script.delete("first")
    script.delete("third")
    script.unmount()
    script.save(tmp_path / "free")
    assert {result.status for result in script.run()} == {hw.OK}
    half, before = bytearray((tmp_path / "free").read_bytes()), used.read_bytes()
    for name in ("first", "third"):
        older = min(slot_of(used, name), key=lambda place: half[place + 8:place + 16][::-1])
        half[older:older + 512] = before[older:older + 512]
    (tmp_path / "half").write_bytes(half)
    hw.command("rm", used, "first", "third")
    for image, allowed in ((fresh, {hw.OK}), (used, {hw.OK}), (tmp_path / "free", {hw.OK}), (tmp_path / "half", {hw.OK, hw.CORRUPT})):
        script = hw.Session(program, tmp_path, image)
        script.mount()
        script.put("first", b"f" * 700)
        script.put("third", b"t" * 700)
        script.save(tmp_path / "made")
        assert [result.status for result in script.run()] == [hw.OK] * 3
        seen = set()
        for place in slot_of(tmp_path / "made", "third"):
            for offset in (0, 9, 56, 100, 200, 300):
                script = hw.Session(program, tmp_path, image)
                script.mount()
                script.put("first", b"f" * 700)
                script.flip(place + offset)
                script.put("third", b"t" * 700)
                script.put("second", b"s" * 700)
                script.get("third", 0, 700, "out")
                script.delete("second")
                script.unmount()
                script.save(tmp_path / "after")
                results = [result.status for result in script.run()]
                seen.add(results[2])
                good = results[2] == hw.OK
                assert results == [hw.OK, hw.OK, results[2], hw.OK, hw.OK if good else hw.NOT_FOUND, hw.OK, hw.OK], (
                    place, offset, results)
                if good:
                    assert (tmp_path / "out").read_bytes() == b"t" * 700
                    hw.check(tmp_path / "after")
                    assert hw.names_on(tmp_path / "after") == {"first", "third"}
        assert seen == allowed
