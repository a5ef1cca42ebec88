// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Litmus tests of the barriers that are between two processors of one system as well: two threads
//! do their part of a protocol at the same time, many times, with its barriers and without. With
//! them the outcome that they forbid must never be seen. Without them it may be, if the processor
//! reorders; then the rounds could have shown it.
//!
//! The other two barriers are between memory and registers, which threads do not have.

use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};
use std::thread;

use straightway_block::barrier;

/// A place in a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Place(AtomicU32);

impl Place {
    fn store(&self, value: u32) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn load(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often the forbidden outcome was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The protocol's name.
    pub name: &'static str,
    /// Rounds in which the forbidden outcome was seen with the barriers, which must be none.
    pub with: u32,
    /// The same without them.
    pub without: u32,
}

/// Spins before a thread lets others run: the second processor may not be running.
const SPINS: u32 = 2000;
/// The longest delay of a side, in turns of a loop.
const DELAYS: u32 = 24;

/// Runs both sides `rounds` times, each round at the same time, from round 1 on; returns what each
/// side saw.
fn lockstep(rounds: u32, sides: [&(dyn Fn(u32) -> u32 + Sync); 2]) -> [Vec<u32>; 2] {
    let at = [Place::default(), Place::default()];
    let run = |side: usize| {
        let (mine, other) = (&at[side].0, &at[1 - side].0);
        let mut seen = Vec::with_capacity(rounds as usize);
        for round in 1..=rounds {
            mine.store(round, Ordering::Release);
            let mut spins = 0;
            while other.load(Ordering::Acquire) < round {
                spins += 1;
                // Not `spin_loop`, which is slow where it is emulated.
                if spins % SPINS == 0 {
                    thread::yield_now();
                }
            }
            // Neither side always begins first: each delay of one meets each of the other.
            for _ in 0..[round % DELAYS, round / DELAYS % DELAYS][side] {
                std::hint::black_box(round);
            }
            seen.push(sides[side](round));
        }
        // The other side waits for this one's next round.
        mine.store(rounds + 1, Ordering::Release);
        seen
    };
    thread::scope(|scope| {
        let second = scope.spawn(|| run(1));
        [run(0), second.join().unwrap_or_default()]
    })
}

fn count(seen: &[Vec<u32>; 2], is_forbidden: impl Fn(u32, u32, u32) -> bool) -> u32 {
    let rounds = seen[0].iter().zip(&seen[1]).zip(1..);
    rounds
        .filter(|((first, second), round)| is_forbidden(**first, **second, *round))
        .count() as u32
}

/// The barrier, or only the compiler's.
#[inline(always)]
fn order<const WITH: bool>(barrier: fn()) {
    if WITH {
        barrier()
    } else {
        compiler_fence(Ordering::SeqCst)
    }
}

/// Both store, then load what the other stores: not both may miss it.
fn store_buffering<const WITH: bool>(rounds: u32) -> u32 {
    let (x, y) = (Place::default(), Place::default());
    let side = |mine: &Place, other: &Place, round| {
        mine.store(round);
        order::<WITH>(barrier::store_then_load);
        other.load()
    };
    let seen = lockstep(
        rounds,
        [&|round| side(&x, &y, round), &|round| side(&y, &x, round)],
    );
    count(&seen, |first, second, round| {
        first < round && second < round
    })
}

/// A flag that is seen means that the data before it is.
fn message_passing<const WITH: bool>(rounds: u32) -> u32 {
    let (data, flag) = (Place::default(), Place::default());
    let seen = lockstep(
        rounds,
        [
            &|round| {
                data.store(round);
                order::<WITH>(barrier::before_index);
                flag.store(round);
                0
            },
            &|round| {
                let found = flag.load();
                order::<WITH>(barrier::after_entry);
                u32::from(found == round && data.load() < round)
            },
        ],
    );
    count(&seen, |_, is_bad, _| is_bad == 1)
}

/// A completion queue entry, whose phase is in its last word, and data in several lines before it.
fn entry<const WITH: bool>(rounds: u32) -> u32 {
    let data: [Place; 4] = Default::default();
    let words: [AtomicU32; 4] = Default::default();
    let seen = lockstep(
        rounds,
        [
            &|round| {
                data.iter().for_each(|place| place.store(round));
                words[0].store(round, Ordering::Relaxed);
                words[2].store(round, Ordering::Relaxed);
                order::<WITH>(barrier::before_index);
                words[3].store(round << 1 | (round & 1), Ordering::Relaxed);
                0
            },
            &|round| {
                // The phase of this round, or of the one before: the other side is at the same
                // round.
                let last = words[3].load(Ordering::Relaxed);
                order::<WITH>(barrier::after_entry);
                let is_old = |place: &Place| place.load() < round;
                let is_new = last & 1 == round & 1;
                let first = words[0].load(Ordering::Relaxed) < round
                    || words[2].load(Ordering::Relaxed) < round;
                u32::from(is_new && (first || data.iter().any(is_old)))
            },
        ],
    );
    count(&seen, |_, is_bad, _| is_bad == 1)
}

/// The shadow doorbell: the host stores its tail and rings only if the drive asked for it; the
/// drive stores the index that it wants to be woken at and sleeps only if the tail is not beyond
/// it. Not both may decide against it.
fn shadow_doorbell<const WITH: bool>(rounds: u32) -> u32 {
    let (shadow, event) = (Place::default(), Place::default());
    // The drive's index of the round before the first.
    event.store(u32::MAX);
    let seen = lockstep(
        rounds,
        [
            &|round| {
                shadow.store(round);
                order::<WITH>(barrier::store_then_load);
                // The tail moves by one, past the index or not (NVMe 1.4, annex B.5).
                let rings = round.wrapping_sub(event.load()).wrapping_sub(1) < 1;
                u32::from(rings)
            },
            &|round| {
                event.store(round - 1);
                order::<WITH>(barrier::store_then_load);
                let sleeps = shadow.load() == round - 1;
                u32::from(sleeps)
            },
        ],
    );
    count(&seen, |rings, sleeps, _| rings == 0 && sleeps == 1)
}

/// Every protocol, with its barriers and without.
pub fn run(rounds: u32) -> [Outcome; 4] {
    let outcome = |name, with: fn(u32) -> u32, without: fn(u32) -> u32| Outcome {
        name,
        with: with(rounds),
        without: without(rounds),
    };
    [
        outcome(
            "store-buffering",
            store_buffering::<true>,
            store_buffering::<false>,
        ),
        outcome(
            "message-passing",
            message_passing::<true>,
            message_passing::<false>,
        ),
        outcome("entry", entry::<true>, entry::<false>),
        outcome(
            "shadow-doorbell",
            shadow_doorbell::<true>,
            shadow_doorbell::<false>,
        ),
    ]
}
