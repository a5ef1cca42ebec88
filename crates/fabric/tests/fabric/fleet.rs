// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ten thousand hosts that lose one target at the same moment: how often they ask while it is away,
//! and when the last of them has it again. The numbers of `docs/fleet.md`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use straightway_fabric::Backoff;

const HOSTS: usize = 10_000;
const RECONNECT_US: u64 = 120_000_000;
const AWAY_US: u64 = 20_000_000;
/// What the target needs for an association, and how many wait for it at most; the next connection
/// is refused (`listen(2)`, `net.core.somaxconn`).
const ACCEPT_US: u64 = 1_000;
const BACKLOG: u64 = 4_096;
const SLOT_US: u64 = 100_000;

/// What a fleet did.
#[derive(Debug)]
struct Seen {
    attempts: usize,
    /// The most attempts in a slot of time, in the first second and once the pauses have grown.
    first_second: usize,
    busiest: usize,
    last_us: u64,
}

/// All hosts from the loss to the last association; `pause` gives how long a host waits before its
/// next attempt.
fn fleet(mut pause: impl FnMut(usize) -> u64) -> Seen {
    let mut due: BinaryHeap<_> = (0..HOSTS)
        .map(|host| Reverse((pause(host), host)))
        .collect();
    let mut slots = vec![0_usize; (RECONNECT_US / SLOT_US) as usize];
    // Until when the target makes the associations of those that wait.
    let mut busy_until_us = AWAY_US;
    let mut last_us = 0;
    while let Some(Reverse((now_us, host))) = due.pop() {
        assert!(now_us < RECONNECT_US, "host {host} gave up");
        slots[(now_us / SLOT_US) as usize] += 1;
        let is_refused =
            now_us < AWAY_US || busy_until_us.saturating_sub(now_us) / ACCEPT_US >= BACKLOG;
        if is_refused {
            due.push(Reverse((now_us + pause(host), host)));
        } else {
            busy_until_us = busy_until_us.max(now_us) + ACCEPT_US;
            last_us = busy_until_us;
        }
    }
    Seen {
        attempts: slots.iter().sum(),
        first_second: slots[..10].iter().copied().max().unwrap_or_default(),
        busiest: slots[80..].iter().copied().max().unwrap_or_default(),
        last_us,
    }
}

#[test]
fn a_fleet_comes_back_without_a_storm_and_every_host_does() {
    // One id for each machine, and the same clock.
    let mut hosts: Vec<_> = (0..HOSTS as u128)
        .map(|host| Backoff::new(&host.to_le_bytes(), 1))
        .collect();
    let seen = fleet(|host| hosts[host].next_us(RECONNECT_US));
    println!("{seen:?}");
    // On average 10,000 / 3 s, and no wave.
    let even = HOSTS * SLOT_US as usize / 3_000_000;
    assert!(seen.busiest <= 2 * even, "{seen:?}");
    assert!(seen.first_second <= HOSTS, "{seen:?}");
    // What the target needs for all, and the longest pause.
    let least_us = AWAY_US + HOSTS as u64 * ACCEPT_US;
    assert!(seen.last_us <= least_us + 4_000_000, "{seen:?}");

    // What it is measured against: a pause of 250 ms keeps the hosts together.
    let fixed = fleet(|_| 250_000);
    println!("{fixed:?}");
    assert!(
        fixed.busiest >= HOSTS / 2 && fixed.attempts > 5 * seen.attempts,
        "{fixed:?}"
    );
}
