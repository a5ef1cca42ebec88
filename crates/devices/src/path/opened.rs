// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open path, and what has the drive as long as it is open.

use super::borrow::Loan;
use super::gathered;
use super::handle::{ControllerHandle, Recall};
use super::held::Ends;
use super::memory::Memory;
use crate::error::{Error, Result};
use crate::guard::FunctionLock;
use block::Device;
use linux::SyncFile;
use linux::latency::Tolerance;
use paths::PathKind;
use std::sync::Arc;

/// An open path. Call `close`, which reports errors; dropping ignores them.
pub struct Opened {
    /// The device.
    pub device: Box<dyn Device>,
    /// Where its buffers come from.
    pub memory: Memory,
    /// A short description.
    pub name: String,
    /// How further threads open their devices, if a path has more than one.
    pub twin: Option<SyncFile>,
    /// The longest command of a path that gathers.
    pub(super) line_bytes: usize,
    /// Whether small sequential accesses are gathered: what is written must be flushed.
    pub(super) gathers: bool,
    /// Whether it was opened to write.
    pub(super) writes: bool,
    /// Dropped last, when the drive has been returned to its driver.
    pub(super) owner: Owner,
}

impl Opened {
    pub(super) fn new(kind: &PathKind, device: Box<dyn Device>, memory: Memory) -> Self {
        Self {
            device,
            memory,
            name: kind.name.to_owned(),
            twin: None,
            line_bytes: usize::MAX,
            gathers: kind.gathers,
            writes: false,
            owner: Owner::default(),
        }
    }

    /// The same path, with memory that aligns buffers as the device requires.
    #[must_use]
    pub fn aligned(self) -> Self {
        let align_bytes = self.device.geometry().buffer_align_bytes;
        Self {
            memory: self.memory.aligned_to(align_bytes),
            ..self
        }
    }

    /// The same path, with small sequential accesses gathered.
    ///
    /// # Errors
    /// There is not enough memory for the lines.
    pub fn gathered(self) -> Result<Self> {
        let device = gathered::wrap(self.device, &self.memory, self.line_bytes)?;
        Ok(Self {
            device,
            twin: None,
            gathers: true,
            ..self
        })
    }

    /// The serial number that the drive itself reports, if the path queried it.
    pub fn serial(&self) -> Option<String> {
        let of_handle = || self.owner.handle.as_ref().map(|handle| handle.serial());
        self.owner.serial.clone().or_else(of_handle)
    }

    /// The controller, if this process drives it.
    pub fn handle(&self) -> Option<&dyn ControllerHandle> {
        self.owner.handle.as_deref()
    }

    /// The device, and a watch that reports whether the machine recalls the drive.
    pub fn parts(&mut self) -> (&mut (dyn Device + 'static), Recall<'_>) {
        (
            self.device.as_mut(),
            Recall::of(self.owner.handle.as_deref()),
        )
    }

    /// Closes the path after a transfer, whose error is reported before one of closing.
    ///
    /// # Errors
    /// The error of the transfer or of closing.
    pub fn close_after<T>(self, result: Result<T>) -> Result<T> {
        match (result, self.close()) {
            (Err(failure), Err(other)) => Err(failure.and(other)),
            (Err(failure), Ok(())) | (Ok(_), Err(failure)) => Err(failure),
            (Ok(value), Ok(())) => Ok(value),
        }
    }

    /// Closes the path and returns the drive to its driver.
    ///
    /// # Errors
    /// Gathered data could not be written, or the drive could not be returned to its driver.
    pub fn close(mut self) -> Result<()> {
        // The end of the process would lose it.
        let flushed = if self.gathers && self.writes {
            block::blocking::flush(self.device.as_mut())
                .map_err(|error| Error::request("writing gathered data", error))
        } else {
            Ok(())
        };
        drop(self.device);
        match (flushed, self.owner.end()) {
            (Err(failure), Err(other)) => Err(failure.and(other)),
            (flushed, closed) => flushed.and(closed),
        }
    }
}

/// What has the drive while a path is open, and gives it back.
#[derive(Default)]
pub(super) struct Owner {
    /// The controller, if this process drives it.
    pub handle: Option<Box<dyn ControllerHandle>>,
    /// The drive's loan, if its driver was changed and there is no handle; the device holds it too.
    pub loan: Option<Arc<Loan>>,
    /// The kernel's limit of what power states delay a command by, if it was changed.
    pub tolerance: Option<Tolerance>,
    /// The drive's serial number, if the path knows it without a handle.
    pub serial: Option<String>,
    /// Held longer than the loan, until this is dropped.
    pub lock: Option<FunctionLock>,
}

impl Owner {
    /// Returns the drive to its driver, and the machine's settings to what they were.
    fn end(&mut self) -> Result<()> {
        let closed = self.loan.take().end();
        let closed = closed.and_then(|()| match self.handle.take() {
            Some(handle) => handle.close(),
            None => Ok(()),
        });
        let restored = self.tolerance.take().map_or(Ok(()), Tolerance::release);
        closed.and(restored.map_err(Error::from))
    }
}
