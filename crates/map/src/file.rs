// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file of a volume as a block device: its blocks are the file's, wherever they are.

use crate::grow::{FileSize, Growth};
use block::{Buffer, Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use volume::layout::CHUNK_BYTES;
use volume::{DataEvent, Direction, File, Progress, Transfer, Volume, blocking};

/// The longest request; it may take several commands of the drive.
const MAX_TRANSFER_BYTES: u64 = 2 << 20;

/// A request under way.
struct Flight {
    tag: Tag,
    transfer: Transfer,
    /// Bytes of its buffer that the file has.
    kept_bytes: usize,
}

type Work<'v> = Pin<Box<dyn Future<Output = Result<(), volume::Error>> + 'v>>;

/// A file of a mounted volume as a [`Device`]. It has whole blocks: past the file's end the last
/// one reads as zeroes.
///
/// A write changes data in place, so it is offered for files that were opened to write and have no
/// checksums; the file's size does not change, unless the device was made by
/// [`growing`](FileDevice::growing). Data of a file with checksums is verified by a device
/// that was made by [`verifying`](FileDevice::verifying), which reports EBADMSG where it differs.
///
/// An error of the volume that is not the drive's becomes the nearest one of [`block::Error`]:
/// damaged metadata is the operating system's EIO.
pub struct FileDevice<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    file: File,
    /// Bytes of the file that were written; past them it reads as zeroes.
    size_bytes: u64,
    /// The checksum of each chunk, if they are verified.
    sums: Option<Vec<u32>>,
    growth: Option<Growth>,
    geometry: Geometry,
    flight: VecDeque<Flight>,
    flushes: VecDeque<Tag>,
    done: VecDeque<Completion>,
    /// Metadata that a transfer waits for, or the first flush.
    work: Option<Work<'v>>,
    is_flush: bool,
    next_tag: u16,
}

impl<'v, 'a, D: Device> FileDevice<'v, 'a, D> {
    /// `file` as it is now; `writable` if it was opened to write and shall be changed. Nothing else
    /// may use the volume while the device has requests outstanding.
    ///
    /// # Errors
    /// The file is not open, or is empty ([`volume::Error::PastEnd`]); or it has checksums and
    /// cannot be changed in place ([`volume::Error::Unsupported`]).
    pub fn new(
        volume: &'v Volume<'a, D>,
        file: File,
        writable: bool,
    ) -> Result<Self, volume::Error> {
        let size_bytes = volume.file_status(file)?.completed_bytes;
        Self::of_size(volume, file, writable, size_bytes)
    }

    fn of_size(
        volume: &'v Volume<'a, D>,
        file: File,
        writable: bool,
        size_bytes: u64,
    ) -> Result<Self, volume::Error> {
        let mut geometry = volume.geometry();
        if size_bytes == 0 {
            return Err(volume::Error::PastEnd);
        }
        if writable && volume.file_status(file)?.checksums {
            return Err(volume::Error::Unsupported);
        }
        geometry.block_count = size_bytes.div_ceil(geometry.block_size_bytes() as u64);
        let most = MAX_TRANSFER_BYTES >> geometry.block_size_log2;
        geometry.max_transfer_blocks = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        geometry.features.read_only = !writable;
        geometry.features.fua = false;
        geometry.features.discard = false;
        geometry.features.write_zeroes = false;
        Ok(Self {
            volume,
            file,
            size_bytes,
            sums: None,
            growth: None,
            geometry,
            flight: VecDeque::new(),
            flushes: VecDeque::new(),
            done: VecDeque::new(),
            work: None,
            is_flush: false,
            next_tag: 0,
        })
    }

    /// The same of a file with checksums, to read: its blocks are the chunks of 64 KiB that have
    /// one, and each is compared when it is read. All checksums are loaded here: 4 bytes of memory
    /// for a chunk.
    ///
    /// # Errors
    /// As of [`new`](Self::new); [`volume::Error::Unsupported`] for a file without checksums; those
    /// of reading them.
    pub fn verifying(volume: &'v Volume<'a, D>, file: File) -> Result<Self, volume::Error> {
        let mut device = Self::new(volume, file, false)?;
        let chunks = device.size_bytes.div_ceil(CHUNK_BYTES);
        let mut sums = Vec::new();
        while (sums.len() as u64) < chunks {
            let mut some = [0; 1024];
            let first = sums.len() as u64;
            let count = blocking::run(volume, volume.checksums(file, first, &mut some))?;
            if count == 0 {
                return Err(volume::Error::Unsupported);
            }
            sums.extend_from_slice(&some[..count]);
        }
        device.sums = Some(sums);
        device.geometry.block_size_log2 = CHUNK_BYTES.trailing_zeros() as u8;
        device.geometry.block_count = chunks;
        device.geometry.max_transfer_blocks = (MAX_TRANSFER_BYTES / CHUNK_BYTES) as u32;
        Ok(device)
    }

