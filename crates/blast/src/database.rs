// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NCBI's files of a nucleotide database, as `makeblastdb` writes them: the index (`.nin`), the
//! packed sequences (`.nsq`), and the alias of a database of several volumes (`.nal`).

use crate::Error;

/// The index of a database, or of a volume of one: where each sequence is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// 4 or 5.
    pub version: u32,
    /// The title of the database.
    pub title: String,
    /// Bases of all sequences, as the index has it.
    pub bases: u64,
    /// Where each sequence's entry begins in the headers (`.nhr`), and their end.
    pub headers: Vec<u32>,
    /// Where each sequence begins in the sequences, and the end of the last one.
    sequences: Vec<u32>,
    /// Where each sequence's ambiguities begin. They end where the next sequence begins.
    ambiguities: Vec<u32>,
}

/// Bases of a sequence that are ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub first: u32,
    /// After the last one.
    pub end: u32,
    /// The set of bases that each may be: A 1, C 2, G 4, T 8.
    pub bases: u8,
}

/// Reads big-endian numbers and texts.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(Error::Index("it is truncated"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u32, Error> {
        Ok(self
            .bytes(4)?
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    fn text(&mut self) -> Result<&'a [u8], Error> {
        let length = self.number()?;
        self.bytes(length as usize)
    }

    fn offsets(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        let bytes = self.bytes(count.saturating_mul(4))?;
        let number = |word: &[u8]| {
            word.iter()
                .fold(0, |value, &byte| value << 8 | u32::from(byte))
        };
        Ok(bytes.chunks_exact(4).map(number).collect())
    }
}

impl Index {
    /// Reads a `.nin` file.
    ///
    /// # Errors
    /// [`Error::Index`]: it is truncated, of another kind or version, or its offsets are not in
    /// order.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader(bytes);
        let version = reader.number()?;
        if !matches!(version, 4 | 5) {
            return Err(Error::Index("only versions 4 and 5 are known"));
        }
        match reader.number()? {
            0 => {}
            1 => return Err(Error::Index("it is one of proteins")),
            _ => return Err(Error::Index("it has no known kind of sequences")),
        }
        if version == 5 {
            reader.number()?; // the volume
        }
        let title = String::from_utf8_lossy(reader.text()?).into_owned();
        if version == 5 {
            reader.text()?; // the file of the identifiers
        }
        reader.text()?; // the date
        let count = reader.number()? as usize;
        let bases = reader
            .bytes(8)?
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte));
        reader.number()?; // the longest sequence
        let entries = count
            .checked_add(1)
            .ok_or(Error::Index("it is truncated"))?;
        let index = Self {
            version,
            title,
            bases,
            headers: reader.offsets(entries)?,
            sequences: reader.offsets(entries)?,
            ambiguities: reader.offsets(entries)?,
        };
        index.check()?;
        Ok(index)
    }

    fn check(&self) -> Result<(), Error> {
        let disordered = Error::Index("its offsets are not in order");
        let in_order = |offsets: &[u32]| offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        if !in_order(&self.headers) {
            return Err(disordered);
        }
        for ordinal in 0..self.len() {
            let [first, end] = [self.sequences[ordinal], self.sequences[ordinal + 1]];
            let middle = self.ambiguities[ordinal];
            // The last byte has the number of its bases, so none is empty. Offsets of bases have 32
            // bits.
            if first == 0 || first >= middle || middle > end || middle - first > 1 << 30 {
                return Err(disordered);
            }
        }
        Ok(())
    }

    /// Number of sequences.
    pub fn len(&self) -> usize {
        self.sequences.len() - 1
    }

    /// Whether there is no sequence.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the sequences' file up to the end of the last one.
    pub fn size_bytes(&self) -> u64 {
        self.sequences.last().copied().map_or(0, u64::from)
    }

    /// The sequence that a byte of the sequences' file is in, and the byte's place in it; None
    /// between them.
    pub fn at(&self, byte: u64) -> Option<(usize, u32)> {
        let byte = u32::try_from(byte).ok()?;
        let after = self.sequences.partition_point(|&first| first <= byte);
        let ordinal = after.checked_sub(1)?;
        let [first, border, _] = self.place(ordinal)?;
        (byte < border).then(|| (ordinal, byte - first))
    }

    /// A sequence's packed bases, and its ambiguities behind them, in the sequences' file: first
    /// byte, border, end.
    ///
    /// None if there are not so many sequences.
    pub fn place(&self, ordinal: usize) -> Option<[u32; 3]> {
        let end = self.sequences.get(ordinal + 1)?;
        Some([self.sequences[ordinal], self.ambiguities[ordinal], *end])
    }
}

