//! The files of a workload: how many, how long, and which of them exist.

use super::FileSet;
use super::store::UNIT;
use crate::random::Random;
use std::sync::Mutex;

/// Maximum size of a data set, as a safeguard.
const MOST_FILES: u64 = 5_000_000;

#[derive(Debug)]
pub(super) struct Set {
    mean: u64,
    shape: Option<f64>,
    /// Numbers of existing files, and the next free number.
    files: Mutex<(Vec<u64>, u64)>,
}

impl Set {
    /// A set of files of `mean` bytes, none of which exists.
    pub(super) fn new(mean: u64, shape: Option<f64>) -> Self {
        Self {
            mean,
            shape,
            files: Mutex::new((Vec::new(), 0)),
        }
    }

    /// Draws the length of a file.
    pub(super) fn size(&self, random: &mut Random) -> u64 {
        let factor = self.shape.map_or(1.0, |shape| gamma(shape, random) / shape);
        let bytes = (self.mean as f64 * factor) as u64;
        bytes.div_ceil(UNIT).max(1) * UNIT
    }

    /// An existing file.
    pub(super) fn any(&self, random: &mut Random) -> Option<u64> {
        let files = self.files.lock().ok()?;
        let index = random.below(files.0.len() as u64);
        files.0.get(index as usize).copied()
    }

    /// Takes a file off the list.
    pub(super) fn take(&self, random: &mut Random) -> Option<u64> {
        let mut files = self.files.lock().ok()?;
        let count = files.0.len() as u64;
        match count {
            0 => None,
            _ => Some(files.0.swap_remove(random.below(count) as usize)),
        }
    }

    /// The number of a new file.
    pub(super) fn next(&self) -> u64 {
        self.files.lock().map_or(0, |mut files| {
            files.1 += 1;
            files.1 - 1
        })
    }

    /// Puts a file on the list.
    pub(super) fn put(&self, number: u64) {
        if let Ok(mut files) = self.files.lock() {
            files.0.push(number);
        }
    }
}

/// A draw of the gamma distribution with scale 1 (Marsaglia and Tsang 2000).
fn gamma(shape: f64, random: &mut Random) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - random.unit()).powf(1.0 / shape);
        return gamma(shape + 1.0, random) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    // Each pass accepts with more than 95 %; the bound is never reached in practice.
    for _ in 0..1000 {
        let x = random.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - random.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
    shape
}

/// Number of files and bytes of each, for a data set of this size.
pub(super) fn scale(spec: &FileSet, dataset_bytes: u64) -> (u64, u64) {
    let bytes = (dataset_bytes as f64 * spec.share) as u64;
    let (files, mean) = match (spec.files, spec.mean_size) {
        (Some(files), Some(mean)) => (files, mean),
        (Some(files), None) => (files, bytes / files.max(1)),
        // A small data set has fewer files, none longer than the data set.
        (None, mean) => {
            let mean = mean.unwrap_or(UNIT).min(bytes.max(UNIT));
            (bytes / mean.max(1), mean)
        }
    };
    (files.clamp(1, MOST_FILES), mean.max(UNIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_spread_of_their_distribution() {
        let mut random = Random::new(5);
        for shape in [0.5, 1.5, 8.0] {
            let draws: Vec<f64> = (0..20_000).map(|_| gamma(shape, &mut random)).collect();
            let mean = crate::stats::mean(&draws).unwrap();
            let deviation = crate::stats::standard_deviation(&draws).unwrap();
            assert!((mean / shape - 1.0).abs() < 0.03, "{shape}: {mean}");
            assert!(
                (deviation / shape.sqrt() - 1.0).abs() < 0.05,
                "{shape}: {deviation}"
            );
        }
        let spec = FileSet {
            name: "s".into(),
            files: None,
            mean_size: Some(16_384),
            shape: None,
            share: 0.5,
            filled: 1.0,
        };
        assert_eq!(scale(&spec, 1 << 20), (32, 16_384));
    }
}
