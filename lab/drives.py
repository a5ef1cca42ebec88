# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The --drive options: from text to QEMU's block back ends and NVMe devices.

A drive is one controller (`nvme`) with one or more namespaces (`nvme-ns`), each with a back end of
its own. Words of QEMU are passed unchanged to the device that supports them; QEMU checks their values.
"""

import json
import os
import re
import uuid
from argparse import ArgumentTypeError
from dataclasses import dataclass, field
from pathlib import Path

# The options of the namespace; all others that are not the lab's belong to the controller.
NAMESPACE_KEYS = frozenset(
    """
    detached discard_granularity eui64 eui64-default logical_block_size mcl min_io_size ms mset
    mssrl msrc nsid opt_io_size physical_block_size pi pif pil share-rw shared uuid write-cache zoned
    zoned.cross_read zoned.descr_ext_size zoned.max_active zoned.max_open zoned.numzrwa
    zoned.zone_capacity zoned.zone_size zoned.zrwafg zoned.zrwas
    """.split()
)
# Those of them that a controller accepts for its built-in namespace, which is the only kind that can be plugged.
PLUGGED_KEYS = frozenset(
    """
    discard_granularity logical_block_size min_io_size opt_io_size physical_block_size share-rw write-cache
    """.split()
)
# How the guest sees a drive, QEMU's device for it, and the modules of its driver.
INTERFACES = {"nvme": ("nvme", []), "sata": ("ide-hd", ["ahci", "sd_mod"]), "virtio": ("virtio-blk-pci", ["virtio_blk"])}
# Ports of the machine's SATA controller.
SATA_PORTS = 6
# Set by the lab itself.
RESERVED_KEYS = frozenset({"drive", "bus", "id", "subsys", "driver"})
# write-back as QEMU spells it in a block node: (O_DIRECT, flushes ignored).
CACHE_MODES = {"writeback": (False, False), "none": (True, False), "unsafe": (False, True)}
AIO_MODES = ("threads", "native", "io_uring")
# Names of namespaces must be the same in every run, or counts and logs differ.
UUID_BASE = uuid.UUID("6d1f7c4e-5a36-4c8e-9f0b-53a5e0a1d7aa")

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS |= {_letter: 1024**_power, f"{_letter}iB": 1024**_power, f"{_letter}B": 1000**_power}


class BadOption(ArgumentTypeError):
    """An option that the user must correct; argparse prints its message unchanged."""


def parse_size(text: str) -> int:
    """Bytes: K = KiB = 1024, KB = 1000, and so on; nothing else."""
    match = re.fullmatch(r"([0-9]+)([A-Za-z]*)", text)
    if not match or match[2] not in _UNITS:
        raise BadOption(f"{text!r} is not a size; write for example 512M, 1G or 1048576")
    return int(match[1]) * _UNITS[match[2]]


@dataclass
class Drive:
    """One --drive."""

    size: int = 1 << 30
    size_is_given: bool = False
    file: Path | None = None
    namespaces: int = 1
    blkdebug: Path | None = None
    nbd: Path | None = None
    null: bool = False
    cache: str = "writeback"
    aio: str = "threads"
    port: bool = False
    iops: int = 0
    interface: str = "nvme"
    controller: dict[str, str] = field(default_factory=dict)
    namespace: dict[str, str] = field(default_factory=dict)

    def files(self, index: int, folder: Path) -> list[Path]:
        """The backing file of each namespace; those in `folder` are temporary."""
        if self.null or self.nbd:
            return []
        if self.file is None:
            return [folder / f"drive{index}-{nsid}.img" for nsid in self._nsids()]
        if self.namespaces == 1:
            return [self.file]
        return [self.file.with_name(f"{self.file.name}.{nsid}") for nsid in self._nsids()]

    def _nsids(self) -> range:
        return range(1, self.namespaces + 1)


def parse_drive(text: str) -> Drive:
    drive = Drive()
    for word in text.split(","):
        key, given, value = word.partition("=")
        if not key:
            raise BadOption(f"--drive {text}: there is an empty word; write KEY=VALUE,KEY=VALUE")
        # QEMU's own short form of a switch.
        _set(drive, key, value if given else "on")
    if drive.null and (drive.file or drive.blkdebug):
        raise BadOption(f"--drive {text}: backend=null keeps no data, so file= and blkdebug= do not go with it")
    if drive.nbd and (drive.file or drive.blkdebug or drive.null or drive.size_is_given or drive.namespaces > 1):
        raise BadOption(f"--drive {text}: with nbd= the server has the data and the size, of one namespace")
    if drive.interface != "nvme" and (drive.namespaces > 1 or drive.port):
        raise BadOption(f"--drive {text}: namespaces= and port= are for NVMe drives")
    if drive.namespaces > 1 and {"uuid", "eui64", "nsid"} & drive.namespace.keys():
        raise BadOption(f"--drive {text}: uuid=, eui64= and nsid= name one namespace, not {drive.namespaces}")
    return drive


def _set(drive: Drive, key: str, value: str) -> None:
    match key:
        case "size":
            drive.size, drive.size_is_given = parse_size(value), True
            if drive.size == 0:
                raise BadOption("--drive size=0: a drive needs at least one block")
        case "file":
            drive.file = Path(value).absolute()
        case "namespaces":
            if not re.fullmatch(r"[1-9][0-9]{0,2}", value) or int(value) > 256:
                raise BadOption(f"--drive namespaces={value}: give a number from 1 to 256")
            drive.namespaces = int(value)
        case "blkdebug":
            drive.blkdebug = Path(value).absolute()
            if not drive.blkdebug.is_file():
                raise BadOption(f"--drive blkdebug={value}: there is no such file")
        case "nbd":
            drive.nbd = Path(value).absolute()
            if not drive.nbd.is_socket():
                raise BadOption(f"--drive nbd={value}: no server listens there")
        case "backend":
            if value not in ("file", "null"):
                raise BadOption(f"--drive backend={value}: the back ends are file and null")
            drive.null = value == "null"
        case "cache":
            if value not in CACHE_MODES:
                raise BadOption(f"--drive cache={value}: the modes are {', '.join(CACHE_MODES)}")
            drive.cache = value
        case "aio":
            if value not in AIO_MODES:
                raise BadOption(f"--drive aio={value}: the modes are {', '.join(AIO_MODES)}")
            drive.aio = value
        case "port":
            if value not in ("on", "off"):
                raise BadOption(f"--drive port={value}: write port=on, for a root port of its own, or port=off")
            drive.port = value == "on"
        case "interface":
            if value not in INTERFACES:
                raise BadOption(f"--drive interface={value}: a drive is one of {', '.join(INTERFACES)}")
            drive.interface = value
        case "iops":
            if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
                raise BadOption(f"--drive iops={value}: give commands per second, from 1 on")
            drive.iops = int(value)
        case _ if key in RESERVED_KEYS:
            raise BadOption(f"--drive {key}=: the lab sets it itself")
        case _ if key in NAMESPACE_KEYS:
            drive.namespace[key] = value
        case _:
            drive.controller[key] = value


def create_files(drive: Drive, index: int, folder: Path) -> None:
    """Creates missing files, sparse; an existing file is not changed."""
    for path in drive.files(index, folder):
        if path.exists():
            size = path.stat().st_size
            if drive.size_is_given and path.is_file() and size != drive.size:
                raise BadOption(f"--drive file={path}: it has {size} bytes, not {drive.size}; remove it or leave out size=")
            continue
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            continue
        except OSError as error:
            raise BadOption(f"--drive file={path}: cannot create it: {error.strerror}") from error
        try:
            os.ftruncate(descriptor, drive.size)
        finally:
            os.close(descriptor)


def qemu_arguments(drive: Drive, index: int, folder: Path) -> list[str]:
    """The drive as part of a command line, present when the machine starts."""
    serial, controller = _controller(drive, index)
    arguments = []
    if drive.interface != "nvme":
        return _other_drive(drive, index, folder, controller)
    if drive.port:
        # Only what sits below a root port can be unplugged.
        arguments += ["-device", root_port(f"port{index}", index + 1)]
        controller["bus"] = f"port{index}"
    if drive.iops:
        arguments += ["-object", json.dumps(_limit(drive, index))]
    if "sriov_max_vfs" in controller:
        # Virtual functions are further controllers of one subsystem.
        arguments += ["-device", device("nvme-subsys", id=f"subsys{index}")]
        controller["subsys"] = f"subsys{index}"
    arguments += ["-device", device("nvme", id=f"nvme{index}", **controller)]
    for number, (top, nodes) in enumerate(_back_ends(drive, index, folder)):
        for options in nodes:
            arguments += ["-blockdev", json.dumps(options)]
        name = str(uuid.uuid5(UUID_BASE, f"{serial}/{number + 1}"))
        namespace = {"nsid": str(number + 1), "uuid": name} | _block_sizes(drive.namespace)
        arguments += ["-device", device("nvme-ns", drive=top, bus=f"nvme{index}", **namespace)]
    return arguments


def drivers(drives: list[Drive]) -> list[str]:
    """The modules of the drives that are not NVMe drives."""
    return list(dict.fromkeys(module for drive in drives for module in INTERFACES[drive.interface][1]))


def _other_drive(drive: Drive, index: int, folder: Path, words: dict[str, str]) -> list[str]:
    """A SATA or virtio disk. Words of the controller and of the namespace are those of its one device."""
    options = {"id": f"disk{index}"} | words | _block_sizes(drive.namespace)
    if drive.interface == "sata":
        if index >= SATA_PORTS:
            raise BadOption(f"--drive interface=sata: the machine's SATA controller has {SATA_PORTS} ports, for the first drives")
        options["bus"] = f"ide.{index}"
    arguments = ["-object", json.dumps(_limit(drive, index))] if drive.iops else []
    ((top, nodes),) = _back_ends(drive, index, folder)
    for node in nodes:
        arguments += ["-blockdev", json.dumps(node)]
    return [*arguments, "-device", device(INTERFACES[drive.interface][0], drive=top, **options)]


# --- Drives that come and go ----------------------------------------------------------------------


def why_not_plugged(drive: Drive) -> str | None:
    """Why QEMU cannot add this drive to a machine that runs, or None."""
    if drive.interface != "nvme":
        return "the pool's slots are for NVMe drives"
    if drive.namespaces > 1:
        return "QEMU adds no namespaces to a machine that runs (nvme-ns), and a controller brings only one"
    if "sriov_max_vfs" in drive.controller:
        return "virtual functions need a subsystem (sriov_max_vfs=), and QEMU adds none to a machine that runs"
    if other := sorted(drive.namespace.keys() - PLUGGED_KEYS):
        return f"only nvme-ns takes {other[0]}=, and QEMU does not add one to a machine that runs"
    return None


def plug_commands(drive: Drive, index: int, folder: Path, bus: str) -> tuple[list[dict], list[dict]]:
    """QMP commands that add the drive at `bus`, and those that remove its back end, once it is unplugged.

    The namespace is the controller's own, without the UUID that `qemu_arguments` gives it."""
    if why := why_not_plugged(drive):
        raise BadOption(why)
    ((top, nodes),) = _back_ends(drive, index, folder)
    _, controller = _controller(drive, index)
    add = [{"execute": "object-add", "arguments": _limit(drive, index)}] if drive.iops else []
    add += [{"execute": "blockdev-add", "arguments": options} for options in nodes]
    options = {"driver": "nvme", "id": f"nvme{index}", "bus": bus, "drive": top}
    add.append({"execute": "device_add", "arguments": options | controller | _block_sizes(drive.namespace)})
    remove = [{"execute": "blockdev-del", "arguments": {"node-name": node["node-name"]}} for node in reversed(nodes)]
    if drive.iops:
        remove.append({"execute": "object-del", "arguments": {"id": f"limit{index}"}})
    return add, remove


