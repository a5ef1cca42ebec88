# SPDX-License-Identifier: Apache-2.0 OR MIT
"""GStreamer's element over libstraightway: what a pipeline sends is in the recording, and errors end the pipeline with a reason."""

# partner: GStreamer | program

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scripted import ROOT
from test_power import good, straightway

PLUGIN = ROOT / "target" / "release" / "libgststraightway.so"


@pytest.fixture(autouse=True, scope="module")
def plugin():
    if not shutil.which("gst-launch-1.0"):
        pytest.skip("gst-launch-1.0 is not installed; hint: tools/setup gstreamer")
    done = subprocess.run([ROOT / "crates" / "c" / "gstreamer" / "build", PLUGIN], capture_output=True, text=True)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def launch(folder, *words):
    environment = os.environ | {"GST_PLUGIN_PATH": str(PLUGIN.parent), "GST_REGISTRY": str(folder / "registry")}
    return subprocess.Popen(["gst-launch-1.0", "-m", *map(str, words)], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)  # fmt: skip


def test_a_pipeline_is_recorded(tmp_path):
    image, source = tmp_path / "disk.img", tmp_path / "source"
    good("--quiet", "format", image, "--size", "64M", "--checksums")
    source.write_bytes(os.urandom(20_000_003))
    sink = ["!", "straightwaysink", f"device={image}", "recording=take"]
    pipeline = launch(tmp_path, "filesrc", f"location={source}", *sink)
    said, _ = pipeline.communicate(timeout=60)
    # The message is there before that of the stream's end.
    assert "durable-bytes=(guint64)20000003" in said.partition("(eos)")[0], said
    assert pipeline.returncode == 0, said
    good("--quiet", "get", image, "take", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    refused = {
        "a file has this name already": sink,
        "device and recording are required": sink[:3],
        "there is no file": ["!", "straightwaysink", f"device={tmp_path}/none", "recording=a"],
    }
    for why, more in refused.items():
        pipeline = launch(tmp_path, "filesrc", f"location={source}", *more)
        said, _ = pipeline.communicate(timeout=60)
        assert pipeline.returncode != 0 and why in said, said


def has_open(process, path):
    for descriptor in Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == path:
                return True
    return False


def test_a_stream_that_is_stopped_is_durable(tmp_path):
    image = tmp_path / "disk.img"
    good("--quiet", "format", image, "--size", "64M")
    live = ["fakesrc", "sizetype=fixed", "sizemax=4096", "filltype=pattern", "is-live=true", "sync=true", "datarate=1000000"]
    pipeline = launch(tmp_path, *live, "!", "straightwaysink", f"device={image}", "recording=live", "drop=true", "block-size=4096")
    # Whoever opened the image before the pipeline would be in its way.
    while not has_open(pipeline.pid, image):
        assert pipeline.poll() is None, pipeline.stdout.read()
        time.sleep(0.05)
    # Refused until the recording answers.
    while "live" not in straightway("--quiet", "ls", image)[1]:
        assert pipeline.poll() is None, pipeline.stdout.read()
        time.sleep(0.05)
    time.sleep(0.5)
    # Without the end of the stream.
    pipeline.send_signal(signal.SIGINT)
    said, _ = pipeline.communicate(timeout=60)
    assert "handling interrupt" in said, said
    good("--quiet", "get", image, "live", tmp_path / "back")
    assert (tmp_path / "back").stat().st_size >= 4096
    checked = json.loads(good("--quiet", "check", image, "--json"))
    assert checked["sound"] and not checked["findings"], checked
