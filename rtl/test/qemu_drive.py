# SPDX-License-Identifier: Apache-2.0 OR MIT
"""QEMU's Serial ATA drive (`ide-hd`) as the drive of `sata_sim`, for cocotb.

The link and the frames are those of `sata_drive.py`; each command of the core goes to an AHCI controller of QEMU, whose processor is
stopped and whose registers and memory are those of its test protocol, and the FIS that the controller stores for its driver go back. So the meaning of each command, IDENTIFY
DEVICE, the signature, and what happens at an error are QEMU's. This file makes only what AHCI does not show: DMA Setup, DMA Activate, and
the register FIS that accepts a queued command.
"""

import json
import socket
import subprocess
import time
from collections import deque
from pathlib import Path

from sata_drive import ACTIVATE, BLOCK, DATA, FRAME, REGISTER, SETUP, Drive, words_of

ABAR, LIST, RECEIVED, TABLES, BUFFERS = 0xE0000000, 0x100000, 0x110000, 0x120000, 0x200000
CLB, FB, IS, CMD, SCTL, SERR, SACT, CI = 0x00, 0x08, 0x10, 0x18, 0x2C, 0x30, 0x34, 0x38
PIO_AT, REGISTER_AT, BITS_AT = 0x20, 0x40, 0x58  # FIS in the received area
LONGEST = 1 << 20


class Ahci:
    """The first port of the controller, through QEMU's test protocol. `errors`: (iotype, sector or None) of requests that fail;
    `device`: QEMU's device and its options."""

    def __init__(self, image, folder, errors=(), device="ide-hd,rerror=report,werror=report"):
        rules = [{"event": "none", "iotype": kind, "errno": 5, **({} if sector is None else {"sector": sector})} for kind, sector in errors]
        disk = {"driver": "raw", "node-name": "disk", "discard": "unmap", "file": {
            "driver": "blkdebug", "discard": "unmap", **({"inject-error": rules} if rules else {}),
            "image": {"driver": "file", "filename": str(image), "discard": "unmap"}}}
        place = Path(folder) / "qtest"
        place.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place))
        listener.listen()
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-S", "-m", "64", "-display", "none", "-nodefaults",
             "-qtest", "unix:qtest", "-qtest-log", "none", "-blockdev", json.dumps(disk),
             "-device", f"{device},drive=disk,bus=ide.0"], stdin=subprocess.DEVNULL, cwd=folder)
        listener.settimeout(60)
        with listener, listener.accept()[0] as ours:
            ours.settimeout(60)
            self.stream = ours.makefile("rw", newline="\n")
        for register, value in ((0x24, ABAR), (0x04, 0x6)):
            self.ask(f"outl 0xcf8 {0x80000000 | 0x1F << 11 | 2 << 8 | register:#x}")
            self.ask(f"outl 0xcfc {value:#x}")
        self.device = device
        self.write32(ABAR + 4, 1 << 31)
        self.set(CLB, LIST)
        self.set(FB, RECEIVED)
        self.reset()

    def close(self):
        self.stream.close()
        self.process.kill()
        self.process.wait()

    def ask(self, line):
        self.stream.write(line + "\n")
        self.stream.flush()
        words = self.stream.readline().split()
        assert words[:1] == ["OK"], f"{line}: QEMU answered {words}"
        return int(words[1], 16) if len(words) == 2 else 0

    def read(self, at, length):
        return self.ask(f"read {at:#x} {length:#x}").to_bytes(length, "big") if length else b""

    def write(self, at, data):
        if data:
            self.ask(f"write {at:#x} {len(data):#x} 0x{data.hex()}")

    def write32(self, at, value):
        self.ask(f"writel {at:#x} {value:#x}")

    def set(self, register, value):
        self.write32(ABAR + 0x100 + register, value)

    def fis(self, at, words):
        return tuple(words_of(self.read(RECEIVED + at, 4 * words)))

    def until(self, done, what):
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end, f"QEMU never {what}"

    def reset(self):
        """COMRESET; returns the signature."""
        self.set(CMD, 0)
        self.write(RECEIVED, bytes(256))
        self.set(SCTL, 1)
        self.set(SCTL, 0)
        self.set(SERR, 0xFFFFFFFF)
        self.set(CMD, 1 << 4)
        self.until(lambda: self.fis(REGISTER_AT, 1)[0] & 0xFF == REGISTER, "sent a signature")
        self.set(CMD, 1 << 4 | 1)
        return self.fis(REGISTER_AT, 5)

    def command(self, words, slot, queued, data=b"", length=0):
        """Runs a command with these data to its end. Returns its last FIS, the PIO Setup FIS if there is one, and the data that came."""
        table, buffer = TABLES + 0x100 * slot, BUFFERS + LONGEST * (slot % 8)
        self.write(RECEIVED, bytes(256))
        self.write(buffer, data)
        self.write(table, b"".join(word.to_bytes(4, "little") for word in words) + bytes(0x80 - 4 * len(words)))
        size = len(data) or length
        self.write(table + 0x80, b"".join(word.to_bytes(4, "little") for word in (buffer, 0, 0, max(size, 2) - 1)))
        flags = 5 | bool(data) << 6 | bool(size) << 16
        self.write(LIST + 32 * slot, b"".join(word.to_bytes(4, "little") for word in (flags, 0, table, 0)))
        self.set(IS, 0xFFFFFFFF)
        if queued:
            self.set(SACT, 1 << slot)
        self.set(CI, 1 << slot)
        if queued:
            self.until(lambda: self.fis(BITS_AT, 1)[0] & 0xFF, "ended a queued command")
            last = self.fis(BITS_AT, 2)
        else:
            self.until(lambda: self.fis(REGISTER_AT, 1)[0] & 0xFF, "ended a command")
            last = self.fis(REGISTER_AT, 5)
        setup = self.fis(PIO_AT, 5)
        self.set(CMD, 1 << 4)  # after an error the controller has to be started again
        self.set(CMD, 1 << 4 | 1)
        return last, setup if setup[0] & 0xFF else None, self.read(buffer, length)


