// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The existing content of a device: a volume, or something else that should not be overwritten
//! unasked.
//!
//! Magic numbers at their offsets, of the table in `magics`, and what libblkid finds in the same
//! bytes, where this machine has it: it compares more than a number, and newer versions know new
//! owners. A format wipes these offsets, as `wipefs` does: other tools would mount, check or repair
//! a file system whose superblock survives.

use super::magics::{self, AT_START};
use super::rules;
use linux::blkid;
use rustix::fs::{MemfdFlags, memfd_create};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use units::distinct;
use volume::layout::{SUPERBLOCK_B, TABLES, magic};

/// Examined bytes at the device's beginning.
pub const HEAD_BYTES: u64 = (4 << 20) + (64 << 10);
/// Examined bytes at the device's end.
pub const TAIL_BYTES: u64 = 2 << 20;

/// The description of a volume.
pub const VOLUME: &str = "a Straightway volume";
/// The description of a volume on a device that another owner has taken.
pub const REST: &str = "what is left of a Straightway volume";

/// libblkid's name for a volume, if it learns to know one; see `docs/probes`.
const VOLUME_KIND: &str = "straightway";

/// A LUKS2 header's second copy is after the first, whose size is one of these.
const LUKS2_SECONDS: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

/// A ZFS label: its uberblocks begin in its middle, one each KiB.
const ZFS_LABEL_BYTES: u64 = 256 << 10;
const ZFS_MAGICS: [[u8; 8]; 2] = [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()];

/// A magic number that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// First byte.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// What it belongs to.
    pub what: Cow<'static, str>,
}

impl Signature {
    /// A magic number of this command's own table.
    pub(super) fn new(offset_bytes: u64, length_bytes: u64, what: &'static str) -> Self {
        Self {
            offset_bytes,
            length_bytes,
            what: what.into(),
        }
    }

    /// Whether it is the magic number of a volume of this command.
    pub fn is_a_volume(&self) -> bool {
        self.what == VOLUME || self.what == REST
    }
}

/// What found signatures: `libblkid 2.38.1 and a table`, or `a table`.
pub fn judge() -> String {
    match blkid::version() {
        Some(version) => format!("libblkid {version} and a table"),
        None => "a table".to_owned(),
    }
}

/// The beginning and the end of a device.
#[derive(Debug, Default)]
pub struct Ends {
    /// Size of the device.
    pub size_bytes: u64,
    /// Its logical block, where a partition table counts in blocks; 512 if it is not known.
    pub block_bytes: u32,
    /// From the first byte on, [`HEAD_BYTES`] or all.
    pub head: Vec<u8>,
    /// The last bytes, [`TAIL_BYTES`] or all.
    pub tail: Vec<u8>,
}

