//! Every sequence of operations up to a length, from every start.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::thread;

use super::ops::Op;
use super::oracle::{FILES, Live, Oracle};
use super::runner::{self, Manner, Start};
use super::search::{Depth, Mutation, Search};
use super::starts;

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Two files where a start has two; at the edges of a map file 0 alone, and two operations
    /// from each: growing and giving back again.
    Quick,
    /// Two files everywhere.
    Full,
}

/// What was tried.
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
    (0..files)
        .flat_map(Op::of_file)
        .chain([Op::Reap, Op::Remount])
        .filter(|op| op.is_valid(live))
        .collect()
}

/// Every sequence of up to `length` operations. In each, what a power cut may leave is looked at
/// during and after the last operation: what comes before is the end of a shorter sequence.
///
/// # Errors
/// The first violation.
pub fn every(length: usize, width: Width) -> Result<Counted, String> {
    // Starts have nothing to do with each other: each processor takes its share of them.
    let shares = thread::available_parallelism().map_or(1, |count| count.get());
    let share = |number: usize| {
        let all = starts::all().into_iter().enumerate();
        let mine: Vec<Start> = all
            .filter(|(place, _)| place % shares == number)
            .map(|(_, start)| start)
            .collect();
        every_from(&mine, length, width, Depth::default(), Mutation::None)
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..shares)
            .map(|number| scope.spawn(move || share(number)))
            .collect();
        running
            .into_iter()
            .try_fold(Counted::default(), |mut counted, one| {
                let found = one.join().map_err(|_| "a search panicked")??;
                counted.sequences += found.sequences;
                counted.states += found.states;
                counted.in_recovery += found.in_recovery;
                Ok(counted)
            })
    })
}

/// As [`every`], from these starts, of a volume that follows the protocol so.
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
        let search = Rc::new(RefCell::new(search));
        let is_narrow = width == Width::Quick && start.prefix == [Op::Open(0)];
        let files = if is_narrow { 1 } else { FILES };
        // Breadth first: the shortest sequence that breaks something is found first.
        runner::run(&search, start, &[], usize::MAX, &Manner::new(0))?;
        let ops = valid_ops(&search.borrow().oracle, files);
        let mut round: Vec<(Vec<Vec<Op>>, Vec<Op>)> = vec![(Vec::new(), ops)];
        let length = if is_narrow { length.min(2) } else { length };
        for _ in 0..length {
            let mut next = Vec::new();
            for (steps, ops) in round {
                for op in ops {
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
        if mutation == Mutation::None {
            let (name, states) = (start.name, search.states);
            println!(
                "{name}: {states} states, {} again",
                search.in_recovery_states
            );
        }
        counted.states += search.states;
        counted.in_recovery += search.in_recovery_states;
    }
    Ok(counted)
}
