// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections between the clients of a server and the product's listener, with bounded buffers.

use crate::network::{Arrived, Pipe};
use crate::trace::What;
use crate::world::World;
use rustix::event::PollFlags;
use serve::address::{Accept, Socket};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;

/// How long clients believe a machine without power to be there.
const SILENCE_US: u64 = 1_000_000;

/// How a client leaves a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It closes it: what it has sent arrives before that.
    Close,
    /// It aborts it.
    Reset,
    /// It sends nothing more, and reads on.
    Half,
}

/// A connection.
pub struct Wire {
    world: World,
    number: u64,
    to_server: Pipe,
    to_client: Pipe,
    /// Bytes that each direction holds.
    window_bytes: usize,
    /// How much longer segments take, and until when.
    late: (u64, u64),
    /// The client reads no more.
    is_left: bool,
    /// When its abort arrives.
    reset_at: u64,
    /// The server has dropped its end.
    is_dropped: bool,
    /// The server's machine has lost its power.
    is_dark: bool,
}

/// A handle to one.
pub type Shared = Rc<RefCell<Wire>>;

impl Wire {
    fn new(world: &World, number: u64, window_bytes: usize) -> Self {
        Self {
            world: world.clone(),
            number,
            to_server: Pipe::default(),
            to_client: Pipe::default(),
            window_bytes,
            late: (0, 0),
            is_left: false,
            reset_at: u64::MAX,
            is_dropped: false,
            is_dark: false,
        }
    }

    fn arrival(&self) -> u64 {
        let now = self.world.now_us();
        let (most_us, until) = self.late;
        let late_us = if now < until { most_us } else { 0 };
        now + 20 + self.world.below(80) + self.world.below(late_us)
    }

    /// Segments take up to `most_us` more for a time.
    pub fn delay(&mut self, most_us: u64, for_us: u64) {
        self.late = (most_us, self.world.now_us() + for_us);
    }

    fn send(&mut self, is_to_client: bool, what: Arrived) {
        let at = self.arrival();
        let len = what.len() as u64;
        let pipe = if is_to_client {
            &mut self.to_client
        } else {
            &mut self.to_server
        };
        let at = pipe.send(at, what);
        let direction = u64::from(is_to_client);
        self.world
            .note(What::Segment, self.number << 1 | direction, len);
        self.world.wake_at(at);
    }

    /// Bytes that the client may send.
    pub fn room(&self) -> usize {
        let held = self.to_server.sent_bytes() + self.to_server.arrived.len();
        self.window_bytes.saturating_sub(held)
    }

    /// The client sends.
    pub fn send_to_server(&mut self, bytes: Box<[u8]>) {
        self.send(false, Arrived::Bytes(bytes));
    }

    /// The client takes what has arrived. Whether that is all.
    pub fn take(&mut self, input: &mut Vec<u8>) -> bool {
        let is_over = self.to_client.receive(self.world.now_us());
        input.extend(self.to_client.arrived.drain(..));
        is_over
    }

    /// The client leaves.
    pub fn leave(&mut self, how: Leave) {
        self.world.note(What::Reset, self.number, how as u64);
        self.is_left |= how != Leave::Half;
        if how == Leave::Reset {
            self.reset_at = self.arrival().max(self.to_server.last_at());
            self.world.wake_at(self.reset_at);
        } else {
            self.send(false, Arrived::End);
        }
    }

    /// Whether the server has dropped it.
    pub const fn is_dropped(&self) -> bool {
        self.is_dropped
    }

    /// The server's machine loses its power: nothing ends the connection for a while.
    pub fn lose_power(&mut self) {
        self.is_dark = true;
    }

    fn is_reset(&self) -> bool {
        self.reset_at <= self.world.now_us()
    }

    /// What poll(2) says of it.
    fn flags(&mut self, wanted: PollFlags) -> PollFlags {
        let is_over = self.to_server.receive(self.world.now_us());
        let mut flags = PollFlags::empty();
        if self.is_reset() {
            flags |= PollFlags::ERR | PollFlags::HUP | PollFlags::IN | PollFlags::OUT;
        }
        flags.set(
            PollFlags::IN,
            is_over || !self.to_server.arrived.is_empty() || self.is_reset(),
        );
        flags.set(PollFlags::OUT, self.room_to_client() > 0 || self.is_reset());
        flags & (wanted | PollFlags::ERR | PollFlags::HUP)
    }

    fn room_to_client(&self) -> usize {
        let held = self.to_client.sent_bytes() + self.to_client.arrived.len();
        self.window_bytes.saturating_sub(held)
    }
}

/// The server's end of a connection.
struct ServerEnd {
    wire: Shared,
    /// Gives it a number among the process's files.
    file: File,
}