impl Ends {
    /// Reads those of a block device or a file, through the page cache.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn read(path: &Path, block_bytes: u32) -> std::io::Result<Self> {
        let mut file = File::open(path)?;
        let size_bytes = file.seek(SeekFrom::End(0))?;
        let mut piece = |at: u64| {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(at))?;
            let most = if at == 0 { HEAD_BYTES } else { TAIL_BYTES };
            file.by_ref().take(most).read_to_end(&mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        };
        Ok(Self {
            size_bytes,
            block_bytes,
            head: piece(0)?,
            tail: match size_bytes.checked_sub(TAIL_BYTES) {
                None | Some(0) => piece(0)?,
                Some(at) => piece(at)?,
            },
        })
    }

    /// Bytes of one of the ends, if it has all of them.
    pub(super) fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let in_head = piece(&self.head, offset, len);
        in_head.or_else(|| {
            let tail_at = self.size_bytes.checked_sub(self.tail.len() as u64)?;
            piece(&self.tail, offset.checked_sub(tail_at)?, len)
        })
    }

    /// The same of a known length.
    pub(super) fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.bytes(offset, N)?.try_into().ok()
    }

    /// Every signature, in the order of precedence.
    pub fn signatures(&self) -> Vec<Signature> {
        let mut found = self.in_the_table();
        for mark in self.image().iter().flat_map(|image| {
            let marks = blkid::marks(image, self.block_bytes);
            marks.unwrap_or_default()
        }) {
            if mark.kind == VOLUME_KIND {
                continue;
            }
            let end = mark.offset_bytes + mark.length_bytes;
            let known = found.iter_mut().find(|known| {
                known.offset_bytes < end
                    && mark.offset_bytes < known.offset_bytes + known.length_bytes
            });
            match known {
                Some(known) => {
                    let start = known.offset_bytes.min(mark.offset_bytes);
                    let end = end.max(known.offset_bytes + known.length_bytes);
                    (known.offset_bytes, known.length_bytes) = (start, end - start);
                }
                None => found.push(Signature {
                    offset_bytes: mark.offset_bytes,
                    length_bytes: mark.length_bytes,
                    what: described(&mark),
                }),
            }
        }
        let is_taken = found
            .iter()
            .any(|one| !one.is_a_volume() && one.offset_bytes < TABLES);
        if is_taken {
            let volumes = found.iter_mut().filter(|one| one.is_a_volume());
            volumes.for_each(|one| one.what = REST.into());
        }
        found
    }

    /// The device with nothing but its two ends, as a file in memory: so libblkid judges the bytes
    /// that were read by this path, also where the kernel has no node for the device.
    fn image(&self) -> Option<File> {
        let file = File::from(memfd_create("straightway-ends", MemfdFlags::CLOEXEC).ok()?);
        file.set_len(self.size_bytes).ok()?;
        file.write_all_at(&self.head, 0).ok()?;
        let tail_at = self.size_bytes.checked_sub(self.tail.len() as u64)?;
        file.write_all_at(&self.tail, tail_at).ok()?;
        Some(file)
    }

    /// Those of the table.
    pub fn in_the_table(&self) -> Vec<Signature> {
        let mut found: Vec<Signature> = Vec::new();
        let mut look = |offset: u64, magic: &[u8], what: &'static str| {
            let is_known = found.iter().any(|known| known.offset_bytes == offset);
            if !is_known && self.bytes(offset, magic.len()) == Some(magic) {
                found.push(Signature::new(offset, magic.len() as u64, what));
            }
        };
        for offset in [0, SUPERBLOCK_B] {
            look(offset, &magic::SUPERBLOCK, VOLUME);
        }
        // Two bytes each, which mean something only beside others.
        if self.bytes(512, 2) == Some(b"PM") {
            look(0, b"ER", magics::MAC);
            look(512, b"PM", magics::MAC);
        }
        if self.is_a_sun_label() {
            look(508, &[0xda, 0xbe], magics::SUN);
        }
        for row in AT_START {
            look(row.offset_bytes, row.magic, row.what);
        }
        for (offset, magic, row) in magics::in_lists() {
            look(offset, &magic, row.what);
        }
        for offset in LUKS2_SECONDS {
            look(offset, b"SKUL\xba\xbe", magics::LUKS);
        }
        for (offset, row) in magics::at_end(self.size_bytes) {
            look(offset, row.magic, row.what);
        }
        let end = self.size_bytes / ZFS_LABEL_BYTES * ZFS_LABEL_BYTES;
        let labels = [
            Some(0),
            Some(ZFS_LABEL_BYTES),
            end.checked_sub(2 * ZFS_LABEL_BYTES),
            end.checked_sub(ZFS_LABEL_BYTES),
        ];
        for label in labels.into_iter().flatten() {
            for offset in (label + ZFS_LABEL_BYTES / 2..label + ZFS_LABEL_BYTES).step_by(1024) {
                for magic in ZFS_MAGICS {
                    look(offset, &magic, magics::ZFS);
                }
            }
        }
        for one in rules::at_start(self) {
            if found
                .iter()
                .all(|known| known.offset_bytes != one.offset_bytes)
            {
                found.push(one);
            }
        }
        found
    }

    /// Whether the first sector's 256 words, of which the last makes it so, are zero together.
    fn is_a_sun_label(&self) -> bool {
        let words = self.bytes(0, 512).unwrap_or_default().chunks_exact(2);
        words.fold(0, |sum, word| sum ^ u16::from_be_bytes([word[0], word[1]])) == 0
    }
}

/// A mark of libblkid in the words of the table, or with its own name.
pub(super) fn described(mark: &blkid::Mark) -> Cow<'static, str> {
    let kind = &mark.kind;
    match (magics::name_of(kind), mark.usage.as_deref()) {
        (Some(name), _) => name.into(),
        (None, Some("filesystem")) => format!("a file system ({kind})").into(),
        (None, Some("raid")) => format!("a part of a RAID or a volume group ({kind})").into(),
        (None, Some("crypto")) => format!("an encrypted volume ({kind})").into(),
        (None, Some(_)) => format!("another owner's data ({kind})").into(),
        (None, None) => format!("a partition table ({kind})").into(),
    }
}

fn piece(bytes: &[u8], at: u64, len: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(len)?)
}

