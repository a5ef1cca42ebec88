# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The measurements: which guest runs which commands, and where their JSON is."""

import json
import os
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "reproduce"
STRAIGHTWAY = "target/release/straightway"
# The largest command of the thesis's drive is 128 KiB.
DRIVE = ("--drive", "size=1G,serial=LAB1,mdts=5")
# What is read is twice the memory, so that the page cache does not answer for the drive.
SMALL = ("--memory", "256M")
D, S = "/dev/nvme0n1", "--destroy-data LAB1 --span 64M"
# What other programs of the host may take, in cores.
MOST_OTHERS = 0.25
TWICE = "--destroy-data LAB1 --span 512M"
KERNEL = "ext4-buffered,ext4-direct,block-buffered,block-direct"


@dataclass
class Guest:
    """One boot: the runs in it by name, each a verb and its arguments; `before` is bash."""

    name: str
    runs: dict
    options: tuple = DRIVE
    before: str = ""
    timeout: int = 1500
    # Exit statuses that are answers, not failures: 0, and 5 if a verb reports too little data.
    answers: tuple = field(default=(0, 5))


@dataclass
class Counts:
    """A run that counts, by a function of Python that writes NAME.json into its folder."""

    name: str
    function: Callable
    # What a reader runs instead, and on which machine it makes sense.
    command: str

    @property
    def runs(self):
        return {self.name: self.command}


def _requests():
    from . import counted

    counted.count(OUT / "counts")


def _interrupts():
    from figure_areas import chario
    from figure_areas.support import Figures

    chario.built()
    every, computed = chario.predictability(Figures())
    folder = OUT / "interrupts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "interrupts.json").write_text(json.dumps({"computed": computed, "calls": every}))


def _figures():
    folder = OUT / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text((ROOT / "docs" / "figures.json").read_text())


def _traces(paths, sizes, operations=("read", "write")):
    words = {"read": "--operation read", "write": "--operation write --durable"}
    return {
        f"trace-{path}-{operation}-{size}": f"trace {D} {S} --path {path} --block {size} --requests 1000 {words[operation]}"
        for path in paths
        for operation in operations
        for size in sizes
    }


WORKLOADS = ("webserver", "fileserver", "varmail", "videoserver", "netsfs", "webproxy", "oltp")


def _workloads(where, dataset, hows):
    return {
        f"workload-{name}-{label}": " ".join(f"workload {name} {where} {option} --dataset {dataset} --duration 4s".split())
        for name in WORKLOADS
        for label, option in hows.items()
    }


PERIODIC = f"periodic {D} {S} --paths {KERNEL} --priorities normal,fifo --loads none,medium,high --firings 200"
SIZES = ("4K", "8K", "40K", "80K")
MEASURED = [
    Counts("counts", _requests, "make reproduce ONLY=counts"),
    Counts("interrupts", _interrupts, "make figures ONLY=chario"),
    Counts("figures", _figures, "make figures ONLY=firmware"),
    Guest(
        "sweep",
        {
            "sweep": f"sweep {D} {TWICE} --paths {KERNEL} --sizes 512,4K,64K,512K,1M,16M --rounds 5 --cell-duration 200ms",
            "sweep-tmpfs": "sweep /dev/shm/file --paths file-buffered --sizes 4K,64K,512K,1M,16M --operations read --patterns sequential "
            "--rounds 5 --cell-duration 200ms",
        },
        options=(*DRIVE, *SMALL),
        before="head -c 64M /dev/urandom >/dev/shm/file",
    ),
    Guest(
        "profile",
        {
            f"profile-{path}-{size}": f"profile {D} --path {path} --block {size} --duration 4s --span 512M"
            for path in ("block-buffered", "block-direct")
            for size in ("4K", "128K", "1M", "16M")
        },
        options=(*DRIVE, *SMALL),
    ),
    *[
        Guest(
            f"speed-{shift}",
            {f"speed-{shift}": f"speed {D} --one --destroy-data LAB1 --rounds 5 --cell-duration 50ms --span 64M --sizes 4K,512K,16M "
             "--operations read,write --patterns sequential --paths block-buffered,block-direct"},
            options=("--icount", str(shift), *DRIVE),
        )
        for shift in (0, 1, 2)
    ],  # fmt: skip
    Guest("trace", _traces(KERNEL.split(","), SIZES)),
    Guest(
        "periodic",
        {
            "periodic": f"{PERIODIC} --modes sync,async --period 25ms",
            "periodic-10": f"{PERIODIC} --modes sync,async --period 10ms",
            "periods": f"periodic {D} {S} --operations write --loads high --priorities normal --firings 200 --paths block-buffered "
            "--modes sync --period 5ms,10ms,15ms,20ms,25ms,50ms,100ms,200ms",
        },
        options=("--kernel", "rt", *DRIVE),
        timeout=3000,
    ),
    Guest(
        "workload",
        _workloads("/tmp/ext4", "512M", {"standard": "", "direct": "--direct"}),
        options=(*DRIVE, *SMALL),
        before=f"mkfs.ext4 -q -F {D}; mkdir -p /tmp/ext4; mount {D} /tmp/ext4",
        timeout=3000,
    ),
    Guest(
        "workload-volume",
        # Making files on a volume takes long: each is durable.
        _workloads(D, "64M", {"volume": "", "hybrid": "--hybrid", "cached": "--cache 12M"}),
        options=(*DRIVE, *SMALL),
        before=f"{STRAIGHTWAY} --quiet format {D} --destroy-data LAB1 --slots 8192",
        timeout=3000,
    ),
    Guest(
        "straight",
        {
            **_traces(("chario", "chario-phys"), SIZES),
            "table-41": f"compare {D} --destroy-data LAB1 --span 700M --sizes 4K,128K,1M,16M --patterns sequential --rounds 15 "
            f"--paths {KERNEL},chario,chario-phys",
            "table-42": f"sweep {D} --destroy-data LAB1 --span 700M --sizes 128K,16M --patterns sequential --depths 1 --rounds 5 "
            "--paths block-buffered,block-direct,straightway-poll",
            "table-42-queue": f"sweep {D} --destroy-data LAB1 --span 700M --sizes 128K --patterns sequential --depths 64 --rounds 5 "
            "--paths straightway-poll",
            "table-42-deep": f"sweep {D} {S} --sizes 128K --patterns sequential --depths 8 --rounds 5 --paths io_uring,straightway-poll",
            "table-43": f"sweep {D} {S} --sizes 4K --patterns random --depths 32 --rounds 15 --paths io_uring,straightway-poll",
            "by-size": f"sweep {D} --destroy-data LAB1 --span 700M --sizes 4K,32K,128K,512K,1M,16M --depths 4 --rounds 15 "
            "--paths block-buffered,io_uring,straightway-poll",
        },
        options=(*DRIVE, "--memory", "400M", "--kernel-args", "memmap=64M$0x10000000"),
        before="insmod build/chario/stock-x86_64/chario.ko windows=0x10000000:64M",
    ),
    Guest(
        "threads",
        {
            "table-43-threads": f"sweep {D} {S} --sizes 4K --patterns random --threads 4 --depths 1 --rounds 15 --paths block-direct,straightway-poll",
            "by-size-threads": f"sweep {D} --destroy-data LAB1 --span 700M --sizes 4K,32K,128K,512K,1M,16M --threads 4 --depths 1 --rounds 15 "
            "--paths block-buffered,block-direct,straightway-poll",
        },
        options=(*DRIVE, "--memory", "400M", "--cpus", "4"),
    ),
]


