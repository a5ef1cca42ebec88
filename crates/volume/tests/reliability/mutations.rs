//! The protocol is taken apart: with each barrier left out, and with each other way of getting it
//! wrong, the crash search must find a violation. One that it cannot find would be superfluous.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use volume::{Mutation, Order};

use crate::harness::independent::Scan;
use crate::harness::long;
use crate::harness::ops::Op;
use crate::harness::oracle::Oracle;
use crate::harness::runner::{self, Manner};
use crate::harness::search::{Depth, Search};
use crate::harness::sequences::{Width, every_from};
use crate::harness::starts::{self, Start};

/// Short lives that find most of them at once. What they miss, the whole search must find.
fn lives() -> Vec<Vec<Op>> {
    use Op::*;
    let made = [CreateReserved(0), Append(0)];
    let with = |rest: &[Op]| [&made[..], rest].concat();
    vec![
        with(&[Commit(0), Append(0), Commit(0), AppendTail(0), Sync(0)]),
        with(&[Sync(0), Overwrite(0), Sync(0), Close(0)]),
        with(&[Commit(0), Close(0), Remove(0), CreateReserved(0)]),
        with(&[Reserve(0), Reserve(0), CloseKeeping(0), Open(0), Close(0)]),
        with(&[Close(0), Rename(0), CreateReserved(1), Rename(0), Close(1)]),
        with(&[
            Close(0),
            Rename(0),
            Create(1),
            Close(1),
            Remove(0),
            Remove(1),
        ]),
        with(&[
            Commit(0),
            Remount,
            Open(0),
            Append(0),
            Sync(0),
            Remount,
            Remove(0),
        ]),
        vec![
            Create(0),
            Close(0),
            Remove(0),
            Create(0),
            Close(0),
            Rename(0),
            Create(1),
        ],
        vec![
            Create(0),
            Close(0),
            Rename(0),
            Remount,
            Rename(0),
            Remove(0),
            Create(0),
        ],
        with(&[Close(0), CreateReserved(1), Reserve(1), Rename(0)]),
        vec![
            CreateChecked(0),
            Append(0),
            Reserve(0),
            CreateReserved(1),
            Append(0),
            Close(1),
        ],
    ]
}

/// On a volume that never lost its power, each node has two good copies once it is unmounted:
/// else rot of the one that is there loses the file.
fn copies(mutation: Mutation, start: &Start) -> Option<String> {
    let mut search = Search::new(Depth::default());
    search.mutation = mutation;
    let search = Rc::new(RefCell::new(search));
    let steps = [Op::Append(0), Op::Close(0), Op::Remount].map(|op| vec![op]);
    let disk = runner::run(&search, start, &steps, usize::MAX, &Manner::new(0));
    let bytes = disk.unwrap().current().to_bytes();
    let scan = Scan::new(&bytes).unwrap();
    (scan.torn_others + scan.torn_bitmaps > 0).then(|| "a copy is missing after an unmount".into())
}

/// Where a violation was found; nothing if none was.
fn find(mutation: Mutation, starts: &[Start]) -> Option<String> {
    let depth = Depth::default();
    let blank = starts::empty(16, 512, 40);
    let start = starts::after("nothing there", &blank, &Oracle::default(), &[]);
    let new_search = || {
        let mut search = Search::new(depth);
        search.mutation = mutation;
        Rc::new(RefCell::new(search))
    };
    for life in lives() {
        let steps: Vec<Vec<Op>> = life.iter().map(|op| vec![*op]).collect();
        for seed in [0, 1] {
            if runner::run(&new_search(), &start, &steps, 0, &Manner::new(seed)).is_err() {
                return Some(format!("{life:?}"));
            }
        }
    }
    for edge in starts
        .iter()
        .filter(|start| start.prefix == [Op::Open(0)])
        .take(3)
    {
        let steps = [Op::Append(0), Op::Reserve(0), Op::Close(0)].map(|op| vec![op]);
        if runner::run(&new_search(), edge, &steps, 0, &Manner::new(0)).is_err() {
            return Some(format!("growing from {}", edge.name));
        }
        // A file of several levels is given back after its name is gone; then its slot is taken.
        let closed = Start {
            prefix: Vec::new(),
            ..edge.clone()
        };
        let steps = [Op::Remove(0), Op::Reap, Op::Create(0)].map(|op| vec![op]);
        if runner::run(&new_search(), &closed, &steps, 0, &Manner::new(1)).is_err() {
            return Some(format!("reaping from {}", edge.name));
        }
    }
    if let Some(found) = copies(mutation, &starts[3]) {
        return Some(found);
    }
    let search = new_search();
    for seed in 0..3 {
        if long::run(&search, &start, seed, 20).is_err() {
            return Some(format!("a long run, seed {seed}"));
        }
    }
    let every = every_from(starts, 2, Width::Quick, depth, mutation);
    every.is_err().then(|| "two operations".into())
}

#[test]
fn each_ordering_is_needed() {
    let starts = starts::all();
    let mutations = Order::ALL.into_iter().map(Mutation::Without);
    let mut missed = Vec::new();
    assert_eq!(copies(Mutation::None, &starts[3]), None);
    // `VOLUME_MUTATION=Rename` tries those whose name has this in it.
    let only = std::env::var("VOLUME_MUTATION").unwrap_or_default();
    let all = mutations.chain(Mutation::OTHERS);
    for mutation in all.filter(|mutation| format!("{mutation:?}").contains(&only)) {
        let began = Instant::now();
        let found = find(mutation, &starts);
        println!(
            "{mutation:?}: {found:?} ({} ms)",
            began.elapsed().as_millis()
        );
        if found.is_none() {
            missed.push(mutation);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
