// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ten thousand recorders that lose one target at the same moment, with what they record: the
//! bytes and the buffers of `docs/fleet.md`. The pauses are the product's; recorders and target are
//! queues.
#![allow(clippy::unwrap_used, clippy::panic)]

use fabric::Backoff;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const HOSTS: u64 = 10_000;
const RECONNECT_US: u64 = 120_000_000;
/// When the target goes away, and for how long.
const LOSS_US: u64 = 2_000_000;
const AWAY_US: u64 = 20_000_000;
/// The wait for the end of a lost association (three timeouts of 5 s and a second).
const FENCE_US: u64 = 16_000_000;
/// What the target needs for an association.
const ACCEPT_US: u64 = 1_000;
const BACKLOG: u64 = 4_096;
const LONGEST_PAUSE_US: u64 = 4_000_000;
/// A block comes to each recorder in this time; the target stores twice as many as all bring.
const BLOCK_US: u64 = 1_000_000;
const STORE_US: u64 = BLOCK_US / HOSTS / 2;
/// Requests of a host in flight.
const DEPTH: usize = 8;
/// Blocks that a recorder gets.
const BLOCKS: u64 = 90;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A block comes to a recorder.
    Block,
    /// The target stores the first block of its queue.
    Stored,
    /// A host asks for an association.
    Ask,
    /// It may write.
    Back,
    /// The target goes away.
    Loss,
}

#[derive(Default)]
struct Recorder {
    /// The numbers of the blocks that wait; the first of them are in flight.
    waiting: VecDeque<u64>,
    in_flight: usize,
    is_back: bool,
    came: u64,
    stored: u64,
    lost: u64,
    /// The number of the next block that may be stored: they are stored in order.
    next: u64,
    peak: usize,
}

#[derive(Debug, Default)]
struct Seen {
    stored: u64,
    lost: u64,
    /// Recorders that lost something.
    losers: usize,
    /// The most blocks that waited in one recorder, and requests at the target.
    peak: usize,
    at_target: usize,
    /// When the last host was back, and when no recorder had more than it has without an outage.
    last_back_us: u64,
    calm_us: u64,
}

struct Fleet {
    recorders: Vec<Recorder>,
    due: BinaryHeap<Reverse<(u64, What, usize)>>,
    /// Requests that the target has, in their order.
    queue: VecDeque<usize>,
    is_storing: bool,
    accepting_until_us: u64,
    seen: Seen,
}

impl Fleet {
    /// Sends what may be in flight.
    fn send(&mut self, now: u64, host: usize) {
        let one = &mut self.recorders[host];
        while one.is_back && one.in_flight < one.waiting.len().min(DEPTH) {
            one.in_flight += 1;
            self.queue.push_back(host);
        }
        self.seen.at_target = self.seen.at_target.max(self.queue.len());
        if !self.is_storing && !self.queue.is_empty() {
            self.is_storing = true;
            self.due.push(Reverse((now + STORE_US, What::Stored, 0)));
        }
    }

    fn stored(&mut self, now: u64) {
        self.is_storing = false;
        // The target may have gone away since.
        let Some(host) = self.queue.pop_front() else {
            return;
        };
        let one = &mut self.recorders[host];
        let number = one.waiting.pop_front().unwrap();
        assert!(
            number >= one.next,
            "block {number} of {host} is stored twice"
        );
        one.next = number + 1;
        one.in_flight -= 1;
        one.stored += 1;
        if one.waiting.len() > DEPTH {
            self.seen.calm_us = now;
        }
        self.send(now, host);
    }

    fn lose(&mut self, pause: &mut impl FnMut(usize) -> u64) {
        // What was in flight is written again.
        self.queue.clear();
        for (host, one) in self.recorders.iter_mut().enumerate() {
            (one.is_back, one.in_flight) = (false, 0);
            let at = LOSS_US + pause(host);
            self.due.push(Reverse((at, What::Ask, host)));
        }
    }

