// SPDX-License-Identifier: Apache-2.0 OR MIT
// Prints the messages of an MCAP file as the readers of @mcap/core find them: usage: node mcap.mjs FOLDER stream|index FILE
// FOLDER has the packages of package-lock.json. A line for each message: its topic, its time and its data in hex; then a line with counts.

import { createRequire } from "node:module";
import fs from "node:fs";

const [folder, way, file] = process.argv.slice(2);
const require = createRequire(fs.realpathSync(folder) + "/");
const { McapIndexedReader, McapStreamReader } = require("@mcap/core");
const { loadDecompressHandlers } = require("@mcap/support");
const decompressHandlers = await loadDecompressHandlers();
const hex = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");
const lines = [];

if (way === "stream") {
  const channels = new Map();
  let others = 0;
  const reader = new McapStreamReader({ decompressHandlers, validateCrcs: true });
  reader.append(fs.readFileSync(file));
  for (let record; (record = reader.nextRecord()) !== undefined; ) {
    if (record.type === "Channel") channels.set(record.id, record.topic);
    else if (record.type === "Message") lines.push(`${channels.get(record.channelId)} ${record.logTime} ${hex(record.data)}`);
    else if (record.type === "Attachment" || record.type === "Metadata") others += 1;
  }
  if (!reader.done()) throw new Error("the file has no end");
  lines.push(`others ${others}`);
} else {
  const handle = await fs.promises.open(file);
  const readable = {
    size: async () => BigInt((await handle.stat()).size),
    read: async (offset, length) => {
      const data = new Uint8Array(Number(length));
      const { bytesRead } = await handle.read(data, 0, data.length, Number(offset));
      return data.subarray(0, bytesRead);
    },
  };
  const reader = await McapIndexedReader.Initialize({ readable, decompressHandlers });
  for await (const message of reader.readMessages({ validateCrcs: true })) {
    lines.push(`${reader.channelsById.get(message.channelId).topic} ${message.logTime} ${hex(message.data)}`);
  }
  lines.push(`others ${reader.attachmentIndexes.length + reader.metadataIndexes.length}`);
  await handle.close();
}
process.stdout.write(lines.join("\n") + "\n");
