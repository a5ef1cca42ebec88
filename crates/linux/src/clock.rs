// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time for deadlines and latencies, read without a system call where that is sound.
//!
//! The processor's counter is used if its ticks have constant length and the counters of all
//! processors are synchronous:
//!
//! * The processor reports that it is invariant (CPUID 8000_0007h EDX bit 8), and the kernel, which
//!   compares the counters of all processors, still offers it as a clock source. A kernel that has
//!   seen the counter go back takes `tsc` off that list.
//! * Or the processor is QEMU's TCG, which does not set that bit, though all its processors read
//!   one counter that is the machine's own time. The kernel cannot know and often turns to the
//!   HPET, whose `clock_gettime` is a system call and an emulated register access: more expensive
//!   than a request.
//!
//! Otherwise `clock_gettime(CLOCK_MONOTONIC)` is used, from the vDSO where the kernel's clock
//! source allows it.

use crate::Roots;
use crate::sys::counter;
use crate::sysfs;
use block::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;

/// How long the counter is compared with the kernel's clock. The kernel's clock is read to some
/// 100 ns at both ends, so that the error is at most about 10 parts in a million.
const CALIBRATION_NS: u64 = 20_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// The source of a [`TscClock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// The processor's counter.
    Counter,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Kernel,
}

/// A monotonic clock: the processor's counter, or the kernel's clock where that cannot be trusted.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    source: ClockSource,
    ticks_per_second: u64,
}

impl Default for TscClock {
    fn default() -> Self {
        Self::new()
    }
}

impl TscClock {
    /// The clock of this machine. The first call takes 20 ms where the counter's rate must be
    /// measured; later ones use the result.
    pub fn new() -> Self {
        static CLOCK: OnceLock<TscClock> = OnceLock::new();
        *CLOCK.get_or_init(|| {
            let path = "devices/system/clocksource/clocksource0/available_clocksource";
            let offered = sysfs::text(&Roots::system().sys.join(path));
            let facts = Facts {
                invariant: counter::is_invariant(),
                tcg: counter::is_tcg(),
                kernel_offers_it: offered.map(|names| {
                    let known = ["tsc", "arch_sys_counter"];
                    names
                        .split_ascii_whitespace()
                        .any(|name| known.contains(&name))
                }),
            };
            match facts.source() {
                ClockSource::Kernel => Self::kernel(),
                source => Self {
                    source,
                    ticks_per_second: counter::stated_frequency().unwrap_or_else(calibrate),
                },
            }
        })
    }

    /// The kernel's clock, whatever the processor offers.
    pub const fn kernel() -> Self {
        Self {
            source: ClockSource::Kernel,
            ticks_per_second: NS_PER_S,
        }
    }

    /// Its source.
    pub const fn source(&self) -> ClockSource {
        self.source
    }
}

impl Clock for TscClock {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        match self.source {
            ClockSource::Counter => counter::read(),
            ClockSource::Kernel => kernel_ns(),
        }
    }

    fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }
}

struct Facts {
    invariant: bool,
    tcg: bool,
    /// Unknown if sysfs does not say, as in some containers.
    kernel_offers_it: Option<bool>,
}

impl Facts {
    fn source(&self) -> ClockSource {
        let sound = self.invariant && self.kernel_offers_it.unwrap_or(true);
        if sound || self.tcg {
            ClockSource::Counter
        } else {
            ClockSource::Kernel
        }
    }
}

#[inline(never)]
fn kernel_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(NS_PER_S) + now.tv_nsec as u64
}

/// Ticks of the counter in a second of the kernel's clock.
fn calibrate() -> u64 {
    let (first_ns, first) = (kernel_ns(), counter::read());
    loop {
        let (now_ns, now) = (kernel_ns(), counter::read());
        let passed_ns = now_ns.saturating_sub(first_ns);
        if passed_ns >= CALIBRATION_NS {
            let ticks = u128::from(now.wrapping_sub(first)) * u128::from(NS_PER_S);
            let rate = ticks / u128::from(passed_ns);
            return u64::try_from(rate).unwrap_or(NS_PER_S).max(1000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back_and_agrees_with_the_kernel_s() {
        let clock = TscClock::new();
        let (mut last, began) = (clock.ticks(), kernel_ns());
        let first = last;
        while kernel_ns() - began < 50_000_000 {
            let now = clock.ticks();
            assert!(now >= last);
            last = now;
        }
        let passed_ns = kernel_ns() - began;
        let ticks = u128::from(clock.ticks() - first);
        let ns = (ticks * 1_000_000_000 / u128::from(clock.ticks_per_second())) as u64;
        assert!(
            ns.abs_diff(passed_ns) < passed_ns / 50,
            "{ns} and {passed_ns}"
        );
    }

    #[test]
    fn the_counter_is_used_only_where_it_is_sound() {
        let source = |invariant, tcg, kernel_offers_it| {
            let facts = Facts {
                invariant,
                tcg,
                kernel_offers_it,
            };
            facts.source()
        };
        assert_eq!(source(true, false, Some(true)), ClockSource::Counter);
        assert_eq!(source(true, false, None), ClockSource::Counter);
        assert_eq!(source(true, false, Some(false)), ClockSource::Kernel);
        assert_eq!(source(false, false, Some(true)), ClockSource::Kernel);
        assert_eq!(source(false, true, Some(false)), ClockSource::Counter);
    }
}
