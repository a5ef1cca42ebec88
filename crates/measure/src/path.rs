// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A path: one way to access the drive.
//!
//! The command implements [`Path`] for all its paths (through a file system, through the block
//! layer, through a user-space driver, ...). A path that cannot run here is not an error of the
//! comparison: it is reported as [`Missing`] with a hint, and the other paths are measured.

use block::{Buffer, Device, Geometry};
use remedy::{Remedy, Setting, Value, Words, words};

/// Why a path cannot run here, and the command or setting that may fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (hint: {hint})")]
pub struct Missing {
    /// What is missing, in one sentence.
    pub reason: Words,
    /// What may fix it.
    pub hint: Remedy,
}

impl Missing {
    /// A reason and a hint.
    pub fn new(reason: impl Into<Words>, hint: impl Into<Remedy>) -> Self {
        Self {
            reason: reason.into(),
            hint: hint.into(),
        }
    }

    /// A path that cannot be used by several threads.
    pub fn one_queue() -> Self {
        Self::new(
            "this path has one queue, and one thread that uses it",
            words![
                Setting::Threads.to(Value::Number(1)),
                ", with larger ",
                Setting::Depths
            ],
        )
    }
}

/// Totals since some fixed moment, counted as close to the device as possible.
///
/// A count that the path cannot make is `None`, with a `reason`. Counts are never guessed: a
/// command that was split or merged below the counter would make the figure wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read commands that the device received.
    pub read_commands: Option<u64>,
    /// Write commands that the device received.
    pub write_commands: Option<u64>,
    /// Interrupts that the device raised.
    pub interrupts: Option<u64>,
    /// Why one of the above is `None`.
    pub reason: Option<String>,
}

impl Counters {
    /// Counters of a path that cannot count, and why.
    pub fn uncounted(reason: impl Into<String>) -> Self {
        Self {
            reason: Some(reason.into()),
            ..Self::default()
        }
    }

    /// The counts between `earlier` and now. A counter that decreased was reset, so its difference
    /// is unknown.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let difference = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        Counters {
            read_commands: difference(self.read_commands, earlier.read_commands),
            write_commands: difference(self.write_commands, earlier.write_commands),
            interrupts: difference(self.interrupts, earlier.interrupts),
            reason: self.reason.clone().or_else(|| earlier.reason.clone()),
        }
    }

    /// Reads and writes together.
    pub fn commands(&self) -> Option<u64> {
        self.read_commands?.checked_add(self.write_commands?)
    }
}

/// The part of the device that a path may use, in the device's logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First logical block.
    pub first_lba: u64,
    /// Number of logical blocks.
    pub block_count: u64,
}

impl Region {
    /// The whole device.
    pub const fn whole(geometry: &Geometry) -> Self {
        Self {
            first_lba: 0,
            block_count: geometry.block_count,
        }
    }
}

/// One way to access the drive.
///
/// For each run of cells the caller calls [`open`](Path::open), then for each cell
/// [`allocate`](Path::allocate) once for each slot of the queue, the timed loop, and
/// [`release`](Path::release); finally [`close`](Path::close). At most one path is open at a time.
pub trait Path {
    /// Its name in tables and reports, such as `ext4-direct` or `straightway-poll`. Unique.
    fn name(&self) -> &str;

    /// Paths that share a driver binding name the same group, such as `kernel` or `user-space`. The
    /// driver is switched once per group and round.
    fn group(&self) -> &str;

    /// Whether a processor spins while the device works.
    fn polls(&self) -> bool {
        false
    }

    /// Whether data may remain in the page cache; caches are then dropped around each cell.
    fn is_buffered(&self) -> bool {
        false
    }

    /// The most operations that it can have in flight; 1 for a synchronous path.
    fn queue_depth(&self) -> u16 {
        1
    }

    /// Opens the path.
    ///
    /// # Errors
    /// Something is missing on this machine.
    fn open(&mut self) -> Result<Box<dyn Device>, Missing>;

    /// Opens another device for an additional thread. It is dropped before [`close`](Path::close).
    ///
    /// # Errors
    /// The path has only one device, or something is missing.
    fn another(&mut self) -> Result<Box<dyn Device + Send>, Missing> {
        Err(Missing::one_queue())
    }

    /// Closes the device of [`open`](Path::open), after every buffer has been released.
    fn close(&mut self, device: Box<dyn Device>) {
        drop(device);
    }

    /// The part of the opened device that may be read and, in a measurement of writes,
    /// overwritten.
    fn region(&self, geometry: &Geometry) -> Region {
        Region::whole(geometry)
    }

    /// Allocates a buffer of exactly `len_bytes` in memory that the path can access, aligned as the
    /// device's geometry requires. Called outside the timed loop.
    ///
    /// # Errors
    /// Something is missing, for instance locked or huge pages.
    fn allocate(&mut self, len_bytes: usize) -> Result<Buffer, Missing>;

    /// Releases a buffer of [`allocate`](Path::allocate).
    fn release(&mut self, buffer: Buffer);

    /// The totals so far. Read before and after the counted part of a cell, when nothing is in
    /// flight.
    fn counters(&mut self) -> Counters;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_known_only_when_both_ends_are() {
        let then = Counters {
            read_commands: Some(3),
            write_commands: Some(10),
            ..Counters::default()
        };
        let now = Counters {
            read_commands: Some(5),
            write_commands: Some(14),
            interrupts: Some(1),
            reason: Some("no line".into()),
        };
        let difference = now.since(&then);
        assert_eq!(difference.commands(), Some(6));
        assert_eq!(difference.interrupts, None);
        assert_eq!(difference.reason.as_deref(), Some("no line"));
        assert_eq!(then.since(&now).commands(), None);
    }
}
