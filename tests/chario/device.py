# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CharIO's ioctls for the tests that run in a guest: the layouts of kernel/chario/chario.h."""

import ctypes
import fcntl
import mmap
import os
import struct

NODE = os.environ.get("CHARIO_NODE", "/dev/chardisk0n1")
FOLDER = "/sys/class/chario/" + os.path.basename(NODE)
LIBC = ctypes.CDLL(None, use_errno=True)

INFO, COMPLETION, REGISTER, UNREGISTER = 0x803063C0, 0x400463C1, 0xC01863C2, 0x400463C3
TRANSFER, PHYS, GRANT, REVOKE = 0x402063C4, 0x402063C5, 0x401063C6, 0x401063C7
WRITE, FUA = 1, 2
INFO_FIELDS = ("version flags nsid block_bytes command_bytes unit_bytes queue_depth lanes "
               "buffer_align_bytes registered_max size_bytes").split()


def opened(flags=os.O_RDWR):
    return os.open(NODE, flags)


def info(file):
    data = bytearray(48)
    fcntl.ioctl(file, INFO, data)
    return dict(zip(INFO_FIELDS, struct.unpack("10IQ", data)))


def memory(length):
    """Anonymous memory at the start of a page, and its address."""
    area = mmap.mmap(-1, length)
    return area, ctypes.addressof(ctypes.c_char.from_buffer(area))


def call(name, *arguments):
    """A system call by its name in the C library, with plain numbers: what Python itself would check or split."""
    function = getattr(LIBC, name)
    function.restype = ctypes.c_long
    result = function(*[ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments])
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def register(file, address, length, flags=0):
    data = bytearray(struct.pack("QQII", address, length, 0, flags))
    fcntl.ioctl(file, REGISTER, data)
    return struct.unpack("QQII", data)[2]


def unregister(file, number):
    fcntl.ioctl(file, UNREGISTER, struct.pack("I", number))


def transfer(file, position, length, offset, number, flags=0):
    return fcntl.ioctl(file, TRANSFER, bytearray(struct.pack("QQQII", position, length, offset, number, flags)))


def phys(file, position, length, address, flags=0):
    return fcntl.ioctl(file, PHYS, bytearray(struct.pack("QQQII", position, length, address, flags, 0)))


def grant(file, address, length):
    fcntl.ioctl(file, GRANT, struct.pack("QQ", address, length))


def revoke(file, address, length):
    fcntl.ioctl(file, REVOKE, struct.pack("QQ", address, length))


def poll(file, polls=True):
    fcntl.ioctl(file, COMPLETION, struct.pack("I", int(polls)))


def counter(name):
    with open(f"{FOLDER}/counters/{name}") as file:
        return int(file.read())


def attribute(name):
    with open(f"{FOLDER}/{name}") as file:
        return file.read().strip()


def counters():
    return {name: counter(name) for name in ("read_commands", "write_commands", "interrupts", "errors")}


def fails(number, function, *arguments):
    """Fails unless the call ends with this errno."""
    try:
        result = function(*arguments)
    except OSError as error:
        assert error.errno == number, (error, os.strerror(number), function.__name__, arguments)
    else:
        raise AssertionError(f"{function.__name__}{arguments} gave {result}, not {os.strerror(number)}")
