# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files of the file system core whose map has leaves: growth beyond the slot, level by level, and release from the end;
alternately with the command, and with power cuts.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from test_hwfs import SEED, seeded, slot_of  # noqa: E402

UNIT = 512
# Numbers of turns after which the next one adds: a first leaf, an entry of a leaf, a leaf, a first index node, an index node.
STAGES = {"slot_full": 23, "leaf": 30, "leaf_full": 28, "slot_full_of_leaves": 644, "node_full": 784}
TURNS = 800


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


def level_of(image, name):
    return max(image.read_bytes()[place + 57] for place in slot_of(image, name))


def grow(script, data, pick, turns):
    """Both files grow alternately by one unit, so that each unit is a separate extent."""
    for _ in range(turns):
        for file, name in enumerate(("a", "b")):
            piece = pick.randbytes(UNIT)
            script.write(file, len(data[name]), piece)
            data[name] += piece


@pytest.fixture(scope="module")
def stages(program, tmp_path_factory):
    """The mounted and synced volume after each number of turns, with the files' contents; and the unmounted volume at the end."""
    folder = tmp_path_factory.mktemp("stages")
    pick = seeded("stages")
    image = hw.make_volume(folder / "v", size="2M", slots=16)
    # The files begin in one group and continue in the next; they almost fill the volume.
    units = int.from_bytes(image.read_bytes()[112:120], "little") - 2 * TURNS - 300
    (folder / "filler").write_bytes(bytes(units * UNIT))
    hw.command("put", image, folder / "filler", "filler")
    data, found, done = {"a": b"", "b": b""}, {"filler": bytes(units * UNIT)}, 0
    script = hw.Session(program, folder, image, seed=SEED)
    script.mount()
    script.create(0, "a", 0)
    script.create(1, "b", 0)
    for name, turns in sorted(STAGES.items(), key=lambda stage: stage[1]):
        grow(script, data, pick, turns - done)
        done = turns
        script.sync(0)
        script.sync(1)
        script.save(folder / name)
        found[name] = (folder / name, dict(data))
    grow(script, data, pick, TURNS - done)
    script.close(0)
    script.close(1)
    script.unmount()
    script.save(folder / "end")
    for number, result in enumerate(script.run()):
        assert result.status == hw.OK, f"STRAIGHTWAY_SEED={SEED} stages: command {number}: {result}"
    found["end"] = (folder / "end", data)
    return found


def test_a_map_grows_level_by_level_and_shrinks(program, stages, tmp_path):
    """The core's files pass the check and can be read by both sides; each side appends to and deletes the other's files."""
    pick = seeded("levels")
    source, data = stages["end"]
    image = tmp_path / "v"
    image.write_bytes(source.read_bytes())
    assert "3 files" in hw.check(image)
    for name in ("a", "b"):
        assert hw.contents(image, name, tmp_path) == data[name]
        assert level_of(image, name) == 2

    mine = bytearray(data["a"])
    script = hw.Session(program, tmp_path, image, seed=SEED, stall=5)
    script.mount()
    script.get("b", 0, len(data["b"]), "whole")
    script.open(0, "a", "w")
    for number in range(6):
        offset = pick.randrange(len(mine))
        piece = pick.randbytes(min(len(mine) - offset, pick.randint(1, 3000)))
        script.write(0, offset, piece)
        mine[offset:offset + len(piece)] = piece
        offset = pick.randrange(len(mine))
        length = min(len(mine) - offset, pick.randint(1, 3000))
        script.read(0, offset, length, f"part{number}")
        (tmp_path / f"wanted{number}").write_bytes(mine[offset:offset + length])
    # More is reserved than written: closing releases the rest from the leaves.
    script.reserve(0, 40 * UNIT)
    script.write(0, len(mine), b"the end")
    mine += b"the end"
    script.close(0)
    script.rename("a", "c")
    script.delete("b")
    script.unmount()
    script.save(image)
    for result, line in zip(script.run(), script.lines[1:]):
        assert result.status == hw.OK, f"STRAIGHTWAY_SEED={SEED} levels: {line}: {result}"
    assert (tmp_path / "whole").read_bytes() == data["b"]
    for number in range(6):
        assert (tmp_path / f"part{number}").read_bytes() == (tmp_path / f"wanted{number}").read_bytes(), number
    assert "2 files" in hw.check(image)
    assert hw.contents(image, "c", tmp_path) == mine

    # The command fills gaps; the core frees space, appends to the command's file, and deletes it.
    theirs = pick.randbytes(250 * UNIT)
    (tmp_path / "source").write_bytes(theirs)
    hw.command("put", image, tmp_path / "source", "d")
    assert level_of(image, "d") == 1
    more = pick.randbytes(20 * UNIT)
    script = hw.Session(program, tmp_path, image, seed=SEED)
    script.mount()
    script.get("d", 1, len(theirs) - 1, "whole")
    script.delete("filler")
    script.open(1, "d", "w")
    script.write(1, len(theirs), more)
    script.close(1)
    script.unmount()
    script.save(image)
    assert [result.status for result in script.run()] == [hw.OK] * 7
    assert (tmp_path / "whole").read_bytes() == theirs[1:]
    hw.check(image)
    assert hw.contents(image, "d", tmp_path) == theirs + more
    hw.command("rm", image, "c")
    script = hw.Session(program, tmp_path, image, seed=SEED)
    script.mount()
    script.delete("d")
    script.unmount()
    script.save(image)
    assert [result.status for result in script.run()] == [hw.OK] * 3
    assert "0 files" in hw.check(image)


