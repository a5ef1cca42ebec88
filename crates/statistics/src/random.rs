// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seeded randomness: the same seed gives the same figures on every machine.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// The finaliser of SplitMix64: each bit of the input affects each bit of the output.
#[inline]
const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The step of SplitMix64's counter.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64, for numbers drawn on a timed path: a tenth of the instructions of ChaCha8.
#[derive(Clone, Debug)]
pub struct Quick(u64);

impl Quick {
    /// A stream seeded from `random`.
    pub fn from(random: &mut Random) -> Self {
        Self(random.draw())
    }

    /// A number below `limit`, like [`Random::below`].
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        ((u128::from(mix(self.0)) * u128::from(limit)) >> 64) as u64
    }
}

/// A ChaCha8 stream.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A separate stream for each (`seed`, `salts`), so that drawing more from one never shifts
    /// another.
    pub fn derived(seed: u64, salts: &[u64]) -> Self {
        let mixed = salts
            .iter()
            .fold(seed, |state, salt| mix((state ^ salt).wrapping_add(STEP)));
        Self::new(mixed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `limit`, each equally likely to within 2^-64 of `limit`; 0 if it is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from the standard normal distribution (Box and Muller's transform).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (core::f64::consts::TAU * self.unit()).cos()
    }

    /// Fills `bytes` with data that does not compress.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// Shuffles `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let draw = |salts: &[u64]| Random::derived(1, salts).draw();
        assert_eq!(draw(&[2, 3]), draw(&[2, 3]));
        assert_ne!(draw(&[2, 3]), draw(&[3, 2]));
    }

    #[test]
    fn a_quick_stream_reaches_every_place_alike() {
        let mut quick = Quick::from(&mut Random::new(11));
        let mut counts = [0u32; 64];
        for _ in 0..64_000 {
            counts[quick.below(64) as usize] += 1;
        }
        // A thousand each; six standard deviations of a binomial are 190.
        assert!(
            counts.iter().all(|count| (810..1190).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn shuffle_is_a_permutation_and_below_is_below() {
        let mut random = Random::new(7);
        let mut items: Vec<u32> = (0..100).collect();
        random.shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
