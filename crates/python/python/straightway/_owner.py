# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The thread of a process that owns a volume: handles belong to the thread that opened them, and libraries for data use several."""

import atexit
import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from straightway._errors import Error, ExistsError, NotFoundError, Status, UsageError
from straightway._volume import Entry, File, Volume, open_volume

if TYPE_CHECKING:
    from straightway._types import AnyBuffer

T = TypeVar("T")

UNFINISHED = ".new~"
UNFINISHED_TAG = int.from_bytes(b"put new~", "little")
"""The application's number of a file that is not whole, as the command has it."""
WHOLE_TAG = int.from_bytes(b"put all~", "little")
"""The number of a whole file that is to replace another, or has."""
NAME_BYTES = 255
SHORT_NAME_BYTES = 64
"""The longest name of format 1.0."""
MOST_OPEN = 8
"""Files that are kept open between reads."""


def unfinished_name(name: str) -> str:
    """The name of a replacement until it is complete, as the command has it: as much of `name` as fits, and a suffix."""
    encoded = name.encode()
    most = NAME_BYTES if len(encoded) > SHORT_NAME_BYTES else SHORT_NAME_BYTES
    unfinished = encoded[: most - len(UNFINISHED)].decode(errors="ignore") + UNFINISHED
    if unfinished == name:
        unfinished = ("-" if name.startswith("+") else "+") + unfinished[1:]
    return unfinished


class Settings(NamedTuple):
    """Which volume, and how it is reached."""

    device: str
    path: str | None
    mode: str | None
    namespace_id: int | None
    buffer_bytes: int | None


def _as_os_error(error: Error, name: str) -> Exception:
    """The error that programs for files expect."""
    numbers = {Status.NOT_FOUND: errno.ENOENT, Status.EXISTS: errno.EEXIST, Status.FULL: errno.ENOSPC, Status.ROT: errno.EIO}
    number = numbers.get(error.code)
    return OSError(number, str(error), name) if number is not None else error


