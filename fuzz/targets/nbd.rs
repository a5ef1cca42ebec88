// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client of a network block device: its bytes in two pieces, so that a message ends anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use straightway_nbd::block::{Buffer, Device, RamDisk};
use straightway_nbd::{Engine, Export, Limits, Session, SessionEvent, Started, put_head};

const DISK_BYTES: usize = 64 << 10;
const PIECE_BYTES: usize = 1024;

thread_local! {
    /// Buffers live as long as the program: each turn gives them back.
    static BUFFERS: RefCell<Vec<Buffer>> = RefCell::default();
}

fn buffers(count: usize) -> Vec<Buffer> {
    let mut kept = BUFFERS.take();
    while kept.len() < count {
        kept.push(Buffer::from_static(vec![0; PIECE_BYTES].leak()));
    }
    kept
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, input)) = data.split_first() else {
        return;
    };
    let (is_read_only, cut) = (how & 1 == 1, usize::from(how >> 1));
    let mut memory = vec![7; DISK_BYTES];
    let mut disk = RamDisk::<_, 16>::new(&mut memory[..], 9).expect("a disk");
    let limits = Limits::new(disk.geometry(), PIECE_BYTES, 16 << 10, 8);
    let mut engine = Engine::new(disk.geometry(), limits, 1, buffers(limits.pieces));
    let export = Export::of(
        disk.geometry(),
        "disk",
        !is_read_only,
        limits.max_payload_bytes(),
    );
    let mut session = Session::new();
    let (mut out, mut at, mut write) = (Vec::new(), 0, None);
    let cut = cut.min(input.len());
    'pieces: for end in [cut, input.len()] {
        loop {
            let (taken, event) = session.advance(&export, &input[at..end], &mut out);
            assert!(taken <= end - at);
            at += taken;
            match event {
                SessionEvent::More => break,
                SessionEvent::Closed(_) => break 'pieces,
                SessionEvent::Payload => {
                    let key = write.expect("a payload belongs to a request");
                    let space = engine.space(key);
                    let len = (session.payload_bytes() as usize)
                        .min(end - at)
                        .min(space.len());
                    space[..len].copy_from_slice(&input[at..at + len]);
                    if at == end {
                        break;
                    }
                    engine.filled(key, len);
                    session.take_payload(len as u32);
                    at += len;
                }
                SessionEvent::Request(request) => match engine.begin(0, request) {
                    Started::Accepted(key) => write = Some(key),
                    _ => break 'pieces,
                },
                _ => {}
            }
            while engine.turn(&mut disk) {}
            while let Some(answer) = engine.answer() {
                put_head(&answer, session.is_structured(), &mut out);
                engine.give_back(answer);
            }
        }
        // What a client makes a server remember and say is bounded.
        assert!(out.len() < 4096 + 64 * input.len());
    }
    engine.abandon(0);
    while engine.turn(&mut disk) {}
    assert_eq!(engine.outstanding(), 0);
    let left = engine.into_buffers();
    assert_eq!(left.len(), limits.pieces);
    BUFFERS.set(left);
    if is_read_only {
        assert!(memory.iter().all(|byte| *byte == 7));
    }
});
