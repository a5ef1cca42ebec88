// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seed scan: a look-up of eight bases at every byte of a packed sequence, and the exact
//! comparison of the bases beside it.
//!
//! Every eleven bases have eight that begin at a byte, so nothing is missed.

use crate::table::{BESIDE, Entry};
use crate::{LOOKUP, Span, Table, WORD};

/// Eleven equal bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seed {
    /// The first one in the subject.
    pub subject: u32,
    /// Its position in the table.
    pub position: u32,
}

/// A sequence of a database.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Four bases a byte, the first in the highest bits, 0 to 3 for A, C, G and T.
    packed: &'a [u8],
    /// Number of bases.
    bases: u32,
    /// Those that are ambiguous. No seed has any of them.
    masked: &'a [Span],
}

impl<'a> Subject<'a> {
    /// A sequence of the sequences' file, as [`place`](crate::Index::place) shows it, and its
    /// ambiguities.
    ///
    /// # Errors
    /// The number of bases in its last byte.
    pub fn new(packed: &'a [u8], masked: &'a [Span]) -> Result<Self, &'static str> {
        match packed.split_last() {
            Some((last, packed_whole)) if packed_whole.len() < 1 << 30 => {
                let bases = packed_whole.len() as u32 * 4 + u32::from(last & 3);
                Ok(Self {
                    packed,
                    bases,
                    masked,
                })
            }
            Some(_) => Err("it is too long"),
            None => Err("it is empty"),
        }
    }

    /// The same with these ambiguous bases, which are in order.
    #[must_use]
    pub fn masked_by(self, masked: &'a [Span]) -> Self {
        Self { masked, ..self }
    }

    /// Bytes as the hardware takes them: all four bases of each, without ambiguities. At most 2^30 -
    /// 1 bytes count.
    pub fn stream(bytes: &'a [u8]) -> Self {
        let packed = &bytes[..bytes.len().min((1 << 30) - 1)];
        Self {
            packed,
            bases: packed.len() as u32 * 4,
            masked: &[],
        }
    }

    /// The seed of one look-up and the entry at this position, if these are in the sequence and
    /// known: for what the hardware has found.
    pub fn confirm(&self, table: &Table, byte: u32, position: u32) -> Option<Seed> {
        let byte = byte as usize;
        if byte >= self.lookups() {
            return None;
        }
        let room = self.room(byte)?;
        let entries = table.entries(self.word(byte));
        let entry = entries.iter().find(|entry| entry.position == position)?;
        let before = extends(entry, self.context(byte), room)?;
        Some(Seed {
            subject: byte as u32 * 4 - before,
            position: position - before,
        })
    }

    /// Number of bases.
    pub const fn len(&self) -> u32 {
        self.bases
    }

    /// Whether there is no base.
    pub const fn is_empty(&self) -> bool {
        self.bases == 0
    }

    /// The base at this place, 0 to 3; a random one if it is ambiguous.
    pub(crate) fn base(&self, at: u32) -> u8 {
        let byte = self.packed.get(at as usize / 4).copied().unwrap_or(0);
        byte >> (6 - 2 * (at & 3)) & 3
    }

    /// The set of bases at this place.
    pub(crate) fn set(&self, at: u32) -> u8 {
        match self
            .masked
            .get(self.masked.partition_point(|span| span.end <= at))
        {
            Some(span) if span.first <= at => span.bases,
            _ => 1 << self.base(at),
        }
    }

    /// The bytes at which eight bases begin.
    fn lookups(&self) -> usize {
        (self.bases as usize / 4).saturating_sub(LOOKUP / 4 - 1)
    }

    /// The word of eight bases at a byte.
    fn word(&self, byte: usize) -> u16 {
        u16::from_be_bytes([self.packed[byte], self.packed[byte + 1]])
    }

    /// The known bases before and after the eight at a byte, up to three each; None if one of the
    /// eight is masked.
    fn room(&self, byte: usize) -> Option<[u32; 2]> {
        let first = byte as u32 * 4;
        let end = first + LOOKUP as u32;
        let mut room = [first.min(BESIDE), (self.bases - end).min(BESIDE)];
        if !self.masked.is_empty() {
            let next = self.masked.partition_point(|span| span.end <= first);
            if let Some(span) = self.masked.get(next) {
                if span.first < end {
                    return None;
                }
                room[1] = room[1].min(span.first - end);
            }
            if let Some(span) = next
                .checked_sub(1)
                .and_then(|before| self.masked.get(before))
            {
                room[0] = room[0].min(first - span.end);
            }
        }
        Some(room)
    }

    /// The 14 bases around a byte, as an entry has them; zeros outside the sequence.
    fn context(&self, byte: usize) -> u32 {
        let at = |byte: Option<usize>| {
            byte.and_then(|byte| self.packed.get(byte))
                .copied()
                .unwrap_or(0)
        };
        let four = [
            at(byte.checked_sub(1)),
            at(Some(byte)),
            at(Some(byte + 1)),
            at(Some(byte + 2)),
        ];
        u32::from_be_bytes(four) >> 2 & 0xfff_ffff
    }

    /// One look-up.
    fn look_up(&self, table: &Table, byte: usize, visit: &mut impl FnMut(Seed)) {
        if table.has(self.word(byte)) {
            self.verify(table, byte, visit);
        }
    }

    /// Passes on the seeds of a look-up that the queries have.
    fn verify(&self, table: &Table, byte: usize, visit: &mut impl FnMut(Seed)) {
        let Some(room) = self.room(byte) else {
            return;
        };
        let context = self.context(byte);
        for entry in table.entries(self.word(byte)) {
            if let Some(before) = extends(entry, context, room) {
                visit(Seed {
                    subject: byte as u32 * 4 - before,
                    position: entry.position - before,
                });
            }
        }
    }
}

