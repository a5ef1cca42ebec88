# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Storage as memory: rates and latencies of a map of a file, by the side of the kernel's own paths to the same file.

All of a round follows each other in one boot, and a figure is the median of the rounds' ratios, so that what the machine is busy
with concerns both sides.
"""

import json
import os
import re
import statistics

from .support import ROOT, build_example, run

ROUNDS = 7
FILE_BYTES = 128 << 20
UMAP = (
    "umap, published, not measured here: 60 us for a random fault of 4 KiB, where mmap with MADV_RANDOM took 45 us and pread with "
    "O_DIRECT 41 us; in order 50 to 553 MiB/s by its page size, where fio read 881 MiB/s"
)


def rates(figures):
    """Sequential loads against fio, random ones by four threads against pread, and a load's latency while others store."""
    program = build_example("straightway-figures", "map_rates")
    file = ROOT / "out" / "map-rates.img"
    file.parent.mkdir(parents=True, exist_ok=True)
    rounds = []
    try:
        with file.open("wb") as target:
            for _ in range(FILE_BYTES >> 20):
                target.write(bytes(range(256)) * 4096)
        for _ in range(ROUNDS):
            row = {"fio": fio(file)}
            for way in ("sequential", "random-local", "random", "random-pread", "latency-mmap", "latency"):
                uncached(file)
                said = run([program, way, file])
                row[way] = {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.]+)$", said, re.M)}
            rounds.append(row)
    finally:
        file.unlink(missing_ok=True)
    median = lambda of: statistics.median(of(row) for row in rounds)  # noqa: E731
    percent = lambda of: round(100 * median(of))  # noqa: E731
    figures.add("map.sequential_percent_of_fio_qd8", percent(lambda row: row["sequential"]["mib_per_s"] / row["fio"]), "%", ">= 90")
    loads = lambda way: lambda row: row[way]["loads_per_s"] / row["random-pread"]["loads_per_s"]  # noqa: E731
    figures.add("map.random_4_threads_percent_of_pread", percent(loads("random-local")), "%", ">= 85")
    figures.add("map.random_4_threads_2_servers_percent_of_pread", percent(loads("random")), "%")
    for way in ("random-local", "random", "random-pread"):
        switches = median(lambda row: row[way]["switches"])
        figures.add(f"map.{way.replace('-', '_')}_switches_per_load", round(switches, 2), "switches")
    most = max(row[way]["resident_percent"] for row in rounds for way in ("sequential", "random-local", "random", "latency"))
    figures.add("map.resident_percent_of_limit", round(most), "%", "<= 100")
    tail = lambda row: row["latency"]["p99_9_us"] / row["latency-mmap"]["p99_9_us"]  # noqa: E731
    figures.add("map.load_p99_9_amid_stores_percent_of_mmap", percent(tail), "%", "<= 100")
    for name, way in (("map", "latency"), ("mmap", "latency-mmap")):
        for share in ("p50_us", "p99_9_us"):
            figures.add(f"map.load_amid_stores_{name}_{share}", round(median(lambda row: row[way][share]), 1), "us")
    # Other work on the machine costs the map more than it costs fio, because two threads of it must run.
    figures.add("map.rates_processors", os.cpu_count(), "")
    figures.add("map.rates_load_average", round(os.getloadavg()[0], 1), "")
    figures.remark(UMAP)


def uncached(file):
    """No page of the file is in the page cache."""
    run(["dd", f"if={file}", "iflag=nocache", "count=0", "status=none"])


def fio(file):
    """MiB/s of eight reads of 128 KiB at a time, in order."""
    said = run(["fio", "--name=read", f"--filename={file}", "--rw=read", "--bs=128k", "--iodepth=8", "--direct=1",
                "--ioengine=io_uring", f"--size={FILE_BYTES}", "--output-format=json"])  # fmt: skip
    return json.loads(said)["jobs"][0]["read"]["bw_bytes"] / (1 << 20)
