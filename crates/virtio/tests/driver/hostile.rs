// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drivers that put anything into their tables and rings: the disk outside of well-formed writes
//! stays as it is, and no buffer is lost.

use crate::driver::{
    AVAILABLE, DATA, DISK_BYTES, Driver, ENTRIES, MEMORY_BYTES, TABLE, content, head,
};
use fastrand::Rng;

/// A word that is likely to be at a border.
fn word(random: &mut Rng) -> u64 {
    match random.u8(..8) {
        0 => 0,
        1 => u64::MAX - random.u64(..32),
        2 => MEMORY_BYTES - random.u64(..32),
        3 => random.u64(..),
        4 => TABLE + random.u64(..256),
        5 => DATA,
        _ => random.u64(..MEMORY_BYTES),
    }
}

/// A descriptor table of 16 entries, or one behind a descriptor.
fn fill_table(driver: &Driver, random: &mut Rng, at: u64) {
    for index in 0..u64::from(ENTRIES) {
        let len = match random.u8(..6) {
            0 => random.u32(..),
            1 => 16,
            2 => 1,
            3 => 512,
            _ => random.u32(..8192),
        };
        let flags = random.u16(..8);
        let next = random.u16(..ENTRIES + 2);
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&word(random).to_le_bytes());
        entry[8..12].copy_from_slice(&len.to_le_bytes());
        entry[12..14].copy_from_slice(&flags.to_le_bytes());
        entry[14..].copy_from_slice(&next.to_le_bytes());
        driver.store(at + index * 16, &entry);
    }
}

fn session(random: &mut Rng, write: bool) -> (u64, bool) {
    let mut driver = Driver::new(write);
    let mut turns = 0;
    let is_broken = loop {
        if random.u8(..4) > 0 {
            fill_table(&driver, random, TABLE);
        }
        let table = DATA + random.u64(..4) * 64;
        fill_table(&driver, random, table);
        // Something that looks like a request is where descriptors often lead.
        driver.store(
            DATA,
            &head(random.u32(..14), random.u64(..DISK_BYTES / 512 + 4)),
        );
        for entry in 0..u64::from(ENTRIES) {
            let head = random.u16(..ENTRIES + 1);
            driver.store(AVAILABLE + 4 + entry * 2, &head.to_le_bytes());
        }
        let index = match random.u8(..8) {
            0 => random.u16(..),
            _ => (turns as u16).wrapping_add(random.u16(..ENTRIES)),
        };
        driver.store(AVAILABLE + 2, &index.to_le_bytes());
        if driver.run().is_err() {
            break true;
        }
        turns += 1;
        if turns == 20 {
            break false;
        }
    };
    if !write {
        assert!(driver.disk() == content());
    }
    driver.end();
    (turns, is_broken)
}

#[test]
fn anything_in_the_rings_ends_a_session_or_a_request() {
    let seed = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    println!("STRAIGHTWAY_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let (mut broken, mut turns) = (0, 0);
    for number in 0..200 {
        let (more, is_broken) = session(&mut random, number % 2 == 0);
        turns += more;
        broken += u32::from(is_broken);
    }
    assert!(broken > 0 && turns > 0, "{broken} broken, {turns} turns");
}

#[test]
fn a_request_that_changes_at_random_has_a_status_or_ends_the_session() {
    let seed = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = seed.map_or_else(|| fastrand::u64(..), |text| text.parse().unwrap());
    println!("STRAIGHTWAY_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let mut answered = 0;
    for _ in 0..200 {
        let mut driver = Driver::new(true);
        let parts = [crate::Part::writable(DATA, 1024)];
        let chain = driver.request(&head(random.u32(..2), random.u64(..64)), &parts);
        // One bit of its descriptors, or of its head.
        let at = if random.bool() {
            TABLE + random.u64(..48)
        } else {
            0x4000 + random.u64(..16)
        };
        let byte = driver.load(at, 1)[0] ^ 1 << random.u8(..8);
        driver.store(at, &[byte]);
        if driver.run().is_ok() {
            answered += u32::from(driver.used(chain).is_some());
        }
        driver.end();
    }
    assert!(answered > 0);
}
