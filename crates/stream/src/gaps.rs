// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gaps in a recording, and the file that names them.
//!
//! The companion file has a line of 64 bytes for each gap: four numbers and a checksum,
//! right-aligned, with spaces between, and a line feed. The numbers are the offset in the recording
//! before which bytes are missing, how many are missing, when the first of them arrived, in
//! microseconds after the first block of the recording, or of the segment whose list it is, and how
//! many gaps the line represents (1 unless there were too many in a short time).
//!
//! The checksum is `#` and eight hexadecimal digits: the CRC32C of the bytes before it and of the
//! line's number, counted from 0, as eight bytes, little-endian: a line that is copied over another
//! one is not valid there. Lists of older versions have a CRC32C of the bytes alone, or none, as
//! has a line whose numbers leave no room for one.
//!
//! A line with 0 missing bytes marks where another stream begins: a recording was continued there
//! ([`restart_line`]). Lines before it with a larger offset are of bytes that were not durable when
//! the recording was cut off.
//!
//! Rule: no byte after a gap is committed before the gap's line is durable. So a recording that was
//! cut off by a power failure has no gap that its companion file does not name.

use block::Buffer;
use volume::File;
use volume::checksum::crc32c;

use crate::Gap;

/// Bytes of a line.
pub const GAP_LINE_BYTES: usize = 64;
/// Begins the checksum of a line. No digit: a flipped bit makes no number of it and what is
/// before it.
const SUM_MARK: u8 = b'#';
/// A space, `#`, eight digits and the line feed.
const SUM_BYTES: usize = 11;
/// Where the numbers of a line with a checksum end.
const NUMBERS_END: usize = GAP_LINE_BYTES - SUM_BYTES;
/// Lines that wait to be written.
const WAITING: usize = 32;
/// Lines that are written together; fewer than may wait, so that the last waiting line can still
/// change.
pub(crate) const AT_ONCE: usize = 8;

/// Where gaps are written: a file of lines, open for writing, and a buffer of exactly one block of
/// the device.
#[derive(Debug)]
pub struct GapFile {
    /// The file.
    pub file: File,
    /// The buffer.
    pub buffer: Buffer,
    /// If the file ends inside a block, the buffer begins with so many bytes of that block.
    pub filled_bytes: usize,
}

/// The gaps of a recording.
#[derive(Debug)]
pub(crate) struct Gaps {
    pub file: Option<File>,
    /// None while the device has it.
    pub buffer: Option<Buffer>,
    /// Bytes of lines in the buffer.
    pub filled: usize,
    /// The result of the current write.
    pub written: Option<Result<(), volume::Error>>,
    /// The gap that may grow.
    pub open: Option<Gap>,
    /// Those whose lines are not durable, oldest first.
    waiting: [Gap; WAITING],
    waiting_count: usize,
    /// Lines closed so far, and those of them that are durable.
    pub closed: u64,
    pub durable: u64,
}

impl Gaps {
    pub(crate) fn new(file: Option<GapFile>) -> Self {
        let (file, buffer, filled) = match file {
            Some(gaps) => (Some(gaps.file), Some(gaps.buffer), gaps.filled_bytes),
            None => (None, None, 0),
        };
        Self {
            file,
            buffer,
            filled,
            written: None,
            open: None,
            waiting: [Gap::default(); WAITING],
            waiting_count: 0,
            closed: 0,
            durable: 0,
        }
    }

    pub(crate) const fn waiting(&self) -> usize {
        self.waiting_count
    }

    /// Ends the gap that may grow.
    pub(crate) fn close(&mut self) {
        let Some(gap) = self.open.take() else { return };
        if let Some(place) = self.waiting.get_mut(self.waiting_count) {
            *place = gap;
            self.waiting_count += 1;
            self.closed += 1;
        } else if let Some(last) = self.waiting.last_mut() {
            last.lost_bytes = last.lost_bytes.saturating_add(gap.lost_bytes);
            last.count = last.count.saturating_add(gap.count);
        }
    }

    /// Adds lines for the oldest gaps to the buffer, the first of which has this number; returns
    /// how many.
    pub(crate) fn fill(&mut self, number: u64) -> usize {
        let Some(buffer) = &mut self.buffer else {
            return 0;
        };
        let gaps = self.waiting.iter().take(self.waiting_count.min(AT_ONCE));
        let mut lines = 0;
        for (gap, number) in gaps.zip(number..) {
            let place = self.filled..self.filled + GAP_LINE_BYTES;
            let Some(place) = buffer.get_mut(place) else {
                break;
            };
            place.copy_from_slice(&line(gap, Some(number)));
            self.filled += GAP_LINE_BYTES;
            lines += 1;
        }
        lines
    }

