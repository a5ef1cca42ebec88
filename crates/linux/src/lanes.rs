// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two io_urings as one: requests that a polled ring cannot handle go through a second, ordinary
//! ring.
//!
//! These are all requests without data (flush, discard, write zeroes), and each transfer that the
//! kernel would have to split: it refuses to wait for the second part of a polled one, retries, and
//! never finishes (seen on Linux 6.1, `bio_set_polled` implies `REQ_NOWAIT`).

use crate::sys::ring::{Encode, Ring, Setup};
use block::{Completion, Error, Geometry, Operation, Refused, Request};
use std::io;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Lanes<E: Encode> {
    geometry: Geometry,
    main: Ring<E>,
    side: Option<Ring<E>>,
    /// A transfer that crosses a multiple of this is split.
    chunk_bytes: u64,
}

impl<E: Encode + Clone> Lanes<E> {
    /// The rings for a device of `geometry`, with the depth of the setup.
    pub(crate) fn new(
        encode: E,
        geometry: Geometry,
        setup: &Setup,
        chunk_bytes: u64,
    ) -> io::Result<Self> {
        let side = if setup.poll {
            let ordinary = Setup {
                poll: false,
                memory: None,
                ..setup.clone()
            };
            Some(Ring::new(encode.clone(), &ordinary)?)
        } else {
            None
        };
        Ok(Self {
            geometry: Geometry {
                queue_depth: setup.depth,
                ..geometry
            },
            main: Ring::new(encode, setup)?,
            side,
            chunk_bytes: chunk_bytes.max(1),
        })
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    pub(crate) fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        if self.outstanding() >= usize::from(self.geometry.queue_depth) {
            let error = Error::QueueFull;
            return Err(Refused { error, request });
        }
        match &mut self.side {
            Some(side) if !is_one_command(&request.operation, &self.geometry, self.chunk_bytes) => {
                side.start(request)
            }
            _ => self.main.start(request),
        }
    }

    #[inline]
    pub(crate) fn kick(&mut self) {
        self.main.kick();
        if let Some(side) = &mut self.side {
            side.kick();
        }
    }

    #[inline]
    pub(crate) fn poll(&mut self) -> Option<Completion> {
        match self.main.poll() {
            Some(completion) => Some(completion),
            None => self.side.as_mut()?.poll(),
        }
    }

    #[inline]
    pub(crate) fn outstanding(&self) -> usize {
        self.main.outstanding() + self.side.as_ref().map_or(0, Ring::outstanding)
    }

    pub(crate) fn wait(&mut self, timeout_us: u32) {
        let timeout = Duration::from_micros(u64::from(timeout_us));
        match &mut self.side {
            None => self.main.wait(timeout),
            // A transfer on the polled ring must not wait for a flush.
            Some(side) if self.main.outstanding() == 0 => side.wait(timeout),
            Some(_) => std::hint::spin_loop(),
        }
    }

    /// The ring's, unless there are two, or it is polled.
    pub(crate) fn completion_file(&self) -> Option<i32> {
        self.side
            .is_none()
            .then(|| self.main.completion_file())
            .flatten()
    }
}

/// Whether a transfer lies within one chunk; its length was checked. False for requests without
/// data.
fn is_one_command(operation: &Operation, geometry: &Geometry, chunk_bytes: u64) -> bool {
    let (lba, len) = match operation {
        Operation::Read { lba, buffer } | Operation::Write { lba, buffer, .. } => {
            (*lba, buffer.len() as u64)
        }
        _ => return false,
    };
    let first = lba << geometry.block_size_log2;
    first / chunk_bytes == (first + (len - 1)) / chunk_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Buffer, Features};

    #[test]
    fn a_polled_transfer_stays_within_a_chunk() {
        let geometry = Geometry {
            block_size_log2: 9,
            block_count: 1 << 20,
            max_transfer_blocks: 64,
            queue_depth: 1,
            buffer_align_bytes: 1,
            features: Features::default(),
        };
        let one = |lba, blocks: usize, chunk_bytes| {
            let memory = Box::leak(vec![0; blocks * 512].into_boxed_slice());
            let buffer = Buffer::from_static(memory);
            is_one_command(&Operation::Read { lba, buffer }, &geometry, chunk_bytes)
        };
        assert!(one(0, 8, 4096) && one(7, 1, 4096) && one(8, 1, 4096));
        assert!(!one(7, 2, 4096) && !one(0, 9, 4096));
        assert!(one(7, 64, u64::MAX));
        assert!(!is_one_command(&Operation::Flush, &geometry, u64::MAX));
    }
}
