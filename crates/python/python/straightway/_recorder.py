# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Recordings of what a program hands in."""

from types import TracebackType
from typing import TYPE_CHECKING, Literal, NamedTuple

from straightway import _native
from straightway._errors import UsageError

if TYPE_CHECKING:
    from straightway._types import AnyBuffer


class RecordReport(NamedTuple):
    """A recording's counters."""

    bytes: int
    """Of the blocks that were handed to the drive."""
    durable_bytes: int
    """Of these, what survives a power cut."""
    lost_messages: int
    lost_bytes: int
    gaps: int
    """Runs of dropped messages with no block between."""
    misses: int
    """Blocks that were written after their deadline."""
    latency_max_us: int
    waiting_max_blocks: int
    waiting_max_bytes: int
    retries: int


class Recorder:
    """A recording, which a thread of the library writes. The device is the recording's until it is closed."""

    def __init__(self, native: _native.Recorder, name: str) -> None:
        self._native = native
        self._last: RecordReport | None = None
        self.name = name

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<straightway.Recorder of {self.name}>"

    def append(self, message: "AnyBuffer", *, age_us: int = 0) -> bool:
        """Hands in a message of any length, which arrived `age_us` microseconds ago: it is copied. Returns whether it was kept, whole;
        only with `on_full="wait"` it waits for the drive."""
        return self._native.append(message, age_us)

    @property
    def report(self) -> RecordReport:
        """The counters so far, a moment old; the last ones after `close`."""
        return self._last or RecordReport(*self._native.report())

    def close(self) -> RecordReport:
        """Ends the recording, and returns when all of it is durable and the device is closed. Raises why it ended early; the report
        says what is in the file. A second close does nothing."""
        if self._last is None:
            counters, error = self._native.close()
            self._last = RecordReport(*counters)
            if error is not None:
                raise error
        return self._last


def record(
    device: str,
    name: str,
    *,
    on_full: Literal["stop", "drop", "wait"] = "stop",
    block_bytes: int | None = None,
    buffers: int | None = None,
    deadline_us: int | None = None,
    commit_ms: int | None = None,
    total_bytes: int = 0,
    append: bool = False,
    segment_bytes: int = 0,
    segment_us: int = 0,
    keep_bytes: int = 0,
    format: Literal["raw", "sigmf", "mcap"] = "raw",
    sigmf_datatype: str | None = None,
    sample_rate_hz: float = 0,
    frequency_hz: float = 0,
    channels: int = 0,
    hardware: str | None = None,
    path: str | None = None,
    mode: str | None = None,
    namespace_id: int | None = None,
) -> Recorder:
    """Begins to record a new file on the volume of a device, which must not be open otherwise. Messages are gathered to blocks of
    `block_bytes` (1 MiB), of which `buffers` (16) are in memory. When there is no memory, the recording ends ("stop"), drops the
    message, which `name.gaps` lists ("drop"), or waits ("wait"). A block must be written within `deadline_us` (100 ms), and is durable
    `commit_ms` (1 s) later. What has waited as long in a block that is not full is written too, but for its last 4095 bytes at most. `total_bytes` sets space aside at the beginning.

    `append` goes on at the end of the file, if there is one. With `segment_bytes` another file begins when one has this size, with
    `segment_us` when one has gone on for so long, `name.000001` and so on; with `keep_bytes` the oldest ones are removed so that all have at most this size. `format` is what `straightway export` makes of
    it: samples ("sigmf"), which the options from `sigmf_datatype` to `hardware` describe, or a stream of MCAP ("mcap"), of which
    each message has whole records if some may be dropped."""
    if on_full not in ("stop", "drop", "wait"):
        raise UsageError(2, f"on_full is {on_full!r}", 'give "stop", "drop" or "wait"')
    native = _native.open_recorder(
        device,
        name,
        on_full=on_full,
        block_bytes=block_bytes,
        buffers=buffers,
        deadline_us=deadline_us,
        commit_ms=commit_ms,
        total_bytes=total_bytes,
        append=append,
        segment_bytes=segment_bytes,
        segment_us=segment_us,
        keep_bytes=keep_bytes,
        format=format,
        sigmf_datatype=sigmf_datatype,
        sample_rate_hz=sample_rate_hz,
        frequency_hz=frequency_hz,
        channels=channels,
        hardware=hardware,
        path=path,
        mode=mode,
        namespace_id=namespace_id,
    )
    return Recorder(native, name)
