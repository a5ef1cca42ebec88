// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tail of a series in time: percentiles, and how rare a miss is.
//!
//! Latencies come in bursts: a stall delays a hundred consecutive requests, and a hundred such
//! samples carry no more information than one. The ranks that bound a percentile (see
//! [`crate::stats`]) hold for independent samples, so the count is first divided by the growth of
//! the variance of "is it above the percentile?" when neighbours are taken together: the worst
//! value of the batch means of that indicator, over batches of several lengths. If the remaining
//! count cannot bound the percentile, there is only a point without an interval.
//!
//! The rate of misses has Clopper and Pearson's one-sided bounds (1934): 0 misses in N show a rate
//! of at most about 3/N at 95 %.

use crate::stats::{Percentile, percentile_ranks};

/// Minimum number of batches for a meaningful variance.
const MIN_BATCHES: usize = 20;
/// One-sided error of a bound.
const ALPHA: f64 = 0.05;

/// The `quantile` of `series` by rank, without an interval; `None` if it is empty.
pub fn quantile(series: &[u64], quantile: f64) -> Option<u64> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable();
    of_sorted(&sorted, quantile)
}

/// The smallest value that at least `quantile` of the sorted samples do not exceed.
pub fn of_sorted(sorted: &[u64], quantile: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// A percentile of `series`, in the order of time, with an interval that allows for bursts;
/// `None` if too few independent samples bound it.
pub fn percentile_in_time(series: &[u64], quantile: f64) -> Option<Percentile> {
    let mut sorted = series.to_vec();
    sorted.sort_unstable();
    let value = of_sorted(&sorted, quantile)?;
    let effective = (series.len() as f64 / burstiness(series, value)).floor();
    let (low, high) = percentile_ranks(effective as u64, quantile)?;
    let at = |rank: u64| of_sorted(&sorted, rank as f64 / effective);
    Some(Percentile {
        value,
        ci95: [
            at(low.saturating_sub(1).max(1))?.min(value),
            at(high)?.max(value),
        ],
    })
}

/// The factor by which the variance of the number of samples above `threshold` exceeds that of
/// independent samples; at least 1.
pub fn burstiness(series: &[u64], threshold: u64) -> f64 {
    let above: Vec<f64> = series
        .iter()
        .map(|&value| f64::from(u8::from(value > threshold)))
        .collect();
    inflation(&above)
}

/// The same for any indicator, 0 or 1 for each sample.
pub fn inflation(indicator: &[f64]) -> f64 {
    let n = indicator.len();
    let share = indicator.iter().sum::<f64>() / n.max(1) as f64;
    let alone = share * (1.0 - share);
    if alone <= 0.0 {
        return 1.0;
    }
    let mut worst: f64 = 1.0;
    let mut length = 2;
    while n / length >= MIN_BATCHES {
        let batches: Vec<f64> = indicator
            .chunks_exact(length)
            .map(|batch| batch.iter().sum::<f64>() / length as f64)
            .collect();
        let squares: f64 = batches.iter().map(|mean| (mean - share).powi(2)).sum();
        let variance = squares / (batches.len() - 1).max(1) as f64;
        worst = worst.max(variance * length as f64 / alone);
        length *= 2;
    }
    worst
}

/// The largest rate of misses that is compatible with `misses` in `count` at 95 %.
pub fn miss_rate_at_most(misses: f64, count: f64) -> f64 {
    if count <= 0.0 || misses >= count {
        return 1.0;
    }
    bisect(|rate| 1.0 - incomplete_beta(misses + 1.0, count - misses, rate) - ALPHA)
}

/// The smallest rate of misses that is compatible with `misses` in `count` at 95 %.
pub fn miss_rate_at_least(misses: f64, count: f64) -> f64 {
    if count <= 0.0 || misses <= 0.0 {
        return 0.0;
    }
    bisect(|rate| ALPHA - incomplete_beta(misses, count - misses + 1.0, rate))
}

/// The minimum number of samples without a miss that show a rate of at most `rate` at 95 %.
pub fn samples_for_rate(rate: f64) -> u64 {
    if rate <= 0.0 {
        return u64::MAX;
    }
    if rate >= 1.0 {
        return 1;
    }
    (ALPHA.ln() / (-rate).ln_1p()).ceil() as u64
}

/// The zero of a function that falls from positive to negative over `[0, 1]`.
fn bisect(falls: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle: f64 = (low + high) / 2.0;
        if falls(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The regularised incomplete beta function, by its continued fraction (Lentz's method; Abramowitz
/// and Stegun 26.5.8).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut result = d;
    for m in 1..=500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = result;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            result *= c * d;
        }
        if (result / before - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// Stirling's series, shifted up until it is accurate.
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut shift = 0.0;
    while x < 15.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0));
    shift + (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn clopper_and_pearson_s_bounds_are_those_of_the_tables() {
        // 0 of N: 1 - 0.05^(1/N), the rule of three.
        for count in [10.0, 100.0, 30_000.0] {
            let bound = miss_rate_at_most(0.0, count);
            let truth = 1.0 - 0.05f64.powf(1.0 / count);
            assert!((bound / truth - 1.0).abs() < 1e-9, "{count}: {bound}");
            assert!(bound < 3.0 / count);
        }
        // Known two-sided 90 % limits are these one-sided 95 % ones: 2 of 20 gives 0.0181 to
        // 0.2826.
        assert!((miss_rate_at_least(2.0, 20.0) - 0.0181).abs() < 5e-5);
        assert!((miss_rate_at_most(2.0, 20.0) - 0.2826).abs() < 5e-5);
        assert_eq!(miss_rate_at_least(0.0, 20.0), 0.0);
        assert_eq!(miss_rate_at_most(20.0, 20.0), 1.0);
    }

    #[test]
    fn the_bounds_hold_the_truth_as_often_as_they_claim() {
        let (rate, count) = (0.002, 4_000);
        let (mut above, mut below) = (0, 0);
        for seed in 0..500 {
            let mut random = Random::derived(seed, &[77]);
            let misses = (0..count).filter(|_| random.unit() < rate).count() as f64;
            above += u32::from(miss_rate_at_most(misses, f64::from(count)) >= rate);
            below += u32::from(miss_rate_at_least(misses, f64::from(count)) <= rate);
        }
        println!("held: above {above}, below {below} of 500");
        assert!(above >= 470 && below >= 470, "{above} {below}");
    }

    #[test]
    fn the_run_length_for_a_rate_is_the_rule_of_three() {
        assert_eq!(samples_for_rate(0.001), 2995);
        assert_eq!(samples_for_rate(1.0), 1);
        assert_eq!(samples_for_rate(0.0), u64::MAX);
        assert!(miss_rate_at_most(0.0, 2995.0) <= 0.001);
        assert!(miss_rate_at_most(0.0, 2990.0) > 0.001);
    }

    /// A series whose neighbours are correlated by `rho`, with a known marginal distribution.
    fn correlated(random: &mut Random, count: usize, rho: f64) -> Vec<u64> {
        let mut state = random.normal();
        (0..count)
            .map(|_| {
                state = rho * state + (1.0 - rho * rho).sqrt() * random.normal();
                (100_000.0 + 10_000.0 * state) as u64
            })
            .collect()
    }

    fn coverage(count: usize, rho: f64, quantile: f64, truth: u64) -> f64 {
        let held = (0..300).filter(|&seed| {
            let series = correlated(&mut Random::derived(seed, &[5]), count, rho);
            let interval = percentile_in_time(&series, quantile).expect("enough samples");
            interval.ci95[0] <= truth && truth <= interval.ci95[1]
        });
        held.count() as f64 / 3.0
    }

    #[test]
    fn percentiles_of_bursty_series_cover_the_truth() {
        // Quantiles of the normal distribution: 0, and 1.2816 at 0.9.
        for (count, rho, quantile, truth) in [
            (4_000, 0.0, 0.9, 112_816),
            (8_000, 0.8, 0.5, 100_000),
            (8_000, 0.9, 0.9, 112_816),
        ] {
            let held = coverage(count, rho, quantile, truth);
            println!("{count} {rho} {quantile}: {held}");
            assert!(held >= 91.0, "{count} {rho} {quantile}: {held} %");
        }
        // Treated as independent, the same series would be wrong most of the time.
        let naive = (0..300).filter(|&seed| {
            let mut series = correlated(&mut Random::derived(seed, &[5]), 8_000, 0.9);
            series.sort_unstable();
            let (low, high) = percentile_ranks(8_000, 0.9).expect("enough samples");
            series[low as usize - 1] <= 112_816 && 112_816 <= series[high as usize - 1]
        });
        assert!((naive.count() as f64 / 3.0) < 70.0);
    }

    #[test]
    fn one_stall_bounds_no_tail() {
        // 3,000 arrivals, one stall of 750: all samples above the 99th percentile are adjacent.
        let stall = (0..750u64).map(|late| 1_500_000_000 - late * 2_000_000);
        let series: Vec<u64> = (0..1_125)
            .map(|_| 300_000)
            .chain(stall)
            .chain((0..1_125).map(|_| 300_000))
            .collect();
        assert_eq!(quantile(&series, 0.99), Some(1_440_000_000));
        assert_eq!(percentile_in_time(&series, 0.99), None);
        assert!(percentile_in_time(&series, 0.5).is_none_or(|p| p.value == 300_000));
    }

    #[test]
    fn ranks_of_small_series_are_exact() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7], 0.99), Some(7));
        assert_eq!(quantile(&[4, 1, 3, 2], 0.5), Some(2));
        assert_eq!(quantile(&[4, 1, 3, 2], 1.0), Some(4));
        assert_eq!(percentile_in_time(&[1, 2, 3], 0.5), None);
    }
}
