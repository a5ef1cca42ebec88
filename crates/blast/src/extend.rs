// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From seeds to ungapped alignments: one extension a diagonal, as `blastn -ungapped` makes them.

use crate::{Seed, Subject, Table, WORD};

/// What equal and different bases count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoring {
    /// Of equal bases, above 0.
    pub reward: i32,
    /// Of different bases, below 0.
    pub penalty: i32,
    /// How far the score of an extension falls below its best before it ends.
    pub x_drop: i32,
    /// The lowest score of an alignment that is reported.
    pub min_score: i32,
}

impl Default for Scoring {
    /// Those of `blastn -task blastn`: 20 bits of drop are 22 at these scores. A word alone is
    /// reported.
    fn default() -> Self {
        Self {
            reward: 2,
            penalty: -3,
            x_drop: 22,
            min_score: 22,
        }
    }
}

/// A filter: a seed is extended if another one precedes it on its diagonal, without a common base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoHit {
    /// The most bases from the first base of one to that of the other.
    pub window: u32,
}

/// An ungapped alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hsp {
    /// The query, from 0.
    pub query: u32,
    /// The sequence in the database, from 0.
    pub subject: u32,
    /// The query is reverse and complemented.
    pub is_minus: bool,
    /// Its first base in the query's strand that was given, from 0.
    pub query_first: u32,
    /// Its first base in the subject, from 0.
    pub subject_first: u32,
    /// Number of bases.
    pub length: u32,
    /// Number of equal bases.
    pub identities: u32,
    /// The score.
    pub score: i32,
}

impl Hsp {
    /// The first and the last base in query and subject, from 1, as `-outfmt 6` has them: on the
    /// minus strand the subject's are in reverse.
    pub const fn ends(&self) -> [u32; 4] {
        let last = self.length - 1;
        let (query, subject) = (self.query_first + 1, self.subject_first + 1);
        if self.is_minus {
            [query, query + last, subject + last, subject]
        } else {
            [query, query + last, subject, subject + last]
        }
    }
}

/// What was seen last on a diagonal, in bases of all subjects so far.
#[derive(Clone, Copy, Debug, Default)]
struct Diagonal {
    /// Which one: several share an entry.
    which: u64,
    /// The end of the last extension.
    explored: u64,
    /// The first base of the last seed, and 1.
    seed: u64,
}

/// Extends seeds. There is an entry for each diagonal that the queries have at one base of a
/// subject, as in `blastn`.
#[derive(Debug)]
pub struct Extender {
    scoring: Scoring,
    two_hit: Option<TwoHit>,
    scores: [[i32; 16]; 16],
    diagonals: Vec<Diagonal>,
    /// Bases of the subjects before this one.
    before: u64,
}

impl Extender {
    pub fn new(table: &Table, scoring: Scoring, two_hit: Option<TwoHit>) -> Self {
        let size = (table.positions() as usize).next_power_of_two();
        Self {
            scoring,
            two_hit,
            scores: scores(&scoring),
            diagonals: vec![Diagonal::default(); size],
            before: 1,
        }
    }

    /// Ends a subject.
    pub fn next_subject(&mut self, subject: &Subject<'_>) {
        let window = self.two_hit.map_or(0, |two| two.window);
        self.before += u64::from(subject.len()) + u64::from(window);
    }

    /// Extends a seed, if its place is not explored.
    pub fn extend(
        &mut self,
        table: &Table,
        subject: &Subject<'_>,
        ordinal: u32,
        seed: Seed,
    ) -> Option<Hsp> {
        let at = self.before + u64::from(seed.subject);
        let which = at + u64::from(table.positions()) - u64::from(seed.position);
        let index = which as usize & (self.diagonals.len() - 1);
        let last = match self.diagonals[index] {
            last if last.which == which => last,
            _ => Diagonal {
                which,
                ..Diagonal::default()
            },
        };
        self.diagonals[index] = last;
        if at < last.explored {
            return None;
        }
        if let Some(two) = self.two_hit {
            let apart = (at + 1).saturating_sub(last.seed);
            let is_second =
                last.seed != 0 && apart >= WORD as u64 && apart <= u64::from(two.window);
            // A seed that overlaps the first one is the same match.
            if last.seed == 0 || apart >= WORD as u64 {
                self.diagonals[index].seed = at + 1;
            }
            if !is_second {
                return None;
            }
        }
        let (hsp, end) = self.align(table, subject, ordinal, seed);
        self.diagonals[index].explored = self.before + u64::from(end);
        hsp
    }

