// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers: one engine that moves a file's bytes, and the supply of the metadata that it needs.

use std::collections::VecDeque;

use crate::support::{buffer, files, filled, free, make, memory, mount};
use block::{Device, RamDisk};
use crash::{Config, CrashDisk, Fault, Faulty, Medium, On, Rule};
use straightway_volume::blocking::{self, run, run_with};
use straightway_volume::{
    CreateOptions, DataEvent, Direction, Error, File, FormatOptions, Need, Progress, Transfer,
    Volume,
};

const BLOCK: usize = 4096;
const MEBIBYTE: usize = 1 << 20;

fn medium(megabytes: u64, max_transfer_bytes: usize, options: &FormatOptions<'_>) -> CrashDisk {
    let config = Config {
        max_transfer_blocks: (max_transfer_bytes / BLOCK) as u32,
        ..Config::default()
    };
    let mut disk = Medium::new(12, megabytes << 8).unwrap().open(config);
    make(&mut disk, options);
    disk
}

fn create<D: Device>(volume: &Volume<'_, D>, name: &str, checksums: bool, bytes: usize) -> File {
    let options = CreateOptions {
        checksums,
        reserve_bytes: bytes as u64,
        ..CreateOptions::default()
    };
    run(volume, volume.create(name, &options)).unwrap()
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

fn append<D: Device>(volume: &Volume<'_, D>, file: File, bytes: &[u8]) -> Result<(), Error> {
    let outcome = blocking::append(volume, file, filled(bytes, BLOCK), bytes.len());
    free(outcome.buffer);
    outcome.result
}

fn read<D: Device>(volume: &Volume<'_, D>, file: File, len: usize) -> Vec<u8> {
    let room = buffer(len.next_multiple_of(BLOCK));
    let outcome = blocking::read(volume, file, 0, room);
    assert_eq!(outcome.result, Ok(()));
    let bytes = outcome.buffer[..len].to_vec();
    free(outcome.buffer);
    bytes
}

/// A file in many short extents: another one grows in parallel, block by block.
fn fragmented<D: Device>(volume: &Volume<'_, D>, extents: usize, extent_bytes: usize) -> File {
    let file = create(volume, "pieces", false, 0);
    let other = create(volume, "between", false, 0);
    for _ in 0..extents {
        for file in [file, other] {
            let reserved = volume.file_status(file).unwrap().reserved_bytes;
            let more = reserved + extent_bytes as u64;
            run(volume, volume.reserve(file, more)).unwrap();
        }
    }
    run(volume, volume.close(other)).unwrap();
    file
}

/// What was appended is read back, in transfers of any length that share a short queue, over a
/// file whose extents end anywhere; and each completion of a transfer is reported once.
#[test]
fn interleaved_transfers_move_every_byte_to_its_place() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut disk = RamDisk::<_, 3>::new(vec![0xa5; 16 << 20], 12).unwrap();
        let options = FormatOptions {
            unit_bytes: Some(4096),
            checksums: true,
            ..FormatOptions::default()
        };
        make(&mut disk, &options);
        let mut table = files();
        let volume = mount(disk, memory(4096, 0), &mut table, false).unwrap();
        let file = match seed % 2 {
            0 => fragmented(&volume, 40, 3 * BLOCK),
            _ => create(&volume, "whole", true, 0),
        };
        let data = pattern(3 * MEBIBYTE + 100, seed);
        let mut cuts = VecDeque::new();
        let mut at = 0;
        while at < data.len() {
            let len = (random.usize(1..60) * BLOCK).min(data.len() - at);
            cuts.push_back((at, len));
            at += len;
        }
        for direction in [Direction::Append, Direction::Read] {
            let moved = shuttle(&volume, file, direction, &data, cuts.clone(), &mut random);
            assert_eq!(moved, cuts.len(), "seed {seed}, {direction:?}");
            run(&volume, volume.sync(file)).unwrap();
        }
        run(&volume, volume.close(file)).unwrap();
    }
}

