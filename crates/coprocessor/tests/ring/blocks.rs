// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks over the ring: the same bytes as without it, and nothing beyond a client's grant.
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Coprocessor, DISK_BYTES, Raw, WINDOW_BYTES, disk, grants, seed, window};
use block::{Device, Error, Operation, Request, blocking};
use straightway_coprocessor::layout::{client, data_part};
use straightway_coprocessor::{
    Access, AttachFailed, Client, ClientEvent, ClientOptions, Code, CoprocessorDisk, Opcode,
    RingCommand,
};

fn open(coprocessor: &Coprocessor, number: u32) -> CoprocessorDisk<crate::support::Microseconds> {
    let client = coprocessor.attach(0, number, Access::WriteBlocks).unwrap();
    CoprocessorDisk::new(client, Access::WriteBlocks)
}

#[test]
fn what_is_written_over_the_ring_is_on_the_disk() {
    let mut random = fastrand::Rng::with_seed(seed());
    let coprocessor = Coprocessor::start(disk());
    let mut device = open(&coprocessor, 7);
    let mut expected = vec![0u8; DISK_BYTES];
    for _ in 0..400 {
        let blocks = random.usize(1..=256);
        let lba = random.usize(0..=DISK_BYTES / 512 - blocks);
        let range = lba * 512..(lba + blocks) * 512;
        let mut buffer = coprocessor.buffer(0, 0, blocks * 512);
        if random.bool() {
            let byte = random.u8(..);
            buffer.fill(byte);
            let written = blocking::write(&mut device, lba as u64, buffer, random.bool());
            assert_eq!(written.result, Ok(()));
            expected[range].fill(byte);
        } else {
            let read = blocking::read(&mut device, lba as u64, buffer);
            assert_eq!(read.result, Ok(()));
            assert!(read.buffer[..] == expected[range]);
        }
    }
    assert_eq!(blocking::flush(&mut device), Ok(()));
    let discard = Operation::Discard {
        lba: 3,
        block_count: 2,
    };
    assert_eq!(blocking::command(&mut device, discard), Ok(()));
    expected[3 * 512..5 * 512].fill(0);
    assert_eq!(device.strays(), 0);
    assert!(device.close());
    let (mut disk, events) = coprocessor.stop();
    assert_eq!(events, []);
    let whole = blocking::read(&mut disk, 0, crate::support::memory(DISK_BYTES));
    assert!(whole.buffer[..] == expected[..]);
}

#[test]
fn as_many_as_there_are_credits_are_in_flight_and_no_more() {
    let coprocessor = Coprocessor::start(disk());
    let mut device = open(&coprocessor, 1);
    let depth = usize::from(device.geometry().queue_depth);
    for round in 0..50 {
        for tag in 0..depth as u32 {
            let operation = Operation::Read {
                lba: u64::from(tag),
                buffer: coprocessor.buffer(0, tag as usize * 4096, 512),
            };
            device.submit(Request { tag, operation }).unwrap();
        }
        let operation = Operation::Flush;
        let refused = device.submit(Request { tag: 99, operation }).unwrap_err();
        assert_eq!(refused.error, Error::QueueFull);
        device.kick();
        let mut seen = 0u32;
        while device.outstanding() > 0 {
            if let Some(completion) = device.poll() {
                assert_eq!(completion.result, Ok(()));
                seen |= 1 << completion.tag;
            }
        }
        assert_eq!(seen, (1u32 << depth) - 1, "round {round}");
    }
}

#[test]
fn sessions_that_exclude_each_other_are_not_let_in() {
    let coprocessor = Coprocessor::start(disk());
    let writer = coprocessor.attach(0, 1, Access::WriteBlocks).unwrap();
    let in_use = AttachFailed::Refused(Code::InUse);
    let second = coprocessor.attach(1, 1, Access::WriteBlocks);
    assert_eq!(second.unwrap_err(), in_use);
    let files = coprocessor.attach(2, 1, Access::Files);
    assert_eq!(files.unwrap_err(), in_use);
    let reader = coprocessor.attach(1, 2, Access::ReadBlocks).unwrap();
    let mut reader = CoprocessorDisk::new(reader, Access::ReadBlocks);
    let buffer = coprocessor.buffer(1, 0, 512);
    let read = blocking::read(&mut reader, 0, buffer);
    assert_eq!(read.result, Ok(()));
    let operation = Operation::Write {
        lba: 0,
        buffer: read.buffer,
        fua: false,
    };
    let refused = reader.submit(Request { tag: 0, operation }).unwrap_err();
    assert_eq!(refused.error, Error::ReadOnly);
    drop(writer);
    // There is no volume on this disk.
    drop(reader);
    let files = coprocessor.attach(2, 2, Access::Files);
    assert_eq!(files.unwrap_err(), AttachFailed::Refused(Code::NoVolume));
}

