// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VFIO's request for the device: it is being unplugged, removed or unbound, and the kernel waits.
//!
//! The process that wants the device hangs until every descriptor is closed, so a request must be
//! noticed whatever the I/O path is doing. A thread sleeps on the eventfd and sets a flag, which
//! costs the I/O path an occasional load.

use crate::sys::vfio as sys;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

#[derive(Debug)]
pub(crate) struct Recall {
    shared: Arc<Shared>,
    /// `None` where the kernel makes no such requests.
    watcher: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    event: Option<OwnedFd>,
    requested: AtomicBool,
    ended: AtomicBool,
}

impl Recall {
    /// Watches for requests for `device`; if that is not possible, none are reported.
    pub(crate) fn watch(device: impl AsFd) -> Self {
        let event = eventfd(0, EventfdFlags::CLOEXEC).ok().filter(|event| {
            let attached = sys::set_eventfds(device, sys::IRQ_REQUEST, 0, &[event.as_raw_fd()]);
            matches!(attached, Ok(0))
        });
        Self::on(event)
    }

    fn on(event: Option<OwnedFd>) -> Self {
        let is_watched = event.is_some();
        let shared = Arc::new(Shared {
            event,
            requested: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        });
        let watched = Arc::clone(&shared);
        let watch = move || watched.wait();
        let name = thread::Builder::new().name("straightway-recall".into());
        let watcher = if is_watched {
            name.spawn(watch).ok()
        } else {
            None
        };
        Self { shared, watcher }
    }

    /// Whether the kernel wants the device back.
    pub(crate) fn is_requested(&self) -> bool {
        self.shared.requested.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn wait(&self) {
        let mut count = [0; 8];
        while let Some(event) = &self.event {
            match rustix::io::read(event, &mut count) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
        if !self.ended.load(Ordering::Acquire) {
            self.requested.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        let Some(watcher) = self.watcher.take() else {
            return;
        };
        self.shared.ended.store(true, Ordering::Release);
        if let Some(event) = &self.shared.event {
            // Writing to a fresh eventfd does not block; it ends the watcher.
            if rustix::io::write(event, &1u64.to_ne_bytes()).is_ok() {
                let _ = watcher.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_seen_and_an_end_is_none() {
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let kernel = event.try_clone().unwrap();
        let recall = Recall::on(Some(event));
        assert!(!recall.is_requested());
        rustix::io::write(&kernel, &1u64.to_ne_bytes()).unwrap();
        while !recall.is_requested() {
            thread::yield_now();
        }
        drop(recall);
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let recall = Recall::on(Some(event));
        let shared = Arc::clone(&recall.shared);
        drop(recall);
        assert!(!shared.requested.load(Ordering::Relaxed));
        assert!(!Recall::on(None).is_requested());
    }
}
