// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The initiator against a target in memory that splits, corrupts, reorders, resets and hangs; the
//! clock is simulated.
use crate::support::{
    BLOCK, BLOCKS, Device, Memory, Target, buffer, connect, crc32c, options, target,
};
use block::{Device as _, Error, Operation, Request, blocking};
use straightway_fabric::{Ana, FabricError, Name, RemoteOptions, StreamError};

fn pattern(blocks: usize, seed: u8) -> block::Buffer {
    let mut buffer = buffer(blocks, 0);
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index as u8)
            .wrapping_mul(7)
            .wrapping_add(seed)
            .wrapping_add((index >> 8) as u8);
    }
    buffer
}

/// Writes within a capsule and by R2T, reads, flushes, discards: what a device must do.
fn exercise(device: &mut Device) {
    for (lba, blocks, seed) in [(0, 1, 1), (3, 2, 2), (8, 30, 3)] {
        blocking::write(device, lba, pattern(blocks, seed), seed == 2)
            .result
            .unwrap();
        let read = blocking::read(device, lba, buffer(blocks, 0xee));
        read.result.unwrap();
        assert!(*read.buffer == *pattern(blocks, seed), "{blocks} blocks");
    }
    blocking::flush(device).unwrap();
    blocking::command(
        device,
        Operation::Discard {
            lba: 3,
            block_count: 1,
        },
    )
    .unwrap();
    let zeroes = Operation::WriteZeroes {
        lba: 4,
        block_count: 1,
        fua: true,
    };
    blocking::command(device, zeroes).unwrap();
    let read = blocking::read(device, 3, buffer(2, 1));
    assert!(read.buffer.iter().all(|byte| *byte == 0));
}

fn with(change: impl FnOnce(&mut Target)) -> Memory {
    let memory = target();
    change(&mut memory.target.borrow_mut());
    memory
}

#[test]
fn requests_work_with_every_transport_option() {
    for header_digest in [false, true] {
        for data_digest in [false, true] {
            for success in [false, true] {
                for (capsule, most) in [(0, 512), (1024, 4096), (8192, 65536)] {
                    let memory = with(|target| {
                        target.has_success_flag = success;
                        (target.capsule_bytes, target.data_bytes) = (capsule, most);
                    });
                    let options = RemoteOptions {
                        header_digest,
                        data_digest,
                        ..options()
                    };
                    let mut device = connect(&memory, options).unwrap();
                    assert_eq!(device.geometry().block_count, BLOCKS as u64);
                    exercise(&mut device);
                    assert_eq!(memory.target.borrow().connections, 3);
                    drop(device);
                    assert_eq!(memory.target.borrow().alive, 0);
                }
            }
        }
    }
}

#[test]
fn every_stream_can_be_split_at_every_byte() {
    let options = || RemoteOptions {
        header_digest: true,
        data_digest: true,
        queues: 1,
        ..options()
    };
    for chunk in [1, 2, 3, 5, 7, 23, 24, 25, 71, 73, 127, 129] {
        let memory = with(|target| target.chunk = chunk);
        exercise(&mut connect(&memory, options()).unwrap());
    }
    // Of a connection: the answer, and the first responses and data.
    for split in 1..300 {
        let memory = with(|target| target.split_at = Some(split));
        connect(&memory, options()).unwrap();
    }
    // Of requests: responses, data and R2Ts.
    let memory = with(|target| target.data_bytes = 1024);
    let mut device = connect(&memory, options()).unwrap();
    let exchange = |device: &mut Device, split: usize| {
        for (lba, blocks) in [(0, 1), (8, 5)] {
            let seed = split as u8;
            blocking::write(device, lba, pattern(blocks, seed), false)
                .result
                .unwrap();
            let read = blocking::read(device, lba, buffer(blocks, 0));
            assert!(
                read.result.is_ok() && *read.buffer == *pattern(blocks, seed),
                "at {split}"
            );
        }
        memory.target.borrow().moved
    };
    let before = memory.target.borrow().moved;
    let bytes = exchange(&mut device, 0) - before;
    assert!(bytes > 3000);
    for split in 1..bytes {
        let from = memory.target.borrow().moved;
        memory.target.borrow_mut().split_at = Some(from + split);
        exchange(&mut device, split);
    }
}

