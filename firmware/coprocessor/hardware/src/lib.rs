//! The machine under the coprocessor: what it says of itself, its log, its timer, its root complex,
//! and the drive's queue. A crate of its own, because the code that each command passes through is
//! built for speed here and everything else for size.
#![no_std]

pub mod drive;
pub mod fdt;
pub mod machine;
pub mod pci;
pub mod uart;