#[test]
fn numbers_outside_of_the_grant_move_nothing() {
    let disk = disk();
    let mut grants = grants(&disk);
    grants[0].first_block = 100;
    grants[0].block_count = 50;
    grants[1].rights = Access::ReadBlocks.right();
    let coprocessor = Coprocessor::start_with(window(), disk, grants);
    let (_, room) = data_part(WINDOW_BYTES, 0);
    let mut client = coprocessor.attach(0, 1, Access::WriteBlocks).unwrap();
    let mut answer = |command: RingCommand| {
        assert!(client.submit(&command));
        client.kick();
        loop {
            if let Some(answer) = client.poll() {
                assert_eq!(answer.id, command.id);
                break answer.code;
            }
        }
    };
    let good = RingCommand {
        id: 5,
        data_bytes: 512,
        ..RingCommand::new(Opcode::Write)
    };
    assert_eq!(answer(good), 0);
    let outside = Code::OutsideGrant as u16;
    let bad = [
        RingCommand {
            argument: 50,
            ..good
        },
        RingCommand {
            argument: u64::MAX,
            ..good
        },
        RingCommand {
            argument: 49,
            data_bytes: 1024,
            ..good
        },
        RingCommand {
            data_offset: room as u32,
            ..good
        },
        RingCommand {
            data_offset: u32::MAX - 511,
            ..good
        },
        RingCommand {
            data_bytes: u32::MAX,
            ..good
        },
    ];
    for command in bad {
        assert_eq!(answer(command), outside, "{command:?}");
    }
    let code = answer(RingCommand {
        data_bytes: 0,
        ..good
    });
    assert_eq!(
        code,
        straightway_coprocessor::CompletionStatus::from(Error::Unaligned).code
    );
    assert_eq!(
        answer(RingCommand::new(Opcode::Create)),
        Code::BadOpcode as u16
    );
    let no_right = coprocessor.attach(1, 1, Access::WriteBlocks);
    assert_eq!(no_right.unwrap_err(), AttachFailed::Refused(Code::NoRight));
}

#[test]
fn an_impossible_index_ends_the_session_and_is_told_once() {
    let coprocessor = Coprocessor::start(disk());
    let mut raw = Raw::new(coprocessor.window, 2);
    for (number, offset, value) in [(1, client::TAIL, 33), (2, client::TAIL, u32::MAX)] {
        raw.attach(number, Access::ReadBlocks as u32);
        while raw.word(client::ACCEPTED) != number {
            std::thread::yield_now();
        }
        raw.set(offset, value);
        while raw.word(client::ENDED) != number {
            std::thread::yield_now();
        }
        assert_eq!(raw.word(client::REASON), Code::BadIndex as u32);
    }
    // Another client is not affected, and the page can be used for a new session.
    let client = coprocessor.attach(2, 3, Access::ReadBlocks).unwrap();
    assert!(!client.is_gone());
    let (_, events) = coprocessor.stop();
    let event = ClientEvent {
        client: 2,
        code: Code::BadIndex,
    };
    assert_eq!(events, [event, event]);
}

#[test]
fn a_client_that_dies_leaves_its_credits_to_the_next() {
    let coprocessor = Coprocessor::start(disk());
    for number in 1..20 {
        let client = coprocessor.attach(0, number, Access::WriteBlocks).unwrap();
        let mut device = CoprocessorDisk::new(client, Access::WriteBlocks);
        for tag in 0..10 {
            let operation = Operation::Write {
                lba: 8,
                buffer: coprocessor.buffer(0, 4096 * tag as usize, 512),
                fua: false,
            };
            device.submit(Request { tag, operation }).unwrap();
        }
        device.kick();
        // As after SIGKILL: nothing is polled, nothing detached.
        std::mem::forget(device);
    }
    let mut device = open(&coprocessor, 100);
    let read = blocking::read(&mut device, 8, coprocessor.buffer(0, 0, 512));
    assert_eq!(read.result, Ok(()));
}

/// While it waits for a coprocessor that does not answer, a client looks only after each pause,
/// which is the program's.
#[test]
fn a_client_that_waits_leaves_the_processor_to_others() {
    static PAUSES: AtomicU32 = AtomicU32::new(0);
    let coprocessor = Coprocessor::start(disk());
    let window = coprocessor.window;
    // Its header still says that it is ready.
    coprocessor.stop();
    let options = ClientOptions {
        attach_timeout_us: 50_000,
        pause: || {
            PAUSES.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(5));
        },
        ..ClientOptions::default()
    };
    let attached = Client::attach(window, crate::support::Microseconds::new(), options);
    assert_eq!(attached.err(), Some(AttachFailed::Silent));
    let pauses = PAUSES.load(Ordering::Relaxed);
    assert!(
        (1..=11).contains(&pauses),
        "{pauses} pauses of 5 ms in 50 ms"
    );
}

