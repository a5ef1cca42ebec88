// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of more than 64 bytes: what they cost, how a map makes room for one, and what is refused.

use crate::independent::{Scan, superblock};
use crate::support::{buffer, files, filled, free, make, memory, mount};
use block::RamDisk;
use straightway_volume::layout::FEATURE_LONG_NAMES;
use straightway_volume::{
    CreateOptions, Error, FormatOptions, NewFile, OpenFile, Volume, blocking,
};

type Disk = RamDisk<Vec<u8>, 8>;
type Mounted<'a> = Volume<'a, Disk>;

const BYTES: usize = 2 << 20;

fn disk(node: u32) -> Disk {
    let mut disk = RamDisk::new(vec![0xa5; BYTES], if node < 512 { 8 } else { 9 }).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(512),
        node_bytes: Some(node),
        slots: Some(64),
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn mounted(disk: Disk, files: &mut [OpenFile]) -> Mounted<'_> {
    mount(disk, memory(512, 7), files, false)
        .map_err(|refused| refused.0)
        .unwrap()
}

/// The image, after a check without findings.
fn unmounted(volume: Mounted<'_>) -> Vec<u8> {
    let mut scratch = vec![0; 4096];
    let mut report = |finding| panic!("{finding}");
    blocking::run(&volume, volume.check(&mut scratch, &mut report)).unwrap();
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    let mut disk = unmounted.device;
    let outcome = block::blocking::read(&mut disk, 0, buffer(BYTES));
    let bytes = outcome.buffer.to_vec();
    free(outcome.buffer);
    bytes
}

fn create(volume: &Mounted<'_>, name: &str) -> Result<straightway_volume::File, Error> {
    blocking::run(volume, volume.create(name, &CreateOptions::default()))
}

fn rename(volume: &Mounted<'_>, old: &str, new: &str) -> Result<(), Error> {
    blocking::run(volume, volume.rename(old, new))
}

/// A file of so many extents of a unit each, between those of another.
fn fragmented(volume: &Mounted<'_>, name: &str, extents: usize) {
    let handles = [name, "between"].map(|name| create(volume, name).unwrap());
    for extent in 0..extents {
        for file in handles {
            let data = filled(&[extent as u8; 512], 512);
            let outcome = blocking::append(volume, file, data, 512);
            free(outcome.buffer);
            outcome.result.unwrap();
        }
    }
    for file in handles {
        blocking::run(volume, volume.close(file)).unwrap();
    }
    blocking::run(volume, volume.remove_whole("between")).unwrap();
}