/// The ambiguous bases of a sequence of `bases` bases, in order: their bases in the packed sequence
/// are random.
///
/// # Errors
/// The words do not fit their count, a span is outside the sequence, or they are not in order.
pub fn ambiguities(bytes: &[u8], bases: u32) -> Result<Vec<Span>, &'static str> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<u32> = bytes
        .chunks_exact(4)
        .map(|word| {
            word.iter()
                .fold(0, |value, &byte| value << 8 | u32::from(byte))
        })
        .collect();
    let (Some((&count, words)), 0) = (words.split_first(), bytes.len() % 4) else {
        return Err("its ambiguities are truncated");
    };
    let is_long = count >> 31 == 1;
    let count = (count & 0x7fff_ffff) as usize;
    if count != words.len() || is_long && count % 2 == 1 {
        return Err("its ambiguities are not as many as it says");
    }
    let mut spans: Vec<Span> = Vec::with_capacity(count);
    for entry in words.chunks_exact(1 + usize::from(is_long)) {
        let (length, first) = match *entry {
            [word] => ((word >> 24 & 0xf) + 1, u64::from(word & 0xff_ffff)),
            [high, low] => (
                (high >> 16 & 0xfff) + 1,
                u64::from(high & 0xffff) << 32 | u64::from(low),
            ),
            _ => return Err("its ambiguities are truncated"),
        };
        let end = first + u64::from(length);
        let before = spans.last().map_or(0, |span| u64::from(span.end));
        if end > u64::from(bases) || first < before {
            return Err("an ambiguity is outside it, or they are not in order");
        }
        spans.push(Span {
            first: first as u32,
            end: end as u32,
            bases: (entry[0] >> 28) as u8,
        });
    }
    Ok(spans)
}

/// An alias: a database of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alias {
    /// The names of the databases, without suffixes; each can be an alias too.
    pub volumes: Vec<String>,
    /// Sequences of all of them, for E-values, if the alias states it.
    pub sequences: Option<u64>,
    /// Bases of all of them, for E-values, if the alias states it.
    pub bases: Option<u64>,
}

impl Alias {
    /// Reads a `.nal` file. A database that is named by a path is taken by the last part of it: the
    /// files lie together.
    ///
    /// # Errors
    /// [`Error::Alias`]: it names no database. [`Error::AliasWord`]: it chooses some of the
    /// sequences, or has a word that is not known.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let text = String::from_utf8_lossy(text);
        let mut alias = Self::default();
        for line in text.lines().map(str::trim) {
            let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            match word {
                "DBLIST" => alias.volumes.extend(databases(rest)),
                "NSEQ" | "STATS_NSEQ" => alias.sequences = rest.trim().parse().ok(),
                "LENGTH" | "STATS_TOTLEN" => alias.bases = rest.trim().parse().ok(),
                "TITLE" | "" => {}
                _ if word.starts_with('#') => {}
                _ => return Err(Error::AliasWord(word.to_owned())),
            }
        }
        if alias.volumes.is_empty() {
            Err(Error::Alias)
        } else {
            Ok(alias)
        }
    }
}