    /// The oldest `lines` gaps are durable.
    pub(crate) fn are_durable(&mut self, lines: usize) {
        let lines = lines.min(self.waiting_count);
        self.waiting.rotate_left(lines);
        self.waiting_count -= lines;
        self.durable += lines as u64;
        if self
            .buffer
            .as_ref()
            .is_some_and(|buffer| self.filled >= buffer.len())
        {
            self.filled = 0;
        }
    }
}

/// A line that says that nothing is missing at `offset_bytes`, but another stream begins there: the
/// recording went on later. `number`: of the line in its file, from 0.
pub fn restart_line(offset_bytes: u64, number: u64) -> [u8; GAP_LINE_BYTES] {
    let gap = Gap {
        offset_bytes,
        count: 1,
        ..Gap::default()
    };
    line(&gap, Some(number))
}

/// A gap's line, with its number or, as older versions wrote it, without one. Formatted by hand,
/// because firmware has no other use for `core::fmt`.
fn line(gap: &Gap, number: Option<u64>) -> [u8; GAP_LINE_BYTES] {
    let mut line = [b' '; GAP_LINE_BYTES];
    if numbers(&mut line, gap, NUMBERS_END) {
        let (before, sum) = line.split_at_mut(NUMBERS_END + 1);
        let crc = crc32c(0, before);
        let crc = number.map_or(crc, |number| crc32c(crc, &number.to_le_bytes()));
        if let Some(mark) = sum.first_mut() {
            *mark = SUM_MARK;
        }
        for (digit, shift) in sum.iter_mut().skip(1).zip((0..32).step_by(4).rev()) {
            let nibble = (crc >> shift & 0xf) as u8;
            *digit = if nibble < 10 {
                b'0' + nibble
            } else {
                b'a' + nibble - 10
            };
        }
    } else {
        line = [b' '; GAP_LINE_BYTES];
        // 16 digits of microseconds are 300 years.
        let at_us = gap.at_us.min(9_999_999_999_999_999);
        let count = gap.count.min(9_999);
        // Where each field ends.
        put(&mut line, 20, gap.offset_bytes);
        put(&mut line, 41, gap.lost_bytes);
        put(&mut line, 58, at_us);
        put(&mut line, 63, u64::from(count));
    }
    if let Some(last) = line.last_mut() {
        *last = b'\n';
    }
    line
}

/// Writes the numbers that end before `end`, in columns if all of them fit; false: there is no room
/// for all.
fn numbers(line: &mut [u8; GAP_LINE_BYTES], gap: &Gap, end: usize) -> bool {
    let fields = [
        (u64::from(gap.count.min(9_999)), 4),
        (gap.at_us, 13),
        (gap.lost_bytes, 15),
        (gap.offset_bytes, 18),
    ];
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let has_columns = fields
        .iter()
        .all(|(number, columns)| digits(*number) <= *columns);
    let mut end = end;
    for (number, columns) in fields {
        let digits = digits(number);
        if digits > end {
            return false;
        }
        put(line, end, number);
        let taken = if has_columns { columns } else { digits };
        end = end.saturating_sub(taken + 1);
    }
    true
}

