#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The readers of MCAP's own project disagree about a chunk that is compressed in several frames, as both formats allow: the one in TypeScript
# reads all frames of Zstandard and the first one of LZ4, the one in Python the first one of either; each reports a wrong checksum for the
# rest, or, without a checksum, fewer messages. A writer whose files should be read everywhere compresses a chunk in one frame.
# Packages: mcap 1.6.0, zstandard 0.25.0, lz4 4.4.5 (PyPI); @mcap/core 2.2.2, @mcap/support 1.1.0 (npm).
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mcap==1.6.0 zstandard==0.25.0 lz4==4.4.5
npm install --silent --ignore-scripts --no-audit --no-fund @mcap/core@2.2.2 @mcap/support@1.1.0 >/dev/null 2>&1
echo "mcap 1.6.0 (Python), @mcap/core 2.2.2 (node $(node --version))"

cat >write.py <<'PYTHON'
"""Writes one chunk of 20 messages, compressed in one frame or in two."""
import struct, zlib
import lz4.frame, zstandard

def record(opcode, content):
    return struct.pack("<BQ", opcode, len(content)) + content

def text(word):
    return struct.pack("<I", len(word)) + word

inner = record(4, struct.pack("<HH", 1, 0) + text(b"/a") + text(b"json") + text(b""))
inner += b"".join(record(5, struct.pack("<HIQQ", 1, number, number, number) + b"{}") for number in range(20))
for kind, pack in (("zstd", zstandard.ZstdCompressor().compress), ("lz4", lz4.frame.compress)):
    for frames, stored in ((1, pack(inner)), (2, pack(inner[:200]) + pack(inner[200:]))):
        fields = struct.pack("<QQQI", 0, 19, len(inner), zlib.crc32(inner)) + text(kind.encode()) + struct.pack("<Q", len(stored))
        file = record(1, text(b"") * 2) + record(6, fields + stored) + record(15, bytes(4)) + record(2, bytes(20))
        open(f"{kind}-{frames}.mcap", "wb").write(b"\x89MCAP0\r\n" + file + b"\x89MCAP0\r\n")
PYTHON
cat >read.py <<'PYTHON'
import sys
from mcap.reader import NonSeekingReader
try:
    with open(sys.argv[1], "rb") as file:
        print(len(list(NonSeekingReader(file, validate_crcs=True).iter_messages())))
except ValueError as error:
    print("checksum" if "crc validation failed" in str(error) else error)
PYTHON
cat >read.mjs <<'JS'
import fs from "node:fs";
import { McapStreamReader } from "@mcap/core";
import { loadDecompressHandlers } from "@mcap/support";
const reader = new McapStreamReader({ decompressHandlers: await loadDecompressHandlers(), validateCrcs: true });
reader.append(fs.readFileSync(process.argv[2]));
let messages = 0;
try {
  for (let record; (record = reader.nextRecord()) !== undefined; ) messages += record.type === "Message" ? 1 : 0;
  console.log(messages);
} catch (error) {
  console.log(String(error).includes("Incorrect chunk CRC") ? "checksum" : String(error));
}
JS
venv/bin/python write.py
for file in zstd-1 zstd-2 lz4-1 lz4-2; do
    echo "$file: Python $(venv/bin/python read.py $file.mcap), TypeScript $(node read.mjs $file.mcap)"
done | tee seen
diff seen - <<'SEEN' || { echo "changed"; exit 1; }
zstd-1: Python 20, TypeScript 20
zstd-2: Python checksum, TypeScript 20
lz4-1: Python 20, TypeScript 20
lz4-2: Python checksum, TypeScript checksum
SEEN
echo "as stated: two frames of Zstandard are read by one of the two readers, two frames of LZ4 by neither"
