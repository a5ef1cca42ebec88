// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of the warm-up in a series.
//!
//! The first operations fill caches, page tables and the drive's own tables. Their number is
//! estimated from the series itself: the Marginal Standard Error Rule (White 1997) on batches of
//! five drops as many leading samples as minimise the standard error of the mean of the rest. If it
//! would drop more than half, the series never became stationary, and its mean is meaningless.

/// Samples in a batch.
const BATCH: usize = 5;
/// Minimum number of batches for the rule.
const MIN_BATCHES: usize = 10;
/// The factor within which a result counts as as good as the best.
const ABOUT: f64 = 1.15;

/// The start of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// The number of leading samples that belong to the warm-up; 0 if it was warm.
    Over(usize),
    /// The series was still changing past the middle.
    NeverSettled,
    /// Too few samples to tell.
    TooFew,
}

/// Estimates how many samples at the start of `series` belong to the warm-up.
pub fn warm_up(series: &[f64]) -> WarmUp {
    let batches: Vec<f64> = series
        .chunks_exact(BATCH)
        .map(|batch| batch.iter().sum::<f64>() / BATCH as f64)
        .collect();
    let count = batches.len();
    if count < MIN_BATCHES {
        return WarmUp::TooFew;
    }
    // From the back, so that each sum is computed once.
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut errors = vec![f64::INFINITY; count];
    let shift = batches.iter().sum::<f64>() / count as f64;
    for (index, batch) in batches.iter().enumerate().rev() {
        let value = batch - shift;
        sum += value;
        squares += value * value;
        let left = (count - index) as f64;
        if let Some(error) = errors.get_mut(index) {
            *error = (squares - sum * sum / left).max(0.0) / (left * left);
        }
    }
    // In the second half too few batches remain: they may look alike by chance.
    errors.truncate(count / 2 + 1);
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    // The first that is about as good as the best, because the exact place of the best is random.
    let first = errors.iter().position(|error| *error <= ABOUT * least);
    match first {
        Some(first) if first > count * 2 / 5 => WarmUp::NeverSettled,
        Some(first) => WarmUp::Over(first * BATCH),
        None => WarmUp::Over(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn series(seed: u64, count: usize, at: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut random = Random::derived(seed, &[11]);
        (0..count).map(|i| at(i) + random.normal()).collect()
    }

    #[test]
    fn a_steady_series_is_warm() {
        let mut warm = 0;
        for seed in 0..200 {
            warm += u32::from(warm_up(&series(seed, 500, |_| 100.0)) == WarmUp::Over(0));
        }
        println!("warm: {warm} of 200");
        assert!(warm >= 180, "{warm}");
    }

    #[test]
    fn a_step_and_a_decay_are_found() {
        for seed in 0..50 {
            let step = series(seed, 1_000, |i| if i < 200 { 140.0 } else { 100.0 });
            let WarmUp::Over(dropped) = warm_up(&step) else {
                panic!("seed {seed}: not found")
            };
            assert!((195..=300).contains(&dropped), "seed {seed}: {dropped}");
            let decay = series(seed, 1_000, |i| 100.0 + 50.0 * (-(i as f64) / 40.0).exp());
            let WarmUp::Over(dropped) = warm_up(&decay) else {
                panic!("seed {seed}: not found")
            };
            assert!((60..=450).contains(&dropped), "seed {seed}: {dropped}");
        }
    }

    #[test]
    fn a_ramp_never_settles_and_ten_samples_say_nothing() {
        let ramp = series(1, 1_000, |i| i as f64);
        assert_eq!(warm_up(&ramp), WarmUp::NeverSettled);
        assert_eq!(warm_up(&[1.0; 49]), WarmUp::TooFew);
        assert_eq!(warm_up(&[1.0; 50]), WarmUp::Over(0));
    }
}
