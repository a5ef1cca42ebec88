// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network between the product's NVMe/TCP initiator and a simulated target: connections whose
//! bytes arrive in order, each after its own time, or much later.
//!
//! A network may hold what was sent on a connection, and the connection's end, and deliver both
//! after the host has given it up (RFC 9293, 3.8.1: the same bytes are sent again until they are
//! acknowledged or the connection ends, for minutes). What a host sends after it has aborted a
//! connection does not exist; what it had sent may still arrive. Or the reset is lost, because it
//! is sent once (RFC 9293, 3.10.7: no segment acknowledges it), and what is held arrives as late as
//! the target still takes it: just before the controller's keep-alive timer expires.

mod command;
pub(crate) mod pipe;
mod target;

use crate::drive::Drive;
use crate::trace::What;
use crate::witness::Testimony;
use crate::world::World;
use fabric::{ByteStream, Connect, FabricError, KeepAlive, Keeper, RemoteEvent, StreamError};
pub(crate) use pipe::{Arrived, Pipe};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
pub use target::TargetShape;
use target::{Target, Wire};

/// Bytes that a connection takes before the other side has got them.
const WINDOW_BYTES: usize = 64 << 10;
/// `ECONNREFUSED` and `ETIMEDOUT`.
const REFUSED: i32 = 111;
const TIMED_OUT: i32 = 110;

/// As late as the target takes it.
const EXPIRY: u64 = u64::MAX;

/// What a network holds until a controller has lost its host, whose end is lost too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Everything, in both directions.
    All,
    /// What goes to the host, and what goes to the target on the newest connection.
    Newest,
    /// Both directions of the oldest connection for requests; the others work.
    Oldest,
}

