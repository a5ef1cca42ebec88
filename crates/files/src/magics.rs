// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The magic numbers of other owners of a device, at their offsets: file systems, partition tables,
//! swap space, encrypted volumes, and parts of RAIDs and volume groups.
//!
//! What libblkid 2.38 knows, except for a few RAIDs of mainboards whose numbers mean nothing
//! without a checksum (VIA, Silicon Image, JMicron) and systems that are found in many places
//! (System V); and what it does not know (littlefs, Amiga's table, the second headers of LUKS2,
//! ZFS's uberblocks one by one, arrays of this command). What no number at its place decides is in
//! [`rules`](super::rules).

/// A magic number at an offset.
#[derive(Clone, Copy, Debug)]
pub struct Magic {
    /// Its first byte.
    pub offset_bytes: u64,
    /// The number.
    pub magic: &'static [u8],
    /// What it belongs to.
    pub what: &'static str,
    /// libblkid's names for that, if it has one.
    pub kinds: &'static [&'static str],
}

const fn row(
    offset_bytes: u64,
    magic: &'static [u8],
    what: &'static str,
    kinds: &'static [&'static str],
) -> Magic {
    Magic {
        offset_bytes,
        magic,
        what,
        kinds,
    }
}

const EXT: &str = "a file system (ext2, ext3 or ext4)";
const EXTS: &[&str] = &["ext2", "ext3", "ext4", "ext4dev", "jbd"];
const FAT: &str = "a file system (FAT)";
const MINIX: &str = "a file system (Minix)";
const REISERFS: &str = "a file system (ReiserFS)";
const UFS: &str = "a file system (UFS)";
const OCFS2: &str = "a file system (OCFS2)";
const VXFS: &str = "a file system (VxFS)";
const BEFS: &str = "a file system (BeFS)";
const UDF: &str = "a file system (UDF)";
const ISO: &str = "a file system (ISO 9660)";
const CRAMFS: &str = "a file system (cramfs)";
const LVM: &str = "a part of a volume group (LVM)";
const LVMS: &[&str] = &["LVM2_member"];
const LVM1S: &[&str] = &["LVM1_member"];
pub const MAC: &str = "a partition table (Mac)";
pub const SUN: &str = "a partition table (Sun)";
pub const MD: &str = "a part of a RAID (md)";
pub const MDS: &[&str] = &["linux_raid_member"];
pub const MD_MAGIC: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];
pub const ZFS: &str = "a part of a pool (ZFS)";
pub const LUKS: &str = "an encrypted volume (LUKS)";
pub const GPT: &str = "a partition table (GPT)";
pub const GPTS: &[&str] = &["gpt", "PMBR"];
pub const NILFS2: &str = "a file system (NILFS2)";
pub const JFFS2: &str = "a file system (jffs2)";
pub const BSD: &str = "a partition table (BSD)";
pub const ATARI: &str = "a partition table (Atari)";
pub const DRBD: &str = "a part of a mirror (DRBD)";
pub const ARRAY: &str = "a part of an array (straightway)";
const AMIGA: &str = "a partition table (Amiga)";
const SWAP: &str = "swap space";
const SWAPS: &[&str] = &["swap", "swsuspend"];
const STRATIS: &str = "a part of a pool (Stratis)";
const STRATIS_MAGIC: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";