/// What the signatures belong to, without duplicates.
pub fn names(signatures: &[Signature]) -> Vec<&str> {
    distinct(signatures.iter().map(|signature| &*signature.what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(bytes: &[u8]) -> Ends {
        let (head, tail) = (HEAD_BYTES as usize, TAIL_BYTES as usize);
        Ends {
            size_bytes: bytes.len() as u64,
            block_bytes: 512,
            head: bytes[..bytes.len().min(head)].to_vec(),
            tail: bytes[bytes.len().saturating_sub(tail)..].to_vec(),
        }
    }

    #[test]
    fn the_ends_of_a_file_are_read() {
        let path = std::env::temp_dir().join(format!("straightway-ends-{}", std::process::id()));
        for (len, end) in [(2000, "EFI PART"), (8 << 20, "EFI PART")] {
            let mut bytes = vec![0; len];
            bytes[len - 512..len - 504].copy_from_slice(end.as_bytes());
            std::fs::write(&path, &bytes).unwrap();
            let read = Ends::read(&path, 512).unwrap();
            assert_eq!(read.size_bytes, len as u64);
            assert_eq!(names(&read.signatures()), ["a partition table (GPT)"]);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Ends::read(&path, 512).is_err());
    }

    /// Offset, magic number and name of everything that a device of this size can have.
    fn all(size: u64) -> Vec<(u64, Vec<u8>, &'static str)> {
        let start = AT_START
            .iter()
            .map(|row| (row.offset_bytes, row.magic.to_vec(), row.what));
        let lists = magics::in_lists().into_iter();
        let end = magics::at_end(size).into_iter();
        let mut all: Vec<_> = start
            .chain(lists.map(|(at, magic, row)| (at, magic, row.what)))
            .chain(end.map(|(at, row)| (at, row.magic.to_vec(), row.what)))
            .collect();
        all.push((0, magic::SUPERBLOCK.to_vec(), VOLUME));
        all.push((SUPERBLOCK_B, magic::SUPERBLOCK.to_vec(), VOLUME));
        all.push((0x40_0000, b"SKUL\xba\xbe".to_vec(), magics::LUKS));
        all.push((
            size - (256 << 10) + (130 << 10),
            ZFS_MAGICS[0].to_vec(),
            magics::ZFS,
        ));
        all
    }

    #[test]
    fn each_signature_is_found_at_its_place_alone() {
        let mut bytes = vec![0; 8 << 20];
        assert_eq!(ends(&bytes).in_the_table(), []);
        for (offset, magic, what) in all(bytes.len() as u64) {
            let (at, end) = (offset as usize, offset as usize + magic.len());
            bytes[at..end].copy_from_slice(&magic);
            let found = ends(&bytes).in_the_table();
            assert_eq!(names(&found), [what], "{offset:#x}");
            assert_eq!(found[0].offset_bytes, offset);
            // At other offsets it means nothing, and a short device does not have the offset.
            assert_eq!(ends(&bytes[..end - 1]).in_the_table(), [], "{what}");
            bytes[at..end].fill(0);
            if end < bytes.len() {
                bytes[at + 1..end + 1].copy_from_slice(&magic);
                assert_eq!(ends(&bytes).in_the_table(), [], "{what}");
                bytes[at + 1..end + 1].fill(0);
            }
        }
    }

    #[test]
    fn labels_of_two_bytes_need_more_than_these() {
        let mut bytes = vec![0; 8 << 20];
        bytes[..2].copy_from_slice(b"ER");
        assert_eq!(ends(&bytes).in_the_table(), []);
        bytes[512..514].copy_from_slice(b"PM");
        assert_eq!(names(&ends(&bytes).in_the_table()), [magics::MAC]);
        bytes[..514].fill(0);
        bytes[508..510].copy_from_slice(&[0xda, 0xbe]);
        assert_eq!(ends(&bytes).in_the_table(), []);
        bytes[510..512].copy_from_slice(&[0xda, 0xbe]);
        assert_eq!(names(&ends(&bytes).in_the_table()), [magics::SUN]);
    }

    #[test]
    fn a_volume_beside_another_owner_is_the_rest_of_one() {
        let mut bytes = vec![0; 8 << 20];
        bytes[SUPERBLOCK_B as usize..][..8].copy_from_slice(&magic::SUPERBLOCK);
        assert_eq!(names(&ends(&bytes).signatures()), [VOLUME]);
        bytes[0x218..0x220].copy_from_slice(b"LVM2 001");
        let lvm = "a part of a volume group (LVM)";
        assert_eq!(names(&ends(&bytes).signatures()), [REST, lvm]);
    }

    // partner: libblkid | reader
    #[test]
    fn the_library_adds_what_the_table_lacks() {
        if blkid::version().is_none() {
            println!("SKIPPED: this machine has no libblkid.so.1");
            return;
        }
        // VIA: the table has none, because two bytes and a checksum are all that it is.
        let mut bytes = vec![0; 8 << 20];
        let sector = bytes.len() - 512;
        bytes[sector..sector + 2].copy_from_slice(&[0x55, 0xaa]);
        let sum = bytes[sector..sector + 50]
            .iter()
            .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        bytes[sector + 50] = sum;
        assert_eq!(ends(&bytes).in_the_table(), []);
        let found = ends(&bytes).signatures();
        let name = "a part of a RAID or a volume group (via_raid_member)";
        assert_eq!(names(&found), [name]);
        assert_eq!(
            (found[0].offset_bytes, found[0].length_bytes),
            (sector as u64, 2)
        );
    }
}
