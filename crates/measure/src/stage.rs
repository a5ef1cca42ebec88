// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of a loop: an open path with its prepared group and allocated buffers.
//!
//! [`on_stage`] and [`Open::with`] undo what they did, whatever the result of the work between: the
//! group is left, the path closed, the buffers released.

use crate::access::{Access, Offsets, Operation};
use crate::cell::CellError;
use crate::host::Host;
use crate::operations::Operations;
use crate::path::{Missing, Path, Region};
use crate::random::Random;
use block::{Buffer, Device, Geometry};
use remedy::{Remedy, Setting, words};

/// The operations of a loop, and their range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub access: Access,
    pub span_bytes: u64,
    pub queue_depth: u16,
    pub seed: u64,
    pub round: u32,
    pub threads: u16,
    /// The index of this loop's thread.
    pub number: u16,
}

impl Load {
    /// A loop on the first thread, in the first round.
    pub(crate) fn new(access: Access, span_bytes: u64, queue_depth: u16, seed: u64) -> Self {
        Self {
            access,
            span_bytes,
            queue_depth,
            seed,
            round: 0,
            threads: 1,
            number: 0,
        }
    }

    /// The part of the span that this thread uses, and its length.
    fn part(&self, region: Region, geometry: &Geometry) -> Result<(Region, u64), Missing> {
        if self.threads <= 1 {
            return Ok((region, self.span_bytes));
        }
        let block = self.access.block_size_bytes.max(1);
        let each = self.span_bytes / u64::from(self.threads) / block * block;
        let block_count = each >> geometry.block_size_log2;
        let first = block_count.checked_mul(u64::from(self.number));
        let first_lba = first.and_then(|first| region.first_lba.checked_add(first));
        match first_lba.filter(|_| each > 0) {
            Some(first_lba) => Ok((
                Region {
                    first_lba,
                    block_count,
                },
                each,
            )),
            None => Err(Missing::new(
                format!(
                    "the span is too small to give each of {} threads its own block",
                    self.threads
                ),
                words![
                    Remedy::More(Setting::Span),
                    ", smaller blocks or ",
                    Remedy::Less(Setting::Threads)
                ],
            )),
        }
    }
}

/// Operations that are ready to begin, on a device of this geometry. Data to be written is random.
pub(crate) fn prepare(
    path: &mut dyn Path,
    geometry: &Geometry,
    load: &Load,
) -> Result<Operations, Missing> {
    let access = load.access;
    let (region, span_bytes) = load.part(path.region(geometry), geometry)?;
    let depth = load.queue_depth.min(geometry.queue_depth).max(1);
    let mut buffers = allocate(path, depth, access.block_size_bytes)?;
    if access.operation == Operation::Write {
        let (round, number) = (u64::from(load.round), u64::from(load.number));
        let salts = [0x6461_7461, access.block_size_bytes, round, number];
        let mut random = Random::derived(load.seed, &salts);
        buffers.iter_mut().for_each(|buffer| random.fill(buffer));
    }
    let seed = load.seed.wrapping_add(u64::from(load.number) << 32);
    let offsets = Offsets::new(access, span_bytes, seed, load.round);
    let made = Operations::new(access, offsets, span_bytes, region, geometry, buffers);
    made.map_err(|(error, buffers)| {
        release(path, buffers);
        refused(access, &error)
    })
}

fn allocate(path: &mut dyn Path, count: u16, len_bytes: u64) -> Result<Vec<Buffer>, Missing> {
    let len = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    let mut buffers = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        match path.allocate(len) {
            Ok(buffer) => buffers.push(buffer),
            Err(missing) => {
                release(path, buffers);
                return Err(missing);
            }
        }
    }
    Ok(buffers)
}

pub(crate) fn release(path: &mut dyn Path, buffers: Vec<Buffer>) {
    buffers.into_iter().for_each(|buffer| path.release(buffer));
}

pub(crate) fn refused(access: Access, error: &CellError) -> Missing {
    let hint = match error {
        CellError::Unaligned { device_bytes, .. } => {
            format!("choose block sizes that are multiples of {device_bytes} bytes")
        }
        CellError::RegionTooSmall { region_bytes, .. } => {
            format!("choose a span of at most {region_bytes} bytes, or enlarge the region")
        }
        _ => "report this as a bug of the path".to_owned(),
    };
    Missing::new(format!("{access}: {error}"), hint)
}

