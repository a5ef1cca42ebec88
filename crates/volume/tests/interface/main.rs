// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The volume's tests through its interface. In one program, because linking takes longer than most
//! of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod ahead;
mod checksums;
mod cost;
mod counts;
mod discard;
mod doubt;
mod files;
mod format;
mod freed;
mod full;
mod grown;
#[path = "../support/independent.rs"]
mod independent;
mod many;
mod names;
mod reservations;
mod resize;
mod sizes;
#[path = "../support/mod.rs"]
mod support;
mod transfers;
mod turns;
