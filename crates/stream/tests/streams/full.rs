// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording on a full volume whose caller can free space, or cannot.
use crate::support::*;
use block::{Clock, RamDisk};
use std::pin::pin;
use std::task::Poll;
use straightway_stream::{Error, GapFile, RecordOptions, Recorder};
use volume::{CreateOptions, OpenFile, blocking};

/// Blocks of the source: more than the volume has beside the other file, less than the volume.
const BLOCKS: u64 = 160;

/// Records until the volume is full, frees the other file's space or not, and goes on to the end.
fn recorded(frees: bool) -> (Result<(), Error>, Vec<u8>) {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 2];
    let disk = RamDisk::<_, 32>::new(vec![0; 8 << 20], 9).unwrap();
    let volume = mount(format(disk, false), &mut files);
    let other = blocking::run(&volume, volume.create("other", &CreateOptions::default())).unwrap();
    for _ in 0..128 {
        let outcome = blocking::append(&volume, other, buffer(BLOCK), BLOCK);
        outcome.result.unwrap();
    }
    blocking::run(&volume, volume.close(other)).unwrap();
    let file = blocking::run(&volume, volume.create("a", &CreateOptions::default())).unwrap();
    let mut ring = places(4, BLOCK);
    let options = RecordOptions {
        waits_for_space: true,
        ..RecordOptions::default()
    };
    let recorder = Recorder::new(&volume, file, time.clone(), &mut ring, None, &options).unwrap();
    let mut upkeep = pin!(recorder.upkeep());
    let (mut block, mut asked) = (0, 0);
    let result = loop {
        if let Poll::Ready(result) = recorder.step(upkeep.as_mut(), &mut |_| {}) {
            break result;
        }
        if recorder.wants_space() {
            asked += 1;
            // All that was written before is there, and nothing else.
            let status = volume.file_status(file).unwrap();
            assert!(!recorder.has_space_for(BLOCK as u64));
            assert!(status.appended_bytes < block * BLOCK as u64);
            if frees {
                blocking::run(&volume, volume.remove("other")).unwrap();
                recorder.space_was_freed();
            } else {
                recorder.no_space_left()
            }
        }
        match recorder.take() {
            _ if block == BLOCKS => recorder.finish(),
            Some(mut buffer) => {
                fill(&mut buffer, block * BLOCK as u64);
                match recorder.hand_in(buffer, BLOCK, time.ticks()) {
                    Ok(()) => block += 1,
                    Err((_, buffer)) => recorder.give_back(buffer).unwrap(),
                }
            }
            None => {}
        }
        time.pass(10);
    };
    assert_eq!(asked, 1);
    let _ = blocking::run(&volume, volume.close(file));
    let data = contents(&volume, "a");
    (result, data)
}

#[test]
fn a_full_volume_waits_in_the_buffers_until_space_was_freed() {
    let (result, data) = recorded(true);
    assert_eq!(result, Ok(()));
    assert!(data == expected(BLOCKS, BLOCK, &[]));
}

#[test]
fn a_full_volume_of_which_nothing_can_be_freed_ends_the_recording() {
    let (result, data) = recorded(false);
    let Err(Error::Volume {
        offset_bytes,
        error: volume::Error::NoSpace,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(data.len() as u64, offset_bytes);
    assert!(expected(BLOCKS, BLOCK, &[]).starts_with(&data));
}

/// Reserves what is left of the volume for `file`.
fn take_all(volume: &volume::Volume<'_, impl block::Device>, file: volume::File) {
    let mut bytes = 8 << 20;
    while bytes > 0 {
        let status = volume.file_status(file).unwrap();
        let more = status.reserved_bytes + bytes;
        if blocking::run(volume, volume.reserve(file, more)).is_err() {
            bytes /= 2;
        }
    }
}

/// A recording whose companion has no space, until a file of one unit is removed.
fn lost_on_a_full_volume() -> (Result<(), Error>, Vec<u8>) {
    let time = Time::default();
    let mut files = [const { OpenFile::new() }; 4];
    let disk = RamDisk::<_, 32>::new(vec![0; 8 << 20], 9).unwrap();
    let volume = mount(format(disk, false), &mut files);
    let create = |name, reserve_bytes| {
        let options = CreateOptions {
            reserve_bytes,
            ..CreateOptions::default()
        };
        blocking::run(&volume, volume.create(name, &options)).unwrap()
    };
    let small = create("small", 1);
    let small_end = volume.file_status(small).unwrap().reserved_bytes;
    let outcome = blocking::append(
        &volume,
        small,
        buffer(small_end as usize),
        small_end as usize,
    );
    outcome.result.unwrap();
    blocking::run(&volume, volume.close(small)).unwrap();
    let (file, gap_file, other) = (
        create("a", 8 * BLOCK as u64),
        create("a.gaps", 0),
        create("other", 0),
    );
    take_all(&volume, other);
    let gaps = GapFile {
        file: gap_file,
        buffer: buffer(volume.geometry().block_size_bytes()),
        filled_bytes: 0,
    };
    let mut ring = places(4, BLOCK);
    let options = RecordOptions {
        waits_for_space: true,
        low_water_bytes: 0,
        reserve_bytes: 0,
        total_bytes: Some(4 * BLOCK as u64),
        ..RecordOptions::default()
    };
    let recorder =
        Recorder::new(&volume, file, time.clone(), &mut ring, Some(gaps), &options).unwrap();
    let mut upkeep = pin!(recorder.upkeep());
    for block in 0..2 {
        let mut buffer = recorder.take().unwrap();
        fill(&mut buffer, block * BLOCK as u64);
        recorder.hand_in(buffer, BLOCK, time.ticks()).unwrap();
        recorder.overrun(BLOCK as u64, time.ticks()).unwrap();
    }
    recorder.finish();
    let result = loop {
        if let Poll::Ready(result) = recorder.step(upkeep.as_mut(), &mut |_| {}) {
            break result;
        }
        if recorder.wants_space() {
            match blocking::run(&volume, volume.remove("small")) {
                Ok(()) => recorder.space_was_freed(),
                Err(_) => recorder.no_space_left(),
            }
        }
        time.pass(10);
    };
    for file in [file, gap_file, other] {
        let _ = blocking::run(&volume, volume.close(file));
    }
    (result, contents(&volume, "a.gaps"))
}

#[test]
fn the_lines_of_what_was_lost_need_one_unit() {
    let (result, lines) = lost_on_a_full_volume();
    assert_eq!(result, Ok(()));
    let lines: Vec<_> = lines
        .chunks_exact(straightway_stream::GAP_LINE_BYTES)
        .zip(0..)
        .filter_map(|(line, number)| straightway_stream::parse_gap(line, number))
        .collect();
    let lost: u64 = lines.iter().map(|gap| gap.lost_bytes).sum();
    assert_eq!(lost, 2 * BLOCK as u64, "{lines:?}");
}
