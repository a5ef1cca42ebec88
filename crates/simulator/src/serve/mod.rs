// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The product's NBD server on a drive, and its clients: what one of them is told is true for all,
//! whatever becomes of connections, processes and power.
//!
//! The server sleeps in [`Front::sleep`], where everything else happens: the clients' turns, and
//! the steps of the script.

mod client;
mod file;
mod mortal;
mod wire;

use crate::content;
use crate::machine::Machine;
use crate::run::{Steps, not_opened};
use crate::script::{Step, Verb};
use crate::setup::Stack;
use crate::witness::Testimony;
use crate::world::instant;
use ::nbd::Export;
use ::serve::nbd::Network;
use ::serve::{Front, ServeCounts, ServeSource};
use block::{Device, Operation};
use client::{Client, Known};
use devices::path::handle::Recall;
use devices::path::memory::Memory;
use devices::{Cancel, Context};
use export::{Answer, Engine, Limits};
use linux::HostMemory;
use mortal::Mortal;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use wire::{Door, Leave, Way};

/// Blocks that are used.
const BLOCKS: u64 = 96;
const BLOCK_BYTES: usize = 512;
/// The longest request.
const MOST_BLOCKS: u64 = 24;
/// Each request ends within this time, whatever happens.
const BOUND_US: u64 = 120_000_000;
const MEMORY_BYTES: usize = 1 << 20;
/// A server that has nothing to do sleeps, and does not look more often than this.
const MOST_CALLS: u64 = 20_000;
/// The longest that a client does nothing.
const MOST_PAUSE_US: u64 = 5_000_000;

/// The clients, which outlive servers.
struct Clients {
    all: Vec<Client>,
    known: Known,
}

/// What a seed chooses.
struct Choices {
    limits: Limits,
    places: usize,
    clients: usize,
    window_bytes: usize,
    structured: u64,
    /// A file of a volume is served, and not the drive.
    has_file: bool,
}

fn choices(machine: &Machine, geometry: &block::Geometry) -> Choices {
    let mut random = fastrand::Rng::with_seed(machine.setup.seed ^ 0x7365_7276_6521);
    let piece_bytes = BLOCK_BYTES << random.u32(0..6);
    let pieces = 3 + random.usize(0..8);
    let clients = 2 + random.usize(0..2);
    Choices {
        limits: Limits::new(
            geometry,
            piece_bytes,
            pieces * piece_bytes,
            [1, 2, 8, 32][random.usize(0..4)],
        ),
        places: clients + random.usize(0..2),
        clients,
        window_bytes: 1 << random.u32(9..17),
        structured: random.u64(..),
        has_file: random.u8(0..3) == 0,
    }
}

/// Runs a script.
///
/// # Errors
/// A promise was broken.
pub fn go(machine: &mut Machine, steps: &mut Steps<'_>) -> Result<(), String> {
    let geometry = *machine.drives[0].clone().geometry();
    let choices = choices(machine, &geometry);
    let memory = HostMemory::new(MEMORY_BYTES).map_err(|error| error.to_string())?;
    let has_cache = machine.setup.features.volatile_write_cache;
    let mut clients = Clients {
        all: (0..choices.clients)
            .map(|index| Client::new(choices.structured >> index & 1 == 1))
            .collect(),
        known: Known {
            world: machine.world.clone(),
            // What a connection has not sent is certain not to be executed.
            testimony: Testimony::new(&machine.world, u64::MAX, BOUND_US, has_cache, Stack::Remote),
            geometry,
            memory,
            tolerates: false,
            is_ending: false,
            window_bytes: choices.window_bytes,
        },
    };
    if choices.has_file {
        let mut device = machine.open()?;
        file::make(machine, &mut device)?;
    }
    while !steps.is_over() {
        session(machine, steps, &mut clients, &choices)?;
    }
    if machine.power.is_off() {
        clients.known.testimony.target_lost_power();
    }
    machine.recover();
    let audit = audit(geometry.block_count, &choices);
    session(machine, &mut Steps::of(&audit), &mut clients, &choices)?;
    match clients.outstanding() {
        0 => Ok(()),
        count => Err(format!("{count} requests have no outcome")),
    }
}

