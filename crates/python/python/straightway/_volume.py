# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Volumes as mappings of names to file objects."""

import io
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from straightway import _native
from straightway._errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from straightway._types import AnyBuffer


class VolumeStatus(NamedTuple):
    """A volume's shape and state."""

    capacity_bytes: int
    free_bytes: int
    unit_bytes: int
    slots: int
    checksums: bool
    read_only: bool
    uuid: UUID
    label: str


class Entry(NamedTuple):
    """A file of a volume."""

    name: str
    size_bytes: int
    allocated_bytes: int
    mtime_ns: int
    """When it was last synced, since 1970; 0 if that is unknown."""
    app_tag: int
    checksums: bool


class File(io.RawIOBase):
    """An open file of a volume: read from any position, written at its end. `io.BufferedReader(file)` reads ahead, and
    `io.TextIOWrapper` makes it text. What was written can be read, and is durable, after `sync` or `close`."""

    def __init__(self, native: _native.File, name: str, appends: bool) -> None:
        self._native = native
        self._appends = appends
        self._appended_bytes = native.size_bytes() if appends else 0
        self._position = 0
        self._is_open = True
        self.name = name

    def __repr__(self) -> str:
        return f"<straightway.File {self.name}>"

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return self._appends

    def seekable(self) -> bool:
        return True

    @property
    def size_bytes(self) -> int:
        """Bytes that are durable."""
        return self._native.size_bytes()

    def readinto(self, buffer: "AnyBuffer", /) -> int:
        count = self._native.read(self._position, buffer)
        self._position += count
        return count

    def readall(self) -> bytes:
        """The rest, by one read: a buffer that was allocated once."""
        rest = bytearray(max(0, self.size_bytes - self._position))
        return bytes(memoryview(rest)[: self.readinto(rest)])

    def write(self, data: "AnyBuffer", /) -> int:
        """Appends all of it, whatever the position is."""
        count = self._native.append(data)
        self._appended_bytes += count
        return count

    def tell(self) -> int:
        """The position of the next read."""
        self._native.size_bytes()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size_bytes}
        if whence not in starts or starts[whence] + offset < 0:
            raise UsageError(2, f"no position {offset} from {whence}", "give one from byte 0 on")
        self._position = starts[whence] + offset
        return self._position

    def sync(self) -> int:
        """Makes all that was written durable: after a power cut at any time the file has at least all of it. Returns its size."""
        return self._native.sync()

    def set_app_tag(self, app_tag: int) -> None:
        """Sets the application's number for the file, which the next `sync` that has something to store, or `close`, makes durable."""
        self._native.set_app_tag(app_tag)

    def flush(self) -> None:
        """As `sync`, if anything was written since."""
        if self._is_open and self._appends and self._appended_bytes > self.size_bytes:
            self.sync()

    def close(self) -> None:
        """Syncs and closes it; a second close does nothing."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._native.close()
        except UsageError:
            # Its volume was closed, and it with it; or this is another thread, and its own closes it.
            pass
        finally:
            super().close()


class Volume(Mapping[str, File]):
    """A mounted volume: names to files, which are opened to read them."""

    def __init__(self, native: _native.Volume, name: str) -> None:
        self._native = native
        self.device = name

    def __enter__(self) -> "Volume":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<straightway.Volume on {self.device}>"

    def __getitem__(self, name: str) -> File:
        return File(self._native.open_file(name, False), name, False)

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self.entries())

    def __len__(self) -> int:
        return sum(1 for _ in self.entries())

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and bool(self.entry(name))
        except NotFoundError:
            return False

    def __delitem__(self, name: str) -> None:
        """Removes a file, which must not be open, and frees its space."""
        self._native.remove(name)

    def entries(self) -> Iterator[Entry]:
        """All files, in no order. Files that come and go while it is made may be in it or not."""
        cursor = 0
        while found := self._native.next(cursor):
            cursor = found[-1]
            yield Entry(*found[:-1])

    def entry(self, name: str) -> Entry:
        """The file of this name, without opening it."""
        return Entry(*self._native.find(name)[:-1])

    def append(self, name: str) -> File:
        """Opens a file to append to it, which one object can at a time."""
        return File(self._native.open_file(name, True), name, True)

    def create(self, name: str, *, reserve_bytes: int = 0, checksums: bool | None = None, app_tag: int = 0) -> File:
        """Makes an empty file, durably, and opens it to append to it. It has checksums if the volume can have them, or as said."""
        if checksums is None:
            checksums = self.status.checksums
        return File(self._native.create_file(name, reserve_bytes, checksums, app_tag), name, True)

    def create_many(self, files: "Mapping[str, AnyBuffer]", *, checksums: bool | None = None, app_tag: int = 0) -> None:
        """Makes whole files from their names and contents, durably. Up to 1,024 of less than 64 KiB share the flushes of
        one operation. An error says which file could not be made: those before it are there."""
        if checksums is None:
            checksums = self.status.checksums
        _, error = self._native.create_many(list(files.items()), checksums, app_tag, time.time_ns())
        if error is not None:
            raise error

    def remove_many(self, names: Iterable[str]) -> None:
        """Removes files, which must not be open, durably. Up to 1,024 share the flushes of one operation. An error says which file could
        not be removed: those before it are gone."""
        _, error = self._native.remove_many(list(names))
        if error is not None:
            raise error

    def rename(self, name: str, new_name: str) -> None:
        """Renames a file, which must not be open, to a name that is free."""
        self._native.rename(name, new_name)

    @property
    def status(self) -> VolumeStatus:
        """Its shape and state; counting the free space reads every bitmap."""
        found = self._native.status()
        return VolumeStatus(*found[:-2], UUID(bytes=bytes(found[-2])), found[-1])

    def close(self) -> None:
        """Syncs and closes the open files, unmounts, and closes the device."""
        self._native.close()


def open_volume(
    name: str,
    *,
    write: bool = False,
    path: str | None = None,
    mode: str | None = None,
    namespace_id: int | None = None,
    buffer_bytes: int | None = None,
) -> Volume:
    """Opens the volume on the device that the command calls `name`, to read it or with `write` also to change it."""
    native = _native.open_volume(
        name, write=write, path=path, mode=mode, namespace_id=namespace_id, buffer_bytes=buffer_bytes
    )
    return Volume(native, name)
