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
