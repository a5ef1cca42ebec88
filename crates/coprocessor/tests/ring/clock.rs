// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading a timer on a bus, especially that of an emulated machine, costs more than the rest of an
//! iteration of the main loop: it is read only when something has to be timed.
use std::cell::Cell;

use crate::support::{Raw, disk, grants, window};
use block::{Clock, Device};
use straightway_coprocessor::layout::client;
use straightway_coprocessor::{Drive, Opcode, RingCommand, Service};

/// Counts how often it is read; a microsecond passes with each.
#[derive(Default)]
struct Counted(Cell<u64>);

impl Clock for Counted {
    fn ticks(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    fn ticks_per_second(&self) -> u64 {
        1_000_000
    }
}

const ROUNDS: u64 = 6400;

/// Counts reads of the clock in a number of idle iterations.
fn reads_while_idle(service: &mut Service, disk: &mut impl Device, clock: &Counted) -> u64 {
    let before = clock.0.get();
    for _ in 0..ROUNDS {
        assert!(!service.step(disk, clock));
    }
    clock.0.get() - before
}

#[test]
fn the_clock_is_read_for_what_is_timed_alone() {
    let (clock, window, mut disk) = (Counted::default(), window(), disk());
    Service::announce(&window);
    let (grants, geometry) = (grants(&disk), *disk.geometry());
    let service = Service::new(&window, geometry, &Drive::default(), grants, &clock);
    let mut service = service.unwrap();
    assert_eq!(reads_while_idle(&mut service, &mut disk, &clock), 0);

    let mut raw = Raw::new(window, 0);
    raw.attach(1, 2);
    while raw.word(client::ACCEPTED) != 1 {
        service.step(&mut disk, &clock);
    }
    assert_eq!(reads_while_idle(&mut service, &mut disk, &clock), 0);

    // Read once for all the commands of a doorbell.
    let before = clock.0.get();
    for _ in 0..8 {
        raw.submit(RingCommand::new(Opcode::Flush).encode());
    }
    while service.tally() != (1, 8) {
        service.step(&mut disk, &clock);
    }
    assert_eq!(clock.0.get() - before, 1);

    // A lease is checked occasionally.
    raw.set(client::ATTACH, 0);
    while raw.word(client::ACCEPTED) != 0 {
        service.step(&mut disk, &clock);
    }
    raw.set(client::LEASE_MS, 60_000);
    raw.attach(2, 2);
    while raw.word(client::ACCEPTED) != 2 {
        service.step(&mut disk, &clock);
    }
    let reads = reads_while_idle(&mut service, &mut disk, &clock);
    assert_eq!(reads, ROUNDS / 64);
}
