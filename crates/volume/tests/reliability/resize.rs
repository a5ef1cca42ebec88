// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The power is cut everywhere while a volume is made longer and shorter.

use std::cell::RefCell;
use std::rc::Rc;

use crash::Config;
use straightway_volume::FormatOptions;

use crate::harness::ops::Op;
use crate::harness::oracle::Oracle;
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Search};
use crate::harness::starts::{self, NODE};
use crate::harness::support::{buffer, free};

/// Nodes, units and blocks; a group has 1,024 units, and the first unit is at 546 of a volume with
/// one bitmap.
const UNIT: u64 = NODE as u64;
/// Where the device ends: the fourth group has units.
const DEVICE_UNITS: u64 = 3700;

/// A volume of so many units, tables included, on a longer device.
pub fn short(name: &'static str, units: u64) -> Start {
    let blank = starts::empty(16, UNIT, DEVICE_UNITS);
    let mut disk = blank.open(Config::default());
    let options = FormatOptions {
        volume_bytes: Some(units * UNIT),
        unit_bytes: Some(UNIT),
        node_bytes: Some(NODE as u32),
        slots: Some(16),
        checksums: true,
        uuid: [9; 16],
        ..FormatOptions::default()
    };
    let (shape, memory) = straightway_volume::format(&mut disk, buffer(1 << 14), &options);
    free(memory.unwrap());
    shape.unwrap();
    Start {
        name,
        medium: disk.current(),
        oracle: Oracle::default(),
        prefix: Vec::new(),
    }
}

pub const fn to(units: u64) -> Op {
    Op::Resize(units * UNIT)
}

/// Longer within a group, by one with its own bitmap, by two; shorter into a group, to its end, and
/// back to the first size; with a file that is open all the time, and one in the last group.
pub fn lives() -> Vec<(Start, Vec<Op>)> {
    use Op::*;
    // A volume whose tables have a bitmap for a group without a unit.
    let spare = || short("a group without units", 1200);
    let one = || short("one group", 900);
    vec![
        (one(), vec![to(1000), CreateReserved(0), to(600), to(900)]),
        (
            one(),
            vec![
                CreateReserved(0),
                Append(0),
                to(1700),
                CreateReserved(1),
                Append(1),
                Sync(0),
                to(DEVICE_UNITS),
                Remount,
                to(900),
                Remove(1),
                Reap,
                to(900),
            ],
        ),
        (
            one(),
            vec![to(1570), to(1600), to(1570), CreateMany, to(3000), to(1000)],
        ),
        (
            spare(),
            vec![CreateMany, to(1300), to(1800), Remove(0), to(700), to(2000)],
        ),
        (
            short("three groups", 3000),
            vec![CreateMany, to(900), Remount, to(2000), to(3000), Remove(1)],
        ),
    ]
}

#[test]
fn every_power_cut_leaves_the_old_or_the_new_size() {
    let search = Rc::new(RefCell::new(Search::new(Depth::default())));
    for (start, ops) in lives() {
        let steps: Vec<Vec<Op>> = ops.iter().map(|op| vec![*op]).collect();
        for seed in 0..2 {
            let done = runner::run(&search, &start, &steps, 0, &Manner::new(seed));
            done.map(drop).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    let total = search.borrow().total();
    println!("{total} crash states");
    assert!(total > 1000, "{total} crash states");
}
