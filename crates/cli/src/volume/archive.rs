//! A tar archive, read from a file or a stream: its members in their order (POSIX pax, ustar, GNU's long names).
//!
//! The crate `tar` decodes the headers. Its own reader is not used, because its entries share their position and cannot be read from
//! the thread that fills the buffers.

use super::shown;
use super::source::Source;
use crate::failure::{Failure, Result};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use tar::{EntryType, Header, PaxExtensions};

/// Everything in an archive begins at a multiple of this.
pub const RECORD_BYTES: usize = 512;
/// Names and other attributes of one member are at most this long.
const MOST_ATTRIBUTES: u64 = 1 << 20;
const SPARSE: &str = "a file in it is stored as sparse; make it without --sparse";
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// An archive and the position in it.
pub struct Archive<'s> {
    source: Source<'static>,
    stop: &'s AtomicBool,
    /// Bytes before the next header.
    between: u64,
}

/// The header of one member.
#[derive(Debug)]
pub struct Member {
    /// Its path.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryType,
    /// Bytes of its data.
    pub len_bytes: u64,
    /// When it was last modified, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// What pax and GNU put before a header because it does not fit in it.
#[derive(Default)]
struct Attributes {
    path: Option<Vec<u8>>,
    len_bytes: Option<u64>,
    modified_ns: Option<u64>,
}

impl<'s> Archive<'s> {
    /// Reads from `source` until `stop` is set.
    pub fn new(source: Source<'static>, stop: &'s AtomicBool) -> Self {
        Self {
            source,
            stop,
            between: 0,
        }
    }

    /// The archive's own name.
    pub fn name(&self) -> String {
        self.source.name.display().to_string()
    }

    /// The next member, or `None` at the end. Its data is skipped unless [`data`](Self::data) is read to its end.
    ///
    /// # Errors
    /// The archive cannot be read, or is none.
    pub fn next_member(&mut self) -> Result<Option<Member>> {
        let mut attributes = Attributes::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            let kind = header.entry_type();
            let len_bytes = header
                .entry_size()
                .map_err(|error| self.unreadable(error))?;
            if kind.is_gnu_longname() {
                let mut path = self.attributes(len_bytes)?;
                path.truncate(
                    path.iter()
                        .position(|byte| *byte == 0)
                        .unwrap_or(path.len()),
                );
                attributes.path = Some(path);
            } else if kind.is_pax_local_extensions() {
                let text = self.attributes(len_bytes)?;
                attributes.add(&text).map_err(|why| self.unreadable(why))?;
            } else if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
                self.between = padded(len_bytes);
            } else if kind.is_gnu_sparse() {
                return Err(self.unreadable(SPARSE));
            } else {
                let len_bytes = attributes.len_bytes.unwrap_or(len_bytes);
                self.between = padded(len_bytes);
                let modified_s = header.mtime().unwrap_or(0);
                return Ok(Some(Member {
                    path: attributes
                        .path
                        .unwrap_or_else(|| header.path_bytes().into_owned()),
                    kind,
                    len_bytes,
                    modified_ns: attributes
                        .modified_ns
                        .unwrap_or(modified_s.saturating_mul(1_000_000_000)),
                }));
            }
        }
    }

    /// The data of the member that was read last. It must be read to its end.
    pub fn data(&mut self, member: &Member, name: &str) -> Source<'_> {
        self.between = padded(member.len_bytes) - member.len_bytes;
        Source::member(
            &mut self.source,
            PathBuf::from(name),
            member.len_bytes,
            member.modified_ns,
        )
    }

    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        let filled = self.source.fill(header.as_mut_bytes(), self.stop)?;
        let bytes = header.as_bytes();
        // Two records of zeroes are the end; an archive that was cut between members has none.
        if filled == 0 || bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let others = bytes
            .iter()
            .enumerate()
            .filter(|(at, _)| !CHECKSUM.contains(at));
        let sum: u32 = others.map(|(_, byte)| u32::from(*byte)).sum();
        let sum = sum + u32::from(b' ') * CHECKSUM.len() as u32;
        match header.cksum() {
            Ok(stored) if filled == RECORD_BYTES && stored == sum => Ok(Some(header)),
            _ => Err(self.unreadable("this is no header of an archive")),
        }
    }

    /// What stands in a member of its own, before that to which it belongs.
    fn attributes(&mut self, len_bytes: u64) -> Result<Vec<u8>> {
        if len_bytes > MOST_ATTRIBUTES {
            return Err(self.unreadable("a name is longer than a MiB"));
        }
        let mut bytes = vec![0; len_bytes as usize];
        if self.source.fill(&mut bytes, self.stop)? < bytes.len() {
            return Err(self.unreadable("it ends in the middle of a name"));
        }
        self.between = padded(len_bytes) - len_bytes;
        Ok(bytes)
    }

    fn skip(&mut self) -> Result<()> {
        let mut scratch = [0; 64 * RECORD_BYTES];
        while self.between > 0 {
            let want = scratch
                .len()
                .min(usize::try_from(self.between).unwrap_or(usize::MAX));
            let part = scratch.get_mut(..want).unwrap_or_default();
            if self.source.fill(part, self.stop)? < want {
                return Err(self.unreadable("it ends in the middle of a file"));
            }
            self.between -= want as u64;
        }
        Ok(())
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> Failure {
        Failure::other(format!("{}: {why}", shown(&self.name()))).hint(
            "it must be a tar archive that is not compressed: gzip -dc FILE | straightway put DEVICE - --tar",
        )
    }
}

impl Attributes {
    fn add(&mut self, text: &[u8]) -> std::result::Result<(), &'static str> {
        for one in PaxExtensions::new(text) {
            let one = one.map_err(|_| "the attributes of a file are damaged")?;
            match one.key_bytes() {
                b"path" => self.path = Some(one.value_bytes().to_vec()),
                b"size" => {
                    let size = one.value().ok().and_then(|value| value.parse().ok());
                    self.len_bytes = Some(size.ok_or("the size of a file is damaged")?);
                }
                b"mtime" => self.modified_ns = one.value().ok().and_then(nanoseconds),
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(SPARSE);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Of a time in seconds with a fraction; `None` before 1970.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let digits = format!("{:0<9}", fraction.get(..9).unwrap_or(fraction));
    let nanoseconds = digits.parse::<u64>().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(nanoseconds)
}

/// With the rest of the last record.
pub fn padded(len_bytes: u64) -> u64 {
    len_bytes.next_multiple_of(RECORD_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        for (text, expected) in [
            ("1700000000", Some(1_700_000_000_000_000_000)),
            ("1700000000.5", Some(1_700_000_000_500_000_000)),
            ("1700000000.123456789", Some(1_700_000_000_123_456_789)),
            ("1700000000.1234567891", Some(1_700_000_000_123_456_789)),
            ("0.000000001", Some(1)),
            ("-1.5", None),
            ("99999999999", None),
            ("soon", None),
        ] {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }
}
