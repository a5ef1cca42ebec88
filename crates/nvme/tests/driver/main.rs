// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver's tests on the model controller. In one program, because linking takes longer than
//! most of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod coherence;
mod controllers;
mod faults;
mod pages;
mod quirks;
mod registered;
mod structures;
#[path = "../support/mod.rs"]
mod support;
mod threads;
