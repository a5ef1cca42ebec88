# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A volume as a file system of `fsspec`: pandas, pyarrow, zarr, xarray, h5py and dask open `straightway://NAME` with
`storage_options={"device": "disk.img"}`, and with `"write": True` they change it.

A name on a volume is a string; folders are what its slashes suggest, so an empty folder does not exist. A file is written under
another name, which ends with `.new~`, until it is whole and durable: after a kill or a power cut at any time there is the old file,
or the new one, perhaps under that name. One thread of the process owns the volume, and file objects may be used in any thread. An
object that is pickled opens the volume again where it is loaded; several processes can read a volume, and one can write it."""

import datetime
import errno
import io
import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fsspec.core import has_magic
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from straightway._owner import Owner, Settings, owner_of
from straightway._volume import Entry

if TYPE_CHECKING:
    from straightway._types import AnyBuffer

COPY_BYTES = 4 << 20
SMALL_BYTES = 64 << 10
"""Shorter new files are made whole by one change of the volume."""


def _identity(entry: Entry) -> tuple[int, int]:
    """What tells a file from one that has replaced it."""
    return entry.size_bytes, entry.mtime_ns


def _info(entry: Entry) -> dict[str, Any]:
    return {"name": entry.name, "size": entry.size_bytes, "type": "file", "mtime_ns": entry.mtime_ns}


class StraightwayFileSystem(AbstractFileSystem):
    """The volume on `device`, a name as `open_volume` takes it, with its options. Without `write` it is only read."""

    protocol = "straightway"
    root_marker = ""

    def __init__(
        self,
        device: str,
        write: bool = False,
        path: str | None = None,
        mode: str | None = None,
        namespace_id: int | None = None,
        buffer_bytes: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.device = device
        self.write = write
        self._settings = Settings(device, path, mode, namespace_id, buffer_bytes)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        stripped: str = super()._strip_protocol(path)
        return stripped.lstrip("/")

    @property
    def _owner(self) -> Owner:
        return owner_of(self._settings, self.write)

    def _check_write(self, path: str) -> None:
        if not self.write:
            raise PermissionError(errno.EACCES, f"the volume on {self.device} is open to read; give write=True", path)

    def close(self) -> None:
        """Closes the volume, so that others can have it. The next use opens it again."""
        self._owner.close()

    # --- what is there ----------------------------------------------------------------------------

    def _entries(self, prefix: str) -> list[Entry]:
        """The files below a folder."""
        return self._owner.entries(prefix + "/" if prefix else "")

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path:
            try:
                return _info(self._owner.entry(path))
            except FileNotFoundError:
                if not self._entries(path):
                    raise
        return {"name": path, "size": 0, "type": "directory"}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        entries = self._entries(path)
        if path and not entries:
            entries = [self._owner.entry(path)]
            return [_info(entries[0])] if detail else [path]
        start = len(path) + 1 if path else 0
        found: dict[str, dict[str, Any]] = {}
        for entry in entries:
            first, slash, _rest = entry.name[start:].partition("/")
            name = entry.name[:start] + first
            if not slash:
                found[name] = _info(entry)
            else:
                found.setdefault(name, {"name": name, "size": 0, "type": "directory"})
        return [found[name] for name in sorted(found)] if detail else sorted(found)

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any) -> Any:
        """All files below `path`, by one listing."""
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        path = self._strip_protocol(path)
        entries = self._entries(path)
        if not entries and path and self.isfile(path):
            entries = [self._owner.entry(path)]
        found = {entry.name: _info(entry) for entry in sorted(entries)}
        return found if detail else list(found)

    def modified(self, path: str) -> datetime.datetime:
        """When the file was last synced; 1970 if that is unknown."""
        return datetime.datetime.fromtimestamp(self.info(path).get("mtime_ns", 0) / 1e9, datetime.UTC)

    def ukey(self, path: str) -> str:
        one = self.info(path)
        return f"{one['size']}-{one.get('mtime_ns', 0)}"

    # --- whole files ------------------------------------------------------------------------------

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        size = self._owner.entry(path).size_bytes
        first, last, _step = slice(start, end).indices(size)
        return self._owner.read(path, first, last)

    def pipe(self, path: Any, value: Any = None, **options: Any) -> None:
        """Many small files that are new are made together."""
        if isinstance(path, str):
            self.pipe_file(path, value, **options)
            return
        files = {self._strip_protocol(name): data for name, data in path.items()}
        self._check_write(next(iter(files), ""))
        small = {name: data for name, data in files.items() if len(data) < SMALL_BYTES and not self.isfile(name)}
        self._owner.run(lambda volume: volume.create_many(small))
        for name in files.keys() - small.keys():
            self.pipe_file(name, files[name], **options)

    def pipe_file(self, path: str, value: "AnyBuffer", mode: str = "overwrite", **_: Any) -> None:
        with self.open(path, "xb" if mode == "create" else "wb") as file:
            file.write(value)

    def _target(self, source: Any, target: Any, is_folder: bool) -> Any:
        """Where a source without a folder above it goes in a folder. fsspec finds the place by cutting the source's name at its last
        slash, and loses the name of one that has none."""
        is_plain = isinstance(source, str) and not has_magic(source) and not source.endswith("/")
        name = self._strip_protocol(source) if is_plain else ""
        if not is_folder or not name or "/" in name:
            return target
        return f"{target.rstrip('/')}/{name}"

    def get(self, rpath: Any, lpath: Any, *arguments: Any, **options: Any) -> Any:
        is_folder = isinstance(lpath, str) and (lpath.endswith("/") or os.path.isdir(lpath))
        return super().get(rpath, self._target(rpath, lpath, is_folder), *arguments, **options)

    def copy(self, path1: Any, path2: Any, *arguments: Any, **options: Any) -> Any:
        is_folder = isinstance(path2, str) and (path2.endswith("/") or self.isdir(path2))
        return super().copy(path1, self._target(path1, path2, is_folder), *arguments, **options)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(path1):
            return
        if path1 == path2:
            raise ValueError(f"{path1} cannot be copied to itself")
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while data := source.read(COPY_BYTES):
                target.write(data)

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **options: Any) -> None:
        """A file gets its new name by one change; a folder is copied, and then removed."""
        if recursive or not isinstance(path1, str) or not self.isfile(path1):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **options)
            return
        is_folder = path2.endswith("/") or self.isdir(path2)
        old, new = self._strip_protocol(path1), self._strip_protocol(path2)
        if is_folder:
            new = f"{new}/{old.rpartition('/')[2]}".lstrip("/")
        self._check_write(new)
        if new != old:
            self._owner.replace(old, new)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files; with `recursive` also those of a folder, which is gone with the last one."""
        paths = self.expand_path(path, recursive=recursive, maxdepth=maxdepth)
        self._check_write(paths[0])
        known = {entry.name for entry in self._owner.entries("")}
        for one in paths:
            if one not in known and not recursive and self.isdir(one):
                raise IsADirectoryError(errno.EISDIR, "it is a folder; give recursive=True", one)
        if found := [one for one in paths if one in known]:
            self._owner.remove_many(found)
        for one in paths:
            if one not in known and not recursive:
                self._owner.remove(one)

    def _rm(self, path: str) -> None:
        self.rm(path)

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        if truncate or not self.exists(path):
            self.pipe_file(path, b"")
        else:
            raise NotImplementedError("the time of a file changes with its contents only")

    # Folders come and go with their files.
    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        pass

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        pass

    def rmdir(self, path: str) -> None:
        pass

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: Any = None,
        **options: Any,
    ) -> "VolumeFile":
        if mode != "rb":
            self._check_write(path)
        return VolumeFile(
            self, path, mode, block_size or "default", autocommit=autocommit, cache_options=cache_options, **options
        )


