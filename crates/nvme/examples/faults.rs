// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the fault matrix as a table: `docs/faults.md`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    print!("{}", support::table());
}
