// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes of several blocks, of which a power cut may leave any: what one left of a write is never
//! completed by the next write, if that is cut too.

use std::cell::RefCell;
use std::rc::Rc;

use crate::harness::ops::Op;
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Mutation, Search};
use crate::harness::sequences::{Width, every_from};
use crate::harness::{long, seed, starts};

/// Runs in which a slot's two blocks change.
pub fn lives() -> Vec<(Start, Vec<Op>)> {
    use Op::*;
    let [full, one]: [Start; 2] = starts::of_two_blocks().try_into().ok().unwrap();
    vec![
        (one, vec![CreateLongReserved(1), Close(1)]),
        (full, vec![Append(0), Reserve(0), Close(0), Remove(0)]),
    ]
}

#[test]
fn halves_of_two_writes_are_never_one() {
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    for (start, ops) in lives() {
        let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
        for seed in 0..4 {
            let done = runner::run(&search, &start, &steps, 0, &Manner::new(seed));
            done.map(drop).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    let total = search.borrow().total();
    println!("{total} crash states");
    assert!(total > 1000, "{total} crash states");
}

#[test]
fn sequences_on_nodes_of_two_blocks_survive_every_power_cut() {
    let [full, _]: [Start; 2] = starts::of_two_blocks().try_into().ok().unwrap();
    let counted = every_from(&[full], 2, Width::Quick, Depth::quick(), Mutation::None);
    let counted = counted.unwrap_or_else(|why| panic!("{why}"));
    println!("two blocks: {counted}");
    assert!(counted.total() > 5_000, "{counted}");
}

#[test]
fn long_runs_on_nodes_of_two_blocks_survive_every_power_cut() {
    let from = seed("long_runs_on_nodes_of_two_blocks_survive_every_power_cut");
    let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
    for start in starts::of_two_blocks() {
        long::run(&search, &start, from, 3).unwrap_or_else(|why| panic!("{why}"));
    }
    println!("{} crash states", search.borrow().total());
}
