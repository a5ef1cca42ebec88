# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files and devices as memory."""

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from straightway import _native


class MapCounters(NamedTuple):
    """What a map has done so far."""

    faults: int
    """Times that a thread waited for a page."""
    reads: int
    """Pages that were read."""
    reads_ahead: int
    """Those of them that no thread had touched."""
    writes: int
    """Pages that were written."""
    evictions: int
    """Pages whose memory was taken for others."""
    failures: int


class MapFailure(NamedTuple):
    """An access that could not be served, or a page that could not be written."""

    offset: int
    """The page's first byte."""
    is_write: bool
    """Its write failed, and the next `sync` tries again; otherwise its read failed, and the access got SIGBUS."""
    error: Exception


class Map:
    """A file of a volume, or a device, as memory. Any thread can use it; the device is the map's until it is closed."""

    def __init__(self, native: _native.Map) -> None:
        self._native = native

    def __enter__(self) -> "Map":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        """Makes durable what was stored, and closes the map, or leaves it to the last array of its memory."""
        try:
            self.close()
        except BufferError:
            self.sync()

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<straightway.Map of {len(self)} bytes>"

    @property
    def memory(self) -> memoryview:
        """All of it: `numpy.frombuffer(map.memory, dtype)` is an array without a copy. Where a page cannot be read, an access ends the
        program with SIGBUS, as with `mmap`; `pin` raises an error instead."""
        return memoryview(self._native)

    def prefetch(self, offset: int, length: int) -> None:
        """Reads a range soon, without waiting: as much of it, from its start, as there is memory for."""
        self._native.prefetch(offset, length)

    def pin(self, offset: int, length: int) -> None:
        """Reads a range and keeps it in memory until it is unpinned, as often as it was pinned: loads from it neither wait nor fail."""
        self._native.pin(offset, length)

    def unpin(self, offset: int, length: int) -> None:
        """Lets the memory of a pinned range be used for other pages again."""
        self._native.unpin(offset, length)

    def sync(self) -> None:
        """Writes what was stored until now, and makes it durable. What cannot be written stays in memory, for the next sync."""
        self._native.sync()

    @property
    def counters(self) -> MapCounters:
        """What it has done so far."""
        return MapCounters(*self._native.counters())

    def take_failures(self) -> Sequence[MapFailure]:
        """The failures since the last call, the oldest thousand."""
        return [MapFailure(*one) for one in self._native.take_failures()]

    def close(self) -> None:
        """Makes durable what was stored, and closes the device. Raises BufferError while arrays or views of its memory exist. A second
        close does nothing."""
        self._native.close()


def map(
    device: str,
    name: str | None = None,
    *,
    write: bool = False,
    destroy_data: str | None = None,
    page_bytes: int | None = None,
    memory_bytes: int | None = None,
    read_ahead_bytes: int = 0,
    queue_depth: int | None = None,
    path: str | None = None,
    mode: str | None = None,
    namespace_id: int | None = None,
) -> Map:
    """Maps the file `name` of the volume on a device, or the device itself. A page of `page_bytes` (64 KiB) is read when it is first
    touched, and at most `memory_bytes` (64 MiB) hold content; `read_ahead_bytes` behind it are read for accesses in order. Checksums are
    compared with pages of at least 64 KiB. Needs userfaultfd.

    With `write` the memory can be stored to: a file's data changes in place, which needs a file without checksums, and its size stays. A
    device also needs `destroy_data`, as `open` does."""
    return Map(
        _native.open_map(
            device,
            name,
            write=write,
            destroy_data=destroy_data,
            page_bytes=page_bytes,
            memory_bytes=memory_bytes,
            read_ahead_bytes=read_ahead_bytes,
            queue_depth=queue_depth,
            path=path,
            mode=mode,
            namespace_id=namespace_id,
        )
    )
