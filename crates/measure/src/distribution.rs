// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The box plot of a set of times.

use crate::tail::of_sorted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
