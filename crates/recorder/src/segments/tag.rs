// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a segment is in its recording, as the volume keeps it in the file's number for
//! applications (FORMAT.md, `app_tag`).
//!
//! Lengths of segments vary, and one that is removed takes its length with it. The tag says how
//! much of the recording lies before a segment, so that what is missing can be counted, and in
//! which format it was recorded, which only the first segment's bytes show. It is durable with the
//! segment's first bytes. That another segment follows is durable with the last ones: the next file
//! exists by then.
//!
//! | bits | contents |
//! | --- | --- |
//! | 60 to 63 | 0xb: this is a tag; 0xc: a tag, and another segment follows; 0xd: a file that a recording made, without a place: a companion, a segment without a byte, or one behind 256 TiB |
//! | 59 | the oldest segments are removed while it is recorded (`--keep`) |
//! | 57 and 58 | the format |
//! | 48 to 56 | the number of the recording's first segment, modulo 512 |
//! | 0 to 47 | bytes of the recording before the segment, those counted that were lost |

use formats::Format;

const MARK: u64 = 0xb;
const FOLLOWED: u64 = 0xc;
/// The number of a file that a recording made and that has no place in it.
pub const MADE: u64 = 0xd << 60;
const FORMATS: [Format; 4] = [Format::Raw, Format::Sigmf, Format::Mcap, Format::Pcapng];
const FIRST: u64 = 512;
const OFFSET_BITS: u32 = 48;

/// A segment's place in its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The format that the recording was made in.
    pub format: Format,
    /// Whether the recording removes its oldest segments.
    pub is_ring: bool,
    /// The number of the recording's first segment.
    pub first: u64,
    /// Bytes of the recording before the segment, those counted that were lost.
    pub offset_bytes: u64,
    /// Whether the recording went on in another segment. Recordings of older versions do not say
    /// so.
    pub is_followed: bool,
}

/// Whether a recording made the file with this number, which is the condition for a ring to remove
/// it.
pub const fn is_made(app_tag: u64) -> bool {
    matches!(app_tag >> 60, MARK | FOLLOWED | 0xd)
}

impl Tag {
    /// As the volume keeps it; without a place for a recording of 256 TiB and more.
    pub fn to_number(self) -> u64 {
        if self.offset_bytes >> OFFSET_BITS != 0 {
            return MADE;
        }
        let format = FORMATS.iter().position(|format| *format == self.format);
        let mark = if self.is_followed { FOLLOWED } else { MARK };
        mark << 60
            | u64::from(self.is_ring) << 59
            | (format.unwrap_or(0) as u64) << 57
            | (self.first % FIRST) << OFFSET_BITS
            | self.offset_bytes
    }

    /// The tag of the segment with this number; `None` if the file's number is none.
    pub fn of(app_tag: u64, number: u64) -> Option<Self> {
        let is_followed = match app_tag >> 60 {
            MARK => false,
            FOLLOWED => true,
            _ => return None,
        };
        let format = FORMATS.get((app_tag >> 57 & 3) as usize)?;
        // The last number up to the segment's own with this remainder.
        let first = app_tag >> OFFSET_BITS & (FIRST - 1);
        let behind = (number % FIRST + FIRST - first) % FIRST;
        Some(Self {
            format: *format,
            is_ring: app_tag >> 59 & 1 == 1,
            first: number.checked_sub(behind)?,
            offset_bytes: app_tag & ((1 << OFFSET_BITS) - 1),
            is_followed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        for (number, first) in [(1, 1), (2, 1), (511, 1), (512, 1), (513, 512), (1023, 512)] {
            for (format, is_ring) in FORMATS.into_iter().zip([true, false, true, false]) {
                let tag = Tag {
                    format,
                    is_ring,
                    first,
                    offset_bytes: (1 << 48) - number,
                    is_followed: !is_ring,
                };
                assert_eq!(Tag::of(tag.to_number(), number), Some(tag));
                assert!(is_made(tag.to_number()));
            }
        }
        for number in [0, 1, 77, 1 << 47, u64::MAX] {
            assert_eq!(Tag::of(number, 3), None, "{number}");
        }
        let long = Tag {
            format: Format::Raw,
            is_ring: false,
            first: 1,
            offset_bytes: 1 << 48,
            is_followed: false,
        };
        assert_eq!(long.to_number(), MADE);
        assert!(is_made(MADE) && Tag::of(MADE, 3).is_none());
        // Of `put`, while it stores a file and then.
        assert!(!is_made(files::listing::UNFINISHED_TAG) && !is_made(0));
        // A tag of a segment that has another number now, before the recording's first.
        let moved = Tag {
            first: 5,
            offset_bytes: 9,
            ..long
        };
        assert_eq!(Tag::of(moved.to_number(), 3), None);
    }
}
