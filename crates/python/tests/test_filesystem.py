# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A volume as a file system of fsspec: by fsspec's own tests, and what they do not ask."""

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests import abstract

import straightway
from straightway._owner import UNFINISHED_TAG, WHOLE_TAG, unfinished_name
from straightway.filesystem import StraightwayFileSystem


@pytest.fixture
def image(tmp_path: Path) -> str:
    name = str(tmp_path / "image")
    straightway.format(name, volume_bytes=32 << 20, checksums=True)
    return name


@pytest.fixture
def fs(image: str) -> Iterator[StraightwayFileSystem]:
    fs = fsspec.filesystem("straightway", device=image, write=True)
    yield fs
    fs.close()


class Fixtures(abstract.AbstractFixtures):
    """What fsspec's tests run on."""

    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StraightwayFileSystem]:
        name = str(tmp_path_factory.mktemp("fs") / "image")
        straightway.format(name, volume_bytes=64 << 20, checksums=True)
        fs = StraightwayFileSystem(name, write=True)
        yield fs
        fs.close()

    @pytest.fixture
    def fs_path(self) -> str:
        return ""

    @pytest.fixture
    def local_fs(self) -> LocalFileSystem:
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


# partner: fsspec | reader
class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


def test_what_is_written_is_read_by_every_call(fs: StraightwayFileSystem, image: str, tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    with fs.open("run/1/a", "wb") as file:
        for start in range(0, len(data), 100_000):
            file.write(data[start : start + 100_000])
    fs.pipe({"run/1/b": b"b", "run/2/c": b"cc", "d": b""})
    assert fs.cat("run/1/a") == data and fs.cat_file("run/1/a", 5, 10) == data[5:10] and fs.cat_file("run/1/a", -7) == data[-7:]
    with fs.open("run/1/a") as file:
        file.seek(1_000_000)
        assert file.read(10) == data[1_000_000:1_000_010] and file.size == len(data)
    assert fs.ls("", detail=False) == ["d", "run"] and fs.ls("run", detail=False) == ["run/1", "run/2"]
    assert fs.find("run") == ["run/1/a", "run/1/b", "run/2/c"] and fs.glob("run/*/c") == ["run/2/c"]
    assert fs.isdir("run") and fs.isfile("d") and not fs.exists("ru") and fs.du("") == len(data) + 3
    assert fs.modified("d").year >= 2026
    with fs.open("run/1/b", "ab") as file:
        file.write(b"more")
    assert fs.cat("run/1/b") == b"bmore"
    fs.mv("run/1/b", "run/2/")
    assert fs.find("") == ["d", "run/1/a", "run/2/b", "run/2/c"]
    fs.mv("run/2/b", "run/2/c")
    assert fs.cat("run/2/c") == b"bmore"
    for name in "d", "run":
        fs.get(name, str(tmp_path), recursive=True)
        fs.get(name, str(tmp_path / "into") + "/", recursive=True)
        fs.copy(name, "run/2", recursive=True)
    for folder in tmp_path, tmp_path / "into":
        assert (folder / "d").read_bytes() == b"" and (folder / "run/1/a").read_bytes() == data
    assert fs.cat("run/2/d") == b"" and fs.cat("run/2/run/1/a") == data
    with pytest.raises(IsADirectoryError):
        fs.rm("run")
    fs.rm("run", recursive=True)
    assert fs.ls("", detail=False) == ["d"]
    fs.close()
    with straightway.open_volume(image) as volume:
        assert list(volume) == ["d"]


def test_a_file_is_whole_or_not_there(fs: StraightwayFileSystem) -> None:
    fs.pipe_file("a", b"old")
    with pytest.raises(RuntimeError), fs.open("a", "wb", block_size=4096) as file:
        file.write(bytes(10_000))
        raise RuntimeError
    assert fs.cat("a") == b"old" and fs.find("") == ["a"]
    # No space: an error, and the old file.
    with pytest.raises(OSError) as failed, fs.open("a", "wb", block_size=1 << 20) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    assert failed.value.errno == 28 and fs.cat("a") == b"old" and fs.find("") == ["a"]
    # A file of the user under the other name is not lost.
    fs.pipe({unfinished_name("a"): b"mine"})
    with pytest.raises(FileExistsError):
        fs.pipe_file("a", b"new")
    assert fs.cat("a") == b"old" and fs.cat(unfinished_name("a")) == b"mine"
    fs.rm(unfinished_name("a"))
    # What a killed process has left under it is in nothing's way.
    for tag in UNFINISHED_TAG, WHOLE_TAG:

        def leave(volume: straightway.Volume, tag: int = tag) -> None:
            volume.create(unfinished_name("a"), app_tag=tag).close()

        fs._owner.run(leave)
        fs.pipe_file("a", b"new")
        assert fs.cat("a") == b"new" and fs.find("") == ["a"]
    for name in "a" * 59, "a" * 64, "é" * 32, "a" * 255, "b" + UNFINISHED_END, "+" + "a" * 58 + ".new~":
        assert unfinished_name(name) != name and unfinished_name(name).endswith(".new~")
        assert len(unfinished_name(name).encode()) <= (64 if len(name.encode()) <= 64 else 255)


UNFINISHED_END = "a" * 249 + ".new~"


def test_what_a_kill_left_of_a_replacement_is_the_file(fs: StraightwayFileSystem, image: str) -> None:
    """Between the removal of the old file and the renaming of the new one."""
    fs.pipe_file("x", b"A" * 200_000)
    fs.close()
    left = unfinished_name("x")
    with straightway.open_volume(image, write=True) as volume:
        del volume["x"]
        with volume.create(left, app_tag=WHOLE_TAG) as file:
            file.write(b"B" * 200_000)
        with volume.create(unfinished_name("y"), app_tag=UNFINISHED_TAG) as file:
            file.write(b"part")
    reader = StraightwayFileSystem(image)
    assert reader.find("") == ["x"] and reader.exists("x") and not reader.exists("y")
    assert reader.cat("x") == b"B" * 200_000 and reader.info("x")["name"] == "x"
    with reader.open("x") as opened:
        assert opened.read(3) == b"BBB"
    reader.close()
    # A writer that fails leaves it.
    with pytest.raises(OSError), fs.open("x", "wb", block_size=1 << 20) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    assert fs.cat("x") == b"B" * 200_000
    fs.pipe({"x": b"C", "y": b"D" * 100_000})
    assert fs.cat("x") == b"C" and fs.cat("y") == b"D" * 100_000
    fs.close()
    with straightway.open_volume(image) as volume:
        assert sorted(volume) == ["x", "y"]


def test_what_a_kill_left_is_not_taken_for_another_file(fs: StraightwayFileSystem) -> None:
    """Long names whose replacements have one name."""
    one, other = "a" * 60 + "1", "a" * 60 + "2"
    assert unfinished_name(one) == unfinished_name(other)

    def leave(volume: straightway.Volume) -> None:
        with volume.create(unfinished_name(one), app_tag=WHOLE_TAG) as file:
            file.write(b"one")

    fs._owner.run(leave)
    assert not fs.exists(other)
    with pytest.raises(FileExistsError):
        fs.pipe_file(other, b"other")
    assert fs.cat(unfinished_name(one)) == b"one"


@pytest.mark.parametrize("end", ["", "raise ValueError"])
def test_a_file_that_is_open_at_the_end_does_not_keep_the_program(image: str, end: str) -> None:
    program = f"""if True:
        import sys
        from straightway.filesystem import StraightwayFileSystem
        fs = StraightwayFileSystem(sys.argv[1], write=True)
        file = fs.open("e", "wb", block_size=4096)
        file.write(b"e" * 300_000)
        {end}
    """
    done = subprocess.run([sys.executable, "-c", program, image], capture_output=True, text=True, timeout=120)
    assert done.returncode == (1 if end else 0), done.stderr
    with straightway.open_volume(image, write=True) as volume:
        assert list(volume) == []


def test_a_reader_never_sees_two_files_as_one(fs: StraightwayFileSystem) -> None:
    fs.pipe_file("a", bytes(1 << 20))
    with fs.open("a", block_size=4096, cache_type="none") as file:
        assert file.read(10) == bytes(10)
        fs.pipe_file("a", b"1" * (1 << 20) + b"2")
        with pytest.raises(OSError, match="replaced"):
            file.read(10)


def test_errors_are_those_of_files(fs: StraightwayFileSystem, image: str) -> None:
    for call in (
        lambda: fs.open("absent"), lambda: fs.cat_file("absent"), lambda: fs.info("absent"), lambda: fs.ls("absent"),
        lambda: fs.rm("absent"), lambda: fs.rm("absent", recursive=True), lambda: fs.mv("absent", "b"),
    ):  # fmt: skip
        with pytest.raises(FileNotFoundError):
            call()
    with pytest.raises(straightway.UsageError):
        fs.pipe_file("a" * 256, b"")
    assert fs.find("") == []
    fs.pipe_file("a", b"1")
    fs.close()
    reader = StraightwayFileSystem(image)
    for call in lambda: reader.pipe_file("a", b""), lambda: reader.rm("a"), lambda: reader.mv("a", "b"):
        with pytest.raises(PermissionError, match="write=True"):
            call()
    assert reader.cat("a") == b"1"
    reader.close()
    with pytest.raises(straightway.Error):
        StraightwayFileSystem(image + ".absent").ls("")


def test_any_thread_and_any_process_reads(fs: StraightwayFileSystem, image: str) -> None:
    fs.pipe({f"part/{number}": bytes([number]) * 100_000 for number in range(16)})
    fs.close()
    reader = StraightwayFileSystem(image)
    with ThreadPoolExecutor(8) as pool:
        assert [one[:1] for one in pool.map(reader.cat_file, reader.find("part"))] == [one[-1:] for one in FIRST]
    opened = reader.open("part/3")
    again = pickle.loads(pickle.dumps(opened))
    assert again.read() == opened.read() == b"\3" * 100_000
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer).cat('part/5')[:3])"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(reader), capture_output=True)
    assert done.stdout == b"b'\\x05\\x05\\x05'\n", done.stderr
    reader.close()