class QemuDrive(Drive):
    def __init__(self, dut, ahci, seed, **model):
        self.ahci = ahci
        super().__init__(dut, 1, seed, **model)

    def restart(self):
        super().restart()
        self.frames = deque([self.ahci.reset()])

    def take(self, words):
        if words[0] & 0xFF == DATA:
            data = b"".join(word.to_bytes(4, "little") for word in words[1:])
            assert self.current and len(data) == min(FRAME, self.left), "a data frame of the wrong length"
            self.inbox += data
            self.left -= len(data)
            return self.frames.append((ACTIVATE,)) if self.left else self.execute()
        assert words[0] & 0xFF == 0x27 and len(words) == 5, "not a command"
        code = words[0] >> 16 & 0xFF
        queued = code in (0x60, 0x61)
        self.codes[code] = self.codes.get(code, 0) + 1
        if queued:
            self.frames.append((REGISTER | 0x400000, 0, 0, 0, 0))
        return self.commands.append((code, words, queued))

    def serve(self):
        if self.current or self.frames or not self.commands:
            return
        self.current = self.commands.pop(self.random.randrange(len(self.commands)))
        code, words, queued = self.current
        count = (words[0] >> 24 | words[2] >> 24 << 8) if queued else words[3] & 0xFFFF
        self.out = code in (0x61, 0x35, 0x3D, 0x06)
        self.left = count * BLOCK if self.out or code in (0x60, 0x25, 0x2F) else BLOCK if code == 0xEC else 0
        self.inbox = b""
        if queued and self.out:
            self.frames.append((SETUP, words[3] >> 3 & 31, 0, 0, 0, self.left, 0))
        if self.out:
            self.frames.append((ACTIVATE,))
        else:
            self.execute()

    def more(self):
        pass

    def execute(self):
        code, words, queued = self.current
        tag = words[3] >> 3 & 31 if queued else 0
        last, setup, data = self.ahci.command(words, tag, queued, self.inbox, 0 if self.out else self.left)
        self.current = None
        if last[0] >> 16 & 1:
            self.happened.add(f"error {code:02x}")
            self.commands = [] if queued else self.commands
            return self.frames.append(last)
        if setup:
            self.frames += [setup, (DATA, *words_of(data))]
            return None
        if queued and not self.out:
            self.frames.append((SETUP | 0x2000, tag, 0, 0, 0, len(data), 0))
        self.frames += [(DATA, *words_of(data[at:at + FRAME])) for at in range(0, len(data), FRAME)]
        return self.frames.append(last)
