//! What stands on a device already: a volume, or something else that is worth a question.
//!
//! Only magic numbers at their places are looked at, as `blkid` does; nothing is parsed.

use volume::layout::{SUPERBLOCK_B, magic};

/// How much of the device's beginning is looked at.
pub const LOOK_BYTES: u64 = 256 << 10;

/// Offset, magic number, and what has it.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, &magic::SUPERBLOCK, "a Straightway volume"),
    (
        SUPERBLOCK_B as usize,
        &magic::SUPERBLOCK,
        "a Straightway volume",
    ),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (0x438, &[0x53, 0xef], "a file system (ext2, ext3 or ext4)"),
    (0, b"XFSB", "a file system (XFS)"),
    (0x1_0040, b"_BHRfS_M", "a file system (btrfs)"),
    (0x400, &[0x10, 0x20, 0xf5, 0xf2], "a file system (F2FS)"),
    (3, b"NTFS    ", "a file system (NTFS)"),
    (3, b"EXFAT   ", "a file system (exFAT)"),
    (54, b"FAT1", "a file system (FAT)"),
    (82, b"FAT32", "a file system (FAT)"),
    (0, b"hsqs", "a file system (SquashFS)"),
    (32_769, b"CD001", "a file system (ISO 9660)"),
    (8, b"littlefs", "a file system (littlefs)"),
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (512, b"LABELONE", "a part of a volume group (LVM)"),
    (0, &[0xfc, 0x4e, 0x2b, 0xa9], "a part of a RAID (md)"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "a part of a RAID (md)"),
    (4086, b"SWAPSPACE2", "swap space"),
    (510, &[0x55, 0xaa], "a partition table or a boot sector"),
];

/// What the first bytes of a device say stands on it.
pub fn on(beginning: &[u8]) -> Option<&'static str> {
    let found = SIGNATURES.iter().find(|(offset, magic, _)| {
        let end = offset + magic.len();
        beginning.get(*offset..end) == Some(*magic)
    });
    found.map(|(_, _, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signature_is_found_at_its_place_alone() {
        let mut bytes = vec![0; LOOK_BYTES as usize];
        assert_eq!(on(&bytes), None);
        for (offset, magic, what) in SIGNATURES {
            let end = offset + magic.len();
            bytes[*offset..end].copy_from_slice(magic);
            assert_eq!(on(&bytes), Some(*what));
            // Elsewhere it means nothing, and a short device has no place for it.
            assert_eq!(on(&bytes[1..]), None, "{what}");
            assert_eq!(on(&bytes[..end - 1]), None, "{what}");
            bytes[*offset..end].fill(0);
        }
    }
}
