# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run of a guest: its folder, its job, QEMU's life, and the streams on their way to the caller.

The guest's three serial ports are connected sockets, so nothing of a run has a name that another run
could meet. A guest ends in one way: it reports its command's status, its output ends with a mark that is
made for this run, and then QEMU is asked to stop, which writes back the drives' cached data.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import secrets
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import count
import image
import machine as machines
from drives import create_files, drivers
from machine import Machine

PORTS = ("status", "stdout", "stderr")
# What is typed waits for the first output of the terminal's program, but no longer than this.
FIRST_OUTPUT_S = 2.0
END_OF_INPUT = b"\4"
# A guest boots in seconds, on a busy machine in half a minute; if it takes longer than this, it hangs.
BOOT_LIMIT = 120
STOP_LIMIT = 10
CONSOLES_KEPT = 20
PR_SET_PDEATHSIG = 1


def ports_of(machine: Machine) -> tuple[str, ...]:
    return (*PORTS, machines.TERMINAL) if machine.has_terminal else PORTS


class GuestFailed(Exception):
    """The guest ended, or never began, without its command's status."""


class Crashed(GuestFailed):
    """QEMU itself was ended by a signal."""


class ClockStands(Crashed):
    """QEMU no longer counts the guest's timers down, so that nothing in the guest is due again."""


class Refused(Exception):
    """QEMU did not take its command line."""


class TimedOut(Exception):
    """The time limit passed."""


# --- The job --------------------------------------------------------------------------------------


def job(
    machine: Machine, modules: Path, command: list[str] | None, folder: Path, end_mark: str, late_s: int
) -> dict[str, bytes]:
    """The two files that lab/init reads. Without a command the guest stays up and waits for commands; with one it reports
    where the command's threads are when it has been up for `late_s`."""
    host = "/host" if machine.arch != "x86_64" else ""
    # A repository below /tmp must stay visible where the guest has a /tmp of its own.
    keep = str(image.REPOSITORY) if not host and image.REPOSITORY.is_relative_to("/tmp") else ""
    lines = [f"COMMAND_PATH={shlex.quote(_path(machine))}", f"MODULES={shlex.quote(host + str(modules))}"]
    disks = sum(drive.interface != "nvme" for drive in machine.drives)
    lines += [f"DRIVERS={shlex.quote(' '.join(drivers(machine.drives)))}", f"DISKS={disks}"]
    lines += [f"COUNT_WAITS={shlex.quote(str(count.waits()) if machine.count else '')}"]
    lines += [f"END_MARK={end_mark}", f"STAY={'' if command else 1}", f"LATE_S={late_s}"]
    lines += [f"KEEP={shlex.quote(keep)}", "mount_shares() {"]
    for tag, source, writable in machines.shares(machine):
        if tag == "host":
            repository = shlex.quote(str(image.REPOSITORY))
            lines += ["share host /host ro", f"nested /host{repository} {repository}"]
        elif tag != "root":
            lines.append(f"share {tag} {shlex.quote(str(source))} {'rw' if writable else 'ro'}")
    lines.append("}")
    script = command_script(machine, command, folder) if command else ""
    return {name: os.fsencode(text) for name, text in (("job", "\n".join(lines) + "\n"), ("command", script))}


def command_script(machine: Machine, command: list[str], folder: Path) -> str:
    """The shell script that becomes the command, with its environment and in its folder."""
    script = [f"export {name}={shlex.quote(value)}" for name, value in _environment(machine).items()]
    script.append(f"cd -- {shlex.quote(str(folder))} || exit 125")
    script.append("exec " + shlex.join(command))
    return "\n".join(script) + "\n"


def _path(machine: Machine) -> str:
    if machine.arch != "x86_64":
        return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return os.environ.get("PATH", os.defpath)