/// Those at fixed offsets from the beginning, in the order of precedence.
pub const AT_START: &[Magic] = &[
    row(0x438, &[0x53, 0xef], EXT, EXTS),
    row(0, b"XFSB", "a file system (XFS)", &["xfs"]),
    row(
        0,
        &[0xfe, 0xed, 0xba, 0xbe],
        "a journal (XFS)",
        &["xfs_external_log"],
    ),
    row(0x1_0040, b"_BHRfS_M", "a file system (btrfs)", &["btrfs"]),
    row(
        0x400,
        &[0x10, 0x20, 0xf5, 0xf2],
        "a file system (F2FS)",
        &["f2fs"],
    ),
    row(3, b"NTFS    ", "a file system (NTFS)", &["ntfs"]),
    row(3, b"EXFAT   ", "a file system (exFAT)", &["exfat"]),
    row(3, b"ReFS\0", "a file system (ReFS)", &["ReFS"]),
    row(54, b"FAT1", FAT, &["vfat"]),
    row(54, b"MSDOS", FAT, &["vfat"]),
    row(82, b"FAT32", FAT, &["vfat"]),
    row(82, b"MSWIN", FAT, &["vfat"]),
    row(
        0,
        b"hsqs",
        "a file system (SquashFS)",
        &["squashfs", "squashfs3"],
    ),
    row(
        0,
        b"sqsh",
        "a file system (SquashFS)",
        &["squashfs", "squashfs3"],
    ),
    row(
        0x400,
        &[0xe2, 0xe1, 0xf5, 0xe0],
        "a file system (EROFS)",
        &["erofs"],
    ),
    row(0x410, &[0x7f, 0x13], MINIX, &["minix"]),
    row(0x410, &[0x8f, 0x13], MINIX, &["minix"]),
    row(0x410, &[0x68, 0x24], MINIX, &["minix"]),
    row(0x410, &[0x78, 0x24], MINIX, &["minix"]),
    row(0x418, &[0x5a, 0x4d], MINIX, &["minix"]),
    row(0x406, &[0x34, 0x34], NILFS2, &["nilfs2"]),
    row(0x400, b"H+", "a file system (HFS+)", &["hfsplus"]),
    row(0x400, b"HX", "a file system (HFS+)", &["hfsplus"]),
    row(0x400, b"BD", "a file system (HFS)", &["hfs", "hfsplus"]),
    row(0x400, &[0xf5, 0xfc, 0x01, 0xa5], VXFS, &["vxfs"]),
    row(0x2000, &[0xa5, 0x01, 0xfc, 0xf5], VXFS, &["vxfs"]),
    row(32, b"NXSB", "a file system (APFS)", &["apfs"]),
    row(0x8000, b"JFS1", "a file system (JFS)", &["jfs"]),
    row(0x1_0034, b"ReIsEr", REISERFS, &["reiserfs"]),
    row(0x2034, b"ReIsEr", REISERFS, &["reiserfs"]),
    row(
        0x1_0000,
        b"ReIsEr4",
        "a file system (Reiser4)",
        &["reiser4"],
    ),
    row(
        0x1_0000,
        &[0x01, 0x16, 0x19, 0x70],
        "a file system (GFS2)",
        &["gfs2", "gfs"],
    ),
    row(0x400, b"OCFSV2", OCFS2, &["ocfs2"]),
    row(0x800, b"OCFSV2", OCFS2, &["ocfs2"]),
    row(0x1000, b"OCFSV2", OCFS2, &["ocfs2"]),
    row(0x2000, b"OCFSV2", OCFS2, &["ocfs2"]),
    row(8, b"OracleCFS", "a file system (OCFS)", &["ocfs"]),
    row(32, b"ORCLDISK", "a disk of Oracle ASM", &["oracleasm"]),
    row(0, &[0x45, 0x3d, 0xcd, 0x28], CRAMFS, &["cramfs"]),
    row(0, &[0x28, 0xcd, 0x3d, 0x45], CRAMFS, &["cramfs"]),
    row(0, b"-rom1fs-", "a file system (romfs)", &["romfs"]),
    row(
        0,
        &[0xce, 0xfa, 0xad, 0x1b],
        "a file system (BFS)",
        &["bfs"],
    ),
    row(0x220, b"BFS1", BEFS, &["befs"]),
    row(0x220, b"1SFB", BEFS, &["befs"]),
    row(0x20, b"BFS1", BEFS, &["befs"]),
    row(0x20, b"1SFB", BEFS, &["befs"]),
    row(
        0x2000,
        &[0x49, 0xe8, 0x95, 0xf9],
        "a file system (HPFS)",
        &["hpfs"],
    ),
    row(0, b"SFOZ", "a file system (zonefs)", &["zonefs"]),
    row(0x1000, b"SPB5", "a file system (NSS)", &["nss"]),
    row(
        0,
        &[0x31, 0x18, 0x10, 0x06],
        "a file system (UBIFS)",
        &["ubifs"],
    ),
    row(0, b"UBI#", "volumes of raw flash (UBI)", &["ubi"]),
    row(
        0x20_0000,
        &[0x5e, 0xf1, 0xab, 0x2f],
        "a file system (VMFS)",
        &["VMFS"],
    ),
    row(
        0x10_0000,
        &[0x0d, 0xd0, 0x01, 0xc0],
        "a part of a volume (VMFS)",
        &["VMFS_volume_member"],
    ),
    row(32_769, b"BEA01", UDF, &["udf"]),
    row(32_769, b"NSR0", UDF, &["udf"]),
    row(32_769, b"CD001", ISO, &["iso9660"]),
    row(32_777, b"CDROM", ISO, &["iso9660"]),
    row(8, b"littlefs", "a file system (littlefs)", &[]),
    row(0, b"LUKS\xba\xbe", LUKS, &["crypto_LUKS"]),
    row(
        3,
        b"-FVE-FS-",
        "an encrypted volume (BitLocker)",
        &["BitLocker"],
    ),
    row(
        0,
        b"verity\0\0",
        "hashes of a volume (dm-verity)",
        &["DM_verity_hash"],
    ),
    row(
        0,
        b"integrt\0",
        "a volume with checksums (dm-integrity)",
        &["DM_integrity"],
    ),
    row(
        0,
        b"SnAp",
        "a snapshot (device mapper)",
        &["DM_snapshot_cow"],
    ),
    row(0x18, b"LVM2 001", LVM, LVMS),
    row(0x218, b"LVM2 001", LVM, LVMS),
    row(0x418, b"LVM2 001", LVM, LVMS),
    row(0x618, b"LVM2 001", LVM, LVMS),
    row(0, b"HM\x01\0", LVM, LVM1S),
    row(0, b"HM\x02\0", LVM, LVM1S),
    row(0, MD_MAGIC, MD, MDS),
    row(4096, MD_MAGIC, MD, MDS),
    row(
        4640,
        &[0xf0, 0x16, 0x78, 0x5a],
        "a part of a RAID (HighPoint)",
        &["hpt37x_raid_member"],
    ),
    row(
        4640,
        &[0xfd, 0x16, 0x78, 0x5a],
        "a part of a RAID (HighPoint)",
        &["hpt37x_raid_member"],
    ),
    row(
        4120,
        &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca],
        "a cache or a cached device (bcache)",
        &["bcache"],
    ),
    row(516, STRATIS_MAGIC, STRATIS, &["stratis"]),
    row(4612, STRATIS_MAGIC, STRATIS, &["stratis"]),
    row(
        0,
        b"dmvdo001",
        "a volume without duplicates (VDO)",
        &["vdo"],
    ),
    row(
        0,
        b"bluestore block device",
        "an object store (Ceph)",
        &["ceph_bluestore"],
    ),
    row(
        0,
        b"$DRBDmgr=q",
        "volumes of a cluster (DRBD)",
        &["drbdmanage_control_volume"],
    ),
    row(0, b"DRBDdlh*", "a log (DRBD)", &["drbdproxy_datalog"]),
    row(512, b"EFI PART", GPT, GPTS),
    row(4096, b"EFI PART", GPT, GPTS),
    row(
        0,
        &[0x0b, 0xe5, 0xa9, 0x41],
        "a partition table (SGI)",
        &["sgi"],
    ),
    row(512, &[0x57, 0x45, 0x56, 0x82], BSD, &["bsd"]),
    row(64, &[0x57, 0x45, 0x56, 0x82], BSD, &["bsd"]),
    row(
        510,
        &[0x55, 0xaa],
        "a partition table or a boot sector",
        &["dos"],
    ),
];

