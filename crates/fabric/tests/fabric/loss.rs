// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What follows the loss of an association, against a target in memory whose network holds what was
//! sent and delivers it late, and whose controllers end as late as the specification allows.
use crate::support::{BLOCK, Device, Memory, buffer, connect, options, target};
use block::{Completion, Device as _, Error, Operation, Request, blocking};
use straightway_fabric::{Connect as _, FabricError, RemoteEvent, RemoteOptions};

const SECOND: u64 = 1_000_000;
/// 3 x 5 s and 1 s.
const WAIT: u64 = 16 * SECOND;

fn now(memory: &Memory) -> u64 {
    memory.clock.0.get()
}

fn submit(device: &mut Device, tag: u32, operation: Operation) {
    device.submit(Request { tag, operation }).unwrap();
    device.kick();
}

fn write(lba: u64, fill: u8) -> Operation {
    let buffer = buffer(1, fill);
    let fua = false;
    Operation::Write { lba, buffer, fua }
}

/// The next completion; the simulated clock runs during this.
fn next(device: &mut Device) -> Completion {
    loop {
        match device.poll() {
            Some(completion) => return completion,
            None => device.wait(100_000),
        }
    }
}

/// Runs the clock and the device for a time; nothing may complete.
fn idle(memory: &Memory, device: &mut Device, us: u64) {
    let end = now(memory) + us;
    while now(memory) < end {
        assert!(device.poll().is_none());
        memory.clone().pause(10_000);
        device.wait(1);
    }
}

/// Holds what is sent on the newest connections from now on, for a time.
fn hold(memory: &Memory, connections: usize, us: u64) {
    let until = now(memory) + us;
    let mut target = memory.target.borrow_mut();
    let all = target.connections;
    target.held_connections = all + 1 - connections..all + 1;
    target.delivered_at = until;
}

/// Writes "A", which the network holds for a time, then "B", and lets the time pass.
fn late_write(traffic_based: bool, connections: usize, held_us: u64) -> (u64, usize, u8) {
    let memory = target();
    memory.target.borrow_mut().traffic_based = traffic_based;
    let mut device = connect(&memory, options()).unwrap();
    blocking::write(&mut device, 0, buffer(1, b'0'), false)
        .result
        .unwrap();
    let began = now(&memory);
    hold(&memory, connections, held_us);
    submit(&mut device, 1, write(0, b'A'));
    assert_eq!(next(&mut device).result, Ok(()));
    let took = now(&memory) - began;
    blocking::write(&mut device, 0, buffer(1, b'B'), false)
        .result
        .unwrap();
    blocking::flush(&mut device).unwrap();
    idle(&memory, &mut device, 60 * SECOND);
    assert_eq!(device.reconnects(), 1);
    let target = memory.target.borrow();
    (took, target.late_writes, target.disk[0])
}

#[test]
fn a_write_that_the_network_held_never_overwrites_a_newer_one() {
    // Nothing arrives for as long as the old controller takes commands, just less than 2 timeouts.
    for tenths in [11, 15, 19] {
        let (took, late, disk) = late_write(true, 3, tenths * SECOND / 2);
        assert_eq!((late, disk), (1, b'B'), "held for {tenths} tenths");
        assert!((WAIT..WAIT + SECOND).contains(&took), "{took} us");
    }
    // Only the connections for requests: Keep Alives go on until the command is overdue after 10 s,
    // and extend the controller's life.
    for (traffic_based, held_s, wait_s) in [(true, 19, 26), (false, 14, 21)] {
        let (took, late, disk) = late_write(traffic_based, 2, held_s * SECOND);
        assert_eq!((late, disk), (1, b'B'), "held for {held_s} s");
        let wait = (wait_s - 1) * SECOND..(wait_s + 1) * SECOND;
        assert!(wait.contains(&took), "{took} us");
    }
    // The old controller ends before the network delivers.
    for (traffic_based, held_s) in [(true, 11), (false, 6)] {
        let (_, late, disk) = late_write(traffic_based, 3, held_s * SECOND);
        assert_eq!((late, disk), (0, b'B'), "held for {held_s} s");
    }
}