/// Each client reads everything.
fn audit(block_count: u64, choices: &Choices) -> Vec<Step> {
    let step = |verb, numbers, client| Step {
        verb,
        numbers,
        salt: client << CLIENT_SHIFT,
    };
    let mut steps = Vec::new();
    for client in 0..choices.clients as u32 {
        let blocks = BLOCKS.min(block_count) as u32;
        let reads = (0..blocks).step_by(8);
        steps.extend(reads.map(|lba| step(Verb::Read, [lba, 7, 0], client)));
        steps.push(step(Verb::Flush, [0; 3], client));
        steps.push(step(Verb::Wait, [0; 3], client));
    }
    steps
}

/// From the start of a server to its end.
fn session(
    machine: &mut Machine,
    steps: &mut Steps<'_>,
    clients: &mut Clients,
    choices: &Choices,
) -> Result<(), String> {
    if machine.has_lost_data() {
        clients.known.testimony.target_lost_power();
    }
    machine.power_on();
    let device = match machine.open() {
        Ok(device) => device,
        Err(why) => return not_opened(machine, why),
    };
    let is_alive = Rc::new(Cell::new(true));
    let mut device = Mortal::new(device, &is_alive, &machine.power);
    clients.known.is_ending = false;
    clients.all.iter_mut().for_each(Client::server_ended);
    let mut served = Err(String::new());
    let mut serve = |device: &mut dyn Device, machine: &mut Machine| {
        served = serving(device, machine, steps, clients, choices, &is_alive);
    };
    let opened = if choices.has_file {
        // What it needs of the machine does not change while it is served.
        let memory = machine.memory.clone();
        file::serve(&memory, &mut device, |device| serve(device, machine))
    } else {
        serve(&mut device, machine);
        Ok(())
    };
    drop(device);
    let ended = match (served, opened) {
        (Err(what), _) if !what.is_empty() => return Err(what),
        (Ok(ended), opened) => ended.and(opened),
        (Err(_), opened) => opened,
    };
    if let Some(what) = machine.violation() {
        return Err(what);
    }
    match ended {
        _ if !is_alive.get() => Ok(()),
        Ok(()) => {
            // A server that ends flushes first.
            clients.known.testimony.everything_is_durable();
            Ok(())
        }
        Err(failure) => not_opened(machine, failure),
    }
}

/// Serves a device until a user ends the server, or its process dies. How it ended.
///
/// # Errors
/// A promise was broken.
fn serving(
    device: &mut dyn Device,
    machine: &mut Machine,
    steps: &mut Steps<'_>,
    clients: &mut Clients,
    choices: &Choices,
    is_alive: &Rc<Cell<bool>>,
) -> Result<Result<(), String>, String> {
    clients.known.geometry = *device.geometry();
    let memory = Memory::Host(machine.memory.clone());
    let limits = choices.limits;
    let export = Export::of(device.geometry(), "", true, limits.max_payload_bytes());
    let door = Door::new(&machine.world).map_err(|error| error.to_string())?;
    let way = door.way();
    let network = Network::new(export, None, choices.places, door).timed_by(instant);
    let context = Context::system();
    let mut violation = None;
    let stage = Stage {
        network,
        machine,
        steps,
        clients,
        way,
        cancel: context.cancel.clone(),
        is_alive: Rc::clone(is_alive),
        until: Until::Time(0),
        held: None,
        calls: (0, 0, 0),
        most_blocks: u64::from(limits.max_payload_bytes()) / BLOCK_BYTES as u64,
        violation: &mut violation,
    };
    let source = ServeSource {
        device,
        memory: &memory,
        recall: Recall::NONE,
        limits,
        clients: choices.places,
        writes: true,
    };
    let served = ::serve::serve(&context, source, stage);
    match violation {
        Some(what) => Err(what),
        None => Ok(served
            .map(|_| ())
            .map_err(|failure| format!("serving: {failure}"))),
    }
}

impl Clients {
    fn outstanding(&self) -> usize {
        self.all.iter().map(Client::outstanding).sum()
    }
}

