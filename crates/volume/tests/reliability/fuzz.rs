// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Forged images: fields of nodes changed at random, with corrected checksums. Nothing panics or
//! hangs, and each operation submits a bounded number of device commands.
//!
//! The bound: looking a name up reads both members of two buckets (32 nodes); a map is two leaf
//! pairs under the slot, read in three reads each; an allocation looks at each bitmap's two
//! members once; a release or reservation writes at most four pairs, the record, four bitmaps and
//! the slot, with three flushes. So [`bound`] covers each single operation with room to spare, and
//! a close takes at most one operation per unit.

use std::cell::RefCell;
use std::rc::Rc;

use block::Device;
use crash::{Budget, Config, Counter, Counting, CrashDisk, Medium};
use straightway_volume::{CreateOptions, MountOptions, NewFile, OpenFile, Volume, blocking};

use crate::harness::independent::{Regions, node_crc, superblock, u64_at};
use crate::harness::ops::Op;
use crate::harness::oracle::{LONG, NAMES};
use crate::harness::probe::{Hook, Probe};
use crate::harness::search::{FILLER, Mutation, mount};
use crate::harness::seed;
use crate::harness::starts;
use crate::harness::support::{buffer, filled, free, memory};

/// Four fifths are images of 1.1, of which at least [`OF_1_1`] are wanted.
const ROUNDS: u64 = 13_000;
const OF_1_1: u64 = 10_000;

fn bound(r: &Regions) -> u64 {
    160 + 4 * r.slots + 2 * r.groups
}

/// How often that, where a file may be in doubt: for each sixteen of its extents, the table and all
/// maps are read once.
fn turns_of_doubt(r: &Regions) -> u64 {
    2 + r.units / 16
}

/// Field offsets and widths.
const SLOT: &[(usize, usize)] = &[
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 8),
    (56, 1),
    (57, 1),
    (58, 1),
    (60, 4),
    (64, 4),
    (68, 4),
    (80, 1),
    (144, 8),
    (152, 4),
    (156, 4),
    (160, 8),
    (168, 8),
    (240, 8),
];
/// Those of a slot with a name of 255 bytes, whose entries begin at 336.
const LONG_SLOT: &[(usize, usize)] = &[
    (24, 8),
    (40, 8),
    (56, 1),
    (57, 1),
    (58, 1),
    (60, 4),
    (80, 8),
    (144, 8),
    (328, 8),
    (336, 8),
    (344, 4),
    (348, 4),
    (504, 8),
];
const LEAF: &[(usize, usize)] = &[
    (16, 8),
    (24, 8),
    (32, 8),
    (40, 4),
    (44, 4),
    (64, 8),
    (72, 4),
    (76, 4),
    (80, 8),
    (88, 8),
    (240, 8),
    (248, 8),
];
const BITMAP: &[(usize, usize)] = &[
    (16, 8),
    (24, 8),
    (32, 4),
    (128, 8),
    (136, 1),
    (200, 8),
    (248, 8),
];
const SUPERBLOCK: &[(usize, usize)] = &[
    (12, 2),
    (16, 8),
    (40, 8),
    (48, 1),
    (49, 1),
    (50, 1),
    (51, 1),
    (52, 4),
    (56, 4),
    (60, 4),
    (72, 8),
    (80, 8),
    (88, 8),
    (96, 8),
    (104, 8),
    (112, 8),
    (120, 4),
    (128, 4),
    (132, 4),
    (136, 4),
    (140, 4),
    (144, 8),
    (152, 4),
    (160, 8),
    (168, 4),
    (192, 8),
    (200, 4),
    (240, 8),
    (248, 4),
    (252, 4),
];
const LIST: &[(usize, usize)] = &[(16, 8), (24, 4), (28, 4), (64, 4), (68, 4), (72, 4)];

/// The address of every node, with its fields.
fn places(bytes: &[u8], r: &Regions) -> Vec<(u64, &'static [(usize, usize)])> {
    let node = r.node as u64;
    let mut places = vec![(0, SUPERBLOCK), (65_536, SUPERBLOCK)];
    for table in r.slots_at {
        let slots = (0..r.slots).map(|slot| table + slot * node);
        places.extend(slots.map(|at| match bytes[at as usize + 58] {
            ..=64 => (at, SLOT),
            _ => (at, LONG_SLOT),
        }));
    }
    for table in r.bitmaps_at {
        places.extend((0..r.groups).map(|group| (table + group * node, BITMAP)));
    }
    let data = (r.data_start..bytes.len() as u64).step_by(r.node);
    places.extend(
        data.filter_map(|at| match &bytes[at as usize..at as usize + 4] {
            b"SWlf" => Some((at, LEAF)),
            b"SWnf" => Some((at, LIST)),
            // The table node, and the slots of a table that has grown.
            b"SWsl" => Some((at, SLOT)),
            _ => None,
        }),
    );
    // As often as all others: most of the rest is slots.
    if let Some(unit) = r.table_unit {
        let members = r.leaf_at(unit).map(|at| (at, SLOT));
        places.extend(members.into_iter().cycle().take(places.len() / 2));
    }
    places
}

