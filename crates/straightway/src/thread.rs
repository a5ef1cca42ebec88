// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of the library, each with a device of its own.

use super::Error;
use std::thread::{Builder, JoinHandle};

/// A thread, and what it will return.
pub struct Thread<T> {
    handle: JoinHandle<Result<T, Error>>,
    /// The process that has it.
    process: u32,
}

impl<T> Thread<T> {
    /// # Errors
    /// This is a child of the process that has it, where it never does anything.
    pub fn check(&self) -> Result<(), Error> {
        if self.process == std::process::id() {
            Ok(())
        } else {
            Err(Error::usage("it belongs to the process before the fork").hint("use it there"))
        }
    }
}

/// Begins a thread.
///
/// # Errors
/// The system has none.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<Thread<T>, Error> {
    let process = std::process::id();
    let handle = Builder::new().name(name.to_owned()).spawn(body);
    let handle = handle.map_err(|error| Error::other(format!("starting a thread: {error}")))?;
    Ok(Thread { handle, process })
}

/// Its result, when it has ended.
///
/// # Errors
/// Its own; or this is a child of the process that has it, which would never see its end.
pub fn joined<T>(thread: Thread<T>) -> Result<T, Error> {
    if let Err(error) = thread.check() {
        // There is nothing to wait for or to free.
        std::mem::forget(thread.handle);
        return Err(error);
    }
    let panicked = |_| Err(Error::other("a thread of the library panicked"));
    thread.handle.join().unwrap_or_else(panicked)
}
