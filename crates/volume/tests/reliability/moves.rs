// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that move to their other bucket to make room for a name: wherever the power is cut, each
//! is there once.

use std::cell::RefCell;
use std::rc::Rc;

use crate::harness::ops::Op;
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Mutation, Search};
use crate::harness::sequences::{Width, every_from};
use crate::harness::{long, seed, starts};

#[test]
fn a_move_that_makes_room_survives_every_power_cut() {
    let start = [starts::crowded()];
    let counted = every_from(&start, 2, Width::Full, Depth::quick(), Mutation::None);
    let counted = counted.unwrap_or_else(|why| panic!("{why}"));
    println!("a full bucket: {counted}");
    assert!(counted.total() > 10_000, "{counted}");
}

/// Each way to a name: both kinds of create, several files at once, and a rename, which moves two
/// files.
#[test]
fn each_operation_that_takes_a_name_makes_room_for_it() {
    let ways: [&[Op]; 4] = [
        &[Op::Create(0)],
        &[Op::CreateReserved(0)],
        &[Op::CreateMany],
        &[Op::Create(1), Op::Close(1), Op::Rename(1)],
    ];
    makes_room(&starts::crowded(), &ways);
}

/// One of the files that are in the way moves where another one was.
#[test]
fn two_moves_that_make_room_survive_every_power_cut() {
    let ways: [&[Op]; 3] = [
        &[Op::Create(0)],
        &[Op::CreateReserved(0)],
        &[Op::CreateMany],
    ];
    makes_room(&starts::crowded_twice(), &ways);
}

fn makes_room(start: &Start, ways: &[&[Op]]) {
    for way in ways {
        let search = Rc::new(RefCell::new(Search::new(Depth::default())));
        let mut steps: Vec<Vec<Op>> = way.iter().map(|op| vec![*op]).collect();
        steps.push(vec![Op::Remount]);
        for seed in 0..2 {
            let run = runner::run(&search, start, &steps, 0, &Manner::new(seed));
            run.unwrap_or_else(|why| panic!("{why}"));
            let search = search.borrow();
            let made = search.oracle.files.iter().any(|file| file.now.is_some());
            assert!(made, "{way:?} was refused");
            assert!(search.states > 0);
        }
    }
}

#[test]
fn long_runs_in_a_crowded_table_survive_every_power_cut() {
    let from = seed("long_runs_in_a_crowded_table_survive_every_power_cut");
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    long::run(&search, &starts::crowded(), from, 6).unwrap_or_else(|why| panic!("{why}"));
    println!("{} crash states", search.borrow().total());
}