    /// The same of a file that grows, up to `capacity_bytes`: the space is reserved here, so that a
    /// store that was made can be written. Past the file's end it reads as zeroes; what is stored
    /// there is part of the file from the first flush after [`FileSize::grow_to`] was called for
    /// it. `spare`, of at least a block, takes what is appended. The file may be empty.
    ///
    /// # Errors
    /// As of [`new`](Self::new); [`volume::Error::PastEnd`] if the capacity is less than the file's
    /// size or the buffer shorter than a block; [`volume::Error::NoSpace`]; those of reading and
    /// writing the file's last block.
    pub fn growing(
        volume: &'v Volume<'a, D>,
        file: File,
        capacity_bytes: u64,
        spare: Buffer,
    ) -> Result<(Self, FileSize), volume::Error> {
        let mut device = Self::of_size(volume, file, true, capacity_bytes)?;
        let growth = Growth::new(volume, file, capacity_bytes, spare)?;
        let size = growth.size().clone();
        device.size_bytes = growth.written_bytes();
        device.growth = Some(growth);
        Ok((device, size))
    }

    /// Compares what was read at `offset` with its checksums.
    fn compare(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let Some(sums) = &self.sums else {
            return Ok(());
        };
        let first = usize::try_from(offset / CHUNK_BYTES).unwrap_or(usize::MAX);
        let expected = sums.get(first..).unwrap_or_default();
        let chunks = data.chunks(CHUNK_BYTES as usize);
        let mut both = chunks.zip(expected);
        if both.all(|(chunk, &sum)| crc32c::crc32c(chunk) == sum) {
            Ok(())
        } else {
            Err(Error::Os {
                errno: libc::EBADMSG,
            })
        }
    }

    /// The file's size in bytes; of one that grows, the bytes that were written.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn take_back(&mut self, event: DataEvent) {
        let found = transfers(&mut self.flight, &mut self.growth)
            .find(|transfer| transfer.tag() == event.tag);
        debug_assert!(found.is_some(), "an event of another user of the volume");
        if let Some(transfer) = found {
            transfer.take_back(event);
        }
    }

    /// Goes on with what is appended.
    fn grow(&mut self) {
        let Some(growth) = &mut self.growth else {
            return;
        };
        let flushes = !self.flushes.is_empty();
        let is_flushing = self.is_flush && self.work.is_some();
        let grown = growth.go_on(self.volume, self.file, flushes, self.next_tag);
        self.next_tag = self.next_tag.wrapping_add(1);
        self.size_bytes = grown.written_bytes;
        let is_short = growth.size().get() > grown.written_bytes;
        if let (Some(error), true) = (grown.failure, is_short) {
            for tag in self.flushes.drain(usize::from(is_flushing)..) {
                let (buffer, result) = (None, Err(device_error(error)));
                self.done.push_back(Completion {
                    tag,
                    buffer,
                    result,
                });
            }
        }
        for (tag, buffer, result) in grown.done {
            let (buffer, result) = (Some(buffer), result.map_err(device_error));
            self.done.push_back(Completion {
                tag,
                buffer,
                result,
            });
        }
        for (tag, offset, buffer) in grown.overwrites {
            self.begin(tag, Direction::Overwrite, offset, buffer);
        }
    }

    fn submit(&mut self) {
        while self.work.is_none() {
            let waiting = transfers(&mut self.flight, &mut self.growth)
                .find(|transfer| !transfer.is_submitted() && transfer.failure().is_none());
            let Some(transfer) = waiting else {
                break;
            };
            match transfer.go_on(self.volume) {
                Progress::Done | Progress::Submitted => {}
                Progress::Blocked => break,
                Progress::Needs(need) => {
                    let (volume, file) = (self.volume, self.file);
                    self.work = Some(Box::pin(volume.provide(file, need)));
                    self.is_flush = false;
                }
            }
        }
    }

    /// Whether the file has all bytes that the next flush shall make part of it.
    fn is_long_enough(&self) -> bool {
        let Some(growth) = &self.growth else {
            return true;
        };
        growth.may_flush(self.volume, self.file)
    }

    /// Polls the work that is under way; begins a flush if there is none.
    fn work(&mut self) {
        if self.work.is_none() && !self.flushes.is_empty() && self.is_long_enough() {
            let (volume, file) = (self.volume, self.file);
            self.work = Some(Box::pin(async move { volume.sync(file).await.map(drop) }));
            self.is_flush = true;
        }
        let Some(work) = &mut self.work else {
            return;
        };
        let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        else {
            return;
        };
        self.work = None;
        if self.is_flush {
            if let Some(tag) = self.flushes.pop_front() {
                let result = result.map_err(device_error);
                self.done.push_back(Completion {
                    tag,
                    buffer: None,
                    result,
                });
            }
        } else if let Err(error) = result {
            // Without the map, none of the waiting transfers can continue.
            for transfer in transfers(&mut self.flight, &mut self.growth) {
                if !transfer.is_submitted() {
                    transfer.fail(error);
                }
            }
        }
    }

    fn collect(&mut self) {
        for _ in 0..self.flight.len() {
            let Some(flight) = self.flight.pop_front() else {
                break;
            };
            if !flight.transfer.is_over() {
                self.flight.push_back(flight);
                continue;
            }
            let (tag, kept) = (flight.tag, flight.kept_bytes);
            let (direction, offset) = (flight.transfer.direction(), flight.transfer.offset());
            let (mut buffer, result) = flight.transfer.end();
            let mut result = result.map_err(device_error);
            if let (Direction::Read, Some(data)) = (direction, buffer.as_deref_mut()) {
                let (data, padding) = data.split_at_mut(kept.min(data.len()));
                result = result.and_then(|()| self.compare(offset, data));
                padding.fill(0);
            }
            self.done.push_back(Completion {
                tag,
                buffer,
                result,
            });
        }
    }

    /// A transfer of `buffer` at `offset`, as far as the file has its bytes.
    fn begin(&mut self, tag: Tag, direction: Direction, offset: u64, buffer: Buffer) {
        let has = |end: u64| usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        // A last chunk may be longer than the file's last block of the device.
        let block = self.volume.geometry().block_size_bytes() as u64;
        let kept_bytes = has(self.size_bytes).min(buffer.len());
        let len = has(self.size_bytes.next_multiple_of(block)).min(buffer.len());
        let transfer = Transfer::new(self.file, direction, offset, buffer, len, self.next_tag);
        self.next_tag = self.next_tag.wrapping_add(1);
        self.flight.push_back(Flight {
            tag,
            transfer,
            kept_bytes,
        });
    }
}

