// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams that break a rule of MCAP 1.0: what can be found is in the file, and what is left out is
//! counted.

use super::Rebuilt;
use super::foreign::numbers_of;
use super::layout::{MAGIC, Making, op, records};
use super::tests::{channel, chunk, message, messages_of, pack, places_of, rebuild, schema};

/// A record that ends a stream, with its last bytes.
fn end() -> Vec<u8> {
    let footer = Making::new(op::FOOTER).u64(0).u64(0).u32(0).end();
    [&Making::new(op::DATA_END).u32(0).end()[..], &footer, &MAGIC].concat()
}

fn begin() -> Vec<u8> {
    let header = Making::new(op::HEADER).counted(b"").counted(b"").end();
    [
        &MAGIC[..],
        &header,
        &schema(1),
        &channel(1, 1),
        &channel(2, 0),
    ]
    .concat()
}

/// Rebuilds a stream in pieces of several sizes; what the format's own reader finds in the file.
fn found(stream: &[u8]) -> (Vec<u64>, Rebuilt) {
    let (file, rebuilt) = rebuild(stream, 4096).unwrap();
    for piece in [1, 61] {
        let again = rebuild(stream, piece).unwrap();
        assert!(
            again.0 == file && again.1 == rebuilt,
            "{rebuilt:?} {:?}",
            again.1
        );
    }
    let numbers = messages_of(&file);
    assert_eq!(numbers_of(&file), numbers);
    (numbers, rebuilt)
}

/// LZ4 frame format, "Frame Concatenation", and RFC 8878, section 3: frames may follow each other,
/// and be skippable.
// partner: mcap (Rust) | reader
#[test]
fn a_chunk_in_several_frames_is_read_and_packed_in_one() {
    let contents: Vec<u8> = (0..60)
        .flat_map(|number| message(1 + number as u16 % 2, number))
        .collect();
    let crc = crc32fast::hash(&contents);
    let (one, other) = contents.split_at(1111);
    let skippable = [
        &0x184d_2a5a_u32.to_le_bytes()[..],
        &3_u32.to_le_bytes(),
        b"abc",
    ]
    .concat();
    for compression in ["lz4", "zstd"] {
        let frame = |bytes: &[u8]| pack(compression, bytes);
        let whole = |stored: &[u8]| {
            let making = Making::new(op::CHUNK)
                .u64(0)
                .u64(u64::MAX)
                .u64(contents.len() as u64);
            let making = making.u32(crc).counted(compression.as_bytes());
            making.u64(stored.len() as u64).bytes(stored).end()
        };
        for (stored, is_copied) in [
            ([frame(one), frame(other)].concat(), false),
            ([&skippable[..], &frame(&contents)].concat(), false),
            (
                [
                    &frame(one)[..],
                    &skippable,
                    &frame(b""),
                    &frame(other),
                    &skippable,
                ]
                .concat(),
                false,
            ),
            // Readers look at the first frame, and need no more.
            ([&frame(&contents)[..], &skippable].concat(), true),
            (frame(&contents), true),
        ] {
            let stream = [&begin()[..], &whole(&stored), &end()].concat();
            let (file, rebuilt) = rebuild(&stream, 100).unwrap();
            assert_eq!(
                messages_of(&file),
                (0..60).collect::<Vec<_>>(),
                "{compression}: {rebuilt:?}"
            );
            assert!(!rebuilt.has_damage() && !rebuilt.has_loss(), "{rebuilt:?}");
            let has_copy = file.windows(stored.len()).any(|part| part == stored);
            assert_eq!(has_copy, is_copied, "{compression}");
            if !is_copied {
                assert_eq!(numbers_of(&file).len(), 60);
            }
            // Cut off anywhere: what is whole in the frames that are there.
            for cut in 0..stored.len() {
                let len = begin().len() + whole(&stored).len() - stored.len() + cut;
                let (file, rebuilt) = rebuild(&stream[..len], 4096).unwrap();
                let numbers = messages_of(&file);
                assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "{cut}");
                assert!(!rebuilt.has_damage(), "{rebuilt:?}");
            }
            // A damaged frame is not taken for a whole one.
            let mut bad = stored.clone();
            let at = bad.len() / 2;
            bad[at..at + 9].fill(0xa5);
            let stream = [&begin()[..], &whole(&bad), &end()].concat();
            assert_eq!(rebuild(&stream, 4096).unwrap().1.damaged_chunks, 1);
        }
        let cut = [frame(one), frame(other)[..40].to_vec()].concat();
        let stream = [&begin()[..], &whole(&[&cut[..], &[0; 300]].concat())].concat();
        let stream = &stream[..stream.len() - 300];
        let first = records(one)
            .filter(|record| record.opcode == op::MESSAGE)
            .count();
        assert!(rebuild(stream, 4096).unwrap().1.recovered_messages >= first as u64);
    }
}

