# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The straight path to a drive, and volumes on it.

A device has any name that the command takes: `nvme0n1`, a PCI address, a file, `ram:64M`. Its memory is lent to Python by the buffer
protocol, so NumPy uses it without a copy:

>>> import straightway
>>> with straightway.open("ram:1M", write=True) as device:
...     buffer = device.allocate(4096)
...     memoryview(buffer)[:5] = b"hello"
...     device.write(0, buffer)
...     device.read(0, buffer)
...     bytes(memoryview(buffer)[:5])
b'hello'

A volume maps names to files:

>>> import tempfile, os
>>> image = os.path.join(tempfile.mkdtemp(), "image")
>>> straightway.format(image, volume_bytes=16 << 20, checksums=True)
>>> with straightway.open_volume(image, write=True) as volume:
...     with volume.create("log") as file:
...         _ = file.write(b"one\\ntwo\\n")
...     list(volume), volume["log"].read()
(['log'], b'one\\ntwo\\n')

>>> with straightway.open_volume(image, write=True) as volume:
...     volume.create_many({f"tile-{number}": bytes(1000) for number in range(30)})
...     len(volume)
31

A recorder takes messages, and never waits for the drive unless it is told to:

>>> with straightway.record(image, "flight", on_full="wait") as recorder:
...     for number in range(1000):
...         _ = recorder.append(b"%6d\\n" % number)
>>> recorder.report.durable_bytes
7000

A player delivers a file's blocks when they are due:

>>> with straightway.play(image, "flight", bytes_per_second=1 << 20) as player:
...     sum(len(block) for block in player)
7000

A file, or a device, as memory: what is touched is read, and less may be in memory than it has:

>>> with straightway.map(image, "flight", memory_bytes=1 << 20) as map:
...     len(map), bytes(map.memory[:7])
(7000, b'     0\\n')

A device, a volume and its files belong to the thread that opened them; the interpreter's lock is released while they wait.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from straightway import _native
from straightway._arrays import open_npy
from straightway._errors import Error, ExistsError, NotFoundError, QueueFullError, Status, UsageError
from straightway._map import Map, MapCounters, MapFailure, map
from straightway._native import Buffer, format, resize
from straightway._player import Player, PlayReport, play
from straightway._recorder import Recorder, RecordReport, record
from straightway._volume import Entry, File, Volume, VolumeStatus, open_volume

if TYPE_CHECKING:
    from straightway._types import AnyBuffer

__all__ = [
    "Buffer", "Completion", "Device", "Entry", "Error", "ExistsError", "File", "Map", "MapCounters", "MapFailure", "NotFoundError",
    "PlayReport", "Player", "QueueFullError", "RecordReport", "Recorder", "Status", "UsageError", "Volume", "VolumeStatus", "format",
    "map", "open", "open_npy", "open_volume", "play", "record", "resize",
]  # fmt: skip

__version__: str = _native.VERSION


class Completion(NamedTuple):
    """The end of a request."""

    tag: Any
    """What it was submitted with."""
    buffer: Any
    """Its memory, as it was given; None for a flush."""
    error: Exception | None
    """Why it failed, or None."""


class Device:
    """An open device. Offsets and lengths are bytes, in whole blocks."""

    def __init__(self, native: _native.Device) -> None:
        self._native = native

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<straightway.Device {self.name}>"

    @property
    def name(self) -> str:
        """The name that it was opened by."""
        return self._native.name

    @property
    def path(self) -> str:
        """The path by which it is reached, as `straightway read --path` takes it."""
        return self._native.path

    @property
    def block_size_bytes(self) -> int:
        """Bytes of a logical block."""
        return self._native.block_size_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the device."""
        return self._native.size_bytes

    @property
    def max_transfer_bytes(self) -> int:
        """The longest transfer of one submitted request."""
        return self._native.max_transfer_bytes

    @property
    def queue_depth(self) -> int:
        """The most requests in flight."""
        return self._native.queue_depth

    @property
    def volatile_write_cache(self) -> bool:
        """Whether completed writes may be lost at a power cut until a flush."""
        return self._native.volatile_write_cache

    @property
    def read_only(self) -> bool:
        """Whether it cannot be written."""
        return self._native.read_only

    @property
    def outstanding(self) -> int:
        """How many submitted requests have not been polled."""
        return self._native.outstanding

    def allocate(self, length: int) -> Buffer:
        """Memory that the device reaches, at the start of a page: `numpy.asarray(buffer)` is an array of its bytes. Any contiguous
        part of it can be given to a request. It stays valid when the device is closed."""
        return self._native.allocate(length)

    def read(self, offset: int, buffer: "AnyBuffer") -> None:
        """Reads as many bytes as `buffer`, memory of `allocate`, has; returns when they are there. Requests in flight stay so."""
        self._native.read(offset, buffer)

    def write(self, offset: int, buffer: "AnyBuffer", *, durable: bool = False) -> None:
        """Writes likewise. With `durable`, returns when the data survives a power cut."""
        self._native.write(offset, buffer, durable=durable)

    def flush(self) -> None:
        """Makes all completed writes durable."""
        self._native.flush()

    def submit_read(self, offset: int, buffer: "AnyBuffer", tag: object = None) -> None:
        """Submits a read of at most `max_transfer_bytes`. Until its completion the memory belongs to the device. The device may hold
        it back until `kick` or a `poll` that waits. Raises QueueFullError when `queue_depth` are in flight."""
        self._native.submit_read(offset, buffer, tag)

    def submit_write(self, offset: int, buffer: "AnyBuffer", tag: object = None, *, durable: bool = False) -> None:
        """Submits a write likewise."""
        self._native.submit_write(offset, buffer, tag, durable=durable)

    def submit_flush(self, tag: object = None) -> None:
        """Submits a flush, which covers the writes that have completed."""
        self._native.submit_flush(tag)

    def kick(self) -> None:
        """Starts everything that was submitted."""
        self._native.kick()

    def poll(self, least: int = 0, most: int = 64, *, timeout_us: int | None = None) -> Sequence[Completion]:
        """Takes ends of requests, in any order: at most `most`. Waits until there are `least`, or for `timeout_us`. A failed request
        is a completion with an error, which is not raised."""
        return [Completion(*one) for one in self._native.poll(least, most, timeout_us=timeout_us)]

    def completion_file(self) -> int | None:
        """A descriptor that is readable while completions may be there, or None if this path has none; `straightway.aio` uses it."""
        return self._native.completion_file()

    def close(self) -> None:
        """Waits for requests in flight, and returns a borrowed drive to its driver. A closed device raises UsageError."""
        self._native.close()


def open(
    name: str,
    *,
    write: bool = False,
    destroy_data: str | None = None,
    path: str | None = None,
    mode: str | None = None,
    namespace_id: int | None = None,
    buffer_bytes: int | None = None,
    queue_depth: int | None = None,
) -> Device:
    """Opens a device. To write it, `destroy_data` is the drive's serial number or the file's path (memory has none). `path` is as
    `straightway read --path` takes it, `mode` is "poll", "interrupt" or "hybrid", `buffer_bytes` the memory of all buffers (16 MiB)."""
    return Device(
        _native.open_device(
            name,
            write=write,
            destroy_data=destroy_data,
            path=path,
            mode=mode,
            namespace_id=namespace_id,
            buffer_bytes=buffer_bytes,
            queue_depth=queue_depth,
        )
    )
