# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The options of lab/run: parses arguments to a machine. The tests' guests that stay up take the same options."""

import argparse
import os
import shlex
from pathlib import Path

import machine as machines
from drives import BadOption, parse_drive, parse_size


def parse_arguments(words: list[str]) -> tuple[argparse.Namespace, list[str]]:
    options, command = words, []
    if "--" in words:
        place = words.index("--")
        options, command = words[:place], words[place + 1 :]
    parser = argparse.ArgumentParser(
        prog="lab/run", allow_abbrev=False, usage="lab/run [OPTION]... -- COMMAND [ARGUMENT]... | lab/run [OPTION]... --shell",
        description="Runs COMMAND as root in a virtual machine with emulated NVMe drives and exits with its status.",
        epilog="Other statuses: 2 wrong usage, 3 not set up, 124 timed out, 125 the guest failed. See lab/README.md.",
    )  # fmt: skip
    add = parser.add_argument
    add("--kernel", choices=("stock", "rt", "backports", "trixie", "iommufd", "16k"), default="stock", help="Debian's kernel, the one with PREEMPT_RT, the newest of this release, the newest of Debian 13's backports, one whose VFIO has no groups, or for aarch64 the newest with pages of 16 KiB")
    add("--arch", choices=("x86_64", "aarch64"), default="x86_64", help="the guest's processor")
    add("--cpus", type=int, metavar="N", help="default 2, and 1 with --icount")
    add("--memory", type=parse_size, default="1G", metavar="SIZE", help="default 1G")
    add("--no-iommu", action="store_true", help="leave out the IOMMU")
    add("--iommu-width", type=int, choices=(39, 48), default=39, help="address bits of the IOMMU (x86_64), default 39")
    add("--icount", type=machines.parse_icount, metavar="SHIFT", help="one instruction = 2^SHIFT ns of guest time")
    add("--drive", type=parse_drive, action="append", default=[], metavar="OPTIONS",
        help="an NVMe drive: size=, file=, namespaces=, blkdebug=, nbd=, backend=, cache=, aio= and QEMU's own words")  # fmt: skip
    add("--share", type=lambda text: Path(text).resolve(), action="append", default=[], metavar="DIR",
        help="a host folder, writable at the same path in the guest")  # fmt: skip
    add("--kernel-args", default="", metavar="ARGS", help="added to the kernel command line")
    add("--trace", type=machines.parse_trace, action="append", default=[], metavar="PATTERN=FILE",
        help="QEMU's trace events that match, into FILE")  # fmt: skip
    add("--count", type=lambda text: Path(text).absolute(), metavar="FILE",
        help="instructions between markers, into FILE; see lab/count/marker.h (x86_64, one CPU)")  # fmt: skip
    add("--window", type=lambda text: Path(text).absolute(), action="append", default=[], metavar="FILE",
        help="a file that is the memory of a PCI function (ivshmem, 1af4:1110): a coprocessor's window")  # fmt: skip
    add("--vhost-user", type=lambda text: Path(text).absolute(), action="append", default=[], metavar="SOCKET",
        help="a disk that a process serves at this socket (vhost-user-blk); modprobe virtio_blk in the guest")  # fmt: skip
    add("--network", type=lambda text: Path(text).absolute(), action="append", default=[], metavar="SOCKET",
        help="a network card; each frame is a datagram from SOCKET.guest to SOCKET or back; modprobe virtio_net in the guest")  # fmt: skip
    add("--quick", action="store_true",
        help="copies and clears memory in fewer emulated steps: for tests, not for figures; no effect where instructions are counted")
    add("--qmp", type=lambda text: Path(text).absolute(), metavar="PATH", help="QEMU's control socket")
    add("--shell", action="store_true", help="COMMAND has a terminal and its input is yours; without a COMMAND a shell, until you leave it")
    add("--timeout", type=float, metavar="SECONDS", help="for the whole run, default 600, and a week with --shell")
    add("--dry-run", action="store_true", help="print QEMU's command line and do nothing")
    add("--quiet", action="store_true", help="no messages (there are none without a terminal)")
    arguments = parser.parse_args(options)
    if arguments.shell:
        command = on_terminal(command or ["bash", "-i"])
    if not command and not arguments.dry_run:
        parser.error("no command; write it after --, for example: lab/run -- uname -a; or give --shell")
    if arguments.timeout is None:
        arguments.timeout = 7 * 24 * 3600 if arguments.shell else 600
    return arguments, command


def on_terminal(command: list[str]) -> list[str]:
    """The words that run a command on the guest's terminal, which is as large as the caller's."""
    columns, rows = os.get_terminal_size(0) if os.isatty(0) else (80, 24)
    size = f'stty rows {rows} cols {columns}; exec "$@"'
    script = f'exec setsid --ctty --wait env TERM="$0" sh -c {shlex.quote(size)} sh "$@" </dev/hvc0 >/dev/hvc0 2>&1'
    return ["sh", "-c", script, os.environ.get("TERM", "dumb"), *command]


def build_machine(arguments: argparse.Namespace) -> machines.Machine:
    cpus = arguments.cpus if arguments.cpus is not None else (1 if arguments.icount is not None or arguments.count else 2)
    if not 1 <= cpus <= 64:
        raise BadOption(f"--cpus {cpus}: give a number from 1 to 64")
    if arguments.memory < 256 << 20:
        raise BadOption("--memory: a guest needs at least 256M")
    if not 0 < arguments.timeout < 1e6:
        raise BadOption(f"--timeout {arguments.timeout:g}: give seconds above 0")
    return machines.Machine(
        arch=arguments.arch, kernel=arguments.kernel, cpus=cpus, memory=arguments.memory, iommu=not arguments.no_iommu,
        iommu_width=arguments.iommu_width, icount=arguments.icount, drives=arguments.drive, shares=arguments.share,
        windows=arguments.window, kernel_arguments=arguments.kernel_args, traces=arguments.trace, qmp=arguments.qmp,
        vhost_user=arguments.vhost_user, networks=arguments.network,
        count=arguments.count, is_quick=arguments.quick, has_terminal=arguments.shell,
    )  # fmt: skip
