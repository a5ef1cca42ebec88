// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupts as eventfds.
//!
//! Linux before 6.5 cannot add MSI-X vectors once some are enabled, so all of them are enabled as
//! one range when the function is opened, with no eventfd attached. Enabling a vector attaches its
//! eventfd and disabling it detaches it, independently of the others: the kernel then requests or
//! frees only that interrupt, and masks the vector while it is free. A message that the device
//! sends in the meantime stays pending and is delivered when the vector is enabled again; poll the
//! queue once after enabling all the same.
//!
//! The legacy level-triggered interrupt (INTx) is masked by the kernel each time it fires, and
//! unmasked here before each wait, when the driver has handled its cause.

use crate::sys::vfio as sys;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Interrupts {
    /// VFIO's index of the kind of interrupt.
    kind: u32,
    eventfds: Vec<OwnedFd>,
}

impl Interrupts {
    /// Enables up to `wanted` vectors: MSI-X, or MSI, or INTx. Having none is not an error.
    pub(crate) fn enable(device: impl AsFd, wanted: u16) -> io::Result<Self> {
        for kind in [sys::IRQ_MSIX, sys::IRQ_MSI, sys::IRQ_INTX] {
            // A kind that the device lacks has no vectors or gives an error.
            let available = sys::irq_count(&device, kind).unwrap_or(0) as usize;
            let count = available.min(usize::from(wanted)).min(sys::MAX_VECTORS);
            let count = match kind {
                // Nothing to enable before there is an eventfd.
                sys::IRQ_INTX => count,
                _ => enable_range(&device, kind, count),
            };
            if count > 0 {
                let new = |_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
                let eventfds = (0..count).map(new).collect::<Result<_, Errno>>()?;
                return Ok(Self { kind, eventfds });
            }
        }
        Ok(Self {
            kind: sys::IRQ_MSIX,
            eventfds: Vec::new(),
        })
    }

    pub(crate) fn vectors(&self) -> u16 {
        self.eventfds.len() as u16
    }

    /// Whether it is INTx: the function's own bit decides whether it drives the line.
    pub(crate) const fn is_line(&self) -> bool {
        self.kind == sys::IRQ_INTX
    }

    /// Attaches the vector's eventfd, or detaches it; returns whether that was done.
    pub(crate) fn set(&self, device: impl AsFd, vector: u16, enabled: bool) -> bool {
        let Some(event) = self.eventfds.get(usize::from(vector)) else {
            return false;
        };
        let descriptor = if enabled { event.as_raw_fd() } else { -1 };
        let done = sys::set_eventfds(device, self.kind, u32::from(vector), &[descriptor]);
        matches!(done, Ok(0))
    }

    /// Sleeps until the vector has interrupted or the time has passed; returns whether it has.
    pub(crate) fn wait(&self, device: impl AsFd, vector: u16, timeout_us: u32) -> bool {
        let Some(event) = self.eventfds.get(usize::from(vector)) else {
            return false;
        };
        if self.kind == sys::IRQ_INTX {
            // Fails if the interrupt is disabled; the wait then only ends by time-out.
            let _ = sys::unmask_intx(device);
        }
        let began = Instant::now();
        let limit = Duration::from_micros(u64::from(timeout_us));
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let left = Timespec {
                tv_sec: left.as_secs() as _,
                tv_nsec: left.subsec_nanos() as _,
            };
            match poll(&mut [PollFd::new(event, PollFlags::IN)], Some(&left)) {
                // Interrupted by a signal: wait for the remaining time.
                Err(Errno::INTR) if began.elapsed() < limit => {}
                Ok(1..) => return take(event),
                _ => return false,
            }
        }
    }
}

/// Resets the count to zero; returns whether it was non-zero.
fn take(event: &OwnedFd) -> bool {
    let mut count = [0; 8];
    rustix::io::read(event, &mut count) == Ok(8)
}

/// Enables a range of vectors without eventfds; returns how many are enabled.
fn enable_range(device: impl AsFd, kind: u32, wanted: usize) -> usize {
    let none = [-1; sys::MAX_VECTORS];
    let mut count = wanted;
    // Each iteration requests fewer. The kernel returns how many are available.
    while let Some(none) = none.get(..count).filter(|none| !none.is_empty()) {
        match sys::set_eventfds(&device, kind, 0, none) {
            Ok(0) => return count,
            Ok(fewer) => count = (fewer as usize).min(count - 1),
            Err(_) => return 0,
        }
    }
    0
}
