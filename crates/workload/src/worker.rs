// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One thread of a workload: its rounds, its steps, and its files.

use super::describe::{Group, Op, Step};
use super::helpers::Helpers;
use super::sets::{Set, amount};
use super::shared::{Aligned, Shared, Tallies, none, transfer};
use super::store::{LONGEST, Named, Session, Use};
use measure::{Clock, Monotonic};
use statistics::random::Random;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;

/// The number of the file that a step without one opens for itself.
const OWN: u8 = u8::MAX;
/// The number of the file that [`Op::ReadNext`] keeps open.
const STREAM: u8 = u8::MAX - 1;
/// A file of a thread: open, or closed and still known by its number.
#[derive(Clone, Copy)]
struct Held<'a> {
    set: &'a Set,
    number: u64,
    is_open: bool,
    len_bytes: u64,
}

impl<'a> Held<'a> {
    fn named(&self) -> Named<'a> {
        Named {
            set: &self.set.name,
            number: self.number,
        }
    }
}

/// A thread.
pub(super) struct Worker<'w, 'a> {
    shared: &'w Shared<'a>,
    group: &'w Group,
    random: Random,
    session: Box<dyn Session + 'w>,
    memory: Aligned,
    held: BTreeMap<u8, Held<'w>>,
    /// Where [`Op::ReadNext`] goes on.
    stream_at: u64,
    helpers: Option<Helpers>,
    tallies: Tallies,
}

/// Runs a thread of a group until the end.
pub(super) fn work<'scope, 'w, 'a>(
    shared: &'w Shared<'a>,
    group: &'w Group,
    rounds: &AtomicU64,
    mut random: Random,
    scope: &'scope Scope<'scope, '_>,
) -> Tallies
where
    'w: 'scope,
{
    let memory = Aligned::for_steps(shared.workload, &group.all(), &mut random);
    let mut tallies = Tallies::new();
    let session = match shared.store.session() {
        Ok(session) => session,
        Err(error) => {
            shared.count(&mut tallies, &group.name, None, shared.start_ns, Err(error));
            return tallies;
        }
    };
    let mut steps = group.all().into_iter();
    let asynchronous = steps.find(|step| step.op == Op::WriteAsync);
    let helpers = asynchronous.map(|step| Helpers::start(shared, &group.name, step, scope));
    let mut worker = Worker {
        shared,
        group,
        random,
        session,
        memory,
        held: BTreeMap::new(),
        stream_at: 0,
        helpers,
        tallies,
    };
    worker.rounds(rounds);
    worker.end()
}