/// What is moved: for the users of the device, and to grow the file.
fn transfers<'t>(
    flight: &'t mut VecDeque<Flight>,
    growth: &'t mut Option<Growth>,
) -> impl Iterator<Item = &'t mut Transfer> {
    let appending = growth.as_mut().and_then(Growth::appending);
    let flight = flight.iter_mut().map(|flight| &mut flight.transfer);
    flight.chain(appending)
}

impl<D: Device> Device for FileDevice<'_, '_, D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let refused = match self.geometry.check(&request.operation) {
            Err(error) => Some(error),
            Ok(()) if self.outstanding() >= usize::from(self.geometry.queue_depth) => {
                Some(Error::QueueFull)
            }
            Ok(()) => None,
        };
        if let Some(error) = refused {
            return Err(Refused { error, request });
        }
        let tag = request.tag;
        let (direction, lba, buffer) = match request.operation {
            Operation::Read { lba, buffer } => (Direction::Read, lba, buffer),
            Operation::Write {
                lba,
                buffer,
                fua: false,
            } => (Direction::Overwrite, lba, buffer),
            Operation::Flush if self.geometry.features.read_only => {
                let (buffer, result) = (None, Ok(()));
                self.done.push_back(Completion {
                    tag,
                    buffer,
                    result,
                });
                return Ok(());
            }
            Operation::Flush => {
                self.flushes.push_back(tag);
                return Ok(());
            }
            operation => {
                let request = Request { tag, operation };
                return Err(Refused {
                    error: Error::Unsupported,
                    request,
                });
            }
        };
        let offset = lba << self.geometry.block_size_log2;
        let end = offset.saturating_add(buffer.len() as u64);
        match &mut self.growth {
            Some(growth) if direction == Direction::Overwrite && end > self.size_bytes => {
                growth.wait(tag, offset, buffer);
            }
            _ => self.begin(tag, direction, offset, buffer),
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.submit();
        self.volume.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.done.is_empty() {
            while let Some(event) = self.volume.poll() {
                self.take_back(event);
            }
            self.grow();
            self.work();
            self.submit();
            self.volume.kick();
            self.collect();
        }
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        let waiting = self.growth.as_ref().map_or(0, Growth::waiting);
        self.flight.len() + self.flushes.len() + self.done.len() + waiting
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.volume.outstanding() > 0 {
            self.volume.wait(timeout_us);
        }
    }
}

impl<D: Device> fmt::Debug for FileDevice<'_, '_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileDevice")
            .field("file", &self.file)
            .field("size_bytes", &self.size_bytes)
            .field("outstanding", &self.outstanding())
            .finish_non_exhaustive()
    }
}

/// The nearest error of a device.
fn device_error(error: volume::Error) -> Error {
    match error {
        volume::Error::Device(error) => error.error(),
        volume::Error::PastEnd => Error::OutOfRange,
        volume::Error::NotWritable | volume::Error::ReadOnly => Error::ReadOnly,
        volume::Error::Unaligned => Error::Unaligned,
        volume::Error::Unsupported => Error::Unsupported,
        _ => Error::Os { errno: libc::EIO },
    }
}
