# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The power fails while files are written, by a recording and through a folder: QEMU is killed, and what its drive had in a volatile write
cache is lost, kept or torn. Everything that was acknowledged must be there.

Own guests: they die. One boot serves several moments: the drive's log of writes and flushes is cut at the real kill and at
seeded moments before it, and each cut is an image of its own, mounted on the host.
"""

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from array import array
from pathlib import Path

import pytest

from scripted import ONE_CPU, ROOT, lab_run
from volatile_drive import Drive, Durable

SIZE = 96 << 20
MOMENTS = 10
# Writes through a folder, and prints what is durable.
WRITER = "tests/mount_writer.py"
# The power fails at the latest here, long before the recording ends by itself.
MOST_BYTES = 48 << 20
# The status of a recording that lost blocks.
LATE = 7
COMMAND = os.environ.get("STRAIGHTWAY_COMMAND", str(ROOT / "target/release/straightway"))
# On a busy machine the drive does not keep up: then blocks are dropped and recorded as such, and the recording goes on.
RECORD = {"from": "pattern", "rate": "6M", "size": "84M", "policy": "drop", "block": "32K", "buffers": "128",
          "commit-bytes": "256K", "commit-ms": "40",
          # QEMU 7.2's drive accepts the flag of force unit access and does not pass it on to what holds its data, so a write with
          # it is still in the cache when it is answered.
          "no-fua": ""}


def straightway(*words, stdin=None):
    done = subprocess.run([COMMAND, *map(str, words)], input=stdin, stdin=None if stdin else subprocess.DEVNULL,
                          capture_output=True, timeout=60)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def good(*words, **options):
    status, output, errors = straightway(*words, **options)
    assert status == 0, f"{words} ended with {status}: {errors[-2000:]}{output[-2000:]}"
    return output


def qemu_of(lab):
    """The QEMU that a lab/run started, once it exists."""
    children = Path(f"/proc/{lab.pid}/task/{lab.pid}/children")
    while lab.poll() is None:
        for child in children.read_text().split():
            if Path(f"/proc/{child}/comm").read_text().startswith("qemu-system"):
                return int(child)
        time.sleep(0.02)
    raise AssertionError(f"the lab ended: {lab.stderr.read()}")


def record_until_killed(drive, options, kill_after, delay):
    """Records in a guest until `kill_after` acknowledgements or MOST_BYTES, then kills QEMU. Returns
    each acknowledged offset with the position in the drive's log at which it was known."""
    words = " ".join(f"--{name} {value}".strip() for name, value in (RECORD | options).items())
    script = f'exec "$S" record /dev/nvme0n1 take --acknowledge {words}'
    # On a machine that is busy enough so much is lost that the recording is over first: the moments of the cuts are the log's.
    lines = run_until_killed(drive, script, kill_after, delay, lambda line: int(line.split()[1]) >= MOST_BYTES, may_end=LATE)
    assert all(line.startswith("durable ") for _, line in lines), lines
    return [(place, int(line.split()[1])) for place, line in lines]


def run_until_killed(drive, script, kill_after, delay, is_last=lambda line: False, may_end=None):
    """Runs a script in a guest until it has printed `kill_after` lines or the last one, then kills QEMU; it may have ended with
    the status `may_end` before. Returns each line with the position in the drive's log at which it was known."""
    command = lab_run(script, *ONE_CPU, "--drive", f"nbd={drive.socket_path},serial=LAB1")
    lab = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, errors="replace")
    acknowledged, is_killed = [], False
    try:
        for line in lab.stdout:
            with drive.lock:
                acknowledged.append((len(drive.log), line))
            if len(acknowledged) == kill_after or is_last(line):
                is_killed = True
                # Anywhere between two acknowledgements.
                time.sleep(delay)
                os.kill(qemu_of(lab), signal.SIGKILL)
                break
        lab.stdout.read()
        errors = lab.stderr.read()
        status = lab.wait(timeout=30)
    finally:
        lab.kill()
    if not is_killed:
        assert acknowledged and status == may_end, f"the script ended by itself with {status}: {errors[-3000:]}"
        return acknowledged
    assert status == 125, f"lab/run ended with {status}: {errors[-2000:]}"
    return acknowledged


def check_pattern(data, gaps, source=0):
    """Each eight bytes are their own offset in the source, which begins at `source`. Where the companion file names a gap, and
    nowhere else, bytes of the source are missing. Returns where in the source it ends."""
    at, lost = 0, source
    for offset, lost_bytes in [*gaps, (len(data), 0)]:
        end = min(offset, len(data))
        expected = array("Q", range(at + lost, end + lost, 8)).tobytes()
        assert data[at:end] == expected[:end - at], f"bytes {at} to {end} are not the pattern's, {lost} bytes are lost"
        at, lost = end, lost + lost_bytes
    return at + lost