impl<'w> Worker<'w, '_> {
    fn rounds(&mut self, rounds: &AtomicU64) {
        let (shared, group) = (self.shared, self.group);
        loop {
            let mut due_ns = Monotonic.now_ns();
            if let Some(rate) = group.per_second {
                let round = rounds.fetch_add(1, Ordering::Relaxed);
                due_ns = shared.start_ns + (round as f64 / rate * 1e9) as u64;
                shared.pause(due_ns);
            }
            if !self.steps(&group.steps) {
                return;
            }
            shared.count(&mut self.tallies, &group.name, None, due_ns, Ok(0));
        }
    }

    /// Does steps in turn; false if the run ended before the last.
    fn steps(&mut self, steps: &[Step]) -> bool {
        for step in steps {
            for _ in 0..step.times {
                if self.shared.is_over() || step.op == Op::Repeat && !self.steps(&step.steps) {
                    return false;
                }
                if step.op != Op::Repeat {
                    self.step(step);
                }
            }
        }
        true
    }

    fn step(&mut self, step: &Step) {
        let begin_ns = Monotonic.now_ns();
        let (shared, is_over) = (self.shared, || self.shared.is_over());
        let semaphore = shared.semaphores.get(step.semaphore.as_str());
        let done = match step.op {
            Op::Pause => {
                shared.pause(begin_ns + (step.seconds * 1e9) as u64);
                return;
            }
            Op::Compute => {
                self.compute(step.count);
                return;
            }
            // A thread that waited for the end has done nothing.
            Op::Wait if semaphore.is_some_and(|one| !one.wait(step.count, &is_over)) => return,
            Op::Post if semaphore.is_some_and(|one| !one.post(step.count, &is_over)) => return,
            Op::Wait | Op::Post => Ok(0),
            Op::AwaitWrites => {
                let helpers = self.helpers.as_ref();
                helpers.map_or(Ok(0), Helpers::await_all)
            }
            // It is counted where it ends.
            Op::WriteAsync => match self.asynchronous(step) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            _ => self.access(step),
        };
        let group = &self.group.name;
        shared.count(&mut self.tallies, group, Some(step.op), begin_ns, done);
    }

    fn compute(&mut self, stores: u64) {
        let memory = self.memory.bytes();
        let len = memory.len().max(1) as u64;
        for at in 0..stores {
            if let Some(byte) = memory.get_mut((at % len) as usize) {
                *std::hint::black_box(byte) = at as u8;
            }
        }
    }

    fn access(&mut self, step: &Step) -> io::Result<u64> {
        match step.op {
            Op::Open => self.open(step, step.file.unwrap_or(OWN)).map(|()| 0),
            Op::Create => self.create(step),
            Op::Close => self.close(step.file.unwrap_or(OWN)),
            Op::Delete => self.delete(step),
            Op::Stat => {
                let set = self.set(step)?;
                let number = set.any(&mut self.random).ok_or_else(none)?;
                let name = &set.name;
                self.session.stat(Named { set: name, number }).map(|_| 0)
            }
            Op::ReadNext => self.read_next(step),
            Op::ReadBlock | Op::WriteBlock => self.block(step),
            _ => self.of_file(step),
        }
    }

    fn set(&self, step: &Step) -> io::Result<&'w Set> {
        let shared = self.shared;
        shared.sets.get(step.set.as_str()).ok_or_else(none)
    }

    /// Whether a group's steps write a file of this number.
    fn writes(&self, number: u8) -> bool {
        let writes = |step: &&Step| {
            matches!(
                step.op,
                Op::Append | Op::WriteAll | Op::WriteBlock | Op::WriteAsync
            )
        };
        let steps = self.group.all();
        let mut writing = steps.iter().copied().filter(|step| writes(step));
        writing.any(|step| step.file.unwrap_or(OWN) == number)
    }

    /// Opens an existing file of the step's set as `number`.
    fn open(&mut self, step: &Step, number: u8) -> io::Result<()> {
        self.close(number)?;
        let set = self.set(step)?;
        let held = Held {
            set,
            number: set.opened(&mut self.random).ok_or_else(none)?,
            is_open: false,
            len_bytes: 0,
        };
        let how = if self.writes(number) {
            Use::Write
        } else {
            Use::Read
        };
        match self.session.open(number, held.named(), how) {
            Ok(len_bytes) => {
                let held = Held {
                    is_open: true,
                    len_bytes,
                    ..held
                };
                self.held.insert(number, held);
                Ok(())
            }
            Err(error) => {
                set.closed(held.number);
                Err(error)
            }
        }
    }

    fn create(&mut self, step: &Step) -> io::Result<u64> {
        let file = step.file.unwrap_or(OWN);
        self.close(file)?;
        let set = self.set(step)?;
        let held = Held {
            set,
            number: set.next(),
            is_open: true,
            len_bytes: set.size(&mut self.random),
        };
        let how = Use::Create(held.len_bytes);
        self.session.open(file, held.named(), how)?;
        set.put_open(held.number);
        self.held.insert(file, held);
        Ok(0)
    }

    fn close(&mut self, file: u8) -> io::Result<u64> {
        let Some(held) = self.held.get_mut(&file).filter(|held| held.is_open) else {
            return Ok(0);
        };
        held.is_open = false;
        let closed = self.session.close(file);
        held.set.closed(held.number);
        closed.map(|()| 0)
    }

    fn delete(&mut self, step: &Step) -> io::Result<u64> {
        let named = match step.file.and_then(|file| self.held.get(&file)) {
            Some(held) if held.set.take_this(held.number) => held.named(),
            Some(_) => return Err(none()),
            None => {
                let set = self.set(step)?;
                let number = set.take(&mut self.random).ok_or_else(none)?;
                let set = &set.name;
                Named { set, number }
            }
        };
        self.session.remove(named).map(|()| 0)
    }

    fn read_next(&mut self, step: &Step) -> io::Result<u64> {
        let file = step.file.unwrap_or(STREAM);
        self.opened(step, file)?;
        let bytes = self.piece(step);
        let (session, buffer) = (&mut self.session, self.memory.bytes());
        let buffer = buffer.get_mut(..bytes as usize).unwrap_or_default();
        let mut read = session.read(file, self.stream_at, buffer)?;
        if read == 0 {
            self.stream_at = 0;
            read = session.read(file, 0, buffer)?;
        }
        self.stream_at += read;
        Ok(read)
    }

    /// Opens a file of the step's set as `file`, unless one is open.
    fn opened(&mut self, step: &Step, file: u8) -> io::Result<()> {
        match self.held.get(&file) {
            Some(held) if held.is_open => Ok(()),
            _ => self.open(step, file),
        }
    }

    /// Bytes of a transfer of this step, at most what the memory holds.
    fn piece(&mut self, step: &Step) -> u64 {
        let unit = self.shared.store.unit_bytes();
        let bytes =
            amount(self.shared.workload, step.size.as_ref(), &mut self.random).unwrap_or(LONGEST);
        bytes
            .next_multiple_of(unit)
            .min(self.memory.bytes().len() as u64)
    }

    /// Reads or writes a block at a random place of a file.
    fn block(&mut self, step: &Step) -> io::Result<u64> {
        let file = step.file.unwrap_or(OWN);
        self.opened(step, file)?;
        let bytes = self.piece(step);
        let len_bytes = self.held.get(&file).map_or(0, |held| held.len_bytes);
        let offset = self.random.below((len_bytes / bytes).max(1)) * bytes;
        let (session, buffer) = (&mut self.session, self.memory.bytes());
        let buffer = buffer.get_mut(..bytes as usize).unwrap_or_default();
        let done = transfer(session.as_mut(), step, file, offset, buffer);
        match step.file {
            Some(_) => done,
            None => self.close(OWN).and(done),
        }
    }

    fn asynchronous(&mut self, step: &Step) -> io::Result<()> {
        let set = self.set(step)?;
        let number = set.opened(&mut self.random).ok_or_else(none)?;
        let bytes = self.piece(step);
        let pick = self.random.below(1 << 32);
        let helpers = self.helpers.as_ref().ok_or_else(none)?;
        helpers.write(number, bytes, pick)
    }

    /// The steps that use a file which an earlier one has opened.
    fn of_file(&mut self, step: &Step) -> io::Result<u64> {
        let file = step.file.unwrap_or(OWN);
        if step.op == Op::Append && !step.set.is_empty() {
            self.opened(step, file)?;
        }
        // An open that found no file leaves its steps without one.
        let held = self.held.get(&file).copied();
        let held = held.filter(|held| held.is_open).ok_or_else(none)?;
        let bytes = match step.op {
            Op::ReadAll => self.read_all(step, file),
            Op::WriteAll => {
                let like = step.like.and_then(|like| self.held.get(&like));
                let bytes = like.map_or(held.len_bytes, |like| like.len_bytes);
                self.append(step, file, bytes)
            }
            Op::Append => {
                let unit = self.shared.store.unit_bytes();
                let most = amount(self.shared.workload, step.size.as_ref(), &mut self.random)
                    .unwrap_or(LONGEST);
                let bytes = 1 + self.random.below(most);
                self.append(step, file, bytes.next_multiple_of(unit))
            }
            Op::Sync => self.session.sync(file).map(|()| 0),
            _ => Ok(0),
        }?;
        if step.sync {
            self.session.sync(file)?;
        }
        Ok(bytes)
    }

    fn read_all(&mut self, step: &Step, file: u8) -> io::Result<u64> {
        let mut done = 0;
        // Each pass reads a whole piece, or ends.
        loop {
            let bytes = self.piece(step);
            let buffer = self.memory.bytes();
            let buffer = buffer.get_mut(..bytes as usize).unwrap_or_default();
            let read = self.session.read(file, done, buffer)?;
            done += read;
            if read < bytes {
                return Ok(done);
            }
        }
    }

    fn append(&mut self, step: &Step, file: u8, bytes: u64) -> io::Result<u64> {
        let mut left = bytes;
        while left > 0 {
            let piece = match step.op {
                Op::WriteAll => self.piece(step).min(left),
                _ => left.min(self.memory.bytes().len() as u64),
            };
            let data = self.memory.bytes();
            let data = data.get(..piece as usize).unwrap_or_default();
            self.session.append(file, data)?;
            left -= piece;
        }
        if let Some(held) = self.held.get_mut(&file) {
            held.len_bytes = held.len_bytes.max(bytes);
        }
        Ok(bytes)
    }

    /// Closes what is open, and waits for the helpers.
    fn end(mut self) -> Tallies {
        let open: Vec<u8> = self.held.keys().copied().collect();
        for file in open {
            // Nothing is measured any more; what cannot be closed is closed with the store.
            let _ = self.close(file);
        }
        if let Some(helpers) = self.helpers.take() {
            for (key, tally) in helpers.end() {
                self.tallies.insert(key, tally);
            }
        }
        self.tallies
    }
}
