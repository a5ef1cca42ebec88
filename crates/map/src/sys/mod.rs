//! The only module with `unsafe`: memory that the kernel lets this process serve the faults of.

mod abi;
mod userfault;

pub use userfault::{Region, Userfault};
