# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A drive with a volatile write cache, for QEMU, that logs the order of all operations.

QEMU reaches it over NBD (a Unix socket; `lab/run --drive nbd=PATH`). One thread serves each
connection, and all of them write to one log: each write with its bytes when it is answered, and each
flush. So what was in the cache at any moment is known, also after QEMU was killed: `images` cuts the
log at a moment and makes what the drive may have held when its power went. What was flushed is there;
of the rest each write is there, is not, or is torn at a block, as a seeded choice has it.
"""

import socket
import struct
import threading
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = 512
NBD_MAGIC, OPTION_MAGIC, REPLY_MAGIC = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
EXPORT_NAME, ABORT, INFO, GO = 1, 2, 6, 7
ACK, INFO_REPLY, UNSUPPORTED = 1, 3, (1 << 31) | 1
# Has flags; flush, FUA and write-zeroes are understood.
FLAGS = 1 | 1 << 2 | 1 << 3 | 1 << 6
READ, WRITE, DISCONNECT, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 2, 3, 4, 6
FUA = 1


@dataclass
class Entry:
    """A write, or a flush (no data)."""

    offset: int = 0
    data: bytes | None = None
    is_durable: bool = False


@dataclass
class Drive:
    size: int
    socket_path: Path
    image: bytearray = field(init=False)
    log: list[Entry] = field(default_factory=list)
    # Requests whose answer QEMU did not receive before it was killed are in the log too.
    lock: threading.Lock = field(default_factory=threading.Lock)
    fua_writes: int = 0

    def __post_init__(self):
        self.image = bytearray(self.size)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.socket_path))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._server.close()
        self.socket_path.unlink(missing_ok=True)

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            with connection:
                if self._negotiate(connection):
                    while self._answer(connection):
                        pass
        except (ConnectionError, EOFError):
            pass  # QEMU was killed.

    def _negotiate(self, connection):
        connection.sendall(struct.pack(">QQH", NBD_MAGIC, OPTION_MAGIC, 3))
        receive(connection, 4)
        while True:
            _, option, length = struct.unpack(">QII", receive(connection, 16))
            receive(connection, length)

            def reply(kind, data=b"", option=option):
                connection.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)

            if option in (INFO, GO):
                reply(INFO_REPLY, struct.pack(">HQH", 0, self.size, FLAGS))
                # Block sizes: smallest, preferred, largest.
                reply(INFO_REPLY, struct.pack(">HIII", 3, BLOCK, 4096, 32 << 20))
                reply(ACK)
                if option == GO:
                    return True
            elif option == ABORT:
                reply(ACK)
                return False
            else:
                reply(UNSUPPORTED)

    def _answer(self, connection):
        magic, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", receive(connection, 28))
        assert magic == 0x25609513, hex(magic)
        data = receive(connection, length) if kind == WRITE else None
        if kind == DISCONNECT:
            return False
        answer, error = b"", 0
        with self.lock:
            if kind == READ:
                answer = bytes(self.image[offset : offset + length])
            elif kind in (WRITE, WRITE_ZEROES):
                data = data if kind == WRITE else bytes(length)
                self.image[offset : offset + length] = data
                self.fua_writes += flags & FUA
                self.log.append(Entry(offset, data, is_durable=bool(flags & FUA)))
            elif kind == FLUSH:
                # Everything in the log was answered before, so it is covered.
                self.log.append(Entry())
            elif kind != TRIM:
                error = 22
            connection.sendall(struct.pack(">IIQ", 0x67446698, error, handle) + answer)
        return True


def receive(connection, length):
    data = bytearray(length)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]
    return bytes(data)


class Durable:
    """The content of the medium according to a log, at successive moments."""

    def __init__(self, formatted, log):
        self.medium = bytearray(formatted)
        self.log = log
        self.at = 0
        self.pending = []

    def go_to(self, moment):
        """Applies the first `moment` entries of the log."""
        while self.at < moment:
            entry = self.log[self.at]
            self.at += 1
            if entry.data is None:
                for write in self.pending:
                    self._apply(write)
                self.pending = []
            elif entry.is_durable:
                # It is newer than pending writes at the same offset.
                self.pending = [cut for write in self.pending for cut in without(write, entry)]
                self._apply(entry)
            else:
                self.pending.append(entry)

    def _apply(self, write):
        self.medium[write.offset : write.offset + len(write.data)] = write.data

    def image(self, random):
        """A possible content if the power fails now."""
        image = bytearray(self.medium)
        lose = random.choice((0.0, 0.2, 0.5, 0.9, 1.0))
        order = list(self.pending)
        for write in order:
            for start in range(0, len(write.data), BLOCK):
                # A write of several blocks may be torn at any of them.
                if random.random() >= lose:
                    block = write.data[start : start + BLOCK]
                    image[write.offset + start : write.offset + start + len(block)] = block
        return image


def without(write, newer):
    """The parts of a pending write that a newer, durable one does not cover."""
    start, end = newer.offset, newer.offset + len(newer.data)
    first = write.data[: max(0, start - write.offset)]
    last_from = max(0, end - write.offset)
    if first:
        yield Entry(write.offset, first)
    if last_from < len(write.data):
        yield Entry(write.offset + last_from, write.data[last_from:])
