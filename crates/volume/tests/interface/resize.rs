// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A volume that is made longer and shorter.

use crate::support::{buffer, filled, free, make, on_least as on};
use block::RamDisk;
use straightway_volume::{CreateOptions, Error, FormatOptions, Volume, blocking};

const UNIT: u64 = 4096;
const DISK_BYTES: u64 = 64 << 20;

type Disk = RamDisk<Vec<u8>, 8>;

/// A volume of `bytes` at the beginning of a longer device. A group has 2,048 units: 8 MiB.
fn disk(bytes: u64) -> Disk {
    let mut disk = RamDisk::new(vec![0xa5; DISK_BYTES as usize], 9).unwrap();
    make(&mut disk, &options(bytes));
    disk
}

fn options(bytes: u64) -> FormatOptions<'static> {
    FormatOptions {
        volume_bytes: Some(bytes),
        unit_bytes: Some(UNIT),
        slots: Some(16),
        uuid: [7; 16],
        ..FormatOptions::default()
    }
}

fn resize(volume: &Volume<'_, Disk>, bytes: u64) -> Result<u64, Error> {
    blocking::run(volume, volume.resize(bytes))
}

/// Makes a file of so many units, of which the first has data.
fn put(volume: &Volume<'_, Disk>, name: &str, units: u64) {
    let create = CreateOptions {
        reserve_bytes: units * UNIT,
        ..CreateOptions::default()
    };
    let file = blocking::run(volume, volume.create(name, &create)).unwrap();
    let outcome = blocking::append(volume, file, filled(&[9; 600], 512), 600);
    free(outcome.buffer);
    outcome.result.unwrap();
    blocking::run(volume, volume.close_keeping(file, units * UNIT - 600)).unwrap();
}

/// A device with the first bytes of another one.
fn cut(mut disk: Disk, len: u64) -> Disk {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < len {
        let lba = bytes.len() as u64 / 512;
        let outcome = block::blocking::read(&mut disk, lba, buffer(512));
        outcome.result.unwrap();
        bytes.extend_from_slice(&outcome.buffer);
        free(outcome.buffer);
    }
    RamDisk::new(bytes, 9).unwrap()
}

fn check(volume: &Volume<'_, Disk>) {
    let mut scratch = vec![0; 1 << 16];
    let mut found = Vec::new();
    let mut report = |finding| found.push(finding);
    blocking::run(volume, volume.check(&mut scratch, &mut report)).unwrap();
    assert_eq!(found, []);
}

#[test]
fn a_volume_grows_to_the_device_s_end_and_takes_files_there() {
    let (disk, ()) = on(disk(5 << 20), false, |volume| {
        let before = blocking::run(volume, volume.free_units()).unwrap();
        put(volume, "first", 1000);
        assert_eq!(resize(volume, DISK_BYTES), Ok(DISK_BYTES));
        let shape = volume.status().shape;
        let free = blocking::run(volume, volume.free_units()).unwrap();
        let own = (1..shape.group_count() as u32).map(|group| shape.bitmap_units(group));
        assert_eq!(free, shape.unit_count() - 1000 - own.sum::<u64>());
        assert!(free > before + 14_000);
        put(volume, "second", free - 10);
        check(volume);
    });
    let (_, ()) = on(disk, true, |volume| {
        for name in ["first", "second"] {
            let file = blocking::run(volume, volume.open(name)).unwrap();
            let outcome = blocking::read(volume, file, 0, buffer(1024));
            outcome.result.unwrap();
            assert_eq!(outcome.buffer[..600], [9; 600]);
            free(outcome.buffer);
        }
        check(volume);
    });
}

#[test]
fn a_volume_shrinks_to_what_its_files_need_and_no_further() {
    let (disk, least) = on(disk(DISK_BYTES), false, |volume| {
        put(volume, "all of the first group and more", 3000);
        let before = volume.status();
        let least = blocking::run(volume, volume.least_bytes()).unwrap();
        assert_eq!(resize(volume, least - 512), Err(Error::NoSpace));
        assert_eq!(resize(volume, DISK_BYTES + 512), Err(Error::BadParameters));
        assert_eq!(resize(volume, 1000), Err(Error::BadParameters));
        assert_eq!(volume.status().shape, before.shape);
        assert_eq!(resize(volume, least), Ok(least));
        assert_eq!(blocking::run(volume, volume.free_units()), Ok(0));
        let create = CreateOptions {
            reserve_bytes: 1,
            ..CreateOptions::default()
        };
        let full = blocking::run(volume, volume.create("more", &create));
        assert_eq!(full, Err(Error::NoSpace));
        check(volume);
        least
    });
    // A device of exactly this size is enough.
    let (disk, ()) = on(cut(disk, least), false, |volume| {
        check(volume);
        blocking::run(volume, volume.remove("all of the first group and more")).unwrap();
        while blocking::run(volume, volume.reap(0)).unwrap().is_some() {}
        // A unit stays, even where no file needs one.
        let least = blocking::run(volume, volume.least_bytes()).unwrap();
        assert_eq!(resize(volume, least), Ok(least));
        assert_eq!(blocking::run(volume, volume.free_units()), Ok(1));
    });
    let (_, result) = on(disk, true, |volume| resize(volume, 1 << 20));
    assert_eq!(result, Err(Error::ReadOnly));
}

/// Where a new volume of the size has the same tables, the result is like one: any reader knows it.
#[test]
fn within_a_group_the_feature_is_not_needed() {
    for (from, to, is_plain) in [
        (5 << 20, 6 << 20, true),
        (6 << 20, 5 << 20, true),
        (5 << 20, 12 << 20, false),
        (12 << 20, 5 << 20, false),
        (33 << 20, 39 << 20, true),
    ] {
        let (disk, ()) = on(disk(from), false, |volume| {
            assert_eq!(resize(volume, to), Ok(to));
            check(volume);
        });
        let (disk, shape) = on(disk, true, |volume| volume.status().shape);
        assert_eq!(shape.table_groups == 0, is_plain, "{from} to {to}");
        let new = options(to).shape(block::Device::geometry(&disk)).unwrap();
        assert_eq!(shape == new, is_plain, "{from} to {to}");
        // And back.
        let (_, shape) = on(disk, false, |volume| {
            assert_eq!(resize(volume, from), Ok(from));
            check(volume);
            volume.status().shape
        });
        assert_eq!(shape.table_groups, 0, "{from} to {to} and back");
    }
}

/// A group whose bitmap would have no other unit beside it is left out.
#[test]
fn a_size_is_rounded_to_units_that_can_be_used() {
    let (_, ()) = on(disk(5 << 20), false, |volume| {
        let shape = volume.status().shape;
        let end = shape.data_start() + 2048 * UNIT;
        assert_eq!(resize(volume, end + UNIT + 512), Ok(end));
        assert_eq!(
            resize(volume, end + 2 * UNIT + 512),
            Ok(end + 2 * UNIT + 512)
        );
        let free = blocking::run(volume, volume.free_units());
        assert_eq!(free, Ok(2048 + 1));
        check(volume);
    });
}
