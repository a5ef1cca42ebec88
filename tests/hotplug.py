# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs a script in a guest of its own whose drive the host unplugs and plugs in again while the script runs.

The script requests it with the functions `unplug` and `plug`; both return immediately, because what the drive does then is
for the script to see. A drive comes back with its data, as soon as it has left the machine.
"""

import os
import socket
import subprocess

from pool import note_guest
from resident import Control, GuestFailed
from scripted import ROOT, lab_run

ID, PORT, NODE = "nvme0", "port0", "drive0-1"
CRASHED = "lab/run: QEMU was ended by signal"
FUNCTIONS = """
unplug() { echo host:unplug; }
plug() { echo host:plug; }
"""


def control_of(path):
    """QEMU's control socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return Control(connection)


class EmulatorFault(Exception):
    """QEMU crashed, or still refers to a drive that has left its guest, and so does not give its data to another."""


def obey(control, what, serial):
    """Performs the script's requests."""
    if what == "unplug":
        control.ask({"execute": "device_del", "arguments": {"id": ID}})
        return
    control.await_unplugged(ID)
    options = {"driver": "nvme", "id": ID, "bus": PORT, "drive": NODE, "serial": serial}
    try:
        control.ask({"execute": "device_add", "arguments": options})
    except GuestFailed as error:
        if "Permission conflict" in str(error):
            raise EmulatorFault(str(error)) from error
        raise


def hotplug_guest(script, folder, *options, **more):
    """Runs `script` as `own_guest` does, with one drive in a port of its own. `folder` is the test's.
    `others` are further drives, which stay.

    Retries, and reports this at the run's end, if QEMU keeps a drive that was unplugged amid commands, or is ended by a signal,
    as occasionally happens: a script that unplugs it often meets that twice."""
    for attempt in range(3):
        try:
            return run_once(script, folder / f"qmp{attempt}", *options, **more)
        except EmulatorFault as fault:
            note_guest(f"{fault}: run once more")
            last = fault
    raise last


def run_once(script, path, *options, size="128M", serial="LAB1", others=(), timeout=900):
    folder = path.parent
    more = [word for other in others for word in ("--drive", other)]
    command = lab_run(FUNCTIONS + script, "--quick", *options, "--drive", f"size={size},serial={serial},port=on", *more,
                      "--qmp", path, timeout=timeout)  # fmt: skip
    control, said = None, []
    with open(folder / "errors", "w+") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                   text=True, env=os.environ)  # fmt: skip
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith("host:"):
                    control = control or control_of(path)
                    obey(control, line.strip().removeprefix("host:"), serial)
            status = process.wait()
        finally:
            process.kill()
            process.wait()
            if control:
                control.close()
        errors.seek(0)
        complaint = errors.read()
        if CRASHED in complaint:
            raise EmulatorFault(complaint[complaint.index(CRASHED):].splitlines()[0])
        assert status == 0, "".join(said[-20:]) + complaint[-6000:]
    return "".join(said)
