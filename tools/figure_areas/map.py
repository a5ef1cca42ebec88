# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Storage as memory: what a load costs whose page is in no memory yet, by a map and by the kernel's own.

Instructions in the lab, on Debian's kernel with one CPU, by the counting plugin; processor time on this machine, in paired rounds. A
map is over a RAM disk, so the cost of the device is that of one request to it, which is measured too and subtracted.
"""

import statistics
import subprocess

from .chario import OUT, WARM_UP, lab
from .map_coprocessor import coprocessor_counts
from .map_rates import rates
from .rtl import smmu
from .support import ROOT, build_example, run

CALLS = 200
# What the user of a map may pay above a read of the straight path, in microseconds of processor time.
MOST_US = {"local": 4, "thread": 10}


def rows_of(output):
    """User and kernel instructions of each call, without the idle loop, and whether it waited there."""
    rows = [list(map(int, line.split())) for line in output.read_text().splitlines()]
    return [(user + kernel, waiting > 0) for _, user, kernel, waiting, _ in rows]


def typical(rows):
    """Of the calls that waited for the drive, if any did: whether it answers before the wait is the emulator's timing, and a load
    that did not wait found a page that was read for another."""
    waited = [count for count, has_waited in rows if has_waited]
    return statistics.median(waited or [count for count, _ in rows])


def map_counts(figures):
    """Instructions of a load of a page that is absent."""
    program = build_example("straightway-figures", "map_count")
    kernels = ROOT / "build" / "lab" / "count-kernel"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-static", "-I", ROOT / "kernel/chario", "-I", ROOT / "lab/count",
                    "-o", kernels, ROOT / "tests/chario/count.c"], check=True)  # fmt: skip
    ours = ["empty", "read", "local", "signal", "thread"]
    ways = [*ours, "pread", "mmap-random", "mmap"]
    lines = ["set -e"]
    for way in ours:
        lines.append(f"{program} {way} {WARM_UP + CALLS}")
    for way in ways[len(ours) :]:
        lines += ["echo 3 >/proc/sys/vm/drop_caches", f"{kernels} {way} /dev/nvme0n1 4096 {CALLS}"]
    OUT.mkdir(parents=True, exist_ok=True)
    output = OUT / "map-counts.txt"
    lab("\n".join(lines), "--count", str(output), "--icount", "0", "--drive", "backend=null,size=128M")
    rows, each = rows_of(output), WARM_UP + CALLS
    assert len(rows) == each * len(ways), f"{len(rows)} counts"
    counts = {way: typical(rows[at * each + WARM_UP : (at + 1) * each]) for at, way in enumerate(ways)}
    costs = {way: count - counts["empty"] for way, count in counts.items()}
    figures.add("map.ram_disk_read_4k_instructions", int(costs["read"]), "instructions")
    for way in ("local", "thread"):
        figures.add(f"map.cold_load_{way}_over_read_instructions", int(costs[way] - costs["read"]), "instructions")
    # The kernel's part of a load that its own thread serves, and of that what any signal takes.
    kernel = statistics.median(int(line.split()[2]) for line in output.read_text().splitlines()[2 * each + WARM_UP : 3 * each])
    figures.add("map.cold_load_local_kernel_instructions", int(kernel), "instructions")
    figures.add("map.kernel_signal_instructions", int(costs["signal"]), "instructions")
    figures.add("map.kernel_direct_pread_4k_instructions", int(costs["pread"]), "instructions")
    figures.add("map.kernel_cold_load_mmap_random_instructions", int(costs["mmap-random"]), "instructions")
    figures.add("map.kernel_cold_load_mmap_instructions", int(costs["mmap"]), "instructions")
    coprocessor_counts(figures)


def times_of(program):
    """Microseconds of processor time for a load, of each way in each round."""
    times = {}
    for line in run([*program, "time", "8000", "9"]).splitlines():
        way, nanoseconds = line.split()
        times.setdefault(way, []).append(float(nanoseconds) / 1000)
    return times


def over_read(times, way):
    return round(statistics.median(ours - read for ours, read in zip(times[way], times["read"])), 2)


def map_(figures):
    map_counts(figures)
    program = build_example("straightway-figures", "map_count")
    times = times_of([program])
    figures.add("map.kernel_signal_cpu_us", round(statistics.median(times["signal"]), 2), "us")
    for way, most in MOST_US.items():
        figures.add(f"map.cold_load_{way}_over_read_cpu_us", over_read(times, way), "us", f"<= {most}")
    # The server looks for faults for 50 us before it sleeps.
    figures.add("map.cold_load_spinning_over_read_cpu_us", over_read(times, "spinning"), "us")
    # Waking a processor that sleeps is most of the time above, where that is another one.
    figures.add("map.cold_load_thread_on_one_processor_over_read_cpu_us", over_read(times_of(["taskset", "-c", "0", program]), "thread"), "us")
    rates(figures)
    smmu(figures)
