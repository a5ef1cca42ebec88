# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A file system frozen under a schedule of arrivals: how it is frozen, and the expected response times.

As a program it freezes: freeze.py FOLDER waits until straightway says (in FOLDER/err) that it measures and has a file
open whose path ends with /data, then freezes that file's file system. Writes wait at least for FOLDER/held_s, from the
end of the call that freezes to the beginning of the one that thaws, and at most for FOLDER/stall_s, which has both calls
in it: the first writes back dirty data, which takes long on a busy machine, and lets writes pass during this. It gives up
when FOLDER/status exists, because then the measurement has ended.

There are two models. One needs only the length of the stall, the schedule and the time of one write: it holds on an idle machine,
and the figures use it. The other takes each write's own time, including the stall and the load of the machine, and computes the
earliest time at which each arrival can have been served. Later than that is only what the program itself was late for, when a
server was free and an arrival waited: this time is in the samples as well. So it holds on any machine, and the tests use it.
"""

import csv
import fcntl
import heapq
import json
import os
import sys
import time
from pathlib import Path

FIFREEZE, FITHAW = 0xC0045877, 0xC0045878
RATE, SECONDS, FROZEN_S = 500, 6, 1.5
# From the moment at which the file is opened: a second of warm-up, and one that is measured.
DELAY_S = 2
# The paths through a file system, which can be frozen; the last three use a file of the user.
PATHS = ("ext4-direct", "ext4-buffered", "file-direct", "file-buffered", "file-io_uring")
# Minimum number of samples for judging a 99th percentile: ten above it.
FEWEST = 1000
# Maximum lag of the path at the beginning of the freeze, in seconds.
LATE = 0.02


def script(straightway, serial, paths, folder):
    """Bash for a guest with two drives: a control and a freeze for each path, below `folder`.

    Leaves `control/sustain.json`, `sustain.json` and `stall_s` in a folder per path. The second drive is for files."""
    arguments = f"--operation write --rate {RATE}iops --block 4K --deadline 10ms --span 16M"
    lines = [
        "set -u; export PYTHONDONTWRITEBYTECODE=1",
        "mkfs.ext4 -q -F /dev/nvme1n1; mkdir -p /tmp/files; mount /dev/nvme1n1 /tmp/files || exit 9",
        "head -c 16M /dev/urandom >/tmp/files/data; sync",
    ]
    for path in paths:
        device = "/tmp/files/data --destroy-data /tmp/files/data" if path.startswith("file-") else f"/dev/nvme0n1 --destroy-data {serial}"
        run = f"{straightway} sustain {device} {arguments} --path {path}"
        lines.append(f"""
        rm -rf {folder}/{path}; mkdir -p {folder}/{path}
        {run} --duration 1s --warm-up 500ms --output {folder}/{path}/control >/tmp/out 2>&1
        case $? in 0|1|5) ;; *) cat /tmp/out >&2; exit 9;; esac
        rm -rf /tmp/freeze; mkdir /tmp/freeze
        python3 {Path(__file__).resolve()} /tmp/freeze & freezer=$!
        until [ -e /tmp/freeze/ready ]; do kill -0 $freezer || exit 9; sleep 0.05; done
        {run} --duration {SECONDS}s --warm-up 1s --output {folder}/{path} >/tmp/out 2>/tmp/freeze/err
        echo $? >/tmp/freeze/status
        wait $freezer || {{ cat /tmp/freeze/err >&2; echo "{path} was not frozen" >&2; exit 9; }}
        cp /tmp/freeze/* {folder}/{path}/""")
    return "\n".join(lines)


class Frozen:
    """The measurement of one path during the freeze, and the model's prediction."""

    def __init__(self, folder):
        self.run = json.loads((folder / "sustain.json").read_text())
        self.status = int((folder / "status").read_text())
        self.stall_s, self.held_s = (float((folder / name).read_text()) for name in ("stall_s", "held_s"))
        rows = list(csv.DictReader((folder / "samples.csv").open()))
        columns = ("due_ns", "response_ns", "service_ns")
        self.due_s, self.response_s, self.service_s = ([int(row[name]) / 1e9 for row in rows] for name in columns)
        control = json.loads((folder / "control" / "sustain.json").read_text())
        self.write_s = control["service"]["p50_ns"] / 1e9 / (self.run["queue_depth"] or 1)

    def why_not_judged(self):
        """A reason not to judge this run, or None."""
        if self.run["arrivals"] < FEWEST:
            return f"{self.run['arrivals']} arrivals are too few for a 99th percentile"
        if self.write_s * RATE > 0.5:
            return f"a write takes {1e3 * self.write_s:.1f} ms here: too slow for {RATE} per second without a freeze"
        # The backlog of the stall is processed in the time that the schedule leaves.
        if self.busy() > 0.5:
            return f"without the freeze writes took {100 * self.busy():.0f} % of the time: this machine was too busy to judge"
        if self.late_s() > LATE:
            return f"writes began {self.late_s():.2f} s late before the freeze: this machine was too busy to judge"
        return None

    def late_s(self):
        """How late the first write that waited for the thaw began: the model's path keeps up until then."""
        times = zip(self.response_s, self.service_s)
        return next((response - service for response, service in times if service >= FROZEN_S / 2), 0.0)

    def busy(self):
        """The share of the run that writes took, except those that waited for the thaw."""
        written = sum(time for time in self.service_s if time < FROZEN_S / 2)
        return written / (self.run["queue_depth"] or 1) / SECONDS

    def model_p99_s(self):
        """The percentile for the longest and for the shortest time that writes can have waited."""
        return tuple(model_p99_s(RATE, SECONDS, stall_s, self.write_s) for stall_s in (self.stall_s, self.held_s))

    def served_p99_s(self):
        """The percentile by the schedule and the writes' own times, with as many servers as the queue is deep."""
        return percentile(served_times_s(RATE, self.service_s, self.run["queue_depth"] or 1), 0.99)

    def begun_late_s(self):
        """The longest time by which the program itself had delayed an arrival, summed over the writes since the queue was last empty."""
        return max(begun_late_s(self.due_s, self.response_s, self.service_s, self.run["queue_depth"] or 1))

    def error(self):
        """The relative distance of our 99th percentile from the model's range."""
        ours = self.run["response"]["p99_ns"] / 1e9
        most, least = self.model_p99_s()
        return ours / most - 1 if ours > most else min(ours / least - 1, 0.0)


def response_times_s(rate, seconds, stall_begin_s, stall_s, write_s):
    """Arrivals every 1 / rate, served one at a time in order, none of them during the stall."""
    free, times, stall_end_s = 0.0, [], stall_begin_s + stall_s
    for index in range(round(rate * seconds)):
        due = index / rate
        start = max(due, free)
        if stall_begin_s <= start < stall_end_s:
            start = stall_end_s
        free = start + write_s
        times.append(free - due)
    return times


def served_times_s(rate, service_s, servers):
    """Arrivals every 1 / rate that take these times, in order, each as soon as one of the servers is free."""
    free, times = [0.0] * servers, []
    for index, service in enumerate(service_s):
        due = index / rate
        end = max(due, heapq.heappop(free)) + service
        heapq.heappush(free, end)
        times.append(end - due)
    return times


def begun_late_s(due_s, response_s, service_s, servers):
    """How long writes had begun later than an arrival and a free server allowed, summed while arrivals wait; an error if a write began
    before."""
    free, late_s, late = [0.0] * servers, 0.0, []
    for due, response, service in zip(due_s, response_s, service_s):
        possible = max(due, heapq.heappop(free))
        begun = due + response - service
        if begun < possible - 1e-6:
            raise ValueError(f"the write of {due} s began at {begun} s, but no server was free before {possible} s")
        late_s = begun - possible + (late_s if possible > due else 0.0)
        late.append(late_s)
        heapq.heappush(free, due + response)
    return late


def percentile(times, share):
    """By rank: the smallest value that at least this share does not exceed."""
    rank = min(len(times), max(1, int(-(-len(times) * share // 1))))
    return sorted(times)[rank - 1]


def model_p99_s(rate, seconds, stall_s, write_s):
    """The position of the stall in the run does not matter, as long as it ends within the run."""
    return percentile(response_times_s(rate, seconds, seconds / 4, stall_s, write_s), 0.99)


def opened(process_name, end):
    """The path of an open file of a process of this name, or None."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == process_name:
                for link in (process / "fd").iterdir():
                    if (target := os.readlink(link)).endswith(end):
                        return target
        except OSError:
            continue  # It ended, or closed the file, during the search.
    return None


def is_measuring(folder):
    try:
        return "blocks per second" in (folder / "err").read_text()
    except OSError:
        return False  # It has not begun to speak.


def freeze(folder):
    (folder / "ready").touch()
    found = None
    while not found:
        if (folder / "status").exists():
            sys.exit("the measurement ended before its file was seen open")
        found = opened("straightway", "/data") if is_measuring(folder) else None
        # A search goes through all processes, and takes processor time from the measurement.
        time.sleep(0.1)
    time.sleep(DELAY_S)
    handle = os.open(os.path.dirname(found), os.O_RDONLY)
    begin = time.monotonic()
    fcntl.ioctl(handle, FIFREEZE, 0)
    frozen = time.monotonic()
    try:
        time.sleep(FROZEN_S)
        held_s = time.monotonic() - frozen
    finally:
        fcntl.ioctl(handle, FITHAW, 0)
    (folder / "held_s").write_text(f"{held_s}\n")
    (folder / "stall_s").write_text(f"{time.monotonic() - begin}\n")


if __name__ == "__main__":
    freeze(Path(sys.argv[1]))