/// Moves `data` in transfers of `cuts`, up to four at a time, in order; returns how many succeeded.
fn shuttle<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    direction: Direction,
    data: &[u8],
    mut cuts: VecDeque<(usize, usize)>,
    random: &mut fastrand::Rng,
) -> usize {
    let mut going: VecDeque<(usize, Transfer)> = VecDeque::new();
    let mut moved = 0;
    while !cuts.is_empty() || !going.is_empty() {
        while going.len() < 4 {
            let Some((at, len)) = cuts.pop_front() else {
                break;
            };
            let room = match direction {
                Direction::Read => buffer(len.next_multiple_of(BLOCK)),
                _ => filled(&data[at..at + len], BLOCK),
            };
            let transfer =
                Transfer::new(file, direction, at as u64, room, len, (at / BLOCK) as u16);
            going.push_back((at, transfer));
        }
        let mut need = None;
        for (_, transfer) in &mut going {
            match transfer.go_on(volume) {
                Progress::Needs(this) => {
                    need = Some(this);
                    break;
                }
                Progress::Blocked => break,
                Progress::Done | Progress::Submitted => {}
            }
        }
        volume.kick();
        if let Some(need) = need {
            let provided = volume.provide(file, need);
            run_with(volume, provided, |event| take_back(&mut going, event)).unwrap();
        }
        for _ in 0..random.usize(1..4) {
            if let Some(event) = volume.poll() {
                take_back(&mut going, event);
            }
        }
        while going
            .front()
            .is_some_and(|(_, transfer)| transfer.is_over())
        {
            let (at, transfer) = going.pop_front().unwrap();
            assert_eq!(transfer.offset(), at as u64);
            let len = transfer.len_bytes();
            let (buffer, result) = transfer.end();
            let buffer = buffer.unwrap();
            assert_eq!(result, Ok(()));
            assert!(buffer[..len] == data[at..at + len], "{direction:?} at {at}");
            free(buffer);
            moved += 1;
        }
    }
    moved
}

fn take_back(going: &mut VecDeque<(usize, Transfer)>, event: DataEvent) {
    let mut all = going.iter_mut().map(|(_, transfer)| transfer);
    let transfer = all.find(|transfer| transfer.tag() == event.tag).unwrap();
    transfer.take_back(event);
}

/// More data than the checksums in memory cover: it is not committed on the way, and no flush is
/// needed.
#[test]
fn an_append_longer_than_its_checksums_commits_nothing() {
    let options = FormatOptions {
        checksums: true,
        ..FormatOptions::default()
    };
    let disk = crash::Counting::new(medium(48, MEBIBYTE / 2, &options));
    let counter = disk.counter();
    let mut table = files();
    let volume = mount(disk, memory(4096, 0), &mut table, false).unwrap();
    let data = pattern(20 * MEBIBYTE + 700, 3);
    let file = create(&volume, "long", true, data.len());
    counter.take();
    append(&volume, file, &data).unwrap();
    assert_eq!(volume.file_status(file).unwrap().committed_bytes, 0);
    assert_eq!(counter.counts().flushes, 0);
    run(&volume, volume.sync(file)).unwrap();
    assert!(read(&volume, file, data.len()) == data);
}

/// The space of a removed file whose units have not been given back yet.
#[test]
fn an_append_without_space_takes_that_of_removed_files() {
    let mut table = files();
    let disk = medium(8, MEBIBYTE, &FormatOptions::default());
    let volume = mount(disk, memory(4096, 0), &mut table, false).unwrap();
    // In more extents than one operation can remove.
    let old = fragmented(&volume, 40, MEBIBYTE / 16);
    append(&volume, old, &pattern(5 * MEBIBYTE / 2, 1)).unwrap();
    run(&volume, volume.close(old)).unwrap();
    run(&volume, volume.remove("between")).unwrap();
    let rest = create(&volume, "rest", false, 0);
    let free = run(&volume, volume.free_units()).unwrap();
    let free = free * volume.status().shape.unit_bytes();
    run(&volume, volume.reserve(rest, free - MEBIBYTE as u64)).unwrap();
    run(&volume, volume.remove("pieces")).unwrap();
    let shape = volume.status().shape;
    let free = run(&volume, volume.free_units()).unwrap() * shape.unit_bytes();
    assert!(free < 2 * MEBIBYTE as u64, "{free}");
    let new = create(&volume, "new", false, 0);
    let data = pattern(3 * MEBIBYTE, 2);
    append(&volume, new, &data).unwrap();
    run(&volume, volume.sync(new)).unwrap();
    assert!(read(&volume, new, data.len()) == data);
    // And if there is nothing to give back, that is the result; the available space is used.
    let refused = append(&volume, new, &pattern(6 * MEBIBYTE, 3));
    assert_eq!(refused, Err(Error::NoSpace));
}

