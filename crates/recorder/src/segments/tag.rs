// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recording keeps of a file with it, in the file's number for applications (FORMAT.md,
//! `app_tag`): where a segment is in its recording, and whether something was lost in it.
//!
//! Lengths of segments vary, and one that is removed takes its length with it. The tag says how
//! much of the recording lies before a segment, so that what is missing can be counted, and in
//! which format it was recorded, which only the first segment's bytes show. It is durable with the
//! segment's first bytes. That another segment follows is durable with the last ones: the next file
//! exists by then. That something was lost in a file is durable with the first bytes behind the
//! loss: without its list of gaps, it is not whole. Recordings of older versions do not say so.
//!
//! | bits | contents |
//! | --- | --- |
//! | 60 to 63 | 0xb: this is a tag; 0xc: a tag, and another segment follows; 0xe and 0xf: the same two, and something was lost in the segment; 0xd: a file that a recording made, without a place: a companion, a segment without a byte, or one behind 256 TiB; 0xa: a recording in one file, its list of gaps, or its description |
//! | 59 | the oldest segments are removed while it is recorded (`--keep`) |
//! | 57 and 58 | the format |
//! | 48 to 56 | the number of the recording's first segment, modulo 512 |
//! | 0 to 47 | bytes of the recording before the segment, those counted that were lost |
//!
//! Of 0xa, bit 59 says that something was lost, bits 57 and 58 are the format, so that a
//! description that is missing is missed (0: raw, or an older version that did not say it), and
//! bits 0 to 56 are when the recording began, in microseconds since 1970: its list of gaps and its
//! description have the same, and so are not those of another file which had its name before.

use formats::Format;

const ONE_FILE: u64 = 0xa;
const MARK: u64 = 0xb;
const FOLLOWED: u64 = 0xc;
const PLACELESS: u64 = 0xd;
/// What a mark becomes when something was lost: 0xb and 0xc become 0xe and 0xf.
const LOST: u64 = 3;
const LOST_IN_ONE: u64 = 1 << 59;
const FORMAT_SHIFT: u32 = 57;
/// The number of a file that a recording made and that has no place in it.
pub const MADE: u64 = PLACELESS << 60;
const FORMATS: [Format; 4] = [Format::Raw, Format::Sigmf, Format::Mcap, Format::Pcapng];
/// The place of SigMF in `FORMATS`.
const SIGMF: u64 = 1;
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
    /// Whether something was lost in the segment: it has a list of gaps. Recordings of older
    /// versions do not say so.
    pub has_gaps: bool,
}

/// Whether a recording made the segment or companion with this number, which is the condition for a
/// ring to remove it.
pub const fn is_made(app_tag: u64) -> bool {
    app_tag >> 60 >= MARK
}

/// Whether a recording made the file with this number.
pub const fn is_recorded(app_tag: u64) -> bool {
    app_tag >> 60 >= ONE_FILE
}

/// Whether a recording made the file with this number, and it keeps no place.
pub const fn has_no_place(app_tag: u64) -> bool {
    app_tag >> 60 == PLACELESS
}

/// The number of a recording in one file that begins at this time, in this format, and of its list
/// of gaps.
pub fn of_one_file(began_ns: u64, format: Format) -> u64 {
    let began_us = (began_ns / 1000) % (1 << FORMAT_SHIFT);
    ONE_FILE << 60 | bits_of(format) << FORMAT_SHIFT | began_us
}

fn bits_of(format: Format) -> u64 {
    let at = FORMATS.iter().position(|one| *one == format);
    at.unwrap_or(0) as u64
}

/// The format that a recording in one file with this number was made in, if the number says it.
pub fn format_of_one_file(app_tag: u64) -> Option<Format> {
    let at = (app_tag >> FORMAT_SHIFT & 3) as usize;
    let format = FORMATS.get(at).filter(|format| **format != Format::Raw);
    format.filter(|_| is_one_file(app_tag)).copied()
}

/// The number of a file in which something was lost, which had this one; one that says nothing
/// stays as it is.
pub const fn with_gaps(app_tag: u64) -> u64 {
    match app_tag >> 60 {
        ONE_FILE => app_tag | LOST_IN_ONE,
        MARK | FOLLOWED => app_tag + (LOST << 60),
        _ => app_tag,
    }
}

