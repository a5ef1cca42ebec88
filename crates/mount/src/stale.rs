// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of the kernel's cache that a write past the cache has made stale.
//!
//! A file that is open to read and write bypasses the page cache, because only then the kernel
//! refuses to map it shared and writable: it would take stores that a volume cannot. Readers of the
//! same file keep the cache, so the last page that they have must go before such a write is
//! answered; Linux does that by itself only in newer versions.

use super::tree::Number;
use super::view::inode;
use fuser::Notifier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A write past the cache that the volume has accepted.
struct Written {
    number: Number,
    offset: u64,
    answer: Box<dyn FnOnce() + Send>,
}

/// Where accepted writes are sent, before the kernel gets their answers.
#[derive(Clone)]
pub struct Stale(Sender<Written>);

/// The other end.
pub struct StaleWrites(Receiver<Written>);

/// The two ends of a queue.
pub fn queue() -> (Stale, StaleWrites) {
    let (sender, receiver) = channel();
    (Stale(sender), StaleWrites(receiver))
}

impl Stale {
    /// Drops what the kernel has of a file from a byte on, and calls `answer`.
    pub fn drop_from(&self, number: Number, offset: u64, answer: Box<dyn FnOnce() + Send>) {
        let written = Written {
            number,
            offset,
            answer,
        };
        // Without the thread the session has ended, and no one waits.
        drop(self.0.send(written));
    }
}

impl StaleWrites {
    /// Serves the queue until its senders have been dropped. The kernel may wait here for a read
    /// that is under way, so this is a thread that answers none.
    pub fn serve(self, notifier: Notifier) {
        thread::spawn(move || {
            for written in self.0 {
                let offset = i64::try_from(written.offset).unwrap_or(0);
                // No length is all that follows. It fails if the kernel knows nothing of the file.
                let _ = notifier.inval_inode(inode(written.number), offset, 0);
                (written.answer)();
            }
        });
    }
}
