// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of the queries' words: which words of eight bases occur in them, and where.

use crate::{Error, LOOKUP, Query};

/// Values of a word of eight bases.
const WORDS: usize = 1 << (2 * LOOKUP);
/// Bases beside a look-up that make it a word: on one side, or on both together.
pub const BESIDE: u32 = 3;
/// The most positions: both strands.
const POSITIONS: usize = 1 << 30;

/// A strand of a query: a range of the table's positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strand {
    /// The query, from 0.
    pub query: u32,
    /// It is the reverse complement.
    pub is_minus: bool,
    /// Its first position.
    pub first: u32,
    /// After its last position.
    pub end: u32,
}

/// An occurrence of eight bases in a query, none of them ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The position of the first base.
    pub position: u32,
    /// 14 bases of 2 bits, the first in the highest of 28 bits: three before, the eight, three
    /// after.
    pub context: u32,
    /// Bases before and after the eight that can be compared, 0 to 3 each: in the strand and not
    /// ambiguous.
    pub room: [u8; 2],
}

/// The words of several queries and both their strands. A position counts the bases of all strands
/// in turn.
#[derive(Clone, Debug)]
pub struct Table {
    /// A bit for each value of a word.
    pub(crate) present: Box<[u64; WORDS / 64]>,
    /// The same, a byte for each.
    pub(crate) wide: Vec<u8>,
    /// The first entry of each value, and the end.
    starts: Vec<u32>,
    entries: Vec<Entry>,
    strands: Vec<Strand>,
    bases: Vec<u8>,
}

impl Table {
    /// Makes the table.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn new(queries: &[Query]) -> Result<Self, Error> {
        let total: usize = queries.iter().map(|query| query.bases.len() * 2).sum();
        if total > POSITIONS {
            return Err(Error::TooLong);
        }
        let mut table = Self {
            present: Box::new([0; WORDS / 64]),
            wide: vec![0; WORDS],
            starts: vec![0; WORDS + 1],
            entries: Vec::new(),
            strands: Vec::with_capacity(queries.len() * 2),
            bases: Vec::with_capacity(total),
        };
        for (query, sequence) in (0..).zip(queries) {
            for is_minus in [false, true] {
                let first = table.bases.len() as u32;
                if is_minus {
                    // The four bits in reverse order are the complement.
                    table.bases.extend(
                        sequence
                            .bases
                            .iter()
                            .rev()
                            .map(|base| base.reverse_bits() >> 4),
                    )
                } else {
                    table.bases.extend(&sequence.bases)
                }
                let end = table.bases.len() as u32;
                table.strands.push(Strand {
                    query,
                    is_minus,
                    first,
                    end,
                });
                table.add(first as usize..end as usize);
            }
        }
        table
            .entries
            .sort_by_key(|entry| (word_of(entry.context), entry.position));
        for entry in &table.entries {
            let word = word_of(entry.context);
            table.present[word >> 6] |= 1 << (word & 63);
            table.wide[word] = 1;
            table.starts[word + 1] += 1;
        }
        for word in 0..WORDS {
            table.starts[word + 1] += table.starts[word];
        }
        Ok(table)
    }

    /// Adds the entries of a strand.
    fn add(&mut self, range: std::ops::Range<usize>) {
        let bases = &self.bases[range.clone()];
        let code = |at: Option<usize>| match at.and_then(|at| bases.get(at)) {
            Some(base) if base.count_ones() == 1 => Some(base.trailing_zeros()),
            _ => None,
        };
        for at in 0..bases.len().saturating_sub(LOOKUP - 1) {
            if (at..at + LOOKUP).any(|at| code(Some(at)).is_none()) {
                continue;
            }
            let beside = BESIDE as usize;
            let before = (1..=beside)
                .take_while(|back| code(at.checked_sub(*back)).is_some())
                .count();
            let after = (0..beside)
                .take_while(|ahead| code(Some(at + LOOKUP + ahead)).is_some())
                .count();
            if before + after < beside {
                continue;
            }
            let all = (0..LOOKUP + 2 * beside)
                .map(|place| code((at + place).checked_sub(beside)).unwrap_or(0));
            self.entries.push(Entry {
                position: (range.start + at) as u32,
                context: all.fold(0, |context, code| context << 2 | code),
                room: [before as u8, after as u8],
            });
        }
    }

    /// The occurrences of a word of eight bases.
    pub fn entries(&self, word: u16) -> &[Entry] {
        let word = usize::from(word);
        &self.entries[self.starts[word] as usize..self.starts[word + 1] as usize]
    }

    /// All occurrences, in the order of their words.
    pub(crate) fn all(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether a word of eight bases occurs.
    pub fn has(&self, word: u16) -> bool {
        self.present[usize::from(word >> 6)] >> (word & 63) & 1 == 1
    }

    /// All strands, in the order of their positions.
    pub fn strands(&self) -> &[Strand] {
        &self.strands
    }

    /// The strand that a position is in. The position must be below [`positions`](Self::positions).
    pub(crate) fn strand_of(&self, position: u32) -> &Strand {
        let after = self
            .strands
            .partition_point(|strand| strand.first <= position);
        &self.strands[after.saturating_sub(1)]
    }

    /// Sets of bases, one a position.
    pub(crate) fn bases(&self) -> &[u8] {
        &self.bases
    }

    /// Number of positions.
    pub fn positions(&self) -> u32 {
        self.bases.len() as u32
    }
}

/// The eight bases of a context.
const fn word_of(context: u32) -> usize {
    (context >> (2 * BESIDE)) as usize & (WORDS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_whose_bases_are_known_has_an_entry() {
        let bases = vec![
            1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 15, 4, 8, 1, 2, 4, 8, 1, 1, 1, 1, 1,
        ];
        let table = Table::new(&[Query {
            name: String::new(),
            bases,
            gaps: 0,
        }])
        .unwrap();
        assert_eq!(table.positions(), 44);
        // Ten known bases before the N: no word of eleven.
        let all: Vec<u32> = (0..=u16::MAX)
            .flat_map(|word| table.entries(word))
            .map(|entry| entry.position)
            .collect();
        let plus = all.iter().filter(|&&position| position < 22);
        assert_eq!(
            {
                let mut plus: Vec<_> = plus.copied().collect();
                plus.sort_unstable();
                plus
            },
            [11, 12, 13, 14]
        );
        assert_eq!(all.len(), 8);
        let word = 0b1011_0001_1011_0000_u16; // GTACGTAA
        let entry = table.entries(word)[0];
        assert_eq!(
            (entry.position, entry.room, table.has(word)),
            (11, [0, 3], true)
        );
        assert_eq!(entry.context & 0x3f_ffff, 0b1011_0001_1011_0000 << 6);
        assert_eq!(
            table.strand_of(21),
            &Strand {
                query: 0,
                is_minus: false,
                first: 0,
                end: 22
            }
        );
        assert!(table.strand_of(22).is_minus);
        assert!(!table.has(word ^ 1));
    }
}
