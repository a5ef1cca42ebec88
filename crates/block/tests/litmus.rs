// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The litmus tests of the barriers on this machine's own processors; `tests/test_arm64.py` runs
//! them on 64-bit Arm.

#[path = "../examples/litmus/cases.rs"]
mod cases;

const ROUNDS: u32 = 5_000;

#[test]
fn with_the_barriers_no_forbidden_outcome_is_seen() {
    let outcomes = cases::run(ROUNDS);
    println!("of {ROUNDS}: {outcomes:?}");
    if outcomes.iter().all(|outcome| outcome.without == 0) {
        println!("SKIPPED: no outcome of missing barriers was observable here in {ROUNDS} rounds");
    }
    assert!(
        outcomes.iter().all(|outcome| outcome.with == 0),
        "{outcomes:?}"
    );
}