    fn ask(&mut self, now: u64, host: usize, pause: &mut impl FnMut(usize) -> u64) {
        assert!(now < RECONNECT_US, "host {host} gave up");
        let waiting = self.accepting_until_us.saturating_sub(now) / ACCEPT_US;
        if now < LOSS_US + AWAY_US || waiting >= BACKLOG {
            let at = now + pause(host);
            self.due.push(Reverse((at, What::Ask, host)));
            return;
        }
        self.accepting_until_us = self.accepting_until_us.max(now) + ACCEPT_US;
        let back_us = self.accepting_until_us.max(LOSS_US + FENCE_US);
        self.seen.last_back_us = back_us;
        self.due.push(Reverse((back_us, What::Back, host)));
    }
}

/// All recorders, with this number of buffers each, until everything that they have is stored.
fn fleet(buffers: usize, mut pause: impl FnMut(usize) -> u64) -> Seen {
    let mut fleet = Fleet {
        recorders: (0..HOSTS).map(|_| Recorder::default()).collect(),
        due: BinaryHeap::new(),
        queue: VecDeque::new(),
        is_storing: false,
        accepting_until_us: 0,
        seen: Seen::default(),
    };
    for (host, one) in (0..).zip(&mut fleet.recorders) {
        one.is_back = true;
        let phase_us = host as u64 * BLOCK_US / HOSTS;
        fleet.due.push(Reverse((phase_us, What::Block, host)));
    }
    fleet.due.push(Reverse((LOSS_US, What::Loss, 0)));
    while let Some(Reverse((now, what, host))) = fleet.due.pop() {
        match what {
            What::Block => {
                let one = &mut fleet.recorders[host];
                if one.waiting.len() < buffers {
                    one.waiting.push_back(one.came);
                } else {
                    one.lost += 1;
                }
                one.came += 1;
                one.peak = one.peak.max(one.waiting.len());
                if one.came < BLOCKS {
                    fleet.due.push(Reverse((now + BLOCK_US, What::Block, host)));
                }
                fleet.send(now, host);
            }
            What::Stored => fleet.stored(now),
            What::Ask => fleet.ask(now, host, &mut pause),
            What::Back => {
                fleet.recorders[host].is_back = true;
                fleet.send(now, host);
            }
            What::Loss => fleet.lose(&mut pause),
        }
    }
    let mut seen = fleet.seen;
    for one in &fleet.recorders {
        assert!(one.waiting.is_empty(), "something was not stored");
        assert_eq!(one.stored + one.lost, BLOCKS);
        seen.stored += one.stored;
        seen.lost += one.lost;
        seen.losers += usize::from(one.lost > 0);
        seen.peak = seen.peak.max(one.peak);
    }
    seen
}

#[test]
fn a_fleet_s_recorders_store_every_block_with_the_buffers_of_the_page() {
    let mut hosts: Vec<_> = (0..u128::from(HOSTS))
        .map(|host| Backoff::new(&host.to_le_bytes(), 1))
        .collect();
    let mut pause = |host: usize| hosts[host].next_us(RECONNECT_US);
    let longest_us = AWAY_US + HOSTS * ACCEPT_US + LONGEST_PAUSE_US;
    let buffers = longest_us.div_ceil(BLOCK_US) as usize;
    let seen = fleet(buffers, &mut pause);
    println!("{buffers} buffers: {seen:?}");
    assert_eq!((seen.stored, seen.lost), (HOSTS * BLOCKS, 0), "{seen:?}");
    assert!(seen.at_target <= HOSTS as usize * DEPTH, "{seen:?}");
    assert!(seen.last_back_us <= LOSS_US + longest_us, "{seen:?}");
    // The target stores twice what comes: it needs as long again for what has waited.
    assert!(seen.calm_us <= LOSS_US + 2 * longest_us, "{seen:?}");

    // Buffers for the outage alone are too few for those that are back last, and each block that
    // is missing is counted.
    let few = (AWAY_US / BLOCK_US) as usize;
    let seen = fleet(few, &mut pause);
    println!("{few} buffers: {seen:?}");
    assert!(
        seen.losers > HOSTS as usize / 2 && seen.lost > 0,
        "{seen:?}"
    );
}