def workload(pick, model, small):
    """Growth of both files with some syncs; with `small`, one of them is then deleted."""
    nothing = lambda: None  # noqa: E731
    commands = [(("open", 0, "a", "w"), nothing, nothing), (("open", 1, "b", "w"), nothing, nothing)]
    for _ in range(3):
        for file, name in enumerate(("a", "b")):
            piece = pick.randbytes(pick.choice([UNIT, UNIT, 3 * UNIT]))
            commands.append(((file, len(model.data[name]), piece), nothing, nothing))
            model.data[name] += piece
            if pick.random() < 0.4:
                size = len(model.data[name])
                commands.append((("sync", file), lambda n=name, s=size: model.lengths[n].add(s),
                                 lambda n=name, s=size: model.lengths.update({n: {s}})))
    for file, name in enumerate(("a", "b")):
        size = len(model.data[name])
        commands.append((("close", file), lambda n=name, s=size: model.lengths[n].add(s),
                         lambda n=name, s=size: model.lengths.update({n: {s}})))
    if small:
        commands.append((("delete", "a"), lambda: model.lengths["a"].add(None), lambda: model.lengths.pop("a")))
        model.gone = {"a": model.data.pop("a")}
    return commands


@pytest.mark.parametrize("stage", STAGES)
def test_a_power_cut_while_a_map_changes(program, stages, tmp_path, stage):
    """Cuts at writes and flushes of growth and release, at each step from one level to the next: the check passes, no synced
    data are lost, and the map can grow further."""
    image, data = stages[stage]
    pick = seeded(f"cuts {stage}")
    small = STAGES[stage] < 100
    state = pick.getstate()

    def fresh():
        again, model = random.Random(), hw.Model()
        again.setstate(state)
        model.data = dict(data, filler=stages["filler"])
        model.lengths = {name: {len(held)} for name, held in model.data.items()}
        return model, workload(again, model, small)

    options = {"seed": SEED, "write_latency": 4, "flush_latency": 9}
    for what, model, repaired in hw.sweep(program, tmp_path, image, fresh, pick, hw.share(10),
                                        f"STRAIGHTWAY_SEED={SEED} {stage}", **options):
        left = {name: hw.contents(repaired, name, tmp_path) for name in model.data if name != "filler"}
        script = hw.Session(program, tmp_path, repaired)
        script.mount()
        for file, name in enumerate(left):
            script.open(file, name, "w")
            script.write(file, len(left[name]), b"x" * 3 * UNIT)
            script.close(file)
        script.unmount()
        script.save(repaired)
        assert {result.status for result in script.run()} == {hw.OK}, what
        hw.check(repaired)
        for name, held in left.items():
            assert hw.contents(repaired, name, tmp_path) == held + b"x" * 3 * UNIT, what