    /// The alignment, and where the exploration ended.
    fn align(
        &self,
        table: &Table,
        subject: &Subject<'_>,
        ordinal: u32,
        seed: Seed,
    ) -> (Option<Hsp>, u32) {
        let strand = *table.strand_of(seed.position);
        let query = &table.bases()[strand.first as usize..strand.end as usize];
        let first = seed.position - strand.first;
        let score = |back: u32, ahead: u32| {
            let base = query[(first + ahead - back) as usize];
            self.scores[usize::from(base)][1 << subject.base(seed.subject + ahead - back)]
        };
        let room = first.min(seed.subject);
        let (before, left) = self.best((1..=room).map(|back| score(back, 0)), None);
        let room = (query.len() as u32 - first).min(subject.len() - seed.subject);
        let (after, right) = self.best((0..room).map(|ahead| score(0, ahead)), Some(left));
        if left + right < self.scoring.min_score {
            return (None, seed.subject + WORD as u32);
        }
        let (query_first, subject_first) = (first - before, seed.subject - before);
        let pairs = (0..before + after).map(|at| {
            (
                query[(query_first + at) as usize],
                subject.set(subject_first + at),
            )
        });
        let hsp = self.best_part(pairs).map(|part| {
            let query_first = query_first + part.first;
            Hsp {
                query: strand.query,
                subject: ordinal,
                is_minus: strand.is_minus,
                query_first: if strand.is_minus {
                    query.len() as u32 - query_first - part.length
                } else {
                    query_first
                },
                subject_first: subject_first + part.first,
                length: part.length,
                identities: part.identities,
                score: part.score,
            }
        });
        (hsp, subject_first + before + after)
    }

    /// How many bases to take in one direction, and their score. It ends where the sum falls by
    /// more than `x_drop` below the best, or takes more than all that was gained, if something was
    /// gained before.
    fn best(&self, scores: impl Iterator<Item = i32>, gained: Option<i32>) -> (u32, i32) {
        let (mut count, mut best, mut sum) = (0, 0, 0);
        for (taken, score) in (1..).zip(scores) {
            sum += score;
            if sum > 0 {
                (count, best, sum) = (taken, best + sum, 0);
            } else if sum
                < -gained.map_or(self.scoring.x_drop, |gained| {
                    self.scoring.x_drop.min(gained + best)
                })
            {
                break;
            }
        }
        (count, best)
    }

    /// The part with the highest score, ambiguous bases counted as such.
    fn best_part(&self, pairs: impl Iterator<Item = (u8, u8)>) -> Option<Part> {
        let mut best = Part::default();
        let mut part = Part::default();
        let mut equal = 0;
        for (at, (query, subject)) in (1..).zip(pairs) {
            part.score += self.scores[usize::from(query & 15)][usize::from(subject & 15)];
            equal += u32::from(query == subject && query.count_ones() == 1);
            if part.score < 0 {
                part = Part {
                    first: at,
                    ..Part::default()
                };
                equal = 0;
            } else if part.score > best.score {
                best = Part {
                    length: at - part.first,
                    identities: equal,
                    ..part
                };
            }
        }
        (best.score >= self.scoring.min_score).then_some(best)
    }
}

/// A part of an alignment.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    first: u32,
    length: u32,
    identities: u32,
    score: i32,
}

/// What each pair of sets of bases counts: the mean over the larger set if they have a base in
/// common.
pub fn scores(scoring: &Scoring) -> [[i32; 16]; 16] {
    let score = |query: usize, subject: usize| {
        let size = (query.count_ones()).max(subject.count_ones()) as i32;
        match query & subject {
            0 => scoring.penalty,
            _ => {
                let sum = f64::from(scoring.reward + (size - 1) * scoring.penalty);
                (sum / f64::from(size)).round() as i32
            }
        }
    };
    std::array::from_fn(|query| std::array::from_fn(|subject| score(query, subject)))
}
