// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use crate::random::Random;

const MS: u64 = 1_000_000;
const DEPTH: u16 = 4;
const DEADLINE_NS: u64 = 5 * MS;
const COUNT: u64 = 2000;

/// What is played besides a device that takes 80 to 120 µs, each from an arrival on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Played {
    Nothing,
    /// This many operations take this long.
    Slow(u64, u64),
    /// An operation takes this long, and other programs take the processor in turns with the loop.
    SlowWhileBusy(u64),
    /// The thread has no processor for so long.
    NoProcessor(u64),
    /// A page fault takes so long.
    Fault(u64),
    /// Tasks stall for memory.
    Stall(u64),
    /// Others write 100 MB while an operation takes this long.
    Others(u64),
    /// A call takes this long.
    Call(u64),
    /// Each operation takes this long from there on.
    TooSlow(u64),
}

/// Blocks every millisecond, served in their order by four at a time, with what is played from
/// arrival `at` on, and the readings that a watch would take.
fn play(played: Played, at: u64, seed: u64) -> (OpenRun, Schedule, Vec<Reading>) {
    let mut random = Random::derived(seed, &[7]);
    let schedule = Schedule::new(1000.0, COUNT * MS, 0).unwrap();
    let mut free = [0u64; DEPTH as usize];
    let mut run = OpenRun::default();
    let mut total = Reading {
        waited_ns: Some(0),
        major_faults: Some(0),
        memory_stall_ns: Some(0),
        device_bytes: Some(0),
        own_bytes: Some(0),
        ..Reading::default()
    };
    let mut readings = vec![total];
    // When the loop goes on behind what keeps it.
    let mut loop_ns = 0;
    for index in 0..schedule.count() {
        let due_ns = schedule.at(index);
        let mut service_ns = 80_000 + (random.unit() * 40_000.0) as u64;
        let mut kept_ns = 0;
        let add = |of: &mut Option<u64>, by: u64| *of = of.map(|value| value + by);
        // What a calm machine has.
        add(&mut total.waited_ns, (random.unit() * 3_000.0) as u64);
        add(&mut total.own_bytes, 4096);
        add(&mut total.device_bytes, 4096);
        match played {
            Played::Slow(ns, count) if (at..at + count).contains(&index) => service_ns = ns,
            Played::SlowWhileBusy(ns) if index == at => {
                service_ns = ns;
                let begun_ns = due_ns.max(loop_ns);
                for at_ns in (begun_ns..begun_ns + ns).step_by(3_100_000) {
                    add(&mut total.waited_ns, 2 * MS);
                    readings.push(Reading { at_ns, ..total });
                }
            }
            Played::TooSlow(ns) if index >= at => service_ns = ns,
            Played::NoProcessor(ns) if index == at => {
                kept_ns = ns;
                add(&mut total.waited_ns, ns);
            }
            Played::Fault(ns) if index == at => {
                kept_ns = ns;
                add(&mut total.major_faults, 1);
            }
            Played::Stall(ns) if index == at => {
                kept_ns = ns;
                add(&mut total.memory_stall_ns, ns);
            }
            Played::Others(ns) if index == at => {
                service_ns = ns;
                add(&mut total.device_bytes, 100 << 20);
            }
            Played::Call(ns) if index == at => kept_ns = ns,
            _ => {}
        }
        let place = (0..free.len()).min_by_key(|place| free[*place]).unwrap();
        let begun_ns = due_ns.max(free[place]).max(loop_ns);
        loop_ns = begun_ns + kept_ns;
        let ended_ns = begun_ns.max(loop_ns) + service_ns;
        // The loop notices an end only when it runs.
        free[place] = ended_ns;
        run.service_ns.push(ended_ns - begun_ns);
        run.response_ns.push(ended_ns - due_ns);
        run.failed.push(false);
        let is_due = readings
            .last()
            .is_some_and(|last| ended_ns >= last.at_ns + 20 * MS);
        if is_due || ended_ns - due_ns > DEADLINE_NS {
            readings.push(Reading {
                at_ns: ended_ns.max(readings.last().map_or(0, |last| last.at_ns)),
                ..total
            });
        }
    }
    readings.push(Reading {
        at_ns: u64::MAX,
        ..total
    });
    (run, schedule, readings)
}

fn why(played: Played, at: u64, seed: u64) -> Lateness {
    let (run, schedule, readings) = play(played, at, seed);
    explain(&run, &schedule, DEADLINE_NS, DEPTH, (0, &readings))
}

#[test]
fn each_cause_that_is_played_alone_is_named() {
    for seed in 0..20 {
        let at = 100 + 90 * seed;
        for (played, cause) in [
            (Played::Slow(30 * MS, 1), Cause::Device),
            (Played::Slow(60 * MS, 8), Cause::Device),
            (Played::SlowWhileBusy(40 * MS), Cause::Device),
            (Played::NoProcessor(12 * MS), Cause::Processor),
            (Played::Fault(9 * MS), Cause::Memory),
            (Played::Stall(15 * MS), Cause::Memory),
            (Played::Others(40 * MS), Cause::Others),
        ] {
            let why = why(played, at, seed);
            assert!(why.late > 0, "{played:?} {seed}");
            assert_eq!(why.causes[0].cause, cause, "{played:?} {seed}: {why:?}");
            let other = why.causes.iter().find(|count| {
                count.cause != cause && !matches!(count.cause, Cause::Unknown | Cause::Rate)
            });
            assert_eq!(other, None, "{played:?} {seed}: {why:?}");
        }
    }
}

