//! Sockets in front of [`nbd`]'s sessions.

mod client;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
pub mod tls;
#[cfg(feature = "tls")]
pub mod tls;

use super::address::Listener;
use super::{Counts, Front};
use ::nbd::Export;
use client::{Client, Life};
use export::{Answer, Engine};
use rustix::event::{PollFd, PollFlags};
use std::os::fd::AsFd;
use std::time::Duration;
use tls::Certificates;

/// How long a client may take for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// A server of the Network Block Device protocol.
pub struct Network {
    export: Export,
    /// With which clients must encrypt.
    certificates: Option<Certificates>,
    /// Connections at the same time.
    connections: usize,
    /// None when the server ends.
    listener: Option<Listener>,
    clients: Vec<Client>,
}

impl Network {
    /// An export for so many connections at the same time.
    pub const fn new(
        export: Export,
        certificates: Option<Certificates>,
        connections: usize,
        listener: Listener,
    ) -> Self {
        Self {
            export,
            certificates,
            connections,
            listener: Some(listener),
            clients: Vec::new(),
        }
    }

    fn has_room(&self) -> bool {
        self.clients.len() < self.connections
    }

    fn accept(&mut self, counts: &mut Counts) {
        while self.has_room() {
            let Some(socket) = self.listener.as_ref().and_then(Listener::accept) else {
                return;
            };
            let is_free = |number: &usize| self.clients.iter().all(|one| one.number != *number);
            let Some(number) = (0..self.connections).find(is_free) else {
                return;
            };
            counts.connections += 1;
            self.clients
                .push(Client::new(number, socket, self.certificates.clone()));
        }
    }

    fn lose(&mut self, index: usize, engine: &mut Engine, counts: &mut Counts) {
        counts.lost += 1;
        self.clients.swap_remove(index).release(engine);
    }

    /// Closes connections that are over, and those that take too long for what they may not.
    fn sweep(&mut self, engine: &mut Engine, counts: &mut Counts, is_late: bool) {
        let mut index = 0;
        while let Some(client) = self.clients.get(index) {
            let is_idle = engine.outstanding_of(client.number) == 0;
            let is_over = client.closing && is_idle && !client.wants_output();
            if is_over && !client.is_within_payload() {
                self.clients.swap_remove(index).release(engine);
            } else if is_late
                || (!client.is_in_transmission() && client.began.elapsed() > HANDSHAKE)
            {
                self.lose(index, engine, counts);
            } else {
                index += 1;
            }
        }
    }
}

impl Front for Network {
    fn receive(&mut self, engine: &mut Engine, counts: &mut Counts) -> bool {
        self.accept(counts);
        let mut any = false;
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
        let number = answer.client;
        match self.clients.iter_mut().find(|one| one.number == number) {
            Some(client) => client.answer(answer, engine),
            None => engine.give_back(answer),
        }
    }

    fn send(&mut self, engine: &mut Engine, counts: &mut Counts, is_late: bool) {
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
        files
    }

    fn woken(&mut self, flags: &[PollFlags]) {
        for (client, flags) in self.clients.iter_mut().zip(flags) {
            let is_over = flags.intersects(PollFlags::HUP | PollFlags::ERR);
            client.readable |= flags.contains(PollFlags::IN) || is_over;
            client.writable |= flags.contains(PollFlags::OUT) || is_over;
        }
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
