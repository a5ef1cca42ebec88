// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever fails, nothing acknowledged is lost: power cuts, device errors, rot and forged images.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod batches;
mod bit_rot;
mod crash;
mod faults;
mod fuzz;
mod growth;
mod moves;
mod mutations;
mod names;
mod owners;
mod regressions;
mod resize;
mod rot_search;
mod torn;
