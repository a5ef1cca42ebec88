# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A read whose data the application stops taking ends with TimedOut, and none of its data appear in the next read.

STRAIGHTWAY_SEED=... repeats a run; the seed is printed with each failure.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402

DATA = bytes(range(256)) * 40


@pytest.fixture(scope="module", params=["plain", "sums", "wide"])
def device(request, tmp_path_factory):
    """A core, and a volume with the file `one`, which has data checksums if the core supports them."""
    name, parameters = {"plain": ("test", {}), "sums": ("sums", {"DataChecksums": 1}),
                        "wide": ("test_256", {"level": "-O0", "DataWidth": 256, "BlockSizeLog2": 6})}[request.param]
    program = hw.build(name, **parameters)
    folder = tmp_path_factory.mktemp("abort")
    image = folder / "v"
    sums = ["--checksums"] if request.param == "sums" else []
    hw.command("format", image, "--size", "4M", "--unit", 512, "--node", 512, "--slots", 64, *sums)
    (folder / "source").write_bytes(DATA)
    hw.command("put", image, folder / "source", "one", *sums)
    return program, folder, image


@pytest.mark.parametrize("taken", [0, 1, 99, 100, 200])
@pytest.mark.parametrize("offset", [0, 3])
def test_nothing_of_a_timed_out_read_is_in_the_next(device, taken, offset):
    program, folder, image = device
    script = hw.Session(program, folder, image)
    script.mount()
    script.open(0, "one")
    script.stop("take", taken)
    script.read(0, offset, len(DATA) - offset, "first")
    script.stop("take", -1)
    script.read(0, 4096 + offset, 64, "second")
    script.stop("take", taken)
    script.get("one", offset, len(DATA) - offset)
    script.stop("take", -1)
    script.get("one", offset, len(DATA) - offset, "whole")
    results = [result.status for result in script.run()]
    assert results == [hw.OK, hw.OK, hw.TIMED_OUT, hw.OK, hw.TIMED_OUT, hw.OK]
    first = (folder / "first").read_bytes()
    assert first == DATA[offset:offset + len(first)]
    assert (folder / "second").read_bytes() == DATA[4096 + offset:4096 + offset + 64]
    assert (folder / "whole").read_bytes() == DATA[offset:]


def test_nothing_of_a_timed_out_listing_is_in_what_follows(device):
    """The application stops within an entry, also between the halves of a word."""
    program, folder, image = device
    # Up to four words of the stream may still be in flight when the command has succeeded.
    for taken in range(6):
        script = hw.Session(program, folder, image)
        script.mount()
        script.stop("take", taken)
        script.list(0)
        script.stop("take", -1)
        script.list(0)
        script.get("one", 0, 64, "out")
        results = script.run()
        assert results[2].status == results[3].status == hw.OK, taken
        entry = bytes.fromhex(results[2].rest)
        assert len(entry) == 80 and entry[16:20] == b"one\0" and int.from_bytes(entry[:8], "little") == len(DATA), taken
        assert (folder / "out").read_bytes() == DATA[:64], taken
