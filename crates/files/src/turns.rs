// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting among operations that are polled in turn by one thread.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

/// Waits until `ready` has something. Every operation is polled in each pass of the service, so
/// no one is woken.
pub async fn wait_for<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    poll_fn(|_| ready().map_or(Poll::Pending, Poll::Ready)).await
}

/// Lets the others, and the device, have a turn.
pub async fn pass() {
    let mut has_passed = false;
    wait_for(|| std::mem::replace(&mut has_passed, true).then_some(())).await;
}

/// Lets one operation in at a time.
#[derive(Debug, Default)]
pub struct Gate(Cell<bool>);

/// The right to be inside.
#[derive(Debug)]
pub struct Inside<'a>(&'a Gate);

impl Gate {
    /// Waits until no other operation is inside.
    pub async fn enter(&self) -> Inside<'_> {
        wait_for(|| (!self.0.replace(true)).then_some(())).await;
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.set(false);
    }
}
