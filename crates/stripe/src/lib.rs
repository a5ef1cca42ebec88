// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several block devices as one [`Device`](block::Device): striped ([`Striped`], RAID-0) or as
//! copies ([`Mirror`], RAID-1), over members of any kind.
//!
//! The layout is that of the hardware's `rtl/raid0`: stripe *s* of the array is stripe *s / N* of
//! member *s mod N* ([`Layout`]). Each member has a [`Label`] behind its data, so that members that
//! are swapped, of another size or of another array are refused before anything is written
//! ([`check`]).
//!
//! A request is divided in constant memory and completed once, with the first error of its parts.
//! Errors and changes of an array are reported to a [`Watch`], with the member's number. Nothing is
//! allocated; the one `unsafe` block is in the module `alias`.
//!
//! ```
//! use block::{blocking, Buffer, Device, RamDisk};
//! use straightway_stripe::{Layout, Striped};
//!
//! let disk = || RamDisk::<_, 8>::new(vec![0; 64 * 512], 9).unwrap();
//! let mut array = Striped::<_, _, _, 16>::new([disk(), disk()], 8, 64, ()).unwrap();
//! let data: &'static mut [u8] = Box::leak(vec![7; 16 * 512].into_boxed_slice());
//! blocking::write(&mut array, 4, Buffer::from_static(data), false).result.unwrap();
//! assert_eq!(Layout::new(2, 8).unwrap().place(12).member, 1); // stripe 1
//! ```
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

mod alias;
mod label;
mod layout;
mod mirror;
mod set;
mod striped;
mod table;
mod watch;

pub use label::{ArrayKind, LABEL_BYTES, Label, MirrorState};
pub use layout::{Layout, MemberPlace};
pub use mirror::{Mirror, MirrorMemory};
pub use set::{LabelError, SetError, check, create, data_blocks, read_label};
pub use striped::Striped;
pub use watch::{ArrayEvent, Watch};

/// The most members of an array, as in hardware.
pub const MOST_MEMBERS: usize = 8;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
