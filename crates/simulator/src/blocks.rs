// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A user of blocks: requests in flight, in a small range, so that they meet.

use crate::content;
use crate::machine::Machine;
use crate::run::{Next, Steps};
use crate::script::{Step, Verb};
use crate::setup::Stack;
use crate::trace::What;
use block::{Buffer, Completion, Device, Error, Operation, Request};

/// Blocks that are used.
const BLOCKS: u64 = 96;
const BLOCK_BYTES: usize = 512;
/// The longest request, and the longest to a target: several PDUs of data.
const MOST_BLOCKS: u64 = 8;
const MOST_REMOTE_BLOCKS: u64 = 48;

/// What one user does between opening and closing the device.
pub struct Session<'m, D> {
    device: D,
    machine: &'m mut Machine,
    tag: u32,
    outstanding: usize,
    failed: bool,
    is_gone: bool,
}

impl<'m, D: Device> Session<'m, D> {
    /// Begins.
    pub fn new(device: D, machine: &'m mut Machine) -> Self {
        Self {
            device,
            machine,
            tag: 0,
            outstanding: 0,
            failed: false,
            is_gone: false,
        }
    }

    /// Does the steps until the device must be opened again.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn run(&mut self, steps: &mut Steps<'_>) -> Result<Next, String> {
        while let Some(step) = steps.next(self.machine) {
            match step.verb {
                Verb::Reopen => break,
                // The process ends with requests in flight.
                Verb::Kill => return Ok(Next::Again),
                Verb::Wait => self.wait_for(0)?,
                Verb::Stall => self.machine.stall(&step),
                Verb::Idle => {
                    let idle_us = 10_000 * u64::from(step.numbers[0]);
                    let end =
                        self.machine.world.now_us() + idle_us.min(self.machine.most_idle_us());
                    while self.machine.world.now_us() < end {
                        self.take()?;
                        let left = end - self.machine.world.now_us().min(end);
                        self.machine.world.sleep(left.min(100_000));
                    }
                }
                _ => {
                    if let Some(operation) = self.operation(&step)? {
                        self.submit(operation)?;
                    }
                }
            }
            if self.failed && self.machine.power.is_off() || self.is_gone || self.machine.is_dark()
            {
                break;
            }
        }
        self.wait_for(0)?;
        if self.machine.is_dark() {
            self.machine.kill(true);
        }
        Ok(Next::Again)
    }

    fn operation(&mut self, step: &Step) -> Result<Option<Operation>, String> {
        let geometry = *self.device.geometry();
        let blocks = BLOCKS.min(geometry.block_count);
        let [a, b, c] = step.numbers.map(u64::from);
        let lba = a % blocks;
        let most = if self.machine.setup.stack == Stack::Remote {
            MOST_REMOTE_BLOCKS
        } else {
            MOST_BLOCKS
        };
        let count = (1 + b % most).min(blocks - lba);
        let fua = c % 4 == 0 && geometry.features.fua;
        Ok(Some(match step.verb {
            Verb::Write => {
                let mut buffer = self.buffer(count)?;
                let version = self.machine.world.trace(|trace| trace.steps());
                content::fill(&mut buffer, version, lba * BLOCK_BYTES as u64);
                Operation::Write { lba, buffer, fua }
            }
            Verb::Read => Operation::Read {
                lba,
                buffer: self.buffer(count)?,
            },
            Verb::Flush => Operation::Flush,
            Verb::Zero if geometry.features.write_zeroes => Operation::WriteZeroes {
                lba,
                block_count: count as u32,
                fua,
            },
            Verb::Discard if geometry.features.discard => Operation::Discard {
                lba,
                block_count: count as u32,
            },
            _ => return Ok(None),
        }))
    }

    fn buffer(&self, blocks: u64) -> Result<Buffer, String> {
        let buffer = self.machine.memory.allocate(blocks as usize * BLOCK_BYTES);
        buffer.map_err(|error| error.to_string())
    }

    fn submit(&mut self, operation: Operation) -> Result<(), String> {
        self.tag += 1;
        let mut request = Request {
            tag: self.tag,
            operation,
        };
        loop {
            match self.device.submit(request) {
                Ok(()) => break,
                Err(_) if self.machine.is_dark() => return Ok(()),
                Err(refused) if refused.error == Error::QueueFull => {
                    request = refused.request;
                    let most = self.outstanding.saturating_sub(1);
                    self.device.kick();
                    self.wait_for(most)?;
                }
                Err(refused) => {
                    if let Some(buffer) = refused.request.operation.into_buffer() {
                        let _ = self.machine.memory.give_back(buffer);
                    }
                    return self.has_failed(refused.error);
                }
            }
        }
        self.outstanding += 1;
        self.device.kick();
        self.take()
    }

    /// Takes what has completed.
    fn take(&mut self) -> Result<(), String> {
        self.machine.world.work(1);
        while let Some(completion) = self.poll() {
            self.outstanding -= 1;
            if let Some(buffer) = completion.buffer {
                let _ = self.machine.memory.give_back(buffer);
            }
            if let Err(error) = completion.result {
                self.has_failed(error)?;
            }
        }
        let violation = self.machine.violation();
        violation.map_or(Ok(()), Err)
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.machine.is_dark() {
            return None;
        }
        self.device.poll()
    }

    fn wait_for(&mut self, most: usize) -> Result<(), String> {
        loop {
            self.take()?;
            if self.outstanding <= most || self.machine.is_dark() {
                return Ok(());
            }
            self.sleep(100_000);
            self.machine.testimony.check_bounds();
        }
    }

    /// Sleeps until something may have completed.
    fn sleep(&mut self, most_us: u32) {
        let before = self.machine.world.now_us();
        self.device.wait(most_us);
        if self.machine.world.now_us() == before {
            // A device with nothing to wait for returns at once.
            self.machine.world.sleep(u64::from(most_us));
        }
    }

    fn has_failed(&mut self, error: Error) -> Result<(), String> {
        self.machine.world.note(What::Refused, 0, 0);
        self.failed = true;
        // A target that was given up: its device is opened again.
        self.is_gone |= self.machine.setup.stack == Stack::Remote && error == Error::Gone;
        if self.machine.tolerates_failures() {
            Ok(())
        } else {
            Err(format!("a request failed without a fault: {error}"))
        }
    }

    /// Reads everything, with no faults; a mirror's members become equal.
    ///
    /// # Errors
    /// A promise was broken.
    pub fn audit(&mut self) -> Result<(), String> {
        let blocks = BLOCKS.min(self.device.geometry().block_count);
        for _ in 0..2 {
            let mut lba = 0;
            while lba < blocks {
                let count = MOST_BLOCKS.min(blocks - lba);
                let buffer = self.buffer(count)?;
                self.submit(Operation::Read { lba, buffer })?;
                lba += count;
            }
            self.submit(Operation::Flush)?;
            self.wait_for(0)?;
        }
        let end = self.machine.world.now_us() + 60_000_000;
        while self.machine.has_mirror() && !self.machine.is_equal() {
            self.take()?;
            self.sleep(1_000);
            if self.machine.world.now_us() > end {
                return Err("the mirror's members have not become equal in 60 s".to_owned());
            }
        }
        Ok(())
    }
}
