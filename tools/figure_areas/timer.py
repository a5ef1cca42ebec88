# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Instructions of an event: the ring and the mapped device in user space, swt_event() in the kernel, and tracefs's own beside them.

One guest that counts instructions. A count is the median of a hundred events, less the markers around them; interrupts of the
clock make single ones longer.
"""

import statistics
import subprocess
import sys

from .chario import KERNEL, lab
from .support import ROOT, build_example

OUT = ROOT / "out" / "timer"
BUILD = ROOT / "build" / "swt_cost"
WARM_UP = 32
USER, KERNEL_TIMES = 132, 100
USER_LABELS = {2: "user_event", 3: "user_event_paused", 4: "user_event_lost", 5: "user_event_device", 6: "user_trace_marker"}
TARGETS = {"user_event": "<= 12", "user_event_device": "<= 2", "kernel_event": "<= 20"}
SCRIPT = """set -e
[ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing
{ printf 'TIMR\\004\\020\\010\\000'; head -c 4088 /dev/zero; } >/dev/shm/window
COST /dev/shm/window /sys/kernel/tracing/trace_marker
insmod build/swt_cost/swt_cost.ko
run() { echo $1 >/sys/module/swt_cost/parameters/run; }
run 10; run 11
echo record >/dev/swt-cost; run 11; run 11; run 11; run 11
echo pause >/dev/swt-cost
echo 1 >/sys/kernel/tracing/events/swt_cost/swt_cost/enable; run 12
cat /dev/swt-cost >out/timer/cost.dump
"""
# Runs in the kernel in the script's order; the ring has room for 256 events: the third one fills it.
KERNEL_RUNS = ("kernel_nothing", "kernel_event_paused", "kernel_event", None, None, "kernel_event_lost", "kernel_tracepoint")


def module():
    """Builds the module that stamps in the kernel."""
    image = sorted((ROOT / "build/lab/kernel" / KERNEL / "boot").glob("vmlinuz-*"))[-1]
    headers = ROOT / "build/lab/headers/usr/src" / f"linux-headers-{image.name.removeprefix('vmlinuz-')}"
    if not headers.exists():
        sys.exit("figures: the kernel's headers are missing; run: tools/setup chario")
    BUILD.mkdir(parents=True, exist_ok=True)
    sources = [*(ROOT / "tests/timer").iterdir(), ROOT / "lab/count/marker.h",
               ROOT / "kernel/chario/event.c", ROOT / "kernel/chario/swt_event.h"]
    for source in sources:
        link = BUILD / source.name
        link.unlink(missing_ok=True)
        link.symlink_to(source)
    subprocess.run(["make", "-s", "-C", headers, f"M={BUILD}", "modules"], check=True, stdout=subprocess.DEVNULL)


def timer_counts(figures):
    module()
    OUT.mkdir(parents=True, exist_ok=True)
    program = build_example("straightway-figures", "event_cost")
    output = OUT / "counts.txt"
    lab(SCRIPT.replace("COST", str(program)), "--count", str(output), "--icount", "0")
    rows = [tuple(map(int, line.split()[:3])) for line in output.read_text().splitlines()]

    def median(part):
        return statistics.median(user + kernel for _, user, kernel in part)

    user = {label: [row for row in rows if row[0] == label] for label in range(1, 7)}
    if any(len(part) != USER for part in user.values()):
        sys.exit(f"figures: counts of user space are missing: { {label: len(part) for label, part in user.items()} }")
    found = {name: median(user[label][WARM_UP:]) - median(user[1][WARM_UP:]) for label, name in USER_LABELS.items()}
    kernel = [row for row in rows if row[0] >= 10]
    if len(kernel) != KERNEL_TIMES * len(KERNEL_RUNS):
        sys.exit(f"figures: {len(kernel)} counts of the kernel")
    parts = {name: median(kernel[KERNEL_TIMES * index:KERNEL_TIMES * (index + 1)]) for index, name in enumerate(KERNEL_RUNS) if name}
    nothing = parts.pop("kernel_nothing")
    found |= {name: value - nothing for name, value in parts.items()}
    for name, value in found.items():
        figures.add(f"timer.{name}_instructions", int(value), "instructions/event", TARGETS.get(name))
    figures.add("timer.user_trace_marker_over_event", round(found["user_trace_marker"] / found["user_event"]), "times")
    figures.add("timer.kernel_tracepoint_over_event", round(found["kernel_tracepoint"] / found["kernel_event"]), "times")


def timer(figures):
    timer_counts(figures)
