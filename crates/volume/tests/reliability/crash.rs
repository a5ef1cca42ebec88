//! The power is cut everywhere: every sequence of up to three operations over two files, then long
//! seeded runs, one operation at a time and two at once.

use std::cell::RefCell;
use std::rc::Rc;

use block::{Device, Operation, Refused, Request};
use crash::{Config, CrashDisk, Medium, Sampling};
use volume::{Error, FormatOptions};

use crate::harness::independent::Scan;
use crate::harness::search::{Depth, Mutation, Search, mount};
use crate::harness::sequences::{self, Width};
use crate::harness::starts::{self, NODE};
use crate::harness::support::{buffer, free};
use crate::harness::{long, oracle, seed};

#[test]
fn every_sequence_of_three_operations_survives_every_power_cut() {
    let counted = sequences::every(3, Width::Quick).unwrap_or_else(|why| panic!("{why}"));
    println!("{counted}");
    assert!(counted.total() >= 250_000, "{counted}");
}

#[test]
fn long_runs_survive_every_power_cut() {
    let seed = seed("long_runs_survive_every_power_cut");
    let blank = starts::empty(16, 512, 40);
    let start = starts::after("nothing there", &blank, &oracle::Oracle::default(), &[]);
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    long::run(&search, &start, seed, 60).unwrap_or_else(|why| panic!("{why}"));
    let search = search.borrow();
    println!("long runs: {} crash states", search.total());
    assert!(search.total() > 10_000);
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

/// A format that is cut short leaves the old volume whole, none, or the new one whole.
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
    let (shape, memory) = volume::format(&mut device, buffer(1 << 11), &options);
    free(memory.unwrap());
    shape.unwrap();
    let (mut none, mut before, mut after) = (0, 0, 0);
    for medium in images.take() {
        let disk = medium.open(Config::default());
        let mut files = Default::default();
        let files: &mut [volume::OpenFile; 2] = &mut files;
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
