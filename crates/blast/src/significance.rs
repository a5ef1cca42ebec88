//! How often chance makes an alignment with a score: the statistics of Karlin and Altschul (1990) for ungapped alignments of random
//! bases, each with a probability of a quarter.

use crate::Scoring;

const EQUAL: f64 = 0.25;
const DIFFERENT: f64 = 1.0 - EQUAL;
/// Terms of the series of K: its sum converges geometrically, slowly only where chance gains almost as much as it loses.
const MOST_TERMS: usize = 1000;

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
    /// The parameters; None where random bases score 0 or more on average, or a score is 0: then every alignment can be of chance.
    pub fn new(scoring: &Scoring) -> Option<Self> {
        let (reward, penalty) = (f64::from(scoring.reward), f64::from(scoring.penalty));
        if reward <= 0.0 || EQUAL * reward + DIFFERENT * penalty >= 0.0 {
            return None;
        }
        // The walk has steps of the greatest common divisor.
        let step = divisor(
            scoring.reward.unsigned_abs(),
            scoring.penalty.unsigned_abs(),
        );
        let (reward, penalty) = (reward / f64::from(step), penalty / f64::from(step));
        let lambda = lambda(reward, penalty);
        let gain = EQUAL * reward * (lambda * reward).exp()
            + DIFFERENT * penalty * (lambda * penalty).exp();
        let series = series(reward, penalty, lambda);
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

    /// The pairs of bases at which an alignment of a query with a database can begin: both without the length that an alignment takes.
    pub fn pairs(&self, query_bases: u64, database: Size) -> f64 {
        let (query, bases) = (query_bases as f64, database.bases as f64);
        let sequences = database.sequences as f64;
        let rest = |length: u64| {
            let length = length as f64;
            (query - length, bases - sequences * length)
        };
        // The most bases that an alignment with one expected chance takes: its logarithm's pairs, at `h` nats each.
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
            match takes(middle) {
                true => length = middle,
                false => most = middle - 1,
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
fn lambda(reward: f64, penalty: f64) -> f64 {
    let mean = |lambda: f64| EQUAL * (lambda * reward).exp() + DIFFERENT * (lambda * penalty).exp();
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
        match mean(middle) < 1.0 {
            true => low = middle,
            false => high = middle,
        }
    }
}

/// The sum over the length of a walk: the chance that it ends at 0 or above, and the mean of exp(lambda * end) below, divided by the
/// length.
fn series(reward: f64, penalty: f64, lambda: f64) -> f64 {
    // The chance of each number of equal bases.
    let mut chances = vec![1.0];
    let mut sum = 0.0;
    for length in 1..=MOST_TERMS {
        chances.push(0.0);
        for equal in (0..=length).rev() {
            let with_equal = match equal {
                0 => 0.0,
                _ => chances[equal - 1] * EQUAL,
            };
            chances[equal] = chances[equal] * DIFFERENT + with_equal;
        }
        let of = |(equal, chance): (usize, &f64)| {
            let score = equal as f64 * reward + (length - equal) as f64 * penalty;
            chance * (lambda * score.min(0.0)).exp()
        };
        let term = chances.iter().enumerate().map(of).sum::<f64>() / length as f64;
        sum += term;
        if term < 1e-13 {
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
