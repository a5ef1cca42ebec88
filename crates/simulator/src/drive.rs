// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated drive: a volatile write cache, latencies, and faults.
//!
//! A write takes effect when it completes, and is durable when a flush completes that was submitted
//! after that, or at its own completion with FUA. A power cut keeps of what was not durable any
//! commands, and of those any blocks: NVMe promises no order between commands, and atomicity of a
//! block only (NVM command set 1.1, 2.1.4).

use crate::content::Stored;
use crate::trace::What;
use crate::world::World;
use block::{Completion, Device, Error, Features, Geometry, Operation, Refused, Request};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The blocks of a page of the store.
const PAGE: u64 = 64;

/// What a failed read leaves in its buffer.
const POISON: u8 = 0xa5;

/// The power of a machine, which all of its drives lose together.
#[derive(Clone, Debug, Default)]
pub struct Power(Rc<PowerState>);

#[derive(Debug, Default)]
struct PowerState {
    is_off: Cell<bool>,
    /// The host has lost it, too: it gets no answer.
    is_shared: Cell<bool>,
    is_spared: Cell<bool>,
    /// Changes until it is cut.
    left: Cell<Option<u64>>,
    /// Commits until it is cut at the next change.
    commits: Cell<Option<u64>>,
}

impl Power {
    /// Cuts it at the change that comes after so many others.
    pub fn cut_after(&self, changes: u64) {
        self.0.left.set(Some(changes));
    }

    /// Cuts it at the first change after this number of commits: flushes, and writes with FUA.
    pub fn cut_after_commits(&self, commits: u64) {
        self.0.commits.set(Some(commits));
    }

    /// Something was made durable.
    fn committed(&self) {
        match self.0.commits.get() {
            Some(0 | 1) => {
                self.0.commits.set(None);
                self.cut_after(0);
            }
            commits => self.0.commits.set(commits.map(|left| left - 1)),
        }
    }

    /// Whether it is not cut for now.
    pub fn spare(&self, is_spared: bool) {
        self.0.is_spared.set(is_spared);
    }

    /// The host loses it together with the drives.
    pub fn share(&self) {
        self.0.is_shared.set(true);
    }

    /// Whether the host loses it, too.
    pub fn is_shared(&self) -> bool {
        self.0.is_shared.get()
    }

    /// Cuts it now.
    pub fn cut(&self) {
        self.0.is_off.set(true);
    }

    /// Whether it is off.
    pub fn is_off(&self) -> bool {
        self.0.is_off.get()
    }

    /// Whether it is off or will be.
    pub fn is_doomed(&self) -> bool {
        self.is_off() || self.0.left.get().is_some() || self.0.commits.get().is_some()
    }

    /// Switches it on, after [`Drive::settle`] of each drive.
    pub fn on(&self) {
        self.0.is_off.set(false);
        self.0.left.set(None);
        self.0.commits.set(None);
    }

    /// A change is submitted.
    fn count(&self) {
        match self.0.left.get() {
            Some(0) if self.0.is_spared.get() => {}
            Some(0) => self.cut(),
            Some(left) => self.0.left.set(Some(left - 1)),
            None => {}
        }
    }
}

/// A fault that waits for requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveFault {
    /// Reads fail.
    Reads,
    /// Writes fail without effect.
    Writes,
    /// Writes fail, and have taken effect.
    WritesDone,
    /// Flushes fail.
    Flushes,
    /// Writes of one place fail without effect: where the first of them goes.
    Place,
}

