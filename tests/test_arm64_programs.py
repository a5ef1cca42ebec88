# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What other programs get on 64-bit Arm: the Python module's wheel, fio's engine and the static command, each built by its own script
and run in a guest. Part of `make test-arm64`."""

# partner: Linux on Arm | host kernel
# partner: fio | program

import os
import re
import subprocess

import pytest

from scripted import ARM64, DRIVE, ROOT, guest
from suites import arm64 as suite


def built(*command, **environment):
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
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


def test_fio_verifies_what_its_engine_wrote_to_a_drive_and_to_a_volume():
    done = suite.build()
    assert done.status == 0, done.output
    folder = os.path.dirname(ARM64.command)
    built("crates/c/fio/build", "--aarch64", f"{folder}/straightway_fio.so", STRAIGHTWAY_LIBRARY=f"{folder}/libstraightway.a")
    said = guest(
        f"""
        engine="--ioengine=external:{folder}/straightway_fio.so --thread --verify_state_save=0 --filename=/dev/nvme0n1 --verify=crc32c --name=j"
        rc 0 fio $engine --rw=randwrite --bs=16k --iodepth=8 --size=2M --destroy_data=LAB1 --device_path=straightway-interrupt
        cat /tmp/out
        driver_is nvme
        rc 0 $S format /dev/nvme0n1 --destroy-data LAB1 --checksums
        rc 0 fio $engine --volume_file=log --rw=write --bs=64k --size=4M
        cat /tmp/out
        rc 0 $S check /dev/nvme0n1 --read-data
        driver_is nvme
        """,
        "--drive", DRIVE, timeout=300,
    )  # fmt: skip
    # What was read again to be verified.
    assert re.findall(r"^ +READ: .* io=(\S+) ", said, re.M) == ["2048KiB", "4096KiB"], said


def test_the_static_command_runs_in_a_root_with_nothing_else():
    built("tools/cross", "--static-aarch64", "cargo", "build", "--profile", "test", "--locked", "--quiet", "-p", "straightway-cli", "--bins")
    print(guest(
        """
        mkdir -p /tmp/root/{dev,proc,sys,run}
        cp target/aarch64-unknown-linux-musl/debug/straightway /tmp/root/
        for folder in dev proc sys; do mount --bind /$folder /tmp/root/$folder; done
        command="chroot /tmp/root /straightway"
        rc 0 $command info /dev/nvme0n1
        cat /tmp/out
        rc 0 $command format /dev/nvme0n1 --destroy-data LAB1 --checksums
        seq 100000 >/tmp/root/numbers
        rc 0 $command put /dev/nvme0n1 /numbers --path straightway-hybrid
        driver_is nvme
        rc 0 $command get /dev/nvme0n1 numbers /back --path io_uring
        cmp /tmp/root/numbers /tmp/root/back || fail "the file differs"
        rc 0 $command check /dev/nvme0n1 --read-data
        umount /tmp/root/{dev,proc,sys}
        """,
        "--drive", DRIVE, timeout=300,
    ))  # fmt: skip
