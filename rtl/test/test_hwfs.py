# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The file system core on volumes that the command made, and the command on volumes of the core.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure. STRAIGHTWAY=... names the
command if it is not target/release/straightway.
"""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402
from hwfs_script import cores  # noqa: E402

SEED = int(os.environ.get("STRAIGHTWAY_SEED", "0") or 0) or int.from_bytes(os.urandom(3), "big") + 1


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


# Widths of the data streams, on a device with blocks of 64 bytes, so that nodes and blocks differ.
@pytest.fixture(scope="module", params=[32, 64, 256])
def any_width(request):
    if request.param == 32:
        return request.getfixturevalue("program")
    return hw.build(f"test_{request.param}", level="-O0", DataWidth=request.param, BlockSizeLog2=6)


def seeded(name):
    print(f"STRAIGHTWAY_SEED={SEED} {name}")
    return random.Random(f"{SEED} {name}")


def test_the_control_store_is_what_the_sources_give():
    done = subprocess.run([sys.executable, cores.RTL / "hwfs" / "microcode" / "assemble.py", "--check"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_the_assembler_and_the_hardware_have_the_same_numbers():
    sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
    import depth
    import isa
    package = (cores.RTL / "hwfs" / "hwfs_pkg.sv").read_text("utf-8")
    numbers = {name: int(value) for name, value in re.findall(r"\b([A-Z]\w+)\s*=\s*4'd(\d+)", package)}
    for prefix, table in (("Alu", isa.ALU), ("Do", isa.UNITS), ("Instr", isa.KINDS)):
        names = {"readto": "ReadTo", "writeto": "WriteTo"}
        assert {prefix + names.get(name, name.capitalize()): code for name, code in table.items()} == \
            {name: value for name, value in numbers.items() if re.match(prefix + "[A-Z]", name)}
    assert f"StackDepth = {depth.STACK_DEPTH};" in (cores.RTL / "hwfs" / "hwfs_seq.sv").read_text("utf-8")
    conditions = re.search(r"typedef enum logic \[4:0\] \{([^}]*)\} cond_e;", package)[1]
    assert [name.strip()[4:].lower() for name in conditions.split(",")] == list(isa.CONDITIONS)


def test_nested_calls_are_counted(tmp_path):
    """Nine levels. A call on the path back to the main loop no longer occupies the stack."""
    sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
    import assemble
    import depth
    source = tmp_path / "nest.asm"
    nest = "".join(f"l{n}:\n  tst r1, {n}\n  bz failed\n  call l{n + 1}\n  ret\n" for n in range(8)) + "l8:\n  ret\n"
    source.write_text(f"main:\n  call l0\n  b main\nfailed:\n  call l1\n  b main\n{nest}", "utf-8")
    assembler = assemble.Assembler()
    assembler.read(source)
    assert len(depth.deepest(assembler)) == 9
    source.write_text("again:\n  call again\n  ret\n", "utf-8")
    assembler = assemble.Assembler()
    assembler.read(source)
    with pytest.raises(SystemExit, match="calls itself"):
        depth.deepest(assembler)


def assembled(tmp_path, *lines):
    """The words of these lines, behind the registers and constants of layout.asm."""
    sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
    import assemble
    source = tmp_path / "lines.asm"
    source.write_text("\n".join(lines) + "\n", "utf-8")
    assembler = assemble.Assembler()
    assembler.read(cores.RTL / "hwfs" / "microcode" / "layout.asm")
    assembler.read(source)
    return assembler.words()


@pytest.mark.parametrize("before,load,is_early", [
    ("mov r1, 5", "ld [V_T1]", True),
    ("mov r1, 5", "ld [r1 + V_T1]", False),
    ("st r1, [V_T2]", "ld [V_T1]", True),
    ("st r1, [V_T1]", "ld [V_T1]", False),
    ("sth r1, [V_T1]", "ld [V_T1]", False),
    ("st r1, [snode + SEQ]", "ld [snode + SEQ]", False),
    ("st r1, [snode + SEQ]", "ld [snode + LAST_OP]", True),
    ("st r1, [work + SEQ]", "ld [V_T1]", True),
    ("st r1, [work + SEQ]", "ld [snode + SEQ]", False),
    ("st r1, [r2 + F_SIZE]", "ld [V_T1]", False),
    ("ld [r1]", "ld [V_T1]", False),
    ("ld [V_T2]", "ld [V_T1]", True),
])
def test_only_a_load_that_nothing_delays_is_early(tmp_path, before, load, is_early):
    """Its address is a constant, and what is before it neither reads memory nor may change the word."""
    assert bool(assembled(tmp_path, before, load, "mov r3, md")[1] >> 12 & 1) == is_early


@pytest.mark.parametrize("grown", [False, True])
def test_the_marks_agree_with_the_instructions(grown):
    """Of the whole program, from its words alone: the sequencer compares no registers, it relies on the marks."""
    sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
    import assemble
    import isa
    _, words = assemble.assemble(grown)
    kinds = {code: name for name, code in isa.KINDS.items()}
    for at, (before, word) in enumerate(zip(words, words[1:]), 1):
        kind, earlier = kinds[word >> 28 & 15], kinds[before >> 28 & 15]
        written = (before >> 20 & 15) | (before >> 28 & 16) if earlier in ("alu", "li") else 0
        first, second = (word >> 16 & 15) | (word >> 29 & 16), word & 31
        source = word >> 12 & 7
        no_first = kind == "alu" and (word >> 34 or word >> 24 & 15 in (isa.ALU["mov"], isa.ALU["ctz"], isa.ALU["tag"], isa.ALU["ones"]))
        if written and not no_first and kind in ("alu", "ld", "st", "do", "jump"):
            assert bool(word & isa.FRESH_FIRST) == (first == written), at
        if written and (kind in ("st", "do") or (kind == "alu" and source == isa.SOURCES["reg"])):
            assert bool(word & isa.FRESH_SECOND) == (second == written), at
        if earlier == "ld" and not before >> 12 & 1:
            uses = kind == "alu" and (source >= isa.SOURCES["md"] or word >> 34 != 0)
            assert bool(before >> 13 & 1) == uses, at
        assert kind not in ("st", "do") or source == isa.SOURCES["reg"], at


def test_a_constant_has_one_value(tmp_path):
    with pytest.raises(SystemExit, match="duplicate constant V_T1"):
        assembled(tmp_path, "V_T1 = 8")
    with pytest.raises(SystemExit, match="@often is none of @grown, @plain, @any, @near"):
        assembled(tmp_path, "@often mov r1, 1")


def test_a_second_copy_has_its_own_labels(tmp_path):
    """A name in it means the label that ends like those of the copy, in whatever file, and else the one of that name."""
    sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
    import assemble
    source = tmp_path / "twice.asm"
    source.write_text("here:\n  mov r1, 1\n@any  mov r1, 2\n@near  mov r1, 3\n  bz here\n  bz other\n  ret\nother:\n  ret\n", "utf-8")
    assembler = assemble.Assembler(grown=True)
    assembler.read(source)
    assembler.read(source, assemble.COPY)
    assert assembler.labels == {"here": 0, "other": 5, "here_any": 6, "other_any": 11}
    words = assembler.words()
    assert [words[at] & 0xfff for at in (1, 2, 3, 7, 8, 9)] == [3, 0, 5, 2, 6, 11]


def test_a_branch_is_expected_to_go_back_in_its_own_file(tmp_path):
    lines = ("again:", "  bz again", "  bz again unlikely", "  bnz behind", "  bnz behind likely", "  b behind", "behind:", "  ret")
    assert [word >> 31 & 1 for word in assembled(tmp_path, *lines)] == [1, 0, 0, 1, 1, 1]
    for wrong in ("b behind likely", "bz behind perhaps"):
        with pytest.raises(SystemExit, match="may follow"):
            assembled(tmp_path, "behind:", wrong)
    with pytest.raises(SystemExit, match="r0 stays zero"):
        assembled(tmp_path, "  xor r0, r0, r0")


@pytest.mark.parametrize("parameters", [{}, {"DataChecksums": 1}, {"DataWidth": 64}, {"DataWidth": 128, "NodeLog2Max": 12},
                                        {"DataWidth": 256, "BlockSizeLog2": 12, "NodeLog2Max": 12}])
def test_lint(parameters):
    assert cores.lint("hwfs", "hwfs", parameters) == ""


def volume_with(path, files, **shape):
    hw.make_volume(path, **shape)
    for name, data in files.items():
        source = path.parent / "source"
        source.write_bytes(data)
        hw.command("put", path, source, name)
    return path


@pytest.mark.cells("any_width")
def test_reads_what_the_command_stored(any_width, tmp_path):
    """Mount, list, open, and reads at any offset and of any length, byte for byte."""
    pick = seeded("reads")
    files = {f"file-{size}": pick.randbytes(size) for size in (0, 1, 511, 512, 513, 5000, 70001)}
    image = volume_with(tmp_path / "v", files)
    script = hw.Session(any_width, tmp_path, image, stall=10, app_stall=10, seed=SEED, read_latency=7)
    script.mount()
    wanted = []
    for name, data in files.items():
        script.open(0, name)
        for _ in range(6):
            offset = pick.randint(0, len(data))
            length = pick.choice([0, 1, 3, 4, pick.randint(0, len(data)), len(data) - offset])
            length = min(length, len(data) - offset)
            wanted.append((len(wanted), data[offset:offset + length]))
            script.read(0, offset, length, f"out{len(wanted) - 1}")
        script.read(0, 0, len(data) + 1)
        script.close(0)
    results = script.run()
    assert results.pop(0).status == hw.OK
    for name, data in files.items():
        part, results = results[:9], results[9:]
        assert [result.status for result in part] == [hw.OK] * 7 + [hw.PAST_END, hw.OK], name
        assert part[0].value == len(data)
    for number, data in wanted:
        assert (tmp_path / f"out{number}").read_bytes() == data


def test_lists_the_files_of_a_volume(program, tmp_path):
    files = {name: bytes(size) for name, size in (("a", 10), ("ein-längerer-name", 700), ("x" * 64, 0))}
    image = volume_with(tmp_path / "v", files)
    found, slot = {}, 0
    while True:
        script = hw.Session(program, tmp_path, image)
        script.mount()
        script.list(slot)
        result = script.run()[1]
        if result.status == hw.NOT_FOUND:
            break
        assert result.status == hw.OK
        data = bytes.fromhex(result.rest)
        assert len(data) == 80
        length = int.from_bytes(data[12:16], "little")
        found[data[16:16 + length].decode()] = int.from_bytes(data[:8], "little")
        slot = result.value
    assert found == {name: len(data) for name, data in files.items()}


@pytest.mark.cells("any_width")
def test_writes_what_the_command_reads(any_width, tmp_path):
    """Create, append with odd lengths, overwrite, sync, close, rename, delete: the check passes, and every byte is right."""
    pick = seeded("writes")
    image = hw.make_volume(tmp_path / "v")
    script = hw.Session(any_width, tmp_path, image, stall=10, app_stall=10, seed=SEED, write_latency=3)
    script.mount()
    files = {}
    for number in range(6):
        name = f"made-{number}"
        script.create(number % 4, name, pick.choice([0, 700, 5000]))
        data = bytearray()
        for _ in range(pick.randint(0, 6)):
            piece = pick.randbytes(pick.choice([1, 3, 512, pick.randint(1, 3000)]))
            script.write(number % 4, len(data), piece)
            data += piece
            if data and pick.random() < 0.5:
                offset = pick.randrange(len(data))
                piece = pick.randbytes(min(len(data) - offset, pick.randint(1, 1500)))
                script.write(number % 4, offset, piece)
                data[offset:offset + len(piece)] = piece
            if pick.random() < 0.3:
                script.sync(number % 4)
            if pick.random() < 0.3:
                script.commit(number % 4)
        script.close(number % 4)
        files[name] = bytes(data)
    script.rename("made-0", "renamed")
    script.delete("made-1")
    for size in (0, 1, 511, 512, 30000, 300000):
        files[f"put-{size}"] = pick.randbytes(size)
        script.put(f"put-{size}", files[f"put-{size}"])
        script.get(f"put-{size}", size // 3, size // 2, f"got-{size}")
    script.unmount()
    script.save(tmp_path / "after")
    for result in script.run():
        assert result.status == hw.OK, script.lines
    files["renamed"] = files.pop("made-0")
    del files["made-1"]
    assert f"{len(files)} files" in hw.check(tmp_path / "after")
    for name, data in files.items():
        assert hw.contents(tmp_path / "after", name, tmp_path) == data, name
        if name.startswith("put-"):
            got = (tmp_path / name.replace("put", "got")).read_bytes()
            assert got == data[len(data) // 3:len(data) // 3 + len(data) // 2]


def appending_workload(pick, model, steps):
    """Commands that append, commit, sync, close, delete and rename, with the changes of the model at the begin and at the end
    of each: [(words or (file, offset, data), begin, end)]."""
    commands, opened, count = [], {}, 0
    nothing = lambda: None  # noqa: E731
    for _ in range(steps):
        free = [place for place in range(4) if place not in opened]
        closed = [name for name in model.data if name not in opened.values()]
        choice = pick.random()
        if choice < 0.1:
            name = f"put-{count}"
            count += 1
            size = pick.choice([1, 600, pick.randint(1, 5000)])
            model.data[name] = pick.randbytes(size)
            # If one operation has no room for the data, the file may exist without them.
            commands.append((("put", name, model.data[name]),
                             lambda n=name, s=size: model.lengths.update({n: {None, 0, s}}),
                             lambda n=name, s=size: model.lengths.update({n: {s}})))
        elif (choice < 0.3 or not opened) and free:
            name, place = f"new-{count}", pick.choice(free)
            count += 1
            opened[place] = name
            model.data[name] = b""
            commands.append((("create", place, name, pick.choice([0, 0, 1000, 6000])),
                             lambda n=name: model.lengths.update({n: {None, 0}}),
                             lambda n=name: model.lengths.update({n: {0}})))
        elif choice < 0.5 and opened:
            place = pick.choice(list(opened))
            name = opened[place]
            piece = pick.randbytes(pick.choice([1, 100, 512, 1024, pick.randint(1, 4000)]))
            commands.append(((place, len(model.data[name]), piece), nothing, nothing))
            model.data[name] += piece
            if pick.random() < 0.5:
                size = len(model.data[name])
                commands.append((("sync", place), lambda n=name, s=size: model.lengths[n].add(s),
                                 lambda n=name, s=size: model.lengths.update({n: {s}})))
        elif choice < 0.75 and opened:
            place = pick.choice(list(opened))
            name, size = opened[place], len(model.data[opened[place]])
            verb = pick.choice(["commit", "sync", "close"])
            if verb == "close":
                del opened[place]
            commands.append(((verb, place), lambda n=name, s=size: model.lengths[n].add(s),
                             nothing if verb == "commit" else lambda n=name, s=size: model.lengths.update({n: {s}})))
        elif choice < 0.88 and closed:
            name = pick.choice(closed)
            commands.append((("delete", name), lambda n=name: model.lengths[n].add(None),
                             lambda n=name: model.lengths.pop(n)))
            model.data = dict(model.data)
            model.gone = getattr(model, "gone", {})
            model.gone[name] = model.data.pop(name)
        elif closed:
            name, other = pick.choice(closed), f"moved-{count}"
            count += 1
            model.gone = getattr(model, "gone", {})
            model.gone[name] = model.data.pop(name)
            model.data[other] = model.gone[name]

            def begin(n=name, o=other):
                model.lengths[o] = model.lengths[n] | {None}
                model.lengths[n] = model.lengths[n] | {None}
                model.pair = (n, o)

            def end(n=name, o=other):
                model.lengths[o] = model.lengths.pop(n) - {None}
                model.pair = None
            commands.append((("rename", name, other), begin, end))
    for place, name in opened.items():
        size = len(model.data[name])
        commands.append((("close", place), lambda n=name, s=size: model.lengths[n].add(s),
                         lambda n=name, s=size: model.lengths.update({n: {s}})))
    return commands


@pytest.mark.parametrize("number", range(3))
def test_a_power_cut_loses_nothing_that_was_synced(program, tmp_path, number):
    """Cuts at writes and flushes throughout a workload; unflushed blocks are lost, kept or torn. The command and the core both
    recover the volume: the check passes, and each file has its synced or later committed contents."""
    pick = seeded(f"power cuts {number}")
    image = hw.make_volume(tmp_path / "v", size="1M", slots=16)
    state = pick.getstate()

    def fresh():
        again, model = random.Random(), hw.Model()
        again.setstate(state)
        return model, appending_workload(again, model, 24)

    options = {"seed": SEED, "stall": 5, "write_latency": 4, "flush_latency": 9}
    what = f"STRAIGHTWAY_SEED={SEED} power cuts {number}"
    for _ in hw.sweep(program, tmp_path, image, fresh, pick, hw.share(3), what, **options):
        pass


def churning_workload(pick, model, steps):
    """Only puts and deletes, alternately: the fast paths of both."""
    commands = []
    model.gone = {}
    for count in range(steps):
        if not model.data or pick.random() < 0.6:
            name, size = f"put-{count}", pick.choice([1, 512, 513, pick.randint(1, 9000)])
            model.data[name] = pick.randbytes(size)
            commands.append((("put", name, model.data[name]),
                             lambda n=name, s=size: model.lengths.update({n: {None, 0, s}}),
                             lambda n=name, s=size: model.lengths.update({n: {s}})))
        else:
            name = pick.choice(sorted(model.data))
            model.gone[name] = model.data.pop(name)
            commands.append((("delete", name), lambda n=name: model.lengths[n].add(None),
                             lambda n=name: model.lengths.pop(n)))
    return commands


@pytest.mark.parametrize("unit", [512, 4096])
def test_a_power_cut_among_puts_and_deletes(program, tmp_path, unit):
    """The same with units of one block and longer ones, on a device with slow flushes."""
    pick = seeded(f"churn {unit}")
    image = hw.make_volume(tmp_path / "v", size="1M", slots=16, unit=unit)
    state = pick.getstate()

    def fresh():
        again, model = random.Random(), hw.Model()
        again.setstate(state)
        return model, churning_workload(again, model, 16)

    options = {"seed": SEED, "stall": 5, "write_latency": 4, "flush_latency": 40}
    what = f"STRAIGHTWAY_SEED={SEED} churn {unit}"
    for _ in hw.sweep(program, tmp_path, image, fresh, pick, hw.share(3), what, **options):
        pass


def test_the_core_and_the_command_take_turns(program, tmp_path):
    """Random changes of one volume by the core and the command; after each turn the check passes and the contents are right."""
    pick = seeded("turns")
    image = hw.make_volume(tmp_path / "v", size="2M")
    files, count = {}, 0
    for turn in range(6):
        if turn % 2:
            for _ in range(3):
                count += 1
                data = pick.randbytes(pick.choice([0, 5, 600, 30000]))
                (tmp_path / "source").write_bytes(data)
                hw.command("put", image, tmp_path / "source", f"c{count}")
                files[f"c{count}"] = data
            for name in pick.sample(sorted(files), min(2, len(files))):
                hw.command("rm", image, name)
                del files[name]
            continue
        script = hw.Session(program, tmp_path, image, seed=SEED + turn, stall=5, app_stall=5)
        script.mount()
        for _ in range(12):
            names = sorted(files)
            kind = pick.choice(["create", "create", "append", "overwrite", "delete", "rename"])
            if kind == "create" or not names:
                count += 1
                name, data = f"h{count}", pick.randbytes(pick.choice([0, 700, 20000]))
                script.create(1, name, pick.choice([0, len(data)]))
                script.write(1, 0, data)
                files[name] = data
            elif kind in ("append", "overwrite"):
                name = pick.choice(names)
                offset = len(files[name]) if kind == "append" else pick.randint(0, len(files[name]))
                data = pick.randbytes(pick.randint(1, 5000))
                script.open(1, name, "w")
                script.write(1, offset, data)
                files[name] = files[name][:offset] + data + files[name][offset + len(data):]
            else:
                name = pick.choice(names)
                if kind == "delete":
                    script.delete(name)
                    del files[name]
                else:
                    count += 1
                    script.rename(name, f"r{count}")
                    files[f"r{count}"] = files.pop(name)
                continue
            script.close(1)
        script.unmount()
        script.save(image)
        for result, line in zip(script.run(), script.lines[1:]):
            assert result.status == hw.OK, line
        hw.check(image)
        assert hw.names_on(image) == set(files)
        for name, data in files.items():
            assert hw.contents(image, name, tmp_path) == data, name


def mounted(program, folder, image, **options):
    script = hw.Session(program, folder, image, **options)
    script.mount()
    return script


def statuses(script):
    return [result.status for result in script.run()]


def test_what_cannot_be_done_has_a_status_and_changes_nothing(program, tmp_path):
    image = volume_with(tmp_path / "v", {"one": b"1" * 1000, "two": b"2"}, size="1M", slots=8)
    script = hw.Session(program, tmp_path, image)
    wanted = []

    def expect(status, verb, *words):
        getattr(script, verb)(*words)
        wanted.append((status, verb, words))

    expect(hw.NOT_MOUNTED, "open", 0, "one")
    expect(hw.OK, "mount")
    expect(hw.NOT_FOUND, "open", 0, "none")
    expect(hw.NOT_OPEN, "read", 0, 0, 1)
    expect(hw.BAD_COMMAND, "open", 5, "one")
    expect(hw.OK, "open", 0, "one")
    expect(hw.IN_USE, "open", 0, "two")
    expect(hw.IN_USE, "open", 1, "one", "w")
    expect(hw.IN_USE, "delete", "one")
    expect(hw.IN_USE, "rename", "one", "three")
    expect(hw.IN_USE, "unmount")
    expect(hw.PAST_END, "read", 0, 1000, 1)
    expect(hw.PAST_END, "read", 0, 1, 2**64 - 1)
    expect(hw.OK, "read", 0, 1000, 0)
    expect(hw.NOT_WRITABLE, "write", 0, 0, b"x")
    expect(hw.NOT_WRITABLE, "sync", 0)
    expect(hw.EXISTS, "create", 1, "two", 0)
    expect(hw.EXISTS, "rename", "two", "one")
    expect(hw.NOT_FOUND, "rename", "none", "three")
    expect(hw.NOT_FOUND, "delete", "none")
    expect(hw.BAD_COMMAND, "command", 15, 0, 0, 0, 0, "")
    expect(hw.BAD_NAME, "command", 2, 1, 0, 0, 0, "")
    expect(hw.BAD_NAME, "command", 3, 1, 0, 0, 0, "x" * 65)
    expect(hw.BAD_NAME, "create", 1, "bad\udcff", 0)
    expect(hw.BAD_NAME, "create", 1, "half\udcc3", 0)
    expect(hw.NO_SPACE, "create", 1, "big", 2 << 20)
    expect(hw.NO_SPACE, "create", 1, "big", 2**64 - 1)
    for number in range(6):
        expect(hw.OK, "create", 1, f"more-{number}", 0)
        expect(hw.OK, "close", 1)
    expect(hw.TABLE_FULL, "create", 1, "too-many", 0)
    expect(hw.OK, "close", 0)
    expect(hw.OK, "unmount")
    script.save(tmp_path / "after")
    for (status, verb, words), result in zip(wanted, script.run()):
        assert result.status == status, (verb, words, result)
    assert hw.check(tmp_path / "after")
    assert hw.contents(tmp_path / "after", "one", tmp_path) == b"1" * 1000


def test_a_full_volume(program, tmp_path):
    """Fills the volume to the last unit; further writes are refused, and the check passes."""
    image = hw.make_volume(tmp_path / "v", size="256K", slots=8)
    script = mounted(program, tmp_path, image)
    script.create(0, "all", 0)
    for number in range(12):
        script.write(0, number * 20000, bytes([number]) * 20000)
    script.close(0)
    script.unmount()
    script.save(tmp_path / "after")
    results = script.run()
    written = [result.status for result in results[2:14]]
    good = written.index(hw.NO_SPACE)
    assert 3 <= good and set(written[good:]) <= {hw.NO_SPACE, hw.PAST_END}
    assert [result.status for result in results[14:]] == [hw.OK, hw.OK]
    hw.check(tmp_path / "after")
    assert hw.contents(tmp_path / "after", "all", tmp_path) == b"".join(bytes([n]) * 20000 for n in range(good))


def test_a_full_pair_of_buckets(program, tmp_path):
    """A name whose two buckets are full is refused although other slots are free; software gives it a bucket of a table that grows."""
    image = hw.make_volume(tmp_path / "v", slots=32)
    names = [f"name-{number}" for number in range(34)]
    script = mounted(program, tmp_path, image)
    for name in names:
        script.put(name, b"x")
    script.unmount()
    script.save(tmp_path / "after")
    results = statuses(script)
    assert set(results[1:-1]) == {hw.OK, hw.TABLE_FULL} and results[0] == results[-1] == hw.OK
    taken = {name for name, status in zip(names, results[1:]) if status == hw.OK}
    (tmp_path / "source").write_bytes(b"x")
    assert hw.names_on(tmp_path / "after") == taken
    for name in names:
        hw.command("put", image, tmp_path / "source", name)
    assert hw.names_on(image) == set(names)


def slot_of(image, name):
    """The offsets of the two members of a file's slot in the image, from the superblock and the name."""
    data = image.read_bytes()
    tables = [int.from_bytes(data[at:at + 8], "little") for at in (72, 80)]
    node = 1 << data[49]
    for number in range(8 << data[50]):
        places = [table + number * node for table in tables]
        if any(data[place + 80:place + 80 + len(name) + 1] == name.encode() + b"\0" for place in places):
            return places
    raise AssertionError(f"{name} has no slot")