def test_an_extent_that_becomes_longer_brings_no_old_leaf_back(program, stages, tmp_path):
    """A first index node still names a leaf that was released. The extent before it grows past the former start of that leaf:
    the stale entry must be removed before it is within the file again."""
    source, data = stages["slot_full_of_leaves"]
    image = tmp_path / "v"
    image.write_bytes(source.read_bytes())
    pieces = {name: name.encode() * UNIT for name in ("a", "b")}
    script = hw.Session(program, tmp_path, image)
    script.mount()
    script.open(0, "a", "w")
    script.open(1, "b", "w")
    script.put("between", bytes(3 * UNIT))
    script.reserve(1, 4 * UNIT)
    script.close(1)
    script.open(1, "b", "w")
    script.delete("between")
    script.write(1, len(data["b"]), pieces["b"])
    script.write(0, len(data["a"]), pieces["a"])
    script.close(1)
    script.close(0)
    script.unmount()
    script.save(image)
    for result, line in zip(script.run(), script.lines[1:]):
        assert result.status == hw.OK, f"{line}: {result}"
    hw.check(image)
    for name, piece in pieces.items():
        assert hw.contents(image, name, tmp_path) == data[name] + piece, name


def fetches(program, folder, image, name, units):
    """The number of nodes that each of these reads of a part of a unit fetched: all requests except the one for the data."""
    script = hw.Session(program, folder, image, seed=SEED)
    script.mount()
    script.open(0, name)
    script.count()
    for number, unit in enumerate(units):
        script.read(0, unit * UNIT + 7, 100, f"piece{number}")
        script.count()
    results = script.run()
    assert {result.status for result in results if not isinstance(result, list)} == {hw.OK}
    reads = [result[0] for result in results if isinstance(result, list)]
    return [after - before - 1 for before, after in zip(reads, reads[1:])]


