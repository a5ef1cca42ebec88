# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The guests that stay up for the tests of one process: one for each kind of machine, booted when it is first needed.

After each test its guest is cleaned and looked at (lab/resident.py). One that crashed, hung, warned or is dirty is
replaced, and the test that did it is named at the end of the run. Only what QEMU
did is ever repeated, once, and named: a boot that does not reach its shell, a command during which QEMU itself crashed or
stopped the guest's clock, and a test whose unplugged drive QEMU keeps (hotplug.py). A QEMU that sleeps although interrupts are due is woken, and named.
"""

import atexit
import itertools
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "lab"))
# No byte code in a folder that guests read.
_WROTE, sys.dont_write_bytecode = sys.dont_write_bytecode, True

import guest as guests  # noqa: E402
import image  # noqa: E402
import options as lab_options  # noqa: E402
from drives import Drive, why_not_plugged  # noqa: E402
from machine import Machine  # noqa: E402
from resident import SLOTS, WARNED, Done, Resident  # noqa: E402

sys.dont_write_bytecode = _WROTE

BEFELL = image.BUILD / "befell.jsonl"
# Each has memory of its own; more kinds than this and the one that was longest unused ends.
MOST_GUESTS = 3
# For the folders of this process's guests of all pools.
NUMBERS = itertools.count(1)
# Keeps 64 MiB from Linux in every guest: a window for the tests of CharIO (`scripted.Target.window`), so that they need no
# separate kind.
RESERVED = {"x86_64": "memmap=64M$0x20000000", "aarch64": "mem=960M"}


class TestBroke(Exception):
    """The guest did not survive the test's command; the message has the reason."""

    __test__ = False


@dataclass
class Kept:
    """A guest that is up."""

    guest: Resident
    folder: guests.RunFolder

    def stop(self) -> None:
        self.guest.stop()
        self.folder.__exit__()


class Pool:
    """All guests of this process, the last used one last."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        # The kind of the last command's guest.
        self.last_kind = ""
        atexit.register(self.close)

    def run(self, words: tuple[str, ...], command: list[str], timeout: float) -> tuple[Done, list[str]]:
        """Runs a command in a guest with these options of lab/run. Returns its result and the console's lines.

        Raises TestBroke when the guest did not survive the command, or warned."""
        try:
            return self._run(words, command, timeout, is_last=False)
        except guests.Crashed as crash:
            # A guest must not be able to crash its emulator, whatever the command did.
            note_guest(f"{crash}: run once more")
            return self._run(words, command, timeout, is_last=True)

    def _run(self, words: tuple[str, ...], command: list[str], timeout: float, is_last: bool) -> tuple[Done, list[str]]:
        machine, drives = machine_for(words)
        kind = repr(machine)
        self.last_kind = guests.kind_of(machine)
        kept = self._kept.pop(kind, None) or self._boot(machine, is_again=is_last)
        one = kept.guest
        console = one.console_size()
        is_clean = False
        # Otherwise the command has changed the drive's own file.
        may_repeat = not is_last and not any(drive.file or drive.nbd for drive in drives)
        try:
            one.plug(drives)
            done = one.execute(command, timeout)
            if done.status == 0:
                is_clean = self._is_clean(one)
            return done, one.console_since(console)
        except guests.TimedOut:
            if one.clock_stands() and may_repeat:
                raise guests.ClockStands(f"QEMU's clock stood still for {timeout:g} s") from None
            raise TestBroke(f"timed out: no end within {timeout:g} s", one.explain_silence(console)) from None
        except guests.GuestFailed as error:
            if isinstance(error, guests.Crashed) and may_repeat:
                raise
            raise TestBroke(str(error), one.console_since(console)) from None
        finally:
            if one.woken:
                note_guest(f"QEMU slept, and was woken by a stop and a continuation ({one.woken} times)")
                one.woken = 0
            # After a failed test the guest's state is unknown.
            if is_clean:
                self._kept[kind] = kept
            else:
                kept.stop()

    def processor_time_s(self) -> float:
        """Of all guests that are up."""
        return sum(kept.guest.processor_time_s() for kept in self._kept.values())

    def processes(self) -> set[int]:
        """Of the guests that are up and run no test's command."""
        return {kept.guest.process_id() for kept in self._kept.values()}

    def close(self) -> None:
        for kept in self._kept.values():
            kept.stop()
        self._kept.clear()

    def _boot(self, machine: Machine, is_again: bool = False) -> Kept:
        while len(self._kept) >= MOST_GUESTS:
            self._kept.pop(next(iter(self._kept))).stop()
        for is_retry in (False, True):
            folder = guests.RunFolder(f"-{next(NUMBERS)}")
            folder.__enter__()
            kept = Kept(Resident(machine, ROOT, folder), folder)
            began = time.monotonic()
            try:
                kept.guest.boot()
            except (guests.TimedOut, guests.Crashed) as error:
                kept.stop()
                if is_retry:
                    raise AssertionError(f"no guest: {error or 'it does not boot'}") from error
            except BaseException:
                kept.stop()
                raise
            else:
                guests.note_boot(machine, time.monotonic() - began, is_retry or is_again)
                return kept
        raise AssertionError("unreachable")

    def _is_clean(self, one: Resident) -> bool:
        """Cleans up after a test that passed. Kernel warnings fail it; other remains are reported."""
        try:
            differences = one.clean_up()
        except guests.GuestFailed as failure:
            # The test itself passed. A guest that does not release a drive is unusable for others and is reported.
            note_guest(f"{str(failure).splitlines()[0]}: replaced")
            return False
        warned = [line for line in differences if WARNED in line]
        if warned:
            raise guests.GuestFailed(f"the kernel warned ({'; '.join(warned)})")
        if differences:
            note_guest("; ".join(differences[:6]) + ": replaced")
        return not differences


def note_guest(why: str) -> None:
    """Records what befell the guest of the running test: for the end of the run."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "?").rpartition(" ")[0]
    with open(BEFELL, "a") as file:
        file.write(json.dumps({"test": test, "why": why, "at": time.time()}) + "\n")


def machine_for(words: tuple[str, ...]) -> tuple[Machine, list[Drive]]:
    """The machine without drives, and the drives to plug."""
    arguments, _ = lab_options.parse_arguments([*words, "--dry-run"])
    machine = lab_options.build_machine(arguments)
    if why := why_own(machine):
        raise ValueError(f"{' '.join(words)}: {why}; take own_guest, and say why in the file's first comment")
    drives, machine.drives = machine.drives, []
    machine.kernel_arguments = f"{RESERVED[machine.arch]} {machine.kernel_arguments}".strip()
    image.find_kernel(machine.kernel, machine.arch)
    return machine, drives


def why_own(machine: Machine) -> str | None:
    """Why a test with such a machine needs its own guest, or None."""
    for option in ("icount", "shares", "windows", "traces", "qmp", "count"):
        if getattr(machine, option):
            return f"what --{option} is about begins with the machine"
    if len(machine.drives) > SLOTS:
        return f"a guest that stays up has room for {SLOTS} drives"
    return next((why for drive in machine.drives if (why := why_not_plugged(drive))), None)


POOL = Pool()