def test_damage(program, tmp_path):
    """A damaged member of a pair is ignored; a pair with two damaged members is an error. The same for superblocks."""
    image = volume_with(tmp_path / "v", {"one": b"1" * 1000, "two": b"2" * 600})
    good = image.read_bytes()
    places = slot_of(image, "one")

    def with_flips(*offsets):
        data = bytearray(good)
        for offset in offsets:
            data[offset] ^= 4
        (tmp_path / "bad").write_bytes(data)
        script = hw.Session(program, tmp_path, tmp_path / "bad")
        script.mount("ro")
        script.open(0, "one")
        script.read(0, 0, 1000, "out")
        script.open(1, "two")
        script.open(2, "none")
        return statuses(script)

    absent = hw.NOT_FOUND
    assert with_flips() == [hw.OK] * 4 + [absent]
    for place in places:
        assert with_flips(place + 200) == [hw.OK] * 4 + [absent]
        assert (tmp_path / "out").read_bytes() == b"1" * 1000
    assert with_flips(places[0] + 33, places[1] + 33)[:4] == [hw.OK, hw.CORRUPT, hw.NOT_OPEN, hw.OK]
    assert with_flips(100) == [hw.OK] * 4 + [absent]
    assert with_flips(65536 + 100) == [hw.OK] * 4 + [absent]
    assert with_flips(100, 65536 + 100)[0] == hw.NOT_A_VOLUME


