// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a stream needs of a volume that is nearly full, or whose drive fails temporarily.

use crate::support::{buffer, files, make, memory, mount};
use block::{Device, RamDisk};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use straightway_volume::blocking::run;
use straightway_volume::{DataEvent, Error, File, FormatOptions, Volume};

const UNIT: usize = 4096;

fn disk() -> RamDisk<Vec<u8>, 32> {
    let mut disk = RamDisk::new(vec![0; 8 << 20], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(UNIT as u64),
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn next<D: Device>(volume: &Volume<'_, D>) -> DataEvent {
    volume.kick();
    loop {
        if let Some(event) = volume.poll() {
            return event;
        }
    }
}

/// Reserves a unit for each file in turn, so that no two units of a file are adjacent.
fn interleave<D: Device>(volume: &Volume<'_, D>, files: [File; 2], units: u64) {
    for unit in 1..=units {
        for file in files {
            run(volume, volume.reserve(file, unit * UNIT as u64)).unwrap();
        }
    }
}

/// A reservation of several operations, of which the last finds no space, keeps what it has, and
/// the volume stays usable.
#[test]
fn a_reservation_that_ends_at_a_full_volume_keeps_what_it_got() {
    let mut files = files();
    let volume = mount(disk(), memory(512, 0), &mut files, false).unwrap();
    let [one, two] =
        ["one", "two"].map(|name| run(&volume, volume.create(name, &Default::default())).unwrap());
    interleave(&volume, [one, two], 40);
    // Holes, so that one operation cannot take all that is free.
    run(&volume, volume.close(two)).unwrap();
    let free = run(&volume, volume.free_units()).unwrap();
    let file = run(&volume, volume.create("three", &Default::default())).unwrap();
    let wanted = (free + 1) * UNIT as u64;
    assert_eq!(
        run(&volume, volume.reserve(file, wanted)),
        Err(Error::NoSpace)
    );
    let reserved = volume.file_status(file).unwrap().reserved_bytes;
    assert!(reserved > 40 * UNIT as u64, "{reserved}");
    assert!(!volume.status().needs_mount);
    volume.append(file, buffer(UNIT), UNIT, 0).unwrap();
    assert_eq!(next(&volume).result, Ok(()));
    assert_eq!(run(&volume, volume.sync(file)), Ok(UNIT as u64));
}

/// A failed append whose map was dropped in the meantime can be prepared and retried.
#[test]
fn an_append_that_failed_long_ago_can_be_repeated() {
    let device = Faulty::new(disk(), []);
    let faults = device.faults();
    let mut files = files();
    let volume = mount(device, memory(512, 0), &mut files, false).unwrap();
    let [one, two] =
        ["one", "two"].map(|name| run(&volume, volume.create(name, &Default::default())).unwrap());
    interleave(&volume, [one, two], 12);
    faults.add(Rule::once(
        On::Kind(CommandKind::Write),
        1,
        Fault::Fail(block::Error::TimedOut),
    ));
    let mut failed = None;
    for unit in 0..12 {
        let mut data = buffer(UNIT);
        data.fill(unit);
        if let Err(refused) = volume.append(one, data, UNIT, 0) {
            assert_eq!(refused.error, Error::NeedsMap);
            run(&volume, volume.prepare_append(one)).unwrap();
            volume.append(one, refused.buffer, UNIT, 0).unwrap();
        }
        let event = next(&volume);
        if event.result.is_err() {
            failed = event.buffer;
        }
    }
    let refused = volume.retry(one, 0, failed.unwrap(), 0).unwrap_err();
    assert_eq!(refused.error, Error::NeedsMap);
    run(&volume, volume.prepare(one, 0)).unwrap();
    volume.retry(one, 0, refused.buffer, 0).unwrap();
    assert_eq!(next(&volume).result, Ok(()));
    assert_eq!(run(&volume, volume.sync(one)), Ok(12 * UNIT as u64));
    let read = straightway_volume::blocking::read(&volume, one, 0, buffer(12 * UNIT));
    assert_eq!(read.result, Ok(()));
    assert!((0..12).all(|unit| read.buffer[unit * UNIT] == unit as u8));
}

/// Its caller has no token to close it with.
#[test]
fn a_file_that_a_failed_read_keeps_from_being_opened_is_not_left_open() {
    let device = Faulty::new(disk(), []);
    let faults = device.faults();
    let mut files = files();
    let volume = mount(device, memory(512, 0), &mut files, false).unwrap();
    let [one, two] =
        ["one", "two"].map(|name| run(&volume, volume.create(name, &Default::default())).unwrap());
    interleave(&volume, [one, two], 40);
    run(&volume, volume.close_keeping(one, 40 * UNIT as u64)).unwrap();
    run(&volume, volume.close(two)).unwrap();
    let mut failed = 0;
    for at in 1.. {
        let broken = Fault::Fail(block::Error::Nvme { status: 0x281 });
        faults.add(Rule::once(On::Kind(CommandKind::Read), at, broken));
        match run(&volume, volume.open_to_write("one")) {
            Ok(file) => {
                faults.clear();
                run(&volume, volume.close(file)).unwrap();
                break;
            }
            Err(error) => assert!(matches!(error, Error::Device(_)), "read {at}: {error}"),
        }
        failed += 1;
        assert!(failed < 100);
    }
    assert!(failed > 0);
    run(&volume, volume.remove_whole("one")).unwrap();
}
