//! The existing content of a device: a volume, or something else that should not be overwritten
//! unasked.
//!
//! Only magic numbers at their offsets are checked, as `blkid` does; nothing is parsed. A format
//! wipes the same offsets, as `wipefs` does: other tools would mount, check or repair a file system
//! whose superblock survives.

use measure::format::distinct;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use volume::layout::{SUPERBLOCK_B, magic};

/// Examined bytes at the device's beginning.
pub const HEAD_BYTES: u64 = (4 << 20) + (64 << 10);
/// Examined bytes at the device's end.
pub const TAIL_BYTES: u64 = 1 << 20;

/// The description of a volume.
pub const VOLUME: &str = "a Straightway volume";

/// Offset, magic number and description, in the order of precedence.
const AT_START: &[(u64, &[u8], &str)] = &[
    (0, &magic::SUPERBLOCK, VOLUME),
    (SUPERBLOCK_B, &magic::SUPERBLOCK, VOLUME),
    (0x438, &[0x53, 0xef], "a file system (ext2, ext3 or ext4)"),
    (0, b"XFSB", "a file system (XFS)"),
    (0x1_0040, b"_BHRfS_M", "a file system (btrfs)"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "a file system (F2FS)"),
    (3, b"NTFS    ", "a file system (NTFS)"),
    (3, b"EXFAT   ", "a file system (exFAT)"),
    (54, b"FAT1", "a file system (FAT)"),
    (82, b"FAT32", "a file system (FAT)"),
    (0, b"hsqs", "a file system (SquashFS)"),
    (0x400, &[0xe2, 0xe1, 0xf5, 0xe0], "a file system (EROFS)"),
    (0x410, &[0x7f, 0x13], "a file system (Minix)"),
    (0x410, &[0x8f, 0x13], "a file system (Minix)"),
    (0x410, &[0x68, 0x24], "a file system (Minix)"),
    (0x410, &[0x78, 0x24], "a file system (Minix)"),
    (0x418, &[0x5a, 0x4d], "a file system (Minix)"),
    (0x406, &[0x34, 0x34], "a file system (NILFS2)"),
    (0x400, b"H+", "a file system (HFS+)"),
    (0x400, b"HX", "a file system (HFS+)"),
    (32, b"NXSB", "a file system (APFS)"),
    (0x8000, b"JFS1", "a file system (JFS)"),
    (0x1_0034, b"ReIsEr", "a file system (ReiserFS)"),
    (32_769, b"CD001", "a file system (ISO 9660)"),
    (32_769, b"BEA01", "a file system (UDF)"),
    (32_769, b"NSR0", "a file system (UDF)"),
    (8, b"littlefs", "a file system (littlefs)"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0x18, b"LVM2 001", "a part of a volume group (LVM)"),
    (0x218, b"LVM2 001", "a part of a volume group (LVM)"),
    (0x418, b"LVM2 001", "a part of a volume group (LVM)"),
    (0x618, b"LVM2 001", "a part of a volume group (LVM)"),
    (0, &MD, "a part of a RAID (md)"),
    (4096, &MD, "a part of a RAID (md)"),
    (4120, &BCACHE, "a cache or a cached device (bcache)"),
    (4096 - 10, b"SWAPSPACE2", "swap space"),
    (8192 - 10, b"SWAPSPACE2", "swap space"),
    (16_384 - 10, b"SWAPSPACE2", "swap space"),
    (32_768 - 10, b"SWAPSPACE2", "swap space"),
    (65_536 - 10, b"SWAPSPACE2", "swap space"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
];
const MD: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
const ARRAY: [u8; 8] = *b"STWARRAY";
const BCACHE: [u8; 8] = [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca];

/// A LUKS2 header's second copy is after the first, whose size is one of these.
const LUKS2_SECONDS: [u64; 9] = [
    0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000,
];

/// A ZFS label: its uberblocks begin in its middle, one each KiB.
const ZFS_LABEL_BYTES: u64 = 256 << 10;
const ZFS_MAGICS: [[u8; 8]; 2] = [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()];

/// A magic number that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// First byte.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// What it belongs to.
    pub what: &'static str,
}

