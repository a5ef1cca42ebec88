// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The companion of a recording, `NAME.gaps`, as `record --policy drop` writes it.

use crate::error::{FormatError, Result};
use stream::{GAP_LINE_BYTES, Gap, has_gap_sum, parse_gap};
use units::shown;

/// The longest companion that is read: a quarter of a million gaps.
pub const MAX_GAPS_BYTES: u64 = 16 << 20;

/// Bytes that are missing in all.
pub fn lost_bytes(gaps: &[Gap]) -> u64 {
    let lost = gaps.iter().map(|gap| gap.lost_bytes);
    lost.fold(0, u64::saturating_add)
}

/// What a list of gaps says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GapList {
    /// The gaps.
    pub gaps: Vec<Gap>,
    /// The numbers of the lines that are damaged, which are left out.
    pub damaged_lines: Vec<u64>,
    /// Whether a line has no checksum, so that nothing shows whether it is damaged: it is of an
    /// older version.
    pub is_unchecked: bool,
    /// The numbers of the lines with a gap that began before that of the line before, which no
    /// recording writes: they may be of another one.
    pub untimely_lines: Vec<u64>,
    /// The number of the first line that is left out because it is of a gap behind the end.
    pub behind_end_line: Option<u64>,
}

impl GapList {
    /// What lines describe, of a recording of `size_bytes`. A line at the end that is not whole is
    /// left out: nothing behind its gap is in the recording. So are lines behind the end, and
    /// behind the place where the recording was continued: a gap's line is durable before what
    /// follows, which a power cut may have taken.
    pub fn read(bytes: &[u8], size_bytes: u64) -> Self {
        let mut list = Self::default();
        let gaps = &mut list.gaps;
        let mut numbers = Vec::new();
        let mut last_us = 0;
        for (number, line) in (1u64..).zip(bytes.chunks_exact(GAP_LINE_BYTES)) {
            let gap = parse_gap(line, number - 1);
            if let Some(restart) = gap.filter(|gap| gap.lost_bytes == 0) {
                let end = gaps.partition_point(|gap| gap.offset_bytes <= restart.offset_bytes);
                gaps.truncate(end);
                numbers.truncate(end);
                list.untimely_lines.retain(|line| numbers.contains(line));
                // Times count from its own first block.
                last_us = 0;
            }
            let last = gaps.last().map_or(0, |gap| gap.offset_bytes);
            match gap {
                Some(gap) if gap.offset_bytes >= last => {
                    if gap.at_us < last_us {
                        list.untimely_lines.push(number);
                    }
                    last_us = gap.at_us;
                    gaps.push(gap);
                    numbers.push(number);
                }
                _ => list.damaged_lines.push(number),
            }
            list.is_unchecked |= !has_gap_sum(line);
        }
        let end = gaps.partition_point(|gap| gap.offset_bytes <= size_bytes);
        list.behind_end_line = numbers.get(end).copied();
        gaps.truncate(end);
        numbers.truncate(end);
        list.untimely_lines.retain(|line| numbers.contains(line));
        list
    }
}

/// The gaps that the lines of `name` describe, of a recording of `size_bytes`, as
/// [`GapList::read`] finds them.
///
/// # Errors
/// A line was not written by a recording, or is damaged.
pub fn parse(name: &str, bytes: &[u8], size_bytes: u64) -> Result<Vec<Gap>> {
    let list = GapList::read(bytes, size_bytes);
    match list.damaged_lines.first() {
        None => Ok(list.gaps),
        Some(number) => {
            let what = format!("line {number} of `{}` is not a gap", shown(name));
            Err(FormatError::damaged(what)
                .hint("straightway get fetches the recording without its gaps"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_gaps_and_nothing_else_is() {
        let line = |text: &str| format!("{text:>63}\n").into_bytes();
        let mut bytes = [line("0 5 1 1"), line("4096 1048576 20000 1")].concat();
        let size = 1 << 20;
        let gaps = parse("a", &bytes, size).unwrap();
        assert_eq!(gaps.len(), 2);
        assert_eq!(gaps[1].lost_bytes, 1 << 20);
        bytes.extend(b"   8192");
        assert_eq!(parse("a", &bytes, size).unwrap(), gaps);
        assert!(parse("a", &[line("4096 1 1 1"), line("0 1 1 1")].concat(), size).is_err());
        assert!(parse("a", &[0xff; 64], size).is_err());
    }

    #[test]
    fn a_damaged_line_is_left_out_and_counted() {
        let lines = [(4096, 0), (8192, 1), (9000, 2)];
        let lines = lines.map(|(offset_bytes, number)| stream::restart_line(offset_bytes, number));
        let mut bytes = lines.concat();
        let list = GapList::read(&bytes, 1 << 20);
        assert_eq!(list.gaps.len(), 3);
        assert!(!list.is_unchecked && list.damaged_lines.is_empty());
        for bit in 512..1024 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let list = GapList::read(&bytes, 1 << 20);
            let offsets: Vec<u64> = list.gaps.iter().map(|gap| gap.offset_bytes).collect();
            assert_eq!((offsets, list.damaged_lines), (vec![4096, 9000], vec![2]));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let old = format!("{:>63}\n", "0 5 1 1").into_bytes();
        assert!(GapList::read(&old, 1 << 20).is_unchecked);
    }

    #[test]
    fn lines_that_are_not_in_the_order_of_their_times_are_named() {
        let line = |text: &str| format!("{text:>63}\n").into_bytes();
        let list = |lines: &[&str], size| {
            let bytes: Vec<u8> = lines.iter().flat_map(|text| line(text)).collect();
            GapList::read(&bytes, size)
        };
        let lines = ["4096 1 10 1", "8192 1 30 1", "9000 1 20 1", "9500 1 20 1"];
        let found = list(&lines, 10_000);
        assert_eq!((found.gaps.len(), found.untimely_lines), (4, vec![3]));
        assert_eq!(found.behind_end_line, None);
        let found = list(&lines, 8500);
        assert_eq!(
            (found.untimely_lines, found.behind_end_line),
            (vec![], Some(3))
        );
        // Times begin again where it was continued.
        let lines = ["4096 1 90 1", "8192 1 80 1", "5000 0 0 1", "8500 2 1 1"];
        let found = list(&lines, 10_000);
        assert_eq!((found.gaps.len(), found.untimely_lines), (3, vec![]));
    }

    #[test]
    fn what_a_power_cut_took_has_no_gaps() {
        let line = |text: &str| format!("{text:>63}\n").into_bytes();
        let offsets = |lines: &[&str], size| {
            let bytes: Vec<u8> = lines.iter().flat_map(|text| line(text)).collect();
            let gaps = parse("a", &bytes, size).unwrap();
            gaps.iter().map(|gap| gap.offset_bytes).collect::<Vec<_>>()
        };
        let lines = ["4096 1 1 1", "8192 1 1 1", "9000 1 1 1"];
        assert_eq!(offsets(&lines, 8192), [4096, 8192]);
        assert_eq!(offsets(&lines, 0), [0; 0]);
        // It was continued at 8192.
        let lines = [&lines[..], &["8192 0 0 1", "8500 2 1 1"]].concat();
        assert_eq!(offsets(&lines, 10_000), [4096, 8192, 8192, 8500]);
    }
}