/// How a target gives up associations.
#[derive(Clone, Copy, Debug)]
enum GivingUp {
    /// The newest connections.
    Close(usize),
    /// All, to begin again after a time; with or without what was not flushed.
    Restart(u64, bool),
}

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
    /// Until then nothing of it arrives at the target, and at the host; [`EXPIRY`]: until its
    /// controller's keep-alive timer expires.
    held_until: [u64; 2],
    /// The host's end of it is lost.
    is_silent: bool,
    has_ended: bool,
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
    /// No segment is later than that, however often it is lost.
    most_delay_us: u64,
    /// Until then the target is down.
    down_until: u64,
    /// After so many more changes that it has begun to execute, the target gives up.
    gives_up: Option<(u64, GivingUp)>,
    /// When trouble with the path began that is not over, or was a moment ago.
    trouble_since: u64,
    /// Until then the host's process is stopped.
    stalled_until: u64,
    /// When the last fault began.
    last_fault: Option<u64>,
    violation: Option<String>,
    testimony: Option<Testimony>,
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
                most_delay_us: u64::MAX >> 1,
                down_until: 0,
                gives_up: None,
                trouble_since: 0,
                stalled_until: 0,
                last_fault: None,
                violation: None,
                testimony: None,
            })
        }))
    }

    /// Holds what is sent in these directions, on the connections that there are; `all`: on those
    /// too that are made.
    pub fn hold(&self, directions: &[Direction], for_us: u64, all: bool) {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        let until = state.fault() + for_us;
        for direction in directions {
            state.world.note(What::Hold, *direction as u64, for_us);
            let connections = state.connections.iter_mut();
            let old = connections.map(|one| &mut one.held_until);
            for held in old.chain(all.then_some(&mut state.held_until)) {
                held[*direction as usize] = until.max(held[*direction as usize]);
            }
        }
    }

    /// Holds what is sent on the connections that there are, and loses their ends: the target does
    /// not notice that they end before its keep-alive timer expires.
    pub fn silence(&self, what: Silence) {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        state.fault();
        state.world.note(What::Hold, 2 + what as u64, 0);
        let is_open = |one: &Connection| one.is_target_open && !one.has_ended;
        let is_for_requests = |one: &Connection| is_open(one) && one.wire.queue != 0;
        let oldest = state.connections.iter().position(is_for_requests);
        let newest = state.connections.iter().rposition(is_for_requests);
        for (index, one) in state.connections.iter_mut().enumerate() {
            if !is_open(one) || one.wire.controller.is_none() {
                continue;
            }
            one.is_silent = true;
            let [to_target, to_host] = match what {
                Silence::All => [true, true],
                Silence::Newest => [newest == Some(index), true],
                Silence::Oldest => [oldest == Some(index); 2],
            };
            if to_target {
                one.held_until[Direction::ToTarget as usize] = EXPIRY;
            }
            if to_host {
                one.held_until[Direction::ToHost as usize] = EXPIRY;
            }
        }
    }

    /// The host's process stops for a time.
    pub fn stall(&self, for_us: u64) {
        let mut state = self.0.borrow_mut();
        state.stalled_until = state.fault() + for_us;
    }

    /// The host loses its power: nothing ends its connections.
    pub fn host_lost_power(&self) {
        let mut guard = self.0.borrow_mut();
        let state = &mut *guard;
        state.fault();
        for one in state.connections.iter_mut().filter(|one| !one.has_ended) {
            one.is_silent = true;
        }
    }

    /// Each segment takes up to `by_us` more for a time, and up to `most_us` in all if it is lost.
    pub fn delay(&self, by_us: u64, most_us: u64, for_us: u64) {
        let mut state = self.0.borrow_mut();
        state.most_delay_us = most_us;
        state.delay = (by_us, state.fault() + for_us);
    }

    /// Somebody between the two ends the newest connections.
    pub fn reset(&self, count: usize) {
        let mut state = self.0.borrow_mut();
        state.fault();
        let first = state.connections.len().saturating_sub(count);
        for index in first..state.connections.len() {
            state.send(index, Direction::ToHost, Arrived::End);
            state.send(index, Direction::ToTarget, Arrived::End);
        }
    }

    /// The target gives up the newest connections, and with them their controllers, once it has
    /// begun to execute so many more changes; 0: at once.
    pub fn close(&self, count: usize, changes: u64) {
        let mut state = self.0.borrow_mut();
        state.fault();
        state.give_up_after(changes, GivingUp::Close(count));
    }

    /// The target ends, with all connections, and begins again after a time. `loses_power`: if it
    /// has a cache that it can lose, it does.
    pub fn restart(&self, for_us: u64, changes: u64, loses_power: bool) {
        let mut state = self.0.borrow_mut();
        state.fault();
        let loses_power = loses_power && state.target.shape.loses_cache;
        state.give_up_after(changes, GivingUp::Restart(for_us, loses_power));
    }

    /// Who is to know that the target has lost its power.
    pub fn tell(&self, testimony: &Testimony) {
        self.0.borrow_mut().testimony = Some(testimony.clone());
    }

    /// Sets the state of the path to the namespace for a time. Returns how long there is trouble
    /// without a pause.
    pub fn set_ana(&self, ana: u8, for_us: u64) -> u64 {
        let mut state = self.0.borrow_mut();
        state.world.note(What::Ana, u64::from(ana), for_us);
        let now = state.world.now_us();
        if now > state.target.ana.1.saturating_add(PAUSE_US) {
            state.trouble_since = now;
        }
        state.target.ana = (ana, now + for_us);
        now + for_us - state.trouble_since
    }

    /// How long ago the last fault of the network began, if there was one.
    pub fn calm_us(&self) -> Option<u64> {
        let state = self.0.borrow();
        state.last_fault.map(|last| state.world.now_us() - last)
    }

    /// A promise that was broken.
    pub fn violation(&self) -> Option<String> {
        self.0.borrow().violation.clone()
    }

    /// Ends all faults: what is held arrives now.
    pub fn heal(&self) {
        let mut state = self.0.borrow_mut();
        let now = state.world.now_us();
        (state.held_until, state.delay, state.gives_up) = ([now; 2], (0, 0), None);
        for index in 0..state.connections.len() {
            state.release(index);
        }
        state.down_until = state.down_until.min(now);
        state.target.ana.1 = state.target.ana.1.min(now);
    }

    /// Whether a request may fail, or be late, for what the network or the target does.
    pub fn is_faulty(&self) -> bool {
        let state = self.0.borrow();
        let now = state.world.now_us();
        let connections = state.connections.iter().map(|one| &one.held_until);
        let mut held = connections.chain([&state.held_until]).flatten();
        let held = held.any(|until| *until > now);
        held || state.down_until > now
            || state.delay.1 > now
            || state.target.ana.1 > now
            || state.gives_up.is_some()
    }

    /// The longest that a command of a host that has died may be executed.
    pub fn longest_us(&self) -> u64 {
        let state = self.0.borrow();
        let connections = state.connections.iter();
        let last_at = connections.map(|one| one.to_target.last_at());
        // What is held until a timer expires is executed when that expires.
        let last_at = last_at.filter(|at| *at != EXPIRY).max();
        let under_way = last_at.unwrap_or(0).saturating_sub(state.world.now_us());
        under_way + state.target.longest_us()
    }
}

impl State {
    /// A fault begins now.
    fn fault(&mut self) -> u64 {
        let now = self.world.now_us();
        self.last_fault = Some(now);
        now
    }

