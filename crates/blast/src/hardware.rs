// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table as the core `rtl/blastn` takes it, and what the core's hits mean.

use crate::table::BESIDE;
use crate::{Error, Table};

/// What is written to the core's memories, each from address 0 on.
#[derive(Clone, Debug)]
pub struct Image {
    /// The presence table: register PRESENT.
    pub present: Vec<u32>,
    /// The buckets: register DIRECTORY.
    pub directory: Vec<u32>,
    /// The entries: register ENTRY.
    pub entries: Vec<u32>,
    positions: Vec<u32>,
    /// Positions that the core's filter tells apart.
    most_positions: u32,
}

/// A hit of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The byte of the stream whose look-up it was: for [`Index::at`](crate::Index::at).
    pub byte: u64,
    /// The position of the entry: for [`Subject::confirm`](crate::Subject::confirm).
    pub position: u32,
    /// The first of the eleven bases in the stream, and its position in the table.
    pub word: (u64, u32),
    /// The core has compared the word with the mask ([`Mask`](crate::Mask)); a hit without this is
    /// to be confirmed.
    pub is_checked: bool,
}

impl Image {
    /// Makes the image for a core with 2^`entries_log2` entries and 2^`bucket_log2` buckets
    /// (register SHAPE; at most 16 each).
    ///
    /// # Errors
    /// [`Error::CoreIsFull`].
    pub fn new(table: &Table, entries_log2: u32, bucket_log2: u32) -> Result<Self, Error> {
        let (entries_log2, bucket_log2) = (entries_log2.min(16), bucket_log2.min(16));
        let full = |words| Error::CoreIsFull {
            words,
            entries: 1 << entries_log2,
        };
        if table.all().len() > 1 << entries_log2 {
            return Err(full(table.all().len()));
        }
        let word = |context: u32| context >> (2 * BESIDE) & 0xffff;
        let bucket = |context: u32| (word(context) & ((1 << bucket_log2) - 1)) as usize;
        let mut sorted = table.all().to_vec();
        sorted.sort_by_key(|entry| bucket(entry.context)); // stable
        let mut directory = vec![0; 1 << bucket_log2];
        let mut first = 0;
        for same in sorted.chunk_by(|one, next| bucket(one.context) == bucket(next.context)) {
            directory[bucket(same[0].context)] = (first << entries_log2) | (same.len() as u32 - 1);
            first += same.len() as u32;
        }
        let tag_bits = 16 - bucket_log2;
        let entries = sorted.iter().map(|entry| {
            let tag = word(entry.context) >> bucket_log2;
            let [before, after] = entry.room.map(u32::from);
            let bases = (entry.context >> 22) << (tag_bits + 6) | tag << 6 | entry.context & 0x3f;
            (before << 2 | after) << (tag_bits + 12) | bases
        });
        Ok(Self {
            present: table
                .present
                .iter()
                .flat_map(|bits| [*bits as u32, (bits >> 32) as u32])
                .collect(),
            directory,
            entries: entries.collect(),
            positions: sorted.iter().map(|entry| entry.position).collect(),
            most_positions: 4 << entries_log2,
        })
    }

    /// The positions of the entries, for a core with the two-hit filter: register POSITION.
    ///
    /// # Errors
    /// [`Error::CoreIsFull`]: the queries have more than four positions for each of the core's
    /// entries.
    pub fn positions(&self) -> Result<&[u32], Error> {
        match self.positions.iter().max() {
            Some(&last) if last >= self.most_positions => Err(Error::CoreIsFull {
                words: last as usize + 1,
                entries: self.most_positions as usize,
            }),
            _ => Ok(&self.positions),
        }
    }