/// The number of the list of gaps of a file with this one.
pub const fn of_list(app_tag: u64) -> u64 {
    match app_tag >> 60 {
        ONE_FILE => app_tag & !LOST_IN_ONE,
        MARK.. => MADE,
        _ => 0,
    }
}

/// Whether something was lost in the file with this number: it has a list of gaps.
pub const fn has_gaps(app_tag: u64) -> bool {
    match app_tag >> 60 {
        ONE_FILE => app_tag & LOST_IN_ONE != 0,
        mark => mark > PLACELESS,
    }
}

/// Whether the file with this number is a segment that another one follows.
pub const fn is_followed(app_tag: u64) -> bool {
    let mark = app_tag >> 60;
    mark == FOLLOWED || mark == FOLLOWED + LOST
}

/// Whether this is the number of a recording in one file that lost nothing: the number of one that
/// did says so.
pub const fn is_sure_of_no_gaps(app_tag: u64) -> bool {
    app_tag >> 60 == ONE_FILE && !has_gaps(app_tag)
}

/// Whether a list of gaps with number `list` belongs to the file with number `file`. Neither of an
/// older version's recording in one file has a number; only MCAP's list had one there, so that it
/// belongs to a file which `is_segment` does not say otherwise of.
pub const fn belongs(list: u64, file: u64, is_segment: bool) -> bool {
    match (file >> 60, list >> 60) {
        (ONE_FILE, ONE_FILE) => of_list(file) == of_list(list),
        (ONE_FILE, _) | (_, ONE_FILE) => false,
        (MARK.., PLACELESS) => true,
        (MARK.., _) => false,
        (_, PLACELESS) => !is_segment,
        _ => true,
    }
}

/// Whether the file with this number is a recording in one file.
pub const fn is_one_file(app_tag: u64) -> bool {
    app_tag >> 60 == ONE_FILE
}

/// Whether a description with number `description` may belong to the file with number `file`. What
/// the user has put describes what the user says. A recording's description has the number of its
/// list of gaps, and segments have one only if they were recorded as SigMF. Neither file of an
/// older version's recording in one file says so.
pub const fn describes(description: u64, file: u64) -> bool {
    match (description >> 60, file >> 60) {
        (ONE_FILE, ONE_FILE) => of_list(file) == of_list(description),
        (ONE_FILE, _) | (PLACELESS, ONE_FILE) => false,
        (PLACELESS, PLACELESS) => true,
        (PLACELESS, MARK..) => file >> 57 & 3 == SIGMF,
        _ => true,
    }
}

impl Tag {
    /// As the volume keeps it; without a place for a recording of 256 TiB and more.
    pub fn to_number(self) -> u64 {
        if self.offset_bytes >> OFFSET_BITS != 0 {
            return MADE;
        }
        let mark = if self.is_followed { FOLLOWED } else { MARK };
        let mark = if self.has_gaps { mark + LOST } else { mark };
        mark << 60
            | u64::from(self.is_ring) << 59
            | bits_of(self.format) << FORMAT_SHIFT
            | (self.first % FIRST) << OFFSET_BITS
            | self.offset_bytes
    }

    /// The tag of the segment with this number; `None` if the file's number is none.
    pub fn of(app_tag: u64, number: u64) -> Option<Self> {
        let mark = app_tag >> 60;
        let has_gaps = mark > PLACELESS;
        let is_followed = match mark - if has_gaps { LOST } else { 0 } {
            MARK => false,
            FOLLOWED => true,
            _ => return None,
        };
        let format = FORMATS.get((app_tag >> FORMAT_SHIFT & 3) as usize)?;
        // The last number up to the segment's own with this remainder.
        let first = app_tag >> OFFSET_BITS & (FIRST - 1);
        let behind = (number % FIRST + FIRST - first) % FIRST;
        let offset_bytes = app_tag & ((1 << OFFSET_BITS) - 1);
        // The first one begins at byte 0.
        let behind = match behind {
            0 if offset_bytes > 0 && number > FIRST => FIRST,
            behind => behind,
        };
        Some(Self {
            format: *format,
            is_ring: app_tag >> 59 & 1 == 1,
            first: number.checked_sub(behind)?,
            offset_bytes,
            is_followed,
            has_gaps,
        })
    }

