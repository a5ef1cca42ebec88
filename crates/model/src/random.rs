// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pseudo-random numbers from a seed: SplitMix64.

/// A generator; equal seeds give equal sequences.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that starts from `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let value = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
    }
}

/// The seed of this run: the environment variable `STRAIGHTWAY_SEED` (decimal, or hexadecimal
/// after `0x`), or `default`. Printed, so that it is in a failing test's output.
pub fn seed(default: u64) -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok().and_then(|text| {
        text.strip_prefix("0x")
            .map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16))
            .ok()
    });
    let seed = given.unwrap_or(default);
    println!("STRAIGHTWAY_SEED={seed:#x}");
    seed
}
