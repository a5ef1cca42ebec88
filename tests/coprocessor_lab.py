# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The coprocessor in the lab, for its tests: started, read, commanded, stopped.

A start is repeated once, and counted, when the emulator itself was ended by a signal before the firmware's first word.
"""

import json
import os
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from scripted import ROOT

COMMAND = os.environ.get("STRAIGHTWAY_COMMAND", str(ROOT / "target/release/straightway"))
# Built by `tools/test firmware`.
FILES = os.environ.get("STRAIGHTWAY_COPROCESSOR_FILES", str(ROOT / "target/release/examples/coprocessor"))
SERIAL = "LAB1"
# The message of lab/coprocessor in this case.
CRASHED = "lab/coprocessor: QEMU was ended by signal"


class Running:
    """A running coprocessor; `log` is its output so far."""

    def __init__(self, process, window):
        self.process, self.window, self.log = process, window, []
        self.name = f"coprocessor:{window}"
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._news:
                self.log.append(line.rstrip())
                self._news.notify_all()
        with self._news:
            self.log.append("(ended)")
            self._news.notify_all()

    def wait_for(self, text, count=1, timeout=120):
        """Waits until `count` lines begin with `text`."""
        def found():
            return sum(line.startswith(text) for line in self.log) >= count

        with self._news:
            assert self._news.wait_for(lambda: found() or "(ended)" in self.log, timeout), self.log
        assert found(), f"no {text!r}: {self.log}"

    def crashed_at_once(self):
        """Whether the emulator ended before the emulated machine printed anything; waits until either happens."""
        with self._news:
            self._news.wait_for(lambda: self.log, 120)
            if self.log and self.log[0].startswith(CRASHED):
                self._news.wait_for(lambda: "(ended)" in self.log, 60)
        return bool(self.log) and self.log[0].startswith(CRASHED)

    def count(self, text):
        return sum(text in line for line in self.log)

    def qemu(self):
        """The machine's process."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in children.read_text().split():
            if Path(f"/proc/{child}/comm").read_text().startswith("qemu-system"):
                return int(child)
        raise AssertionError("there is no machine")

    def straightway(self, *words, stdin=None, timeout=240):
        done = subprocess.run([COMMAND, *map(str, words)], input=stdin, capture_output=True, timeout=timeout,
                              stdin=None if stdin else subprocess.DEVNULL)  # fmt: skip
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def good(self, *words, **options):
        status, output, errors = self.straightway(*words, **options)
        assert status == 0, f"{words} ended with {status}: {errors[-2000:]}{output[-2000:]}"
        return output

    def files(self, *words, timeout=240):
        """A command on files through the coprocessor's own volume."""
        done = subprocess.run([FILES, self.window, *map(str, words)], capture_output=True, text=True,
                              timeout=timeout)  # fmt: skip
        assert done.returncode == 0, f"{words}: {done.stderr[-2000:]}"
        return done.stdout


def command(window, *options):
    given = os.environ.get("STRAIGHTWAY_FIRMWARE")
    if given and not {"--bits", "--board", "--firmware"} & set(options):
        # An existing build, instead of calling cargo each time.
        options = ("--firmware", given, *options)
    return [ROOT / "lab" / "coprocessor", "--window", window, "--timeout", "400", *map(str, options)]


def start(folder, options, memory):
    window = Path(folder) / "window"
    window.unlink(missing_ok=True)
    if memory is not None:
        window.write_bytes(memory)
    process = subprocess.Popen(command(window, *options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")  # fmt: skip
    return Running(process, window)


def note_retry():
    """Adds it to the started guests, as lab/guest.py does."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    line = {"kind": "coprocessor", "seconds": 0, "retry": True, "stays": False, "test": test, "at": round(time.time(), 1)}
    if path := os.environ.get("LAB_BOOTS"):
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


@contextmanager
def coprocessor(folder, *options, ready="ready", memory=None):
    """A coprocessor that serves until the block ends; `memory` is the initial content of the window."""
    running = start(folder, options, memory)
    if running.crashed_at_once():
        note_retry()
        running.process.wait()
        running = start(folder, options, memory)
    process = running.process
    try:
        running.wait_for(ready)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
        # Generous: on a busy machine QEMU takes its time to end.
        process.wait(timeout=300)


def run_to_end(folder, *options):
    """A coprocessor that stops by itself: its log."""
    window = Path(folder) / "window"
    done = subprocess.run(command(window, *options), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=420)  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.replace("\r", "")


def wait_until(true, what, timeout=60):
    end = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)