class VolumeFile(AbstractBufferedFile):
    """A file that is read from any position, or written from its start, or appended to."""

    fs: StraightwayFileSystem
    closed: bool

    def __init__(self, fs: StraightwayFileSystem, path: str, mode: str, *arguments: Any, **options: Any) -> None:
        self._written: str | None = None
        if mode == "xb" and fs.exists(path):
            raise FileExistsError(errno.EEXIST, "the name is taken", path)
        super().__init__(fs, path, mode, *arguments, **options)
        if mode == "rb":
            self._identity = (self.details["size"], self.details["mtime_ns"])

    def _fetch_range(self, start: int, end: int) -> bytes:
        owner = self.fs._owner
        if _identity(owner.entry(self.path)) != self._identity:
            raise OSError(errno.ESTALE, "the file was replaced after it was opened; open it again", self.path)
        return owner.read(self.path, start, end)

    def _initiate_upload(self) -> None:
        self._written = self.fs._owner.begin(self.path, self.mode == "ab")

    def _upload_chunk(self, final: bool = False) -> bool:
        if self._written is not None:
            try:
                self.fs._owner.append(self._written, self.buffer.getvalue())
                if final:
                    self.fs._owner.finish(self._written, self._written != self.path)
            except BaseException:
                self.discard()
                raise
            if final and self.autocommit:
                self.commit()
        return True

    def commit(self) -> None:
        if self._written is not None and self._written != self.path:
            self.fs._owner.replace(self._written, self.path)
        self._written = None

    def discard(self) -> None:
        """What was written is removed; what was appended stays."""
        written, self._written = self._written, None
        if written is not None:
            self.fs._owner.finish(written, False)
            if written != self.path:
                self.fs._owner.remove(written)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A file that was not written to its end by an error does not come to be."""
        if kind is not None and self.mode in ("wb", "xb") and not self.closed:
            self.buffer = io.BytesIO()
            self.closed = True
            self.discard()
            return
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __reduce__(self) -> Any:
        if self.mode != "rb":
            raise TypeError("a file that is open to write cannot be pickled")
        return type(self), (self.fs, self.path, self.mode, self.blocksize)