/// Those that are to come.
#[derive(Clone, Copy, Debug)]
struct Faults {
    kind: DriveFault,
    after: u64,
    count: u64,
    /// First block and length of the place.
    place: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Flight {
    request: Request,
    due: u64,
    number: u64,
    /// For a flush: what it covers.
    mark: u64,
    error: Option<Error>,
    has_effect: bool,
}

/// A version of a block that may survive a power cut.
#[derive(Debug)]
struct Version {
    /// The order in which it took effect; 0 for the durable one.
    done: u64,
    /// The command.
    number: u64,
    content: Stored,
}

struct State {
    world: World,
    power: Power,
    index: u64,
    pages: Vec<Option<Box<[Stored]>>>,
    /// Of each block that may change in a power cut: its versions, the durable one first.
    pending: BTreeMap<u64, Vec<Version>>,
    flights: Vec<Flight>,
    submitted: u64,
    done: u64,
    faults: Option<Faults>,
    /// Whether a request of its user has failed, which that may not have been told yet.
    has_failed: bool,
    slow: Option<(u64, u64)>,
    is_removed: bool,
    /// It was plugged in again, and not opened since.
    is_stale: bool,
    remove_after: Option<u64>,
    has_cache: bool,
    block_bytes: usize,
}

/// A handle to a drive, and the device.
#[derive(Clone)]
pub struct Drive {
    geometry: Geometry,
    state: Rc<RefCell<State>>,
}

/// The shape of a drive.
#[derive(Clone, Copy, Debug)]
pub struct DriveShape {
    /// Blocks.
    pub block_count: u64,
    /// Block size.
    pub block_size_log2: u8,
    /// What it can do.
    pub features: Features,
    /// Requests in flight.
    pub queue_depth: u16,
}

impl Drive {
    /// A drive of zeroes.
    pub fn new(world: &World, power: &Power, index: u64, shape: DriveShape) -> Self {
        let geometry = Geometry {
            block_size_log2: shape.block_size_log2,
            block_count: shape.block_count,
            max_transfer_blocks: (256 << 10 >> shape.block_size_log2) as u32,
            queue_depth: shape.queue_depth,
            buffer_align_bytes: 4,
            features: shape.features,
        };
        let pages = shape.block_count.div_ceil(PAGE) as usize;
        let state = State {
            world: world.clone(),
            power: power.clone(),
            index,
            pages: (0..pages).map(|_| None).collect(),
            pending: BTreeMap::new(),
            flights: Vec::new(),
            submitted: 0,
            done: 0,
            faults: None,
            has_failed: false,
            slow: None,
            is_removed: false,
            is_stale: false,
            remove_after: None,
            has_cache: shape.features.volatile_write_cache,
            block_bytes: geometry.block_size_bytes(),
        };
        Self {
            geometry,
            state: Rc::new(RefCell::new(state)),
        }
    }

    /// Of a kind of requests `count` fail, after so many others.
    pub fn fail(&self, kind: DriveFault, after: u64, count: u64) {
        self.state.borrow_mut().faults = Some(Faults {
            kind,
            after,
            count,
            place: None,
        });
    }

    /// Each request takes `latency_us` more for `for_us`.
    pub fn slow(&self, latency_us: u64, for_us: u64) {
        let mut state = self.state.borrow_mut();
        let end = state.world.now_us() + for_us;
        state.world.note(What::Slow, state.index, latency_us);
        state.slow = Some((latency_us, end));
    }

    /// It is unplugged at the request that comes after so many others.
    pub fn remove_after(&self, requests: u64) {
        self.state.borrow_mut().remove_after = Some(requests);
    }

    /// It is plugged in again, for whoever opens it then. Whether it had been unplugged: what its
    /// cache held was kept or lost as in a power cut.
    pub fn give_back(&self) -> bool {
        let mut state = self.state.borrow_mut();
        state.remove_after = None;
        if !state.is_removed {
            return false;
        }
        state.settle();
        (state.is_removed, state.is_stale) = (false, true);
        state.world.note(What::Return, state.index, 0);
        true
    }

    /// Whether it is unplugged, or will be.
    pub fn is_removed(&self) -> bool {
        let state = self.state.borrow();
        state.is_removed || state.remove_after.is_some()
    }

    /// Ends all faults but removals.
    pub fn heal(&self) {
        let mut state = self.state.borrow_mut();
        (state.faults, state.slow) = (None, None);
    }

