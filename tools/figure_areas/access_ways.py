# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a read of 4 KiB costs by each way of access: instructions in the lab, user and kernel, of all processes that take part.

All read the same device, one block after another: one in memory that answers within the call (null_blk), so that nothing waits and the
drive costs nothing. Every way is a command that runs three times: to have its files in memory, and with two numbers of reads, so that the difference has no
part of its start.
"""

import subprocess
import sys

from .chario import OUT, lab
from .support import ROOT, build_example

sys.path.insert(0, str(ROOT / "lab"))
import image  # noqa: E402

FEW, MANY = 500, 2500
PREPARE = r"""
set -e
modprobe null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=0 queue_mode=2
modprobe nbd max_part=0 nbds_max=1
modprobe fuse
[ -b /dev/nullb0 ] || { echo "no /dev/nullb0" >&2; exit 9; }
S=target/release/straightway
up() { # FILE WORDS: waits for a server's report
  for i in $(seq 3000); do grep -q "$2" $1 && return; sleep 0.1; done; cat $1 >&2; exit 9
}
counted() { # COMMAND, with COUNT in place of the number: first to have its files in memory, then for the difference
  for count in FEW FEW MANY; do RUN ${@//COUNT/$count} >/tmp/out 2>&1 || { cat /tmp/out >&2; exit 9; }; done
}
head -c 64M /dev/urandom >/dev/shm/data
"""
FIO = "fio --name=read --rw=randread --bs=4k --direct=1 --iodepth=1 --number_ios=COUNT --norandommap=1 --thread --filename=/dev/nullb0"
PYTHON = r"""
cat >/tmp/read.py <<'P'
import sys, straightway
count = int(sys.argv[1])
with straightway.open("/dev/nullb0") as device:
    buffer, places = device.allocate(4096), device.size_bytes // 4096
    for number in range(count):
        device.read(number * 7919 % places * 4096, buffer)
P
"""
# Name, what it is, and the script that counts it. First what only reads the device, then what needs a volume on it.
WAYS = (
    ("pread", "counted READ pread /dev/nullb0 COUNT"),
    ("rust", "counted RUST /dev/nullb0 COUNT"),
    ("c", "counted READ device /dev/nullb0 COUNT"),
    ("python", PYTHON + "export PYTHONPATH=WHEEL; counted python3 /tmp/read.py COUNT; unset PYTHONPATH"),
    ("fio_libaio", f"counted {FIO} --ioengine=libaio"),
    ("fio_io_uring", f"counted {FIO} --ioengine=io_uring"),
    ("fio_engine", f"counted {FIO} --ioengine=external:target/release/straightway_fio.so"),
    ("nbd", r"""
$S serve /dev/nullb0 --nbd /tmp/s.sock >/tmp/report 2>&1 & server=$!
up /tmp/report ' at nbd'
nbd-client -unix /tmp/s.sock /dev/nbd0 >/dev/null
counted READ pread /dev/nbd0 COUNT
nbd-client -d /dev/nbd0 >/dev/null; kill $server; wait $server || true"""),
    ("vhost_user", r"""
$S serve /dev/nullb0 --vhost-user /tmp/v.sock >/tmp/report 2>&1 & server=$!
up /tmp/report ' at unix:'
counted VHOST /tmp/v.sock COUNT
kill $server; wait $server || true"""),
    ("volume_c", r"""
$S format /dev/nullb0 --destroy-data nullb0 >/dev/null 2>&1
$S put /dev/nullb0 /dev/shm/data >/dev/null 2>&1
counted READ file /dev/nullb0 data COUNT"""),
    ("volume_fuse", r"""
mkdir /tmp/at; $S mount /dev/nullb0 /tmp/at >/tmp/report 2>&1 & server=$!
up /proc/mounts ' /tmp/at '
counted READ pread /tmp/at/data COUNT
umount /tmp/at; wait $server"""),
)  # fmt: skip
# On Debian's newest kernel, because the other has no ublk.
NEWEST = "backports"
WAYS_OF_NEWEST = (
    ("newest_pread", "counted READ pread /dev/nullb0 COUNT"),
    ("ublk", r"""
modprobe ublk_drv
$S serve /dev/nullb0 --ublk >/tmp/report 2>&1 & server=$!
up /tmp/report ' at /dev/ublkb'
counted READ pread /dev/ublkb0 COUNT
kill $server; wait $server || true"""),
)  # fmt: skip


def programs():
    """What the guest runs; built here."""
    run = lambda *words: subprocess.run(words, cwd=ROOT, check=True)  # noqa: E731
    run("cargo", "build", "--quiet", "--release", "--locked", "-p", "straightway-cli", "-p", "straightway-preload", "-p", "straightway-c")
    rust, vhost = (build_example("straightway-figures", f"access_{name}") for name in ("read", "vhost_user"))
    run("crates/c/fio/build")
    run("crates/python/build")
    wheel = OUT.parent / "access" / "python"
    (found,) = (ROOT / "build/wheels/release").glob("*_x86_64.whl")
    run("python3", "-m", "zipfile", "-e", found, wheel)
    built = {"RUST": rust, "VHOST": vhost, "WHEEL": wheel}
    for name, words in (("RUN", ["-I", "lab/count", "lab/count/run.c"]),
                        ("READ", ["-I", "crates/c/include", "crates/figures/access_read.c", "target/release/libstraightway.a",
                                  "-lm", "-lpthread", "-ldl", "-lgcc_s"])):  # fmt: skip
        built[name] = OUT.parent / "access" / name.lower()
        run("cc", "-O2", "-Wall", "-Wextra", "-o", built[name], *words)
    return built


def count(figures, ways, built, *options):
    script = PREPARE.replace("FEW", str(FEW)).replace("MANY", str(MANY)) + "\n".join(text for _, text in ways)
    for name, path in built.items():
        script = script.replace(name, str(path.relative_to(ROOT)))
    output = OUT.parent / "access" / "counts.txt"
    lab(script, "--count", str(output), "--icount", "0", *options, timeout=3000)
    rows = [sum(map(int, line.split()[1:3])) for line in output.read_text().splitlines()]
    assert len(rows) == 3 * len(ways), f"{len(rows)} counts"
    for (name, _), few, many in zip(ways, rows[1::3], rows[2::3], strict=True):
        figures.add(f"access.{name}_read_4k_instructions", (many - few) / (MANY - FEW), "instructions")


def ways(figures):
    built = programs()
    count(figures, WAYS, built)
    try:
        image.find_kernel(NEWEST, "x86_64")
    except image.NotSetUp:
        figures.remark("SKIPPED: ublk: the newest kernel is not there; run: tools/setup backports")
        return
    count(figures, WAYS_OF_NEWEST, built, "--kernel", NEWEST)
