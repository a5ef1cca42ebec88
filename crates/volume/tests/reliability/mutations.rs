// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutation tests of the protocol: with each barrier left out, and with each other deliberate
//! violation, the crash search must find a failure. A barrier whose removal goes unnoticed would be
//! superfluous. A run of all tests takes a quarter of them (`crash::is_taken`).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crash::is_taken;
use straightway_volume::{Mutation, Order};

use crate::harness::independent::Scan;
use crate::harness::long;
use crate::harness::ops::Op;
use crate::harness::oracle::Oracle;
use crate::harness::runner::{self, Manner};
use crate::harness::search::{Depth, Search};
use crate::harness::sequences::{Width, every_from};
use crate::harness::starts::{self, Start};
use crate::{growth, names, resize, torn};

/// Short runs that find most of them quickly. What they miss, the whole search must find.
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
        vec![CreateMany, Remove(0), CreateManyChecked, Remove(1)],
        vec![CreateListed, Remove(0), CreateListed, Remove(1)],
        with(&[Reserve(0), CreateMany, Remove(1), Reserve(0), CreateMany]),
        with(&[CreateMany, Close(0), RemoveListed, CreateMany]),
        vec![CreateMany, RemoveListed, CreateListed, RemoveListed],
    ]
}

/// On a volume that never lost its power, each node has two valid copies once it is unmounted:
/// otherwise rot of the only copy loses the file.
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

/// One way of looking for a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// One of the short runs, with a seed for the order in which its device completes requests.
    Life(usize, u64),
    /// A file at an edge of its map grows.
    Growing(usize),
    /// The same after new files in a list, whose units the leaf takes.
    GrowingOverList(usize),
    /// A file at an edge of its map is given back after its name is removed, and its units to the
    /// device; then its slot is reused.
    Reaping(usize),
    /// A volume is made longer and shorter.
    Resizing(usize),
    /// A volume gets its first long name.
    Naming(usize),
    /// The slot table grows.
    Splitting(usize, u64),
    /// It shrinks.
    Shrinking(usize, u64),
    /// Writes of slots of two blocks are torn twice.
    Tearing(usize, u64),
    /// Rot of one copy after an unmount.
    Copies,
    /// Random operations.
    Long(u64),
    /// Every sequence of two operations.
    Everything,
}

/// The attempts that find most mutations quickly come first, and all are tried before a mutation
/// counts as missed.
fn attempts(mutation: Mutation) -> Vec<Attempt> {
    use Attempt::*;
    let lives = (0..lives().len()).flat_map(|life| [Life(life, 0), Life(life, 1)]);
    let edges = (0..3).flat_map(|edge| [Growing(edge), GrowingOverList(edge), Reaping(edge)]);
    let rest = [Copies, Long(0), Long(1), Long(2), Everything];
    let resizing = (0..resize::lives().len()).map(Resizing);
    let naming = (0..names::lives().len()).map(Naming);
    let splitting =
        (0..growth::lives().len()).flat_map(|life| [Splitting(life, 0), Splitting(life, 1)]);
    let shrinking =
        (0..growth::ways_back().len()).flat_map(|life| [Shrinking(life, 0), Shrinking(life, 1)]);
    let tearing = (0..torn::lives().len()).flat_map(|life| [Tearing(life, 0), Tearing(life, 1)]);
    let short = lives.chain(edges).chain(resizing);
    let all = short
        .chain(splitting)
        .chain(shrinking)
        .chain(naming)
        .chain(tearing)
        .chain(rest);
    let mut all: Vec<Attempt> = all.collect();
    // The attempt that found it before: a wrong entry only costs time.
    let known = match mutation {
        Mutation::Without(Order::OverwriteBeforeAnswer | Order::CommitBeforeCopy) => Life(1, 0),
        Mutation::Without(Order::FreeBeforeCreate | Order::NodesBeforeRelease) => Reaping(0),
        Mutation::Without(Order::CommitBeforeRemove) => Life(7, 0),
        Mutation::Without(Order::RemoveBeforeAnswer) => Life(2, 0),
        Mutation::Without(Order::NodesBeforeReserve) => Life(3, 0),
        Mutation::Without(Order::ReleaseBeforeNodes) => Life(1, 0),
        Mutation::Without(Order::NodesBeforeRename) => Life(9, 0),
        Mutation::Without(Order::RenameBeforeName | Order::NameBeforeOld) => Life(4, 0),
        Mutation::Without(Order::CacheBeforeInUse | Order::CleanBeforeClean) => Life(6, 0),
        Mutation::Without(Order::NodesBeforeClean) => Life(8, 0),
        Mutation::Without(Order::CreateManyBeforeNodes | Order::CreateManyBeforeAnswer) => {
            Life(11, 0)
        }
        Mutation::Without(Order::NodesBeforeCreateMany) => Life(13, 0),
        Mutation::Without(Order::NodesBeforeRemoveMany) => Life(14, 0),
        Mutation::Without(Order::RemoveManyBeforeNodes | Order::BitmapsBeforeFree) => Life(15, 0),
        Mutation::Without(Order::NodesBeforeFeature) => Naming(0),
        Mutation::LateFeature => Naming(0),
        Mutation::Without(Order::NodesBeforeTable) => Splitting(2, 0),
        Mutation::Without(
            Order::TableBeforeFeature | Order::BucketBeforeTable | Order::TableBeforeCopy,
        )
        | Mutation::HalfATable
        | Mutation::ForgetParent => Splitting(0, 0),
        Mutation::Without(Order::NodesBeforeFormat) => Shrinking(5, 0),
        Mutation::Without(Order::MovesBeforeShrink | Order::FormatBeforeNodes) => Shrinking(0, 0),
        Mutation::SplitPastFiles => Splitting(6, 0),
        Mutation::KeepHalves => Tearing(0, 0),
        Mutation::KeepList => Long(1),
        Mutation::LeafInPlace => Growing(1),
        Mutation::HalfAPair => Copies,
        Mutation::ForgetOpNumber => Reaping(0),
        Mutation::Without(Order::FreeBeforeDiscard) => Reaping(1),
        Mutation::Without(
            Order::ResizeBeforeNodes | Order::BitmapBeforeShrink | Order::ResizeBeforeAnswer,
        ) => Resizing(0),
        Mutation::Without(Order::GroupsBeforeResize) => Resizing(1),
        _ => Life(0, 0),
    };
    all.retain(|attempt| *attempt != known);
    all.insert(0, known);
    all
}

