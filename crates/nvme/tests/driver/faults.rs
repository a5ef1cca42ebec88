// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fault matrix: whatever the drive does, the driver does not hang, panic, access memory
//! outside its buffers, or lose or duplicate a completion.

use crate::support::{Bench, Ends, Outcome, Queue, config, options};
use block::{Device, Error, Operation, Request, blocking};
use straightway_model::{FaultKind, On, Rule, When};
use straightway_nvme::CompletionMode;

const MODES: [CompletionMode; 3] = [
    CompletionMode::Poll,
    CompletionMode::Interrupt,
    CompletionMode::Hybrid { looks: 4 },
];

/// After the fault is removed and the power cycled the same drive works again, except for what the
/// model keeps: CAP, and a stuck CSTS.RDY.
fn works_again(bench: &Bench, rules: &[Rule]) {
    let stays = |rule: &Rule| {
        matches!(
            rule.kind,
            FaultKind::Capabilities(_) | FaultKind::ReadyStuck(_)
        )
    };
    if rules.iter().any(stays) {
        return;
    }
    bench.model.heal();
    bench.model.power_cut();
    let read = bench.with_queue(options(), |queue| {
        let buffer = bench.memory.allocate(4096).unwrap();
        let outcome = blocking::read(queue, 0, buffer);
        bench.memory.give_back(outcome.buffer).unwrap();
        outcome.result
    });
    assert_eq!(read, Ok(Ok(())), "after {rules:?}");
}

#[test]
fn every_fault_of_the_matrix_is_survived() {
    for fault in straightway_model::fault::all() {
        for (mode, scattered) in MODES.into_iter().zip([false, true, true]) {
            println!("{fault} ({mode:?}, scattered {scattered})");
            let bench = Bench::new(config(), &fault.rules, scattered);
            let outcome = bench.run(mode);
            println!("  {outcome:?}");
            if let Outcome::Ran(ends, _) = outcome {
                let reported = ends.done + ends.status + ends.timed_out + ends.aborted;
                assert_eq!(reported + ends.gone + ends.refused, 64, "{ends:?}");
            }
            works_again(&bench, &fault.rules);
            bench.check_memory();
        }
    }
}

#[test]
fn a_healthy_drive_does_everything() {
    for (mode, scattered) in MODES.into_iter().zip([false, true, false]) {
        let bench = Bench::new(config(), &[], scattered);
        let Outcome::Ran(ends, statistics) = bench.run(mode) else {
            panic!("a healthy drive was refused");
        };
        let done = 64;
        assert_eq!(
            ends,
            Ends {
                done,
                ..Ends::default()
            }
        );
        let quiet = (
            statistics.timeouts,
            statistics.stray_completions,
            statistics.resets,
        );
        assert_eq!(quiet, (0, 0, 0));
    }
}

/// Injects `kind` at the first event, the second, and so on until it no longer occurs.
fn at_each(on: On, kind: FaultKind, most: u64) {
    for n in 1..=most {
        let rule = Rule::new(on, When::Nth(n), kind);
        let bench = Bench::new(config(), &[rule], n % 2 == 0);
        println!("{rule}");
        bench.run(MODES[n as usize % 3]);
        if bench.model.strikes() == 0 {
            return;
        }
        works_again(&bench, &[rule]);
    }
    println!("struck at each of the first {most}");
}

#[test]
fn a_hang_at_each_command() {
    let abortable = false;
    at_each(On::Command, FaultKind::NeverComplete { abortable }, 200);
}

#[test]
fn an_error_at_each_command() {
    let (sct, sc, dnr) = (0, 6, false);
    at_each(On::Command, FaultKind::Status { sct, sc, dnr }, 200);
}

#[test]
fn a_fatal_error_at_each_command() {
    at_each(On::Command, FaultKind::Fatal, 200);
}

#[test]
fn removal_at_each_command_and_register_access() {
    at_each(On::Command, FaultKind::Remove, 200);
    at_each(On::Register, FaultKind::Remove, 600);
}

fn one_flush(queue: &mut Queue<'_>) -> Result<(), Error> {
    let operation = Operation::Flush;
    queue.submit(Request { tag: 0, operation }).unwrap();
    queue.kick();
    loop {
        if let Some(completion) = queue.poll() {
            return completion.result;
        }
    }
}

#[test]
fn every_status_code_reaches_the_caller() {
    for sct in 0..8_u8 {
        for sc in 0..=255_u8 {
            if (sct, sc) == (0, 0) {
                continue;
            }
            for dnr in [false, true] {
                let kind = FaultKind::Status { sct, sc, dnr };
                let rule = Rule::new(On::Io, When::Always, kind);
                let bench = Bench::new(config(), &[rule], false);
                let result = bench.with_queue(options(), one_flush).unwrap();
                let code = u16::from(sct) << 8 | u16::from(sc);
                match result {
                    Err(Error::Nvme { status }) => {
                        assert_eq!((status & 0x7ff, status & 0x4000 != 0), (code, dnr));
                    }
                    // Ended by an abort or a queue's deletion, according to the drive.
                    Err(Error::Aborted) => assert!([7, 8].contains(&code), "{code:#x}"),
                    other => panic!("{code:#x} became {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_hang_is_aborted_then_deleted_then_reset() {
    let hang = |abortable| Rule::new(On::Io, When::Nth(3), FaultKind::NeverComplete { abortable });
    let steps = |rules: &[Rule]| {
        let bench = Bench::new(config(), rules, false);
        let Outcome::Ran(ends, statistics) = bench.run(CompletionMode::Poll) else {
            panic!("the drive was refused");
        };
        assert_eq!(ends.timed_out, 1, "{ends:?}");
        (
            statistics.aborts,
            statistics.queue_deletions,
            statistics.resets,
        )
    };
    assert_eq!(steps(&[hang(true)]), (1, 0, 0));
    assert_eq!(steps(&[hang(false)]), (1, 1, 0));
    let delete_fails = Rule::new(
        On::AdminOpcode(0),
        When::Always,
        FaultKind::Status {
            sct: 0,
            sc: 6,
            dnr: false,
        },
    );
    assert_eq!(steps(&[hang(false), delete_fails]), (1, 0, 1));
}

#[test]
fn the_published_table_is_what_the_driver_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md");
    let published = std::fs::read_to_string(path).unwrap_or_default();
    let found = crate::support::table();
    let differs = published
        .lines()
        .zip(found.lines())
        .find(|(old, new)| old != new);
    let same = published == found;
    assert!(
        same,
        "docs/faults.md is out of date ({differs:?}): run \
         `cargo run -p straightway-nvme --example faults > docs/faults.md`"
    );
}
