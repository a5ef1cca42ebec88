# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A device: calls that wait, requests, memory, and what is refused."""

import asyncio
import gc
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

import straightway
from other_thread import refusals
from straightway.aio import AsyncDevice


def refused(call: Callable[[], object], words: str, code: int = 2) -> straightway.Error:
    with pytest.raises(straightway.Error) as raised:
        call()
    assert words in str(raised.value) and raised.value.code == code, raised.value
    return raised.value


@pytest.mark.parametrize("name", ["ram:1M", "model:1M"])
def test_arrays_are_a_device_s_memory(name: str) -> None:
    with straightway.open(name, write=True) as device:
        buffer = device.allocate(8192)
        array = numpy.asarray(memoryview(buffer)).view(numpy.uint32)
        assert array.size == 2048 and array.flags.writeable
        array[:] = numpy.arange(2048)
        device.write(4096, array, durable=True)
        array[:] = 0
        # A part of an array, as it lies.
        device.read(8192, array[1024:])
        assert array[1024:].tolist() == list(range(1024, 2048)) and not array[:1024].any()
        device.flush()
        shape = device.block_size_bytes, device.size_bytes, device.read_only
        assert shape == (512, 1 << 20, False) and device.queue_depth > 0 and device.max_transfer_bytes >= 4096
    # Memory outlives the device.
    assert array[1024] == 1024
    array[0] = 1


def test_requests_end_with_their_tags_and_memory() -> None:
    with straightway.open("model:1M", write=True) as device:
        depth = device.queue_depth
        buffer = device.allocate((depth + 1) * 4096)
        parts = [memoryview(buffer)[at * 4096 : (at + 1) * 4096] for at in range(depth + 1)]
        for at in range(depth):
            device.submit_write(at * 4096, parts[at], ("write", at))
        with pytest.raises(straightway.QueueFullError):
            device.submit_read(0, parts[depth])
        assert device.outstanding == depth
        ends = [*device.poll(1, 1), *device.poll(depth - 1)]
        assert sorted(end.tag for end in ends) == [("write", at) for at in range(depth)]
        assert all(end.buffer is parts[end.tag[1]] and end.error is None for end in ends)
        device.submit_flush("flush")
        ((tag, memory, error),) = device.poll(1)
        assert (tag, memory, error) == ("flush", None, None)
        assert device.poll() == [] and device.outstanding == 0


def test_a_failed_request_is_a_completion_with_an_error(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(1 << 20))
    with straightway.open(str(image), path="file-direct") as device:
        buffer = device.allocate(4096)
        # The file ends before the device does.
        image.write_bytes(b"")
        device.submit_read(0, buffer, "tag")
        (end,) = device.poll(1)
        assert end.tag == "tag" and end.buffer is buffer and isinstance(end.error, straightway.Error)
        with pytest.raises(straightway.Error):
            device.read(0, buffer)


def test_bad_requests_say_why() -> None:
    with straightway.open("ram:1M", write=True) as device:
        buffer = device.allocate(4096)
        refused(lambda: device.read(0, bytearray(4096)), "not a buffer of this device")
        refused(lambda: device.read(0, bytes(4096)), "read-only")
        refused(lambda: device.read(1, buffer), "whole blocks of 512 bytes")
        refused(lambda: device.read(0, memoryview(buffer)[:100]), "whole blocks")
        refused(lambda: device.read(1 << 20, buffer), "do not fit")
        refused(lambda: device.submit_read(1 << 40, buffer), "", code=2)
        refused(lambda: device.allocate(0), "0 bytes")
        refused(lambda: device.allocate(1 << 40), "")
        refused(lambda: device.poll(1), "no request is in flight")
        refused(lambda: device.poll(9, 8), "most")
        with straightway.open("ram:1M") as readable:
            other = readable.allocate(4096)
            refused(lambda: readable.write(0, other), "opened to read")
            refused(lambda: readable.submit_write(0, other), "opened to read")
            refused(lambda: device.read(0, other), "not a buffer of this device")
        with pytest.raises(TypeError):
            device.read(0, "text")  # type: ignore[arg-type]
        with pytest.raises((TypeError, BufferError)):
            device.read(0, memoryview(buffer)[::2])
        with pytest.raises(OverflowError):
            device.read(-1, buffer)
        with pytest.raises(OverflowError):
            device.allocate(-1)
        device.submit_read(0, buffer)
        refused(lambda: device.submit_read(512, memoryview(buffer)[512:1024]), "a request in flight has some of these bytes")
        device.poll(1)