fn forge(medium: &Medium, random: &mut fastrand::Rng) -> Medium {
    let bytes = medium.to_bytes();
    let (r, _, _) = superblock(&bytes).unwrap();
    let places = places(&bytes, &r);
    let mut medium = medium.clone();
    for _ in 0..random.usize(1..=3) {
        let (at, fields) = places[random.usize(0..places.len())];
        let changes: Vec<_> = (0..random.usize(1..=3))
            .map(|_| {
                let (offset, width) = fields[random.usize(0..fields.len())];
                let value = match random.u32(0..8) {
                    0 => 0,
                    1 => u64::MAX,
                    2 => 1 << random.u32(0..64),
                    3 => random.u64(0..r.units + 4),
                    4 => u64_at(&bytes, at as usize + (offset & !7)).wrapping_add(1),
                    5 => u64_at(&bytes, at as usize + (offset & !7)).wrapping_sub(1),
                    6 => random.u64(0..300),
                    _ => random.u64(..),
                };
                (offset, width, value)
            })
            .collect();
        // Occasionally the other member too, or the forged one may never be read.
        let is_superblock = at == 0 || at == 65_536;
        let field = if is_superblock { 8 } else { 4 };
        let identity: &[u8] = if is_superblock { &[] } else { &r.uuid };
        medium
            .edit(at >> medium.block_size_log2(), |block| {
                for (offset, width, value) in changes {
                    block[offset..offset + width].copy_from_slice(&value.to_le_bytes()[..width]);
                }
                if random.bool() {
                    // Newer than the other member, and still valid for this one.
                    let seq = if is_superblock { 16 } else { 8 };
                    let newer = u64_at(block, seq).wrapping_add(2);
                    block[seq..seq + 8].copy_from_slice(&newer.to_le_bytes());
                }
                let crc = node_crc(identity, at, block, field);
                block[field..field + 4].copy_from_slice(&crc.to_le_bytes());
            })
            .unwrap();
    }
    medium
}

/// Counts the commands of each operation.
struct Watch {
    counter: Counter,
    bound: u64,
    most: u64,
}

impl Watch {
    fn check(&mut self, what: &str, turns: u64) {
        let count = self.counter.take().commands();
        self.most = self.most.max(count);
        let bound = self.bound * turns;
        assert!(
            count <= bound,
            "{what}: {count} commands, more than {bound}"
        );
    }
}

/// Reads all of a volume, without recovery; returns the most commands that one operation took.
fn look(disk: CrashDisk, r: &Regions) -> u64 {
    let device = Counting::new(Probe::new(disk, None));
    let mut watch = Watch {
        counter: device.counter(),
        bound: bound(r),
        most: 0,
    };
    let mut files: [OpenFile; 1] = Default::default();
    let options = MountOptions {
        read_only: true,
        ..MountOptions::default()
    };
    let mounted = Volume::mount(device, memory(1024, 7), &mut files, &options);
    watch.check("mount", 1);
    let volume = match mounted {
        Ok(volume) => volume,
        Err(unmounted) => {
            unmounted.memory.into_iter().flatten().for_each(free);
            return watch.most;
        }
    };
    let slots = u64::from(volume.slots());
    watch.bound = watch.bound.max(160 + 4 * slots);
    let mut scratch = vec![0; 4096];
    let _ = blocking::run(&volume, volume.check(&mut scratch, &mut |_| ()));
    // Each slot may be in doubt, and have as many leaves as fit.
    watch.check("check", slots * turns_of_doubt(r));
    let _ = blocking::run(&volume, volume.usage());
    watch.check("usage", 1);
    volume.abandon().memory.into_iter().flatten().for_each(free);
    watch.most
}

