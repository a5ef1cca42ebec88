# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The virtual machine: from settings to QEMU's command line.

This only builds arguments: nothing is started, and no file is written.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import count
from drives import BadOption, Drive, device, qemu_arguments, root_port
from image import REPOSITORY, ROOT_AARCH64

OUT = REPOSITORY / "out"
# The name of the port that is a terminal.
TERMINAL = "terminal"
# The guest has its own versions of these, so a host folder below them is not visible there.
GUEST_OWN = tuple(Path(name) for name in ("/tmp", "/run", "/dev", "/proc", "/sys"))

# mitigations=off, nokaslr: instruction counts and addresses are the same in every run. panic=-1, oops=panic: a broken guest ends
# immediately instead of at the time limit.
KERNEL_ARGUMENTS = (
    "quiet panic=-1 oops=panic mitigations=off nokaslr apparmor=0 audit=0 "
    # QEMU caches translated code by its address: a program at a different address each time is translated each time, which is more
    # than half of the cost of a short program (straightway info: 18,000 blocks, 0.58 s of processor time; then 400, 0.21 s).
    "norandmaps "
    # The kernel's tests of its own ciphers and checksums are 6 % of a boot (0.2 of 3.1 s of processor time).
    "cryptomgr.notests "
    # No program here has capabilities by its file, and to look for them is two messages to the host at each start.
    "no_file_caps "
    # Polled queues, or io_uring's IOPOLL is refused.
    "nvme.poll_queues=1"
)  # fmt: skip


@dataclass
class Machine:
    """The machine requested by the options of lab/run."""

    arch: str = "x86_64"
    kernel: str = "stock"
    cpus: int = 2
    memory: int = 1 << 30
    iommu: bool = True
    iommu_width: int = 39
    icount: str | None = None
    drives: list[Drive] = field(default_factory=list)
    shares: list[Path] = field(default_factory=list)
    windows: list[Path] = field(default_factory=list)
    kernel_arguments: str = ""
    traces: list[tuple[str, Path]] = field(default_factory=list)
    vhost_user: list[Path] = field(default_factory=list)
    networks: list[Path] = field(default_factory=list)
    qmp: Path | None = None
    count: Path | None = None
    is_quick: bool = False
    # Root ports at which drives are plugged while the guest runs: slot0, slot1, ...
    slots: int = 0
    # A terminal, /dev/hvc0 in the guest.
    has_terminal: bool = False

    @property
    def qemu(self) -> str:
        return f"qemu-system-{self.arch}"


def parse_icount(text: str) -> str:
    if not re.fullmatch(r"([0-9]|10)(,sleep=(on|off))?", text):
        raise BadOption(f"--icount {text}: give a shift from 0 to 10, optionally with ,sleep=off")
    return text


def parse_trace(text: str) -> tuple[str, Path]:
    pattern, given, path = text.partition("=")
    if not (pattern and given and path):
        raise BadOption(f"--trace {text}: write PATTERN=FILE, for example 'pci_nvme_*=nvme.log'")
    if "," in pattern:
        raise BadOption(f"--trace {text}: one pattern at a time; repeat the option")
    return pattern, Path(path).absolute()


def check(machine: Machine, folder: Path) -> None:
    """Checks that argparse cannot make: options that exclude each other, and a folder that the guest does not have."""
    for kernel, arch in (("backports", "x86_64"), ("trixie", "x86_64"), ("iommufd", "x86_64"), ("16k", "aarch64")):
        if machine.kernel == kernel and machine.arch != arch:
            raise BadOption(f"--kernel {kernel} is only for {arch}; give --kernel stock or rt, or --arch {arch}")
    if machine.icount is not None and machine.cpus > 1:
        raise BadOption("--icount counts the instructions of one CPU; leave out --cpus or give --cpus 1")
    if machine.count and (machine.cpus > 1 or machine.arch != "x86_64"):
        raise BadOption("--count counts the instructions of one CPU of x86_64; leave out --cpus and --arch")
    for share in machine.shares:
        if not share.is_dir():
            raise BadOption(f"--share {share}: there is no such folder")
        if share in (Path("/"), *GUEST_OWN):
            raise BadOption(f"--share {share}: the guest has its own; share a folder below it")
    for window in machine.windows:
        # QEMU would create it, or map it rounded up.
        size = window.stat().st_size if window.is_file() else 0
        if size == 0 or size & (size - 1):
            raise BadOption(f"--window {window}: give a file whose length is a power of two")
    # Below /tmp it is kept visible.
    for path in GUEST_OWN[1:]:
        if REPOSITORY.is_relative_to(path):
            raise BadOption(f"the repository lies in {path}, of which the guest has its own; move it")
    shared = [REPOSITORY, *machine.shares]
    if any(folder.is_relative_to(path) for path in shared):
        return
    if any(folder.is_relative_to(path) for path in GUEST_OWN):
        raise BadOption(f"the guest has its own /{folder.parts[1]}: to work in {folder} there, add --share {folder}")
    if machine.arch != "x86_64" and not folder.is_relative_to(REPOSITORY):
        raise BadOption(f"this guest has only the repository; to work in {folder} there, add --share {folder}")


