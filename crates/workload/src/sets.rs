// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a workload: how many, how long, which of them exist, and which are in use.

use super::describe::{Amount, FileSet, Table, Workload};
use statistics::random::Random;
use std::collections::HashMap;
use std::sync::Mutex;

/// Maximum number of files, as a safeguard.
const MOST_FILES: u64 = 5_000_000;
/// The shortest file that a mean makes.
const SHORTEST: u64 = 1;
/// Draws until a file is found that is not open.
const TRIES: usize = 32;

#[derive(Debug)]
pub(super) struct Set {
    pub name: String,
    sizes: Sizes,
    popularity: Option<f64>,
    /// Lengths are multiples of this.
    unit: u64,
    files: Mutex<Files>,
}

#[derive(Debug)]
enum Sizes {
    Mean(u64, Option<f64>),
    Drawn(Table),
}

#[derive(Debug, Default)]
struct Files {
    /// Numbers of existing files.
    exist: Vec<u64>,
    /// How many threads have each of these open.
    open: HashMap<u64, u32>,
    next: u64,
}

impl Set {
    /// A set whose files average `mean` bytes, none of which exists.
    pub(super) fn new(workload: &Workload, spec: &FileSet, mean: u64, unit: u64) -> Self {
        Self {
            name: spec.name.clone(),
            sizes: match table(workload, spec) {
                Some(table) => Sizes::Drawn(table.clone()),
                None => Sizes::Mean(mean, spec.shape),
            },
            popularity: spec.popularity,
            unit,
            files: Mutex::default(),
        }
    }

    /// Draws the length of a file.
    pub(super) fn size(&self, random: &mut Random) -> u64 {
        let bytes = match &self.sizes {
            Sizes::Drawn(table) => drawn(table, random),
            Sizes::Mean(mean, shape) => {
                let factor = shape.map_or(1.0, |shape| gamma(shape, random) / shape);
                (*mean as f64 * factor) as u64
            }
        };
        bytes.max(SHORTEST).next_multiple_of(self.unit)
    }

    /// Opens an existing file: it is not removed until [`Set::closed`].
    pub(super) fn opened(&self, random: &mut Random) -> Option<u64> {
        let mut files = self.files.lock().ok()?;
        let index = self.index(files.exist.len() as u64, random);
        let number = files.exist.get(index as usize).copied()?;
        *files.open.entry(number).or_default() += 1;
        Some(number)
    }

    /// An existing file, for a query.
    pub(super) fn any(&self, random: &mut Random) -> Option<u64> {
        let files = self.files.lock().ok()?;
        let index = self.index(files.exist.len() as u64, random);
        files.exist.get(index as usize).copied()
    }

    fn index(&self, count: u64, random: &mut Random) -> u64 {
        match self.popularity {
            // The mean is a tenth of the files.
            Some(shape) => {
                let at = gamma(shape, random) / shape * count as f64 / 10.0;
                (at as u64).min(count.saturating_sub(1))
            }
            None => random.below(count),
        }
    }

    /// Ends a use of a file.
    pub(super) fn closed(&self, number: u64) {
        if let Ok(mut files) = self.files.lock() {
            let left = files.open.remove(&number).unwrap_or(1);
            if left > 1 {
                files.open.insert(number, left - 1);
            }
        }
    }

    /// Takes a file off the list that is not open.
    pub(super) fn take(&self, random: &mut Random) -> Option<u64> {
        let mut files = self.files.lock().ok()?;
        for _ in 0..TRIES {
            let index = random.below(files.exist.len() as u64) as usize;
            let number = files.exist.get(index).copied()?;
            if !files.open.contains_key(&number) {
                files.exist.swap_remove(index);
                return Some(number);
            }
        }
        None
    }

    /// Takes this file off the list; false if somebody has it open, or has taken it.
    pub(super) fn take_this(&self, number: u64) -> bool {
        let Ok(mut files) = self.files.lock() else {
            return false;
        };
        let place = files.exist.iter().position(|one| *one == number);
        match place {
            Some(index) if !files.open.contains_key(&number) => {
                files.exist.swap_remove(index);
                true
            }
            _ => false,
        }
    }

    /// The number of a new file.
    pub(super) fn next(&self) -> u64 {
        self.files.lock().map_or(0, |mut files| {
            files.next += 1;
            files.next - 1
        })
    }

    /// Puts a new file on the list, which its maker still has open.
    pub(super) fn put_open(&self, number: u64) {
        if let Ok(mut files) = self.files.lock() {
            files.exist.push(number);
            *files.open.entry(number).or_default() += 1;
        }
    }
}

fn table<'w>(workload: &'w Workload, spec: &FileSet) -> Option<&'w Table> {
    workload.tables.get(spec.table.as_deref()?)
}

