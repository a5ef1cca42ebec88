// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Torn blocks: part of one version and part of another, in words of 8 bytes.
//!
//! Only words in which the two versions differ are mixed, so that a tear never equals one of them
//! by chance. Two versions that differ in one word have no tear: a word is written whole.

pub(crate) const WORD: usize = 8;

/// `old` with some words of `new`. Variant 0 has the first half of the differing words new, 1 the
/// last half, 2 and 3 every second one, and the others a subset given by the variant and `seed`.
pub(crate) fn tear(old: &[u8], new: &[u8], variant: u32, seed: u64) -> Option<Vec<u8>> {
    let differing: Vec<usize> = old
        .chunks(WORD)
        .zip(new.chunks(WORD))
        .enumerate()
        .filter_map(|(index, (old, new))| (old != new).then_some(index))
        .collect();
    let count = differing.len();
    if count < 2 {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(seed ^ crate::content::mix(u64::from(variant)));
    // A random subset has at least one word of each.
    let (always, never) = (random.usize(0..count), random.usize(1..count));
    let mut torn = old.to_vec();
    for (position, index) in differing.into_iter().enumerate() {
        let is_new = match variant {
            0 => position < count / 2,
            1 => position >= count / 2,
            2 => position % 2 == 0,
            3 => position % 2 == 1,
            _ => position == always || position != (always + never) % count && random.bool(),
        };
        let end = ((index + 1) * WORD).min(old.len());
        let word = index * WORD..end;
        if is_new {
            torn[word.clone()].copy_from_slice(&new[word]);
        }
    }
    Some(torn)
}

/// The variant's name.
pub(crate) fn name(variant: u32) -> &'static str {
    match variant {
        0 => "first half",
        1 => "last half",
        2 => "even words",
        3 => "odd words",
        _ => "some words",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tear_is_neither_version_and_has_words_of_both() {
        let seed = crate::testing::seed();
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..2000 {
            let mut old = [0; 256];
            random.fill(&mut old);
            let mut new = old;
            for _ in 0..random.usize(2..40) {
                new[random.usize(..256)] ^= random.u8(1..);
            }
            let differ = |a: &[u8], b: &[u8]| {
                let pairs = a.chunks(WORD).zip(b.chunks(WORD));
                pairs.filter(|(a, b)| a != b).count()
            };
            for variant in 0..8 {
                match tear(&old, &new, variant, round) {
                    None => assert!(differ(&old, &new) < 2),
                    Some(torn) => {
                        assert!(torn != old && torn != new);
                        let parts = differ(&torn, &old) + differ(&torn, &new);
                        assert_eq!(parts, differ(&old, &new));
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_variants_are_prefix_suffix_and_alternate_words() {
        let (old, new) = ([0; 64], [1; 64]);
        let words = |variant| -> Vec<u8> {
            let torn = tear(&old, &new, variant, 0).unwrap();
            torn.iter().step_by(8).copied().collect()
        };
        assert_eq!(words(0), [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(words(1), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(words(2), [1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(words(3), [0, 1, 0, 1, 0, 1, 0, 1]);
    }
}