    /// Whether a fault is active that makes requests fail or late.
    pub fn is_faulty(&self) -> bool {
        let state = self.state.borrow();
        state.faults.is_some() || state.is_removed || state.is_stale || state.remove_after.is_some()
    }

    /// Whether it was taken away, or soon is: it loses what it has not made durable.
    pub fn is_leaving(&self) -> bool {
        let state = self.state.borrow();
        state.is_removed || state.is_stale || state.remove_after.is_some()
    }

    /// Whether a request has failed since it was opened.
    pub fn has_failed(&self) -> bool {
        self.state.borrow().has_failed
    }

    /// Decides what a power cut has left of what was not durable.
    pub fn settle(&self) {
        self.state.borrow_mut().settle();
    }

    /// It is opened again: requests of its last user complete or are lost.
    pub fn orphan(&self) {
        let mut state = self.state.borrow_mut();
        (state.is_stale, state.has_failed) = (false, false);
        // After a crash a mirror makes its members equal first. What only that member has which it
        // begins with was never acknowledged, or not flushed, and would be lost with it, though it
        // may have been read. So what has not happened yet does not.
        (state.faults, state.remove_after) = (None, None);
        for flight in std::mem::take(&mut state.flights) {
            if flight.has_effect && !state.world.one_in(3) {
                state.apply(&flight.request.operation, flight.number, true);
            }
        }
    }

    /// Executes a write of a target that has the drive.
    pub fn poke<'b>(&self, lba: u64, blocks: impl Iterator<Item = &'b [u8]>, is_durable: bool) {
        let mut state = self.state.borrow_mut();
        state.done += 1;
        state.submitted += 1;
        let number = state.submitted;
        for (lba, block) in (lba..).zip(blocks) {
            state.change(lba, Stored::new(block), number, is_durable);
        }
    }

    /// What a flush covers that a target gets now.
    pub fn mark(&self) -> u64 {
        self.state.borrow().done
    }

    /// Executes it.
    pub fn flush(&self, mark: u64) {
        self.state.borrow_mut().flush(mark);
    }

    /// Reads a block without the host.
    pub fn peek(&self, lba: u64, block: &mut [u8]) {
        self.state.borrow().get(lba).read(block);
    }
}

impl State {
    fn get(&self, lba: u64) -> Stored {
        let page = self.pages.get((lba / PAGE) as usize);
        let page = page.and_then(|page| page.as_ref());
        page.map_or(Stored::Zeroes, |page| page[(lba % PAGE) as usize].clone())
    }

    fn set(&mut self, lba: u64, content: Stored) -> Stored {
        let Some(page) = self.pages.get_mut((lba / PAGE) as usize) else {
            return Stored::Zeroes;
        };
        let page = page.get_or_insert_with(|| vec![Stored::Zeroes; PAGE as usize].into());
        std::mem::replace(&mut page[(lba % PAGE) as usize], content)
    }

    fn change(&mut self, lba: u64, content: Stored, number: u64, is_durable: bool) {
        let before = self.set(lba, content.clone());
        if is_durable {
            self.pending.remove(&lba);
            return;
        }
        let done = self.done;
        let versions = self.pending.entry(lba).or_insert_with(|| {
            vec![Version {
                done: 0,
                number: 0,
                content: before,
            }]
        });
        versions.push(Version {
            done,
            number,
            content,
        });
    }