/// Runs every operation of a volume; returns the most commands that one took.
fn exercise(disk: CrashDisk, r: &Regions) -> u64 {
    let device = Counting::new(Probe::new(disk, None));
    let mut watch = Watch {
        counter: device.counter(),
        bound: bound(r),
        most: 0,
    };
    let mut files: [OpenFile; 3] = Default::default();
    let options = MountOptions::default();
    // Larger memory than the honest volume needs: a forged one may have larger nodes.
    let mounted = Volume::mount(device, memory(1024, 0), &mut files, &options);
    watch.check("mount", 1);
    let volume = match mounted {
        Ok(volume) => volume,
        Err(unmounted) => {
            unmounted.memory.into_iter().flatten().for_each(free);
            return watch.most;
        }
    };
    let slots = u64::from(volume.slots());
    watch.bound = watch.bound.max(160 + 4 * slots);
    let mut from = Some(0);
    while let Some(slot) = from {
        let entry = blocking::run(&volume, volume.next_file(slot));
        watch.check("next_file", 1);
        from = entry.ok().flatten().map(|entry| entry.slot + 1);
    }
    let names = [
        NAMES[0][0],
        NAMES[1][0],
        FILLER,
        NAMES[0][LONG],
        NAMES[1][LONG],
    ];
    for name in names {
        let _ = blocking::run(&volume, volume.find(name));
        watch.check("find", 1);
        visit(&volume, name, r, &mut watch);
    }
    let created = blocking::run(&volume, volume.create("new", &CreateOptions::default()));
    watch.check("create", 1);
    if let Ok(file) = created {
        let _ = blocking::run(&volume, volume.close(file));
        watch.check("close", 1);
    }
    let _ = blocking::run(&volume, volume.rename("new", "newer"));
    watch.check("rename", turns_of_doubt(r));
    let _ = blocking::run(&volume, volume.rename(NAMES[0][0], NAMES[0][LONG]));
    watch.check("rename", turns_of_doubt(r));
    let _ = blocking::run(&volume, volume.rename(NAMES[1][LONG], NAMES[1][0]));
    watch.check("rename", turns_of_doubt(r));
    let _ = blocking::run(&volume, volume.remove(NAMES[0][0]));
    watch.check("remove", turns_of_doubt(r));
    for _ in 0..2 {
        let _ = blocking::run(&volume, volume.grow_table());
        // Each of eight files of a bucket may move, and find no room at once.
        watch.check("grow", 10 * turns_of_doubt(r));
    }
    let _ = blocking::run(&volume, volume.grow_table_for(24));
    watch.check("grow for 24", 200 * turns_of_doubt(r));
    let new = |name| NewFile {
        name,
        data: &[7; 300],
        mtime_ns: 0,
        app_tag: 0,
    };
    let new = ["batch 1", "batch 2", "batch 3"].map(new);
    let _ = blocking::run(&volume, volume.create_many(&new[..1], false));
    watch.check("create many", 2 * turns_of_doubt(r));
    let _ = blocking::run(&volume, volume.create_batch::<13>(&new[1..], false));
    watch.check("create a list", 2 * turns_of_doubt(r));
    let removed = ["batch 2", "batch 3", NAMES[1][0]];
    let _ = blocking::run(&volume, volume.remove_batch::<13>(&removed));
    watch.check("remove a list", 2 * turns_of_doubt(r));
    let mut next = Some(0);
    for _ in 0..4 * r.units {
        let Some(from) = next else { break };
        next = blocking::run(&volume, volume.reap(from)).unwrap_or(None);
        watch.check("reap", turns_of_doubt(r));
    }
    assert_eq!(next, None, "reaping does not end");
    let _ = blocking::run(&volume, volume.free_units());
    watch.check("free_units", 1);
    let slots = u64::from(volume.slots());
    let mut scratch = vec![0; 4096];
    let _ = blocking::run(&volume, volume.repair(&mut scratch, &mut |_| ()));
    watch.check("repair", 2 * slots * turns_of_doubt(r));
    let _ = blocking::run(&volume, volume.back_to_1_0());
    watch.check("the way back", 10 * slots * turns_of_doubt(r));
    let unmounted = volume.unmount();
    watch.check("unmount", 1);
    assert!(unmounted.memory.iter().all(Option::is_some));
    unmounted.memory.into_iter().flatten().for_each(free);
    watch.most
}

fn visit<D: Device>(volume: &Volume<'_, D>, name: &str, r: &Regions, watch: &mut Watch) {
    let Ok(file) = blocking::run(volume, volume.open_to_write(name)) else {
        watch.check("open", turns_of_doubt(r));
        return;
    };
    watch.check("open", turns_of_doubt(r));
    let block = volume.geometry().block_size_bytes();
    for offset in [0, 4096] {
        let outcome = blocking::read(volume, file, offset, buffer(block));
        free(outcome.buffer);
        watch.check("read", 1);
    }
    let outcome = blocking::append(volume, file, filled(&vec![1; block], block), block);
    free(outcome.buffer);
    watch.check("append", 2);
    let _ = blocking::run(volume, volume.reserve(file, 3 * r.unit));
    watch.check("reserve", 4);
    let _ = blocking::run(volume, volume.sync(file));
    watch.check("sync", 1);
    let _ = blocking::run(volume, volume.close(file));
    // Each iteration gives back at least one unit.
    watch.check("close", r.units + 2);
}

