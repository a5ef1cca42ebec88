# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Volumes of format 1.1: the core refuses them, and reads and writes them again once the command took them back to 1.0."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402


@pytest.fixture(scope="module")
def program():
    return hw.build("test")


def test_a_volume_with_a_long_name_is_refused(program, tmp_path):
    """Bit 4 of INCOMPAT, which the command sets with the first name of more than 64 bytes; a volume that never had one stays readable."""
    image, source = hw.make_volume(tmp_path / "v"), tmp_path / "source"
    source.write_bytes(b"1" * 1000)
    for name, status in (("n" * 64, hw.OK), ("n" * 65, hw.NEWER_VERSION)):
        hw.command("put", image, source, "--name", name)
        before = Path(image).read_bytes()
        script = hw.Session(program, tmp_path, image)
        script.mount()
        script.save(tmp_path / "after")
        assert [result.status for result in script.run()] == [status]
        assert (tmp_path / "after").read_bytes() == before
    hw.command("rm", image, "n" * 65)
    script = hw.Session(program, tmp_path, image)
    script.mount()
    assert [result.status for result in script.run()] == [hw.NEWER_VERSION]


def test_a_volume_whose_table_has_grown_is_refused(program, tmp_path):
    """Bit 5 of INCOMPAT, which the command sets when a name has no slot; the core reads the volume until then."""
    image, source = hw.make_volume(tmp_path / "v", slots=8), tmp_path / "source"
    source.write_bytes(b"1" * 1000)
    for number in range(9):
        hw.command("put", image, source, "--name", f"file{number}")
        if number < 7:
            continue
        before = Path(image).read_bytes()
        script = hw.Session(program, tmp_path, image)
        script.mount()
        script.save(tmp_path / "after")
        wanted = hw.OK if number == 7 else hw.NEWER_VERSION
        assert [result.status for result in script.run()] == [wanted]
        assert (tmp_path / "after").read_bytes() == before
    assert hw.check(image)


def test_the_core_and_software_take_turns_on_a_volume_that_grows_and_goes_back(program, tmp_path):
    """Software makes 1.1 of the volume and takes it back, in three rounds; the core reads and changes what came back, with a power cut in one round."""
    image, source = hw.make_volume(tmp_path / "v", slots=16), tmp_path / "source"
    kept = {}
    for turn in range(3):
        for number in range(18):
            name = f"soft{turn}-{number}"
            kept[name] = bytes([turn, number]) * (300 + 100 * number)
            source.write_bytes(kept[name])
            hw.command("put", image, source, "--name", name)
        long = "n" * 70
        hw.command("put", image, source, "--name", long)
        script = hw.Session(program, tmp_path, image)
        script.mount()
        assert [result.status for result in script.run()] == [hw.NEWER_VERSION]
        hw.command("rm", image, long)
        for name in [name for name in kept if not name.endswith(("-3", "-17"))]:
            hw.command("rm", image, name)
            del kept[name]
        hw.command("upgrade", image, "--to", "1.0")
        script = hw.Session(program, tmp_path, image)
        script.mount()
        script.put(f"core{turn}", b"core" * 500)
        script.delete(f"soft{turn}-3")
        # Without the mark that it is clean, in one round.
        if turn != 1:
            script.unmount()
        script.save(tmp_path / "after")
        assert {result.status for result in script.run()} == {hw.OK}
        del kept[f"soft{turn}-3"]
        kept[f"core{turn}"] = b"core" * 500
        image.write_bytes((tmp_path / "after").read_bytes())
        assert hw.check(image)
        assert hw.names_on(image) == set(kept)
        for name, data in kept.items():
            assert hw.contents(image, name, tmp_path) == data
