// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handle: a controller behind a lock, as a driver's platform.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::Clock;
use nvme::{InterruptRefused, PciId, Registers};

use crate::clock::ModelClock;
use crate::config::Config;
use crate::controller::Controller;
use crate::fault::{Faults, Rule};
use crate::logs::AsyncEvent;
use crate::memory::BusMemory;
use crate::namespace::Namespace;
use crate::statistics::Statistics;
use crate::store::{FileStore, SparseRam, Store};
use crate::violation::Violation;

/// A model NVMe controller. A handle: clones are the same controller.
///
/// There is no thread: commands run inside the doorbell write that submits them. Delayed work
/// continues inside the first register access, clock reading, pause or interrupt wait after it is
/// due.
#[derive(Clone, Debug)]
pub struct Model(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: BusMemory,
    controller: Mutex<Controller>,
    clock: ModelClock,
    /// When the controller next has something to do by itself, so that reading the clock takes no
    /// lock before that.
    next_due: AtomicU64,
    interrupts: Mutex<Interrupts>,
    interrupted: Condvar,
    recalled: AtomicBool,
}

#[derive(Debug)]
struct Interrupts {
    vectors: Vec<Vector>,
    /// Waiting threads: without one, an interrupt makes no system call.
    waiters: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Vector {
    enabled: bool,
    pending: bool,
}

impl Model {
    /// A healthy controller that can reach `memory`.
    ///
    /// # Errors
    /// When a namespace's file cannot be opened, or the configuration contradicts itself.
    pub fn new(config: Config, memory: BusMemory) -> io::Result<Self> {
        Self::with_faults(config, memory, Faults::none())
    }

    /// A controller with faults.
    ///
    /// # Errors
    /// As for [`new`](Model::new).
    pub fn with_faults(config: Config, memory: BusMemory, faults: Faults) -> io::Result<Self> {
        let mut stores: Vec<Box<dyn Store>> = Vec::new();
        for one in &config.namespaces {
            let len_bytes = one
                .block_count
                .saturating_mul(1 << (one.block_size_log2 & 31));
            stores.push(match &one.file {
                Some(path) => Box::new(FileStore::open(path, len_bytes)?),
                None => Box::new(SparseRam::new(len_bytes)),
            });
        }
        Self::with_stores(config, memory, faults, stores)
    }

    /// A controller over the caller's stores, one per namespace in the configuration's order.
    ///
    /// # Errors
    /// When the configuration contradicts itself or the stores.
    pub fn with_stores(
        config: Config,
        memory: BusMemory,
        faults: Faults,
        stores: Vec<Box<dyn Store>>,
    ) -> io::Result<Self> {
        check(&config, &stores)
            .map_err(|what| io::Error::new(io::ErrorKind::InvalidInput, what))?;
        let cache = config.write_cache_blocks;
        let namespaces = config.namespaces.iter().zip(stores);
        let namespaces = namespaces.map(|(one, store)| Namespace::new(one.clone(), store, cache));
        let namespaces = namespaces.collect();
        let clock = ModelClock::new(config.time);
        let ticks_per_us = clock.ticks_per_second() / 1_000_000;
        let vectors = vec![Vector::default(); usize::from(config.interrupt_vectors)];
        let controller = Controller::new(config, faults, memory.clone(), namespaces, ticks_per_us);
        Ok(Self(Arc::new(Shared {
            memory,
            controller: Mutex::new(controller),
            clock,
            next_due: AtomicU64::new(u64::MAX),
            interrupts: Mutex::new(Interrupts {
                vectors,
                waiters: 0,
            }),
            interrupted: Condvar::new(),
            recalled: AtomicBool::new(false),
        })))
    }

    /// The memory that it reaches.
    pub fn memory(&self) -> &BusMemory {
        &self.0.memory
    }

    /// Adds a fault; events count from now on. CAP keeps the value from when the model was made.
    pub fn inject(&self, rule: Rule) {
        self.enter(|controller| {
            let mut one = Faults::new(&[rule]);
            one.count(crate::fault::Event::Start, |kind| controller.strike(kind));
            controller.faults.add(rule);
        });
    }

    /// Removes all faults; their effects stay.
    pub fn heal(&self) {
        self.enter(|controller| controller.faults = Faults::none());
    }

    /// How often faults have occurred.
    pub fn strikes(&self) -> u64 {
        self.enter(|controller| controller.faults.strikes())
    }

    /// How often each fault has occurred.
    pub fn strikes_by_rule(&self) -> Vec<(Rule, u64)> {
        self.enter(|controller| controller.faults.strikes_by_rule())
    }