def test_a_failing_device(program, tmp_path):
    """Errors of reads, writes and flushes: the device's status and code are reported, and the volume stays consistent."""
    image = volume_with(tmp_path / "v", {"one": bytes(5000)})
    data_start = int.from_bytes(image.read_bytes()[104:112], "little") // 512
    script = mounted(program, tmp_path, image)
    script.open(0, "one")
    script.bad("read", data_start + 3)
    script.read(0, 0, 5000)
    script.read(0, 0, 1024)
    script.close(0)
    script.bad("none")
    script.create(0, "new", 4000)
    script.bad("flush")
    script.write(0, 0, bytes(4000))
    script.sync(0)
    script.bad("none")
    script.write(0, 0, bytes(10))
    script.mount()
    script.unmount()
    script.save(tmp_path / "after")
    results = script.run()
    assert [result.status for result in results] == [
        hw.OK, hw.OK, hw.DEVICE, hw.OK, hw.OK, hw.OK, hw.OK, hw.DEVICE, hw.NOT_MOUNTED, hw.OK, hw.OK]
    assert results[2].value == results[7].value == 0x0281
    hw.check(tmp_path / "after")


def test_a_flush_that_fails_and_drops_blocks(program, tmp_path):
    """ATA, FLUSH CACHE EXT: the block that cannot be written leaves the cache, and the next flush succeeds without it. The command ends
    with the error, the volume must be mounted again, and has what was synced."""
    pick = seeded("failed flushes")
    image = hw.make_volume(tmp_path / "v", size="1M", slots=16)
    state = pick.getstate()
    for number in range(1, 1000):
        again, model = random.Random(), hw.Model()
        again.setstate(state)
        commands = churning_workload(again, model, 12)
        script = mounted(program, tmp_path, image, journal=1, seed=SEED, write_latency=4, flush_latency=9)
        script.bad("flush", number)
        hw.add_commands(script, commands)
        script.bad("none")
        script.mount()
        script.unmount()
        script.save(tmp_path / "after")
        results = [result.status for result in script.run()][1:]
        if hw.DEVICE not in results:
            break
        what = f"STRAIGHTWAY_SEED={SEED} failed flushes, flush {number}: {results}"
        assert results.count(hw.DEVICE) == 1 and results[-2:] == [hw.OK] * 2, what
        for (_, begin, end), status in zip(commands, results):
            if status != hw.NOT_MOUNTED:
                begin()
            if status == hw.OK:
                end()
        hw.check(tmp_path / "after")
        hw.expect_after_cut(tmp_path / "after", model, tmp_path, what)
    assert number > 12


