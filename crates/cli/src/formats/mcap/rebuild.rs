//! A whole MCAP file from a stream that may end anywhere.
//!
//! Whole chunks, attachments and metadata are copied as they are. Messages outside of chunks, and those of a chunk that ends early,
//! are put into chunks without compression, so that all messages of the file have an index. Indexes, statistics and the summary are
//! never copied: they are made from what was written.
//!
//! Streams that follow each other become one file. A schema or a channel whose number means something else in the file already gets another
//! one there, and the chunks that use it are packed again.
//!
//! A message is kept if all its bytes are there, and its channel and schema came before it. A chunk that is complete but does not
//! match its checksum is left out, because nothing says which of its messages are damaged.

use super::Rebuilt;
use super::layout::{Chunk, Fields, MAGIC, PREFIX_BYTES, Record, numbered, op, records};
use super::unpack::{Unpacked, unpack};
use super::writer::{Contents, Writer};
use crate::failure::{Failure, Result};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The longest record that is held in memory.
const MAX_RECORD_BYTES: u64 = 1 << 30;
/// Loose messages are gathered to a chunk of this size.
const GATHERED_BYTES: usize = 1 << 20;

/// Reads a stream in pieces of any size, and writes the file as far as possible.
pub struct Rebuild<S> {
    writer: Writer<S>,
    name: String,
    /// Bytes of the stream that are expected.
    size_bytes: u64,
    /// The offset in the stream of what is in `held`.
    at_bytes: u64,
    held: Vec<u8>,
    /// The data has ended; what follows repeats and indexes it.
    is_summary: bool,
    /// Nothing is read any more.
    is_ended: bool,
    gathered: Contents,
    /// The numbers of the stream's schemas and channels, and those in the file.
    schemas: BTreeMap<u16, u16>,
    channels: BTreeMap<u16, u16>,
    /// All streams so far had their ends.
    all_whole: bool,
    rebuilt: Rebuilt,
}

impl<S: FnMut(&[u8]) -> Result<()>> Rebuild<S> {
    /// Begins the file; `name` and `size_bytes` are those of the stream.
    pub fn new(name: &str, size_bytes: u64, sink: S) -> Self {
        Self {
            writer: Writer::new(sink),
            name: name.to_owned(),
            size_bytes,
            at_bytes: 0,
            held: Vec::new(),
            is_summary: false,
            is_ended: false,
            gathered: Contents::default(),
            schemas: BTreeMap::new(),
            channels: BTreeMap::new(),
            all_whole: true,
            rebuilt: Rebuilt::default(),
        }
    }