#[test]
fn an_answer_to_the_connection_request_that_is_wrong_is_refused() {
    type Change = (usize, u8, &'static str);
    let wrong: [Change; 7] = [
        (0, 5, "no answer"),
        (8, 1, "version"),
        (10, 32, "alignment"),
        (11, 1, "digests"),
        (13, 0x0f, "MAXH2CDATA"),
        (2, 24, "length"),
        (4, 127, "length"),
    ];
    for (at, value, says) in wrong {
        let memory = with(|target| {
            target.mutate = Some(Box::new(move |number, pdu| {
                if number == 0 {
                    pdu[at] = value;
                }
            }));
        });
        let error = connect(&memory, options()).unwrap_err();
        assert!(
            matches!(error, FabricError::Initialization(_)),
            "{at}: {error:?}"
        );
        assert!(error.to_string().contains(says), "{error}");
    }
    let memory = with(|target| {
        target.mutate = Some(Box::new(|number, pdu| {
            if number == 0 {
                *pdu = vec![3, 0, 24, 0, 24, 0, 0, 0, 4, 0];
                pdu.resize(24, 0);
            }
        }));
    });
    let error = connect(&memory, options()).unwrap_err();
    assert_eq!(error, FabricError::Terminated { status: 4 });
}

#[test]
fn names_that_the_target_does_not_know_or_forbids_are_reported() {
    let memory = target();
    let other = Name::new("nqn.other").unwrap();
    let error = connect(
        &memory,
        RemoteOptions {
            subsystem_nqn: other,
            ..options()
        },
    )
    .unwrap_err();
    assert!(error.is_unknown() && !error.is_forbidden(), "{error}");
    let error = connect(
        &memory,
        RemoteOptions {
            host_nqn: other,
            ..options()
        },
    )
    .unwrap_err();
    assert!(error.is_forbidden() && !error.is_unknown(), "{error}");
    assert_eq!(Name::new(&"x".repeat(224)), Err(FabricError::Name));
    assert_eq!(Name::new(""), Err(FabricError::Name));
    memory.target.borrow_mut().refuses = true;
    let error = connect(&memory, options()).unwrap_err();
    assert_eq!(error, FabricError::Stream(StreamError::Os { errno: 111 }));
    assert_eq!(memory.target.borrow().alive, 0);
}

/// A device that does not reconnect, and a change of the PDUs of its requests from now on.
fn changed(options: RemoteOptions, change: impl Fn(&mut Vec<u8>) + 'static) -> (Memory, Device) {
    let memory = target();
    memory.target.borrow_mut().data_bytes = 512;
    let device = connect(
        &memory,
        RemoteOptions {
            reconnect_us: 0,
            ..options
        },
    )
    .unwrap();
    memory.target.borrow_mut().mutate = Some(Box::new(move |_, pdu| change(pdu)));
    (memory, device)
}

#[test]
fn violations_end_the_connection_with_the_reason() {
    type Change = fn(&mut Vec<u8>);
    let reads: [(Change, &str); 10] = [
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[13] ^= 2
                }
            },
            "out of order",
        ),
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[8] ^= 1
                }
            },
            "no command",
        ),
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[17] ^= 1
                }
            },
            "length",
        ),
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[1] |= 2
                }
            },
            "data digest",
        ),
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[1] |= 1
                }
            },
            "header digest",
        ),
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[1] = 8
                }
            },
            "success before",
        ),
        (
            |pdu| {
                if pdu[0] == 7 {
                    pdu[0] = 6
                }
            },
            "unknown type",
        ),
        (
            |pdu| {
                if pdu[0] == 5 {
                    pdu[4] = 25
                }
            },
            "length",
        ),
        (
            |pdu| {
                if pdu[0] == 5 {
                    pdu[21] = 9
                }
            },
            "no command",
        ),
        (
            |pdu| {
                if pdu[0] == 5 {
                    pdu[0] = 9
                }
            },
            "R2T",
        ),
    ];
    for (change, says) in reads {
        let (memory, mut device) = changed(options(), change);
        let outcome = blocking::read(&mut device, 0, buffer(3, 0));
        assert_eq!(outcome.result, Err(Error::Gone), "{says}");
        assert_eq!(outcome.buffer.len(), 3 * BLOCK);
        let error = device.last_error().unwrap().to_string();
        assert!(error.contains(says), "{error}: {says}");
        assert_eq!(memory.target.borrow().terms, [2], "{says}");
        assert_eq!(blocking::flush(&mut device), Err(Error::Gone));
    }
    let writes: [(Change, &str); 4] = [
        (
            |pdu| {
                if pdu[0] == 9 {
                    pdu[14] = 9
                }
            },
            "outside",
        ),
        (
            |pdu| {
                if pdu[0] == 9 {
                    pdu[16..20].fill(0)
                }
            },
            "outside",
        ),
        (
            |pdu| {
                if pdu[0] == 9 {
                    pdu[8] ^= 1
                }
            },
            "no command",
        ),
        (
            |pdu| {
                if pdu[0] == 9 {
                    let twice = pdu.clone();
                    pdu.extend(twice)
                }
            },
            "",
        ),
    ];
    for (change, says) in writes {
        let (memory, mut device) = changed(options(), change);
        if says.is_empty() {
            memory.target.borrow_mut().mutate = None;
            exercise(&mut device);
            continue;
        }
        let outcome = blocking::write(&mut device, 0, pattern(20, 1), false);
        assert_eq!(outcome.result, Err(Error::OutcomeUnknown), "{says}");
        let error = device.last_error().unwrap().to_string();
        assert!(error.contains(says), "{error}: {says}");
        drop(memory);
    }
}

