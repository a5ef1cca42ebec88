// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long seeded runs: random operations, one at a time and two in parallel, with power cuts in
//! between, continuing from one of the images that a cut left.

use std::cell::RefCell;
use std::rc::Rc;

use crash::{Config, Sampling};

use super::ops::Op;
use super::oracle::Oracle;
use super::runner::{self, Manner, Start};
use super::search::{Search, list, mount};
use super::sequences::valid_ops;
use super::starts::NODE;
use super::support::free;
use straightway_volume::OpenFile;

/// Steps between two power cuts.
const STEPS: usize = 12;

/// The next step: one operation, or one on each file in parallel.
fn step(oracle: &Oracle, random: &mut fastrand::Rng) -> Vec<Op> {
    let mut ops = valid_ops(oracle, 2);
    ops.push(Op::Discard);
    if ops.contains(&Op::CreateMany) {
        ops.extend([Op::CreateManyChecked, Op::CreateListed]);
    }
    let first = ops[random.usize(0..ops.len())];
    let file = |op: &Op| (0..2).find(|file| Op::of_file(*file).contains(op));
    let Some(other) = file(&first).map(|file| 1 - file) else {
        return vec![first];
    };
    let partners: Vec<Op> = ops
        .into_iter()
        .filter(|op| file(op) == Some(other) || matches!(op, Op::Reap | Op::Discard))
        .collect();
    match random.choice(partners) {
        Some(second) if random.bool() => vec![first, second],
        _ => vec![first],
    }
}

/// Runs `lives` times, each time from what the previous power cut left. The search keeps counting.
///
/// # Errors
/// The first violation.
pub fn run(
    search: &Rc<RefCell<Search>>,
    start: &Start,
    seed: u64,
    lives: usize,
) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut start = start.clone();
    for life in 0..lives {
        let mut left = random.usize(1..=STEPS);
        let manner = Manner {
            hold_polls: random.u32(0..6),
            ..Manner::new(random.u64(..))
        };
        let mut next = |oracle: &Oracle| {
            left = left.checked_sub(1)?;
            Some(step(oracle, &mut random))
        };
        let end = runner::run_with(search, &start, &mut next, 0, &manner, &[])
            .map_err(|why| format!("seed {seed}, life {life}: {why}"))?;
        // Continue with one of the images that a cut may leave now.
        let sampling = Sampling {
            seed: random.u64(..),
            ..Sampling::default()
        };
        let images: Vec<_> = end.disk.images(&sampling).collect();
        let image = &images[random.usize(0..images.len())];
        let disk = image.open(Config::default());
        let mut files: [OpenFile; 2] = Default::default();
        let mutation = search.borrow().mutation;
        let volume = mount(disk.clone(), 2 * NODE, &mut files, mutation)
            .map_err(|error| format!("seed {seed}, life {life}: mount: {error}"))?;
        let found = list(&volume).map_err(|error| format!("seed {seed}: reading: {error}"));
        volume.abandon().memory.into_iter().flatten().for_each(free);
        let found = found?;
        let mut oracle = search.borrow().oracle.clone();
        oracle
            .check(&found)
            .map_err(|why| format!("seed {seed}, life {life}: {why}"))?;
        oracle.adopt(&found);
        start.oracle = oracle;
        start.medium = disk.current();
        start.prefix.clear();
    }
    Ok(())
}