def shares(machine: Machine) -> list[tuple[str, Path, bool]]:
    """Tag, host folder, writable: in the order in which the guest mounts them."""
    rest = [("out", OUT, True)]
    rest += [(f"share{number}", path, True) for number, path in enumerate(machine.shares)]
    if machine.arch == "x86_64":
        return [("root", Path("/"), False), *rest]
    return [("root", ROOT_AARCH64, False), ("host", Path("/"), False), *rest]


def kernel_command_line(machine: Machine) -> str:
    # With an IOMMU, pass-through for the kernel's own drivers: translation starts with VFIO.
    if machine.arch == "x86_64":
        # QEMU derives every CPU's time stamp from one clock, but the kernel's check of that can fail between two emulation threads;
        # then each reading of the time is an access to an emulated HPET. On a busy host the boot's check of the timer comes too
        # late, and the kernel panics.
        words = ["console=ttyS0", KERNEL_ARGUMENTS, "tsc=reliable no_timer_check"]
        words += ["intel_iommu=on iommu=pt"] if machine.iommu else []
    else:
        words = ["console=ttyAMA0", KERNEL_ARGUMENTS]
        # A drive's port is in its group, so VFIO takes the port's interrupts with the drive: it is polled.
        words += ["iommu.passthrough=1 pciehp.pciehp_poll_mode=1"] if machine.iommu else []
    # A busy host can keep the guest's processor from running for half a minute, and one that was suspended for any time: its kernel
    # takes that for its own lockup. What does stand still meets the limit of the test.
    words.append("watchdog_thresh=60 rcupdate.rcu_cpu_stall_suppress=1 sysctl.kernel.hung_task_timeout_secs=600")
    if machine.count:
        # The idle loop spins in one function, so that waiting can be distinguished from working.
        words.append("idle=poll")
    if _is_quick(machine):
        words.append("init_on_alloc=0")
    # Last, so that the user's arguments have priority.
    return " ".join([*words, machine.kernel_arguments]).strip()


def command_line(machine: Machine, boot: dict[str, Path], folder: Path, console: Path, ports: dict[str, int]) -> list[str]:
    """QEMU's arguments. `boot` has the kernel and initrd, `ports` the connected socket of each port."""
    arguments = [
        machine.qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-name", "straightway-lab",
        "-M", _board(machine) + (",memory-backend=memory" if machine.vhost_user else ""), "-cpu", _processor(machine), "-smp", _processors(machine), "-m", f"{machine.memory >> 20}M",
        *_accelerator(machine),
        "-kernel", str(boot["kernel"]), "-initrd", str(boot["initrd"]), "-append", kernel_command_line(machine),
        "-chardev", device("file", id="console", path=str(console)), "-serial", "chardev:console",
    ]  # fmt: skip
    if machine.iommu and machine.arch == "x86_64":
        # Before every device that it must translate for.
        arguments += ["-device", f"intel-iommu,intremap=on,aw-bits={machine.iommu_width}"]
    arguments += _ports(ports)
    for tag, path, writable in shares(machine):
        arguments += _share(tag, path, writable)
    for index, drive in enumerate(machine.drives):
        arguments += qemu_arguments(drive, index, folder)
    for slot in range(machine.slots):
        # Numbers that are not used by a drive's own port.
        arguments += ["-device", root_port(f"slot{slot}", 100 + slot)]
    for index, window in enumerate(machine.windows):
        backend = device("memory-backend-file", id=f"window{index}", share="on", size=str(window.stat().st_size),
                         mem__path=str(window))  # fmt: skip
        arguments += ["-object", backend, "-device", device("ivshmem-plain", memdev=f"window{index}")]
    if machine.vhost_user:
        # The processes behind the sockets map the guest's memory.
        arguments += ["-object", device("memory-backend-memfd", id="memory", share="on", size=str(machine.memory))]
    for index, socket in enumerate(machine.vhost_user):
        arguments += ["-chardev", device("socket", id=f"vhost{index}", path=str(socket)),
                      "-device", device("vhost-user-blk-pci", chardev=f"vhost{index}")]  # fmt: skip
    for index, socket in enumerate(machine.networks):
        ends = {"local.type": "unix", "local.path": f"{socket}.guest", "remote.type": "unix", "remote.path": str(socket)}
        arguments += ["-netdev", device("dgram", id=f"net{index}", **ends),
                      "-device", device("virtio-net-pci", netdev=f"net{index}", romfile="")]  # fmt: skip
    for pattern, _ in machine.traces:
        arguments += ["-trace", device(f"enable={pattern}")]
    if machine.traces:
        arguments += ["-D", str(trace_log(machine, folder))]
    if machine.count:
        arguments += ["-plugin", count.plugin_option(machine.count)]
    if machine.qmp:
        arguments += ["-qmp", device(f"unix:{machine.qmp}", server="on", wait="off")]
    return arguments


