// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checksums of data: CRC32C of each 64 KiB of a file, kept in checksum units of the file's own
//! map. `FORMAT.md`, "Checksums of data".
//!
//! The checksum of the last, partial chunk is in the slot, together with the size that it covers.
//! So a stored checksum never changes once it is committed.

use block::Device;

use crate::bytes::{get_u32, put_u32};
use crate::file::{self, File, OpenFile, WINDOW};
use crate::io::SPARE;
use crate::layout::{CHUNK_BYTES, SPAN_UNITS, Shape};
use crate::map::Extent;
use crate::slot::Slot;
use crate::steps::Step;
use crate::token::Loaded;
use crate::{Crc32c, Error, Volume};

impl OpenFile {
    /// Adds `bytes`, the next of the file, to the checksums. They take effect with `keep_sums`.
    /// Returns the number of checksums including the new ones, and the CRC of the last, partial
    /// chunk.
    pub(crate) fn sum(&mut self, mut bytes: &[u8], crc32c: Crc32c) -> Result<(u8, u32), Error> {
        let mut crc = self.appended_crc;
        let mut count = usize::from(self.sum_count);
        let mut within = self.appended % CHUNK_BYTES;
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min((CHUNK_BYTES - within) as usize));
            crc = crc32c(crc, now);
            within += now.len() as u64;
            bytes = rest;
            if within == CHUNK_BYTES {
                *self.sums.get_mut(count).ok_or(Error::NeedsCommit)? = crc;
                count += 1;
                (crc, within) = (0, 0);
            }
        }
        Ok((count as u8, crc))
    }
}

/// The location of a chunk's checksum: the file's unit, and the byte within the unit.
fn place(chunk: u64, shape: &Shape) -> (u64, u64) {
    let per_unit = shape.unit_bytes() / 4;
    (chunk / per_unit * (SPAN_UNITS + 1), chunk % per_unit * 4)
}

