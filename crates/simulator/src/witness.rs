// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a block device promises, checked between the device and its user: each read gives the
//! newest acknowledged write, what was flushed survives a power cut, nothing outside its range is
//! touched, and each request ends within its bound.
//!
//! It keeps a hash of each version of a block that may still be read, now or after a power cut. A
//! write that failed may have taken effect, with any of its blocks; what is read once then stays,
//! unless the write's outcome is unknown. One that a lost association has never sent, by its error,
//! has no effect.

use crate::content::{ZEROES, hash};
use crate::setup::Stack;
use crate::trace::{What, mix};
use crate::world::World;
use block::{Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::resume_unwind;
use std::rc::Rc;

/// A hash for keys that are numbers: the same on each run.
#[derive(Clone, Copy, Default)]
pub struct Numbers(u64);

impl Hasher for Numbers {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mix(self.0, u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0, value);
    }
}

/// A map whose keys are numbers.
pub type NumberMap<T> = HashMap<u64, T, BuildHasherDefault<Numbers>>;

/// How often the product may poll its device while nothing happens in the world, and steps of the
/// world in one step of a script: what goes on for longer would do so without end.
const MOST_POLLS: u64 = 1_000_000;
const MOST_STEPS: u64 = 400_000;

/// What a run is left with whose product does not end. Only unwinding leaves its loops.
#[derive(Debug)]
pub struct Endless(pub String);

/// The content of a discarded block, which may be anything.
const ANYTHING: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Version {
    hash: u64,
    /// When it was submitted, and when it ended; 0 while it is outstanding.
    begun: u64,
    ended: u64,
    /// When another one took its place; 0 for not yet. It may survive a power cut until a flush
    /// that is submitted later.
    replaced: u64,
    /// It may take effect at any time.
    is_unknown: bool,
}

#[derive(Clone, Debug)]
struct Flight {
    tag: Tag,
    /// The user's tag.
    given: Tag,
    lba: u64,
    hashes: Vec<u64>,
    kind: Kind,
    order: u64,
    began_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write { fua: bool },
    Flush,
}

struct State {
    world: World,
    /// Blocks behind this one are another owner's.
    end: u64,
    bound_us: u64,
    has_cache: bool,
    /// A write whose outcome is known to be a failure was not executed.
    is_certain: bool,
    order: u64,
    /// When a target lost its power last.
    lost: u64,
    blocks: NumberMap<Vec<Version>>,
    /// Blocks with more than one version.
    unsettled: BTreeSet<u64>,
    /// Whether something was read since the device was opened.
    was_read: bool,
    flights: Vec<Flight>,
    next_tag: Tag,
    violation: Option<String>,
    slowest_us: u64,
    /// Polls since a step of the world, and that step.
    polls: (u64, u64),
    /// The last step of the world that may come.
    last_step: u64,
}

/// The knowledge of a witness, which stays while the device below is opened again.
#[derive(Clone)]
pub struct Testimony(Rc<RefCell<State>>);

impl Testimony {
    /// Of a device whose blocks are zeroes, of which its user may write those before `end`; each
    /// request ends within `bound_us`.
    pub fn new(world: &World, end: u64, bound_us: u64, has_cache: bool, stack: Stack) -> Self {
        Self(Rc::new(RefCell::new(State {
            world: world.clone(),
            end,
            bound_us,
            has_cache,
            is_certain: stack == Stack::Remote,
            order: 1,
            lost: 0,
            blocks: NumberMap::default(),
            unsettled: BTreeSet::new(),
            was_read: false,
            flights: Vec::new(),
            next_tag: 0,
            violation: None,
            slowest_us: 0,
            polls: (0, 0),
            last_step: MOST_STEPS,
        })))
    }

    /// A step of a script begins, which may take `more` steps of the world than others.
    pub fn begin(&self, more: u64) {
        let mut state = self.0.borrow_mut();
        let steps = state.world.trace(|trace| trace.steps());
        state.last_step = steps + MOST_STEPS + more;
    }

    /// A request begins whose user watches itself.
    pub fn submit(&self, request: &mut Request, geometry: &Geometry) {
        self.0.borrow_mut().submitted(request, geometry);
    }

    /// It ends.
    pub fn complete(&self, completion: &mut Completion, block_bytes: usize) {
        self.0.borrow_mut().completed(completion, block_bytes);
    }

    /// What was acknowledged by now is durable.
    pub fn everything_is_durable(&self) {
        let mut state = self.0.borrow_mut();
        state.order += 1;
        let order = state.order;
        state.flushed(order);
    }

