//! The machine under the coprocessor: what it says of itself, its log, its timer, its root complex.
#![no_std]

pub mod fdt;
pub mod machine;
pub mod pci;
pub mod uart;
