# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Access for everyone: what a read costs by each way, and many small files.

Files: 10,000 of 4 KiB into a volume and back, beside `cp -r` to ext4. Both are timed in one guest, round after round, each on a drive of its own and on a new file system or volume; the copies to ext4
include a sync of that file system, and everything is read without a page cache. `_s` are medians, the ratios those of the rounds.
"""

import json
import statistics
import subprocess

from .access_ways import ways
from .chario import lab
from .support import ROOT

FILES = 10_000
ROUNDS = 3
DRIVES = ("--drive", "size=512M,serial=LAB1", "--drive", "size=512M,serial=LAB2", "--memory", "2G")
SCRIPT = r"""
import json, os, subprocess, time
from pathlib import Path

def timed(*words):
    began = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began

def uncached():
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")

S, VOLUME, DISK = "target/release/straightway", "/dev/nvme0n1", "/dev/nvme1n1"
data = os.urandom(4096 * 64)
source = Path("/dev/shm/source")
source.mkdir()
for number in range(FILES):
    at = number % 63 * 4096
    (source / f"{number:05}").write_bytes(data[at:at + 4096])
Path("/tmp/ext4").mkdir()
for turn in range(ROUNDS):
    timed("mkfs.ext4", "-q", "-F", "-N", "20000", DISK)
    timed("mount", DISK, "/tmp/ext4")
    timed(S, "format", VOLUME, "--destroy-data", "LAB1", "--slots", "16384")
    uncached()
    row = {"put": timed(S, "put", VOLUME, str(source)),
           "cp_in": timed("sh", "-c", f"cp -r {source} /tmp/ext4 && sync -f /tmp/ext4/source")}
    uncached()
    row["get"] = timed(S, "get", VOLUME, "--all", "/dev/shm/got")
    row["cp_out"] = timed("cp", "-r", "/tmp/ext4/source", "/dev/shm/copied")
    subprocess.run(["diff", "-r", source, "/dev/shm/got/source"], check=True)
    timed("rm", "-r", "/dev/shm/got", "/dev/shm/copied")
    timed("umount", "/tmp/ext4")
    print(json.dumps(row))
"""


def access(figures):
    ways(figures)
    files(figures)


def files(figures):
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "-p", "straightway-cli"], cwd=ROOT, check=True)
    script = f"FILES, ROUNDS = {FILES}, {ROUNDS}\n{SCRIPT}"
    printed = lab(f"python3 - <<'END'\n{script}\nEND", *DRIVES)
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for name in rows[0]:
        figures.add(f"access.{FILES}_files_{name}_s", round(statistics.median(row[name] for row in rows), 2), "s")
    for ours, theirs in (("put", "cp_in"), ("get", "cp_out")):
        ratio = statistics.median(row[ours] / row[theirs] for row in rows)
        figures.add(f"access.{FILES}_files_{ours}_over_cp", round(ratio, 2), "times", "<= 2")
