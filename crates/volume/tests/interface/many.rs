// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several small files in one operation.

use crate::support::{buffer, files, filled, free, make, memory};
use crash::{Config, Counter, Counting, CrashDisk, Medium};
use straightway_volume::{
    CreateOptions, Error, FormatOptions, MountOptions, NewFile, Volume, blocking,
};

type Disk = Counting<CrashDisk>;
type Mounted<'a> = Volume<'a, Disk>;

/// A volume with units of `unit` bytes and memory for `extra` nodes more than it needs.
fn with_volume(unit: u64, slots: u32, extra: usize, body: impl FnOnce(&Mounted<'_>, &Counter)) {
    // With a volatile cache.
    let mut disk = Medium::new(9, 8192).unwrap().open(Config::default());
    let options = FormatOptions {
        unit_bytes: Some(unit),
        node_bytes: Some(512),
        slots: Some(slots),
        checksums: true,
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    let disk = Counting::new(disk);
    let counter = disk.counter();
    let mut files = files();
    let options = MountOptions::default();
    let volume = Volume::mount(disk, memory(512, extra), &mut files, &options).unwrap();
    body(&volume, &counter);
    let mut findings = Vec::new();
    let mut scratch = vec![0; 4096];
    let mut report = |finding| findings.push(finding);
    blocking::run(&volume, volume.check(&mut scratch, &mut report)).unwrap();
    assert_eq!(findings, []);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
}

fn contents(sizes: &[usize]) -> Vec<(String, Vec<u8>)> {
    let content = |(index, size): (usize, &usize)| {
        let byte = |at: usize| (at * 31 + index * 7) as u8;
        (format!("dir/file {index}"), (0..*size).map(byte).collect())
    };
    sizes.iter().enumerate().map(content).collect()
}

fn new(contents: &[(String, Vec<u8>)]) -> Vec<NewFile<'_>> {
    let mut files = Vec::new();
    for (name, data) in contents {
        files.push(NewFile {
            name,
            data,
            mtime_ns: 1000 + files.len() as u64,
            app_tag: 5,
        });
    }
    files
}

fn create_many(
    volume: &Mounted<'_>,
    files: &[NewFile<'_>],
    checksums: bool,
) -> Result<usize, Error> {
    let made = blocking::run(volume, volume.create_many(files, checksums))?;
    Ok(made.files)
}

fn get(volume: &Mounted<'_>, name: &str) -> Vec<u8> {
    let entry = blocking::run(volume, volume.find(name)).unwrap();
    let file = blocking::run(volume, volume.open(name)).unwrap();
    let len = entry.size_bytes as usize;
    let outcome = blocking::read(volume, file, 0, buffer(len.next_multiple_of(512)));
    outcome.result.unwrap();
    let bytes = outcome.buffer[..len].to_vec();
    free(outcome.buffer);
    blocking::run(volume, volume.close(file)).unwrap();
    bytes
}

#[test]
fn they_are_there_with_their_data_times_and_checksums() {
    let sizes = [
        4096, 1, 0, 511, 512, 513, 5000, 65_535, 4096, 10_000, 3, 0, 700, 4096,
    ];
    for (unit, extra) in [(512, 0), (4096, 0), (4096, 7), (16_384, 7)] {
        for checksums in [false, true] {
            with_volume(unit, 64, extra, |volume, _| {
                let contents = contents(&sizes);
                let files = new(&contents);
                let free_units = blocking::run(volume, volume.free_units()).unwrap();
                let mut rest = &files[..];
                let mut batches = Vec::new();
                while !rest.is_empty() {
                    let made = create_many(volume, rest, checksums).unwrap();
                    assert!(made > 0);
                    batches.push(made);
                    rest = &rest[made..];
                }
                assert_eq!(batches, [12, 2]);
                let mut units = 0;
                for file in &files {
                    assert!(get(volume, file.name) == file.data, "{}", file.name);
                    let entry = blocking::run(volume, volume.find(file.name)).unwrap();
                    assert_eq!(entry.checksums, checksums);
                    assert_eq!((entry.mtime_ns, entry.app_tag), (file.mtime_ns, 5));
                    units += entry.allocated_bytes / unit;
                }
                let left = blocking::run(volume, volume.free_units()).unwrap();
                assert_eq!(left, free_units - units);
                // They can be appended to and removed like others.
                let file = blocking::run(volume, volume.open_to_write(files[4].name)).unwrap();
                let outcome = blocking::append(volume, file, filled(b"more", 512), 4);
                free(outcome.buffer);
                outcome.result.unwrap();
                blocking::run(volume, volume.close(file)).unwrap();
                assert!(get(volume, files[4].name) == [files[4].data, b"more"].concat());
                for file in &files {
                    blocking::run(volume, volume.remove(file.name)).unwrap();
                }
                assert_eq!(blocking::run(volume, volume.free_units()), Ok(free_units));
            });
        }
    }
}

#[test]
fn twelve_share_three_flushes_and_their_data_few_commands() {
    with_volume(4096, 64, 7, |volume, counter| {
        let contents = contents(&[4096; 24]);
        let files = new(&contents);
        assert_eq!(create_many(volume, &files, false), Ok(12));
        counter.take();
        assert_eq!(create_many(volume, &files[12..], false), Ok(12));
        let counts = counter.take();
        // Eight nodes of memory take one file. Their slots are in six pieces of the table.
        let writes = 12 + 2 * 6 + 2;
        assert_eq!((counts.flushes, counts.writes.commands), (3, writes));
    });
}

#[test]
fn what_cannot_be_made_ends_the_batch_before_it() {
    with_volume(4096, 64, 0, |volume, _| {
        let contents = contents(&[10, 20, 30, 40, 65_536, 50]);
        let mut files = new(&contents);
        // A name twice.
        files[2].name = files[0].name;
        assert_eq!(create_many(volume, &files, false), Ok(2));
        assert_eq!(create_many(volume, &files[2..], false), Err(Error::Exists));
        // An existing name behind a new one.
        assert_eq!(create_many(volume, &[files[3], files[2]], false), Ok(1));
        // Data that takes checksums of its own.
        assert_eq!(create_many(volume, &files[4..], false), Ok(0));
        files[5].name = "";
        assert_eq!(create_many(volume, &files[5..], false), Err(Error::BadName));
        assert_eq!(create_many(volume, &[], false), Ok(0));
    });
}

#[test]
fn a_full_table_or_a_fragmented_volume_takes_fewer() {
    with_volume(4096, 8, 0, |volume, _| {
        let contents = contents(&[100; 12]);
        let files = new(&contents);
        assert_eq!(create_many(volume, &files, true), Ok(8));
        assert_eq!(
            create_many(volume, &files[8..], true),
            Err(Error::TableFull)
        );
    });
    with_volume(65_536, 256, 0, |volume, _| {
        // Every free run is one unit long.
        let units = blocking::run(volume, volume.free_units()).unwrap();
        let contents = contents(&vec![1; units as usize]);
        let files = new(&contents);
        let mut made = 0;
        while made < files.len() {
            made += create_many(volume, &files[made..], false).unwrap();
        }
        for file in files.iter().step_by(2) {
            blocking::run(volume, volume.remove(file.name)).unwrap();
        }
        let again: Vec<NewFile<'_>> = files.iter().step_by(2).copied().collect();
        assert_eq!(create_many(volume, &again, false), Ok(1));
        // With checksums each takes two units.
        assert_eq!(create_many(volume, &again[1..], true), Ok(0));
        let create = CreateOptions {
            reserve_bytes: 1,
            checksums: true,
            ..CreateOptions::default()
        };
        let file = blocking::run(volume, volume.create(again[1].name, &create)).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
    });
}

/// A list of several nodes, with files of all sizes, in few flushes.
#[test]
fn hundreds_share_three_flushes() {
    with_volume(512, 1024, 15, |volume, counter| {
        let sizes: Vec<usize> = (0..600).map(|index| index * 7 % 1500).collect();
        let contents = contents(&sizes);
        let files = new(&contents);
        let free_units = blocking::run(volume, volume.free_units()).unwrap();
        counter.take();
        let made = blocking::run(volume, volume.create_batch::<300>(&files, true)).unwrap();
        let counts = counter.take();
        println!("{made:?}: {counts:?}");
        assert_eq!(made.files, 300);
        assert!(counts.flushes <= 4, "{counts:?}");
        let rest = &files[300..];
        let made = blocking::run(volume, volume.create_batch::<300>(rest, true)).unwrap();
        assert_eq!((made.files, counter.take().flushes), (300, 3));
        let mut units = 0;
        for file in &files {
            assert!(get(volume, file.name) == file.data, "{}", file.name);
            let entry = blocking::run(volume, volume.find(file.name)).unwrap();
            units += entry.allocated_bytes / 512;
        }
        // The list took units only while the operation lasted.
        let left = blocking::run(volume, volume.free_units()).unwrap();
        assert_eq!(left, free_units - units);
    });
}

/// Empty files have no unit, but their list does, until they are made.
#[test]
fn a_list_of_empty_files_and_one_that_does_not_fit() {
    with_volume(512, 64, 0, |volume, _| {
        let contents = contents(&[0; 30]);
        let files = new(&contents);
        let made = blocking::run(volume, volume.create_batch::<40>(&files, false)).unwrap();
        assert_eq!(made.files, 30);
        assert_eq!(get(volume, files[29].name), []);
        let again = blocking::run(volume, volume.create_batch::<40>(&files, false));
        assert_eq!(again, Err(Error::Exists));
        assert_eq!(
            blocking::run(volume, volume.create_batch::<40>(&[], false))
                .unwrap()
                .files,
            0
        );
    });
}

fn remove_batch(volume: &Mounted<'_>, names: &[&str]) -> Result<usize, Error> {
    blocking::run(volume, volume.remove_batch::<512>(names))
}

/// In few flushes, and everything that they had is free.
#[test]
fn hundreds_are_removed_with_three_flushes() {
    with_volume(512, 1024, 6, |volume, counter| {
        let sizes: Vec<usize> = (0..500).map(|number| number * 7 % 2000).collect();
        let contents = contents(&sizes);
        let files = new(&contents);
        let usage = blocking::run(volume, volume.usage()).unwrap();
        blocking::run(volume, volume.create_batch::<500>(&files, true)).unwrap();
        let names: Vec<&str> = files.iter().map(|file| file.name).collect();
        counter.take();
        assert_eq!(remove_batch(volume, &names[..200]), Ok(200));
        assert_eq!(counter.take().flushes, 3);
        for (index, name) in names.iter().enumerate() {
            let found = blocking::run(volume, volume.find(name));
            assert_eq!(found.is_ok(), index >= 200, "{name}");
        }
        // The first name that does not exist ends the batch before it.
        assert_eq!(
            remove_batch(volume, &[names[300], names[301], names[0]]),
            Ok(2)
        );
        assert_eq!(
            remove_batch(volume, &[names[0], names[302]]),
            Err(Error::NotFound)
        );
        // So does a name that was given before.
        assert_eq!(
            remove_batch(volume, &[names[302], names[303], names[302]]),
            Ok(2)
        );
        assert_eq!(remove_batch(volume, &names[200..300]), Ok(100));
        assert_eq!(remove_batch(volume, &names[304..]), Ok(196));
        assert_eq!(blocking::run(volume, volume.usage()), Ok(usage));
        assert_eq!(volume.known_usage(), Some(usage));
        // The slots and units serve again.
        let made = blocking::run(volume, volume.create_batch::<500>(&files, true)).unwrap();
        assert_eq!(made.files, 500);
    });
}

/// What must be removed alone ends the batch before it, and nothing else is changed.
#[test]
fn what_cannot_be_removed_together_is_left() {
    with_volume(512, 64, 0, |volume, counter| {
        let contents = contents(&[100, 600, 0, 100]);
        let files = new(&contents);
        assert_eq!(create_many(volume, &files, false), Ok(4));
        let names: Vec<&str> = files.iter().map(|file| file.name).collect();
        // In three extents.
        let parts = ["part", "other"].map(|name| {
            let options = CreateOptions::default();
            blocking::run(volume, volume.create(name, &options)).unwrap()
        });
        for _ in 0..3 {
            for file in parts {
                let outcome = blocking::append(volume, file, filled(&[1; 512], 512), 512);
                outcome.result.unwrap();
                free(outcome.buffer);
                blocking::run(volume, volume.sync(file)).unwrap();
            }
        }
        let [part, other] = parts;
        blocking::run(volume, volume.close(part)).unwrap();
        assert_eq!(
            remove_batch(volume, &["other", names[0]]),
            Err(Error::InUse)
        );
        assert_eq!(remove_batch(volume, &[names[0], names[1], "other"]), Ok(2));
        blocking::run(volume, volume.close(other)).unwrap();
        counter.take();
        // One alone is not a batch.
        assert_eq!(remove_batch(volume, &[names[2]]), Ok(0));
        assert_eq!(remove_batch(volume, &[]), Ok(0));
        assert_eq!(remove_batch(volume, &["part", names[2]]), Ok(0));
        assert_eq!(remove_batch(volume, &[names[2], names[3], "part"]), Ok(2));
        assert_eq!(remove_batch(volume, &["part", "other"]), Ok(0));
        blocking::run(volume, volume.remove_whole("part")).unwrap();
        blocking::run(volume, volume.remove_whole("other")).unwrap();
        assert_eq!(blocking::run(volume, volume.next_file(0)), Ok(None));
    });
}

/// The list needs free units: on a full volume files go one by one until there are some.
#[test]
fn a_full_volume_has_no_room_for_a_list() {
    with_volume(4096, 1024, 0, |volume, _| {
        let contents = contents(&[4096; 1000]);
        let files = new(&contents);
        let mut made = 0;
        while let Ok(more) = create_many(volume, &files[made..], false) {
            if more == 0 {
                break;
            }
            made += more;
        }
        assert_eq!(blocking::run(volume, volume.free_units()), Ok(0));
        let names: Vec<&str> = files[..made].iter().map(|file| file.name).collect();
        assert_eq!(remove_batch(volume, &names), Ok(0));
        blocking::run(volume, volume.remove_whole(names[0])).unwrap();
        assert!(remove_batch(volume, &names[1..]).unwrap() > 100);
    });
}
