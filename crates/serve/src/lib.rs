// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device, or a file of a volume, given to others as a disk: what every way has in common.
//!
//! One thread owns the device and everything that clients see. While the device is idle it sleeps
//! in poll(2) for them; while requests are under way, in the device's own wait, from which it looks
//! at the clients every 50 us. How clients say what they want is a [`Front`]: [`nbd`] by sockets,
//! [`vhost_user`] by the memory of a virtual machine, [`ublk`] by a node of this machine's kernel.
#![forbid(unsafe_code)]

pub mod address;
pub mod nbd;
#[cfg(not(feature = "ublk"))]
#[path = "no_ublk.rs"]
pub mod ublk;
#[cfg(feature = "ublk")]
pub mod ublk;
pub mod vhost_user;

use block::{Device, blocking};
use devices::Context;
use devices::error::{Error, Result};
use devices::path::handle::Recall;
use devices::path::memory::Memory;
use export::{Answer, Engine, ExportCommand, Limits};
use remedy::{Remedy, Setting};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// How long one sleep may last before the user's signals are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the device is waited for before the clients are looked at, in microseconds.
const WAIT_US: u32 = 50;
/// How long clients may take for the rest of their payloads and replies when the server ends.
const FAREWELL: Duration = Duration::from_secs(3);

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServeCounts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Those that ended without the protocol's farewell, or broke it.
    pub lost: u64,
    /// Read requests, whatever became of them; as all of these.
    pub reads: u64,
    /// Write requests.
    pub writes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Trim requests.
    pub trims: u64,
    /// Requests to write zeroes.
    pub zeroes: u64,
    /// Bytes of reads that succeeded.
    pub read_bytes: u64,
    /// Bytes of writes that succeeded.
    pub written_bytes: u64,
    /// Requests that were malformed, unaligned, out of range or not permitted.
    pub refused: u64,
    /// Requests that the device failed.
    pub failed: u64,
}

impl ServeCounts {
    fn add(&mut self, answer: &Answer) {
        let request = answer.request;
        let len_bytes = u64::from(request.len_bytes);
        match (answer.error, request.command) {
            (Some(_), _) => self.failed += 1,
            (None, ExportCommand::Read) => self.read_bytes += len_bytes,
            (None, ExportCommand::Write) => self.written_bytes += len_bytes,
            _ => {}
        }
        match request.command {
            ExportCommand::Read => self.reads += 1,
            ExportCommand::Write => self.writes += 1,
            ExportCommand::Flush => self.flushes += 1,
            ExportCommand::Trim => self.trims += 1,
            ExportCommand::WriteZeroes => self.zeroes += 1,
        }
    }
}

/// A way in which clients reach a device.
pub trait Front {
    /// Takes requests of clients. Returns whether one may have more at once.
    fn receive(&mut self, engine: &mut Engine, counts: &mut ServeCounts) -> bool;

    /// Passes an answer on to its client.
    fn answer(&mut self, answer: Answer, engine: &mut Engine);

    /// Sends what can be sent, and ends what is over. When the server ends, `is_late` says that
    /// clients have had their time.
    fn send(&mut self, engine: &mut Engine, counts: &mut ServeCounts, is_late: bool);

    /// The files whose changes are waited for.
    fn files(&self) -> Vec<PollFd<'_>>;

    /// Takes what happened to each of the files.
    fn woken(&mut self, flags: &[PollFlags]);

    /// Sleeps until something happens to one of the files, and sets `flags` to what did to each.
    /// Returns to how many something did.
    ///
    /// # Errors
    /// Those of poll(2).
    fn sleep(
        &mut self,
        timeout: Duration,
        flags: &mut Vec<PollFlags>,
    ) -> rustix::io::Result<usize> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut files = self.files();
        let found = poll(&mut files, Some(&timeout))?;
        flags.clear();
        flags.extend(files.iter().map(PollFd::revents));
        Ok(found)
    }

    /// The time, by which clients that take too long are ended.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Prepares for a sleep; true: there is something to do instead.
    fn may_not_sleep(&mut self) -> bool {
        false
    }

    /// Why the way itself has failed; the server ends.
    fn failure(&mut self) -> Option<Error> {
        None
    }

    /// Takes no more clients, and of each only what it has begun.
    fn end(&mut self);

    /// Whether all clients are gone after [`end`](Front::end).
    fn is_over(&self) -> bool;

    /// Returns everything that is the engine's.
    fn release(self, engine: &mut Engine);
}

