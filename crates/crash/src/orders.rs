// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrapper for any device that checks the order of writes and flushes.
//!
//! It never changes the requests. Whatever the device below keeps or loses, a change counts as not
//! durable until a flush or FUA makes it so; the check does not depend on luck.

use crate::command::{Command, CommandKind, intersection};
use crate::counts::Counts;
use crate::lock;
use crate::order_rules::{Broken, OrderRules, Pair, Violation};
use crate::tags::Tags;
use block::{Completion, Device, Geometry, Refused, Request, Tag};
use std::sync::{Arc, Mutex};

/// A change that is not durable yet.
#[derive(Debug)]
struct Open {
    command: Command,
    pairs: Vec<(u64, Pair)>,
    /// When it completed, counted in completions.
    completed: Option<u64>,
}

#[derive(Debug)]
struct Flight {
    tag: Tag,
    command: Command,
    /// For a flush: it covers what completed up to here.
    mark: u64,
}

#[derive(Debug, Default)]
struct Log {
    violations: Vec<Violation>,
    counts: Counts,
    is_paused: bool,
}

/// What an [`Orders`] device saw. Clones are handles to the same log.
#[derive(Clone, Debug, Default)]
pub struct OrderLog {
    log: Arc<Mutex<Log>>,
}

impl OrderLog {
    /// Each rule that was broken, in order.
    pub fn violations(&self) -> Vec<Violation> {
        lock(&self.log).violations.clone()
    }

    /// The violations so far, which are then forgotten.
    pub fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut lock(&self.log).violations)
    }

    /// The commands submitted to the device.
    pub fn counts(&self) -> Counts {
        lock(&self.log).counts
    }

    /// While paused, nothing is a violation: for a format, which has no data to protect. Writes are
    /// still tracked.
    pub fn pause(&self, is_paused: bool) {
        lock(&self.log).is_paused = is_paused;
    }
}

/// `D` with checks.
#[derive(Debug)]
pub struct Orders<D> {
    device: D,
    rules: OrderRules,
    log: OrderLog,
    number: u64,
    completions: u64,
    open: Vec<Open>,
    under_way: Vec<Command>,
    flights: Tags<Flight>,
}

impl<D: Device> Orders<D> {
    /// `device`, checked by `rules`.
    pub fn new(device: D, rules: OrderRules) -> Self {
        Self {
            device,
            rules,
            log: OrderLog::default(),
            number: 0,
            completions: 0,
            open: Vec::new(),
            under_way: Vec::new(),
            flights: Tags::new(),
        }
    }

    /// The handle to what was seen.
    pub fn log(&self) -> OrderLog {
        self.log.clone()
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// Removes the wrapper. Outstanding requests stay with the inner device, under other tags.
    pub fn into_inner(self) -> D {
        self.device
    }

    fn pairs_of(&self, command: &Command) -> Vec<(u64, Pair)> {
        let mut pairs = Vec::new();
        for (blocks, pair_of) in &self.rules.pairs {
            for lba in intersection(&command.range(), blocks) {
                if let Some(pair) = pair_of(lba) {
                    if !pairs.iter().any(|(_, known)| *known == pair) {
                        pairs.push((lba, pair));
                    }
                }
            }
        }
        pairs
    }

    /// The violations if the command is submitted now.
    fn check(&self, later: &Command, pairs: &[(u64, Pair)]) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut broken = |broken, lba, earlier| {
            violations.push(Violation {
                broken,
                lba,
                earlier,
                later: *later,
            });
        };
        for earlier in &self.under_way {
            if earlier.changes_blocks() || later.changes_blocks() {
                if let Some(lba) = overlap(earlier, later, &self.rules.apart) {
                    broken(Broken::Apart, lba, *earlier);
                }
            }
        }
        if !later.changes_blocks() {
            return violations;
        }
        for open in &self.open {
            if let Some(lba) = overlap(&open.command, later, &self.rules.separate) {
                broken(Broken::Separate, lba, open.command);
            }
            if let Some((lba, pair)) = other_member(&open.pairs, pairs) {
                broken(Broken::Pair(pair.id), lba, open.command);
            }
        }
        if let Some((lba, pair)) = other_member(pairs, pairs) {
            broken(Broken::Pair(pair.id), lba, *later);
        }
        for rule in &self.rules.durable_first {
            if (rule.later)(later) {
                for open in self.open.iter().filter(|open| (rule.first)(&open.command)) {
                    broken(Broken::DurableFirst(rule.name), later.lba, open.command);
                }
            }
        }
        violations
    }

