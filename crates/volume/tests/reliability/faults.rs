// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors, short transfers, refusals, time-outs and removal at each n-th command, once and
//! permanently: every operation ends, buffers come back, and once the device works again nothing
//! acknowledged is lost, whether the power stays on or is cut then.

use std::cell::RefCell;
use std::rc::Rc;

use block::Error;
use crash::{Fault, On, Rule, Sampling};

use crate::harness::ops::Op;
use crate::harness::oracle::Oracle;
use crate::harness::runner::{self, Manner, Start};
use crate::harness::search::{Depth, Search};
use crate::harness::starts;

fn faults() -> Vec<(&'static str, Fault)> {
    vec![
        ("error", Fault::Fail(Error::Nvme { status: 0x281 })),
        ("time-out", Fault::Fail(Error::TimedOut)),
        ("time-out, done", Fault::FailDone(Error::TimedOut)),
        ("short transfer", Fault::Short { done_blocks: 0 }),
        ("refusal", Fault::Refuse(Error::Os { errno: 5 })),
        ("removal", Fault::Remove),
    ]
}

fn scripts() -> Vec<(Start, Vec<Vec<Op>>)> {
    let blank = starts::empty(16, 512, 40);
    let start = starts::after("nothing there", &blank, &Oracle::default(), &[]);
    let life = [
        vec![Op::CreateReserved(0), Op::CreateChecked(1)],
        vec![Op::Append(0), Op::AppendTail(1)],
        vec![Op::Commit(0), Op::Reserve(1)],
        vec![Op::Append(0), Op::Sync(1)],
        vec![Op::Sync(0)],
        vec![Op::Overwrite(0), Op::Append(1)],
        vec![Op::Sync(0), Op::CloseKeeping(1)],
        vec![Op::AppendTail(0), Op::Rename(1)],
        vec![Op::Close(0), Op::Open(1)],
        vec![Op::Remove(0), Op::Append(1)],
        vec![Op::Remount],
        vec![Op::Remove(1)],
        vec![Op::Reap],
    ];
    let (medium, oracle) = starts::fragmented(512, 7);
    let grown = Start {
        name: "a full slot",
        medium,
        oracle,
        prefix: vec![Op::Open(0)],
    };
    let grow = [
        vec![Op::Append(0)],
        vec![Op::Close(0)],
        vec![Op::Remove(0)],
        vec![Op::Reap],
    ];
    vec![(start, life.to_vec()), (grown, grow.to_vec())]
}

#[test]
fn a_fault_at_any_command_loses_nothing() {
    let depth = Depth {
        in_recovery: false,
        kill_first: true,
        sampling: Sampling {
            exhaustive_blocks: 2,
            samples: 6,
            ..Sampling::default()
        },
    };
    let mut tried = 0;
    for (start, steps) in scripts() {
        for (name, fault) in faults() {
            for permanent in [false, true] {
                let search = Rc::new(RefCell::new(Search::new(depth)));
                for at in 1.. {
                    let rule = if permanent {
                        Rule::from(On::Any, at, fault.clone())
                    } else {
                        Rule::once(On::Any, at, fault.clone())
                    };
                    let mut left = steps.iter();
                    let mut next = |_: &Oracle| left.next().cloned();
                    let manner = Manner::new(at);
                    let end =
                        runner::run_with(&search, &start, &mut next, usize::MAX, &manner, &[rule])
                            .unwrap_or_else(|why| panic!("{name} at {at}: {why}"));
                    if end.fired == 0 {
                        break;
                    }
                    tried += 1;
                }
            }
        }
    }
    println!("{tried} faults");
    assert!(tried > 1000, "{tried}");
}