/// What a step moves at once.
pub(super) fn amount(
    workload: &Workload,
    size: Option<&Amount>,
    random: &mut Random,
) -> Option<u64> {
    match size? {
        Amount::Bytes(bytes) => Some(*bytes),
        Amount::Table(name) => Some(drawn(workload.tables.get(name)?, random)),
    }
}

/// The most that a step moves at once.
pub(super) fn most(workload: &Workload, size: &Amount) -> Option<u64> {
    match size {
        Amount::Bytes(bytes) => Some(*bytes),
        Amount::Table(name) => workload.tables.get(name)?.most(),
    }
}

fn drawn(table: &Table, random: &mut Random) -> u64 {
    let total: u64 = table.0.iter().map(|[weight, ..]| weight).sum();
    let mut left = random.below(total.max(1));
    for [weight, least, most] in &table.0 {
        if left < *weight {
            return least + random.below(most - least + 1);
        }
        left -= weight;
    }
    SHORTEST
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

/// Number of files and average bytes of each, for a data set of this size.
pub(super) fn scale(workload: &Workload, spec: &FileSet, dataset_bytes: u64) -> (u64, u64) {
    let bytes = (dataset_bytes as f64 * spec.share) as u64;
    let given = spec.mean_size.or(table(workload, spec).map(Table::mean));
    let (files, mean) = match (spec.files, given) {
        (Some(files), Some(mean)) => (files, mean),
        (Some(files), None) => (files, bytes / files.max(1)),
        // A small data set has fewer files, none longer than the data set.
        (None, mean) => {
            let mean = mean.unwrap_or(4096).min(bytes.max(4096));
            (bytes / mean.max(1), mean)
        }
    };
    (files.clamp(1, MOST_FILES), mean.max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(spec: &FileSet, unit: u64) -> Set {
        Set::new(&workload(), spec, 16_384, unit)
    }

    fn workload() -> Workload {
        Workload::parse(crate::BUILT_IN[0].1).unwrap()
    }

    #[test]
    fn sizes_have_the_mean_and_the_spread_of_their_distribution() {
        let mut random = Random::new(5);
        for shape in [0.5, 1.5, 8.0] {
            let draws: Vec<f64> = (0..20_000).map(|_| gamma(shape, &mut random)).collect();
            let mean = statistics::stats::mean(&draws).unwrap();
            let deviation = statistics::stats::standard_deviation(&draws).unwrap();
            assert!((mean / shape - 1.0).abs() < 0.03, "{shape}: {mean}");
            assert!(
                (deviation / shape.sqrt() - 1.0).abs() < 0.05,
                "{shape}: {deviation}"
            );
        }
        let spec = FileSet {
            mean_size: Some(16_384),
            share: 0.5,
            ..FileSet::default()
        };
        assert_eq!(scale(&workload(), &spec, 1 << 20), (32, 16_384));
        let table = Table(vec![[1, 100, 100], [3, 500, 700]]);
        let draws: Vec<u64> = (0..4000).map(|_| drawn(&table, &mut random)).collect();
        let small = draws.iter().filter(|bytes| **bytes == 100).count();
        assert!((900..1100).contains(&small), "{small}");
        assert!(draws.iter().all(|b| *b == 100 || (500..=700).contains(b)));
    }

    #[test]
    fn lengths_are_whole_units_where_direct_access_needs_it() {
        let mut random = Random::new(5);
        let spec = FileSet {
            shape: Some(1.5),
            ..FileSet::default()
        };
        let (any, aligned) = (set(&spec, 1), set(&spec, 4096));
        assert!((0..100).any(|_| any.size(&mut random) % 4096 != 0));
        assert!((0..100).all(|_| aligned.size(&mut random) % 4096 == 0));
    }

    #[test]
    fn a_file_that_somebody_has_open_is_not_taken() {
        let (set, mut random) = (set(&FileSet::default(), 1), Random::new(7));
        let number = set.next();
        set.put_open(number);
        assert_eq!(set.take(&mut random), None);
        assert_eq!(set.opened(&mut random), Some(number));
        set.closed(number);
        assert!(!set.take_this(number));
        set.closed(number);
        assert!(set.take_this(number) && !set.take_this(number));
        assert_eq!(set.opened(&mut random), None);
    }

    #[test]
    fn a_few_files_are_popular() {
        let spec = FileSet {
            popularity: Some(0.1),
            ..FileSet::default()
        };
        let (set, mut random) = (set(&spec, 1), Random::new(3));
        for _ in 0..1000 {
            let number = set.next();
            set.put_open(number);
        }
        let first = (0..1000).filter(|_| set.any(&mut random).unwrap() < 100);
        assert!(first.count() > 700);
    }
}