def root_port(name: str, number: int) -> str:
    return device("pcie-root-port", id=name, bus="pcie.0", chassis=str(number), slot=str(number))


# --- Parts of a drive -----------------------------------------------------------------------------


def _controller(drive: Drive, index: int) -> tuple[str, dict[str, str]]:
    """The serial number and the controller's words."""
    serial = drive.controller.get("serial", f"straightway{index}")
    return serial, {"serial": serial} | drive.controller


def _limit(drive: Drive, index: int) -> dict:
    return {"qom-type": "throttle-group", "id": f"limit{index}", "limits": {"iops-total": drive.iops}}


def _block_sizes(words: dict[str, str]) -> dict[str, str]:
    if "logical_block_size" not in words:
        return words
    # QEMU refuses a physical block smaller than the logical one, and its default is 512.
    return {"physical_block_size": words["logical_block_size"]} | words


def _back_ends(drive: Drive, index: int, folder: Path) -> list[tuple[str, list[dict]]]:
    """For each namespace the name of its block node, and all the nodes below and with it, lowest first."""
    files = drive.files(index, folder)
    ends = []
    for number in range(drive.namespaces):
        name = f"drive{index}-{number + 1}"
        top, nodes = _block_nodes(drive, name, files[number] if files else None)
        if drive.iops:
            top = f"{name}-limit"
            nodes.append({"driver": "throttle", "node-name": top, "throttle-group": f"limit{index}", "file": name})
        ends.append((top, nodes))
    return ends