/// Swap space, and what a machine that sleeps leaves there: ten bytes before the end of a page.
pub const SWAP_PAGES: [u64; 5] = [4096, 8192, 16_384, 32_768, 65_536];
/// Their magic numbers.
pub const SWAP_MAGICS: &[&[u8]] = &[
    b"SWAPSPACE2",
    b"SWAP-SPACE",
    b"S1SUSPEND\0",
    b"S2SUSPEND\0",
    b"ULSUSPEND\0",
    b"LINHIB0001",
    &[0xed, 0xc3, 0x02, 0xe9, 0x98, 0x56, 0xe5, 0x0c],
];

/// The superblocks of UFS, and the offset of the magic number in one.
pub const UFS_SUPERBLOCKS: [u64; 4] = [0, 8 << 10, 64 << 10, 256 << 10];
/// See [`UFS_SUPERBLOCKS`].
pub const UFS_MAGIC_AT: u64 = 1372;
/// UFS1, UFS2, and two of other systems.
pub const UFS_MAGICS: [u32; 4] = [0x0001_1954, 0x1954_0119, 0x0009_5014, 0x0061_2195];

/// Those of UFS, swap space, UDF and Amiga, whose places follow from a list.
pub fn in_lists() -> Vec<(u64, Vec<u8>, Magic)> {
    let mut all = Vec::new();
    for page in SWAP_PAGES {
        for magic in SWAP_MAGICS {
            all.push((page - 10, magic.to_vec(), row(0, &[], SWAP, SWAPS)));
        }
    }
    for superblock in UFS_SUPERBLOCKS {
        for magic in UFS_MAGICS {
            for bytes in [magic.to_le_bytes(), magic.to_be_bytes()] {
                let place = superblock + UFS_MAGIC_AT;
                all.push((place, bytes.to_vec(), row(0, &[], UFS, &["ufs"])));
            }
        }
    }
    // ECMA-167 part 2, 8.3: the descriptors follow one another in sectors, of 2 KiB or the block.
    // On a bridge the first ones are those of ISO 9660.
    for sector in [2048, 4096] {
        for index in 1..16 {
            let place = 32_769 + index * sector;
            all.push((place, b"NSR0".to_vec(), row(0, &[], UDF, &["udf"])));
        }
    }
    // linux/affs_hardblocks.h, `RDB_ALLOCATION_LIMIT`: in one of the first 16 blocks.
    for block in [512, 4096] {
        for index in 0..16 {
            all.push((index * block, b"RDSK".to_vec(), row(0, &[], AMIGA, &[])));
        }
    }
    all
}

