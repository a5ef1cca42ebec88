// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A virtual machine's disk by vhost-user: a Unix socket on which the machine's emulator sends its
//! memory and the places of its virtqueues, in front of [`virtio::Rings`].
//!
//! A message is handled when no request is under way and no new one is taken, so memory never
//! changes under a request; and only when all of it is there and its reply fits the socket, so that
//! a slow emulator does not stop the server.

mod backend;

use super::address::Listener;
use super::{Front, ServeCounts};
use backend::Backend;
use export::{Answer, Engine};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vhost::vhost_user::BackendReqHandler;
use virtio::{Disk, Rings};

/// Bytes of a message before its body: the request, flags, and the body's length.
const HEAD_BYTES: usize = 12;
/// The longest body that the protocol has.
const MAX_BODY_BYTES: usize = 4096;

/// The part of a message's flags that has the version of the protocol, and its version ("Vhost-user
/// Protocol", "Header").
const VERSION_MASK: u32 = 0b11;
const VERSION: u32 = 1;

/// How long the rest of a message, or space for its reply, is waited for.
const PART: Duration = Duration::from_secs(5);

/// A server of one virtual machine at a time.
pub struct Machines {
    disk: Disk,
    /// None when the server ends.
    listener: Option<Listener>,
    machine: Option<Machine>,
    ending: bool,
}

/// A virtual machine that is connected.
struct Machine {
    stream: UnixStream,
    handler: BackendReqHandler<Mutex<Backend>>,
    backend: Arc<Mutex<Backend>>,
    /// The queues' files that wake us.
    kicks: Vec<Arc<File>>,
    /// A message, or the end of the connection, may be there.
    readable: bool,
    /// It has sent a whole message.
    has_spoken: bool,
    /// Since when a part of a message has been there.
    part_since: Option<Instant>,
    /// The rings were not what they must be.
    is_broken: bool,
}

/// What is at the front of a socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// Not a whole message, or no space for its reply.
    Part,
    Message,
    End,
}

/// Whether a machine is still connected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// It has stopped its queues and disconnected.
    Over,
    /// It disconnected while it used them, or broke the protocol.
    Lost,
}

impl Machines {
    /// A server of this disk at a Unix socket.
    pub const fn new(disk: Disk, listener: Listener) -> Self {
        Self {
            disk,
            listener: Some(listener),
            machine: None,
            ending: false,
        }
    }

    fn accept(&mut self, counts: &mut ServeCounts) {
        if self.is_taken() {
            return;
        }
        let stream = self.listener.as_mut().and_then(Listener::accept_unix);
        let machine = stream.and_then(|stream| Machine::new(stream, self.disk.clone()));
        if machine.is_some() {
            counts.connections += 1;
            // The one before has sent nothing.
            counts.lost += u64::from(self.machine.is_some());
            self.machine = machine;
        }
    }

    /// Whether a machine has the place. One that has sent nothing gives way to the next.
    fn is_taken(&self) -> bool {
        let machine = self.machine.as_ref();
        machine.is_some_and(|machine| machine.has_spoken || machine.part_since.is_some())
    }

    fn drop_machine(&mut self, life: Life, engine: &mut Engine, counts: &mut ServeCounts) {
        if life == Life::Open {
            return;
        }
        counts.lost += u64::from(life == Life::Lost);
        self.machine = None;
        engine.abandon(0);
    }
}

impl Front for Machines {
    fn receive(&mut self, engine: &mut Engine, counts: &mut ServeCounts) -> bool {
        self.accept(counts);
        let Some(machine) = &mut self.machine else {
            return false;
        };
        let (life, more) = machine.receive(engine, counts, self.ending);
        self.drop_machine(life, engine, counts);
        more
    }

    fn answer(&mut self, answer: Answer, engine: &mut Engine) {
        match &mut self.machine {
            Some(machine) => machine.answer(answer, engine),
            None => engine.give_back(answer),
        }
    }

    fn send(&mut self, engine: &mut Engine, counts: &mut ServeCounts, is_late: bool) {
        let Some(machine) = &mut self.machine else {
            return;
        };
        let is_over = self.ending && (is_late || machine.lock().rings.is_idle());
        let life = match (machine.notify(), is_over) {
            (Life::Open, true) => Life::Over,
            (life, _) => life,
        };
        self.drop_machine(life, engine, counts);
    }

