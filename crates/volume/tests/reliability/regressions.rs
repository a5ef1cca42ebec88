// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Regression tests: each failed before its bug was fixed.

use std::cell::RefCell;
use std::rc::Rc;

use crate::harness::independent::{Scan, node_crc, superblock, u64_at};
use crate::harness::ops::Op;
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Mutation, Search, mount};
use crate::harness::starts;
use crate::harness::support::{buffer, filled, free, make, memory};
use block::Device;
use crash::{CommandKind, Config, CrashDisk, Fault, Faulty, Medium, On, Rule};
use straightway_volume::{
    CreateOptions, Error, FormatOptions, MountOptions, OpenFile, Volume, blocking,
};

fn disk(megabytes: u64) -> CrashDisk {
    let mut disk = Medium::new(12, megabytes << 8)
        .unwrap()
        .open(Config::default());
    let options = FormatOptions {
        unit_bytes: Some(4096),
        node_bytes: Some(4096),
        slots: Some(16),
        checksums: true,
        uuid: [3; 16],
        ..FormatOptions::default()
    };
    make(&mut disk, &options);
    disk
}

fn on<D: Device>(device: D, body: impl FnOnce(&Volume<'_, D>)) -> D {
    let mut files: [OpenFile; 4] = Default::default();
    let volume = Volume::mount(
        device,
        memory(4096, 0),
        &mut files,
        &MountOptions::default(),
    )
    .map_err(|unmounted| unmounted.result)
    .unwrap();
    body(&volume);
    let unmounted = volume.unmount();
    unmounted.result.unwrap();
    unmounted.memory.into_iter().flatten().for_each(free);
    unmounted.device
}

fn checked() -> CreateOptions {
    CreateOptions {
        checksums: true,
        ..CreateOptions::default()
    }
}

/// A leaf was rewritten while the superblock was still marked clean: after a power cut that lost
/// the record and kept the leaf, the file could not be read.
#[test]
fn a_leaf_rewritten_first_after_a_mount_is_recovered() {
    let (medium, oracle) = starts::fragmented(512, 96);
    let start = Start {
        name: "a full leaf under a node",
        medium,
        oracle,
        prefix: vec![Op::Open(0)],
    };
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    let steps = [vec![Op::Append(0)]];
    runner::run(&search, &start, &steps, 0, &Manner::new(0)).unwrap_or_else(|why| panic!("{why}"));
}

/// An index node kept an entry of a leaf that was given back. When the file's last extent became
/// longer, the entry was within the file again: appended data could not be read, and other files
/// got its units.
#[test]
fn an_extent_that_becomes_longer_brings_no_old_leaf_back() {
    for extents in 1..=120 {
        let (medium, _) = starts::fragmented(512, extents);
        let mut files: [OpenFile; 2] = Default::default();
        let volume = mount(
            medium.open(Config::default()),
            256,
            &mut files,
            Mutation::None,
        )
        .unwrap();
        let name = crate::harness::oracle::NAMES[0][0];
        // The unit after the file's last belongs to another file: the reservation is a separate
        // extent, and is given back.
        let file = blocking::run(&volume, volume.open_to_write(name)).unwrap();
        blocking::run(&volume, volume.reserve(file, 512)).unwrap();
        blocking::run(&volume, volume.close(file)).unwrap();
        blocking::run(&volume, volume.remove(crate::harness::search::FILLER)).unwrap();
        let mut from = Some(0);
        while let Some(slot) = from {
            from = blocking::run(&volume, volume.reap(slot)).unwrap();
        }
        // Now it is free, and the last extent becomes longer.
        let file = blocking::run(&volume, volume.open_to_write(name)).unwrap();
        let piece = [extents as u8; 768];
        let outcome = blocking::append(&volume, file, filled(&piece, 256), piece.len());
        free(outcome.buffer);
        outcome.result.unwrap();
        blocking::run(&volume, volume.sync(file)).unwrap();
        let outcome = blocking::read(&volume, file, extents * 512, buffer(piece.len()));
        outcome
            .result
            .unwrap_or_else(|error| panic!("{extents} extents: {error}"));
        assert_eq!(outcome.buffer[..piece.len()], piece, "{extents} extents");
        free(outcome.buffer);
        blocking::run(&volume, volume.close(file)).unwrap();
        let unmounted = volume.unmount();
        unmounted.result.unwrap();
        unmounted.memory.into_iter().flatten().for_each(free);
        let scan = Scan::new(&unmounted.device.current().to_bytes()).unwrap();
        scan.check_space()
            .unwrap_or_else(|why| panic!("{extents} extents: {why}"));
    }
}

/// A reservation that found part of the space, and then no more, left the volume unusable.
#[test]
fn a_reservation_that_ends_for_want_of_space_keeps_what_it_found() {
    on(disk(4), |volume| {
        let free = blocking::run(volume, volume.free_units()).unwrap();
        let file = blocking::run(volume, volume.create("a", &CreateOptions::default())).unwrap();
        // A hole in the middle, so that it takes more than one operation.
        let more = blocking::run(volume, volume.reserve(file, (free + 1) * 4096));
        assert_eq!(more, Err(Error::NoSpace));
        assert!(!volume.status().needs_mount);
        blocking::run(volume, volume.close(file)).unwrap();
        blocking::run(volume, volume.remove("a")).unwrap();
        assert_eq!(blocking::run(volume, volume.free_units()), Ok(free));
    });
}

/// A commit stored checksums of data in flight; when that data failed and was discarded, the next
/// checksums were stored in the wrong places, or the count went below zero.
#[test]
fn checksums_of_data_that_failed_are_taken_back() {
    let chunk = 65_536;
    let fails = Rule::once(
        On::Kind(CommandKind::Write),
        2,
        Fault::Fail(block::Error::TimedOut),
    )
    .within(60..1024);
    let faulty = Faulty::new(disk(4), []);
    let faults = faulty.faults();
    on(faulty, |volume| {
        let file = blocking::run(volume, volume.create("a", &checked())).unwrap();
        blocking::run(volume, volume.reserve(file, 8 * chunk as u64)).unwrap();
        blocking::run(volume, volume.sync(file)).unwrap();
        faults.add(fails);
        for value in [1, 2] {
            let piece = filled(&vec![value; chunk], 4096);
            volume.append(file, piece, chunk, 0).unwrap();
        }
        volume.kick();
        let mut events = 0;
        let committed = blocking::run_with(volume, volume.commit(file), |event| {
            events += 1;
            event.buffer.into_iter().for_each(free);
        });
        committed.unwrap();
        while volume.outstanding() > 0 {
            if let Some(event) = volume.poll() {
                events += 1;
                event.buffer.into_iter().for_each(free);
            }
        }
        assert_eq!((events, faults.fired_count()), (2, 1));
        let at = volume.rewind(file).unwrap();
        assert_eq!(at, chunk as u64, "the first of the two is there");
        let again = blocking::append(volume, file, filled(&vec![3; 3 * chunk], 4096), 3 * chunk);
        free(again.buffer);
        again.result.unwrap();
        blocking::run(volume, volume.sync(file)).unwrap();
        let read = blocking::read(volume, file, 0, buffer(4 * chunk));
        assert!(read.buffer[..chunk].iter().all(|byte| *byte == 1));
        assert!(read.buffer[chunk..].iter().all(|byte| *byte == 3));
        free(read.buffer);
        assert_eq!(read.result, Ok(()));
        blocking::run(volume, volume.close(file)).unwrap();
    });
}

/// With more data in flight than there is room for checksums, a blocking append never ended.
#[test]
fn more_checked_data_than_fits_in_flight_is_appended() {
    let len = 20 << 20;
    let deep = |max_transfer_blocks| {
        let config = Config {
            max_transfer_blocks,
            hold_polls: 3,
            ..Config::default()
        };
        disk(32).current().open(config)
    };
    for max_transfer_blocks in [256, 16_384] {
        on(deep(max_transfer_blocks), |volume| {
            let file = blocking::run(volume, volume.create("a", &checked())).unwrap();
            let outcome = blocking::append(volume, file, filled(&vec![5; len], 4096), len);
            free(outcome.buffer);
            outcome.result.unwrap();
            blocking::run(volume, volume.sync(file)).unwrap();
            let read = blocking::read(volume, file, 0, buffer(len));
            free(read.buffer);
            assert_eq!(read.result, Ok(()));
            blocking::run(volume, volume.close(file)).unwrap();
        });
    }
}

/// A removal in a group whose newest bitmap had rotted wrote its record before it noticed; at the
/// next mount recovery rebuilt the bitmap from the old member, and space of other files was reused.
#[test]
fn a_rotten_bitmap_is_not_rebuilt_from_its_old_member() {
    let device = on(disk(4), |volume| {
        for name in ["a", "b"] {
            let options = CreateOptions {
                reserve_bytes: 65_536,
                ..CreateOptions::default()
            };
            let file = blocking::run(volume, volume.create(name, &options)).unwrap();
            let data = filled(&[7; 65_536], 4096);
            let outcome = blocking::append(volume, file, data, 65_536);
            free(outcome.buffer);
            outcome.result.unwrap();
            blocking::run(volume, volume.close(file)).unwrap();
        }
    });
    let bytes = device.current().to_bytes();
    let scan = Scan::new(&bytes).unwrap();
    scan.check_space().unwrap();
    let newest = scan
        .regions
        .bitmaps_at
        .into_iter()
        .max_by_key(|at| crate::harness::independent::u64_at(&bytes, *at as usize + 8))
        .unwrap();
    device.rot(newest >> 12, 20_000).unwrap();
    let device = on(device, |volume| {
        let removed = blocking::run(volume, volume.remove("a"));
        assert!(removed.is_err(), "{removed:?}");
        assert!(!volume.status().needs_mount, "nothing was changed");
    });
    let device = on(device, |volume| {
        let refused = blocking::run(volume, volume.create("c", &checked())).unwrap();
        let reserved = blocking::run(volume, volume.reserve(refused, 4096));
        assert!(reserved.is_err(), "{reserved:?}");
        blocking::run(volume, volume.close(refused)).unwrap();
    });
    assert!(
        Scan::new(&device.current().to_bytes())
            .unwrap()
            .torn_bitmaps
            > 0
    );
}

/// Closing a file that was made and not written to left one member of its slot as it was.
#[test]
fn a_closed_file_survives_the_loss_of_either_member() {
    let device = on(disk(4), |volume| {
        let file = blocking::run(volume, volume.create("a", &CreateOptions::default())).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
    });
    let bytes = device.current().to_bytes();
    let scan = Scan::new(&bytes).unwrap();
    for member in scan.regions.slots_at {
        let again = device.current().open(Config::default());
        let at = member + scan.files[0].slot * 4096;
        again.rot(at >> 12, 999).unwrap();
        let mut files: [OpenFile; 2] = Default::default();
        let volume = mount(again, 4096, &mut files, Mutation::None).unwrap();
        assert!(blocking::run(&volume, volume.find("a")).is_ok());
        volume.abandon().memory.into_iter().flatten().for_each(free);
    }
}

/// `field` of the node at `at`, 8 bytes, becomes `value`, with the node's checksum.
fn forged(medium: &Medium, identity: &[u8], at: u64, field: usize, value: u64) -> Medium {
    let mut medium = medium.clone();
    // Behind eight bytes of magic in a superblock, behind four elsewhere.
    let crc_at = if identity.is_empty() { 8 } else { 4 };
    let edit = |block: &mut [u8]| {
        let node = if identity.is_empty() {
            &mut block[..256]
        } else {
            block
        };
        node[field..field + 8].copy_from_slice(&value.to_le_bytes());
        let crc = node_crc(identity, at, node, crc_at);
        node[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    };
    medium.edit(at >> 12, edit).unwrap();
    medium
}

/// The next member was written with a number that makes it invalid: the superblock or the file was
/// lost, with an exit status of 0.
#[test]
fn a_number_at_its_border_is_not_used() {
    let disk = on(disk(8), |volume| {
        let file = blocking::run(volume, volume.create("f", &checked())).unwrap();
        blocking::run(volume, volume.close(file)).unwrap();
    });
    let medium = disk.current();
    let bytes = medium.to_bytes();
    let (regions, _, _) = superblock(&bytes).unwrap();
    let mount = |medium: &Medium, read_only, body: &dyn Fn(&Volume<'_, CrashDisk>)| {
        let mut files: [OpenFile; 2] = Default::default();
        let options = MountOptions {
            read_only,
            ..MountOptions::default()
        };
        let disk = medium.open(Config::default());
        match Volume::mount(disk, memory(4096, 0), &mut files, &options) {
            Ok(volume) => {
                body(&volume);
                let unmounted = volume.unmount();
                unmounted.memory.into_iter().flatten().for_each(free);
                (unmounted.result, unmounted.device.current())
            }
            Err(unmounted) => {
                unmounted.memory.into_iter().flatten().for_each(free);
                (unmounted.result, unmounted.device.current())
            }
        }
    };
    for below in [2, 4, 8, 1 << 39] {
        let at_end = forged(&medium, &[], 0, 16, (1 << 61) - below);
        let (result, after) = mount(&at_end, false, &|_| panic!("it was mounted to write"));
        assert_eq!(result, Err(Error::SequenceEnd), "{below}");
        assert!(after.to_bytes() == at_end.to_bytes());
        let (result, _) = mount(&at_end, true, &|volume| {
            blocking::run(volume, volume.find("f")).unwrap();
        });
        assert_eq!(result, Ok(()));
        // The slot's member A.
        let slot = (0..regions.slots).map(|slot| regions.slots_at[0] + slot * regions.node as u64);
        let slot = slot.clone().find(|at| bytes[*at as usize + 80] == b'f');
        let slot = slot.expect("the file's slot");
        assert!(u64_at(&bytes, slot as usize + 8) < 1000);
        let at_end = forged(&medium, &regions.uuid, slot, 8, (1 << 62) - below);
        let (result, after) = mount(&at_end, false, &|volume| {
            let removed = blocking::run(volume, volume.remove("f"));
            assert_eq!(removed, Err(Error::SequenceEnd), "{below}");
        });
        assert_eq!(result, Ok(()), "{below}");
        let node = |medium: &Medium| medium.to_bytes()[slot as usize..][..regions.node].to_vec();
        assert!(node(&after) == node(&at_end));
        let (result, _) = mount(&after, true, &|volume| {
            blocking::run(volume, volume.find("f")).unwrap();
        });
        assert_eq!(result, Ok(()));
    }
}
