# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Checks every rule and every errno of docs/mount.md in a folder that is mounted with --write. Runs in a guest, as root.

    python3 mount_guest.py FOLDER [--allow-other]  all checks but those below; leaves the folder empty
    python3 mount_guest.py FOLDER fill NAME        writes NAME until ENOSPC and prints how many bytes were accepted
"""

import errno
import mmap
import os
import random
import sys

FOLDER = sys.argv[1]
BLOCK = 1 << 20


def refused(expected, call, *words, **options):
    """Fails unless the call ends with this errno."""
    try:
        call(*words, **options)
    except OSError as error:
        assert error.errno == expected, f"{call.__name__}{words}: {error}, not {errno.errorcode[expected]}"
        return
    raise AssertionError(f"{call.__name__}{words} succeeded; {errno.errorcode[expected]} was expected")


def path(name):
    return os.path.join(FOLDER, name)


def content(name):
    with open(path(name), "rb") as file:
        return file.read()


def put(name, data, flags=0):
    fd = os.open(path(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | flags)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.close(fd)


def noise(length, seed=1):
    return random.Random(seed).randbytes(length)


def sizes():
    """What is written in pieces of any length comes back, at once and after the close."""
    for length in (0, 1, 511, 512, 513, 65535, 65536, 65537, BLOCK, BLOCK + 1, 5 * BLOCK + 77):
        data = noise(length, length + 1)
        for piece in (length or 1, 1000 if length < 100_000 else 100_001):
            fd = os.open(path("sized"), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            for at in range(0, length, piece):
                os.write(fd, data[at : at + piece])
            assert os.fstat(fd).st_size == length
            assert os.pread(fd, 1 << 24, 0) == data[: 1 << 24], (length, piece)
            os.close(fd)
            assert content("sized") == data, (length, piece)
    os.remove(path("sized"))


def appends():
    """Appends to a file that ends inside a block, by one program or by two at a time, and with syncs between."""
    put("log", b"first\n")
    one, two = (os.open(path("log"), os.O_WRONLY | os.O_APPEND) for _ in range(2))
    expected = b"first\n"
    for at in range(300):
        line = b"line %d\n" % at
        os.write((one, two)[at % 2], line)
        expected += line
        if at % 50 == 0:
            os.fsync(one)
        if at % 70 == 0:
            os.fdatasync(two)
            assert content("log") == expected
    os.close(one)
    assert content("log") == expected
    os.write(two, b"end")
    os.close(two)
    assert content("log") == expected + b"end"
    os.remove(path("log"))


def several_at_once():
    """Many files are written at the same time, block by block in turn."""
    files = [os.open(path(f"at-once-{index}"), os.O_WRONLY | os.O_CREAT) for index in range(20)]
    for turn in range(12):
        for index, fd in enumerate(files):
            os.write(fd, noise(100_000 + index, turn * 100 + index))
    for fd in files:
        os.close(fd)
    for index in range(20):
        expected = b"".join(noise(100_000 + index, turn * 100 + index) for turn in range(12))
        assert content(f"at-once-{index}") == expected, index
        os.remove(path(f"at-once-{index}"))


def what_stays():
    """The middle of a file cannot be changed; its end, and the whole of it, can."""
    data = noise(3 * BLOCK)
    put("kept", data)
    fd = os.open(path("kept"), os.O_RDWR)
    refused(errno.EOPNOTSUPP, os.pwrite, fd, b"x", 0)
    refused(errno.EOPNOTSUPP, os.pwrite, fd, b"x", len(data) - 1)
    refused(errno.EOPNOTSUPP, os.ftruncate, fd, 1)
    refused(errno.EOPNOTSUPP, os.ftruncate, fd, len(data) - 1)
    refused(errno.EOPNOTSUPP, fallocate, fd, 2, 0, 4096)
    os.ftruncate(fd, len(data))
    # A gap is zeroes.
    os.pwrite(fd, b"tail", len(data) + 100_000)
    assert content("kept") == data + bytes(100_000) + b"tail"
    os.ftruncate(fd, len(data) + 2 * BLOCK)
    assert content("kept") == data + bytes(100_000) + b"tail" + bytes(2 * BLOCK - 100_004)
    # A map that can be stored to is refused. What a reader has in the page cache is dropped when
    # something is appended past it.
    refused(errno.ENODEV, mmap.mmap, fd, 4096)
    reader = os.open(path("kept"), os.O_RDONLY)
    for step in range(20):
        before = content("kept")
        assert os.pread(reader, len(before) + 1, 0) == before, step
        os.pwrite(fd, b"more%d" % step, len(before))
        assert os.pread(reader, len(before) + 9, 0) == before + b"more%d" % step, step
    os.close(reader)
    os.close(fd)
    os.truncate(path("kept"), 0)
    assert content("kept") == b""
    reader = os.open(path("kept"), os.O_RDONLY)
    put("kept", b"replaced")
    assert os.pread(reader, 100, 0) == b"replaced"
    os.close(reader)
    refused(errno.EBADF, os.write, reader, b"x")
    os.remove(path("kept"))


def fallocate(fd, mode, offset, length):
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if library.fallocate(fd, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def reserved():
    """fallocate with FALLOC_FL_KEEP_SIZE reserves space until the file is closed."""
    # What was removed before is freed when the kernel has released it, which may be in between: then once more.
    for _ in range(50):
        before = os.statvfs(FOLDER).f_bavail
        fd = os.open(path("reserved"), os.O_WRONLY | os.O_CREAT)
        fallocate(fd, 1, 0, 8 * BLOCK)
        during = os.statvfs(FOLDER)
        taken = (before - during.f_bavail) * during.f_frsize
        if taken >= 8 * BLOCK:
            break
        os.close(fd)
    assert taken >= 8 * BLOCK, taken
    assert os.fstat(fd).st_size == 0
    refused(errno.EOPNOTSUPP, fallocate, fd, 0, 0, BLOCK)
    refused(errno.ENOSPC, fallocate, fd, 1, 0, 1 << 40)
    os.write(fd, b"x")
    os.close(fd)
    os.remove(path("reserved"))


def names():
    """Names and folders."""
    refused(errno.ENOENT, os.stat, path("absent"))
    refused(errno.ENOENT, os.remove, path("absent"))
    refused(errno.ENOENT, os.rename, path("absent"), path("other"))
    refused(errno.ENAMETOOLONG, os.stat, path("n" * 256))
    long = "n" * 255
    put(long, b"long")
    assert long in os.listdir(FOLDER)
    refused(errno.ENAMETOOLONG, open, path(long + "n"), "w")
    refused(errno.ENAMETOOLONG, os.mkdir, path("m" * 254))
    refused(errno.ENAMETOOLONG, os.rename, path(long), path("x" * 256))
    refused(errno.EINVAL, os.open, path("").encode() + b"\xff", os.O_WRONLY | os.O_CREAT)
    refused(errno.EEXIST, os.open, path(long), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.remove(path(long))
    os.mkdir(path("a"))
    refused(errno.EEXIST, os.mkdir, path("a"))
    os.mkdir(path("a/b"))
    put("a/b/c", b"deep")
    refused(errno.ENAMETOOLONG, open, path("a/b/" + "n" * 252), "w")
    refused(errno.ENOTEMPTY, os.rmdir, path("a"))
    refused(errno.ENOTEMPTY, os.rmdir, path("a/b"))
    refused(errno.ENOTDIR, os.rmdir, path("a/b/c"))
    refused(errno.EISDIR, os.open, path("a"), os.O_WRONLY)
    refused(errno.EISDIR, os.remove, path("a"))
    refused(errno.EXDEV, os.rename, path("a"), path("z"))
    os.mkdir(path("empty"))
    os.rename(path("empty"), path("a/moved"))
    refused(errno.EISDIR, os.rename, path("a/b/c"), path("a/moved"))
    refused(errno.ENOTDIR, os.rename, path("a/moved"), path("a/b/c"))
    os.rename(path("a/b/c"), path("c"))
    assert content("c") == b"deep" and os.listdir(path("a/b")) == []
    os.rmdir(path("a/b"))
    os.rmdir(path("a/moved"))
    os.rmdir(path("a"))
    refused(errno.ENOENT, os.listdir, path("a"))
    os.remove(path("c"))
    # Removing while listing misses none.
    for index in range(300):
        put(f"one-of-many-{index}", b"")
    with os.scandir(FOLDER) as entries:
        for entry in entries:
            os.remove(entry.path)
    assert os.listdir(FOLDER) == []


def renames():
    """A file is renamed and replaced, also while it is open."""
    put("old", b"old")
    put("new", b"new")
    number = os.stat(path("new")).st_ino
    reader = os.open(path("old"), os.O_RDONLY)
    os.rename(path("new"), path("old"))
    assert content("old") == b"new" and os.stat(path("old")).st_ino == number
    assert os.pread(reader, 10, 0) == b"old", "who has it open still reads the old file"
    os.close(reader)
    refused(errno.ENOENT, os.stat, path("new"))
    writer = os.open(path("old"), os.O_WRONLY | os.O_APPEND)
    os.write(writer, b"-more")
    os.rename(path("old"), path("renamed"))
    os.write(writer, b"-again")
    os.close(writer)
    assert content("renamed") == b"new-more-again"
    # A file without a name lives until it is closed.
    fd = os.open(path("renamed"), os.O_RDWR | os.O_APPEND)
    os.remove(path("renamed"))
    assert os.listdir(FOLDER) == [] and os.fstat(fd).st_nlink == 0
    os.write(fd, b"-last")
    assert os.pread(fd, 100, 0) == b"new-more-again-last"
    os.close(fd)
    put("a", b"1")
    put("b", b"2")
    refused(errno.EEXIST, renameat2, "a", "b", 1)
    refused(errno.EINVAL, renameat2, "a", "b", 2)
    renameat2("a", "c", 1)
    os.remove(path("c"))
    os.remove(path("b"))


def renameat2(old, new, flags):
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(-100, path(old).encode(), -100, path(new).encode(), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def attributes():
    """What a volume does not keep cannot be changed; times can."""
    put("plain", b"x")
    if "--allow-other" in sys.argv:
        refused(errno.EPERM, os.chmod, path("plain"), 0o600)
    else:
        os.chmod(path("plain"), 0o600)
    assert os.stat(path("plain")).st_mode & 0o7777 == 0o644
    refused(errno.EPERM, os.chown, path("plain"), 1000, 1000)
    os.chown(path("plain"), os.getuid(), os.getgid())
    refused(errno.EPERM, os.symlink, "plain", path("link"))
    refused(errno.EPERM, os.link, path("plain"), path("link"))
    refused(errno.EPERM, os.mkfifo, path("fifo"))
    refused(errno.EOPNOTSUPP, os.setxattr, path("plain"), "user.x", b"y")
    before = os.stat(path("plain"))
    os.utime(path("plain"), ns=(1, 1_234_567_890_123_456_789))
    after = os.stat(path("plain"))
    assert (after.st_atime_ns, after.st_mtime_ns) == (1, 1_234_567_890_123_456_789) and after.st_ctime_ns > before.st_ctime_ns
    fd = os.open(path("plain"), os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"y")
    os.utime(fd, ns=(1, 987_654_321_000_000_007))
    os.close(fd)
    assert os.stat(path("plain")).st_mtime_ns == 987_654_321_000_000_007
    os.mkdir(path("folder"))
    os.utime(path("folder"), ns=(1, 5))
    assert os.stat(path("folder")).st_mtime_ns == 5
    put("folder/file", b"x")
    made = os.stat(path("folder")).st_mtime_ns
    assert made > 5, "a folder's time does not change with its names"
    os.rename(path("folder/file"), path("moved"))
    moved = os.stat(path("folder")).st_mtime_ns
    assert moved > made and os.stat(path("moved")).st_ctime_ns >= moved
    os.remove(path("moved"))
    os.rmdir(path("folder"))
    os.remove(path("plain"))


def open_files():
    """At most 128 files are open at the same time."""
    files = []
    for index in range(129):
        name = path(f"open-{index}")
        if index == 128:
            refused(errno.ENFILE, os.open, name, os.O_WRONLY | os.O_CREAT)
            break
        files.append(os.open(name, os.O_WRONLY | os.O_CREAT))
    for index, fd in enumerate(files):
        os.close(fd)
        os.remove(path(f"open-{index}"))


def fill(name):
    """Writes until the volume is full; the bytes that were accepted are whole."""
    fd = os.open(path(name), os.O_WRONLY | os.O_CREAT)
    accepted = 0
    data = noise(100_000)
    try:
        while True:
            accepted += os.write(fd, data)
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    os.fsync(fd)
    refused(errno.ENOSPC, os.write, fd, noise(64 * BLOCK))
    os.close(fd)
    assert os.stat(path(name)).st_size == accepted
    with open(path(name), "rb") as file:
        while piece := file.read(len(data)):
            assert data.startswith(piece)
    print(accepted)


if "fill" in sys.argv:
    fill(sys.argv[3])
else:
    for check in (sizes, appends, several_at_once, what_stays, reserved, names, renames, attributes, open_files):
        check()
        assert os.listdir(FOLDER) == [], (check.__name__, os.listdir(FOLDER))
