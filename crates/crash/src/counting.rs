// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrapper for any device that counts its commands.

use crate::command::Command;
use crate::counts::Counts;
use crate::lock;
use block::{Completion, Device, Geometry, Refused, Request};
use std::sync::{Arc, Mutex};

/// `D` with counters.
#[derive(Debug)]
pub struct Counting<D> {
    device: D,
    counter: Counter,
}

/// The counts of a [`Counting`] device. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    counts: Arc<Mutex<Counts>>,
}

impl Counter {
    /// The counts so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.counts)
    }

    /// The counts so far, which are reset to zero.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut *lock(&self.counts))
    }
}

impl<D: Device> Counting<D> {
    /// `device`, with all counts at zero.
    pub fn new(device: D) -> Self {
        Self {
            device,
            counter: Counter::default(),
        }
    }

    /// The handle to the counts.
    pub fn counter(&self) -> Counter {
        self.counter.clone()
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.device
    }

    /// Gives up the wrapper.
    pub fn into_inner(self) -> D {
        self.device
    }
}

impl<D: Device> Device for Counting<D> {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let block_size_log2 = self.device.geometry().block_size_log2;
        let command = Command::new(0, &request.operation, block_size_log2);
        self.device.submit(request)?;
        lock(&self.counter.counts).add(&command, block_size_log2);
        Ok(())
    }

    fn kick(&mut self) {
        self.device.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let completion = self.device.poll()?;
        if completion.result.is_err() {
            lock(&self.counter.counts).errors += 1;
        }
        Some(completion)
    }

    fn outstanding(&self) -> usize {
        self.device.outstanding()
    }

    fn wait(&mut self, timeout_us: u32) {
        self.device.wait(timeout_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::buffer;
    use crate::{Medium, Tally};
    use block::{Error, Operation, blocking};

    #[test]
    fn what_was_accepted_is_counted() {
        let disk = Medium::new(9, 64).unwrap().open(crate::Config::default());
        let mut device = Counting::new(disk.clone());
        let counter = device.counter();
        let _ = blocking::write(&mut device, 0, buffer(1024, 1), true);
        let _ = blocking::read(&mut device, 0, buffer(512, 0));
        let before = counter.counts();
        let refused = blocking::read(&mut device, 64, buffer(512, 0));
        assert_eq!(refused.result, Err(Error::OutOfRange));
        assert_eq!(counter.counts(), before);
        let discard = Operation::Discard {
            lba: 3,
            block_count: 5,
        };
        blocking::command(&mut device, discard).unwrap();
        blocking::flush(&mut device).unwrap();
        let after = counter.counts() - before;
        let discards = Tally {
            commands: 1,
            blocks: 5,
            bytes: 2560,
        };
        assert_eq!((after.discards, after.flushes, after.fua), (discards, 1, 0));
        assert_eq!(
            (before.writes.bytes, before.reads.bytes, before.fua),
            (1024, 512, 1)
        );
        disk.cut();
        assert_eq!(blocking::flush(&mut device), Err(Error::Gone));
        assert_eq!(
            (counter.take().errors, counter.counts()),
            (1, Counts::default())
        );
    }
}