    fn give_up_after(&mut self, changes: u64, how: GivingUp) {
        if changes > 0 {
            self.gives_up = Some((changes, how));
            return;
        }
        match how {
            GivingUp::Close(count) => {
                let open = self.connections.iter().enumerate();
                let open = open.filter(|(_, one)| one.is_target_open && !one.has_ended);
                let newest: Vec<usize> = open.map(|(index, _)| index).rev().take(count).collect();
                for index in newest {
                    self.drop_connection(index);
                }
            }
            GivingUp::Restart(for_us, loses_power) => {
                let now = self.world.now_us();
                self.world.note(What::Restart, for_us, loses_power.into());
                self.down_until = now + for_us;
                for index in 0..self.connections.len() {
                    self.close_by_target(index);
                }
                self.restart(loses_power);
                if let Some(testimony) = self.testimony.as_ref().filter(|_| loses_power) {
                    testimony.target_lost_power();
                }
            }
        }
    }

    /// The target has begun to execute a change.
    fn has_begun_change(&mut self) {
        if let Some((changes, how)) = self.gives_up.take() {
            self.give_up_after(changes - 1, how);
        }
    }

    /// What a connection holds arrives now, and its end, if that was lost.
    fn release(&mut self, index: usize) {
        let now = self.world.now_us();
        let Some(one) = self.connections.get_mut(index) else {
            return;
        };
        let was_held = one.held_until.contains(&EXPIRY);
        one.held_until = one.held_until.map(|until| until.min(now));
        let was_silent = std::mem::take(&mut one.is_silent);
        if was_held {
            one.to_target.release(now);
            one.to_host.release(now);
            self.plan_arrival(index, 0);
        }
        if was_silent && self.connections.get(index).is_some_and(|one| one.has_ended) {
            self.send(index, Direction::ToTarget, Arrived::End);
        }
    }

    /// Whether what is sent to the target is held until its timer expires.
    fn is_held(&self, index: usize) -> bool {
        let one = self.connections.get(index);
        one.is_some_and(|one| one.held_until[Direction::ToTarget as usize] == EXPIRY)
    }

    /// What is held arrives at the target.
    fn deliver(&mut self, index: usize) {
        let now = self.world.now_us();
        if let Some(one) = self.connections.get_mut(index) {
            one.to_target.release(now);
        }
        self.arrived(index);
    }

    fn plan_arrival(&self, index: usize, in_us: u64) {
        let this = self.this.clone();
        self.world.plan(in_us, move || {
            if let Some(this) = this.upgrade() {
                this.borrow_mut().arrived(index);
            }
        });
    }

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
            at = at.min(now + self.most_delay_us);
        }
        let connection = index.and_then(|index| self.connections.get(index));
        let held_until = connection.map_or(&self.held_until, |one| &one.held_until);
        let held_until = held_until[direction as usize];
        at.max(held_until.saturating_add(self.world.below(200)))
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
        if at == EXPIRY {
            return;
        }
        match direction {
            Direction::ToTarget => self.plan_arrival(index, at - now),
            // The host's sleep ends.
            Direction::ToHost => self.world.wake_at(at),
        }
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
            if !connection.is_target_open {
                return;
            }
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
    /// The host aborts the connection; what is under way arrives, and then the reset, unless that
    /// is lost.
    fn drop(&mut self) {
        let mut state = self.network.0.borrow_mut();
        let Some(connection) = state.connections.get_mut(self.index) else {
            return;
        };
        connection.has_ended = true;
        if !connection.is_silent {
            state.send(self.index, Direction::ToTarget, Arrived::End);
        }
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
            is_silent: false,
            has_ended: false,
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
        tend(&self.network, &Rc::downgrade(&admin));
        Tended(admin)
    }

    fn event(&mut self, event: RemoteEvent) {
        let mut state = self.network.0.borrow_mut();
        if matches!(event, RemoteEvent::Lost { .. }) && state.last_fault.is_none() {
            state.violation = Some("an association was lost without a fault".to_owned());
        }
        drop(state);
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

/// Trouble with a path that follows this soon is the same.
const PAUSE_US: u64 = 2_000_000;

/// Between two looks at an administration connection.
const TEND_US: u64 = 10_000;

/// An administration connection that is tended while the device is idle, as a thread of the
/// platform does.
pub struct Tended(Rc<RefCell<KeepAlive<Stream>>>);

fn tend(network: &Network, admin: &Weak<RefCell<KeepAlive<Stream>>>) {
    let (this, admin) = (network.clone(), admin.clone());
    let world = network.0.borrow().world.clone();
    let now = world.now_us();
    let in_us = network.0.borrow().stalled_until.saturating_sub(now);
    world.clone().plan(in_us + TEND_US, move || {
        if let Some(kept) = admin.upgrade() {
            // The process may have been stopped since.
            if this.0.borrow().stalled_until <= world.now_us() {
                kept.borrow_mut().tend(world.now_us());
            }
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
