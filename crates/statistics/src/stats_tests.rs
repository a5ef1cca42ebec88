// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

/// A series with mean 100 whose neighbours are correlated by `rho`; 0 is independent draws.
fn series(random: &mut Random, count: usize, rho: f64) -> Vec<f64> {
    let mut state = random.normal();
    let innovation = (1.0 - rho * rho).sqrt();
    (0..count)
        .map(|_| {
            state = rho * state + innovation * random.normal();
            100.0 + 5.0 * state
        })
        .collect()
}

/// The share of intervals that contain the true value, in per cent.
fn coverage(count: usize, rho: f64) -> f64 {
    const SERIES: u64 = 600;
    let mut held = 0;
    for seed in 0..SERIES {
        let mut random = Random::derived(seed, &[count as u64]);
        let samples = series(&mut random, count, rho);
        let interval = mean_interval(&samples, seed).unwrap();
        held += u64::from(interval[0] <= 100.0 && 100.0 <= interval[1]);
    }
    held as f64 * 100.0 / SERIES as f64
}

#[test]
fn the_interval_of_independent_rounds_covers_the_truth() {
    for count in [5, 7, 10, 20, 60] {
        let held = coverage(count, 0.0);
        println!("iid n={count}: {held}");
        assert!((90.0..=98.0).contains(&held), "{count} rounds: {held} %");
    }
}

#[test]
fn the_interval_of_correlated_rounds_covers_the_truth() {
    for (count, rho) in [(20, 0.3), (40, 0.3), (60, 0.5), (100, 0.5), (200, 0.7)] {
        let held = coverage(count, rho);
        println!("ar1 n={count} rho={rho}: {held}");
        assert!((90.0..=98.0).contains(&held), "{count}, {rho}: {held} %");
    }
}

#[test]
fn the_ratio_s_interval_covers_the_truth() {
    let mut held = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let above = series(&mut random, 15, 0.0);
        let below: Vec<f64> = series(&mut random, 15, 0.0)
            .iter()
            .map(|x| x / 2.0)
            .collect();
        let interval = ratio_interval(&above, &below, 0.1, seed).unwrap();
        held += u32::from(interval[0] <= 2.0 && 2.0 <= interval[1]);
    }
    let held = f64::from(held) / 3.0;
    assert!((90.0..=98.5).contains(&held), "{held}");
}

#[test]
fn too_few_samples_carry_nothing() {
    assert_eq!(mean_interval(&[1.0; MIN_ROUNDS - 1], 1), None);
    assert_eq!(ratio_interval(&[1.0; 9], &[1.0; 8], 0.1, 1), None);
    assert_eq!(mean(&[]), None);
    assert_eq!(median(&[]), None);
    assert_eq!(standard_deviation(&[1.0]), None);
    assert_eq!(percentile_ranks(100, 0.99), None);
    assert_eq!(percentile_ranks(5, 0.5), None);
    assert_eq!(percentile_ranks(50_000, 0.9999), None);
}

#[test]
fn simple_statistics_are_right() {
    assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    assert_eq!(median(&[6.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[6.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(standard_deviation(&[2.0, 4.0, 6.0]), Some(2.0));
    let constant = mean_interval(&[7.0; 6], 1).unwrap();
    assert_eq!(constant, [7.0, 7.0]);
}

#[test]
fn intervals_repeat_by_seed() {
    let samples = series(&mut Random::new(3), 12, 0.2);
    assert_eq!(mean_interval(&samples, 9), mean_interval(&samples, 9));
    assert_ne!(mean_interval(&samples, 9), mean_interval(&samples, 10));
}

#[test]
fn student_s_quantile_is_close() {
    for (freedom, truth) in [(3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (30.0, 2.042)] {
        assert!(
            (student_t95(freedom) / truth - 1.0).abs() < 0.015,
            "{freedom}"
        );
    }
}

#[test]
fn the_median_s_ranks_are_those_of_the_binomial_tables() {
    // Known non-parametric intervals of the median.
    assert_eq!(percentile_ranks(6, 0.5), Some((1, 6)));
    assert_eq!(percentile_ranks(10, 0.5), Some((2, 9)));
    assert_eq!(percentile_ranks(25, 0.5), Some((8, 18)));
}

#[test]
fn percentile_intervals_cover_the_truth() {
    for (count, quantile) in [(50u64, 0.5), (800, 0.99), (5_000, 0.99)] {
        let (low, high) = percentile_ranks(count, quantile).unwrap();
        let mut held = 0;
        for seed in 0..400 {
            let mut random = Random::derived(seed, &[count]);
            let mut draws: Vec<f64> = (0..count).map(|_| random.unit()).collect();
            draws.sort_by(f64::total_cmp);
            let bounds = draws[low as usize - 1]..=draws[high as usize - 1];
            held += u32::from(bounds.contains(&quantile));
        }
        let held = f64::from(held) / 4.0;
        assert!((92.0..=99.5).contains(&held), "{count}, {quantile}: {held}");
    }
}
