// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the table of `docs/bit-rot.md`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../tests/harness/mod.rs"]
mod harness;

fn main() {
    print!("{}", harness::rot::table());
}
