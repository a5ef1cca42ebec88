// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Named files on a raw block device: one format for software, firmware and hardware, safe at
//! every power cut. `FORMAT.md` has every byte and the argument for every ordering.
//!
//! ```
#![doc = include_str!("../examples/hello.rs")]
//! ```
//!
//! * A [`Volume`] owns its device from [`Volume::mount`] to [`Volume::unmount`] and works in
//!   caller-supplied memory: three nodes, and a table with an entry for each open file. It
//!   allocates nothing.
//! * Data goes straight between the caller's buffers and the device: [`Volume::append`],
//!   [`Volume::read`] and [`Volume::overwrite`] submit one device command each, and
//!   [`Volume::poll`] hands the buffers back. Inside what was reserved they read no metadata.
//! * Metadata operations are futures: they make progress when they are polled after
//!   [`Volume::poll`], and data keeps flowing in the meantime. [`blocking`] runs them to
//!   completion.
//! * A [`Transfer`] moves a buffer of any length without blocking, for callers with their own loop;
//!   [`Volume::provide`] supplies the metadata that it stops for.
//!
//! Nothing here panics, whatever the device contains.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

/// The block interface, for programs that need no second dependency.
pub use block;

mod bitmap;
pub mod blocking;
mod bytes;
mod check;
pub mod checksum;
mod close;
mod commit;
mod create;
mod create_list;
mod create_many;
mod data;
mod deepen;
mod discard;
mod doubt;
mod error;
mod file;
mod finding;
mod format;
mod grow;
mod io;
mod label;
pub mod layout;
mod list;
mod locate;
mod lookup;
mod map;
mod mount;
mod name;
mod names;
mod order;
mod pair;
mod provide;
mod recover;
mod release;
mod relocate;
mod remove;
#[cfg(feature = "grow")]
mod remove_many;
mod rename;
mod repair;
mod reserve;
mod resize;
mod run;
#[cfg(feature = "grow")]
mod shrink;
mod slot;
mod split;
mod steps;
mod sums;
mod superblock;
mod table;
mod token;
mod transfer;
mod unsettled;
mod walk;
mod wipe;

use core::cell::RefCell;

pub use checksum::Crc32c;
pub use create::CreateOptions;
pub use create_many::{Made, NewFile};
pub use data::{DataEvent, Refused};
pub use discard::Discarded;
pub use error::{Damage, Error, Node};
pub use file::{APPENDS_IN_FLIGHT, File, OpenFile};
pub use finding::{Finding, Summary};
pub use format::{FormatOptions, format};
pub use layout::Shape;
pub use list::{FileExtent, FileStatus, StoredFile, Usage, VolumeStatus};
pub use mount::{MountOptions, Unmounted};
pub use name::{NAME_BYTES, Name};
#[cfg(feature = "mutations")]
pub use order::{Mutation, Order};
pub use remove::Removed;
pub use transfer::{Direction, Need, Progress, Transfer};
pub use wipe::{Superblocks, find_superblocks, wipe};

/// A mounted volume.
#[derive(Debug)]
pub struct Volume<'a, D> {
    state: RefCell<io::State<'a, D>>,
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
