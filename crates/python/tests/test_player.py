# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Playbacks of files."""

import time
from pathlib import Path

import pytest

import straightway
from other_thread import refusals

BLOCK = 64 << 10
DATA = b"".join(number.to_bytes(4, "little") for number in range(500_000))


@pytest.fixture
def image(tmp_path: Path) -> str:
    name = str(tmp_path / "image")
    straightway.format(name, volume_bytes=32 << 20, checksums=True)
    with straightway.open_volume(name, write=True) as volume:
        with volume.create("flight", checksums=True) as file:
            file.write(DATA)
    return name


def test_blocks_come_in_order_and_not_before_they_are_due(image: str) -> None:
    begin = time.monotonic()
    with straightway.play(image, "flight", bytes_per_second=20 << 20, block_bytes=BLOCK, buffers=3) as player:
        at = 0
        for block in player:
            assert time.monotonic() - begin >= at / (20 << 20)
            assert player.offset == at and block == DATA[at : at + BLOCK]
            at += len(block)
        assert at == len(DATA) and not list(player)
        said = refusals([lambda: next(player)])
        assert len(said) == 1 and "thread" in said[0]
        assert player.report is None
    report = player.close()
    assert report == player.report and report.bytes == len(DATA) and not report.retries
    with pytest.raises(straightway.UsageError, match="closed"):
        next(player)


def test_it_ends_anywhere(image: str) -> None:
    with straightway.play(image, "flight", block_bytes=BLOCK, buffers=2) as player:
        assert next(player) == DATA[:BLOCK]
    with straightway.open_volume(image) as volume:
        assert volume["flight"].readall() == DATA


def test_rot_ends_it(image: str) -> None:
    content = bytearray(Path(image).read_bytes())
    content[content.index(DATA[2 * BLOCK : 2 * BLOCK + 4096]) + 5] ^= 1
    Path(image).write_bytes(content)
    with straightway.play(image, "flight", block_bytes=BLOCK, buffers=2) as player:
        assert [next(player), next(player)] == [DATA[:BLOCK], DATA[BLOCK : 2 * BLOCK]]
        with pytest.raises(straightway.Error, match="checksum") as caught:
            next(player)
        assert caught.value.code == straightway.Status.ROT
    with straightway.play(image, "flight", block_bytes=BLOCK, verify=False) as player:
        assert sum(len(block) for block in player) == len(DATA)


def test_what_is_refused(image: str) -> None:
    with pytest.raises(straightway.NotFoundError):
        straightway.play(image, "other")
    with pytest.raises(straightway.UsageError):
        straightway.play(image, "flight", block_bytes=1000)
    with straightway.open_volume(image, write=True), pytest.raises(straightway.Error, match="use"):
        straightway.play(image, "flight")
