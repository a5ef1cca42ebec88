# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The files that a lab guest boots: the kernel that tools/setup unpacked and an initramfs made for it.

Both are cached in build/lab/cache under a name that contains a hash of their inputs, and written
whole (temporary file, then rename), so that runs at the same time cannot see half a file. The
initramfs is not compressed: a guest under emulation unpacks more slowly than QEMU copies.
"""

import hashlib
import lzma
import os
import shutil
import stat
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LAB = Path(__file__).resolve().parent
REPOSITORY = LAB.parent
BUILD = REPOSITORY / "build" / "lab"
CACHE = BUILD / "cache"
ROOT_AARCH64 = BUILD / "root-aarch64"

# The modules that lab/init loads; their dependencies come from modules.dep.
MODULES = (
    "virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console", "nvme", "configfs", "ext4", "vfio-pci",
)  # fmt: skip
# VFIO's containers, which a kernel with only iommufd does not have.
OPTIONAL_MODULES = ("vfio_iommu_type1",)


class NotSetUp(Exception):
    """Something that tools/setup provides is missing."""


@dataclass(frozen=True)
class Kernel:
    """One unpacked kernel package."""

    arch: str
    release: str
    image: Path
    modules: Path


def setup_part(arch: str) -> str:
    return "lab" if arch == "x86_64" else "lab-aarch64"


def find_kernel(flavour: str, arch: str) -> Kernel:
    folder = BUILD / "kernel" / f"{flavour}-{arch}"
    images = sorted(folder.glob("boot/vmlinuz-*"))
    if not images:
        part = {"stock": setup_part(arch), "rt": setup_part(arch), "iommufd": "iommufd", "trixie": "trixie"}.get(flavour, "backports")
        raise NotSetUp(f"the {flavour} kernel for {arch} is missing; run: tools/setup {part}")
    release = images[-1].name.removeprefix("vmlinuz-")
    modules = folder / "lib" / "modules" / release
    if not (modules / "modules.dep").is_file():
        raise NotSetUp(f"{modules} has no modules.dep; run: tools/setup {setup_part(arch)}")
    return Kernel(arch, release, images[-1], modules)


# --- Kernel image ---------------------------------------------------------------------------------


def boot_image(kernel: Kernel) -> Path:
    """The file for QEMU's -kernel: on x86 the ELF inside the compressed image, when there is one.

    A guest under emulation takes seconds to unpack an xz kernel; the host takes half a second once.
    """
    if kernel.arch != "x86_64":
        return kernel.image
    target = CACHE / f"vmlinux-{kernel.release}-{_hash([_identity(kernel.image)])}"
    if target.exists():
        return target
    elf = _unpack_bzimage(kernel.image.read_bytes())
    if elf is None:
        return kernel.image
    _write_whole(target, elf)
    return target


def _unpack_bzimage(image: bytes) -> bytes | None:
    """The ELF in a bzImage (Documentation/arch/x86/boot.rst: payload_offset, payload_length)."""
    if image[0x202:0x206] != b"HdrS":
        return None
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if not payload.startswith(b"\xfd7zXZ\0"):
        return None
    try:
        # The last four bytes of the payload are the unpacked size, not part of the stream.
        elf = lzma.LZMADecompressor().decompress(payload)
    except lzma.LZMAError:
        return None
    return elf if elf.startswith(b"\x7fELF") else None


# --- Initramfs ------------------------------------------------------------------------------------


def initramfs(kernel: Kernel) -> Path:
    """The part of the initramfs that is the same for every run with this kernel."""
    busybox = _busybox(kernel.arch)
    init = LAB / "init"
    identity = [_identity(busybox), _identity(kernel.modules / "modules.dep"), init.read_text(), *MODULES, *OPTIONAL_MODULES]
    identity.append(Path(__file__).read_text())
    target = CACHE / f"initramfs-{kernel.release}-{_hash(identity)}.cpio"
    if target.exists():
        return target
    archive = Archive()
    for folder in ("bin", "dev", "lab", "lib", "lib/modules"):
        archive.folder(folder)
    # The kernel opens it as the standard streams of init, before anything is mounted.
    archive.character_device("dev/console", 5, 1)
    # A shell opens it for what it runs in the background.
    archive.character_device("dev/null", 1, 3)
    archive.file("bin/busybox", busybox.read_bytes(), 0o755)
    archive.file("init", init.read_bytes(), 0o755)
    _add_modules(archive, kernel)
    _write_whole(target, archive.finish())
    _drop_older(target)
    return target


def job_archive(files: dict[str, bytes]) -> bytes:
    """The part that is made for one run: the kernel unpacks archives one after the other."""
    archive = Archive()
    for name, content in files.items():
        archive.file(f"lab/{name}", content, 0o644)
    return archive.finish()


def _busybox(arch: str) -> Path:
    if arch == "x86_64":
        found = shutil.which("busybox")
        path = Path(found) if found else None
    else:
        path = ROOT_AARCH64 / "usr" / "bin" / "busybox"
    if path is None or not path.exists():
        raise NotSetUp(f"busybox for {arch} is missing; run: tools/setup {setup_part(arch)}")
    return path


def _add_modules(archive: "Archive", kernel: Kernel) -> None:
    """The modules of MODULES with what they need, and a modules.dep of just these."""
    needs: dict[str, list[str]] = {}
    by_name: dict[str, str] = {}
    # Newer kernels' modules are compressed, which busybox's modprobe does not read.
    for line in (kernel.modules / "modules.dep").read_text().replace(".ko.xz", ".ko").splitlines():
        path, _, dependencies = line.partition(":")
        needs[path] = dependencies.split()
        by_name[_module_name(path)] = path
    builtin = {_module_name(line) for line in (kernel.modules / "modules.builtin").read_text().split()}

    wanted: dict[str, None] = {}
    for name in map(_module_name, MODULES + OPTIONAL_MODULES):
        if name in by_name:
            # modules.dep lists the whole closure, not only the direct needs.
            wanted.update(dict.fromkeys([by_name[name], *needs[by_name[name]]]))
        elif name not in builtin and name not in OPTIONAL_MODULES:
            raise NotSetUp(f"kernel {kernel.release} has no module {name}; its package is not one the lab knows")

    top = f"lib/modules/{kernel.release}"
    folders = {top}
    for path in wanted:
        folders.update(f"{top}/{parent}" for parent in Path(path).parents if str(parent) != ".")
    for folder in sorted(folders):
        archive.folder(folder)
    for path in wanted:
        archive.file(f"{top}/{path}", _module(kernel.modules / path), 0o644)
    lines = [f"{path}: {' '.join(needs[path])}\n" for path in wanted]
    archive.file(f"{top}/modules.dep", "".join(lines).encode(), 0o644)
    # busybox's modprobe looks up names that are not modules in these.
    present = [f"{line}\n" for line in (kernel.modules / "modules.builtin").read_text().split()]
    archive.file(f"{top}/modules.builtin", "".join(present).encode(), 0o644)


def _module(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else lzma.decompress(path.with_suffix(".ko.xz").read_bytes())


def _module_name(path: str) -> str:
    """A module's name as the kernel spells it: files use - and _ without a rule."""
    return os.path.basename(path).split(".")[0].replace("-", "_")


