// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves a range of a device to or from a stream, with several requests in flight.
//!
//! The user sets the length of an operation; an operation longer than the device's largest transfer
//! is split into as few requests as possible. Buffers form a ring, so that data is delivered in
//! order although requests complete in any order.

mod blocks;
pub mod pump;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::path::memory::Memory;
use crate::path::{MAX_TRANSFER_BYTES, Mode, OpenOptions, PathChoice};
use block::Device;
use blocks::Blocks;
use pump::{Fill, Finished, Job, Sink, drain, fill};
use remedy::{Remedy, Setting, Value, words};
use std::fmt::Display;
use units::{Size, Time};

/// Options for the path to the device.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The path to the drive.
    pub path: PathChoice,
    /// How completions are waited for; as in the path's name if not given.
    pub mode: Option<Mode>,
    /// The namespace of a controller.
    pub namespace: Option<u32>,
    /// Whether small sequential accesses are gathered into large commands, and data is read ahead
    /// of small reads.
    pub hybrid: bool,
    /// Memory in which reads of at most 64 KiB are kept.
    pub cache: Option<Size>,
    /// The drive is kept out of power states that delay a command longer, until the end.
    pub latency_limit: Option<Time>,
}

impl Default for Route {
    /// The usual path of the drive.
    fn default() -> Self {
        Self {
            path: PathChoice::AUTO,
            mode: None,
            namespace: None,
            hybrid: false,
            cache: None,
            latency_limit: None,
        }
    }
}

impl Route {
    /// Whether the path is left to the command.
    pub fn is_auto(self) -> bool {
        self.path == PathChoice::AUTO && self.mode.is_none()
    }

    /// Adds options for buffers.
    pub const fn with_buffers(self, block_size_bytes: u64, queue_depth: u16) -> IoOptions {
        IoOptions {
            block_size: Size(block_size_bytes),
            queue_depth,
            route: self,
        }
    }
}

/// How data is moved.
#[derive(Clone, Copy, Debug)]
pub struct IoOptions {
    /// Bytes per operation; longer ones than the drive supports become several commands.
    pub block_size: Size,
    /// Commands in flight, at most 64 on the straight path.
    pub queue_depth: u16,
    /// The path to the drive.
    pub route: Route,
}

impl IoOptions {
    /// Whether block size and queue depth have their defaults.
    pub const fn is_default(&self) -> bool {
        self.block_size.0 == 1 << 20 && self.queue_depth == 8
    }

    /// The options for opening the path.
    pub fn open_options(&self, write: bool) -> OpenOptions {
        OpenOptions {
            path: self.route.path,
            mode: self.route.mode,
            namespace: self.route.namespace,
            write,
            hybrid: self.route.hybrid,
            cache_bytes: self
                .route
                .cache
                .map_or(0, |size| usize::try_from(size.0).unwrap_or(usize::MAX)),
            window: None,
            latency_limit_us: self.route.latency_limit.map(Time::whole_us),
            // A few additional pages, because each buffer starts at a page.
            buffer_bytes: buffer_bytes(
                self.block_size.0,
                self.queue_depth.saturating_add(2),
                MAX_TRANSFER_BYTES * 4,
            )
            .saturating_add(1 << 20),
            queue_depth: self.queue_depth,
        }
    }

    /// The range to move.
    pub fn span(&self, offset: Size, length_bytes: u64) -> Span {
        Span {
            offset_bytes: offset.0,
            length_bytes,
            operation_bytes: self.block_size.0,
            depth: self.queue_depth,
        }
    }
}

/// The part of a device to move, and how.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte on the device; a multiple of its block.
    pub offset_bytes: u64,
    /// Number of bytes, a multiple of the device's block; for a write, the maximum.
    pub length_bytes: u64,
    /// Length of an operation.
    pub operation_bytes: u64,
    /// Requests in flight.
    pub depth: u16,
}