#[test]
fn names_that_agree_in_their_first_bytes_are_different_files() {
    let mut table = files();
    let volume = mounted(disk(512), &mut table);
    let names: Vec<String> = [64, 65, 80, 81, 127, 254, 255]
        .map(|len| "n".repeat(len))
        .into_iter()
        .chain([format!("{}a", "n".repeat(254)), "\u{e9}".repeat(127)])
        .collect();
    for (name, app_tag) in names.iter().zip(0..) {
        let options = CreateOptions {
            app_tag,
            reserve_bytes: 512 * (app_tag % 2),
            ..CreateOptions::default()
        };
        let file = blocking::run(&volume, volume.create(name, &options)).unwrap();
        blocking::run(&volume, volume.close(file)).unwrap();
        assert_eq!(create(&volume, name), Err(Error::Exists));
    }
    for (name, app_tag) in names.iter().zip(0..) {
        let entry = blocking::run(&volume, volume.find(name)).unwrap();
        assert_eq!((entry.app_tag, entry.name.as_str()), (app_tag, &**name));
    }
    let absent = "n".repeat(66);
    assert_eq!(
        blocking::run(&volume, volume.find(&absent)),
        Err(Error::NotFound)
    );
    let data = [9; 300];
    let many: Vec<String> = (0..13)
        .map(|end| format!("{}{end:03}", "m".repeat(252)))
        .collect();
    let new = |name| NewFile {
        name,
        data: &data,
        mtime_ns: 0,
        app_tag: 77,
    };
    let all: Vec<NewFile<'_>> = many.iter().map(|name| new(name)).collect();
    let made = blocking::run(&volume, volume.create_many(&all[..3], false)).unwrap();
    assert_eq!(made.files, 3);
    let made = blocking::run(&volume, volume.create_batch::<13>(&all[3..], false)).unwrap();
    assert_eq!(made.files, 10);
    let bytes = unmounted(volume);
    let scan = Scan::new(&bytes).unwrap();
    scan.check_space().unwrap();
    let mut found: Vec<&str> = scan.files.iter().map(|file| &*file.name).collect();
    let mut wanted: Vec<&str> = names.iter().chain(&many).map(|name| &**name).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// A volume is one of 1.0 until the first long name, whatever else is done; what is refused changes
/// nothing.
#[test]
fn only_a_long_name_that_is_made_needs_a_reader_that_knows_them() {
    let mut table = files();
    let volume = mounted(disk(512), &mut table);
    for name in ["a", &"b".repeat(64)] {
        let file = create(&volume, name).unwrap();
        blocking::run(&volume, volume.close(file)).unwrap();
    }
    let long = "l".repeat(65);
    for bad in ["", &"x".repeat(256), &"x".repeat(300), "a\0b"] {
        assert_eq!(create(&volume, bad), Err(Error::BadName));
        assert_eq!(rename(&volume, "a", bad), Err(Error::BadName));
    }
    assert_eq!(rename(&volume, &long, "c"), Err(Error::NotFound));
    assert_eq!(rename(&volume, "absent", &long), Err(Error::NotFound));
    let options = CreateOptions {
        reserve_bytes: u64::MAX,
        ..CreateOptions::default()
    };
    let refused = blocking::run(&volume, volume.create(&long, &options));
    assert_eq!(refused, Err(Error::NoSpace));
    assert_eq!(
        blocking::run(&volume, volume.find(&long)),
        Err(Error::NotFound)
    );
    let bytes = unmounted(volume);
    assert!(!superblock(&bytes).unwrap().0.long_names);
    let mut table = files();
    let volume = mounted(RamDisk::new(bytes, 9).unwrap(), &mut table);
    rename(&volume, "a", &long).unwrap();
    rename(&volume, &long, "a").unwrap();
    let bytes = unmounted(volume);
    // It stays: whoever reads the volume may have seen the name.
    assert!(superblock(&bytes).unwrap().0.long_names);
    assert_eq!(u32::from(bytes[56]), FEATURE_LONG_NAMES);
}

/// The slot of a name of 255 bytes has 11 entries, of 128 bytes 19, of up to 64 bytes 23.
#[test]
fn a_map_gets_a_level_when_its_entries_do_not_fit_behind_a_name() {
    let long = "l".repeat(255);
    let level = |volume: &Mounted<'_>, name: &str| {
        blocking::run(volume, volume.find(name)).unwrap().map_level
    };
    // 23 leaves of 28 extents are the whole of level 1.
    for (extents, new, before, after) in [
        (11, &*long, 0, 0),
        (12, &*long, 0, 1),
        (23, &*long, 0, 1),
        (19, &long[..128], 0, 0),
        (20, &long[..128], 0, 1),
        (23, &long[..64], 0, 0),
        (28 * 11, &*long, 1, 1),
        (28 * 11 + 1, &*long, 1, 2),
    ] {
        let mut table = files();
        let volume = mounted(disk(512), &mut table);
        fragmented(&volume, "old", extents);
        assert_eq!(level(&volume, "old"), before, "{extents} extents");
        let free_before = blocking::run(&volume, volume.free_units()).unwrap();
        rename(&volume, "old", new).unwrap();
        assert_eq!(level(&volume, new), after, "{extents} extents");
        let used = free_before - blocking::run(&volume, volume.free_units()).unwrap();
        assert_eq!(used, 2 * u64::from(after - before), "a pair of two units");
        let count = blocking::run(&volume, volume.extent_count(new, u64::MAX));
        assert_eq!(count, Ok(extents as u64));
        // It grows as before, and the way back needs no room.
        let file = blocking::run(&volume, volume.open_to_write(new)).unwrap();
        let outcome = blocking::append(&volume, file, filled(&[0xee; 512], 512), 512);
        free(outcome.buffer);
        outcome.result.unwrap();
        blocking::run(&volume, volume.close(file)).unwrap();
        rename(&volume, new, "old").unwrap();
        let bytes = unmounted(volume);
        let scan = Scan::new(&bytes).unwrap();
        scan.check_space().unwrap();
        let data = scan.data(&bytes, &scan.files[0]);
        let wanted = (0..extents).map(|extent| extent as u8).chain([0xee]);
        assert!(wanted.flat_map(|byte| [byte; 512]).eq(data), "{extents}");
    }
}

#[test]
fn a_volume_with_nodes_of_256_bytes_has_short_names_only() {
    let mut table = files();
    let volume = mounted(disk(256), &mut table);
    assert_eq!(volume.status().shape.longest_name_bytes(), 64);
    let (short, long) = ("s".repeat(64), "s".repeat(65));
    let file = create(&volume, &short).unwrap();
    blocking::run(&volume, volume.close(file)).unwrap();
    assert_eq!(create(&volume, &long), Err(Error::BadName));
    assert_eq!(rename(&volume, &short, &long), Err(Error::BadName));
    assert_eq!(
        blocking::run(&volume, volume.find(&long)),
        Err(Error::BadName)
    );
    let new = [NewFile {
        name: &long,
        data: b"",
        mtime_ns: 0,
        app_tag: 0,
    }];
    let refused = blocking::run(&volume, volume.create_many(&new, false));
    assert_eq!(refused.map(|made| made.files), Err(Error::BadName));
    assert_eq!(unmounted(volume)[56], 0);
}
