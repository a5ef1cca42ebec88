// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names of more than 64 bytes: wherever the power is cut, no slot has one before the superblock
//! says so, and a file has the old or the new name.

use std::cell::RefCell;
use std::rc::Rc;

use crate::harness::independent::{Scan, superblock};
use crate::harness::ops::Op;
use crate::harness::oracle::{FILES, LONG, NAMES};
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Mutation, Search};
use crate::harness::sequences::{Width, every_from};
use crate::harness::{long, seed, starts};

/// Short runs in which a long name is the first of its volume, in each way that makes one, after an
/// operation whose nodes may still be in the device's cache.
pub fn lives() -> Vec<(Start, Vec<Op>)> {
    use Op::*;
    let starts: [Start; 3] = starts::with_long_names().try_into().ok().unwrap();
    let [empty, one, full] = starts;
    let busy = [CreateReserved(0), Append(0), Commit(0), Reserve(0)];
    let after_busy = |op: Op| (empty.clone(), [&busy[..], &[op]].concat());
    vec![
        after_busy(CreateLong(1)),
        after_busy(CreateLongReserved(1)),
        after_busy(CreateManyLong),
        after_busy(CreateListedLong),
        (one.clone(), vec![CreateLong(1), Append(1), Close(1)]),
        (
            one,
            vec![RenameToLong(0), Remount, Rename(0), RenameToLong(0)],
        ),
        (
            full,
            vec![RenameToLong(0), Open(0), Append(0), Close(0), Rename(0)],
        ),
    ]
}

#[test]
fn each_way_to_a_first_long_name_survives_every_power_cut() {
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    for (start, ops) in lives() {
        let mut steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
        steps.push(vec![Op::Remount]);
        for seed in 0..2 {
            let done = runner::run(&search, &start, &steps, 0, &Manner::new(seed));
            let disk = done.unwrap_or_else(|why| panic!("{why}"));
            let (regions, ..) = superblock(&disk.current().to_bytes()).unwrap();
            assert!(regions.long_names, "{ops:?} made no long name");
        }
    }
    let total = search.borrow().total();
    println!("{total} crash states");
    assert!(total > 1000, "{total} crash states");
}

#[test]
fn every_sequence_with_long_names_survives_every_power_cut() {
    let starts = starts::with_long_names();
    let counted = every_from(&starts, 2, Width::Quick, Depth::quick(), Mutation::None);
    let counted = counted.unwrap_or_else(|why| panic!("{why}"));
    println!("long names: {counted}");
    assert!(counted.total() > 5_000, "{counted}");
}

#[test]
fn long_runs_with_long_names_survive_every_power_cut() {
    let from = seed("long_runs_with_long_names_survive_every_power_cut");
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    for start in starts::with_long_names() {
        long::run(&search, &start, from, 3).unwrap_or_else(|why| panic!("{why}"));
    }
    println!("{} crash states", search.borrow().total());
}

/// Without a long name a volume with nodes of 512 bytes has no new feature.
#[test]
fn a_volume_of_short_names_stays_one_of_1_0() {
    use Op::*;
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    let empty = &starts::with_long_names()[0];
    let ops = [
        CreateMany,
        Rename(0),
        Remove(1),
        CreateReserved(1),
        Close(1),
    ];
    let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
    let disk = runner::run(&search, empty, &steps, usize::MAX, &Manner::new(0)).unwrap();
    let bytes = disk.current().to_bytes();
    assert!(!superblock(&bytes).unwrap().0.long_names);
    assert_eq!(Scan::new(&bytes).unwrap().files.len(), FILES);
    assert!(NAMES.iter().all(|names| names[LONG].len() == 255));
}