impl Span {
    /// The offset and length of each piece. A piece ends with its operation, so that operations are
    /// split as rarely as possible.
    pub fn pieces(self, most_bytes: usize) -> impl Iterator<Item = (u64, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let left = self.operation_bytes - done % self.operation_bytes;
            let len = left.min(self.length_bytes - done).min(most_bytes as u64);
            let offset_bytes = self.offset_bytes + done;
            done += len;
            (len > 0).then_some((offset_bytes, len as usize))
        })
    }

    /// Checks the range against the device, before anything is moved.
    ///
    /// # Errors
    /// The range is not aligned, or ends past the end of the device.
    pub fn check(&self, geometry: &block::Geometry) -> Result<()> {
        let block_bytes = geometry.block_size_bytes() as u64;
        let parts = [
            (Setting::Offset, self.offset_bytes),
            (Setting::Length, self.length_bytes),
            (Setting::BlockSize, self.operation_bytes),
        ];
        for (name, bytes) in parts {
            if bytes % block_bytes != 0 {
                let (below, above) = (
                    bytes - bytes % block_bytes,
                    bytes.checked_next_multiple_of(block_bytes),
                );
                let above = above.map_or(String::new(), |above| format!(" or {above}"));
                return Err(Error::usage(words![
                    name,
                    format!(" is {bytes} bytes, not a multiple of the drive's block of {block_bytes} bytes")
                ])
                .hint(name.to(Value::choice(format!("{below}{above}")))));
            }
        }
        if self.operation_bytes == 0 || self.depth == 0 {
            return Err(Error::usage(
                "block size and queue depth must be at least 1",
            ));
        }
        let size_bytes = geometry.size_bytes();
        match self.offset_bytes.checked_add(self.length_bytes) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => {
                if self.offset_bytes > size_bytes {
                    return Err(Error::usage(words![
                        Setting::Offset,
                        format!(
                            " is {}, past the end of the drive, which has {size_bytes} bytes",
                            self.offset_bytes
                        )
                    ])
                    .hint(words![
                        "an ",
                        Setting::Offset,
                        format!(" below {size_bytes}")
                    ]));
                }
                let hint = match size_bytes.saturating_sub(self.offset_bytes) {
                    0 => Remedy::Less(Setting::Offset).to_owned(),
                    room => Setting::Length.to(Value::Number(room)),
                };
                let failure = Error::usage(format!(
                    "{} bytes from byte {} on end past the end of the drive, which has {size_bytes} bytes",
                    self.length_bytes, self.offset_bytes
                ));
                Err(failure.hint(hint))
            }
        }
    }
}

/// The result of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes moved, from the first byte up to the first gap.
    pub bytes: u64,
    /// Successful requests.
    pub requests: u64,
}

/// The size of all buffers of [`read()`] and [`write()`], in bytes.
pub fn buffer_bytes(operation_bytes: u64, depth: u16, max_transfer_bytes: usize) -> usize {
    let piece = (max_transfer_bytes as u64).min(operation_bytes).max(512);
    let piece = piece.next_multiple_of(4096);
    usize::try_from(piece.saturating_mul(u64::from(depth))).unwrap_or(usize::MAX)
}

/// Reads the span into `sink`. Nothing is in flight when it returns.
///
/// # Errors
/// The first failure by address, a failure of the sink, or cancellation. The message includes the
/// number of bytes moved before it.
pub fn read(
    device: &mut dyn Device,
    memory: &Memory,
    span: &Span,
    sink: &mut Sink<'_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Moved> {
    // The device works while this thread writes: another thread would only add wake-ups.
    let is_beside = device.geometry().queue_depth < 2;
    let mut bytes = 0;
    let mut sink = |finished: &Finished| {
        sink(finished.data())?;
        bytes += finished.len as u64;
        Ok(())
    };
    let stop = || cancel.is_set();
    let job = job(device, memory, span, &"reading", progress, &stop)?;
    let moved = drain(&mut Blocks::new(device, None), job, is_beside, &mut sink);
    moved.map_err(|failure| before(failure, bytes))
}

/// Writes data from `source` to the span, with force unit access if `fua` is set. Nothing is in
/// flight when it returns.
///
/// # Errors
/// The same as those of [`read`].
pub fn write(
    device: &mut dyn Device,
    memory: &Memory,
    span: &Span,
    fua: bool,
    source: &mut Fill<'_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Moved> {
    let mut bytes = 0;
    let mut advance = |now| {
        bytes = now;
        progress(now);
    };
    let stop = || cancel.is_set();
    let job = job(device, memory, span, &"writing", &mut advance, &stop)?;
    let moved = fill(&mut Blocks::new(device, Some(fua)), job, source);
    moved.map_err(|failure| before(failure, bytes))
}

