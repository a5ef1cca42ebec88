// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams in any order that MCAP 1.0 allows, whole, cut and with a gap, beside the Rust reader of
//! the format's own project: it judges what the stream has, and reads what is made of it.

use super::layout::{MAGIC, Making, op};
use super::tests::{channel, chunk, message, rebuild, rebuild_parts, schema};
use mcap::records::MessageIndexEntry;
use mcap::{McapResult, MessageStream, Summary};
use model::random::{Random, seed};

/// A stream, and what it has besides messages.
struct Stream {
    bytes: Vec<u8>,
    /// Where each message is complete.
    ends: Vec<usize>,
    /// Where the data ends.
    data_bytes: usize,
    attachments: u64,
    metadata: u64,
}

/// The schema of a channel; 0 is none.
const fn schema_of(id: u16) -> u16 {
    id % 3
}

fn attachment(crc: bool) -> Vec<u8> {
    let fields = Making::new(op::ATTACHMENT).u64(5).u64(6).counted(b"map");
    let fields = fields.counted(b"text/plain").u64(3).bytes(b"abc").end();
    let fields = &fields[9..];
    let crc = if crc { crc32fast::hash(fields) } else { 0 };
    Making::new(op::ATTACHMENT).bytes(fields).u32(crc).end()
}

/// MCAP 1.0: a header; then chunks, messages outside of them, schemas, channels, attachments,
/// metadata and records of other opcodes in any order, where a channel comes before its messages
/// and after its schema, in a chunk or not, and may be repeated.
fn stream(random: &mut Random) -> Stream {
    let mut made = Stream {
        bytes: MAGIC.to_vec(),
        ends: Vec::new(),
        data_bytes: 0,
        attachments: 0,
        metadata: 0,
    };
    let header = Making::new(op::HEADER).counted(b"any").counted(b"a test");
    made.bytes.extend(header.end());
    let mut defined: Vec<u16> = Vec::new();
    let mut number = 0;
    for _ in 0..5 + random.below(30) {
        let is_chunk = random.below(2) == 0;
        let mut contents = Vec::new();
        let mut ends = Vec::new();
        let steps = if is_chunk { random.below(12) } else { 1 };
        for _ in 0..steps {
            let is_definition = defined.is_empty() || random.below(4) == 0;
            if is_definition {
                let id = 1 + random.below(5) as u16;
                if schema_of(id) > 0 {
                    contents.extend(schema(schema_of(id)));
                }
                contents.extend(channel(id, schema_of(id)));
                defined.push(id);
            } else {
                let id = defined[random.below(defined.len() as u64) as usize];
                contents.extend(message(id, number));
                number += 1;
                ends.push(contents.len());
            }
        }
        if is_chunk {
            let crc = [0, crc32fast::hash(&contents)][random.below(2) as usize];
            let whole = chunk("", &contents, crc);
            let begin = made.bytes.len() + whole.len() - contents.len();
            made.ends.extend(ends.iter().map(|end| begin + end));
            made.bytes.extend(whole);
        } else {
            made.ends
                .extend(ends.iter().map(|end| made.bytes.len() + end));
            made.bytes.extend(contents);
        }
        match random.below(12) {
            0 => {
                made.bytes.extend(attachment(random.below(2) == 0));
                made.attachments += 1;
            }
            1 => {
                let metadata = Making::new(op::METADATA).counted(b"meta").counted(b"");
                made.bytes.extend(metadata.end());
                made.metadata += 1;
            }
            2 => made.bytes.extend(Making::new(0x90).bytes(b"private").end()),
            3 => {
                let index = Making::new(op::MESSAGE_INDEX).u16(1).counted(&[0; 16]);
                made.bytes.extend(index.end());
            }
            _ => {}
        }
    }
    made.data_bytes = made.bytes.len();
    let crc = [0, crc32fast::hash(&made.bytes)][random.below(2) as usize];
    made.bytes.extend(Making::new(op::DATA_END).u32(crc).end());
    let summary_at = match random.below(2) {
        0 => 0,
        _ => {
            let at = made.bytes.len() as u64;
            defined.sort_unstable();
            defined.dedup();
            let schemas = [1, 2].into_iter().flat_map(schema);
            made.bytes.extend(schemas);
            let channels = defined.iter().flat_map(|id| channel(*id, schema_of(*id)));
            made.bytes.extend(channels);
            at
        }
    };
    let footer = Making::new(op::FOOTER).u64(summary_at).u64(0).u32(0).end();
    made.bytes.extend(footer);
    made.bytes.extend(MAGIC);
    made
}

/// The messages of a file in its order: topic, sequence number and data.
fn read(file: &[u8]) -> McapResult<Vec<(String, u32, Vec<u8>)>> {
    let messages = MessageStream::new(file)?;
    let messages = messages.map(|message| {
        let message = message?;
        let topic = message.channel.topic.clone();
        Ok((topic, message.sequence, message.data.into_owned()))
    });
    messages.collect()
}

