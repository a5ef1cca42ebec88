// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated host and simulated paths: a virtual clock, and costs from a table.
//!
//! The same settings give the same comparison to the last digit, in milliseconds, on any machine.
//! They are for tests, including those within the crate, and for the example report. The figures
//! say nothing about any real drive.

use block::{
    Buffer, Completion, Device, Error, Features, Geometry, Operation, Refused, Request, Tag,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use straightway_measure::access::{Access, Pattern};
use straightway_measure::cpu::CpuTimes;
use straightway_measure::random::Random;
use straightway_measure::run_info::Request as Asked;
use straightway_measure::sustain::{Question, Sustained, sustain};
use straightway_measure::{
    Clock, CompareError, Comparison, Counters, Environment, Host, Missing, Path, PathResult,
    Settings, compare,
};

/// Nanoseconds of a processor tick.
const TICK_NS: u64 = 10_000_000;
/// Busy time of an idle simulated machine, in thousandths of a core.
const BACKGROUND_PERMILLE: u64 = 14;

/// The state that a simulated host shares with its paths.
#[derive(Debug, Default)]
struct World {
    now_ns: Cell<u64>,
    busy_ns: Cell<u64>,
    pool: RefCell<BTreeMap<usize, Vec<Buffer>>>,
}

impl World {
    fn work(&self, duration_ns: u64) {
        self.now_ns.set(self.now_ns.get() + duration_ns);
        self.busy_ns.set(self.busy_ns.get() + duration_ns);
    }
}

impl Clock for World {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn sleep_ns(&self, duration_ns: u64) {
        self.now_ns
            .set(self.now_ns.get().saturating_add(duration_ns));
    }

    fn spin(&self) {
        self.work(100);
    }
}

/// A machine with a virtual clock.
#[derive(Debug, Default)]
pub struct SimulatedHost {
    world: Rc<World>,
    /// The environment before.
    pub environment: Environment,
    /// The environment after, if it changes.
    pub environment_after: Option<Environment>,
    /// Groups that cannot be prepared, and why.
    pub missing_groups: BTreeMap<String, Missing>,
    /// Processor time of other programs, in thousandths of a core.
    pub others_permille: u64,
    /// The calls, in order: `prepare NAME`, `leave NAME`, `drop caches`.
    pub log: Vec<String>,
}

impl SimulatedHost {
    /// A machine at time 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A path on this machine.
    pub fn path(&self, profile: Profile) -> Box<dyn Path> {
        Box::new(SimulatedPath {
            world: Rc::clone(&self.world),
            counts: Rc::default(),
            opened: 0,
            profile,
        })
    }
}

impl Host for SimulatedHost {
    fn clock(&self) -> &dyn Clock {
        self.world.as_ref()
    }

    fn unix_seconds(&self) -> u64 {
        1_800_000_000
    }

    fn cpu_times(&mut self) -> Result<CpuTimes, Missing> {
        let background_ns = self.world.now_ns.get() / 1000 * BACKGROUND_PERMILLE;
        let others_ns = self.world.now_ns.get() / 1000 * self.others_permille;
        Ok(CpuTimes {
            busy_ticks: (self.world.busy_ns.get() + background_ns + others_ns) / TICK_NS,
            steal_ticks: 0,
            others_ticks: Some(others_ns / TICK_NS),
            ticks_per_second: 1_000_000_000 / TICK_NS,
        })
    }

    fn environment(&mut self) -> Environment {
        let before = self.environment.clone();
        // The second reading is the one after.
        std::mem::replace(
            &mut self.environment,
            self.environment_after.clone().unwrap_or(before),
        )
    }

    fn prepare_group(&mut self, group: &str) -> Result<(), Missing> {
        self.log.push(format!("prepare {group}"));
        self.missing_groups.get(group).cloned().map_or(Ok(()), Err)
    }

    fn leave_group(&mut self, group: &str) -> Result<(), Missing> {
        self.log.push(format!("leave {group}"));
        Ok(())
    }

    fn drop_caches(&mut self) -> Result<(), Missing> {
        self.log.push("drop caches".to_owned());
        Ok(())
    }
}

/// The costs of a simulated path.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name of the path.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Whether waiting costs processor time; if not, each command raises an interrupt.
    pub polls: bool,
    /// Whether data passes a page cache.
    pub buffered: bool,
    /// Maximum number of operations in flight.
    pub queue_depth: u16,
    /// Longest request that the path accepts.
    pub max_transfer_bytes: u32,
    /// Longest command that reaches the drive.
    pub command_bytes: u64,
    /// Processor time of a request.
    pub request_cpu_ns: u64,
    /// Processor time of a command.
    pub command_cpu_ns: u64,
    /// Processor time to copy or map a KiB.
    pub kib_cpu_ns: u64,
    /// The drive's time before the first byte of a read; a write takes a third.
    pub latency_ns: u64,
    /// The drive's rate for reads; writes have three fifths of it.
    pub drive_mib_s: u64,
    /// Spread of successive runs and of latencies, relative; 0 for none.
    pub spread: f64,
    /// Whether commands are counted.
    pub counts_commands: bool,
    /// The reason if it cannot be opened.
    pub missing: Option<Missing>,
}

