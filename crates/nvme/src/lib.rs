//! An NVMe driver.
#![no_std]
#![deny(unsafe_code)]
mod platform;
pub use platform::{BusRun, Dma, InterruptRefused, LinearDma, PagedDma, Platform, Registers};
