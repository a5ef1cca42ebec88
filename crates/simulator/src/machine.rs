// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine: its drives, the devices that the product makes of them, and its faults.

use crate::drive::{Drive, DriveFault, DriveShape, Power};
use crate::network::{Dialer, Direction, Network, Silence, TargetShape};
use crate::script::{Group, Step, Verb};
use crate::setup::{Only, Setup, Stack};
use crate::trace::What;
use crate::witness::{Testimony, Witness};
use crate::world::World;
use block::{Clock, Device, Geometry};
use fabric::{Name, Remote, RemoteOptions};
use linux::HostMemory;
use std::cell::Cell;
use std::rc::Rc;
use stripe::{
    ArrayEvent, ArrayKind, LABEL_BYTES, MOST_MEMBERS, Mirror, MirrorMemory, Striped, Watch, check,
    create, read_label,
};

/// Requests of an array in flight.
const DEPTH: usize = 64;
/// What a rebuild copies at a time.
const COPY_BYTES: usize = 16 << 10;
/// Blocks of a stripe.
const STRIPE_BLOCKS: u32 = 16;
/// Each request ends within this time, whatever happens.
const BOUND_US: u64 = 120_000_000;
/// Without a fault of the network for this long, what the last one did is over.
const CALM_US: u64 = 60_000_000;
/// How much earlier than it must be trouble is over that is not to be noticed.
const MARGIN_US: u64 = 2_000_000;
/// Requests in flight on a connection to a target.
const REMOTE_DEPTH: usize = 8;
const ARRAY: [u8; 16] = *b"simulated array.";
/// Memory for buffers.
const MEMORY_BYTES: usize = 1 << 20;

/// A device of any kind.
pub struct AnyDevice(Box<dyn Device>);

block::forward_device!(AnyDevice, 0);

/// What a mirror has reported.
#[derive(Clone, Debug, Default)]
struct Reports {
    /// Members that missed a write, until all are equal.
    stale: Rc<Cell<u8>>,
    is_equal: Rc<Cell<bool>>,
}

/// Passes a mirror's events on.
struct Watcher(Reports, World);

impl Watch for Watcher {
    fn event(&mut self, event: ArrayEvent) {
        let (kind, member) = match event {
            ArrayEvent::Failed { member, .. } => (1, member),
            ArrayEvent::Stale { member } => {
                self.0.stale.set(self.0.stale.get() | 1 << member);
                (2, member)
            }
            ArrayEvent::Equal => {
                self.0.stale.set(0);
                self.0.is_equal.set(true);
                (3, 0)
            }
            ArrayEvent::LabelFailed { member, .. } => (4, member),
            _ => return,
        };
        self.1.note(What::Mirror, kind, member as u64);
    }
}

type AnyMirror = Mirror<AnyDevice, Vec<Option<AnyDevice>>, Watcher, DEPTH>;

/// A mirror that stores that its members are equal when it is dropped, unless its process dies.
struct Closing(AnyMirror, Rc<Cell<bool>>, Power);

impl Drop for Closing {
    fn drop(&mut self) {
        if self.1.get() {
            // Without power it would not end.
            self.2.spare(self.2.is_shared());
            let _ = self.0.close();
            self.2.spare(false);
        }
    }
}

block::forward_device!(Closing, 0);

/// The clock of a process. Of one that has died all waits are over: it does not wait for the end of
/// what it has left at a target.
#[derive(Clone)]
struct HostClock(World, Rc<Cell<bool>>);

impl Clock for HostClock {
    fn ticks(&self) -> u64 {
        if self.1.get() {
            self.0.ticks()
        } else {
            u64::MAX
        }
    }

    fn ticks_per_second(&self) -> u64 {
        self.0.ticks_per_second()
    }
}

/// A machine.
pub struct Machine {
    /// The world that it is in.
    pub world: World,
    /// Which one.
    pub setup: Setup,
    /// Its power.
    pub power: Power,
    /// Its drives.
    pub drives: Vec<Drive>,
    /// Memory for buffers.
    pub memory: HostMemory,
    /// What is known of the device that the user sees.
    pub testimony: Testimony,
    network: Option<Network>,
    reports: Reports,
    /// Members that were missing when the device was opened.
    absent: u8,
    /// What a drive's cache held may be lost since the device was opened.
    has_lost_cache: bool,
    /// The process that uses the device has not been killed.
    is_alive: Rc<Cell<bool>>,
    /// A fault that a user would see may have happened since the last check.
    was_disturbed: bool,
}

