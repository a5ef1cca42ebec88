// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers for the operations under way.

use block::Buffer;
use devices::error::Result;
use devices::path::memory::Memory;
use files::turns::wait_for;
use std::cell::RefCell;
use workload::LONGEST;

/// The length and number of buffers of each kind: most operations are short.
const KINDS: [(usize, usize); 2] = [(64 << 10, 64), (LONGEST as usize, 4)];

/// Memory for all buffers.
pub const POOL_BYTES: u64 = 64 * (64 << 10) + 4 * LONGEST;

/// The buffers that no operation has, shorter ones first.
#[derive(Debug)]
pub struct Pool([RefCell<Vec<Buffer>>; 2]);

impl Pool {
    /// # Errors
    /// There is no memory for the buffers.
    pub fn new(memory: &Memory) -> Result<Self> {
        let this = Self([RefCell::default(), RefCell::default()]);
        for (buffers, (bytes, count)) in this.0.iter().zip(KINDS) {
            for _ in 0..count {
                let mut buffer = match memory.allocate(bytes) {
                    Ok(buffer) => buffer,
                    Err(failure) => {
                        this.give_back(memory);
                        return Err(failure);
                    }
                };
                for (index, byte) in buffer.iter_mut().enumerate() {
                    *byte = ((index * 31) >> 3) as u8;
                }
                buffers.borrow_mut().push(buffer);
            }
        }
        Ok(this)
    }

    /// A buffer of at least `bytes`, which are at most [`LONGEST`], when one is free.
    pub async fn take(&self, bytes: usize) -> Buffer {
        let kinds = self.0.iter().zip(KINDS);
        let fit: Vec<_> = kinds.filter(|(_, (len, _))| *len >= bytes).collect();
        wait_for(|| {
            let mut free = fit.iter().map(|(buffers, _)| buffers);
            free.find_map(|buffers| buffers.borrow_mut().pop())
        })
        .await
    }

    pub fn put(&self, buffer: Buffer) {
        for (buffers, (len, _)) in self.0.iter().zip(KINDS) {
            if buffer.len() == len {
                buffers.borrow_mut().push(buffer);
                return;
            }
        }
    }

    /// Frees all buffers.
    pub fn give_back(self, memory: &Memory) {
        for buffers in self.0 {
            for buffer in buffers.into_inner() {
                memory.give_back(buffer);
            }
        }
    }
}
