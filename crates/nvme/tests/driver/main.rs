// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The driver's tests on the model controller. In one program, because linking takes longer than
//! most of them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

// As other crates call them that use `machine`.
extern crate straightway_model as model;
extern crate straightway_nvme as nvme;

mod coherence;
mod controllers;
mod faults;
#[path = "../support/coherence.rs"]
mod machine;
mod pages;
mod quirks;
mod registered;
mod structures;
#[path = "../support/mod.rs"]
mod support;
mod threads;