impl AsFd for ServerEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Read for ServerEnd {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.wire.borrow_mut();
        let wire = &mut *wire;
        if wire.is_reset() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let is_over = wire.to_server.receive(wire.world.now_us());
        let arrived = &mut wire.to_server.arrived;
        let mut count = bytes.len().min(arrived.len());
        if count > 1 && wire.world.one_in(8) {
            // Segments that arrive while it is being read.
            count = 1 + wire.world.below(count as u64) as usize;
        }
        for (place, byte) in bytes.iter_mut().zip(arrived.drain(..count)) {
            *place = byte;
        }
        match count {
            0 if is_over || bytes.is_empty() => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for ServerEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut wire = self.wire.borrow_mut();
        if wire.is_reset() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut room = wire.room_to_client();
        if room > 1 && wire.world.one_in(8) {
            room = 1 + wire.world.below(room as u64) as usize;
        }
        let mut bytes = Vec::new();
        for slice in slices {
            let count = slice.len().min(room - bytes.len());
            bytes.extend_from_slice(&slice[..count]);
        }
        if bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len();
        if wire.is_left {
            // Whoever closed it answers with a reset.
            let at = wire.arrival();
            wire.reset_at = wire.reset_at.min(at);
            wire.world.wake_at(at);
        }
        wire.send(true, Arrived::Bytes(bytes.into()));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for ServerEnd {}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        let mut wire = self.wire.borrow_mut();
        drop_end(&mut wire);
    }
}

/// The server's end of a connection is dropped.
fn drop_end(wire: &mut Wire) {
    wire.is_dropped = true;
    if wire.is_dark {
        wire.late = (0, 0);
        let at = wire.world.now_us() + SILENCE_US;
        wire.to_client.send(at, Arrived::End);
        wire.world.wake_at(at);
        return;
    }
    if !wire.to_server.arrived.is_empty() && wire.world.one_in(2) {
        // What was not read makes it a reset, which overtakes what was sent.
        wire.to_client = Pipe::default();
    }
    wire.send(true, Arrived::End);
}

#[derive(Default)]
struct DoorState {
    coming: VecDeque<(u64, Shared)>,
    /// Those that were accepted, by the numbers of their files.
    accepted: Vec<(RawFd, Shared)>,
    count: u64,
    is_closed: bool,
}

/// Where clients connect: the product's listener, for one server.
pub struct Door {
    world: World,
    state: Rc<RefCell<DoorState>>,
    file: File,
}

/// What clients know of it.
#[derive(Clone)]
pub struct Way {
    world: World,
    state: Rc<RefCell<DoorState>>,
    listener: RawFd,
}

impl Door {
    /// A door that opens now.
    ///
    /// # Errors
    /// The process has no file for it.
    pub fn new(world: &World) -> io::Result<Self> {
        Ok(Self {
            world: world.clone(),
            state: Rc::default(),
            file: File::open("/dev/null")?,
        })
    }

    /// The way to it.
    pub fn way(&self) -> Way {
        Way {
            world: self.world.clone(),
            state: Rc::clone(&self.state),
            listener: self.file.as_raw_fd(),
        }
    }
}

impl Way {
    /// Connects; none: nothing listens.
    pub fn connect(&self, window_bytes: usize) -> Option<Shared> {
        let mut state = self.state.borrow_mut();
        if state.is_closed {
            return None;
        }
        state.count += 1;
        let number = state.count;
        let wire = Rc::new(RefCell::new(Wire::new(&self.world, number, window_bytes)));
        let at = wire.borrow().arrival();
        self.world.note(What::Connect, number, 0);
        self.world.wake_at(at);
        state.coming.push_back((at, Rc::clone(&wire)));
        Some(wire)
    }

    /// What poll(2) says of a file.
    pub fn flags(&self, file: BorrowedFd<'_>, wanted: PollFlags) -> PollFlags {
        let number = file.as_raw_fd();
        let state = self.state.borrow();
        if number == self.listener {
            let now = self.world.now_us();
            let is_called = state.coming.front().is_some_and(|(at, _)| *at <= now);
            return if is_called {
                wanted
            } else {
                PollFlags::empty()
            };
        }
        let mut accepted = state.accepted.iter().rev();
        match accepted.find(|(file, _)| *file == number) {
            Some((_, wire)) => wire.borrow_mut().flags(wanted),
            None => PollFlags::NVAL,
        }
    }

    /// The machine of the server loses its power.
    pub fn lose_power(&self) {
        let state = self.state.borrow();
        let coming = state.coming.iter().map(|(_, wire)| wire);
        for wire in coming.chain(state.accepted.iter().map(|(_, wire)| wire)) {
            wire.borrow_mut().lose_power();
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Accept for Door {
    fn accept(&mut self) -> Option<Box<dyn Socket>> {
        let mut state = self.state.borrow_mut();
        let now = self.world.now_us();
        if state.coming.front().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        let file = self.file.try_clone().ok()?;
        let (_, wire) = state.coming.pop_front()?;
        state.accepted.push((file.as_raw_fd(), Rc::clone(&wire)));
        Some(Box::new(ServerEnd { wire, file }))
    }

    fn may_accept(&self) -> bool {
        true
    }
}

impl Drop for Door {
    /// The listener is closed, and with it what was not accepted.
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.is_closed = true;
        for (_, wire) in state.coming.drain(..) {
            drop_end(&mut wire.borrow_mut());
        }
    }
}
