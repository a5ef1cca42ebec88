# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The table `hardware` of docs/safety.md: tests every cell on the verilated core. `SAFETY_WRITE=1` writes the table.

This needs no guest: a drive behind a file system in hardware is protected by the command and the core, not by this machine's
kernel, which has no device node of the drive. A UIO device that another process uses is tested in `crates/linux/src/uio/tests.rs`.
"""

import os
import re
import socket
import subprocess

import hwfs_script as hw
import test_hwfs_axi as axi
from hwfs_script import cores
from test_hwfs_axi import front  # noqa: F401

PAGE = cores.ROOT / "docs" / "safety.md"
TABLE = re.compile(r"(<!-- table: hardware -->\n)(.*?)(\n<!-- end -->)", re.DOTALL)


def verbs(device, source):
    """Each verb with its arguments, in an order in which all verbs succeed on an idle volume unless they are refused."""
    destroy = ["--destroy-data", "x"]
    return {
        "put": ["put", device, source, "new"],
        "put: the name exists": ["put", device, source, "old"],
        "put --force": ["put", device, source, "old", "--force"],
        "mv": ["mv", device, "new", "newer"],
        "mv: the name exists": ["mv", device, "newer", "old"],
        "rm": ["rm", device, "newer"],
        "write": ["write", device, *destroy, "--input", source],
        "format": ["format", device, *destroy],
        "wipe": ["wipe", device, *destroy],
        "record": ["record", device, "r", "--from", "pattern", "--size", "1M", "--rate", "1M"],
        "check --repair": ["check", device, "--repair"],
        "workload": ["workload", "varmail", device],
        "compare": ["compare", device, *destroy],
        "sustain": ["sustain", device, "--rate", "1M", "--block", "4K", "--deadline", "5ms", *destroy],
        "bind": ["bind", device],
    }  # fmt: skip


NO_BLOCKS = dict.fromkeys(
    ("write", "format", "wipe", "record", "check --repair", "workload", "compare", "sustain", "bind"), (4, "has files, not blocks")
)
TAKEN = {"put: the name exists": (9, "exists"), "mv: the name exists": (9, "exists")}


def cell(words, expected):
    """Runs a verb and returns its cell. `expected` None: it must succeed."""
    done = subprocess.run([hw.straightway(), "--quiet", *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    told = f"{' '.join(map(str, words))}: {done.returncode} {done.stdout}{done.stderr}"
    if expected is None:
        assert done.returncode == 0, told
        return "done"
    status, reason = expected
    assert done.returncode == status and reason in done.stderr, f"expected {expected}\n{told}"
    return f"refused ({status})"


def row(name, device, source, expected=None, before=lambda: None):
    """A row of the table. `expected` is the refusal of the verbs on files; None: that of `TAKEN`, or success."""
    cells = []
    for verb, words in verbs(device, source).items():
        before()
        cells.append(cell(words, NO_BLOCKS.get(verb) or expected or TAKEN.get(verb)))
    return f"| {name} | {' | '.join(cells)} |"


def test_the_table_is_what_happens(front, tmp_path):  # noqa: F811
    f = front({"old": b"old data"})
    f.socket.close()
    source, image = tmp_path / "source", tmp_path / "v"
    source.write_bytes(os.urandom(5000))
    device = f"hwfs:{tmp_path / 'front.sock'}"
    head = verbs(device, source)
    rows = ["| the drive is | " + " | ".join(f"`{verb}`" for verb in head) + " |", "| --- " * (len(head) + 1) + "|"]

    def connect():
        f.socket = socket.socket(socket.AF_UNIX)
        f.socket.connect(str(tmp_path / "front.sock"))
        f.ended = f.read(axi.STATUS) >> 24

    def mounted():
        """The previous client disconnected without an unmount, as if it was killed."""
        connect()
        f.good(axi.MOUNT)
        f.socket.close()

    def busy():
        """A command was started but not completed: the simulation pauses until the next client connects."""
        connect()
        if f.read(axi.STATUS) & 1:
            f.ask(b"i", 0, 3_000_000)
        f.tell(axi.MOUNT)
        assert f.write(axi.CONTROL, 3) == axi.OKAY
        f.socket.close()

    for name, before in (("idle", lambda: None), ("left mounted by a killed command", mounted)):
        rows.append(row(name, device, source, before=before))
        connect()
        f.leave()  # the image is written when a client disconnects: `old` is read after that
        hw.check(image)
        assert hw.contents(image, "old", tmp_path) == source.read_bytes()
        assert hw.command("ls", image).stdout == "old\n"
        written = image.read_bytes()
        f.socket.close()
    rows.append(row("used: another command is in progress", device, source, (3, "a command of another user"), busy))
    connect()
    f.leave()
    assert image.read_bytes() == written

    blank = tmp_path / "blank"
    blank.mkdir()
    (blank / "v").write_bytes(bytes(1 << 20))
    other = axi.Front(blank / "v", blank)
    try:
        other.socket.close()
        rows.append(row("not a volume", f"hwfs:{blank / 'front.sock'}", source, (3, "volume")))
        other.socket = socket.socket(socket.AF_UNIX)
        other.socket.connect(str(blank / "front.sock"))
        other.leave()
        assert (blank / "v").read_bytes() == bytes(1 << 20)
    finally:
        other.close()
    for name, path, refusal in [
        ("not there", tmp_path / "nothing", (3, "connecting to")),
        ("a socket that nothing listens on", unheard(tmp_path / "unheard"), (3, "connecting to")),
        ("a plain file", image, (4, "neither a UIO device nor the socket")),
        ("a directory", tmp_path, (4, "neither a UIO device nor the socket")),
        ("another character device", "/dev/null", (2, "not a UIO device")),
    ]:
        rows.append(row(name, f"hwfs:{path}", source, refusal))
    assert image.read_bytes() == written

    table = "\n".join(rows)
    page = PAGE.read_text("utf-8")
    assert len(TABLE.findall(page)) == 1, f"{PAGE} has no place for the table `hardware`"
    wanted = TABLE.sub(lambda found: found[1] + table + found[3], page)
    if os.environ.get("SAFETY_WRITE"):
        PAGE.write_text(wanted, "utf-8")
    assert wanted == page or os.environ.get("SAFETY_WRITE"), f"SAFETY_WRITE=1 writes this to {PAGE}:\n{table}"


def unheard(path):
    """A socket on which no process listens any more."""
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    return path
