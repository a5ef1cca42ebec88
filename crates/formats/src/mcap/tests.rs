// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::layout::{Chunk, Fields, MAGIC, Making, Record, op, records};
use super::unpack::{Unpacked, unpack};
use super::{Definitions, Rebuild, Rebuilt};
use crate::error::Result;
use std::collections::BTreeMap;
use std::io::Write;

/// The messages of a stream by their number, and where each is complete.
type Ends = Vec<(u64, usize)>;

pub fn schema(id: u16) -> Vec<u8> {
    let data = b"string data";
    let record = Making::new(op::SCHEMA).u16(id).counted(b"text");
    record.counted(b"ros2msg").counted(data).end()
}

pub fn channel(id: u16, schema: u16) -> Vec<u8> {
    let record = Making::new(op::CHANNEL).u16(id).u16(schema);
    record
        .counted(format!("/topic{id}").as_bytes())
        .counted(b"cdr")
        .counted(b"")
        .end()
}

pub fn message(channel: u16, number: u64) -> Vec<u8> {
    let record = Making::new(op::MESSAGE).u16(channel).u32(number as u32);
    let text = format!(
        "message {number} {}",
        "of a robot ".repeat(number as usize % 7)
    );
    record
        .u64(1000 + number)
        .u64(1000 + number)
        .bytes(text.as_bytes())
        .end()
}

