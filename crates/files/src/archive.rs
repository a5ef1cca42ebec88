// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tar archive, read from a file or a stream: its members in their order (POSIX pax, ustar, GNU's
//! long names).
//!
//! The crate `tar` decodes the headers. Its own reader is not used, because its entries share their
//! position and cannot be read from the thread that fills the buffers.

use super::shown;
use super::source::FileSource;
use devices::error::{Error, Result};
use remedy::{Part, Remedy, Setting, words};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use tar::{EntryType, Header, PaxExtensions};

/// Everything in an archive begins at a multiple of this.
pub const RECORD_BYTES: usize = 512;
/// Names and other attributes of one member are at most this long.
const MOST_ATTRIBUTES: u64 = 1 << 20;
const SPARSE: &str = "a file in it is stored as sparse";
/// As pax has them, from before pax.
const SOLARIS_EXTENSIONS: u8 = b'X';
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// An archive and the position in it.
pub struct Archive<'s> {
    source: FileSource<'static>,
    stop: &'s AtomicBool,
    /// Bytes before the next header.
    between: u64,
    /// Bytes that were read.
    position: u64,
    /// What was read in place of a header ended it: a block of zeroes, or else the end of the
    /// source.
    end_is_marked: bool,
}

/// The header of one member.
#[derive(Debug)]
pub struct Member {
    /// Its path.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its type in the archive.
    pub letter: char,
    /// Bytes of its data.
    pub len_bytes: u64,
    /// When it was last modified, in nanoseconds since 1970.
    pub modified_ns: u64,
}

/// What a member is to a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A file, as POSIX has it for a type that is not known (pax, "ustar Interchange Format",
    /// typeflag).
    Unknown,
    /// A folder, also with the names in it (GNU's incremental archives).
    Folder,
    /// Another name of a file, without its data.
    HardLink,
    /// A symbolic link, a device or a FIFO, which have no data.
    Special,
    /// The rest of a file that begins in another archive (GNU's archives of several volumes).
    Rest,
    /// The label of the archive.
    Label,
}

impl Kind {
    fn of(letter: u8, path: &[u8]) -> Self {
        match letter {
            // Before POSIX, a folder was told by its name only.
            b'\0' if path.ends_with(b"/") => Self::Folder,
            b'\0' | b'0' | b'7' => Self::File,
            b'1' => Self::HardLink,
            b'2' | b'3' | b'4' | b'6' => Self::Special,
            b'5' | b'D' => Self::Folder,
            b'M' => Self::Rest,
            b'V' => Self::Label,
            _ => Self::Unknown,
        }
    }
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
    pub fn new(source: FileSource<'static>, stop: &'s AtomicBool) -> Self {
        Self {
            source,
            stop,
            between: 0,
            position: 0,
            end_is_marked: false,
        }
    }

    /// The archive's own name.
    pub fn name(&self) -> String {
        self.source.name.display().to_string()
    }

