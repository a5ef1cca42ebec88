// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The drive's queue, with what the board knows better than the drive. A separate crate, because
//! the code on the path of every command is built for speed here and everything else for size.
#![no_std]

use block::{Buffer, Completion, Device, Error, Geometry, Operation, Refused, Request};
use nvme::{Controller, NamespaceInfo, QueuePair, queue_memory_bytes};

use hardware::machine::{self, Platform};

/// Commands in the drive's queue.
pub const DEPTH: usize = 16;
/// The longest transfer of one command.
pub const MAX_TRANSFER_BYTES: usize = 128 << 10;
/// The controller's page.
pub const PAGE_BYTES: usize = 4096;
/// The memory that the queue needs, in bytes.
pub const MEMORY_BYTES: usize = queue_memory_bytes(DEPTH, MAX_TRANSFER_BYTES, PAGE_BYTES);

type Queue<'c> = QueuePair<Platform, &'c Controller<Platform>, DEPTH>;

/// The drive that is served.
#[derive(Debug)]
pub struct Drive<'c> {
    queue: Queue<'c>,
    geometry: Geometry,
}

impl<'c> Drive<'c> {
    /// Makes the queue in `memory`. `ignores_fua`: force unit access is unreliable.
    ///
    /// # Errors
    /// Those of the controller.
    #[inline(never)]
    pub fn new(
        controller: &'c Controller<Platform>,
        namespace: &NamespaceInfo,
        memory: Buffer,
        ignores_fua: bool,
    ) -> Result<Self, nvme::Error> {
        // Not `map_err`: that would copy the queue once more.
        match Queue::create(controller, namespace, memory, MAX_TRANSFER_BYTES) {
            Ok(queue) => {
                let mut geometry = *queue.geometry();
                geometry.features.fua &= !ignores_fua;
                Ok(Self { queue, geometry })
            }
            Err(failed) => Err(failed.error),
        }
    }
}

impl Device for Drive<'_> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline(never)]
    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let asks = matches!(
            request.operation,
            Operation::Write { fua: true, .. } | Operation::WriteZeroes { fua: true, .. }
        );
        if asks && !self.geometry.features.fua {
            let error = Error::Unsupported;
            return Err(Refused { error, request });
        }
        self.queue.submit(request)
    }

    #[inline(never)]
    fn kick(&mut self) {
        self.queue.kick();
    }

    #[inline(never)]
    fn poll(&mut self) -> Option<Completion> {
        self.queue.poll()
    }

    #[inline(never)]
    fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    /// A blocking loop of the volume passes here: that counts as progress, and the driver's
    /// deadlines end it.
    fn wait(&mut self, _timeout_us: u32) {
        machine::progress();
    }
}
