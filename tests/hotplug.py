"""Runs a script in a guest of its own whose drive the host unplugs and plugs in again while the script runs.

The script asks for it with the functions `unplug` and `plug`; both return at once, because what the drive does then is
for the script to see. A drive comes back with its data, as soon as it has left the machine.
"""

import os
import socket
import subprocess

from scripted import ONE_CPU, PRELUDE, ROOT
from resident import Control

ID, PORT, NODE = "nvme0", "port0", "drive0-1"
FUNCTIONS = """
unplug() { echo host:unplug; }
plug() { echo host:plug; }
"""


def control_of(path):
    """QEMU's control socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(path))
    return Control(connection)


def obey(control, what, serial):
    """Does what the script asked for."""
    if what == "unplug":
        control.ask({"execute": "device_del", "arguments": {"id": ID}})
        return
    control.await_unplugged(ID)
    options = {"driver": "nvme", "id": ID, "bus": PORT, "drive": NODE, "serial": serial}
    control.ask({"execute": "device_add", "arguments": options})


def hotplug_guest(script, folder, *options, size="128M", serial="LAB1", timeout=900):
    """Runs `script` as `own_guest` does, with one drive in a port of its own. `folder` is the test's."""
    path = folder / "qmp"
    command = [ROOT / "lab" / "run", *ONE_CPU, *options, "--drive", f"size={size},serial={serial},port=on", "--qmp", path,
               "--timeout", str(timeout), "--", "bash", "-c", PRELUDE + FUNCTIONS + script]  # fmt: skip
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
        assert status == 0, "".join(said[-20:]) + errors.read()[-6000:]
    return "".join(said)