    fn files(&self) -> Vec<PollFd<'_>> {
        let machine = self.machine.as_ref();
        let stream = machine.map(|machine| machine.stream.as_fd());
        let kicks = machine.into_iter().flat_map(|machine| &machine.kicks);
        let listener = self.listener.as_ref();
        let listener = listener.filter(|listener| !self.is_taken() && listener.may_accept());
        // The machine's first: `woken` has its flags by their places.
        let files = stream.into_iter().chain(kicks.map(|kick| kick.as_fd()));
        files
            .chain(listener.map(Listener::as_fd))
            .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
            .collect()
    }

    fn woken(&mut self, flags: &[PollFlags]) {
        if let Some(machine) = &mut self.machine {
            machine.woken(flags);
        }
    }

    fn may_not_sleep(&mut self) -> bool {
        // An error is found again by the next look at the rings.
        let machine = self.machine.as_ref();
        machine.is_some_and(|machine| machine.lock().rings.sleep().unwrap_or(true))
    }

    fn end(&mut self) {
        self.listener = None;
        self.ending = true;
    }

    fn is_over(&self) -> bool {
        self.machine.is_none()
    }

    fn release(self, engine: &mut Engine) {
        engine.abandon(0);
    }
}

impl Machine {
    fn new(stream: UnixStream, disk: Disk) -> Option<Self> {
        let backend = Arc::new(Mutex::new(Backend::new(Rings::new(disk, 0))));
        let mine = stream.try_clone().ok()?;
        Some(Self {
            stream: mine,
            handler: BackendReqHandler::from_stream(stream, backend.clone()),
            backend,
            kicks: Vec::new(),
            readable: true,
            has_spoken: false,
            part_since: None,
            is_broken: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Backend> {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(
        &mut self,
        engine: &mut Engine,
        counts: &mut ServeCounts,
        ending: bool,
    ) -> (Life, bool) {
        let next = if self.readable {
            self.next()
        } else {
            Next::Nothing
        };
        self.readable = matches!(next, Next::Message | Next::Part);
        self.part_since = match next {
            Next::Part => self.part_since.or_else(|| Some(Instant::now())),
            _ => None,
        };
        let is_stuck = self.part_since.is_some_and(|since| since.elapsed() > PART);
        if next == Next::End || is_stuck {
            let is_lost = self.lock().rings.is_started();
            return (if is_lost { Life::Lost } else { Life::Over }, false);
        }
        let mut backend = self.lock();
        let waits = next == Next::Message || ending;
        let taken = backend.rings.take(engine, waits);
        counts.refused += backend.rings.take_refused();
        let is_idle = backend.rings.is_idle();
        drop(backend);
        let Ok(more) = taken else {
            return (Life::Lost, false);
        };
        if next != Next::Message || !is_idle {
            return (Life::Open, more);
        }
        self.has_spoken = true;
        if self.handler.handle_request().is_err() {
            return (Life::Lost, false);
        }
        let kicks = self.lock().kicks();
        self.kicks = kicks;
        (Life::Open, true)
    }

    /// What is at the front of the socket. A message of which a part is there is waited for, as is
    /// space for the reply.
    fn next(&self) -> Next {
        let mut head = [0; HEAD_BYTES];
        let peeked = recv(
            &self.stream,
            &mut head[..],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        let len = match peeked {
            Ok((0, _)) => return Next::End,
            Ok((len, _)) => len,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Next::Nothing,
            Err(_) => return Next::End,
        };
        let mut file = [PollFd::new(&self.stream, PollFlags::OUT | PollFlags::RDHUP)];
        let now = Timespec::default();
        let state = match poll(&mut file, Some(&now)) {
            Ok(_) => file[0].revents(),
            Err(_) => return Next::Part,
        };
        let [_, _, _, _, e, f, g, h, a, b, c, d] = head;
        let body = u32::from_ne_bytes([a, b, c, d]) as usize;
        let flags = u32::from_ne_bytes([e, f, g, h]);
        if len == HEAD_BYTES && (flags & VERSION_MASK != VERSION || body > MAX_BODY_BYTES) {
            return Next::End;
        }
        let there = rustix::io::ioctl_fionread(&self.stream).unwrap_or_default();
        let is_whole = len == HEAD_BYTES && there >= (HEAD_BYTES + body) as u64;
        let is_over = state.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
        if is_whole && state.contains(PollFlags::OUT) {
            Next::Message
        } else if !is_whole && is_over {
            // Nothing more will come.
            Next::End
        } else {
            Next::Part
        }
    }

    fn answer(&mut self, answer: Answer, engine: &mut Engine) {
        let answered = self.lock().rings.answer(answer, engine);
        self.is_broken |= answered.is_err();
    }

    /// Tells the machine about answers.
    fn notify(&mut self) -> Life {
        let mut backend = self.lock();
        let told = backend.notify();
        drop(backend);
        if told.is_err() || self.is_broken {
            Life::Lost
        } else {
            Life::Open
        }
    }

    fn woken(&mut self, flags: &[PollFlags]) {
        let [socket, kicks @ ..] = flags else {
            return;
        };
        self.readable |= !socket.is_empty();
        for (kick, flags) in self.kicks.iter().zip(kicks) {
            if flags.contains(PollFlags::IN) {
                // Its count is of no interest: every ring is looked at.
                let _ = (&**kick).read(&mut [0; 8]);
            }
        }
    }
}