#[test]
fn as_much_as_there_is_will_do_where_it_is_enough() {
    let mut table = files();
    let disk = medium(8, MEBIBYTE, &FormatOptions::default());
    let volume = mount(disk, memory(4096, 0), &mut table, false).unwrap();
    let file = create(&volume, "file", false, 0);
    let ahead = |want: usize, least: usize| {
        let ahead = volume.reserve_ahead(file, want as u64, least as u64);
        run(&volume, ahead).map(|bytes| bytes as usize)
    };
    // More than the whole volume, in two ways.
    let got = ahead(1 << 30, MEBIBYTE).unwrap();
    assert!((MEBIBYTE..8 * MEBIBYTE).contains(&got), "{got}");
    let all = ahead(16 * MEBIBYTE, got).unwrap();
    assert!((got..8 * MEBIBYTE).contains(&all), "{all}");
    assert_eq!(ahead(1 << 30, 8 * MEBIBYTE), Err(Error::NoSpace));
    // The available space is reserved all the same.
    let rest = ahead(0, 0).unwrap();
    assert!((7 * MEBIBYTE..8 * MEBIBYTE).contains(&rest), "{rest}");
}

/// Pieces after the end of an extent are as long as the device takes them.
#[test]
fn a_short_extent_shortens_one_piece_only() {
    let options = FormatOptions {
        unit_bytes: Some(4096),
        ..FormatOptions::default()
    };
    let disk = crash::Counting::new(medium(16, 128 << 10, &options));
    let counter = disk.counter();
    let mut table = files();
    let volume = mount(disk, memory(4096, 0), &mut table, false).unwrap();
    let file = create(&volume, "file", false, BLOCK);
    let other = create(&volume, "other", false, BLOCK);
    // After the other file's block; both extents are in memory.
    run(&volume, volume.reserve(file, MEBIBYTE as u64)).unwrap();
    counter.take();
    append(&volume, file, &pattern(MEBIBYTE, 5)).unwrap();
    let commands = counter.counts().writes.commands;
    assert!((8..=10).contains(&commands), "{commands} commands");
    run(&volume, volume.close(other)).unwrap();
}