/// The numbers of a file's messages in its order.
pub fn numbers_of(file: &[u8]) -> Vec<u64> {
    let messages = read(file).expect("a file that readers open");
    messages
        .into_iter()
        .map(|(_, number, _)| number.into())
        .collect()
}

/// Reads a file by its indexes, which must lead to all that it has.
fn read_by_index(file: &[u8], attachments: u64, metadata: u64) -> McapResult<Vec<u32>> {
    let summary = Summary::read(file)?.expect("a summary");
    let statistics = summary.stats.clone().expect("statistics");
    let mut numbers = Vec::new();
    for index in &summary.chunk_indexes {
        let by_channel = summary.read_message_indexes(file, index)?;
        let entries: usize = by_channel.values().map(Vec::len).sum();
        let mut entries_of_chunk: Vec<MessageIndexEntry> = Vec::with_capacity(entries);
        for (channel, entries) in by_channel {
            for entry in &entries {
                let message = summary.seek_message(file, index, entry)?;
                assert_eq!(message.channel.topic, channel.topic);
                assert_eq!(message.log_time, entry.log_time);
            }
            entries_of_chunk.extend(entries);
        }
        let streamed = summary.stream_chunk(file, index)?;
        let streamed = streamed.map(|message| Ok(message?.sequence));
        let streamed = streamed.collect::<McapResult<Vec<_>>>()?;
        assert_eq!(streamed.len(), entries_of_chunk.len());
        numbers.extend(streamed);
    }
    assert_eq!(statistics.message_count, numbers.len() as u64);
    assert_eq!(statistics.chunk_count as usize, summary.chunk_indexes.len());
    assert_eq!(u64::from(statistics.attachment_count), attachments);
    assert_eq!(u64::from(statistics.metadata_count), metadata);
    for index in &summary.attachment_indexes {
        let found = mcap::read::attachment(file, index)?;
        assert_eq!((&found.name[..], &found.data[..]), ("map", &b"abc"[..]));
    }
    for index in &summary.metadata_indexes {
        assert_eq!(mcap::read::metadata(file, index)?.name, "meta");
    }
    Ok(numbers)
}

// partner: mcap (Rust) | reader
#[test]
fn the_format_s_own_reader_finds_all_messages_of_any_legal_order() {
    let mut random = Random::new(seed(0x6d63_6170));
    let mut all = 0;
    for _ in 0..25 {
        let input = stream(&mut random);
        let messages = read(&input.bytes).expect("the stream is legal");
        let numbers: Vec<u32> = messages.iter().map(|(_, number, _)| *number).collect();
        let (file, rebuilt) = rebuild(&input.bytes, 1 + random.below(5000) as usize).unwrap();
        assert_eq!(read(&file).unwrap(), messages);
        let (attachments, metadata) = (input.attachments, input.metadata);
        assert_eq!(
            read_by_index(&file, attachments, metadata).unwrap(),
            numbers
        );
        assert!(
            rebuilt.was_whole && !rebuilt.has_damage() && !rebuilt.has_loss(),
            "{rebuilt:?}"
        );
        all += messages.len();
        for _ in 0..20 {
            // Cut anywhere, also in a chunk: what is complete is there.
            let cut = 60 + random.below(input.data_bytes as u64 - 60) as usize;
            let complete = input.ends.iter().filter(|end| **end <= cut).count();
            let (file, rebuilt) = rebuild(&input.bytes[..cut], 4096).unwrap();
            assert_eq!(read(&file).unwrap(), messages[..complete], "{cut}");
            let (attachments, metadata) = (rebuilt.attachments, rebuilt.metadata);
            let found = read_by_index(&file, attachments, metadata).unwrap();
            assert_eq!(found, numbers[..complete], "{cut}");
            assert!(!rebuilt.was_whole && !rebuilt.has_damage(), "{rebuilt:?}");
            // A gap anywhere: all before it, and of those behind it, in their order, what is named
            // as lost is not there.
            let to = (cut + 1 + random.below(600) as usize).min(input.data_bytes);
            let parts = [&input.bytes[..cut], &input.bytes[to..]];
            let (file, rebuilt, _) = rebuild_parts(&parts, false, None);
            let found = read(&file).unwrap();
            assert!(found.starts_with(&messages[..complete]), "{cut} {to}");
            let mut rest = messages.iter();
            assert!(
                found.iter().all(|one| rest.any(|message| message == one)),
                "{cut} {to}"
            );
            let (attachments, metadata) = (rebuilt.attachments, rebuilt.metadata);
            let found_by_index = read_by_index(&file, attachments, metadata).unwrap();
            assert_eq!(found_by_index.len(), found.len());
            let is_behind = |end: &&usize| **end > to + 700;
            let behind = input.ends.iter().filter(is_behind).count();
            let lacks = found.len() < complete + behind;
            assert!(
                !lacks || rebuilt.has_loss() || rebuilt.has_damage(),
                "{cut} {to}: {rebuilt:?}"
            );
        }
    }
    assert!(all > 400, "{all}");
}