    /// The first broken promise.
    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violation.clone()
    }

    /// Whether something was read since the device was opened.
    pub fn was_read(&self) -> bool {
        self.0.borrow().was_read
    }

    /// The device is opened again.
    pub fn forget_reads(&self) {
        self.0.borrow_mut().was_read = false;
    }

    /// The longest that a request took.
    pub fn slowest_us(&self) -> u64 {
        self.0.borrow().slowest_us
    }

    /// The user may write up to there now.
    pub fn set_end(&self, end: u64) {
        self.0.borrow_mut().end = end;
    }

    /// Accepts any content of the blocks from now on: they were written past the witness.
    pub fn forget(&self) {
        let mut state = self.0.borrow_mut();
        state.blocks.clear();
        state.unsettled.clear();
    }

    /// The power was cut: each version that no flush has made obsolete may be there.
    pub fn power_was_cut(&self) {
        let mut state = self.0.borrow_mut();
        state.order += 1;
        let order = state.order;
        state.flights.clear();
        let unsettled = state.unsettled.clone();
        for lba in unsettled {
            for version in state.blocks.get_mut(&lba).into_iter().flatten() {
                version.replaced = 0;
                if version.ended == 0 {
                    version.ended = order;
                }
            }
        }
    }

    /// A target has lost its power, and what no flush had made durable; its host goes on. What was
    /// under way may have been executed before that.
    pub fn target_lost_power(&self) {
        let mut state = self.0.borrow_mut();
        state.order += 1;
        state.lost = state.order;
        let unsettled = state.unsettled.clone();
        for lba in unsettled {
            for version in state.blocks.get_mut(&lba).into_iter().flatten() {
                version.replaced = 0;
            }
        }
    }

    /// A request that has not ended within its bound.
    pub fn check_bounds(&self) {
        let mut state = self.0.borrow_mut();
        let now = state.world.now_us();
        let late = state
            .flights
            .iter()
            .find(|flight| now - flight.began_us > state.bound_us);
        if let Some(flight) = late {
            let what = format!(
                "the request at block {} has not ended after {} s",
                flight.lba,
                (now - flight.began_us) / 1_000_000
            );
            state.violation.get_or_insert(what);
        }
    }
}