/// A mounted volume whose device fails according to rules that are added later.
fn faulty(rules: &[Rule], body: impl FnOnce(&Volume<'_, Faulty<CrashDisk>>, &crash::Faults)) {
    let options = FormatOptions {
        checksums: true,
        ..FormatOptions::default()
    };
    let disk = Faulty::new(medium(32, MEBIBYTE, &options), rules.iter().cloned());
    let faults = disk.faults();
    let mut table = files();
    let volume = mount(disk, memory(4096, 0), &mut table, false);
    body(&volume.map_err(|(error, _)| error).unwrap(), &faults);
}

const BROKEN: block::Error = block::Error::Nvme { status: 0x281 };

/// After a failed append there will never be room for checksums: this is reported, so that nothing
/// waits for it. Once the append is retried, there is room.
#[test]
fn checksum_room_behind_a_failed_append_is_refused() {
    faulty(&[], |volume, faults| {
        let file = create(volume, "file", true, 12 * MEBIBYTE);
        faults.add(Rule::once(On::Change, 1, Fault::Fail(BROKEN)));
        let data = pattern(9 * MEBIBYTE, 4);
        let mut failed = None;
        for at in (0..8 * MEBIBYTE).step_by(MEBIBYTE) {
            let piece = filled(&data[at..at + MEBIBYTE], BLOCK);
            volume.append(file, piece, MEBIBYTE, 0).unwrap();
            volume.kick();
            let event = std::iter::repeat_with(|| volume.poll()).flatten().next();
            let event = event.unwrap();
            match event.result {
                Ok(()) => event.buffer.into_iter().for_each(free),
                Err(_) => failed = event.buffer,
            }
        }
        let rest = filled(&data[8 * MEBIBYTE..], BLOCK);
        let mut transfer = Transfer::append(file, rest, MEBIBYTE, 1);
        let need = Need::ChecksumRoom;
        assert_eq!(transfer.go_on(volume), Progress::Needs(need));
        let provided = run(volume, volume.provide(file, need));
        assert_eq!(provided, Err(Error::AppendFailed));
        volume.retry(file, 0, failed.unwrap(), 0).unwrap();
        assert_eq!(transfer.go_on(volume), Progress::Needs(need));
        // It waits for the retry, whose event arrives in the meantime.
        volume.kick();
        run_with(volume, volume.provide(file, need), |event| {
            assert_eq!(event.result, Ok(()));
            event.buffer.into_iter().for_each(free);
        })
        .unwrap();
        while transfer.go_on(volume) != Progress::Done {
            volume.kick();
            volume
                .poll()
                .into_iter()
                .for_each(|event| transfer.take_back(event));
        }
        let (buffer, result) = transfer.end();
        assert_eq!(result, Ok(()));
        free(buffer.unwrap());
        run(volume, volume.sync(file)).unwrap();
        assert!(read(volume, file, data.len()) == data);
    });
}

/// The reported failure is the one with the lowest offset, whichever occurs first, and everything
/// before it stays.
#[test]
fn the_first_failure_by_offset_is_the_result() {
    faulty(&[], |volume, faults| {
        let file = create(volume, "file", false, 8 * MEBIBYTE);
        let late = block::Error::TimedOut;
        faults.add(Rule::once(On::Change, 3, Fault::FailDone(BROKEN)));
        faults.add(Rule::once(On::Change, 5, Fault::Fail(late)));
        let data = pattern(6 * MEBIBYTE, 6);
        let result = append(volume, file, &data);
        assert_eq!(result, Err(Error::from(BROKEN)));
        assert_eq!(run(volume, volume.sync(file)), Ok(2 * MEBIBYTE as u64));
        assert!(read(volume, file, 2 * MEBIBYTE) == data[..2 * MEBIBYTE]);
        // Nothing blocks the next operation.
        append(volume, file, &data[2 * MEBIBYTE..]).unwrap();
        run(volume, volume.sync(file)).unwrap();
        assert!(read(volume, file, data.len()) == data);
    });
}

/// The next append writes the block in which a file ends again, with the bytes that it has. A
/// device may execute that and an overwrite of the block in either order: the later one waits.
#[test]
fn an_append_and_an_overwrite_of_one_block_do_not_overlap() {
    let device = medium(8, MEBIBYTE, &FormatOptions::default());
    let mut table = files();
    let volume = mount(device, memory(BLOCK, 1), &mut table, false).map_err(|e| e.0);
    let volume = volume.unwrap();
    let file = create(&volume, "file", false, 4 * BLOCK);
    append(&volume, file, &[1; 100]).unwrap();
    run(&volume, volume.prepare(file, 0)).unwrap();
    let overwrite = |version, tag| {
        let data = filled(&[version; BLOCK], BLOCK);
        volume.overwrite(file, 0, data, tag).map_err(|refused| {
            free(refused.buffer);
            refused.error
        })
    };
    let extend = |data: &[u8], tag| {
        let appended = volume.append_merged(file, filled(data, BLOCK), data.len(), tag);
        appended.map_err(|refused| {
            free(refused.buffer);
            refused.error
        })
    };
    let finish = || {
        volume.kick();
        let mut ended = 0;
        while volume.outstanding() > 0 {
            volume.wait(1000);
            while let Some(event) = volume.poll() {
                event.result.unwrap();
                free(event.buffer.unwrap());
                ended += 1;
            }
        }
        ended
    };
    extend(&[1; 300], 0).unwrap();
    assert_eq!(overwrite(2, 1), Err(Error::Busy));
    assert_eq!(finish(), 1);
    overwrite(2, 2).unwrap();
    assert_eq!(extend(&[2; 400], 3), Err(Error::Busy));
    assert_eq!(finish(), 1);
    extend(&[2; 400], 4).unwrap();
    assert_eq!(finish(), 1);
    run(&volume, volume.close(file)).unwrap();
    let file = run(&volume, volume.open("file")).unwrap();
    assert_eq!(read(&volume, file, 400), [2; 400]);
    volume.abandon().memory.into_iter().flatten().for_each(free);
}
