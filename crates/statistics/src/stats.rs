// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Means and their confidence intervals.
//!
//! Rounds of one cell are a short time series, not independent draws: a drive that is collecting
//! garbage is slow in several consecutive rounds. So the interval of a mean, or of a ratio of
//! means, comes from a *circular block bootstrap* (Politis and Romano 1992), whose block length
//! follows the series' own first autocorrelation (Politis and White 2004, for a first-order
//! series). The plain percentile interval is too narrow for few rounds; it is widened by the ratio
//! of Student's t to the normal quantile and by the variance that resampling whole blocks loses.
//!
//! Each function returns `None` rather than a figure from too few samples.

use crate::random::Random;

/// Minimum number of rounds for an interval.
pub const MIN_ROUNDS: usize = 5;
/// Bootstrap resamples.
const RESAMPLES: usize = 2_000;
/// Two-sided 95 % quantile of the normal distribution.
const Z95: f64 = 1.959_963_985;

/// A 95 % confidence interval, low end first; none from too few rounds.
pub type Ci95 = Option<[f64; 2]>;

/// Whether both are known and share a value.
pub fn overlap(one: Ci95, other: Ci95) -> Option<bool> {
    let ([a, b], [c, d]) = (one?, other?);
    Some(a <= d && c <= b)
}

/// The arithmetic mean.
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The middle sample, or the mean of the middle two.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get(sorted.len() / 2 - 1)?;
    Some((lower + upper) / 2.0)
}

/// The sample standard deviation.
pub fn standard_deviation(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let centre = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - centre).powi(2)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt())
}

/// A 95 % confidence interval of the mean of `samples`, in the order they were taken.
pub fn mean_interval(samples: &[f64], seed: u64) -> Ci95 {
    bootstrap(samples.len(), block_length(samples), seed, |indices| {
        let sum: f64 = indices.iter().filter_map(|&i| samples.get(i)).sum();
        sum / indices.len() as f64
    })
}

/// A 95 % confidence interval of `mean(numerator) / max(mean(denominator), floor)`, the samples
/// of one round kept together.
pub fn ratio_interval(numerator: &[f64], denominator: &[f64], floor: f64, seed: u64) -> Ci95 {
    if numerator.len() != denominator.len() {
        return None;
    }
    let block = block_length(numerator).max(block_length(denominator));
    bootstrap(numerator.len(), block, seed, |indices| {
        let count = indices.len() as f64;
        let above: f64 = indices.iter().filter_map(|&i| numerator.get(i)).sum();
        let below: f64 = indices.iter().filter_map(|&i| denominator.get(i)).sum();
        (above / count) / (below / count).max(floor)
    })
}

/// The interval of any statistic of `count` rounds, given as the indices to use.
fn bootstrap(count: usize, block: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64) -> Ci95 {
    if count < MIN_ROUNDS {
        return None;
    }
    let mut indices: Vec<usize> = (0..count).collect();
    let centre = statistic(&indices);
    let mut random = Random::new(seed);
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut start = 0;
        for (place, index) in indices.iter_mut().enumerate() {
            if place % block == 0 {
                start = random.below(count as u64) as usize;
            }
            *index = (start + place % block) % count;
        }
        values.push(statistic(&indices));
    }
    values.sort_by(f64::total_cmp);
    let low = *values.get(RESAMPLES * 25 / 1000)?;
    let high = *values.get(RESAMPLES * 975 / 1000)?;
    let (n, l) = (count as f64, block as f64);
    // Overlapping blocks estimate the variance with about 3n/2l degrees of freedom.
    let freedom = if block == 1 {
        n - 1.0
    } else {
        1.5 * n / l - 1.0
    };
    let widen = student_t95(freedom.max(3.0)) / Z95 * (n / (n - l)).sqrt();
    Some([
        centre - (centre - low).max(0.0) * widen,
        centre + (high - centre).max(0.0) * widen,
    ])
}

/// The block length for a series, 1 if neighbours are not correlated.
fn block_length(samples: &[f64]) -> usize {
    let n = samples.len() as f64;
    let Some(centre) = mean(samples) else {
        return 1;
    };
    let products = |lag: usize| -> f64 {
        let pairs = samples.iter().zip(samples.iter().skip(lag));
        pairs.map(|(a, b)| (a - centre) * (b - centre)).sum()
    };
    let variance = products(0);
    if variance <= 0.0 || samples.len() < 8 {
        return 1;
    }
    // The estimate is low by about (1 + 3 rho) / n.
    let estimate = products(1) / variance;
    let rho = (estimate + (1.0 + 3.0 * estimate) / n).clamp(0.0, 0.9);
    // One and a half times the length that minimises the squared error: correct coverage matters
    // more here than a narrow interval.
    let length = 1.5 * (6.0 * (rho / (1.0 - rho * rho)).powi(2) * n).cbrt();
    (length.round() as usize).clamp(1, samples.len() / 4)
}

/// Student's two-sided 95 % quantile for at least 3 degrees of freedom (Cornish and Fisher's
/// expansion; within 1.5 %).
fn student_t95(freedom: f64) -> f64 {
    let z = Z95;
    let terms = [
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    let powers = [freedom, freedom.powi(2), freedom.powi(3)];
    z + terms
        .iter()
        .zip(powers)
        .map(|(term, power)| term / power)
        .sum::<f64>()
}

/// Ranks (from 1) of the two order statistics between which the `quantile` of the population
/// lies with 95 % confidence, or `None` if `count` samples cannot bound it on both sides.
///
/// The number of samples below the quantile is binomial; its normal approximation is used if the
/// expected count on each side is at least 10. Otherwise there is no result, except for the middle
/// of a small sample, where the computation is exact.
pub fn percentile_ranks(count: u64, quantile: f64) -> Option<(u64, u64)> {
    if !(0.0..1.0).contains(&quantile) || quantile == 0.0 {
        return None;
    }
    let n = count as f64;
    if count <= 1_000 {
        return exact_ranks(count, quantile);
    }
    if n * quantile < 10.0 || n * (1.0 - quantile) < 10.0 {
        return None;
    }
    let spread = Z95 * (n * quantile * (1.0 - quantile)).sqrt();
    let low = (n * quantile - spread).floor().max(1.0);
    let high = (n * quantile + spread).ceil() + 1.0;
    (high <= n).then_some((low as u64, high as u64))
}

fn exact_ranks(count: u64, quantile: f64) -> Option<(u64, u64)> {
    let n = count as f64;
    // P(exactly k samples below), by recurrence from k = 0, in logarithms against underflow.
    let odds = (quantile / (1.0 - quantile)).ln();
    let mut log_p = n * (1.0 - quantile).ln();
    let mut cumulative = 0.0;
    let (mut low, mut high) = (None, None);
    for k in 0..=count {
        // Rank r is above the quantile with probability P(K < r) = P(K <= r - 1).
        if cumulative <= 0.025 && k >= 1 {
            low = Some(k);
        }
        cumulative += log_p.exp();
        if high.is_none() && cumulative >= 0.975 {
            high = Some(k + 1);
        }
        log_p += ((n - k as f64) / (k as f64 + 1.0)).ln() + odds;
    }
    match (low, high) {
        (Some(low), Some(high)) if high <= count => Some((low, high)),
        _ => None,
    }
}

/// A percentile with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// The estimate.
    pub value: u64,
    /// The ends of the 95 % interval.
    pub ci95: [u64; 2],
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