    /// Applies what a write, write-zeroes or discard changes. `is_whole`: it completes, otherwise
    /// it is interrupted.
    fn apply(&mut self, operation: &Operation, number: u64, is_whole: bool) {
        self.done += 1;
        let is_durable = |fua: bool| is_whole && (fua || !self.has_cache);
        match operation {
            Operation::Write { lba, buffer, fua } => {
                let is_durable = is_durable(*fua);
                for (lba, data) in (*lba..).zip(buffer.chunks_exact(self.block_bytes)) {
                    self.change(lba, Stored::new(data), number, is_durable);
                }
            }
            Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            } => {
                let is_durable = is_durable(*fua);
                for lba in *lba..*lba + u64::from(*block_count) {
                    self.change(lba, Stored::Zeroes, number, is_durable);
                }
            }
            Operation::Discard { lba, block_count } => {
                let is_durable = is_durable(false);
                for lba in *lba..*lba + u64::from(*block_count) {
                    self.change(lba, Stored::Zeroes, number, is_durable);
                }
            }
            Operation::Read { .. } | Operation::Flush => {}
        }
    }

    /// What is under way is interrupted: any of its blocks may have been written.
    fn interrupt(&mut self) {
        let mut flights = std::mem::take(&mut self.flights);
        for flight in &mut flights {
            if flight.has_effect {
                self.apply(&flight.request.operation, flight.number, false);
            }
            (flight.has_effect, flight.error) = (false, Some(Error::Gone));
        }
        self.flights = flights;
    }

    fn flush(&mut self, mark: u64) {
        self.pending.retain(|_, versions| {
            let newest = versions.iter().rposition(|version| version.done <= mark);
            let newest = newest.unwrap_or(0);
            versions.drain(..newest);
            if let Some(first) = versions.first_mut() {
                (first.done, first.number) = (0, 0);
            }
            versions.len() > 1
        });
    }

    fn is_dead(&self) -> bool {
        self.power.is_off() || self.is_removed || self.is_stale
    }

    /// Each command survives or not; one in four is torn.
    fn settle(&mut self) {
        self.interrupt();
        let salt = self.world.below(u64::MAX);
        let fate = |number: u64, lba: u64| {
            let roll = crate::trace::mix(salt, number);
            match roll >> 61 {
                0..3 => true,
                3..6 => false,
                _ => crate::trace::mix(roll, lba) >> 63 == 1,
            }
        };
        let pending = std::mem::take(&mut self.pending);
        for (lba, versions) in pending {
            let mut left = Stored::Zeroes;
            for version in versions {
                if version.done == 0 || fate(version.number, lba) {
                    left = version.content;
                }
            }
            self.set(lba, left);
        }
    }

    /// The request's latency.
    fn latency(&self, operation: &Operation) -> u64 {
        let base = match operation {
            Operation::Read { .. } => 60 + self.world.below(60),
            Operation::Flush => 200 + self.world.below(800),
            _ => 15 + self.world.below(100),
        };
        match self.slow {
            Some((more, end)) if self.world.now_us() < end => base + self.world.below(2 * more),
            _ => base,
        }
    }

    /// The fault that a request meets.
    fn fault(&mut self, operation: &Operation) -> (Option<Error>, bool) {
        let Some(faults) = &mut self.faults else {
            return (None, true);
        };
        let kind = faults.kind;
        let is_met = match operation {
            Operation::Read { .. } => kind == DriveFault::Reads,
            Operation::Flush => kind == DriveFault::Flushes,
            Operation::Write { lba, buffer, .. } if kind == DriveFault::Place => {
                let len = buffer.len().div_ceil(self.block_bytes) as u64;
                let place = faults.place;
                place.is_none_or(|(first, count)| *lba < first + count && first < lba + len)
            }
            _ => matches!(kind, DriveFault::Writes | DriveFault::WritesDone),
        };
        if !is_met {
            return (None, true);
        }
        if faults.after > 0 {
            faults.after -= 1;
            return (None, true);
        }
        if let Operation::Write { lba, buffer, .. } = operation {
            let len = buffer.len().div_ceil(self.block_bytes) as u64;
            faults.place.get_or_insert((*lba, len));
        }
        faults.count = faults.count.saturating_sub(1);
        if faults.count == 0 {
            self.faults = None;
        }
        self.has_failed = true;
        // An internal error, which may be retried.
        let error = Error::Nvme { status: 0x006 };
        (Some(error), kind == DriveFault::WritesDone)
    }
}