/// How many bases before the eight are equal, if there are eleven in all.
fn extends(entry: &Entry, context: u32, room: [u32; 2]) -> Option<u32> {
    let different = entry.context ^ context;
    // A one behind the three bases ends the count of equal ones.
    let before = ((different >> 22) | 1 << 6).trailing_zeros() / 2;
    let after = ((different << 26) | 1 << 25).leading_zeros() / 2;
    let before = before.min(room[0]).min(u32::from(entry.room[0]));
    let after = after.min(room[1]).min(u32::from(entry.room[1]));
    (before + after >= (WORD - LOOKUP) as u32).then_some(before)
}

/// Finds all seeds, one look-up at a time: the model of the other scan and of the hardware. They
/// come in the order of their look-ups, and each look-up's in the order of their positions.
pub fn scan_scalar(table: &Table, subject: &Subject<'_>, visit: &mut impl FnMut(Seed)) {
    (0..subject.lookups()).for_each(|byte| subject.look_up(table, byte, visit));
}

/// Finds all seeds, eight look-ups at a time with one branch, in a table of bytes: the same seeds
/// in the same order.
pub fn scan(table: &Table, subject: &Subject<'_>, visit: &mut impl FnMut(Seed)) {
    const AT_ONCE: usize = 8;
    let lookups = subject.lookups();
    let mut byte = 0;
    if let Ok(wide) = <&[u8; 1 << 16]>::try_from(&*table.wide) {
        let at = |word: u16| wide[usize::from(word)];
        while byte + AT_ONCE <= lookups {
            let Some(&[b0, b1, b2, b3, b4, b5, b6, b7, b8]) = subject.packed[byte..].first_chunk()
            else {
                break;
            };
            let eight = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
            let mut found = at(u16::from_be_bytes([b7, b8]));
            for place in 0..7 {
                found |= at((eight >> (48 - 8 * place)) as u16);
            }
            if found != 0 {
                (byte..byte + AT_ONCE).for_each(|byte| subject.look_up(table, byte, visit));
            }
            byte += AT_ONCE;
        }
    }
    (byte..lookups).for_each(|byte| subject.look_up(table, byte, visit));
}