FIRST = [bytes([int(name)]) for name in sorted(str(number) for number in range(16))]


# After a kill in the middle of writing the volume is whole, and each file is the old or the new one.
WRITER = """if True:
    import sys
    from straightway.filesystem import StraightwayFileSystem
    fs = StraightwayFileSystem(sys.argv[1], write=True)
    number = 0
    while True:
        number += 1
        with fs.open("state", "wb", block_size=65536) as file:
            for part in range(8):
                file.write(b"%d" % (number % 10) * 40_000)
        print(number, flush=True)
    """


def test_a_kill_leaves_the_old_file_or_the_new(image: str) -> None:
    for after in range(1, 6):
        process = subprocess.Popen([sys.executable, "-c", WRITER, image], stdout=subprocess.PIPE)
        assert process.stdout
        for _ in range(after):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        with straightway.open_volume(image) as volume:
            names = [name for name in volume if volume.entry(name).size_bytes]
            whole = [name for name in names if len(set(volume[name].readall())) == 1 and volume.entry(name).size_bytes == 320_000]
            assert whole, names


def test_an_array_is_opened_where_it_is(image: str, tmp_path: Path) -> None:
    numpy: Any = pytest.importorskip("numpy")
    array = numpy.arange(60_000, dtype="<u4").reshape(200, 300)
    with straightway.open_volume(image, write=True) as volume:
        for name, one in {"c": array, "fortran": numpy.asfortranarray(array), "empty": array[:0]}.items():
            stream = io.BytesIO()
            numpy.save(stream, one)
            volume.create_many({name: stream.getvalue()})
        volume.create_many({"short": stream.getvalue()[:50], "none": b"no array", "cut": volume["c"].readall()[:-1]})
    try:
        opened = straightway.open_npy(image, "c")
    except straightway.Error as error:
        pytest.skip(f"this machine permits no userfaultfd: {error}")
    assert (opened == array).all() and not opened.flags.writeable
    del opened
    opened = straightway.open_npy(image, "fortran")
    assert (opened == array).all() and opened.flags.f_contiguous
    del opened
    assert straightway.open_npy(image, "empty").shape == (0, 300)
    for name in "short", "none", "cut":
        with pytest.raises(straightway.UsageError, match="no array that can be mapped"):
            straightway.open_npy(image, name)
    # An array outlives the block.
    with straightway.map(image, "c") as mapped:
        values = numpy.frombuffer(mapped.memory, numpy.uint8)
    assert values[-1] == array.tobytes()[-1]
    del values, mapped
    with straightway.open_volume(image, write=True) as volume:
        del volume["c"]


def test_the_version_is_the_package_s() -> None:
    from importlib.metadata import version

    assert straightway.__version__ == version("straightway")
