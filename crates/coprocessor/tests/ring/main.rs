// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coprocessor and its main CPU over one window of memory.
//!
//! In one program, because each is linked.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod blocks;
mod clock;
mod coherence;
mod files;
mod fuzz;
#[path = "../../../nvme/tests/support/coherence.rs"]
mod machine;
mod streams;
mod support;