impl<D: Device> Volume<'_, D> {
    /// Writes the checksums of completed data that wait in memory. Their blocks also hold committed
    /// checksums, which are rewritten with the same bytes.
    pub(crate) async fn store_sums(
        &self,
        file: File,
        loaded: Loaded<'_>,
        header: &Slot,
    ) -> Result<(), Error> {
        let (first, count) = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            // Those of data in flight wait: if it fails, `rewind` takes them back.
            let whole = open.completed / CHUNK_BYTES;
            let count = whole.saturating_sub(open.first_sum);
            (open.first_sum, count.min(u64::from(open.sum_count)))
        };
        let mut chunk = first;
        while chunk < first + count {
            let (address, offset, len) = self.sum_block(loaded, header, chunk).await?;
            self.read_bytes(SPARE, address, len).await?;
            let room = ((len - offset) / 4) as u64;
            let end = (chunk + room).min(first + count);
            for (index, chunk) in (chunk..end).enumerate() {
                let mut state = self.state();
                let open = file::find(state.files, file)?;
                let sum = open.sums.get((chunk - first) as usize).copied();
                let bytes = state.node_mut(SPARE);
                put_u32(bytes, offset + index * 4, sum.unwrap_or(0));
            }
            self.state().changing = true;
            let write = Step::write(SPARE);
            self.move_bytes(write, address, len).await?;
            chunk = end;
        }
        let mut state = self.state();
        let open = file::find(state.files, file)?;
        // Appends may have added checksums in the meantime.
        let left = u64::from(open.sum_count).saturating_sub(count) as usize;
        for place in 0..left {
            let sum = open.sums.get(place + count as usize).copied();
            if let Some(place) = open.sums.get_mut(place) {
                *place = sum.unwrap_or(0);
            }
        }
        open.first_sum += count;
        open.sum_count = left as u8;
        Ok(())
    }

    /// Writes the checksums of completed appends without a commit: they take effect with the commit
    /// that covers their data. So a long append can continue without one.
    ///
    /// # Errors
    /// [`Error::NotOpen`], [`Error::NotWritable`], [`Error::Unsupported`] for a file without
    /// checksums, [`Error::Corrupt`], [`Error::NeedsMount`], a device's error.
    pub async fn store_checksums(&self, file: File) -> Result<(), Error> {
        let mut turn = self.turn_to_change().await?;
        let slot = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            match (open.writable, open.checksums) {
                (false, _) => return Err(Error::NotWritable),
                (true, false) => return Err(Error::Unsupported),
                (true, true) => open.slot.ok_or(Error::NotOpen)?,
            }
        };
        self.perform(|state| state.put_in_use()).await?;
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
        self.store_sums(file, loaded, &header).await?;
        turn.done();
        Ok(())
    }

    /// Compares `data`, read from `offset` on, with the stored checksums. `offset` is a multiple
    /// of 64 KiB; a last part that is neither a whole chunk nor reaches the file's end is not
    /// compared.
    ///
    /// # Errors
    /// [`Error::Rot`] names the first chunk that differs. [`Error::Unsupported`] for a file
    /// without checksums, [`Error::Unaligned`], [`Error::PastEnd`], [`Error::NotOpen`],
    /// [`Error::Corrupt`], a device's error.
    pub async fn verify(&self, file: File, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut turn = self.turn().await?;
        let (slot, checksums, size, tail_crc, crc32c) = {
            let mut state = self.state();
            let crc32c = state.crc32c;
            let open = file::find(state.files, file)?;
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.checksums,
                open.committed,
                open.committed_crc,
                crc32c,
            )
        };
        if !checksums {
            return Err(Error::Unsupported);
        }
        if offset % CHUNK_BYTES != 0 {
            return Err(Error::Unaligned);
        }
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(Error::PastEnd)?;
        if offset > size {
            return Err(Error::PastEnd);
        }
        let data = data
            .get(..(end.min(size) - offset) as usize)
            .unwrap_or_default();
        let mut header = Slot::EMPTY;
        let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
        let mut block: Option<(u64, u64, usize)> = None;
        for (index, bytes) in data.chunks(CHUNK_BYTES as usize).enumerate() {
            let at = offset + index as u64 * CHUNK_BYTES;
            let chunk = at / CHUNK_BYTES;
            let stored = if bytes.len() as u64 == CHUNK_BYTES {
                // The block that was read last usually has this checksum too.
                let (first, from, len) = match block {
                    Some(known)
                        if ((chunk - known.0) as usize) < (known.2 - known.1 as usize) / 4 =>
                    {
                        known
                    }
                    _ => {
                        let (address, offset, len) = self.sum_block(loaded, &header, chunk).await?;
                        self.read_bytes(SPARE, address, len).await?;
                        (chunk, offset as u64, len)
                    }
                };
                block = Some((first, from, len));
                let field = from as usize + (chunk - first) as usize * 4;
                get_u32(self.state().node(SPARE), field)
            } else if at + bytes.len() as u64 == size {
                tail_crc
            } else {
                break;
            };
            if crc32c(0, bytes) != stored {
                let chunk = u32::try_from(chunk).unwrap_or(u32::MAX);
                return Err(Error::Rot { chunk });
            }
        }
        turn.done();
        Ok(())
    }

    /// Reads the stored checksums from chunk `first` on (a chunk is 64 KiB of the file), as many as
    /// are in one block of the device and fit into `sums`; returns how many. With them a reader
    /// compares what it reads itself, with one metadata read for many chunks. The last, partial
    /// chunk of the file has a checksum too; past it there are none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a file without checksums, [`Error::NotOpen`],
    /// [`Error::Corrupt`], a device's error.
    pub async fn checksums(
        &self,
        file: File,
        first: u64,
        sums: &mut [u32],
    ) -> Result<usize, Error> {
        let mut turn = self.turn().await?;
        let (slot, has_checksums, size, tail_crc) = {
            let mut state = self.state();
            let open = file::find(state.files, file)?;
            (
                open.slot.ok_or(Error::NotOpen)?,
                open.checksums,
                open.committed,
                open.committed_crc,
            )
        };
        if !has_checksums {
            return Err(Error::Unsupported);
        }
        let whole = size / CHUNK_BYTES;
        let tail = size % CHUNK_BYTES != 0 && first == whole;
        let mut count = 0;
        if first < whole {
            let mut header = Slot::EMPTY;
            let loaded = self.load_slot(turn.slot.lend(), slot, &mut header).await?;
            let (address, offset, len) = self.sum_block(loaded, &header, first).await?;
            self.read_bytes(SPARE, address, len).await?;
            let state = self.state();
            let bytes = state.node(SPARE);
            let fields = (offset..len).step_by(4).take((whole - first) as usize);
            for (field, place) in fields.zip(sums.iter_mut()) {
                *place = get_u32(bytes, field);
                count += 1;
            }
        } else if let Some(place) = sums.first_mut().filter(|_| tail) {
            *place = tail_crc;
            count = 1;
        }
        turn.done();
        Ok(count)
    }

    /// The device block with the checksum of `chunk`: its address, the checksum's offset in it,
    /// and its length.
    async fn sum_block(
        &self,
        loaded: Loaded<'_>,
        header: &Slot,
        chunk: u64,
    ) -> Result<(u64, usize, usize), Error> {
        let shape = self.shape();
        let (unit, byte) = place(chunk, &shape);
        let mut window = [Extent::default(); WINDOW];
        self.window(loaded, header, unit, &mut window).await?;
        let [extent, ..] = window;
        let address = shape.unit_address(extent.start + (unit - extent.logical)) + byte;
        let len = self.state().device.geometry().block_size_bytes();
        let within = address & (len as u64 - 1);
        Ok((address - within, within as usize, len))
    }
}