impl Machine {
    /// A new machine, with an array if it has one.
    ///
    /// # Errors
    /// The product failed without a fault.
    pub fn new(world: &World, setup: &Setup) -> Result<Self, String> {
        let power = Power::default();
        let count = match setup.stack {
            Stack::Drive | Stack::Remote => 1,
            Stack::Mirror(members) | Stack::Stripe(members) => members,
            Stack::Split => 2,
        };
        let shape = DriveShape {
            block_count: setup.block_count,
            block_size_log2: 9,
            features: setup.features,
            queue_depth: setup.queue_depth,
        };
        let drives = (0..count).map(|index| Drive::new(world, &power, index, shape));
        let drives: Vec<Drive> = drives.collect();
        let memory = HostMemory::new(MEMORY_BYTES).map_err(|error| error.to_string())?;
        let has_cache = setup.features.volatile_write_cache;
        let network = match (setup.stack, drives.first()) {
            (Stack::Remote | Stack::Split, Some(drive)) => {
                Some(Network::new(world, drive, target_of(setup)))
            }
            _ => None,
        };
        let testimony = Testimony::new(world, u64::MAX, BOUND_US, has_cache, setup.stack);
        // Where writes go through, a lost cache excuses nothing.
        if let Some(network) = network.as_ref().filter(|_| !writes_through(setup)) {
            network.tell(&testimony);
        }
        let machine = Self {
            network,
            world: world.clone(),
            setup: setup.clone(),
            power,
            drives,
            memory,
            testimony,
            reports: Reports::default(),
            absent: 0,
            has_lost_cache: false,
            is_alive: Rc::default(),
            was_disturbed: false,
        };
        if setup.stack == Stack::Split || setup.only == Only::Serve {
            machine.power.share();
        }
        if let Some(kind) = machine.kind() {
            let mut members = machine.drives.clone();
            let buffer = machine.buffer(LABEL_BYTES)?;
            create(&mut members, kind, ARRAY, buffer).map_err(|error| error.to_string())?;
        }
        Ok(machine)
    }

    fn kind(&self) -> Option<ArrayKind> {
        match self.setup.stack {
            Stack::Mirror(_) | Stack::Split => Some(ArrayKind::Mirror),
            Stack::Stripe(_) => Some(ArrayKind::Striped {
                stripe_blocks: STRIPE_BLOCKS,
            }),
            Stack::Drive | Stack::Remote => None,
        }
    }

    fn buffer(&self, len: usize) -> Result<block::Buffer, String> {
        self.memory.allocate(len).map_err(|error| error.to_string())
    }

