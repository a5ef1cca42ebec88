// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signatures that a number at one place does not make: a rule does.
//!
//! At a device's beginning those whose number is short, or at one of many places. At its end those
//! that name the device they were written for, by its size or by their own place in it. So the
//! image of another device, in a file of a volume, is not one of them: an image in a volume is
//! shorter than the device, and begins behind the device's first byte.

use super::found::{Ends, Signature};
use super::magics::{self, ARRAY, ATARI, BSD, DRBD, GPT, JFFS2, MD, NILFS2};
use volume::layout::TABLES;

/// Bytes at a device's end that have every signature of [`located`]: md 0.90's is in the last whole
/// 64 KiB.
pub const LOCATED_BYTES: u64 = 128 << 10;

const SECTOR_BYTES: u64 = 512;

/// Those at the beginning.
pub fn at_start(ends: &Ends) -> Vec<Signature> {
    let mut found = Vec::new();
    found.extend(jffs2(ends));
    found.extend(bsd(ends));
    found.extend(atari(ends));
    found
}

/// The first node of jffs2 at the beginning of what can be an erase block of flash (linux/jffs2.h,
/// `jffs2_unknown_node`): a magic number of two bytes, a type of two, the node's length, and the
/// CRC of these eight bytes, in the order of either processor.
fn jffs2(ends: &Ends) -> Option<Signature> {
    const MAGIC: u16 = 0x1985;
    // Entry of a folder, inode, clean marker, padding, summary, extended attribute and its
    // reference.
    const TYPES: [u16; 7] = [0xe001, 0xe002, 0x2003, 0x2004, 0x2006, 0xe008, 0xe009];
    let is_node = |header: &[u8]| {
        [u16::from_le_bytes, u16::from_be_bytes]
            .iter()
            .zip([u32::from_le_bytes, u32::from_be_bytes])
            .any(|(half, word)| {
                let halves = (half([header[0], header[1]]), half([header[2], header[3]]));
                let sum = word([header[8], header[9], header[10], header[11]]);
                halves.0 == MAGIC && TYPES.contains(&halves.1) && sum == plain_crc32(&header[..8])
            })
    };
    let at = (0..TABLES)
        .step_by(4096)
        .find(|at| ends.bytes(*at, 12).is_some_and(is_node))?;
    Some(Signature::new(at, 4, JFFS2))
}

/// CRC-32 as flash has it: from zero, and not inverted. Only headers are long enough for a bit at a
/// time.
fn plain_crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let feedback = if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            crc >> 1 ^ feedback
        })
    })
}

/// A label of BSD: its number twice, 132 bytes apart (sys/disklabel.h, `d_magic` and `d_magic2`),
/// in the order of either processor, in the first sector or at the second one, of 512 bytes or of 4
/// KiB: where in it is a matter of the machine.
fn bsd(ends: &Ends) -> Option<Signature> {
    const MAGIC: u32 = 0x8256_4557;
    let is_label = |at: &u64| {
        [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()]
            .iter()
            .any(|magic| {
                let has = |at| ends.bytes(at, 4) == Some(magic);
                has(*at) && has(at + 132)
            })
    };
    let at = (0..1024).chain(4096..4608).step_by(4).find(is_label)?;
    Some(Signature::new(at, 4, BSD))
}

/// A table of Atari (Linux's block/partitions/atari.c and atari.h), which has no number of its own:
/// the size of this very device, or a partition that is active, has a name of three letters or
/// digits, and fits. It counts in sectors of 512 bytes, big endian, and only devices with such
/// blocks have one.
fn atari(ends: &Ends) -> Option<Signature> {
    const SIZE_AT: usize = 0x1c2;
    const PARTITIONS_AT: usize = 0x1c6;
    const PARTITION_BYTES: usize = 12;
    let sectors = ends.size_bytes / SECTOR_BYTES;
    let sector = ends.bytes(0, SECTOR_BYTES as usize)?;
    if ends.block_bytes > 512 || sectors == 0 || sector.ends_with(&[0x55, 0xaa]) {
        return None;
    }
    let word = |at: usize| {
        u64::from(u32::from_be_bytes([
            sector[at],
            sector[at + 1],
            sector[at + 2],
            sector[at + 3],
        ]))
    };
    let is_partition = |at: &usize| {
        let (start, len) = (word(at + 4), word(at + 8));
        sector[*at] & 1 == 1
            && sector[at + 1..at + 4].iter().all(u8::is_ascii_alphanumeric)
            && start > 0
            && start + len <= sectors
    };
    if word(SIZE_AT) == sectors {
        return Some(Signature::new(SIZE_AT as u64, 4, ATARI));
    }
    let mut partitions = (0..4).map(|index| PARTITIONS_AT + index * PARTITION_BYTES);
    let at = partitions.find(is_partition)?;
    Some(Signature::new(at as u64, 4, ATARI))
}

