// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that the measurement runs on: its clock, its processor time, its driver bindings.
//!
//! Everything that a comparison needs from the outside world goes through [`Host`], so that a
//! simulated host (see `tests/simulated`) makes it repeatable to the last digit.

use crate::cpu::CpuTimes;
use crate::environment::Environment;
use crate::path::Missing;
use crate::why::{Gauge, ThreadGauge};
use crate::work::WorkCounter;
use paths::LatencyLimit;
use remedy::{Members, Wording};
use std::time::Duration;

/// A monotonic clock that can also wait.
pub trait Clock {
    /// Nanoseconds since a fixed but unknown moment.
    fn now_ns(&self) -> u64;

    /// Returns after about `duration_ns` nanoseconds.
    fn sleep_ns(&self, duration_ns: u64);

    /// Called in a loop that waits for the clock itself to advance.
    fn spin(&self) {
        std::hint::spin_loop();
    }
}

/// The operating system's `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(nanoseconds)
    }

    fn sleep_ns(&self, duration_ns: u64) {
        std::thread::sleep(Duration::from_nanos(duration_ns));
    }
}

/// What this crate needs from the machine. Most methods have a default that is right on Linux.
pub trait Host {
    /// The clock that times all cells.
    fn clock(&self) -> &dyn Clock {
        &Monotonic
    }

    /// How the report names settings.
    fn wording(&self) -> &'static dyn Wording {
        &Members
    }

    /// Seconds since 1970, for the report's date.
    fn unix_seconds(&self) -> u64 {
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }

    /// The whole machine's processor time so far.
    ///
    /// # Errors
    /// It cannot be read; the comparison then does not start.
    fn cpu_times(&mut self) -> Result<CpuTimes, Missing> {
        CpuTimes::read()
    }

    /// The settings that the figures depend on. Read while the drive is bound to its usual driver,
    /// before the first group is prepared and after the last is left.
    fn environment(&mut self) -> Environment;

    /// Binds the driver, mounts the file system, and so on, for the paths of `group`.
    ///
    /// # Errors
    /// Something is missing; all paths of the group are then reported as missing.
    fn prepare_group(&mut self, group: &str) -> Result<(), Missing> {
        let _ = group;
        Ok(())
    }

    /// Undoes [`prepare_group`](Host::prepare_group). Also called after it failed in the middle.
    ///
    /// # Errors
    /// Something could not be undone; the comparison stops there and is marked invalid.
    fn leave_group(&mut self, group: &str) -> Result<(), Missing> {
        let _ = group;
        Ok(())
    }

    /// What limited the drive's power states in the groups that were prepared so far; empty if
    /// nothing was asked for.
    fn latency_limits(&mut self) -> Vec<LatencyLimit> {
        Vec::new()
    }

    /// What counts the instructions of an operation.
    ///
    /// # Errors
    /// This machine has nothing that counts them.
    fn work_counter(&mut self) -> Result<Box<dyn WorkCounter>, Missing> {
        Err(Missing::new(
            "nothing counts instructions here",
            "run it in the lab, as make demo does",
        ))
    }

    /// What reads the counters that show why a block is late, for the calling thread. Called while
    /// a path is open.
    fn gauge(&mut self) -> Box<dyn Gauge> {
        Box::new(ThreadGauge::new(None))
    }

    /// Writes dirty pages back and drops the page cache. Called around the cells of buffered
    /// paths.
    ///
    /// # Errors
    /// Something is missing; the comparison is then marked invalid, because later cells would be
    /// served from memory.
    fn drop_caches(&mut self) -> Result<(), Missing> {
        Ok(())
    }
}
