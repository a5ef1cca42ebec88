// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only module with `unsafe`: memory that the kernel lets this process serve the faults of.

mod abi;
mod guests;
mod mapping;
mod signal;
mod userfault;

pub use guests::{Listener, new_socket};
pub use mapping::{Faults, Mapping, Region, Stores};
pub use signal::{Serve, Served};
pub use userfault::Userfault;
