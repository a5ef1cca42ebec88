// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The power is cut everywhere: every sequence of up to three operations over two files, then long
//! seeded runs, one operation at a time and two in parallel.

use std::cell::RefCell;
use std::rc::Rc;

use block::{Device, Operation, Refused, Request};
use crash::{Budget, CommandKind, Config, CrashDisk, Fault, Faulty, Medium, On, Rule, Sampling};
use straightway_volume::{CreateOptions, Error, FormatOptions, blocking};

use crate::harness::independent::Scan;
use crate::harness::search::{Depth, Mutation, Search, mount, reading};
use crate::harness::sequences::{self, Width};
use crate::harness::starts::{self, NODE};
use crate::harness::support::{buffer, filled, free};
use crate::harness::{long, oracle, seed};

#[test]
fn every_sequence_of_three_operations_survives_every_power_cut() {
    let budget = Budget::or(Budget::of_states(u64::MAX)).unwrap();
    let counted = sequences::every(3, Width::Quick, budget).unwrap_or_else(|why| panic!("{why}"));
    println!("{counted}");
    assert!(
        counted.total() >= 250_000 || !budget.is_default(),
        "{counted}"
    );
}

#[test]
fn long_runs_survive_every_power_cut() {
    let seed = seed("long_runs_survive_every_power_cut");
    let blank = starts::empty(16, 512, 40);
    let start = starts::after("nothing there", &blank, &oracle::Oracle::default(), &[]);
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    let budget = Budget::or(Budget::of_states(15_000)).unwrap();
    let mut lives = 0;
    while budget.allows(search.borrow().total()) {
        let from = seed.wrapping_add(lives);
        long::run(&search, &start, from, 10).unwrap_or_else(|why| panic!("{why}"));
        lives += 10;
    }
    let total = search.borrow().total();
    println!("long runs: {lives} lives, {total} crash states");
}

/// The names of the model are in different buckets, so that a rename moves between them.
#[test]
fn names_stand_in_both_buckets() {
    let bucket = |name: &str| crate::harness::independent::crc32c(name.as_bytes()) & 1;
    let buckets: Vec<u32> = oracle::NAMES
        .iter()
        .flatten()
        .map(|name| bucket(name))
        .collect();
    assert!(buckets.contains(&0) && buckets.contains(&1), "{buckets:?}");
}

/// A device that counts its changes and lists what a cut at each of them may leave.
struct Listing {
    disk: CrashDisk,
    images: Rc<RefCell<Vec<Medium>>>,
}

impl Device for Listing {
    fn geometry(&self) -> &block::Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let is_change = !matches!(request.operation, Operation::Read { .. });
        self.disk.submit(request)?;
        if is_change {
            let sampling = Sampling {
                samples: 40,
                ..Sampling::default()
            };
            let images = self.disk.images(&sampling);
            self.images
                .borrow_mut()
                .extend(images.map(|image| image.medium));
        }
        Ok(())
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<block::Completion> {
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding()
    }
}

/// Wherever a rename is cut, a reader lists one of both names, the one that the next writer finds:
/// the other one cannot be removed.
#[test]
fn a_rename_cut_anywhere_leaves_readers_and_writers_one_name() {
    let (start, _) = starts::fragmented(512, 8);
    let images = Rc::new(RefCell::new(Vec::new()));
    let device = Listing {
        disk: start.open(Config::default()),
        images: Rc::clone(&images),
    };
    let mut files: [straightway_volume::OpenFile; 2] = Default::default();
    let volume = mount(device, NODE, &mut files, Mutation::None).unwrap();
    let names = [oracle::NAMES[0][0], oracle::NAMES[0][1]];
    blocking::run(&volume, volume.rename(names[0], names[1])).unwrap();
    volume.abandon().memory.into_iter().flatten().for_each(free);
    let mut seen = [0; 2];
    for medium in images.take() {
        let (listed, found) = reading(&medium, |volume, _| {
            let mut listed = Vec::new();
            let each = |entry: straightway_volume::StoredFile| {
                listed.push(entry.name.as_str().to_owned());
                true
            };
            blocking::run(volume, volume.files(0, each)).unwrap();
            listed.retain(|name| names.contains(&name.as_str()));
            let found = names.map(|name| blocking::run(volume, volume.find(name)).is_ok());
            (listed, found)
        })
        .unwrap();
        let is_new = listed == [names[1]];
        assert!(is_new || listed == [names[0]], "{listed:?}");
        assert_eq!(found, [!is_new, is_new], "{listed:?}");
        seen[usize::from(is_new)] += 1;
        // Who takes one of two names for a copy, and removes the other.
        let mut files: [straightway_volume::OpenFile; 2] = Default::default();
        let volume = mount(
            medium.open(Config::default()),
            NODE,
            &mut files,
            Mutation::None,
        );
        let volume = volume.unwrap();
        let [kept, other] = [names[usize::from(is_new)], names[usize::from(!is_new)]];
        let removed = blocking::run(&volume, volume.remove(other));
        assert_eq!(removed, Err(Error::NotFound), "{other}");
        let entry = blocking::run(&volume, volume.find(kept)).unwrap();
        assert!(entry.size_bytes > 0);
        volume.abandon().memory.into_iter().flatten().for_each(free);
    }
    println!(
        "rename: {} images with the old name, {} with the new",
        seen[0], seen[1]
    );
    assert!(seen[0] > 0 && seen[1] > 0);
}