#[test]
fn reads_and_flushes_go_on_while_changes_wait() {
    let memory = target();
    let mut device = connect(&memory, options()).unwrap();
    hold(&memory, 3, 8 * SECOND);
    let began = now(&memory);
    submit(&mut device, 1, write(0, b'A'));
    submit(
        &mut device,
        2,
        Operation::Read {
            lba: 1,
            buffer: buffer(1, 0),
        },
    );
    // The read of the lost association, a new one and a flush, right after the loss was noticed.
    let read = next(&mut device);
    assert_eq!((read.tag, read.result), (2, Ok(())));
    for tag in 3..5 {
        let operation = match tag {
            3 => Operation::Flush,
            _ => Operation::Read {
                lba: 2,
                buffer: buffer(1, 0),
            },
        };
        submit(&mut device, tag, operation);
        let done = next(&mut device);
        assert_eq!((done.tag, done.result), (tag, Ok(())));
    }
    let took = now(&memory) - began;
    assert!(took < 6 * SECOND, "{took} us");
    // New changes of every kind wait too, and the queue does not take more than it holds.
    submit(&mut device, 5, write(4, b'C'));
    submit(
        &mut device,
        6,
        Operation::Discard {
            lba: 5,
            block_count: 1,
        },
    );
    submit(
        &mut device,
        7,
        Operation::WriteZeroes {
            lba: 6,
            block_count: 1,
            fua: false,
        },
    );
    let mut tag = 8;
    let refused = loop {
        let operation = write(8, b'D');
        match device.submit(Request { tag, operation }) {
            Ok(()) => tag += 1,
            Err(refused) => break refused.error,
        }
    };
    assert_eq!(refused, Error::QueueFull);
    assert_eq!(
        device.outstanding(),
        usize::from(device.geometry().queue_depth)
    );
    let mut done = Vec::new();
    while device.outstanding() != 0 {
        let completion = next(&mut device);
        assert_eq!(completion.result, Ok(()));
        assert!(now(&memory) - began >= WAIT);
        done.push(completion.tag);
    }
    done.sort_unstable();
    assert_eq!(done, [1].into_iter().chain(5..tag).collect::<Vec<_>>());
    let target = memory.target.borrow();
    assert_eq!(
        (
            target.disk[0],
            target.disk[4 * BLOCK],
            target.disk[8 * BLOCK]
        ),
        (b'A', b'C', b'D')
    );
    let waits = target.events.iter().find_map(|event| match event {
        RemoteEvent::Connected { writes_wait_us } => Some(*writes_wait_us),
        _ => None,
    });
    assert!(
        (10 * SECOND..12 * SECOND).contains(&waits.unwrap()),
        "{waits:?}"
    );
}

#[test]
fn changes_past_their_deadline_end_with_what_is_known_of_them() {
    let memory = target();
    let own = RemoteOptions {
        reconnect_us: 3 * SECOND,
        ..options()
    };
    let mut device = connect(&memory, own).unwrap();
    hold(&memory, 3, 9 * SECOND);
    let began = now(&memory);
    submit(&mut device, 1, write(0, b'A'));
    // So that the loss is noticed and new ones are not sent.
    let operation = Operation::Read {
        lba: 1,
        buffer: buffer(1, 0),
    };
    submit(&mut device, 2, operation);
    assert_eq!(next(&mut device).tag, 2);
    submit(&mut device, 3, write(0, b'B'));
    let first = next(&mut device);
    assert_eq!((first.tag, first.result), (1, Err(Error::OutcomeUnknown)));
    assert!(!Error::OutcomeUnknown.is_retryable());
    // This one was not sent: it has not been executed, and may be repeated.
    let second = next(&mut device);
    assert_eq!((second.tag, second.result), (3, Err(Error::TimedOut)));
    assert!(now(&memory) - began < 9 * SECOND);
    assert!(matches!(
        memory.target.borrow().events.last(),
        Some(RemoteEvent::InDoubt { in_doubt_us }) if (5 * SECOND..9 * SECOND).contains(in_doubt_us)
    ));
    // The device holds changes back until the fence all the same, and then goes on.
    idle(&memory, &mut device, began + 14 * SECOND - now(&memory));
    assert_eq!(memory.target.borrow().disk[0], b'A', "it was executed late");
    blocking::write(&mut device, 0, buffer(1, b'B'), false)
        .result
        .unwrap();
    assert!(now(&memory) - began >= WAIT);
    assert_eq!(memory.target.borrow().disk[0], b'B');
}

#[test]
fn a_device_that_leaves_changes_in_doubt_is_closed_when_they_have_ended() {
    // Given up, or closed during the wait.
    for reconnect_us in [0, 30 * SECOND] {
        let memory = target();
        let own = RemoteOptions {
            reconnect_us,
            ..options()
        };
        let mut device = connect(&memory, own).unwrap();
        hold(&memory, 3, 9 * SECOND);
        let began = now(&memory);
        submit(&mut device, 1, write(0, b'A'));
        while device.reconnects() == 0 && device.last_error().is_none() {
            assert!(device.poll().is_none());
            device.wait(100_000);
        }
        if reconnect_us == 0 {
            assert_eq!(next(&mut device).result, Err(Error::OutcomeUnknown));
        }
        assert!(now(&memory) - began < 6 * SECOND);
        drop(device);
        assert!(now(&memory) - began >= WAIT);
        // The next one is not overtaken.
        let mut device = connect(&memory, options()).unwrap();
        blocking::write(&mut device, 0, buffer(1, b'B'), false)
            .result
            .unwrap();
        idle(&memory, &mut device, 30 * SECOND);
        let target = memory.target.borrow();
        assert_eq!((target.late_writes, target.disk[0]), (1, b'B'));
    }
}

