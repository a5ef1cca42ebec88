// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording on a full volume whose caller can free space, or cannot.
use crate::support::*;
use block::{Clock, RamDisk};
use std::pin::pin;
use std::task::Poll;
use straightway_stream::{Error, RecordOptions, Recorder};
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