    /// The next member, or `None` at the end. Its data is skipped unless [`data`](Self::data) is
    /// read to its end.
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
            let len_bytes = match kind {
                // Old archives repeat the size of a file, without its data; so GNU's tar reads it.
                EntryType::Link => 0,
                _ => header
                    .entry_size()
                    .map_err(|error| self.unreadable(error))?,
            };
            if kind.is_gnu_longname() {
                let mut path = self.attributes(len_bytes)?;
                path.truncate(
                    path.iter()
                        .position(|byte| *byte == 0)
                        .unwrap_or(path.len()),
                );
                attributes.path = Some(path);
            } else if kind.is_pax_local_extensions() || kind.as_byte() == SOLARIS_EXTENSIONS {
                let text = self.attributes(len_bytes)?;
                attributes.add(&text).map_err(|why| match why {
                    SPARSE => self.sparse(),
                    why => self.unreadable(why),
                })?;
            } else if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
                self.between = padded(len_bytes);
            } else if kind.is_gnu_sparse() {
                return Err(self.sparse());
            } else {
                let len_bytes = match kind {
                    EntryType::Link => 0,
                    _ => attributes.len_bytes.unwrap_or(len_bytes),
                };
                self.between = padded(len_bytes);
                let modified_s = header.mtime().unwrap_or(0);
                let path = attributes
                    .path
                    .unwrap_or_else(|| header.path_bytes().into_owned());
                // As it stands there: `EntryType` takes a missing type for that of a file.
                let [letter] = header.as_old().linkflag;
                return Ok(Some(Member {
                    kind: Kind::of(letter, &path),
                    letter: char::from(letter),
                    path,
                    len_bytes,
                    modified_ns: attributes
                        .modified_ns
                        .unwrap_or(modified_s.saturating_mul(1_000_000_000)),
                }));
            }
        }
    }

    /// How many files for which `counts` holds the archive in a plain file has, from its headers
    /// alone: as far as they can be read, since who reads the archive reports what cannot. `None`
    /// for a stream.
    pub fn count(
        path: &Path,
        stop: &'s AtomicBool,
        counts: impl Fn(&Member) -> bool,
    ) -> Option<u32> {
        let source = FileSource::open(path).ok()?;
        source.len_bytes?;
        let mut archive = Self::new(source, stop);
        let mut files = 0u32;
        while let Ok(Some(member)) = archive.next_member() {
            archive.between = padded(member.len_bytes);
            let is_file = matches!(member.kind, Kind::File | Kind::Unknown);
            files += u32::from(is_file && counts(&member));
        }
        Some(files)
    }

    /// Behind the last member: whether all of the archive was read, and two blocks of zeroes end
    /// it. GNU's tar ends with 0 whatever comes there; here what was not read is an error.
    ///
    /// # Errors
    /// Nothing marks the end, so members may be missing; or something comes behind it.
    pub fn finish(&mut self) -> Result<bool> {
        if !self.end_is_marked {
            return Err(self.failure(
                "it ends without the blocks of zeroes that end an archive: it was cut, and files may be missing",
                "make it again, or let its producer end first",
            ));
        }
        if self.source.is_device() {
            return Ok(true);
        }
        let end = self.position;
        let mut scratch = [0; 64 * RECORD_BYTES];
        loop {
            let filled = self.source.fill(&mut scratch, self.stop)?;
            let read = scratch.get(..filled).unwrap_or_default();
            if let Some(at) = read.iter().position(|byte| *byte != 0) {
                let at = self.position + at as u64;
                return Err(self.failure(
                    format_args!(
                        "it ends at byte {end}, and what begins at byte {at} is not stored"
                    ),
                    "one archive at a time; tar --concatenate joins archives, cat does not",
                ));
            }
            self.position += filled as u64;
            if filled < scratch.len() {
                return Ok(self.position - end >= RECORD_BYTES as u64);
            }
        }
    }

    /// The data of the member that was read last. It must be read to its end.
    pub fn data(&mut self, member: &Member, name: &str) -> FileSource<'_> {
        self.between = padded(member.len_bytes) - member.len_bytes;
        self.position += member.len_bytes;
        FileSource::member(
            &mut self.source,
            PathBuf::from(name),
            member.len_bytes,
            member.modified_ns,
        )
    }

    fn header(&mut self) -> Result<Option<Header>> {
        let mut header = Header::new_old();
        let filled = self.source.fill(header.as_mut_bytes(), self.stop)?;
        self.position += filled as u64;
        let bytes = header.as_bytes();
        // Two records of zeroes are the end; an archive that was cut between members has none.
        if bytes.iter().take(filled).all(|byte| *byte == 0) {
            self.end_is_marked = filled == RECORD_BYTES;
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
        self.position += len_bytes;
        self.between = padded(len_bytes) - len_bytes;
        Ok(bytes)
    }

    fn skip(&mut self) -> Result<()> {
        if self.between >= 64 * RECORD_BYTES as u64 && self.source.pass(self.between)? {
            self.position += self.between;
            self.between = 0;
        }
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
            self.position += want as u64;
        }
        Ok(())
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> Error {
        self.failure(
            why,
            words![
                "it must be a tar archive that is not compressed: gzip -dc FILE | straightway put ",
                remedy::Device,
                " - ",
                Part::Option(Setting::Tar)
            ],
        )
    }

    fn sparse(&self) -> Error {
        self.failure(SPARSE, "make it without --sparse")
    }

    fn failure(&self, why: impl std::fmt::Display, hint: impl Into<Remedy>) -> Error {
        Error::other(format!("{}: {why}", shown(&self.name()))).hint(hint)
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
