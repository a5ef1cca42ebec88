// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file by two paths: a request that is alone is a plain call, several at a time go through
//! io_uring.
//!
//! A ring takes two system calls and a wake-up for a request that nothing overlaps with; pread and
//! pwrite take one call. A request that is longer than the ring's longest is a call too: the kernel
//! splits it within the call, but would give it to a worker thread from a ring.

use crate::{Claim, Result, RingOptions, SyncFile, Uring};
use block::{Completion, Device, Geometry, Operation, Refused, Request};

/// A file or a block device with `O_DIRECT`, read and written by calls or through a ring.
#[derive(Debug)]
pub struct CallOrRing {
    ring: Uring,
    call: SyncFile,
    geometry: Geometry,
    /// Requests with this tag and above are never calls: their caller has other work to do.
    ring_tags: u32,
    /// What the ring refused after it had been accepted here.
    failed: Option<Completion>,
}

impl CallOrRing {
    /// Opens the claimed file twice. Requests whose tag is `ring_tags` or more always go through
    /// the ring; they are at most [`ring_transfer_bytes`](CallOrRing::ring_transfer_bytes) long.
    ///
    /// # Errors
    /// Those of [`Uring::open`] and [`SyncFile::open_direct`].
    pub fn open(claim: &Claim, options: &RingOptions, ring_tags: u32) -> Result<Self> {
        let options = RingOptions {
            one_command: true,
            ..options.clone()
        };
        let ring = Uring::open(claim, &options)?;
        let call = SyncFile::open_direct(claim)?;
        let geometry = Geometry {
            max_transfer_blocks: call.geometry().max_transfer_blocks,
            ..*ring.geometry()
        };
        Ok(Self {
            ring,
            call,
            geometry,
            ring_tags,
            failed: None,
        })
    }

    /// The longest transfer of the ring.
    pub fn ring_transfer_bytes(&self) -> usize {
        self.ring.geometry().max_transfer_bytes()
    }

    /// Whether the ring cannot take it.
    fn is_long(&self, request: &Request) -> bool {
        match &request.operation {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => {
                buffer.len() > self.ring_transfer_bytes()
            }
            _ => false,
        }
    }

    /// Passes a request that is not a call yet to the ring, because another one follows.
    fn release(&mut self) {
        let Some(request) = self.call.request.start() else {
            return;
        };
        if let Err(Refused { error, request }) = self.ring.submit(request) {
            self.failed = Some(Completion {
                tag: request.tag,
                buffer: request.operation.into_buffer(),
                result: Err(error),
            });
        }
    }
}

impl Device for CallOrRing {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        let outstanding = self.outstanding();
        if outstanding == 0 && request.tag < self.ring_tags {
            // A call at the kick, unless another request follows before it.
            return self.call.submit(request);
        }
        if outstanding >= usize::from(self.geometry.queue_depth) {
            let error = block::Error::QueueFull;
            return Err(Refused { error, request });
        }
        self.release();
        if self.is_long(&request) {
            self.call.submit(request)?;
            self.call.kick();
            return Ok(());
        }
        self.ring.submit(request)
    }

    fn kick(&mut self) {
        self.call.kick();
        self.ring.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        // A request that is not a call yet stays so until the kick.
        let done = self.call.request.poll().or_else(|| self.failed.take());
        done.or_else(|| self.ring.poll())
    }

    fn outstanding(&self) -> usize {
        let failed = usize::from(self.failed.is_some());
        failed + self.call.outstanding() + self.ring.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        if self.failed.is_none() && self.call.outstanding() == 0 && self.ring.outstanding() > 0 {
            self.ring.wait(timeout_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostMemory, Roots};

    #[test]
    fn one_request_is_a_call_and_several_are_a_ring_s_and_all_of_them_end() {
        let name = std::env::temp_dir().join(format!("straightway-call-{}", std::process::id()));
        std::fs::write(&name, vec![0; 1 << 20]).unwrap();
        let claim = Claim::to_write(&Roots::system(), &name).unwrap();
        let opened = CallOrRing::open(&claim, &RingOptions::default(), 1000);
        let Ok(mut device) = opened else {
            println!(
                "SKIPPED: no io_uring or O_DIRECT here: {}",
                opened.unwrap_err()
            );
            return;
        };
        let memory = HostMemory::new(1 << 20).unwrap();
        let submit = |device: &mut CallOrRing, tag: u32, lba, value| {
            let mut buffer = memory.allocate(4096).unwrap();
            buffer.fill(value);
            let fua = false;
            let operation = Operation::Write { lba, buffer, fua };
            device.submit(Request { tag, operation }).unwrap();
        };
        let end = |device: &mut CallOrRing, count| {
            device.kick();
            let mut tags = Vec::new();
            while tags.len() < count {
                match device.poll() {
                    Some(completion) => {
                        completion.result.unwrap();
                        memory.give_back(completion.buffer.unwrap()).unwrap();
                        tags.push(completion.tag);
                    }
                    None => device.wait(10_000),
                }
            }
            tags.sort_unstable();
            assert_eq!(device.outstanding(), 0);
            tags
        };
        submit(&mut device, 1, 0, 1);
        device.kick();
        assert_eq!(device.ring.outstanding(), 0);
        assert_eq!(end(&mut device, 1), [1]);
        for tag in 2..6 {
            submit(&mut device, tag, u64::from(tag) * 8, tag as u8);
        }
        assert_eq!(device.ring.outstanding(), 4);
        assert_eq!(end(&mut device, 4), [2, 3, 4, 5]);
        // What has other work to do, alone.
        submit(&mut device, 1000, 8, 9);
        assert_eq!(device.ring.outstanding(), 1);
        assert_eq!(end(&mut device, 1), [1000]);
        let stored = std::fs::read(&name).unwrap();
        std::fs::remove_file(&name).unwrap();
        assert_eq!(
            (stored[0], stored[4096], stored[2 * 4096], stored[5 * 4096]),
            (1, 9, 2, 5)
        );
    }
}