impl Device for Drive {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.flights.len() >= usize::from(self.geometry.queue_depth) {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        }
        let goes = match &mut state.remove_after {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        let was_dead = state.is_dead();
        if goes {
            (state.is_removed, state.remove_after) = (true, None);
            state.world.note(What::Remove, state.index, 0);
        }
        if !matches!(request.operation, Operation::Read { .. }) && !was_dead {
            state.power.count();
        }
        state.submitted += 1;
        let is_dead = state.is_dead();
        let (error, has_effect) = match (was_dead, is_dead) {
            (true, _) => (Some(Error::Gone), false),
            // It is under way while the power fails.
            (false, true) => (None, true),
            (false, false) => state.fault(&request.operation),
        };
        if is_dead && !was_dead {
            state.world.note(What::Cut, state.index, state.submitted);
        }
        let latency = if is_dead {
            1
        } else {
            state.latency(&request.operation)
        };
        let (lba, code) = place(&request.operation);
        state
            .world
            .note(What::Submit, state.index << 56 | lba, code);
        let due = state.world.now_us() + latency;
        state.world.wake_at(due);
        state.flights.push(Flight {
            request,
            due,
            number: state.submitted,
            mark: state.done,
            error,
            has_effect,
        });
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let now = state.world.now_us();
        if state.power.is_off() && state.power.is_shared() {
            return None;
        }
        let is_dead = state.is_dead();
        let due = state.flights.iter().enumerate();
        let due = due.filter(|(_, flight)| is_dead || flight.due <= now);
        let (index, _) = due.min_by_key(|(_, flight)| (flight.due, flight.number))?;
        let flight = state.flights.swap_remove(index);
        let Flight {
            mut request,
            number,
            mut error,
            mark,
            has_effect,
            ..
        } = flight;
        if is_dead {
            if has_effect {
                state.apply(&request.operation, number, false);
            }
            error = Some(Error::Gone);
        } else if has_effect {
            match &mut request.operation {
                Operation::Read { lba, buffer } => {
                    let size = self.geometry.block_size_bytes();
                    for (lba, block) in (*lba..).zip(buffer.chunks_exact_mut(size)) {
                        state.get(lba).read(block);
                    }
                }
                Operation::Flush => {
                    state.flush(mark);
                    state.power.committed();
                }
                operation => {
                    state.apply(operation, number, true);
                    if matches!(operation, Operation::Write { fua: true, .. }) {
                        state.power.committed();
                    }
                }
            }
        }
        let (lba, code) = place(&request.operation);
        let what = match error {
            Some(_) => What::Failed,
            None if code == 0 => What::Flushed,
            None => What::Complete,
        };
        state.world.note(what, state.index << 56 | lba, code);
        let is_read = matches!(request.operation, Operation::Read { .. });
        let mut buffer = request.operation.into_buffer();
        if let (true, Some(_), Some(buffer)) = (is_read, error, &mut buffer) {
            buffer.fill(POISON);
        }
        Some(Completion {
            tag: request.tag,
            buffer,
            result: error.map_or(Ok(()), Err),
        })
    }

    fn outstanding(&self) -> usize {
        self.state.borrow().flights.len()
    }

    fn wait(&mut self, timeout_us: u32) {
        let world = self.state.borrow().world.clone();
        world.sleep(u64::from(timeout_us));
    }
}

/// A request in two numbers: its block, and its kind with its length.
fn place(operation: &Operation) -> (u64, u64) {
    let (kind, lba, len) = match operation {
        Operation::Flush => (0, 0, 0),
        Operation::Read { lba, buffer } => (1, *lba, buffer.len() as u64),
        Operation::Write { lba, buffer, fua } => (2 + u64::from(*fua), *lba, buffer.len() as u64),
        Operation::Discard { lba, block_count } => (4, *lba, u64::from(*block_count)),
        Operation::WriteZeroes {
            lba, block_count, ..
        } => (5, *lba, u64::from(*block_count)),
    };
    (lba, len << 8 | kind)
}