/// An open path, and the host.
pub(crate) struct Open<'a> {
    pub host: &'a mut dyn Host,
    pub path: &'a mut dyn Path,
    pub device: &'a mut dyn Device,
}

impl Open<'_> {
    /// The depth that the path and its device support, at most `wanted`.
    pub(crate) fn depth(&self, wanted: u16) -> u16 {
        let device = self.device.geometry().queue_depth;
        wanted.min(self.path.queue_depth()).min(device).max(1)
    }

    /// Calls `work` with the loop that `make` makes of the load's operations.
    pub(crate) fn with<L: Into<Operations>, T>(
        &mut self,
        load: &Load,
        make: impl FnOnce(Operations) -> L,
        work: impl FnOnce(&mut Self, &mut L) -> Result<T, Missing>,
    ) -> Result<T, Missing> {
        let geometry = *self.device.geometry();
        let mut made = make(prepare(self.path, &geometry, load)?);
        let done = work(self, &mut made);
        release(self.path, made.into().into_buffers());
        done
    }
}

/// The machine, prepared for one group of paths until it is left.
pub(crate) struct Stage<'a> {
    pub host: &'a mut dyn Host,
    group: Option<String>,
    /// The caches hold no data of the drive.
    is_cold: bool,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(host: &'a mut dyn Host) -> Self {
        Self {
            host,
            group: None,
            is_cold: false,
        }
    }

    pub(crate) fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    /// Prepares a group. It must be left even if this fails.
    pub(crate) fn enter(&mut self, group: &str) -> Result<(), Missing> {
        debug_assert!(
            self.group.is_none(),
            "the previous group must be left first"
        );
        self.group = Some(group.to_owned());
        self.is_cold = false;
        self.host.prepare_group(group)
    }

    /// Drops the caches that a buffered path would read from instead of the drive, unless they are
    /// empty.
    pub(crate) fn make_cold(&mut self, path: &dyn Path) -> Result<(), Missing> {
        if path.is_buffered() && !self.is_cold {
            self.host.drop_caches()?;
            self.is_cold = true;
        }
        Ok(())
    }

    /// Called after using a path that may have filled the caches.
    pub(crate) fn warmed(&mut self, path: &dyn Path) {
        self.is_cold &= !path.is_buffered();
    }

    /// Leaves the group, if one is prepared.
    pub(crate) fn leave(&mut self) -> Result<(), Missing> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        self.host.leave_group(&group).map_err(|missing| {
            let reason = format!("leaving the {group} paths failed: {}", missing.reason);
            Missing::new(reason, missing.hint)
        })
    }
}

/// Calls `work` on the opened path, and restores everything. A failure to restore is an error too,
/// if the work itself succeeded.
pub(crate) fn on_stage<T>(
    host: &mut dyn Host,
    path: &mut dyn Path,
    work: impl FnOnce(&mut Open<'_>) -> Result<T, Missing>,
) -> Result<T, Missing> {
    let mut stage = Stage::new(host);
    let ready = stage.enter(path.group());
    let open = ready
        .and_then(|()| stage.make_cold(path))
        .and_then(|()| path.open());
    let done = open.and_then(|mut device| {
        let done = work(&mut Open {
            host: stage.host,
            path,
            device: device.as_mut(),
        });
        path.close(device);
        done
    });
    let left = stage.leave();
    let value = done?;
    left.map(|()| value)
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
        let access = Access {
            operation: Operation::Read,
            pattern: crate::Pattern::Random,
            block_size_bytes: 4096,
        };
        let part = |span_bytes, number, threads| {
            let load = Load {
                number,
                threads,
                ..Load::new(access, span_bytes, 1, 1)
            };
            load.part(region, &geometry)
        };
        let mut next = region.first_lba;
        for number in 0..3 {
            let part = part(1 << 20, number, 3).unwrap();
            assert_eq!(part.0.first_lba, next);
            assert_eq!((part.1 % 4096, part.1), (0, part.0.block_count * 512));
            next += part.0.block_count;
        }
        assert!(next <= region.first_lba + region.block_count);
        assert!(part(4096, 0, 2).is_err());
        assert_eq!(part(1 << 20, 0, 1).unwrap(), (region, 1 << 20));
    }
}
