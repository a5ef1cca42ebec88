// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that another owner has, and a volume on it: what is refused, what is recovered, and how
//! a volume is removed.

use block::Device;
use crash::{Config, CrashDisk, Medium, Sampling};
use straightway_volume::checksum::crc32c;
use straightway_volume::layout::{SEQ_END, SEQ_RESERVE};
use straightway_volume::{
    CreateOptions, Error, Superblocks, Volume, blocking, find_superblocks, wipe,
};

use crate::harness::independent::{node_crc, superblock, u64_at};
use crate::harness::ops::Op;
use crate::harness::owners::refused_where_overwritten;
use crate::harness::search::{FILLER, Mutation, mount};
use crate::harness::starts::{self, NODE};
use crate::harness::support::{buffer, free};

/// A clean volume with a file, and the same before its last change.
fn volumes() -> [Medium; 2] {
    let (medium, oracle) = starts::fragmented(512, 3);
    let grow = [Op::Open(0), Op::Append(0), Op::Close(0)];
    let grown = starts::after("grown", &medium, &oracle, &grow);
    [grown.medium, medium]
}

/// Mounts to write, makes a file, and unmounts.
fn change(disk: &CrashDisk) -> Result<(), Error> {
    let mut files = Default::default();
    let files: &mut [straightway_volume::OpenFile; 2] = &mut files;
    let volume = mount(disk.clone(), NODE, files, Mutation::None)?;
    let made = blocking::run(&volume, volume.create("more", &CreateOptions::default()));
    let unmounted = volume.unmount();
    unmounted.memory.into_iter().flatten().for_each(free);
    made.and(unmounted.result)
}

fn block(medium: &Medium, address: u64) -> Vec<u8> {
    let mut bytes = vec![0; medium.block_size_bytes()];
    let lba = address >> medium.block_size_log2();
    medium.read(lba, &mut bytes).unwrap();
    bytes
}

fn with_block(medium: &Medium, address: u64, bytes: &[u8]) -> Medium {
    let mut medium = medium.clone();
    let lba = address >> medium.block_size_log2();
    medium.write(lba, bytes).unwrap();
    medium
}

#[test]
fn a_volume_is_not_written_where_another_owner_has_a_superblock() {
    for medium in volumes() {
        refused_where_overwritten(&medium).unwrap();
    }
}

/// A write that was torn anywhere, a flipped bit, and a block without content are no other owner.
#[test]
fn a_torn_a_rotted_and_an_erased_superblock_are_recovered() {
    let [medium, before] = volumes();
    for address in [0, 65_536] {
        let (now, then) = (block(&medium, address), block(&before, address));
        assert_ne!(now, then);
        let (zeroes, ones) = (vec![0; NODE], vec![0xff; NODE]);
        let mut blocks = vec![zeroes.clone(), ones.clone()];
        for cut in 0..NODE {
            blocks.push([&now[..cut], &then[cut..]].concat());
            blocks.push([&then[..cut], &now[cut..]].concat());
        }
        for erased in [&zeroes, &ones] {
            for cut in (0..NODE).step_by(8) {
                blocks.push([&now[..cut], &erased[cut..]].concat());
                blocks.push([&erased[..cut], &now[cut..]].concat());
            }
        }
        let mut random = fastrand::Rng::with_seed(crate::harness::seed("torn"));
        for _ in 0..64 {
            // Pieces of 8 bytes from either write, in any order.
            let pick = |at: usize| {
                if random.bool() {
                    now[at..at + 8].to_vec()
                } else {
                    then[at..at + 8].to_vec()
                }
            };
            blocks.push((0..NODE).step_by(8).flat_map(pick).collect());
        }
        for bit in 0..NODE * 8 {
            let mut flipped = now.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            blocks.push(flipped);
        }
        for bytes in blocks {
            let disk = with_block(&medium, address, &bytes).open(Config::default());
            change(&disk).unwrap_or_else(|error| panic!("{address}: {error}: {bytes:x?}"));
        }
    }
}