/// The beginning and the end of a device.
#[derive(Debug, Default)]
pub struct Ends {
    /// Size of the device.
    pub size_bytes: u64,
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
    pub fn read(path: &Path) -> std::io::Result<Self> {
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
            head: piece(0)?,
            tail: match size_bytes.checked_sub(TAIL_BYTES) {
                None | Some(0) => piece(0)?,
                Some(at) => piece(at)?,
            },
        })
    }

    fn bytes(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let in_head = piece(&self.head, offset, len);
        in_head.or_else(|| {
            let tail_at = self.size_bytes.checked_sub(self.tail.len() as u64)?;
            piece(&self.tail, offset.checked_sub(tail_at)?, len)
        })
    }

    /// Every signature, in the order of precedence.
    pub fn signatures(&self) -> Vec<Signature> {
        let mut found: Vec<Signature> = Vec::new();
        let mut look = |offset: u64, magic: &[u8], what| {
            let is_known = found.iter().any(|known| known.offset_bytes == offset);
            if !is_known && self.bytes(offset, magic.len()) == Some(magic) {
                found.push(Signature {
                    offset_bytes: offset,
                    length_bytes: magic.len() as u64,
                    what,
                });
            }
        };
        for (offset, magic, what) in AT_START {
            look(*offset, magic, what);
        }
        for offset in LUKS2_SECONDS {
            look(offset, b"SKUL\xba\xbe", "an encrypted volume (LUKS)");
        }
        let size = self.size_bytes;
        let before_end = |bytes: u64| size.checked_sub(bytes);
        let at_end = [
            (before_end(512), &b"EFI PART"[..], "a partition table (GPT)"),
            (before_end(4096), b"EFI PART", "a partition table (GPT)"),
            // md 0.90: the last whole 64 KiB; 1.0: the last 4 KiB but one, in sectors.
            (
                (size & !0xffff).checked_sub(0x1_0000),
                &MD,
                "a part of a RAID (md)",
            ),
            (
                before_end(8192).map(|at| at & !0xfff),
                &MD,
                "a part of a RAID (md)",
            ),
            (
                (size & !0xfff).checked_sub(4096 - 6),
                &[0x34, 0x34],
                "a file system (NILFS2)",
            ),
            (before_end(8192), &ARRAY, "a part of an array (straightway)"),
            (before_end(4096), &ARRAY, "a part of an array (straightway)"),
            (
                before_end(1024),
                b"Intel Raid ISM Cfg Sig. ",
                "a part of a RAID (Intel)",
            ),
            (
                before_end(512),
                &[0xde, 0x11, 0xde, 0x11],
                "a part of a RAID (DDF)",
            ),
        ];
        for (offset, magic, what) in at_end {
            if let Some(offset) = offset {
                look(offset, magic, what);
            }
        }
        let end = size / ZFS_LABEL_BYTES * ZFS_LABEL_BYTES;
        let labels = [
            Some(0),
            Some(ZFS_LABEL_BYTES),
            end.checked_sub(2 * ZFS_LABEL_BYTES),
            end.checked_sub(ZFS_LABEL_BYTES),
        ];
        for label in labels.into_iter().flatten() {
            for offset in (label + ZFS_LABEL_BYTES / 2..label + ZFS_LABEL_BYTES).step_by(1024) {
                for magic in ZFS_MAGICS {
                    look(offset, &magic, "a part of a pool (ZFS)");
                }
            }
        }
        found
    }
}

fn piece(bytes: &[u8], at: u64, len: usize) -> Option<&[u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get(at..at.checked_add(len)?)
}

/// What the signatures belong to, without duplicates.
pub fn names(signatures: &[Signature]) -> Vec<&'static str> {
    distinct(signatures.iter().map(|signature| signature.what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(bytes: &[u8]) -> Ends {
        let (head, tail) = (HEAD_BYTES as usize, TAIL_BYTES as usize);
        Ends {
            size_bytes: bytes.len() as u64,
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
            let read = Ends::read(&path).unwrap();
            assert_eq!(read.size_bytes, len as u64);
            assert_eq!(names(&read.signatures()), ["a partition table (GPT)"]);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Ends::read(&path).is_err());
    }

    #[test]
    fn each_signature_is_found_at_its_place_alone() {
        let mut bytes = vec![0; 8 << 20];
        assert_eq!(ends(&bytes).signatures(), []);
        let size = bytes.len() as u64;
        let zfs = &ZFS_MAGICS[0][..];
        let mut cases = AT_START.to_vec();
        cases.push((0x40_0000, b"SKUL\xba\xbe", "an encrypted volume (LUKS)"));
        cases.push((size - 512, b"EFI PART", "a partition table (GPT)"));
        cases.push((size - 8192, &MD, "a part of a RAID (md)"));
        cases.push((size - 65_536, &MD, "a part of a RAID (md)"));
        cases.push((
            size - (256 << 10) + (130 << 10),
            zfs,
            "a part of a pool (ZFS)",
        ));
        for (offset, magic, what) in cases {
            let (at, end) = (offset as usize, offset as usize + magic.len());
            bytes[at..end].copy_from_slice(magic);
            let found = ends(&bytes).signatures();
            assert_eq!(names(&found), [what], "{offset:#x}");
            assert_eq!(found[0].offset_bytes, offset);
            // At other offsets it means nothing, and a short device does not have the offset.
            assert_eq!(ends(&bytes[..end - 1]).signatures(), [], "{what}");
            bytes[at..end].fill(0);
            bytes[at + 1..end + 1].copy_from_slice(magic);
            assert_eq!(ends(&bytes).signatures(), [], "{what}");
            bytes[at + 1..end + 1].fill(0);
        }
    }
}
