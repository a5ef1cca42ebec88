// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A whole MCAP file from a stream that may end anywhere, and of which parts may be missing.
//!
//! Whole chunks, attachments and metadata are copied as they are. Messages outside of chunks, and
//! those of a chunk that ends early, are put into chunks without compression, so that all messages
//! of the file have an index; their schemas and channels stand before them, outside of chunks.
//! Indexes, statistics and the summary are never copied: they are made from what was written.
//!
//! Streams that follow each other become one file. A schema or a channel whose number means
//! something else in the file already gets another one there, and the chunks that use it are packed
//! again.
//!
//! A message is kept if all its bytes are there, and its channel and schema are known. A chunk that
//! is complete but does not match its checksum is left out, because nothing says which of its
//! messages are damaged. Behind bytes that are missing it goes on with the next record that is
//! found ([`search`](super::search)).

use super::Rebuilt;
use super::definitions::Definitions;
use super::layout::{
    Chunk, Fields, MAGIC, PREFIX_BYTES, Record, is_channel, is_metadata, is_schema, numbered, op,
    records,
};
use super::search::{Place, beyond, can_be, is_attachment, next_record, own_bytes, own_end};
use super::unpack::{Unpacked, unpack};
use super::writer::{Contents, Writer};
use crate::error::{FormatError, Result};
use remedy::{Part, Setting, words};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// The longest record that is held in memory.
const MAX_RECORD_BYTES: u64 = 1 << 30;
/// Loose messages are gathered to a chunk of this size.
const GATHERED_BYTES: usize = 1 << 20;

/// What is expected next of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Its magic number.
    Magic,
    /// A record of the data.
    Record,
    /// A record of what repeats and indexes the data, which has ended.
    Summary,
    /// Somewhere a record: bytes are missing.
    Anything,
    /// Nothing more: it has ended.
    End,
}

