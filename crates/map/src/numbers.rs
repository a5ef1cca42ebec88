// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hashing of page numbers.

use std::hash::{BuildHasherDefault, Hasher};

/// For tables by page number. The numbers are the program's own, so no attacker gains by
/// collisions, and a fault looks a page up some ten times: the standard library's keyed hash was a
/// quarter of a fault's instructions.
pub type Numbers = BuildHasherDefault<NumberHasher>;

/// A multiplication whose halves are mixed: each bit of a number changes those that tables use.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    #[test]
    fn pages_at_any_distance_spread_over_the_low_and_the_high_bits() {
        for step in [1u64, 3, 512, 7919, 1 << 20, 1 << 32] {
            let hashes = (0..4096).map(|at| Numbers::default().hash_one(at * step));
            let low: HashSet<u64> = hashes.clone().map(|hash| hash % 4096).collect();
            let high: HashSet<u64> = hashes.map(|hash| hash >> 57).collect();
            // Of as many random numbers 63 % would differ.
            assert!(
                low.len() > 2000 && high.len() == 128,
                "{step}: {} {}",
                low.len(),
                high.len()
            );
        }
    }
}
