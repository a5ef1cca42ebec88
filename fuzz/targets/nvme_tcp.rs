// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A target that changes what it sends: each four bytes of the input change one PDU. The initiator
//! returns every buffer, and ends.
#![no_main]

#[path = "../../crates/fabric/tests/fabric/support/mod.rs"]
mod support;

use block::{Device, Operation, Request};
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;
use support::{BLOCK, buffer, connect, options, target};

fn changed(pdu: &mut Vec<u8>, change: &[u8]) {
    let &[how, at, with, more] = change else {
        return;
    };
    let at = usize::from(at) % pdu.len().max(1);
    match how % 6 {
        0 | 1 => {}
        2 => {
            if let Some(byte) = pdu.get_mut(at) {
                *byte = with;
            }
        }
        3 => pdu.truncate(at),
        4 => pdu.extend(std::iter::repeat_n(with, usize::from(more))),
        _ => {
            for byte in pdu.iter_mut().skip(at).take(usize::from(more)) {
                *byte ^= with;
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let memory = target();
    let changes: Vec<[u8; 4]> = data
        .chunks_exact(4)
        .filter_map(|four| four.try_into().ok())
        .collect();
    let next = Cell::new(0);
    memory.target.borrow_mut().mutate = Some(Box::new(move |_, pdu| {
        if let Some(change) = changes.get(next.get()) {
            changed(pdu, change);
        }
        next.set(next.get() + 1);
    }));
    let Ok(mut device) = connect(&memory, options()) else {
        return;
    };
    for number in 0..4 {
        let operation = if number % 2 == 0 {
            Operation::Read {
                lba: 1,
                buffer: buffer(2, 0),
            }
        } else {
            Operation::Write {
                lba: 3,
                buffer: buffer(1, 9),
                fua: false,
            }
        };
        if device
            .submit(Request {
                tag: number,
                operation,
            })
            .is_err()
        {
            break;
        }
        device.kick();
    }
    for _ in 0..2000 {
        if device.outstanding() == 0 {
            break;
        }
        if device.poll().is_none() {
            device.wait(10_000);
        }
    }
    assert_eq!(device.outstanding(), 0);
    let _ = BLOCK;
});
