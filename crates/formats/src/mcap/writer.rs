// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes chunks, their indexes and the summary of an MCAP file, in one pass.

use super::Rebuilt;
use super::layout::{Chunk, Fields, MAGIC, Making, PREFIX_BYTES, Record, numbered, op};
use crate::error::Result;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Who wrote the file, if the stream has no header.
const LIBRARY: &[u8] = b"straightway";

/// Records of a chunk, and where its messages are.
#[derive(Debug, Default)]
pub struct Contents {
    bytes: Vec<u8>,
    /// Time and offset of each message, by channel.
    index: BTreeMap<u16, Vec<(u64, u64)>>,
}

impl Contents {
    /// Adds a record to the chunk.
    pub fn gather(&mut self, record: &Record<'_>) {
        self.note(record, self.bytes.len() as u64);
        self.bytes.extend_from_slice(record.whole);
    }

    /// Remembers a message of the chunk at this offset.
    pub fn note(&mut self, record: &Record<'_>, offset: u64) {
        let mut fields = Fields(record.content);
        if let (op::MESSAGE, Some(channel)) = (record.opcode, fields.u16_le()) {
            let time = fields.bytes(4).and_then(|_| fields.u64_le());
            let entries = self.index.entry(channel).or_default();
            entries.push((time.unwrap_or(0), offset));
        }
    }

    /// Bytes of gathered records.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Messages.
    pub fn messages(&self) -> u64 {
        self.index
            .values()
            .map(|entries| entries.len() as u64)
            .sum()
    }

    /// The first and the last time; 0 without messages.
    fn times(&self) -> (u64, u64) {
        let times = || self.index.values().flatten().map(|(time, _)| *time);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }
}

/// An MCAP file.
pub struct Writer<S> {
    sink: S,
    offset: u64,
    crc: crc32fast::Hasher,
    has_begun: bool,
    schemas: BTreeMap<u16, Vec<u8>>,
    channels: BTreeMap<u16, Vec<u8>>,
    /// The opcodes and numbers of those that the data has already.
    written: BTreeSet<(u8, u16)>,
    messages: BTreeMap<u16, u64>,
    times: Option<(u64, u64)>,
    chunk_indexes: Vec<Vec<u8>>,
    attachment_indexes: Vec<Vec<u8>>,
    metadata_indexes: Vec<Vec<u8>>,
    /// Records of the summary that are copied, by their opcode.
    summary: BTreeMap<u8, Vec<Vec<u8>>>,
}

impl<S: FnMut(&[u8]) -> Result<()>> Writer<S> {
    /// A file of which nothing is written yet.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            offset: 0,
            crc: crc32fast::Hasher::new(),
            has_begun: false,
            schemas: BTreeMap::new(),
            channels: BTreeMap::new(),
            written: BTreeSet::new(),
            summary: BTreeMap::new(),
            messages: BTreeMap::new(),
            times: None,
            chunk_indexes: Vec::new(),
            attachment_indexes: Vec::new(),
            metadata_indexes: Vec::new(),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        (self.sink)(bytes)?;
        self.crc.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Whether the magic number and a header are written.
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Writes the magic number and this header.
    pub fn begin(&mut self, header: &[u8]) -> Result<()> {
        self.has_begun = true;
        self.put(&MAGIC)?;
        self.put(header)
    }

    /// The same with a header of our own, if nothing is written yet.
    pub fn begin_without_header(&mut self) -> Result<()> {
        if self.has_begun {
            Ok(())
        } else {
            self.begin(&Making::new(op::HEADER).counted(b"").counted(LIBRARY).end())
        }
    }