    /// Opens the device as the product does.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&mut self) -> Result<Witness<AnyDevice>, String> {
        self.drives.iter().for_each(Drive::orphan);
        self.testimony.forget_reads();
        let was_alive = std::mem::take(&mut self.is_alive).get();
        // A mirror that was killed may not have stored that a member was taken away, so that this
        // one, without what its cache had, counts as much as the others.
        let counts = !self.has_mirror() || !was_alive;
        if std::mem::take(&mut self.has_lost_cache) && counts {
            self.testimony.power_was_cut();
        }
        self.is_alive.set(true);
        self.memory = HostMemory::new(MEMORY_BYTES).map_err(|error| error.to_string())?;
        // A path that is in trouble now may keep it from being opened.
        self.was_disturbed |=
            !self.has_mirror() && self.network.as_ref().is_some_and(Network::is_faulty);
        let device = match self.setup.stack {
            Stack::Drive => AnyDevice(Box::new(self.drives[0].clone())),
            Stack::Mirror(_) | Stack::Stripe(_) => self.open_array(was_alive)?,
            Stack::Split => {
                let opened = self.open_array(was_alive);
                // The member that has the newest data may be out of reach.
                let is_needed = opened.is_err() || !self.is_equal();
                let network = self.network.as_ref();
                self.was_disturbed |= is_needed && network.is_some_and(Network::is_faulty);
                opened?
            }
            Stack::Remote => self.connect(was_alive)?,
        };
        Ok(Witness::new(device, &self.testimony))
    }

    /// Connects to the target. After a process has died the next one waits, because the network and
    /// the target may still have writes of the first: nothing in the protocol tells it.
    fn connect(&self, was_alive: bool) -> Result<AnyDevice, String> {
        let Some(network) = &self.network else {
            return Err("there is no network".to_owned());
        };
        if !was_alive {
            let end = self.world.now_us() + network.longest_us();
            while self.world.now_us() < end {
                self.world.sleep(end - self.world.now_us());
            }
        }
        let failed = |error: fabric::FabricError| format!("connecting: {error}");
        let options = options_of(&self.setup).map_err(failed)?;
        let (dialer, page) = (Dialer::new(network), self.buffer(LABEL_BYTES)?);
        let clock = HostClock(self.world.clone(), Rc::clone(&self.is_alive));
        let remote: Remote<_, _, REMOTE_DEPTH, 2> =
            Remote::connect(dialer, clock, options, page).map_err(failed)?;
        Ok(AnyDevice(Box::new(remote)))
    }

    /// A member: a drive of the machine, or of the target if that can be reached.
    fn member(&self, index: usize, was_alive: bool) -> Option<AnyDevice> {
        if index == 0 && self.network.is_some() {
            return self.connect(was_alive).ok();
        }
        let drive = self.drives.get(index).filter(|drive| !drive.is_removed())?;
        Some(AnyDevice(Box::new(drive.clone())))
    }

    fn open_array(&mut self, was_alive: bool) -> Result<AnyDevice, String> {
        let mut members = Vec::new();
        let mut labels = Vec::new();
        for index in 0..self.drives.len() {
            let Some(mut drive) = self.member(index, was_alive) else {
                members.push(None);
                labels.push(None);
                continue;
            };
            let (buffer, label) = read_label(&mut drive, self.buffer(LABEL_BYTES)?);
            let _ = self.memory.give_back(buffer);
            let label = match label {
                Err(_) if index == 0 && self.network.is_some() => {
                    members.push(None);
                    labels.push(None);
                    continue;
                }
                label => label.map_err(|error| format!("reading a label: {error}"))?,
            };
            labels.push(label);
            members.push(Some(drive));
        }
        let failed = |error: stripe::SetError| format!("opening the array: {error}");
        let Stack::Stripe(_) = self.setup.stack else {
            self.reports.is_equal.set(false);
            let missing = (0..).zip(&members).filter(|(_, member)| member.is_none());
            let missing = missing.fold(0, |mask, (index, _)| mask | 1 << index);
            self.reports.stale.set(self.reports.stale.get() | missing);
            self.absent = missing;
            let memory = MirrorMemory {
                labels: self.buffer(MOST_MEMBERS * LABEL_BYTES)?,
                copy: self.buffer(COPY_BYTES)?,
            };
            let watcher = Watcher(self.reports.clone(), self.world.clone());
            let mirror = Mirror::new(members, &labels, memory, true, watcher).map_err(failed)?;
            if mirror.rebuilding() == 0 && members_of(&mirror) == self.drives.len() as u32 {
                self.reports.stale.set(0);
                self.reports.is_equal.set(true);
            }
            return Ok(AnyDevice(Box::new(Closing(
                mirror,
                Rc::clone(&self.is_alive),
                self.power.clone(),
            ))));
        };
        let found: Vec<(Geometry, _)> = members
            .iter()
            .flatten()
            .zip(&labels)
            .map(|(member, label)| (*member.geometry(), *label))
            .collect();
        let found: Vec<_> = found.into_iter().map(Some).collect();
        let kind = self.kind().unwrap_or(ArrayKind::Mirror);
        let label = check(kind, &found).map_err(failed)?;
        let members: Vec<AnyDevice> = members.into_iter().flatten().collect();
        let striped: Striped<_, _, _, DEPTH> =
            Striped::new(members, STRIPE_BLOCKS, label.data_blocks, ())
                .map_err(|error| error.to_string())?;
        Ok(AnyDevice(Box::new(striped)))
    }

    /// Whether the device is a mirror.
    pub const fn has_mirror(&self) -> bool {
        matches!(self.setup.stack, Stack::Mirror(_) | Stack::Split)
    }

    /// Whether a mirror has made its members equal.
    pub fn is_equal(&self) -> bool {
        self.reports.is_equal.get()
    }

    /// Whether a member may fail: none other is missing or stale.
    fn may_lose(&self, drive: usize) -> bool {
        if !self.has_mirror() {
            return true;
        }
        let others = self.drives.iter().enumerate();
        let mut others = others.filter(|(index, _)| *index != drive);
        let all_there = others.all(|(_, other)| !other.is_faulty() && !other.has_failed());
        all_there && self.reports.stale.get() & !(1 << drive) == 0 && !self.becomes_equal()
    }

    /// Whether a write of this member may fail though another's may, too: its user is told. None
    /// that is good is to be taken away, which would lose what only it has.
    fn may_fail_last(&self, drive: usize) -> bool {
        let stale = self.reports.stale.get();
        let others = self.drives.iter().enumerate();
        let mut good = others.filter(|(index, _)| *index != drive && stale & 1 << index == 0);
        self.has_mirror() && !self.becomes_equal() && !good.any(|(_, other)| other.is_leaving())
    }

    /// Whether a mirror's members are made equal after a crash. The one that they are made equal
    /// from must not fail: it may have what none acknowledged, and what was read since.
    fn becomes_equal(&self) -> bool {
        self.has_mirror() && !self.is_equal() && self.reports.stale.get() == 0
    }

    /// The process that uses the device ends at once; `is_silent`: with the power of its machine.
    pub fn kill(&self, is_silent: bool) {
        self.is_alive.set(false);
        if let Some(network) = self.network.as_ref().filter(|_| is_silent) {
            network.host_lost_power();
        }
    }

    /// Whether the machine has lost its power with all that runs on it, and not only its drives.
    pub fn is_dark(&self) -> bool {
        self.setup.stack == Stack::Split && self.power.is_off()
    }

    /// Lets a fault happen.
    pub fn disturb(&mut self, step: &Step) {
        let [a, b, c] = step.numbers;
        let drive = (a as usize) % self.drives.len();
        match step.verb {
            // Half of them soon: before something that comes later makes durable what was not.
            Verb::Cut if c % 4 == 1 => self.power.cut_after(u64::from(b % 4)),
            Verb::Cut if c % 4 == 3 => self.power.cut_after(u64::from(b % 24)),
            Verb::Cut => self.power.cut_after(u64::from(b)),
            Verb::Commit => self.power.cut_after_commits(u64::from(b % 32)),
            Verb::Slow => {
                let latency_us = 1_000 << (b % 11);
                self.drives[drive].slow(latency_us, u64::from(c) * 10_000);
                return;
            }
            // Its other member may fail.
            Verb::Unplug | Verb::Fail if self.setup.stack == Stack::Split => return,
            Verb::Unplug if self.may_lose(drive) => {
                self.drives[drive].remove_after(u64::from(b % 256));
                self.was_disturbed |= !self.has_mirror();
                return;
            }
            Verb::Fail if self.may_lose(drive) => {
                let fault = [
                    DriveFault::Reads,
                    DriveFault::Writes,
                    DriveFault::WritesDone,
                    DriveFault::Flushes,
                ][(b % 4) as usize];
                // A recorder gives up after four attempts.
                let (fault, count) = match step.salt % 4 {
                    0 if self.setup.has_recordings() => (DriveFault::Place, 4 + c % 8),
                    _ => (fault, 1 + c % 8),
                };
                let after = if self.setup.is_hasty {
                    u64::from(b / 4 % 256)
                } else {
                    0
                };
                self.drives[drive].fail(fault, after, u64::from(count));
                // The other members have what a user wants.
                self.was_disturbed |= !self.has_mirror();
                return;
            }
            // The last good member fails a write: its user is told.
            Verb::Fail if c % 8 == 0 && self.may_fail_last(drive) => {
                let fault = [DriveFault::Writes, DriveFault::WritesDone][(b % 2) as usize];
                self.drives[drive].fail(fault, 0, 1);
            }
            Verb::Plug => {
                // The labels say that it is missing before anything is read.
                let is_known = self.absent & 1 << drive != 0 && self.testimony.was_read();
                self.has_lost_cache |= self.drives[drive].give_back() && !is_known;
                return;
            }
            Verb::Heal => {
                self.drives.iter().for_each(Drive::heal);
                if let Some(network) = &self.network {
                    network.heal();
                }
                return;
            }
            Verb::Clock => {
                let seconds = i64::from(b) - 2000;
                self.world
                    .set_wall(seconds * 1_000_000_000 * i64::from(c % 64));
                return;
            }
            _ if step.verb.group() == Group::Network && self.has_mirror() && !self.is_equal() => {
                return;
            }
            _ if step.verb.group() == Group::Network => {
                // Unless it is the only one that has all, another member has what a user wants.
                self.was_disturbed |= self.disturb_network(step) && !self.is_equal();
                return;
            }
            _ => return,
        }
        self.was_disturbed = true;
    }

    /// A fault of the network or the target. Whether a user may notice: one that is over in time
    /// is not noticed.
    fn disturb_network(&self, step: &Step) -> bool {
        let [a, b, c] = step.numbers;
        let Some(network) = &self.network else {
            return false;
        };
        let is_masked = network.calm_us().is_none_or(|calm_us| calm_us > CALM_US);
        let is_masked = is_masked && masks_a_loss(&self.setup);
        let both = [Direction::ToTarget, Direction::ToHost];
        let count = 1 + (b % 3) as usize;
        match step.verb {
            Verb::Hold => {
                let directions = [&both[..], &both[..1], &both[1..]][(a % 3) as usize];
                network.hold(directions, 10_000 << (b % 13), c % 4 == 0);
            }
            Verb::Silence => network.silence(match a % 4 {
                0 => Silence::All,
                1 => Silence::Newest,
                _ => Silence::Oldest,
            }),
            Verb::Delay => {
                // The wait for the end of a lost association has room for a delay of one timeout
                // (base specification 2.1, 9.6): what arrives later restarts a timer that the host
                // believes to have expired, for as long as the network likes.
                let options = options_of(&self.setup);
                let most_us =
                    options.map_or(u64::MAX >> 1, |one| u64::from(one.keep_alive_ms) * 1_000);
                let by_us = most_us.min(1_000 << (b % 12));
                network.delay(by_us, most_us, u64::from(c) * 10_000);
            }
            Verb::Reset if is_proxied(&self.setup) => {
                network.reset(count);
                return !is_masked;
            }
            Verb::Reset => {
                network.close(count, u64::from(c % 4));
                return !(is_masked && c % 4 == 0);
            }
            Verb::Restart => {
                network.restart(1_000 << (b % 15), u64::from(c % 3), step.salt % 2 == 0);
            }
            // The session's part.
            Verb::Stall => return true,
            Verb::Ana => {
                let for_us = 10_000 << (c % 12);
                let trouble_us = network.set_ana([2, 3, 4, 15][(b % 4) as usize], for_us);
                let Ok(options) = options_of(&self.setup) else {
                    return true;
                };
                return trouble_us + MARGIN_US > options.reconnect_us;
            }
            _ => {}
        }
        true
    }

    /// A promise that was broken, of those that are watched all the time.
    pub fn violation(&self) -> Option<String> {
        let network = self.network.as_ref().and_then(Network::violation);
        self.testimony.violation().or(network)
    }

    /// Whether a request may fail now. What a drive has failed may keep a volume from being used
    /// until it is mounted again.
    pub fn tolerates_failures(&self) -> bool {
        let has_failed = self.drives.iter().any(Drive::has_failed);
        self.was_disturbed || has_failed && !self.has_mirror()
    }

    /// Ends all faults: the power is on, and every drive is there.
    pub fn recover(&mut self) {
        for drive in &self.drives {
            drive.heal();
            self.has_lost_cache |= drive.give_back();
        }
        if let Some(network) = &self.network {
            network.heal();
        }
        self.power_on();
        self.was_disturbed = false;
    }

    /// The process stops: nothing that it should do happens until it goes on.
    pub fn stall(&mut self, step: &Step) {
        let keep_alive_ms = options_of(&self.setup).map_or(0, |options| options.keep_alive_ms);
        let us = u64::from(keep_alive_ms) * 1000 * u64::from(8 + step.numbers[1] % 24) / 16;
        if let Some(network) = &self.network {
            network.stall(us);
        }
        let end = self.world.now_us() + us;
        while self.world.now_us() < end {
            self.world.sleep(end - self.world.now_us());
        }
        self.was_disturbed |= !self.is_equal();
    }

    /// The longest that it is worth to be idle: what a target may still do is over then.
    pub fn most_idle_us(&self) -> u64 {
        let keep_alive_ms = options_of(&self.setup).map_or(0, |options| options.keep_alive_ms);
        match self.network {
            Some(_) => 4000 * u64::from(keep_alive_ms) + 1_200_000,
            None => u64::MAX,
        }
    }

    /// Faults that are over are no excuse any more; but what a network has lost is made good only
    /// when the device is opened again.
    pub fn calm(&mut self) {
        if self.network.is_none() {
            self.forget_faults();
        }
    }

    fn forget_faults(&mut self) {
        let is_faulty = self.drives.iter().any(Drive::is_faulty)
            || self.network.as_ref().is_some_and(Network::is_faulty);
        self.was_disturbed = is_faulty || self.power.is_doomed();
    }

    /// Whether what was not flushed may be lost when the device is opened again.
    pub fn has_lost_data(&self) -> bool {
        self.power.is_off() || self.has_lost_cache
    }

    /// Switches the machine on after a power cut.
    pub fn power_on(&mut self) {
        if self.power.is_off() {
            self.drives.iter().for_each(Drive::settle);
            self.testimony.power_was_cut();
            // What a mirror did without power is forgotten.
            self.reports.stale.set(0);
            self.world.note(What::PowerOn, 0, 0);
        }
        self.power.on();
        self.forget_faults();
    }
}

