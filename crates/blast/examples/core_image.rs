// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For the bench of `rtl/blastn`: what a processor writes into the core for the queries, and the
//! hits that it shall find in a stream.
//!
//! `core_image QUERY.fasta STREAM ENTRIES_LOG2 BUCKET_LOG2 [MASK [PAIRS]]` prints a line `present`,
//! `directory`, `entries`, `mask` and `positions` with hexadecimal words, and then a line `hit BASE
//! POSITION` for each hit. MASK is the index of a database whose sequences are the stream (`.nin`),
//! or a text with a line `FIRST END` for each range of masked bases; without it the stream is one
//! sequence. PAIRS is DIAGONALS_LOG2:WINDOW of the two-hit filter.
//!
//! With `-- BASE:ENTRY...` behind it also `found BASE POSITION` for these registers. Those that the
//! core has not checked are confirmed, and dropped if they are no seed.

use straightway_blast::{
    Found, Image, Index, Mask, Pairs, Seed, Span, Subject, Table, ambiguities,
};
use straightway_blast::{queries, scan_scalar};

/// What is searched: sequences, their first bytes in the stream, and their ambiguities.
struct Sequences<'a> {
    parts: Vec<(u64, &'a [u8], Vec<Span>)>,
    index: Option<Index>,
}

impl Sequences<'_> {
    fn subject(&self, ordinal: usize) -> Result<Subject<'_>, &'static str> {
        let (_, packed, masked) = &self.parts[ordinal];
        match self.index {
            Some(_) => Subject::new(packed, masked),
            None => Ok(Subject::stream(packed).masked_by(masked)),
        }
    }

    fn confirm(&self, table: &Table, found: &Found) -> Result<Option<(u64, u32)>, &'static str> {
        let place = match &self.index {
            Some(index) => index.at(found.byte),
            None => Some((0, found.byte as u32)),
        };
        let Some((ordinal, byte)) = place else {
            return Ok(None);
        };
        let seed = self.subject(ordinal)?.confirm(table, byte, found.position);
        Ok(seed.map(|seed| self.word(ordinal, seed)))
    }

    fn word(&self, ordinal: usize, seed: Seed) -> (u64, u32) {
        (
            self.parts[ordinal].0 * 4 + u64::from(seed.subject),
            seed.position,
        )
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [query, stream, entries, buckets, rest @ ..] = &words[..] else {
        return Err(
            "core_image QUERY.fasta STREAM ENTRIES_LOG2 BUCKET_LOG2 [MASK] [-- BASE:ENTRY...]"
                .into(),
        );
    };
    let table = Table::new(&queries(&std::fs::read(query)?)?)?;
    let image = Image::new(&table, entries.parse()?, buckets.parse()?)?;
    let bytes = std::fs::read(stream)?;
    let mut mask = Mask::default();
    let mut sequences = Sequences {
        parts: Vec::new(),
        index: None,
    };
    let options = rest.iter().position(|word| word == "--");
    let (options, registers) = rest.split_at(options.unwrap_or(rest.len()));
    let path = options.first();
    let mut pairs = match options.get(1).and_then(|word| word.split_once(':')) {
        Some((diagonals, window)) => Pairs::new(diagonals.parse()?, window.parse()?),
        None => Pairs::new(0, 0),
    };
    let list = match path {
        Some(path) if path.ends_with(".nin") => {
            let index = Index::parse(&std::fs::read(path)?)?;
            for ordinal in 0..index.len() {
                let place = index.place(ordinal).ok_or("a sequence")?;
                let [first, border, end] = place.map(|offset| offset as usize);
                let packed = &bytes[first..border];
                let masked = ambiguities(&bytes[border..end], Subject::new(packed, &[])?.len())?;
                sequences.parts.push((first as u64, packed, masked));
            }
            let list = Mask::database(&index, &bytes)?;
            sequences.index = Some(index);
            list
        }
        path => {
            let mut masked = Vec::new();
            let text = path.map_or(Ok(String::new()), std::fs::read_to_string)?;
            for line in text.lines() {
                let (first, end) = line.split_once(' ').ok_or("FIRST END")?;
                let [first, end]: [u32; 2] = [first.parse()?, end.parse()?];
                mask.cover(u64::from(first), u64::from(end));
                let bases = 15;
                masked.push(Span { first, end, bases });
            }
            sequences.parts.push((0, &bytes, masked));
            mask.finish(0)
        }
    };
    for (name, words) in [
        ("present", &image.present),
        ("directory", &image.directory),
        ("entries", &image.entries),
        ("mask", &list),
        ("positions", &image.positions()?.to_vec()),
    ] {
        print!("{name}");
        words.iter().for_each(|word| print!(" {word:x}"));
        println!();
    }
    for ordinal in 0..sequences.parts.len() {
        scan_scalar(&table, &sequences.subject(ordinal)?, &mut |seed| {
            let (base, position) = sequences.word(ordinal, seed);
            if pairs.passes(base, position, true) {
                println!("hit {base} {position}")
            }
        });
    }
    for pair in registers.iter().skip(1) {
        let (base, entry) = pair.split_once(':').ok_or("BASE:ENTRY")?;
        let found = image
            .found(base.parse()?, entry.parse()?)
            .ok_or("an entry that the table does not have")?;
        let word = if found.is_checked {
            Some(found.word)
        } else {
            sequences.confirm(&table, &found)?
        };
        if let Some((base, position)) = word {
            println!("found {base} {position}");
        }
    }
    Ok(())
}
