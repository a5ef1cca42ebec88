// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every sequence of operations up to a length, from every start.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crash::Budget;

use super::ops::Op;
use super::oracle::{FILES, Live, Oracle};
use super::runner::{self, Manner, Start};
use super::search::{Depth, Mutation, Search, Seen};
use super::starts;

/// No start has more operations that may come first.
const MAX_FIRST_OPS: usize = 32;

/// How much to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Two files where a start has two; at the edges of a map file 0 only, and two operations from
    /// each: growing and giving back.
    Quick,
    /// Two files everywhere.
    Full,
}

/// What was tested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub sequences: u64,
    pub states: u64,
    pub in_recovery: u64,
}

impl Counted {
    pub fn total(&self) -> u64 {
        self.states + self.in_recovery
    }
}

impl Counted {
    fn add(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.states += other.states;
        self.in_recovery += other.in_recovery;
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sequences, states, again) = (self.sequences, self.states, self.in_recovery);
        let total = self.total();
        write!(
            f,
            "{sequences} sequences, {total} crash states: {states} after a power cut, {again} \
             after a second one in recovery or after the program was killed"
        )
    }
}

pub fn valid_ops(oracle: &Oracle, files: usize) -> Vec<Op> {
    let live: [Option<&Live>; FILES] = [0, 1].map(|file| oracle.files[file].now.as_ref());
    let named = (0..files).filter(|_| oracle.long_names);
    let together = [Op::CreateManyLong, Op::CreateListedLong];
    (0..files)
        .flat_map(Op::of_file)
        .chain([Op::CreateMany, Op::RemoveListed, Op::Reap, Op::Remount])
        .chain(
            oracle
                .grows
                .then_some([Op::Grow, Op::Shrink])
                .into_iter()
                .flatten(),
        )
        .chain(named.flat_map(Op::with_long_name))
        .chain(together.into_iter().filter(|_| oracle.long_names))
        .filter(|op| op.is_valid(live))
        .collect()
}

/// Every sequence of up to `length` operations, as far as the budget goes. In each, what a power
/// cut may leave is checked during and after the last operation: everything before is covered by a
/// shorter sequence.
///
/// # Errors
/// The first violation.
pub fn every(length: usize, width: Width, budget: Budget) -> Result<Counted, String> {
    let depth = Depth::quick();
    // One start has most of the states: a share is a start and the operation that comes first.
    let next = AtomicUsize::new(0);
    let counted = AtomicU64::new(0);
    let seen: Vec<Seen> = starts::all().iter().map(|_| Seen::default()).collect();
    let work = || -> Result<Counted, String> {
        let starts = starts::all();
        let mut mine = Counted::default();
        loop {
            let share = next.fetch_add(1, Ordering::Relaxed);
            let (number, first) = (share / MAX_FIRST_OPS, share % MAX_FIRST_OPS);
            let (Some(start), Some(seen)) = (starts.get(number), seen.get(number)) else {
                return Ok(mine);
            };
            let goes_on = || budget.allows(counted.load(Ordering::Relaxed));
            let search = Search::beside(depth, seen);
            let found = from(start, Some(first), length, width, search, &goes_on)?;
            counted.fetch_add(found.total(), Ordering::Relaxed);
            mine.add(found);
        }
    };
    let shares = thread::available_parallelism().map_or(1, |count| count.get());
    thread::scope(|scope| {
        let running: Vec<_> = (0..shares).map(|_| scope.spawn(work)).collect();
        let mut counted = Counted::default();
        for one in running {
            counted.add(one.join().map_err(|_| "a search panicked")??);
        }
        Ok(counted)
    })
}

/// Like [`every`], from these starts, with this variant of the protocol.
///
/// # Errors
/// The first violation.
pub fn every_from(
    starts: &[Start],
    length: usize,
    width: Width,
    depth: Depth,
    mutation: Mutation,
) -> Result<Counted, String> {
    let mut counted = Counted::default();
    for start in starts {
        let mut search = Search::new(depth);
        search.mutation = mutation;
        counted.add(from(start, None, length, width, search, &|| true)?);
    }
    Ok(counted)
}

/// The sequences from one start, all of them or those that begin with its `first`-th operation.
fn from(
    start: &Start,
    first: Option<usize>,
    length: usize,
    width: Width,
    search: Search,
    goes_on: &dyn Fn() -> bool,
) -> Result<Counted, String> {
    let mut counted = Counted::default();
    let search = Rc::new(RefCell::new(search));
    let is_narrow = width == Width::Quick && start.prefix == [Op::Open(0)];
    let files = if is_narrow { 1 } else { FILES };
    // Breadth first: the shortest sequence that breaks something is found first.
    runner::run(&search, start, &[], usize::MAX, &Manner::new(0))?;
    let mut ops = valid_ops(&search.borrow().oracle, files);
    assert!(ops.len() <= MAX_FIRST_OPS, "{}: {}", start.name, ops.len());
    if let Some(first) = first {
        ops = ops.get(first..=first).unwrap_or_default().to_vec();
    }
    let mut round: Vec<(Vec<Vec<Op>>, Vec<Op>)> = vec![(Vec::new(), ops)];
    let length = if is_narrow { length.min(2) } else { length };
    for _ in 0..length {
        let mut next = Vec::new();
        for (steps, ops) in round {
            for op in ops {
                if !goes_on() {
                    break;
                }
                let mut longer = steps.clone();
                longer.push(vec![op]);
                counted.sequences += 1;
                let manner = Manner::new(counted.sequences);
                runner::run(&search, start, &longer, steps.len(), &manner)?;
                let ops = valid_ops(&search.borrow().oracle, files);
                next.push((longer, ops));
            }
        }
        round = next;
    }
    let search = search.borrow();
    counted.states = search.states;
    counted.in_recovery = search.in_recovery_states;
    Ok(counted)
}