fn job<'j>(
    device: &dyn Device,
    memory: &'j Memory,
    span: &Span,
    doing: &'j dyn Display,
    progress: &'j mut dyn FnMut(u64),
    stop: &'j dyn Fn() -> bool,
) -> Result<Job<'j>> {
    let geometry = device.geometry();
    span.check(geometry)?;
    let depth = span.depth.min(geometry.queue_depth);
    Ok(Job {
        doing,
        span: Span { depth, ..*span },
        most_bytes: geometry.max_transfer_bytes(),
        memory,
        progress,
        stop,
    })
}

/// Adds to a failure how much was moved before it.
pub fn before(failure: Error, bytes: u64) -> Error {
    if failure.is_silent() {
        failure
    } else {
        failure.and(format_args!("{bytes} bytes were moved before"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Completion, Geometry, Operation, RamDisk, Refused, Request};
    use linux::HostMemory;

    /// A RAM disk that completes the newest request first, and fails at one block.
    struct Awkward {
        disk: RamDisk<Vec<u8>, 8>,
        done: Vec<Completion>,
        bad_lba: u64,
        bad_tags: Vec<u32>,
    }

    impl Awkward {
        fn new(bad_lba: u64) -> Self {
            let bytes = (0..1 << 20).map(|i| (i / 512 + i) as u8).collect();
            Self {
                disk: RamDisk::new(bytes, 9).unwrap(),
                done: Vec::new(),
                bad_lba,
                bad_tags: Vec::new(),
            }
        }
    }

    impl Device for Awkward {
        fn geometry(&self) -> &Geometry {
            self.disk.geometry()
        }

        fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
            if let Operation::Read { lba, buffer } = &request.operation {
                let end = lba + buffer.len() as u64 / 512;
                if (*lba..end).contains(&self.bad_lba) {
                    self.bad_tags.push(request.tag);
                }
            }
            self.disk.submit(request)
        }

        fn kick(&mut self) {
            while let Some(completion) = self.disk.poll() {
                self.done.push(completion);
            }
        }

        fn poll(&mut self) -> Option<Completion> {
            let mut completion = self.done.pop()?;
            if self.bad_tags.contains(&completion.tag) {
                completion.result = Err(block::Error::Nvme { status: 0x281 });
            }
            Some(completion)
        }

        fn outstanding(&self) -> usize {
            self.disk.outstanding() + self.done.len()
        }
    }

    fn read(device: &mut Awkward, span: &Span) -> (Result<Moved>, Vec<u8>) {
        let memory = HostMemory::new(1 << 20).unwrap();
        let mut data = Vec::new();
        let moved = super::read(
            device,
            &Memory::Host(memory.clone()),
            span,
            &mut |piece| {
                data.extend_from_slice(piece);
                Ok(())
            },
            &mut |_| {},
            &Cancel::default(),
        );
        assert_eq!(memory.buffers_out(), 0);
        (moved, data)
    }

    const SPAN: Span = Span {
        offset_bytes: 512,
        length_bytes: 100 * 512,
        operation_bytes: 3 * 512,
        depth: 8,
    };

    #[test]
    fn data_leaves_in_order_however_requests_complete() {
        let (moved, data) = read(&mut Awkward::new(u64::MAX), &SPAN);
        let expected: Vec<u8> = (512..101 * 512)
            .map(|i: usize| (i / 512 + i) as u8)
            .collect();
        assert_eq!(data, expected);
        let moved = moved.unwrap();
        assert_eq!((moved.bytes, moved.requests), (100 * 512, 34));
    }

    #[test]
    fn everything_before_a_failure_is_delivered_and_nothing_after() {
        let (moved, data) = read(&mut Awkward::new(20), &SPAN);
        let failure = moved.unwrap_err();
        // Blocks 19 to 21 are one operation.
        assert_eq!(data.len(), 18 * 512);
        assert!(failure.to_string().contains("at byte 9728"), "{failure}");
    }

    #[test]
    fn a_span_past_the_end_says_how_much_there_is() {
        let geometry = *Awkward::new(0).geometry();
        let long = Span {
            length_bytes: 1 << 20,
            ..SPAN
        };
        let failure = long.check(&geometry).unwrap_err();
        let length = Setting::Length.to(Value::Number(1_048_064));
        assert_eq!(failure.remedy(), Some(&length));
        let odd = Span {
            offset_bytes: 700,
            ..SPAN
        };
        assert_eq!(
            odd.check(&geometry).unwrap_err().remedy(),
            Some(&Setting::Offset.to(Value::choice("512 or 1024")))
        );
    }
}
