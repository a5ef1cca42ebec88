// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slot table that grows: wherever the power is cut, each file is found, once.

use std::cell::RefCell;
use std::rc::Rc;

use crate::harness::independent::{Scan, superblock};
use crate::harness::ops::Op;
use crate::harness::oracle::Oracle;
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Mutation, Search};
use crate::harness::sequences::{Width, every_from};
use crate::harness::{long, seed, starts};

fn empty(unit_bytes: u64, units: u64) -> Start {
    let blank = starts::empty(8, unit_bytes, units);
    starts::after("an empty table", &blank, &Oracle::default(), &[])
}

/// Short runs in which a table grows: full of files, under files that are open, in units that
/// another file had, with units shorter and longer than a bucket, and in no space at all.
pub fn lives() -> Vec<(Start, Vec<Op>)> {
    use Op::*;
    let made = [CreateReserved(0), Append(0)];
    let with = |rest: &[Op]| [&made[..], rest].concat();
    vec![
        (
            starts::crowded(),
            vec![Create(0), Grow, Create(1), Grow, Remount, Grow, Remove(0)],
        ),
        (
            empty(512, 80),
            with(&[
                Grow,
                Append(0),
                Grow,
                Commit(0),
                Grow,
                Append(0),
                Grow,
                Close(0),
                Rename(0),
            ]),
        ),
        (
            starts::leaf_before_free_units(),
            vec![Remove(0), Reap, Grow, Create(0), Grow],
        ),
        (
            empty(4096, 12),
            vec![
                CreateMany,
                Grow,
                Rename(0),
                Grow,
                Grow,
                Remove(1),
                CreateListed,
                Rename(0),
            ],
        ),
        (
            empty(256, 200),
            with(&[
                Sync(0),
                Grow,
                Remount,
                Grow,
                Remove(0),
                Grow,
                CreateMany,
                Remount,
            ]),
        ),
        (
            empty(512, 120),
            with(&[
                GrowFor48,
                Commit(0),
                Close(0),
                CreateMany,
                Rename(0),
                Remount,
                GrowFor48,
            ]),
        ),
        (
            starts::crowded(),
            vec![GrowFor48, Create(0), GrowFor48, Remount, Create(1)],
        ),
        (
            empty(512, 40),
            with(&[Grow, Grow, Close(0), Grow, Grow, Grow, Remove(0), Grow]),
        ),
    ]
}

/// Short runs in which a table that has grown gets as short as before: under files that are open,
/// full, in units that another file takes, and with long names that are gone.
pub fn ways_back() -> Vec<(Start, Vec<Op>)> {
    use Op::*;
    let made = [CreateReserved(0), Append(0)];
    let with = |rest: &[Op]| [&made[..], rest].concat();
    let named = starts::with_long_names().swap_remove(0);
    vec![
        (
            empty(512, 80),
            vec![Grow, Shrink, Grow, Grow, Shrink, Remount],
        ),
        (
            starts::crowded(),
            vec![Grow, Grow, Grow, Shrink, Remount, Create(0), Grow, Shrink],
        ),
        (
            empty(512, 120),
            with(&[Sync(0), GrowFor48, Append(0), Shrink, Append(0), Close(0)]),
        ),
        (
            empty(256, 400),
            with(&[
                Grow,
                Grow,
                CreateMany,
                Close(0),
                Rename(0),
                Shrink,
                Remove(1),
                CreateListed,
                Grow,
                Rename(0),
                Shrink,
                Grow,
                Remove(1),
                Create(1),
            ]),
        ),
        (
            starts::crowded(),
            vec![
                Create(0),
                Close(0),
                GrowFor48,
                Create(1),
                Shrink,
                Remove(0),
                Shrink,
            ],
        ),
        (
            named,
            vec![
                CreateLong(0),
                Shrink,
                Close(0),
                Remove(0),
                Grow,
                Shrink,
                CreateLongReserved(1),
                Close(1),
                Rename(1),
                Shrink,
                Remount,
                Create(0),
            ],
        ),
    ]
}

