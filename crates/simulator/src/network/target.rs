// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A target: its controllers, their keep-alive timers, and which commands are executed when a
//! controller has lost its host.
//!
//! Written from NVMe base specification 2.1 ("3.9 Keep Alive", "9.6 Communication Loss Handling")
//! and the NVMe/TCP transport specification 1.1, as badly as they allow: each command that a
//! controller has when it loses its host may still be executed, until the Command Quiesce Time has
//! passed. A target may end one connection for requests and keep the controller, as Linux's does.

use super::command::{Command, le};
use super::pipe::Arrived;
use super::{Direction, State};
use crate::drive::Drive;
use crate::trace::What;
use fabric::pdu::{COMMAND_BYTES, DATA_BYTES, IC_BYTES, flag, kind};
use std::collections::{BTreeMap, VecDeque};

/// What a target reports, and how it behaves.
#[derive(Clone, Copy, Debug)]
pub struct TargetShape {
    /// Blocks of the namespace.
    pub block_count: u64,
    /// Whether it may hold writes back until a flush.
    pub has_cache: bool,
    /// It may lose that with its power, while the host goes on.
    pub loses_cache: bool,
    /// Any command restarts the keep-alive timer (CTRATT.TBKAS).
    pub traffic_based: bool,
    /// Within this time a controller has ended its commands after it has lost its host (CQT).
    pub quiesce_ms: u16,
    /// Whether it says so; otherwise a host assumes 1 s.
    pub reports_quiesce: bool,
    /// Data is asked for by R2T if it is longer.
    pub capsule_bytes: usize,
    /// The longest data of one PDU.
    pub data_bytes: usize,
    /// The last data of a read says that it is successful.
    pub has_success_flag: bool,
    /// A connection that it gives up takes only its own queue along.
    pub drops_one: bool,
}

/// A write whose data has not all come.
struct Writing {
    command: Command,
    data: Vec<u8>,
    received: usize,
}

/// A connection at the target.
#[derive(Default)]
pub struct Wire {
    is_ready: bool,
    pub controller: Option<usize>,
    pub queue: u16,
    writing: Vec<Writing>,
}

struct Controller {
    keep_alive_us: u64,
    /// When the timer was restarted last; with TBKAS, whether a command was processed since it was
    /// looked at.
    restarted: u64,
    has_processed: bool,
    is_lost: bool,
}

/// A command that is being executed.
struct Running {
    index: usize,
    due: u64,
    /// Its association has been lost.
    is_over: bool,
    command: Command,
    data: Vec<u8>,
}

/// A target.
pub struct Target {
    pub drive: Drive,
    pub shape: TargetShape,
    controllers: Vec<Controller>,
    running: BTreeMap<u64, Running>,
    count: u64,
    /// The state of the path, until then.
    pub ana: (u8, u64),
}

impl Target {
    pub const fn new(drive: Drive, shape: TargetShape) -> Self {
        Self {
            drive,
            shape,
            controllers: Vec::new(),
            running: BTreeMap::new(),
            count: 0,
            ana: (1, 0),
        }
    }

    /// How long after its last byte a host's commands may be executed.
    pub fn longest_us(&self) -> u64 {
        let alive = self.controllers.iter().filter(|one| !one.is_lost);
        let keep_alive_us = alive.map(|one| one.keep_alive_us).max().unwrap_or(0);
        2 * keep_alive_us + u64::from(self.shape.quiesce_ms) * 1000
    }

    fn lose(&mut self, controller: usize) {
        if let Some(one) = self.controllers.get_mut(controller) {
            one.is_lost = true;
        }
    }

    fn is_lost(&self, controller: Option<usize>) -> bool {
        let one = controller.and_then(|controller| self.controllers.get(controller));
        one.is_some_and(|one| one.is_lost)
    }
}

/// The next whole PDU of what has arrived.
pub fn take_pdu(arrived: &mut VecDeque<u8>) -> Option<Vec<u8>> {
    let mut bytes = [0; 4];
    for (place, byte) in bytes.iter_mut().zip(arrived.iter().skip(4)) {
        *place = *byte;
    }
    let len = u32::from_le_bytes(bytes) as usize;
    if arrived.len() < 8 || arrived.len() < len {
        return None;
    }
    Some(arrived.drain(..len.max(8)).collect())
}

