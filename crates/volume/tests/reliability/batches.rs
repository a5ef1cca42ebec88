// SPDX-License-Identifier: Apache-2.0 OR MIT
//! New files in a list: wherever the power is cut, each is there, whole, or not at all, and no unit
//! is lost.

use std::cell::RefCell;
use std::rc::Rc;

use crash::{Config, CrashDisk, Sampling};
use straightway_volume::{NewFile, OpenFile, blocking};

use crate::harness::independent::{Scan, listed};
use crate::harness::ops::Op;
use crate::harness::oracle::Oracle;
use crate::harness::probe::{Hook, Probe};
use crate::harness::runner::{self, Manner};
use crate::harness::search::{Depth, Mutation, Search, mount};
use crate::harness::sequences::valid_ops;
use crate::harness::starts::{self, NODE, Start};
use crate::harness::support::free;

/// One operation, the files in a list, and one more, from each start: all that may come before and
/// after.
#[test]
fn a_list_of_new_files_survives_every_power_cut_amid_all_operations() {
    let blank = starts::empty(16, 512, 24);
    let empty = starts::after("nothing there", &blank, &Oracle::default(), &[]);
    // The last one has a file whose map grows by leaves.
    let (medium, oracle) = starts::fragmented(512, 7);
    let full = Start {
        name: "a full slot",
        medium,
        oracle,
        prefix: vec![Op::Open(0)],
    };
    let mut total = 0;
    for start in [empty, starts::crowded(), full] {
        let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
        let run = |steps: &[Op], active_from: usize| {
            let all: Vec<Vec<Op>> = steps.iter().map(|op| vec![*op]).collect();
            let manner = Manner::new(steps.len() as u64);
            runner::run(&search, &start, &all, active_from, &manner)
                .unwrap_or_else(|why| panic!("{why}"));
            let mut ops = valid_ops(&search.borrow().oracle, 2);
            if ops.contains(&Op::CreateMany) {
                ops.push(Op::CreateListed);
            }
            ops
        };
        for before in run(&[], usize::MAX) {
            if !run(&[before], usize::MAX).contains(&Op::CreateListed) {
                continue;
            }
            for after in run(&[before, Op::CreateListed], 1) {
                run(&[before, Op::CreateListed, after], 2);
            }
        }
        total += search.borrow().total();
        println!("{}: {} crash states", start.name, search.borrow().total());
    }
    assert!(total > 20_000, "{total}");
}

/// The same of files that are removed in a list: what is before it leaves reservations, copies that
/// differ, or another record, and what is after it takes the slots and units again.
#[test]
fn a_list_of_removed_files_survives_every_power_cut_amid_all_operations() {
    let blank = starts::empty(16, 512, 24);
    let empty = starts::after("nothing there", &blank, &Oracle::default(), &[]);
    let mut total = 0;
    for (start, prefix) in [
        (empty.clone(), vec![Op::CreateMany]),
        (empty, vec![Op::CreateListed, Op::Rename(0)]),
        (starts::crowded(), vec![Op::CreateManyChecked]),
    ] {
        let search = Rc::new(RefCell::new(Search::new(Depth::quick())));
        let run = |steps: &[Op], active_from: usize| {
            let all: Vec<Vec<Op>> = prefix.iter().chain(steps).map(|op| vec![*op]).collect();
            let active_from = active_from.saturating_add(prefix.len());
            let manner = Manner::new(steps.len() as u64);
            runner::run(&search, &start, &all, active_from, &manner)
                .unwrap_or_else(|why| panic!("{why}"));
            valid_ops(&search.borrow().oracle, 2)
        };
        let mut all = vec![vec![Op::RemoveListed]];
        for before in run(&[], usize::MAX) {
            for second in run(&[before], usize::MAX) {
                let steps = [before, second];
                if before == Op::RemoveListed {
                    run(&steps, 0);
                } else if second == Op::RemoveListed {
                    all.push(steps.to_vec());
                } else if run(&steps, usize::MAX).contains(&Op::RemoveListed) {
                    all.push([&steps[..], &[Op::RemoveListed]].concat());
                }
            }
        }
        for steps in all {
            for after in run(&steps, steps.len() - 1) {
                run(&[&steps[..], &[after]].concat(), steps.len());
            }
        }
        total += search.borrow().total();
        println!("{}: {} crash states", start.name, search.borrow().total());
    }
    assert!(total > 20_000, "{total}");
}

/// What the page says of a list, without the library's code: amid an operation it names the slots
/// of all of its files, and only those that recovery keeps have one.
#[test]
fn the_list_on_the_device_is_the_document_s() {
    let media = Rc::new(RefCell::new(Vec::new()));
    let collect = Rc::clone(&media);
    let hook: Hook = Rc::new(RefCell::new(move |disk: &CrashDisk| {
        let sampling = Sampling {
            samples: 4,
            ..Sampling::default()
        };
        let images = disk.images(&sampling).take(6);
        collect
            .borrow_mut()
            .extend(images.map(|image| image.medium));
    }));
    let disk = starts::empty(128, 512, 200).open(Config::default());
    let mut files: [OpenFile; 1] = Default::default();
    let volume = mount(
        Probe::new(disk.clone(), Some(hook)),
        NODE,
        &mut files,
        Mutation::None,
    );
    let volume = volume.unwrap();
    // More than a node of 256 bytes lists.
    let names: Vec<String> = (0..60).map(|number| format!("file {number}")).collect();
    let new = |name| NewFile {
        name,
        data: &b"0123456789"[..],
        mtime_ns: 0,
        app_tag: 0,
    };
    let all: Vec<NewFile<'_>> = names.iter().map(|name| new(name)).collect();
    let made = blocking::run(&volume, volume.create_batch::<64>(&all, false)).unwrap();
    assert_eq!(made.files, 60);
    volume.abandon().memory.into_iter().flatten().for_each(free);
    let (mut with_list, mut without, mut partly) = (0, 0, 0);
    for medium in media.take() {
        let slots = listed(&medium.to_bytes()).unwrap();
        let disk = medium.open(Config::default());
        let mut files: [OpenFile; 1] = Default::default();
        let volume = mount(disk.clone(), NODE, &mut files, Mutation::None).unwrap();
        volume.abandon().memory.into_iter().flatten().for_each(free);
        let bytes = disk.current().to_bytes();
        assert_eq!(listed(&bytes), Ok(None), "the record is removed");
        let scan = Scan::new(&bytes).unwrap();
        scan.check_space().unwrap();
        let kept = scan.files.len();
        match slots {
            Some(slots) => {
                let is_listed = |slot| slots.contains(&(slot as u32));
                assert!(scan.files.iter().all(|file| is_listed(file.slot)));
                assert!(slots.is_empty() || slots.len() == 60);
                with_list += usize::from(!slots.is_empty());
                partly += usize::from((1..60).contains(&kept));
            }
            None => {
                assert!(kept == 0 || kept == 60, "{kept} files");
                without += 1;
            }
        }
    }
    println!(
        "{with_list} images with the list, {without} without; {partly} with some of the files"
    );
    assert!(with_list > 0 && without > 0 && partly > 0);
}