def test_hints_name_keywords(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"kept" * (1 << 20))
    with pytest.raises(straightway.UsageError) as caught:
        straightway.format(str(image))
    assert caught.value.hint == "force=True, if its data may be lost"
    with pytest.raises(straightway.UsageError) as caught:
        straightway.open(str(image), write=True)
    assert "destroy_data" in caught.value.hint and "--" not in caught.value.hint


def test_opening_says_why_not(tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"kept" * 1024)
    refused(lambda: straightway.open("/nonexistent/x"), "there is no", code=3)
    refused(lambda: straightway.open("ram:4q"), "unknown unit")
    refused(lambda: straightway.open("ram:1M", path="no"), "is not a path")
    refused(lambda: straightway.open("ram:1M", mode="no"), "poll, interrupt or hybrid")
    error = refused(lambda: straightway.open(str(image), write=True), "would overwrite")
    assert isinstance(error, ValueError) and error.hint and image.read_bytes() == b"kept" * 1024
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)


def test_a_closed_device_is_an_error() -> None:
    device = straightway.open("ram:1M", write=True)
    buffer = device.allocate(4096)
    device.submit_read(0, buffer)
    device.close()
    for call in (
        lambda: device.read(0, buffer),
        lambda: device.poll(),
        lambda: device.allocate(512),
        lambda: device.block_size_bytes,
        lambda: device.outstanding,
        device.kick,
        device.flush,
        device.close,
    ):
        refused(call, "this handle is closed")
    # Another one may get its place, and is not it.
    with straightway.open("ram:2M"):
        refused(lambda: device.size_bytes, "this handle is closed")


def test_another_thread_is_refused() -> None:
    with straightway.open("ram:1M", write=True) as device:
        buffer = device.allocate(4096)
        calls = (lambda: device.read(0, buffer), device.poll, device.close, lambda: device.allocate(512))
        assert refusals(calls) == ["this thread has not opened such a handle"] * 4
        device.read(0, buffer)


def test_other_threads_run_while_one_waits() -> None:
    """A slow drive: the other thread's steps are before the wait's end, whatever the times are."""
    with straightway.open("model:1M,latency=300ms") as device:
        buffer = device.allocate(512)
        begun, order = threading.Event(), []

        def other() -> None:
            begun.wait()
            order.append("other")

        thread = threading.Thread(target=other)
        thread.start()
        device.submit_read(0, buffer)
        begun.set()
        device.poll(1)
        order.append("waited")
        thread.join()
        assert order == ["other", "waited"]


def test_what_a_thread_leaves_open_does_no_harm() -> None:
    left: list[object] = []

    def leave() -> None:
        device = straightway.open("ram:1M", write=True)
        buffer = device.allocate(4096)
        device.submit_read(0, buffer)
        left.extend((device, buffer, memoryview(buffer)))

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    view = left[2]
    assert isinstance(view, memoryview)
    view[:4] = b"here"
    assert bytes(view[:4]) == b"here"
    del view
    left.clear()
    gc.collect()


def test_memory_is_free_when_nothing_refers_to_it() -> None:
    with straightway.open("ram:1M", buffer_bytes=1 << 20) as device:
        for _ in range(8):
            buffer = device.allocate(1 << 20)
            refused(lambda: device.allocate(1 << 20), "")
            del buffer


@pytest.mark.parametrize("path", ["file-io_uring", "file-buffered"])
def test_asyncio_awaits_more_requests_than_the_queue_takes(path: str, tmp_path: Path) -> None:
    image = tmp_path / "image"
    image.write_bytes(bytes(range(256)) * 4096)

    async def main(device: straightway.Device) -> None:
        requests = AsyncDevice(device)
        memory = numpy.asarray(memoryview(device.allocate(64 * 4096)))
        parts = memory.reshape(64, 4096)
        await asyncio.gather(*(requests.read(at * 4096, parts[at]) for at in range(64)))
        assert memory.tobytes() == bytes(range(256)) * 1024
        # A request of which nothing is in flight fails alone; a cancelled one gives its memory back when it has ended.
        with pytest.raises(straightway.UsageError):
            await requests.read(1, parts[0])
        task = asyncio.ensure_future(requests.read(0, parts[0]))
        await asyncio.sleep(0)
        task.cancel()
        while device.outstanding:
            await asyncio.sleep(0)
        await requests.read(0, parts[0])

    try:
        device = straightway.open(str(image), path=path, queue_depth=8)
    except straightway.Error as error:
        if error.code != straightway.Status.UNSUPPORTED:
            raise
        pytest.skip(str(error))
    with device:
        asyncio.run(main(device))