def _environment(machine: Machine) -> dict[str, str]:
    """The command's part of the caller's environment: little, so that runs are reproducible."""
    passed = {"LANG", "LC_ALL", "RUST_BACKTRACE", "RUST_LOG", "PYTHONPATH", "VIRTUAL_ENV"}
    chosen = {name: value for name, value in os.environ.items() if name in passed or name.startswith("STRAIGHTWAY_")}
    chosen["HOME"] = os.environ.get("HOME", "/root") if machine.arch == "x86_64" else "/root"
    if machine.count:
        # Below a shared folder, the command may read there what it cost so far.
        chosen["STRAIGHTWAY_COUNTS"] = str(machine.count)
    return chosen | {"PATH": _path(machine), "STRAIGHTWAY_LAB": "1", "USER": "root", "LOGNAME": "root", "TERM": "dumb"}


# --- The run's folder -----------------------------------------------------------------------------


class RunFolder:
    """build/lab/run-PID, held by a lock on the folder itself; removed at the end of the run.

    A process that has several adds a suffix.

    The next run removes what a killed run left behind: a lock ends with its process.
    """

    def __init__(self, suffix: str = "") -> None:
        self.path = image.BUILD / f"run-{os.getpid()}{suffix}"
        self.console = image.BUILD / f"console-{os.getpid()}{suffix}.log"
        self._lock = -1

    def __enter__(self) -> "RunFolder":
        image.BUILD.mkdir(parents=True, exist_ok=True)
        # Between creating a folder and locking it, no other run may inspect it.
        with open(image.BUILD / ".runs.lock", "w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            _sweep(self.path)
            self.path.mkdir(mode=0o700)
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(mine: Path) -> None:
    for path in image.BUILD.glob("run-*"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(path, ignore_errors=True)
            path.with_name(f"console-{path.name.removeprefix('run-')}.log").unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    logs = sorted(image.BUILD.glob("console-*.log"), key=lambda log: log.stat().st_mtime)
    for log in logs[:-CONSOLES_KEPT]:
        log.unlink(missing_ok=True)


# --- Counting boots -------------------------------------------------------------------------------


def kind_of(machine: Machine) -> str:
    """A human-readable name of a machine without its drives."""
    words = [machine.kernel, machine.arch, f"{machine.cpus} CPU", f"{machine.memory >> 20}M"]
    words.append(f"iommu {machine.iommu_width}" if machine.iommu else "no iommu")
    words += [machine.kernel_arguments] if machine.kernel_arguments else []
    words += [f"icount {machine.icount}"] if machine.icount else []
    return ", ".join(words)


def note_boot(machine: Machine, seconds: float, is_retry: bool) -> None:
    """Adds a line to the file named by LAB_BOOTS, if set: for a test run, which reports its number of guests."""
    path = os.environ.get("LAB_BOOTS")
    if not path:
        return
    # pytest's name of the running test, and its phase.
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    line = {"kind": kind_of(machine), "seconds": round(seconds, 2), "retry": is_retry, "stays": machine.slots > 0,
            "test": test, "at": round(time.time(), 1)}  # fmt: skip
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")


# --- QEMU -----------------------------------------------------------------------------------------


def _die_with_parent() -> None:
    """In QEMU's process: killed when lab/run is, even by SIGKILL."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _be_undisturbed() -> None:
    """The clean-up is short, and an interrupted one is worse than a late reaction to a second Ctrl-C."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


class Guest:
    """QEMU from start to stop."""

    def __init__(
        self, machine: Machine, command: list[str] | None, folder: Path, run: RunFolder, late_s: int = 0
    ) -> None:
        self._machine = machine
        self._held = run
        self._end_mark = f"lab-end-{secrets.token_hex(16)}"
        self._process: subprocess.Popen | None = None
        self._status = b""
        self.started = False
        # Processor time of QEMU: distinguishes a guest that hangs from one that gets no time.
        self.spent_s = 0.0
        # Its threads when a command reached its time limit.
        self.where: list[str] = []
        kernel = image.find_kernel(machine.kernel, machine.arch)
        initrd = run.path / "initrd"
        self._boot = {"kernel": image.boot_image(kernel), "initrd": initrd}
        with open(initrd, "wb") as file:
            file.write(image.initramfs(kernel).read_bytes())
            file.write(image.job_archive(job(machine, kernel.modules, command, folder, self._end_mark, late_s)))
        for index, drive in enumerate(machine.drives):
            create_files(drive, index, run.path)

    def run(self, on_start: Callable[[], None]) -> int:
        """Runs the command and returns its status; its output goes to descriptors 1 and 2."""
        streams = self._launch()
        try:
            return self._serve(streams, on_start)
        except TimedOut:
            self.where = self.threads()
            raise
        finally:
            _be_undisturbed()
            self._stop()
            for stream in streams.values():
                stream.close()
            self._sort_traces()

    def _launch(self, control: socket.socket | None = None) -> dict[str, socket.socket]:
        """Starts QEMU; `control` becomes its side of the control protocol."""
        machines.OUT.mkdir(exist_ok=True)
        # A 9p server holds a descriptor for every file that the guest has open.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        ours, theirs = {}, {}
        for name in ports_of(self._machine):
            ours[name], theirs[name] = socket.socketpair()
        arguments = machines.command_line(
            self._machine, self._boot, self._held.path, self._held.console,
            {name: end.fileno() for name, end in theirs.items()},
        )  # fmt: skip
        if control:
            theirs["control"] = control
            arguments += machines.control_port(control.fileno())
        with open(self._held.path / "qemu.log", "wb") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                pass_fds=[end.fileno() for end in theirs.values()], preexec_fn=_die_with_parent,
            )  # fmt: skip
        for end in theirs.values():
            end.close()
        return ours

    def _serve(self, streams: dict[str, socket.socket], on_start: Callable[[], None]) -> int:
        assert self._process
        outputs = {"stdout": Output(1, self._end_mark), "stderr": Output(2, self._end_mark)}
        terminal = Terminal(streams.get(machines.TERMINAL))
        # Of the kinds of selectors only this one takes a file as input too.
        with selectors.PollSelector() as selector:
            for name, stream in streams.items():
                selector.register(stream, selectors.EVENT_READ, name)
            # Sockets end when QEMU does, so there is nothing else to wait for.
            while any(key.data != "input" for key in selector.get_map().values()):
                for key, _ in selector.select(terminal.wait_s(self.started)):
                    if key.data == "input":
                        terminal.type(selector)
                        continue
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data == machines.TERMINAL:
                        terminal.show(data)
                    elif key.data == "status":
                        self._status += data
                        if not self.started and self._status.startswith(b"started\n"):
                            self.started = True
                            on_start()
                    else:
                        outputs[key.data].write(data)
                terminal.listen(selector, self.started)
                status = self._exit_status()
                if status is not None and all(output.ended for output in outputs.values()):
                    return status
        self._explain_end()
        raise AssertionError("unreachable")

    def _exit_status(self) -> int | None:
        for line in self._status.split(b"\n")[:-1]:
            word, _, number = line.partition(b" ")
            if word == b"exit":
                return int(number)
        return None

    def _explain_end(self) -> None:
        assert self._process
        try:
            code = self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise GuestFailed(f"QEMU closed the guest's ports and did not end in {STOP_LIMIT} s") from None
        words = (self._held.path / "qemu.log").read_text(errors="replace").strip()
        console = self._held.console
        if code > 0 and not (console.exists() and console.stat().st_size):
            raise Refused(f"QEMU refused the machine: {words or f'it ended with status {code}'}")
        if code < 0:
            raise Crashed(f"QEMU was ended by signal {-code}" + (f": {words}" if words else ""))
        when = "before its command ended" if self.started else "before it started its command"
        raise GuestFailed(f"the guest stopped {when}" + (f"; QEMU says: {words}" if words else ""))

    def _stop(self) -> None:
        """SIGTERM lets QEMU close the drives' files cleanly, which takes milliseconds."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.spent_s = self.processor_time_s()
        process.terminate()
        try:
            process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def process_id(self) -> int:
        """Of QEMU; 0 before its start."""
        return self._process.pid if self._process else 0

    def processor_time_s(self) -> float:
        """Of QEMU, since its start; 0 once it has ended: then it is among the children's that ended."""
        if self._process is None or self._process.poll() is not None:
            return 0.0
        ticks = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def ran_ns(self) -> int:
        """The time that QEMU's threads have run, to the nanosecond: the same twice if none did. Falls when a thread ends."""
        total = 0
        for task in Path(f"/proc/{self.process_id()}/task").glob("*"):
            with contextlib.suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total

    def threads(self) -> list[str]:
        """QEMU's threads: name, state, processor time in seconds, and the function of the host's kernel that each waits in."""
        lines = []
        for task in sorted(Path(f"/proc/{self.process_id()}/task").glob("*")):
            # A thread can end at any time.
            with contextlib.suppress(OSError):
                name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
                words = rest.split()
                seconds = sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")
                lines.append(f"{name} {words[0]} {seconds:.2f} s {(task / 'wchan').read_text()}")
        return lines

    def _sort_traces(self) -> None:
        traces = self._machine.traces
        log = machines.trace_log(self._machine, self._held.path) if traces else None
        if log is None or log.parent != self._held.path or not log.exists():
            return
        files = {path: open(path, "wb") for _, path in traces}
        try:
            with open(log, "rb") as lines:
                for line in lines:
                    event = line.split(b" ", 1)[0].decode(errors="replace").strip()
                    for path in {path for pattern, path in traces if fnmatchcase(event, pattern)}:
                        files[path].write(line)
        finally:
            for file in files.values():
                file.close()


class Terminal:
    """The guest's terminal, if it has one: the caller's input goes there, and what it shows to the caller's output."""

    def __init__(self, stream: socket.socket | None) -> None:
        self._stream = stream
        self._opens_at: float | None = None
        self._is_open = False
        self._ends_at: float | None = None

    def wait_s(self, has_started: bool) -> float | None:
        """How long to wait for anything else before `listen`."""
        is_due = self._ends_at or not self._is_open
        return FIRST_OUTPUT_S / 2 if self._stream and has_started and is_due else None

    def listen(self, selector: selectors.BaseSelector, has_started: bool) -> None:
        """Takes input from now on, if the program is there: one that sets its terminal up would lose a part of what came before."""
        if not self._stream or not has_started:
            return
        if self._ends_at and time.monotonic() >= self._ends_at:
            # Again and again: a shell that is just setting its terminal up does not see one.
            self._ends_at = time.monotonic() + FIRST_OUTPUT_S / 2
            with contextlib.suppress(OSError):
                self._stream.sendall(END_OF_INPUT)
        if self._is_open:
            return
        self._opens_at = self._opens_at or time.monotonic() + FIRST_OUTPUT_S
        if time.monotonic() >= self._opens_at:
            self._is_open = True
            selector.register(0, selectors.EVENT_READ, "input")

    def type(self, selector: selectors.BaseSelector) -> None:
        assert self._stream
        typed = os.read(0, 1 << 12)
        if typed:
            self._stream.sendall(typed)
        else:
            selector.unregister(0)
            self._ends_at = time.monotonic()

    def show(self, data: bytes) -> None:
        self._opens_at = 0.1
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


class Output:
    """One output stream of the command: everything before the end mark, as soon as it arrives."""

    def __init__(self, descriptor: int, end_mark: str) -> None:
        self._descriptor = descriptor
        self._mark = b"\1" + end_mark.encode() + b"\1"
        self._held = b""
        self.ended = False

    def write(self, data: bytes) -> None:
        if self.ended:
            return
        data = self._held + data
        place = data.find(self._mark)
        if place >= 0:
            self.ended = True
            self._held = b""
            self._send(data[:place])
            return
        # A tail that may be the beginning of the mark waits for more data.
        keep = next((n for n in range(min(len(self._mark) - 1, len(data)), 0, -1) if data.endswith(self._mark[:n])), 0)
        self._held = data[len(data) - keep :]
        self._send(data[: len(data) - keep])

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
