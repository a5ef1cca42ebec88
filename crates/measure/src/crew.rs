// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Additional threads: each has its own device and its own closed loop.
//!
//! All threads of a cell do the same operations on the same path. Each uses only its own part of
//! the span, so that no thread benefits from data that another one brought into a cache. They start
//! together, except for the time that starting a thread takes, and each runs for the whole
//! duration.

use crate::cell::{ClosedLoop, ServiceTimes, Tally};
use crate::host::Monotonic;
use crate::operations::Operations;
use crate::path::{Missing, Path};
use crate::stage::{Load, prepare, release};
use block::Device;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;

/// The further threads of one cell.
#[derive(Default)]
pub(crate) struct Crew {
    members: Vec<(ClosedLoop, Box<dyn Device + Send>)>,
}

impl Crew {
    /// Opens a device for each thread except the first.
    pub(crate) fn new(path: &mut dyn Path, load: &Load) -> Result<Self, Missing> {
        let mut crew = Self::default();
        for number in 1..load.threads {
            match member(path, &Load { number, ..*load }) {
                Ok(member) => crew.members.push(member),
                Err(missing) => {
                    crew.release(path);
                    return Err(missing);
                }
            }
        }
        Ok(crew)
    }

    /// Runs the first thread's loop in parallel with all others.
    pub(crate) fn run(
        &mut self,
        duration_ns: u64,
        cancel: &AtomicBool,
        first: impl FnOnce() -> Tally,
    ) -> Tally {
        if self.members.is_empty() {
            return first();
        }
        std::thread::scope(|scope| {
            let mut started = Vec::new();
            let mut failed = None;
            for (closed, device) in &mut self.members {
                let work = move || closed.run(device.as_mut(), &Monotonic, duration_ns, cancel);
                match Builder::new()
                    .name("sweep".into())
                    .spawn_scoped(scope, work)
                {
                    Ok(thread) => started.push(thread),
                    Err(error) => failed = Some(error),
                }
            }
            let mut all = first();
            for thread in started {
                match thread.join() {
                    Ok(tally) => add(&mut all, &tally),
                    Err(_) => all.errors += 1,
                }
            }
            if let Some(error) = failed {
                all.errors += 1;
                let errno = error.raw_os_error().unwrap_or(0);
                all.first_error.get_or_insert(block::Error::Os { errno });
            }
            all
        })
    }

    /// Forgets the service times, after warming up.
    pub(crate) fn forget(&mut self) {
        self.members
            .iter_mut()
            .for_each(|(closed, _)| closed.forget());
    }

    /// Adds the members' service times.
    pub(crate) fn add_times(&self, times: &mut ServiceTimes) {
        for (closed, _) in &self.members {
            // All have the same bounds, so every value fits.
            if let Ok(more) = closed.service_times() {
                let _ = times.add(&more);
            }
        }
    }

    /// Closes the devices and releases the buffers.
    pub(crate) fn release(self, path: &mut dyn Path) {
        for (closed, device) in self.members {
            drop(device);
            release(path, Operations::from(closed).into_buffers());
        }
    }
}

fn add(all: &mut Tally, one: &Tally) {
    all.operations += one.operations;
    all.bytes += one.bytes;
    all.errors += one.errors;
    all.cancelled |= one.cancelled;
    if all.first_error.is_none() {
        all.first_error = one.first_error;
    }
}

/// One more thread's loop, over a device of its own.
fn member(
    path: &mut dyn Path,
    load: &Load,
) -> Result<(ClosedLoop, Box<dyn Device + Send>), Missing> {
    let device = path.another()?;
    let operations = prepare(path, device.geometry(), load)?;
    Ok((ClosedLoop::new(operations), device))
}
