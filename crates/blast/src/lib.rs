#![doc = include_str!("../README.md")]
// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod database;
mod extend;
mod fasta;
mod hardware;
mod mask;
mod names;
mod pairs;
mod printed;
mod scan;
mod search;
mod significance;
mod table;

#[cfg(test)]
#[path = "../tests/search/support/mod.rs"]
mod support;

pub use database::{Alias, Index, Span, ambiguities};
pub use extend::{Hsp, Scoring, TwoHit};
pub use fasta::{Query, queries};
pub use hardware::{Found, Image};
pub use mask::Mask;
pub use names::name;
pub use pairs::Pairs;
pub use printed::{bits_text, e_value_text};
pub use scan::{Seed, Subject, scan, scan_scalar};
pub use search::{Search, SearchCounts, SearchOptions};
pub use significance::{Significance, Size};
pub use table::{Strand, Table};

/// Bases of a seed.
pub const WORD: usize = 11;
/// Bases of a look-up: two bytes of a packed sequence.
pub const LOOKUP: usize = 8;

/// What is wrong with a database or a query. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The index (`.nin`) is not one of a nucleotide database of version 4 or 5.
    Index(&'static str),
    /// The sequences (`.nsq`) do not fit the index.
    Sequences {
        /// The sequence, from 0.
        ordinal: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// The sequences end before the index says so.
    Truncated {
        /// Bytes that there are.
        found_bytes: u64,
        /// Bytes that the index asks for.
        expected_bytes: u64,
    },
    /// The alias file (`.nal`) names no database.
    Alias,
    /// The alias file has this word, which chooses some of the sequences or is not known: with it
    /// the database is another one.
    AliasWord(String),
    /// The queries are not FASTA.
    Query {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// There are more query bases than a table takes: 2^29.
    TooLong,
    /// The queries have more words than the core's table has entries.
    CoreIsFull {
        /// Words of the queries.
        words: usize,
        /// Entries of the core.
        entries: usize,
    },
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index(why) => write!(f, "the index is not one of a nucleotide database: {why}"),
            Self::Sequences { ordinal, why } => {
                write!(f, "sequence {ordinal} of the database: {why}")
            }
            Self::Truncated {
                found_bytes,
                expected_bytes,
            } => write!(
                f,
                "the sequences have {found_bytes} bytes, and the index asks for {expected_bytes}: the database is truncated, or its files are of two databases"
            ),
            Self::Alias => write!(f, "the alias file names no database (no DBLIST)"),
            Self::AliasWord(word) => write!(
                f,
                "the alias file has a line `{word}`, which is not supported: only whole databases are searched"
            ),
            Self::Query { line, why } => write!(f, "line {line} of the queries: {why}"),
            Self::CoreIsFull { words, entries } => write!(
                f,
                "the queries have {words} words, and the core has {entries} entries: search for some at a time"
            ),
            Self::TooLong => write!(
                f,
                "the queries have more than 2^29 bases: search for some at a time"
            ),
        }
    }
}

impl std::error::Error for Error {}