fn members_of(mirror: &AnyMirror) -> u32 {
    mirror.live().count_ones()
}

/// The choices of a network's world.
fn choices(setup: &Setup) -> [u64; 9] {
    let mut random = fastrand::Rng::with_seed(setup.seed ^ 0x6e65_7477_6f72_6b21);
    [(); 9].map(|()| random.u64(..))
}

/// Whether a lost association is made again, and what was in doubt is sent again, before the
/// requests of a user may end.
fn masks_a_loss(setup: &Setup) -> bool {
    let Ok(options) = options_of(setup) else {
        return false;
    };
    let fence_us = (3 * u64::from(options.keep_alive_ms) + 1000) * 1000;
    options.reconnect_us > fence_us + options.command_timeout_us + 2 * MARGIN_US
}

/// Whether somebody between host and target ends connections, and not the target.
fn is_proxied(setup: &Setup) -> bool {
    choices(setup)[0] % 2 == 0
}

/// Whether each write is durable at the target before it is acknowledged. Not where requests meet
/// the target alone: that world is about what a lost cache takes.
fn writes_through(setup: &Setup) -> bool {
    setup.only != Only::Network && choices(setup)[8] / 2 % 2 == 0
}

fn target_of(setup: &Setup) -> TargetShape {
    let [
        _,
        traffic,
        quiesce,
        reported,
        capsule,
        data,
        success,
        _,
        drops,
    ] = choices(setup);
    TargetShape {
        block_count: setup.block_count,
        has_cache: setup.features.volatile_write_cache,
        // What is on a volume needs each flush to cover all that was acknowledged before, unless
        // writes go through.
        loses_cache: setup.features.volatile_write_cache
            && (setup.only == Only::Network || writes_through(setup)),
        traffic_based: traffic % 2 == 0,
        quiesce_ms: [10, 300, 1000][(quiesce % 3) as usize],
        reports_quiesce: reported % 2 == 0,
        capsule_bytes: [0, 8192, 32_768][(capsule % 3) as usize],
        data_bytes: [4096, 8192][(data % 2) as usize],
        has_success_flag: success % 2 == 0,
        drops_one: drops % 2 == 0,
    }
}

fn options_of(setup: &Setup) -> Result<RemoteOptions, fabric::FabricError> {
    let [.., times, _] = choices(setup);
    Ok(RemoteOptions {
        subsystem_nqn: Name::new("nqn.simulated:target")?,
        host_nqn: Name::new("nqn.simulated:host")?,
        queues: 1 + (times % 2) as u16,
        keep_alive_ms: [300, 1000, 5000][(times / 2 % 3) as usize],
        command_timeout_us: [500_000, 2_000_000, 10_000_000][(times / 6 % 3) as usize],
        reconnect_us: [500_000, 5_000_000, 30_000_000][(times / 18 % 3) as usize],
        trusts_close: !is_proxied(setup),
        writes_through: writes_through(setup),
        ..RemoteOptions::default()
    })
}