impl State {
    fn wire(&mut self, index: usize) -> Option<&mut Wire> {
        let connection = self.connections.get_mut(index)?;
        connection.is_target_open.then_some(&mut connection.wire)
    }

    /// All controllers are lost. Without power nothing more is executed.
    pub fn restart(&mut self, loses_power: bool) {
        for index in 0..self.target.controllers.len() {
            self.target.lose(index);
        }
        if loses_power {
            self.target.running.clear();
            self.target.drive.settle();
        } else {
            self.quiesce(|_| true);
        }
    }

    /// Nothing is executed after the Command Quiesce Time, and some of what is being executed just
    /// before that. What an earlier loss has ended keeps its time: another one, of its target too,
    /// gives it no longer.
    fn quiesce(&mut self, is_its: impl Fn(usize) -> bool) {
        let now = self.world.now_us();
        let end = now + u64::from(self.target.shape.quiesce_ms) * 1000;
        let running = &mut self.target.running;
        running.retain(|_, one| one.due <= end || !is_its(one.index));
        let mut late = Vec::new();
        for (number, one) in running.iter_mut() {
            if !is_its(one.index) || std::mem::replace(&mut one.is_over, true) {
                continue;
            }
            if self.world.one_in(2) {
                one.due = one.due.max(end - self.world.below(2_000).min(end - now));
                late.push((*number, one.due));
            }
        }
        for (number, due) in late {
            self.plan_execution(number, due - now);
        }
    }

    fn plan_execution(&self, number: u64, in_us: u64) {
        let this = self.this.clone();
        self.world.plan(in_us, move || {
            if let Some(this) = this.upgrade() {
                this.borrow_mut().execute(number);
            }
        });
    }

    /// The target gives up a connection.
    pub fn drop_connection(&mut self, index: usize) {
        let is_one = self.wire(index).is_some_and(|wire| wire.queue != 0);
        if !(is_one && self.target.shape.drops_one) {
            return self.connection_lost(index);
        }
        self.close_by_target(index);
        self.quiesce(|other| other == index);
    }

    /// The host's end has arrived, or the controller gives it up: a controller without one of its
    /// connections has lost its host (transport specification, "Transport connection loss").
    pub fn connection_lost(&mut self, index: usize) {
        let controller = self.wire(index).and_then(|wire| wire.controller);
        self.close_by_target(index);
        if let Some(controller) = controller {
            self.controller_lost(controller);
        }
    }

    fn controller_lost(&mut self, controller: usize) {
        self.target.lose(controller);
        let is_its: Vec<bool> = self
            .connections
            .iter()
            .map(|one| one.wire.controller == Some(controller))
            .collect();
        self.quiesce(|index| is_its[index]);
        for (index, _) in is_its.iter().enumerate().filter(|(_, is_its)| **is_its) {
            self.close_by_target(index);
            self.release(index);
        }
    }

    /// Looks at a keep-alive timer after `in_us`.
    fn look_at_timer(&mut self, controller: usize, in_us: u64) {
        let this = self.this.clone();
        self.world.plan(in_us, move || {
            if let Some(this) = this.upgrade() {
                this.borrow_mut().timer(controller);
            }
        });
    }

    /// With TBKAS the timer is looked at once per timeout, and restarted if a command was processed
    /// since; otherwise only a Keep Alive restarts it (base specification 2.1, 3.9.1 and 3.9.2).
    fn timer(&mut self, controller: usize) {
        let now = self.world.now_us();
        let traffic_based = self.target.shape.traffic_based;
        let Some(one) = self.target.controllers.get_mut(controller) else {
            return;
        };
        if one.is_lost {
            return;
        }
        let keep_alive_us = one.keep_alive_us;
        let in_us = match traffic_based {
            true if std::mem::take(&mut one.has_processed) => keep_alive_us,
            true => 0,
            false => (one.restarted + keep_alive_us).saturating_sub(now),
        };
        if in_us > 0 {
            return self.look_at_timer(controller, in_us);
        }
        self.world.note(What::Expire, controller as u64, 0);
        // What the network has held until now is executed, as it has come in time.
        for index in 0..self.connections.len() {
            let is_its = self
                .wire(index)
                .is_some_and(|wire| wire.controller == Some(controller));
            if is_its && self.is_held(index) {
                self.deliver(index);
            }
        }
        self.controller_lost(controller);
    }

