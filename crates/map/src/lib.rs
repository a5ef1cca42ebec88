// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A range of a block device, or a file of a volume, as memory: an application loads and stores,
//! and the device is read and written behind it, by the kernel's userfaultfd.
//!
//! ```text
//!  a thread touches a page --> the kernel stops it --> Userfault (sys): a fault
//!                                                          |
//!        it continues <- the page has its content <-- Pager: Pages decides, the device reads
//! ```
//!
//! | module | contents |
//! | --- | --- |
//! | `map` | [`map()`], [`Map`] for the users, [`Server`] for the thread with the device |
//! | `local` | [`map_local()`], [`LocalMap`]: a map whose own thread serves it |
//! | `pager` | the loop: faults, reads, writes, syncs; never waits inside |
//! | `numbers` | hashing of page numbers |
//! | `pages` | the states of pages, and which one loses its memory |
//! | `hold` | pages that have just come keep their memory for a while |
//! | `share` | [`Map::share`], [`attach()`]: the same memory in several processes |
//! | `window` | [`Window`]: memory that another device reaches |
//! | `space` | what the pager needs of memory |
//! | `sys` | this memory by userfaultfd, with messages or signals |
//! | `file` | [`FileDevice`]: a file of a volume as the device |
//! | `grow` | the same of a file that grows, and its [`FileSize`] |
//! | `table` | [`window_table`]: a file's pages for the window of `rtl/smmu` |
//! | `error` | errors, and reported failures |
//!
//! Compared with the page cache's `mmap`: a limit on memory that holds exactly, no thread of the
//! kernel that writes at its own time, and errors with an address and a reason.
#![deny(unsafe_code)]

/// The block interface, whose devices are mapped, and volumes, whose files are.
pub use {block, volume};

mod error;
mod file;
mod grow;
mod hold;
mod local;
mod map;
mod numbers;
mod pager;
mod pages;
mod share;
mod space;
mod sys;
mod table;
mod window;

pub use error::{Error, PageError, Result, refusal_hint};
pub use file::FileDevice;
pub use grow::FileSize;
pub use local::{LocalLane, LocalLanes, LocalMap, map_local};
pub use map::{Map, PagerOptions, Server, map, map_lanes};
pub use pager::{Counters, Range};
pub use share::{Attached, Unreadable, attach, attach_before};
pub use table::{TableError, window_table};
pub use window::Window;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