#[test]
fn a_wrong_digest_is_noticed_at_every_byte() {
    let digests = || RemoteOptions {
        header_digest: true,
        data_digest: true,
        ..options()
    };
    for at in 0..24 + 4 + 512 + 4 {
        let (_memory, mut device) = changed(digests(), move |pdu| {
            if pdu[0] == 7 && pdu.len() > at {
                pdu[at] ^= 0x10;
            }
        });
        let outcome = blocking::read(&mut device, 0, buffer(1, 0));
        match outcome.result {
            Err(Error::Gone) => assert!(at < 28, "byte {at}: {:?}", device.last_error()),
            Err(Error::Nvme { status: 0x22 }) => {
                assert!(at >= 28, "byte {at}");
                // The connection is still good.
                assert!(device.last_error().is_none());
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn a_connection_that_is_lost_anywhere_is_made_again_and_nothing_is_lost() {
    let whole = target();
    let mut device = connect(&whole, options()).unwrap();
    let first = whole.target.borrow().pdus;
    exercise(&mut device);
    let last = whole.target.borrow().pdus;
    assert!(last - first > 15);
    for at in first..last {
        let memory = with(|target| target.close_at = Some(at));
        let mut device = connect(&memory, options()).unwrap();
        exercise(&mut device);
        assert_eq!(device.reconnects(), 1, "closed at PDU {at}");
        assert_eq!(memory.target.borrow().connections, 6);
    }
}

#[test]
fn a_target_that_hangs_ends_in_bounded_time() {
    let whole = target();
    let mut device = connect(&whole, options()).unwrap();
    exercise(&mut device);
    let last = whole.target.borrow().pdus;
    for at in 0..last {
        let memory = with(|target| target.hang_at = Some(at));
        let own = RemoteOptions {
            command_timeout_us: 2_000_000,
            reconnect_us: 3_000_000,
            ..options()
        };
        let result = connect(&memory, own);
        let Ok(mut device) = result else {
            assert!(matches!(result, Err(FabricError::TimedOut(_))), "PDU {at}");
            assert!(
                memory.clock.0.get() <= 2_100_000,
                "{} us",
                memory.clock.0.get()
            );
            continue;
        };
        let began = memory.clock.0.get();
        for tag in 0..5 {
            let operation = Operation::Read {
                lba: u64::from(tag),
                buffer: buffer(1, 0),
            };
            device.submit(Request { tag, operation }).unwrap();
        }
        device.kick();
        let mut gone = 0;
        while device.outstanding() != 0 {
            match device.poll() {
                Some(one) => {
                    assert_eq!(one.buffer.map(|buffer| buffer.len()), Some(BLOCK));
                    gone += u32::from(one.result == Err(Error::Gone));
                }
                None => device.wait(100_000),
            }
        }
        assert!(gone > 0 || at + 20 > last);
        // A deadline, the time to reconnect, and the deadline of its last attempt.
        let took = memory.clock.0.get() - began;
        assert!(
            took <= 2_000_000 + 3_000_000 + 2_000_000 + 1_000_000,
            "{took} us at PDU {at}"
        );
    }
}

#[test]
fn a_sign_of_life_is_sent_and_path_states_are_read() {
    let states = [
        (1, Ana::Optimized),
        (2, Ana::NonOptimized),
        (3, Ana::Inaccessible),
        (4, Ana::PersistentLoss),
        (15, Ana::Change),
    ];
    for (state, expected) in states {
        let memory = with(|target| target.ana = Some(state));
        assert_eq!(connect(&memory, options()).unwrap().ana(), expected);
    }
    let memory = target();
    let mut device = connect(&memory, options()).unwrap();
    assert_eq!(device.ana(), Ana::Unreported);
    let before = memory.target.borrow().pdus;
    for _ in 0..20 {
        memory.clock.0.set(memory.clock.0.get() + 1_000_000);
        device.wait(1);
        assert!(device.poll().is_none());
    }
    // Every 1.25 s, seen once a second.
    let sent = memory.target.borrow().pdus - before;
    assert!((9..=16).contains(&sent), "{sent}");
}

#[test]
fn random_answers_never_panic_and_always_end() {
    let seed = std::env::var("STRAIGHTWAY_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..400 {
        let memory = target();
        let rate = random.u32(2..60);
        let own = random.u64(..);
        let mut inner = fastrand::Rng::with_seed(own);
        memory.target.borrow_mut().mutate = Some(Box::new(move |_, pdu| {
            if inner.u32(0..rate) == 0 && !pdu.is_empty() {
                let at = inner.usize(0..pdu.len().min(32));
                pdu[at] ^= 1 << inner.u32(0..8);
            }
        }));
        let own = RemoteOptions {
            reconnect_us: 1_000_000,
            command_timeout_us: 1_000_000,
            ..options()
        };
        let Ok(mut device) = connect(&memory, own) else {
            continue;
        };
        for lba in 0..10 {
            let outcome = blocking::read(&mut device, lba, buffer(3, 0));
            assert!(outcome.buffer.len() == 3 * BLOCK || outcome.result == Err(Error::Gone));
        }
    }
}
