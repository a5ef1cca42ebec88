# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Recorders beside each other: how fast each takes a stream, and what waits for it at a fixed rate.

One guest with a drive for the volume, one for the ext4 of the others and one for other programs, round after round, first with nothing
beside them and then with little memory left and others that write and read through the page cache. The drives answer from the
host's memory. Medians of the rounds; the ratios are those of each round.
"""

import json
import statistics
import subprocess

from .chario import lab
from .support import ROOT

ROUNDS = 3
OPTIONS = ["--memory", "1G", *(f"--drive=size=1G,serial=LAB{number},cache=unsafe" for number in (1, 2, 3))]
CONDITIONS = ("calm", "pressure")
MEASURED = {
    "paced": ("waiting_bytes", "waiting_mb", 1e6, "MB"),
    "fastest": ("bytes_per_s", "mb_per_s", 1e6, "MB/s"),
    "messages": ("waiting_bytes", "messages_waiting_mb", 1e6, "MB"),
    "packets": ("lost_packets", "packets_lost", 1, "packets"),
}


def recorders(figures):
    run = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "straightway-cli"]
    subprocess.run(run, cwd=ROOT, check=True)
    command = f"PYTHONDONTWRITEBYTECODE=1 build/venv/bin/python tools/figure_areas/recorders_guest.py {ROUNDS}"
    rows = [json.loads(line) for line in lab(command, *OPTIONS, timeout=3000).splitlines() if line.startswith("{")]
    values = {}
    for row in rows:
        field, *_ = MEASURED[row["kind"]]
        values.setdefault((row["condition"], row["kind"], row["name"]), []).append(row[field])
    for (condition, kind, name), found in values.items():
        _, label, unit_is, unit = MEASURED[kind]
        value = round(statistics.median(found) / unit_is, 2)
        figures.add(f"recorders.{condition}_{name}_{label}", value, unit, "<= 0" if (kind, name) == ("packets", "straightway") else None)
    for condition in CONDITIONS:
        for kind, label, target in (("fastest", "rate", ">= 1"), ("paced", "waiting", "<= 1")):
            pairs = zip(values[condition, kind, "straightway"], values[condition, kind, "cat"], strict=True)
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            figures.add(f"recorders.{condition}_{label}_over_cat", round(ratio, 2), "times", target)
