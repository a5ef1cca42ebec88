// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often chance makes an alignment with a score: the statistics of Karlin and Altschul (1990)
//! for ungapped alignments of a query with random bases, each with a probability of a quarter.

use crate::extend::scores;
use crate::{Query, Scoring};
use std::collections::BTreeMap;

/// The set of all bases, which `blastn` leaves out of a query's statistics.
const N: usize = 15;
/// `blastn` ends the series of K behind the first term that is not above this, or behind so many.
const LEAST_TERM: f64 = 1e-4;
const MOST_TERMS: usize = 100;

/// The parameters of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Significance {
    /// Of the exponential distribution, in nats a score.
    pub lambda: f64,
    /// How many independent places an alignment has, a pair of bases.
    pub k: f64,
    /// The relative entropy: nats a pair of an alignment.
    pub h: f64,
    /// Added to the length that an alignment takes at the ends of a sequence, as `blastn` does.
    beta: f64,
}

/// A database's size: all its volumes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bases of all sequences.
    pub bases: u64,
    /// Sequences.
    pub sequences: u64,
}

impl Significance {
    /// The parameters for queries of known bases; None where random bases score 0 or more on
    /// average, or no pair scores above 0: then every alignment can be of chance.
    pub fn new(scoring: &Scoring) -> Option<Self> {
        let chances = BTreeMap::from([(scoring.reward, 0.25), (scoring.penalty, 0.75)]);
        Self::of(scoring, &chances)
    }

    /// The parameters for this query: a letter for two or three bases scores otherwise than a known
    /// base, so its share counts. The letter N does not count, as in `blastn`.
    pub fn of_query(scoring: &Scoring, query: &Query) -> Option<Self> {
        let mut counts = [0_u64; 16];
        for &base in &query.bases {
            counts[usize::from(base & 15)] += 1;
        }
        counts[N] = 0;
        let total: u64 = counts.iter().sum();
        if total == 0 || total == [1, 2, 4, 8].map(|base| counts[base]).iter().sum() {
            return Self::new(scoring);
        }
        let matrix = scores(scoring);
        let mut chances = BTreeMap::new();
        for (set, &count) in counts.iter().enumerate() {
            for base in [1, 2, 4, 8] {
                *chances.entry(matrix[set][base]).or_default() += count as f64 / total as f64 / 4.0;
            }
        }
        chances.retain(|_, chance| *chance > 0.0);
        Self::of(scoring, &chances)
    }

    /// The same for scores with these chances, in order.
    fn of(scoring: &Scoring, chances: &BTreeMap<i32, f64>) -> Option<Self> {
        let mean: f64 = (chances.iter())
            .map(|(&score, chance)| f64::from(score) * chance)
            .sum();
        let (&high, _) = chances.last_key_value()?;
        if high <= 0 || scoring.reward <= 0 || mean >= 0.0 {
            return None;
        }
        // The walk has steps of the greatest common divisor.
        let step = (chances.keys()).fold(0, |step, score| divisor(step, score.unsigned_abs()));
        let walk: Vec<(i32, f64)> = (chances.iter())
            .map(|(&score, &chance)| (score / step as i32, chance))
            .collect();
        let lambda = lambda(&walk);
        let gain: f64 = (walk.iter())
            .map(|&(score, chance)| chance * f64::from(score) * (lambda * f64::from(score)).exp())
            .sum();
        let series = series(&walk, lambda);
        let beta = match (scoring.reward, scoring.penalty) {
            (1, -1) | (2, -3) => -2.0,
            _ => 0.0,
        };
        Some(Self {
            lambda: lambda / f64::from(step),
            k: (-2.0 * series).exp() / (gain * -(-lambda).exp_m1()),
            h: lambda * gain,
            beta,
        })
    }

    /// A score in bits.
    pub fn bits(&self, score: i32) -> f64 {
        (self.lambda * f64::from(score) - self.k.ln()) / std::f64::consts::LN_2
    }

    /// The pairs of bases at which an alignment of a query with a database can begin: both without
    /// the length that an alignment takes.
    pub fn pairs(&self, query_bases: u64, database: Size) -> f64 {
        let (query, bases) = (query_bases as f64, database.bases as f64);
        let sequences = database.sequences as f64;
        let rest = |length: u64| {
            let length = length as f64;
            (query - length, bases - sequences * length)
        };
        // The most bases that an alignment with one expected chance takes: its logarithm's pairs,
        // at `h` nats each.
        let takes = |length: u64| {
            let (query_rest, bases_rest) = rest(length);
            let chances = self.k * query_rest * bases_rest;
            query_rest > 0.0
                && bases_rest > 0.0
                && chances > query.max(bases)
                && chances.ln() / self.h + self.beta >= length as f64
        };
        let (mut length, mut most) = (0, query_bases);
        while length < most {
            let middle = length + (most - length).div_ceil(2);
            if takes(middle) {
                length = middle
            } else {
                most = middle - 1
            }
        }
        let (query, bases) = rest(length);
        query.max(0.0) * bases.max(1.0)
    }