#[test]
fn the_way_back_survives_every_power_cut() {
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    for (number, (start, ops)) in ways_back().into_iter().enumerate() {
        let before = search.borrow().total();
        let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
        let run = |steps: &[Vec<Op>]| {
            let done = runner::run(&search, &start, steps, 0, &Manner::new(0));
            done.unwrap_or_else(|why| panic!("{why}")).current()
        };
        let last = ops.iter().rposition(|op| *op == Op::Shrink).unwrap();
        let bytes = run(&steps[..=last]).to_bytes();
        // It is one of 1.0 again, and nothing of what it had in between is left.
        let features = superblock(&bytes).unwrap().0;
        let is_1_0 = features.table_unit.is_none() && !features.long_names;
        assert!(is_1_0, "life {number}");
        run(&steps);
        let states = search.borrow().total() - before;
        println!("way back {number}: {states} crash states");
    }
    let total = search.borrow().total();
    println!("{total} crash states");
    assert!(total > 5000, "{total} crash states");
}

#[test]
fn a_table_that_grows_survives_every_power_cut() {
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    for (number, (start, ops)) in lives().into_iter().enumerate() {
        let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
        for seed in 0..2 {
            let before = search.borrow().total();
            let done = runner::run(&search, &start, &steps, 0, &Manner::new(seed));
            let disk = done.unwrap_or_else(|why| panic!("{why}"));
            let bytes = disk.current().to_bytes();
            let scan = Scan::new(&bytes).unwrap();
            let added = scan.added.len();
            assert_eq!(
                superblock(&bytes).unwrap().0.table_unit.is_some(),
                added > 0
            );
            println!(
                "life {number}: {added} buckets more, {} crash states",
                search.borrow().total() - before
            );
            assert!(added > 0, "life {number}");
        }
    }
    let total = search.borrow().total();
    println!("{total} crash states");
    assert!(total > 5000, "{total} crash states");
}

/// 31 of 32 slots have a file; the table doubles while one of them is written.
#[test]
fn a_table_that_is_97_percent_full_doubles_while_it_is_recorded_on() {
    use Op::*;
    let start = starts::crowded_twice();
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    let ops = [
        CreateReserved(0),
        Create(1),
        Append(0),
        Grow,
        Append(0),
        Grow,
        Sync(0),
        Reserve(0),
        Grow,
        AppendTail(0),
        Commit(0),
        Grow,
        Append(0),
        Close(0),
        Remount,
    ];
    let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
    let run = |steps: &[Vec<Op>]| {
        let done = runner::run(&search, &start, steps, 0, &Manner::new(0));
        let bytes = done.unwrap_or_else(|why| panic!("{why}")).current();
        Scan::new(&bytes.to_bytes()).unwrap()
    };
    let full = run(&steps[..2]);
    assert_eq!((full.files.len(), full.regions.slots), (31, 32));
    let doubled = run(&steps);
    assert_eq!((doubled.files.len(), doubled.added.len()), (31, 4));
    println!("{} crash states", search.borrow().total());
}

/// A crowded table whose every second bucket is full.
fn growing() -> [Start; 2] {
    [starts::crowded(), empty(512, 80)].map(|start| Start {
        oracle: Oracle {
            grows: true,
            ..start.oracle
        },
        ..start
    })
}

#[test]
fn every_sequence_beside_growth_survives_every_power_cut() {
    let counted = every_from(&growing(), 2, Width::Full, Depth::quick(), Mutation::None);
    let counted = counted.unwrap_or_else(|why| panic!("{why}"));
    println!("growth: {counted}");
    assert!(counted.total() > 10_000, "{counted}");
}

#[test]
fn long_runs_in_a_table_that_grows_survive_every_power_cut() {
    let from = seed("long_runs_in_a_table_that_grows_survive_every_power_cut");
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    for start in growing() {
        long::run(&search, &start, from, 6).unwrap_or_else(|why| panic!("{why}"));
    }
    println!("{} crash states", search.borrow().total());
}