def commands():
    """The words of each run by its name."""
    return {name: words for guest in MEASURED for name, words in guest.runs.items()}


def options(name):
    """How the guest of a run is booted, without its drives; empty if it is not a guest."""
    guest = next(guest for guest in MEASURED if name in guest.runs)
    words, left = [], list(getattr(guest, "options", ()))
    while left:
        option, value, *left = left
        words += [] if option == "--drive" else [option, value]
    return " ".join(words)


def _spent():
    """Processor seconds of the whole machine, of this program's children, and the time."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, stat.readline().split()[1:])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), children.ru_utime + children.ru_stime, time.monotonic()


def measure(guest):
    """Runs a guest's commands; the output of each is saved with its JSON. Returns whether all succeeded.

    A guest cannot see what else its host did. If that took more than a quarter of a core, the runs are not valid; with a virtual
    clock (`--icount`) they are.
    """
    if isinstance(guest, Counts):
        guest.function()
        return True
    machine, children, began = _spent()
    done = _boot(guest)
    machine, children, took = (now - before for now, before in zip(_spent(), (machine, children, began)))
    others = (machine - children) / took
    if others > MOST_OTHERS and "--icount" not in guest.options:
        print(f"reproduce: {guest.name} is not valid: other programs took {others:.2f} cores", file=sys.stderr)
        for name in guest.runs:
            (OUT / name / "busy").write_text(f"{others:.2f} cores\n")
    return done


def _boot(guest):
    if "chario" in guest.before:
        subprocess.run([ROOT / "kernel/chario/build", "stock-x86_64"], cwd=ROOT, check=True, capture_output=True)
    answers = "|".join(map(str, guest.answers))
    lines = [
        "set -u; [ -e /sys/kernel/tracing/events ] || mount -t tracefs none /sys/kernel/tracing",
        guest.before or ":",
        "failed=0",
    ]
    for name, words in guest.runs.items():
        folder = OUT.relative_to(ROOT) / name
        lines.append(
            f"rm -rf {folder}; mkdir -p {folder}; echo {shlex.quote(f'reproduce: {name}')} >&2\n"
            f"{STRAIGHTWAY} --quiet {words} --output {folder} >{folder}/said 2>&1\n"
            f"case $? in {answers}) ;; *) cat {folder}/said >&2; failed=1;; esac"
        )
    script = "\n".join([*lines, "exit $failed"])
    done = subprocess.run([ROOT / "lab/run", *guest.options, "--timeout", str(guest.timeout), "--", "bash", "-c", script], cwd=ROOT)
    return done.returncode == 0


def _finite(text):
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is not a number of a measurement")
    return number


def _not_a_number(text):
    raise ValueError(f"{text} is not a number of a measurement")


def read(file):
    """A run's JSON; of a file that was cut short or holds numbers that nothing measures, only that it is damaged."""
    try:
        return json.loads(file.read_text(), parse_float=_finite, parse_constant=_not_a_number)
    except (OSError, ValueError) as error:
        return {"damaged": str(error)}


def result(name):
    """The JSON of a run; None if there is none."""
    words = commands()[name].split()
    file = OUT / name / (f"{name}.json" if words[0] == "make" else f"{words[0]}.json")
    if not file.exists():
        return None
    found = read(file)
    if isinstance(found, dict) and found.get("kind", words[0]) != words[0]:
        return {"damaged": f"the run of another command: {found['kind']}"}
    return {**found, "valid": False} if isinstance(found, dict) and (OUT / name / "busy").exists() else found
