// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crash search: a model of what a volume promised (`oracle`), a device that stops at each
//! change (`probe`), the possible operations (`ops`), and what every image must show (`search`).
#![allow(dead_code)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../support/independent.rs"]
pub mod independent;
#[path = "../support/mod.rs"]
pub mod support;

pub mod long;
pub mod ops;
pub mod oracle;
pub mod owners;
pub mod probe;
pub mod rot;
pub mod rules;
pub mod runner;
pub mod search;
pub mod sequences;
pub mod starts;

/// The seed of a randomised test: `STRAIGHTWAY_SEED`, or a fresh one. It is printed either way.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("STRAIGHTWAY_SEED").ok().map_or_else(
        || fastrand::u64(..),
        |text| text.parse().expect("STRAIGHTWAY_SEED is a number"),
    );
    println!("{test}: STRAIGHTWAY_SEED={seed}");
    seed
}
