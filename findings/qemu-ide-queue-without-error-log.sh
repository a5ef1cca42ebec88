#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# QEMU's ide-hd announces native command queuing with 32 places (IDENTIFY DEVICE words 75 and 76), but has no READ LOG EXT: the command by
# which a host learns which queued command failed (log page 10h), and the only one that a drive takes after such an error, is aborted.
# It goes on without that. A drive with a queue must have the page, and general purpose logging, word 84 bit 5 (SATA-IO, Unified Test
# Document 1.1, NCQ-02), which is 0.
# Packages: qemu-system-x86, qemu-system-common, qemu-system-data 1:7.2+dfsg-7+deb12u18 (the first two +b3), seabios 1.16.2-1 (Debian 12),
# and what they need where it is not installed. Python 3.
set -euo pipefail
work=$(mktemp -d); trap 'kill $(cat "$work"/pid 2>/dev/null) 2>/dev/null || true; rm -rf "$work"' EXIT; cd "$work"
version=1:7.2+dfsg-7+deb12u18
apt-get download -qq "qemu-system-x86=$version+b3" "qemu-system-common=$version+b3" "qemu-system-data=$version" seabios=1.16.2-1 >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" tree; done
library=$work/tree/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$library:$library/pulseaudio QEMU_MODULE_DIR=$library/qemu
if ldd tree/usr/bin/qemu-system-x86_64 | grep -q 'not found'; then
    mkdir more; (cd more; apt-get -o Dir::State::status=/dev/null install --print-uris --no-install-recommends -qq qemu-system-x86 |
        sed "s/^'[^']*' \([^_]*\)_.*/\1/" | xargs apt-get download -qq >/dev/null 2>&1)
    for package in more/*.deb; do dpkg -x "$package" tree; done
fi
tree/usr/bin/qemu-system-x86_64 --version | head -n 1

truncate -s 2M image
tree/usr/bin/qemu-system-x86_64 -L tree/usr/share/qemu -L tree/usr/share/seabios -machine q35 -accel tcg -S -m 64 -display none -nodefaults \
    -qtest unix:qtest,server=on,wait=off -qtest-log none -pidfile pid -daemonize \
    -blockdev '{"driver":"raw","node-name":"disk","file":{"driver":"blkdebug","image":{"driver":"file","filename":"image"},
                "inject-error":[{"event":"none","iotype":"read","errno":5,"sector":3000}]}}' \
    -device ide-hd,drive=disk,bus=ide.0,rerror=report
python3 - <<'PYTHON'
import socket, sys, time
stream = socket.socket(socket.AF_UNIX)
stream.connect("qtest")
stream = stream.makefile("rw", newline="\n")
def ask(line):
    stream.write(line + "\n"); stream.flush()
    words = stream.readline().split()
    assert words[0] == "OK", (line, words)
    return int(words[1], 16) if len(words) > 1 else 0
def write(at, words): ask(f"write {at:#x} {4 * len(words)} 0x" + b"".join(word.to_bytes(4, "little") for word in words).hex())
def read(at, size): return ask(f"read {at:#x} {size}").to_bytes(size, "big")
PORT, LIST, RECEIVED, TABLE, BUFFER = 0xE0000100, 0x100000, 0x110000, 0x120000, 0x130000
def port(register, value): ask(f"writel {PORT + register:#x} {value:#x}")
for register, value in ((0x24, 0xE0000000), (4, 6)):  # the AHCI function of the chip set: its registers' address, memory and DMA
    ask(f"outl 0xcf8 {0x80000000 | 0x1F << 11 | 2 << 8 | register:#x}"); ask(f"outl 0xcfc {value:#x}")
ask("writel 0xe0000004 0x80000000")
port(0x00, LIST); port(0x08, RECEIVED); port(0x18, 0x10); port(0x18, 0x11)
def command(code, lba, count, queued=False):
    """Reads blocks or a page; returns (status, error, data)."""
    feature, count_field = (count, 0) if queued else (0, count)
    write(RECEIVED, [0] * 64)
    write(TABLE, [0x8027 | code << 16 | feature << 24, lba | 0x40 << 24, 0, count_field, 0] + [0] * 27 + [BUFFER, 0, 0, 512 * count - 1])
    write(LIST, [5 | 1 << 16, 0, TABLE, 0])
    if queued: port(0x34, 1)
    port(0x38, 1)
    at = 0x58 if queued else 0x40  # Set Device Bits, or the register FIS
    end = time.monotonic() + 30
    while read(RECEIVED + at, 1) == b"\0": assert time.monotonic() < end, "no answer"
    fis = read(RECEIVED + at, 4)
    port(0x30, 0xFFFFFFFF); port(0x18, 0x10); port(0x18, 0x11)
    return fis[2], fis[3], read(BUFFER, 512)
_, _, said = command(0xEC, 0, 1)
word = lambda number: int.from_bytes(said[2 * number:2 * number + 2], "little")
print(f"IDENTIFY DEVICE: queue of {(word(75) & 31) + 1}, NCQ {word(76) >> 8 & 1}, general purpose logging {word(84) >> 5 & 1}")
status, error, _ = command(0x60, 3000, 1, queued=True)
print(f"READ FPDMA QUEUED of a block that cannot be read: status {status:02x}, error {error:02x}")
status, error, _ = command(0x2F, 0x10, 1)
print(f"READ LOG EXT, page 10h: status {status:02x}, error {error:02x}")
after, code, _ = command(0x60, 5, 1, queued=True)
print(f"READ FPDMA QUEUED of a good block: status {after:02x}, error {code:02x}")
if not (word(76) >> 8 & 1 and status & 1 and error & 4 and not after & 1): sys.exit("changed: it has the log, or no queue")
PYTHON
echo "as stated: a queue, and no log of its errors"
