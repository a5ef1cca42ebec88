#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# editcap and mergecap copy a pcapng file without its interface statistics block: the number of packets that the interface received and
# dropped (isb_ifdrop) is gone from the copy, with exit status 0 and no word. A packet's own drop count (epb_dropcount) is kept. A recorder
# whose losses should survive these tools writes them into the options of the packets too.
# Packages: wireshark-common 4.0.17-0+deb12u3, libwiretap13, libwsutil14 (Debian 12).
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
version=4.0.17-0+deb12u3
apt-get download -qq wireshark-common=$version libwiretap13=$version libwsutil14=$version >/dev/null 2>&1
for package in *.deb; do dpkg -x "$package" tree; done
export LD_LIBRARY_PATH=$work/tree/usr/lib/x86_64-linux-gnu PATH=$work/tree/usr/bin:$PATH
editcap --version | head -n 1

cat >file.py <<'PYTHON'
"""Writes a pcapng file of two packets, the second with a drop count, and interface statistics; or lists the blocks of one."""
import struct, sys

def block(kind, body):
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length

def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)

def packet(number, dropped):
    data = struct.pack(">BBHHHBBH4s4sHHHH", 0x45, 0, 28, number, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), 1000, 2000, 8, 0)
    time = 1_700_000_000_000_000 + number
    options = option(4, struct.pack("<Q", dropped)) + bytes(4)
    return block(6, struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, len(data), len(data)) + data + options)

def blocks(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        yield kind, data[at + 8:at + length - 4]
        at += length

if sys.argv[1] == "write":
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = block(1, struct.pack("<HHI", 228, 0, 0) + bytes(4))
    counted = option(4, struct.pack("<Q", 9)) + option(5, struct.pack("<Q", 7)) + bytes(4)
    open(sys.argv[2], "wb").write(section + interface + packet(1, 0) + packet(2, 7) + block(5, struct.pack("<III", 0, 0, 0) + counted))
else:
    for kind, body in blocks(open(sys.argv[2], "rb").read()):
        drops = f" epb_dropcount={struct.unpack_from('<Q', body, 52)[0]}" if kind == 6 and len(body) > 60 else ""
        print({0x0A0D0D0A: "section", 1: "interface", 5: "interface-statistics", 6: "packet"}.get(kind, kind), end=drops + "\n")
PYTHON
python3 file.py write in.pcapng
editcap in.pcapng edited.pcapng
mergecap -w merged.pcapng in.pcapng in.pcapng
for file in in edited merged; do
    python3 file.py list $file.pcapng >$file
    echo "$file.pcapng: $(paste -s -d ' ' $file)"
done
grep -q interface-statistics in
if grep -q interface-statistics edited merged; then echo "changed: the statistics are kept"; exit 1; fi
for file in edited merged; do grep -q epb_dropcount=7 $file || { echo "changed: the packet's drop count is lost too"; exit 1; }; done
echo "as stated: the interface's statistics are left out, the packet's drop count is kept"