/// A format that is interrupted leaves the old volume intact, no volume, or the complete new one.
#[test]
fn a_format_cut_anywhere_leaves_no_mixture() {
    let (old, oracle) = starts::fragmented(512, 8);
    let images = Rc::new(RefCell::new(Vec::new()));
    let mut device = Listing {
        disk: old.open(Config::default()),
        images: Rc::clone(&images),
    };
    let options = FormatOptions {
        unit_bytes: Some(1024),
        node_bytes: Some(NODE as u32),
        slots: Some(16),
        uuid: [4; 16],
        ..FormatOptions::default()
    };
    let (shape, memory) = straightway_volume::format(&mut device, buffer(1 << 11), &options);
    free(memory.unwrap());
    shape.unwrap();
    let (mut none, mut before, mut after) = (0, 0, 0);
    for medium in images.take() {
        let disk = medium.open(Config::default());
        let mut files = Default::default();
        let files: &mut [straightway_volume::OpenFile; 2] = &mut files;
        match mount(disk.clone(), NODE, files, Mutation::None) {
            Err(Error::NotAVolume) => none += 1,
            Err(error) => panic!("{error}"),
            Ok(volume) => {
                let scan = Scan::new(&disk.current().to_bytes()).unwrap();
                scan.check_space().unwrap();
                match scan.files.len() {
                    0 => after += 1,
                    2 => before += 1,
                    count => panic!("{count} files"),
                }
                volume.abandon().memory.into_iter().flatten().for_each(free);
            }
        }
    }
    println!("format: {before} images with the old volume, {none} with none, {after} with the new");
    assert!(before > 0 && none > 0 && after > 0 && oracle.files[0].now.is_some());
}

/// A format whose last flush fails returns an error; the volume may exist all the same.
#[test]
fn a_format_whose_last_flush_fails_may_have_made_a_volume() {
    let (old, _) = starts::fragmented(512, 8);
    for (flush, is_there) in [(1, false), (2, false), (4, true)] {
        let disk = old.open(Config::default());
        let mut device = Faulty::new(disk.clone(), []);
        let fault = Fault::Fail(block::Error::TimedOut);
        device
            .faults()
            .add(Rule::once(On::Kind(CommandKind::Flush), flush, fault));
        let options = FormatOptions {
            node_bytes: Some(NODE as u32),
            slots: Some(16),
            uuid: [4; 16],
            ..FormatOptions::default()
        };
        let (shape, memory) = straightway_volume::format(&mut device, buffer(1 << 14), &options);
        free(memory.unwrap());
        assert!(
            matches!(shape, Err(Error::Device(_))),
            "flush {flush}: {shape:?}"
        );
        let mut files: [straightway_volume::OpenFile; 2] = Default::default();
        let mounted = mount(disk, NODE, &mut files, Mutation::None);
        assert_eq!(mounted.is_ok(), is_there, "flush {flush}");
        if let Ok(volume) = mounted {
            volume.abandon().memory.into_iter().flatten().for_each(free);
        }
    }
}