    fn complete(&mut self, flight: &Flight, is_ok: bool) {
        let command = &flight.command;
        self.under_way
            .retain(|other| other.number != command.number);
        self.completions += 1;
        match command.kind {
            CommandKind::Read => {}
            CommandKind::Flush if is_ok => {
                let covered = |open: &Open| open.completed.is_some_and(|at| at <= flight.mark);
                self.open.retain(|open| !covered(open));
            }
            CommandKind::Flush => {}
            _ if command.fua && is_ok => {
                self.open
                    .retain(|open| open.command.number != command.number);
            }
            // Also a change that failed: it may have taken effect.
            _ => {
                let number = command.number;
                let mut open = self.open.iter_mut();
                if let Some(open) = open.find(|open| open.command.number == number) {
                    open.completed = Some(self.completions);
                }
            }
        }
    }
}

/// The first block of both commands that is in one of `areas`.
fn overlap(earlier: &Command, later: &Command, areas: &[std::ops::Range<u64>]) -> Option<u64> {
    let both = intersection(&earlier.range(), &later.range());
    let mut common = areas.iter().map(|area| intersection(area, &both));
    common
        .find(|blocks| !blocks.is_empty())
        .map(|blocks| blocks.start)
}

/// A pair of which `earlier` has one member and `later` another, with its block in `later`.
fn other_member(earlier: &[(u64, Pair)], later: &[(u64, Pair)]) -> Option<(u64, Pair)> {
    let is_other = |one: &Pair, other: &Pair| one.id == other.id && one.member != other.member;
    let mut found = later.iter();
    found
        .find(|(_, pair)| earlier.iter().any(|(_, other)| is_other(pair, other)))
        .copied()
}