def _block_nodes(drive: Drive, name: str, path: Path | None) -> tuple[str, list[dict]]:
    """The chain of block nodes, lowest first, and the name of the top."""
    if drive.nbd:
        # The server sees each write and each flush of the guest, in their order.
        server = {"type": "unix", "path": str(drive.nbd)}
        return name, [{"driver": "nbd", "node-name": name, "server": server, "discard": "unmap"}]
    if path is None:
        # Reads return zeroes, so that what a benchmark reads is the same every time.
        return name, [{"driver": "null-co", "node-name": name, "size": drive.size, "read-zeroes": True}]
    direct, no_flush = CACHE_MODES[drive.cache]
    cache = {"direct": direct, "no-flush": no_flush}
    protocol = "host_device" if path.is_block_device() else "file"
    # discard=unmap: a deallocate command really frees, and a sparse file stays sparse.
    base = {
        "driver": protocol, "node-name": f"{name}-file", "filename": str(path),
        "aio": drive.aio, "cache": cache, "discard": "unmap",
    }  # fmt: skip
    nodes, below = [base], f"{name}-file"
    if drive.blkdebug:
        below = f"{name}-debug"
        nodes.append(
            {
                "driver": "blkdebug", "node-name": below, "image": f"{name}-file", "config": str(drive.blkdebug),
                "cache": cache, "discard": "unmap",
            }  # fmt: skip
        )
    nodes.append({"driver": "raw", "node-name": name, "file": below, "cache": cache, "discard": "unmap"})
    return name, nodes


def device(driver: str, **options: str) -> str:
    """QEMU's option syntax, in which a comma inside a value is written twice."""
    words = [driver, *(f"{key.replace('__', '-')}={value}" for key, value in options.items())]
    return ",".join(word.replace(",", ",,") for word in words)