/// The model after a power cut: overwrites of lost data are forgotten, a torn block may hold
/// anything until it is written again.
#[test]
fn the_model_adopts_what_a_power_cut_left() {
    let found = |size_bytes, data| oracle::Found {
        name: "a0".into(),
        incarnation: 1,
        size_bytes,
        data,
    };
    let after = |size: u64, data: Vec<(u64, Vec<u8>)>| {
        let mut live = oracle::Live::new(1, false);
        live.shown.sizes.push(size);
        live.shown.versions.insert(0, vec![0, 1]);
        let mut model = oracle::Oracle::default();
        model.files[0].now = Some(live);
        model.adopt(&[found(size, data)]);
        model.files[0].now.as_ref().unwrap().shown.versions.clone()
    };
    assert!(after(0, Vec::new()).is_empty());
    let overwritten: Vec<u8> = (0..9).map(|at| oracle::byte(1, at, 1)).collect();
    assert_eq!(after(9, vec![(0, overwritten)])[&0], [1]);
    let torn: Vec<u8> = (0..9)
        .map(|at| oracle::byte(1, at, u32::from(at < 4)))
        .collect();
    assert_eq!(after(9, vec![(0, torn)])[&0], [oracle::TORN]);
}

/// An append that failed and is retried after later ones completed: what was synced stays, and the
/// size never covers data that was not written.
#[test]
fn a_repeated_append_survives_every_power_cut() {
    const PIECE: usize = 512;
    let images = Rc::new(RefCell::new(Vec::new()));
    let listing = Listing {
        disk: starts::empty(16, PIECE as u64, 24).open(Config::default()),
        images: Rc::clone(&images),
    };
    let device = Faulty::new(listing, []);
    let faults = device.faults();
    let mut table: [straightway_volume::OpenFile; 2] = Default::default();
    let volume = mount(device, NODE, &mut table, Mutation::None).unwrap();
    let file = blocking::run(&volume, volume.create("a", &CreateOptions::default())).unwrap();
    blocking::run(&volume, volume.reserve(file, 8 * PIECE as u64)).unwrap();
    let start = |piece: u8| {
        let data = filled(&[piece; PIECE], PIECE);
        volume.append(file, data, PIECE, u16::from(piece)).unwrap();
    };
    let end = || loop {
        volume.kick();
        if let Some(event) = volume.poll() {
            break event;
        }
    };
    let looked = RefCell::new(0);
    let look = |promised: u64| {
        for medium in images.take() {
            *looked.borrow_mut() += 1;
            let size = whole_pieces(&medium, PIECE);
            assert!(size >= promised, "{size} of {promised} bytes");
        }
    };
    start(1);
    end().result.unwrap();
    blocking::run(&volume, volume.sync(file)).unwrap();
    look(0);
    let second_write = Rule::once(
        On::Kind(CommandKind::Write),
        1,
        Fault::Fail(block::Error::TimedOut),
    );
    faults.add(second_write);
    (2..=4).for_each(start);
    let mut failed = None;
    for _ in 0..3 {
        let event = end();
        match event.result {
            Ok(()) => free(event.buffer.unwrap()),
            Err(_) => failed = event.buffer,
        }
    }
    let committed = blocking::run(&volume, volume.sync(file));
    assert_eq!(committed, Err(Error::AppendFailed));
    look(PIECE as u64);
    volume
        .retry(file, PIECE as u64, failed.unwrap(), 9)
        .unwrap();
    free(end().buffer.unwrap());
    look(PIECE as u64);
    assert_eq!(
        blocking::run(&volume, volume.commit(file)),
        Ok(4 * PIECE as u64)
    );
    look(PIECE as u64);
    assert_eq!(
        blocking::run(&volume, volume.sync(file)),
        Ok(4 * PIECE as u64)
    );
    look(PIECE as u64);
    blocking::run(&volume, volume.close(file)).unwrap();
    volume.abandon().memory.into_iter().flatten().for_each(free);
    look(4 * PIECE as u64);
    assert!(looked.into_inner() > 20);
}

/// The size of the file `a` after a power cut; each piece must be full of its number.
fn whole_pieces(medium: &Medium, piece: usize) -> u64 {
    let disk = medium.open(Config::default());
    let mut table: [straightway_volume::OpenFile; 2] = Default::default();
    let volume = mount(disk.clone(), NODE, &mut table, Mutation::None).unwrap();
    volume.abandon().memory.into_iter().flatten().for_each(free);
    let bytes = disk.current().to_bytes();
    let scan = Scan::new(&bytes).unwrap();
    scan.check_space().unwrap();
    let Some(file) = scan.files.iter().find(|file| file.name == "a") else {
        return 0;
    };
    let data = scan.data(&bytes, file);
    for (number, piece) in (1..).zip(data.chunks(piece)) {
        assert!(piece.iter().all(|byte| *byte == number), "piece {number}");
    }
    file.size_bytes
}
