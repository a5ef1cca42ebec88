"""The file system core: against volumes that the command made, and the command against its volumes.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure. STRAIGHTWAY=... names the
command where it is not target/release/straightway.
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
POWER_CUTS = int(os.environ.get("STRAIGHTWAY_CUTS", "60"))


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


def seeded(name):
    print(f"STRAIGHTWAY_SEED={SEED} {name}")
    return random.Random(f"{SEED} {name}")


def test_the_control_store_is_what_the_sources_give():
    done = subprocess.run([sys.executable, cores.RTL / "hwfs" / "microcode" / "assemble.py", "--check"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_the_assembler_and_the_hardware_have_the_same_numbers():
    sys.path.insert(0, str(cores.RTL / "hwfs" / "microcode"))
    import isa
    package = (cores.RTL / "hwfs" / "hwfs_pkg.sv").read_text("utf-8")
    numbers = {name: int(value) for name, value in re.findall(r"\b([A-Z]\w+)\s*=\s*4'd(\d+)", package)}
    for prefix, table in (("Alu", isa.ALU), ("Do", isa.UNITS), ("Instr", isa.KINDS)):
        names = {"readto": "ReadTo", "writeto": "WriteTo"}
        assert {prefix + names.get(name, name.capitalize()): code for name, code in table.items()} == \
            {name: value for name, value in numbers.items() if re.match(prefix + "[A-Z]", name)}
    conditions = re.search(r"typedef enum logic \[4:0\] \{([^}]*)\} cond_e;", package)[1]
    assert [name.strip()[4:].lower() for name in conditions.split(",")] == list(isa.CONDITIONS)


@pytest.mark.parametrize("parameters", [{}, {"DataWidth": 64}, {"DataWidth": 128, "NodeLog2Max": 12},
                                        {"DataWidth": 256, "BlockSizeLog2": 12, "NodeLog2Max": 12}])
def test_lint(parameters):
    generics = [f"-G{key}={value}" for key, value in parameters.items()]
    done = subprocess.run(["verilator", "--lint-only", "-Wall", "--assert", "--top-module", "hwfs", *generics,
                           *map(str, cores.files("hwfs"))], env=cores.environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def volume_with(path, files, **shape):
    hw.make_volume(path, **shape)
    for name, data in files.items():
        source = path.parent / "source"
        source.write_bytes(data)
        hw.command("put", path, source, name)
    return path


def contents(path, name, folder):
    target = folder / "fetched"
    hw.command("get", path, name, target, "--force")
    return target.read_bytes()


def test_reads_what_the_command_stored(program, tmp_path):
    """Mount, list, open, and reads at any offset and of any length, byte for byte."""
    pick = seeded("reads")
    files = {f"file-{size}": pick.randbytes(size) for size in (0, 1, 511, 512, 513, 5000, 70001)}
    image = volume_with(tmp_path / "v", files)
    script = hw.Session(program, tmp_path, image, stall=10, app_stall=10, seed=SEED, read_latency=7)
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


def test_writes_what_the_command_reads(program, tmp_path):
    """Create, append in odd pieces, overwrite, sync, close, rename, delete: sound, and byte for byte."""
    pick = seeded("writes")
    image = hw.make_volume(tmp_path / "v")
    script = hw.Session(program, tmp_path, image, stall=10, app_stall=10, seed=SEED, write_latency=3)
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
    script.unmount()
    script.save(tmp_path / "after")
    for result in script.run():
        assert result.status == hw.OK, script.lines
    files["renamed"] = files.pop("made-0")
    del files["made-1"]
    assert f"{len(files)} files" in hw.check(tmp_path / "after")
    for name, data in files.items():
        assert contents(tmp_path / "after", name, tmp_path) == data, name