/// The device's side of a server.
pub struct ServeSource<'s, D> {
    /// The device.
    pub device: D,
    /// The memory that it reaches.
    pub memory: &'s Memory,
    /// Whether the machine wants it back.
    pub recall: Recall<'s>,
    /// What each client may hold.
    pub limits: Limits,
    /// Clients at the same time.
    pub clients: usize,
    /// What was written is flushed at the end.
    pub writes: bool,
}

/// Serves a device until the user ends it. Requests under way are completed, and what was written
/// is flushed.
///
/// # Errors
/// There is not enough memory, clients cannot be waited for, the machine recalled the drive, or the
/// last flush failed.
pub fn serve<D: Device, F: Front>(
    context: &Context,
    source: ServeSource<'_, D>,
    front: F,
) -> Result<ServeCounts> {
    let ServeSource {
        mut device,
        memory,
        limits,
        clients,
        ..
    } = source;
    let mut buffers = Vec::new();
    let mut result = Ok(());
    for _ in 0..clients * limits.pieces {
        match memory.allocate(limits.piece_bytes) {
            Ok(buffer) => buffers.push(buffer),
            Err(failure) => {
                result = Err(failure.hint(Remedy::one_of([
                    Remedy::Less(Setting::Memory),
                    Remedy::Less(Setting::Connections),
                ])));
                break;
            }
        }
    }
    let mut server = Server {
        engine: Engine::new(device.geometry(), limits, clients, buffers),
        front,
        counts: ServeCounts::default(),
        ending: None,
        flags: Vec::new(),
    };
    if result.is_ok() {
        result = server.run(context, &mut device, source.recall);
    }
    let Server {
        mut engine,
        front,
        counts,
        ..
    } = server;
    front.release(&mut engine);
    // What is in flight still belongs to the device.
    while engine.outstanding() > 0 {
        if !engine.turn(&mut device) {
            device.wait(WAIT_US);
        }
        while let Some(answer) = engine.answer() {
            engine.give_back(answer);
        }
    }
    for buffer in engine.into_buffers() {
        memory.give_back(buffer);
    }
    result?;
    if source.writes {
        let flushed = blocking::flush(&mut device);
        flushed.map_err(|error| Error::request("flushing at the end", error))?;
    }
    Ok(counts)
}

struct Server<F> {
    engine: Engine,
    front: F,
    counts: ServeCounts,
    /// When the server was asked to end.
    ending: Option<Instant>,
    /// What happened to the files that were waited for.
    flags: Vec<PollFlags>,
}

impl<F: Front> Server<F> {
    fn run<D: Device>(
        &mut self,
        context: &Context,
        device: &mut D,
        recall: Recall<'_>,
    ) -> Result<()> {
        loop {
            // No request may be under way that would report it.
            if recall.is_requested() {
                let failure = Error::request("serving", block::Error::Gone);
                return Err(failure);
            }
            if self.ending.is_none() && context.cancel.is_set() {
                self.ending = Some(self.front.now());
                self.front.end();
            }
            if let Some(failure) = self.front.failure() {
                return Err(failure);
            }
            if self.ending.is_some() && self.front.is_over() {
                return Ok(());
            }
            let more = self.front.receive(&mut self.engine, &mut self.counts);
            let happened = self.engine.turn(device);
            while let Some(answer) = self.engine.answer() {
                self.counts.add(&answer);
                self.front.answer(answer, &mut self.engine);
            }
            let has_had = |since| self.front.now().saturating_duration_since(since);
            let is_late = self.ending.is_some_and(|since| has_had(since) > FAREWELL);
            self.front.send(&mut self.engine, &mut self.counts, is_late);
            self.wait(device, more || happened)?;
        }
    }

    /// Sleeps until there may be something to do.
    fn wait<D: Device>(&mut self, device: &mut D, more: bool) -> Result<()> {
        let is_busy = device.outstanding() > 0;
        let more = more || (!is_busy && self.front.may_not_sleep());
        let timeout = if more || is_busy {
            Duration::ZERO
        } else {
            LOOK
        };
        let found = match self.front.sleep(timeout, &mut self.flags) {
            Ok(found) => found,
            // A signal: the loop looks at it.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(Error::other(format!("waiting for clients: {error}"))),
        };
        self.front.woken(&self.flags);
        if found == 0 && is_busy && !more {
            device.wait(WAIT_US);
        }
        Ok(())
    }
}
