//! The shape of a set of times: box, density, and the tail as a complementary distribution.
//!
//! The density is a kernel estimate over the logarithm of time, and shows a shape only: where the
//! samples cluster. Deadlines must not be read from it, but from the complementary distribution,
//! which consists of the samples themselves: the share that took longer than t.

use crate::tail::of_sorted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Points of a density.
const DENSITY_POINTS: usize = 120;
/// Most points of a complementary distribution.
const TAIL_POINTS: usize = 160;
/// The most outliers that are listed one by one.
const MAX_OUTLIERS: usize = 200;
/// Two outliers further apart than this share of the higher belong to different bands.
const BAND_GAP: f64 = 0.15;

/// A box plot of times (Tukey's: whiskers to the last sample within 1.5 interquartile ranges).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BoxPlot {
    /// Samples.
    pub count: u64,
    /// The smallest.
    pub min_ns: u64,
    /// The lower whisker.
    pub whisker_low_ns: u64,
    /// A quarter is below.
    pub quartile1_ns: u64,
    /// Half is below.
    pub median_ns: u64,
    /// A quarter is above.
    pub quartile3_ns: u64,
    /// The upper whisker.
    pub whisker_high_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// Samples outside of the whiskers.
    pub outliers: u64,
    /// The outliers above, the largest first, up to a limit.
    pub high_outliers_ns: Vec<u64>,
    /// The clusters of outliers: each band's lowest, highest and count.
    pub bands: Vec<Band>,
}

/// A cluster of outliers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Band {
    /// Its lowest sample.
    pub low_ns: u64,
    /// Its highest sample.
    pub high_ns: u64,
    /// How many samples it has.
    pub count: u64,
}

impl BoxPlot {
    /// The box plot of `times`; `None` if there are none.
    pub fn of(times_ns: &[u64]) -> Option<Self> {
        let mut sorted = times_ns.to_vec();
        sorted.sort_unstable();
        let (min_ns, max_ns) = (*sorted.first()?, *sorted.last()?);
        let quartile1_ns = of_sorted(&sorted, 0.25)?;
        let quartile3_ns = of_sorted(&sorted, 0.75)?;
        let reach = (quartile3_ns - quartile1_ns).saturating_mul(3) / 2;
        let (low, high) = (
            quartile1_ns.saturating_sub(reach),
            quartile3_ns.saturating_add(reach),
        );
        let inside = |ns: &&u64| (low..=high).contains(*ns);
        let whisker_low_ns = *sorted.iter().find(inside)?;
        let whisker_high_ns = *sorted.iter().rev().find(inside)?;
        let above: Vec<u64> = sorted.iter().copied().filter(|ns| *ns > high).collect();
        let outliers = sorted.iter().filter(|ns| !inside(ns)).count() as u64;
        Some(Self {
            count: sorted.len() as u64,
            min_ns,
            whisker_low_ns,
            quartile1_ns,
            median_ns: of_sorted(&sorted, 0.5)?,
            quartile3_ns,
            whisker_high_ns,
            max_ns,
            outliers,
            high_outliers_ns: above.iter().rev().take(MAX_OUTLIERS).copied().collect(),
            bands: bands(&above),
        })
    }
}

/// Clusters of sorted values with gaps between them.
fn bands(sorted: &[u64]) -> Vec<Band> {
    let mut bands: Vec<Band> = Vec::new();
    for &ns in sorted {
        match bands.last_mut() {
            Some(band) if (ns - band.high_ns) as f64 <= BAND_GAP * ns as f64 => {
                band.high_ns = ns;
                band.count += 1;
            }
            _ => bands.push(Band {
                low_ns: ns,
                high_ns: ns,
                count: 1,
            }),
        }
    }
    bands
}

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
    fn a_box_is_tukey_s() {
        let times: Vec<u64> = (1..=99)
            .map(|i| i * 1000)
            .chain([500_000, 510_000, 2_000_000])
            .collect();
        let plot = BoxPlot::of(&times).unwrap();
        assert_eq!(
            (plot.min_ns, plot.max_ns, plot.count),
            (1000, 2_000_000, 102)
        );
        assert_eq!(
            (plot.quartile1_ns, plot.median_ns, plot.quartile3_ns),
            (26_000, 51_000, 77_000)
        );
        assert_eq!((plot.whisker_low_ns, plot.whisker_high_ns), (1000, 99_000));
        assert_eq!(plot.outliers, 3);
        assert_eq!(plot.high_outliers_ns, [2_000_000, 510_000, 500_000]);
        let bands: Vec<u64> = plot.bands.iter().map(|band| band.count).collect();
        assert_eq!(bands, [2, 1]);
        assert_eq!(BoxPlot::of(&[]), None);
        assert_eq!(BoxPlot::of(&[5]).unwrap().outliers, 0);
    }

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
