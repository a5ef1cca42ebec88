"""The measurements: which guest runs which commands, and where their JSON is."""

import json
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out" / "reproduce"
STRAIGHTWAY = "target/release/straightway"
DRIVE = ("--drive", "size=1G,serial=LAB1")
D, S = "/dev/nvme0n1", "--destroy-data LAB1 --span 64M"


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


def _traces(paths, sizes, words=""):
    return {
        f"trace-{path}-{size}": f"trace {D} {S} --path {path} --block {size} --requests 300 {words}"
        for path in paths
        for size in sizes
    }


def _workloads():
    names = ("webserver", "fileserver", "varmail", "videoserver", "netsfs", "webproxy", "oltp")
    runs = {}
    for name in names:
        for how in ("", "--direct"):
            label = f"workload-{name}-{'direct' if how else 'standard'}"
            runs[label] = f"workload {name} /tmp/ext4 {how} --dataset 64M --duration 6s"
        runs[f"workload-{name}-volume"] = f"workload {name} /dev/nvme1n1 --dataset 64M --duration 6s"
    return runs


PERIODIC = f"periodic {D} {S} --operations write --loads high --priorities normal,fifo --firings 100"
GUESTS = [
    Guest(
        "sweep",
        {
            "sweep": f"sweep {D} {S} --paths ext4-buffered,ext4-direct,block-buffered,block-direct,ram "
            "--sizes 4K,64K,512K,1M,16M --patterns sequential --rounds 5 --cell-duration 200ms"
        },
    ),
    Guest(
        "profile",
        {f"profile-{path}": f"profile {D} --path {path} --block 1M --duration 5s --span 64M" for path in ("block-buffered", "block-direct")},
    ),
    *[
        Guest(
            f"speed-{shift}",
            {f"speed-{shift}": f"speed {D} --one --rounds 5 --cell-duration 50ms --span 16M --sizes 4K --paths block-buffered,block-direct,ram"},
            options=("--icount", str(shift), *DRIVE),
        )
        for shift in (0, 1, 2)
    ],
    Guest("trace", _traces(("ext4-buffered", "ext4-direct"), ("4K", "40K", "80K"))),
    Guest("periodic", {"periodic": f"{PERIODIC} --paths block-buffered,block-direct,ext4-buffered,ext4-direct --modes sync,async --period 25ms"}),
    Guest("periodic-10", {"periodic-10": f"{PERIODIC} --paths block-buffered,block-direct --modes sync --period 10ms"}),
    Guest(
        "periods",
        {"periods": f"periodic {D} {S} --operations write --loads high --priorities normal --firings 100 --paths block-buffered "
         "--modes sync --period 25ms,50ms,100ms,200ms,400ms"},
    ),  # fmt: skip
    Guest(
        "workload",
        _workloads(),
        options=(*DRIVE, "--drive", "size=512M,serial=LAB2", "--memory", "2G"),
        before=f"mkfs.ext4 -q -F {D}; mkdir -p /tmp/ext4; mount {D} /tmp/ext4\n"
        f"{STRAIGHTWAY} --quiet format /dev/nvme1n1 --destroy-data LAB2 --slots 32768",
    ),
    Guest(
        "straight",
        {
            **_traces(("block-direct", "chario", "chario-phys"), ("40K", "80K"), "--operation read"),
            "table-41": f"compare {D} {S} --sizes 4K,128K,1M,16M --patterns sequential --rounds 5 "
            "--paths ext4-direct,block-buffered,block-direct,chario,chario-phys",
            "table-42": f"sweep {D} {S} --sizes 128K --patterns sequential --depths 8 --rounds 7 --paths block-buffered,block-direct,io_uring,straightway-poll",
            "table-43": f"sweep {D} {S} --sizes 4K --patterns random --depths 32 --rounds 7 --paths io_uring,straightway-poll",
            "by-size": f"sweep {D} {S} --sizes 4K,32K,128K,512K,1M --patterns sequential --depths 4 --rounds 5 --paths block-buffered,io_uring,straightway-poll",
        },
        options=(*DRIVE, "--kernel-args", "memmap=64M$0x20000000"),
        before="insmod build/chario/stock-x86_64/chario.ko windows=0x20000000:64M",
    ),
]


def commands():
    """The words of each run by its name."""
    return {name: words for guest in GUESTS for name, words in guest.runs.items()}


def measure(guest):
    """Runs a guest's commands; the output of each is saved with its JSON. Returns whether all succeeded."""
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


def result(name):
    """The JSON of a run; None if there is none."""
    (verb, *_) = commands()[name].split()
    file = OUT / name / f"{verb}.json"
    return json.loads(file.read_text()) if file.exists() else None