impl Default for Profile {
    /// A plain path without copies.
    fn default() -> Self {
        Self {
            name: "simulated".to_owned(),
            group: "simulated".to_owned(),
            polls: false,
            buffered: false,
            queue_depth: 32,
            max_transfer_bytes: 1 << 20,
            command_bytes: 1 << 20,
            request_cpu_ns: 2_000,
            command_cpu_ns: 1_000,
            kib_cpu_ns: 5,
            latency_ns: 70_000,
            drive_mib_s: 3_000,
            spread: 0.0,
            counts_commands: true,
            missing: None,
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    reads: Cell<u64>,
    writes: Cell<u64>,
    interrupts: Cell<u64>,
}

#[derive(Debug)]
struct SimulatedPath {
    world: Rc<World>,
    counts: Rc<Counts>,
    opened: u64,
    profile: Profile,
}

impl Path for SimulatedPath {
    fn name(&self) -> &str {
        &self.profile.name
    }

    fn group(&self) -> &str {
        &self.profile.group
    }

    fn polls(&self) -> bool {
        self.profile.polls
    }

    fn is_buffered(&self) -> bool {
        self.profile.buffered
    }

    fn queue_depth(&self) -> u16 {
        self.profile.queue_depth
    }

    fn open(&mut self) -> Result<Box<dyn Device>, Missing> {
        if let Some(missing) = &self.profile.missing {
            return Err(missing.clone());
        }
        self.opened += 1;
        let name: Vec<u64> = self.profile.name.bytes().map(u64::from).collect();
        Ok(Box::new(SimulatedDevice {
            world: Rc::clone(&self.world),
            counts: Rc::clone(&self.counts),
            geometry: Geometry {
                block_size_log2: 9,
                block_count: 1 << 31,
                max_transfer_blocks: (self.profile.max_transfer_bytes >> 9).max(1),
                queue_depth: self.profile.queue_depth.max(1),
                buffer_align_bytes: 1,
                features: Features {
                    volatile_write_cache: true,
                    ..Features::default()
                },
            },
            random: Random::derived(self.opened, &name),
            pace: 1.0,
            since_flush: true,
            drive_free_ns: 0,
            next_lba: u64::MAX,
            in_flight: Vec::new(),
            profile: self.profile.clone(),
        }))
    }

    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing> {
        let mut pool = self.world.pool.borrow_mut();
        let pooled = pool.get_mut(&len_bytes).and_then(Vec::pop);
        // Kept in the pool after its first use: bounded by the most in use at one time.
        Ok(pooled.unwrap_or_else(|| Buffer::from_static(vec![0; len_bytes].leak())))
    }

    fn release(&mut self, buffer: Buffer) {
        let mut pool = self.world.pool.borrow_mut();
        pool.entry(buffer.len()).or_default().push(buffer);
    }

    fn counters(&mut self) -> Counters {
        if !self.profile.counts_commands {
            return Counters::uncounted("this path does not count commands");
        }
        Counters {
            read_commands: Some(self.counts.reads.get()),
            write_commands: Some(self.counts.writes.get()),
            interrupts: Some(self.counts.interrupts.get()),
            reason: None,
        }
    }
}

#[derive(Debug)]
struct SimulatedDevice {
    world: Rc<World>,
    counts: Rc<Counts>,
    geometry: Geometry,
    profile: Profile,
    random: Random,
    /// How slow this run is.
    pace: f64,
    since_flush: bool,
    drive_free_ns: u64,
    next_lba: u64,
    in_flight: Vec<(u64, Tag, Option<Buffer>)>,
}

impl SimulatedDevice {
    fn factor(&mut self, spread: f64) -> f64 {
        (spread * self.random.normal()).exp()
    }

    /// When the drive completes a transfer that is submitted now.
    fn transfer(&mut self, lba: u64, len_bytes: u64, is_read: bool) -> u64 {
        let profile = &self.profile;
        let commands = len_bytes.div_ceil(profile.command_bytes.max(1));
        let cpu_ns = profile.request_cpu_ns
            + commands * profile.command_cpu_ns
            + (len_bytes * profile.kib_cpu_ns) / 1024;
        let rate = profile.drive_mib_s.max(1) as f64 * if is_read { 1.0 } else { 0.6 };
        let mut latency_ns = profile.latency_ns as f64 / if is_read { 1.0 } else { 3.0 };
        if lba == self.next_lba {
            // Read ahead, or gathered in the drive's cache.
            latency_ns *= 0.6;
        }
        let spread = profile.spread;
        if self.since_flush {
            self.since_flush = false;
            self.pace = self.factor(spread);
        }
        latency_ns *= self.factor(spread * 4.0);
        let moving_ns = len_bytes as f64 / rate / (1u64 << 20) as f64 * 1e9 * self.pace;
        self.next_lba = lba + (len_bytes >> self.geometry.block_size_log2);
        let count = if is_read {
            &self.counts.reads
        } else {
            &self.counts.writes
        };
        count.set(count.get() + commands);
        if !self.profile.polls {
            let interrupts = &self.counts.interrupts;
            interrupts.set(interrupts.get() + commands);
        }
        self.world.work((cpu_ns as f64 * self.pace) as u64);
        let start_ns = self.drive_free_ns.max(self.world.now_ns());
        self.drive_free_ns = start_ns + moving_ns as u64;
        self.drive_free_ns + latency_ns as u64
    }
}

impl Device for SimulatedDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let check = if self.in_flight.len() >= usize::from(self.geometry.queue_depth) {
            Err(Error::QueueFull)
        } else {
            self.geometry.check(&request.operation)
        };
        if let Err(error) = check {
            return Err(Refused { error, request });
        }
        let tag = request.tag;
        let (ready_ns, buffer) = match request.operation {
            Operation::Read { lba, buffer } => {
                (self.transfer(lba, buffer.len() as u64, true), Some(buffer))
            }
            Operation::Write { lba, buffer, .. } => {
                (self.transfer(lba, buffer.len() as u64, false), Some(buffer))
            }
            _ => {
                self.since_flush = true;
                (self.world.now_ns() + self.profile.latency_ns, None)
            }
        };
        self.in_flight.push((ready_ns, tag, buffer));
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        let now_ns = self.world.now_ns();
        let index = self
            .in_flight
            .iter()
            .position(|(ready, ..)| *ready <= now_ns)?;
        let (_, tag, buffer) = self.in_flight.remove(index);
        Some(Completion {
            tag,
            buffer,
            result: Ok(()),
        })
    }

