# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`status --openmetrics` and `--textfile` of a running recording, in the parsers of prometheus-client, promtool and the node exporter,
and against the recording's own report; the alerts and the dashboard for them."""

# partner: prometheus-client, Prometheus | reader

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as families_of_text

from scripted import ROOT
from test_power import COMMAND, good

ALERTS = ROOT / "packaging/prometheus/alerts.yml"
BOARD = ROOT / "packaging/grafana/straightway.json"

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


def program(name):
    """One of Prometheus' programs, unpacked by tools/setup or installed."""
    unpacked = ROOT / "build/prometheus/usr/bin" / name
    found = str(unpacked) if unpacked.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; tools/setup prometheus unpacks it")
    return found


def promtool(*words, stdin=None):
    done = subprocess.run([program("promtool"), *map(str, words)], input=stdin, capture_output=True, text=True, check=False, cwd=ALERTS.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_the_rules_and_they_alert():
    promtool("check", "rules", ALERTS)
    promtool("test", "rules", "alerts.test.yml")


def test_each_metric_of_the_alerts_and_the_dashboard_is_printed(recording):
    device, _ = recording
    families = {}
    while len(families) < 2:
        families, _ = asked(device)
    printed = {sample.name for family in families.values() for sample in family.samples}
    labels = {label for family in families.values() for sample in family.samples for label in sample.labels}
    assert labels == {"device", "recording"}
    panels = json.loads(BOARD.read_text("utf-8"))["panels"]
    asks = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len({panel["id"] for panel in panels}) == len(panels) and all(target for target in asks)
    for text in (ALERTS.read_text("utf-8"), *asks):
        named = set(re.findall(r"straightway_recording_\w+", text))
        assert named and named <= printed, named - printed
    # None is forgotten: what tells of a loss is on the dashboard and has an alert.
    for text in (ALERTS.read_text("utf-8"), "".join(asks)):
        for loss in ("lost_bytes", "dropped_datagrams", "cut_datagrams", "missed_deadlines"):
            assert f"straightway_recording_{loss}_total" in text


def writer(device, file):
    words = [COMMAND, "status", device, "--textfile", str(file), "--every", "10ms"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(file, process):
    while not file.exists():
        assert process.poll() is None
        time.sleep(0.01)


def test_a_textfile_is_whole_for_the_node_exporter_whenever_its_writer_is_killed(recording, tmp_path):
    device, _ = recording
    while len(asked(device)[0]) < 2:
        pass
    folder = tmp_path / "metrics"
    folder.mkdir()
    file = folder / "straightway.prom"
    process = writer(device, file)
    wait_for(file, process)
    text = file.read_text("utf-8")
    promtool("check", "metrics", stdin=text)
    wanted = {sample.name for family in families_of_text(text) for sample in family.samples}
    assert "straightway_recording_lost_bytes_total" in wanted
    types = {family.name: family.type for family in families_of_text(text)}
    assert set(types.values()) == {"counter", "gauge"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    exporter = subprocess.Popen([program("prometheus-node-exporter"), "--collector.disable-defaults", "--collector.textfile",
                                 f"--collector.textfile.directory={folder}", f"--web.listen-address={address}"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip

    def scraped():
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            return answer.read().decode()

    try:
        while True:
            try:
                scraped()
                break
            except OSError:
                assert exporter.poll() is None
                time.sleep(0.05)
        seed = int(os.environ.get("STRAIGHTWAY_SEED", random.randrange(1 << 32)))
        budget = os.environ.get("STRAIGHTWAY_BUDGET", "5")
        print(f"STRAIGHTWAY_SEED={seed}")
        dice = random.Random(seed)
        for _ in range(int(budget) if budget.isdigit() else 50):
            time.sleep(dice.random() / 20)
            process.kill()
            process.wait()
            families = list(families_of_text(scraped()))
            found = {sample.name: sample.value for family in families for sample in family.samples}
            assert wanted <= set(found), wanted - set(found)
            assert found["node_textfile_scrape_error"] == 0
            assert any(name.startswith("node_textfile_mtime") for name in found)
            process = writer(device, file)
    finally:
        process.kill()
        process.wait()
        exporter.kill()
        exporter.wait()
