// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers that the tests share.

use block::Buffer;

/// `len` bytes of `value`, never freed.
pub(crate) fn buffer(len: usize, value: u8) -> Buffer {
    Buffer::from_static(Box::leak(vec![value; len].into_boxed_slice()))
}

/// The seed of this run, which is printed; set with `STRAIGHTWAY_SEED`.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}
