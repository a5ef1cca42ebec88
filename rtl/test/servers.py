# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Processes that play the other end for a lab guest, and what they say when the guest is stuck."""

import contextlib
import re
import signal
import subprocess
import time

import pytest


class Server:
    """A bench with the file to which it writes."""

    def __init__(self, log, words):
        self.log = log
        with open(log, "w") as file:
            self.process = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    @property
    def said(self):
        return self.log.read_text(errors="replace")

    def until(self, condition):
        while not condition():
            assert self.process.poll() is None, self.said
            time.sleep(0.05)

    def where(self):
        """The end of what it said; if it still runs, with what it says when it is asked where it stands (rtl/sim/asked.hpp)."""
        status = self.process.poll()
        if status is None:
            before = len(self.said)
            self.process.send_signal(signal.SIGUSR2)
            # The first line comes from the signal's handler, the others from the loop, which may be what is stuck.
            for _ in range(40):
                if len(re.findall(r"\n", self.said[before:])) > 1:
                    break
                time.sleep(0.05)
        what = "runs" if status is None else f"ended with {status}"
        return f"{self.log.name} {what}:\n{self.said[-2000:]}"

    def end(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running(log, *words):
    """A `Server`, which is killed at the end."""
    server = Server(log, words)
    try:
        yield server
    finally:
        server.end()


@contextlib.contextmanager
def told(*servers):
    """A failure in here has what each of the servers says about itself."""
    try:
        yield
    except (pytest.fail.Exception, AssertionError) as failure:
        pytest.fail("\n--- ".join([str(failure), *(server.where() for server in servers)]), pytrace=False)