/// Whether the attempt finds a violation with this mutation.
fn finds(mutation: Mutation, attempt: Attempt, starts: &[Start]) -> bool {
    let depth = Depth::default();
    let mut search = Search::new(depth);
    search.mutation = mutation;
    let search = Rc::new(RefCell::new(search));
    let blank = starts::empty(16, 512, 40);
    let empty = || starts::after("nothing there", &blank, &Oracle::default(), &[]);
    let edge = |number: usize| {
        let mut edges = starts.iter().filter(|start| start.prefix == [Op::Open(0)]);
        edges.nth(number).unwrap().clone()
    };
    let run = |start: &Start, ops: &[Op], seed| {
        let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
        runner::run(&search, start, &steps, 0, &Manner::new(seed)).is_err()
    };
    match attempt {
        Attempt::Life(life, seed) => run(&empty(), &lives()[life], seed),
        Attempt::Growing(number) => {
            let grow = [Op::Append(0), Op::Reserve(0), Op::Close(0)];
            run(&edge(number), &grow, 0)
        }
        Attempt::GrowingOverList(number) => {
            let grow = [
                Op::CreateListed,
                Op::Append(0),
                Op::Reserve(0),
                Op::Close(0),
            ];
            run(&edge(number), &grow, 0)
        }
        Attempt::Reaping(number) => {
            let closed = Start {
                prefix: Vec::new(),
                ..edge(number)
            };
            let give_back = [Op::Remove(0), Op::Reap, Op::Discard, Op::Create(0)];
            run(&closed, &give_back, 1)
        }
        Attempt::Resizing(life) => {
            let (start, ops) = &resize::lives()[life];
            run(start, ops, 0)
        }
        Attempt::Naming(life) => {
            let (start, ops) = &names::lives()[life];
            run(start, ops, 0)
        }
        Attempt::Splitting(life, seed) => {
            let (start, ops) = &growth::lives()[life];
            run(start, ops, seed)
        }
        Attempt::Shrinking(life, seed) => {
            let (start, ops) = &growth::ways_back()[life];
            run(start, ops, seed)
        }
        Attempt::Tearing(life, seed) => {
            let (start, ops) = &torn::lives()[life];
            run(start, ops, seed)
        }
        Attempt::Copies => copies(mutation, &starts[3]).is_some(),
        Attempt::Long(seed) => long::run(&search, &empty(), seed, 20).is_err(),
        Attempt::Everything => every_from(starts, 2, Width::Quick, depth, mutation).is_err(),
    }
}

#[test]
fn each_ordering_is_needed() {
    let starts = starts::all();
    let mutations = Order::ALL.into_iter().map(Mutation::Without);
    let mut missed = Vec::new();
    assert_eq!(copies(Mutation::None, &starts[3]), None);
    // `VOLUME_MUTATION=Rename` tries those whose name contains it.
    let only = std::env::var("VOLUME_MUTATION").unwrap_or_default();
    let all = mutations.chain(Mutation::OTHERS).enumerate();
    let all = all.filter(|(index, _)| is_taken(*index));
    let all = all.map(|(_, mutation)| mutation);
    for mutation in all.filter(|mutation| format!("{mutation:?}").contains(&only)) {
        let began = Instant::now();
        let mut attempts = attempts(mutation).into_iter();
        let found = attempts.find(|attempt| finds(mutation, *attempt, &starts));
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