def test_a_device_that_fails_the_nodes_of_a_reservation(program, tmp_path):
    """The operation record is durable but its nodes are not: the volume must be mounted again, which recovers it."""
    image = hw.make_volume(tmp_path / "v")
    bitmaps = [int.from_bytes(image.read_bytes()[at:at + 8], "little") // 512 for at in (88, 96)]
    script = mounted(program, tmp_path, image)
    script.create(0, "new", 0)
    for block in bitmaps:
        script.bad("write", block)
    script.write(0, 0, bytes(4000))
    script.bad("none")
    script.sync(0)
    script.mount()
    script.create(0, "other", 4000)
    script.close(0)
    script.unmount()
    script.save(tmp_path / "after")
    assert statuses(script) == [hw.OK, hw.OK, hw.DEVICE, hw.NOT_MOUNTED, hw.OK, hw.OK, hw.OK, hw.OK]
    hw.check(tmp_path / "after")


@pytest.mark.parametrize("stop", ["give", "take", "device"])
def test_whatever_stands_still_is_timed_out(program, tmp_path, stop):
    """The application stops sending or taking data, or the device hangs: the command ends with a status, and the next works."""
    image = volume_with(tmp_path / "v", {"one": bytes(range(256)) * 40})
    script = mounted(program, tmp_path, image)
    script.open(0, "one", "w")
    if stop == "device":
        script.hang(1)
        script.read(0, 0, 10240)
        script.hang(0)
        script.idle(3000)
        script.mount()
    else:
        script.stop(stop, 100)
        if stop == "give":
            script.write(0, 10240, bytes(4000))
        else:
            script.read(0, 0, 10240)
        script.stop(stop, -1)
    script.open(1, "one")
    script.close(0)
    script.open(1, "one")
    script.read(1, 0, 10240, "out")
    results = statuses(script)
    assert results[:3] == [hw.OK, hw.OK, hw.TIMED_OUT]
    assert results[-2:] == [hw.OK, hw.OK] or stop == "device", results
    if stop == "device":
        assert results[3:5] == [hw.OK, hw.OK], results
    assert (tmp_path / "out").read_bytes() == bytes(range(256)) * 40


def test_files_in_pieces(program, tmp_path):
    """Files with extents all over a full volume, made by the command (with a leaf) and by the core (in the slot): read and
    overwritten across extents, and released. test_hwfs_leaves.py tests the core's own leaves."""
    pick = seeded("pieces")
    image = hw.make_volume(tmp_path / "v", size="512K", slots=128)
    units = int.from_bytes(image.read_bytes()[112:120], "little")
    small = {f"small-{number}": bytes([number]) * 1024 for number in range(60)}
    for name, data in {**small, "filler": bytes((units - 120) * 512)}.items():
        (tmp_path / "source").write_bytes(data)
        hw.command("put", image, tmp_path / "source", name)
    hw.command("rm", image, *(name for number, name in enumerate(small) if number % 2 == 0))
    data = bytearray(pick.randbytes(26 * 1024 - 100))
    (tmp_path / "source").write_bytes(data)
    hw.command("put", image, tmp_path / "source", "leaf")
    script = mounted(program, tmp_path, image, seed=SEED, app_stall=10, stall=10)
    script.get("leaf", 0, len(data), "whole")
    script.open(0, "leaf", "w")
    for number in range(8):
        offset, length = pick.randrange(len(data)), pick.randint(1, 5000)
        piece = pick.randbytes(min(length, len(data) - offset))
        script.write(0, offset, piece)
        data[offset:offset + len(piece)] = piece
        offset = pick.randrange(len(data))
        script.read(0, offset, len(data) - offset, f"part{number}")
        (tmp_path / f"wanted{number}").write_bytes(data[offset:])
    script.close(0)
    script.save(tmp_path / "changed")
    script.delete("leaf")
    script.unmount()
    script.save(image)
    before = (tmp_path / "source").read_bytes()
    assert statuses(script) == [hw.OK] * 22
    assert (tmp_path / "whole").read_bytes() == before
    for number in range(8):
        assert (tmp_path / f"part{number}").read_bytes() == (tmp_path / f"wanted{number}").read_bytes(), number
    assert hw.contents(tmp_path / "changed", "leaf", tmp_path) == data
    hw.check(image)

    data = bytearray(pick.randbytes(20 * 1024 - 300))
    script = mounted(program, tmp_path, image, seed=SEED)
    script.put("mine", data)
    script.open(1, "mine", "w")
    piece = pick.randbytes(9000)
    script.write(1, 3001, piece)
    data[3001:12001] = piece
    script.write(1, len(data), b"end" * 100)
    data += b"end" * 100
    script.close(1)
    script.get("mine", 1, len(data) - 1, "whole")
    script.put("too-long", bytes(20 * 1024))
    script.create(2, "too-long", 20 * 1024)
    script.create(2, "fits", 1000)
    script.close(2)
    script.delete("fits")
    script.delete("small-1")
    script.unmount()
    script.save(image)
    assert [result.status for result in script.run()] == [hw.OK] * 7 + [hw.NO_SPACE] * 2 + [hw.OK] * 5
    assert hw.names_on(image) == {"mine", "filler", *(f"small-{number}" for number in range(3, 60, 2))}
    assert (tmp_path / "whole").read_bytes() == data[1:]
    hw.check(image)
    assert hw.contents(image, "mine", tmp_path) == data
    script = mounted(program, tmp_path, image)
    script.delete("mine")
    script.unmount()
    script.save(image)
    assert statuses(script) == [hw.OK] * 3
    hw.check(image)
