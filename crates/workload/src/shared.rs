// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all threads of a run share: the files, the time, and how operations are counted.

use super::describe::{Op, Step, Workload};
use super::semaphore::Semaphore;
use super::sets::{Set, most};
use super::store::{LONGEST, Session, Store};
use measure::{Clock, Monotonic};
use statistics::random::Random;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory is aligned to this, as direct access requires.
const ALIGNMENT: usize = 4096;

/// Times and errors of one kind of operation of one group, in one phase of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub times_ns: Vec<u64>,
    pub bytes: u64,
    pub errors: u64,
}

/// By phase, group and operation; `None` is a round.
pub(super) type Tallies = BTreeMap<(usize, String, Option<Op>), Tally>;

/// What all threads share.
pub(super) struct Shared<'a> {
    pub workload: &'a Workload,
    pub sets: BTreeMap<&'a str, Set>,
    pub semaphores: BTreeMap<&'a str, Semaphore>,
    pub store: &'a dyn Store,
    pub start_ns: u64,
    /// When each phase ends: the warm-up, then each run.
    pub ends_ns: Vec<u64>,
    pub cancel: &'a AtomicBool,
    pub first_error: Mutex<Option<String>>,
}

impl Shared<'_> {
    pub(super) fn is_over(&self) -> bool {
        let end_ns = self.ends_ns.last().copied().unwrap_or(0);
        Monotonic.now_ns() >= end_ns || self.cancel.load(Ordering::Relaxed)
    }

    /// The phase of this moment; the number of phases after the end.
    fn phase(&self, now_ns: u64) -> usize {
        self.ends_ns.partition_point(|end_ns| *end_ns <= now_ns)
    }

    /// Sleeps until a moment, or until the run ends.
    pub(super) fn pause(&self, until_ns: u64) {
        loop {
            let now_ns = Monotonic.now_ns();
            if now_ns >= until_ns || self.is_over() {
                return;
            }
            Monotonic.sleep_ns((until_ns - now_ns).min(50_000_000));
        }
    }

    /// Counts an operation that began at `begin_ns`, in the phase in which it ends.
    pub(super) fn count(
        &self,
        tallies: &mut Tallies,
        group: &str,
        op: Option<Op>,
        begin_ns: u64,
        done: io::Result<u64>,
    ) {
        let now_ns = Monotonic.now_ns();
        let key = (self.phase(now_ns), group.to_owned(), op);
        let tally = tallies.entry(key).or_default();
        match done {
            Ok(bytes) => {
                tally.bytes += bytes;
                tally.times_ns.push(now_ns.saturating_sub(begin_ns));
            }
            // There is no such file at the moment, which is part of the workload.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tally.errors += 1;
                if let Ok(mut first) = self.first_error.lock() {
                    let op = op.map_or_else(String::new, |op| op.to_string());
                    first.get_or_insert_with(|| format!("{op}: {error}"));
                }
            }
        }
    }
}

/// Memory for one transfer.
pub(super) struct Aligned(Vec<u8>);

impl Aligned {
    /// Memory for the longest transfer of these steps, filled at random.
    pub(super) fn for_steps(workload: &Workload, steps: &[&Step], random: &mut Random) -> Self {
        let longest = |step: &&Step| match &step.size {
            Some(size) => most(workload, size),
            None => Some(LONGEST),
        };
        let moves = |step: &&&Step| step.op.moves_data();
        let longest = steps.iter().filter(moves).filter_map(longest).max();
        let longest = longest.unwrap_or(0);
        let mut this = Self::new(longest.min(LONGEST) as usize);
        random.fill(this.bytes());
        this
    }

    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![0; bytes.next_multiple_of(ALIGNMENT) + ALIGNMENT])
    }

    /// The memory from the first aligned byte on.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let offset = self.0.as_ptr().align_offset(ALIGNMENT);
        let end = self.0.len() - ALIGNMENT + offset;
        self.0.get_mut(offset..end).unwrap_or_default()
    }
}

/// Moves a block, and makes it durable if the step says so.
pub(super) fn transfer(
    session: &mut dyn Session,
    step: &Step,
    file: u8,
    offset: u64,
    buffer: &mut [u8],
) -> io::Result<u64> {
    if step.op == Op::ReadBlock {
        return session.read(file, offset, buffer);
    }
    session.write(file, offset, buffer)?;
    if step.sync {
        session.sync(file)?;
    }
    Ok(buffer.len() as u64)
}

/// No file for the step at the moment.
pub(super) fn none() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}
