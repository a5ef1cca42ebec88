# SPDX-License-Identifier: Apache-2.0 OR MIT
"""fio's engine over libstraightway: fio and our loop ask the same of the drive, what it writes is verified, errors say what to do."""

# partner: fio | program

import json
import shutil
import subprocess

import pytest

from scripted import DRIVE, ROOT, guest

ENGINE = ROOT / "target" / "release" / "straightway_fio.so"
OUT = ROOT / "out" / "test-fio"
FIO = f"fio --ioengine=external:{ENGINE.relative_to(ROOT)} --output-format=json --thread --verify_state_save=0"


@pytest.fixture(autouse=True, scope="module")
def engine():
    done = subprocess.run([ROOT / "crates" / "c" / "fio" / "build"], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def fio(*options, cwd=None):
    """Runs one job on this machine: fio's exit code, its results and what it said."""
    command = ["fio", f"--ioengine=external:{ENGINE}", "--name=job", "--output-format=json", "--verify_state_save=0", *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)
    text = done.stdout[done.stdout.find("{"):]
    jobs = json.loads(text)["jobs"] if text.startswith("{") else []
    return done.returncode, jobs, done.stdout + done.stderr


def test_memory_and_files_are_verified(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(32 << 20))
    write = ["--rw=randwrite", "--verify=crc32c", "--size=4M"]
    for options in (
        ["--filename=model\\:16M", "--bs=4k", "--iodepth=32", "--fsync=64"],
        [f"--filename={image}", f"--destroy_data={image}", "--bs=64k", "--iodepth=8", "--device_path=io_uring"],
        # One request of fio is several of the device.
        ["--filename=model\\:16M", "--bs=4M", "--iodepth=2", "--size=16M"],
    ):
        status, (job,), said = fio(*write, *options)
        assert status == 0 and job["error"] == 0, said
        assert job["read"]["io_bytes"] == job["write"]["io_bytes"] >= 4 << 20, said
    # Something else was written there since.
    image.write_bytes(bytes(32 << 20))
    status, (job,), said = fio("--rw=randwrite", "--verify=crc32c", "--size=4M", f"--filename={image}", "--bs=64k", "--verify_only")
    assert status != 0 and "verify" in said, said


def test_each_thread_has_a_queue(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(8 << 20))
    status, (job,), said = fio(f"--filename={image}", "--rw=randread", "--bs=4k", "--iodepth=4", "--numjobs=4", "--thread",
                               "--number_ios=200", "--group_reporting")  # fmt: skip
    assert status == 0, said
    assert job["read"]["total_ios"] == 4 * 200 and job["job options"]["numjobs"] == "4"


def test_a_file_of_a_volume_is_written_and_read(tmp_path):
    image = tmp_path / "image"
    command = [ROOT / "target" / "release" / "straightway"]
    subprocess.run([*command, "format", image, "--size", "32M", "--checksums"], check=True, capture_output=True)
    on_it = (f"--filename={image}", "--volume_file=log")
    status, (job,), said = fio(*on_it, "--rw=write", "--bs=64k", "--size=8M", "--verify=crc32c", "--end_fsync=1")
    assert status == 0 and job["read"]["io_bytes"] == 8 << 20, said
    status, (job,), said = fio(*on_it, "--rw=randread", "--bs=4k", "--number_ios=100")
    assert status == 0 and job["read"]["total_ios"] == 100, said
    listed = subprocess.run([*command, "ls", "--json", image], check=True, capture_output=True, text=True).stdout
    (entry,) = json.loads(listed)["files"]
    assert (entry["name"], entry["size_bytes"]) == ("log", 8 << 20)
    for options, words in (
        ((*on_it, "--rw=write", "--bs=64k", "--size=8M"), "a file has this name already"),
        ((*on_it, "--rw=randwrite", "--bs=64k", "--size=8M"), "a volume's file grows by appends: use rw=write"),
        ((on_it[0], "--volume_file=no", "--rw=read", "--bs=4k"), "no file has this name"),
        ((on_it[0], "--volume_file=big", "--rw=write", "--bs=1M", "--size=64M"), "space"),
        ((on_it[0], "--volume_file=new", "--rw=write", "--bs=4k"), "needs size="),
    ):
        status, _, said = fio(*options)
        assert status != 0 and words in said, said
    assert listed == subprocess.run([*command, "ls", "--json", image], check=True, capture_output=True, text=True).stdout


def test_bad_input_is_a_clear_error(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(b"kept" * (1 << 18))
    read = ("--rw=randread", "--bs=4k")
    for options, words in (
        (("--filename=nvme\\:x", *read), "hint: "),
        ((f"--filename={tmp_path}/none", *read), "there is no file"),
        (("--filename=ram\\:4q", *read), "unknown unit of size"),
        (("--filename=ram:4M", *read), "write a colon in its name as"),
        (("--filename=ram\\:4M", "--device_path=none", *read), "is not a path"),
        (("--filename=ram\\:4M", "--device_wait=none", *read), "is no way to wait"),
        (("--filename=ram\\:4M", "--rw=read", "--bs=100"), "multiple of the device's block of 512 bytes"),
        (("--filename=ram\\:4M", "--rw=trim", "--bs=4k"), "no trim"),
        ((f"--filename={image}", "--rw=randwrite", "--bs=4k"), "would overwrite data"),
        ((f"--filename={image}", "--rw=randwrite", "--bs=4k", "--destroy_data=other"), "destroy_data"),
        (("--filename=model\\:4M,latency=1x", *read), "latency"),
    ):
        status, _, said = fio(*options, cwd=tmp_path)
        assert status != 0 and words in said, (options, said)
        assert "straightway: job: " in said, said
    assert image.read_bytes() == b"kept" * (1 << 18)


def test_an_engine_for_another_fio_says_so(tmp_path):
    other = tmp_path / "other.so"
    shutil.copy(ENGINE, other)
    version = subprocess.run(["fio", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    content = other.read_bytes()
    built_for = version.encode() + b"\0"
    assert content.count(built_for) == 1
    other.write_bytes(content.replace(built_for, b"fio-0.00"[:len(version)].ljust(len(version), b"0") + b"\0"))
    done = subprocess.run(["fio", f"--ioengine=external:{other}", "--name=job", "--filename=ram\\:1M", "--rw=read"],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode != 0 and "build it again" in done.stdout + done.stderr


FEW, MANY = 300, 1500


@pytest.mark.repeated()
def test_fio_and_our_loop_agree():
    """In what they ask of the drive, by the drive's own count: rates would be compared beside whatever else this machine does."""
    job = "--name=job --rw=randread --bs=4k --iodepth=4 --size=16M --norandommap"
    paths = "io_uring", "straightway-interrupt"
    guest(
        rf"""
        rm -rf out/test-fio
        mkdir -p out/test-fio
        for path in {" ".join(paths)}; do
          for many in 1 {FEW} {MANY}; do
            rc 0 {FIO} --filename=/dev/nvme0n1 --device_path=$path --output=out/test-fio/$path-$many.json {job} --number_ios=$many
            driver_is nvme
            nvme smart-log /dev/nvme0 --output-format=json >out/test-fio/$path-$many.smart.json
          done
          measured $S sweep /dev/nvme0n1 --sizes 4K --patterns random --depths 4 --rounds 3 --cell-duration 50ms \
            --paths $path --span 16M --output out/test-fio/$path
          nvme smart-log /dev/nvme0 --output-format=json >out/test-fio/$path-swept.smart.json
        done
        """,
        "--drive", DRIVE, timeout=300,
    )

    def by_drive(path, when):
        return int(json.loads((OUT / f"{path}-{when}.smart.json").read_text())["host_read_commands"])

    for path in paths:
        ran = {many: json.loads((OUT / f"{path}-{many}.json").read_text())["jobs"][0]["read"] for many in (FEW, MANY)}
        assert {many: one["total_ios"] for many, one in ran.items()} == {FEW: FEW, MANY: MANY}, path
        assert all(one["io_bytes"] == many * 4096 for many, one in ran.items()), path
        # What the kernel reads when it gets the drive back is in each of them.
        few, many = by_drive(path, FEW) - by_drive(path, 1), by_drive(path, MANY) - by_drive(path, FEW)
        assert many - few == MANY - FEW, (path, few, many)
        (comparison,) = json.loads((OUT / path / "sweep.json").read_text())["comparisons"]
        (ours,) = comparison["results"]
        print(f"{path}: fio {many - few} commands for {MANY - FEW} reads, ours {ours['device_commands_per_operation']} each")
        # One command for each read of each of them, and the drive has seen all of ours.
        assert ours["device_commands_per_operation"] == pytest.approx(1, abs=0.01), (path, ours)
        assert ours["block_size_bytes"] == 4096 and comparison["queue_depth"] == 4
        assert by_drive(path, "swept") - by_drive(path, MANY) >= ours["operations"] >= 100, (path, ours)


def test_drives_are_verified_and_the_thesis_s_runs_run():
    jobs = "SERIAL=LAB1 DEVICE=/dev/nvme0n1 DEVICE_PATH=io_uring RUNTIME=200ms SPAN=16M BLOCK_SIZE=128k"
    guest(
        rf"""
        rm -rf out/test-fio; mkdir -p out/test-fio
        on_drive="--name=j --filename=/dev/nvme0n1 --bs=16k --iodepth=8 --size=2M"
        for path in straightway-interrupt io_uring; do
          rc 0 {FIO} $on_drive --rw=randwrite --verify=crc32c --destroy_data=LAB1 --device_path=$path
        done
        rc 1 {FIO} $on_drive --rw=randwrite
        cat /tmp/out >>/tmp/err; said 'would overwrite'
        rc 1 {FIO} $on_drive --rw=randwrite --destroy_data=OTHER
        driver_is nvme
        rc 0 $S format /dev/nvme0n1 --destroy-data LAB1 --checksums
        rc 0 {FIO} --name=j --filename=/dev/nvme0n1 --volume_file=log --rw=write --bs=64k --size=4M --verify=crc32c
        rc 0 $S check /dev/nvme0n1 --read-data
        driver_is nvme
        export ENGINE={ENGINE.relative_to(ROOT)} {jobs}
        for file in threads-16x32 threads-4x4; do
          rc 0 fio --output-format=json --output=out/test-fio/$file.json --section=read --section=randread crates/c/fio/jobs/$file.fio
        done
        """,
        "--drive", DRIVE, timeout=300,
    )
    for file, threads, depth, count in ("threads-16x32", 16, 32, 1), ("threads-4x4", 4, 4, 2):
        found = json.loads((OUT / f"{file}.json").read_text())
        options = found["global options"]
        assert (options["numjobs"], options["iodepth"]) == (str(threads), str(depth))
        assert len(found["jobs"]) == count
        for job in found["jobs"]:
            moved = job["read"]["total_ios"] + job["write"]["total_ios"]
            assert job["error"] == 0 and moved >= threads, job["jobname"]