    /// Takes a PDU.
    pub fn take(&mut self, index: usize, pdu: &[u8]) {
        match pdu.first().copied() {
            Some(kind::IC_REQ) => {
                let mut answer = vec![0; IC_BYTES];
                answer[0] = kind::IC_RESP;
                let most = (self.target.shape.data_bytes as u32).to_le_bytes();
                answer[12..16].copy_from_slice(&most);
                if let Some(wire) = self.wire(index) {
                    wire.is_ready = true;
                }
                self.answer(index, answer, &[]);
            }
            Some(kind::COMMAND) if pdu.len() >= COMMAND_BYTES => {
                let command = Command::parse(&pdu[8..COMMAND_BYTES]);
                let data = pdu[COMMAND_BYTES..].to_vec();
                if command.takes_data() && !command.is_inside {
                    let data = vec![0; command.len];
                    let cid = command.cid;
                    let writing = Writing {
                        command,
                        data,
                        received: 0,
                    };
                    if let Some(wire) = self.wire(index) {
                        wire.writing.push(writing);
                    }
                    self.ask(index, cid);
                } else {
                    self.begin(index, command, data);
                }
            }
            Some(kind::H2C_DATA) if pdu.len() >= DATA_BYTES => self.take_data(index, pdu),
            _ => self.connection_lost(index),
        }
    }

    /// Asks for the next part of a write (R2T), two PDUs of data at a time.
    fn ask(&mut self, index: usize, cid: u16) {
        let most = 2 * self.target.shape.data_bytes;
        let Some(wire) = self.wire(index) else { return };
        let mut writing = wire.writing.iter();
        let Some(one) = writing.find(|one| one.command.cid == cid) else {
            return;
        };
        let (offset, left) = (one.received as u32, one.data.len() - one.received);
        let mut pdu = vec![0; DATA_BYTES];
        pdu[0] = kind::R2T;
        pdu[8..10].copy_from_slice(&cid.to_le_bytes());
        pdu[12..16].copy_from_slice(&offset.to_le_bytes());
        pdu[16..20].copy_from_slice(&(left.min(most) as u32).to_le_bytes());
        self.answer(index, pdu, &[]);
    }

    fn take_data(&mut self, index: usize, pdu: &[u8]) {
        let (cid, offset) = (le(pdu, 8, 2) as u16, le(pdu, 12, 4) as usize);
        let data = &pdu[DATA_BYTES..];
        let Some(wire) = self.wire(index) else { return };
        let at = wire.writing.iter().position(|one| one.command.cid == cid);
        let Some(at) = at else {
            return self.connection_lost(index);
        };
        let one = &mut wire.writing[at];
        let Some(place) = one.data.get_mut(offset..offset + data.len()) else {
            return self.connection_lost(index);
        };
        place.copy_from_slice(data);
        one.received += data.len();
        if one.received >= one.data.len() {
            let one = wire.writing.remove(at);
            self.begin(index, one.command, one.data);
        } else if pdu[1] & flag::LAST != 0 {
            self.ask(index, cid);
        }
    }

