# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The coprocessor's machine: QEMU's riscv `virt` with three memories, one of them a file.

The first is the coprocessor's own. The second is the window, shared with the host through a file.
The third holds only the device tree: QEMU puts it at the end of memory, and the main CPU must not
see it. QEMU ties each memory to harts (7.2: two for the third, or it does not
start); the firmware parks all but the first.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from drives import BadOption, Drive, create_files, qemu_arguments

OWN_BYTES = 16 << 20
TREE_BYTES = 32 << 20
WINDOW_BYTES = 64 << 20


@dataclass
class Coprocessor:
    """The machine requested by the options of lab/coprocessor."""

    firmware: Path
    window: Path
    folder: Path
    bits: int = 32
    window_bytes: int = WINDOW_BYTES
    drives: list[Drive] = field(default_factory=list)
    orders: str = ""
    icount: str | None = None
    trace: list[str] = field(default_factory=list)
    qmp: Path | None = None
    extra: list[str] = field(default_factory=list)

    @property
    def qemu(self) -> str:
        return f"qemu-system-riscv{self.bits}"

    def command(self) -> list[str]:
        """QEMU's command line; makes the window's file and the drives' files."""
        if not shutil.which(self.qemu):
            raise BadOption(f"no {self.qemu}; run: tools/setup riscv")
        if self.window_bytes % (16 << 20):
            raise BadOption("--window-size: give whole 16 MiB: QEMU aligns the device tree to that")
        descriptor = os.open(self.window, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, self.window_bytes)
        finally:
            os.close(descriptor)
        window = str(self.window).replace(",", ",,")
        total = OWN_BYTES + self.window_bytes + TREE_BYTES
        words = [
            self.qemu, "-M", "virt", "-accel", "tcg,thread=single", "-smp", "4", "-m", f"{total >> 20}M",
            "-object", f"memory-backend-ram,id=own,size={OWN_BYTES}",
            "-object", f"memory-backend-file,id=window,size={self.window_bytes},share=on,mem-path={window}",
            "-object", f"memory-backend-ram,id=tree,size={TREE_BYTES}",
            "-numa", "node,nodeid=0,cpus=0,memdev=own",
            "-numa", "node,nodeid=1,cpus=1,memdev=window",
            "-numa", "node,nodeid=2,cpus=2-3,memdev=tree",
            "-bios", "none", "-kernel", str(self.firmware),
            "-nodefaults", "-display", "none", "-serial", "stdio",
        ]  # fmt: skip
        if self.orders:
            words += ["-append", self.orders]
        if self.icount:
            words += ["-icount", self.icount]
        for pattern in self.trace:
            words += ["-trace", pattern]
        if self.qmp:
            words += ["-qmp", f"unix:{self.qmp},server=on,wait=off"]
        for index, drive in enumerate(self.drives):
            create_files(drive, index, self.folder)
            words += qemu_arguments(drive, index, self.folder)
        return [*words, *self.extra]