    /// Reports an asynchronous event.
    pub fn event(&self, event: AsyncEvent) {
        self.enter(|controller| controller.event(event));
    }

    /// Sets the health log's critical warning bits.
    pub fn set_critical_warning(&self, bits: u8) {
        self.enter(|controller| controller.logs.critical_warning = bits);
    }

    /// Takes the device off the bus: registers read as ones, memory is no longer accessed.
    pub fn remove(&self) {
        self.enter(|controller| controller.bus.removed = true);
    }

    /// Asks for the function back, like a machine whose drive is to be unplugged.
    pub fn recall(&self) {
        self.0.recalled.store(true, Ordering::Relaxed);
    }

    /// Cuts the power and restores it: the controller is reset, a removed one is present again, and
    /// what the write cache held is lost.
    pub fn power_cut(&self) {
        self.enter(|controller| {
            controller.bus.removed = false;
            controller.power_cut(None);
        });
    }

    /// Like [`power_cut`](Model::power_cut), but each block of the write cache has an even chance
    /// of having been stored, determined by `seed`.
    pub fn power_cut_partly(&self, seed: u64) {
        self.enter(|controller| {
            controller.bus.removed = false;
            controller.power_cut(Some(seed));
        });
    }

    /// Blocks in write caches that a power cut would lose.
    pub fn unflushed_blocks(&self) -> usize {
        self.enter(|controller| {
            let namespaces = controller.namespaces.iter();
            namespaces.map(Namespace::cached_blocks).sum()
        })
    }

    /// How many commands were fetched and not completed, including event requests and pending
    /// second completions.
    pub fn held_commands(&self) -> usize {
        self.enter(|controller| controller.held.len())
    }

    /// Advances virtual time; does nothing to real time.
    pub fn advance_us(&self, microseconds: u64) {
        if self.0.clock.is_virtual() {
            self.0.clock.advance_us(microseconds);
        }
        self.enter(|_| ());
    }

    /// The counters.
    pub fn statistics(&self) -> Statistics {
        self.enter(|controller| {
            let mut statistics = controller.statistics.clone();
            statistics.suppressed_accesses = controller.bus.suppressed;
            statistics
        })
    }

    /// The violations by the host; the first 1,024.
    pub fn violations(&self) -> Vec<Violation> {
        self.0.memory.violations()
    }

    /// Runs what is due in the controller, then `action`, and passes on its interrupts.
    fn enter<R>(&self, action: impl FnOnce(&mut Controller) -> R) -> R {
        let shared = &*self.0;
        let mut controller = shared
            .controller
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if controller.needs_time() {
            controller.catch_up(shared.clock.now());
        }
        let result = action(&mut controller);
        shared
            .next_due
            .store(controller.next_due(), Ordering::Release);
        if !controller.raised.is_empty() {
            let mut interrupts = self.interrupts();
            for vector in controller.raised.drain(..) {
                if let Some(vector) = interrupts.vectors.get_mut(usize::from(vector)) {
                    vector.pending = true;
                }
            }
            if interrupts.waiters != 0 {
                shared.interrupted.notify_all();
            }
        }
        result
    }

    fn interrupts(&self) -> MutexGuard<'_, Interrupts> {
        self.0
            .interrupts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs what is due, without a lock if nothing is.
    fn catch_up(&self) {
        if self.0.clock.now() >= self.0.next_due.load(Ordering::Acquire) {
            self.enter(|_| ());
        }
    }

    fn take_interrupt(&self, vector: u16) -> bool {
        match self.interrupts().vectors.get_mut(usize::from(vector)) {
            Some(vector) if vector.enabled => std::mem::take(&mut vector.pending),
            _ => false,
        }
    }

    /// Steps from one due event to the next, until the interrupt or the time-out.
    fn wait_virtual(&self, vector: u16, timeout_us: u32) -> bool {
        let clock = &self.0.clock;
        let deadline = clock.now() + u64::from(timeout_us);
        loop {
            self.catch_up();
            if self.take_interrupt(vector) {
                return true;
            }
            let now = clock.now();
            if now >= deadline {
                return false;
            }
            let due = self.0.next_due.load(Ordering::Acquire);
            clock.advance_us(due.clamp(now + 1, deadline) - now);
        }
    }