/// Those at the end that were written for this device.
pub fn located(ends: &Ends) -> Vec<Signature> {
    let mut found: Vec<Signature> = Vec::new();
    for (at, magic) in magics::at_end(ends.size_bytes) {
        let is_known = found.iter().any(|known| known.offset_bytes == at);
        if is_known || ends.bytes(at, magic.magic.len()) != Some(magic.magic) {
            continue;
        }
        let is_here = match magic.what {
            GPT => is_gpt(ends, at),
            MD => is_md(ends, at),
            NILFS2 => is_nilfs2(ends, at),
            DRBD => is_drbd(ends, at),
            ARRAY => is_array(ends, at),
            _ => None,
        };
        if is_here == Some(true) {
            found.push(Signature::new(at, magic.magic.len() as u64, magic.what));
        }
    }
    found
}

/// UEFI 2.10, 5.3.2: `MyLBA`, in blocks of 512 bytes or of 4 KiB.
fn is_gpt(ends: &Ends, at: u64) -> Option<bool> {
    let own = u64::from_le_bytes(ends.array(at + 24)?);
    Some(
        [512, 4096]
            .iter()
            .any(|block| own.checked_mul(*block) == Some(at)),
    )
}

/// linux/raid/md_p.h: `super_offset` of version 1, in sectors; of 0.90 the `size` of a member in
/// KiB, which is at most the data in front of the superblock, and less by the rounding to a chunk
/// and where another member is a little smaller.
fn is_md(ends: &Ends, at: u64) -> Option<bool> {
    match u32::from_le_bytes(ends.array(at + 4)?) {
        1 => Some(u64::from_le_bytes(ends.array(at + 144)?) == at / SECTOR_BYTES),
        0 => {
            let size = u32::from_le_bytes(ends.array(at + 32)?);
            Some(is_nearly(u64::from(size) << 10, at))
        }
        _ => Some(false),
    }
}

/// linux/nilfs2_ondisk.h: `s_dev_size`, 26 bytes behind the number.
fn is_nilfs2(ends: &Ends, at: u64) -> Option<bool> {
    Some(u64::from_le_bytes(ends.array(at + 26)?) == ends.size_bytes)
}

/// drbd_md.h, `meta_data_on_disk`, whose number is its byte 60, big endian: the data's sectors and
/// `md_size_sect`, the data about it, end where this block does. As drbdmeta makes it the first is
/// 0; then the second is enough for a bit for each 4 KiB of the device.
fn is_drbd(ends: &Ends, at: u64) -> Option<bool> {
    let block = at.checked_sub(60)?;
    let end = (block + 4096) / SECTOR_BYTES;
    let data = u64::from_be_bytes(ends.array(block)?);
    let about = u64::from(u32::from_be_bytes(ends.array(at + 4)?));
    let bits = end.div_ceil(8).div_ceil(8 * SECTOR_BYTES);
    Some(match data {
        0 => about >= 8 + bits && about < end,
        _ => data.checked_add(about) == Some(end),
    })
}

/// The `crates/stripe` label: its data ends in front of the two copies, where another member is a
/// little smaller or a stripe did not fit before that.
fn is_array(ends: &Ends, at: u64) -> Option<bool> {
    let [block_log2] = ends.array(at + 27)?;
    let blocks = u64::from_le_bytes(ends.array(at + 32)?);
    let data = blocks.checked_mul(1u64.checked_shl(u32::from(block_log2))?)?;
    Some(is_nearly(data, at))
}

