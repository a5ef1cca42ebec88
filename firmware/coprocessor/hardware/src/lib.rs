// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coprocessor's machine: its device tree, log, timer and root complex.
#![no_std]

pub mod fdt;
pub mod machine;
pub mod pci;
#[cfg(feature = "second")]
pub mod second;
pub mod uart;