    /// How many alignments with at least this score chance makes in so many pairs.
    pub fn e_value(&self, score: i32, pairs: f64) -> f64 {
        self.k * pairs * (-self.lambda * f64::from(score)).exp()
    }
}

fn divisor(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        _ => divisor(other, one % other),
    }
}

/// Where the mean of exp(lambda * score) is 1, besides 0: it is below 1 before and above behind.
fn lambda(walk: &[(i32, f64)]) -> f64 {
    let mean = |lambda: f64| -> f64 {
        (walk.iter())
            .map(|&(score, chance)| chance * (lambda * f64::from(score)).exp())
            .sum()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while mean(high) < 1.0 {
        high *= 2.0;
    }
    // To the last bit.
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return low;
        }
        if mean(middle) < 1.0 {
            low = middle
        } else {
            high = middle
        }
    }
}

/// The sum over the length of a walk: the chance that it ends at 0 or above, and the mean of
/// exp(lambda * end) below, divided by the length.
fn series(walk: &[(i32, f64)], lambda: f64) -> f64 {
    let lowest = walk.iter().map(|(score, _)| *score).min().unwrap_or(0);
    let highest = walk.iter().map(|(score, _)| *score).max().unwrap_or(0);
    // Where the walk goes up or down by one step only, blastn has a formula without a series.
    let (least, most) = if lowest == -1 || highest == 1 {
        (1e-13, 1000)
    } else {
        (LEAST_TERM, MOST_TERMS)
    };
    // The chance of each end, from the lowest on.
    let mut chances = vec![1.0];
    let mut sum = 0.0;
    for length in 1..=most {
        let mut next = vec![0.0; chances.len() + (highest - lowest) as usize];
        for (at, chance) in chances.iter().enumerate() {
            for (score, share) in walk {
                next[at + (score - lowest) as usize] += chance * share;
            }
        }
        chances = next;
        let of = |(at, chance): (usize, &f64)| {
            let end = at as f64 + length as f64 * f64::from(lowest);
            chance * (lambda * end.min(0.0)).exp()
        };
        let term = chances.iter().enumerate().map(of).sum::<f64>() / length as f64;
        sum += term;
        if term <= least {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reward: i32, penalty: i32) -> Option<Significance> {
        Significance::new(&Scoring {
            reward,
            penalty,
            ..Scoring::default()
        })
    }

    #[test]
    fn the_parameters_are_those_that_blastn_prints() {
        for (scores, lambda, k, h) in [
            ((2, -3), 0.634, 0.408, 0.912),
            ((1, -3), 1.37, 0.711, 1.31),
            ((1, -1), 1.10, 0.333, 0.549),
            ((5, -4), 0.192, 0.176, 0.357),
            ((1, -2), 1.33, 0.621, 1.12),
        ] {
            let found = of(scores.0, scores.1).unwrap();
            for (value, printed) in [(found.lambda, lambda), (found.k, k), (found.h, h)] {
                assert!(
                    (value / printed - 1.0_f64).abs() < 5e-3,
                    "{scores:?}: {found:?}"
                );
            }
        }
        // Steps of 1 and of 2 are the same walk.
        let (one, two) = (of(1, -2).unwrap(), of(2, -4).unwrap());
        assert!((one.k - two.k).abs() < 1e-12 && (one.lambda / 2.0 - two.lambda).abs() < 1e-12);
    }

    #[test]
    fn letters_for_several_bases_have_a_share_and_n_has_none() {
        let scoring = Scoring::default();
        let of = |known: usize, other: usize, set: u8| {
            let query = Query {
                name: String::new(),
                bases: [vec![1; known], vec![set; other]].concat(),
                gaps: 0,
            };
            Significance::of_query(&scoring, &query).unwrap()
        };
        // Of 300 bases, as blastn prints them.
        for (count, lambda, k, h) in [
            (1, 0.635, 0.409, 0.915),
            (3, 0.638, 0.410, 0.920),
            (10, 0.649, 0.413, 0.938),
            (30, 0.683, 0.423, 0.994),
        ] {
            let found = of(300 - count, count, 5);
            for (value, printed) in [(found.lambda, lambda), (found.k, k), (found.h, h)] {
                assert!((value - printed).abs() <= 0.0006, "{count}: {found:?}");
            }
        }
        assert_eq!(of(270, 30, 15), Significance::new(&scoring).unwrap());
        assert_eq!(of(0, 30, 15), Significance::new(&scoring).unwrap());
    }

    #[test]
    fn scores_that_chance_gains_have_none() {
        for scores in [(3, -1), (4, -1), (0, -1), (1, 0)] {
            assert_eq!(of(scores.0, scores.1), None, "{scores:?}");
        }
    }

    #[test]
    fn a_query_shorter_than_an_alignment_and_an_empty_database_have_finite_values() {
        let found = of(2, -3).unwrap();
        for query_bases in [0, 1, 11, 1 << 40] {
            for (bases, sequences) in [(0, 0), (1, 1), (1000, 999), (1 << 60, 1)] {
                let pairs = found.pairs(query_bases, Size { bases, sequences });
                assert!(pairs.is_finite() && pairs >= 0.0);
                assert!(found.e_value(i32::MAX, pairs).is_finite());
            }
        }
    }
}