#[test]
fn an_association_that_the_target_closed_needs_only_its_time_to_quiesce() {
    for (quiesce_ms, trusts_close, expected) in [
        (0, true, SECOND),
        (2500, true, 2_500_000),
        (0, false, WAIT),
        (2500, false, 17_500_000),
    ] {
        let memory = target();
        memory.target.borrow_mut().quiesce_ms = quiesce_ms;
        let own = RemoteOptions {
            trusts_close,
            ..options()
        };
        let mut device = connect(&memory, own).unwrap();
        assert_eq!(
            device.timing().wait_ms(),
            Some(15_000 + u64::from(quiesce_ms.max(1000)))
        );
        let pdu = memory.target.borrow().pdus;
        memory.target.borrow_mut().close_at = Some(pdu);
        let began = now(&memory);
        submit(&mut device, 1, write(0, b'A'));
        assert_eq!(next(&mut device).result, Ok(()));
        let took = now(&memory) - began;
        let range = expected..expected + SECOND / 2;
        assert!(range.contains(&took), "{took} us, not {expected}");
    }
    // Nothing waits if no change was in doubt.
    let memory = target();
    let mut device = connect(&memory, options()).unwrap();
    let pdu = memory.target.borrow().pdus;
    memory.target.borrow_mut().close_at = Some(pdu);
    blocking::read(&mut device, 0, buffer(1, 0)).result.unwrap();
    blocking::write(&mut device, 0, buffer(1, b'A'), false)
        .result
        .unwrap();
    assert_eq!(device.reconnects(), 1);
    assert!(now(&memory) < SECOND / 2, "{}", now(&memory));
}

#[test]
fn the_timeout_in_effect_is_the_controllers() {
    let wait = |change: fn(&mut crate::support::Target), keep_alive_ms| {
        let memory = target();
        change(&mut memory.target.borrow_mut());
        let own = RemoteOptions {
            keep_alive_ms,
            ..options()
        };
        connect(&memory, own).unwrap().timing().wait_ms()
    };
    assert_eq!(wait(|_| (), 5000), Some(16_000));
    assert_eq!(
        wait(|target| target.traffic_based = false, 5000),
        Some(11_000)
    );
    // In whole seconds by KAS; one that the controller has raised.
    assert_eq!(wait(|_| (), 1500), Some(3 * 2000 + 1000));
    assert_eq!(
        wait(|target| target.reported_keep_alive_ms = Some(10_000), 5000),
        Some(31_000)
    );
    assert_eq!(wait(|target| target.quiesce_ms = 1, 5000), Some(15_001));
    assert_eq!(wait(|_| (), 0), None);
}

#[test]
fn a_command_whose_path_failed_is_sent_again_within_the_time_to_reconnect() {
    let read = |device: &mut Device| blocking::read(device, 0, buffer(1, 0)).result;
    // Internal path error; persistent loss, inaccessible, transition; a pathing error of the
    // controller.
    for status in [0x300, 0x301, 0x302, 0x303, 0x360] {
        let memory = target();
        let mut device = connect(&memory, options()).unwrap();
        memory.target.borrow_mut().statuses = (status, 4);
        let began = now(&memory);
        assert_eq!(read(&mut device), Ok(()), "{status:x}");
        // The least of four pauses: none, and half of 125, 250, 500 and 1,000 ms.
        assert!(now(&memory) - began >= SECOND * 4 / 5, "four pauses");
        memory.target.borrow_mut().statuses = (status, 3);
        let write = blocking::write(&mut device, 0, buffer(1, b'A'), false);
        assert_eq!(write.result, Ok(()));
        assert_eq!(memory.target.borrow().disk[0], b'A');
        // For ever: it ends after the time to reconnect, with the status.
        memory.target.borrow_mut().statuses = (status, usize::MAX);
        let began = now(&memory);
        assert_eq!(read(&mut device), Err(Error::Nvme { status }));
        let took = now(&memory) - began;
        assert!((30 * SECOND..31 * SECOND).contains(&took), "{took} us");
        assert_eq!(device.reconnects(), 0);
        // Do Not Retry, and other statuses: at once.
        for status in [status | 0x4000, 0x281] {
            memory.target.borrow_mut().statuses = (status, 1);
            assert_eq!(read(&mut device), Err(Error::Nvme { status }));
        }
        assert_eq!(read(&mut device), Ok(()));
    }
}

