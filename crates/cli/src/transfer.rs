//! Moving a stretch of a device to or from a stream, with several requests in flight.
//!
//! An operation is as long as the user said; one that is longer than the device's largest transfer
//! becomes as few requests as it can. Requests go round a ring of buffers, so that data leaves in
//! order however requests complete.

use crate::failure::{Failure, Result};
use crate::path::memory::Memory;
use crate::path::straight::MAX_TRANSFER_BYTES;
use crate::path::{Mode, PATH_HELP, PathChoice, Wish};
use crate::signals::Cancel;
use crate::units::Size;
use block::{Buffer, Device, Lent, Operation, Request};
use clap::Args;
use std::collections::VecDeque;

/// How long one wait may last before the user's wish to end is looked at.
const WAIT_US: u32 = 100_000;

/// How to get to the device.
#[derive(Clone, Copy, Debug, Args)]
pub struct Route {
    /// The path to the drive
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = PathChoice::parser(), help = PATH_HELP)]
    pub path: PathChoice,
    /// How completions are waited for [default: as the path's name says]
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// The namespace, where DEVICE names a controller
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub namespace: Option<u32>,
}

impl Route {
    /// Whether the user leaves the path open.
    pub fn is_auto(self) -> bool {
        self.path == PathChoice::AUTO && self.mode.is_none()
    }

    /// The same as a way with buffers of its own.
    pub const fn with_buffers(self, block_size_bytes: u64, queue_depth: u16) -> IoArgs {
        IoArgs {
            block_size: Size(block_size_bytes),
            queue_depth,
            route: self,
        }
    }
}

/// The options of every verb that moves data: how to get to it.
#[derive(Clone, Copy, Debug, Args)]
pub struct IoArgs {
    /// How much one operation moves; a longer one than the drive takes becomes several commands
    #[arg(long, value_name = "SIZE", default_value = "1M")]
    pub block_size: Size,
    /// Commands in flight, at most 64 on the straight path
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub queue_depth: u16,
    /// The path to the drive
    #[command(flatten)]
    pub route: Route,
}

impl IoArgs {
    /// What is wanted of the path.
    pub fn wish(&self, write: bool) -> Wish {
        Wish {
            path: self.route.path,
            mode: self.route.mode,
            namespace: self.route.namespace,
            write,
            // A few pages more, because each buffer starts with its own.
            buffer_bytes: buffer_bytes(self.block_size.0, self.queue_depth, MAX_TRANSFER_BYTES * 4)
                .saturating_add(1 << 20),
            queue_depth: self.queue_depth,
        }
    }

    /// What is to be moved.
    pub fn span(&self, offset: Size, length_bytes: u64) -> Span {
        Span {
            offset_bytes: offset.0,
            length_bytes,
            operation_bytes: self.block_size.0,
            depth: self.queue_depth,
        }
    }
}

/// What to move.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte on the device; a multiple of its block.
    pub offset_bytes: u64,
    /// How many bytes, a multiple of the device's block; for a write, at most so many.
    pub length_bytes: u64,
    /// How long an operation is.
    pub operation_bytes: u64,
    /// Requests in flight.
    pub depth: u16,
}

