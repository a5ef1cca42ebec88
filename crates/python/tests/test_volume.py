# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A volume as a mapping of names to file objects, and what is refused."""

import io
from pathlib import Path
from typing import Any

import numpy
import pytest

import straightway
from other_thread import refusals


@pytest.fixture
def image(tmp_path: Path) -> str:
    name = str(tmp_path / "image")
    straightway.format(name, volume_bytes=16 << 20, checksums=True, label="tests")
    return name


def test_names_map_to_files(image: str) -> None:
    with straightway.open_volume(image, write=True) as volume:
        assert len(volume) == 0 and not volume and "a" not in volume and volume.get("a") is None
        for name in "abc":
            with volume.create(name, app_tag=7) as file:
                assert file.write(name.encode() * 1000) == 1000
        assert sorted(volume) == ["a", "b", "c"] and len(volume) == 3 and "b" in volume
        assert {name: file.read(3) for name, file in volume.items()} == {"a": b"aaa", "b": b"bbb", "c": b"ccc"}
        entry = volume.entry("a")
        assert (entry.name, entry.size_bytes, entry.app_tag, entry.checksums) == ("a", 1000, 7, True) and entry.mtime_ns > 0
        volume.rename("a", "d")
        del volume["b"]
        assert sorted(volume) == ["c", "d"]
        status = volume.status
        assert status.label == "tests" and status.checksums and 0 < status.free_bytes < status.capacity_bytes
    with straightway.open_volume(image) as volume:
        assert volume.status.read_only and sorted(volume.keys()) == ["c", "d"]


def test_files_are_file_objects(image: str) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    with straightway.open_volume(image, write=True) as volume:
        with io.TextIOWrapper(io.BufferedWriter(volume.create("text")), "utf-8") as out:
            out.write(text)
        with io.TextIOWrapper(io.BufferedReader(volume["text"]), "utf-8") as lines:
            assert list(lines) == text.splitlines(keepends=True)
        with volume["text"] as file:
            assert file.readline() == b"line 0\n" and file.tell() == 7
            assert file.seek(-10, io.SEEK_END) == len(text) - 10 and file.read() == text[-10:].encode()
            assert file.read(1) == b"" and file.readable() and not file.writable() and file.seekable()
            file.seek(0)
            array: Any = numpy.zeros(4, numpy.uint16)
            assert file.readinto(array) == 8 and array.tobytes() == b"line 0\nl"
            with pytest.raises(straightway.Error):
                file.write(b"no")
            with pytest.raises(straightway.UsageError):
                file.seek(-1)
        with volume.append("text") as file:
            file.write(numpy.arange(3, dtype=numpy.uint8))
            # Not before it is durable.
            assert file.size_bytes == len(text)
            assert file.sync() == len(text) + 3
            file.seek(len(text))
            assert file.read() == b"\0\1\2"


def test_a_device_s_memory_is_read_into(image: str) -> None:
    with straightway.open_volume(image, write=True) as volume, straightway.open("ram:1M", write=True) as device:
        with volume.create("a") as file:
            file.write(bytes(range(256)) * 16)
        buffer = device.allocate(4096)
        assert volume["a"].readinto(memoryview(buffer)) == 4096
        device.write(0, buffer)
        assert bytes(memoryview(buffer)) == bytes(range(256)) * 16


def test_bad_input_says_why_and_changes_nothing(image: str) -> None:
    with straightway.open_volume(image, write=True) as volume:
        with volume.create("a") as file:
            file.write(b"kept")
        with pytest.raises(KeyError) as missing:
            volume["no"]
        assert isinstance(missing.value, straightway.NotFoundError) and "no file has this name" in str(missing.value)
        with pytest.raises(straightway.NotFoundError):
            del volume["no"]
        with pytest.raises(straightway.ExistsError):
            volume.create("a")
        with pytest.raises(straightway.Error):
            volume.create("x" * 256)
        with pytest.raises(straightway.Error):
            volume.create("")
        full = volume.create("big")
        with pytest.raises(straightway.Error) as raised:
            full.write(bytes(32 << 20))
        assert raised.value.code == straightway.Status.FULL
        try:
            full.close()
        except straightway.Error:
            pass
        with volume["a"] as file, pytest.raises(straightway.Error):
            del volume["a"]
            file.read()
        assert volume["a"].read() == b"kept"
    with straightway.open_volume(image) as volume, pytest.raises(straightway.Error):
        volume.create("b")
    with pytest.raises(straightway.Error) as raised:
        straightway.open_volume(image + "-not")
    assert raised.value.code == straightway.Status.MISSING
    with pytest.raises(straightway.Error):
        straightway.format(image)


def test_rot_is_an_error(image: str) -> None:
    with straightway.open_volume(image, write=True) as volume, volume.create("a") as file:
        file.write(b"rotten!!" * 8192)
    raw = Path(image).read_bytes()
    Path(image).write_bytes(raw.replace(b"rotten!!" * 2, b"rotten!!rotten!?", 1))
    with straightway.open_volume(image) as volume, pytest.raises(straightway.Error) as raised:
        volume["a"].readall()
    assert raised.value.code == straightway.Status.ROT


def test_closed_objects_and_other_threads_are_refused(image: str) -> None:
    volume = straightway.open_volume(image, write=True)
    file = volume.create("a")
    file.write(b"abc")
    calls = (lambda: list(volume), lambda: file.read(1), lambda: file.write(b"x"), volume.close)
    assert refusals(calls) == ["this thread has not opened such a handle"] * 4
    volume.close()
    for call in (lambda: file.read(1), lambda: file.write(b"x"), lambda: list(volume), lambda: volume["a"], volume.close):
        with pytest.raises(straightway.UsageError):
            call()
    file.close()
    with pytest.raises(ValueError):
        file.read(1)
    # Closing the volume synced it.
    with straightway.open_volume(image) as volume:
        assert volume["a"].read() == b"abc"


def test_many_files_are_made_at_once(image: str) -> None:
    contents: dict[str, Any] = {f"file {number}": bytes([number]) * (number * 500) for number in range(40)}
    contents["long"] = numpy.arange(100_000, dtype=numpy.uint16)
    with straightway.open_volume(image, write=True) as volume:
        volume.create_many(contents, app_tag=5)
        assert {name: file.readall() for name, file in volume.items()} == {name: bytes(data) for name, data in contents.items()}
        entry = volume.entry("file 7")
        assert entry.checksums and entry.app_tag == 5 and entry.mtime_ns > 0
        with pytest.raises(straightway.ExistsError):
            volume.create_many({"new": b"1", "long": b"2", "after": b"3"})
        assert volume["new"].read() == b"1" and "after" not in volume
        volume.create_many({})
        with pytest.raises(straightway.NotFoundError):
            volume.remove_many(["file 1", "file 2", "nothing", "file 3"])
        assert "file 2" not in volume and "file 3" in volume
        volume.remove_many(name for name in list(volume) if name.startswith("file"))
        assert sorted(volume) == ["long", "new"]
        volume.remove_many([])
        with pytest.raises(straightway.Error):
            volume.create_many({"": b"no name"})
    with straightway.open_volume(image) as volume, pytest.raises(straightway.Error):
        volume.create_many({"b": b""})