/// Those at offsets from the end of a device of `size_bytes`.
pub fn at_end(size_bytes: u64) -> Vec<(u64, Magic)> {
    let before_end = |bytes: u64| size_bytes.checked_sub(bytes);
    let aligned = |align: u64, bytes: u64| (size_bytes & !(align - 1)).checked_sub(bytes);
    let mut all = vec![
        (before_end(512), row(0, b"EFI PART", GPT, GPTS)),
        (before_end(4096), row(0, b"EFI PART", GPT, GPTS)),
        // md 0.90: the last whole 64 KiB; 1.0: the last 4 KiB but one, in sectors.
        (aligned(0x1_0000, 0x1_0000), row(0, MD_MAGIC, MD, MDS)),
        (
            before_end(8192).map(|at| at & !0xfff),
            row(0, MD_MAGIC, MD, MDS),
        ),
        (
            aligned(0x1000, 4096 - 6),
            row(0, &[0x34, 0x34], NILFS2, &["nilfs2"]),
        ),
        (before_end(8192), row(0, b"STWARRAY", ARRAY, &[])),
        (before_end(4096), row(0, b"STWARRAY", ARRAY, &[])),
        (
            before_end(1024),
            row(
                0,
                b"Intel Raid ISM Cfg Sig. ",
                "a part of a RAID (Intel)",
                &["isw_raid_member"],
            ),
        ),
        (
            before_end(1024),
            row(
                0,
                b"NVIDIA  ",
                "a part of a RAID (NVIDIA)",
                &["nvidia_raid_member"],
            ),
        ),
        (
            before_end(512),
            row(
                0,
                b"$XIDE$",
                "a part of a RAID (LSI)",
                &["lsi_mega_raid_member"],
            ),
        ),
        (
            before_end(512),
            row(
                0,
                &[0x37, 0xfc, 0x4d, 0x1e],
                "a part of a RAID (Adaptec)",
                &["adaptec_raid_member"],
            ),
        ),
    ];
    for sectors in [1, 257] {
        let ddf = row(
            0,
            &[0xde, 0x11, 0xde, 0x11],
            "a part of a RAID (DDF)",
            &["ddf_raid_member"],
        );
        all.push((before_end(sectors * 512), ddf));
    }
    for magic in [&[0xf3, 0x16, 0x78, 0x5a], &[0xfd, 0x16, 0x78, 0x5a]] {
        let hpt = row(
            0,
            magic,
            "a part of a RAID (HighPoint)",
            &["hpt45x_raid_member"],
        );
        all.push((before_end(11 * 512), hpt));
    }
    for sectors in [
        63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087,
    ] {
        let promise = row(
            0,
            b"Promise Technology, Inc.",
            "a part of a RAID (Promise)",
            &["promise_fasttrack_raid_member"],
        );
        all.push((before_end(sectors * 512), promise));
    }
    // DRBD's meta-data: 4 KiB before the end, and where drbdmeta puts it, at a multiple of 4 KiB.
    // Version 8, the same after a crash, version 9.
    for magic in [
        &[0x83, 0x74, 0x02, 0x6b],
        &[0x83, 0x74, 0x02, 0x6c],
        &[0x83, 0x74, 0x02, 0x6d],
    ] {
        for at in [before_end(4096 - 60), aligned(0x1000, 4096 - 60)] {
            all.push((at, row(0, magic, DRBD, &["drbd"])));
        }
    }
    all.into_iter()
        .filter_map(|(at, magic)| Some((at?, magic)))
        .collect()
}

/// The name of what libblkid calls `kind`, as this table has it.
pub fn name_of(kind: &str) -> Option<&'static str> {
    const OTHERS: [(&str, &str); 5] = [
        ("mac", MAC),
        ("sun", SUN),
        ("zfs_member", ZFS),
        ("atari", ATARI),
        ("jffs2", JFFS2),
    ];
    let others = OTHERS.iter().find(|(known, _)| *known == kind);
    let lists = in_lists();
    let ends = at_end(1 << 40);
    let magics = AT_START
        .iter()
        .chain(lists.iter().map(|(_, _, magic)| magic));
    let mut magics = magics.chain(ends.iter().map(|(_, magic)| magic));
    let found = magics.find(|magic| magic.kinds.contains(&kind));
    others
        .map(|(_, what)| *what)
        .or_else(|| found.map(|magic| magic.what))
}
