// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search in a database as the bytes of its sequences arrive.

use crate::extend::Extender;
use crate::{
    Error, Hsp, Index, Scoring, Seed, Subject, Table, TwoHit, ambiguities, scan, scan_scalar,
};

/// How to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchOptions {
    /// What bases count.
    pub scoring: Scoring,
    /// The filter, if any.
    pub two_hit: Option<TwoHit>,
    /// Scan one look-up at a time.
    pub is_scalar: bool,
}

/// What a search has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// Sequences.
    pub sequences: u64,
    /// Bases.
    pub bases: u64,
    /// Ambiguous bases among them.
    pub masked_bases: u64,
    /// Seeds.
    pub seeds: u64,
}

/// A search in one volume of a database. It keeps at most one sequence, and what it has found.
#[derive(Debug)]
pub struct Search<'a> {
    index: &'a Index,
    table: &'a Table,
    options: SearchOptions,
    extender: Extender,
    /// The number of the index's first sequence in the whole database.
    first: u32,
    /// The sequence that is next.
    ordinal: usize,
    /// The next byte of the file.
    at: u64,
    /// The beginning of the next sequence, if its end has not arrived.
    kept: Vec<u8>,
    seeds: Vec<Seed>,
    counts: SearchCounts,
    found: Vec<Hsp>,
}

impl<'a> Search<'a> {
    /// Begins. The index's sequences count from `first`, for a database of several volumes.
    pub fn new(index: &'a Index, table: &'a Table, options: SearchOptions, first: u32) -> Self {
        Self {
            index,
            table,
            options,
            extender: Extender::new(table, options.scoring, options.two_hit),
            first,
            ordinal: 0,
            at: 0,
            kept: Vec::new(),
            seeds: Vec::new(),
            counts: SearchCounts::default(),
            found: Vec::new(),
        }
    }

    /// Takes the next bytes of the sequences' file, as many as there are.
    ///
    /// # Errors
    /// [`Error::Sequences`]: a sequence is damaged. The search cannot go on.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let begins = self.at;
        self.at += bytes.len() as u64;
        // A byte of the file in `bytes`; what lies before them is in `kept`.
        let within = |offset: u32| {
            usize::try_from(u64::from(offset).saturating_sub(begins)).unwrap_or(usize::MAX)
        };
        while let Some([first, border, end]) = self.index.place(self.ordinal) {
            if u64::from(end) > self.at {
                let rest = bytes.get(within(first)..).unwrap_or_default();
                self.kept.extend_from_slice(rest);
                break;
            }
            let packed_length = (border - first) as usize;
            if self.kept.is_empty() {
                self.search(&bytes[within(first)..within(end)], packed_length)?;
            } else {
                let mut whole = std::mem::take(&mut self.kept);
                whole.extend_from_slice(&bytes[..within(end)]);
                self.search(&whole, packed_length)?;
                whole.clear();
                self.kept = whole;
            }
            self.ordinal += 1;
        }
        Ok(())
    }

    /// Searches in a sequence, which its ambiguities follow.
    fn search(&mut self, bytes: &[u8], packed_length: usize) -> Result<(), Error> {
        let ordinal = self.first.saturating_add(self.ordinal as u32);
        let damaged = |why| Error::Sequences { ordinal, why };
        let (packed, words) = bytes.split_at(packed_length);
        let subject = Subject::new(packed, &[]).map_err(damaged)?;
        let masked = ambiguities(words, subject.len()).map_err(damaged)?;
        let subject = Subject::new(packed, &masked).map_err(damaged)?;
        self.counts.sequences += 1;
        self.counts.bases += u64::from(subject.len());
        self.counts.masked_bases += masked
            .iter()
            .map(|span| u64::from(span.end - span.first))
            .sum::<u64>();
        self.seeds.clear();
        let seeds = &mut self.seeds;
        if self.options.is_scalar {
            scan_scalar(self.table, &subject, &mut |seed| seeds.push(seed))
        } else {
            scan(self.table, &subject, &mut |seed| seeds.push(seed))
        }
        self.counts.seeds += self.seeds.len() as u64;
        for &seed in &self.seeds {
            self.found
                .extend(self.extender.extend(self.table, &subject, ordinal, seed));
        }
        self.extender.next_subject(&subject);
        Ok(())
    }

    /// What was seen so far.
    pub const fn counts(&self) -> SearchCounts {
        self.counts
    }

    /// Ends, and returns what was found, in the order of the subjects.
    ///
    /// # Errors
    /// [`Error::Truncated`]: not all sequences have arrived.
    pub fn finish(self) -> Result<(Vec<Hsp>, SearchCounts), Error> {
        if self.ordinal == self.index.len() {
            Ok((self.found, self.counts))
        } else {
            Err(Error::Truncated {
                found_bytes: self.at,
                expected_bytes: self.index.size_bytes(),
            })
        }
    }
}