    fn wait_real(&self, vector: u16, timeout_us: u32) -> bool {
        let deadline = Instant::now() + Duration::from_micros(u64::from(timeout_us));
        loop {
            self.catch_up();
            if self.take_interrupt(vector) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let due = self.0.next_due.load(Ordering::Acquire);
            let until_due = Duration::from_nanos(due.saturating_sub(self.0.clock.now()));
            let mut interrupts = self.interrupts();
            let ready = |one: &Vector| one.enabled && one.pending;
            let wanted = interrupts.vectors.get(usize::from(vector));
            if !wanted.is_some_and(ready) {
                interrupts.waiters += 1;
                let time = left.min(until_due);
                let waited = self.0.interrupted.wait_timeout(interrupts, time);
                let (mut interrupts, _) = waited.unwrap_or_else(PoisonError::into_inner);
                interrupts.waiters -= 1;
            }
        }
    }
}

fn check(config: &Config, stores: &[Box<dyn Store>]) -> Result<(), &'static str> {
    if !(2..=65_536).contains(&config.max_queue_entries) || config.io_queues == 0 {
        return Err("2 to 65,536 queue entries and at least one I/O queue are needed");
    }
    if config.io_queues == u16::MAX || config.abort_limit == 0 || config.async_event_limit == 0 {
        return Err("at most 65,534 I/O queues; limits start at 1");
    }
    let pages = config.min_page_shift..=config.max_page_shift;
    if pages.is_empty() || config.min_page_shift < 12 || config.max_page_shift > 27 {
        return Err("page sizes are 2^12 to 2^27 bytes");
    }
    if config.doorbell_stride_log2 > 15 || config.mdts > 32 {
        return Err("the doorbell stride is at most 15, MDTS at most 32");
    }
    if config.register_bytes != 0 && config.register_bytes < 0x1008 {
        return Err("the register space is too short for the admin doorbells");
    }
    if config.power_states.len() > nvme::MAX_POWER_STATES {
        return Err("a controller has at most 32 power states");
    }
    if stores.len() != config.namespaces.len() {
        return Err("one store for each namespace");
    }
    for (index, one) in config.namespaces.iter().enumerate() {
        let again = config.namespaces[..index]
            .iter()
            .any(|other| other.id == one.id);
        if one.id == 0 || one.id > config.namespace_limit || again {
            return Err("namespace identifiers are unique, from 1 to the limit");
        }
        let len_bytes = u128::from(one.block_count) << (one.block_size_log2 & 31);
        if !(9..=16).contains(&one.block_size_log2)
            || len_bytes > u128::from(stores[index].len_bytes())
        {
            return Err("blocks are 2^9 to 2^16 bytes, and the store holds all of them");
        }
    }
    Ok(())
}

impl Registers for Model {
    fn len_bytes(&self) -> usize {
        self.enter(|controller| controller.config.register_space_bytes())
    }

    fn read32(&self, offset: usize) -> u32 {
        self.enter(|controller| controller.read(offset))
    }

    fn write32(&self, offset: usize, value: u32) {
        self.enter(|controller| controller.write(offset, value));
    }

    fn isolate(&self) {
        self.enter(|controller| controller.bus.isolated = true);
    }

    fn connect(&self) {
        self.enter(|controller| controller.bus.isolated = false);
    }

    fn interrupt_vectors(&self) -> u16 {
        self.interrupts().vectors.len() as u16
    }

    fn interrupts_by_line(&self) -> bool {
        self.enter(|controller| controller.config.interrupt_line)
    }

    fn set_interrupt(&self, vector: u16, enabled: bool) -> Result<(), InterruptRefused> {
        let mut interrupts = self.interrupts();
        let vector = interrupts
            .vectors
            .get_mut(usize::from(vector))
            .ok_or(InterruptRefused)?;
        vector.enabled = enabled;
        self.0.interrupted.notify_all();
        Ok(())
    }

    fn wait_interrupt(&self, vector: u16, timeout_us: u32) -> bool {
        if self.0.clock.is_virtual() {
            self.wait_virtual(vector, timeout_us)
        } else {
            self.wait_real(vector, timeout_us)
        }
    }

    fn is_recalled(&self) -> bool {
        self.0.recalled.load(Ordering::Relaxed)
    }

    fn relax(&self) {
        self.0.clock.relax();
        self.catch_up();
    }

    fn pci_id(&self) -> Option<PciId> {
        self.enter(|controller| Some(controller.config.pci_id))
    }
}

impl Clock for Model {
    fn ticks(&self) -> u64 {
        let now = self.0.clock.ticks();
        if now >= self.0.next_due.load(Ordering::Acquire) {
            self.enter(|_| ());
        }
        now
    }

    fn ticks_per_second(&self) -> u64 {
        self.0.clock.ticks_per_second()
    }
}
