//! The threads of the library, each with a device of its own.

use super::Error;
use std::thread::{Builder, JoinHandle};

/// A thread, and what it will return.
pub type Thread<T> = JoinHandle<Result<T, Error>>;

/// Begins a thread.
///
/// # Errors
/// The system has none.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<Thread<T>, Error> {
    let thread = Builder::new().name(name.to_owned()).spawn(body);
    thread.map_err(|error| Error::other(format!("starting a thread: {error}")))
}

/// Its result, when it has ended.
///
/// # Errors
/// Its own.
pub fn joined<T>(thread: Thread<T>) -> Result<T, Error> {
    let panicked = |_| Err(Error::other("a thread of the library panicked"));
    thread.join().unwrap_or_else(panicked)
}