/// The block whose call does not return, and those that are due in it.
#[test]
fn a_loop_that_does_not_submit_is_told_from_a_full_queue() {
    for seed in 0..20 {
        let why = why(Played::Call(30 * MS), 500, seed);
        let named: Vec<Cause> = why.causes.iter().map(|count| count.cause).collect();
        assert!(named.contains(&Cause::Loop), "{seed}: {why:?}");
        assert!(!named.contains(&Cause::Processor) && !named.contains(&Cause::Memory));
    }
}

#[test]
fn nothing_is_named_in_calm_runs() {
    for seed in 0..200 {
        let why = why(Played::Nothing, 0, seed);
        assert_eq!(
            (why.late, &why.causes[..], &why.worst[..]),
            (0, &[][..], &[][..])
        );
        assert!(why.readings > 50 && why.uncounted.is_empty());
    }
}

/// The device may have answered at once, to a thread that did not run.
#[test]
fn what_is_not_counted_is_said_and_makes_the_cause_unknown() {
    let (run, schedule, mut readings) = play(Played::Slow(30 * MS, 1), 500, 1);
    for reading in &mut readings {
        *reading = Reading {
            at_ns: reading.at_ns,
            ..Reading::default()
        };
    }
    let why = explain(&run, &schedule, DEADLINE_NS, DEPTH, (0, &readings));
    assert_eq!(why.uncounted.len(), 4);
    assert!(
        why.causes.iter().all(|count| count.cause == Cause::Unknown),
        "{why:?}"
    );
}

#[test]
fn a_block_behind_a_long_one_has_that_one_s_cause_and_names_it() {
    let why = why(Played::Slow(100 * MS, 4), 500, 3);
    let behind: Vec<u64> = why.worst.iter().filter_map(|late| late.behind).collect();
    assert!(why.causes[0].behind > 20, "{why:?}");
    assert!(
        behind.iter().all(|arrival| (500..504).contains(arrival)),
        "{behind:?}"
    );
    let worst = why.worst[0];
    assert!(worst.response_ns() >= 100 * MS && worst.cause == Cause::Device);
}

/// From some moment on, and again and again.
#[test]
fn a_device_that_is_slow_for_many_blocks_is_told_from_a_rate_that_is_too_high() {
    let why = why(Played::TooSlow(6 * MS), COUNT / 3, 1);
    assert_eq!(why.causes[0].cause, Cause::Rate);
    let (mut run, schedule, readings) = play(Played::Nothing, 0, 1);
    for index in (0..COUNT as usize).filter(|index| index % 8 == 0) {
        (run.service_ns[index], run.response_ns[index]) = (6 * MS, 6 * MS);
    }
    let why = explain(&run, &schedule, DEADLINE_NS, DEPTH, (0, &readings));
    assert_eq!((why.late, why.causes[0].cause), (COUNT / 8, Cause::Device));
    assert_eq!(why.causes.len(), 1);
}

#[test]
fn a_device_that_always_takes_longer_than_the_deadline_is_named() {
    let (mut run, schedule, readings) = play(Played::Nothing, 0, 1);
    run.service_ns.fill(6 * MS);
    run.response_ns.fill(6 * MS);
    let why = explain(&run, &schedule, DEADLINE_NS, 64, (0, &readings));
    assert_eq!((why.late, why.usual_response_ns), (COUNT, None));
    assert_eq!(why.causes[0].cause, Cause::Device);
    assert_eq!(why.causes.len(), 1);
}

/// As in a run that is longer than the memory for readings.
#[test]
fn behind_the_last_reading_nothing_is_named() {
    let (run, schedule, mut readings) = play(Played::Slow(30 * MS, 1), 1500, 1);
    readings.truncate(10);
    let why = explain(&run, &schedule, DEADLINE_NS, DEPTH, (0, &readings));
    assert!(why.late > 0);
    assert!(
        why.causes.iter().all(|count| count.cause == Cause::Unknown),
        "{why:?}"
    );
}

#[test]
fn what_never_started_is_late_and_what_failed_is_not() {
    let (mut run, schedule, readings) = play(Played::Nothing, 0, 1);
    let last = run.response_ns.len() - 1;
    (
        run.response_ns[last],
        run.service_ns[last],
        run.failed[last],
    ) = (90 * MS, 0, true);
    (run.response_ns[last - 1], run.failed[last - 1]) = (90 * MS, true);
    let why = explain(&run, &schedule, DEADLINE_NS, DEPTH, (0, &readings));
    assert_eq!((why.late, why.worst[0].arrival), (1, last as u64));
}
