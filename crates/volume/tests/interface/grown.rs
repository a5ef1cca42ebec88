// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slot table that has grown, and the way back.

use block::RamDisk;
use straightway_volume::{CreateOptions, Error, blocking};

use crate::freed::{Mounted, NODE, bytes_of, checked, disk_of, get, names, on, pattern, put};
use crate::independent::{Scan, crc32c};

const BYTES: usize = 4 << 20;

/// The two buckets of a name where there are three, by `FORMAT.md`.
fn of_three(name: &str) -> [u32; 2] {
    let hash = crc32c(name.as_bytes());
    [hash, hash.rotate_right(16)].map(|half| match half & 3 {
        3 => 1,
        bucket => bucket,
    })
}

fn grow(volume: &Mounted<'_>) -> Result<(), Error> {
    blocking::run(volume, volume.grow_table())
}

fn rename(volume: &Mounted<'_>, from: &str, to: &str) {
    blocking::run(volume, volume.rename(from, to)).unwrap();
}

/// Of two files that a split would move one is made whole again, and the other may not be moved:
/// the split is refused, and the volume is as usable as before.
#[test]
fn a_split_that_is_refused_late_leaves_the_volume_usable() {
    let data = pattern(5000, 1);
    // Bucket 0 is the parent of the third one, which these belong to.
    let all = (0..).map(|number| format!("file{number}"));
    let leaves = |name: &String| of_three(name) == [2, 2];
    let all: Vec<String> = all.filter(leaves).take(3).collect();
    let disk = on(disk_of(BYTES, true), |volume| {
        all.iter().for_each(|name| put(volume, name, &data));
    });
    let bytes = bytes_of(disk);
    let scan = Scan::new(&bytes).unwrap();
    let mut files: Vec<_> = scan.files.iter().collect();
    files.sort_by_key(|file| file.slot);
    assert!(files.iter().all(|file| file.slot < 8));
    let (first, last) = (files[0], files[2]);
    let disk = on(RamDisk::new(bytes, 9).unwrap(), |volume| {
        let file = blocking::run(volume, volume.open_to_write(&last.name)).unwrap();
        blocking::run(volume, volume.reserve(file, 40_000)).unwrap();
        blocking::run(volume, volume.close_keeping(file, 40_000)).unwrap();
    });
    let mut bytes = bytes_of(disk);
    for file in [first, last] {
        bytes[scan.regions.slots_at[0] as usize + file.slot as usize * NODE + 100] ^= 1;
    }
    on(RamDisk::new(bytes, 9).unwrap(), |volume| {
        assert_eq!(grow(volume), Err(Error::TableFull));
        put(volume, "another", &data);
        assert_eq!(get(volume, "another"), Ok(data.clone()));
    });
}

fn fill(volume: &Mounted<'_>, count: usize) -> Vec<String> {
    let all: Vec<String> = (0..count).map(|number| format!("photo{number}")).collect();
    let options = CreateOptions::default();
    for name in &all {
        let made = volume.with_space(|| volume.create(name, &options));
        let file = blocking::run(volume, made).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
    }
    all
}

#[test]
fn a_table_goes_back_to_the_slots_of_its_format() {
    let mut before = 0;
    let disk = on(disk_of(BYTES, true), |volume| {
        before = blocking::run(volume, volume.free_units()).unwrap();
        let all = fill(volume, 400);
        assert!(volume.slots() >= 400 && volume.minor_version() == 1);
        // 16 slots for too many files, and for a long name.
        let back = || blocking::run(volume, volume.back_to_1_0());
        let slots = volume.slots();
        assert_eq!(back(), Err(Error::TableFull));
        for name in &all[13..] {
            blocking::run(volume, volume.remove(name)).unwrap();
        }
        let long = "x".repeat(65);
        rename(volume, "photo3", &long);
        assert_eq!((back(), volume.slots()), (Err(Error::BadName), slots));
        rename(volume, &long, "photo3");
        put(volume, "photo0 and more", b"data");
        // One that is open moves, and its handle with it.
        let open = blocking::run(volume, volume.open_to_write("photo7")).unwrap();
        assert_eq!(back(), Ok(()));
        assert_eq!((volume.slots(), volume.minor_version()), (16, 0));
        blocking::run(volume, volume.close(open)).unwrap();
        blocking::run(volume, volume.remove("photo0 and more")).unwrap();
        assert_eq!(back(), Ok(()));
        let mut kept = all[..13].to_vec();
        kept.sort();
        assert_eq!(names(volume), kept);
        assert_eq!(checked(volume, false).0, []);
        let free = blocking::run(volume, volume.free_units()).unwrap();
        assert_eq!(free, before);
    });
    let bytes = bytes_of(disk);
    let scan = Scan::new(&bytes).unwrap();
    scan.check_space().unwrap();
    assert_eq!((scan.files.len(), scan.added.len()), (13, 0));
    assert!(scan.regions.table_unit.is_none() && !scan.regions.long_names);
    // The counts that the superblock has are right, and the table grows again.
    on(RamDisk::new(bytes, 9).unwrap(), |volume| {
        assert_eq!(volume.known_usage().unwrap().files, 13);
        grow(volume).unwrap();
        assert_eq!((volume.slots(), names(volume).len()), (24, 13));
        assert_eq!(checked(volume, false).0, []);
    });
}
