# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Python module: its wheel is built, and its tests, its documentation's examples and its types are checked with an interpreter
that has NumPy beside it. On a drive it runs in the lab."""

import os
import subprocess

import pytest

from scripted import DRIVE, ROOT, guest

PYTHON = ROOT / "build" / "wheel-venv" / "bin" / "python"
UNPACKED = ROOT / "build" / "wheels" / "test" / "unpacked"
CRATE = ROOT / "crates" / "python"


@pytest.fixture(autouse=True, scope="module")
def wheel():
    done = subprocess.run([CRATE / "build", "--test"], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def run(*words, folder=CRATE):
    environment = {**os.environ, "PYTHONPATH": str(UNPACKED), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([PYTHON, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass(tmp_path):
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/t", "tests")
    print(out.splitlines()[-1])


def test_the_examples_in_its_documentation_run():
    for module in "straightway", "straightway.aio":
        run("-c", f"import doctest, {module} as m; r = doctest.testmod(m); assert r.attempted and not r.failed, r")
    run("-m", "doctest", "README.md")


def test_its_types_are_right():
    """Strictly, and the stub file against the module itself."""
    run("-m", "mypy", "python/straightway", "tests", "examples")
    run("-m", "mypy.stubtest", "straightway._native", "--mypy-config-file", "pyproject.toml", "--allowlist", "stubtest.txt")


def test_the_wheel_is_for_every_python_from_3_11():
    (wheel,) = (ROOT / "build" / "wheels" / "test").glob("*.whl")
    assert "-cp311-abi3-" in wheel.name


def test_the_example_stores_and_sums_an_array(tmp_path):
    out = run(CRATE / "examples" / "samples.py", tmp_path / "image", folder=tmp_path)
    assert out == "4096 samples in samples, mean 2047.5\n"


def program_of(page):
    """The first block of code in Python of a page."""
    return (ROOT / page).read_text("utf-8").partition("\n```python\n")[2].partition("\n```\n")[0]


def test_the_programs_of_the_pages_need_the_wheel_only(tmp_path):
    first = run("-c", program_of("crates/straightway/README.md"), folder=tmp_path).splitlines()
    assert first[0] == "log has 20 bytes" and "first.img" in first[1] and " --" not in first[1]
    run("-c", """if True:
        import straightway
        straightway.format("disk.img", volume_bytes=16 << 20)
        with straightway.open_volume("disk.img", write=True) as volume, volume.create("README.md") as file:
            file.write(b"straight")
        """, folder=tmp_path)
    assert run("-c", program_of("README.md"), folder=tmp_path) == "8 bytes\n"


def test_a_drive_is_read_written_and_given_back():
    print(guest(
        rf"""
        export PYTHONPATH={UNPACKED.relative_to(ROOT)} PYTHONDONTWRITEBYTECODE=1
        cat >/tmp/drive.py <<'PROGRAM'
import asyncio, sys
import straightway
from straightway.aio import AsyncDevice

path = sys.argv[1]
with straightway.open("/dev/nvme0n1", write=True, destroy_data="LAB1", path=path) as device:
    assert device.size_bytes > 64 << 20 and ("io_uring" in device.path) == (path == "io_uring")
    print(device.path)
    buffer = device.allocate(64 << 10)
    memory = memoryview(buffer)
    memory[:] = bytes(range(256)) * 256
    for at in range(0, len(memory), 4096):
        device.submit_write(at, memory[at : at + 4096], at)
    ends = device.poll(16)
    assert sorted(end.tag for end in ends) == list(range(0, 64 << 10, 4096)) and not any(end.error for end in ends)
    memory[:] = bytes(64 << 10)
    async def read():
        requests = AsyncDevice(device)
        await asyncio.gather(*(requests.read(at, memory[at : at + 4096]) for at in range(0, len(memory), 4096)))
    asyncio.run(read())
    assert bytes(memory) == bytes(range(256)) * 256
    assert (device.completion_file() is not None) == (path == "io_uring")
straightway.format("/dev/nvme0n1", destroy_data="LAB1", checksums=True)
with straightway.open_volume("/dev/nvme0n1", write=True, path=path) as volume:
    with volume.create("log") as file:
        file.write(memory)
    assert volume["log"].readall() == bytes(memory)
try:
    straightway.open("/dev/nvme0n1", write=True, destroy_data="OTHER")
except straightway.UsageError as error:
    assert "LAB1" in str(error), error
else:
    raise SystemExit("it was opened")
PROGRAM
        for path in straightway-hybrid io_uring; do
          rc 0 python3 /tmp/drive.py $path; cat /tmp/out
          driver_is nvme
          rc 0 $S check /dev/nvme0n1 --read-data
        done
        """,
        "--drive", DRIVE, timeout=300,
    ))
