// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data whose every line of 64 bytes says which block, pass and place it belongs to, so that a
//! wrong block explains itself.
//!
//! A line has seven words of noise from the seed, the block, the pass and the line's place, and one
//! word with the block and the pass, mixed with the noise. 64 bytes, because that is the cache line
//! in which incoherent memory goes wrong.

use std::fmt;

/// The unit in which data goes stale.
pub const LINE_BYTES: usize = 64;
/// A block that differs in at most this number of bits had single bits changed.
const FEW_BITS: u32 = 8;
/// Blocks of the test area that a wrong line is compared with, at most: a bound on the search.
const PASSES_BACK: u32 = 4096;

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The data of one test run.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Distinguishes the run from earlier ones.
    pub seed: u64,
}

/// What a block has instead of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// All of it is this block's data of an earlier pass.
    Old {
        /// The pass.
        pass: u32,
    },
    /// Some lines are right, and the others are this block's of an earlier pass.
    Torn {
        /// Lines that are old.
        old_lines: usize,
        /// Lines of the block.
        lines: usize,
    },
    /// It is another block's data.
    OtherBlock {
        /// The block.
        lba: u64,
    },
    /// A few bits were changed.
    Bits {
        /// How many.
        count: u32,
        /// The first byte with one.
        byte: usize,
    },
    /// All zeroes.
    Zeroes,
    /// The buffer was not filled.
    Untouched,
    /// Data that this run never wrote.
    Unknown {
        /// Lines that are wrong.
        bad_lines: usize,
        /// Lines of the block.
        lines: usize,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old { pass } => write!(f, "old data, of pass {pass}"),
            Self::Torn { old_lines, lines } => write!(
                f,
                "torn: {old_lines} of {lines} lines of 64 bytes have old data"
            ),
            Self::OtherBlock { lba } => write!(f, "misplaced: the data of block {lba}"),
            Self::Bits { count: 1, byte } => write!(f, "one bit is wrong, in byte {byte}"),
            Self::Bits { count, byte } => {
                write!(f, "{count} bits are wrong, the first in byte {byte}")
            }
            Self::Zeroes => write!(f, "zeroes"),
            Self::Untouched => write!(f, "the read did not fill the buffer"),
            Self::Unknown { bad_lines, lines } => write!(
                f,
                "unknown data in {bad_lines} of {lines} lines of 64 bytes"
            ),
        }
    }
}

impl Pattern {
    fn line(self, lba: u64, pass: u32, place: usize) -> [u8; LINE_BYTES] {
        let base = mix(self.seed ^ mix(lba) ^ mix(u64::from(pass) << 32 | place as u64));
        let mut line = [0; LINE_BYTES];
        for (index, word) in line.chunks_exact_mut(8).enumerate() {
            let noise = mix(base.wrapping_add(index as u64));
            let value = match index {
                // Names the line: its block and pass can be read back with the seed.
                0 => (lba << 24 | u64::from(pass & 0xff_ffff)) ^ mix(self.seed ^ place as u64),
                _ => noise,
            };
            word.copy_from_slice(&value.to_le_bytes());
        }
        line
    }

    /// Fills a block.
    pub fn fill(self, block: &mut [u8], lba: u64, pass: u32) {
        for (place, line) in block.chunks_exact_mut(LINE_BYTES).enumerate() {
            line.copy_from_slice(&self.line(lba, pass, place));
        }
    }

    /// The block and pass of a line, if this run wrote it at this place of a block.
    fn source(self, line: &[u8], place: usize) -> Option<(u64, u32)> {
        let word = line.get(..8)?.try_into().ok()?;
        let name = u64::from_le_bytes(word) ^ mix(self.seed ^ place as u64);
        let (lba, pass) = (name >> 24, (name & 0xff_ffff) as u32);
        (self.line(lba, pass, place) == line).then_some((lba, pass))
    }

    /// What is wrong with a block that should have the data of `pass`; `junk` filled the buffer
    /// before the read.
    pub fn damage(self, block: &[u8], lba: u64, pass: u32, junk: u8) -> Option<Damage> {
        let mut wanted = vec![0; block.len()];
        self.fill(&mut wanted, lba, pass);
        if wanted == block {
            return None;
        }
        if block.iter().all(|byte| *byte == 0) {
            return Some(Damage::Zeroes);
        }
        if block.iter().all(|byte| *byte == junk) {
            return Some(Damage::Untouched);
        }
        let pairs = || block.iter().zip(&wanted);
        let count: u32 = pairs().map(|(a, b)| (a ^ b).count_ones()).sum();
        if count <= FEW_BITS {
            let byte = pairs().position(|(a, b)| a != b).unwrap_or(0);
            return Some(Damage::Bits { count, byte });
        }
        let lines = block.len() / LINE_BYTES;
        let (mut right, mut old, mut oldest, mut other) = (0, 0, pass, None);
        for (place, line) in block.chunks_exact(LINE_BYTES).enumerate() {
            match self.source(line, place) {
                Some(found) if found == (lba, pass) => right += 1,
                Some((found, of)) if found == lba && pass.wrapping_sub(of) < PASSES_BACK => {
                    old += 1;
                    oldest = of;
                }
                Some((found, _)) if found != lba => other = Some(found),
                _ => {}
            }
        }
        Some(match other {
            _ if old == lines => Damage::Old { pass: oldest },
            _ if old > 0 && old + right == lines => Damage::Torn {
                old_lines: old,
                lines,
            },
            Some(lba) => Damage::OtherBlock { lba },
            None => Damage::Unknown {
                bad_lines: lines - right,
                lines,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Pattern = Pattern { seed: 7 };

    fn block(lba: u64, pass: u32) -> Vec<u8> {
        let mut block = vec![0; 512];
        PATTERN.fill(&mut block, lba, pass);
        block
    }

    fn of(block: &[u8]) -> Option<Damage> {
        PATTERN.damage(block, 100, 9, 0xa5)
    }

    #[test]
    fn each_damage_is_recognised() {
        assert_eq!(of(&block(100, 9)), None);
        assert_eq!(of(&block(100, 8)), Some(Damage::Old { pass: 8 }));
        assert_eq!(of(&block(99, 9)), Some(Damage::OtherBlock { lba: 99 }));
        assert_eq!(of(&[0; 512]), Some(Damage::Zeroes));
        assert_eq!(of(&[0xa5; 512]), Some(Damage::Untouched));
        let mut torn = block(100, 9);
        torn[448..].copy_from_slice(&block(100, 7)[448..]);
        let damage = Damage::Torn {
            old_lines: 1,
            lines: 8,
        };
        assert_eq!(of(&torn), Some(damage));
        for byte in [0, 7, 8, 511] {
            let mut bit = block(100, 9);
            bit[byte] ^= 0x10;
            assert_eq!(of(&bit), Some(Damage::Bits { count: 1, byte }));
        }
        let mut other = vec![0; 512];
        Pattern { seed: 8 }.fill(&mut other, 100, 9);
        let damage = Damage::Unknown {
            bad_lines: 8,
            lines: 8,
        };
        assert_eq!(of(&other), Some(damage));
    }
}
