// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asynchronous writes of a thread: helpers write for it, as those of POSIX AIO do.

use super::describe::{Op, Step};
use super::shared::{Aligned, Shared, Tallies, none, transfer};
use super::store::{Named, Session, Use};
use measure::{Clock, Monotonic};
use statistics::random::Random;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{Scope, ScopedJoinHandle};

/// Helpers of one thread: as many as those of POSIX AIO.
const HELPERS: u32 = 20;

/// A write: the file's number in its set, the bytes, which block of the file, and since when.
type Wanted = (u64, u64, u64, u64);

/// The helpers of a thread, and what they have not finished.
pub(super) struct Helpers {
    wanted: Sender<Wanted>,
    unfinished: Arc<(Mutex<u64>, Condvar)>,
    gathered: Receiver<Tallies>,
}

impl Helpers {
    /// Starts the helpers of a thread with this step; they end with the scope's run.
    pub(super) fn start<'scope, 'w, 'a>(
        shared: &'w Shared<'a>,
        group: &'w str,
        step: &'w Step,
        scope: &'scope Scope<'scope, '_>,
    ) -> Self
    where
        'w: 'scope,
    {
        let (wanted, waiting) = channel();
        let (finished, gathered) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let unfinished = Arc::new((Mutex::new(0), Condvar::new()));
        for _ in 0..HELPERS.min(step.times) {
            let (waiting, unfinished) = (Arc::clone(&waiting), Arc::clone(&unfinished));
            let finished = finished.clone();
            let help = move || {
                let tallies = help(shared, group, step, &waiting, &unfinished);
                let _ = finished.send(tallies);
            };
            // With fewer helpers the writes take longer.
            let _: io::Result<ScopedJoinHandle<'_, ()>> =
                std::thread::Builder::new().spawn_scoped(scope, help);
        }
        Self {
            wanted,
            unfinished,
            gathered,
        }
    }

    /// Gives a write to a helper. The file is counted as open; the helper ends this use.
    pub(super) fn write(&self, number: u64, bytes: u64, pick: u64) -> io::Result<()> {
        if let Ok(mut unfinished) = self.unfinished.0.lock() {
            *unfinished += 1;
        }
        let wanted = (number, bytes, pick, Monotonic.now_ns());
        self.wanted.send(wanted).map_err(|_| none())
    }

    /// Waits until everything has been written.
    pub(super) fn await_all(&self) -> io::Result<u64> {
        let (unfinished, finished) = &*self.unfinished;
        let mut left = unfinished.lock().map_err(|_| none())?;
        while *left > 0 {
            left = finished.wait(left).map_err(|_| none())?;
        }
        Ok(0)
    }

    /// Ends the helpers, and returns what they counted.
    pub(super) fn end(self) -> Tallies {
        drop(self.wanted);
        let mut all = Tallies::new();
        for (key, tally) in self.gathered.into_iter().flatten() {
            let place = all.entry(key).or_default();
            place.times_ns.extend(tally.times_ns);
            place.bytes += tally.bytes;
            place.errors += tally.errors;
        }
        all
    }
}

/// Writes what is wanted until the thread ends.
fn help(
    shared: &Shared<'_>,
    group: &str,
    step: &Step,
    waiting: &Mutex<Receiver<Wanted>>,
    unfinished: &(Mutex<u64>, Condvar),
) -> Tallies {
    let mut tallies = Tallies::new();
    let mut random = Random::new(1);
    let mut memory = Aligned::for_steps(shared.workload, &[step], &mut random);
    let mut session = shared.store.session();
    loop {
        let next = match waiting.lock() {
            Ok(waiting) => waiting.recv(),
            Err(_) => break,
        };
        let Ok((number, bytes, pick, begin_ns)) = next else {
            break;
        };
        let done = match (&mut session, shared.is_over()) {
            // Nothing is measured any more.
            (_, true) => Err(none()),
            (Ok(session), false) => one(session.as_mut(), step, number, bytes, pick, &mut memory),
            (Err(error), false) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        if let Some(set) = shared.sets.get(step.set.as_str()) {
            set.closed(number);
        }
        shared.count(&mut tallies, group, Some(Op::WriteAsync), begin_ns, done);
        if let Ok(mut left) = unfinished.0.lock() {
            *left = left.saturating_sub(1);
            unfinished.1.notify_all();
        }
    }
    tallies
}

fn one(
    session: &mut dyn Session,
    step: &Step,
    number: u64,
    bytes: u64,
    pick: u64,
    memory: &mut Aligned,
) -> io::Result<u64> {
    let set = &step.set;
    let len_bytes = session.open(0, Named { set, number }, Use::Write)?;
    let offset = pick % (len_bytes / bytes.max(1)).max(1) * bytes;
    let buffer = memory.bytes().get_mut(..bytes as usize);
    let done = transfer(session, step, 0, offset, buffer.unwrap_or_default());
    session.close(0).and(done)
}
