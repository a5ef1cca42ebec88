// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a result was still changing while it was measured.
//!
//! A drive that warms up, throttles or runs out of clean blocks changes from round to round in one
//! direction. The Mann-Kendall test detects this without assuming a shape; the Theil-Sen slope
//! estimates its size. A result drifts if the trend is both significant (1 %) and large enough to
//! matter, because with many rounds even a harmless one becomes significant.

use crate::stats::median;

/// Minimum number of rounds for detecting a trend.
pub const MIN_ROUNDS: usize = 6;
/// Two-sided 1 % quantile of the normal distribution.
const Z99: f64 = 2.575_829;
/// The change over the whole run, relative to the median, that matters.
const MATTERS: f64 = 0.03;

/// Whether `samples`, in the order they were taken, drift by at least 3 % from first to last.
/// False if there are too few to tell.
pub fn is_drifting(samples: &[f64]) -> bool {
    if samples.len() < MIN_ROUNDS {
        return false;
    }
    let (Some(slope), Some(middle)) = (slope_per_round(samples), median(samples)) else {
        return false;
    };
    let change = slope * (samples.len() - 1) as f64;
    z_score(samples).abs() > Z99 && change.abs() > MATTERS * middle.abs()
}

fn pairs(samples: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    samples.iter().enumerate().flat_map(move |(i, &early)| {
        let later = samples.iter().skip(i + 1).enumerate();
        later.map(move |(gap, &late)| (late - early, (gap + 1) as f64))
    })
}

/// Mann and Kendall's statistic, in standard deviations, ties and continuity corrected for.
fn z_score(samples: &[f64]) -> f64 {
    let s: f64 = pairs(samples)
        .map(|(rise, _)| f64::from(u8::from(rise > 0.0)) - f64::from(u8::from(rise < 0.0)))
        .sum();
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|run| term(run.len() as f64))
        .sum();
    let variance = (term(samples.len() as f64) - ties) / 18.0;
    if variance <= 0.0 || s == 0.0 {
        return 0.0;
    }
    (s - s.signum()) / variance.sqrt()
}

/// Theil and Sen's slope: the median of the slopes between all pairs.
fn slope_per_round(samples: &[f64]) -> Option<f64> {
    let slopes: Vec<f64> = pairs(samples).map(|(rise, run)| rise / run).collect();
    median(&slopes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn share_drifting(count: usize, slope: f64) -> f64 {
        let drifting = (0..400).filter(|&seed| {
            let mut random = Random::new(seed);
            let samples: Vec<f64> = (0..count)
                .map(|round| 100.0 + slope * round as f64 + 2.0 * random.normal())
                .collect();
            is_drifting(&samples)
        });
        drifting.count() as f64 / 400.0
    }

    #[test]
    fn steady_series_seldom_drift_and_moving_ones_mostly_do() {
        for count in [6, 10, 30] {
            assert!(share_drifting(count, 0.0) < 0.025, "{count}");
        }
        assert!(share_drifting(10, 2.0) > 0.9);
        assert!(share_drifting(10, -2.0) > 0.9);
        assert!(share_drifting(30, 0.5) > 0.9);
    }

    #[test]
    fn a_trend_too_small_to_matter_is_let_be() {
        let samples: Vec<f64> = (0..20)
            .map(|round| 100.0 + 0.1 * f64::from(round))
            .collect();
        assert!(!is_drifting(&samples));
    }

    #[test]
    fn few_or_equal_samples_never_drift() {
        assert!(!is_drifting(&[1.0, 2.0, 3.0, 4.0, 5.0]));
        assert!(!is_drifting(&[3.0; 50]));
        assert!(is_drifting(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    }
}
