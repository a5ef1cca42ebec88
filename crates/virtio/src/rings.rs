// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtqueues of one driver (2.7, "Split Virtqueues"), between its memory and the engine.

use crate::chain::{Asked, Broken, Chain, DONE, FAILED, UNSUPPORTED};
use crate::disk::Disk;
use block::Error;
use export::{Answer, Engine, ExportCommand, Request, Started};
use std::sync::atomic::Ordering;
use virtio_queue::{Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

/// The most entries of a queue.
pub const QUEUE_ENTRIES: u16 = 1024;
/// Chains of a queue in one turn, so that others have theirs.
const TURN_CHAINS: usize = 64;

/// A queue.
#[derive(Debug)]
struct One {
    queue: Queue,
    /// The driver has begun it, and has not stopped it.
    started: bool,
    enabled: bool,
    /// The driver need not wake us: its ring is looked at anyway.
    quiet: bool,
    /// Chains were answered since the driver was last told.
    answered: bool,
}

/// A chain under way, and its queue.
#[derive(Debug)]
struct Held {
    queue: usize,
    chain: Chain,
}

/// The queues of one driver. The engine's requests of one client are theirs; the cookie of each is
/// the number of its chain here.
#[derive(Debug)]
pub struct Rings {
    disk: Disk,
    client: usize,
    memory: GuestMemoryMmap,
    queues: Vec<One>,
    held: Vec<Option<Held>>,
    /// A request that waits for buffers.
    pending: Option<Request>,
    /// Requests that were wrong.
    refused: u64,
}

impl Rings {
    /// The rings of a driver that has said nothing yet, as a client of the engine.
    pub fn new(disk: Disk, client: usize) -> Self {
        let one = || {
            let queue = Queue::new(QUEUE_ENTRIES).ok()?;
            Some(One {
                queue,
                started: false,
                enabled: false,
                quiet: false,
                answered: false,
            })
        };
        Self {
            queues: (0..disk.queues).filter_map(|_| one()).collect(),
            disk,
            client,
            memory: GuestMemoryMmap::default(),
            held: Vec::new(),
            pending: None,
            refused: 0,
        }
    }

    /// What the driver sees.
    pub const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether no chain is held: memory and rings may change.
    pub fn is_idle(&self) -> bool {
        self.held.iter().all(Option::is_none)
    }

    /// Whether a queue is in use.
    pub fn is_started(&self) -> bool {
        self.queues.iter().any(|one| one.started)
    }

    /// Requests that were wrong since this was last asked.
    pub const fn take_refused(&mut self) -> u64 {
        std::mem::replace(&mut self.refused, 0)
    }

    /// Sets the driver's memory. No chain may be held, and queues must be started again.
    pub fn set_memory(&mut self, memory: GuestMemoryMmap) {
        self.memory = memory;
    }

    /// Sets a queue's number of entries; false: no such queue, or no such size.
    #[must_use]
    pub fn set_size(&mut self, index: usize, entries: u32) -> bool {
        let (Some(one), Ok(entries)) = (self.queues.get_mut(index), u16::try_from(entries)) else {
            return false;
        };
        one.queue.try_set_size(entries).is_ok()
    }

    /// Sets a queue's addresses in the driver's memory: the descriptor table, the available ring,
    /// the used ring. False: no such queue, or not aligned.
    #[must_use]
    pub fn set_addresses(&mut self, index: usize, [table, available, used]: [u64; 3]) -> bool {
        let Some(one) = self.queues.get_mut(index) else {
            return false;
        };
        let queue = &mut one.queue;
        queue
            .try_set_desc_table_address(GuestAddress(table))
            .is_ok()
            && queue
                .try_set_avail_ring_address(GuestAddress(available))
                .is_ok()
            && queue.try_set_used_ring_address(GuestAddress(used)).is_ok()
    }

    /// Sets the index of the next chain that is taken; false: no such queue.
    #[must_use]
    pub fn set_base(&mut self, index: usize, base: u32) -> bool {
        let Some(one) = self.queues.get_mut(index) else {
            return false;
        };
        one.queue.set_next_avail(base as u16);
        true
    }

    /// Takes the features of the rings that the driver has accepted.
    pub fn set_event_index(&mut self, has: bool) {
        for one in &mut self.queues {
            one.queue.set_event_idx(has);
        }
    }

    /// Begins a queue.
    ///
    /// # Errors
    /// There is no such queue, or its rings are not in the memory.
    pub fn start(&mut self, index: usize) -> Result<(), Broken> {
        let one = self.queues.get_mut(index).ok_or(Broken::Ring)?;
        one.queue.set_ready(true);
        let is_valid = one.queue.is_valid(&self.memory) && one.queue.avail_ring() != 0;
        let used = one.queue.used_idx(&self.memory, Ordering::Acquire);
        let (true, Ok(used)) = (is_valid, used) else {
            one.queue.set_ready(false);
            return Err(Broken::Ring);
        };
        one.queue.set_next_used(used.0);
        one.started = true;
        one.quiet = false;
        Ok(())
    }

    /// Lets a queue's chains be taken, or not; false: no such queue.
    #[must_use]
    pub fn enable(&mut self, index: usize, enabled: bool) -> bool {
        let Some(one) = self.queues.get_mut(index) else {
            return false;
        };
        one.enabled = enabled;
        true
    }

    /// Ends a queue, and returns the index of the next chain. No chain may be held.
    pub fn stop(&mut self, index: usize) -> Option<u16> {
        let one = self.queues.get_mut(index)?;
        one.queue.set_ready(false);
        one.started = false;
        Some(one.queue.next_avail())
    }

    /// Takes chains, as many as are there and fit. Returns whether more may follow at once. With
    /// `no_more`, only what was taken before is begun.
    ///
    /// # Errors
    /// The driver broke the protocol.
    pub fn take(&mut self, engine: &mut Engine, no_more: bool) -> Result<bool, Broken> {
        if let Some(request) = self.pending.take() {
            if !self.begin(engine, request)? {
                return Ok(false);
            }
        }
        if no_more {
            return Ok(false);
        }
        let mut more = false;
        for index in 0..self.queues.len() {
            let mut left = TURN_CHAINS;
            while self.take_one(engine, index)? {
                if self.pending.is_some() {
                    return Ok(false);
                }
                left -= 1;
                if left == 0 {
                    more = true;
                    break;
                }
            }
        }
        Ok(more)
    }

    /// Takes a chain of a queue; false: there is none.
    fn take_one(&mut self, engine: &mut Engine, index: usize) -> Result<bool, Broken> {
        let Some(one) = self.queues.get_mut(index) else {
            return Ok(false);
        };
        if !one.started || !one.enabled {
            return Ok(false);
        }
        if !one.quiet {
            let silenced = one.queue.disable_notification(&self.memory);
            silenced.map_err(|_| Broken::Ring)?;
            one.quiet = true;
        }
        let available = one.queue.avail_idx(&self.memory, Ordering::Acquire);
        let waiting = available.map_err(|_| Broken::Ring)?.0;
        let waiting = waiting.wrapping_sub(one.queue.next_avail());
        if waiting == 0 {
            return Ok(false);
        }
        if waiting > one.queue.size() {
            return Err(Broken::Ring);
        }
        let chain = one.queue.pop_descriptor_chain(&self.memory);
        let chain = chain.ok_or(Broken::Ring)?;
        let (chain, asked) = Chain::read(chain, &self.memory, &self.disk)?;
        match asked {
            Asked::Now {
                status,
                written_bytes,
            } => {
                self.refused += u64::from(status != DONE);
                self.end(index, &chain, status, written_bytes)?;
            }
            Asked::Device(request) => {
                let cookie = self.hold(Held {
                    queue: index,
                    chain,
                });
                self.begin(engine, Request { cookie, ..request })?;
            }
        }
        Ok(true)
    }

    fn hold(&mut self, held: Held) -> u64 {
        let index = self.held.iter().position(Option::is_none);
        let index = index.unwrap_or_else(|| {
            self.held.push(None);
            self.held.len() - 1
        });
        self.held[index] = Some(held);
        index as u64
    }

    /// Gives a request to the engine, with a write's data; false: it waits for buffers.
    fn begin(&mut self, engine: &mut Engine, request: Request) -> Result<bool, Broken> {
        let key = match engine.begin(self.client, request) {
            Started::Later => {
                self.pending = Some(request);
                return Ok(false);
            }
            Started::Accepted(key) => key,
        };
        let Some(Some(held)) = self.held.get(request.cookie as usize) else {
            return Err(Broken::Chain);
        };
        let mut at = 0;
        while request.command == ExportCommand::Write && at < request.len_bytes as usize {
            let space = engine.space(key);
            let len = space.len();
            if len == 0 || held.chain.get(&self.memory, at, space).is_err() {
                return Err(Broken::Chain);
            }
            at += len;
            engine.filled(key, len);
        }
        Ok(true)
    }

    /// Answers a chain, and gives the buffers back.
    ///
    /// # Errors
    /// The driver broke the protocol.
    pub fn answer(&mut self, answer: Answer, engine: &mut Engine) -> Result<(), Broken> {
        let index = answer.request.cookie as usize;
        let Some(held) = self.held.get_mut(index).and_then(Option::take) else {
            engine.give_back(answer);
            return Ok(());
        };
        let (mut at, len) = (0, answer.data_bytes());
        let mut status = match answer.error {
            None => DONE,
            Some(Error::Unsupported) => UNSUPPORTED,
            Some(_) => FAILED,
        };
        while at < len {
            let bytes = answer.data(at);
            if bytes.is_empty() || held.chain.put(&self.memory, at, bytes).is_err() {
                status = FAILED;
                break;
            }
            at += bytes.len();
        }
        engine.give_back(answer);
        self.end(held.queue, &held.chain, status, at as u32)
    }

    fn end(
        &mut self,
        queue: usize,
        chain: &Chain,
        status: u8,
        written_bytes: u32,
    ) -> Result<(), Broken> {
        chain.end(&self.memory, status)?;
        let one = self.queues.get_mut(queue).ok_or(Broken::Ring)?;
        let used = one
            .queue
            .add_used(&self.memory, chain.head, written_bytes.saturating_add(1));
        one.answered = true;
        used.map_err(|_| Broken::Ring)
    }

    /// The queues whose driver is to be told now that chains were answered.
    ///
    /// # Errors
    /// The driver broke the protocol.
    pub fn to_notify(&mut self) -> Result<Vec<usize>, Broken> {
        let mut all = Vec::new();
        for (index, one) in self.queues.iter_mut().enumerate() {
            if !std::mem::take(&mut one.answered) {
                continue;
            }
            let wanted = one.queue.needs_notification(&self.memory);
            if wanted.map_err(|_| Broken::Ring)? {
                all.push(index);
            }
        }
        Ok(all)
    }

    /// Asks the driver to wake us; true: chains have come already.
    ///
    /// # Errors
    /// The driver broke the protocol.
    pub fn sleep(&mut self) -> Result<bool, Broken> {
        let mut any = false;
        for one in &mut self.queues {
            if one.started && one.enabled && one.quiet {
                let more = one.queue.enable_notification(&self.memory);
                any |= more.map_err(|_| Broken::Ring)?;
                one.quiet = false;
            }
        }
        // What waits for buffers is begun when an answer frees them, and its queue is not read
        // before.
        Ok(any && self.pending.is_none())
    }
}
