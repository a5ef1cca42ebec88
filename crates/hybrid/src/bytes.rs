// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranges of bytes on a device of blocks.

use block::{Buffer, Device, Error, blocking};

/// A partial block of a sequence of writes, kept until it is complete.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    lba: u64,
    /// The bytes of it that were written; none if both are equal.
    from: usize,
    to: usize,
}

/// A device that is read and written at any byte, by calls that return when the device is done.
///
/// Whole blocks are copied to or from a bounce buffer, as many as it holds at a time; what is
/// longer than the border of a [`Hybrid`](crate::Hybrid) below then goes straight to the device. A
/// partial block at an edge is kept until the rest of it is written, so that a sequence of short
/// writes reads nothing; otherwise it is read, changed and written. [`flush`](Bytes::flush) makes
/// all of it durable.
#[derive(Debug)]
pub struct Bytes<D> {
    device: D,
    /// Its first block is the partial one, the rest is for transfers. `None` only if the device did
    /// not return it.
    partial_buffer: Option<Buffer>,
    bounce: Option<Buffer>,
    partial: Partial,
}

impl<D: Device> Bytes<D> {
    /// `memory` is reachable for the device and aligned for it: a block for partial writes, the
    /// rest for transfers.
    ///
    /// # Errors
    /// [`Error::Unaligned`] with everything that was given, if `memory` is not at least two whole
    /// blocks or not aligned.
    #[allow(clippy::result_large_err)]
    pub fn new(device: D, memory: Buffer) -> Result<Self, (Error, D, Buffer)> {
        let geometry = device.geometry();
        let block = geometry.block_size_bytes();
        let align = geometry.buffer_align_bytes as usize;
        let is_aligned = memory.address() % align == 0 && (memory.address() + block) % align == 0;
        if memory.len() < 2 * block || memory.len() % block != 0 || !is_aligned {
            return Err((Error::Unaligned, device, memory));
        }
        let (partial_buffer, bounce) = memory.split_at(block);
        Ok(Self {
            device,
            partial_buffer: Some(partial_buffer),
            bounce: Some(bounce),
            partial: Partial::default(),
        })
    }

