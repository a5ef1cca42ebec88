# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The file system core on volumes that builds of before wrote (tests/golden/make): it reads them whole, writes, and the command checks."""

import hashlib
import json
import sys
from pathlib import Path

import pytest
import zstandard

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hwfs_script as hw  # noqa: E402

GOLDEN = hw.cores.ROOT / "tests/golden"
IMAGES = json.loads((GOLDEN / "images.json").read_text("utf-8"))
# The core has names of up to 64 bytes: it refuses a volume that ever had a longer one (test_hwfs.py).
LONGEST_NAME_BYTES = 64
# Those of the shape that the core here is built for.
FIT = [name for name, facts in IMAGES.items()
       if facts["device"] == "{}" and facts["volume"]["node_bytes"] == 512 and facts["volume"]["slots"] <= 1024
       and all(len(known.encode()) <= LONGEST_NAME_BYTES for known in facts["files"])]  # fmt: skip


@pytest.fixture(scope="module")
def program():
    return hw.build("sums", DataChecksums=1)


@pytest.mark.parametrize("name", FIT)
def test_a_volume_of_before(program, tmp_path, name):
    facts, image = IMAGES[name], tmp_path / "v"
    with (GOLDEN / facts["parts"][0]).open("rb") as packed, image.open("wb") as out:
        zstandard.ZstdDecompressor().copy_stream(packed, out)
    names = [known for known in facts["files"] if " " not in known]
    script = hw.Session(program, tmp_path, image)
    script.mount()
    for number, known in enumerate(names):
        script.open(0, known)
        script.read(0, 0, facts["files"][known]["bytes"], f"out{number}")
        script.close(0)
    new = bytes(range(256)) * 20
    script.put("new", new)
    script.unmount()
    script.save("after")
    results = script.run()
    assert [result.status for result in results] == [hw.OK] * len(results)
    for number, known in enumerate(names):
        read = (tmp_path / f"out{number}").read_bytes()
        assert hashlib.sha256(read).hexdigest() == facts["files"][known]["sha256"], known
    hw.check(tmp_path / "after")
    assert hw.contents(tmp_path / "after", "new", tmp_path) == new
    assert set(hw.names_on(tmp_path / "after")) == {*facts["files"], "new"}
