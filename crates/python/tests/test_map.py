# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files and devices as memory."""

import os
import threading
from pathlib import Path

import numpy
import pytest

import straightway

PAGE = 64 << 10
DATA = numpy.arange(10 * PAGE, dtype=numpy.uint32) * 2654435761


@pytest.fixture(scope="module", autouse=True)
def permitted() -> None:
    try:
        straightway.map("ram:1M").close()
    except straightway.Error as error:
        if error.code == straightway.Status.UNSUPPORTED:
            pytest.skip(f"{error.text}; {error.hint}")
        raise


def stored(folder: Path, checksums: bool) -> str:
    name = str(folder / "image")
    straightway.format(name, volume_bytes=32 << 20, checksums=checksums)
    with straightway.open_volume(name, write=True) as volume:
        with volume.create("samples", checksums=checksums) as file:
            file.write(DATA.tobytes())
    return name


def test_an_array_is_read_through_less_memory_than_it_has(tmp_path: Path) -> None:
    image = stored(tmp_path, checksums=True)
    with straightway.map(image, "samples", memory_bytes=8 * PAGE) as map:
        assert len(map) == DATA.nbytes and map.memory.readonly
        samples = numpy.frombuffer(map.memory, numpy.uint32)
        assert (samples == DATA).all()
        sums: list[int] = []
        others = [threading.Thread(target=lambda: sums.append(int(samples.sum()))) for _ in range(2)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        assert sums == [int(DATA.sum())] * 2
        map.prefetch(0, 2 * PAGE)
        map.pin(PAGE, PAGE)
        assert (samples[PAGE // 4 : PAGE // 2] == DATA[PAGE // 4 : PAGE // 2]).all()
        map.unpin(PAGE, PAGE)
        counters = map.counters
        assert counters.reads > DATA.nbytes // PAGE and counters.evictions and not counters.writes and not counters.failures
        assert not map.take_failures()
        with pytest.raises(BufferError, match="views"):
            map.close()
        del samples
    map.close()
    with pytest.raises(BufferError, match="closed"):
        map.memory
    with pytest.raises(straightway.UsageError, match="closed"):
        map.sync()


def test_what_is_stored_is_in_the_file(tmp_path: Path) -> None:
    image = stored(tmp_path, checksums=False)
    with straightway.map(image, "samples", write=True, read_ahead_bytes=4 * PAGE) as map:
        samples = numpy.frombuffer(map.memory, numpy.uint32)
        samples[::PAGE] = 7
        map.sync()
        assert map.counters.writes == len(samples[::PAGE])
        samples[1] = 8
        del samples
    changed = DATA.copy()
    changed[::PAGE] = 7
    changed[1] = 8
    with straightway.open_volume(image) as volume:
        assert volume["samples"].readall() == changed.tobytes()


def test_data_that_is_not_what_it_was_is_an_error_of_pin(tmp_path: Path) -> None:
    image = stored(tmp_path, checksums=True)
    content = bytearray(Path(image).read_bytes())
    content[content.index(DATA[: PAGE // 4].tobytes()) + 5] ^= 1
    Path(image).write_bytes(content)
    with straightway.map(image, "samples") as map:
        with pytest.raises(straightway.Error, match="checksum") as caught:
            map.pin(0, 2 * PAGE)
        assert caught.value.code == straightway.Status.ROT
        map.pin(PAGE, PAGE)
        assert map.memory[PAGE : 2 * PAGE] == DATA.tobytes()[PAGE : 2 * PAGE]


def test_a_child_process_does_not_wait_for_the_thread_of_its_parent(tmp_path: Path) -> None:
    image, other = stored(tmp_path, checksums=True), str(tmp_path / "other")
    straightway.format(other, volume_bytes=32 << 20)
    with (
        straightway.map(image, "samples") as map,
        straightway.play(image, "samples") as player,
        straightway.record(other, "take") as recorder,
    ):
        child = os.fork()
        if child == 0:
            refused = 0
            block = bytes(1 << 20)
            for call in (map.sync, map.close, lambda: next(player), player.close, lambda: recorder.append(block), recorder.close):
                try:
                    call()
                except straightway.UsageError as error:
                    refused += "fork" in error.text
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
        assert map.memory[:4096] == DATA.tobytes()[:4096] and len(next(player)) == 1 << 20


def test_what_is_refused(tmp_path: Path) -> None:
    image = stored(tmp_path, checksums=True)
    with pytest.raises(straightway.NotFoundError):
        straightway.map(image, "other")
    with pytest.raises(straightway.UsageError, match="checksums"):
        straightway.map(image, "samples", write=True)
    with pytest.raises(straightway.UsageError, match="overwrite"):
        straightway.map(image, write=True)
    with pytest.raises(straightway.UsageError, match="page"):
        straightway.map(image, "samples", page_bytes=12345)
    with straightway.map(image) as map:
        assert len(map) == 32 << 20 and map.memory[:4096] == Path(image).read_bytes()[:4096]
        for offset, length in ((32 << 20, 1), (0, (32 << 20) + 1), (2**64 - 1, 2)):
            with pytest.raises(straightway.UsageError, match="fit"):
                map.prefetch(offset, length)
        with pytest.raises(TypeError):
            map.memory[0] = 1
