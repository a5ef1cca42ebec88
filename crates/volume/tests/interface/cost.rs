// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What queries and removals read: by the files that they concern, not by the table, and each byte
//! about once.

use crate::independent::{node_crc, u64_at};
use crate::support::{buffer, files, free, make, memory};
use block::RamDisk;
use crash::{Counter, Counting};
use straightway_volume::{
    CreateOptions, Error, Finding, FormatOptions, MountOptions, NewFile, OpenFile, Usage, Volume,
    blocking,
};

type Disk = Counting<RamDisk<Vec<u8>, 8>>;
type Mounted<'a> = Volume<'a, Disk>;

const NODE: usize = 512;
const SLOTS: u32 = 16_384;
const RUN_BYTES: u64 = 128 << 10;

fn disk() -> RamDisk<Vec<u8>, 8> {
    let mut disk = RamDisk::new(vec![0; 40 << 20], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(512),
        node_bytes: Some(NODE as u32),
        slots: Some(SLOTS),
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn mounted(disk: RamDisk<Vec<u8>, 8>, table: &mut [OpenFile]) -> (Mounted<'_>, Counter) {
    let disk = Counting::new(disk);
    let counter = disk.counter();
    let memory = memory(NODE, RUN_BYTES as usize / NODE - 1);
    let volume = Volume::mount(disk, memory, table, &MountOptions::default());
    (volume.map_err(|u| u.result).unwrap(), counter)
}

fn unmount(volume: Mounted<'_>) {
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
}

fn fill(volume: &Mounted<'_>, count: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("log/{number}")).collect();
    let new = |name: &'static str| NewFile {
        name,
        data: b"",
        mtime_ns: 0,
        app_tag: 0,
    };
    let names = Vec::leak(names);
    let all: Vec<NewFile<'_>> = names.iter().map(|name| new(name)).collect();
    let mut made = 0;
    while made < count {
        made += blocking::run(volume, volume.create_many(&all[made..], false))
            .unwrap()
            .files;
    }
}

/// A file of so many extents of a unit; another one has the units between.
fn fragment(volume: &Mounted<'_>, name: &str, extents: usize) {
    let create =
        |name: &str| blocking::run(volume, volume.create(name, &CreateOptions::default())).unwrap();
    let handles = [create(name), create("between")];
    for _ in 0..extents {
        for file in handles {
            let outcome = blocking::append(volume, file, buffer(512), 512);
            free(outcome.buffer);
            outcome.result.unwrap();
        }
    }
    for file in handles {
        blocking::run(volume, volume.close(file)).unwrap();
    }
}

fn check(volume: &Mounted<'_>, scratch_bytes: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut scratch = vec![0; scratch_bytes];
    let mut report = |finding| findings.push(finding);
    blocking::run(volume, volume.check(&mut scratch, &mut report)).unwrap();
    findings
}

#[test]
fn a_check_reads_each_node_about_once_in_long_runs() {
    let mut table = files();
    let (volume, counter) = mounted(disk(), &mut table);
    fill(&volume, 9000);
    fragment(&volume, "a", 300);
    let shape = volume.status().shape;
    let nodes = 2 * (u64::from(shape.slot_count()) + shape.group_count());
    let metadata_bytes = nodes * NODE as u64;
    let bits = shape.group_count() as usize * NODE / 2;
    counter.take();
    assert_eq!(check(&volume, bits + 4 * SLOTS as usize), []);
    let reads = counter.take().reads;
    println!("{metadata_bytes} bytes of metadata: {reads:?}");
    assert!(reads.bytes * 10 <= metadata_bytes * 11);
    assert!(reads.commands <= metadata_bytes / (64 << 10), "{reads:?}");
    // Without room for the names each is looked up.
    assert_eq!(check(&volume, bits), []);
    unmount(volume);
}

#[test]
fn a_list_reads_each_slot_once_in_long_runs() {
    let mut table = files();
    let (volume, counter) = mounted(disk(), &mut table);
    fill(&volume, 9000);
    let table_bytes = 2 * u64::from(SLOTS) * NODE as u64;
    let mut listed = 0;
    counter.take();
    let each = |_| {
        listed += 1;
        true
    };
    blocking::run(&volume, volume.files(0, each)).unwrap();
    let reads = counter.take().reads;
    println!("{table_bytes} bytes of slots: {reads:?}");
    assert_eq!((listed, reads.bytes), (9000, table_bytes));
    assert!(reads.commands <= table_bytes / (64 << 10), "{reads:?}");
    unmount(volume);
}

#[test]
fn free_space_takes_a_read_for_each_run_of_bitmaps() {
    let mut table = files();
    let (volume, counter) = mounted(disk(), &mut table);
    let groups = volume.status().shape.group_count();
    counter.take();
    let free = blocking::run(&volume, volume.free_units()).unwrap();
    assert_eq!(free, volume.status().shape.unit_count());
    let reads = counter.take().reads;
    assert!(
        groups > 20 && reads.commands == 2,
        "{reads:?} for {groups} groups"
    );
    unmount(volume);
}

/// The same for a file whose units are given back at once, and for one that takes many operations.
#[test]
fn a_removal_reads_the_names_buckets_and_the_files_map() {
    let mut table = files();
    let (volume, counter) = mounted(disk(), &mut table);
    fill(&volume, 1000);
    let free_units = blocking::run(&volume, volume.free_units()).unwrap();
    fragment(&volume, "a", 1);
    fragment_removed(&volume, &counter, "a", 64 << 10);
    fragment(&volume, "b", 300);
    fragment_removed(&volume, &counter, "b", 1 << 20);
    let again = blocking::run(&volume, volume.remove_whole("b"));
    assert_eq!(again, Err(Error::NotFound));
    assert_eq!(
        blocking::run(&volume, volume.free_units()).unwrap(),
        free_units
    );
    assert_eq!(check(&volume, 1 << 20), []);
    unmount(volume);
}

/// The name goes first, and the units later; a new file in its slot is not taken for it.
#[test]
fn what_a_removed_file_has_is_given_back_without_a_sweep() {
    let mut table = files();
    let (volume, counter) = mounted(disk(), &mut table);
    fill(&volume, 1000);
    let free_units = blocking::run(&volume, volume.free_units()).unwrap();
    fragment(&volume, "b", 300);
    let removed = blocking::run(&volume, volume.remove_marked("b")).unwrap();
    let removed = removed.expect("a file of many extents");
    let found = blocking::run(&volume, volume.find("b"));
    assert_eq!(found, Err(Error::NotFound));
    counter.take();
    blocking::run(&volume, volume.release_removed(removed)).unwrap();
    let reads = counter.take().reads;
    assert!(reads.bytes <= 1 << 20, "{reads:?}");
    blocking::run(&volume, volume.remove_whole("between")).unwrap();
    let free_now = blocking::run(&volume, volume.free_units());
    assert_eq!(free_now, Ok(free_units));
    fragment(&volume, "b", 300);
    let before = blocking::run(&volume, volume.free_units());
    blocking::run(&volume, volume.release_removed(removed)).unwrap();
    assert_eq!(blocking::run(&volume, volume.free_units()), before);
    unmount(volume);
}

fn fragment_removed(volume: &Mounted<'_>, counter: &Counter, name: &str, most_bytes: u64) {
    counter.take();
    blocking::run(volume, volume.remove_whole(name)).unwrap();
    let reads = counter.take().reads;
    println!("removing {name}: {reads:?}");
    assert!(reads.bytes <= most_bytes, "{reads:?}");
    blocking::run(volume, volume.remove_whole("between")).unwrap();
}

/// More names twice than are looked up together; in each of their buckets.
#[test]
fn every_name_that_is_there_twice_is_found() {
    let mut table = files();
    let (volume, _) = mounted(disk(), &mut table);
    fill(&volume, 9000);
    let mut slots = vec![None; SLOTS as usize];
    let each = |entry: straightway_volume::StoredFile| {
        let name = entry.name.as_str().to_owned();
        slots[entry.slot as usize] = Some(name);
        true
    };
    blocking::run(&volume, volume.files(0, each)).unwrap();
    let shape = volume.status().shape;
    let known = blocking::run(&volume, volume.usage()).unwrap();
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    let mut disk = unmounted.device.into_inner();
    let outcome = block::blocking::read(&mut disk, 0, buffer(40 << 20));
    let mut bytes = outcome.buffer.to_vec();
    free(outcome.buffer);
    // A copy of each of 100 files, in a free slot of one of its buckets.
    let mut wanted = Vec::new();
    let node = |member: u64, slot: usize| {
        let table = [shape.slots_a(), shape.slots_b()][member as usize];
        table as usize + slot * NODE
    };
    for from in 0..SLOTS as usize {
        let wanted_now = |name: &String| !name.is_empty() && wanted.len() < 100;
        let Some(name) = slots[from].clone().filter(wanted_now) else {
            continue;
        };
        let hash = crate::independent::crc32c(name.as_bytes());
        let mask = SLOTS / 8 - 1;
        let [one, two] = [hash & mask, (hash >> 16) & mask].map(|bucket| bucket as usize);
        let bucket = if wanted.len() % 2 == 0 { one } else { two };
        let Some(to) = (8 * bucket..8 * bucket + 8).find(|slot| slots[*slot].is_none()) else {
            continue;
        };
        for member in 0..2 {
            let mut copy = bytes[node(member, from)..][..NODE].to_vec();
            let address = node(member, to);
            let crc = node_crc(&[7; 16], address as u64, &copy, 4);
            copy[4..8].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(u64_at(&copy, 8) % 2, member);
            bytes[address..address + NODE].copy_from_slice(&copy);
        }
        slots[to] = Some(String::new());
        let opened_first = |slot: &usize| (slot / 8 != one, *slot);
        let mut both = [from, to];
        both.sort_by_key(opened_first);
        wanted.push(Finding::SameName {
            slot: both[1] as u32,
            other: both[0] as u32,
        });
    }
    assert_eq!(wanted.len(), 100);
    // The superblock counts none of the copies.
    let found = Usage {
        files: known.files + 100,
        ..known
    };
    wanted.push(Finding::Counts { known, found });
    let bits = shape.group_count() as usize * NODE / 2;
    for scratch_bytes in [bits, bits + 4 * SLOTS as usize] {
        let mut table = files();
        let (volume, _) = mounted(RamDisk::new(bytes.clone(), 9).unwrap(), &mut table);
        let found = check(&volume, scratch_bytes);
        assert_eq!(found.len(), wanted.len());
        assert!(wanted.iter().all(|one| found.contains(one)), "{found:?}");
        volume.abandon().memory.into_iter().flatten().for_each(free);
    }
}

/// Slots for many files are added together: in a few long writes, without a move, and read in long
/// runs. A table that has files grows as far as none of them has to move, and then one by one.
#[test]
fn slots_for_many_files_are_added_together() {
    const FILES: u32 = 3000;
    let mut disk = RamDisk::<Vec<u8>, 8>::new(vec![0; 40 << 20], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(4096),
        node_bytes: Some(NODE as u32),
        slots: Some(64),
        uuid: [7; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    let mut table = files();
    let (volume, counter) = mounted(disk, &mut table);
    let grow = |files| blocking::run(&volume, volume.grow_table_for(files));
    // What fits is not a reason to grow.
    grow(64).unwrap();
    assert_eq!(volume.slots(), 64);
    counter.take();
    grow(FILES).unwrap();
    let slots = u64::from(volume.slots());
    let took = counter.take();
    println!("{slots} slots: {took:?}");
    // At most three quarters of them, and an even share for each bucket.
    assert_eq!(slots, 4096);
    assert!(took.writes.commands < 100, "{took:?}");
    fill(&volume, FILES as usize);
    assert_eq!((volume.moves(), volume.slots()), (0, slots as u32));
    counter.take();
    assert_eq!(check(&volume, 64 << 10), []);
    let metadata_bytes = 2 * slots * NODE as u64;
    let reads = counter.take().reads;
    println!("{metadata_bytes} bytes of metadata: {reads:?}");
    assert!(reads.bytes * 10 <= metadata_bytes * 11, "{reads:?}");
    assert!(
        reads.commands <= metadata_bytes / (64 << 10) + 8,
        "{reads:?}"
    );
    grow(FILES / 4).unwrap();
    assert!(u64::from(volume.slots()) > slots * 6 / 5);
    assert!(volume.moves() > 0);
    let mut names = 0;
    for number in 0..FILES {
        let name = format!("log/{number}");
        names += u32::from(blocking::run(&volume, volume.find(&name)).is_ok());
    }
    assert_eq!(names, FILES);
    assert_eq!(check(&volume, 64 << 10), []);
    unmount(volume);
}
