// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations of one loop: their offsets, and the [`Flight`] that submits them.

use crate::access::{Access, Offsets};
use crate::flight::Flight;
use crate::path::Region;
use crate::tally::{CellError, Tally};
use block::{Buffer, Device, Geometry};

/// Operations of one kind over a span of a device, at most one in flight for each buffer.
#[derive(Debug)]
pub struct Operations {
    pub(crate) access: Access,
    pub(crate) flight: Flight,
    offsets: Offsets,
    first_lba: u64,
    /// Blocks of the device in an operation.
    lba_step: u64,
}

impl Operations {
    /// Operations at `offsets` of `region`, with `buffers`.
    ///
    /// # Errors
    /// The block size or the span does not fit the device; the buffers are returned.
    pub fn new(
        access: Access,
        offsets: Offsets,
        span_bytes: u64,
        region: Region,
        geometry: &Geometry,
        buffers: Vec<Buffer>,
    ) -> Result<Self, (CellError, Vec<Buffer>)> {
        if let Err(error) = check(access, span_bytes, region, geometry, &buffers) {
            return Err((error, buffers));
        }
        Ok(Self {
            access,
            flight: Flight::new(access.operation, buffers),
            offsets,
            first_lba: region.first_lba,
            lba_step: 0,
        })
    }

    /// Sets whether writes are durable when they complete.
    #[must_use]
    pub fn durable(mut self, durable: bool) -> Self {
        self.flight.durable = durable;
        self
    }

    /// The buffers that the device returned.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.flight.into_buffers()
    }

    /// Prepares for a device of this geometry; returns whether each operation becomes one request.
    pub(crate) fn prepare(&mut self, geometry: &Geometry) -> bool {
        self.lba_step = self.access.block_size_bytes >> geometry.block_size_log2;
        self.flight.prepare(geometry);
        self.flight.is_whole()
    }

    /// Begins the next operation, like [`Flight::begin`].
    #[inline]
    pub(crate) fn begin<const WHOLE: bool>(
        &mut self,
        device: &mut dyn Device,
        note: u64,
        tally: &mut Tally,
    ) -> bool {
        let lba = self.first_lba + self.offsets.next_index() * self.lba_step;
        self.flight.begin::<WHOLE>(device, lba, note, tally)
    }
}

/// Whether the access fits the device and the buffers.
fn check(
    access: Access,
    span_bytes: u64,
    region: Region,
    geometry: &Geometry,
    buffers: &[Buffer],
) -> Result<(), CellError> {
    let block_size_bytes = access.block_size_bytes;
    let device_bytes = geometry.block_size_bytes();
    if block_size_bytes == 0 || block_size_bytes % device_bytes as u64 != 0 {
        return Err(CellError::Unaligned {
            block_size_bytes,
            device_bytes,
        });
    }
    let room = geometry.block_count.saturating_sub(region.first_lba);
    let region_bytes = region
        .block_count
        .min(room)
        .saturating_mul(device_bytes as u64);
    if region_bytes < span_bytes || span_bytes < block_size_bytes {
        return Err(CellError::RegionTooSmall {
            region_bytes,
            span_bytes: span_bytes.max(block_size_bytes),
        });
    }
    for buffer in buffers {
        let len_bytes = buffer.len();
        if len_bytes as u64 != block_size_bytes {
            return Err(CellError::BufferLength {
                len_bytes,
                block_size_bytes,
            });
        }
    }
    Ok(())
}
