# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The pool of guests: remains of a command are removed before the next, what cannot be undone is reported, guests that fail
are replaced.

Own guests: they hang, panic and are left dirty on purpose.
"""

import itertools
import json
import os
import shutil
import socket
import threading

import pytest

import pool
import resident as residents
from pool import ROOT, Pool, TestBroke, guests, machine_for
from resident import LATE_S, Done, Resident

pytestmark = pytest.mark.cells("lab")

DRIVES = ("--drive", "size=64M,serial=ONE,logical_block_size=4096", "--drive", "size=32M,serial=TWO,iops=1000")
LEAVE = """
test -z "$(find /tmp /dev/shm -mindepth 1)" || exit 9
for drive in nvme0 nvme1; do echo $(cat /sys/class/nvme/$drive/serial) $(cat /sys/block/${drive}n1/size); done
for function in /sys/class/nvme/nvme?/device; do readlink -f $function; done
dd if=/dev/nvme0n1 bs=1M count=1 status=none | tr -d '\\0' | wc -c
head -c 1M /dev/urandom | dd of=/dev/nvme0n1 bs=1M iflag=fullblock oflag=direct status=none
mkswap /dev/nvme1n1 >/dev/null; swapon /dev/nvme1n1
modprobe loop; head -c 1M /dev/zero >/tmp/image; losetup -f /tmp/image
mount -t tmpfs none /mnt; umount /sys/kernel/debug
mkdir -p /run/straightway /run/.hidden /sys/kernel/tracing/instances/one
echo 8 >/proc/sys/vm/nr_hugepages; echo 0 >/proc/sys/kernel/perf_event_paranoid
echo shown >/dev/kmsg; touch /dev/shm/left
D=$(basename $(readlink /sys/class/nvme/nvme0/device)); cd /sys/bus/pci/devices/$D
echo vfio-pci >driver_override; echo $D >driver/unbind; echo $D >/sys/bus/pci/drivers_probe
sleep 1000 & echo left behind
"""


@pytest.fixture(scope="module")
def one():
    machine, drives = machine_for(DRIVES)
    with guests.RunFolder("-test") as folder:
        resident = Resident(machine, ROOT, folder)
        try:
            resident.boot()
            yield resident, drives
        finally:
            resident.stop()


def execute(resident, script):
    """Runs it; if it does not end, the console says where its threads are."""
    size = resident.console_size()
    try:
        return resident.execute(["bash", "-c", script], 200)
    except guests.TimedOut:
        pytest.fail("\n".join(["no end within 200 s; the console:", *resident.console_since(size)[-60:]]))


def test_a_command_finds_nothing_of_the_one_before(one):
    resident, drives = one
    for _ in range(2):
        resident.plug(drives)
        done = execute(resident, LEAVE)
        assert (done.status, done.stderr) == (0, ""), done
        lines = done.stdout.splitlines()
        assert lines[:2] == ["ONE 131072", "TWO 65536"] and lines[4:] == ["0", "left behind"], lines
        assert all(":0" in line and line.endswith(":00.0") for line in lines[2:4]), lines
        assert resident.clean_up() == []
    assert "shown" not in resident.execute(["dmesg"], 60).stdout
    # Status, streams and arguments are as in lab/run.
    words = ["sh", "-c", 'printf "%s|" "$@"; echo error >&2; kill -TERM $$', "sh", "a b", "", "'é\n*"]
    assert resident.execute(words, 60) == Done(143, "a b||'é\n*|", "error\n")
    assert resident.clean_up() == []


def test_what_cannot_be_undone_is_named(one):
    resident, _ = one
    resident.execute(["sh", "-c", "touch /etc/left; echo 512 >/proc/sys/kernel/tainted"], 60)
    left = resident.clean_up()
    assert "left: /run/lab/upper/etc/left" in left and "left: oops or warning: 512" in left, left


def test_a_qemu_that_sleeps_is_woken(one, monkeypatch):
    resident, _ = one
    monkeypatch.setattr(residents, "STILL_S", 0.5)
    # Stopped, it neither runs timers nor takes interrupts, as when it has lost a wake-up.
    resident._control.ask({"execute": "stop"})
    assert resident.execute(["echo", "awake"], 120).stdout == "awake\n"
    assert resident.woken >= 1


def test_a_clock_that_stands_is_seen_while_something_else_of_qemu_runs(one, monkeypatch):
    resident, _ = one
    assert not resident.clock_stands()
    resident._control.ask({"execute": "stop"})
    assert resident.clock_stands()
    monkeypatch.setattr(residents, "STILL_S", 0.5)
    monkeypatch.setattr(resident, "ran_ns", itertools.count().__next__)
    assert resident.execute(["echo", "awake"], 120).stdout == "awake\n"
    assert resident.woken >= 1 and not resident.clock_stands()


def test_a_command_that_hangs_is_given_up(one, monkeypatch):
    resident, _ = one
    console = resident.console_size()
    # On a busy host the command takes seconds to begin, and the guest as long to print.
    with pytest.raises(guests.TimedOut):
        resident.execute(["sh", "-c", "sleep 1000 & wait"], LATE_S + 12)
    monkeypatch.setattr(residents, "REPORT_S", 120)
    said = resident.explain_silence(console)
    # Where each of its processes waits: the shell and what it started.
    assert all(sum(word in line for line in said) == 1 for word in ("late: sh S, ", "late: sleep S, ")), said
    # QEMU's threads and the guest's processors, two as by default.
    assert sum("HLT=" in line for line in said) == 2 and any(" s " in line for line in said), said
    # Of a guest that does not report itself.
    monkeypatch.setattr(residents, "REPORT_S", 0.1)
    assert "interrupt: still nothing" in resident.explain_silence(resident.console_size())[-1]


def test_a_qemu_that_crashes_before_the_command_is_started_once_more_and_a_panic_is_the_test_s(tmp_path, monkeypatch):
    real = shutil.which("qemu-system-x86_64")
    fake = tmp_path / "qemu-system-x86_64"
    fake.write_text(f'#!/bin/sh\n[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; kill -SEGV $$; }}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LAB_BOOTS", str(tmp_path / "boots"))
    mine = Pool()
    with pytest.raises(TestBroke) as broke:
        mine.run((), ["sh", "-c", "echo c >/proc/sysrq-trigger; sleep 1000"], 300)
    why, console = broke.value.args
    assert "the guest stopped" in why and any("sysrq triggered crash" in line for line in console), (why, console)
    (boot,) = map(json.loads, (tmp_path / "boots").read_text().splitlines())
    assert boot["retry"] and "test_a_qemu_that_crashes" in boot["test"], boot


class Fake:
    """A fake guest whose behaviour is set by the test."""

    boots, ends, left, stands = [], [], [], []

    def __init__(self, *_):
        self.is_up = True
        self.woken = 0

    def boot(self):
        outcome = self.boots.pop(0)
        if outcome:
            raise outcome

    def execute(self, _, timeout):
        outcome = self.ends.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Done(outcome, "", "")

    def plug(self, _):
        assert self.is_up

    def clean_up(self):
        return self.left.pop(0)

    def stop(self):
        self.is_up = False

    def console_size(self):
        return 0

    def console_since(self, _):
        return []

    def explain_silence(self, _):
        return ["silent"]

    def clock_stands(self):
        return self.stands.pop() if self.stands else False


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """A pool of fakes, and the kinds that it has."""
    monkeypatch.setattr(pool, "Resident", Fake)
    monkeypatch.setattr(pool, "BEFELL", tmp_path / "befell")
    monkeypatch.setattr(guests, "note_boot", lambda *_: None)
    mine = Pool()
    yield mine
    mine.close()


def run(mine, boots, ends, left):
    Fake.boots, Fake.ends, Fake.left = boots, ends, left
    return mine.run(("--drive", "size=1M"), ["true"], 10)[0]


def test_a_guest_serves_until_it_is_dirty_and_then_the_test_is_named(fake, tmp_path):
    assert run(fake, [None], [0], [[]]).status == 0
    assert run(fake, [], [0], [["left: a thing"]]).status == 0
    named = json.loads((tmp_path / "befell").read_text())
    assert named["why"] == "left: a thing: replaced" and "test_a_guest_serves" in named["test"]
    # The next test has a new guest; a failed script uses it up, whatever it left.
    assert run(fake, [None], [7], []).status == 7
    assert run(fake, [None], [0], [[]]).status == 0 and not Fake.boots


@pytest.mark.parametrize(
    ("end", "left", "said"),
    [
        (guests.TimedOut(), [], "timed out"),
        (guests.GuestFailed("it panicked"), [], "it panicked"),
        (0, [["left: oops or warning: 512"]], "the kernel warned"),
    ],
)
def test_what_breaks_a_guest_fails_the_test_and_is_not_repeated(fake, end, left, said):
    with pytest.raises(TestBroke, match=said) as broke:
        run(fake, [None], [end], left)
    assert (broke.value.args[1] == ["silent"]) == (said == "timed out")
    assert run(fake, [None], [0], [[]]).status == 0


def test_a_boot_is_repeated_once_where_the_emulator_is_at_fault(fake):
    assert run(fake, [guests.TimedOut(), None], [0], [[]]).status == 0
    fake.close()
    with pytest.raises(AssertionError, match="signal 11"):
        run(fake, [guests.Crashed("signal 11"), guests.Crashed("signal 11")], [0], [[]])
    with pytest.raises(guests.GuestFailed, match="panic"):
        run(fake, [guests.GuestFailed("panic"), None], [0], [[]])


def test_a_command_during_which_qemu_crashes_is_run_once_more_and_named(fake, tmp_path):
    assert run(fake, [None, None], [guests.Crashed("signal 11"), 0], [[]]).status == 0
    assert "signal 11" in json.loads((tmp_path / "befell").read_text())["why"]
    fake.close()
    with pytest.raises(TestBroke, match="signal 11"):
        run(fake, [None, None], [guests.Crashed("signal 11"), guests.Crashed("signal 11")], [])
    # Remains of the first run on the test's own file may make the second fail or pass.
    with pytest.raises(TestBroke, match="signal 11"):
        Fake.boots, Fake.ends, Fake.left = [None], [guests.Crashed("signal 11")], []
        fake.run(("--drive", f"file={tmp_path / 'file'},size=1M"), ["true"], 10)


def test_a_qemu_that_was_woken_is_named(fake, tmp_path, monkeypatch):
    def execute(self, *_):
        self.woken = 2
        return Done(0, "", "")

    monkeypatch.setattr(Fake, "execute", execute)
    assert run(fake, [None], [], [[]]).status == 0
    assert "(2 times)" in json.loads((tmp_path / "befell").read_text())["why"]


def test_the_number_of_guests_that_are_up_is_limited(fake):
    Fake.boots, Fake.ends, Fake.left = [None] * 9, [0] * 9, [[]] * 9
    for cpus in range(1, 8):
        fake.run(("--cpus", str(cpus)), ["true"], 10)
    assert len(fake._kept) == pool.MOST_GUESTS
    # The last of them is still running.
    Fake.boots = []
    fake.run(("--cpus", "7"), ["true"], 10)


@pytest.mark.parametrize("words", [("--icount", "0"), ("--drive", "namespaces=2"), ("--drive", "pi=1")])
def test_what_a_guest_that_is_up_cannot_have_is_said(words):
    with pytest.raises(ValueError, match="own_guest"):
        machine_for(words)


def test_a_guest_that_does_not_give_a_device_back_is_asked_again(monkeypatch):
    monkeypatch.setattr(residents, "ASK_AGAIN_S", 0.05)
    ours, theirs = socket.socketpair()
    asked = []

    def qemu():
        with theirs, theirs.makefile("rwb", buffering=0) as lines:
            lines.write(b'{"QMP": {}}\n')
            for line in lines:
                command = json.loads(line)["execute"]
                asked.append(command)
                lines.write(b'{"return": {}}\n')
                # The first request is lost in the guest. Messages may arrive in one piece or in two.
                if asked.count("device_del") == 2:
                    lines.write(b'{"event": "DEVICE_DELETED", "data": {"dev')
                    lines.write(b'ice": "nvme0"}}\n')

    thread = threading.Thread(target=qemu, daemon=True)
    thread.start()
    control = residents.Control(ours)
    control.unplug("nvme0")
    assert asked == ["qmp_capabilities", "device_del", "device_del"]
    control.close()
    thread.join()


def test_a_command_whose_guest_s_clock_stands_is_run_once_more_and_named(fake, tmp_path):
    Fake.stands = [True]
    assert run(fake, [None, None], [guests.TimedOut(), 0], [[]]).status == 0
    assert "clock stood still" in json.loads((tmp_path / "befell").read_text())["why"]
    fake.close()
    Fake.stands = [True, True]
    with pytest.raises(TestBroke, match="timed out"):
        run(fake, [None, None], [guests.TimedOut(), guests.TimedOut()], [])