class Archive:
    """A cpio archive in the kernel's format (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inode = 0

    def folder(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, content: bytes, mode: int) -> None:
        self._add(name, stat.S_IFREG | mode, content)

    def character_device(self, name: str, major: int, minor: int) -> None:
        self._add(name, stat.S_IFCHR | 0o600, b"", (major, minor))

    def finish(self) -> bytes:
        self._add("TRAILER!!!", 0, b"")
        return bytes(self._data)

    def _add(self, name: str, mode: int, content: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        raw_name = os.fsencode(name) + b"\0"
        # inode, mode, uid, gid, links, mtime, size, device, special device, length of name, checksum
        fields = (self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(raw_name), 0)
        self._data += b"070701" + b"".join(b"%08X" % field for field in fields) + raw_name
        self._pad()
        self._data += content
        self._pad()

    def _pad(self) -> None:
        self._data += bytes(-len(self._data) % 4)


# --- Cache ----------------------------------------------------------------------------------------


def _identity(path: Path) -> str:
    """A key that changes when a file of a package is replaced, without reading the file."""
    info = path.stat()
    return f"{path}:{info.st_size}:{info.st_mtime_ns}:{info.st_ino}"


def _hash(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _write_whole(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".new-", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _drop_older(target: Path) -> None:
    """Removes files that an older lab/init made for the same kernel, unless a run may be about to read them."""
    stem = target.name.rpartition("-")[0]
    for path in target.parent.glob(f"{stem}-*.cpio"):
        try:
            if path.stat().st_mtime < time.time() - 3600:
                path.unlink()
        except FileNotFoundError:
            pass