#[test]
fn a_lease_that_runs_out_ends_the_session() {
    let coprocessor = Coprocessor::start(disk());
    let client = coprocessor.attach_with(ClientOptions {
        access: Access::WriteBlocks,
        number: 1,
        lease_ms: 2000,
        ..ClientOptions::default()
    });
    let mut dead = client.unwrap();
    // It polls nothing; the client on the next page can soon write.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let mut number = 0;
    let alive = loop {
        number += 1;
        match coprocessor.attach(1, number, Access::WriteBlocks) {
            Ok(client) => break client,
            Err(error) => assert_eq!(error, AttachFailed::Refused(Code::InUse)),
        }
        assert!(
            std::time::Instant::now() < deadline,
            "the lease never ended"
        );
    };
    assert!(!alive.is_gone());
    while !dead.is_gone() {
        assert!(dead.poll().is_none());
    }
    assert_eq!(dead.why(), Some(Code::LeaseOver));
    let (_, events) = coprocessor.stop();
    let event = ClientEvent {
        client: 0,
        code: Code::LeaseOver,
    };
    assert_eq!(events, [event]);
}

#[test]
fn a_restarted_coprocessor_ends_what_was_under_way() {
    let window = window();
    let disk = disk();
    let grants = grants(&disk);
    let first = Coprocessor::start_with(window, disk, grants);
    let mut device = open(&first, 1);
    let (disk, _) = first.stop();
    let operation = Operation::Read {
        lba: 0,
        buffer: window.buffer(data_part(WINDOW_BYTES, 0).0, 512).unwrap(),
    };
    device.submit(Request { tag: 3, operation }).unwrap();
    device.kick();
    let second = Coprocessor::start_with(window, disk, grants);
    let completion = loop {
        if let Some(completion) = device.poll() {
            break completion;
        }
    };
    assert_eq!((completion.tag, completion.result), (3, Err(Error::Gone)));
    assert!(completion.buffer.is_some(), "the new one does not use it");
    assert_eq!(device.outstanding(), 0);
    let refused = device.submit(Request {
        tag: 4,
        operation: Operation::Flush,
    });
    assert_eq!(refused.unwrap_err().error, Error::Gone);
    drop(device);
    let mut device = open(&second, 2);
    assert_eq!(blocking::flush(&mut device), Ok(()));
}

#[test]
fn a_silent_coprocessor_is_gone_and_keeps_the_buffers() {
    let coprocessor = Coprocessor::start(disk());
    let client = coprocessor.attach_with(ClientOptions {
        access: Access::ReadBlocks,
        silence_us: 50_000,
        ..ClientOptions::default()
    });
    let mut device = CoprocessorDisk::new(client.unwrap(), Access::ReadBlocks);
    let buffer = coprocessor.buffer(0, 0, 512);
    coprocessor.stop();
    let operation = Operation::Read { lba: 0, buffer };
    device.submit(Request { tag: 1, operation }).unwrap();
    device.kick();
    let completion = loop {
        if let Some(completion) = device.poll() {
            break completion;
        }
    };
    assert_eq!(completion.result, Err(Error::Gone));
    assert!(completion.buffer.is_none(), "it may still be written to");
}

#[test]
fn a_command_past_its_deadline_is_not_begun() {
    let disk = disk();
    let window = window();
    let grants = grants(&disk);
    // Seen, and then nothing happens for a while: the loop is stopped between two steps.
    let clock = crate::support::Microseconds::new();
    let mut disk = disk;
    straightway_coprocessor::Service::announce(&window);
    let geometry = *disk.geometry();
    let drive = straightway_coprocessor::Drive::default();
    let mut service =
        straightway_coprocessor::Service::new(&window, geometry, &drive, grants, &clock).unwrap();
    let mut raw = Raw::new(window, 0);
    raw.attach(1, Access::WriteBlocks as u32);
    while raw.word(client::ACCEPTED) != 1 {
        service.step(&mut disk, &clock);
    }
    // More than the credits: the last ones wait in the ring, where they were seen.
    for id in 0..32u16 {
        let command = RingCommand {
            id,
            deadline_ms: 1,
            data_bytes: 512,
            ..RingCommand::new(Opcode::Read)
        };
        raw.submit(command.encode());
    }
    let mut full = Stuck(disk);
    service.step(&mut full, &clock);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let Stuck(mut disk) = full;
    for _ in 0..50 {
        service.step(&mut disk, &clock);
    }
    let codes: Vec<u16> = (0..32)
        .map(|entry| (raw.word(client::COMPLETIONS + 16 * entry) >> 16) as u16 & 0x7fff)
        .collect();
    let timed_out = straightway_coprocessor::CompletionStatus::from(Error::TimedOut).code;
    assert_eq!(
        codes.iter().filter(|code| **code == timed_out).count(),
        32,
        "{codes:?}"
    );
}

/// A disk whose queue is always full.
struct Stuck(crate::support::Disk);

impl Device for Stuck {
    fn geometry(&self) -> &block::Geometry {
        self.0.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), block::Refused> {
        self.0.submit(request)
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<block::Completion> {
        None
    }

    fn outstanding(&self) -> usize {
        usize::MAX
    }
}
