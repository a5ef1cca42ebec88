# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A guest that stays up: it boots once, then runs one command after the other, each with fresh drives.

Drives are plugged into root ports before a command and unplugged after it. What else a command may leave in the
guest (modules, settings, files) is undone, and what remains is compared with the guest's first state. lab/init is the
other end.
"""

import base64
import contextlib
import json
import re
import secrets
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import guest
import machine as machines
from drives import Drive, create_files, plug_commands
from guest import Guest, GuestFailed, Output, RunFolder, TimedOut

SLOTS = 2
# For the lab's own commands in the guest: generous, because the host may be busy.
LIMIT_S = 120
# QEMU refuses to repeat a request for a device within five seconds.
ASK_AGAIN_S = 15
# A guest none of whose threads ran for that long has missed an interrupt that QEMU owes it: even an idle one has timers.
STILL_S = 10
# An armed timer that is counted down in no such time belongs to a guest whose clock QEMU has stopped.
CLOCK_S = 0.5
# How long before its time limit a command that has not ended is inspected.
LATE_S = 5
# A busy guest prints its own report that much later, and again after a non-maskable interrupt.
REPORT_S = 20
# The last line of the report (lab/init, say_where).
REPORT_ENDS = "late: end"
# The beginning of the line of `look` that reports kernel warnings.
WARNED = "oops or warning: "
# The taint of an unsigned out-of-tree module: CharIO.
TAINT_OF_OUR_MODULES = 1 << 12 | 1 << 13


@dataclass
class Done:
    """The result of a command."""

    status: int
    stdout: str
    stderr: str


class Collected(Output):
    """A stream; everything before the end mark is stored."""

    def __init__(self, end_mark: str) -> None:
        super().__init__(-1, end_mark)
        self._data = bytearray()

    def _send(self, data: bytes) -> None:
        self._data += data

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")


class Resident(Guest):
    """A guest from its boot to `stop`."""

    def __init__(self, machine: machines.Machine, folder: Path, run: RunFolder) -> None:
        machine.slots = SLOTS
        super().__init__(machine, None, folder, run)
        self._folder = folder
        self._drives: list[Drive] = []
        self._remove: list[dict] = []
        self._streams: dict[str, socket.socket] = {}
        self._control: Control | None = None
        self._first_look: list[str] = []
        # How often QEMU had to be woken.
        self.woken = 0

    def boot(self) -> None:
        """Waits until the guest accepts commands; raises TimedOut, or GuestFailed."""
        began = time.monotonic()
        ours, theirs = socket.socketpair()
        self._streams = self._launch(theirs)
        self._control = Control(ours)
        self._follow({}, began + guest.BOOT_LIMIT, lambda: self._status.startswith(b"started\n"))
        self.started = True
        self._status = b""
        self._lab("remember")
        self._first_look = look_of(self._lab("look"))

    def execute(self, command: list[str], timeout: float) -> Done:
        """Runs a command as lab/run does. If the command does not end, the guest is unusable."""
        return self._execute("run", guest.command_script(self._machine, command, self._folder), timeout)

    def plug(self, drives: list[Drive]) -> None:
        """Adds drives: nvme0, nvme1, ... in their order."""
        assert self._control and not self._drives
        for index, drive in enumerate(drives):
            create_files(drive, index, self._held.path)
            add, remove = plug_commands(drive, index, self._held.path, f"slot{index}")
            self._remove += remove
            self._drives.append(drive)
            for command in add:
                self._control.ask(command)
            self._lab(f"await_drives {index + 1}")

    def clean_up(self) -> list[str]:
        """Removes everything that the last command had or left. Returns the differences from the first look."""
        assert self._control
        self._lab("undo")
        for index in range(len(self._drives)):
            self._control.unplug(f"nvme{index}")
        for command in self._remove:
            self._control.ask(command)
        for index, drive in enumerate(self._drives):
            for path in drive.files(index, self._held.path):
                if path.parent == self._held.path:
                    path.unlink()
        self._drives, self._remove = [], []
        look = look_of(self._lab("undo_modules; await_drives 0; look; dmesg -c >/dev/null"))
        gone = [f"no longer: {line}" for line in self._first_look if line not in look]
        return gone + [f"left: {line}" for line in look if line not in self._first_look]

    def console_size(self) -> int:
        path = self._held.console
        return path.stat().st_size if path.exists() else 0

    def console_since(self, size: int) -> list[str]:
        """The console's lines after its first `size` bytes."""
        path = self._held.console
        return path.read_bytes()[size:].decode(errors="replace").splitlines() if path.exists() else []

    def explain_silence(self, size: int) -> list[str]:
        """Why a command has not ended: the console after its first `size` bytes, and where QEMU and the guest are.

        A processor that waits for an interrupt that QEMU has lost is woken by a non-maskable one; the last line says whether
        that helped."""
        lines = self.whereabouts()
        lines.append(f"lab: the guest's clock {'stands' if self.clock_stands() else 'goes on'}; woken {self.woken} times")
        if not self._has_reported(size):
            self._control.ask({"execute": "inject-nmi"})
            helped = "it reported" if self._has_reported(size) else "still nothing"
            lines.append(f"lab: the guest did not report in {REPORT_S} s; after a non-maskable interrupt: {helped}")
        return self.console_since(size) + lines

    def _has_reported(self, size: int) -> bool:
        """Waits for the guest's own report of a command that is late, and for its end."""
        until = time.monotonic() + REPORT_S
        while time.monotonic() < until:
            if any(REPORT_ENDS in line for line in self.console_since(size)):
                return True
            time.sleep(0.1)
        return False

    def whereabouts(self) -> list[str]:
        """Where a guest is that says nothing: QEMU's threads, and the registers and timers of the guest's processors."""
        lines = [f"qemu: {line}" for line in self.threads()]
        for command in ("info registers -a", *(f"info lapic {cpu}" for cpu in range(self._machine.cpus))):
            try:
                text = self._monitor(command)
            except (GuestFailed, OSError) as error:
                return [*lines, f"qemu: no answer to {command}: {error}"]
            lines += [f"qemu: {line.strip()}" for line in text.splitlines() if re.search(r"^CPU#|HLT=|LVTT\t|ISR|IRR|count", line)]
        return lines

    def clock_stands(self) -> bool:
        """Whether some processor's timer is armed and is not counted down: then nothing in the guest is ever due again.

        False where that cannot be told: without an armed timer, or another architecture's."""
        if self._machine.arch != "x86_64":
            return False
        before = self._timers()
        time.sleep(CLOCK_S)
        return any(before) and before == self._timers()

    def _timers(self) -> list[str]:
        """What is left of each processor's timer, where it is armed."""
        texts = [self._monitor(f"info lapic {cpu}") for cpu in range(self._machine.cpus)]
        return [left for text in texts for left in re.findall(r"current_count = ([1-9][0-9]*)", text)]

    def _monitor(self, command: str) -> str:
        return str(self._control.ask({"execute": "human-monitor-command", "arguments": {"command-line": command}}))

    def stop(self) -> None:
        self._stop()
        for stream in self._streams.values():
            stream.close()
        if self._control:
            self._control.close()
        self._held.console.unlink(missing_ok=True)

    @property
    def _run_folder(self) -> RunFolder:
        return self._held

    def _lab(self, script: str) -> str:
        """Runs the lab's own script in the guest."""
        done = self._execute("do", script, LIMIT_S)
        if done.status != 0 or done.stderr:
            raise GuestFailed(f"the lab's `{script}` ended with {done.status}: {done.stderr.strip()}")
        return done.stdout

    def _execute(self, what: str, script: str, timeout: float) -> Done:
        mark = f"lab-end-{secrets.token_hex(16)}"
        outputs = {"stdout": Collected(mark), "stderr": Collected(mark)}
        # Shortly before the limit the guest prints on the console where the command's threads are.
        late_s = max(int(timeout) - LATE_S, 1)
        line = f"{what} {mark} {late_s} {base64.b64encode(script.encode()).decode()}\n"
        self._status = b""
        self._streams["status"].sendall(line.encode())
        self._follow(outputs, time.monotonic() + timeout,
                     lambda: self._exit_status() is not None and all(output.ended for output in outputs.values()))
        status = self._exit_status()
        assert status is not None
        return Done(status, outputs["stdout"].text, outputs["stderr"].text)

    def _wake_if_still(self, ran_before_ns: int) -> int:
        """Stops and continues the guest if QEMU has not run since, or its clock stands; returns how long it has run by now.

        QEMU 7.2 can lose the wake-up between one of its threads and another: expired timers and pending interrupts then
        wait for whatever next wakes the thread. Both commands wake all of them, and start the clock."""
        ran_ns = self.ran_ns()
        if self._control and (ran_ns == ran_before_ns or self.clock_stands()):
            self._control.ask({"execute": "stop"})
            self._control.ask({"execute": "cont"})
            self.woken += 1
        return ran_ns

    def _follow(self, outputs: dict[str, Output], end: float, is_done: Callable[[], bool]) -> None:
        """Reads what the guest sends until the condition holds."""
        with selectors.DefaultSelector() as selector:
            for name, stream in self._streams.items():
                selector.register(stream, selectors.EVENT_READ, name)
            ran_ns = self.ran_ns()
            while not is_done():
                ready = selector.select(min(max(end - time.monotonic(), 0), STILL_S))
                if not ready and time.monotonic() >= end:
                    raise TimedOut
                if not ready:
                    ran_ns = self._wake_if_still(ran_ns)
                for key, _ in ready:
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        self._explain_end()
                    if key.data == "status":
                        self._status += data
                    elif key.data in outputs:
                        outputs[key.data].write(data)


