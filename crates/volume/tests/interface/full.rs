// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table of slots that fills up: how many files it takes, and that all of them stay whole.

use crate::support::{buffer, files, filled, free, make, memory, mount};
use block::RamDisk;
use straightway_volume::{
    CreateOptions, Error, FormatOptions, NewFile, OpenFile, Volume, blocking,
};

type Disk = RamDisk<Vec<u8>, 8>;
type Mounted<'a> = Volume<'a, Disk>;

const SLOTS: u32 = 1024;

fn with_volume(slots: u32, body: impl FnOnce(&Mounted<'_>)) -> Vec<u8> {
    with_units(512, slots, body)
}

fn with_units(unit_bytes: u64, slots: u32, body: impl FnOnce(&Mounted<'_>)) -> Vec<u8> {
    let options = FormatOptions {
        unit_bytes: Some(unit_bytes),
        node_bytes: Some(512),
        slots: Some(slots),
        checksums: true,
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    let mut disk = RamDisk::new(vec![0xa5; 4 << 20], 9).unwrap();
    make(&mut disk, &options);
    let mut files = files();
    let volume = mounted(disk, &mut files);
    body(&volume);
    assert_eq!(findings(&volume), []);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    let mut disk = unmounted.device;
    let outcome = block::blocking::read(&mut disk, 0, buffer(4 << 20));
    let bytes = outcome.buffer.to_vec();
    free(outcome.buffer);
    bytes
}

fn mounted(disk: Disk, files: &mut [OpenFile]) -> Mounted<'_> {
    mount(disk, memory(512, 7), files, false)
        .map_err(|e| e.0)
        .unwrap()
}

fn findings(volume: &Mounted<'_>) -> Vec<straightway_volume::Finding> {
    let mut findings = Vec::new();
    let mut scratch = vec![0; 4096];
    let mut report = |finding| findings.push(finding);
    blocking::run(volume, volume.check(&mut scratch, &mut report)).unwrap();
    findings
}

fn name(number: usize) -> String {
    format!("photo{number:05}.jpg")
}

fn create(volume: &Mounted<'_>, number: usize) -> Result<(), Error> {
    let options = CreateOptions {
        app_tag: number as u64,
        ..CreateOptions::default()
    };
    let file = blocking::run(volume, volume.create(&name(number), &options))?;
    let data = name(number).into_bytes();
    let outcome = blocking::append(volume, file, filled(&data, 512), data.len());
    free(outcome.buffer);
    outcome.result?;
    blocking::run(volume, volume.close(file))
}

fn whole(volume: &Mounted<'_>, number: usize) {
    let entry = blocking::run(volume, volume.find(&name(number))).unwrap();
    assert_eq!(entry.app_tag, number as u64);
    let file = blocking::run(volume, volume.open(&name(number))).unwrap();
    let outcome = blocking::read(volume, file, 0, buffer(512));
    outcome.result.unwrap();
    assert!(outcome.buffer.starts_with(name(number).as_bytes()));
    free(outcome.buffer);
    blocking::run(volume, volume.close(file)).unwrap();
}

#[test]
fn a_table_of_1024_slots_takes_nineteen_of_twenty_files_and_more() {
    with_volume(SLOTS, |volume| {
        let mut first_move = None;
        let refused = (0..SLOTS as usize).find(|number| {
            let result = create(volume, *number);
            if volume.moves() > 0 {
                first_move.get_or_insert(*number);
            }
            result.is_err()
        });
        let made = refused.unwrap_or(SLOTS as usize);
        let moves = volume.moves();
        println!("{made} of {SLOTS} slots; {moves} files moved, first for name {first_move:?}");
        assert!(made >= 1000 && first_move < Some(900), "{made} files");
        assert_eq!(create(volume, made), Err(Error::TableFull));
        (0..made).for_each(|number| whole(volume, number));
        let mut seen = vec![0; made];
        blocking::run(
            volume,
            volume.files(0, |entry| {
                seen[entry.app_tag as usize] += 1;
                true
            }),
        )
        .unwrap();
        assert!(seen.iter().all(|times| *times == 1));
    });
}

/// What `format` promises holds for random names, without growth: with one bucket, with few, and
/// with thousands.
#[test]
fn a_promised_number_of_files_is_kept_with_any_names() {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("STRAIGHTWAY_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for (slots, rounds) in [
        (8, 20),
        (16, 20),
        (32, 20),
        (64, 20),
        (128, 8),
        (512, 4),
        (2048, 1),
    ] {
        for round in 0..rounds {
            with_volume(slots, |volume| {
                let promised = volume.status().shape.promised_files(true) as usize;
                assert!(promised >= slots as usize / 2);
                let names: Vec<String> = (0..promised)
                    .map(|number| format!("{:x}-{number}", random.u64(..) >> random.u32(..60)))
                    .collect();
                for names in names.chunks(512) {
                    let new = |name| NewFile {
                        name,
                        data: &[],
                        mtime_ns: 0,
                        app_tag: 0,
                    };
                    let all: Vec<NewFile<'_>> = names.iter().map(|name| new(name)).collect();
                    let mut rest = &all[..];
                    while !rest.is_empty() {
                        let made = volume.create_batch::<512>(rest, false);
                        let made = blocking::run(volume, made);
                        let made = made.unwrap_or_else(|error| {
                            panic!("{slots} slots, seed {seed} round {round}: {error}")
                        });
                        assert!(made.files > 0, "{slots} slots, seed {seed} round {round}");
                        rest = &rest[made.files..];
                    }
                }
                let usage = blocking::run(volume, volume.usage()).unwrap();
                assert_eq!((usage.files as usize, volume.slots()), (promised, slots));
            });
        }
    }
}

/// One slot for each 16 MiB, up to what a table of the format can have.
#[test]
fn a_larger_volume_gets_more_slots() {
    for (gib, slots) in [
        (1, 1024),
        (16, 1024),
        (17, 2048),
        (1024, 65_536),
        (8192, 524_288),
        (1 << 20, 524_288),
    ] {
        for block_size_log2 in [9, 12] {
            let disk = RamDisk::<_, 8>::new(vec![0; 4096], block_size_log2).unwrap();
            let geometry = block::Geometry {
                block_count: (gib << 30) >> block_size_log2,
                ..*block::Device::geometry(&disk)
            };
            let shape = FormatOptions::default().shape(&geometry).unwrap();
            assert_eq!(shape.slot_count(), slots, "{gib} GiB");
            assert_eq!(shape.promised_files(true), slots / 20 * 19);
            let tables = 2 * u64::from(slots) * shape.node_bytes() as u64;
            assert!(tables <= shape.volume_bytes / 1000 || gib < 16);
        }
    }
}

/// The table grows while files are made, one of which stays open; look-ups read six nodes at most.
#[test]
fn a_table_that_grows_refuses_no_name() {
    const FILES: usize = 1500;
    let bytes = with_volume(64, |volume| {
        let options = CreateOptions::default();
        let open = blocking::run(volume, volume.create("open", &options)).unwrap();
        for number in 0..FILES {
            let name = name(number);
            let options = CreateOptions {
                app_tag: number as u64,
                ..CreateOptions::default()
            };
            let made = volume.with_space(|| volume.create(&name, &options));
            let file = blocking::run(volume, made).unwrap();
            let outcome = blocking::append(volume, file, filled(name.as_bytes(), 512), 14);
            free(outcome.buffer);
            outcome.result.unwrap();
            blocking::run(volume, volume.close(file)).unwrap();
            if number % 100 == 0 {
                let outcome = blocking::append(volume, open, filled(&[7; 512], 512), 512);
                free(outcome.buffer);
                outcome.result.unwrap();
            }
        }
        blocking::run(volume, volume.close(open)).unwrap();
        let slots = volume.slots() as usize;
        println!("{FILES} files in {slots} slots");
        assert!(slots > FILES && slots < FILES * 4 / 3, "{slots} slots");
        (0..FILES).for_each(|number| whole(volume, number));
        assert_eq!(
            blocking::run(volume, volume.find("open"))
                .unwrap()
                .size_bytes,
            15 * 512
        );
    });
    let scan = crate::independent::Scan::new(&bytes).unwrap();
    scan.check_space().unwrap();
    assert_eq!(scan.files.len(), FILES + 1);
    // A program that does not let a table grow reads and writes this one.
    let mut table = files();
    let volume = mounted(RamDisk::new(bytes, 9).unwrap(), &mut table);
    (0..FILES).for_each(|number| whole(&volume, number));
    for number in (0..FILES).step_by(3) {
        blocking::run(&volume, volume.remove(&name(number))).unwrap();
        let new = format!("new {number}");
        blocking::run(&volume, volume.rename(&name(number + 1), &new)).unwrap();
    }
    let usage = blocking::run(&volume, volume.usage()).unwrap();
    assert_eq!(usage.files as usize, FILES + 1 - FILES / 3);
    assert_eq!(findings(&volume), []);
    volume.abandon().memory.into_iter().flatten().for_each(free);
}

/// Batches of small files leave holes where their lists were: a table that grew into these had used
/// up its extents after a few buckets.
#[test]
fn a_table_grows_past_the_holes_between_small_files() {
    const FILES: usize = 800;
    for unit_bytes in [512, 1024] {
        let bytes = with_units(unit_bytes, 64, |volume| {
            let names: Vec<String> = (0..FILES).map(name).collect();
            let new = |number: usize| NewFile {
                name: &names[number],
                data: names[number].as_bytes(),
                mtime_ns: 0,
                app_tag: number as u64,
            };
            let all: Vec<NewFile<'_>> = (0..FILES).map(new).collect();
            let mut made = 0;
            while made < FILES {
                let rest = &all[made..];
                let batch = volume.with_space(|| volume.create_batch::<192>(rest, true));
                made += blocking::run(volume, batch).unwrap().files;
            }
            (0..FILES).for_each(|number| whole(volume, number));
        });
        let scan = crate::independent::Scan::new(&bytes).unwrap();
        scan.check_space().unwrap();
        assert_eq!(scan.files.len(), FILES);
    }
}

/// A name that is refused for lack of space does not cost the volume its readers of 1.0.
#[test]
fn a_full_volume_does_not_get_the_feature() {
    let bytes = with_volume(64, |volume| {
        let free = blocking::run(volume, volume.free_units()).unwrap();
        let options = CreateOptions {
            reserve_bytes: (free - 9) * 512,
            ..CreateOptions::default()
        };
        let file = blocking::run(volume, volume.create("big", &options)).unwrap();
        blocking::run(volume, volume.close_keeping(file, u64::MAX)).unwrap();
        let options = CreateOptions::default();
        let refused = (0..65).find_map(|number| {
            let name = name(number);
            let made = blocking::run(volume, volume.with_space(|| volume.create(&name, &options)));
            let closed = made.map(|file| blocking::run(volume, volume.close(file)));
            closed.err()
        });
        assert_eq!(refused, Some(Error::NoSpace));
        assert_eq!(volume.slots(), 64);
    });
    let (regions, ..) = crate::independent::superblock(&bytes).unwrap();
    assert_eq!(regions.table_unit, None);
}

#[test]
fn batches_fill_a_table_as_far() {
    with_volume(SLOTS, |volume| {
        let names: Vec<String> = (0..SLOTS as usize).map(name).collect();
        let new = |number: usize| NewFile {
            name: &names[number],
            data: names[number].as_bytes(),
            mtime_ns: 0,
            app_tag: number as u64,
        };
        let all: Vec<NewFile<'_>> = (0..names.len()).map(new).collect();
        let mut made = 0;
        let refused = loop {
            match blocking::run(volume, volume.create_many(&all[made..], true)) {
                Ok(batch) => made += batch.files,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, Error::TableFull);
        assert!(made >= 1000, "{made} files");
        (0..made).for_each(|number| whole(volume, number));
    });
}

/// A name with two full buckets does not end its batch: a file moves out of its way, and to no slot
/// that the batch has chosen.
#[test]
fn a_batch_does_not_end_where_a_file_has_to_move_first() {
    const FILES: usize = 1000;
    const BATCH: usize = 256;
    with_volume(SLOTS, |volume| {
        let names: Vec<String> = (0..FILES).map(name).collect();
        let new = |number: usize| NewFile {
            name: &names[number],
            data: names[number].as_bytes(),
            mtime_ns: 0,
            app_tag: number as u64,
        };
        let all: Vec<NewFile<'_>> = (0..FILES).map(new).collect();
        let (mut made, mut batches) = (0, 0);
        while made < FILES {
            let batch = volume.create_batch::<BATCH>(&all[made..], true);
            made += blocking::run(volume, batch).unwrap().files;
            batches += 1;
        }
        println!("{batches} batches, {} moves", volume.moves());
        assert_eq!(batches, FILES.div_ceil(BATCH));
        assert!(volume.moves() > 0);
        (0..FILES).for_each(|number| whole(volume, number));
    });
}

/// After a move, and after a rename, either copy of the slot may rot: as after closing the file.
#[test]
fn what_moved_has_two_copies_and_keeps_its_reservation() {
    let bytes = with_volume(64, |volume| {
        // Files with a reservation that was kept when they were closed.
        for number in 0..60 {
            let options = CreateOptions {
                reserve_bytes: 1024,
                ..CreateOptions::default()
            };
            let made = blocking::run(volume, volume.create(&name(number), &options));
            if let Ok(file) = made {
                blocking::run(volume, volume.close_keeping(file, 1024)).unwrap();
            }
        }
        assert!(volume.moves() > 0);
        blocking::run(volume, volume.rename(&name(0), "renamed")).unwrap();
        let reserved = || {
            let mut units = 0;
            let each = |entry: straightway_volume::StoredFile| {
                units += entry.allocated_bytes / 512;
                true
            };
            blocking::run(volume, volume.files(0, each)).unwrap();
            units
        };
        let before = reserved();
        blocking::run(volume, volume.reclaim_all()).unwrap();
        assert_eq!(reserved(), before);
    });
    // Every member B is lost, then every member A.
    let disk = RamDisk::<Vec<u8>, 8>::new(bytes.clone(), 9).unwrap();
    let mut table = files();
    let volume = mounted(disk, &mut table);
    let shape = volume.status().shape;
    volume.abandon().memory.into_iter().flatten().for_each(free);
    let mut known = None;
    for from in [shape.slots_a(), shape.slots_b()] {
        let mut bytes = bytes.clone();
        for slot in 0..64 {
            bytes[from as usize + slot * 512 + 30] ^= 1;
        }
        let mut table = files();
        let volume = mounted(RamDisk::new(bytes, 9).unwrap(), &mut table);
        let mut names = Vec::new();
        let each = |entry: straightway_volume::StoredFile| {
            names.push(entry.name.as_str().to_owned());
            true
        };
        blocking::run(&volume, volume.files(0, each)).unwrap();
        // The slot that the rename left is free in one copy only.
        names.retain(|other| *other != name(0));
        names.sort();
        assert!(names.contains(&"renamed".to_owned()), "{names:?}");
        known.get_or_insert(names.clone());
        assert_eq!(known.as_ref(), Some(&names));
        volume.abandon().memory.into_iter().flatten().for_each(free);
    }
}