def gaps_of(device, name, copy):
    good("--quiet", "play", device, f"{name}.gaps", "--to", copy, "--force")
    return [tuple(map(int, line.split()))[:2] for line in copy.read_text().splitlines()]


def check_ring(device, copy, acknowledged):
    """The segments of a ring follow one another without a hole that no companion names; returns what is there of them."""
    listed = json.loads(good("--quiet", "ls", device, "--json"))["files"]
    files = {file["name"]: file["size_bytes"] for file in listed if file["name"].startswith("take.")}
    names = sorted(name for name in files if not name.endswith(".gaps") and files[name])
    source = end = None
    for name in names:
        good("--quiet", "play", device, name, "--to", copy, "--force")
        data = copy.read_bytes()
        begin = int.from_bytes(data[:8], "little")
        gaps = gaps_of(device, name, copy) if f"{name}.gaps" in files else []
        # Lost before its first byte: named at offset 0.
        begin -= sum(lost for offset, lost in gaps if offset == 0)
        assert end in (None, begin), f"{name} begins at {begin} of the source, the one before it ends at {end}"
        source = begin if source is None else source
        end = check_pattern(data, gaps, begin)
    # The last one is written to, and the one before it may be as well: those are as long as a busy drive makes them. If it makes none
    # longer than was asked, the ring has its limit and the file that is written.
    lengths = [files[name] for name in names]
    too_long = f"the ring is longer than it may be: {lengths}"
    assert sum(lengths[:-2]) <= 6 << 20, too_long
    assert sum(lengths) <= 7 << 20 or max(lengths) > 1 << 20, too_long
    assert (end or 0) >= acknowledged, f"{acknowledged} bytes were acknowledged, and the ring ends at {end}"
    return (end or 0) - (source or 0)


def check_image(image, path, acknowledged, has_checksums, is_ring=False):
    """The state after a power cut: mounts, plays, changes, checks."""
    path.write_bytes(image)
    device = f"file:{path}"
    copy = path.with_name("copy")
    if is_ring:
        size = check_ring(device, copy, acknowledged)
        check_changes(device)
        return size
    status, output, errors = straightway("--quiet", "play", device, "take", "--to", copy, "--force", "--json")
    if status != 0:
        assert "no file has this name" in errors and acknowledged == 0, errors
        size = 0
    else:
        played = json.loads(output)
        size = played["length_bytes"]
        assert size >= acknowledged, f"{acknowledged} bytes were acknowledged and {size} are there"
        assert not has_checksums or played["verified_bytes"] == size
        data, gaps = copy.read_bytes(), []
        if played["has_gaps"]:
            gaps = gaps_of(device, "take", copy)
        check_pattern(data, gaps)
    files = check_changes(device)
    assert files.get("take", 0) == size, files
    return size


def check_changes(device):
    """The next change completes or undoes the interrupted operation. Returns the files."""
    good("--quiet", "put", device, "-", "after", stdin=b"the power is back")
    checked = json.loads(good("--quiet", "check", device, "--json"))
    assert checked["sound"] and not checked["findings"], checked
    files = {file["name"]: file["size_bytes"] for file in json.loads(good("--quiet", "ls", device, "--json"))["files"]}
    assert files["after"] == 17, files
    return files


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"path": "vfio"}, id="vfio"),
        pytest.param({"path": "io_uring"}, id="io_uring"),
        pytest.param({"path": "vfio", "checksums": "", "segment": "1M", "keep": "6M"}, id="vfio-checksums-ring"),
        pytest.param({"path": "sync", "block": "128K"}, id="sync"),
        pytest.param({"path": "vfio", "mode": "interrupt", "block": "4K", "rate": "1M", "commit-bytes": "64K"},
                     id="vfio-4k-blocks"),
    ],
)
def test_nothing_acknowledged_is_lost_when_the_power_goes(options):
    seed = int(os.environ.get("STRAIGHTWAY_SEED", random.SystemRandom().getrandbits(32)))
    print(f"STRAIGHTWAY_SEED={seed}")
    choice = random.Random(f"{seed} {options}")
    # A short path: a socket's name has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:
        image = Path(folder) / "image"
        has_checksums = "checksums" in options
        extra = ["--checksums"] if has_checksums else []
        good("--quiet", "format", f"file:{image}", "--size", SIZE, *extra)
        drive = Drive(SIZE, Path(folder) / "nbd")
        drive.image[:] = image.read_bytes()
        formatted = bytes(drive.image)
        try:
            # A ring turns before it is cut.
            count = choice.randint(8, 30) * (3 if "keep" in options else 1)
            acknowledged = record_until_killed(drive, options, count, choice.uniform(0, 0.1))
        finally:
            drive.close()
        log = list(drive.log)
        flushes = sum(entry.data is None for entry in log)
        assert flushes > len(acknowledged), "the guest's flushes do not reach the drive"
        moments = sorted([*choice.sample(range(1, len(log)), MOMENTS - 1), len(log)])
        durable = Durable(formatted, log)
        told = []
        for moment in moments:
            durable.go_to(moment)
            known = max((offset for place, offset in acknowledged if place <= moment), default=0)
            size = check_image(durable.image(choice), image, known, has_checksums, "keep" in options)
            told.append(f"{moment}: {known} acknowledged, {size} there, {len(durable.pending)} writes in the cache")
        print("\n".join(told), f"{len(log)} writes and flushes, {drive.fua_writes} with FUA", sep="\n")


