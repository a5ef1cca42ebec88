// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model checker for the pairs of `block::barrier` and for the doorbell gate of `nvme`: every
//! execution of each protocol on a processor that reorders whatever it may, then the same with each
//! barrier left out, which must find a bad execution.
//!
//! It checks the protocols as they are written below, not the compiled code. Memory is multi-copy
//! atomic, as Arm's and RISC-V's is: an access happens at one moment, and a thread's accesses
//! happen in any order that its barriers, its branches and accesses to the same place leave open.

use std::collections::HashSet;

type Place = usize;
type Register = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Write(Place, u8),
    Read(Place, Register),
    /// Orders earlier reads (bit 0) and writes (bit 1) before later ones.
    Barrier(u8, u8),
}
use Action::{Barrier, Read, Write};

/// An action, and the register and value that the branch before it needs.
type Step = (Action, Option<(Register, u8)>);

const fn always(action: Action) -> Step {
    (action, None)
}

const fn when(register: Register, value: u8, action: Action) -> Step {
    (action, Some((register, value)))
}

const AFTER_ENTRY: Step = always(Barrier(1, 3));
const BEFORE_INDEX: Step = always(Barrier(3, 2));
const STORE_THEN_LOAD: Step = always(Barrier(3, 3));

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    done: [u32; 2],
    memory: [u8; 4],
    registers: [u8; 4],
}

struct Protocol {
    threads: [Vec<Step>; 2],
    /// Whether a finished execution is bad.
    is_bad: fn(&State) -> bool,
}

/// The kind (a bit of a barrier) and the place of an access.
fn access(action: Action) -> (u8, Option<Place>) {
    match action {
        Read(place, _) => (1, Some(place)),
        Write(place, _) => (2, Some(place)),
        Barrier(..) => (0, None),
    }
}

/// Whether step `late` may happen before step `early`, which precedes it.
fn may_pass(thread: &[Step], early: usize, late: usize) -> bool {
    let ((first, _), (second, guard)) = (thread[early], thread[late]);
    let ((first_kind, first_place), (second_kind, second_place)) = (access(first), access(second));
    // A write waits for its branch; a read may be speculated.
    let is_decided_here =
        matches!((first, guard), (Read(_, read), Some((needed, _))) if read == needed);
    if first_place == second_place || is_decided_here && second_kind == 2 {
        return false;
    }
    thread[early + 1..late].iter().all(|(step, _)| match step {
        Barrier(before, after) => before & first_kind == 0 || after & second_kind == 0,
        _ => true,
    })
}

/// How many final states are bad, over all executions.
fn bad_ends(protocol: &Protocol) -> usize {
    let start = State {
        done: [0; 2],
        memory: [0; 4],
        registers: [0; 4],
    };
    let (mut seen, mut open, mut bad) = (HashSet::new(), vec![start], 0);
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let mut is_end = true;
        for (number, thread) in protocol.threads.iter().enumerate() {
            let is_left = |step: &usize| {
                let is_barrier = matches!(thread[*step].0, Barrier(..));
                !is_barrier && state.done[number] >> *step & 1 == 0
            };
            for at in (0..thread.len()).filter(is_left) {
                is_end = false;
                if (0..at)
                    .filter(is_left)
                    .any(|early| !may_pass(thread, early, at))
                {
                    continue;
                }
                let mut next = state.clone();
                next.done[number] |= 1 << at;
                let (action, guard) = thread[at];
                let is_taken =
                    guard.is_none_or(|(register, value)| state.registers[register] == value);
                match action {
                    Write(place, value) if is_taken => next.memory[place] = value,
                    // Counts only if the branch is taken in the end: `is_bad` asks for that.
                    Read(place, register) => next.registers[register] = state.memory[place],
                    _ => {}
                }
                open.push(next);
            }
        }
        bad += usize::from(is_end && (protocol.is_bad)(&state));
    }
    bad
}