/// Writes a number that ends before `end`: at most 20 digits.
fn put(line: &mut [u8; GAP_LINE_BYTES], end: usize, number: u64) {
    let mut rest = number;
    for place in line.iter_mut().take(end).rev() {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
}

/// Whether a line of a companion file has a checksum, which [`parse_gap`] compares.
pub fn has_gap_sum(line: &[u8]) -> bool {
    line.contains(&SUM_MARK)
}

/// Parses the line of a companion file with this number, from 0; `None` if it is not a valid line,
/// or does not match its checksum.
pub fn parse_gap(bytes: &[u8], number: u64) -> Option<Gap> {
    let text = core::str::from_utf8(bytes).ok()?;
    let (text, has_sum) = match text.split_once(char::from(SUM_MARK)) {
        Some((before, _)) => (before, true),
        None => (text, false),
    };
    let mut numbers = text.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse::<u64>().ok();
    let gap = Gap {
        offset_bytes: next()?,
        lost_bytes: next()?,
        at_us: next()?,
        count: u32::try_from(next()?).ok()?,
    };
    let is_whole = numbers.next().is_none()
        && (!has_sum
            || [Some(number), None]
                .map(|number| line(&gap, number))
                .iter()
                .any(|line| line == bytes));
    is_whole.then_some(gap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec;

    fn gap(number: u64) -> Gap {
        Gap {
            offset_bytes: number * 1_000,
            lost_bytes: 10,
            at_us: number,
            count: 1,
        }
    }

    #[test]
    fn a_line_says_what_the_gap_is() {
        let longest = Gap {
            offset_bytes: u64::MAX,
            lost_bytes: u64::MAX,
            at_us: u64::MAX,
            count: u32::MAX,
        };
        for gap in [gap(0), gap(7), longest] {
            let line = line(&gap, Some(0x0123_4567));
            assert_eq!(line.last(), Some(&b'\n'));
            let (at_us, count) = (gap.at_us.min(9_999_999_999_999_999), gap.count.min(9_999));
            let (offset, lost) = (gap.offset_bytes, gap.lost_bytes);
            let formatted = if gap == longest {
                std::format!("{offset:>20} {lost:>20} {at_us:>16} {count:>4}\n")
            } else {
                let numbers = std::format!("{offset:>18} {lost:>15} {at_us:>13} {count:>4} ");
                let place = [0x67, 0x45, 0x23, 1, 0, 0, 0, 0];
                let sum = crc32c(0, &[numbers.as_bytes(), &place].concat());
                std::format!("{numbers}#{sum:08x}\n")
            };
            assert_eq!(std::str::from_utf8(&line), Ok(formatted.as_str()));
            assert_eq!(has_gap_sum(&line), gap != longest);
            let parsed = parse_gap(&line, 0x0123_4567).unwrap();
            assert_eq!(
                (parsed.offset_bytes, parsed.lost_bytes),
                (gap.offset_bytes, gap.lost_bytes)
            );
        }
        assert_eq!(parse_gap(&line(&gap(7), Some(3)), 3), Some(gap(7)));
        for bad in [&b""[..], b"1 2 3", b"1 2 3 4 5", b"a b c d", b"\xff"] {
            assert_eq!(parse_gap(bad, 0), None);
        }
    }

    #[test]
    fn no_flipped_bit_makes_another_line() {
        let wide = Gap {
            offset_bytes: 1 << 56,
            lost_bytes: 1 << 40,
            at_us: 1 << 40,
            count: 12,
        };
        let narrow = Gap {
            offset_bytes: 999_999_999_999_999_999,
            lost_bytes: 9_999_999_999_999_999,
            at_us: 9,
            count: 1,
        };
        for gap in [gap(0), gap(12_345_678), wide, narrow] {
            let line = line(&gap, Some(5));
            assert!(has_gap_sum(&line));
            assert_eq!(parse_gap(&line, 5), Some(gap));
            // In the place of another one.
            for number in (0..100).filter(|number| *number != 5) {
                assert_eq!(parse_gap(&line, number), None, "{gap:?} {number}");
            }
            for bit in 0..line.len() * 8 {
                let mut damaged = line;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(parse_gap(&damaged, 5), None, "{gap:?} {bit}");
            }
        }
        // Of older versions: with a checksum that says nothing of the place, and without any.
        assert_eq!(parse_gap(&line(&gap(7), None), 5), Some(gap(7)));
        let old = std::format!("{:>20} {:>20} {:>16} {:>4}\n", 7_000, 10, 7, 1);
        assert_eq!(parse_gap(old.as_bytes(), 9), Some(gap(7)));
        assert!(!has_gap_sum(old.as_bytes()));
    }

    #[test]
    fn too_many_gaps_are_merged_and_none_is_forgotten() {
        let buffer = Buffer::from_static(Box::leak(vec![0; 512].into_boxed_slice()));
        let mut gaps = Gaps::new(None);
        gaps.buffer = Some(buffer);
        for number in 0..100 {
            gaps.open = Some(gap(number));
            gaps.close();
        }
        assert_eq!((gaps.waiting(), gaps.closed), (WAITING, WAITING as u64));
        let (mut lost, mut count, mut first) = (0, 0, 0);
        while gaps.waiting() > 0 {
            let lines = gaps.fill(first);
            let buffer = gaps.buffer.as_ref().unwrap();
            for (line, number) in buffer.chunks(GAP_LINE_BYTES).take(lines).zip(first..) {
                let gap = parse_gap(line, number).unwrap();
                lost += gap.lost_bytes;
                count += gap.count;
            }
            gaps.are_durable(lines);
            first += lines as u64;
        }
        assert_eq!((lost, count, gaps.durable), (1_000, 100, gaps.closed));
    }
}
