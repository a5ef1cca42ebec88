// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network between the product's NVMe/TCP initiator and a simulated target: connections whose
//! bytes arrive in order, each after its own time, or much later.
//!
//! A network may hold what was sent on a connection, and the connection's end, and deliver both
//! after the host has given it up (RFC 9293, 3.8.1: the same bytes are sent again until they are
//! acknowledged or the connection ends, for minutes). What a host sends after it has aborted a
//! connection does not exist; what it had sent may still arrive.

mod command;
mod pipe;
mod target;

use crate::drive::Drive;
use crate::trace::What;
use crate::world::World;
use fabric::{ByteStream, Connect, FabricError, KeepAlive, Keeper, RemoteEvent, StreamError};
use pipe::{Arrived, Pipe};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
pub use target::TargetShape;
use target::{Target, Wire};

/// Bytes that a connection takes before the other side has got them.
const WINDOW_BYTES: usize = 64 << 10;
/// `ECONNREFUSED` and `ETIMEDOUT`.
const REFUSED: i32 = 111;
const TIMED_OUT: i32 = 110;

/// From the host to the target, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the target.
    ToTarget,
    /// To the host.
    ToHost,
}

struct Connection {
    to_target: Pipe,
    to_host: Pipe,
    /// Until then nothing of it arrives at the target, and at the host.
    held_until: [u64; 2],
    /// The target has not closed it.
    is_target_open: bool,
    wire: Wire,
}

pub(crate) struct State {
    world: World,
    this: Weak<RefCell<State>>,
    connections: Vec<Connection>,
    target: Target,
    /// The same of new connections.
    held_until: [u64; 2],
    /// How much longer bytes take at most, and until when.
    delay: (u64, u64),
    /// Until then the target is down.
    down_until: u64,
}

/// A handle to the network.
#[derive(Clone)]
pub struct Network(Rc<RefCell<State>>);

impl Network {
    /// A network with a target that has this drive.
    pub fn new(world: &World, drive: &Drive, shape: TargetShape) -> Self {
        Self(Rc::new_cyclic(|this| {
            RefCell::new(State {
                world: world.clone(),
                this: this.clone(),
                connections: Vec::new(),
                target: Target::new(drive.clone(), shape),
                held_until: [0; 2],
                delay: (0, 0),
                down_until: 0,
            })
        }))
    }

    /// Holds what is sent in these directions, on the connections that there are; `all`: on those
    /// too that are made.
    pub fn hold(&self, directions: &[Direction], for_us: u64, all: bool) {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        let until = state.world.now_us() + for_us;
        for direction in directions {
            state.world.note(What::Hold, *direction as u64, for_us);
            let connections = state.connections.iter_mut();
            let old = connections.map(|one| &mut one.held_until);
            for held in old.chain(all.then_some(&mut state.held_until)) {
                held[*direction as usize] = until.max(held[*direction as usize]);
            }
        }
    }

    /// Each segment takes up to `most_us` more for a time.
    pub fn delay(&self, most_us: u64, for_us: u64) {
        let mut state = self.0.borrow_mut();
        state.delay = (most_us, state.world.now_us() + for_us);
    }

    /// Somebody between the two ends the newest connections.
    pub fn reset(&self, count: usize) {
        let mut state = self.0.borrow_mut();
        let first = state.connections.len().saturating_sub(count);
        for index in first..state.connections.len() {
            state.send(index, Direction::ToHost, Arrived::End);
            state.send(index, Direction::ToTarget, Arrived::End);
        }
    }

    /// The target gives up the newest connections, and with them their controllers.
    pub fn close(&self, count: usize) {
        let mut state = self.0.borrow_mut();
        let first = state.connections.len().saturating_sub(count);
        for index in first..state.connections.len() {
            state.connection_lost(index);
        }
    }

    /// The target ends, with all connections, and begins again after a time.
    pub fn restart(&self, for_us: u64) {
        let mut state = self.0.borrow_mut();
        let now = state.world.now_us();
        state.world.note(What::Restart, for_us, 0);
        state.down_until = now + for_us;
        for index in 0..state.connections.len() {
            state.close_by_target(index);
        }
        state.target.restart(now);
    }

    /// Sets the state of the path to the namespace for a time.
    pub fn set_ana(&self, ana: u8, for_us: u64) {
        let mut state = self.0.borrow_mut();
        state.world.note(What::Ana, u64::from(ana), for_us);
        let until = state.world.now_us() + for_us;
        state.target.ana = (ana, until);
    }

