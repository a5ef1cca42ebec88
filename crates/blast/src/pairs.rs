// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two-hit filter of the core `rtl/blastn`: its model.

use crate::WORD;

/// What the core adds to the window: the mark stands for hits of up to ten bases behind it, a hit
/// that is not checked may begin three bases early, and hits of two diagonals may be out of order
/// by three.
const SLACK: u64 = 16;
/// Diagonals count with the bits of a base.
const DIAGONALS: u64 = (1 << 34) - 1;

/// The mark of a diagonal.
#[derive(Clone, Copy, Debug)]
struct Mark {
    diagonal: u64,
    base: u64,
    passed: bool,
}

/// The filter. It passes each hit that another one precedes on its diagonal, 11 to `window` bases
/// before; so each that [`TwoHit`](crate::TwoHit) extends. Of the others it passes those that have
/// one within 26 bases more, and, if the queries have more positions than the core has slots for,
/// some whose mark another diagonal has replaced.
#[derive(Clone, Debug)]
pub struct Pairs {
    window: u64,
    marks: Vec<Option<Mark>>,
}

impl Pairs {
    /// A filter with 2^`diagonals_log2` slots (at most 16) and a window of at most 1,023 bases; 0
    /// passes all.
    pub fn new(diagonals_log2: u32, window: u32) -> Self {
        Self {
            window: u64::from(window.min(1023)),
            marks: vec![None; 1 << diagonals_log2.min(16)],
        }
    }

    /// Whether the next hit passes: its first base in the stream, and the position of that in the
    /// table.
    pub fn passes(&mut self, base: u64, position: u32, is_checked: bool) -> bool {
        let diagonal = base.wrapping_sub(u64::from(position)) & DIAGONALS;
        let slot = diagonal as usize & (self.marks.len() - 1);
        let mark = self.marks[slot];
        let reach = self.window + SLACK;
        let always = self.window == 0 || !is_checked;
        let passed = match mark {
            Some(mark) if mark.diagonal == diagonal => {
                let apart = base.wrapping_sub(mark.base) & DIAGONALS;
                if apart < WORD as u64 {
                    return always || mark.passed;
                }
                always || apart <= reach
            }
            // It may have replaced a mark of this diagonal.
            Some(mark) => always || (base + 3).wrapping_sub(mark.base) & DIAGONALS <= reach,
            None => always,
        };
        self.marks[slot] = Some(Mark {
            diagonal,
            base,
            passed,
        });
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extend::Extender;
    use crate::{Query, Scoring, Subject, Table, TwoHit, scan_scalar};

    #[test]
    fn no_seed_with_another_one_in_the_window_is_dropped_and_few_others_pass() {
        let mut random = fastrand::Rng::with_seed(crate::support::seed());
        let [mut seeds, mut extended, mut passed] = [0; 3];
        for round in 0..300 {
            let window = random.u32(11..80);
            let unit: Vec<u8> = (0..60).map(|_| random.u8(..4)).collect();
            let mut bases = Vec::new();
            while bases.len() < 1200 {
                // Copies with differing bases: seeds on the same diagonals, at all distances.
                let change = random.usize(8..60);
                bases.extend(unit.iter().map(|&base| match random.usize(..change) {
                    0 => random.u8(..4),
                    _ => base,
                }));
                bases.extend((0..random.usize(..9)).map(|_| random.u8(..4)));
            }
            let query = Query {
                name: String::new(),
                bases: unit.repeat(3).iter().map(|base| 1 << base).collect(),
                gaps: 0,
            };
            let table = Table::new(&[query]).unwrap();
            bases.push(0);
            bases.truncate(bases.len() / 4 * 4);
            let packed: Vec<u8> = bases
                .chunks(4)
                .map(|four| four.iter().fold(0, |byte, base| byte << 2 | base))
                .collect();
            let subject = Subject::stream(&packed);
            let mut all = Vec::new();
            scan_scalar(&table, &subject, &mut |seed| all.push(seed));
            // 512 slots are enough for 360 positions and the window; 16 are not.
            let is_large = round % 2 == 0;
            let mut pairs = Pairs::new(if is_large { 9 } else { 4 }, window);
            let mut extender = Extender::new(&table, Scoring::default(), Some(TwoHit { window }));
            for (at, seed) in all.iter().enumerate() {
                // Which seed precedes this one on the diagonal at these distances.
                let has = |most: u32| {
                    all[..at].iter().any(|one| {
                        let apart = seed.subject.wrapping_sub(one.subject);
                        apart == seed.position.wrapping_sub(one.position)
                            && (WORD as u32..=most).contains(&apart)
                    })
                };
                let passes = pairs.passes(u64::from(seed.subject), seed.position, true);
                assert!(passes || !has(window), "{seed:?}");
                assert!(!is_large || !passes || has(window + 26), "{seed:?}");
                // Eleven equal bases have the lowest score: what is extended is reported.
                let is_extended = extender.extend(&table, &subject, 0, *seed).is_some();
                assert!(passes || !is_extended, "{seed:?}");
                seeds += 1;
                extended += usize::from(is_extended);
                passed += usize::from(passes && is_large);
            }
        }
        assert!(
            extended > 500 && passed < seeds / 2 && passed > 500,
            "{seeds} {extended} {passed}"
        );
    }
}
