"""What other programs get on 64-bit Arm: the Python module's wheel, fio's engine and the static command, each built by its own script
and run in a guest. Part of `make test-arm64`."""

import re
import subprocess

import pytest

from scripted import DRIVE, ROOT, guest


def built(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def test_the_wheel_names_the_c_library_that_it_needs_and_the_module_s_tests_pass():
    built("crates/python/build", "--aarch64", "--test")
    wheels = ROOT / "build" / "wheels" / "test-aarch64"
    (wheel,) = wheels.glob("*.whl")
    minor = re.search(r"-cp311-abi3-manylinux_2_(\d+)_aarch64\.whl$", wheel.name)[1]
    symbols = subprocess.run(["aarch64-linux-gnu-objdump", "-T", *wheels.glob("unpacked/straightway/*.so")], check=True,
                             capture_output=True, text=True).stdout  # fmt: skip
    assert max(int(one) for one in re.findall(r"\(GLIBC_2\.(\d+)", symbols)) == int(minor)
    said = guest(
        f"""
        # Direct transfers need a file system that has them.
        rc 0 mkfs.ext4 -q /dev/nvme0n1
        mount /dev/nvme0n1 /mnt
        export PYTHONPATH={wheels.relative_to(ROOT)}/unpacked
        python3 -c 'import platform; print(platform.machine())'
        python3 -m pytest -q -rs -p no:cacheprovider --rootdir crates/python --confcutdir crates/python --basetemp /mnt/t crates/python/tests || fail "a test of the module failed"
        umount /mnt
        """,
        "--drive", "size=512M,serial=LAB1", timeout=900,
    )  # fmt: skip
    print(said)
    assert said.startswith("aarch64\n") and re.search(r"^\d+ passed", said, re.M)
