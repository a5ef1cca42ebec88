# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The file interface, call by call. Runs in a guest with an empty drive at CharIO's driver."""

import errno
import os
import platform
import re
import select
import struct
import fcntl

import device as d

WINDOW = int(os.environ["WINDOW"], 0)
# A write there is an interrupt: x86's local APIC, and the ITS of the emulated Arm machine.
DOORBELL = 0xFEE00000 if platform.machine() == "x86_64" else 0x08080000
file = d.opened()
facts = d.info(file)
block, command, unit, size = (facts[key] for key in ("block_bytes", "command_bytes", "unit_bytes", "size_bytes"))
area, address = d.memory(16 << 20)


def expected_commands(lengths):
    """The rule of docs/chario.md: each memory range is split into units, each unit into commands."""
    total = units = 0
    for length in lengths:
        while length:
            part = min(length, unit)
            total, units, length = total + -(-part // command), units + 1, length - part
    return total, units


def counted(function, *arguments):
    before = d.counters()
    result = function(*arguments)
    after = d.counters()
    return result, {name: after[name] - before[name] for name in after}


def test_facts():
    assert facts["version"] == 1 and facts["nsid"] == 1
    assert size == os.lseek(file, 0, os.SEEK_END)
    data = bytearray(8)
    fcntl.ioctl(file, 0x80081272, data)
    assert struct.unpack("Q", data)[0] == size
    assert len(open(d.FOLDER + "/identify_controller", "rb").read()) == 4096
    assert len(open(d.FOLDER + "/identify_namespace", "rb").read()) == 4096
    assert d.attribute("serial") == "LAB1" and d.attribute("state") == "live"
    assert not d.attribute("windows"), "nothing is granted unless the administrator does"


def test_what_is_written_is_read_at_every_length():
    for length in sorted({block, 2 * block, 4096, 8192, 12288, command, command + block, unit, unit + block, 3 * unit - block}):
        if length % block:
            continue
        position = block * 3
        pattern = os.urandom(4096) * (length // 4096 + 1)
        area[:length] = pattern[:length]
        done, count = counted(d.call, "pwrite", file, address, length, position)
        assert done == length, (done, length)
        commands, units = expected_commands([length])
        assert count["write_commands"] == commands, (length, count, commands)
        assert facts["lanes"] == 0 or not facts["flags"] & 4 or count["interrupts"] == units, (length, count, units)
        area[:length] = bytes(length)
        done, count = counted(d.call, "pread", file, address, length, position)
        assert done == length and area[:length] == pattern[:length], length
        assert count["read_commands"] == commands and count["errors"] == 0


def test_offsets_in_a_page():
    start = 512 if block == 512 else 0
    length = 64 << 10
    area[start:start + length] = os.urandom(length)
    before = area[start:start + length]
    assert d.call("pwrite", file, address + start, length, 0) == length
    assert d.call("pread", file, address + (4 << 20), length, 0) == length
    assert area[4 << 20:(4 << 20) + length] == before


def test_alignment():
    for name in ("pread", "pwrite"):
        d.fails(errno.EINVAL, d.call, name, file, address + 1, block, 0)
        d.fails(errno.EINVAL, d.call, name, file, address + block // 2, block, 0)
        d.fails(errno.EINVAL, d.call, name, file, address, block - 1, 0)
        d.fails(errno.EINVAL, d.call, name, file, address, block + 4, 0)
        d.fails(errno.EINVAL, d.call, name, file, address, block, block // 2)
        d.fails(errno.EINVAL, d.call, name, file, address, block, -block)
    d.fails(errno.EINVAL, os.lseek, file, 1, os.SEEK_SET)
    d.fails(errno.EINVAL, os.lseek, file, -block, os.SEEK_SET)
    assert d.call("pread", file, address, 0, 0) == 0


def test_the_end():
    assert d.call("pread", file, address, 4 * block, size - block) == block
    assert d.call("pwrite", file, address, 4 * block, size - 2 * block) == 2 * block
    assert d.call("pread", file, address, block, size) == 0
    assert d.call("pread", file, address, block, size + (1 << 40)) == 0
    d.fails(errno.ENOSPC, d.call, "pwrite", file, address, block, size)
    os.lseek(file, size - block, os.SEEK_SET)
    assert d.call("read", file, address, unit) == block
    assert os.lseek(file, 0, os.SEEK_CUR) == size
    assert d.call("read", file, address, unit) == 0


def test_vectors():
    views = [memoryview(area)[at:at + length] for at, length in
             ((0, 4096), (8192, 12288), (65536, 4096 * 3), (1 << 20, unit + 4096))]
    for view in views:
        view[:] = os.urandom(4096) * (len(view) // 4096)
    wrote = b"".join(bytes(view) for view in views)
    done, count = counted(os.pwritev, file, views, 4096)
    commands, units = expected_commands([len(view) for view in views])
    assert done == len(wrote) and count["write_commands"] == commands, (done, count, commands)
    for view in views:
        view[:] = bytes(len(view))
    # Entries without bytes change nothing.
    assert os.preadv(file, [bytearray(), *views[:2], bytearray(), *views[2:], bytearray()], 4096) == len(wrote)
    assert b"".join(bytes(view) for view in views) == wrote
    d.fails(errno.EINVAL, os.preadv, file, [views[0], memoryview(area)[100:100 + 4096]], 0)
    # A bad page in the middle: what came before counts.
    good = 2 * unit
    vector = struct.pack("4Q", address, good, 4096, 4096)
    holder, at = d.memory(4096)
    holder[:32] = vector
    assert d.call("preadv", file, at, 2, 0) == good
    d.fails(errno.EFAULT, d.call, "pread", file, 4096, 4096, 0)
    for view in views:
        view.release()


def test_flags_of_open():
    d.fails(errno.EINVAL, d.opened, os.O_RDWR | os.O_APPEND)
    d.fails(errno.EINVAL, fcntl.fcntl, file, fcntl.F_SETFL, os.O_APPEND)
    for flags in (os.O_DIRECT, os.O_TRUNC, os.O_SYNC, os.O_NONBLOCK):
        other = d.opened(os.O_RDWR | flags)
        assert d.call("pread", other, address, block, 0) == block
        assert d.call("pwrite", other, address, block, 0) == block
        os.close(other)
    mine = d.opened(os.O_RDONLY | os.O_EXCL)
    d.fails(errno.EBUSY, d.opened, os.O_RDONLY | os.O_EXCL)
    os.close(d.opened(os.O_RDONLY))
    d.fails(errno.EBADF, d.call, "pwrite", mine, address, block, 0)
    number = d.register(mine, address, 4096)
    d.fails(errno.EBADF, d.transfer, mine, 0, block, 0, number, d.WRITE)
    assert d.transfer(mine, 0, block, 0, number) == block
    os.close(mine)
    os.close(d.opened(os.O_RDONLY | os.O_EXCL))


def test_poll_fsync_and_fua():
    assert select.poll() and select.select([file], [file], [], 0) == ([file], [file], [])
    before = d.counter("flushes")
    os.fsync(file)
    os.fdatasync(file)
    assert d.counter("flushes") == before + (2 if facts["flags"] & 2 else 0)
    assert os.pwritev(file, [memoryview(area)[:4096]], 0, os.RWF_DSYNC) == 4096
    # A driver that can only wait returns an error to a caller that cannot.
    d.fails(errno.EOPNOTSUPP, os.preadv, file, [memoryview(area)[:4096]], 0, os.RWF_NOWAIT)
    assert os.preadv(file, [memoryview(area)[:4096]], 0, os.RWF_HIPRI) == 4096


def test_polling_takes_no_interrupts():
    polled = d.opened()
    d.poll(polled)
    done, count = counted(d.call, "pread", polled, address, 3 * unit, 0)
    assert done == 3 * unit
    assert count["read_commands"] == expected_commands([3 * unit])[0]
    assert count["interrupts"] == 0 or not facts["flags"] & 4, count
    d.poll(polled, False)
    done, count = counted(d.call, "pread", polled, address, 3 * unit, 0)
    assert count["interrupts"] == 3 or not facts["flags"] & 4, count
    d.fails(errno.EINVAL, fcntl.ioctl, polled, d.COMPLETION, struct.pack("I", 2))
    os.close(polled)


def test_registered_buffers():
    own = d.opened()
    start = 512 if block == 512 else 4096
    length = 9 << 20
    number = d.register(own, address + start, length)
    area[start:start + length] = os.urandom(1 << 20) * 9
    wrote = area[start:start + length]
    done, count = counted(d.transfer, own, 0, length, 0, number, d.WRITE | d.FUA)
    assert done == length and count["write_commands"] == expected_commands([length])[0]
    area[start:start + length] = bytes(length)
    for at in range(0, length, 3 << 20):
        assert d.transfer(own, at, 3 << 20, at, number) == 3 << 20
    assert area[start:start + length] == wrote
    assert d.transfer(own, 4 * block, block, 2 * block, number) == block
    assert area[start + 2 * block:start + 3 * block] == wrote[4 * block:5 * block]
    assert d.transfer(own, size - block, 8 * block, 0, number) == block
    d.fails(errno.ENOSPC, d.transfer, own, size, block, 0, number, d.WRITE)
    for position, count_bytes, offset, buffer, flags in (
        (0, block, 1, number, 0), (1, block, 0, number, 0), (0, 1, 0, number, 0), (0, block, length, number, 0),
        (0, length + block, 0, number, 0), (0, block, 2**64 - block, number, 0), (0, 2**63, 0, number, 0),
        (0, block, 0, 64, 0), (0, block, 0, number, 8),
    ):
        d.fails(errno.EINVAL, d.transfer, own, position, count_bytes, offset, buffer, flags)
    d.fails(errno.ENOENT, d.transfer, own, 0, block, 0, number + 1, 0)
    d.fails(errno.EINVAL, d.register, own, address + 1, 4096)
    d.fails(errno.EINVAL, d.register, own, address, 0)
    d.fails(errno.EINVAL, d.register, own, address, 2 << 30)
    d.fails(errno.EINVAL, d.register, own, 2**64 - 4096, 8192)
    d.fails(errno.EINVAL, d.register, own, address, 4096, 2)
    d.fails(errno.EFAULT, d.register, own, 4096, 4096)
    d.unregister(own, number)
    d.fails(errno.ENOENT, d.unregister, own, number)
    d.fails(errno.EINVAL, d.unregister, own, 64)
    numbers = [d.register(own, address + index * 4096, 4096) for index in range(facts["registered_max"])]
    assert numbers == list(range(facts["registered_max"]))
    d.fails(errno.ENOSPC, d.register, own, address, 4096)
    # Closing the file unregisters them.
    os.close(own)


def test_read_and_write_find_registered_memory_by_its_address():
    own = d.opened()
    length = 5 << 20
    number = d.register(own, address + 4096, length, 1)
    area[4096:4096 + length] = os.urandom(1 << 20) * 5
    wrote = area[4096:4096 + length]
    assert d.call("pwrite", own, address + 4096, length, block) == length
    area[4096:4096 + length] = bytes(length)
    done, count = counted(d.call, "pread", own, address + 4096, length, block)
    assert done == length and area[4096:4096 + length] == wrote
    assert count["read_commands"] == expected_commands([length])[0]
    # Memory that is partly outside is pinned for the call, as usual.
    for at, size_bytes in ((0, 8192), (4096 + length - 4096, 8192), (8 << 20, 8192)):
        assert d.call("pread", own, address + at, size_bytes, block) == size_bytes
        assert area[at:at + size_bytes] == wrote[:size_bytes]
    d.unregister(own, number)
    assert d.call("pread", own, address + 4096, 8192, block) == 8192
    os.close(own)


def test_windows_are_denied():
    """Without a grant no physical memory is accessible; System RAM and the interrupts' doorbells never are."""
    d.fails(errno.EPERM, d.phys, file, 0, block, WINDOW, 0)
    d.fails(errno.EPERM, d.call, "mmap", 0, 4096, 3, 1, file, WINDOW)
    ram = [line for line in open("/proc/iomem") if "System RAM" in line]
    first = [int(part, 16) for part in ram[-1].split(":")[0].split("-")]
    d.fails(errno.EPERM, d.grant, file, first[0] & ~4095, 4096)
    # Beyond what a processor here can address: mapping it would produce a corrupt page table.
    sizes = next((line for line in open("/proc/cpuinfo") if line.startswith("address sizes")), None)
    if sizes:
        beyond = 1 << int(re.search(r"(\d+) bits physical", sizes)[1])
        d.fails(errno.EINVAL, d.grant, file, beyond, 4096)
        d.fails(errno.EINVAL, d.grant, file, beyond - 4096, 8192)
    d.fails(errno.EPERM, d.grant, file, first[1] & ~4095, 4096)
    d.fails(errno.EPERM, d.grant, file, DOORBELL, 4096)
    d.fails(errno.EPERM, d.grant, file, 0, 1 << 40)
    for start, length in ((1, 4096), (4096, 1), (0, 0), (2**64 - 4096, 8192), (2**63, 2**63)):
        d.fails(errno.EINVAL, d.grant, file, start, length)
    d.fails(errno.ENOENT, d.revoke, file, WINDOW, 4096)
    d.fails(errno.EINVAL, d.phys, file, 0, 2**63, WINDOW, 0)
    d.fails(errno.ENOTTY, fcntl.ioctl, file, 0x63FF)


def test_looser_buffers():
    with open(d.FOLDER + "/buffer_align_bytes", "w") as attribute:
        attribute.write("4")
    area[4:4 + unit] = os.urandom(4096) * (unit // 4096)
    assert d.call("pwrite", file, address + 4, unit, 0) == unit
    assert d.call("pread", file, address + (8 << 20) + 12, unit, 0) == unit
    assert area[(8 << 20) + 12:(8 << 20) + 12 + unit] == area[4:4 + unit]
    d.fails(errno.EINVAL, d.call, "pread", file, address + 2, unit, 0)
    d.fails(errno.EINVAL, d.call, "pread", file, address + 4, block + 4, 0)
    with open(d.FOLDER + "/buffer_align_bytes", "w") as attribute:
        attribute.write(str(block))


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print(name, flush=True)
