// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many units are free and how many files there are: known without a table on a volume that was
//! unmounted, and never stale.

use crate::freed::checked;
use crate::independent::{node_crc, superblock, u32_at};
use crate::support::{buffer, filled, free, make, on};
use block::{Device, RamDisk};
use crash::Counting;
use straightway_volume::{
    CreateOptions, Error, Finding, FormatOptions, NewFile, Node, Usage, Volume, blocking,
};

type Disk = RamDisk<Vec<u8>, 8>;
const BYTES: usize = 4 << 20;

fn disk() -> Disk {
    let mut disk = RamDisk::new(vec![0; BYTES], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(4096),
        node_bytes: Some(512),
        slots: Some(64),
        checksums: true,
        uuid: [5; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

/// What the tables say.
fn found<D: Device>(volume: &Volume<'_, D>) -> Usage {
    let mut files = 0;
    let each = |_| {
        files += 1;
        true
    };
    blocking::run(volume, volume.files(0, each)).unwrap();
    let free_units = blocking::run(volume, volume.free_units()).unwrap();
    Usage { free_units, files }
}

fn known_is_found<D: Device>(volume: &Volume<'_, D>) {
    assert_eq!(volume.known_usage(), Some(found(volume)));
}

fn put<D: Device>(volume: &Volume<'_, D>, name: &str, len: usize, reserve_bytes: u64) {
    let options = CreateOptions {
        reserve_bytes,
        ..CreateOptions::default()
    };
    let file = blocking::run(volume, volume.create(name, &options)).unwrap();
    let data = vec![7; len];
    for part in data.chunks(65_536) {
        let outcome = blocking::append(volume, file, filled(part, 512), part.len());
        free(outcome.buffer);
        outcome.result.unwrap();
    }
    blocking::run(volume, volume.close(file)).unwrap();
}

#[test]
fn every_operation_keeps_the_counts() {
    let disk = on(disk(), false, false, |volume| {
        known_is_found(volume);
        put(volume, "a", 100_000, 0);
        put(volume, "b", 300_000, 1 << 20);
        put(volume, "empty", 0, 0);
        known_is_found(volume);
        let data = vec![3; 5000];
        let names: Vec<String> = (0..20).map(|number| format!("many/{number}")).collect();
        let new = |name| NewFile {
            name,
            data: &data,
            mtime_ns: 0,
            app_tag: 0,
        };
        let new: Vec<NewFile<'_>> = names.iter().map(|name| new(name.as_str())).collect();
        let made = blocking::run(volume, volume.create_many(&new, true)).unwrap();
        blocking::run(volume, volume.create_batch::<16>(&new[made.files..], true)).unwrap();
        known_is_found(volume);
        blocking::run(volume, volume.rename("a", &"long".repeat(40))).unwrap();
        blocking::run(volume, volume.remove("empty")).unwrap();
        blocking::run(volume, volume.remove("many/3")).unwrap();
        blocking::run(volume, volume.remove_whole("b")).unwrap();
        known_is_found(volume);
        let too_long = CreateOptions {
            reserve_bytes: BYTES as u64,
            ..CreateOptions::default()
        };
        let refused = blocking::run(volume, volume.create("c", &too_long));
        assert_eq!(refused.map(|_| ()), Err(Error::NoSpace));
        known_is_found(volume);
    });
    // Two reads, of the superblocks, are all that it takes.
    let disk = Counting::new(disk);
    let counter = disk.counter();
    let disk = on(disk, false, false, |volume| {
        let usage = blocking::run(volume, volume.usage()).unwrap();
        assert_eq!(counter.take().reads.commands, 2);
        assert_eq!(usage, found(volume));
    });
    // A killed program leaves none, and a count is kept from then on.
    let disk = on(disk, true, false, |volume| put(volume, "killed", 9000, 0));
    let disk = on(disk, false, false, |volume| {
        assert_eq!(volume.known_usage(), None);
        let usage = blocking::run(volume, volume.usage()).unwrap();
        assert_eq!(usage, found(volume));
        blocking::run(volume, volume.remove("killed")).unwrap();
    });
    let disk = on(disk, false, false, |volume| {
        known_is_found(volume);
        blocking::run(volume, volume.resize(BYTES as u64 - (64 << 10))).unwrap();
        assert_eq!(volume.known_usage(), None);
        let usage = blocking::run(volume, volume.usage()).unwrap();
        assert_eq!(usage, found(volume));
    });
    on(disk, false, false, known_is_found);
}

fn bytes_of<D: Device>(mut disk: D) -> Vec<u8> {
    let outcome = block::blocking::read(&mut disk, 0, buffer(BYTES));
    let bytes = outcome.buffer.to_vec();
    free(outcome.buffer);
    bytes
}

/// As another program leaves the superblocks: with other bits of STATE, and other counts.
fn altered(bytes: &[u8], state: u32, free_units: u64, files: u32) -> Disk {
    let mut bytes = bytes.to_vec();
    for address in [0, 65_536] {
        let superblock = &mut bytes[address..address + 256];
        assert_eq!(u32_at(superblock, 52), 3);
        superblock[52..56].copy_from_slice(&state.to_le_bytes());
        superblock[240..248].copy_from_slice(&free_units.to_le_bytes());
        superblock[248..252].copy_from_slice(&files.to_le_bytes());
        let crc = node_crc(&[], address as u64, superblock, 8);
        superblock[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    RamDisk::new(bytes, 9).unwrap()
}

#[test]
fn counts_without_their_mark_or_that_no_volume_can_have_are_not_known() {
    let bytes = bytes_of(disk());
    let free_units = found_on(altered(&bytes, 3, 5, 2));
    assert_eq!(free_units, Some((5, 2)));
    for state in [0, 1, 2] {
        assert_eq!(found_on(altered(&bytes, state, 5, 2)), None, "{state}");
    }
    for (free_units, count) in [(u64::MAX, 0), (1 << 40, 0), (5, 65)] {
        let disk = altered(&bytes, 3, free_units, count);
        assert_eq!(found_on(disk), None, "{free_units} {count}");
    }
}

/// A slot that rot brought back is in no count: removing its file takes them below 0.
#[test]
fn wrong_counts_are_dropped_and_never_close_the_volume() {
    let disk = on(disk(), false, false, |volume| {
        put(volume, "a", 9000, 0);
        put(volume, "empty", 0, 0);
    });
    let bytes = bytes_of(disk);
    for (free_units, count) in [(0, 0), (3, 1), (1020, 64)] {
        let disk = on(
            altered(&bytes, 3, free_units, count),
            false,
            false,
            |volume| {
                blocking::run(volume, volume.remove("a")).unwrap();
                blocking::run(volume, volume.remove("empty")).unwrap();
                for number in 0..40 {
                    put(volume, &format!("new {number}"), 5000, 0);
                }
            },
        );
        on(disk, false, false, |volume| {
            assert_eq!(found(volume).files, 40)
        });
    }
}

fn found_on(disk: Disk) -> Option<(u64, u32)> {
    let mut usage = None;
    on(disk, true, false, |volume| usage = volume.known_usage());
    usage.map(|usage| (usage.free_units, usage.files))
}

/// The newest superblock names no operation.
fn without_record(mut bytes: Vec<u8>) -> Vec<u8> {
    let (_, seq, _) = superblock(&bytes).unwrap();
    let address = 65_536 * (seq as usize % 2);
    let superblock = &mut bytes[address..address + 256];
    superblock[128..208].fill(0);
    let crc = node_crc(&[], address as u64, superblock, 8);
    superblock[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A check compares the counts, and a repair sets them; they are stored when it unmounts.
#[test]
fn counts_that_differ_from_the_tables_are_found_and_set() {
    let mut right = None;
    let disk = on(disk(), false, false, |volume| {
        for number in 0..3 {
            put(volume, &number.to_string(), 9000, 0);
        }
        right = Some(found(volume));
    });
    let right = right.unwrap();
    let bytes = bytes_of(disk);
    for (free_units, files) in [
        (right.free_units, 2),
        (right.free_units, 4),
        (right.free_units - 1, 3),
        (right.free_units + 5, 0),
        (0, 3),
    ] {
        let disk = altered(&bytes, 3, free_units, files);
        let wrong = Finding::Counts {
            known: Usage { free_units, files },
            found: right,
        };
        let disk = on(disk, false, true, |volume| {
            assert_eq!(checked(volume, false).0, [wrong]);
        });
        let disk = on(disk, false, false, |volume| {
            let (findings, summary) = checked(volume, true);
            assert_eq!((&findings[..], summary.damages), (&[wrong][..], 1));
            assert_eq!(checked(volume, false).0, []);
        });
        on(disk, false, true, |volume| {
            assert_eq!(volume.known_usage(), Some(right));
            assert_eq!(checked(volume, false).0, []);
        });
    }
    let sound = RamDisk::new(bytes, 9).unwrap();
    on(sound, false, false, |volume| {
        assert_eq!(checked(volume, true).0, []);
        assert_eq!(volume.known_usage(), Some(right));
    });
}

/// The count of free units and a check agree about a bitmap of which one copy rotted, on a volume
/// that was unmounted and on one that was not.
#[test]
fn a_check_and_the_count_of_free_units_agree_about_a_bitmap() {
    for is_killed in [false, true] {
        let disk = on(disk(), is_killed, false, |volume| put(volume, "a", 9000, 0));
        let bytes = bytes_of(disk);
        let (regions, _, _) = superblock(&bytes).unwrap();
        for at in regions.bitmaps_at {
            // Without a record, no write of the bitmap can have been cut.
            let mut rotten = bytes.clone();
            rotten[at as usize + 300] ^= 1;
            if is_killed {
                rotten = without_record(rotten);
            }
            on(RamDisk::new(rotten, 9).unwrap(), true, true, |volume| {
                let damage = Node::Bitmap(0);
                let counted = blocking::run(volume, volume.free_units());
                assert_eq!(counted, Err(Error::from(damage)));
                let (found, summary) = checked(volume, false);
                assert!(found.contains(&Finding::Damaged(damage)), "{found:?}");
                assert!(summary.damages > 0);
            });
        }
    }
}

/// A bitmap that a power cut tore is not damage to a reader either: the next mount rewrites it.
#[test]
fn a_bitmap_that_was_being_written_is_counted_and_sound() {
    let disk = on(disk(), true, false, |volume| put(volume, "a", 9000, 0));
    let bytes = bytes_of(disk);
    let (regions, seq, _) = superblock(&bytes).unwrap();
    assert_ne!(
        u32_at(&bytes, 128 + 65_536 * (seq as usize % 2)),
        0,
        "a record"
    );
    for at in regions.bitmaps_at {
        let mut torn = bytes.clone();
        torn[at as usize + 300] ^= 1;
        on(RamDisk::new(torn, 9).unwrap(), true, true, |volume| {
            blocking::run(volume, volume.free_units()).unwrap();
            assert_eq!(checked(volume, false).1.damages, 0);
        });
    }
}
