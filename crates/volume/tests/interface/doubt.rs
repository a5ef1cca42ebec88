// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slot of a file that was removed or renamed, of which one member reads as something else:
//! each fault, of each member, after each way to free it and to use its units again, followed by
//! each operation. No file that exists loses a byte, and the other one is never shown as a file.

use std::collections::BTreeMap;

use block::RamDisk;
use straightway_volume::{CreateOptions, Error, Finding, Mutation, Node, blocking};

use crate::freed::{
    Disk, Mounted, NODE, bytes_of, checked, disk_of, extend, freed, get, interleave, names, on,
    on_as, pattern, put,
};
use crate::independent::{superblock, u64_at};

const BYTES: usize = 768 << 10;
const OLD: &str = "old";

/// What a member reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// As before it was freed: the drive lost the write.
    Stale,
    Ones,
    Zeroes,
    Torn,
    Rotten,
}

const FAULTS: [Fault; 5] = [
    Fault::Stale,
    Fault::Ones,
    Fault::Zeroes,
    Fault::Torn,
    Fault::Rotten,
];

impl Fault {
    fn strike(self, now: &[u8], before: &[u8], at: usize) -> Disk {
        let mut bytes = now.to_vec();
        let member = &mut bytes[at..at + NODE];
        match self {
            Self::Stale => member.copy_from_slice(&before[at..at + NODE]),
            Self::Ones => member.fill(0xff),
            Self::Zeroes => member.fill(0),
            // Within the header: everything behind it is zero in both.
            Self::Torn => member[..64].copy_from_slice(&before[at..at + 64]),
            Self::Rotten => member[100] ^= 1,
        }
        RamDisk::new(bytes, 9).unwrap()
    }
}

