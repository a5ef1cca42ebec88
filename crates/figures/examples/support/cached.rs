// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory as a drive with a write cache, so that flushes are needed and counted.

use block::{Completion, Device, Geometry, RamDisk, Refused, Request};

/// The longest transfer: the same as the lab's drives.
const TRANSFER_BYTES: u32 = 512 << 10;

/// Memory with a write cache.
pub struct Cached {
    disk: RamDisk<Vec<u8>, 32>,
    geometry: Geometry,
}

impl Cached {
    /// `size_bytes` of zeroes, in blocks of 2 to the power of `block_size_log2` bytes.
    pub fn new(size_bytes: u64, block_size_log2: u8) -> Result<Self, Box<dyn std::error::Error>> {
        let size_bytes = usize::try_from(size_bytes)?;
        let disk = RamDisk::new(vec![0; size_bytes], block_size_log2)?;
        let mut geometry = *disk.geometry();
        geometry.features.volatile_write_cache = true;
        geometry.max_transfer_blocks = TRANSFER_BYTES >> block_size_log2;
        Ok(Self { disk, geometry })
    }
}

impl Device for Cached {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        self.disk.submit(request)
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.disk.wait(timeout_us);
    }
}
