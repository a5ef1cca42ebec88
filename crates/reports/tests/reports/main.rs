// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons of simulated paths, and what pages and texts say of runs on simulated machines.
//!
//! In one program, because each is linked.
// Helpers unwrap too: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

extern crate measure as straightway_measure;

#[path = "../../../measure/tests/simulated/mod.rs"]
mod simulated;

mod compare;
mod pages;