/// How the file becomes free, and who has its units then.
struct Case {
    what: &'static str,
    make: fn(&Mounted<'_>),
    free: fn(&Mounted<'_>),
    /// Bytes of a new file after that.
    new: usize,
}

fn made_whole(volume: &Mounted<'_>) {
    put(volume, OLD, &pattern(90_000, 1));
}

fn made_of_many_extents(volume: &Mounted<'_>) {
    interleave(volume, [OLD, "between"], 40);
}

fn removed(volume: &Mounted<'_>) {
    blocking::run(volume, volume.remove_whole(OLD)).unwrap();
}

fn renamed(volume: &Mounted<'_>) {
    blocking::run(volume, volume.rename(OLD, "name")).unwrap();
}

const CASES: [Case; 7] = [
    Case {
        what: "removed",
        make: made_whole,
        free: removed,
        new: 0,
    },
    Case {
        what: "removed, and all its units taken",
        make: made_whole,
        free: removed,
        new: 200_000,
    },
    Case {
        what: "removed, and some units taken",
        make: made_whole,
        free: removed,
        new: 20_000,
    },
    Case {
        what: "renamed",
        make: made_whole,
        free: renamed,
        new: 200_000,
    },
    Case {
        what: "many extents, removed",
        make: made_of_many_extents,
        free: removed,
        new: 0,
    },
    Case {
        what: "many extents, removed and taken",
        make: made_of_many_extents,
        free: removed,
        new: 300_000,
    },
    Case {
        what: "many extents, renamed",
        make: made_of_many_extents,
        free: renamed,
        new: 200_000,
    },
];

/// What someone does who sees the file.
type Act = (&'static str, fn(&Mounted<'_>));

const ACTS: [Act; 6] = [
    ("remove", |volume| {
        let _ = blocking::run(volume, volume.remove_whole(OLD));
    }),
    ("rename", |volume| {
        let _ = blocking::run(volume, volume.rename(OLD, "other"));
        let _ = blocking::run(volume, volume.remove_whole("other"));
    }),
    ("append", |volume| {
        if let Ok(file) = blocking::run(volume, volume.open_to_write(OLD)) {
            let _ = blocking::run(volume, volume.reserve(file, 9000));
            let _ = blocking::run(volume, volume.close(file));
            let _ = blocking::run(volume, volume.remove_whole(OLD));
        }
    }),
    ("replace", |volume| {
        let _ = blocking::run(volume, volume.remove_whole(OLD));
        if blocking::run(volume, volume.find(OLD)) == Err(Error::NotFound) {
            put(volume, OLD, &pattern(9000, 8));
            blocking::run(volume, volume.remove_whole(OLD)).unwrap();
        }
    }),
    ("sweep", |volume| {
        let mut next = Some(0);
        while let Some(from) = next {
            next = blocking::run(volume, volume.reclaim(from)).unwrap();
        }
    }),
    ("repair", |volume| {
        let (_, summary) = checked(volume, true);
        assert_eq!(checked(volume, false).0, [], "{summary:?}");
        assert_eq!(
            blocking::run(volume, volume.find(OLD)),
            Err(Error::NotFound)
        );
    }),
];

/// Every unit that the volume takes for free gets other bytes.
fn fill(volume: &Mounted<'_>) {
    let options = CreateOptions::default();
    let file = blocking::run(volume, volume.create("filler", &options)).unwrap();
    blocking::run(volume, volume.close(file)).unwrap();
    loop {
        let free = blocking::run(volume, volume.free_units()).unwrap();
        // A map of many extents takes some units too.
        let Some(units) = free.checked_sub(6).filter(|units| *units > 0) else {
            return;
        };
        extend(volume, "filler", &vec![0xfe; units.min(16) as usize * 4096]);
    }
}

struct Freed {
    before: Vec<u8>,
    now: Vec<u8>,
    slot: u32,
    members: [usize; 2],
    /// Everything that exists.
    files: BTreeMap<String, Vec<u8>>,
}

fn prepared(case: &Case, checksums: bool, software: Mutation) -> Freed {
    let disk = on_as(disk_of(BYTES, checksums), software, |volume| {
        put(volume, "stays", &pattern(30_000, 5));
        // It has a slot before the other file's is free.
        put(volume, "new", b"");
        (case.make)(volume);
    });
    let before = bytes_of(disk);
    let disk = RamDisk::new(before.clone(), 9).unwrap();
    let mut files = BTreeMap::new();
    let disk = on_as(disk, software, |volume| {
        (case.free)(volume);
        if case.new > 0 {
            extend(volume, "new", &pattern(case.new, 7));
        }
        for name in names(volume) {
            files.insert(name.clone(), get(volume, &name).unwrap());
        }
    });
    let now = bytes_of(disk);
    let (regions, _, _) = superblock(&before).unwrap();
    let was_live = |slot: u32| {
        let table = regions
            .slots_at
            .map(|at| at as usize + slot as usize * NODE);
        table
            .iter()
            .any(|at| before[*at + 56] != 0 && u64_at(&before, *at + 40) > 0)
    };
    let (slot, members) = *freed(&now)
        .iter()
        .find(|(slot, _)| was_live(*slot))
        .unwrap();
    Freed {
        before,
        now,
        slot,
        members,
        files,
    }
}

#[test]
fn a_freed_file_takes_nothing_from_others_whatever_its_slot_reads_as() {
    let mut revived = 0;
    for (number, case) in CASES.iter().enumerate() {
        for software in [Mutation::None, Mutation::HalfFree] {
            let freed = prepared(case, number % 2 == 0, software);
            for fault in FAULTS {
                for (which, member) in ["newest", "older"].into_iter().zip(freed.members) {
                    let what = format!("{}, {software:?}, {which} {fault:?}", case.what);
                    let strike = || fault.strike(&freed.now, &freed.before, member);
                    let is_lost = fault == Fault::Stale && which == "newest";
                    if is_lost && software == Mutation::HalfFree {
                        // Both members are those of a file in order: only a check can tell.
                        on(strike(), |volume| {
                            let (_, summary) = checked(volume, false);
                            assert!(summary.damages > 0, "{what}");
                        });
                        continue;
                    }
                    revived += u32::from(shows(strike(), &freed, &what));
                    for (act, run) in ACTS {
                        let what = format!("{what}, {act}");
                        on(strike(), |volume| {
                            run(volume);
                            all_whole(volume, &freed, &what);
                            fill(volume);
                            all_whole(volume, &freed, &what);
                        });
                    }
                }
            }
        }
    }
    // Of the newest member: by old software each fault but the lost write, and of ours only that.
    // A file of many extents is marked first, so what its slot had before is not what was lost.
    assert_eq!(revived, 7 * 4 + 5);
}

fn all_whole(volume: &Mounted<'_>, freed: &Freed, what: &str) {
    for (name, data) in &freed.files {
        let whole = get(volume, name).as_ref() == Ok(data);
        assert!(whole, "{what}: `{name}` has changed");
    }
}

/// Whether the slot has the file again, listed or still to be reaped: a check names it, and it is
/// refused.
fn shows(disk: Disk, freed: &Freed, what: &str) -> bool {
    let mut is_back = false;
    on(disk, |volume| {
        let (found, summary) = checked(volume, false);
        let slot = freed.slot;
        is_back = found == [Finding::Revived { slot }];
        assert!(is_back || summary.damages == 0, "{what}: {found:?}");
        if names(volume).iter().any(|name| name == OLD) {
            assert!(is_back, "{what}: {found:?}");
            let refused = Err(Error::from(Node::Slot(slot)));
            assert_eq!(get(volume, OLD).map(|_| ()), refused, "{what}");
            let mapped = blocking::run(volume, volume.extents(OLD, |_| true));
            assert_eq!(mapped, refused, "{what}");
        }
        all_whole(volume, freed, what);
    });
    is_back
}
