//! A file of a volume as a block device: its blocks are the file's, wherever they are.

use block::{Completion, Device, Error, Geometry, Operation, Refused, Request, Tag};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use volume::layout::CHUNK_BYTES;
use volume::{Direction, Event, File, Progress, Transfer, Volume, blocking};

/// The longest request; it may take several commands of the drive.
const MAX_TRANSFER_BYTES: u64 = 2 << 20;

type Work<'v> = Pin<Box<dyn Future<Output = Result<(), volume::Error>> + 'v>>;

/// A file of a mounted volume as a [`Device`]. It has whole blocks: past the file's end the last
/// one reads as zeroes.
///
/// A write changes data in place, so it is offered for files that were opened to write and have no
/// checksums; the file's size does not change. Data of a file with checksums is verified by a device
/// that was made by [`verifying`](FileDevice::verifying), which reports EBADMSG where it differs.
///
/// An error of the volume that is not the drive's becomes the nearest one of [`block::Error`]:
/// damaged metadata is the operating system's EIO.
pub struct FileDevice<'v, 'a, D: Device> {
    volume: &'v Volume<'a, D>,
    file: File,
    size_bytes: u64,
    /// The checksum of each chunk, if they are verified.
    sums: Option<Vec<u32>>,
    geometry: Geometry,
    flight: VecDeque<(Tag, Transfer)>,
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
        let status = volume.file_status(file)?;
        let size_bytes = status.completed_bytes;
        let mut geometry = volume.geometry();
        if size_bytes == 0 {
            return Err(volume::Error::PastEnd);
        }
        if writable && status.checksums {
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
            geometry,
            flight: VecDeque::new(),
            flushes: VecDeque::new(),
            done: VecDeque::new(),
            work: None,
            is_flush: false,
            next_tag: 0,
        })
    }

    /// The same of a file with checksums, to read: its blocks are the chunks of 64 KiB that have one, and
    /// each is compared when it is read. All checksums are loaded here: 4 bytes of memory for a chunk.
    ///
    /// # Errors
    /// As of [`new`](Self::new); [`volume::Error::Unsupported`] for a file without checksums; those of
    /// reading them.
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

    /// Compares what was read at `offset` with its checksums.
    fn compare(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let Some(sums) = &self.sums else {
            return Ok(());
        };
        let first = usize::try_from(offset / CHUNK_BYTES).unwrap_or(usize::MAX);
        let expected = sums.get(first..).unwrap_or_default();
        let chunks = data.chunks(CHUNK_BYTES as usize);
        let mut both = chunks.zip(expected);
        match both.all(|(chunk, &sum)| crc32c::crc32c(chunk) == sum) {
            true => Ok(()),
            false => Err(Error::Os {
                errno: libc::EBADMSG,
            }),
        }
    }

    /// The file's size in bytes.
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn take_back(&mut self, event: Event) {
        let mut flight = self.flight.iter_mut();
        let found = flight.find(|(_, transfer)| transfer.tag() == event.tag);
        debug_assert!(found.is_some(), "an event of another user of the volume");
        if let Some((_, transfer)) = found {
            transfer.take_back(event);
        }
    }

    fn submit(&mut self) {
        while self.work.is_none() {
            let mut flight = self.flight.iter_mut();
            let waiting = flight
                .find(|(_, transfer)| !transfer.is_submitted() && transfer.failure().is_none());
            let Some((_, transfer)) = waiting else {
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

    /// Polls the work that is under way; begins a flush if there is none.
    fn work(&mut self) {
        if self.work.is_none() && !self.flushes.is_empty() {
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
            for (_, transfer) in &mut self.flight {
                if !transfer.is_submitted() {
                    transfer.fail(error);
                }
            }
        }
    }

    fn collect(&mut self) {
        for _ in 0..self.flight.len() {
            let Some((tag, transfer)) = self.flight.pop_front() else {
                break;
            };
            if !transfer.is_over() {
                self.flight.push_back((tag, transfer));
                continue;
            }
            let (is_read, offset) = (transfer.direction() == Direction::Read, transfer.offset());
            let (mut buffer, result) = transfer.end();
            let mut result = result.map_err(device_error);
            let kept =
                usize::try_from(self.size_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
            if let (true, Ok(()), Some(data)) = (is_read, &result, buffer.as_deref()) {
                result = self.compare(offset, &data[..kept.min(data.len())]);
            }
            if let Some(padding) = buffer
                .as_deref_mut()
                .and_then(|buffer| buffer.get_mut(kept..))
            {
                if is_read {
                    padding.fill(0);
                }
            }
            self.done.push_back(Completion {
                tag,
                buffer,
                result,
            });
        }
    }
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
        // A last chunk may be longer than the file's last block of the device.
        let block = self.volume.geometry().block_size_bytes() as u64;
        let left = self
            .size_bytes
            .saturating_sub(offset)
            .next_multiple_of(block);
        let len = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let transfer = Transfer::new(self.file, direction, offset, buffer, len, self.next_tag);
        self.next_tag = self.next_tag.wrapping_add(1);
        self.flight.push_back((tag, transfer));
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
            self.work();
            self.submit();
            self.volume.kick();
            self.collect();
        }
        self.done.pop_front()
    }

    fn outstanding(&self) -> usize {
        self.flight.len() + self.flushes.len() + self.done.len()
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