    fn outstanding(&self) -> usize {
        self.in_flight.len()
    }

    fn wait(&mut self, _timeout_us: u32) {
        let Some(ready_ns) = self.in_flight.iter().map(|(ready, ..)| *ready).min() else {
            return;
        };
        let waiting_ns = ready_ns.saturating_sub(self.world.now_ns());
        if self.profile.polls {
            self.world.work(waiting_ns);
        } else {
            self.world.sleep_ns(waiting_ns);
        }
    }
}

/// Compares paths to the end, without cancelling and without progress.
///
/// # Errors
/// The settings are invalid.
pub fn compared(
    host: &mut dyn Host,
    paths: &mut [Box<dyn Path>],
    request: &Asked,
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    let cancel = AtomicBool::new(false);
    compare(host, paths, request, settings, &mut |_| {}, &cancel)
}

/// Three paths, two of which are level, with random reads of 4 and of 8 KiB.
#[allow(dead_code, clippy::unwrap_used)]
pub fn comparison(rounds: u32) -> Comparison {
    let mut host = SimulatedHost::new();
    let mut paths = [("a", 1_000), ("b", 1_000), ("slow", 60_000)].map(|(name, request_cpu_ns)| {
        host.path(Profile {
            name: name.to_owned(),
            request_cpu_ns,
            ..Profile::default()
        })
    });
    let settings = Settings {
        block_sizes_bytes: vec![4 << 10, 8 << 10],
        rounds,
        ..Settings::default()
    };
    compared(&mut host, &mut paths, &Asked::default(), &settings).unwrap()
}

/// The same, with one path that is the faster the larger its blocks are, up to 16 KiB.
#[allow(dead_code)]
pub fn comparison_of_block_sizes() -> Comparison {
    let mut comparison = comparison(6);
    let one = comparison.results[0].clone();
    comparison.results = [(4, 720.0), (8, 1342.0), (16, 2077.0), (32, 722.0)]
        .map(|(kib, mib_s)| PathResult {
            access: Access {
                block_size_bytes: kib << 10,
                ..one.access
            },
            throughput_mib_s: mib_s,
            throughput_mib_s_ci95: Some([mib_s - 1.0, mib_s + 1.0]),
            ..one.clone()
        })
        .into();
    comparison
}

/// Whether 1,000 random reads of 4 KiB a second, each within 5 ms, are sustained for 4 s.
#[allow(dead_code)]
pub fn question() -> Question {
    Question {
        access: Access {
            operation: straightway_measure::Operation::Read,
            pattern: Pattern::Random,
            block_size_bytes: 4096,
        },
        arrivals_per_s: 1000.0,
        deadline: Duration::from_millis(5),
        duration: Duration::from_secs(4),
        warm_up: Duration::ZERO,
        queue_depth: 4,
        span_bytes: 1 << 20,
        miss_rate: 0.001,
        why: false,
    }
}

/// The answer to a question about a path of this machine, to the end.
#[allow(dead_code, clippy::unwrap_used)]
pub fn sustained(host: &mut SimulatedHost, profile: Profile, question: &Question) -> Sustained {
    let mut path = host.path(profile);
    let cancel = AtomicBool::new(false);
    let (answer, _) = sustain(host, path.as_mut(), &Asked::default(), question, &cancel).unwrap();
    answer
}