@pytest.mark.parametrize("stage,level", [("slot_full_of_leaves", 1), ("node_full", 2)])
def test_a_random_read_fetches_one_node_of_the_map(program, stages, tmp_path, stage, level):
    """The slot and the index node above the leaves stay cached. Opening determines the newest member of each pair that the slot
    names; below an index node, both members of a leaf are read the first time."""
    image, data = stages[stage]
    pick = seeded(f"fetches {stage}")
    assert level_of(image, "a") == level
    # The leaves that the first index node names, or all leaves.
    last = min(len(data["a"]) // UNIT, 780)
    units = [*range(0, last, 9), *(pick.randrange(last) for _ in range(60))]
    found = fetches(program, tmp_path, image, "a", units)
    for number, unit in enumerate(units):
        assert (tmp_path / f"piece{number}").read_bytes() == data["a"][unit * UNIT + 7:unit * UNIT + 107], unit
    first, then = found[:-60], found[-60:]
    assert max(then) == 1, f"STRAIGHTWAY_SEED={SEED} {found}"
    assert max(first) == 1 if level == 1 else max(first) <= 4, f"STRAIGHTWAY_SEED={SEED} {found}"


def leaf_places(image, name):
    """The offsets (A, B) of the pairs that the newest member of the file's slot names."""
    raw = image.read_bytes()
    slot = max(slot_of(image, name), key=lambda place: raw[place + 8:place + 16][::-1])
    data, log2 = int.from_bytes(raw[104:112], "little"), raw[48]
    count = int.from_bytes(raw[slot + 60:slot + 64], "little")
    firsts = [data + (int.from_bytes(raw[at + 8:at + 16], "little") << log2)
              for at in range(slot + 144, slot + 144 + 16 * count, 16)]
    return [(first, first + 512) for first in firsts]


@pytest.mark.parametrize("member", [0, 1])
def test_a_leaf_that_cannot_be_read_is_an_error_where_it_is_needed(program, stages, tmp_path, member):
    """Opening reads every leaf. A leaf that cannot be read does not affect others; if one member is damaged, the other one is
    used."""
    image, data = stages["slot_full_of_leaves"]
    places = leaf_places(image, "a")
    assert len(places) > 8
    script = hw.Session(program, tmp_path, image, seed=SEED)
    script.mount("ro")
    script.bad("read", places[3][member] // 512)
    script.open(0, "a")
    for number, unit in enumerate((0, 600, 3 * 28 + 14)):
        script.read(0, unit * UNIT, UNIT, f"piece{number}")
    script.bad("none")
    script.read(0, (3 * 28 + 14) * UNIT, UNIT, "piece3")
    script.flip(places[5][member] + 200)
    script.close(0)
    script.open(0, "a")
    script.read(0, 145 * UNIT, UNIT, "piece4")
    results = [result.status for result in script.run()]
    assert results == [hw.OK, hw.OK, hw.OK, hw.OK, hw.DEVICE, hw.OK, hw.OK, hw.OK, hw.OK]
    for number, unit in enumerate((0, 600, None, 3 * 28 + 14, 145)):
        if unit is not None:
            assert (tmp_path / f"piece{number}").read_bytes() == data["a"][unit * UNIT:(unit + 1) * UNIT], number


@pytest.mark.parametrize("stage", ["leaf_full", "slot_full_of_leaves", "node_full", "end"])
def test_what_is_read_between_changes_is_what_was_written(program, stages, tmp_path, stage):
    """The part of the map that reads cache in memory is never stale: reads among overwrites, growth, release, creation and
    deletion of other files, and a second mount."""
    image, data = stages[stage]
    pick = seeded(f"between {stage}")
    held = {name: bytearray(bytes_) for name, bytes_ in data.items()}
    places, wanted, others, made = {"a": 0, "b": 1}, {}, [], 0
    script = hw.Session(program, tmp_path, image, seed=SEED)
    script.mount()
    for name, place in places.items():
        script.open(place, name, "w")
    for number in range(160):
        name = pick.choice("ab")
        place, mine = places[name], held[name]
        offset = pick.randrange(len(mine))
        length = min(len(mine) - offset, pick.randint(1, 2000))
        what = pick.choice(["read"] * 10 + ["get", "write", "write", "append", "close", "put", "delete", "list", "mount"])
        if what in ("read", "get"):
            script.read(place, offset, length, f"r{number}") if what == "read" else \
                script.get("filler", 0, 600, f"r{number}")
            wanted[number] = bytes(mine[offset:offset + length]) if what == "read" else bytes(600)
        elif what == "write":
            if pick.random() < 0.5:  # whole blocks: no partial block is loaded
                offset, length = offset // UNIT * UNIT, UNIT
            piece = pick.randbytes(min(length, len(mine) - offset))
            script.write(place, offset, piece)
            mine[offset:offset + len(piece)] = piece
        elif what == "append":
            piece = pick.randbytes(pick.choice([100, UNIT, 2 * UNIT]))
            script.reserve(place, pick.choice([1, 4]) * UNIT)
            script.write(place, len(mine), piece)
            mine += piece
            script.commit(place)
        elif what == "close":  # reserved space is released from the leaves
            script.close(place)
            script.open(place, name, "w")
        elif what == "put" and len(others) < 3:  # the table of names is small
            made += 1
            others.append(f"o{made}")
            script.put(others[-1], pick.randbytes(pick.choice([UNIT, 1500])))
        elif what == "delete" and others:
            script.delete(others.pop())
        elif what == "list":
            script.list(0)
        elif what == "mount":
            for file in (0, 1):
                script.close(file)
            script.unmount()
            script.mount()
            for file_name, file in places.items():
                script.open(file, file_name, "w")
    script.close(0)
    script.close(1)
    script.unmount()
    script.save(tmp_path / "after")
    for result, line in zip(script.run(), script.lines[1:]):
        assert result.status == hw.OK, f"STRAIGHTWAY_SEED={SEED} between {stage}: {line}: {result}"
    for number, bytes_ in wanted.items():
        assert (tmp_path / f"r{number}").read_bytes() == bytes_, f"STRAIGHTWAY_SEED={SEED} between {stage}: {number}"
    hw.check(tmp_path / "after")
    for name in places:
        assert hw.contents(tmp_path / "after", name, tmp_path) == held[name], name
