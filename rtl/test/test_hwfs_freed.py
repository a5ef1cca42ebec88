# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A file that the core removed or renamed does not come back when a copy of its slot rots: the slot is free in both members
(FORMAT.md, R9). After a power cut the core leaves no slot of which only one member is free, either.

`STRAIGHTWAY_CUTS` sets the number of cuts, 0 means all.
"""

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from make_volume import sealed  # noqa: E402

NODE, SLOTS = 512, 64
SEED = os.environ.get("STRAIGHTWAY_SEED", str(random.randrange(1 << 30)))


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


def pairs(image):
    """For each slot: its number, and its valid members as [sequence number, state, address], the newest last."""
    tables = [int.from_bytes(image[at:at + 8], "little") for at in (72, 80)]
    for slot in range(SLOTS):
        valid = []
        for table in tables:
            at = table + slot * NODE
            node = bytes(image[at:at + NODE])
            if sealed(node, bytes(image[24:40]), at, 4) == node:
                valid.append([int.from_bytes(node[8:16], "little"), node[56], at])
        yield slot, sorted(valid)


def rotten(path, to):
    """Writes the volume to `to` with a bit flipped in the newest member of each free slot that was ever used; returns how many."""
    image = bytearray(path.read_bytes())
    used = [valid for _, valid in pairs(image) if len(valid) == 2 and valid[-1][0] > 1 and valid[-1][1] == 0]
    for valid in used:
        image[valid[-1][2] + 100] ^= 1
    to.write_bytes(image)
    return len(used)


def names_by_core(program, folder, image):
    script = hw.Session(program, folder, image)
    script.mount("ro")
    for slot in range(SLOTS):
        script.list(slot)
    mounted, *listed = script.run()
    assert mounted.status == hw.OK
    names = set()
    for result in listed:
        if result.status == hw.OK:
            entry = bytes.fromhex(result.rest)
            names.add(entry[16:16 + int.from_bytes(entry[12:16], "little")].decode())
    return names


def by_both(program, folder, image):
    names = hw.names_on(image)
    assert names_by_core(program, folder, image) == names
    return names


def half_free(image):
    """The slots of which only the newest member is free, and those of which only the older one is."""
    both = [(slot, valid[-1][1] == 0) for slot, valid in pairs(image) if len({state == 0 for _, state, _ in valid}) == 2]
    return [slot for slot, newest in both if newest], [slot for slot, newest in both if not newest]


def test_what_was_removed_stays_removed_when_a_copy_rots(program, tmp_path):
    image = hw.make_volume(tmp_path / "v", node=NODE, slots=SLOTS)
    source = tmp_path / "source"
    source.write_bytes(bytes(range(250)) * 40)
    for name in ("soft", "moves", "stays"):
        hw.command("put", image, source, name)
    script = hw.Session(program, tmp_path, image)
    script.mount()
    for index in range(12):  # pieces of free units, for a file of several extents
        script.put(f"p{index}", bytes(700))
    for index in range(0, 12, 2):
        script.delete(f"p{index}")  # the fast path
    script.create(0, "several", 7000)
    script.write(0, 0, bytes(5000))
    script.close(0)
    script.create(0, "empty", 0)
    script.close(0)
    script.open(1, "stays")
    script.delete("p1")  # while a file is open: the general path
    script.close(1)
    for name in ("several", "empty", "soft"):
        script.delete(name)
    script.rename("moves", "moved")
    script.unmount()
    script.save("after")
    results = script.run()
    assert [result.status for result in results] == [hw.OK] * len(results)
    expected = {"stays", "moved", *(f"p{index}" for index in range(3, 12, 2))}
    assert by_both(program, tmp_path, tmp_path / "after") == expected
    assert rotten(tmp_path / "after", tmp_path / "rotten") >= 8  # a later file may have got a slot
    assert by_both(program, tmp_path, tmp_path / "rotten") == expected
    assert "files" in hw.command("check", "--repair", tmp_path / "rotten", good=False).stdout
    assert by_both(program, tmp_path, tmp_path / "rotten") == expected


def test_a_cut_leaves_no_slot_half_free(program, tmp_path):
    print(f"STRAIGHTWAY_SEED={SEED}")
    pick = random.Random(SEED)
    image = hw.make_volume(tmp_path / "v", node=NODE, slots=SLOTS)
    source = tmp_path / "source"
    source.write_bytes(bytes(range(250)) * 40)
    for name in ("fast", "general", "moves", "stays"):
        hw.command("put", image, source, name)
    (tmp_path / "empty").write_bytes(b"")
    hw.command("put", image, tmp_path / "empty", "empty")
    assert half_free(image.read_bytes()) == ([], [])

    def changed(**options):
        script = hw.Session(program, tmp_path, image, journal=1, **options)
        script.mount()
        script.delete("fast")
        script.rename("moves", "moved")
        script.delete("empty")
        script.open(0, "stays")
        script.delete("general")
        script.close(0)
        script.unmount()
        return script

    script = changed()
    script.count()
    *results, (_, writes, flushes, _) = script.run()
    assert [result.status for result in results] == [hw.OK] * len(results)
    points = hw.cut_points(writes, flushes)
    for kind, point, how in pick.sample(points, hw.share(2)) if hw.CUTS else points:
        where = f"STRAIGHTWAY_SEED={SEED} {kind} {point} {how}"
        script = changed(**{kind: point, "cut_delay": pick.choice([0, pick.randint(1, 400)])})
        script.cut(how, point, tmp_path / "cut")
        script.run()
        script = hw.Session(program, tmp_path, tmp_path / "cut")
        script.mount()
        script.unmount()
        script.save("recovered")
        assert [result.status for result in script.run()] == [hw.OK, hw.OK], where
        # The removal of an empty file has no record: a cut between its members leaves it free in the newest one. A rename's new slot
        # gets its other member last, and a cut that keeps the older member of a removal may lose its record: such a file has one copy.
        names = hw.names_on(tmp_path / "recovered")
        revived, lost = half_free((tmp_path / "recovered").read_bytes())
        assert len(revived) <= ("empty" not in names) and len(lost) <= 1, f"{where}: {revived} {lost}"
        rotten(tmp_path / "recovered", tmp_path / "rotten")
        assert by_both(program, tmp_path, tmp_path / "rotten") - names <= {"empty"}, where
