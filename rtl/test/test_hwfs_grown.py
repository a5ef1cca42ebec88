# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The core with the longer control store (ProgramLog2 13) on volumes whose table has grown (FORMAT.md, "Grown tables"): it reads what the
command wrote, changes it, and the command finds it sound; also after power cuts, and where the table node is damaged.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed. STRAIGHTWAY_CUTS sets the number of power cuts, 0 means all.
"""

import os
import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
import make_volume  # noqa: E402
from make_volume import put, sealed  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or random.randrange(1, 1 << 24)
NODE = UNIT = 512
GROWN = 32  # of INCOMPAT
# One bucket takes 16 nodes; 20 of them in extents that are not in order, with a rest that is not used.
EXTENTS, BUCKETS = [(400, 16 * 3 + 5), (64, 16 * 16), (600, 16 * 2)], 20


@pytest.fixture(scope="module")
def program():
    return hw.build("grown", ProgramLog2=13)


def seeded(name):
    print(f"STRAIGHTWAY_SEED={SEED} {name}")
    return random.Random(f"{SEED} {name}")


def store(image, folder, name, data):
    (folder / "source").write_bytes(data)
    hw.command("put", image, folder / "source", "--name", name)


def grown_volume(folder, files=70):
    """A volume that the command made with eight slots, and these files, for which its table had to grow."""
    image, kept = hw.make_volume(folder / "v", slots=8), {}
    for number in range(files):
        name = f"file{number}"
        kept[name] = bytes([number]) * (100 + 37 * number)
        store(image, folder, name, kept[name])
    assert int.from_bytes(newest_super(image.read_bytes())[56:60], "little") == GROWN
    return image, kept


def newest_super(image):
    return max((image[at:at + 256] for at in (0, 65536)), key=lambda one: int.from_bytes(one[16:24], "little"))


def listed(program, folder, image, *how):
    """The names that the core lists."""
    script = hw.Session(program, folder, image)
    script.mount(*how)
    slots = script_slots(program, folder, image)
    for slot in range(slots):
        script.list(slot)
    mounted, *results = script.run()
    assert mounted.status == hw.OK
    entries = [bytes.fromhex(result.rest) for result in results if result.status == hw.OK]
    return {entry[16:16 + int.from_bytes(entry[12:16], "little")].decode() for entry in entries}


def script_slots(program, folder, image):
    script = hw.Session(program, folder, image)
    script.mount("ro")
    return script.run()[0].value


def agree(image, kept, folder):
    """The command finds the volume sound, with exactly these files."""
    assert hw.check(image)
    assert hw.names_on(image) == set(kept)
    for name, data in kept.items():
        assert hw.contents(image, name, folder) == data, name


@pytest.mark.parametrize("how", [(), ("ro",)])
def test_the_core_reads_what_the_command_wrote(program, tmp_path, how):
    image, kept = grown_volume(tmp_path)
    script = hw.Session(program, tmp_path, image)
    script.mount(*how)
    for number, (name, data) in enumerate(kept.items()):
        script.get(name, 0, len(data), f"got{number}")
        script.open(0, name)
        script.read(0, 50, len(data) - 50, f"read{number}")
        script.close(0)
    script.get("absent", 0, 1)
    script.save("after")
    results = script.run()
    assert results[0].value == 80  # nine buckets more
    assert [result.status for result in results[1:]] == [hw.OK] * (4 * len(kept)) + [hw.NOT_FOUND]
    for number, data in enumerate(kept.values()):
        assert (tmp_path / f"got{number}").read_bytes() == data
        assert (tmp_path / f"read{number}").read_bytes() == data[50:]
    assert (tmp_path / "after").read_bytes() == image.read_bytes()
    assert listed(program, tmp_path, image, *how) == set(kept)


def test_the_core_changes_it_and_the_command_agrees(program, tmp_path):
    image, kept = grown_volume(tmp_path)
    script = hw.Session(program, tmp_path, image)
    script.mount()
    for number in range(20):
        script.delete(f"file{number}")
        del kept[f"file{number}"]
    for number in range(12):
        kept[f"core{number}"] = bytes([number]) * (300 * number + 5)
        script.put(f"core{number}", kept[f"core{number}"])
    for number in range(20, 25):
        script.rename(f"file{number}", f"again{number}")
        kept[f"again{number}"] = kept.pop(f"file{number}")
    script.create(0, "app", 0)
    script.write(0, 0, b"abc" * 500)
    script.sync(0)
    script.write(0, 1500, b"x" * 3000)
    script.close(0)
    kept["app"] = b"abc" * 500 + b"x" * 3000
    script.open(1, "file30", "w")
    script.write(1, len(kept["file30"]), b"y" * 5000)
    script.close(1)
    kept["file30"] += b"y" * 5000
    script.unmount()
    script.save("after")
    assert {result.status for result in script.run()} == {hw.OK}
    agree(tmp_path / "after", kept, tmp_path)


def test_the_core_and_the_command_take_turns_on_a_volume_that_grows(program, tmp_path):
    """Both add and remove files; the command lets the table grow where a name has no slot, which the core refuses. In one round of three the core does not unmount."""
    pick = seeded("turns")
    image, kept, refused, number = hw.make_volume(tmp_path / "v", slots=8), {}, 0, 0
    sizes = []
    for turn in range(9):
        for _ in range(8):
            number += 1
            name = f"s{number}-{pick.randrange(1000)}"
            kept[name] = pick.randbytes(pick.randrange(1, 3000))
            store(image, tmp_path, name, kept[name])
        for name in pick.sample(sorted(kept), 2):
            hw.command("rm", image, name)
            del kept[name]
        script = hw.Session(program, tmp_path, image)
        script.mount()
        wanted, tried = [hw.OK], {}
        for name in pick.sample(sorted(kept), 3):
            script.get(name, 0, len(kept[name]), f"turn{turn}-{name}")
            script.delete(name)
            wanted += [hw.OK, hw.OK]
        deleted = {line.split()[1] for line in script.lines if line.startswith("delete")}
        for index in range(6):
            tried[f"c{turn}-{index}"] = pick.randbytes(pick.randrange(1, 2000))
            script.put(f"c{turn}-{index}", tried[f"c{turn}-{index}"])
        if turn % 3:
            script.unmount()
        script.save("after")
        results = [result.status for result in script.run()]
        assert results[:7] == wanted
        for (name, data), status in zip(tried.items(), results[7:13]):
            assert status in (hw.OK, hw.TABLE_FULL)
            refused += status == hw.TABLE_FULL
            if status == hw.OK:
                kept[name] = data
        for name in deleted:
            assert (tmp_path / f"turn{turn}-{name}").read_bytes() == kept.pop(name)
        image.write_bytes((tmp_path / "after").read_bytes())
        agree(image, kept, tmp_path)
        sizes.append(script_slots(program, tmp_path, image))
    print(f"slots {sizes}, refused {refused}")
    assert sizes[-1] > 32 and sizes == sorted(sizes)


def test_a_power_cut_on_a_grown_table(program, tmp_path):
    pick = seeded("cuts")
    image, kept = grown_volume(tmp_path, 30)

    def fresh():
        model = hw.Model()
        for name, data in kept.items():
            model.data[name] = data
            model.settle(name)
        commands = []

        def add(name, data):
            model.data[name] = data
            model.lengths[name] = {None, len(data)}

        for index in range(3):
            name, data = f"new{index}", bytes([index]) * (700 * index + 9)
            commands.append((("put", name, data), lambda n=name, d=data: add(n, d), lambda n=name: model.settle(n)))
            old = f"file{3 * index + 1}"
            commands.append((("delete", old), lambda n=old: model.lengths.update({n: {None, len(kept[n])}}),
                             lambda n=old: model.lengths.update({n: set()})))
        return model, commands

    for _ in hw.sweep(program, tmp_path, image, fresh, pick, hw.share(2), "a grown table"):
        pass


# --- Table nodes that are made from FORMAT.md alone ---

class Forged:
    """A volume with 32 slots and 20 buckets more, whose table node can be changed and sealed again."""

    def __init__(self):
        self.image = make_volume.make(1 << 20, UNIT, NODE, 32, 512)
        self.members = make_volume.grow(self.image, EXTENTS, BUCKETS)

    def change(self, offset, value, size, members=(0, 1)):
        for member in members:
            at = self.members[member]
            node = bytearray(self.image[at:at + NODE])
            put(node, offset, value, size)
            self.image[at:at + NODE] = sealed(bytes(node), bytes(self.image[24:40]), at, 4)

    def change_super(self, offset, value, size):
        for at in (0, 65536):
            one = bytearray(self.image[at:at + 256])
            put(one, offset, value, size)
            self.image[at:at + 256] = sealed(bytes(one), b"", at, 8)

    def mounted(self, program, folder):
        (folder / "forged").write_bytes(self.image)
        script = hw.Session(program, folder, folder / "forged")
        script.mount()
        for number in range(60):
            script.put(f"n{number}", bytes([number]) * 600)
        script.unmount()
        script.save("after")
        return script.run()


def test_a_table_in_several_extents(program, tmp_path):
    results = Forged().mounted(program, tmp_path)
    assert results[0].value == 8 * (4 + BUCKETS)
    assert {result.status for result in results} == {hw.OK}
    agree(tmp_path / "after", {f"n{number}": bytes([number]) * 600 for number in range(60)}, tmp_path)


@pytest.mark.parametrize("offset,value,size", [
    (32, 16 * NODE * (BUCKETS + 2), 8),  # more buckets than the extents have room for
    (32, 16 * NODE * BUCKETS + NODE, 8),  # part of a bucket
    (32, 1 << 63, 8),
    (40, 1, 8),                          # units that the extents do not have
    (56, 1, 1),                          # a file
    (57, 1, 1),                          # leaves
    (58, 1, 1),                          # a name
    (60, 2, 4),
    (60, 17, 4),
    (60, 0xffffffff, 4),
    (144, 1 << 20, 8),                   # an extent outside the volume
    (144, 1 << 32, 8),
    (152, 0xffffffff, 4),
])
def test_a_table_node_that_contradicts_itself_is_refused(program, tmp_path, offset, value, size):
    forged = Forged()
    forged.change(offset, value, size)
    assert forged.mounted(program, tmp_path)[0].status == hw.CORRUPT
    assert (tmp_path / "after").read_bytes() == forged.image
    # The command ignores the length of a name that is not there.
    assert (hw.command("ls", tmp_path / "forged", good=False).returncode == 0) == (offset == 58)


@pytest.mark.parametrize("unit", [1, 0xffffffff, 0xfffffffe])
def test_a_table_node_that_is_not_where_a_pair_can_be(program, tmp_path, unit):
    forged = Forged()
    forged.change_super(252, unit, 4)
    assert forged.mounted(program, tmp_path)[0].status == hw.CORRUPT
    assert hw.command("ls", tmp_path / "forged", good=False).returncode != 0


def test_one_member_of_the_table_node_is_enough(program, tmp_path):
    for rotten in ((0,), (1,), (0, 1)):
        forged = Forged()
        for member in rotten:
            forged.image[forged.members[member] + 100] ^= 1
        statuses = {result.status for result in forged.mounted(program, tmp_path)}
        assert statuses == ({hw.OK} if len(rotten) == 1 else {hw.CORRUPT, hw.NOT_MOUNTED})


def test_a_newer_table_node_proves_that_a_superblock_was_lost(program, tmp_path):
    forged = Forged()
    forged.change(16, 1000, 8)
    assert forged.mounted(program, tmp_path)[0].status == hw.STALE


def test_a_table_that_the_index_has_no_room_for_is_unsuitable(tmp_path):
    """The last 256 of IndexSlots are not used by such a volume."""
    for slots, status in ((8 * (4 + BUCKETS) + 256, hw.OK), (8 * (4 + BUCKETS) + 248, hw.UNSUITABLE)):
        program = hw.build(f"grown_{slots}", level="-O0", ProgramLog2=13, IndexSlots=slots)
        assert Forged().mounted(program, tmp_path)[0].status == status


def test_other_features_are_refused(program, tmp_path):
    for bit in (1, 2, 3, 6, 31):
        forged = Forged()
        forged.change_super(56, GROWN | 1 << bit, 4)
        assert forged.mounted(program, tmp_path)[0].status == hw.NEWER_VERSION