    /// Ends the stream, wherever it is; what is fed from here on is another one, of this size, whose messages go into the same file.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn next_stream(&mut self, size_bytes: u64) -> Result<()> {
        self.end_stream()?;
        self.size_bytes = size_bytes;
        self.at_bytes = 0;
        (self.is_summary, self.is_ended) = (false, false);
        self.schemas.clear();
        self.channels.clear();
        self.rebuilt.was_whole = false;
        Ok(())
    }

    /// Whether another record may follow what is missing here: one has ended, or nothing is read any more.
    pub fn can_go_on(&self) -> bool {
        self.is_ended || self.at_bytes > 0 && self.held.is_empty()
    }

    /// Ends the stream here; what is fed up to the next one is left out.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn break_off(&mut self) -> Result<()> {
        self.size_bytes = self.at_bytes + self.held.len() as u64;
        self.end_stream()?;
        self.is_ended = true;
        Ok(())
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The stream is not MCAP, or has a chunk in an unknown compression; or the file cannot be written.
    pub fn feed(&mut self, data: &[u8]) -> Result<()> {
        if self.is_ended {
            return Ok(());
        }
        self.held.extend_from_slice(data);
        let mut held = std::mem::take(&mut self.held);
        let used = self.take(&held);
        held.drain(..used?);
        self.held = held;
        Ok(())
    }

    /// Handles the whole records of `held`; returns how many bytes these are.
    fn take(&mut self, held: &[u8]) -> Result<usize> {
        let mut used = 0;
        if self.at_bytes == 0 {
            let begin = held.get(..MAGIC.len()).unwrap_or(held);
            if !MAGIC.starts_with(begin) {
                return Err(Failure::usage(format!(
                    "`{}` is not MCAP: it does not begin with its magic number",
                    self.name
                ))
                .hint("straightway export --format raw, or straightway get"));
            }
            if begin.len() < MAGIC.len() {
                return Ok(0);
            }
            used = MAGIC.len();
            self.at_bytes = used as u64;
        }
        while !self.is_ended {
            let rest = held.get(used..).unwrap_or_default();
            let Some(record) = records(rest).next() else {
                self.check_length(rest)?;
                break;
            };
            self.record(&record)?;
            if !self.is_ended {
                used += record.whole.len();
                self.at_bytes += record.whole.len() as u64;
            }
        }
        Ok(used)
    }

    /// Decides whether to wait for a record that is not complete yet. The last one is waited for, because a part of it may be of
    /// use, but not with more than the memory that any record may take.
    fn check_length(&mut self, rest: &[u8]) -> Result<()> {
        let Some(len) = Fields(rest.get(1..).unwrap_or_default()).u64() else {
            return Ok(());
        };
        let left = self.size_bytes.saturating_sub(self.at_bytes);
        let is_last = len > left.saturating_sub(PREFIX_BYTES as u64);
        match (is_last, len.min(left) > MAX_RECORD_BYTES) {
            (_, false) => Ok(()),
            (true, true) => {
                self.is_ended = true;
                Ok(())
            }
            (false, true) => Err(Failure::other(format!(
                "`{}` has a record of {len} bytes at byte {}; more than {MAX_RECORD_BYTES} are not supported",
                self.name, self.at_bytes
            ))
            .hint("straightway get fetches the stream as it is")),
        }
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        match record.opcode {
            op::FOOTER => {
                self.is_ended = true;
                self.rebuilt.was_whole = true;
                let end = self.at_bytes + (record.whole.len() + MAGIC.len()) as u64;
                self.rebuilt.ignored_bytes += self.size_bytes.saturating_sub(end);
                Ok(())
            }
            op::DATA_END => {
                self.is_summary = true;
                Ok(())
            }
            _ if self.is_summary && record.opcode != 0 => Ok(()),
            op::HEADER if !self.writer.has_begun() => self.writer.begin(record.whole),
            op::HEADER => Ok(()),
            op::SCHEMA | op::CHANNEL | op::MESSAGE => {
                self.writer.begin_without_header()?;
                self.loose(record)
            }
            op::CHUNK => {
                self.writer.begin_without_header()?;
                self.chunk(record)
            }
            op::ATTACHMENT => {
                self.flush()?;
                match is_attachment(record.content) {
                    true => self.writer.attachment(record),
                    false => {
                        self.rebuilt.damaged_records += 1;
                        Ok(())
                    }
                }
            }
            op::METADATA => {
                self.flush()?;
                self.writer.metadata(record)
            }
            op::MESSAGE_INDEX..=op::SUMMARY_OFFSET => Ok(()),
            0 => {
                self.is_ended = true;
                Ok(())
            }
            // Of a later version, or private.
            _ => {
                self.flush()?;
                self.writer.other(record.whole)
            }
        }
    }

    /// A chunk whose bytes are all there.
    fn chunk(&mut self, record: &Record<'_>) -> Result<()> {
        let Some(chunk) = Chunk::parse(record.content) else {
            self.rebuilt.damaged_chunks += 1;
            return Ok(());
        };
        match unpack(&chunk) {
            Unpacked::Whole(bytes) => self.whole_chunk(record, &chunk, &bytes),
            Unpacked::Part(_) => {
                self.rebuilt.damaged_chunks += 1;
                Ok(())
            }
            Unpacked::Unknown => Err(self.unknown(&chunk)),
        }
    }

    fn whole_chunk(&mut self, record: &Record<'_>, chunk: &Chunk<'_>, bytes: &[u8]) -> Result<()> {
        // In another order than the stream's, a message could come before its channel.
        self.flush()?;
        let mut contents = Contents::default();
        let mut is_good = true;
        let mut end = 0;
        let (schemas, channels) = (self.schemas.clone(), self.channels.clone());
        for inner in records(bytes) {
            is_good &= matches!(self.in_file(&inner), Some(Cow::Borrowed(_)));
            contents.note(&inner, end as u64);
            end += inner.whole.len();
        }
        if is_good && end == bytes.len() {
            return self.writer.copy_chunk(record, chunk, &contents);
        }
        // Its messages that no reader could use are left out, and others have another channel's number.
        (self.schemas, self.channels) = (schemas, channels);
        for inner in records(bytes) {
            self.loose(&inner)?;
        }
        self.flush()
    }

    fn unknown(&self, chunk: &Chunk<'_>) -> Failure {
        Failure::unsupported(format!(
            "`{}` has a chunk at byte {} that is compressed with `{}`; known are lz4 and zstd",
            self.name,
            self.at_bytes,
            String::from_utf8_lossy(chunk.compression).escape_debug()
        ))
        .hint("straightway get fetches the stream as it is")
    }

    /// A record of a chunk with the numbers that its schema and its channel have in the file, which are remembered. None: it cannot
    /// be used.
    fn in_file<'r>(&mut self, record: &Record<'r>) -> Option<Cow<'r, [u8]>> {
        let mut fields = Fields(record.content);
        let id = fields.u16()?;
        match record.opcode {
            op::SCHEMA if id > 0 && is_schema(record.content) => {
                let (number, whole) = self.writer.schema(id, Cow::Borrowed(record.whole))?;
                self.schemas.insert(id, number);
                Some(whole)
            }
            op::CHANNEL if is_channel(record.content) => {
                let schema = fields.u16()?;
                let whole = match (schema, self.schemas.get(&schema)) {
                    (0, _) => Cow::Borrowed(record.whole),
                    (_, None) => return None,
                    (_, Some(&number)) => numbered(Cow::Borrowed(record.whole), 2, number),
                };
                let (number, whole) = self.writer.channel(id, whole)?;
                self.channels.insert(id, number);
                Some(whole)
            }
            op::MESSAGE if record.content.len() >= 22 => {
                let number = self.channels.get(&id)?;
                Some(numbered(Cow::Borrowed(record.whole), 0, *number))
            }
            _ => None,
        }
    }

    /// A schema, a channel or a message that is not in a chunk which can be copied.
    fn loose(&mut self, record: &Record<'_>) -> Result<()> {
        let whole = self.in_file(record);
        let Some(record) = whole.as_deref().and_then(|whole| records(whole).next()) else {
            self.rebuilt.left_out_records += 1;
            return Ok(());
        };
        self.gathered.gather(&record);
        match self.gathered.len() >= GATHERED_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes what was gathered, so that the order stays the stream's.
    fn flush(&mut self) -> Result<()> {
        self.writer.begin_without_header()?;
        match self.gathered.len() {
            0 => Ok(()),
            _ => self.writer.chunk(std::mem::take(&mut self.gathered)),
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The last chunk is compressed in an unknown way, or the file cannot be written.
    pub fn finish(mut self) -> Result<Rebuilt> {
        self.end_stream()?;
        self.rebuilt.was_whole = self.all_whole;
        self.rebuilt.messages = self.writer.messages();
        self.rebuilt.chunks = self.writer.chunks();
        self.writer.end()?;
        Ok(self.rebuilt)
    }

    /// Takes what there is of the last record.
    fn end_stream(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        if !self.rebuilt.was_whole && !held.is_empty() {
            self.rebuilt.cut_bytes += self.size_bytes - self.at_bytes;
        }
        self.all_whole &= self.rebuilt.was_whole;
        let cut = held.get(PREFIX_BYTES..).filter(|_| !self.is_ended);
        if let (Some(&op::CHUNK), Some(content)) = (held.first(), cut) {
            self.cut_chunk(content)?;
        }
        self.flush()
    }

    /// The chunk at which the stream ends.
    fn cut_chunk(&mut self, content: &[u8]) -> Result<()> {
        let Some(chunk) = Chunk::parse(content) else {
            return Ok(());
        };
        let (Unpacked::Part(bytes) | Unpacked::Whole(bytes)) = unpack(&chunk) else {
            return Err(self.unknown(&chunk));
        };
        self.writer.begin_without_header()?;
        let before = self.writer.messages() + self.gathered.messages();
        for record in records(&bytes) {
            self.loose(&record)?;
        }
        let now = self.writer.messages() + self.gathered.messages();
        self.rebuilt.recovered_messages += now - before;
        Ok(())
    }
}

/// Whether a schema has its name, its encoding and its data.
fn is_schema(content: &[u8]) -> bool {
    let mut fields = Fields(content);
    let _ = fields.u16();
    (0..3).all(|_| fields.counted().is_some())
}

/// Whether a channel has its topic, its encoding and its metadata.
fn is_channel(content: &[u8]) -> bool {
    let mut fields = Fields(content);
    let _ = fields.u32();
    (0..3).all(|_| fields.counted().is_some())
}

/// Whether an attachment is complete and matches its checksum, if it has one.
fn is_attachment(content: &[u8]) -> bool {
    let Some((covered, crc)) = content.split_last_chunk::<4>() else {
        return false;
    };
    let crc = u32::from_le_bytes(*crc);
    crc == 0 || crc32fast::hash(covered) == crc
}
