# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Recordings of messages."""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import pytest

import straightway
from other_thread import refusals


@pytest.fixture
def image(tmp_path: Path) -> str:
    name = str(tmp_path / "image")
    straightway.format(name, volume_bytes=32 << 20, checksums=True)
    return name


def test_messages_become_a_file(image: str) -> None:
    with straightway.record(image, "flight", on_full="wait", block_bytes=65536, buffers=4, commit_ms=10) as recorder:
        for number in range(3000):
            assert recorder.append(numpy.full(100, number, numpy.uint32), age_us=number % 7)
    report = recorder.report
    assert report.bytes == report.durable_bytes == 3000 * 400 and report.lost_messages == 0
    assert recorder.close() == report
    with straightway.open_volume(image) as volume:
        assert list(volume) == ["flight"]
        samples = numpy.frombuffer(volume["flight"].readall(), numpy.uint32)
        assert (samples == numpy.repeat(numpy.arange(3000), 100)).all()


def test_what_is_dropped_is_counted(image: str) -> None:
    with straightway.record(image, "flight", on_full="drop", block_bytes=4096, buffers=2) as recorder:
        kept = sum(recorder.append(bytes(4000)) for _ in range(2000))
        with pytest.raises(straightway.UsageError):
            recorder.append(bytes(8193))
    report = recorder.report
    assert (report.durable_bytes, report.lost_messages, report.lost_bytes) == (kept * 4000, 2000 - kept, (2000 - kept) * 4000)


def test_bad_input_says_why_and_records_nothing(image: str) -> None:
    mistaken: Any = "fail"
    with pytest.raises(straightway.UsageError):
        straightway.record(image, "a", on_full=mistaken)
    with pytest.raises(straightway.Error):
        straightway.record(image, "")
    with pytest.raises(straightway.Error):
        straightway.record(image, "a", block_bytes=1000)
    with pytest.raises(straightway.Error) as raised:
        straightway.record(image + "-not", "a")
    assert raised.value.code == straightway.Status.MISSING
    with straightway.record(image, "a") as recorder:
        with pytest.raises(straightway.Error):
            straightway.open_volume(image, write=True)
        assert refusals([lambda: recorder.append(b"x")]) == ["this thread has not opened such a handle"]
    with pytest.raises(straightway.UsageError):
        recorder.append(b"x")
    with pytest.raises(straightway.ExistsError):
        straightway.record(image, "a")


def test_other_threads_run_while_a_call_waits() -> None:
    """The interpreter never takes its lock away in this test: another thread runs only when a call gives it."""
    turns, done = [0], threading.Event()

    def other() -> None:
        while not done.is_set():
            turns[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    with straightway.open("ram:1M") as device:
        buffer = device.allocate(4096)
        sys.setswitchinterval(10_000)
        try:
            thread.start()
            before = turns[0]
            for _ in range(10_000):
                len(buffer)
            assert turns[0] == before
            calls = 0
            while turns[0] == before and calls < 1_000_000:
                device.read(0, buffer)
                calls += 1
            assert turns[0] > before, f"no turn in {calls} reads"
        finally:
            sys.setswitchinterval(interval)
            done.set()
            thread.join()


def test_samples_go_on_and_segments_become_a_ring(image: str) -> None:
    samples: dict[str, Any] = {"format": "sigmf", "sigmf_datatype": "ci16_le", "sample_rate_hz": 1e6, "frequency_hz": 433.92e6}
    common: dict[str, Any] = {"on_full": "wait", "block_bytes": 65536, "buffers": 4, "commit_ms": 10}
    with straightway.record(image, "radio", **common, **samples, hardware="a receiver") as recorder:
        recorder.append(bytes(131072))
    with straightway.record(image, "radio", **common, format="sigmf", append=True) as recorder:
        recorder.append(bytes(65536))
    with pytest.raises(straightway.UsageError, match="another type"):
        straightway.record(image, "radio", **common, append=True, format="sigmf", sigmf_datatype="cu8")
    with straightway.record(image, "ring", **common, **samples, segment_bytes=65536, keep_bytes=4 * 65536) as recorder:
        for count in range(40):
            recorder.append(bytes(65536))
            # The next segment is made between the blocks of this one.
            while recorder.report.durable_bytes <= count * 65536:
                time.sleep(0.001)
    with straightway.record(image, "bag", **common, format="mcap") as recorder:
        with pytest.raises(straightway.UsageError, match="MCAP"):
            recorder.append(b"RIFF")
        recorder.append(b"\x89MCAP0\r\n")
    wrong: list[dict[str, Any]] = [{"keep_bytes": 1}, {"segment_bytes": 65536, "segment_us": 1000}, {"segment_bytes": 65536, "append": True}, {"format": "wav"}, {"sample_rate_hz": -1.0}]
    for options in wrong:
        with pytest.raises(straightway.UsageError):
            straightway.record(image, "a", **common, **options)
    with straightway.open_volume(image) as volume:
        names = list(volume)
        meta = json.loads(volume["radio.sigmf-meta"].readall())
        assert len(volume["radio"].readall()) == 3 * 65536
    assert "ring.000001" not in names and "a" not in names
    assert sum(name.startswith("ring.") and name.endswith(".sigmf-meta") for name in names) == 1
    assert [capture["core:sample_start"] for capture in meta["captures"]] == [0, 32768]
    assert meta["global"]["core:hw"] == "a receiver"


def test_a_volume_is_resized(image: str) -> None:
    with straightway.open_volume(image, write=True) as volume:
        with pytest.raises(straightway.Error):
            straightway.resize(image)
        del volume
    before = straightway.resize(image)
    assert straightway.resize(image, 2 * before) == 2 * before
    with pytest.raises(straightway.Error) as raised:
        straightway.resize(image, 4096)
    assert raised.value.code == straightway.Status.FULL
    assert straightway.resize(image, before) == before