    /// What a hit in the registers HIT_BASE and HIT_ENTRY means; None if the core has another
    /// table.
    pub fn found(&self, base: u32, entry: u32) -> Option<Found> {
        let position = *self.positions.get(entry as usize & 0xffff)?;
        let before = entry >> 16 & 3;
        let first = u64::from(entry >> 18 & 3) << 32 | u64::from(base);
        Some(Found {
            byte: (first + u64::from(before)) / 4,
            position,
            word: (first, position.checked_sub(before)?),
            is_checked: entry >> 20 & 1 == 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::tests::made;
    use crate::{Index, Query, Subject, ambiguities, scan_scalar};

    #[test]
    fn hits_in_the_stream_of_a_whole_file_become_the_seeds_of_its_sequences() {
        let mut random = fastrand::Rng::with_seed(crate::support::seed());
        let mut total = 0;
        for _ in 0..150 {
            let mut bases = |length: usize, letters: u8| -> Vec<u8> {
                (0..length).map(|_| random.u8(..letters)).collect()
            };
            let subjects = [
                bases(0, 2),
                bases(61, 2),
                bases(7, 2),
                bases(150, 2),
                bases(90, 3),
            ];
            let query = Query {
                name: String::new(),
                bases: bases(40, 2).iter().map(|base| 1 << base).collect(),
                gaps: 0,
            };
            let words = [1, 0xf300_0000 | random.u32(0..80)];
            let sequences: Vec<(&[u8], &[u32])> = subjects
                .iter()
                .map(|bases| (&bases[..], if bases.len() > 100 { &words[..] } else { &[] }))
                .collect();
            let (nin, nsq) = made(4, &sequences);
            let index = Index::parse(&nin).unwrap();
            let table = Table::new(&[query]).unwrap();
            let mut expected = Vec::new();
            let masked: Vec<_> = (0..index.len())
                .map(|ordinal| {
                    let [first, border, end] =
                        index.place(ordinal).unwrap().map(|offset| offset as usize);
                    let subject = Subject::new(&nsq[first..border], &[]).unwrap();
                    (
                        &nsq[first..border],
                        ambiguities(&nsq[border..end], subject.len()).unwrap(),
                    )
                })
                .collect();
            let subject =
                |ordinal: usize| Subject::new(masked[ordinal].0, &masked[ordinal].1).unwrap();
            for ordinal in 0..index.len() {
                scan_scalar(&table, &subject(ordinal), &mut |seed| {
                    expected.push((ordinal, seed))
                });
            }
            // The core's hits, and their registers.
            let image = Image::new(&table, 8, 9).unwrap();
            let mut confirmed = Vec::new();
            scan_scalar(&table, &Subject::stream(&nsq), &mut |seed| {
                for before in 0..4_u32 {
                    let entry = image
                        .positions
                        .iter()
                        .position(|&position| position == seed.position + before);
                    let (Some(entry), true) = (entry, (seed.subject + before) % 4 == 0) else {
                        continue;
                    };
                    let found = image
                        .found(seed.subject, entry as u32 | before << 16)
                        .unwrap();
                    assert_eq!(found.word, (u64::from(seed.subject), seed.position));
                    if let Some((ordinal, byte)) = index.at(found.byte) {
                        let seed = subject(ordinal).confirm(&table, byte, found.position);
                        confirmed.extend(seed.map(|seed| (ordinal, seed)));
                    }
                }
            });
            assert_eq!(confirmed, expected);
            total += expected.len();
        }
        assert!(total > 60, "{total}");
    }

    #[test]
    fn a_core_that_is_too_small_is_told() {
        let table = Table::new(&[Query {
            name: String::new(),
            bases: [1, 2, 4, 8].repeat(20),
            gaps: 0,
        }])
        .unwrap();
        let words = table.all().len();
        assert_eq!(
            Image::new(&table, 7, 8).err(),
            Some(Error::CoreIsFull {
                words,
                entries: 128
            })
        );
        let image = Image::new(&table, 8, 8).unwrap();
        assert_eq!(
            (
                image.present.len(),
                image.directory.len(),
                image.entries.len()
            ),
            (2048, 256, words)
        );
        assert_eq!(image.found(0, words as u32), None);
    }
}
