// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shape of a set of times: density, and the tail as a complementary distribution.
//!
//! The density is a kernel estimate over the logarithm of time, and shows a shape only: where the
//! samples cluster. Deadlines must not be read from it, but from the complementary distribution,
//! which consists of the samples themselves: the share that took longer than t.

/// Points of a density.
const DENSITY_POINTS: usize = 120;
/// Most points of a complementary distribution.
const TAIL_POINTS: usize = 160;

/// A density over the decimal logarithm of time: (time in ns, density per decade). Empty if there
/// are too few samples or no spread.
pub fn density(times_ns: &[u64]) -> Vec<(f64, f64)> {
    let logs: Vec<f64> = times_ns
        .iter()
        .map(|&ns| (ns.max(1) as f64).log10())
        .collect();
    let n = logs.len() as f64;
    let Some(spread) = crate::stats::standard_deviation(&logs) else {
        return Vec::new();
    };
    let mut sorted = logs.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get((share * (n - 1.0)) as usize).copied();
    let (Some(low), Some(q1), Some(q3), Some(high)) = (at(0.0), at(0.25), at(0.75), at(1.0)) else {
        return Vec::new();
    };
    // Silverman's rule with the smaller of the two spreads, and never finer than 1 %.
    let robust = (q3 - q1) / 1.349;
    let spread = if robust > 0.0 {
        spread.min(robust)
    } else {
        spread
    };
    let width = (0.9 * spread * n.powf(-0.2)).max(0.004);
    if n < 20.0 {
        return Vec::new();
    }
    let (from, to) = (low - 3.0 * width, high + 3.0 * width);
    let step = (to - from) / (DENSITY_POINTS - 1) as f64;
    (0..DENSITY_POINTS)
        .map(|point| {
            let x = from + step * point as f64;
            let first = sorted.partition_point(|log| *log < x - 4.0 * width);
            let near = sorted.iter().skip(first);
            let sum: f64 = near
                .take_while(|log| **log <= x + 4.0 * width)
                .map(|log| (-0.5 * ((x - log) / width).powi(2)).exp())
                .sum();
            let density = sum / (n * width * std::f64::consts::TAU.sqrt());
            (10f64.powf(x), density)
        })
        .collect()
}

/// The share of samples that took longer than each time: (time in ns, share). It includes every
/// sample of the tail; the low end is thinned out.
pub fn exceedance(times_ns: &[u64]) -> Vec<(f64, f64)> {
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut rank = n;
    // The number of samples that exceed it: a logarithmic axis cannot show 0, so the largest sample
    // gets half a sample's share.
    let mut exceeding = 0usize;
    while rank > 0 {
        if let Some(&ns) = sorted.get(rank - 1) {
            let share = if exceeding == 0 {
                0.5 / n as f64
            } else {
                exceeding as f64 / n as f64
            };
            points.push((ns as f64, share));
        }
        let step = (exceeding / (TAIL_POINTS / 8)).max(1);
        exceeding += step;
        rank = n.saturating_sub(exceeding);
    }
    if let Some(&ns) = sorted.first() {
        points.push((ns as f64, 1.0));
    }
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_density_has_area_one_and_both_peaks() {
        let mut random = Random::new(3);
        let times: Vec<u64> = (0..2_000)
            .map(|i| {
                let centre = if i % 4 == 0 { 1_000_000.0 } else { 100_000.0 };
                (centre * (1.0 + 0.05 * random.normal())) as u64
            })
            .collect();
        let points = density(&times);
        let area: f64 = points
            .windows(2)
            .map(|pair| (pair[1].0.log10() - pair[0].0.log10()) * (pair[0].1 + pair[1].1) / 2.0)
            .sum();
        assert!((area - 1.0).abs() < 0.03, "{area}");
        let near = |ns: f64| {
            let close = points.iter().filter(|(x, _)| (x / ns - 1.0).abs() < 0.12);
            close.map(|(_, y)| *y).fold(0.0, f64::max)
        };
        assert!(near(100_000.0) > 2.0 * near(1_000_000.0));
        assert!(near(1_000_000.0) > 20.0 * near(316_000.0));
        assert!(density(&[5; 10]).is_empty());
    }

    #[test]
    fn the_exceedance_is_the_samples_themselves() {
        let times: Vec<u64> = (1..=100_000).collect();
        let points = exceedance(&times);
        assert!(points.len() < 400, "{}", points.len());
        for (ns, share) in &points {
            let truth = times.iter().filter(|time| **time as f64 > *ns).count() as f64 / 1e5;
            assert!(
                (share - truth).abs() < 1e-9 || (truth == 0.0 && *share == 0.5e-5) || *ns == 1.0,
                "{ns}: {share} {truth}"
            );
        }
        assert_eq!(points.last().unwrap().0, 100_000.0);
        assert!(exceedance(&[]).is_empty());
    }
}