impl Span {
    /// Checks it against the device, before anything is moved.
    ///
    /// # Errors
    /// It is not aligned, or ends past the device.
    pub fn check(&self, geometry: &block::Geometry) -> Result<()> {
        let block_bytes = geometry.block_size_bytes() as u64;
        let parts = [
            ("--offset", self.offset_bytes),
            ("--length", self.length_bytes),
            ("--block-size", self.operation_bytes),
        ];
        for (name, bytes) in parts {
            if bytes % block_bytes != 0 {
                let (below, above) = (
                    bytes - bytes % block_bytes,
                    bytes.checked_next_multiple_of(block_bytes),
                );
                let above = above.map_or(String::new(), |above| format!(" or {above}"));
                return Err(Failure::usage(format!(
                    "{name} is {bytes} bytes, no multiple of the drive's block of {block_bytes} bytes"
                ))
                .hint(format!("{name} {below}{above}")));
            }
        }
        if self.operation_bytes == 0 || self.depth == 0 {
            return Err(Failure::usage(
                "the block size and the queue depth are at least 1",
            ));
        }
        let size_bytes = geometry.size_bytes();
        match self.offset_bytes.checked_add(self.length_bytes) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => {
                if self.offset_bytes > size_bytes {
                    return Err(Failure::usage(format!(
                        "--offset is {}, past the end of the drive, which has {size_bytes} bytes",
                        self.offset_bytes
                    ))
                    .hint(format!("an --offset below {size_bytes}")));
                }
                let hint = match size_bytes.saturating_sub(self.offset_bytes) {
                    0 => "a smaller --offset".to_owned(),
                    room => format!("--length {room}"),
                };
                let failure = Failure::usage(format!(
                    "{} bytes from byte {} on end past the drive, which has {size_bytes} bytes",
                    self.length_bytes, self.offset_bytes
                ));
                Err(failure.hint(hint))
            }
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes that were moved, from the first one on without a gap.
    pub bytes: u64,
    /// Requests that succeeded.
    pub requests: u64,
}

/// Where the data goes, or comes from.
pub enum End<'a> {
    /// A read: takes each piece in order.
    Sink(&'a mut dyn FnMut(&[u8]) -> Result<()>),
    /// A write: fills as much of the piece as there is; less than all of it at the end only.
    Source {
        /// Fills.
        fill: &'a mut dyn FnMut(&mut [u8]) -> Result<usize>,
        /// Whether each write completes only when it is durable.
        fua: bool,
    },
}

/// Buffers that [`transfer`] needs, in bytes.
pub fn buffer_bytes(operation_bytes: u64, depth: u16, max_transfer_bytes: usize) -> usize {
    let piece = (max_transfer_bytes as u64).min(operation_bytes).max(512);
    let piece = piece.next_multiple_of(4096);
    usize::try_from(piece.saturating_mul(u64::from(depth))).unwrap_or(usize::MAX)
}

struct Piece {
    tag: u32,
    offset_bytes: u64,
    len: usize,
    lent: Lent,
    result: Option<std::result::Result<(), block::Error>>,
}

/// Moves what `span` says. Nothing is in flight when it returns.
///
/// # Errors
/// The first failure by address, the stream's, or the user's wish to end. What was moved before it
/// is in the message.
pub fn transfer(
    device: &mut dyn Device,
    memory: &Memory,
    span: &Span,
    mut end: End<'_>,
    progress: &mut dyn FnMut(u64),
    cancel: &Cancel,
) -> Result<Moved> {
    let geometry = *device.geometry();
    span.check(&geometry)?;
    let max_bytes = geometry.max_transfer_bytes() as u64;
    let piece_bytes = usize::try_from(span.operation_bytes.min(max_bytes)).unwrap_or(usize::MAX);
    let depth = span.depth.min(geometry.queue_depth);
    let mut idle: Vec<Buffer> = Vec::new();
    for _ in 0..depth {
        idle.push(memory.allocate(piece_bytes)?);
    }
    let mut flight: VecDeque<Piece> = VecDeque::new();
    let mut run = Run {
        device,
        geometry,
        span,
        moved: Moved::default(),
        started_bytes: 0,
        next_tag: 0,
        source_is_empty: false,
        failure: None,
        remark: None,
    };
    loop {
        if cancel.is_set() && run.failure.is_none() {
            run.failure = Some(Failure::interrupted("interrupted"));
        }
        while run.failure.is_none() {
            let Some(buffer) = idle.pop() else { break };
            match run.start(buffer, &mut end) {
                Ok(piece) => flight.push_back(piece),
                Err(buffer) => {
                    idle.push(buffer);
                    break;
                }
            }
        }
        run.device.kick();
        while let Some(completion) = run.device.poll() {
            let piece = flight.iter_mut().find(|piece| piece.tag == completion.tag);
            if let Some(piece) = piece {
                if let Some(buffer) = completion.buffer {
                    // A piece of another buffer stays out; `into_whole` then reports the loss.
                    let _ = piece.lent.give_back(buffer);
                }
                piece.result = Some(completion.result);
            }
        }
        let mut emitted = false;
        while flight.front().is_some_and(|piece| piece.result.is_some()) {
            emitted = true;
            if let Some(piece) = flight.pop_front() {
                idle.extend(run.finish(piece, &mut end));
                progress(run.moved.bytes);
            }
        }
        if flight.is_empty() && (run.failure.is_some() || !run.has_more()) {
            break;
        }
        if !emitted {
            run.device.wait(WAIT_US);
        }
    }
    for buffer in idle {
        memory.give_back(buffer);
    }
    let moved = run.moved;
    match run.failure.or(run.remark) {
        None => Ok(moved),
        Some(failure) if failure.is_silent() => Err(failure),
        Some(failure) => Err(failure.and(format_args!("{} bytes were moved before", moved.bytes))),
    }
}

struct Run<'a> {
    device: &'a mut dyn Device,
    geometry: block::Geometry,
    span: &'a Span,
    moved: Moved,
    started_bytes: u64,
    next_tag: u32,
    source_is_empty: bool,
    failure: Option<Failure>,
    /// What is told once everything that was started has succeeded.
    remark: Option<Failure>,
}

