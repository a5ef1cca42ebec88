// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The software's volume as a twin for simulations of the hardware: the same operations in one
//! process, on a disk in memory that can lose its power at any write or flush.
//!
//! [`Twin`] is that volume with its disk. [`c`] has the same for C and C++, which
//! `rtl/sim/hwfs_twin_bench.cpp` is linked with; it is the only module with `unsafe`. The example
//! `virtio_driver` is another library for a bench: a virtio-blk driver over a verilated device.
//!
//! A status is 0 on success, and a negative number otherwise: see [`Status`].
#![deny(unsafe_code)]

pub mod c;
mod twin;

pub use twin::{Status, Twin};