def trace_log(machine: Machine, folder: Path) -> Path:
    """QEMU has one log for all traces: the requested file, or one that is split into several afterwards."""
    files = {path for _, path in machine.traces}
    return files.pop() if len(files) == 1 else folder / "trace.log"


def _board(machine: Machine) -> str:
    if machine.arch == "x86_64":
        # The split interrupt controller is what interrupt remapping needs.
        return "q35,kernel-irqchip=split" if machine.iommu else "q35"
    return "virt,gic-version=3" + (",iommu=smmuv3" if machine.iommu else "")


def _processor(machine: Machine) -> str:
    # On arm64, max has pointer authentication, which is slow to emulate: it boots in half again the time. The A72 has no pages of
    # 16 KiB.
    if machine.arch != "x86_64":
        return "cortex-a76" if machine.kernel == "16k" else "cortex-a72"
    return "max,-erms" if _is_quick(machine) else "max"


def _is_quick(machine: Machine) -> bool:
    """Whether memory is copied by words, and not cleared before its use.

    A processor with `erms` is asked to copy by `rep movsb`, which QEMU emulates byte by byte: a copy takes five times as long,
    and a boot with cleared memory a fifth longer. Instruction counts need the usual guest."""
    return machine.is_quick and not machine.count and machine.icount is None


def _processors(machine: Machine) -> str:
    """The number of processors, and the maximum.

    For a guest that can have only one, QEMU 7.2 omits memory barriers, although its drives run in another thread: the
    guest and the drive then miss each other's updates of the shadow doorbells (NVMe, "Doorbell Buffer Config"), and
    commands stall until they time out."""
    return "1,maxcpus=2" if machine.cpus == 1 and machine.icount is None else str(machine.cpus)


def _accelerator(machine: Machine) -> list[str]:
    if machine.icount is not None:
        # Counting needs one thread.
        return ["-accel", "tcg,thread=single", "-icount", f"shift={machine.icount}"]
    return ["-accel", "tcg,thread=multi"]


def control_port(descriptor: int) -> list[str]:
    """QEMU's control protocol (QMP) on a connected socket."""
    return ["-chardev", device("socket", id="control", fd=str(descriptor)), "-mon", "chardev=control,mode=control"]


def _ports(ports: dict[str, int]) -> list[str]:
    arguments = ["-device", "virtio-serial-pci"]
    for name, descriptor in ports.items():
        arguments += ["-chardev", device("socket", id=name, fd=str(descriptor))]
        kind = "virtconsole" if name == TERMINAL else "virtserialport"
        arguments += ["-device", device(kind, chardev=name, name=f"lab.{name}")]
    return arguments


def _share(tag: str, path: Path, writable: bool) -> list[str]:
    # Only root can give files the owners that the guest asks for.
    model = "passthrough" if os.geteuid() == 0 else "none"
    options = {"id": tag, "path": str(path), "security_model": model, "multidevs": "remap"}
    if not writable:
        options["readonly"] = "on"
    return ["-fsdev", device("local", **options), "-device", device("virtio-9p-pci", fsdev=tag, mount_tag=tag)]
