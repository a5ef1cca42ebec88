// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Block devices that fail on purpose, for tests of everything above `block`.
//!
//! * [`Medium`]: what survives a power cut. A sparse image, cloned at no cost, with a hash.
//! * [`CrashDisk`]: a drive with a volatile write cache over a medium, that can lose its power at
//!   any command, and then lists the images that the cut may have left ([`Images`]).
//! * [`Faulty`]: a wrapper that injects errors and lost, misdirected and stale transfers.
//! * [`Orders`]: a wrapper that checks that flushes separate writes according to rules.
//! * [`Counting`]: a wrapper that counts commands.
//! * [`Budget`]: a limit for the search of a test.
//!
//! Each has a handle that shares its state, so that a test can look inside while a volume owns
//! the device. All work with requests in flight, complete each accepted request once, and give
//! each buffer back.
//!
//! ```
//! use block::{blocking, Buffer};
//! use crash::{Config, CrashDisk, Cut, Medium, Sampling};
//!
//! // Two blocks are written with no flush between; the power is cut during the second write.
//! let disk = CrashDisk::new(Medium::new(9, 64).unwrap(), Config::default());
//! disk.stop_after(2, Cut::During);
//! let mut device = disk.clone();
//! let mut buffer = Buffer::from_static(Box::leak(vec![7; 512].into_boxed_slice()));
//! for lba in 0..2 {
//!     buffer = blocking::write(&mut device, lba, buffer, false).buffer;
//! }
//! assert!(disk.is_off());
//! let sampling = Sampling { tears: 1, ..Sampling::default() };
//! let images: Vec<_> = disk.images(&sampling).collect();
//! assert_eq!(images.len(), 3 * 3); // each block lost, written or torn
//! let mut again = images[0].open(Config::default()); // to be mounted
//! assert_eq!(blocking::read(&mut again, 0, buffer).result, Ok(()));
//! ```
#![forbid(unsafe_code)]

mod budget;
mod command;
mod config;
mod content;
mod counting;
mod counts;
mod disk;
mod faulty;
mod images;
mod medium;
mod order_rules;
mod orders;
mod pending;
mod plan;
mod tags;
mod tear;
mod tree;

#[cfg(test)]
mod testing;

pub use budget::{BUDGET_VARIABLE, Budget, CELLS_VARIABLE, is_taken};
pub use command::{Command, CommandKind};
pub use config::{Completions, Config, Discarded};
pub use counting::{Counter, Counting};
pub use counts::{Counts, Tally};
pub use disk::{CrashDisk, Cut, Logged};
pub use faulty::Faulty;
pub use images::{Image, Images, Sampling};
pub use medium::Medium;
pub use order_rules::{Broken, OrderRules, Pair, Violation};
pub use orders::{OrderLog, Orders};
pub use pending::Pending;
pub use plan::{Fault, Faults, Fired, On, Rule};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, ignoring poison: a test that panicked while it held the lock left the state consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
