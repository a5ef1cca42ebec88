// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets in front of [`nbd`]'s sessions.

mod client;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
pub mod tls;
#[cfg(feature = "tls")]
pub mod tls;

use super::address::{Accept, Listener};
use super::{Front, ServeCounts};
use ::nbd::Export;
use client::{Client, Life};
use export::{Answer, Engine};
use rustix::event::{PollFd, PollFlags};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tls::Certificates;

/// How long a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections without a place in the engine: in the handshake, or behind it while all places are
/// taken.
const WAITING: usize = 64;
/// Connections that are accepted in one turn, fewer than wait: so one is heard before others take
/// its place.
const TURN_CONNECTIONS: usize = 16;

/// A server of the Network Block Device protocol.
pub struct Network<L = Listener> {
    export: Export,
    /// With which clients must encrypt.
    certificates: Option<Certificates>,
    /// Places in the engine.
    connections: usize,
    /// None when the server ends.
    listener: Option<L>,
    /// Whether connections may wait.
    is_called: bool,
    /// In the order in which they connected.
    clients: Vec<Client>,
    turn: u64,
    now: fn() -> Instant,
}

impl<L: Accept> Network<L> {
    /// An export for so many connections at the same time.
    pub const fn new(
        export: Export,
        certificates: Option<Certificates>,
        connections: usize,
        listener: L,
    ) -> Self {
        Self {
            export,
            certificates,
            connections,
            listener: Some(listener),
            is_called: true,
            clients: Vec::new(),
            turn: 0,
            now: Instant::now,
        }
    }

    /// The same, with another clock.
    #[must_use]
    pub const fn timed_by(mut self, now: fn() -> Instant) -> Self {
        self.now = now;
        self
    }

    /// Gives `take` each file that is waited for, and for what: the clients' in their order, and
    /// then the listener's.
    pub fn wanted<'f>(&'f self, mut take: impl FnMut(BorrowedFd<'f>, PollFlags)) {
        for client in &self.clients {
            if let Some((file, flags)) = client.wanted() {
                take(file, flags);
            }
        }
        let listener = self.listener.as_ref();
        let is_open = |listener: &&L| listener.may_accept() && self.gives_way().is_ok();
        if let Some(listener) = listener.filter(is_open) {
            take(listener.as_fd(), PollFlags::IN);
        }
    }

    /// The connection that gives way to a new one, if all places of waiting ones are taken: of
    /// those in the handshake, the one that has been silent for longest. `Err`: none does.
    fn gives_way(&self) -> Result<Option<usize>, ()> {
        let waiting = self.clients.iter().filter(|one| one.number.is_none());
        if waiting.count() < WAITING {
            return Ok(None);
        }
        let clients = self.clients.iter().enumerate();
        let shaking = clients.filter(|(_, one)| !one.is_in_transmission());
        let silent = shaking.min_by_key(|(_, one)| one.heard);
        silent.map(|(index, _)| Some(index)).ok_or(())
    }

    fn accept(&mut self, engine: &mut Engine, counts: &mut ServeCounts) {
        for _ in 0..TURN_CONNECTIONS {
            if !self.is_called {
                return;
            }
            let Ok(gives_way) = self.gives_way() else {
                return;
            };
            let Some(socket) = self.listener.as_mut().and_then(L::accept) else {
                self.is_called = false;
                return;
            };
            if let Some(index) = gives_way {
                self.lose(index, engine, counts);
            }
            counts.connections += 1;
            let client = Client::new(socket, self.certificates.clone(), (self.now)(), self.turn);
            self.clients.push(client);
        }
    }

    /// Gives the places of the engine that are free to those that have shaken hands, the oldest
    /// first.
    fn admit(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.clients.len() {
            let is_ready = |one: &Client| one.number.is_none() && one.is_in_transmission();
            if !self.clients.get(index).is_some_and(is_ready) {
                continue;
            }
            let is_free =
                |number: &usize| self.clients.iter().all(|one| one.number != Some(*number));
            let free = (0..self.connections).find(is_free);
            if let (Some(client), Some(_)) = (self.clients.get_mut(index), free) {
                client.number = free;
                any = true;
            }
        }
        any
    }