/// "Summary Section": it has no messages. Most readers that go through a file find them, so they
/// are kept.
// partner: mcap (Rust) | reader
#[test]
fn what_stands_behind_the_end_of_the_data_is_kept() {
    let data_end = Making::new(op::DATA_END).u32(0).end();
    let footer = [
        &Making::new(op::FOOTER).u64(0).u64(0).u32(0).end()[..],
        &MAGIC,
    ]
    .concat();
    let packed = chunk("zstd", &[message(1, 2), message(2, 3)].concat(), 0);
    let metadata = Making::new(op::METADATA)
        .counted(b"meta")
        .counted(b"")
        .end();
    // The last one's channel stands only there.
    let late = [
        &message(1, 1)[..],
        &packed,
        &metadata,
        &channel(7, 0),
        &message(7, 4),
    ]
    .concat();
    let stream = [&begin()[..], &message(2, 0), &data_end, &late, &footer].concat();
    let (file, rebuilt) = rebuild(&stream, 50).unwrap();
    assert_eq!(messages_of(&file), [0, 1, 2, 3, 4]);
    assert_eq!((rebuilt.late_records, rebuilt.metadata), (4, 1));
    assert!(!rebuilt.has_damage() && !rebuilt.has_loss(), "{rebuilt:?}");
    let stream = [
        &begin()[..],
        &message(2, 0),
        &data_end,
        &message(9, 1),
        &footer,
    ]
    .concat();
    let (numbers, rebuilt) = found(&stream);
    assert_eq!((numbers, rebuilt.left_out_records), (vec![0], 1));
    // A second header, and what is not the last magic number.
    let header = Making::new(op::HEADER).counted(b"ros2").counted(b"").end();
    let (_, rebuilt) = found(&[&begin()[..], &header, &message(1, 0), &end()].concat());
    assert!(rebuilt.has_damage() && rebuilt.messages == 1, "{rebuilt:?}");
    let mut stream = [&begin()[..], &message(1, 0), &end()].concat();
    stream.pop();
    assert!(!found(&stream).1.has_loss(), "it ends in its last bytes");
    stream.push(b'x');
    assert!(found(&stream).1.has_loss());
    // "Statistics": they count messages that are not there.
    let statistics = |count| {
        Making::new(op::STATISTICS)
            .u64(count)
            .bytes(&[0; 34])
            .counted(b"")
            .end()
    };
    for (count, missing) in [(0, 0), (1, 0), (3, 2)] {
        let stream = [
            &begin()[..],
            &message(1, 0),
            &data_end,
            &statistics(count),
            &footer,
        ]
        .concat();
        let (_, rebuilt) = found(&stream);
        assert_eq!(
            (rebuilt.missing_messages, rebuilt.has_damage()),
            (missing, missing > 0)
        );
    }
}

/// "Records": 0x00 is not an opcode.
// partner: mcap (Rust) | reader
#[test]
fn records_behind_zeroes_are_found() {
    let chunks: Vec<u8> = (4..40)
        .step_by(4)
        .flat_map(|number| {
            let inner: Vec<u8> = (number..number + 4)
                .flat_map(|number| message(1, number))
                .collect();
            chunk("", &inner, crc32fast::hash(&inner))
        })
        .collect();
    for zeroes in [1, 8, 9, 10, 4096, 70_000] {
        let zeroes = vec![0; zeroes];
        let (numbers, rebuilt) =
            found(&[&begin()[..], &message(1, 3), &zeroes, &chunks, &end()].concat());
        assert_eq!(numbers, (3..40).collect::<Vec<_>>(), "{rebuilt:?}");
        assert!(rebuilt.has_damage() && rebuilt.was_whole, "{rebuilt:?}");
        assert!(
            rebuilt.skipped_bytes >= (zeroes.len() as u64).saturating_sub(9),
            "{rebuilt:?}"
        );
        // Nothing else follows.
        let (numbers, rebuilt) = found(&[&begin()[..], &message(1, 3), &zeroes].concat());
        assert_eq!((numbers, rebuilt.was_whole), (vec![3], false));
        assert!(rebuilt.has_damage() || zeroes.len() < 9, "{rebuilt:?}");
    }
}