/// A superblock, a bitmap or a slot with the number `seq` in its newest member, and a valid
/// checksum.
fn numbered(medium: &Medium, pair: [u64; 2], seq_at: usize, crc_at: usize, seq: u64) -> Medium {
    let bytes = medium.to_bytes();
    let uuid = superblock(&bytes).unwrap().0.uuid;
    let identity: &[u8] = if seq_at == 16 { &[] } else { &uuid };
    let newest = pair
        .into_iter()
        .max_by_key(|at| u64_at(&bytes, *at as usize + seq_at));
    let mut node = block(medium, newest.unwrap());
    let address = pair[(seq % 2) as usize];
    node[seq_at..seq_at + 8].copy_from_slice(&seq.to_le_bytes());
    let crc = node_crc(identity, address, &node, crc_at);
    node[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    with_block(medium, address, &node)
}

/// Every change of a volume whose superblock has one of the last numbers is refused, and it still
/// reads.
#[test]
fn the_last_numbers_of_a_superblock_are_not_used_up() {
    let [medium, _] = volumes();
    let end = SEQ_END / 2;
    for below in [1, 2, 3, 4, 5, 6, 7, 100, SEQ_RESERVE] {
        let last = numbered(&medium, [0, 65_536], 16, 8, end - below);
        let disk = last.open(Config::default());
        assert_eq!(
            change(&disk),
            Err(Error::SequenceEnd),
            "{below} below the end"
        );
        assert_eq!(disk.current().hash(), last.hash(), "nothing was written");
        superblock(&last.to_bytes()).unwrap();
    }
    // The last volume that may be changed can still be mounted after it.
    let disk = numbered(&medium, [0, 65_536], 16, 8, end - SEQ_RESERVE - 1).open(Config::default());
    change(&disk).unwrap();
    let mut files: [straightway_volume::OpenFile; 1] = Default::default();
    let options = straightway_volume::MountOptions {
        read_only: true,
        ..Default::default()
    };
    let nodes = crate::harness::support::memory(NODE, 7);
    let volume = Volume::mount(disk, nodes, &mut files, &options)
        .map_err(|unmounted| unmounted.result)
        .unwrap();
    blocking::run(&volume, volume.find("more")).unwrap();
    volume.abandon().memory.into_iter().flatten().for_each(free);
}

/// So is every change of a slot or a bitmap with one of the last numbers.
#[test]
fn the_last_numbers_of_a_node_are_not_used_up() {
    let [medium, _] = volumes();
    let (regions, ..) = superblock(&medium.to_bytes()).unwrap();
    let bytes = medium.to_bytes();
    let is_filler = |slot: &u64| {
        let at = (regions.slots_at[0] + slot * NODE as u64) as usize;
        bytes[at + 80..].starts_with(FILLER.as_bytes())
    };
    let slot = (0..regions.slots).find(is_filler).unwrap();
    let slot = regions.slots_at.map(|table| table + slot * NODE as u64);
    for pair in [slot, regions.bitmaps_at] {
        for below in [1, 2, 3, 100] {
            let last = numbered(&medium, pair, 8, 4, SEQ_END - below);
            let disk = last.open(Config::default());
            let mut files: [straightway_volume::OpenFile; 2] = Default::default();
            let volume = mount(disk.clone(), NODE, &mut files, Mutation::None).unwrap();
            let removed = blocking::run(&volume, volume.remove(FILLER));
            let removed = removed.and_then(|()| blocking::run(&volume, volume.reclaim_all()));
            let appended = blocking::run(&volume, volume.open_to_write(FILLER))
                .and_then(|file| blocking::run(&volume, volume.reserve(file, 512)));
            volume.abandon().memory.into_iter().flatten().for_each(free);
            assert_eq!(removed.and(appended), Err(Error::SequenceEnd), "{pair:?}");
            // The node is still valid, and so its file still there.
            let node = block(&disk.current(), pair[((SEQ_END - below) % 2) as usize]);
            assert_eq!(u64_at(&node, 8), SEQ_END - below);
        }
    }
}

fn wiped(disk: &CrashDisk) -> Result<Superblocks, Error> {
    let (result, memory) = wipe(&mut disk.clone(), buffer(NODE));
    free(memory.unwrap());
    result
}

/// Cut anywhere, a removal leaves the volume as it was or none; and no more than its superblocks
/// go.
#[test]
fn a_removal_that_is_cut_leaves_all_or_nothing() {
    for medium in volumes() {
        let whole = medium.open(Config::default());
        assert_eq!(wiped(&whole).unwrap().addresses().count(), 2);
        assert_eq!(wiped(&whole), Err(Error::NotAVolume));
        let after = whole.current();
        for address in [0, 65_536] {
            assert_eq!(block(&after, address), vec![0; NODE]);
        }
        assert_eq!(
            medium.differences(&after).unwrap(),
            [0, 65_536 / NODE as u64]
        );
        let newest = superblock(&medium.to_bytes()).unwrap().1;
        let mut states = [0, 0];
        for cut in 0..=whole.changes() {
            let disk = medium.open(Config::default());
            disk.stop_after(cut, crash::Cut::During);
            let _ = wiped(&disk);
            for image in disk.images(&Sampling::default()) {
                let left = superblock(&image.medium.to_bytes());
                states[usize::from(left.is_ok())] += 1;
                // The older superblock alone would be an older state of the volume.
                if let Ok((_, seq, _)) = left {
                    assert_eq!(seq, newest);
                    change(&image.medium.open(Config::default())).unwrap();
                }
            }
        }
        assert!(states.iter().all(|count| *count > 0), "{states:?}");
    }
}

/// A forgotten superblock is removed, and what another owner has is not touched.
#[test]
fn a_removal_leaves_another_owner_s_bytes() {
    let [medium, _] = volumes();
    let mut theirs = vec![0; NODE];
    theirs[0x18..0x20].copy_from_slice(b"LVM2 001");
    for (address, other) in [(0, 65_536), (65_536, 0)] {
        let disk = with_block(&medium, address, &theirs).open(Config::default());
        let found = wiped(&disk).unwrap();
        assert_eq!(found.addresses().collect::<Vec<_>>(), [other]);
        assert_eq!(found.uuid, Some([9; 16]));
        assert_eq!(block(&disk.current(), address), theirs);
    }
    // Bytes beside a superblock, in a longer block.
    let mut bytes = medium.to_bytes();
    bytes.resize(1 << 18, 0);
    let mut long = Medium::from_bytes(12, &bytes).unwrap();
    long.edit(0, |block| block[256..].fill(0x5a)).unwrap();
    let mut disk = long.open(Config::default());
    let (found, memory) = wipe(&mut disk, buffer(4096));
    free(memory.unwrap());
    found.unwrap();
    let after = block(&disk.current(), 0);
    assert!(after[..256].iter().all(|byte| *byte == 0));
    assert!(after[256..].iter().all(|byte| *byte == 0x5a));
}

/// Superblocks of another version, and one without a valid checksum, are a volume's too.
#[test]
fn a_removal_finds_superblocks_that_cannot_be_mounted() {
    let [medium, _] = volumes();
    let mut newer = block(&medium, 0);
    newer[12] = 2;
    let crc = node_crc(&[], 0, &newer, 8);
    newer[8..12].copy_from_slice(&crc.to_le_bytes());
    let mut torn = block(&medium, 0);
    torn[100] ^= 1;
    for bytes in [newer, torn] {
        let disk = with_block(&medium, 0, &bytes).open(Config::default());
        let (found, memory) = find_superblocks(&mut disk.clone(), buffer(NODE));
        free(memory.unwrap());
        assert_eq!(found.unwrap().addresses().count(), 2);
        assert_eq!(disk.geometry().block_size_bytes(), NODE);
        wiped(&disk).unwrap();
        assert_eq!(wiped(&disk), Err(Error::NotAVolume));
    }
    assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
}