/// What the next step waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Time(u64),
    /// Nothing is outstanding.
    Quiet,
}

/// The bits of a step's salt that choose the client.
const CLIENT_SHIFT: u32 = 24;

/// The product's front, with everything that happens while it sleeps.
struct Stage<'w, 's> {
    network: Network<Door>,
    machine: &'w mut Machine,
    steps: &'w mut Steps<'s>,
    clients: &'w mut Clients,
    way: Way,
    cancel: Cancel,
    is_alive: Rc<Cell<bool>>,
    until: Until,
    /// A step whose client is not ready.
    held: Option<(Step, u64)>,
    /// Calls without anything that happened; the step of the world, and its time.
    calls: (u64, u64, u64),
    most_blocks: u64,
    violation: &'w mut Option<String>,
}

impl Stage<'_, '_> {
    /// Everything but the server has its turn.
    fn act(&mut self) -> Result<(), String> {
        self.clients.known.tolerates = self.machine.tolerates_failures() || self.cancel.is_set();
        for client in &mut self.clients.all {
            client.turn(&self.way, &self.clients.known)?;
        }
        let testimony = &self.clients.known.testimony;
        testimony.check_bounds();
        let violation = testimony.violation().or_else(|| self.machine.violation());
        violation.map_or(Ok(()), Err)?;
        self.is_busy()?;
        let now = self.machine.world.now_us();
        let is_quiet = self.clients.outstanding() == 0;
        let is_due = match self.until {
            Until::Time(at) => now >= at,
            Until::Quiet => is_quiet,
        };
        if !is_due || self.cancel.is_set() {
            return Ok(());
        }
        let held = self.held.take();
        let next = held.or_else(|| self.steps.next(self.machine).map(|step| (step, now)));
        match next {
            Some((step, since)) => self.step(step, since),
            None if is_quiet => {
                self.end();
                Ok(())
            }
            None => {
                self.until = Until::Quiet;
                Ok(())
            }
        }
    }