/// The protocol holds, and does not without any one of its barriers.
fn check(protocol: &Protocol, barriers: usize) {
    assert_eq!(bad_ends(protocol), 0);
    let mut omitted = 0;
    for number in 0..2 {
        for at in 0..protocol.threads[number].len() {
            if matches!(protocol.threads[number][at].0, Barrier(..)) {
                let mut threads = protocol.threads.clone();
                threads[number].remove(at);
                let is_bad = protocol.is_bad;
                let bad = bad_ends(&Protocol { threads, is_bad });
                assert!(bad > 0, "thread {number} does not need its barrier at {at}");
                omitted += 1;
            }
        }
    }
    assert_eq!(omitted, barriers);
}

#[test]
fn what_an_entry_announces_is_there_when_the_entry_is_seen() {
    const DATA: Place = 0;
    const PHASE: Place = 1;
    let controller = vec![
        always(Write(DATA, 1)),
        BEFORE_INDEX,
        always(Write(PHASE, 1)),
    ];
    let driver = vec![
        always(Read(PHASE, 0)),
        AFTER_ENTRY,
        when(0, 1, Read(DATA, 1)),
    ];
    let protocol = Protocol {
        threads: [controller, driver],
        is_bad: |end| end.registers[0] == 1 && end.registers[1] == 0,
    };
    check(&protocol, 2);
}

#[test]
fn an_entry_of_the_coprocessors_ring_is_read_before_it_is_given_back() {
    const ENTRY: Place = 0;
    const TAIL: Place = 1;
    const HEAD: Place = 2;
    // A ring of one entry: the client writes the next command once the head says that the first was
    // taken.
    let client = vec![
        always(Write(ENTRY, 1)),
        BEFORE_INDEX,
        always(Write(TAIL, 1)),
        always(Read(HEAD, 0)),
        when(0, 1, Write(ENTRY, 2)),
    ];
    let service = vec![
        always(Read(TAIL, 1)),
        AFTER_ENTRY,
        when(1, 1, Read(ENTRY, 2)),
        BEFORE_INDEX,
        when(1, 1, Write(HEAD, 1)),
    ];
    let protocol = Protocol {
        threads: [client, service],
        is_bad: |end| end.registers[1] == 1 && end.registers[2] != 1,
    };
    check(&protocol, 3);
}

#[test]
fn a_shadow_doorbell_is_seen_or_its_register_is_written() {
    const SHADOW: Place = 0;
    const EVENT: Place = 1;
    // The controller asks for the register (event = 1), then looks a last time before it sleeps.
    let driver = vec![
        always(Write(SHADOW, 1)),
        STORE_THEN_LOAD,
        always(Read(EVENT, 0)),
    ];
    let controller = vec![
        always(Write(EVENT, 1)),
        STORE_THEN_LOAD,
        always(Read(SHADOW, 1)),
    ];
    let protocol = Protocol {
        threads: [driver, controller],
        is_bad: |end| end.registers[0] == 0 && end.registers[1] == 0,
    };
    check(&protocol, 2);
}

#[test]
fn no_doorbell_is_rung_once_a_reset_has_found_the_gate_quiet() {
    const RINGING: Place = 0;
    const EPOCH: Place = 1;
    const BELL: Place = 2;
    // As in `Gate::ring`: the flag, a fence, the epoch, the doorbell; the flag is cleared with
    // release.
    let queue = vec![
        always(Write(RINGING, 1)),
        STORE_THEN_LOAD,
        always(Read(EPOCH, 0)),
        when(0, 0, Write(BELL, 1)),
        BEFORE_INDEX,
        always(Write(RINGING, 0)),
    ];
    // As in `Gate::close` and `is_quiet`, whose loads acquire; the reset then silences the doorbell
    // (2).
    let reset = vec![
        always(Write(EPOCH, 1)),
        STORE_THEN_LOAD,
        always(Read(RINGING, 1)),
        when(1, 0, Write(BELL, 2)),
    ];
    let protocol = Protocol {
        threads: [queue, reset],
        // The gate was quiet, and the doorbell was rung after it was silenced.
        is_bad: |end| end.registers[1] == 0 && end.registers[0] == 0 && end.memory[BELL] == 1,
    };
    check(&protocol, 3);
}