impl State {
    fn complain(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    fn versions(&mut self, lba: u64) -> &mut Vec<Version> {
        self.blocks.entry(lba).or_insert_with(|| {
            vec![Version {
                hash: ZEROES,
                begun: 0,
                ended: 1,
                replaced: 0,
                is_unknown: false,
            }]
        })
    }

    fn submitted(&mut self, request: &mut Request, geometry: &Geometry) {
        self.order += 1;
        self.next_tag = self.next_tag.wrapping_add(1);
        let given = std::mem::replace(&mut request.tag, self.next_tag);
        let size = geometry.block_size_bytes();
        let (lba, kind, hashes) = match &request.operation {
            Operation::Read { lba, .. } => (*lba, Kind::Read, Vec::new()),
            Operation::Flush => (0, Kind::Flush, Vec::new()),
            Operation::Write { lba, buffer, fua } => {
                let hashes = buffer.chunks_exact(size).map(hash).collect();
                (*lba, Kind::Write { fua: *fua }, hashes)
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                let hashes = vec![ZEROES; *block_count as usize];
                (*lba, Kind::Write { fua: *fua }, hashes)
            }
            Operation::Discard { lba, block_count } => {
                let hashes = vec![ANYTHING; *block_count as usize];
                (*lba, Kind::Write { fua: false }, hashes)
            }
        };
        if !hashes.is_empty() {
            let content = hashes.iter().fold(0, |all, hash| mix(all, *hash));
            self.world.note(What::Content, lba, content);
        }
        if lba + hashes.len() as u64 > self.end {
            let what = format!("block {} is written, which is another owner's", self.end);
            self.complain(what);
        }
        let begun = self.order;
        for (lba, hash) in (lba..).zip(&hashes) {
            self.versions(lba).push(Version {
                hash: *hash,
                begun,
                ended: 0,
                replaced: 0,
                is_unknown: false,
            });
            self.unsettled.insert(lba);
        }
        self.flights.push(Flight {
            tag: request.tag,
            given,
            lba,
            hashes,
            kind,
            order: begun,
            began_us: self.world.now_us(),
        });
    }

    fn completed(&mut self, completion: &mut Completion, block_bytes: usize) {
        let index = self
            .flights
            .iter()
            .position(|flight| flight.tag == completion.tag);
        let Some(index) = index else {
            self.complain(format!(
                "a completion of no request: tag {}",
                completion.tag
            ));
            return;
        };
        let flight = self.flights.remove(index);
        completion.tag = flight.given;
        let took = self.world.now_us() - flight.began_us;
        self.slowest_us = self.slowest_us.max(took);
        if took > self.bound_us {
            let (lba, seconds) = (flight.lba, took / 1_000_000);
            self.complain(format!("the request at block {lba} took {seconds} s"));
        }
        self.order += 1;
        match (flight.kind, completion.result) {
            (Kind::Read, Ok(())) => {
                self.was_read = true;
                let buffer = completion.buffer.as_deref().unwrap_or_default();
                let mut content = 0;
                for (lba, block) in (flight.lba..).zip(buffer.chunks_exact(block_bytes)) {
                    let hash = hash(block);
                    content = mix(content, hash);
                    self.has_read(lba, hash, flight.order);
                }
                self.world.note(What::Content, flight.lba, content);
            }
            (Kind::Write { fua }, result) => self.wrote(&flight, fua, result),
            (Kind::Flush, Ok(())) if flight.order > self.lost => self.flushed(flight.order),
            (Kind::Read | Kind::Flush, _) => {}
        }
    }

    fn has_read(&mut self, lba: u64, hash: u64, begun: u64) {
        let versions = self.versions(lba);
        // One that was in force at some time during the read.
        let is_possible = |version: &Version| {
            (version.replaced == 0 || version.replaced > begun)
                && (version.hash == hash || version.hash == ANYTHING)
        };
        if !versions.iter().any(is_possible) {
            let was = versions.iter().any(|version| version.hash == hash);
            let what = if was {
                "an older version than the newest acknowledged one"
            } else {
                "what was never written there, or long ago"
            };
            self.complain(format!("block {lba} reads as {what}"));
            return;
        }
        let is_quiet = versions
            .iter()
            .all(|version| version.ended != 0 && version.ended < begun && !version.is_unknown);
        let replaced = versions.iter().any(|version| version.replaced > begun);
        if is_quiet && !replaced && begun > self.lost {
            let order = self.order;
            let versions = self.versions(lba);
            let is_written = versions
                .iter()
                .any(|version| version.replaced == 0 && version.hash == hash);
            for version in versions.iter_mut().filter(|version| version.replaced == 0) {
                // One that another took the place of may still come back with the power.
                if version.hash == ANYTHING && !is_written {
                    version.hash = hash;
                }
                if version.hash != hash {
                    version.replaced = order;
                }
            }
        }
    }

    fn wrote(&mut self, flight: &Flight, fua: bool, result: Result<(), Error>) {
        let (order, begun) = (self.order, flight.order);
        let is_durable = fua || !self.has_cache;
        if self.is_certain && matches!(result, Err(Error::TimedOut | Error::Gone)) {
            return self.forget_write(flight);
        }
        // It may have been executed, and then lost.
        let has_replaced = result.is_ok() && (is_durable || begun > self.lost);
        let read = self.oldest_read();
        for lba in flight.lba..flight.lba + flight.hashes.len() as u64 {
            let versions = self.versions(lba);
            for version in versions.iter_mut() {
                if version.begun == begun {
                    version.ended = order;
                    version.is_unknown = result == Err(Error::OutcomeUnknown);
                } else if has_replaced
                    && version.ended != 0
                    && version.ended < begun
                    && version.replaced == 0
                {
                    version.replaced = order;
                }
            }
            if result.is_ok() && is_durable {
                versions.retain(|version| {
                    version.replaced == 0 || version.ended > begun || version.replaced > read
                });
            }
            self.settle(lba);
        }
    }

    /// What had been replaced when the flush was submitted cannot come back.
    fn flushed(&mut self, begun: u64) {
        let unsettled: Vec<u64> = self.unsettled.iter().copied().collect();
        let begun = begun.min(self.oldest_read());
        for lba in unsettled {
            let versions = self.versions(lba);
            versions.retain(|version| version.replaced == 0 || version.replaced > begun);
            self.settle(lba);
        }
    }

    /// When the oldest read under way began: it may give what has been replaced since.
    fn oldest_read(&self) -> u64 {
        let reads = self
            .flights
            .iter()
            .filter(|flight| flight.kind == Kind::Read);
        reads.map(|flight| flight.order).min().unwrap_or(u64::MAX)
    }

    fn settle(&mut self, lba: u64) {
        let is_settled = self
            .blocks
            .get(&lba)
            .is_none_or(|versions| versions.len() == 1 && versions.iter().all(|v| v.ended != 0));
        if is_settled {
            self.unsettled.remove(&lba);
        }
    }
}

/// A device with a witness.
pub struct Witness<D> {
    device: D,
    testimony: Testimony,
}

impl<D: Device> Witness<D> {
    /// Watches a device.
    pub fn new(device: D, testimony: &Testimony) -> Self {
        testimony.0.borrow_mut().orphan();
        Self {
            device,
            testimony: testimony.clone(),
        }
    }
}

impl<D: Device> Device for Witness<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, mut request: Request) -> Result<(), Refused> {
        let geometry = *self.device.geometry();
        let mut state = self.testimony.0.borrow_mut();
        state.submitted(&mut request, &geometry);
        drop(state);
        let submitted = self.device.submit(request);
        submitted.map_err(|mut refused| {
            self.testimony.0.borrow_mut().withdraw(&mut refused.request);
            refused
        })
    }

    fn kick(&mut self) {
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let Some(mut completion) = self.device.poll() else {
            let endless = self.testimony.0.borrow_mut().nothing_completed();
            if let Some(what) = endless.filter(|_| !std::thread::panicking()) {
                resume_unwind(Box::new(Endless(what)));
            }
            return None;
        };
        let block_bytes = self.device.geometry().block_size_bytes();
        let mut state = self.testimony.0.borrow_mut();
        state.completed(&mut completion, block_bytes);
        Some(completion)
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }
}

