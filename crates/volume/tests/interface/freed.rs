// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file that was removed or renamed does not come back when one copy of its slot rots; and where
//! a program freed the slot in one member only, it takes no unit from another file.

use crate::independent::{superblock, u64_at};
use crate::support::{buffer, files, filled, free, make, memory};
use block::RamDisk;
use straightway_volume::{
    CreateOptions, Error, Finding, FormatOptions, MountOptions, Mutation, NewFile, Node, Summary,
    Volume, blocking,
};

pub(crate) type Disk = RamDisk<Vec<u8>, 8>;
pub(crate) type Mounted<'a> = Volume<'a, Disk>;

/// What is done to a volume, and its name.
type Before = (&'static str, Box<dyn Fn(&Mounted<'_>)>);

pub(crate) const NODE: usize = 512;
const BYTES: usize = 4 << 20;

fn disk(checksums: bool) -> Disk {
    disk_of(BYTES, checksums)
}

pub(crate) fn disk_of(bytes: usize, checksums: bool) -> Disk {
    let mut disk = RamDisk::new(vec![0; bytes], 9).unwrap();
    let options = FormatOptions {
        unit_bytes: Some(4096),
        node_bytes: Some(NODE as u32),
        slots: Some(16),
        checksums,
        uuid: [9; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

/// Mounts with a mutation, runs `body`, and unmounts.
pub(crate) fn on_as(disk: Disk, mutation: Mutation, body: impl FnOnce(&Mounted<'_>)) -> Disk {
    let mut table = files();
    let options = MountOptions::default();
    let volume = Volume::mount_mutated(disk, memory(NODE, 3), &mut table, &options, mutation);
    let volume = volume.map_err(|unmounted| unmounted.result).unwrap();
    body(&volume);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    unmounted.device
}

pub(crate) fn on(disk: Disk, body: impl FnOnce(&Mounted<'_>)) -> Disk {
    on_as(disk, Mutation::None, body)
}

pub(crate) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| random.u8(..)).collect()
}

pub(crate) fn put(volume: &Mounted<'_>, name: &str, data: &[u8]) {
    let options = CreateOptions {
        reserve_bytes: data.len() as u64,
        checksums: volume.status().checksums,
        app_tag: 0,
    };
    let file = blocking::run(volume, volume.create(name, &options)).unwrap();
    blocking::run(volume, volume.close(file)).unwrap();
    extend(volume, name, data);
}

pub(crate) fn extend(volume: &Mounted<'_>, name: &str, data: &[u8]) {
    let file = blocking::run(volume, volume.open_to_write(name)).unwrap();
    for part in data.chunks(65_536) {
        let outcome = blocking::append(volume, file, filled(part, 512), part.len());
        free(outcome.buffer);
        outcome.result.unwrap();
    }
    blocking::run(volume, volume.close(file)).unwrap();
}

pub(crate) fn get(volume: &Mounted<'_>, name: &str) -> Result<Vec<u8>, Error> {
    let size = blocking::run(volume, volume.find(name))?.size_bytes as usize;
    let file = blocking::run(volume, volume.open(name))?;
    let mut all = Vec::new();
    while all.len() < size {
        let len = (size - all.len()).min(65_536);
        let memory = buffer(len.next_multiple_of(512));
        let outcome = blocking::read(volume, file, all.len() as u64, memory);
        all.extend_from_slice(&outcome.buffer[..len]);
        free(outcome.buffer);
        outcome.result?;
    }
    blocking::run(volume, volume.close(file))?;
    Ok(all)
}

/// Two files that take turns, so that each has many extents and a leaf.
pub(crate) fn interleave(volume: &Mounted<'_>, names: [&str; 2], extents: usize) {
    let options = CreateOptions::default();
    let handles = names.map(|name| blocking::run(volume, volume.create(name, &options)).unwrap());
    for _ in 0..extents {
        for file in handles {
            let outcome = blocking::append(volume, file, buffer(4096), 4096);
            free(outcome.buffer);
            outcome.result.unwrap();
        }
    }
    for file in handles {
        blocking::run(volume, volume.close(file)).unwrap();
    }
}

pub(crate) fn names(volume: &Mounted<'_>) -> Vec<String> {
    let mut names = Vec::new();
    let each = |entry: straightway_volume::StoredFile| {
        names.push(entry.name.as_str().to_owned());
        true
    };
    blocking::run(volume, volume.files(0, each)).unwrap();
    names.sort();
    names
}

pub(crate) fn checked(volume: &Mounted<'_>, repair: bool) -> (Vec<Finding>, Summary) {
    let mut found = Vec::new();
    let mut scratch = [0; 4096];
    let mut report = |finding| found.push(finding);
    let summary = if repair {
        blocking::run(volume, volume.repair(&mut scratch, &mut report))
    } else {
        blocking::run(volume, volume.check(&mut scratch, &mut report))
    };
    (found, summary.unwrap())
}

pub(crate) fn bytes_of(mut disk: Disk) -> Vec<u8> {
    let len = block::Device::geometry(&disk).size_bytes() as usize;
    let outcome = block::blocking::read(&mut disk, 0, buffer(len));
    let bytes = outcome.buffer.to_vec();
    free(outcome.buffer);
    bytes
}

/// The addresses of the newest and of the older member of each slot whose newest one is free.
pub(crate) fn freed(bytes: &[u8]) -> Vec<(u32, [usize; 2])> {
    let (regions, _, _) = superblock(bytes).unwrap();
    let pair = |slot: u64| {
        let mut at = regions
            .slots_at
            .map(|table| (table + slot * NODE as u64) as usize);
        at.sort_by_key(|at| std::cmp::Reverse(u64_at(bytes, at + 8)));
        (slot as u32, at)
    };
    let all = (0..regions.slots).map(pair);
    all.filter(|(_, [newest, _])| bytes[newest + 56] == 0)
        .collect()
}

/// Every way in which a slot becomes free.
fn free_slots(volume: &Mounted<'_>) {
    let pay = pattern(100_000, 1);
    put(volume, "removed", &pay);
    put(volume, "renamed", &pay);
    put(volume, "empty", b"");
    let new = ["one", "two"].map(|name| NewFile {
        name,
        data: &pay[..5000],
        mtime_ns: 0,
        app_tag: 0,
    });
    blocking::run(volume, volume.create_many(&new, false)).unwrap();
    interleave(volume, ["long", "between"], 40);
    blocking::run(volume, volume.remove("removed")).unwrap();
    blocking::run(volume, volume.remove("one")).unwrap();
    blocking::run(volume, volume.remove("empty")).unwrap();
    blocking::run(volume, volume.rename("renamed", "name")).unwrap();
    blocking::run(volume, volume.remove_whole("long")).unwrap();
    blocking::run(volume, volume.remove("between")).unwrap();
    let mut next = Some(0);
    while let Some(from) = next {
        next = blocking::run(volume, volume.reap(from)).unwrap();
    }
    blocking::run(volume, volume.resize(BYTES as u64 - (64 << 10))).unwrap();
    blocking::run(volume, volume.resize(BYTES as u64)).unwrap();
}

#[test]
fn a_freed_slot_stays_free_whichever_copy_rots() {
    for checksums in [false, true] {
        let bytes = bytes_of(on(disk(checksums), free_slots));
        let freed = freed(&bytes);
        assert_eq!(freed.len(), 14);
        for (slot, members) in freed {
            for member in members {
                let mut rotten = bytes.clone();
                rotten[member + 100] ^= 1;
                on(RamDisk::new(rotten, 9).unwrap(), |volume| {
                    assert_eq!(names(volume), ["name", "two"], "slot {slot}");
                    assert!(get(volume, "name") == Ok(pattern(100_000, 1)));
                    let one_copy = Finding::OneCopy(Node::Slot(slot));
                    assert_eq!(checked(volume, false).0, [one_copy]);
                });
            }
        }
    }
}

/// An old volume, whose slots were freed in one member, after rot of that one.
fn revived(checksums: bool, before: impl FnOnce(&Mounted<'_>)) -> (u32, Disk) {
    let bytes = bytes_of(on_as(disk(checksums), Mutation::HalfFree, before));
    let freed = freed(&bytes);
    let has_file = |(_, [_, older]): &&(u32, [usize; 2])| bytes[older + 56] != 0;
    let (slot, [newest, _]) = *freed.iter().find(has_file).unwrap();
    let mut rotten = bytes;
    rotten[newest + 100] ^= 1;
    (slot, RamDisk::new(rotten, 9).unwrap())
}

fn refused(volume: &Mounted<'_>, name: &str, slot: u32) {
    let refused = Err(Error::from(Node::Slot(slot)));
    assert_eq!(blocking::run(volume, volume.remove(name)), refused);
    assert_eq!(blocking::run(volume, volume.remove_whole(name)), refused);
    assert_eq!(blocking::run(volume, volume.rename(name, "c")), refused);
    assert_eq!(get(volume, name).map(|_| ()), refused);
    let mapped = blocking::run(volume, volume.extents(name, |_| true));
    assert_eq!(mapped, refused);
    let opened = blocking::run(volume, volume.open_to_write(name));
    assert_eq!(opened.map(|_| ()), refused);
    let mut next = Some(0);
    while let Some(from) = next {
        next = blocking::run(volume, volume.reclaim(from)).unwrap();
    }
}

#[test]
fn a_file_that_comes_back_takes_nothing_from_the_one_that_has_its_units() {
    let pay = pattern(393_216, 2);
    let mut befores: Vec<Before> = Vec::new();
    befores.push((
        "a renamed file",
        Box::new(|volume| {
            put(volume, "old", &pattern(393_216, 2));
            blocking::run(volume, volume.rename("old", "new")).unwrap();
        }),
    ));
    befores.push((
        "a removed file",
        Box::new(|volume| {
            put(volume, "old", &pattern(500_000, 3));
            put(volume, "new", b"");
            blocking::run(volume, volume.remove("old")).unwrap();
            extend(volume, "new", &pattern(393_216, 2));
        }),
    ));
    befores.push((
        "a file of many extents, below a leaf",
        Box::new(|volume| {
            interleave(volume, ["old", "between"], 200);
            put(volume, "new", b"");
            blocking::run(volume, volume.rename("old", "name")).unwrap();
            blocking::run(volume, volume.remove_whole("between")).unwrap();
            extend(volume, "new", &pattern(393_216, 2));
        }),
    ));
    for checksums in [false, true] {
        for (what, before) in &befores {
            let (slot, disk) = revived(checksums, before);
            on(disk, |volume| {
                // The one of the two whose slot was freed first in the table.
                let shown = names(volume);
                let is_shown = |name: &str| shown.iter().any(|shown| shown == name);
                let name = if is_shown("old") { "old" } else { "between" };
                refused(volume, name, slot);
                assert!(get(volume, "new") == Ok(pay.clone()), "{what}");
                let free = blocking::run(volume, volume.free_units()).unwrap();
                // A check finds it, a repair frees its slot, and nothing else is missing.
                let (found, _) = checked(volume, false);
                assert_eq!(found, [Finding::Revived { slot }], "{what}");
                assert_eq!(checked(volume, true).0, [Finding::Revived { slot }]);
                assert_eq!(checked(volume, false).0, [], "{what}");
                let gone = blocking::run(volume, volume.find(name));
                assert_eq!(gone, Err(Error::NotFound));
                assert_eq!(blocking::run(volume, volume.free_units()), Ok(free));
                put(volume, "more", &pattern(70_000, 5));
                assert!(get(volume, "new") == Ok(pay.clone()), "{what}");
            });
        }
    }
}

/// Its units are free: that proves the removal, whatever is in them.
#[test]
fn a_file_that_comes_back_before_its_units_are_used_is_refused() {
    for checksums in [false, true] {
        let (slot, disk) = revived(checksums, |volume| {
            put(volume, "old", &pattern(300_000, 4));
            blocking::run(volume, volume.remove("old")).unwrap();
        });
        on(disk, |volume| {
            refused(volume, "old", slot);
            let free = blocking::run(volume, volume.free_units()).unwrap();
            assert_eq!(checked(volume, false).0, [Finding::Revived { slot }]);
            assert_eq!(checked(volume, true).0, [Finding::Revived { slot }]);
            assert_eq!(checked(volume, false).0, []);
            assert_eq!(names(volume), [""; 0]);
            assert_eq!(blocking::run(volume, volume.free_units()), Ok(free));
            put(volume, "old", &pattern(300_000, 6));
            assert!(get(volume, "old") == Ok(pattern(300_000, 6)));
            blocking::run(volume, volume.remove("old")).unwrap();
            assert_eq!(checked(volume, false).0, []);
        });
    }
}

/// A closed file has two equal members: of those either may rot, and it is changed as before.
#[test]
fn a_file_that_is_in_order_survives_the_rot_of_one_copy() {
    let bytes = bytes_of(on(disk(true), |volume| {
        put(volume, "a", &pattern(300_000, 4))
    }));
    let (regions, _, _) = superblock(&bytes).unwrap();
    let slots = (0..regions.slots).map(|slot| regions.slots_at.map(|at| at + slot * NODE as u64));
    let has_file = |at: &[u64; 2]| bytes[at[0] as usize + 56] != 0;
    for member in slots.filter(has_file).flatten() {
        let mut rotten = bytes.clone();
        rotten[member as usize + 100] ^= 1;
        on(RamDisk::new(rotten, 9).unwrap(), |volume| {
            assert!(get(volume, "a") == Ok(pattern(300_000, 4)));
            blocking::run(volume, volume.rename("a", "b")).unwrap();
            blocking::run(volume, volume.remove("b")).unwrap();
            assert_eq!(checked(volume, false).0, []);
        });
    }
}

/// What a repair does to a volume whose slots were freed in one member.
#[test]
fn a_repair_frees_the_other_member_of_old_slots() {
    let old = on_as(disk(true), Mutation::HalfFree, free_slots);
    let repaired = on(old, |volume| {
        let (found, summary) = checked(volume, true);
        assert_eq!(found, []);
        assert!(summary.repaired > 3, "{summary:?}");
    });
    let bytes = bytes_of(repaired);
    let half = |(_, [_, older]): &(u32, [usize; 2])| bytes[older + 56] != 0;
    assert!(!freed(&bytes).iter().any(half));
}
