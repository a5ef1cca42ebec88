# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Arrays and remote drives.

Stripes: simulated drives, each with one command at a time and a fixed time for it, so that the drives are the limit; the figures
repeat exactly. NVMe/TCP: instructions in the lab, on Debian's kernel with one CPU, by the counting plugin, of 4 KiB reads from the kernel's
target over the loopback interface. The target runs on the same CPU, so every count has its work and that of TCP on both sides.
"""

import statistics

from .chario import OUT, WARM_UP, lab
from .support import build_example, run

CALLS = {1: 200, 32: 40}
TARGET = r"""
set -e
modprobe -a nvmet nvmet_tcp nvme_tcp null_blk
[ -b /dev/nullb0 ] || { echo "no /dev/nullb0" >&2; exit 9; }
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
busybox ip link set lo up
T=/sys/kernel/config/nvmet
mkdir $T/subsystems/nqn.t:n $T/subsystems/nqn.t:n/namespaces/1 $T/ports/1
echo 1 >$T/subsystems/nqn.t:n/attr_allow_any_host
echo -n /dev/nullb0 >$T/subsystems/nqn.t:n/namespaces/1/device_path
echo 1 >$T/subsystems/nqn.t:n/namespaces/1/enable
echo tcp >$T/ports/1/addr_trtype; echo ipv4 >$T/ports/1/addr_adrfam
echo 127.0.0.1 >$T/ports/1/addr_traddr; echo 4420 >$T/ports/1/addr_trsvcid
ln -s $T/subsystems/nqn.t:n $T/ports/1/subsystems/
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.t:n -i 1 >/dev/null
D=$(ls -d /sys/class/nvme-subsystem/nvme-subsys*/nvme*n1); D=/dev/${D##*/}
for i in $(seq 100); do [ -b $D ] && break; sleep 0.1; done
[ -b $D ] || { echo "no block device of the target" >&2; exit 9; }
"""


def stripes(figures, program):
    rows = [list(map(int, line.split())) for line in run([program, "stripes"]).splitlines()]
    one = rows[0][1]
    for (drives, ticks, least, most), bound in zip(rows[1:], ("1.95", "3.8"), strict=True):
        figures.add(f"fabric.stripe_{drives}_drives_speed", one / ticks, "of one drive", f">= {bound}")
        figures.add(f"fabric.stripe_{drives}_drives_command_difference", most - least, "commands", "<= 1")


def remote(figures, program):
    """Instructions of a read, user and kernel, without the idle loop."""
    OUT.mkdir(parents=True, exist_ok=True)
    output = OUT / "fabric-counts.txt"
    runs = [("tcp 127.0.0.1:4420 nqn.t:n", depth) for depth in CALLS] + [("uring $D", depth) for depth in CALLS]
    lines = [TARGET] + [f"{program} {way} {depth} {WARM_UP + CALLS[depth]}" for way, depth in runs]
    lab("\n".join(lines), "--count", str(output), "--icount", "0")
    rows = [list(map(int, line.split()))[1:3] for line in output.read_text().splitlines()]
    costs, at = {}, 0
    for way, depth in runs:
        part = rows[at + WARM_UP : at + WARM_UP + CALLS[depth]]
        at += WARM_UP + CALLS[depth]
        costs[way.split()[0], depth] = statistics.median(user + kernel for user, kernel in part) / depth
    assert at == len(rows), f"{len(rows)} counts"
    for depth in CALLS:
        own, kernel = costs["tcp", depth], costs["uring", depth]
        figures.add(f"fabric.tcp_read_4k_qd{depth}_instructions", int(own), "instructions with the target's")
        figures.add(f"fabric.kernel_nvme_tcp_read_4k_qd{depth}_instructions", int(kernel), "instructions with the target's")
        figures.add(f"fabric.tcp_share_of_kernel_qd{depth}", own / kernel, "of the kernel's nvme-tcp", "<= 0.6")


def fabric(figures):
    """Stripes on two and four drives; a read over NVMe/TCP beside the kernel's initiator."""
    program = build_example("straightway-figures", "fabric_count")
    stripes(figures, program)
    remote(figures, program)


def fabric_counts(figures):
    """The part that repeats exactly."""
    stripes(figures, build_example("straightway-figures", "fabric_count"))
