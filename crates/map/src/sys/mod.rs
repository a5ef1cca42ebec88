//! The only module with `unsafe`: memory that the kernel lets this process serve the faults of.

mod abi;
mod signal;
mod userfault;

pub use signal::{Serve, Served};
pub use userfault::{Faults, Region, Userfault};
