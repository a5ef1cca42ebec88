//! Threads beside the one that measures: each has its own device and its own closed loop.
//!
//! All threads of a cell do the same to the same path. Each keeps to its own part of the span, so
//! that no thread finds in a cache what another one has brought there. They start together but for
//! the time that it takes to start a thread, and each runs for the whole duration.

use crate::access::{Access, Offsets};
use crate::cell::{ClosedLoop, ServiceTimes, Tally};
use crate::host::Monotonic;
use crate::path::{Missing, Path, Region};
use crate::random::Random;
use block::{Buffer, Device, Geometry};
use std::sync::atomic::AtomicBool;
use std::thread::Builder;

/// The part of the span that one of several threads uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it is.
    pub region: Region,
    /// How long it is.
    pub span_bytes: u64,
}

impl Part {
    /// The part of thread `number` of `threads`; all of it for one thread. `None` if a block does
    /// not fit.
    pub(crate) fn of(
        region: Region,
        geometry: &Geometry,
        span_bytes: u64,
        block_size_bytes: u64,
        number: u16,
        threads: u16,
    ) -> Option<Self> {
        if threads <= 1 {
            return Some(Self { region, span_bytes });
        }
        let block = block_size_bytes.max(1);
        let each = span_bytes / u64::from(threads) / block * block;
        let shift = geometry.block_size_log2;
        let first = (each >> shift).checked_mul(u64::from(number))?;
        (each > 0).then_some(Self {
            region: Region {
                first_lba: region.first_lba.checked_add(first)?,
                block_count: each >> shift,
            },
            span_bytes: each,
        })
    }
}

/// What a cell asks of every thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub access: Access,
    pub span_bytes: u64,
    pub queue_depth: u16,
    pub threads: u16,
    pub seed: u64,
    pub round: u32,
}

/// The further threads of one cell.
#[derive(Default)]
pub(crate) struct Crew {
    members: Vec<(ClosedLoop, Box<dyn Device + Send>)>,
}

impl Crew {
    /// Opens a device for each thread but the first.
    pub(crate) fn new(path: &mut dyn Path, cell: &Cell) -> Result<Self, Missing> {
        let mut crew = Self::default();
        for number in 1..cell.threads {
            match member(path, cell, number) {
                Ok(member) => crew.members.push(member),
                Err(missing) => {
                    crew.release(path);
                    return Err(missing);
                }
            }
        }
        Ok(crew)
    }

    /// Runs the first thread's loop and, beside it, all others.
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
            // All have the same bounds, so every value has its place.
            if let Ok(more) = closed.service_times() {
                let _ = times.add(&more);
            }
        }
    }

    /// Closes the devices and gives the buffers back.
    pub(crate) fn release(self, path: &mut dyn Path) {
        for (closed, device) in self.members {
            drop(device);
            for buffer in closed.into_buffers() {
                path.release(buffer);
            }
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

fn member(
    path: &mut dyn Path,
    cell: &Cell,
    number: u16,
) -> Result<(ClosedLoop, Box<dyn Device + Send>), Missing> {
    let device = path.another()?;
    let geometry = *device.geometry();
    let part = Part::of(
        path.region(&geometry),
        &geometry,
        cell.span_bytes,
        cell.access.block_size_bytes,
        number,
        cell.threads,
    )
    .ok_or_else(|| too_small(cell.threads))?;
    let len_bytes = usize::try_from(cell.access.block_size_bytes).unwrap_or(usize::MAX);
    let mut random = Random::derived(cell.seed, &[0x6372_6577, u64::from(number)]);
    let mut buffers: Vec<Buffer> = Vec::new();
    let give_back = |buffers: Vec<Buffer>, path: &mut dyn Path| {
        buffers.into_iter().for_each(|buffer| path.release(buffer));
    };
    for _ in 0..cell.queue_depth.min(geometry.queue_depth).max(1) {
        match path.allocate(len_bytes) {
            Ok(mut buffer) => {
                random.fill(&mut buffer);
                buffers.push(buffer);
            }
            Err(missing) => {
                give_back(buffers, path);
                return Err(missing);
            }
        }
    }
    let seed = cell.seed.wrapping_add(u64::from(number) << 32);
    let offsets = Offsets::new(cell.access, part.span_bytes, seed, cell.round);
    let made = ClosedLoop::new(
        cell.access,
        offsets,
        part.span_bytes,
        part.region,
        &geometry,
        buffers,
    );
    match made {
        Ok(closed) => Ok((closed, device)),
        Err((error, buffers)) => {
            give_back(buffers, path);
            Err(Missing::new(
                error.to_string(),
                "another block size or span",
            ))
        }
    }
}

/// Why threads cannot share a span.
pub(crate) fn too_small(threads: u16) -> Missing {
    Missing::new(
        format!("the span is too small to give each of {threads} threads a block of its own"),
        "a larger --span, smaller blocks or fewer --threads",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Features;

    #[test]
    fn parts_do_not_overlap_and_lie_within_the_region() {
        let geometry = Geometry {
            block_size_log2: 9,
            block_count: 10_000,
            max_transfer_blocks: 256,
            queue_depth: 1,
            buffer_align_bytes: 1,
            features: Features::default(),
        };
        let region = Region {
            first_lba: 100,
            block_count: 2048,
        };
        let mut next = region.first_lba;
        for number in 0..3 {
            let part = Part::of(region, &geometry, 1 << 20, 4096, number, 3).unwrap();
            assert_eq!(part.region.first_lba, next);
            assert_eq!(
                (part.span_bytes % 4096, part.span_bytes),
                (0, part.region.block_count * 512)
            );
            next += part.region.block_count;
        }
        assert!(next <= region.first_lba + region.block_count);
        assert_eq!(Part::of(region, &geometry, 4096, 4096, 0, 2), None);
        let whole = Part::of(region, &geometry, 1 << 20, 4096, 0, 1).unwrap();
        assert_eq!((whole.region, whole.span_bytes), (region, 1 << 20));
    }
}