/// The length of each record of a stream is wrong once: whatever is not in the file then is
/// counted.
#[test]
fn records_behind_a_wrong_length_are_found() {
    let attachment = {
        let fields = Making::new(op::ATTACHMENT)
            .u64(5)
            .u64(6)
            .counted(b"map")
            .counted(b"")
            .u64(70)
            .bytes(&[7; 70])
            .end();
        Making::new(op::ATTACHMENT)
            .bytes(&fields[9..])
            .u32(crc32fast::hash(&fields[9..]))
            .end()
    };
    let mut stream = begin();
    let mut number = 0;
    for round in 0..12 {
        let inner: Vec<u8> = (number..number + 5)
            .flat_map(|number| message(1, number))
            .collect();
        number += 5;
        match round % 4 {
            0 => stream.extend(&inner),
            1 => stream.extend(chunk("", &inner, crc32fast::hash(&inner))),
            2 => stream.extend(chunk("lz4", &inner, crc32fast::hash(&inner))),
            _ => stream.extend(chunk("zstd", &inner, 0)),
        }
        stream.extend(
            Making::new(op::MESSAGE_INDEX)
                .u16(1)
                .counted(&[0; 16])
                .end(),
        );
        match round % 3 {
            0 => stream.extend(&attachment),
            1 => stream.extend(
                Making::new(op::METADATA)
                    .counted(b"meta")
                    .counted(b"")
                    .end(),
            ),
            _ => stream.extend(Making::new(0x90).bytes(b"private").end()),
        }
    }
    stream.extend(end());
    let every: Vec<u64> = (0..number).collect();
    let mut starts = Vec::new();
    let mut at = MAGIC.len();
    for record in records(&stream[at..stream.len() - MAGIC.len()]) {
        starts.push((at, record.opcode, record.content.len() as u64));
        at += record.whole.len();
    }
    assert_eq!(messages_of(&rebuild(&stream, 61).unwrap().0), every);
    let (mut cases, mut kept) = (0, 0);
    for &(at, opcode, len) in &starts {
        for wrong in [
            0,
            1,
            len / 2,
            len.saturating_sub(1),
            len + 1,
            len + 7,
            len + 400,
            1 << 20,
            1 << 33,
            u64::MAX,
        ] {
            if wrong == len || opcode == op::HEADER {
                continue;
            }
            let mut bad = stream.clone();
            bad[at + 1..at + 9].copy_from_slice(&wrong.to_le_bytes());
            let (file, rebuilt) = rebuild(&bad, 4096).unwrap();
            // The one whose length is wrong may have other bytes.
            let numbers: Vec<u64> = places_of(&file).iter().map(|place| place.0).collect();
            let what = format!(
                "opcode {opcode} at {at}: {wrong} for {len}: {} found, {rebuilt:?}",
                numbers.len()
            );
            assert!(
                rebuilt.has_damage() || rebuilt.has_loss() || numbers == every,
                "{what}"
            );
            // Without its channel, or that without its schema, a message is of no use.
            let is_known = !matches!(opcode, op::SCHEMA | op::CHANNEL);
            let most = if is_known { 16 } else { every.len() };
            assert!(
                numbers.is_sorted() && numbers.len() + most >= every.len(),
                "{what}"
            );
            (cases, kept) = (cases + 1, kept + numbers.len());
        }
    }
    println!(
        "{cases} wrong lengths, {} of {} messages found",
        kept,
        cases * every.len()
    );
    assert!(cases > 400);
}

/// A length that ends where a later record ends: only the lengths in the record itself show what it
/// hides.
// partner: mcap (Rust) | reader
#[test]
fn records_that_a_length_hides_are_found() {
    let inner = [message(1, 0), message(2, 1)].concat();
    let fields = Making::new(op::ATTACHMENT).u64(5).u64(6);
    let fields = fields
        .counted(b"map")
        .counted(b"")
        .u64(3)
        .bytes(b"abc")
        .end();
    let attachment = Making::new(op::ATTACHMENT).bytes(&fields[9..]).u32(0).end();
    for (first, numbers) in [
        (chunk("", &inner, 0), &[0, 1, 2, 3, 4][..]),
        (chunk("", &inner, crc32fast::hash(&inner)), &[0, 1, 2, 3, 4]),
        (attachment, &[2, 3, 4]),
    ] {
        let hidden = [message(1, 2), message(2, 3)].concat();
        let mut long = [&first[..], &hidden].concat();
        let len = long.len() as u64 - 9;
        long[1..9].copy_from_slice(&len.to_le_bytes());
        let stream = [&begin()[..], &long, &message(1, 4), &end()].concat();
        let (found, rebuilt) = found(&stream);
        assert!(
            found == numbers && rebuilt.damaged_records == 1,
            "{found:?} {rebuilt:?}"
        );
        // "Records": a later version may add fields.
        let mut longer = [&first[..], b"a later field"].concat();
        let len = longer.len() as u64 - 9;
        longer[1..9].copy_from_slice(&len.to_le_bytes());
        let stream = [&begin()[..], &longer, &message(1, 4), &end()].concat();
        let rebuilt = rebuild(&stream, 99).unwrap().1;
        assert!(!rebuilt.has_damage() && !rebuilt.has_loss(), "{rebuilt:?}");
    }
}