def look_of(text: str) -> list[str]:
    """The output of lab/init's `look`, without what always differs between two looks."""
    lines = []
    for line in text.splitlines():
        file, _, rest = line.partition(":")
        if file == "/proc/modules":
            line = f"module {rest.split()[0]}"
        elif file == "/proc/sys/kernel/tainted":
            line = f"{WARNED}{int(rest) & ~TAINT_OF_OUR_MODULES}"
        lines.append(line)
    return lines


class Silent(GuestFailed):
    """QEMU did not send the expected message."""


class Control:
    """QEMU's control protocol (QMP) on a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""
        self._deleted: set[str] = set()
        self._greeted = False

    def ask(self, command: dict) -> object:
        if not self._greeted:
            self._receive()
            self._greeted = True
            self.ask({"execute": "qmp_capabilities"})
        self._connection.sendall(json.dumps(command).encode() + b"\n")
        while True:
            message = self._receive()
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise GuestFailed(f"QEMU refused {json.dumps(command)}: {message['error']['desc']}")

    def unplug(self, name: str) -> None:
        """Asks the guest to release a device and waits until it has."""
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                self.ask({"execute": "device_del", "arguments": {"id": name}})
                break
            except GuestFailed as error:
                # The port's indicator still blinks from the drive's arrival: a guest on a busy machine takes seconds.
                if "guest is busy" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.5)
        self.await_unplugged(name)

    def await_unplugged(self, name: str) -> None:
        """Waits until the guest has released a requested device. Repeats the request: occasionally the guest does not notice
        it, or QEMU does not notice that the guest has complied."""
        until = time.monotonic() + LIMIT_S
        while True:
            with contextlib.suppress(Silent):
                while name not in self._deleted:
                    self._receive(time.monotonic() + ASK_AGAIN_S)
            if name in self._deleted:
                return self._deleted.remove(name)
            if time.monotonic() > until:
                raise GuestFailed(f"the guest kept {name} for {LIMIT_S} s")
            try:
                self.ask({"execute": "device_del", "arguments": {"id": name}})
            except GuestFailed as error:
                # The device left during the repeated request, or before it without a message of QEMU, because something in QEMU
                # still refers to it.
                if name not in self._deleted and "not found" not in str(error):
                    raise
                self._deleted.add(name)

    def close(self) -> None:
        self._connection.close()

    def _receive(self, end: float | None = None) -> dict:
        """The next message; raises Silent if there is none until the deadline."""
        end = time.monotonic() + LIMIT_S if end is None else end
        while b"\n" not in self._received:
            self._connection.settimeout(max(end - time.monotonic(), 0.01))
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError as error:
                raise Silent(f"QEMU sent nothing for {LIMIT_S} s") from error
            if not data:
                raise GuestFailed("QEMU closed its control socket")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        message = json.loads(line)
        if message.get("event") == "DEVICE_DELETED":
            self._deleted.add(message["data"].get("device", ""))
        return message