    /// A user ends the server.
    fn end(&mut self) {
        self.clients.known.is_ending = true;
        let flag = self.cancel.flag();
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    /// A server that is called again and again without anything that happens.
    fn is_busy(&mut self) -> Result<(), String> {
        let world = &self.machine.world;
        let (steps, now) = (world.trace(|trace| trace.steps()), world.now_us());
        let (calls, last_steps, last_us) = self.calls;
        let is_same = steps == last_steps && now <= last_us + 2;
        self.calls = (if is_same { calls + 1 } else { 0 }, steps, now);
        if calls > MOST_CALLS {
            return Err("the server is busy, and does nothing".to_owned());
        }
        Ok(())
    }

    fn step(&mut self, step: Step, since: u64) -> Result<(), String> {
        let [a, b, c] = step.numbers;
        let world = self.machine.world.clone();
        let now = world.now_us();
        let count = self.clients.all.len();
        let index = (step.salt >> CLIENT_SHIFT ^ c) as usize % count;
        let known = &self.clients.known;
        let pause = |number: u32| (10_000 << (number % 10)).min(MOST_PAUSE_US);
        let how = [Leave::Close, Leave::Reset, Leave::Half];
        self.until = Until::Time(now);
        let client = &mut self.clients.all[index];
        match step.verb {
            Verb::Reopen => self.end(),
            Verb::Kill => self.is_alive.set(false),
            Verb::Wait => self.until = Until::Quiet,
            Verb::Idle => {
                let idle_us = 10_000 * u64::from(a);
                self.until = Until::Time(now + idle_us.min(MOST_PAUSE_US));
                world.wake_at(now + idle_us.min(MOST_PAUSE_US));
            }
            Verb::Part => {
                let leave = how.get(c as usize % 6).copied();
                client.cut_next(u64::from(b), pause(a), leave);
            }
            Verb::Leave => client.leave(how.get(b as usize % 4).copied(), known),
            Verb::Deaf => {
                client.be_deaf(now + pause(b));
                world.wake_at(now + pause(b));
            }
            Verb::Late => client.delay(1_000 << (b % 9), pause(a)),
            _ if !client.is_ready() => {
                if now > since + BOUND_US {
                    return Err("a client is not served for 120 s".to_owned());
                }
                self.held = Some((step, since));
                self.until = Until::Time(now + 50);
            }
            _ => {
                if let Some(operation) = operation(&step, self.most_blocks, known)? {
                    client.submit(operation, known);
                }
                let gap_us = if world.one_in(3) { world.below(400) } else { 0 };
                self.until = Until::Time(now + gap_us);
                world.wake_at(now + gap_us);
            }
        }
        Ok(())
    }
}

/// The request of a step.
fn operation(step: &Step, most_blocks: u64, known: &Known) -> Result<Option<Operation>, String> {
    let [a, b, c] = step.numbers.map(u64::from);
    let features = known.geometry.features;
    let blocks = BLOCKS.min(known.geometry.block_count);
    let lba = a % blocks;
    let count = (1 + b % MOST_BLOCKS.min(most_blocks)).min(blocks - lba);
    let buffer = || {
        let buffer = known.memory.allocate(count as usize * BLOCK_BYTES);
        buffer.map_err(|error| error.to_string())
    };
    // The server flushes where the drive cannot.
    let fua = c % 4 == 0;
    Ok(Some(match step.verb {
        Verb::Write => {
            let mut buffer = buffer()?;
            let version = known.world.trace(|trace| trace.steps());
            content::fill(&mut buffer, version, lba * BLOCK_BYTES as u64);
            Operation::Write { lba, buffer, fua }
        }
        Verb::Read => Operation::Read {
            lba,
            buffer: buffer()?,
        },
        Verb::Flush => Operation::Flush,
        Verb::Zero if features.write_zeroes => Operation::WriteZeroes {
            lba,
            block_count: count as u32,
            fua,
        },
        Verb::Discard if features.discard => Operation::Discard {
            lba,
            block_count: count as u32,
        },
        _ => return Ok(None),
    }))
}

impl Front for Stage<'_, '_> {
    fn receive(&mut self, engine: &mut Engine, counts: &mut ServeCounts) -> bool {
        self.network.receive(engine, counts)
    }

    fn answer(&mut self, answer: Answer, engine: &mut Engine) {
        self.network.answer(answer, engine);
    }

    fn send(&mut self, engine: &mut Engine, counts: &mut ServeCounts, is_late: bool) {
        self.network.send(engine, counts, is_late);
    }

    fn files(&self) -> Vec<PollFd<'_>> {
        self.network.files()
    }

    fn woken(&mut self, flags: &[PollFlags]) {
        self.network.woken(flags);
    }

    fn sleep(
        &mut self,
        timeout: Duration,
        flags: &mut Vec<PollFlags>,
    ) -> rustix::io::Result<usize> {
        let world = self.machine.world.clone();
        world.work(1);
        let mut left_us = timeout.as_micros() as u64;
        let was_ending = self.cancel.is_set();
        loop {
            if let Err(what) = self.act() {
                *self.violation = Some(what);
                self.is_alive.set(false);
            }
            if self.machine.power.is_off() {
                self.machine.kill(true);
                self.way.lose_power();
                self.is_alive.set(false);
            }
            if !self.is_alive.get() {
                self.clients.known.is_ending = true;
                return Err(Errno::CANCELED);
            }
            flags.clear();
            let way = &self.way;
            self.network
                .wanted(|file, wanted| flags.push(way.flags(file, wanted)));
            let found = flags.iter().filter(|flags| !flags.is_empty()).count();
            let is_signal = self.cancel.is_set() && !was_ending;
            if found > 0 || left_us == 0 || is_signal {
                return Ok(found);
            }
            let before = world.now_us();
            world.sleep(left_us);
            left_us = left_us.saturating_sub(world.now_us() - before);
        }
    }

    fn now(&self) -> Instant {
        self.network.now()
    }

    fn end(&mut self) {
        self.network.end();
    }

    fn is_over(&self) -> bool {
        self.network.is_over()
    }

    fn release(self, engine: &mut Engine) {
        self.network.release(engine);
    }
}