    /// Ends all faults: what is held arrives now.
    pub fn heal(&self) {
        let mut state = self.0.borrow_mut();
        let now = state.world.now_us();
        (state.held_until, state.delay) = ([now; 2], (0, 0));
        for connection in &mut state.connections {
            connection.held_until = [now; 2];
        }
        state.down_until = state.down_until.min(now);
        state.target.ana.1 = 0;
    }

    /// Whether a request may fail, or be late, for what the network or the target does.
    pub fn is_faulty(&self) -> bool {
        let state = self.0.borrow();
        let now = state.world.now_us();
        let connections = state.connections.iter().map(|one| &one.held_until);
        let mut held = connections.chain([&state.held_until]).flatten();
        let held = held.any(|until| *until > now);
        held || state.down_until > now || state.delay.1 > now || state.target.ana.1 > now
    }

    /// The longest that a command of a host that has died may be executed.
    pub fn longest_us(&self) -> u64 {
        let state = self.0.borrow();
        let connections = state.connections.iter();
        let last_at = connections.map(|one| one.to_target.last_at()).max();
        let under_way = last_at.unwrap_or(0).saturating_sub(state.world.now_us());
        under_way + state.target.longest_us()
    }
}

impl State {
    /// When a segment that is sent now arrives; without a connection, one that makes it.
    fn arrival(&self, index: Option<usize>, direction: Direction) -> u64 {
        let now = self.world.now_us();
        let mut at = now + 20 + self.world.below(80);
        if self.delay.1 > now {
            at += self.world.below(self.delay.0.max(1));
            // It is lost, and sent again after a time that grows.
            if self.world.one_in(16) {
                at += 200_000 << self.world.below(4);
            }
        }
        let connection = index.and_then(|index| self.connections.get(index));
        let held_until = connection.map_or(&self.held_until, |one| &one.held_until);
        at.max(held_until[direction as usize] + self.world.below(200))
    }

    fn pipe(&mut self, index: usize, direction: Direction) -> Option<&mut Pipe> {
        let connection = self.connections.get_mut(index)?;
        Some(match direction {
            Direction::ToTarget => &mut connection.to_target,
            Direction::ToHost => &mut connection.to_host,
        })
    }

    /// Sends bytes or the end, and plans what happens when they arrive.
    fn send(&mut self, index: usize, direction: Direction, what: Arrived) {
        let at = self.arrival(Some(index), direction);
        let now = self.world.now_us();
        let len = what.len() as u64;
        let Some(pipe) = self.pipe(index, direction) else {
            return;
        };
        let at = pipe.send(at, what);
        self.world.note(What::Segment, index as u64, len);
        let this = self.this.clone();
        self.world.plan(at - now, move || {
            if let (Direction::ToTarget, Some(this)) = (direction, this.upgrade()) {
                this.borrow_mut().arrived(index);
            }
        });
    }

    /// The target closes a connection: the host gets to know it, unless it is held.
    fn close_by_target(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if std::mem::take(&mut connection.is_target_open) {
            self.world.note(What::Reset, index as u64, 0);
            self.send(index, Direction::ToHost, Arrived::End);
        }
    }

    /// Something has arrived at the target.
    fn arrived(&mut self, index: usize) {
        let now = self.world.now_us();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let is_over = connection.to_target.receive(now);
        if !connection.is_target_open {
            return;
        }
        loop {
            let Some(connection) = self.connections.get_mut(index) else {
                return;
            };
            let Some(pdu) = target::take_pdu(&mut connection.to_target.arrived) else {
                break;
            };
            self.take(index, &pdu);
        }
        if is_over {
            self.connection_lost(index);
        }
    }
}

/// A connection at the host.
pub struct Stream {
    network: Network,
    world: World,
    index: usize,
}

impl ByteStream for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize, StreamError> {
        let mut state = self.network.0.borrow_mut();
        let now = state.world.now_us();
        let Some(pipe) = state.pipe(self.index, Direction::ToHost) else {
            return Err(StreamError::Closed);
        };
        let is_over = pipe.receive(now);
        let count = bytes.len().min(pipe.arrived.len());
        for (place, byte) in bytes.iter_mut().zip(pipe.arrived.drain(..count)) {
            *place = byte;
        }
        if count == 0 && is_over && !bytes.is_empty() {
            return Err(StreamError::Closed);
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        let mut state = self.network.0.borrow_mut();
        let Some(pipe) = state.pipe(self.index, Direction::ToTarget) else {
            return Err(StreamError::Closed);
        };
        let room = WINDOW_BYTES.saturating_sub(pipe.sent_bytes());
        let count = bytes.len().min(room);
        if count > 0 {
            let part = bytes.get(..count).unwrap_or_default();
            state.send(self.index, Direction::ToTarget, Arrived::Bytes(part.into()));
        }
        Ok(count)
    }

