// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files on a volume without faults: what every caller relies on.

use crate::support::{buffer, files, filled, free, make, memory, mount};
use block::RamDisk;
use straightway_volume::{CreateOptions, Error, File, FormatOptions, Volume, blocking};

type Disk = RamDisk<Vec<u8>, 8>;
type Mounted<'a> = Volume<'a, Disk>;

fn disk(options: &FormatOptions<'_>) -> Disk {
    let mut disk = RamDisk::new(vec![0xa5; 4 << 20], 9).unwrap();
    make(&mut disk, options);
    disk
}

fn options() -> FormatOptions<'static> {
    FormatOptions {
        unit_bytes: Some(4096),
        slots: Some(16),
        checksums: true,
        uuid: [7; 16],
        ..FormatOptions::default()
    }
}

fn with_volume(options: &FormatOptions<'_>, body: impl FnOnce(&Mounted<'_>)) -> Disk {
    on(disk(options), body)
}

fn on(disk: Disk, body: impl FnOnce(&Mounted<'_>)) -> Disk {
    let mut files = files();
    let volume = mount(disk, memory(512, 0), &mut files, false)
        .map_err(|e| e.0)
        .unwrap();
    body(&volume);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    unmounted.device
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

fn append(volume: &Mounted<'_>, file: File, bytes: &[u8]) -> Result<(), Error> {
    let outcome = blocking::append(volume, file, filled(bytes, 512), bytes.len());
    free(outcome.buffer);
    outcome.result
}

fn read(volume: &Mounted<'_>, file: File, len: usize) -> Result<Vec<u8>, Error> {
    let outcome = blocking::read(volume, file, 0, buffer(len.next_multiple_of(512)));
    let bytes = outcome.buffer[..len].to_vec();
    free(outcome.buffer);
    outcome.result.map(|()| bytes)
}

fn put(volume: &Mounted<'_>, name: &str, bytes: &[u8], checksums: bool) -> Result<(), Error> {
    let create = CreateOptions {
        reserve_bytes: bytes.len() as u64,
        checksums,
        app_tag: 9,
    };
    let file = blocking::run(volume, volume.create(name, &create))?;
    append(volume, file, bytes)?;
    blocking::run(volume, volume.close(file))
}

fn get(volume: &Mounted<'_>, name: &str) -> Result<Vec<u8>, Error> {
    let entry = blocking::run(volume, volume.find(name))?;
    let file = blocking::run(volume, volume.open(name))?;
    let bytes = read(volume, file, entry.size_bytes as usize);
    blocking::run(volume, volume.close(file))?;
    bytes
}

#[test]
fn what_is_put_is_got_after_a_remount() {
    for checksums in [false, true] {
        let contents: Vec<Vec<u8>> = [1, 512, 5000, 65_536, 300_001]
            .iter()
            .map(|&len| pattern(len, len as u64))
            .collect();
        let disk = with_volume(&options(), |volume| {
            let before = blocking::run(volume, volume.free_units()).unwrap();
            for (index, bytes) in contents.iter().enumerate() {
                put(volume, &format!("file {index}"), bytes, checksums).unwrap();
            }
            assert!(blocking::run(volume, volume.free_units()).unwrap() < before);
        });
        let mut extents = vec![Vec::new(); contents.len()];
        let mut disk = on(disk, |volume| {
            for (index, bytes) in contents.iter().enumerate() {
                let name = format!("file {index}");
                assert!(get(volume, &name).unwrap() == *bytes);
                let each = |extent| {
                    extents[index].push(extent);
                    true
                };
                blocking::run(volume, volume.extents(&name, each)).unwrap();
            }
        });
        for (bytes, extents) in contents.iter().zip(extents) {
            let mut found = Vec::new();
            for extent in extents {
                assert_eq!(extent.offset_bytes, found.len() as u64);
                let buffer = buffer(extent.block_count as usize * 512);
                let read = block::blocking::read(&mut disk, extent.lba, buffer);
                read.result.unwrap();
                found.extend_from_slice(&read.buffer);
                free(read.buffer);
            }
            assert!(found.starts_with(bytes), "{checksums}");
        }
    }
}

#[test]
fn a_name_is_there_once_and_gone_when_removed() {
    with_volume(&options(), |volume| {
        let free = blocking::run(volume, volume.free_units()).unwrap();
        put(volume, "one", &pattern(100_000, 1), false).unwrap();
        assert_eq!(put(volume, "one", b"x", false), Err(Error::Exists));
        blocking::run(volume, volume.rename("one", "two")).unwrap();
        assert_eq!(get(volume, "one"), Err(Error::NotFound));
        assert!(get(volume, "two").unwrap() == pattern(100_000, 1));
        blocking::run(volume, volume.remove("two")).unwrap();
        assert_eq!(get(volume, "two"), Err(Error::NotFound));
        assert_eq!(blocking::run(volume, volume.free_units()).unwrap(), free);
    });
}

#[test]
fn a_fragmented_file_grows_through_each_level_and_is_reaped() {
    // Units of 512 bytes, so that 300 extents fit; a second file takes every other unit.
    let small = FormatOptions {
        unit_bytes: Some(512),
        node_bytes: Some(512),
        ..options()
    };
    with_volume(&small, |volume| {
        let free = blocking::run(volume, volume.free_units()).unwrap();
        let create = CreateOptions::default();
        let one = blocking::run(volume, volume.create("one", &create)).unwrap();
        let two = blocking::run(volume, volume.create("two", &create)).unwrap();
        let bytes = pattern(900 * 512, 3);
        for block in bytes.chunks(512) {
            append(volume, one, block).unwrap();
            append(volume, two, block).unwrap();
        }
        blocking::run(volume, volume.sync(one)).unwrap();
        blocking::run(volume, volume.sync(two)).unwrap();
        for file in [one, two] {
            assert!(read(volume, file, bytes.len()).unwrap() == bytes);
            blocking::run(volume, volume.close(file)).unwrap();
        }
        let entry = blocking::run(volume, volume.find("one")).unwrap();
        assert_eq!(entry.map_level, 2, "{} extents", 900);
        assert_eq!(
            blocking::run(volume, volume.extent_count("one", 9999)),
            Ok(900)
        );
        assert!(get(volume, "one").unwrap() == bytes);
        blocking::run(volume, volume.remove("one")).unwrap();
        blocking::run(volume, volume.remove("two")).unwrap();
        let mut next = Some(0);
        while let Some(from) = next {
            next = blocking::run(volume, volume.reap(from)).unwrap();
        }
        assert_eq!(blocking::run(volume, volume.free_units()).unwrap(), free);
    });
}

fn check(
    volume: &Mounted<'_>,
    repair: bool,
) -> (
    straightway_volume::Summary,
    Vec<straightway_volume::Finding>,
) {
    let mut found = Vec::new();
    let mut scratch = vec![0; 1024];
    let mut report = |finding| found.push(finding);
    let summary = if repair {
        blocking::run(volume, volume.repair(&mut scratch, &mut report)).unwrap()
    } else {
        blocking::run(volume, volume.check(&mut scratch, &mut report)).unwrap()
    };
    (summary, found)
}

/// The bytes of a disk after `spoil` damaged them.
fn spoiled(mut disk: Disk, spoil: impl FnOnce(&mut [u8])) -> Disk {
    let outcome = block::blocking::read(&mut disk, 0, buffer(4 << 20));
    let mut bytes = outcome.buffer.to_vec();
    free(outcome.buffer);
    spoil(&mut bytes);
    RamDisk::new(bytes, 9).unwrap()
}

#[test]
fn a_repair_mends_every_single_copy_and_what_the_maps_prove() {
    let small = FormatOptions {
        unit_bytes: Some(512),
        ..options()
    };
    let shape = small.shape(block::Device::geometry(&disk(&small))).unwrap();
    let node = shape.node_bytes() as u64;
    let mut names = Vec::new();
    let disk = with_volume(&small, |volume| {
        let create = CreateOptions::default();
        let one = blocking::run(volume, volume.create("one", &create)).unwrap();
        let two = blocking::run(volume, volume.create("two", &create)).unwrap();
        for _ in 0..60 {
            append(volume, one, &[1; 512]).unwrap();
            append(volume, two, &[2; 512]).unwrap();
        }
        for file in [one, two] {
            blocking::run(volume, volume.close(file)).unwrap();
        }
        let (summary, found) = check(volume, false);
        assert_eq!((summary.files, summary.data_bytes), (2, 2 * 60 * 512));
        assert_eq!(found, [], "a clean volume");
        names.push(summary.used_units);
    });
    // One copy of everything: slots and bitmaps of table A, and the second superblock.
    let disk = spoiled(disk, |bytes| {
        bytes[65_600] ^= 1;
        for slot in 0..u64::from(shape.slot_count()) {
            bytes[(shape.slots_a() + slot * node + 20) as usize] ^= 1;
        }
        for group in 0..shape.group_count() {
            bytes[(shape.bitmap_a() + group * node + 40) as usize] ^= 1;
        }
    });
    let disk = on(disk, |volume| {
        let (summary, found) = check(volume, false);
        // R7: the other copy of a bitmap may be out of date.
        assert_eq!(summary.damages, shape.group_count());
        let expected = 1 + u64::from(shape.slot_count());
        assert_eq!(summary.harmless, expected, "{found:?}");
        assert!(blocking::run(volume, volume.free_units()).is_err());
        check(volume, true);
        assert_eq!(check(volume, false).1, []);
        assert_eq!(get(volume, "one").unwrap(), [1; 60 * 512]);
    });
    // Both copies of a bitmap: it is rebuilt from the maps.
    let disk = spoiled(disk, |bytes| {
        bytes[(shape.bitmap_a() + 300) as usize] ^= 1;
        bytes[(shape.bitmap_b() + 300) as usize] ^= 1;
    });
    on(disk, |volume| {
        let (summary, found) = check(volume, true);
        assert_eq!(
            found[0],
            straightway_volume::Finding::Damaged(straightway_volume::Node::Bitmap(0))
        );
        assert_eq!(summary.repaired, 1);
        let (summary, found) = check(volume, false);
        assert_eq!(found, []);
        assert_eq!(summary.used_units, names[0]);
        put(volume, "three", &pattern(9999, 3), true).unwrap();
        assert_eq!(get(volume, "two").unwrap(), [2; 60 * 512]);
    });
}

#[test]
fn a_slot_without_a_valid_copy_hides_no_file_and_its_units_stay() {
    let disk = with_volume(&options(), |volume| {
        put(volume, "one", &pattern(9999, 3), false).unwrap();
    });
    let entry = {
        let mut slot = 0;
        let disk = on(disk, |volume| {
            slot = blocking::run(volume, volume.find("one")).unwrap().slot;
        });
        (slot, disk)
    };
    let shape = options().shape(block::Device::geometry(&entry.1)).unwrap();
    let disk = spoiled(entry.1, |bytes| {
        let at = u64::from(entry.0) * shape.node_bytes() as u64;
        bytes[(shape.slots_a() + at + 30) as usize] ^= 1;
        bytes[(shape.slots_b() + at + 30) as usize] ^= 1;
    });
    on(disk, |volume| {
        let lost = straightway_volume::Node::Slot(entry.0);
        assert_eq!(get(volume, "one"), Err(Error::from(lost)));
        assert_eq!(put(volume, "one", b"new", false), Err(Error::from(lost)));
        let (summary, found) = check(volume, true);
        assert!(found.contains(&straightway_volume::Finding::Damaged(lost)));
        assert!(!summary.complete);
        let (_, found) = check(volume, false);
        let leaked = found.iter().any(|finding| {
            matches!(
                finding,
                straightway_volume::Finding::Leaked { units: 3, .. }
            )
        });
        assert!(
            leaked,
            "the lost file's units are not given away: {found:?}"
        );
    });
}

#[test]
fn rot_in_data_is_named() {
    let bytes = pattern(200_000, 5);
    let disk = with_volume(&options(), |volume| put(volume, "f", &bytes, true).unwrap());
    let needle = bytes[70_000..70_016].to_vec();
    let disk = spoiled(disk, |stored| {
        let at = stored.windows(16).position(|w| w == needle).unwrap();
        stored[at] ^= 0x10;
    });
    on(disk, |volume| {
        assert_eq!(get(volume, "f"), Err(Error::Rot { chunk: 1 }));
    });
}

#[test]
fn a_limit_of_the_size_holds_back_what_was_appended() {
    let disk = with_volume(&options(), |volume| {
        let plain = CreateOptions::default();
        let file = blocking::run(volume, volume.create("log", &plain)).unwrap();
        append(volume, file, &pattern(2048, 1)).unwrap();
        volume.limit_size(file, 1000).unwrap();
        assert_eq!(blocking::run(volume, volume.sync(file)), Ok(1000));
        // What the file has not yet is overwritten; a lower limit does not shrink it.
        let changed = blocking::overwrite(volume, file, 1024, filled(&pattern(1024, 2), 512));
        changed.result.unwrap();
        free(changed.buffer);
        volume.limit_size(file, 10).unwrap();
        assert_eq!(blocking::run(volume, volume.commit(file)), Ok(1000));
        volume.limit_size(file, 1500).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
        let summed = CreateOptions {
            checksums: true,
            ..plain
        };
        let file = blocking::run(volume, volume.create("summed", &summed)).unwrap();
        assert_eq!(volume.limit_size(file, 0), Err(Error::Unsupported));
        blocking::run(volume, volume.close(file)).unwrap();
    });
    on(disk, |volume| {
        let file = blocking::run(volume, volume.open("log")).unwrap();
        let status = volume.file_status(file).unwrap();
        assert_eq!(status.committed_bytes, 1500);
        let bytes = read(volume, file, 1500).unwrap();
        assert_eq!(bytes[..1000], pattern(2048, 1)[..1000]);
        assert_eq!(bytes[1024..], pattern(1024, 2)[..476]);
        assert_eq!(volume.limit_size(file, 0), Err(Error::NotWritable));
    });
}

#[test]
fn the_application_s_number_changes_with_the_next_commit() {
    let disk = with_volume(&options(), |volume| {
        let tag = |name| blocking::run(volume, volume.find(name)).unwrap().app_tag;
        put(volume, "f", &pattern(700, 1), true).unwrap();
        let reader = blocking::run(volume, volume.open("f")).unwrap();
        assert_eq!(volume.set_app_tag(reader, 5), Err(Error::NotWritable));
        blocking::run(volume, volume.close(reader)).unwrap();
        let file = blocking::run(volume, volume.open_to_write("f")).unwrap();
        volume.set_app_tag(file, 77).unwrap();
        assert_eq!(tag("f"), 9);
        // Nothing was appended.
        blocking::run(volume, volume.sync(file)).unwrap();
        assert_eq!(tag("f"), 77);
        // It stays until it is set again.
        let head = [&pattern(700, 1)[512..], b"more"].concat();
        let merged = blocking::append_merged(volume, file, filled(&head, 512), head.len());
        free(merged.buffer);
        merged.result.unwrap();
        blocking::run(volume, volume.commit(file)).unwrap();
        assert_eq!(tag("f"), 77);
        volume.set_app_tag(file, 88).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
    });
    on(disk, |volume| {
        assert_eq!(blocking::run(volume, volume.find("f")).unwrap().app_tag, 88);
    });
}

#[test]
fn the_time_of_a_change_is_the_volume_s_or_the_writer_s() {
    let disk = with_volume(&options(), |volume| {
        let time = |name| blocking::run(volume, volume.find(name)).unwrap().mtime_ns;
        volume.set_time(1000);
        put(volume, "f", &pattern(700, 1), true).unwrap();
        assert_eq!(time("f"), 1000);
        let reader = blocking::run(volume, volume.open("f")).unwrap();
        assert_eq!(volume.set_modified(reader, 5), Err(Error::NotWritable));
        blocking::run(volume, volume.close(reader)).unwrap();
        let file = blocking::run(volume, volume.open_to_write("f")).unwrap();
        volume.set_time(2000);
        // Without a change a commit stores no time.
        blocking::run(volume, volume.sync(file)).unwrap();
        assert_eq!(time("f"), 1000);
        volume.set_modified(file, 77).unwrap();
        blocking::run(volume, volume.commit(file)).unwrap();
        assert_eq!(time("f"), 77);
        // Once: the next change has the volume's time again.
        let head = [&pattern(700, 1)[512..], b"more"].concat();
        let merged = blocking::append_merged(volume, file, filled(&head, 512), head.len());
        free(merged.buffer);
        merged.result.unwrap();
        blocking::run(volume, volume.commit(file)).unwrap();
        assert_eq!(time("f"), 2000);
        volume.set_modified(file, 88).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
    });
    on(disk, |volume| {
        let found = blocking::run(volume, volume.find("f")).unwrap();
        assert_eq!((found.mtime_ns, found.size_bytes), (88, 704));
        let file = blocking::run(volume, volume.open("f")).unwrap();
        let expected = [&pattern(700, 1)[..], b"more"].concat();
        assert_eq!(read(volume, file, 704).unwrap(), expected);
        blocking::run(volume, volume.close(file)).unwrap();
    });
}

#[test]
fn an_abandoned_file_has_what_was_synced_and_can_be_removed() {
    with_volume(&options(), |volume| {
        let create = CreateOptions {
            reserve_bytes: 64 << 10,
            ..CreateOptions::default()
        };
        let free_before = blocking::run(volume, volume.free_units()).unwrap();
        let file = blocking::run(volume, volume.create("log", &create)).unwrap();
        append(volume, file, &pattern(1024, 1)).unwrap();
        blocking::run(volume, volume.sync(file)).unwrap();
        append(volume, file, &pattern(2048, 2)).unwrap();
        let piece = filled(&pattern(512, 3), 512);
        volume.append(file, piece, 512, 0).unwrap();
        assert_eq!(volume.abandon_file(file), Err(Error::Busy));
        let event = loop {
            volume.kick();
            if let Some(event) = volume.poll() {
                break event;
            }
        };
        event.buffer.into_iter().for_each(free);
        volume.abandon_file(file).unwrap();
        assert_eq!(volume.abandon_file(file), Err(Error::NotOpen));
        assert_eq!(get(volume, "log").unwrap(), pattern(1024, 1));
        blocking::run(volume, volume.remove_whole("log")).unwrap();
        let free_after = blocking::run(volume, volume.free_units()).unwrap();
        assert_eq!(free_after, free_before);
    });
}