    fn lose(&mut self, index: usize, engine: &mut Engine, counts: &mut ServeCounts) {
        counts.lost += 1;
        self.clients.remove(index).release(engine);
    }

    /// Closes connections that are over, and those that take too long for what they may not.
    fn sweep(&mut self, engine: &mut Engine, counts: &mut ServeCounts, is_late: bool) {
        let mut index = 0;
        while let Some(client) = self.clients.get(index) {
            let number = client.number;
            let is_idle = number.is_none_or(|number| engine.outstanding_of(number) == 0);
            let is_over = client.closing && is_idle && !client.wants_output();
            if is_over && !client.is_within_payload() {
                self.clients.remove(index).release(engine);
            } else if is_late
                || (!client.is_in_transmission() && (self.now)() - client.began > HANDSHAKE)
            {
                self.lose(index, engine, counts);
            } else {
                index += 1;
            }
        }
    }
}

impl<L: Accept> Front for Network<L> {
    fn receive(&mut self, engine: &mut Engine, counts: &mut ServeCounts) -> bool {
        self.turn += 1;
        self.accept(engine, counts);
        let mut any = self.admit();
        let mut index = 0;
        while let Some(client) = self.clients.get_mut(index) {
            match client.receive(engine, &self.export, counts) {
                (Life::Open, more) => {
                    any |= more;
                    index += 1;
                }
                (Life::Lost, _) => self.lose(index, engine, counts),
            }
        }
        any
    }

    fn answer(&mut self, answer: Answer, engine: &mut Engine) {
        let number = Some(answer.client);
        match self.clients.iter_mut().find(|one| one.number == number) {
            Some(client) => client.answer(answer, engine),
            None => engine.give_back(answer),
        }
    }

    fn send(&mut self, engine: &mut Engine, counts: &mut ServeCounts, is_late: bool) {
        let mut index = 0;
        while let Some(client) = self.clients.get_mut(index) {
            match client.send(engine) {
                Life::Open => index += 1,
                Life::Lost => self.lose(index, engine, counts),
            }
        }
        self.sweep(engine, counts, is_late);
    }

    fn files(&self) -> Vec<PollFd<'_>> {
        let mut files = Vec::with_capacity(self.clients.len() + 1);
        self.wanted(|file, flags| files.push(PollFd::from_borrowed_fd(file, flags)));
        files
    }

    fn woken(&mut self, flags: &[PollFlags]) {
        let mut flags = flags.iter();
        let polled = self.clients.iter_mut().filter(|one| one.is_polled());
        for (client, flags) in polled.zip(flags.by_ref()) {
            let is_over = flags.intersects(PollFlags::HUP | PollFlags::ERR);
            client.readable |= flags.contains(PollFlags::IN) || is_over;
            if flags.contains(PollFlags::IN) {
                client.heard = self.turn;
            }
            client.writable |= flags.contains(PollFlags::OUT) || is_over;
            // What it has asked for waits for a place, and would not be read again.
            client.closing |= is_over && client.number.is_none() && client.is_in_transmission();
            client.is_hung_up |= is_over;
        }
        // The listener is behind the clients.
        self.is_called |= flags.next().is_some_and(|flags| !flags.is_empty());
    }

    fn now(&self) -> Instant {
        (self.now)()
    }

    fn end(&mut self) {
        self.listener = None;
        for client in &mut self.clients {
            client.closing = true;
        }
    }

    fn is_over(&self) -> bool {
        self.clients.is_empty()
    }

    fn release(self, engine: &mut Engine) {
        for client in self.clients {
            client.release(engine);
        }
    }
}
