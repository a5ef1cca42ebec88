# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs in a guest: a network that holds what was sent on the connections of a moment and delivers it later, between `serve --nbd` of a remote
namespace and its target; and the clients of that server.

fabric_guest.py SOCKET LISTEN TARGET FILE KEEP_ALIVE_S WAIT_S: the server's socket, the ports, the file behind the namespace. It begins with
a line on standard input.
"""

import selectors
import socket
import struct
import sys
import threading
import time

BLOCK = 4096
READ, WRITE, FLUSH = 0, 1, 3


class Network(threading.Thread):
    """Forwards connections to LISTEN to TARGET. From hold() on, what the host sends on the connections of then waits for release(), and nothing
    comes back on them, not even that they end."""

    def __init__(self, listen, target):
        super().__init__(daemon=True)
        self.target = target
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", listen))
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.pairs = []
        self.enabled = None
        self.lock = threading.Lock()

    def hold(self):
        with self.lock:
            for pair in self.pairs:
                pair["held"] = []

    def release(self):
        """Delivers what was held. Returns its bytes."""
        count = 0
        with self.lock:
            for pair in self.pairs:
                for data in pair.get("held") or ():
                    try:
                        pair["target"].sendall(data)
                        count += len(data)
                    except OSError:
                        break
                # The rest of it stays without answers.
                if "held" in pair:
                    pair["held"] = []
                    pair["is_lost"] = True
        return count

    def run(self):
        while True:
            for key, _ in self.selector.select():
                with self.lock:
                    self.forward(key)

    def forward(self, key):
        if key.data is None:
            host, _ = self.listener.accept()
            target = socket.create_connection(("127.0.0.1", self.target))
            pair = {"host": host, "target": target}
            self.pairs.append(pair)
            for side in pair.values():
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.selector.register(host, selectors.EVENT_READ, ("target", pair))
            self.selector.register(target, selectors.EVENT_READ, ("host", pair))
            return
        to, pair = key.data
        try:
            data = key.fileobj.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(key.fileobj)
            if "held" not in pair:
                pair[to].close()
        elif "held" not in pair:
            if self.enabled is None and to == "target" and data[8:9] == b"\x7f" and data[12:13] == b"\0":
                # Property Set, of CC: from now on the target looks at its keep-alive timer once per timeout.
                self.enabled = time.monotonic()
            try:
                pair[to].sendall(data)
            except OSError:
                pass
        elif to == "target" and "is_lost" not in pair:
            pair["held"].append(data)


class Client:
    """A client of the server."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.receive(18)
        # Fixed newstyle; NBD_OPT_GO for the default export, no information requests.
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">IIIH", 7, 6, 0, 0))
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.receive(20))
            self.receive(length)
            if kind == 1:
                return

    def receive(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            assert part, "the server closed the connection"
            data += part
        return data

    def send(self, command, block, data=b""):
        length = 0 if command == FLUSH else BLOCK
        header = struct.pack(">IHHQQI", 0x25609513, 0, command, 1, block * BLOCK, length)
        self.socket.sendall(header + data)

    def answer(self, command):
        _, error, _ = struct.unpack(">IIQ", self.receive(16))
        assert error == 0, f"command {command} ended with {error}"
        return self.receive(BLOCK) if command == READ else b""

    def run(self, command, block=0, data=b""):
        self.send(command, block, data)
        return self.answer(command)

    def has_answer(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            return bool(selector.select(0))


def main(path, listen, target, file, keep_alive_s, wait_s):
    network = Network(int(listen), int(target))
    network.start()
    print("network", flush=True)
    assert sys.stdin.readline()
    writer, reader = Client(path), Client(path)

    def stored():
        with open(file, "rb") as disk:
            return disk.read(1)

    writer.run(WRITE, 0, b"0" * BLOCK)
    # Idle for more than two timeouts, and until the target has just looked at its timer.
    begin = network.enabled + 0.15
    time.sleep(3 * keep_alive_s - (time.monotonic() - begin) % keep_alive_s)
    connections = len(network.pairs)
    reader.run(READ, 1)
    assert connections == len(network.pairs), "the idle server has lost its association"

    network.hold()
    began = time.monotonic()
    writer.send(WRITE, 0, b"A" * BLOCK)
    reader.run(READ, 1)
    print(f"a read was answered {time.monotonic() - began:.1f} s after the loss", flush=True)
    assert not writer.has_answer(), "the write was answered before"
    assert stored() == b"0"
    time.sleep(max(0, began + 1.9 * keep_alive_s - time.monotonic()))
    released = network.release()
    for _ in range(10):
        time.sleep(0.1)
        late = stored()
        if late != b"0":
            break
    print(f"{released} bytes were delivered late; the old controller executed the write: {late == b'A'}", flush=True)
    writer.answer(WRITE)
    took = time.monotonic() - began
    print(f"the write was answered {took:.1f} s after the loss", flush=True)
    assert took >= wait_s - 0.5, "before the old controller must have ended"
    writer.run(WRITE, 0, b"B" * BLOCK)
    writer.run(FLUSH)
    end = time.monotonic() + keep_alive_s
    while time.monotonic() < end:
        assert reader.run(READ, 0)[:1] == b"B", "an old write has overwritten a newer one"
        time.sleep(0.2)
    assert stored() == b"B"
    print("ended", flush=True)
    # The network is there until the server has ended.
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:5], float(sys.argv[5]), float(sys.argv[6]))
