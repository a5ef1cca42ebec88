// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For the tests of this crate.

/// The seed of a randomised test: `STRAIGHTWAY_SEED`, or a new one, which is printed.
pub fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}