impl State {
    /// A poll without a completion. What it says of a product that goes on without end.
    fn nothing_completed(&mut self) -> Option<String> {
        let steps = self.world.trace(|trace| trace.steps());
        let (polls, since) = self.polls;
        self.polls = if since == steps {
            (polls + 1, since)
        } else {
            (0, steps)
        };
        if polls > MOST_POLLS {
            return Some(format!(
                "{MOST_POLLS} polls of a device, and nothing happens"
            ));
        }
        let is_late = steps > self.last_step;
        is_late.then(|| "a step of the script does not end".to_owned())
    }

    /// The user has died: its requests may have taken effect.
    fn orphan(&mut self) {
        self.order += 1;
        self.flights.clear();
        for lba in &self.unsettled {
            for version in self.blocks.get_mut(lba).into_iter().flatten() {
                if version.ended == 0 {
                    version.ended = self.order;
                }
            }
        }
    }

    /// A request that was refused, and changed nothing.
    fn withdraw(&mut self, request: &mut Request) {
        let mut flights = self.flights.iter();
        let Some(index) = flights.rposition(|flight| flight.tag == request.tag) else {
            return;
        };
        let flight = self.flights.remove(index);
        request.tag = flight.given;
        self.forget_write(&flight);
    }

    /// A write that was not executed.
    fn forget_write(&mut self, flight: &Flight) {
        for lba in flight.lba..flight.lba + flight.hashes.len() as u64 {
            self.versions(lba)
                .retain(|version| version.begun != flight.order);
            self.settle(lba);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Drive, DriveShape, Power};
    use block::Features;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn witness(world: &World) -> Witness<Drive> {
        let shape = DriveShape {
            block_count: 64,
            block_size_log2: 9,
            features: Features::default(),
            queue_depth: 8,
        };
        let testimony = Testimony::new(world, 64, u64::MAX, false, Stack::Drive);
        Witness::new(Drive::new(world, &Power::default(), 0, shape), &testimony)
    }

    fn endless(mut turn: impl FnMut()) -> Box<Endless> {
        let ended = catch_unwind(AssertUnwindSafe(|| {
            loop {
                turn();
            }
        }));
        let Err(payload) = ended;
        payload.downcast().unwrap()
    }

    #[test]
    fn polls_without_an_end_are_left() {
        let world = World::new(1);
        let mut witness = witness(&world);
        let Endless(what) = *endless(|| assert!(witness.poll().is_none()));
        assert!(what.contains("nothing happens"), "{what}");
    }

    #[test]
    fn steps_of_the_world_without_an_end_are_left() {
        let world = World::new(1);
        let mut witness = witness(&world);
        let Endless(what) = *endless(|| {
            world.note(What::Check, 0, 0);
            assert!(witness.poll().is_none());
        });
        assert!(what.contains("does not end"), "{what}");
    }
}
