# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The core with the longer control store (ProgramLog2 13) on volumes that have names of more than 64 bytes: it reads and changes the other files, and leaves
those with long names as they are (FORMAT.md, "File slot"). A look-up that misses, in a bucket with a slot that the core takes for damaged, ends with `Corrupt`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402
from make_volume import put, sealed  # noqa: E402

NODE = 512
LONG = {"l" * 65: b"1" * 700, "m" * 255: b"2" * 5000, "ü" * 100: b"3" * 10}


@pytest.fixture(scope="module")
def program():
    return hw.build("grown", ProgramLog2=13)


def volume(folder, slots, names):
    image = hw.make_volume(folder / "v", slots=slots)
    for name, data in names.items():
        (folder / "source").write_bytes(data)
        hw.command("put", image, folder / "source", "--name", name)
    return image


def agree(image, kept, folder):
    assert hw.check(image)
    assert hw.names_on(image) == set(kept)
    for name, data in kept.items():
        assert hw.contents(image, name, folder) == data, name


@pytest.mark.parametrize("slots,files", [(64, 20), (8, 40)])
def test_the_core_keeps_them(program, tmp_path, slots, files):
    """On a table that has not grown, and on one that has."""
    kept = {f"file{number}": bytes([number]) * (100 * number + 1) for number in range(files)}
    image, gone = volume(tmp_path, slots, {**LONG, **kept}), files // 2
    script = hw.Session(program, tmp_path, image)
    script.mount()
    for number, (name, data) in enumerate(kept.items()):
        script.get(name, 0, len(data), f"got{number}")
    for number in range(gone):
        script.delete(f"file{number}")
    for number in range(gone, gone + 3):
        script.rename(f"file{number}", f"again{number}")
    script.open(0, f"file{gone + 3}", "w")
    script.write(0, len(kept[f"file{gone + 3}"]), b"y" * 3000)
    script.close(0)
    for number in range(5):
        script.put(f"core{number}", b"c" * (500 + number))
    script.unmount()
    script.save("after")
    results = [result.status for result in script.run()]
    made, rest = results[-6:-1], results[:-6] + results[-1:]
    assert set(rest) == {hw.OK} and set(made) <= {hw.OK, hw.TABLE_FULL}
    for number, data in enumerate(kept.values()):
        assert (tmp_path / f"got{number}").read_bytes() == data
    for number in range(gone):
        del kept[f"file{number}"]
    for number in range(gone, gone + 3):
        kept[f"again{number}"] = kept.pop(f"file{number}")
    kept[f"file{gone + 3}"] += b"y" * 3000
    kept.update({f"core{number}": b"c" * (500 + number) for number, status in enumerate(made) if status == hw.OK})
    agree(tmp_path / "after", {**LONG, **kept}, tmp_path)


def listed(program, folder, image):
    script = hw.Session(program, folder, image)
    script.mount("ro")
    slots = script.run()[0].value
    for slot in range(slots):
        script.list(slot)
    entries = [bytes.fromhex(result.rest) for result in script.run()[1:] if result.status == hw.OK]
    return {entry[16:16 + int.from_bytes(entry[12:16], "little")].decode() for entry in entries}


def test_the_core_lists_only_the_others(program, tmp_path):
    image = volume(tmp_path, 64, {**LONG, "a": b"1", "n" * 64: b"2"})
    assert listed(program, tmp_path, image) == {"a", "n" * 64}


class Forged:
    """A volume with one bucket and a file with a name of 255 bytes, whose slot can be changed and sealed again."""

    def __init__(self, folder):
        self.folder = folder
        self.image = bytearray(volume(folder, 8, {"a": b"1", "m" * 255: b"2" * 5000}).read_bytes())
        tables = [int.from_bytes(self.image[at:at + 8], "little") for at in (72, 80)]
        self.slots = [table + slot * NODE for table in tables for slot in range(8)
                      if self.image[table + slot * NODE + 58] == 255]
        assert len(self.slots) == 2

    def change(self, offset, value, size):
        for at in self.slots:
            node = self.image[at:at + NODE]
            put(node, offset, value, size)
            self.image[at:at + NODE] = sealed(bytes(node), bytes(self.image[24:40]), at, 4)

    def change_super(self, offset, value, size):
        for at in (0, 65536):
            one = self.image[at:at + 256]
            put(one, offset, value, size)
            self.image[at:at + 256] = sealed(bytes(one), b"", at, 8)

    def statuses(self, program, *how):
        (self.folder / "forged").write_bytes(self.image)
        script = hw.Session(program, self.folder, self.folder / "forged")
        script.mount(*how)
        script.get("a", 0, 1)
        script.get("absent", 0, 1)
        script.unmount()
        script.save("after")
        return [result.status for result in script.run()][:3]


# The entries of a name of 255 bytes begin at 80 + 256; there is room for eleven.
@pytest.mark.parametrize("offset,value,size,good", [
    (60, 1, 4, True),
    (60, 12, 4, False),
    (60, 0xffffffff, 4, False),
    (336, 1 << 20, 8, False),         # outside the volume
    (344, 0xffffff, 4, False),
    (40, 3, 8, False),                # other units than the extents have
    (57, 3, 1, False),
    (56, 4, 1, False),
])
def test_its_entries_are_checked_where_they_are(program, tmp_path, offset, value, size, good):
    forged = Forged(tmp_path)
    forged.change(offset, value, size)
    assert forged.statuses(program) == [hw.OK, hw.OK, hw.NOT_FOUND if good else hw.CORRUPT]


def test_a_long_name_without_the_feature_is_damage(program, tmp_path):
    forged = Forged(tmp_path)
    forged.change_super(56, 0, 4)
    assert forged.statuses(program) == [hw.OK, hw.OK, hw.CORRUPT]


def test_a_removal_that_software_began_is_left_to_it(program, tmp_path):
    """The core frees the units of files with shorter names only."""
    forged = Forged(tmp_path)
    forged.change(56, 2, 1)
    forged.change_super(52, 1, 4)  # without counts
    assert forged.statuses(program) == [hw.OK, hw.OK, hw.NOT_FOUND]
    after = (tmp_path / "after").read_bytes()
    assert [after[at + 56] for at in forged.slots] == [2, 2]
    (tmp_path / "source").write_bytes(b"3")
    hw.command("put", tmp_path / "after", tmp_path / "source", "--name", "b")
    agree(tmp_path / "after", {"a": b"1", "b": b"3"}, tmp_path)


def test_nodes_of_256_bytes_have_no_long_names(tmp_path):
    program = hw.build("grown_64", level="-O0", ProgramLog2=13, BlockSizeLog2=6)
    for node, features, status in ((256, 0, hw.OK), (256, 16, hw.CORRUPT), (512, 16, hw.OK)):
        image = make_volume.make(1 << 20, 64, node, 32)
        for at in (0, 65536):
            one = image[at:at + 256]
            put(one, 56, features, 4)
            image[at:at + 256] = sealed(bytes(one), b"", at, 8)
        (tmp_path / "v").write_bytes(image)
        script = hw.Session(program, tmp_path, tmp_path / "v")
        script.mount()
        assert [result.status for result in script.run()] == [status]