    /// A schema that the summary repeats: its number in the file, and the record with it. None: the
    /// file has no number left.
    pub fn schema<'r>(&mut self, id: u16, whole: Cow<'r, [u8]>) -> Option<(u16, Cow<'r, [u8]>)> {
        placed(&mut self.schemas, id, whole)
    }

    /// The same of a channel.
    pub fn channel<'r>(&mut self, id: u16, whole: Cow<'r, [u8]>) -> Option<(u16, Cow<'r, [u8]>)> {
        placed(&mut self.channels, id, whole)
    }

    /// Writes a chunk without compression.
    pub fn chunk(&mut self, contents: Contents) -> Result<()> {
        let (start_time, end_time) = contents.times();
        let len = contents.bytes.len() as u64;
        let crc = crc32fast::hash(&contents.bytes);
        let record = Making::new(op::CHUNK)
            .u64(start_time)
            .u64(end_time)
            .u64(len)
            .u32(crc)
            .counted(b"")
            .u64(len)
            .bytes(&contents.bytes)
            .end();
        let chunk = Chunk {
            unpacked_bytes: len,
            crc,
            compression: b"",
            stored: &contents.bytes,
            is_whole: true,
        };
        self.indexed(&record, &chunk, &contents)
    }

    /// Writes a chunk as it is.
    pub fn copy_chunk(
        &mut self,
        record: &Record<'_>,
        chunk: &Chunk<'_>,
        contents: &Contents,
    ) -> Result<()> {
        self.indexed(record.whole, chunk, contents)
    }

    /// Writes a chunk and the indexes of its messages.
    fn indexed(&mut self, record: &[u8], chunk: &Chunk<'_>, contents: &Contents) -> Result<()> {
        let at = self.offset;
        self.put(record)?;
        let indexes_at = self.offset;
        let mut offsets = Vec::new();
        for (channel, entries) in &contents.index {
            offsets.extend(channel.to_le_bytes());
            offsets.extend(self.offset.to_le_bytes());
            let mut list = Vec::with_capacity(entries.len() * 16);
            for (time, offset) in entries {
                list.extend(time.to_le_bytes());
                list.extend(offset.to_le_bytes());
            }
            let index = Making::new(op::MESSAGE_INDEX).u16(*channel).counted(&list);
            self.put(&index.end())?;
            *self.messages.entry(*channel).or_default() += entries.len() as u64;
        }
        let (start_time, end_time) = contents.times();
        if contents.messages() > 0 {
            let (first, last) = self.times.unwrap_or((start_time, end_time));
            self.times = Some((first.min(start_time), last.max(end_time)));
        }
        let index = Making::new(op::CHUNK_INDEX)
            .u64(start_time)
            .u64(end_time)
            .u64(at)
            .u64(record.len() as u64)
            .counted(&offsets)
            .u64(self.offset - indexes_at)
            .counted(chunk.compression)
            .u64(chunk.stored.len() as u64)
            .u64(chunk.unpacked_bytes);
        self.chunk_indexes.push(index.end());
        Ok(())
    }

    /// Writes an attachment as it is.
    pub fn attachment(&mut self, record: &Record<'_>) -> Result<()> {
        let mut fields = Fields(record.content);
        let index = Making::new(op::ATTACHMENT_INDEX)
            .u64(self.offset)
            .u64(record.whole.len() as u64)
            .u64(fields.u64_le().unwrap_or(0))
            .u64(fields.u64_le().unwrap_or(0));
        let name = fields.counted_le().unwrap_or_default();
        let media_type = fields.counted_le().unwrap_or_default();
        let index = index.u64(fields.u64_le().unwrap_or(0));
        let index = index.counted(name).counted(media_type);
        self.attachment_indexes.push(index.end());
        self.put(record.whole)
    }

    /// Writes metadata as it is.
    pub fn metadata(&mut self, record: &Record<'_>) -> Result<()> {
        let name = Fields(record.content).counted_le().unwrap_or_default();
        let index = Making::new(op::METADATA_INDEX)
            .u64(self.offset)
            .u64(record.whole.len() as u64)
            .counted(name);
        self.metadata_indexes.push(index.end());
        self.put(record.whole)
    }

    /// Writes a schema or a channel that [`schema`](Self::schema) or [`channel`](Self::channel) has
    /// placed, unless the data has it. The schema of a channel comes before it: it may be in a
    /// chunk that is written later.
    pub fn definition(&mut self, whole: &[u8]) -> Result<()> {
        let opcode = whole.first().copied().unwrap_or(0);
        let mut fields = Fields(whole.get(PREFIX_BYTES..).unwrap_or_default());
        let id = fields.u16_le().unwrap_or(0);
        if !self.written.insert((opcode, id)) {
            return Ok(());
        }
        let schema = fields.u16_le().filter(|_| opcode == op::CHANNEL);
        if let Some(schema) = schema.and_then(|schema| self.schemas.get(&schema).cloned()) {
            self.definition(&schema)?;
        }
        self.put(whole)
    }

    /// The data has these: they are in a chunk that is copied.
    pub fn has_written(&mut self, definitions: &[(u8, u16)]) {
        self.written.extend(definitions);
    }

    /// Copies a record into the summary.
    pub fn in_summary(&mut self, record: &Record<'_>) {
        let group = self.summary.entry(record.opcode).or_default();
        group.push(record.whole.to_vec());
    }

    /// Writes a record that has no index.
    pub fn other(&mut self, whole: &[u8]) -> Result<()> {
        self.put(whole)
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages.values().sum()
    }

    /// Counts what the file has.
    pub fn count(&self, rebuilt: &mut Rebuilt) {
        rebuilt.messages = self.messages();
        rebuilt.chunks = self.chunk_indexes.len() as u64;
        rebuilt.schemas = self.schemas.len() as u64;
        rebuilt.channels = self.channels.len() as u64;
        rebuilt.attachments = self.attachment_indexes.len() as u64;
        rebuilt.metadata = self.metadata_indexes.len() as u64;
    }

    /// Writes the end of the data, the summary and the footer.
    pub fn end(&mut self) -> Result<()> {
        let crc = self.crc.clone().finalize();
        self.put(&Making::new(op::DATA_END).u32(crc).end())?;
        let summary_at = self.offset;
        self.crc = crc32fast::Hasher::new();
        let groups = [
            (op::SCHEMA, self.schemas.values().cloned().collect()),
            (op::CHANNEL, self.channels.values().cloned().collect()),
            (op::STATISTICS, vec![self.statistics()]),
            (op::CHUNK_INDEX, std::mem::take(&mut self.chunk_indexes)),
            (
                op::ATTACHMENT_INDEX,
                std::mem::take(&mut self.attachment_indexes),
            ),
            (
                op::METADATA_INDEX,
                std::mem::take(&mut self.metadata_indexes),
            ),
        ];
        let mut offsets = Vec::new();
        let copied = std::mem::take(&mut self.summary);
        for (opcode, records) in groups.into_iter().chain(copied) {
            let at = self.offset;
            for record in &records {
                self.put(record)?;
            }
            if self.offset > at {
                let offset = Making::new(op::SUMMARY_OFFSET).bytes(&[opcode]);
                offsets.push(offset.u64(at).u64(self.offset - at).end());
            }
        }
        let offsets_at = self.offset;
        for record in &offsets {
            self.put(record)?;
        }
        // The checksum of the summary covers the footer up to itself.
        let footer = Making::new(op::FOOTER).u64(summary_at).u64(offsets_at);
        let mut footer = footer.u32(0).end();
        let covered = footer.len() - 4;
        self.crc.update(footer.get(..covered).unwrap_or_default());
        footer.truncate(covered);
        footer.extend(self.crc.clone().finalize().to_le_bytes());
        debug_assert_eq!(footer.len(), PREFIX_BYTES + 20);
        (self.sink)(&footer)?;
        (self.sink)(&MAGIC)
    }

    fn statistics(&self) -> Vec<u8> {
        let (first, last) = self.times.unwrap_or((0, 0));
        let mut counts = Vec::new();
        for (channel, count) in &self.messages {
            counts.extend(channel.to_le_bytes());
            counts.extend(count.to_le_bytes());
        }
        let len = |list: usize| u32::try_from(list).unwrap_or(u32::MAX);
        let schemas = u16::try_from(self.schemas.len()).unwrap_or(u16::MAX);
        Making::new(op::STATISTICS)
            .u64(self.messages())
            .u16(schemas)
            .u32(len(self.channels.len()))
            .u32(len(self.attachment_indexes.len()))
            .u32(len(self.metadata_indexes.len()))
            .u32(len(self.chunk_indexes.len()))
            .u64(first)
            .u64(last)
            .counted(&counts)
            .end()
    }
}

/// A definition under its own number, or under another one if the file has another definition
/// there.
fn placed<'r>(
    all: &mut BTreeMap<u16, Vec<u8>>,
    id: u16,
    whole: Cow<'r, [u8]>,
) -> Option<(u16, Cow<'r, [u8]>)> {
    let is_own = |known: &Vec<u8>| *known == *whole;
    if all.get(&id).is_none_or(is_own) {
        all.entry(id).or_insert_with(|| whole.to_vec());
        return Some((id, whole));
    }
    let same = all
        .iter()
        .find(|(number, known)| **known == *numbered(whole.clone(), 0, **number));
    let number = match same {
        Some((&number, _)) => number,
        None => (1..=u16::MAX).find(|number| !all.contains_key(number))?,
    };
    let whole = numbered(whole, 0, number);
    all.entry(number).or_insert_with(|| whole.to_vec());
    Some((number, whole))
}