class Owner:
    """A volume, and the thread that uses it. Each call is done in that thread, one after the other."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._write = False
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._volume: Volume | None = None
        self._reading: OrderedDict[str, File] = OrderedDict()
        self._writing: dict[str, File] = {}
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=f"straightway {settings.device}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while call := self._calls.get():
            function, future = call
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            # The result may hold the last reference to a file, which belongs to this thread.
            del function, future, call

    def _ask(self, function: Callable[[], T]) -> T:
        if self._is_over:
            raise UsageError(Status.USAGE, "the volume was closed at the end of the program", "close its files before")
        future: Future[T] = Future()
        self._calls.put((function, future))
        return future.result()

    def _close(self) -> None:
        volume, self._volume = self._volume, None
        self._write = False
        self._reading.clear()
        writing, self._writing = self._writing, {}
        if volume is None:
            return
        try:
            for name, file in writing.items():
                file.close()
                if volume.entry(name).app_tag == UNFINISHED_TAG:
                    del volume[name]
        finally:
            volume.close()

    def _opened(self) -> Volume:
        if self._volume is None:
            one = self._settings
            self._volume = open_volume(
                one.device,
                write=self._write,
                path=one.path,
                mode=one.mode,
                namespace_id=one.namespace_id,
                buffer_bytes=one.buffer_bytes,
            )
        return self._volume

    def permit_write(self) -> None:
        """From now on the volume is open to write."""

        def change() -> None:
            if not self._write:
                self._close()
                self._write = True

        if not self._write:
            self._ask(change)

    def close(self) -> None:
        """Closes files and volume; the next call opens it again."""
        self._ask(self._close)

    def end(self) -> None:
        """Closes it for good."""
        try:
            self.close()
        finally:
            self._is_over = True
            self._calls.put(None)
            self._thread.join()

    def run(self, call: Callable[[Volume], T], name: str = "") -> T:
        """What `call` returns for the volume. An error of the volume is raised as Python's files have it."""

        def with_volume() -> T:
            volume = self._opened()
            try:
                return call(volume)
            except Error as error:
                raise _as_os_error(error, name) from error

        return self._ask(with_volume)

    def _stored(self, volume: Volume, name: str) -> Entry:
        """The file of this name. A kill between the removal of an old file and the renaming of the new one leaves the new one, which is
        whole, under its other name: it gets its own, or is read there."""
        try:
            return volume.entry(name)
        except NotFoundError:
            left = unfinished_name(name)
            # A name that was cut may be the one of another file's replacement.
            if left != name + UNFINISHED or left not in volume or volume.entry(left).app_tag != WHOLE_TAG:
                raise
            if not self._write:
                return volume.entry(left)
            volume.rename(left, name)
            return volume.entry(name)

    def entry(self, name: str) -> Entry:
        """The file of this name."""
        return self.run(lambda volume: self._stored(volume, name)._replace(name=name), name)

    def entries(self, prefix: str) -> list[Entry]:
        """The files whose names begin so, without those that are not whole."""

        def entries(volume: Volume) -> list[Entry]:
            found = [entry for entry in volume.entries() if entry.name.startswith(prefix) and entry.app_tag != UNFINISHED_TAG]
            names = {entry.name for entry in found}
            for index, entry in enumerate(found):
                own = entry.name.removesuffix(UNFINISHED)
                if entry.app_tag == WHOLE_TAG and own not in names and unfinished_name(own) == entry.name:
                    found[index] = entry._replace(name=own)
            return found

        return self.run(entries, prefix)

    def read(self, name: str, start: int, end: int) -> bytes:
        """Bytes of a file, fewer at its end."""

        def read(volume: Volume) -> bytes:
            file = self._reading.pop(name, None) or volume[self._stored(volume, name).name]
            self._reading[name] = file
            if len(self._reading) > MOST_OPEN:
                self._reading.popitem(last=False)[1].close()
            data = bytearray(max(0, end - start))
            file.seek(start)
            view, done = memoryview(data), 0
            while done < len(data) and (count := file.readinto(view[done:])):
                done += count
            return bytes(view[:done])

        return self.run(read, name)

    def _leave(self, name: str) -> None:
        """A file that is changed by name must not be open."""
        if file := self._reading.pop(name, None):
            file.close()

    def begin(self, target: str, appends: bool) -> str:
        """Opens a file to append to it: the one that is there, or a new one that is to replace it; under which name."""

        def begin(volume: Volume) -> str:
            # An invalid name is refused before anything is written.
            try:
                self._stored(volume, target)
                is_new = not appends
            except NotFoundError:
                is_new = True
            name = unfinished_name(target) if is_new else target
            if name in self._writing:
                raise ExistsError(Status.EXISTS, f"{name} is being written", "write one after the other")
            self._leave(name)
            if is_new and name in volume:
                tags = (UNFINISHED_TAG, WHOLE_TAG) if name == target + UNFINISHED else (UNFINISHED_TAG,)
                if volume.entry(name).app_tag not in tags:
                    raise ExistsError(Status.EXISTS, f"{name} is a file of its own, and {target} needs the name until it is whole", "rename it")
                # It is not the only one: `_stored` has looked for the file that it replaces.
                del volume[name]
            self._writing[name] = volume.create(name, app_tag=UNFINISHED_TAG) if is_new else volume.append(name)
            return name

        return self.run(begin, target)

    def append(self, name: str, data: "AnyBuffer") -> None:
        """Appends to a file that was begun."""
        self.run(lambda _: self._begun(name).write(data), name)

    def _begun(self, name: str) -> File:
        if name not in self._writing:
            raise UsageError(Status.USAGE, f"{name} was closed with its volume", "close files before the file system")
        return self._writing[name]

    def finish(self, name: str, is_whole: bool) -> None:
        """Makes a file that was begun durable, and closes it."""

        def finish(_: Volume) -> None:
            if is_whole:
                begun = self._begun(name)
                begun.set_app_tag(WHOLE_TAG)
                begun.sync()
            if file := self._writing.pop(name, None):
                file.close()

        self.run(finish, name)

    def replace(self, old: str, new: str) -> None:
        """Renames a file, and removes the one that had the name."""

        def replace(volume: Volume) -> None:
            self._leave(old)
            self._leave(new)
            stored = self._stored(volume, old).name
            try:
                volume.rename(stored, new)
            except ExistsError:
                del volume[new]
                volume.rename(stored, new)

        self.run(replace, old)

    def remove_many(self, names: Sequence[str]) -> None:
        """Removes files that exist."""

        def remove(volume: Volume) -> None:
            for name in names:
                self._leave(name)
            volume.remove_many(self._stored(volume, name).name for name in names)

        self.run(remove, names[0])

    def remove(self, name: str) -> None:
        """Removes a file."""

        def remove(volume: Volume) -> None:
            self._leave(name)
            del volume[self._stored(volume, name).name]

        self.run(remove, name)


_owners: dict[tuple[int, Settings], Owner] = {}
_lock = threading.Lock()


def owner_of(settings: Settings, write: bool) -> Owner:
    """The owner of this volume in this process. A fork has its own."""
    key = (os.getpid(), settings)
    with _lock:
        owner = _owners.get(key)
        if owner is None:
            owner = _owners[key] = Owner(settings)
    if write:
        owner.permit_write()
    return owner


@atexit.register
def _end_all() -> None:
    for (process, _), owner in list(_owners.items()):
        if process == os.getpid():
            owner.end()