    fn wait(&mut self, timeout_us: u32, _: bool) {
        let has_arrived = {
            let mut state = self.network.0.borrow_mut();
            let now = state.world.now_us();
            let pipe = state.pipe(self.index, Direction::ToHost);
            pipe.is_some_and(|pipe| pipe.receive(now) || !pipe.arrived.is_empty())
        };
        if !has_arrived {
            self.world.sleep(u64::from(timeout_us));
        }
    }
}

impl Drop for Stream {
    /// The host aborts the connection; what is under way arrives, and then the reset.
    fn drop(&mut self) {
        let mut state = self.network.0.borrow_mut();
        state.send(self.index, Direction::ToTarget, Arrived::End);
    }
}

/// Opens connections to the target.
#[derive(Clone)]
pub struct Dialer {
    network: Network,
    world: World,
}

impl Dialer {
    /// For a host on this network.
    pub fn new(network: &Network) -> Self {
        Self {
            network: network.clone(),
            world: network.0.borrow().world.clone(),
        }
    }
}

impl Connect for Dialer {
    type Stream = Stream;
    type Keeper = Tended;

    fn connect(&mut self, timeout_us: u64) -> Result<Stream, StreamError> {
        let end = self.world.now_us().saturating_add(timeout_us);
        // There and back.
        let at = {
            let state = self.network.0.borrow();
            let there = state.arrival(None, Direction::ToTarget);
            let back = state.arrival(None, Direction::ToHost);
            there.max(back)
        };
        while self.world.now_us() < at.min(end) {
            let left = at.min(end) - self.world.now_us();
            self.world.sleep(left);
        }
        let mut state = self.network.0.borrow_mut();
        let now = state.world.now_us();
        let errno = match (at > end, state.down_until > now) {
            (true, _) => Some(TIMED_OUT),
            (false, true) => Some(REFUSED),
            (false, false) => None,
        };
        if let Some(errno) = errno {
            return Err(StreamError::Os { errno });
        }
        let index = state.connections.len();
        state.world.note(What::Connect, index as u64, 0);
        let held_until = state.held_until;
        state.connections.push(Connection {
            to_target: Pipe::default(),
            to_host: Pipe::default(),
            held_until,
            is_target_open: true,
            wire: Wire::default(),
        });
        Ok(Stream {
            network: self.network.clone(),
            world: self.world.clone(),
            index,
        })
    }

    fn pause(&mut self, us: u64) {
        let end = self.world.now_us().saturating_add(us);
        while self.world.now_us() < end {
            self.world.sleep(end - self.world.now_us());
        }
    }

    fn keep(&mut self, admin: KeepAlive<Stream>) -> Tended {
        let admin = Rc::new(RefCell::new(admin));
        tend(&self.world, &Rc::downgrade(&admin));
        Tended(admin)
    }

    fn event(&mut self, event: RemoteEvent) {
        let (kind, number) = match event {
            RemoteEvent::Lost { .. } => (1, 0),
            RemoteEvent::Connected { writes_wait_us } => (2, writes_wait_us),
            RemoteEvent::GivenUp { in_doubt_us, .. } => (3, in_doubt_us),
            RemoteEvent::Closing { wait_us } => (4, wait_us),
            RemoteEvent::InDoubt { in_doubt_us } => (5, in_doubt_us),
            _ => return,
        };
        self.world.note(What::Association, kind, number);
    }
}

/// Between two looks at an administration connection.
const TEND_US: u64 = 10_000;

/// An administration connection that is tended while the device is idle, as a thread of the
/// platform does.
pub struct Tended(Rc<RefCell<KeepAlive<Stream>>>);

fn tend(world: &World, admin: &Weak<RefCell<KeepAlive<Stream>>>) {
    let (this, admin) = (world.clone(), admin.clone());
    world.plan(TEND_US, move || {
        if let Some(kept) = admin.upgrade() {
            kept.borrow_mut().tend(this.now_us());
            tend(&this, &admin);
        }
    });
}

impl Keeper for Tended {
    fn tend(&mut self, _: u64) {}

    fn heard(&self) -> u64 {
        self.0.borrow().heard()
    }

    fn failure(&self) -> Option<FabricError> {
        self.0.borrow().failure()
    }
}
