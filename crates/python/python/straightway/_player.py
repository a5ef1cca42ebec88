# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Playbacks of files at a rate."""

from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple

from straightway import _native


class PlayReport(NamedTuple):
    """A playback's counters."""

    bytes: int
    """Of the blocks that were delivered."""
    misses: int
    """Blocks that were delivered after their deadline."""
    lateness_max_us: int
    latency_max_us: int
    """From a block's due time until it was delivered."""
    underruns: int
    """Blocks that had not been read when they were due, or for which the program left no memory."""
    retries: int


class Player(Iterator[bytes]):
    """A file's blocks, each when it is due. The device is the playback's until it is closed."""

    def __init__(self, native: _native.Player, name: str) -> None:
        self._native = native
        self._last: PlayReport | None = None
        self._offset = 0
        self.name = name

    def __enter__(self) -> "Player":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<straightway.Player of {self.name}>"

    def __next__(self) -> bytes:
        """Waits for the next block. Raises why the playback ended early."""
        block = self._native.next()
        if block is None:
            raise StopIteration
        self._offset, data = block
        return data

    @property
    def offset(self) -> int:
        """Where in the file the last block is."""
        return self._offset

    @property
    def report(self) -> PlayReport | None:
        """The counters, after `close`."""
        return self._last

    def close(self) -> PlayReport:
        """Ends the playback, wherever it is, and closes the device. A second close does nothing."""
        if self._last is None:
            counters, error = self._native.close()
            self._last = PlayReport(*counters)
            if error is not None:
                raise error
        return self._last


def play(
    device: str,
    name: str,
    *,
    bytes_per_second: int = 0,
    deadline_us: int | None = None,
    block_bytes: int | None = None,
    buffers: int | None = None,
    verify: bool = True,
    path: str | None = None,
    mode: str | None = None,
    namespace_id: int | None = None,
) -> Player:
    """Begins to play a file of the volume on a device, which must not be open otherwise. `buffers` (16) blocks of `block_bytes` (1 MiB) are
    read ahead, and each is delivered when it is due at `bytes_per_second`, or as fast as the program takes them. One that comes later
    than `deadline_us` (100 ms) is a miss. `verify` compares checksums, where the file has them."""
    native = _native.open_player(
        device,
        name,
        bytes_per_second=bytes_per_second,
        deadline_us=deadline_us,
        block_bytes=block_bytes,
        buffers=buffers,
        verify=verify,
        path=path,
        mode=mode,
        namespace_id=namespace_id,
    )
    return Player(native, name)
