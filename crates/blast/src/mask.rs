// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list of masked bases for the core `rtl/blastn`: those between the sequences of a database,
//! and the ambiguous ones.

use crate::{Error, Index, Span, Subject, ambiguities};

/// Bases of a word of the core's stream.
const BASES: u64 = 16;
/// The most words from one entry to the next.
const FARTHEST: u64 = 0x7fff;

/// Bases of a word of the stream that are masked.
#[derive(Clone, Copy, Debug)]
struct Entry {
    word: u64,
    /// The first base in the highest bit.
    masked: u16,
    /// All words up to the next entry are masked.
    rest: bool,
}

/// Makes the entries for register MASK. There is one for each word that ranges begin or end in, so
/// the core keeps up with any list.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    entries: Vec<u32>,
    /// The word after that of the last entry, and whether the words behind it are masked.
    after: (u64, bool),
    /// The next entry, to which more ranges may belong.
    open: Option<Entry>,
    /// The end of the last sequence.
    end: u64,
}

impl Mask {
    /// The list of a database of which all sequences are in memory.
    ///
    /// # Errors
    /// [`Error::Sequences`], [`Error::Truncated`].
    pub fn database(index: &Index, nsq: &[u8]) -> Result<Vec<u32>, Error> {
        let mut mask = Self::default();
        for ordinal in 0..index.len() {
            let damaged = |why| Error::Sequences {
                ordinal: ordinal as u32,
                why,
            };
            let [first, border, end] = index.place(ordinal).unwrap_or_default();
            let bytes = |first, end| {
                nsq.get(first as usize..end as usize)
                    .ok_or(Error::Truncated {
                        found_bytes: nsq.len() as u64,
                        expected_bytes: index.size_bytes(),
                    })
            };
            let bases = Subject::new(bytes(first, border)?, &[])
                .map_err(damaged)?
                .len();
            let ambiguous = ambiguities(bytes(border, end)?, bases).map_err(damaged)?;
            mask.sequence(first, bases, &ambiguous);
        }
        Ok(mask.finish(index.size_bytes()))
    }

    /// Adds the next sequence: its first byte in the stream, its bases, and those that are
    /// ambiguous. What lies between it and the one before is masked, too.
    pub fn sequence(&mut self, first_byte: u32, bases: u32, ambiguous: &[Span]) {
        let first = u64::from(first_byte) * 4;
        self.cover(self.end, first);
        for span in ambiguous {
            self.cover(first + u64::from(span.first), first + u64::from(span.end));
        }
        self.end = first + u64::from(bases);
    }

    /// Adds the bases from `first` to before `end`, counted from the start of the stream; none is
    /// before what was added earlier.
    pub fn cover(&mut self, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let [from, to] = [first, end].map(|base| (base / BASES, base % BASES));
        // From this base to the word's end; `shift` is at most 15.
        let behind = |shift: u64| u16::MAX >> shift;
        if from.0 == to.0 {
            self.open(from.0).masked |= behind(from.1) & !behind(to.1);
            return;
        }
        let entry = self.open(from.0);
        entry.masked |= behind(from.1);
        entry.rest = to.0 - from.0 > 1;
        if to.1 > 0 || to.0 - from.0 > 1 {
            self.open(to.0).masked |= !behind(to.1);
        }
    }

    /// Ends the list; a stream of this many bytes has no sequence behind the last one. Returns the
    /// entries.
    pub fn finish(mut self, size_bytes: u64) -> Vec<u32> {
        self.cover(self.end, size_bytes * 4);
        self.close();
        self.entries.push(0);
        self.entries
    }

    /// The entries that are complete, of a list that is made as the stream goes on.
    pub fn take(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.entries)
    }

    fn open(&mut self, word: u64) -> &mut Entry {
        if self.open.is_none_or(|entry| entry.word != word) {
            self.close();
        }
        self.open.get_or_insert(Entry {
            word,
            masked: 0,
            rest: false,
        })
    }

    /// Completes the open entry.
    fn close(&mut self) {
        let Some(entry) = self.open.take() else {
            return;
        };
        let (mut after, rest) = self.after;
        // The distance counts from the entry before, or from before the first word.
        while entry.word + 1 - after > FARTHEST {
            after += FARTHEST;
            self.entries
                .push(packed(FARTHEST, rest, if rest { u16::MAX } else { 0 }));
        }
        self.entries
            .push(packed(entry.word + 1 - after, entry.rest, entry.masked));
        self.after = (entry.word + 1, entry.rest);
    }
}

fn packed(distance: u64, rest: bool, masked: u16) -> u32 {
    (distance as u32) << 17 | u32::from(rest) << 16 | u32::from(masked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bases that a list masks, read as the core does.
    fn read(entries: &[u32], words: usize) -> Vec<bool> {
        let mut masked = Vec::new();
        let (mut entries, mut past, mut rest) = (entries.iter(), 1, false);
        let mut head = *entries.next().unwrap();
        for _ in 0..words {
            let here = head >> 17 != 0 && past == head >> 17;
            let bits = if here {
                head as u16
            } else {
                u16::from(rest).wrapping_neg()
            };
            masked.extend((0..16).map(|at| bits >> (15 - at) & 1 == 1));
            if here {
                (rest, past) = (head >> 16 & 1 == 1, 0);
                head = *entries.next().unwrap();
            }
            past += 1;
        }
        assert_eq!((head, entries.next()), (0, None));
        masked
    }

    #[test]
    fn a_list_masks_its_ranges_with_at_most_one_entry_a_word() {
        let mut random = fastrand::Rng::with_seed(crate::support::seed());
        for _ in 0..300 {
            let mut mask = Mask::default();
            let far = random.u8(..20) == 0;
            let words = 60 + if far { 200_000 } else { 0 };
            let mut expected = vec![false; words * 16];
            let most = random.usize(2..70);
            let (mut at, mut entries) = (0, Vec::new());
            loop {
                let step = if far && random.u8(..4) == 0 {
                    random.usize(..1_400_000)
                } else {
                    random.usize(..most)
                };
                let (first, end) = (at + random.usize(..most), at + step);
                if first.max(end) >= expected.len() {
                    break;
                }
                mask.cover(first as u64, end as u64);
                entries.extend(mask.take());
                expected[first..end.max(first)].fill(true);
                at = first.max(end);
            }
            entries.extend(mask.finish(0));
            assert_eq!(read(&entries, words), expected);
            assert!(entries.len() <= words + 1); // with the end
        }
    }
}