pub fn pack(compression: &str, bytes: &[u8]) -> Vec<u8> {
    match compression {
        "lz4" => {
            let info =
                lz4_flex::frame::FrameInfo::new().block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        "zstd" => {
            ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
        }
        _ => bytes.to_vec(),
    }
}

pub fn chunk(compression: &str, contents: &[u8], crc: u32) -> Vec<u8> {
    let stored = pack(compression, contents);
    Making::new(op::CHUNK)
        .u64(0)
        .u64(u64::MAX)
        .u64(contents.len() as u64)
        .u32(crc)
        .counted(compression.as_bytes())
        .u64(stored.len() as u64)
        .bytes(&stored)
        .end()
}

/// A stream with everything: chunks in each compression, loose records, an attachment, metadata and
/// an unknown record.
fn stream() -> (Vec<u8>, Ends) {
    let mut stream = MAGIC.to_vec();
    let mut ends = Ends::new();
    stream.extend(
        Making::new(op::HEADER)
            .counted(b"ros2")
            .counted(b"a test")
            .end(),
    );
    stream.extend([schema(1), channel(1, 1), channel(2, 0)].concat());
    let mut number = 0;
    for compression in ["", "lz4", "zstd", "", "loose", "zstd"] {
        let begin = stream.len();
        let mut contents = Vec::new();
        let mut inner = Vec::new();
        for _ in 0..12 {
            contents.extend(message(1 + (number % 2) as u16, number));
            inner.push((number, contents.len()));
            number += 1;
        }
        match compression {
            "loose" => stream.extend(&contents),
            _ => stream.extend(chunk(compression, &contents, crc32fast::hash(&contents))),
        }
        let is_packed = matches!(compression, "lz4" | "zstd");
        ends.extend(inner.into_iter().map(|(number, end)| match compression {
            "loose" => (number, begin + end),
            // The bytes of a chunk without compression are its last.
            _ if !is_packed => (number, stream.len() - contents.len() + end),
            _ => (number, stream.len()),
        }));
        stream.extend(
            Making::new(op::MESSAGE_INDEX)
                .u16(1)
                .counted(&[0; 16])
                .end(),
        );
    }
    let attachment = Making::new(op::ATTACHMENT).u64(5).u64(6);
    let attachment = attachment
        .counted(b"map")
        .counted(b"text/plain")
        .u64(3)
        .bytes(b"abc")
        .end();
    let crc = crc32fast::hash(&attachment[9..]);
    let mut attachment = attachment;
    attachment.extend(crc.to_le_bytes());
    let len = attachment.len() as u64 - 9;
    attachment[1..9].copy_from_slice(&len.to_le_bytes());
    stream.extend(attachment);
    stream.extend(
        Making::new(op::METADATA)
            .counted(b"meta")
            .counted(b"")
            .end(),
    );
    stream.extend(Making::new(0x90).bytes(b"private").end());
    stream.extend(Making::new(op::DATA_END).u32(0).end());
    stream.extend([schema(1), channel(1, 1), channel(2, 0)].concat());
    stream.extend(Making::new(op::FOOTER).u64(0).u64(0).u32(0).end());
    stream.extend(MAGIC);
    (stream, ends)
}

pub fn rebuild(stream: &[u8], piece: usize) -> Result<(Vec<u8>, Rebuilt)> {
    let mut file = Vec::new();
    let mut rebuild = Rebuild::new("a", stream.len() as u64, |data: &[u8]| {
        file.extend_from_slice(data);
        Ok(())
    });
    for data in stream.chunks(piece) {
        rebuild.feed(data)?;
    }
    let rebuilt = rebuild.finish()?;
    Ok((file, rebuilt))
}

/// The numbers of the messages that the indexes of a file lead to, in order, after all of its
/// checksums and offsets were followed.
pub fn messages_of(file: &[u8]) -> Vec<u64> {
    assert_eq!(file[..8], MAGIC);
    assert_eq!(file[file.len() - 8..], MAGIC);
    let at = |offset: u64| -> Record<'_> { records(&file[offset as usize..]).next().unwrap() };
    let footer_at = file.len() - 8 - 29;
    let footer = at(footer_at as u64);
    let mut fields = Fields(footer.content);
    let (summary_at, offsets_at) = (fields.u64_le().unwrap(), fields.u64_le().unwrap());
    let covered = &file[summary_at as usize..file.len() - 12];
    assert_eq!(fields.u32_le(), Some(crc32fast::hash(covered)));
    let mut numbers = Vec::new();
    let mut counts = BTreeMap::new();
    let mut statistics = None;
    for record in records(&file[summary_at as usize..offsets_at as usize]) {
        let mut fields = Fields(record.content);
        match record.opcode {
            op::CHUNK_INDEX => {
                fields.bytes(16);
                let chunk = at(fields.u64_le().unwrap());
                assert_eq!(chunk.opcode, op::CHUNK);
                assert_eq!(fields.u64_le(), Some(chunk.whole.len() as u64));
                let Unpacked::Whole(bytes) = unpack(&Chunk::parse(chunk.content).unwrap()) else {
                    panic!("a chunk is damaged");
                };
                let mut offsets = Fields(fields.counted_le().unwrap());
                let mut found = Vec::new();
                while let (Some(channel), Some(offset)) = (offsets.u16_le(), offsets.u64_le()) {
                    let index = at(offset);
                    assert_eq!(index.opcode, op::MESSAGE_INDEX);
                    let mut fields = Fields(index.content);
                    assert_eq!(fields.u16_le(), Some(channel));
                    let mut entries = Fields(fields.counted_le().unwrap());
                    while let (Some(time), Some(offset)) = (entries.u64_le(), entries.u64_le()) {
                        let message = records(&bytes[offset as usize..]).next().unwrap();
                        assert_eq!(message.whole, super::tests::message(channel, time - 1000));
                        *counts.entry(channel).or_insert(0) += 1;
                        found.push(time - 1000);
                    }
                }
                found.sort_unstable();
                numbers.extend(found);
            }
            op::ATTACHMENT_INDEX | op::METADATA_INDEX => {
                let found = at(fields.u64_le().unwrap());
                assert_eq!(fields.u64_le(), Some(found.whole.len() as u64));
                assert!(matches!(found.opcode, op::ATTACHMENT | op::METADATA));
            }
            op::STATISTICS => statistics = fields.u64_le(),
            _ => {}
        }
    }
    assert_eq!(statistics, Some(numbers.len() as u64));
    assert_eq!(counts.values().sum::<u64>(), numbers.len() as u64);
    numbers
}

#[test]
fn a_stream_cut_at_any_byte_becomes_a_whole_file() {
    let (stream, ends) = stream();
    for cut in 0..=stream.len() {
        let piece = 1 + cut * 7 % 997;
        let (file, rebuilt) = rebuild(&stream[..cut], piece).unwrap();
        let expected: Vec<u64> = ends
            .iter()
            .filter(|(_, end)| *end <= cut)
            .map(|(number, _)| *number)
            .collect();
        let numbers = messages_of(&file);
        assert!(
            numbers.starts_with(&expected),
            "{cut}: {numbers:?} {expected:?}"
        );
        assert_eq!(rebuilt.messages, numbers.len() as u64);
        assert!((numbers.len() - expected.len()) as u64 <= rebuilt.recovered_messages);
        assert_eq!(
            rebuilt.damaged_chunks + rebuilt.damaged_records + rebuilt.left_out_records,
            0
        );
        assert_eq!(rebuilt.was_whole, cut >= stream.len() - 8, "{cut}");
        if cut % 16 != 0 {
            continue;
        }
        // What is whole stays what it is.
        let (again, same) = rebuild(&file, 4096).unwrap();
        assert!(
            again == file && same.was_whole && same.cut_bytes == 0,
            "{cut}"
        );
    }
    let (file, rebuilt) = rebuild(&[&stream[..], &stream[..]].concat(), 4096).unwrap();
    assert_eq!(messages_of(&file).len(), ends.len());
    assert_eq!(rebuilt.ignored_bytes, stream.len() as u64);
}

#[test]
fn a_long_chunk_that_ends_early_gives_what_its_whole_blocks_hold() {
    let contents: Vec<u8> = [schema(1), channel(1, 1)]
        .into_iter()
        .chain((0..6000).map(|number| message(1, number)))
        .flatten()
        .collect();
    for compression in ["lz4", "zstd"] {
        let stream = [&MAGIC[..], &chunk(compression, &contents, 0)].concat();
        let cut = &stream[..stream.len() * 3 / 4];
        let (file, rebuilt) = rebuild(cut, 4096).unwrap();
        let numbers = messages_of(&file);
        assert!(
            (1000..6000).contains(&numbers.len()),
            "{compression}: {rebuilt:?}"
        );
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
        assert_eq!(rebuilt.recovered_messages, rebuilt.messages);
    }
}

#[test]
fn what_is_damaged_is_left_out_and_counted() {
    let contents = [message(1, 5), message(3, 6)].concat();
    let begin = [&MAGIC[..], &schema(1), &channel(1, 1), &channel(4, 9)].concat();
    // A channel without its schema, a chunk that does not match, and a message without a channel.
    let stream = [
        &begin[..],
        &chunk("", &contents, 1),
        &chunk("", &contents, 0),
    ]
    .concat();
    let (file, rebuilt) = rebuild(&stream, 4096).unwrap();
    assert_eq!(messages_of(&file), [5]);
    assert_eq!((rebuilt.damaged_chunks, rebuilt.left_out_records), (1, 2));
    // A chunk whose compressed bytes are damaged.
    for compression in ["lz4", "zstd"] {
        let mut bad = chunk(compression, &message(1, 7), 0);
        let len = bad.len();
        bad[len - 30..].fill(0xff);
        let (file, rebuilt) = rebuild(&[&begin[..], &bad, &message(1, 8)].concat(), 50).unwrap();
        assert_eq!(
            (messages_of(&file), rebuilt.damaged_chunks),
            (vec![8], 1),
            "{compression}"
        );
    }
}

#[test]
fn foreign_bytes_are_refused_or_end_the_file() {
    let why = |stream: &[u8]| rebuild(stream, 3).map(|_| ()).unwrap_err().to_string();
    assert!(why(b"RIFF1234WAVE").contains("not MCAP"));
    assert!(why(&[&MAGIC[..], &chunk("brotli", b"", 0)].concat()).contains("brotli"));
    let begin = [&MAGIC[..], &channel(1, 0), &message(1, 5)].concat();
    // Zeroes, and a length that no stream has.
    for foreign in [
        &[0; 40][..],
        &[0xff; 40][..],
        &[op::CHUNK, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7][..],
    ] {
        let (file, rebuilt) = rebuild(&[&begin[..], foreign].concat(), 11).unwrap();
        assert_eq!(messages_of(&file), [5]);
        assert!(rebuilt.cut_bytes > 0 || rebuilt.has_damage(), "{rebuilt:?}");
    }
}

#[test]
fn a_length_that_no_memory_holds_is_refused_or_ends_the_file() {
    let record = |len: u64| [&[op::CHUNK][..], &len.to_le_bytes(), &[0; 50]].concat();
    let begin = [&MAGIC[..], &channel(1, 0), &message(1, 5)].concat();
    let size_bytes = 1 << 40;
    for (len, is_last) in [(1 << 35, false), (size_bytes, true), (u64::MAX, true)] {
        let mut file = Vec::new();
        let mut rebuild = Rebuild::new("a", size_bytes, |data: &[u8]| {
            file.extend_from_slice(data);
            Ok(())
        });
        let result = rebuild.feed(&[&begin[..], &record(len)].concat());
        assert_eq!(result.is_ok(), is_last, "{len}");
        if is_last {
            rebuild.feed(&[0; 5000]).unwrap();
            let rebuilt = rebuild.finish().unwrap();
            // A length that is wrong, unless it is not known how much is there.
            assert_eq!(rebuilt.damaged_records, 1);
            let left_out = rebuilt.cut_bytes + rebuilt.skipped_bytes;
            assert_eq!(left_out, size_bytes - begin.len() as u64);
            assert_eq!(messages_of(&file), [5]);
        }
    }
}

/// Behind a gap nothing but a part of a record that its opcode cannot have: found by its end, and
/// refused by its fields.
#[test]
fn a_beginning_that_is_found_and_refused_is_passed() {
    let mut bytes = vec![10, 1, 0, 0, 0];
    bytes.extend(&MAGIC[..6]);
    bytes.extend([13, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    let mut rebuild = Rebuild::new("bag", bytes.len() as u64, |_: &[u8]| Ok(()));
    rebuild.gap(true).unwrap();
    rebuild.feed(&bytes).unwrap();
    let done = rebuild.finish().unwrap();
    assert_eq!((done.messages, done.skipped_bytes), (0, bytes.len() as u64));
}

#[test]
fn random_changes_never_make_an_invalid_file() {
    let (stream, _) = stream();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..400 {
        let mut changed = stream.clone();
        for _ in 0..=next(4) {
            let at = next(changed.len());
            changed[at] ^= 1 << next(8);
        }
        if let Ok((file, _)) = rebuild(&changed, 1 + next(5000)) {
            let (again, same) = rebuild(&file, 4096).unwrap();
            assert!(again == file && same.was_whole && same.damaged_chunks == 0);
        }
    }
}

#[test]
fn streams_that_follow_each_other_become_one_file() {
    let (stream, ends) = stream();
    let same = ends.len() as u64;
    let packed = chunk("zstd", &message(1, 700), 0);
    let again = [&MAGIC[..], &schema(1), &channel(1, 1), &packed].concat();
    // The number of a channel that is another one here, in a chunk and outside.
    let others = [&schema(1)[..], &channel(1, 0), &message(1, 800)].concat();
    let others = [
        &MAGIC[..],
        &chunk("lz4", &others, 0),
        &message(1, 801),
        &chunk("zstd", &message(1, 802), 0)[..40],
    ]
    .concat();
    let streams = [&stream, &again, &others, &again];
    let mut file = Vec::new();
    let mut rebuild = Rebuild::new("a", stream.len() as u64, |data: &[u8]| {
        file.extend_from_slice(data);
        Ok(())
    });
    for (index, stream) in streams.iter().enumerate() {
        if index > 0 {
            rebuild.next_stream(stream.len() as u64).unwrap();
        }
        for data in stream.chunks(77) {
            rebuild.feed(data).unwrap();
        }
    }
    let rebuilt = rebuild.finish().unwrap();
    let expected: Vec<u64> = (0..same).chain([700, 800, 801, 700]).collect();
    assert_eq!(messages_of(&file), expected);
    assert_eq!((rebuilt.was_whole, rebuilt.cut_bytes), (false, 40));
    // What means the same is copied.
    let copies = file.windows(packed.len()).filter(|part| *part == packed);
    assert_eq!(copies.count(), 2);
    let (whole, rebuilt) = super::tests::rebuild(&file, 4096).unwrap();
    assert!(whole == file && rebuilt.was_whole);
    // Channel 3 is the other one. They are in the data, before their messages, and again in the
    // summary.
    let channels = records(&file[8..]).filter(|record| record.opcode == op::CHANNEL);
    let channels: Vec<&[u8]> = channels.map(|record| record.whole).collect();
    let expected = [channel(1, 1), channel(2, 0), {
        let mut third = channel(1, 0);
        third[9] = 3;
        third
    }];
    assert_eq!(channels, [&expected[..], &expected].concat());
}

/// Where each message of a stream has its record, or its chunk: its number, and where that begins
/// and ends.
pub fn places_of(stream: &[u8]) -> Vec<(u64, usize, usize)> {
    let number = |record: &Record<'_>| {
        let mut fields = Fields(record.content);
        fields
            .bytes(2)
            .and_then(|_| fields.u32_le())
            .unwrap()
            .into()
    };
    let mut places = Vec::new();
    let mut at = MAGIC.len();
    for record in records(&stream[at..]) {
        let end = at + record.whole.len();
        match record.opcode {
            op::MESSAGE => places.push((number(&record), at, end)),
            op::CHUNK => {
                let Unpacked::Whole(bytes) = unpack(&Chunk::parse(record.content).unwrap()) else {
                    panic!("a chunk of the test is damaged");
                };
                let inner = records(&bytes).filter(|inner| inner.opcode == op::MESSAGE);
                places.extend(inner.map(|inner| (number(&inner), at, end)));
            }
            op::DATA_END => break,
            _ => {}
        }
        at = end;
    }
    places
}

/// The parts of a stream, between which bytes are missing.
pub fn rebuild_parts(
    parts: &[&[u8]],
    is_inside: bool,
    known: Option<Vec<Definitions>>,
) -> (Vec<u8>, Rebuilt, Vec<Definitions>) {
    let size_bytes = parts.iter().map(|part| part.len() as u64).sum();
    let run = |rebuild: &mut Rebuild<_>| {
        for (at, part) in parts.iter().enumerate() {
            match at {
                0 if is_inside => rebuild.begin_inside(),
                0 => {}
                _ => {
                    rebuild.gap(true).unwrap();
                }
            }
            part.chunks(113)
                .for_each(|data| rebuild.feed(data).unwrap());
        }
    };
    type Sink<'s> = Box<dyn FnMut(&[u8]) -> Result<()> + 's>;
    let mut scan =
        Rebuild::new("a", size_bytes, Box::new(|_: &[u8]| Ok(())) as Sink<'_>).collecting();
    run(&mut scan);
    let (seen, _) = scan.into_definitions().unwrap();
    let mut file = Vec::new();
    let sink = Box::new(|data: &[u8]| {
        file.extend_from_slice(data);
        Ok(())
    }) as Sink<'_>;
    let mut rebuild = Rebuild::new("a", size_bytes, sink).knowing(known.unwrap_or(seen.clone()));
    run(&mut rebuild);
    let rebuilt = rebuild.finish().unwrap();
    (file, rebuilt, seen)
}

/// MCAP 1.0, "Records": nothing but lengths says where a record begins.
#[test]
fn behind_a_gap_every_whole_record_is_kept() {
    let (stream, _) = stream();
    let places = places_of(&stream);
    let len = stream.len();
    for step in 0..600 {
        let from = MAGIC.len() + step * 7919 % (len - 40);
        let to = (from + 1 + step * 31 % 400).min(len - 29 - 8);
        let (file, rebuilt, _) = rebuild_parts(&[&stream[..from], &stream[to..]], false, None);
        let numbers = messages_of(&file);
        let before = places
            .iter()
            .filter(|(.., end)| *end <= from)
            .map(|place| place.0);
        let behind: Vec<u64> = places
            .iter()
            .filter(|(_, at, _)| *at >= to)
            .map(|place| place.0)
            .collect();
        let before: Vec<u64> = before.collect();
        assert!(numbers.starts_with(&before), "{from} {to}: {numbers:?}");
        assert!(
            numbers.ends_with(&behind),
            "{from} {to}: {numbers:?} {behind:?}"
        );
        // Others are of chunks of which a part is missing: before the gap they are counted, and
        // behind it they are records, too, if the chunk has no compression.
        let others = (numbers.len() - before.len() - behind.len()) as u64;
        assert!(rebuilt.recovered_messages <= others, "{from} {to}");
        assert!(
            numbers.is_sorted_by(|one, next| one < next),
            "{from} {to}: {numbers:?}"
        );
        assert_eq!(
            rebuilt.left_out_records + rebuilt.damaged_chunks,
            0,
            "{from} {to}: {rebuilt:?}"
        );
        assert_eq!((rebuilt.was_whole, rebuilt.data_matches), (true, None));
        let whole = rebuild(&file, 4096).unwrap();
        assert!(whole.0 == file && whole.1.was_whole, "{from} {to}");
    }
}

#[test]
fn a_stream_without_its_beginning_has_what_its_end_repeats() {
    let (stream, _) = stream();
    let places = places_of(&stream);
    for from in (9..stream.len() - 400).step_by(41) {
        let (file, rebuilt, _) = rebuild_parts(&[&stream[from..]], true, None);
        let expected: Vec<u64> = places
            .iter()
            .filter(|(_, at, _)| *at >= from)
            .map(|place| place.0)
            .collect();
        let numbers = messages_of(&file);
        assert!(
            numbers.ends_with(&expected),
            "{from}: {numbers:?} {rebuilt:?}"
        );
        assert!(
            numbers.is_sorted_by(|one, next| one < next),
            "{from}: {numbers:?}"
        );
        assert_eq!(rebuilt.has_header, from == 8);
    }
    // Without a summary nothing says what the messages are: all of them are counted, or part of
    // what was skipped.
    let end = places.last().unwrap().2;
    let from = places[30].1;
    let (file, rebuilt, _) = rebuild_parts(&[&stream[from..end]], true, None);
    assert_eq!(messages_of(&file), [0; 0]);
    assert!(
        rebuilt.left_out_records >= 12 && rebuilt.has_damage(),
        "{rebuilt:?}"
    );
    // Another part of the recording has them.
    let (.., seen) = rebuild_parts(&[&stream[..200]], false, None);
    let (file, rebuilt, _) = rebuild_parts(&[&stream[from..end]], true, Some(seen));
    let expected: Vec<u64> = places
        .iter()
        .filter(|(_, at, _)| *at >= from)
        .map(|place| place.0)
        .collect();
    assert_eq!(messages_of(&file), expected);
    assert_eq!((rebuilt.recalled_channels, rebuilt.schemas), (2, 1));
}

/// MCAP 1.0, "Chunk": messages may refer to channels that stand before it. Readers take a chunk
/// without an index for a damaged one.
#[test]
fn schemas_and_channels_outside_of_chunks_stay_there() {
    let inner = [message(1, 0), message(2, 1)].concat();
    let only = [schema(1), channel(1, 1), channel(2, 0)].concat();
    let begin = [
        &MAGIC[..],
        &Making::new(op::HEADER).counted(b"").counted(b"").end(),
    ]
    .concat();
    for first in [
        only.clone(),
        chunk("", &only, 0),
        chunk("zstd", &only, crc32fast::hash(&only)),
    ] {
        let twice = [&begin[..], &first, &first, &chunk("lz4", &inner, 0)].concat();
        let (file, rebuilt) = rebuild(&twice, 50).unwrap();
        assert_eq!(messages_of(&file), [0, 1]);
        assert_eq!(
            (rebuilt.chunks, rebuilt.schemas, rebuilt.channels),
            (1, 1, 2)
        );
        assert_eq!((rebuilt.left_out_records, rebuilt.damaged_chunks), (0, 0));
        assert_eq!(
            file[..begin.len() + only.len()],
            [&begin[..], &only].concat()
        );
    }
}

#[test]
fn records_of_later_versions_are_kept_and_what_is_malformed_is_counted() {
    let private = Making::new(0x90).bytes(b"private").end();
    let bad = |opcode| Making::new(opcode).u32(77).end();
    let contents = [&channel(1, 0)[..], &message(1, 0), &private, &message(1, 1)].concat();
    let stream = [
        &MAGIC[..],
        &chunk("zstd", &contents, 0),
        // Its numbers change, so it is packed again.
        &channel(2, 0),
        &bad(op::METADATA),
        &bad(op::ATTACHMENT),
        &bad(op::SCHEMA),
        &Making::new(op::DATA_END).u32(0).end(),
        &private,
        &Making::new(op::FOOTER).u64(0).u64(0).u32(0).end(),
        &MAGIC,
    ]
    .concat();
    let (file, rebuilt) = rebuild(&stream, 4096).unwrap();
    assert_eq!(messages_of(&file), [0, 1]);
    assert_eq!((rebuilt.damaged_records, rebuilt.left_out_records), (2, 1));
    assert!(rebuilt.has_damage() && !rebuilt.has_loss());
    let kept = file.windows(private.len()).filter(|part| *part == private);
    assert_eq!(kept.count(), 1, "one is packed, one is in the summary");
    let (again, _) = rebuild(&file, 77).unwrap();
    assert!(again == file);
    // MCAP 1.0, "Records": later versions may add fields at the end of a record. The checksum is
    // that of the fields before it.
    let attachment = Making::new(op::ATTACHMENT).u64(5).u64(6);
    let attachment = attachment.counted(b"map").counted(b"").u64(3);
    let attachment = attachment.bytes(b"abc").end();
    let fields = &attachment[9..];
    for (crc, damaged) in [(crc32fast::hash(fields), 0), (0, 0), (1, 1)] {
        let longer = Making::new(op::ATTACHMENT).bytes(fields);
        let longer = longer.u32(crc).bytes(b"a later field").end();
        let (file, rebuilt) = rebuild(&[&MAGIC[..], &longer].concat(), 9).unwrap();
        assert_eq!(
            (rebuilt.attachments, rebuilt.damaged_records),
            (1 - damaged, damaged)
        );
        let is_there = file.windows(longer.len()).any(|part| part == longer);
        assert_eq!(is_there, damaged == 0);
    }
    // Part of a record at the end of a chunk's contents.
    let cut = [&channel(1, 0)[..], &message(1, 0), &private[..9]].concat();
    let (file, rebuilt) = rebuild(&[&MAGIC[..], &chunk("", &cut, 0)].concat(), 9).unwrap();
    assert_eq!((messages_of(&file), rebuilt.left_out_records), (vec![0], 1));
}

/// MCAP 1.0, "Data End": the checksum of all bytes before it.
#[test]
fn data_that_does_not_match_its_checksum_is_reported() {
    let data = [&MAGIC[..], &channel(1, 0), &message(1, 3)].concat();
    let end = |crc| {
        let footer = Making::new(op::FOOTER).u64(0).u64(0).u32(0).end();
        [
            &Making::new(op::DATA_END).u32(crc).end()[..],
            &footer,
            &MAGIC,
        ]
        .concat()
    };
    let crc = crc32fast::hash(&data);
    for (stored, matches) in [(crc, Some(true)), (crc ^ 1, Some(false)), (0, None)] {
        let (_, rebuilt) = rebuild(&[&data[..], &end(stored)].concat(), 5).unwrap();
        assert_eq!(rebuilt.data_matches, matches);
        assert_eq!(rebuilt.has_damage(), matches == Some(false));
    }
}
