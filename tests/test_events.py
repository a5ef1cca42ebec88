# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stamps of events in a real kernel: CharIO's own points, the node that user space reads, `trace --timer` and `timeline`."""

import pytest

from chario_guest import chario
from scripted import DRIVE

READ = "dd if=$NODE of=/dev/null bs=4K count=10 iflag=direct status=none"


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", ("stock", "rt"))
def test_a_read_of_chario_is_a_timeline(kernel):
    chario(
        rf"""
        [ "$(stat -c %a /dev/chario-events)" = 600 ] || fail "the node's mode"
        {READ}
        cp /dev/chario-events /tmp/dump; rc 0 $S timeline /tmp/dump
        grep -q 'call' /tmp/out && fail "events without recording"
        echo record >/dev/chario-events; {READ}; echo pause >/dev/chario-events
        {READ}
        cp /dev/chario-events /tmp/dump
        rc 0 $S timeline /tmp/dump --json; cp /tmp/out /tmp/json
        rc 0 $S timeline /tmp/dump
        python3 - <<'P' || {{ cat /tmp/out >&2; fail "the timeline"; }}
import json
shown = json.load(open("/tmp/json"))
names = [event["name"] for event in shown["events"]]
for name in "call submit complete return".split():
    assert names.count(name) == 10, (name, names.count(name))
assert names.count("interrupt") >= 10 and names.count("wake") == 10 and names.count("sleep") == names.count("resume")
assert sum(lane["lost"] for lane in shown["lanes"]) == 0
assert len(shown["requests"]) == 10
calls = [name for name in names if name in ("call", "submit", "complete", "return")]
assert calls == ["call", "submit", "complete", "return"] * 10, calls
# Application 0, before, device, interrupt, after, resume: none but the first and the last is empty.
assert all(parts[0] == 0 and min(parts[1:3]) > 0 and parts[3] > 0 and parts[4] > 0 for parts in shown["requests"])
P
        rc 0 $S release $BDF
        rc 0 $S trace $BDF --path chario --timer --requests 40 --block 4K --span 8M --json; cp /tmp/out /tmp/json
        python3 - <<'P' || {{ cat /tmp/json >&2; fail "trace --timer"; }}
import json
traced = json.load(open("/tmp/json"))
assert (traced["source"], traced["lost_events"], traced["commands_per_request"]) == ("counter", 0, 1)
assert traced["coverage"] > 0.99 and traced["requests"] >= 40, traced["coverage"]
parts = {{part["name"]: part["mean_ns"] for part in traced["parts"]}}
assert all(mean > 0 for mean in parts.values()), parts
assert abs(sum(parts.values()) / traced["total_mean_ns"] - traced["coverage"]) < 0.01
P
        """,
        "--drive", DRIVE, kernel=kernel, load="events=2048",
    )  # fmt: skip


def test_a_full_ring_keeps_its_first_events_and_counts_the_others():
    chario(
        rf"""
        echo record >/dev/chario-events
        dd if=$NODE of=/dev/null bs=4K count=400 iflag=direct status=none
        cat >/tmp/check.py <<'P'
import json, mmap, os, sys
file = os.open("/dev/chario-events", os.O_RDWR)
try:
    mmap.mmap(file, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    sys.exit("the ring can be written")
except PermissionError:
    pass
size = os.lseek(file, 0, os.SEEK_END)
mapped = mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ)
os.write(file, b"pause")
assert bytes(mapped) == open("/dev/chario-events", "rb").read() and mapped[:4] == b"SWEV"
open("/tmp/dump", "wb").write(mapped)
for bad in (b"", b"stop", b"x" * 100):
    try:
        os.write(file, bad)
        assert not bad, bad
    except OSError:
        pass
P
        python3 /tmp/check.py || fail "the node"
        rc 0 $S timeline /tmp/dump --json --events 100000
        python3 - <<'P' || fail "the counts"
import json
shown = json.load(open("/tmp/out"))
names = [event["name"] for event in shown["events"]]
lost = sum(lane["lost"] for lane in shown["lanes"])
full = [lane for lane in shown["lanes"] if lane["lost"]]
assert full and all(lane["events"] == 256 for lane in full), shown["lanes"]
# Each of 400 reads has a call, a submission, an interrupt, a completion, a wake-up and a return, and may sleep.
assert 400 * 6 <= len(names) + lost <= 400 * 9, (len(names), lost)
assert names[0] == "call"
P
        echo clear >/dev/chario-events; cp /dev/chario-events /tmp/dump
        rc 0 $S timeline /tmp/dump; grep -q 'events' /tmp/out && fail "a clear leaves nothing"
        echo arm >/dev/chario-events; {READ}; echo trigger >/dev/chario-events; {READ}
        echo pause >/dev/chario-events; cp /dev/chario-events /tmp/dump
        rc 0 $S timeline /tmp/dump; same "$(grep -c ' call' /tmp/out)" 10 "calls after the trigger"
        echo record >/dev/chario-events
        rc 0 $S release $BDF; rmmod chario; [ ! -e /dev/chario-events ] || fail "the node stayed"
        # Nothing of it without the parameter.
        chario_load; to_chario; [ ! -e /dev/chario-events ] || fail "a node without the parameter"
        rc 0 $S release $BDF
        rc 4 $S trace $BDF --path chario --timer --requests 10; said 'events=65536'
        rmmod chario
        # A profiling timer at a physical address takes the events: a register of memory keeps the last one.
        chario_load timer=$WINDOW; to_chario; {READ}
        python3 - <<'P' || fail "the timer's register"
import mmap, os, struct
window = mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), 4096, offset=int(os.environ["WINDOW"], 0))
assert struct.unpack_from("<I", window, 0x10)[0] == 0x43480002, window[:32].hex()
P
        rc 0 $S release $BDF
        rc 4 $S trace $BDF --path chario --timer --requests 10; said 'events=65536'
        """,
        "--drive", DRIVE, load="events=200",
    )  # fmt: skip