impl<D: Device> Device for Orders<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, mut request: Request) -> Result<(), Refused> {
        let block_size_log2 = self.device.geometry().block_size_log2;
        let command = Command::new(self.number + 1, &request.operation, block_size_log2);
        let tag = request.tag;
        request.tag = self.flights.put(Flight {
            tag,
            command,
            mark: self.completions,
        });
        if let Err(mut refused) = self.device.submit(request) {
            self.flights.take(refused.request.tag);
            refused.request.tag = tag;
            return Err(refused);
        }
        self.number = command.number;
        let pairs = if command.changes_blocks() {
            self.pairs_of(&command)
        } else {
            Vec::new()
        };
        let violations = self.check(&command, &pairs);
        self.under_way.push(command);
        if command.changes_blocks() {
            self.open.push(Open {
                command,
                pairs,
                completed: None,
            });
        }
        let mut log = lock(&self.log.log);
        log.counts.add(&command, block_size_log2);
        if !log.is_paused {
            log.violations.extend(violations);
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let mut completion = self.device.poll()?;
        if let Some(flight) = self.flights.take(completion.tag) {
            completion.tag = flight.tag;
            self.complete(&flight, completion.result.is_ok());
        }
        if completion.result.is_err() {
            lock(&self.log.log).counts.errors += 1;
        }
        Some(completion)
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::buffer;
    use crate::{Config, CrashDisk, Fault, Faulty, Medium, On, Rule};
    use block::{Error, Operation, blocking};

    fn disk() -> CrashDisk {
        Medium::new(9, 64).unwrap().open(Config::default())
    }

    fn write<D: Device>(device: &mut D, lba: u64, fua: bool) {
        let outcome = blocking::write(device, lba, buffer(512, 1), fua);
        assert_eq!(outcome.result, Ok(()));
    }

    fn broken(log: &OrderLog) -> Vec<(Broken, u64, u64)> {
        let violations = log.take_violations().into_iter();
        violations
            .map(|v| (v.broken, v.earlier.number, v.later.number))
            .collect()
    }

    #[test]
    fn a_block_is_not_changed_again_before_a_flush() {
        let rules = OrderRules::new().separate(0..8);
        let mut device = Orders::new(disk(), rules);
        let log = device.log();
        write(&mut device, 3, false); // 1
        write(&mut device, 4, false);
        write(&mut device, 9, false);
        write(&mut device, 9, false);
        assert!(broken(&log).is_empty());
        let zeroes = Operation::WriteZeroes {
            lba: 2,
            block_count: 2,
            fua: false,
        };
        blocking::command(&mut device, zeroes).unwrap(); // 5
        assert_eq!(broken(&log), [(Broken::Separate, 1, 5)]);
        blocking::flush(&mut device).unwrap();
        write(&mut device, 3, true); // 7
        write(&mut device, 3, false); // 8, after a durable one
        assert!(broken(&log).is_empty());
        write(&mut device, 3, true);
        assert_eq!(broken(&log), [(Broken::Separate, 8, 9)]);
        let counts = log.counts();
        assert_eq!(
            (counts.writes.commands, counts.fua, counts.flushes),
            (7, 2, 1)
        );
    }

    #[test]
    fn members_of_a_pair_are_apart_and_a_flush_covers_what_had_completed() {
        // Blocks 0 to 7 and 32 to 39 are the members of eight pairs.
        let rules = || {
            OrderRules::new().pairs(0..40, |lba| {
                let member = (lba >= 32) as u8;
                (!(8..32).contains(&lba)).then_some(Pair {
                    id: lba % 8,
                    member,
                })
            })
        };
        let mut device = Orders::new(disk(), rules());
        let log = device.log();
        write(&mut device, 3, false); // 1
        write(&mut device, 36, false);
        write(&mut device, 3, false);
        assert!(broken(&log).is_empty());
        write(&mut device, 35, false); // 4
        assert_eq!(
            broken(&log),
            [(Broken::Pair(3), 1, 4), (Broken::Pair(3), 3, 4)]
        );

        // A flush that is submitted with the write does not cover it.
        let mut device = Orders::new(disk(), rules());
        let log = device.log();
        for (tag, operation) in [
            Operation::Write {
                lba: 1,
                buffer: buffer(512, 0),
                fua: false,
            },
            Operation::Flush,
        ]
        .into_iter()
        .enumerate()
        {
            let tag = tag as u32 + 5;
            device.submit(Request { tag, operation }).unwrap();
        }
        device.kick();
        assert_eq!(
            (device.poll().unwrap().tag, device.poll().unwrap().tag),
            (5, 6)
        );
        write(&mut device, 33, false);
        assert_eq!(broken(&log), [(Broken::Pair(1), 1, 3)]);

        // Nor does one that fails.
        let fail = Rule::once(
            On::Kind(CommandKind::Flush),
            1,
            Fault::Fail(Error::TimedOut),
        );
        let mut device = Orders::new(Faulty::new(disk(), [fail]), rules());
        let log = device.log();
        write(&mut device, 1, false);
        assert_eq!(blocking::flush(&mut device), Err(Error::TimedOut));
        write(&mut device, 33, false);
        assert_eq!(broken(&log), [(Broken::Pair(1), 1, 3)]);
        blocking::flush(&mut device).unwrap();
        log.pause(true);
        write(&mut device, 33, false); // 5
        write(&mut device, 1, false); // 6, not reported, but tracked
        log.pause(false);
        write(&mut device, 33, false); // 7
        assert_eq!(broken(&log), [(Broken::Pair(1), 6, 7)]);
        blocking::flush(&mut device).unwrap();
        write(&mut device, 33, true);
        write(&mut device, 1, true);
        // One write of both members of a pair.
        let _ = blocking::write(&mut device, 7, buffer(26 * 512, 0), false);
        assert!(broken(&log).is_empty(), "7 and 32 are of two pairs");
        blocking::flush(&mut device).unwrap();
        let _ = blocking::write(&mut device, 7, buffer(33 * 512, 0), false);
        assert_eq!(broken(&log), [(Broken::Pair(7), 13, 13)]);
        assert_eq!(log.counts().errors, 1);
    }

    #[test]
    fn what_must_be_durable_first() {
        let rules = OrderRules::new().durable_first(
            "data before its size",
            |first| first.lba >= 10,
            |later| later.kind == CommandKind::Write && later.touches(&(0..1)),
        );
        let mut device = Orders::new(disk(), rules);
        let log = device.log();
        write(&mut device, 10, false);
        write(&mut device, 1, false);
        write(&mut device, 0, false);
        let violation = log.violations()[0];
        assert_eq!(
            violation.to_string(),
            "#3 write of 1 at 0: data before its size: #1 write of 1 at 10 is not durable yet"
        );
        log.take_violations();
        blocking::flush(&mut device).unwrap();
        write(&mut device, 0, false);
        assert!(log.violations().is_empty());
    }

    #[test]
    fn commands_under_way_that_overlap() {
        let mut device = Orders::new(disk(), OrderRules::new().apart(0..64));
        let log = device.log();
        let operations = [
            Operation::Read {
                lba: 1,
                buffer: buffer(1024, 0),
            },
            Operation::Read {
                lba: 2,
                buffer: buffer(512, 0),
            },
            Operation::Write {
                lba: 2,
                buffer: buffer(512, 0),
                fua: false,
            },
            Operation::Read {
                lba: 3,
                buffer: buffer(512, 0),
            },
        ];
        for operation in operations {
            device.submit(Request { tag: 0, operation }).unwrap();
        }
        assert_eq!(broken(&log), [(Broken::Apart, 1, 3), (Broken::Apart, 2, 3)]);
        device.kick();
        while device.poll().is_some() {}
        write(&mut device, 2, false);
        assert!(broken(&log).is_empty());
    }
}
