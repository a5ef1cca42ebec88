# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The finished segments of a running ring, as `get --follow` puts them into a folder, taken from there by rsync, rclone and restic:
what they have is what was recorded, whoever is killed in between."""

# partner: rsync, rclone, restic | reader

import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from test_power import COMMAND, good

BLOCK = 64 << 10
STARTED = []
SEGMENTS = 20


@pytest.fixture(autouse=True)
def no_process_is_left():
    """A follower that a test leaves would take the files of a later test whose folder has the same name."""
    yield
    while STARTED:
        process = STARTED.pop()
        process.kill()
        process.wait()


class Recorder:
    """A ring whose source waits until what it sent is durable."""

    def __init__(self, device):
        words = ["record", device, "cam", "--block", "64K", "--commit-bytes", "64K", "--segment", "512K", "--keep", "8M",
                 "--deadline", "60min", "--acknowledge"]
        while True:
            self.child = subprocess.Popen([COMMAND, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            STARTED.append(self.child)
            # It says its path when it has the volume, which a follower may have for a moment.
            said = self.child.stderr.readline()
            if said.startswith(b"straightway: path"):
                break
            said += self.child.communicate()[1]
            assert b"in use" in said, said
        self.sent = 0

    def write(self, data):
        self.child.stdin.write(data)
        self.child.stdin.flush()
        self.sent += len(data)
        wanted = b"durable %d\n" % self.sent
        for line in self.child.stdout:
            if line == wanted:
                return
        raise AssertionError(f"it ended before {wanted}")

    def kill(self):
        self.child.kill()
        self.child.communicate()

    def end(self):
        self.child.communicate()
        assert self.child.returncode == 0


class Follower:
    def __init__(self, device, folder, state):
        words = ["get", device, "cam.*", str(folder), "--follow", "--state", str(state)]
        self.child = subprocess.Popen([COMMAND, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        STARTED.append(self.child)

    def end(self, how):
        self.child.send_signal(how)
        said = self.child.communicate()[1]
        assert "warning" not in said, said
        assert self.child.returncode in (0, -signal.SIGKILL), said


def did(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


def rsync(folder, to, _):
    did("rsync", "-a", "--remove-source-files", "--exclude", ".*", f"{folder}/", to)


def rclone(folder, to, scratch):
    did("rclone", "--config", scratch / "rclone.conf", "move", folder, to, "--exclude", ".*")


def restic(folder, to, scratch):
    """Stays out of the folder: it keeps all of it each time, and gives it back at the end."""
    repository, password = scratch / "repository", {"RESTIC_PASSWORD": "x", "RESTIC_CACHE_DIR": str(scratch / "cache")}
    environment = os.environ | password
    if not repository.exists():
        did("restic", "-r", repository, "init", env=environment)
    did("restic", "-r", repository, "backup", ".", "--exclude", ".cam.*", cwd=folder, env=environment)
    shutil.rmtree(to)
    did("restic", "-r", repository, "restore", "latest", "--target", to, env=environment)


@pytest.mark.parametrize("taker", [rsync, rclone, restic], ids=lambda taker: taker.__name__)
def test_a_taker_has_what_was_recorded(taker, tmp_path):
    if shutil.which(taker.__name__) is None:
        pytest.skip(f"{taker.__name__} is not installed; tools/setup lab installs it")
    seed = int(os.environ.get("STRAIGHTWAY_SEED", random.randrange(1 << 32)))
    print(f"STRAIGHTWAY_SEED={seed}")
    dice = random.Random(seed)
    device, folder, to, state = str(tmp_path / "disk"), tmp_path / "folder", tmp_path / "to", tmp_path / "state"
    good("--quiet", "format", device, "--size", "32M", "--checksums")
    folder.mkdir()
    to.mkdir()
    sent = bytearray()

    def taken():
        names = {path.name for place in (folder, to) for path in place.iterdir() if not path.name.startswith(".")}
        return sum(name.startswith("cam.") for name in names)

    def whole(place):
        return b"".join(path.read_bytes() for path in sorted(place.iterdir()))

    recorder, follower = Recorder(device), Follower(device, folder, state)
    # Not behind the last one: a recorder to which nothing comes ends with 1.
    kills = dice.sample(range(SEGMENTS - 1), 4)
    for number in range(SEGMENTS):
        for _ in range(8):
            data = dice.randbytes(BLOCK)
            recorder.write(data)
            sent += data
        if number in kills:
            if dice.random() < 0.5:
                follower.end(signal.SIGKILL)
                follower = Follower(device, folder, state)
            else:
                recorder.kill()
                recorder = Recorder(device)
        # The ring has sixteen: the follower is never so far behind.
        while taken() < number - 4:
            time.sleep(0.01)
        if number % 5 == 4:
            taker(folder, to, tmp_path)
    recorder.end()
    while len(whole(to)) < len(sent):
        taker(folder, to, tmp_path)
    follower.end(signal.SIGTERM)
    assert whole(to) == sent
    if taker is not restic:
        assert [path for path in folder.iterdir() if not path.name.startswith(".")] == []