/// A file of many extents with a long name, whose map has a level for that, and one with its
/// extents in the slot.
fn long_names() -> Medium {
    let full = &starts::with_long_names()[2];
    let ops = [
        Op::RenameToLong(0),
        Op::CreateLongReserved(1),
        Op::Append(1),
    ];
    starts::after("long names", &full.medium, &full.oracle, &ops).medium
}

/// A table of five buckets, with files in both of its parts.
fn grown() -> Medium {
    let crowded = starts::crowded();
    let ops = [Op::Create(0), Op::Grow, Op::Grow, Op::Create(1), Op::Grow];
    starts::after(
        "a table that has grown",
        &crowded.medium,
        &crowded.oracle,
        &ops,
    )
    .medium
}

/// A volume that was left after new files in a list were made, and before their record was removed.
fn listed() -> Medium {
    let disk = starts::empty(8, 512, 40).open(Config::default());
    let mut files: [OpenFile; 1] = Default::default();
    let volume = mount(disk.clone(), starts::NODE, &mut files, Mutation::KeepList).unwrap();
    let new = [0, 1].map(|file| NewFile {
        name: NAMES[file][0],
        data: &[7; 700],
        mtime_ns: 0,
        app_tag: 0,
    });
    let made = blocking::run(&volume, volume.create_batch::<13>(&new, true));
    assert_eq!(made.unwrap().files, 2);
    volume.abandon().memory.into_iter().flatten().for_each(free);
    disk.current()
}

/// A volume that was left in the middle of a removal: its files are to be reaped.
fn removed() -> Medium {
    let medium = listed();
    let disk = medium.open(Config::default());
    let mut files: [OpenFile; 1] = Default::default();
    let found = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&found);
    let hook: Hook = Rc::new(RefCell::new(move |disk: &CrashDisk| {
        let medium = disk.current();
        let bytes = medium.to_bytes();
        let is_removal = [0, 65_536]
            .iter()
            .any(|at| u64_at(&bytes, at + 56) & 64 != 0);
        if is_removal {
            keep.borrow_mut().get_or_insert(medium);
        }
    }));
    let device = Probe::new(disk, Some(hook));
    let volume = mount(device, starts::NODE, &mut files, Mutation::None).unwrap();
    let names = [0, 1].map(|file| NAMES[file][0]);
    assert_eq!(
        blocking::run(&volume, volume.remove_batch::<13>(&names)),
        Ok(2)
    );
    volume.abandon().memory.into_iter().flatten().for_each(free);
    found.take().unwrap()
}

#[test]
fn forged_images_do_no_harm() {
    let seed = seed("forged_images_do_no_harm");
    let blank = starts::empty(8, 512, 40);
    let none = crate::harness::oracle::Oracle::default();
    let ops = [
        Op::CreateReserved(0),
        Op::Append(0),
        Op::CreateChecked(1),
        Op::AppendTail(1),
        Op::Close(0),
        Op::Close(1),
    ];
    let of_1_0 = [
        starts::after("two files", &blank, &none, &ops).medium,
        starts::fragmented(512, 12).0,
        starts::fragmented(256, 96).0,
    ];
    let of_1_1 = [long_names(), grown(), listed(), removed()];
    for (medium, feature) in of_1_1.iter().zip([16, 32, 8, 64]) {
        let features = u64_at(&medium.to_bytes(), 56).max(u64_at(&medium.to_bytes(), 65_592));
        assert!(features & feature != 0, "{features:#x}");
    }
    let mut new_images = 0;
    let mut most = 0;
    let budget = Budget::or(Budget::of_states(ROUNDS)).unwrap();
    let mut rounds = 0;
    while budget.allows(rounds) {
        let round = rounds;
        rounds += 1;
        let round_seed = seed.wrapping_add(round);
        let mut random = fastrand::Rng::with_seed(round_seed);
        let is_new = random.u32(0..5) > 0;
        new_images += u64::from(is_new);
        let media = if is_new { &of_1_1[..] } else { &of_1_0[..] };
        let medium = &media[random.usize(0..media.len())];
        let (r, _, _) = superblock(&medium.to_bytes()).unwrap();
        let forged = forge(medium, &mut random);
        let result = std::panic::catch_unwind(|| {
            let seen = look(forged.open(Config::default()), &r);
            seen.max(exercise(forged.open(Config::default()), &r))
        });
        match result {
            Ok(count) => most = most.max(count),
            Err(_) => panic!("round {round}: repeat with STRAIGHTWAY_SEED={round_seed}"),
        }
    }
    println!(
        "{rounds} forged images, {new_images} of them of 1.1, at most {most} commands an operation"
    );
    assert!(new_images >= OF_1_1 || !budget.is_default());
}