    /// The device below. What it shows lacks a partial block that is still kept.
    pub const fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// Fills `data` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] before anything is read; the device's error.
    pub fn read_at(&mut self, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        self.check(offset, data.len())?;
        let size = self.device.geometry().block_size_log2;
        if self.is_kept_within(offset, data.len()) {
            self.end_partial()?;
        }
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (lba, skip) = (at >> size, (at & ((1 << size) - 1)) as usize);
            let len = self.transfer(lba, skip + rest.len(), None)?;
            let (part, after) = rest.split_at_mut((len - skip).min(rest.len()));
            let bounce = self.bounce.as_deref().unwrap_or_default();
            part.copy_from_slice(bounce.get(skip..skip + part.len()).ok_or(Error::Gone)?);
            at += part.len() as u64;
            rest = after;
        }
        Ok(())
    }

    /// Writes `data` from `offset` on. A partial block at its end may stay in memory until the rest
    /// of it is written, another place is written, it is read, or [`flush`](Bytes::flush) is
    /// called.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] before anything is written; the device's error. A partial block that
    /// could not be written is kept.
    pub fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.check(offset, data.len())?;
        if self.device.geometry().features.read_only {
            return Err(Error::ReadOnly);
        }
        let size = self.device.geometry().block_size_log2;
        let block = 1usize << size;
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let (lba, skip) = (at >> size, (at & (block as u64 - 1)) as usize);
            let len = if skip != 0 || rest.len() < block {
                let len = rest.len().min(block - skip);
                self.put_partial(lba, skip, rest.get(..len).unwrap_or_default())?;
                len
            } else {
                if self.partial.to > self.partial.from && self.is_kept_within(at, rest.len()) {
                    // All of it is about to be overwritten, if this write succeeds; it may not.
                    self.end_partial()?;
                }
                let whole = rest.len() / block * block;
                self.transfer(lba, whole, Some(rest))?
            };
            at += len as u64;
            rest = rest.get(len..).unwrap_or_default();
        }
        Ok(())
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// The device's error; a partial block that could not be written is kept, so flush again.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.end_partial()?;
        blocking::flush(&mut self.device)
    }

    /// The device, after a [`flush`](Bytes::flush).
    ///
    /// # Errors
    /// Gives itself back while a partial block is kept.
    #[allow(clippy::result_large_err)]
    pub fn into_device(self) -> Result<D, Self> {
        if self.partial.to > self.partial.from {
            Err(self)
        } else {
            Ok(self.device)
        }
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), Error> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.device.geometry().size_bytes() => Ok(()),
            _ => Err(Error::OutOfRange),
        }
    }

    /// Whether a partial block is kept of this range.
    fn is_kept_within(&self, offset: u64, len: usize) -> bool {
        let size = self.device.geometry().block_size_log2;
        let first = offset >> size;
        let last = (offset + (len as u64).max(1) - 1) >> size;
        self.partial.to > self.partial.from && (first..=last).contains(&self.partial.lba)
    }

    /// Adds to the partial block that is kept, or begins another one.
    fn put_partial(&mut self, lba: u64, skip: usize, data: &[u8]) -> Result<(), Error> {
        let kept = self.partial;
        let touches = kept.to > kept.from
            && kept.lba == lba
            && skip <= kept.to
            && kept.from <= skip + data.len();
        if !touches {
            self.end_partial()?;
            self.partial = Partial {
                lba,
                from: skip,
                to: skip,
            };
        }
        let buffer = self.partial_buffer.as_mut().ok_or(Error::Gone)?;
        let place = buffer.get_mut(skip..skip + data.len()).ok_or(Error::Gone)?;
        place.copy_from_slice(data);
        self.partial.from = self.partial.from.min(skip);
        self.partial.to = self.partial.to.max(skip + data.len());
        if self.partial.from == 0 && self.partial.to == buffer.len() {
            self.end_partial()
        } else {
            Ok(())
        }
    }

    /// Writes the partial block that is kept: what is missing of it is read.
    fn end_partial(&mut self) -> Result<(), Error> {
        let Partial { lba, from, to } = self.partial;
        if from == to {
            return Ok(());
        }
        let block = self.device.geometry().block_size_bytes();
        if (from, to) != (0, block) {
            self.transfer(lba, block, None)?;
            let buffer = self.partial_buffer.as_mut().ok_or(Error::Gone)?;
            let bounce = self.bounce.as_deref().unwrap_or_default();
            for part in [0..from, to..block] {
                let stored = bounce.get(part.clone()).ok_or(Error::Gone)?;
                buffer
                    .get_mut(part)
                    .ok_or(Error::Gone)?
                    .copy_from_slice(stored);
            }
            // The whole block is known now, should the write fail.
            (self.partial.from, self.partial.to) = (0, block);
        }
        let buffer = self.partial_buffer.take().ok_or(Error::Gone)?;
        let written = blocking::write(&mut self.device, lba, buffer, false);
        self.partial_buffer = Some(written.buffer);
        written.result?;
        self.partial = Partial::default();
        Ok(())
    }

    /// Moves whole blocks from `lba` on, at most `len` bytes rounded up and what the bounce buffer
    /// holds; to the device if there is `data`. The length moved.
    fn transfer(&mut self, lba: u64, len: usize, data: Option<&[u8]>) -> Result<usize, Error> {
        let bounce = self.bounce.take().ok_or(Error::Gone)?;
        let block = self.device.geometry().block_size_bytes();
        let len = len.next_multiple_of(block).min(bounce.len());
        let mut lent = block::Lent::new(bounce);
        let mut piece = lent.lend(len);
        let outcome = match data.and_then(|data| data.get(..len)) {
            Some(data) => {
                piece.copy_from_slice(data);
                blocking::write(&mut self.device, lba, piece, false)
            }
            None => blocking::read(&mut self.device, lba, piece),
        };
        let _ = lent.give_back(outcome.buffer);
        self.bounce = lent.into_whole().ok();
        outcome.result.map(|()| len)
    }
}
