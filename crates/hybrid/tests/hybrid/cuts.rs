// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The power is cut at every change that reaches the device: nothing that was synced is lost, and
//! each block holds its synced content or a later one.

use super::support::{BLOCK, FIXED, TestClock, buffer, hybrid, seed};
use block::{Device, Operation, Request};
use crash::{Completions, Config, CrashDisk, Cut, Medium, Sampling};
use fastrand::Rng;
use std::collections::HashSet;

const BLOCKS: u64 = 96;
const SAMPLING: Sampling = Sampling {
    exhaustive_blocks: 3,
    samples: 12,
    tears: 0,
    seed: 0,
};

/// What a block may hold after a cut.
type Allowed = Vec<HashSet<u8>>;

/// Runs a script until the power is cut, and returns what each block may hold. `forgets` breaks the
/// promise of a flush on purpose.
fn script(disk: &CrashDisk, seed: u64, forgets: bool) -> Allowed {
    let mut random = Rng::with_seed(seed);
    let clock = TestClock::default();
    let mut device = hybrid(disk.clone(), &clock, FIXED);
    let mut allowed: Allowed = vec![HashSet::from([0]); BLOCKS as usize];
    let mut newest = vec![0u8; BLOCKS as usize];
    let mut at = 0;
    for step in 1..=60u8 {
        if random.u8(..) < 40 {
            at = random.u64(0..BLOCKS - 12);
        }
        let is_flush = step % 12 == 0;
        let fua = random.u8(..) < 12;
        let most = if random.u8(..) < 30 { 12 } else { 4 };
        let blocks = random.usize(1..=most).min((BLOCKS - at) as usize);
        let operation = if is_flush {
            Operation::Flush
        } else {
            let data = buffer(blocks * BLOCK, step);
            for place in &mut allowed[at as usize..][..blocks] {
                place.insert(step);
            }
            Operation::Write {
                lba: at,
                buffer: data,
                fua,
            }
        };
        if is_flush && forgets {
            device.discard_gathered();
        }
        device.submit(Request { tag: 1, operation }).unwrap();
        device.kick();
        clock.advance(random.u64(0..150));
        let completion = loop {
            if let Some(completion) = device.poll() {
                break completion;
            }
        };
        match (completion.result, is_flush) {
            (Err(_), _) if disk.is_off() => break,
            (result, true) => {
                result.unwrap();
                for (place, newest) in allowed.iter_mut().zip(&newest) {
                    *place = HashSet::from([*newest]);
                }
            }
            (result, false) => {
                result.unwrap();
                let range = at as usize..at as usize + blocks;
                newest[range.clone()].fill(step);
                if fua {
                    allowed[range].fill(HashSet::from([step]));
                }
                at = (at + blocks as u64) % (BLOCKS - 12);
            }
        }
    }
    allowed
}

/// The number of images in which something synced is lost, and the number of images.
fn losses(seed: u64, forgets: bool) -> (u32, u32) {
    let (mut lost, mut images) = (0, 0);
    for (number, cut) in (1..).flat_map(|number| [(number, Cut::During), (number, Cut::After)]) {
        let config = Config {
            completions: Completions::Shuffled(seed),
            hold_polls: 3,
            max_transfer_blocks: 64,
            ..Config::default()
        };
        let disk = CrashDisk::new(Medium::new(9, BLOCKS).unwrap(), config);
        disk.stop_after(number, cut);
        let allowed = script(&disk, seed, forgets);
        if !disk.is_off() {
            return (lost, images);
        }
        for image in disk.images(&SAMPLING).take(24) {
            images += 1;
            let mut stored = [0; BLOCK];
            let is_lost = (0..BLOCKS).any(|lba| {
                image.medium.read(lba, &mut stored).unwrap();
                !stored
                    .iter()
                    .all(|byte| allowed[lba as usize].contains(byte))
            });
            lost += u32::from(is_lost);
        }
    }
    unreachable!("the script ends")
}

#[test]
fn a_cut_at_any_change_loses_nothing_that_was_synced() {
    let first = seed();
    for turn in 0..2 {
        let (lost, images) = losses(first.wrapping_add(turn), false);
        assert!(images > 50, "only {images} images");
        assert_eq!(
            lost,
            0,
            "of {images} images, seed {}",
            first.wrapping_add(turn)
        );
    }
}

#[test]
fn a_flush_that_forgets_what_was_gathered_is_caught() {
    let (lost, images) = losses(7, true);
    assert!(lost > images / 4, "{lost} of {images}");
}