    /// The same, behind a segment of a recording that began with segment `first`, whose byte
    /// `begin_bytes` it begins with. The first number is known modulo 512 only: of two recordings
    /// of one name it is that one whose bytes go on.
    pub const fn behind(self, first: u64, begin_bytes: u64) -> Self {
        let is_of_it = self.first > first
            && (self.first - first) % FIRST == 0
            && self.offset_bytes > begin_bytes;
        Self {
            first: if is_of_it { first } else { self.first },
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        for (number, first) in [
            (1, 1),
            (2, 1),
            (511, 1),
            (512, 1),
            (513, 512),
            (513, 1),
            (1023, 512),
        ] {
            for (format, is_ring) in FORMATS.into_iter().zip([true, false, true, false]) {
                let tag = Tag {
                    format,
                    is_ring,
                    first,
                    offset_bytes: (1 << 48) - number,
                    is_followed: !is_ring,
                    has_gaps: number % 2 == 0,
                };
                assert_eq!(Tag::of(tag.to_number(), number), Some(tag));
                assert!(is_made(tag.to_number()));
                assert_eq!(has_gaps(tag.to_number()), tag.has_gaps);
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
            has_gaps: false,
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

    #[test]
    fn a_description_is_that_of_the_recording_that_it_was_made_with() {
        let segment = |format| {
            let tag = Tag {
                format,
                is_ring: false,
                first: 1,
                offset_bytes: 0,
                is_followed: true,
                has_gaps: true,
            };
            tag.to_number()
        };
        let one = of_one_file(1_796_000_000_123_456_789, Format::Sigmf);
        let other = of_one_file(1_796_000_000_123_457_789, Format::Sigmf);
        for (description, file, expected) in [
            (one, one, true),
            (one, with_gaps(one), true),
            (other, one, false),
            // The file was put since, or has become one in segments.
            (one, 0, false),
            (one, segment(Format::Sigmf), false),
            (MADE, one, false),
            (MADE, segment(Format::Sigmf), true),
            (MADE, segment(Format::Raw), false),
            (MADE, segment(Format::Mcap), false),
            (MADE, MADE, true),
            // Of an older version, or put.
            (MADE, 0, true),
            (0, 0, true),
            (0, one, true),
            (0, segment(Format::Raw), true),
        ] {
            assert_eq!(
                describes(description, file),
                expected,
                "{description:x} {file:x}"
            );
        }
        assert!(is_one_file(with_gaps(one)) && !is_one_file(segment(Format::Raw)));
        for format in FORMATS {
            let number = with_gaps(of_one_file(1_796_000_000_123_456_789, format));
            let is_said = format != Format::Raw;
            assert_eq!(format_of_one_file(number), is_said.then_some(format));
        }
        assert_eq!(format_of_one_file(segment(Format::Sigmf)), None);
        assert_eq!(
            (format_of_one_file(0), format_of_one_file(MADE)),
            (None, None)
        );
    }

    #[test]
    fn a_list_belongs_to_the_file_that_it_was_written_with() {
        let place = Tag {
            format: Format::Raw,
            is_ring: false,
            first: 1,
            offset_bytes: 9,
            is_followed: true,
            has_gaps: true,
        };
        let (segment, one) = (
            place.to_number(),
            of_one_file(1_796_000_000_123_456_789, Format::Sigmf),
        );
        let other = of_one_file(1_796_000_000_123_457_789, Format::Sigmf);
        for (list, file, is_segment, expected) in [
            (one, one, false, true),
            (one, with_gaps(one), false, true),
            // Of a file that had the name before, or is there now.
            (other, with_gaps(one), false, false),
            (one, 0, false, false),
            (MADE, one, false, false),
            (0, one, false, false),
            (MADE, segment, true, true),
            (MADE, MADE, true, true),
            (0, segment, true, false),
            (one, segment, true, false),
            (MADE, 0, true, false),
            // Of older versions, and what was fetched and put again.
            (0, 0, false, true),
            (0, 0, true, true),
            (MADE, 0, false, true),
        ] {
            assert_eq!(
                belongs(list, file, is_segment),
                expected,
                "{list:x} {file:x}"
            );
        }
        assert!(!is_made(one) && !is_made(with_gaps(one)) && !has_gaps(one));
        assert!(has_gaps(with_gaps(one)) && has_gaps(segment) && !has_gaps(MADE));
        assert_eq!((of_list(with_gaps(one)), of_list(segment)), (one, MADE));
        assert_eq!((with_gaps(segment), with_gaps(0)), (segment, 0));
        let without = Tag {
            has_gaps: false,
            ..place
        };
        assert_eq!(with_gaps(without.to_number()), segment);
    }
}