/// Whether data of a member that is nearly as long as this device ends at most there.
const fn is_nearly(data_bytes: u64, end: u64) -> bool {
    data_bytes <= end && data_bytes > end - end / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64 << 20;

    fn ends(edit: impl Fn(&mut [u8])) -> Ends {
        let mut bytes = vec![0; SIZE as usize];
        edit(&mut bytes);
        let tail = SIZE - LOCATED_BYTES;
        Ends {
            size_bytes: SIZE,
            block_bytes: 512,
            head: bytes[..TABLES as usize].to_vec(),
            tail: bytes[tail as usize..].to_vec(),
        }
    }

    fn put(bytes: &mut [u8], at: u64, value: &[u8]) {
        bytes[at as usize..][..value.len()].copy_from_slice(value);
    }

    fn names_at(ends: &Ends) -> Vec<(u64, String)> {
        let all = at_start(ends).into_iter().chain(located(ends));
        all.map(|one| (one.offset_bytes, one.what.into_owned()))
            .collect()
    }

    /// What its maker writes in each order of bytes; and not a part of it.
    #[test]
    fn those_at_the_beginning_need_more_than_a_number() {
        // A clean marker of mkfs.jffs2 1:2.1.5, `-l` and `-b`.
        let nodes: [[u8; 12]; 2] = [
            [0x85, 0x19, 3, 0x20, 12, 0, 0, 0, 0xb1, 0xb0, 0x1e, 0xe4],
            [0x19, 0x85, 0x20, 3, 0, 0, 0, 12, 0xf0, 0x60, 0xdc, 0x98],
        ];
        for node in nodes {
            for at in [0, 4096, TABLES - 4096] {
                let device = ends(|bytes| put(bytes, at, &node));
                assert_eq!(names_at(&device), [(at, JFFS2.to_owned())]);
                for lost in [0, 2, 5, 9] {
                    let device = ends(|bytes| {
                        put(bytes, at, &node);
                        bytes[at as usize + lost] ^= 1;
                    });
                    assert_eq!(names_at(&device), [], "byte {lost}");
                }
            }
        }
        let magic = 0x8256_4557_u32;
        for magic in [magic.to_le_bytes(), magic.to_be_bytes()] {
            for at in [0, 64, 128, 512, 4096] {
                let device = ends(|bytes| {
                    put(bytes, at, &magic);
                    put(bytes, at + 132, &magic);
                });
                assert_eq!(names_at(&device), [(at, BSD.to_owned())]);
                assert_eq!(names_at(&ends(|bytes| put(bytes, at, &magic))), []);
            }
        }
    }

    /// block/partitions/atari.c: a partition is active, has a name, and is within the disk.
    #[test]
    fn a_table_of_atari_fits_the_device() {
        let entry = |flags: u8, name: &[u8; 3], start: u32, sectors: u32| {
            ends(move |bytes| {
                put(bytes, 0x1d2, &[flags]);
                put(bytes, 0x1d3, name);
                put(bytes, 0x1d6, &start.to_be_bytes());
                put(bytes, 0x1da, &sectors.to_be_bytes());
            })
        };
        let sectors = (SIZE / 512) as u32;
        let expected = [(0x1d2, ATARI.to_owned())];
        assert_eq!(names_at(&entry(1, b"GEM", 2, sectors - 2)), expected);
        assert_eq!(names_at(&entry(0x81, b"XGM", 2, 1)), expected);
        for wrong in [
            entry(0, b"GEM", 2, 1),
            entry(1, b"GE\0", 2, 1),
            entry(1, b"GEM", 0, 1),
            entry(1, b"GEM", 2, sectors - 1),
        ] {
            assert_eq!(names_at(&wrong), []);
        }
        let mut device = ends(|bytes| put(bytes, 0x1c2, &sectors.to_be_bytes()));
        assert_eq!(names_at(&device), [(0x1c2, ATARI.to_owned())]);
        device.block_bytes = 4096;
        assert_eq!(names_at(&device), []);
    }

    /// Each is one of this device, and in a device that is longer or shorter by 64 KiB it is the
    /// image of another one.
    #[test]
    fn those_at_the_end_name_their_device() {
        type Edit = fn(&mut [u8], u64);
        let cases: [(u64, &str, Edit); 7] = [
            (SIZE - 512, GPT, |bytes, size| {
                put(bytes, SIZE - 512, b"EFI PART");
                put(bytes, SIZE - 512 + 24, &(size / 512 - 1).to_le_bytes());
            }),
            (SIZE - 4096, GPT, |bytes, size| {
                put(bytes, SIZE - 4096, b"EFI PART");
                put(bytes, SIZE - 4096 + 24, &(size / 4096 - 1).to_le_bytes());
            }),
            (SIZE - 8192, MD, |bytes, size| {
                put(bytes, SIZE - 8192, magics::MD_MAGIC);
                put(bytes, SIZE - 8192 + 4, &[1]);
                put(bytes, SIZE - 8192 + 144, &(size / 512 - 16).to_le_bytes());
            }),
            (SIZE - 65_536, MD, |bytes, size| {
                put(bytes, SIZE - 65_536, magics::MD_MAGIC);
                let kib = if size == SIZE {
                    // As far as to a chunk of 512 KiB.
                    (size >> 10) as u32 - 512
                } else {
                    (size >> 11) as u32
                };
                put(bytes, SIZE - 65_536 + 32, &kib.to_le_bytes());
            }),
            (SIZE - 4096 + 6, NILFS2, |bytes, size| {
                put(bytes, SIZE - 4096 + 6, &[0x34, 0x34]);
                put(bytes, SIZE - 4096 + 32, &size.to_le_bytes());
            }),
            (SIZE - 4096 + 60, DRBD, |bytes, size| {
                put(bytes, SIZE - 4096 + 60, &[0x83, 0x74, 2, 0x6b]);
                put(bytes, SIZE - 4096 + 64, &80u32.to_be_bytes());
                put(bytes, SIZE - 4096, &(size / 512 - 80).to_be_bytes());
            }),
            (SIZE - 4096, ARRAY, |bytes, size| {
                put(bytes, SIZE - 4096, b"STWARRAY");
                let blocks = if size == SIZE {
                    (size - 8192) >> 9
                } else {
                    size >> 10
                };
                put(bytes, SIZE - 4096 + 27, &[9]);
                put(bytes, SIZE - 4096 + 32, &blocks.to_le_bytes());
            }),
        ];
        for (at, what, edit) in cases {
            let here = ends(|bytes| edit(bytes, SIZE));
            assert_eq!(names_at(&here), [(at, what.to_owned())]);
            for size in [SIZE - 65_536, SIZE + 65_536] {
                assert_eq!(names_at(&ends(|bytes| edit(bytes, size))), [], "{what}");
            }
        }
    }
}