def test_a_drive_that_ignores_flushes_is_found_out():
    """The test above can fail: without flushes, acknowledged bytes are lost."""
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:
        image = Path(folder) / "image"
        good("--quiet", "format", f"file:{image}", "--size", SIZE)
        drive = Drive(SIZE, Path(folder) / "nbd")
        drive.image[:] = image.read_bytes()
        formatted = bytes(drive.image)
        try:
            acknowledged = record_until_killed(drive, {"path": "vfio"}, 12, 0.05)
        finally:
            drive.close()
        log = [entry for entry in drive.log if entry.data is not None and not entry.is_durable]
        durable = Durable(formatted, log)
        durable.go_to(len(log))
        with pytest.raises(AssertionError):
            for seed in range(8):
                check_image(durable.image(random.Random(seed)), image, acknowledged[-1][1], False)


def check_folder(device, folder, known):
    """Each file that the writer in the folder acknowledged is there, with at least what was acknowledged."""
    check_changes(device)
    folder.mkdir()
    good("--quiet", "get", device, "--all", folder)
    for name, least in known.items():
        if name == "save":
            continue
        data = (folder / name).read_bytes()
        assert len(data) >= least, f"{name}: {least} bytes were acknowledged, {len(data)} are there"
        check_pattern(data[: len(data) // 8 * 8], [])
    # It is replaced by a rename, which is a removal and a rename of the volume: between the two the new one has its first name.
    saved = [folder / "save", folder / "save.new"]
    versions = [path.read_text().split() for path in saved if path.exists()]
    whole = [int(words[0]) for words in versions if words and words == [words[0]] * 5000]
    assert max(whole, default=-1) >= known.get("save", -1), (known, [words[:1] for words in versions])


@pytest.mark.parametrize("path", ["vfio", "io_uring"])
def test_what_programs_made_durable_in_a_folder_is_there_when_the_power_goes(path):
    seed = int(os.environ.get("STRAIGHTWAY_SEED", random.SystemRandom().getrandbits(32)))
    print(f"STRAIGHTWAY_SEED={seed}")
    choice = random.Random(f"{seed} {path}")
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:
        image = Path(folder) / "image"
        good("--quiet", "format", f"file:{image}", "--size", SIZE, "--checksums")
        drive = Drive(SIZE, Path(folder) / "nbd")
        drive.image[:] = image.read_bytes()
        formatted = bytes(drive.image)
        script = f"""
            modprobe fuse; mkdir /tmp/at
            "$S" mount /dev/nvme0n1 /tmp/at --write --no-fua --path {path} 2>/tmp/said &
            for i in $(seq 300); do grep -q ' at /tmp/at' /tmp/said && break; sleep 0.1; done
            exec python3 {WRITER} /tmp/at
        """
        try:
            lines = run_until_killed(drive, script, choice.randint(40, 120), choice.uniform(0, 0.1))
        finally:
            drive.close()
        log = list(drive.log)
        durable = Durable(formatted, log)
        told = []
        for number, moment in enumerate(sorted([*choice.sample(range(1, len(log)), MOMENTS - 1), len(log)])):
            durable.go_to(moment)
            known = {}
            for place, line in lines:
                name, size = line.split()
                if place <= moment:
                    known[name] = max(int(size), known.get(name, 0))
            image.write_bytes(durable.image(choice))
            check_folder(f"file:{image}", Path(folder) / f"files-{number}", known)
            told.append(f"{moment}: {known} acknowledged, {len(durable.pending)} writes in the cache")
        print("\n".join(told), f"{len(log)} writes and flushes", sep="\n")