impl Run<'_> {
    fn has_more(&self) -> bool {
        self.started_bytes < self.span.length_bytes && !self.source_is_empty
    }

    /// Starts the next piece in `buffer`, or gives the buffer back when there is none.
    fn start(
        &mut self,
        mut buffer: Buffer,
        end: &mut End<'_>,
    ) -> std::result::Result<Piece, Buffer> {
        if !self.has_more() {
            return Err(buffer);
        }
        // A piece ends with its operation, so that operations are split as few times as possible.
        let left = self.span.length_bytes - self.started_bytes;
        let in_operation =
            self.span.operation_bytes - self.started_bytes % self.span.operation_bytes;
        let mut len = (buffer.len() as u64).min(left).min(in_operation) as usize;
        let offset_bytes = self.span.offset_bytes + self.started_bytes;
        if let End::Source { fill, .. } = end {
            let filled = fill(buffer.get_mut(..len).unwrap_or_default());
            match filled {
                Ok(filled) => len = self.take_filled(filled, len),
                Err(failure) => {
                    self.failure = Some(failure);
                    return Err(buffer);
                }
            }
            if len == 0 {
                return Err(buffer);
            }
        }
        let mut lent = Lent::new(buffer);
        let lba = offset_bytes >> self.geometry.block_size_log2;
        let buffer = lent.lend(len);
        let operation = match end {
            End::Sink(_) => Operation::Read { lba, buffer },
            End::Source { fua, .. } => Operation::Write {
                lba,
                buffer,
                fua: *fua,
            },
        };
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.started_bytes += len as u64;
        let result = match self.device.submit(Request { tag, operation }) {
            Ok(()) => None,
            Err(refused) => {
                if let Some(buffer) = refused.request.operation.into_buffer() {
                    let _ = lent.give_back(buffer);
                }
                Some(Err(refused.error))
            }
        };
        Ok(Piece {
            tag,
            offset_bytes,
            len,
            lent,
            result,
        })
    }

    /// How much of what the source gave is written: whole blocks only.
    fn take_filled(&mut self, filled: usize, wanted: usize) -> usize {
        if filled == wanted {
            return wanted;
        }
        self.source_is_empty = true;
        let block_bytes = self.geometry.block_size_bytes();
        let rest = filled % block_bytes;
        if rest != 0 {
            self.remark = Some(
                Failure::usage(format!(
                    "the input's last {rest} bytes are no whole block of {block_bytes} bytes \
                     and were not written"
                ))
                .hint("--pad fills the last block with zeros"),
            );
        }
        filled - rest
    }

    /// Accounts for the oldest piece; gives its buffer back.
    fn finish(&mut self, piece: Piece, end: &mut End<'_>) -> Option<Buffer> {
        let buffer = piece.lent.into_whole().ok();
        let failed = |error| {
            let doing = match end {
                End::Sink(_) => "reading",
                End::Source { .. } => "writing",
            };
            let doing = format!("{doing} {} bytes at byte {}", piece.len, piece.offset_bytes);
            Failure::request(doing, error)
        };
        match piece.result {
            // After a failure nothing more is counted: there is a gap before it.
            _ if self.failure.is_some() => {}
            Some(Ok(())) => {
                self.moved.requests += 1;
                let taken = match (end, &buffer) {
                    (End::Sink(sink), Some(buffer)) => {
                        sink(buffer.get(..piece.len).unwrap_or_default())
                    }
                    _ => Ok(()),
                };
                match taken {
                    Ok(()) => self.moved.bytes += piece.len as u64,
                    Err(failure) => self.failure = Some(failure),
                }
            }
            Some(Err(error)) => self.failure = Some(failed(error)),
            None => self.failure = Some(failed(block::Error::Gone)),
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Completion, Geometry, RamDisk, Refused};
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
        let moved = transfer(
            device,
            &Memory::Host(memory.clone()),
            span,
            End::Sink(&mut |piece| {
                data.extend_from_slice(piece);
                Ok(())
            }),
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
        assert_eq!(failure.remedy(), Some("--length 1048064"));
        let odd = Span {
            offset_bytes: 700,
            ..SPAN
        };
        assert_eq!(
            odd.check(&geometry).unwrap_err().remedy(),
            Some("--offset 512 or 1024")
        );
    }
}
