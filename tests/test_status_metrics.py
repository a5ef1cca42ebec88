# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`status --openmetrics` of a running recording, in the parser of prometheus-client, and against the recording's own report."""

# partner: prometheus-client | reader

import json
import os
import signal
import subprocess

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from test_power import COMMAND, good

UNITS = {"bytes", "seconds", ""}


@pytest.fixture
def recording(tmp_path):
    """A recording that loses blocks, as its drive is slow."""
    device = f"model:128MiB,file={tmp_path}/disk,latency=20ms"
    good("--quiet", "format", device)
    words = ["record", device, 'cam "1"', "--from", "pattern", "--rate", "40M", "--buffers", "2", "--block", "64K"]
    child = subprocess.Popen([COMMAND, *words, "--policy", "drop", "--deadline", "1ms", "--json"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
    yield device, child
    if child.poll() is None:
        child.kill()
        child.wait()


def asked(device):
    """The metrics: the families by name, each with one sample, and the exit status."""
    done = subprocess.run([COMMAND, "status", device, "--openmetrics"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    families = {family.name: family for family in text_string_to_metric_families(done.stdout.decode())}
    return families, done.returncode


def values(families):
    found = {}
    for name, family in families.items():
        (sample,) = family.samples
        assert family.type in ("counter", "gauge") and family.documentation, name
        assert family.unit in UNITS, name
        assert sample.name == name + ("_total" if family.type == "counter" else ""), name
        found[name.removeprefix("straightway_recording_")] = sample.value
    return found


def test_metrics_are_those_of_the_report(recording):
    device, child = recording
    before = {}
    while before.get("lost_blocks", 0) == 0 or before["missed_deadlines"] == 0:
        families, status = asked(device)
        assert set(families) == {"straightway_recording_up"} or status == 0, status
        now = values(families)
        for name, value in before.items():
            if families["straightway_recording_" + name].type == "counter":
                assert now[name] >= value, name
        before = now if status == 0 else {}
    labels = families["straightway_recording_lost_blocks"].samples[0].labels
    assert labels == {"device": device, "recording": 'cam "1"'}
    assert before["up"] == 1
    os.kill(child.pid, signal.SIGINT)
    report = json.loads(child.communicate()[0])
    assert child.returncode == 7
    assert before["lost_bytes"] > 0 and before["gaps"] > 0 and before["blocks"] > 0
    for metric, key in (("lost_blocks", "lost_blocks"), ("lost_bytes", "lost_bytes"), ("gaps", "gaps"), ("blocks", "blocks"),
                        ("missed_deadlines", "misses"), ("commits", "commits")):
        assert before[metric] <= report[key], metric
    # Nothing records now.
    families, status = asked(device)
    assert status == 1 and values(families) == {"up": 0}
