# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CharIO when drives fail, processes die and callers are hostile, on the stock and the RT kernel.

Own guests: one has its drive unplugged amid a command, as the lab itself does it between commands.
"""

# partner: Linux | host kernel
# partner: QEMU's nvme | drive

import os
import re
import subprocess
import time

import pytest
import scripted

from chario_guest import chario, prelude
from hotplug import hotplug_guest
from suites import budget
from scripted import DRIVE, ONE_CPU, ROOT

KERNELS = ("stock", "rt")


@pytest.fixture
def rules(tmp_path):
    """A file of blkdebug rules in out/."""
    path = ROOT / "out" / f"blkdebug-{os.getpid()}-{tmp_path.name}.cfg"
    path.parent.mkdir(exist_ok=True)
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_media_error_is_reported_as_by_the_block_layer(rules, kernel):
    # Sectors 2048 (1 MiB) and 12288 (6 MiB) can never be read, 14336 (7 MiB) never written.
    rule = '[inject-error]\nevent = "{}"\nerrno = "5"\nsector = "{}"\n'
    rules.write_text(rule.format("read_aio", 2048) + rule.format("read_aio", 12288) + rule.format("write_aio", 14336))
    chario(
        r"""
        cat >/tmp/errors.py <<'P'
import mmap, os, sys
def outcome(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return -error.errno
file = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
area = mmap.mmap(-1, 16 << 20)
print([outcome(os.preadv, file, [memoryview(area)[:length]], at) for at, length in
       ((1 << 20, 4096), (1 << 20, 512), ((1 << 20) + 512, 4096), (0, 4096), (6 << 20, 128 << 10))],
      outcome(os.pwritev, file, [memoryview(area)[:4096]], 7 << 20), outcome(os.pwritev, file, [memoryview(area)[:4096]], 0))
P
        python3 /tmp/errors.py /dev/nvme0n1 >/tmp/by-block || fail "on the block device"
        pinned_before=$(pages_out); chario_load; to_chario
        python3 /tmp/errors.py $NODE >/tmp/by-chario || fail "on CharIO's node"
        cat /tmp/by-block
        same "$(cat /tmp/by-chario)" "$(cat /tmp/by-block)" "the errors"
        grep -q -- '-61' /tmp/by-chario || fail "a medium error is ENODATA"
        python3 - <<'P' || fail "the n-th command"
import mmap, os
import device as d
file = d.opened()
area = mmap.mmap(-1, 16 << 20)
view = memoryview(area)
command = d.info(file)["command_bytes"]
# The command with the bad sector fails; the bytes of all commands before it are returned, in whichever unit they are.
assert os.preadv(file, [view[:4 << 20]], 0) == (1 << 20) // command * command
assert os.preadv(file, [view[:12 << 20]], 2 << 20) == 4 << 20
assert os.pwritev(file, [view[:12 << 20]], 2 << 20) == 5 << 20
d.poll(file)
assert os.preadv(file, [view[:12 << 20]], 2 << 20) == 4 << 20
assert d.counter("errors") >= 4 and d.counter("timeouts") == 0
assert os.preadv(file, [view[:4 << 20]], 2 << 20) == 4 << 20
P
        same "$(pages_out)" "$pinned_before" "pinned pages"
        """,
        "--drive", f"{DRIVE},mdts=5,blkdebug={rules}", kernel=kernel, bind=False,
    )  # fmt: skip


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_kill_9_in_the_middle_of_a_read(kernel):
    chario(
        r"""
        cat >/tmp/reader.py <<'P'
import os, sys
import device as d
file = d.opened()
if sys.argv[1] == "poll":
    d.poll(file)
area, address = d.memory(32 << 20)
number = d.register(file, address, 32 << 20)
print("ready", flush=True)
while True:
    if sys.argv[1] == "registered":
        d.transfer(file, 0, 32 << 20, 0, number)
    else:
        d.call("pread", file, address, 32 << 20, 0)
P
        for mode in plain poll registered; do
          rm -f /tmp/ready; mkfifo /tmp/ready
          python3 /tmp/reader.py $mode >/tmp/ready &
          victim=$!
          read -r word </tmp/ready
          began=$(counter read_commands)
          until [ $(counter read_commands) -gt $began ]; do kill -0 $victim || fail "it ended"; done
          kill -9 $victim; wait $victim 2>/dev/null
          same "$(cat $CLASS/open_files)" 0 "open files after kill -9"
        done
        dd if=$NODE of=/dev/null bs=1M count=16 status=none || fail "it does not read any more"
        same "$(counter timeouts) $(counter resets)" "0 0" "recovery"
        same "$(pages_out)" "$pinned_before" "pinned pages"
        rc 0 $S release $NODE; rmmod chario
        """,
        "--drive", f"{DRIVE},mdts=5", kernel=kernel,
    )  # fmt: skip


# iops=2: the third command of a second is late; mdts=1 makes 8 commands of 64 KiB. QEMU lets a command that it cannot abort
# complete when its queue is deleted: then it has not failed.
@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_late_commands_are_ended_once_and_the_drive_works_again(kernel):
    chario(
        r"""
        cat >/tmp/late.py <<'P'
import errno, os, threading, time
import device as d
file = d.opened()
area, address = d.memory(1 << 20)
def late():
    area[:64 << 10] = bytes(64 << 10)
    began = time.monotonic()
    try:
        done = d.call("pread", file, address, 64 << 10, 0)
        assert done == 64 << 10 and area[:64 << 10] == pattern, done
    except OSError as error:
        assert error.errno == errno.ETIMEDOUT, error
        done = "timed out"
    took = time.monotonic() - began
    assert took < 60, took
    print(done, round(took, 1), "s:", {name: d.counter(name) for name in ("timeouts", "aborts", "queue_resets", "resets", "cancelled")})
pattern = os.urandom(8 << 10) * 8
for at in range(0, 64 << 10, 8 << 10):
    area[:8 << 10] = pattern[:8 << 10]
    assert d.call("pwrite", file, address, 8 << 10, at) == 8 << 10
time.sleep(2)
late()
assert d.counter("timeouts") > 0 and d.counter("aborts") > 0 and d.counter("queue_resets") > 0
time.sleep(3)
assert d.call("pread", file, address, 8 << 10, 0) == 8 << 10
d.poll(file)
time.sleep(1)
before = d.counter("timeouts")
late()
assert d.counter("timeouts") > before
time.sleep(3)
assert d.call("pread", file, address, 8 << 10, 0) == 8 << 10
P
        python3 /tmp/late.py || fail "late commands"
        same "$(pages_out)" "$pinned_before" "pinned pages"
        same "$(cat $CLASS/state)" live "the state"
        """,
        "--drive", f"{DRIVE},mdts=1,iops=2", kernel=kernel, load="timeout_ms=400", timeout=300,
    )  # fmt: skip


def test_a_killed_reader_of_a_drive_that_does_not_answer_is_gone_in_seconds():
    chario(
        r"""
        before=$(counter read_commands)
        dd if=$NODE of=/dev/null bs=64K status=none &
        victim=$!
        # Not by its state: a program that is being loaded also waits.
        until [ $(counter read_commands) -gt $before ]; do kill -0 $victim || fail "it ended"; done
        kill -9 $victim; began=$SECONDS
        wait $victim 2>/dev/null
        [ $((SECONDS - began)) -lt 60 ] || fail "it took $((SECONDS - began)) s"
        echo "gone after $((SECONDS - began)) s; timeouts $(counter timeouts)"
        [ $(counter timeouts) -gt 0 ] || fail "no recovery"
        same "$(pages_out)" "$pinned_before" "pinned pages"
        """,
        "--drive", f"{DRIVE},mdts=1,iops=1", load="timeout_ms=600000", timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_resets_under_load_lose_nothing(kernel):
    chario(
        r"""
        head -c 12M /dev/urandom >/tmp/data
        dd if=/tmp/data of=$NODE bs=4M conv=fsync status=none
        for mode in interrupt poll; do
          (for turn in 1 2 3 4; do
             $S read $NODE --length 12M --checksum --mode $mode --block-size 4M 2>/dev/null || echo failed
           done >/tmp/sums) &
          reader=$!
          turns=0
          while kill -0 $reader 2>/dev/null; do
            echo 1 >$CLASS/reset || fail "reset"
            echo 1 >/sys/bus/pci/devices/$BDF/reset 2>/dev/null
            turns=$((turns + 1)); sleep 0.2
          done
          wait $reader
          same "$(sort -u /tmp/sums)" "$(sum </tmp/data)" "what was read by $mode under $turns resets"
        done
        echo "cancelled $(counter cancelled), resets $(counter resets)"
        [ $(counter resets) -gt 4 ] || fail "no resets"
        same "$(counter errors) $(counter timeouts)" "0 0" "errors"
        same "$(pages_out)" "$pinned_before" "pinned pages"
        """,
        "--drive", f"{DRIVE},mdts=5", kernel=kernel, timeout=300,
    )  # fmt: skip


def test_a_lost_interrupt_is_found():
    chario(
        r"""
        # The function mask of MSI-X: interrupts are held back, as if they had been lost.
        control=$(setpci -s ${BDF#0000:} CAP_MSIX+2.w)
        setpci -s ${BDF#0000:} CAP_MSIX+2.w=$(printf %x $((0x$control | 0x4000)))
        dd if=$NODE of=/dev/null bs=4M count=2 status=none || fail "a read without interrupts"
        [ $(counter lost_interrupts) -ge 2 ] || fail "$(counter lost_interrupts) were found"
        setpci -s ${BDF#0000:} CAP_MSIX+2.w=$control
        dd if=$NODE of=/dev/null bs=4M count=2 status=none
        same "$(counter timeouts) $(counter errors)" "0 0" "errors"
        """,
        "--drive", DRIVE, load="timeout_ms=4000",
    )  # fmt: skip


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_drive_whose_registers_are_gone(kernel):
    chario(
        r"""
        cat >/tmp/gone.py <<'P'
import errno, os, select, time
import device as d
file = d.opened()
area, address = d.memory(8 << 20)
number = d.register(file, address, 8 << 20)
print("ready", flush=True)
began = time.monotonic()
while True:
    try:
        d.call("pread", file, address, 8 << 20, 0)
    except OSError as error:
        assert error.errno == errno.ENODEV, error
        break
    assert time.monotonic() - began < 30, 'it took as long as a command may'
for _ in range(2):
    d.fails(errno.ENODEV, d.transfer, file, 0, 4096, 0, number)
d.fails(errno.ENODEV, os.fsync, file)
poll = select.poll(); poll.register(file)
assert poll.poll(0)[0][1] & select.POLLHUP
P
        mkfifo /tmp/ready
        python3 /tmp/gone.py >/tmp/ready & reader=$!
        read -r word </tmp/ready
        # Memory space off: its registers are not accessible.
        setpci -s ${BDF#0000:} COMMAND=0000
        wait $reader || fail "the reader"
        same "$(cat $CLASS/state)" dead "the state"
        rc 0 $S release $NODE; driver_is nvme
        same "$(pages_out)" "$pinned_before" "pinned pages"
        rc 0 $S read /dev/nvme0n1 --path chario --length 1M --checksum
        rmmod chario || fail "it is not unloaded"
        """,
        "--drive", DRIVE, kernel=kernel, timeout=300,
    )  # fmt: skip


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_drive_that_is_unplugged_while_it_is_read(kernel, tmp_path):
    script = prelude(kernel).replace("chario_load \nto_chario", "chario_load\nBDF=0000:01:00.0; to_chario") + r"""
    cat >/tmp/unplugged.py <<'P'
import errno, time
import device as d
file = d.opened()
area, address = d.memory(8 << 20)
number = d.register(file, address, 8 << 20)
print("host:unplug", flush=True)
began = time.monotonic()
while True:
    try:
        d.call("pread", file, address, 8 << 20, 0)
    except OSError as error:
        assert error.errno == errno.ENODEV, error
        break
    assert time.monotonic() - began < 100
d.fails(errno.ENODEV, d.transfer, file, 0, 4096, 0, number)
d.fails(errno.ENOENT, d.opened)
P
    python3 /tmp/unplugged.py || fail "the reader"
    [ ! -e $NODE ] && [ ! -e /sys/bus/pci/devices/$BDF ] || fail "it is still there"
    same "$(pages_out)" "$pinned_before" "pinned pages"
    rmmod chario || fail "it is not unloaded"
    no_trouble
    """
    hotplug_guest(script, tmp_path, "--kernel", kernel, *ONE_CPU)


SEED = os.environ.get("STRAIGHTWAY_SEED", str(int(time.time())))
FUZZ_CALLS = budget.states(25_000)


@pytest.mark.cells("kernel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_hostile_arguments(kernel):
    print(f"STRAIGHTWAY_SEED={SEED}")
    # A folder in which a running guest sees a new file.
    program = ROOT / "out" / "chario" / f"fuzz-{kernel}"
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([f"{scripted.TARGET.arch}-linux-gnu-gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", ROOT / "kernel/chario",
                    "-o", program, ROOT / "tests/chario/fuzz.c"], check=True)  # fmt: skip
    output = chario(
        rf"""
        out/chario/fuzz-{kernel} $NODE {SEED} {FUZZ_CALLS} || fail "the fuzzer ended with $?"
        same "$(cat $CLASS/open_files)" 0 "open files"
        same "$(pages_out)" "$pinned_before" "pinned pages"
        same "$(awk '/^(Mlocked|Unevictable)/ {{ s += $2 }} END {{ print s }}' /proc/meminfo)" 0 "locked memory"
        same "$(counter timeouts) $(counter resets) $(counter stray_completions)" "0 0 0" "recovery"
        dd if=$NODE of=/dev/null bs=1M count=16 status=none || fail "it does not read any more"
        rc 0 $S release $NODE; rmmod chario || fail "it is not unloaded"
        """,
        "--drive", f"{DRIVE},mdts=5", kernel=kernel,
        load="windows=$WINDOW:32M", timeout=600 + FUZZ_CALLS // 100,
    )  # fmt: skip
    calls = re.search(r"(\d+) calls", output)
    assert calls and int(calls[1]) == FUZZ_CALLS, output
