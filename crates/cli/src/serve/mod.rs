//! A device as a server of the Network Block Device protocol: sockets in front of [`nbd`]'s sessions and engine.
//!
//! One thread owns the device and all connections. While the device is idle it sleeps in poll(2) for the sockets; while requests
//! are under way, in the device's own wait, from which it looks at the sockets every 50 us.

pub mod address;
mod client;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
pub mod tls;
#[cfg(feature = "tls")]
pub mod tls;

use crate::Context;
use crate::failure::{Failure, Result};
use crate::path::handle::Recall;
use crate::path::memory::Memory;
use address::Listener;
use block::{Device, blocking};
use client::{Client, Life};
use nbd::{Command, Engine, Export, Limits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tls::Certificates;

/// How long one sleep may last before the user's signals are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the device is waited for before the sockets are looked at, in microseconds.
const WAIT_US: u32 = 50;
/// How long a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long clients may take for the rest of their payloads and replies when the server ends.
const FAREWELL: Duration = Duration::from_secs(10);

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Those that ended without NBD_CMD_DISC or NBD_OPT_ABORT.
    pub lost: u64,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub trims: u64,
    pub zeroes: u64,
    /// Bytes of reads and of writes that succeeded.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Requests that were malformed, unaligned, out of range or not permitted.
    pub refused: u64,
    /// Requests that the device failed.
    pub failed: u64,
}

/// What is served, and for how many.
pub struct Offer {
    /// What clients see.
    pub export: Export,
    /// What each may hold.
    pub limits: Limits,
    /// With which clients must encrypt.
    pub certificates: Option<Certificates>,
    /// Connections at the same time.
    pub connections: usize,
}

/// Serves a device until the user ends it. Requests under way are completed, and what was written is flushed.
///
/// # Errors
/// There is not enough memory, the sockets cannot be waited for, the machine recalled the drive, or the last flush failed.
pub fn serve<D: Device>(
    context: &Context,
    device: &mut D,
    memory: &Memory,
    recall: Recall<'_>,
    offer: &Offer,
    listener: Listener,
) -> Result<Counts> {
    let mut buffers = Vec::new();
    let mut result = Ok(Counts::default());
    for _ in 0..offer.connections * offer.limits.pieces {
        match memory.allocate(offer.limits.piece_bytes) {
            Ok(buffer) => buffers.push(buffer),
            Err(failure) => {
                result = Err(failure.hint("a smaller --memory, or fewer --connections"));
                break;
            }
        }
    }
    let mut server = Server {
        engine: Engine::new(
            device.geometry(),
            offer.limits,
            offer.connections,
            std::mem::take(&mut buffers),
        ),
        offer,
        listener: Some(listener),
        clients: Vec::new(),
        counts: Counts::default(),
        ending: None,
    };
    if result.is_ok() {
        result = server.run(context, device, recall);
    }
    for client in server.clients.drain(..) {
        client.release(&mut server.engine);
    }
    // What is in flight still belongs to the device.
    while server.engine.outstanding() > 0 {
        if !server.engine.turn(device) {
            device.wait(WAIT_US);
        }
        while let Some(answer) = server.engine.answer() {
            server.engine.give_back(answer);
        }
    }
    for buffer in server.engine.into_buffers() {
        memory.give_back(buffer);
    }
    let counts = result?;
    if !offer.export.read_only {
        blocking::flush(device).map_err(|error| Failure::request("flushing at the end", error))?;
    }
    Ok(counts)
}

struct Server<'s> {
    engine: Engine,
    offer: &'s Offer,
    /// None when the server ends.
    listener: Option<Listener>,
    clients: Vec<Client>,
    counts: Counts,
    /// When the server was asked to end.
    ending: Option<Instant>,
}