#[test]
fn a_command_that_was_sent_again_and_is_not_answered_has_a_deadline() {
    let memory = target();
    let own = RemoteOptions {
        keep_alive_ms: 0,
        reconnect_us: 2 * SECOND,
        ..options()
    };
    let mut device = connect(&memory, own).unwrap();
    memory.target.borrow_mut().statuses = (0x303, 1);
    submit(
        &mut device,
        1,
        Operation::Read {
            lba: 0,
            buffer: buffer(1, 0),
        },
    );
    // The answer is the last PDU.
    let pdus = memory.target.borrow().pdus;
    memory.target.borrow_mut().hang_at = Some(pdus);
    assert_eq!(next(&mut device).result, Err(Error::Gone));
    assert!(now(&memory) < 30 * SECOND);
}

#[test]
fn another_namespace_behind_the_same_name_is_not_used_and_said() {
    type Change = (fn(&mut crate::support::Target), &'static str);
    let changes: [Change; 3] = [
        (
            |target| target.uuid[15] = 7,
            "it has UUID 00000000-0000-0000-0000-000000000007, and had UUID 00000000-0000-0000-0000-000000000000",
        ),
        (
            |target| target.nguid[0] = 0xab,
            "it has NGUID ab000000000000000000000000000000, and had NGUID 0000",
        ),
        (
            |target| target.size_blocks = 32,
            "it has 32 blocks of 512 bytes, and had 64 blocks",
        ),
    ];
    for (change, says) in changes {
        let memory = target();
        let own = RemoteOptions {
            queues: 1,
            ..options()
        };
        let mut device = connect(&memory, own).unwrap();
        let pdu = memory.target.borrow().pdus;
        memory.target.borrow_mut().close_at = Some(pdu);
        change(&mut memory.target.borrow_mut());
        submit(&mut device, 1, write(0, b'A'));
        submit(
            &mut device,
            2,
            Operation::Read {
                lba: 0,
                buffer: buffer(1, 0),
            },
        );
        let mut results = [next(&mut device), next(&mut device)].map(|one| (one.tag, one.result));
        results.sort_by_key(|one| one.0);
        let expected = [(1, Err(Error::OutcomeUnknown)), (2, Err(Error::Replaced))];
        assert_eq!(results, expected);
        assert_eq!(blocking::flush(&mut device), Err(Error::Replaced));
        let error = device.last_error().unwrap();
        assert!(matches!(error, FabricError::OtherNamespace { nsid: 1, .. }));
        assert!(error.to_string().contains(says), "{error}");
        let target = memory.target.borrow();
        assert!(matches!(
            target.events.last(),
            Some(RemoteEvent::GivenUp { in_doubt_us, .. }) if *in_doubt_us > 0
        ));
    }
}

/// Writes "A" and flushes, writes "B", loses the connection and the target's cache, and flushes.
/// Returns what is read, and whether the doubt was told.
fn loses_its_cache(writes_through: bool, flushes: bool) -> (u8, usize) {
    let memory = target();
    let own = RemoteOptions {
        writes_through,
        ..options()
    };
    let mut device = connect(&memory, own).unwrap();
    for fill in [b'A', b'B'] {
        blocking::write(&mut device, 0, buffer(1, fill), false)
            .result
            .unwrap();
        if fill == b'A' || flushes {
            blocking::flush(&mut device).unwrap();
        }
    }
    {
        let mut target = memory.target.borrow_mut();
        target.disk = target.durable.clone();
        target.close_at = Some(target.pdus);
    }
    blocking::flush(&mut device).unwrap();
    assert_eq!(device.reconnects(), 1);
    // Another loss has nothing to tell: nothing was written since.
    let pdu = memory.target.borrow().pdus;
    memory.target.borrow_mut().close_at = Some(pdu);
    blocking::flush(&mut device).unwrap();
    assert_eq!(device.reconnects(), 2);
    let target = memory.target.borrow();
    let told = |event: &&RemoteEvent| **event == RemoteEvent::CacheInDoubt;
    (target.disk[0], target.events.iter().filter(told).count())
}

#[test]
fn what_a_target_may_have_lost_of_its_cache_is_told_or_written_through() {
    assert_eq!(loses_its_cache(false, true), (b'B', 0));
    // Nothing in the protocol tells that the target restarted: the flush succeeds.
    assert_eq!(loses_its_cache(false, false), (b'A', 1));
    assert_eq!(loses_its_cache(true, false), (b'B', 0));
}
