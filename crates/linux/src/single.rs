// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code of the paths of depth 1: the state of their one request, and errors of system calls.
//!
//! A request waits here until `kick` or `poll` runs it; its completion waits until `poll` takes it.

use block::{Completion, Geometry, Refused, Request};
use rustix::io::Errno;

/// The one request of a synchronous path, before or after its system call.
#[derive(Debug, Default)]
pub(crate) struct Single {
    waiting: Option<Request>,
    done: Option<Completion>,
}

impl Single {
    /// Accepts a request that `geometry` allows, if there is no other.
    pub(crate) fn submit(&mut self, geometry: &Geometry, request: Request) -> Result<(), Refused> {
        if let Err(error) = geometry.check(&request.operation) {
            return Err(Refused { error, request });
        }
        if self.outstanding() > 0 {
            let error = block::Error::QueueFull;
            return Err(Refused { error, request });
        }
        self.waiting = Some(request);
        Ok(())
    }

    /// The request to run now.
    pub(crate) fn start(&mut self) -> Option<Request> {
        self.waiting.take()
    }

    pub(crate) fn finish(&mut self, completion: Completion) {
        self.done = Some(completion);
    }

    pub(crate) fn poll(&mut self) -> Option<Completion> {
        self.done.take()
    }

    pub(crate) fn outstanding(&self) -> usize {
        usize::from(self.waiting.is_some()) + usize::from(self.done.is_some())
    }
}

pub(crate) fn os_error(error: Errno) -> block::Error {
    errno_error(error.raw_os_error())
}

pub(crate) fn io_error(error: std::io::Error) -> block::Error {
    errno_error(error.raw_os_error().unwrap_or(libc::EIO))
}

/// The error of a request that failed with `errno`.
pub(crate) fn errno_error(errno: i32) -> block::Error {
    match errno {
        libc::EOPNOTSUPP => block::Error::Unsupported,
        libc::ENODEV | libc::ENXIO => block::Error::Gone,
        errno => block::Error::Os { errno },
    }
}