/// Names that blanks separate, unless they are in quotes.
fn databases(list: &str) -> Vec<String> {
    let parts = list.split('"').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect::<Vec<_>>(),
        _ => vec![part],
    });
    let last = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    words.map(last).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The files of a database: sequences of bases 0 to 3.
    pub fn made(version: u32, sequences: &[(&[u8], &[u32])]) -> (Vec<u8>, Vec<u8>) {
        let mut packed = vec![0];
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        for (bases, words) in sequences {
            starts.push(packed.len() as u32);
            let mut chunks = bases.chunks_exact(4);
            packed.extend(
                chunks
                    .by_ref()
                    .map(|four| four.iter().fold(0, |byte, base| byte << 2 | base)),
            );
            let rest = chunks.remainder();
            let last = (0..3).fold(0, |byte, at| byte << 2 | rest.get(at).copied().unwrap_or(0));
            packed.push(last << 2 | rest.len() as u8);
            ends.push(packed.len() as u32);
            packed.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        }
        starts.push(packed.len() as u32);
        ends.push(packed.len() as u32);
        let mut index = Vec::new();
        let mut number = |value: u32| index.extend(value.to_be_bytes());
        number(version);
        number(0);
        if version == 5 {
            number(0);
            number(0); // no title
        }
        number(0);
        number(0);
        number(sequences.len() as u32);
        for _ in 0..3 {
            number(0); // bases in all, longest
        }
        for _ in 0..=sequences.len() {
            number(0); // headers
        }
        starts
            .iter()
            .chain(&ends)
            .for_each(|&offset| number(offset));
        (index, packed)
    }

    #[test]
    fn an_index_of_either_version_is_read_and_each_truncation_refused() {
        for version in [4, 5] {
            let (bytes, packed) = made(
                version,
                &[(&[0, 1, 2, 3, 3], &[]), (&[2], &[1, 0xf000_0000])],
            );
            let index = Index::parse(&bytes).unwrap();
            assert_eq!(
                (index.version, index.len(), index.is_empty()),
                (version, 2, false)
            );
            assert_eq!(index.place(0), Some([1, 3, 3]));
            assert_eq!(index.place(1), Some([3, 4, 12]));
            assert_eq!(
                (index.place(2), index.size_bytes()),
                (None, packed.len() as u64)
            );
            for length in 0..bytes.len() {
                assert!(Index::parse(&bytes[..length]).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn foreign_indexes_and_random_ones_are_refused() {
        let (mut bytes, _) = made(4, &[(&[0; 9], &[]), (&[1; 4], &[])]);
        bytes[7] = 1;
        assert_eq!(
            Index::parse(&bytes),
            Err(Error::Index("it is one of proteins"))
        );
        bytes[7] = 0;
        bytes[3] = 6;
        assert!(Index::parse(&bytes).is_err());
        let mut random = fastrand::Rng::with_seed(crate::support::seed());
        for _ in 0..20_000 {
            let (mut bytes, _) = made(4, &[(&[0; 9], &[]), (&[1; 4], &[1, 0xf000_0000])]);
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            // Whatever is accepted is in order.
            if let Ok(index) = Index::parse(&bytes) {
                for ordinal in 0..index.len() {
                    let [first, middle, end] = index.place(ordinal).unwrap();
                    assert!(0 < first && first < middle && middle <= end);
                }
            }
        }
    }

    #[test]
    fn ambiguities_of_both_kinds() {
        let of = |words: &[u32], bases| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            ambiguities(&bytes, bases)
        };
        let span = |first, end, bases| Span { first, end, bases };
        assert_eq!(
            of(&[2, 0xf200_0014, 0x5000_0017], 24),
            Ok(vec![span(20, 23, 15), span(23, 24, 5)])
        );
        assert_eq!(
            of(&[0x8000_0002, 0xffff_0000, 7], 5000),
            Ok(vec![span(7, 4103, 15)])
        );
        assert_eq!(of(&[], 9), Ok(Vec::new()));
        for (words, bases) in [
            (&[2, 0xf200_0014][..], 99),          // one is missing
            (&[1, 0xf200_0014], 22),              // outside
            (&[2, 0x5000_0017, 0x5000_0016], 99), // not in order
            (&[0x8000_0001, 0xf000_0000], 99),    // half of one
            (&[0x8000_0002, 0xf000_0001, 0], 99), // above 32 bits
        ] {
            assert!(of(words, bases).is_err(), "{words:x?}");
        }
        assert!(ambiguities(&[0, 0, 0], 9).is_err());
    }

    #[test]
    fn the_volumes_of_an_alias() {
        let alias =
            Alias::parse(b"#\n# Alias\nTITLE x\nDBLIST \"a.00\" \"/data/a.01\" b\n").unwrap();
        assert_eq!(alias.volumes, ["a.00", "a.01", "b"]);
        assert_eq!(Alias::parse(b"TITLE x\n"), Err(Error::Alias));
        assert_eq!(Alias::parse(b"DBLIST \n"), Err(Error::Alias));
        let alias = Alias::parse(b"DBLIST \"my db\" b\nNSEQ 34\nLENGTH 1000\n").unwrap();
        assert_eq!(alias.volumes, ["my db", "b"]);
        assert_eq!((alias.sequences, alias.bases), (Some(34), Some(1000)));
        for word in [
            "SEQIDLIST",
            "GILIST",
            "OIDLIST",
            "FIRST_OID",
            "TAXIDLIST",
            "NEW_WORD",
        ] {
            let text = format!("DBLIST a\n{word} 1\n");
            assert_eq!(
                Alias::parse(text.as_bytes()),
                Err(Error::AliasWord(word.to_owned()))
            );
        }
    }
}