    /// A command has arrived with its data.
    fn begin(&mut self, index: usize, mut command: Command, data: Vec<u8>) {
        command.mark = self.target.drive.mark();
        let now = self.world.now_us();
        let (opcode, lba) = (u64::from(command.opcode), command.lba);
        self.world.note(What::Pdu, opcode, lba);
        if let Some(keep_alive_ms) = command.connects_controller() {
            let controller = self.target.controllers.len();
            let keep_alive_us = keep_alive_ms * 1000;
            self.target.controllers.push(Controller {
                keep_alive_us,
                restarted: now,
                has_processed: true,
                is_lost: false,
            });
            if let Some(wire) = self.wire(index) {
                wire.controller = Some(controller);
            }
            if keep_alive_us > 0 {
                self.look_at_timer(controller, keep_alive_us);
            }
        } else if let Some((queue, controller)) = command.connects_queue(&data) {
            if self.target.is_lost(Some(controller)) {
                return self.connection_lost(index);
            }
            if let Some(wire) = self.wire(index) {
                (wire.controller, wire.queue) = (Some(controller), queue);
            }
        }
        let controller = self.wire(index).and_then(|wire| wire.controller);
        let controllers = &mut self.target.controllers;
        if let Some(one) = controller.and_then(|controller| controllers.get_mut(controller)) {
            one.has_processed = true;
            if command.is_keep_alive() {
                one.restarted = now;
            }
        }
        // Most are fast, some are slower than anybody expects.
        let latency = match self.world.below(256) {
            0 if self.delay.1 > now => self.world.below(4_000_000),
            0..8 => self.world.below(50_000),
            _ => 10 + self.world.below(200),
        };
        let is_io = self.wire(index).is_some_and(|wire| wire.queue != 0);
        let latency = if is_io { latency } else { 10 };
        let is_change = is_io && command.changes();
        self.target.count += 1;
        let number = self.target.count;
        let due = now + latency;
        self.target.running.insert(
            number,
            Running {
                index,
                due,
                is_over: false,
                command,
                data,
            },
        );
        self.plan_execution(number, latency);
        if is_change {
            self.has_begun_change();
        }
    }

    fn execute(&mut self, number: u64) {
        let now = self.world.now_us();
        let running = &mut self.target.running;
        // It may have been put off.
        let is_due = running.get(&number).is_some_and(|one| one.due <= now);
        let Some(one) = is_due.then(|| running.remove(&number)).flatten() else {
            return;
        };
        let Running {
            index,
            command,
            data,
            ..
        } = one;
        let wire = self.connections.get(index).map(|one| &one.wire);
        let (queue, controller) = wire.map_or((0, None), |wire| (wire.queue, wire.controller));
        let ana = if self.target.ana.1 > self.world.now_us() {
            self.target.ana.0
        } else {
            1
        };
        let controller = controller.unwrap_or(0) as u16;
        let done = command.execute(&self.target, queue, controller, ana, &data);
        let cid = command.cid;
        if let Some(data) = done.data {
            let (most, has_flag) = (
                self.target.shape.data_bytes,
                self.target.shape.has_success_flag,
            );
            let count = data.len().div_ceil(most);
            for (part, bytes) in data.chunks(most).enumerate() {
                let is_last = part + 1 == count;
                let mut pdu = vec![0; DATA_BYTES];
                pdu[0] = kind::C2H_DATA;
                if is_last {
                    pdu[1] = flag::LAST | if has_flag { flag::SUCCESS } else { 0 };
                }
                pdu[8..10].copy_from_slice(&cid.to_le_bytes());
                pdu[12..16].copy_from_slice(&((part * most) as u32).to_le_bytes());
                pdu[16..20].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
                self.answer(index, pdu, bytes);
            }
            if has_flag {
                return;
            }
        }
        let mut pdu = vec![0; DATA_BYTES];
        pdu[0] = kind::RESPONSE;
        pdu[8..16].copy_from_slice(&done.value.to_le_bytes());
        pdu[20..22].copy_from_slice(&cid.to_le_bytes());
        pdu[22..24].copy_from_slice(&(done.status << 1).to_le_bytes());
        self.answer(index, pdu, &[]);
    }

    /// Sends a PDU whose common header lacks its lengths.
    fn answer(&mut self, index: usize, mut pdu: Vec<u8>, data: &[u8]) {
        if self.wire(index).is_none() {
            return;
        }
        let header_bytes = pdu.len();
        pdu[2] = header_bytes as u8;
        pdu[3] = if data.is_empty() {
            0
        } else {
            header_bytes as u8
        };
        let bytes = (header_bytes + data.len()) as u32;
        pdu[4..8].copy_from_slice(&bytes.to_le_bytes());
        pdu.extend_from_slice(data);
        self.world
            .note(What::Answer, index as u64, u64::from(pdu[0]));
        self.send(index, Direction::ToHost, Arrived::Bytes(pdu.into()));
    }
}
