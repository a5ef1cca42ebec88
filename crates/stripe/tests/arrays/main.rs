// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stripes and mirrors over simulated disks.
//!
//! In one program, because each is linked.
#![allow(clippy::panic, clippy::unwrap_used)]

mod mirror;
mod striped;
mod support;