/// Reads a stream in pieces of any size, and writes the file as far as possible.
pub struct Rebuild<S> {
    writer: Writer<S>,
    name: String,
    /// Bytes of the stream that are expected.
    size_bytes: u64,
    /// The offset in the stream of what is in `held`.
    at_bytes: u64,
    held: Vec<u8>,
    next: Next,
    /// The checksum of the data so far; none if bytes of it are missing.
    crc: Option<crc32fast::Hasher>,
    /// Whether bytes of the stream are missing.
    has_gap: bool,
    /// Whether it had its header, and how many messages.
    had_header: bool,
    stream_messages: u64,
    gathered: Contents,
    /// The numbers of the stream's schemas and channels, and those in the file.
    schemas: BTreeMap<u16, u16>,
    channels: BTreeMap<u16, u16>,
    /// What is known of the stream from elsewhere, and of the streams behind it.
    known: Definitions,
    known_later: VecDeque<Definitions>,
    /// What was seen in each stream, if it is wanted.
    seen: Option<Vec<Definitions>>,
    /// All streams so far had their ends.
    all_whole: bool,
    /// What was found here is no record after all: the search goes on behind its first byte.
    is_refused: bool,
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
            next: Next::Magic,
            crc: Some(crc32fast::Hasher::new()),
            has_gap: false,
            had_header: false,
            stream_messages: 0,
            gathered: Contents::default(),
            schemas: BTreeMap::new(),
            channels: BTreeMap::new(),
            known: Definitions::default(),
            known_later: VecDeque::new(),
            seen: None,
            all_whole: true,
            is_refused: false,
            rebuilt: Rebuilt::default(),
        }
    }

    /// Collects the schemas and channels of each stream;
    /// [`into_definitions`](Self::into_definitions) has them.
    #[must_use]
    pub fn collecting(mut self) -> Self {
        self.seen = Some(vec![Definitions::default()]);
        self
    }

    /// What was collected of each stream, and whether a channel or a schema of the first one's
    /// messages is not among it.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn into_definitions(mut self) -> Result<(Vec<Definitions>, bool)> {
        self.end_stream()?;
        let seen = self.seen.unwrap_or_default();
        let lacks = seen.first().is_none_or(Definitions::is_incomplete);
        Ok((seen, lacks))
    }

    /// Uses the schemas and channels of each stream where a gap has taken them.
    #[must_use]
    pub fn knowing(mut self, all: Vec<Definitions>) -> Self {
        self.known_later = all.into();
        self.known = self.known_later.pop_front().unwrap_or_default();
        self
    }

    /// The beginning of the stream is missing.
    pub fn begin_inside(&mut self) {
        self.next = Next::Anything;
        self.crc = None;
        self.has_gap = true;
    }

    /// Ends the stream, wherever it is; what is fed from here on is another one, of this size,
    /// whose messages go into the same file.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn next_stream(&mut self, size_bytes: u64) -> Result<()> {
        self.end_stream()?;
        self.size_bytes = size_bytes;
        self.at_bytes = 0;
        self.next = Next::Magic;
        self.crc = Some(crc32fast::Hasher::new());
        (self.has_gap, self.had_header, self.stream_messages) = (false, false, 0);
        self.schemas.clear();
        self.channels.clear();
        self.known = self.known_later.pop_front().unwrap_or_default();
        if let Some(seen) = &mut self.seen {
            seen.push(Definitions::default());
        }
        self.rebuilt.was_whole = false;
        Ok(())
    }

    /// Bytes are missing here. `is_inside`: the next ones may be in the middle of a record even
    /// where one has ended. Returns whether a record was broken off.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn gap(&mut self, is_inside: bool) -> Result<bool> {
        let is_at_record =
            self.held.is_empty() && matches!(self.next, Next::Record | Next::Summary);
        if self.next == Next::End {
            return Ok(false);
        }
        self.crc = None;
        self.has_gap = true;
        if is_at_record && !is_inside {
            return Ok(false);
        }
        let held = self.end_of_part()?;
        let left_bytes = held.len() as u64;
        self.rebuilt.skipped_bytes += left_bytes;
        self.at_bytes += left_bytes;
        self.cut(&held)?;
        self.flush()?;
        self.next = Next::Anything;
        Ok(left_bytes > 0)
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The stream is not MCAP, or has a chunk in an unknown compression; or the file cannot be
    /// written.
    pub fn feed(&mut self, data: &[u8]) -> Result<()> {
        match self.next {
            // The last magic number.
            Next::End => {
                let more = MAGIC.len().saturating_sub(self.held.len());
                self.held.extend(data.iter().take(more));
            }
            _ => {
                self.held.extend_from_slice(data);
                let mut held = std::mem::take(&mut self.held);
                let used = self.take(&held, false);
                held.drain(..used?);
                self.held = held;
            }
        }
        Ok(())
    }

    /// Handles the whole records of `held`; returns how many bytes these are. `is_all`: no more
    /// follow up to a gap or the end.
    fn take(&mut self, held: &[u8], is_all: bool) -> Result<usize> {
        let mut used = 0;
        loop {
            let rest = held.get(used..).unwrap_or_default();
            let before = self.next;
            let taken = match before {
                Next::Magic => self.magic(rest)?,
                Next::Anything => self.search(rest, is_all),
                Next::Record | Next::Summary => self.next_record(rest)?,
                Next::End => 0,
            };
            used += taken;
            self.at_bytes += taken as u64;
            if taken == 0 && self.next == before || self.next == Next::End {
                return Ok(used);
            }
        }
    }

    /// Takes the magic number.
    fn magic(&mut self, bytes: &[u8]) -> Result<usize> {
        let begin = bytes.get(..MAGIC.len()).unwrap_or(bytes);
        if !MAGIC.starts_with(begin) {
            return Err(FormatError::usage(format!(
                "`{}` is not MCAP: it does not begin with its magic number",
                self.name
            ))
            .hint(words![
                "straightway export ",
                Part::Option(Setting::Format),
                " raw, or straightway get"
            ]));
        }
        if begin.len() < MAGIC.len() {
            return Ok(0);
        }
        if let Some(crc) = &mut self.crc {
            crc.update(&MAGIC);
        }
        self.next = Next::Record;
        Ok(MAGIC.len())
    }

    /// Looks for a record; returns the number of bytes before it.
    fn search(&mut self, bytes: &[u8], is_all: bool) -> usize {
        let from = usize::from(std::mem::take(&mut self.is_refused)).min(bytes.len());
        let behind = bytes.get(from..).unwrap_or_default();
        let has_channel = |id| self.has_channel(id);
        let skipped = match next_record(behind, is_all, &has_channel) {
            Place::Found(at) => {
                self.next = Next::Record;
                from + at
            }
            Place::NotBefore(at) => from + at,
        };
        self.rebuilt.skipped_bytes += skipped as u64;
        skipped
    }

    fn has_channel(&self, id: u16) -> bool {
        self.channels.contains_key(&id) || self.known.channel(id).is_some()
    }

    /// Takes a record, if it is complete, and may be one.
    fn next_record(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(record) = records(bytes).next() else {
            self.check_length(bytes)?;
            return Ok(0);
        };
        if !can_be(&record) {
            self.lose_track();
            return Ok(0);
        }
        if let Some(end) = own_end(&record, &|id| self.has_channel(id)) {
            self.cut(bytes.get(..end).unwrap_or_default())?;
            self.flush()?;
            self.rebuilt.damaged_records += 1;
            self.crc = None;
            return Ok(end);
        }
        if let (Next::Record, Some(crc)) = (self.next, &mut self.crc) {
            if record.opcode != op::DATA_END {
                crc.update(record.whole);
            }
        }
        self.record(&record)?;
        Ok(record.whole.len())
    }

    /// Goes on with the next record that is found: the one here is not one, or has a wrong length.
    fn lose_track(&mut self) {
        self.rebuilt.damaged_records += 1;
        self.next = Next::Anything;
        self.crc = None;
        self.is_refused = true;
    }

    /// Decides whether to wait for a record that is not complete yet. The last one is waited for,
    /// because a part of it may be of use, but not with more than the memory that any record may
    /// take: then its length is taken for wrong.
    fn check_length(&mut self, rest: &[u8]) -> Result<()> {
        let Some(len) = Fields(rest.get(1..).unwrap_or_default()).u64_le() else {
            return Ok(());
        };
        let left = self.size_bytes.saturating_sub(self.at_bytes);
        let is_last = len > left.saturating_sub(PREFIX_BYTES as u64);
        match (is_last, len.min(left) > MAX_RECORD_BYTES) {
            (_, false) => Ok(()),
            (true, true) => {
                self.lose_track();
                Ok(())
            }
            (false, true) => Err(FormatError::damaged(format!(
                "`{}` has a record of {len} bytes at byte {}; more than {MAX_RECORD_BYTES} are not supported",
                self.name, self.at_bytes
            ))
            .hint("straightway get fetches the stream as it is")),
        }
    }

    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let is_summary = self.next == Next::Summary;
        match record.opcode {
            op::FOOTER => {
                self.next = Next::End;
                self.rebuilt.was_whole = true;
                let end = self.at_bytes + (record.whole.len() + MAGIC.len()) as u64;
                self.rebuilt.ignored_bytes += self.size_bytes.saturating_sub(end);
                Ok(())
            }
            op::SCHEMA | op::CHANNEL if is_summary => {
                self.known.add(record);
                if let Some(seen) = self.seen.as_mut().and_then(|all| all.last_mut()) {
                    seen.add(record);
                }
                Ok(())
            }
            // Of the data, which has ended ("Summary Section"). Most readers find them all the
            // same.
            op::MESSAGE | op::CHUNK | op::ATTACHMENT | op::METADATA if is_summary => {
                self.rebuilt.late_records += 1;
                self.data(record)
            }
            op::STATISTICS if is_summary => {
                let counted = Fields(record.content).u64_le().unwrap_or(0);
                if !self.has_gap {
                    let missing = counted.saturating_sub(self.stream_messages);
                    self.rebuilt.missing_messages += missing;
                }
                Ok(())
            }
            op::SCHEMA..=op::DATA_END if is_summary => Ok(()),
            op::HEADER if is_summary => self.header(record),
            // Of a later version, or private.
            _ if is_summary => {
                self.writer.in_summary(record);
                Ok(())
            }
            op::DATA_END => {
                self.next = Next::Summary;
                self.compare_crc(record);
                Ok(())
            }
            _ => self.data(record),
        }
    }

    /// A record of the data.
    fn data(&mut self, record: &Record<'_>) -> Result<()> {
        match record.opcode {
            op::HEADER => self.header(record),
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
                if is_attachment(record.content) {
                    self.writer.attachment(record)
                } else {
                    self.rebuilt.damaged_records += 1;
                    Ok(())
                }
            }
            op::METADATA => {
                self.flush()?;
                if is_metadata(record.content) {
                    self.writer.metadata(record)
                } else {
                    self.rebuilt.damaged_records += 1;
                    Ok(())
                }
            }
            op::MESSAGE_INDEX..=op::SUMMARY_OFFSET => Ok(()),
            _ => {
                self.flush()?;
                self.writer.other(record.whole)
            }
        }
    }

    /// The first header is the file's.
    fn header(&mut self, record: &Record<'_>) -> Result<()> {
        let mut fields = Fields(record.content);
        let is_good = fields.counted_le().is_some() && fields.counted_le().is_some();
        if !is_good {
            self.rebuilt.damaged_records += 1;
        }
        // A stream has one.
        self.rebuilt.left_out_records += u64::from(is_good && self.had_header);
        self.had_header |= is_good;
        if !is_good || self.writer.has_begun() {
            return Ok(());
        }
        self.rebuilt.has_header = true;
        self.writer.begin(record.whole)
    }

    /// Compares the data with its checksum, if it has one and nothing of it is missing.
    fn compare_crc(&mut self, record: &Record<'_>) {
        let stored = Fields(record.content).u32_le().filter(|crc| *crc != 0);
        if let Some((crc, stored)) = self.crc.take().zip(stored) {
            let is_same = crc.finalize() == stored;
            let so_far = self.rebuilt.data_matches.unwrap_or(true);
            self.rebuilt.data_matches = Some(so_far && is_same);
        }
    }

    /// A chunk whose bytes are all there.
    fn chunk(&mut self, record: &Record<'_>) -> Result<()> {
        let Some(chunk) = Chunk::parse(record.content) else {
            self.rebuilt.damaged_chunks += 1;
            return Ok(());
        };
        match unpack(&chunk) {
            Unpacked::Whole(bytes) => self.whole_chunk(record, Some(&chunk), &bytes),
            // Packed again.
            Unpacked::InFrames(bytes) => self.whole_chunk(record, None, &bytes),
            Unpacked::Part(_) => {
                self.rebuilt.damaged_chunks += 1;
                Ok(())
            }
            Unpacked::Unknown => Err(self.unknown(&chunk)),
        }
    }

    /// A chunk with these records; none: it is not copied as it is.
    fn whole_chunk(
        &mut self,
        record: &Record<'_>,
        chunk: Option<&Chunk<'_>>,
        bytes: &[u8],
    ) -> Result<()> {
        // In another order than the stream's, a message could come before its channel.
        self.flush()?;
        let mut contents = Contents::default();
        let mut is_good = true;
        let mut end = 0;
        let mut definitions = Vec::new();
        let (schemas, channels) = (self.schemas.clone(), self.channels.clone());
        for inner in records(bytes) {
            self.recall(&inner)?;
            is_good &= match self.in_file(&inner) {
                Some(Cow::Borrowed(_)) => true,
                _ => inner.opcode > op::DATA_END,
            };
            if let (op::SCHEMA | op::CHANNEL, Some(id)) =
                (inner.opcode, Fields(inner.content).u16_le())
            {
                definitions.push((inner.opcode, id));
            }
            contents.note(&inner, end as u64);
            end += inner.whole.len();
        }
        // A reader may take a chunk without messages for a damaged one.
        let chunk = chunk.filter(|_| is_good && end == bytes.len() && contents.messages() > 0);
        if let Some(chunk) = chunk {
            self.stream_messages += contents.messages();
            self.writer.has_written(&definitions);
            return self.writer.copy_chunk(record, chunk, &contents);
        }
        // Its messages that no reader could use are left out, and others have another channel's
        // number.
        (self.schemas, self.channels) = (schemas, channels);
        for inner in records(bytes) {
            self.loose(&inner)?;
        }
        self.rebuilt.left_out_records += u64::from(end != bytes.len());
        self.flush()
    }

    fn unknown(&self, chunk: &Chunk<'_>) -> FormatError {
        FormatError::unsupported(format!(
            "`{}` has a chunk at byte {} that is compressed with `{}`; known are lz4 and zstd",
            self.name,
            self.at_bytes,
            String::from_utf8_lossy(chunk.compression).escape_debug()
        ))
        .hint("straightway get fetches the stream as it is")
    }

    /// A record of a chunk with the numbers that its schema and its channel have in the file, which
    /// are remembered. None: it cannot be used.
    fn in_file<'r>(&mut self, record: &Record<'r>) -> Option<Cow<'r, [u8]>> {
        if let Some(seen) = self.seen.as_mut().and_then(|all| all.last_mut()) {
            seen.add(record);
        }
        let mut fields = Fields(record.content);
        let id = fields.u16_le()?;
        match record.opcode {
            op::SCHEMA if id > 0 && is_schema(record.content) => {
                let (number, whole) = self.writer.schema(id, Cow::Borrowed(record.whole))?;
                self.schemas.insert(id, number);
                Some(whole)
            }
            op::CHANNEL if is_channel(record.content) => {
                let schema = fields.u16_le()?;
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

    /// Writes the schema and the channel that this record needs, if the stream has not had them but
    /// they are known from elsewhere.
    fn recall(&mut self, record: &Record<'_>) -> Result<()> {
        let mut fields = Fields(record.content);
        let Some(id) = fields.u16_le() else {
            return Ok(());
        };
        match record.opcode {
            op::MESSAGE if !self.channels.contains_key(&id) => {
                let Some(channel) = self.known.channel(id).map(<[u8]>::to_vec) else {
                    return Ok(());
                };
                for channel in records(&channel) {
                    self.recall(&channel)?;
                    self.rebuilt.recalled_channels += 1;
                    self.define(&channel)?;
                }
            }
            op::CHANNEL => {
                let schema = fields.u16_le().unwrap_or(0);
                let is_missing = schema > 0 && !self.schemas.contains_key(&schema);
                let known = self.known.schema(schema).filter(|_| is_missing);
                let Some(schema) = known.map(<[u8]>::to_vec) else {
                    return Ok(());
                };
                for schema in records(&schema) {
                    self.define(&schema)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes a schema or a channel outside of chunks, unless the file has it.
    fn define(&mut self, record: &Record<'_>) -> Result<()> {
        match self.in_file(record) {
            Some(whole) => self.writer.definition(&whole),
            None => {
                self.rebuilt.left_out_records += 1;
                Ok(())
            }
        }
    }

    /// A record of the data that is not in a chunk which can be copied.
    fn loose(&mut self, record: &Record<'_>) -> Result<()> {
        self.recall(record)?;
        match record.opcode {
            op::SCHEMA | op::CHANNEL => return self.define(record),
            op::MESSAGE => self.stream_messages += 1,
            opcode if opcode > op::DATA_END => {
                self.flush()?;
                return self.writer.other(record.whole);
            }
            _ => {
                self.rebuilt.left_out_records += 1;
                return Ok(());
            }
        }
        let whole = self.in_file(record);
        let Some(record) = whole.as_deref().and_then(|whole| records(whole).next()) else {
            self.rebuilt.left_out_records += 1;
            return Ok(());
        };
        self.gathered.gather(&record);
        if self.gathered.len() >= GATHERED_BYTES {
            self.flush()
        } else {
            Ok(())
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
        self.writer.count(&mut self.rebuilt);
        self.writer.end()?;
        Ok(self.rebuilt)
    }

    /// Takes what there is of the last record.
    fn end_stream(&mut self) -> Result<()> {
        let held = self.end_of_part()?;
        if !self.rebuilt.was_whole {
            self.rebuilt.cut_bytes += self.size_bytes.saturating_sub(self.at_bytes);
        }
        // Behind the footer, as much of the magic number as is there.
        if self.next == Next::End {
            let last = held.get(..MAGIC.len()).unwrap_or(&held);
            if !MAGIC.starts_with(last) {
                self.rebuilt.ignored_bytes += last.len() as u64;
            }
        }
        self.all_whole &= self.rebuilt.was_whole;
        self.cut(&held)?;
        self.flush()
    }

    /// Takes the last whole records before a gap or the end; what is left of the bytes.
    fn end_of_part(&mut self) -> Result<Vec<u8>> {
        let mut held = std::mem::take(&mut self.held);
        loop {
            if self.next == Next::Anything {
                let used = self.take(&held, true)?;
                held.drain(..used);
            }
            let Some(behind) = self.behind_wrong_length(&held) else {
                return Ok(held);
            };
            self.cut(held.get(..behind).unwrap_or_default())?;
            self.flush()?;
            self.lose_track();
            // The record behind its end was found.
            self.is_refused = false;
            self.rebuilt.skipped_bytes += behind as u64;
            self.at_bytes += behind as u64;
            held.drain(..behind);
        }
    }

    /// Where the records go on, if the one here, which ends behind the last byte, has a wrong
    /// length.
    fn behind_wrong_length(&self, held: &[u8]) -> Option<usize> {
        let is_next = matches!(self.next, Next::Record | Next::Summary);
        let opcode = held.first().filter(|_| is_next)?;
        let (prefix, content) = held.split_at_checked(PREFIX_BYTES)?;
        let len = Fields(prefix.get(1..)?).u64_le()?;
        let has_channel = |id| self.has_channel(id);
        match (*opcode, own_bytes(*opcode, content)) {
            // It was cut off.
            (_, Some(own)) if own == len => None,
            (_, Some(own)) if own < content.len() as u64 => Some(PREFIX_BYTES + own as usize),
            // Its records may be what is found.
            (op::CHUNK, _) => None,
            _ => beyond(held, &has_channel),
        }
    }

    /// What is of use in a record that is not complete: the messages of a chunk.
    fn cut(&mut self, held: &[u8]) -> Result<()> {
        let (Next::Record | Next::Summary, Some(&op::CHUNK), Some(content)) =
            (self.next, held.first(), held.get(PREFIX_BYTES..))
        else {
            return Ok(());
        };
        let Some(chunk) = Chunk::parse(content) else {
            return Ok(());
        };
        let (Unpacked::Part(bytes) | Unpacked::Whole(bytes) | Unpacked::InFrames(bytes)) =
            unpack(&chunk)
        else {
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