impl Server<'_> {
    fn run<D: Device>(
        &mut self,
        context: &Context,
        device: &mut D,
        recall: Recall<'_>,
    ) -> Result<Counts> {
        loop {
            // No request may be under way that would report it.
            if recall.is_requested() {
                let failure = Failure::request("serving", block::Error::Gone);
                return Err(failure);
            }
            if self.ending.is_none() && context.cancel.is_set() {
                self.end();
            }
            if self.ending.is_some() && self.clients.is_empty() {
                return Ok(self.counts);
            }
            self.accept();
            let more = self.receive();
            let happened = self.engine.turn(device);
            self.answer();
            self.send();
            self.sweep();
            self.wait(device, more || happened)?;
        }
    }

    fn end(&mut self) {
        self.ending = Some(Instant::now());
        self.listener = None;
        for client in &mut self.clients {
            client.closing = true;
        }
    }

    fn has_room(&self) -> bool {
        self.clients.len() < self.offer.connections
    }

    fn accept(&mut self) {
        while self.has_room() {
            let Some(socket) = self.listener.as_ref().and_then(Listener::accept) else {
                return;
            };
            let is_free = |number: &usize| self.clients.iter().all(|one| one.number != *number);
            let Some(number) = (0..self.offer.connections).find(is_free) else {
                return;
            };
            self.counts.connections += 1;
            self.clients
                .push(Client::new(number, socket, self.offer.certificates.clone()));
        }
    }

    /// Takes requests of every client; returns whether one may have more.
    fn receive(&mut self) -> bool {
        let mut any = false;
        let mut index = 0;
        while let Some(client) = self.clients.get_mut(index) {
            let export = &self.offer.export;
            match client.receive(&mut self.engine, export, &mut self.counts) {
                (Life::Open, more) => {
                    any |= more;
                    index += 1;
                }
                (Life::Lost, _) => self.lose(index),
            }
        }
        any
    }

    fn lose(&mut self, index: usize) {
        self.counts.lost += 1;
        self.clients.swap_remove(index).release(&mut self.engine);
    }

    /// Passes answers on to their clients.
    fn answer(&mut self) {
        while let Some(answer) = self.engine.answer() {
            let request = answer.request;
            match (answer.error, request.command) {
                (Some(_), _) => self.counts.failed += 1,
                (None, Command::Read) => self.counts.read_bytes += u64::from(request.len_bytes),
                (None, Command::Write) => self.counts.written_bytes += u64::from(request.len_bytes),
                _ => {}
            }
            match request.command {
                Command::Read => self.counts.reads += 1,
                Command::Write => self.counts.writes += 1,
                Command::Flush => self.counts.flushes += 1,
                Command::Trim => self.counts.trims += 1,
                Command::WriteZeroes => self.counts.zeroes += 1,
            }
            let number = answer.client;
            match self.clients.iter_mut().find(|one| one.number == number) {
                Some(client) => client.answer(answer, &mut self.engine),
                None => self.engine.give_back(answer),
            }
        }
    }

    fn send(&mut self) {
        let mut index = 0;
        while let Some(client) = self.clients.get_mut(index) {
            match client.send(&mut self.engine) {
                Life::Open => index += 1,
                Life::Lost => self.lose(index),
            }
        }
    }

    /// Closes connections that are over, and those that take too long for what they may not.
    fn sweep(&mut self) {
        let is_late = self.ending.is_some_and(|since| since.elapsed() > FAREWELL);
        let mut index = 0;
        while let Some(client) = self.clients.get(index) {
            let is_idle = self.engine.outstanding_of(client.number) == 0;
            let is_over = client.closing && is_idle && !client.wants_output();
            if is_over && !client.is_within_payload() {
                self.clients.swap_remove(index).release(&mut self.engine);
            } else if is_late
                || (!client.is_in_transmission() && client.began.elapsed() > HANDSHAKE)
            {
                self.lose(index);
            } else {
                index += 1;
            }
        }
    }

    /// Sleeps until there may be something to do.
    fn wait<D: Device>(&mut self, device: &mut D, more: bool) -> Result<()> {
        let is_busy = device.outstanding() > 0;
        let timeout = match more || is_busy {
            true => Duration::ZERO,
            false => LOOK,
        };
        let mut files = Vec::with_capacity(self.clients.len() + 1);
        for client in &self.clients {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, client.wants_input());
            flags.set(PollFlags::OUT, client.wants_output());
            if let Some(socket) = &client.socket {
                files.push(PollFd::from_borrowed_fd(socket.as_fd(), flags));
            }
        }
        if let (Some(listener), true) = (&self.listener, self.has_room()) {
            files.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
        }
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let found = match poll(&mut files, Some(&timeout)) {
            Ok(found) => found,
            // A signal: the loop looks at it.
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(Failure::other(format!("waiting for clients: {error}"))),
        };
        let flags: Vec<PollFlags> = files.iter().map(PollFd::revents).collect();
        for (client, flags) in self.clients.iter_mut().zip(flags) {
            let is_over = flags.intersects(PollFlags::HUP | PollFlags::ERR);
            client.readable |= flags.contains(PollFlags::IN) || is_over;
            client.writable |= flags.contains(PollFlags::OUT) || is_over;
        }
        if found == 0 && is_busy && !more {
            device.wait(WAIT_US);
        }
        Ok(())
    }
}
