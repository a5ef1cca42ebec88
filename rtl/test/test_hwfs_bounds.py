# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Volumes with intact nodes and valid checksums that name units outside the volume, on a device that is longer than the
volume. The core and the software both report a damaged node, and the core writes nothing outside the volume.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402
from make_volume import put  # noqa: E402

NODE = UNIT = 512
SIZE, SLOTS, BEHIND = 512 * 1024, 32, 0xa5
FILE_BYTES = 100 * 1024


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


class Forged:
    """A volume with one file, whose nodes can be changed and sealed again."""

    def __init__(self, pieces):
        self.image = make_volume.make(SIZE, UNIT, NODE, SLOTS, 512)
        starts = make_volume.scatter(self.image, "file", FILE_BYTES, FILE_BYTES // pieces)
        for index, start in enumerate(starts):
            each = FILE_BYTES // pieces
            self.image[start:start + each] = bytes([index & 255]) * each
        self.tables = [int.from_bytes(self.image[at:at + 8], "little") for at in (72, 80)]
        self.bitmaps = [int.from_bytes(self.image[at:at + 8], "little") for at in (88, 96)]
        self.data = int.from_bytes(self.image[104:112], "little")
        self.units = int.from_bytes(self.image[112:120], "little")
        self.number = make_volume.slot_for("file", SLOTS)

    def seal(self, at, node, field=4):
        end = at + len(node)
        self.image.extend(bytes(max(0, end - len(self.image))))
        self.image[at:end] = make_volume.sealed(bytes(node), bytes(self.image[24:40]), at, field)

    def slot(self, change):
        """Applies `change` to both members of the file's slot."""
        at = self.tables[0] + self.number * NODE
        node = bytearray(self.image[at:at + NODE])
        change(node)
        for member, table in enumerate(self.tables):
            put(node, 8, 2 + member, 8)
            self.seal(table + self.number * NODE, node)

    def leaf(self, index, change, place=None):
        """Changes both members of a leaf, at the unit `place` if given."""
        at = self.tables[0] + self.number * NODE + 144 + 16 * index
        unit = int.from_bytes(self.image[at + 8:at + 16], "little")
        old = self.data + unit * UNIT
        node = bytearray(self.image[old:old + NODE])
        change(node)
        for member in range(2):
            put(node, 8, 2 + member, 8)
            self.seal(self.data + (unit if place is None else place) * UNIT + member * NODE, node)

    def free_behind(self, count):
        """Marks `count` units after the last one as free, in both members of the last bitmap."""
        group = (self.units - 1) // (4 * NODE)
        for member, table in enumerate(self.bitmaps):
            at = table + group * NODE
            node = bytearray(self.image[at:at + NODE])
            bits = int.from_bytes(node[NODE // 2:], "little")
            first = self.units - group * 4 * NODE
            bits &= ~((1 << count) - 1 << first)
            put(node, NODE // 2, bits, NODE // 2)
            put(node, 32, int.from_bytes(node[32:36], "little") + count, 4)
            put(node, 8, member, 8)
            self.seal(at, node)


def extent(index, start, units=None):
    def change(node):
        put(node, 144 + 16 * index, start, 8)
        if units is not None:
            put(node, 152 + 16 * index, units, 4)
    return change


def leaf_extent(index, start):
    return lambda node: put(node, 64 + 16 * index, start, 8)


def forge(case):
    """The forged volume, and the node that the software reports as damaged."""
    if case.startswith("slot"):
        forged = Forged(1 if "one" in case else 5)
        units, last = forged.units, 0 if "one" in case else 4
        forged.slot({"slot, one behind": extent(0, units + 100), "slot, one at the end": extent(0, units),
                     "slot, one across the end": extent(0, units - 199), "slot, one far": extent(0, 1 << 55),
                     "slot, one farther": extent(0, 2**64 - 1), "slot, one long": extent(0, 0, 2**32 - 1),
                     "slot, first": extent(0, units + 100), "slot, last": extent(last, units - 39),
                     "slot, last far": extent(last, 2**64 - 40)}[case])
        return forged
    forged = Forged(50)
    units = forged.units
    if case == "pair behind":
        forged.leaf(1, lambda node: None, units + 6)
        forged.slot(lambda node: put(node, 144 + 16 + 8, units + 6, 8))
    elif case == "pair across the end":
        forged.leaf(1, lambda node: None, units - 1)
        forged.slot(lambda node: put(node, 144 + 16 + 8, units - 1, 8))
    elif case == "pair far":
        forged.slot(lambda node: put(node, 144 + 16 + 8, 1 << 61, 8))
    elif case == "leaf, last":
        forged.leaf(1, leaf_extent(50 - 28 - 1, units + 100))
    elif case == "leaf, last across the end":
        forged.leaf(1, leaf_extent(50 - 28 - 1, units - 1))
    elif case == "leaf, last far":
        forged.leaf(1, leaf_extent(50 - 28 - 1, 2**64 - 2))
    return forged


SLOT_CASES = ["slot, one behind", "slot, one at the end", "slot, one across the end", "slot, one far",
              "slot, one farther", "slot, one long", "slot, first", "slot, last", "slot, last far",
              "pair behind", "pair across the end", "pair far"]
LEAF_CASES = ["leaf, last", "leaf, last across the end", "leaf, last far"]


def longer(forged, path):
    """The device: the volume and the same size again, which no command may touch."""
    image = bytearray(forged.image)
    image.extend(bytes([BEHIND]) * (2 * SIZE - len(image)))
    path.write_bytes(image)
    return bytes(image)


@pytest.mark.parametrize("case", SLOT_CASES + LEAF_CASES)
def test_units_that_the_volume_does_not_have(program, tmp_path, case):
    before = longer(forge(case), tmp_path / "v")
    assert hw.command("check", tmp_path / "v", good=False).returncode != 0, "the software accepts the damaged volume"
    assert hw.command("get", tmp_path / "v", "file", tmp_path / "got", good=False).returncode != 0
    script = hw.Session(program, tmp_path, tmp_path / "v")
    script.mount()
    # Alone first, before another command has read the slot.
    script.get("file", FILE_BYTES - 64, 64)
    script.get("file", 0, FILE_BYTES)
    script.open(0, "file", "w")
    script.write(0, FILE_BYTES - 600, b"w" * 600)
    script.write(0, FILE_BYTES, b"a" * 600)
    script.sync(0)
    script.close(0)
    script.put("other", b"o" * 700)
    script.rename("file", "moved")
    script.rename("moved", "file")
    script.delete("file")
    script.save(tmp_path / "after")
    results = [result.status for result in script.run()]
    after = (tmp_path / "after").read_bytes()
    assert after[SIZE:] == before[SIZE:], f"{case}: {results}"
    if case in SLOT_CASES:
        # A command on the file reports a damaged slot and does not change it.
        wanted = [hw.OK, *[hw.CORRUPT] * 3, *[hw.NOT_OPEN] * 4, results[8], hw.CORRUPT, results[10], hw.CORRUPT]
        assert results == wanted and results[8] in (hw.OK, hw.CORRUPT), (case, results)
        forged = forge(case)
        for table in forged.tables:
            at = table + forged.number * NODE
            assert after[at:at + NODE] == before[at:at + NODE], case
    else:
        # The slot itself is valid: each command that needs the leaf's entry fails.
        assert results[:4] == [hw.OK, hw.CORRUPT, hw.CORRUPT, hw.OK], (case, results)
        assert results[4:6] == [hw.CORRUPT] * 2 and results[-1] in (hw.CORRUPT, hw.NOT_MOUNTED), (case, results)


@pytest.mark.parametrize("count", [1, 40])
def test_a_bitmap_that_frees_units_behind_the_last(program, tmp_path, count):
    """The bitmap is damaged: nothing is allocated there, even if the volume is full."""
    forged = Forged(1)
    forged.free_behind(count)
    before = longer(forged, tmp_path / "v")
    assert hw.command("check", tmp_path / "v", good=False).returncode != 0
    script = hw.Session(program, tmp_path, tmp_path / "v")
    script.mount()
    script.put("one", b"1" * 700)
    script.create(0, "two", 0)
    script.write(0, 0, b"2" * 700)
    script.delete("file")
    script.get("file", 0, FILE_BYTES)
    script.save(tmp_path / "after")
    results = [result.status for result in script.run()]
    assert results[:5] == [hw.OK, hw.CORRUPT, hw.OK, hw.CORRUPT, hw.CORRUPT], results
    assert results[5] in (hw.OK, hw.NOT_MOUNTED), results
    assert (tmp_path / "after").read_bytes()[SIZE:] == before[SIZE:]
