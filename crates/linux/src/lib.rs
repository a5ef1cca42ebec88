// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Linux side of every path to a drive.
//!
//! | path | type | interrupts | what it needs | feature |
//! | --- | --- | --- | --- | --- |
//! | user space behind an IOMMU | [`vfio::Function`] | MSI-X, MSI or INTx by eventfd | vfio-pci | `vfio` |
//! | user space without an IOMMU | [`noiommu::Function`] | none: polled | root, huge pages | `vfio` |
//! | NVMe passthrough | [`Passthrough`] | the kernel's | `/dev/ngXnY`, io_uring | `io-uring` |
//! | io_uring | [`Uring`] | the kernel's | a file or a block device | `io-uring` |
//! | CharIO | [`Chario`] | CharIO's, or none | its module, `/dev/chardiskXnY` | `chario` |
//! | a storage coprocessor | [`Coprocessor`] | none: polled | its window, a file | `coprocessor` |
//! | a remote namespace | [`fabric::RemoteDevice`] | by NVMe/TCP | none | `fabric` |
//! | a file system in hardware | [`Uio`] | the board's, by UIO | its UIO device | `hwfs` |
//! | pread and pwrite | [`SyncFile`] | the kernel's | a file or a block device | |
//!
//! The first two are a platform for the NVMe driver (`nvme::Platform`), and the file system in
//! hardware is a board for `hwfs::Front`; the others are a [`block::Device`] themselves. The other
//! modules: which device a name means ([`pci`], [`resolve`]), who is using it ([`usage`]),
//! borrowing it from its driver and giving it back ([`bind`]), and what this machine lacks
//! ([`doctor`]).
//!
//! The library never prints, exits or panics. `unsafe` blocks are only in the modules under `sys`,
//! each of which explains why, and in what makes memory reachable for a drive: the two `unsafe impl
//! nvme::Dma`, the two `grant` and `map_range` below them, whose contract only the owner of the
//! mapping can guarantee.
#![deny(unsafe_code)]
// Paths share code: with fewer features some of it is unused.
#![cfg_attr(
    not(all(
        feature = "chario",
        feature = "coprocessor",
        feature = "io-uring",
        feature = "vfio"
    )),
    allow(dead_code)
)]

/// The crates that it builds on: the block interface, and the driver for drives in user space.
pub use block;
#[cfg(feature = "nvme")]
pub use nvme;

#[cfg(feature = "nvme")]
pub mod admin;
pub mod bind;
pub mod blkid;
pub mod bridges;
#[cfg(feature = "io-uring")]
mod call_or_ring;
#[cfg(feature = "chario")]
pub mod chario;
mod claim;
mod clock;
pub mod coherence;
#[cfg(feature = "coprocessor")]
pub mod coprocessor;
pub mod cpufreq;
pub mod datagram;
pub mod disk;
#[cfg(feature = "vfio")]
pub mod doctor;
mod error;
#[cfg(feature = "fabric")]
pub mod fabric;
pub mod identity;
#[cfg(feature = "io-uring")]
mod lanes;
pub mod latency;
pub mod marker;
mod memory;
#[cfg(feature = "vfio")]
pub mod noiommu;
#[cfg(all(feature = "io-uring", feature = "nvme"))]
mod passthrough;
pub mod pci;
pub mod resolve;
mod roots;
mod schedule;
mod shown;
mod single;
mod state;
mod sync_file;
mod sys;
mod sysfs;
mod target;
#[cfg(feature = "io-uring")]
pub mod ublk;
#[cfg(feature = "hwfs")]
mod uio;
#[cfg(feature = "io-uring")]
mod uring;
pub mod usage;
#[cfg(feature = "vfio")]
pub mod vfio;

#[cfg(feature = "io-uring")]
pub use call_or_ring::CallOrRing;
#[cfg(feature = "chario")]
pub use chario::{Chario, CharioOptions};
pub use claim::{Claim, can_be_taken};
pub use clock::{ClockSource, TscClock};
#[cfg(feature = "coprocessor")]
pub use coprocessor::Coprocessor;
#[cfg(feature = "nvme")]
pub use error::namespace_hint;
pub use error::{Error, ErrorKind, Result, permission_hint};
pub use memory::HostMemory;
#[cfg(all(feature = "io-uring", feature = "nvme"))]
pub use passthrough::Passthrough;
pub use roots::Roots;
pub use schedule::RealTime;
pub use sync_file::SyncFile;
pub use sys::closed::was_closed;
#[cfg(feature = "hwfs")]
pub use uio::Uio;
#[cfg(feature = "io-uring")]
pub use uring::{RingOptions, Uring};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
