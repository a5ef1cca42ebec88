// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the documentation promises, one by one.

use super::support::{
    BLOCK, FIXED, LINE_BLOCKS, TestClock, buffer, hybrid, lines, read, run, write,
};
use block::{Completion, Device, Error, Geometry, Operation, Refused, Request};
use crash::{CommandKind, Config, Counting, CrashDisk, Fault, Faulty, Medium, On, Rule};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use straightway_hybrid::{Bytes, Direction, Hybrid, HybridOptions};

fn disk() -> CrashDisk {
    let config = Config {
        max_transfer_blocks: 64,
        ..Config::default()
    };
    CrashDisk::new(Medium::new(9, 1024).unwrap(), config)
}

#[test]
fn small_sequential_writes_become_aligned_lines_and_large_ones_are_not_copied() {
    let clock = TestClock::default();
    let counting = Counting::new(disk());
    let counter = counting.counter();
    let mut device = hybrid(counting, &clock, FIXED);
    for lba in 0..LINE_BLOCKS as u64 * 4 {
        run(&mut device, write(lba, 1, 3, false)).1.unwrap();
    }
    run(&mut device, Operation::Flush).1.unwrap();
    let counts = counter.take();
    // The first is not known to begin a sequence.
    assert_eq!((counts.writes.commands, counts.writes.blocks), (5, 64));
    assert_eq!(device.statistics().line_writes, 4);
    let before = device.statistics();
    let data = buffer(8 * BLOCK, 4);
    let address = data.address();
    let operation = Operation::Write {
        lba: 200,
        buffer: data,
        fua: false,
    };
    let returned = run(&mut device, operation).0.unwrap();
    assert_eq!(returned.address(), address);
    assert_eq!(
        device.statistics().direct_requests,
        before.direct_requests + 1
    );
    assert_eq!(counter.take().writes.commands, 1);
}

#[test]
fn random_small_accesses_go_straight() {
    let clock = TestClock::default();
    let mut device = hybrid(disk(), &clock, FIXED);
    for turn in 0..200u64 {
        let lba = turn * 37 % 500 * 2;
        run(&mut device, write(lba, 1, 1, false)).1.unwrap();
        read(&mut device, (lba + 211) % 1000, 1);
    }
    let statistics = device.statistics();
    assert_eq!((statistics.gathered_writes, statistics.line_reads), (0, 0));
    assert_eq!(statistics.direct_requests, 400);
}

#[test]
fn read_ahead_is_bounded_counted_and_can_be_turned_off() {
    let clock = TestClock::default();
    for (ahead_lines, most) in [(0, 0), (1, 2), (3, 4)] {
        let options = HybridOptions {
            ahead_lines,
            ..FIXED
        };
        let mut device = hybrid(disk(), &clock, options);
        for lba in 0..100 {
            read(&mut device, lba, 1);
        }
        let statistics = device.statistics();
        let used = statistics.served_reads * BLOCK as u64;
        let ahead = statistics.line_read_bytes - used - statistics.unused_bytes;
        assert!(
            ahead <= most * (LINE_BLOCKS * BLOCK) as u64,
            "{statistics:?}"
        );
        assert_eq!(statistics.served_reads > 90, ahead_lines > 0);
        assert_eq!(statistics.line_reads == 0, ahead_lines == 0);
    }
}

#[test]
fn gathered_data_waits_no_longer_than_its_time() {
    let clock = TestClock::default();
    let mut device = hybrid(disk(), &clock, FIXED);
    for lba in 0..3 {
        run(&mut device, write(lba, 1, 3, false)).1.unwrap();
    }
    assert_eq!(device.gathered_bytes(), 2 * BLOCK as u64);
    assert_eq!(device.next_deadline(), Some(1_000));
    clock.advance(999);
    device.kick();
    assert_eq!(device.statistics().expired_lines, 0);
    clock.advance(1);
    device.kick();
    assert_eq!(
        (device.statistics().expired_lines, device.next_deadline()),
        (1, None)
    );
    assert!(device.poll().is_none());
    assert_eq!(device.gathered_bytes(), 0);
    assert!(device.into_parts().is_ok());
}

#[test]
fn dirty_lines_are_the_bound_in_bytes() {
    let clock = TestClock::default();
    let options = HybridOptions {
        dirty_lines: 2,
        hold_us: u32::MAX,
        ..FIXED
    };
    let mut device = hybrid(disk(), &clock, options);
    for turn in 0..200u64 {
        for stream in 0..4 {
            run(&mut device, write(stream * 250 + turn, 1, 3, false))
                .1
                .unwrap();
            assert!(device.gathered_bytes() <= 2 * (LINE_BLOCKS * BLOCK) as u64);
        }
    }
}

#[test]
fn a_write_with_fua_follows_what_was_gathered_before_it() {
    let clock = TestClock::default();
    let disk = disk();
    let mut device = hybrid(disk.clone(), &clock, FIXED);
    for lba in 0..6 {
        run(&mut device, write(lba, 1, 3, false)).1.unwrap();
    }
    run(&mut device, write(500, 1, 4, true)).1.unwrap();
    let log = disk.log();
    let last = log.last().unwrap();
    assert!(last.command.fua && last.command.lba == 500);
    assert!(
        log.iter()
            .rev()
            .skip(1)
            .all(|earlier| earlier.completed_at < last.completed_at)
    );
    assert_eq!(device.gathered_bytes(), 0);
}

#[test]
fn a_late_error_is_reported_once_and_its_data_is_kept() {
    let clock = TestClock::default();
    let faulty = Faulty::new(
        disk(),
        [Rule::once(
            On::Kind(CommandKind::Write),
            2,
            Fault::Fail(Error::TimedOut),
        )],
    );
    let faults = faulty.faults();
    let mut device = hybrid(faulty, &clock, FIXED);
    for lba in 0..3 {
        run(&mut device, write(lba, 1, lba as u8 + 1, false))
            .1
            .unwrap();
    }
    clock.advance(2_000);
    device.kick();
    assert!(device.poll().is_none());
    assert_eq!(
        (faults.fired_count(), device.statistics().failed_lines),
        (1, 1)
    );
    // Reads still see it; the next write is told, and has no effect.
    assert_eq!(read(&mut device, 2, 1), [3; BLOCK]);
    assert_eq!(
        run(&mut device, write(100, 1, 9, false)).1,
        Err(Error::TimedOut)
    );
    assert_eq!(read(&mut device, 100, 1), [0; BLOCK]);
    run(&mut device, write(100, 1, 9, false)).1.unwrap();
    // A flush tries again, and then nothing is lost.
    run(&mut device, Operation::Flush).1.unwrap();
    assert_eq!(device.gathered_bytes(), 0);
    assert_eq!(read(&mut device, 1, 2)[..BLOCK], [2; BLOCK]);
}

#[test]
fn a_flush_on_a_device_that_is_gone_fails_each_time_and_keeps_the_data() {
    let clock = TestClock::default();
    let disk = disk();
    let mut device = hybrid(disk.clone(), &clock, FIXED);
    for lba in 0..3 {
        run(&mut device, write(lba, 1, 3, false)).1.unwrap();
    }
    disk.cut();
    for _ in 0..3 {
        assert_eq!(run(&mut device, Operation::Flush).1, Err(Error::Gone));
    }
    assert_eq!(device.gathered_bytes(), 2 * BLOCK as u64);
    let mut device = device.into_parts().unwrap_err();
    assert_eq!(device.discard_gathered(), 2 * BLOCK as u64);
    assert!(device.into_parts().is_ok());
}

#[test]
fn a_bad_block_ahead_fails_only_the_read_of_that_block() {
    let clock = TestClock::default();
    let rule = Rule::from(
        On::Kind(CommandKind::Read),
        1,
        Fault::Fail(Error::Nvme { status: 0x281 }),
    );
    let faulty = Faulty::new(disk(), [rule.within(20..21)]);
    let mut device = hybrid(faulty, &clock, FIXED);
    for lba in 0..40 {
        let operation = Operation::Read {
            lba,
            buffer: buffer(BLOCK, 0),
        };
        assert_eq!(
            run(&mut device, operation).1.is_err(),
            lba == 20,
            "block {lba}"
        );
    }
    assert!(device.statistics().failed_lines > 0);
}

#[test]
fn a_refusal_below_is_the_caller_s_with_its_tag() {
    let clock = TestClock::default();
    let faulty = Faulty::new(
        disk(),
        [Rule::once(
            On::Any,
            1,
            Fault::Refuse(Error::BufferUnreachable),
        )],
    );
    let mut device = hybrid(faulty, &clock, FIXED);
    let refused = device
        .submit(Request {
            tag: 77,
            operation: write(5, 1, 1, false),
        })
        .unwrap_err();
    assert_eq!(
        (refused.error, refused.request.tag),
        (Error::BufferUnreachable, 77)
    );
    assert_eq!(device.outstanding(), 0);
    let refused = device
        .submit(Request {
            tag: 1,
            operation: write(1024, 1, 1, false),
        })
        .unwrap_err();
    assert_eq!(refused.error, Error::OutOfRange);
}

#[test]
fn impossible_settings_return_everything() {
    let clock = TestClock::default();
    for options in [
        HybridOptions {
            dirty_lines: 0,
            ..FIXED
        },
        HybridOptions {
            dirty_lines: 6,
            ..FIXED
        },
    ] {
        let error = Hybrid::<_, _, 6, 16>::open(disk(), &clock, lines(), options).unwrap_err();
        assert!(error.lines.iter().all(Option::is_some));
        assert!(error.reason.contains("dirty_lines"));
    }
    let odd = [buffer(3 * BLOCK, 0), buffer(3 * BLOCK, 0)];
    let error = Hybrid::<_, _, 2, 16>::open(disk(), &clock, odd, FIXED).unwrap_err();
    assert!(error.reason.contains("power of two"), "{error}");
    let long = [buffer(128 * BLOCK, 0), buffer(128 * BLOCK, 0)];
    let error = Hybrid::<_, _, 2, 16>::open(disk(), &clock, long, FIXED).unwrap_err();
    assert!(error.reason.contains("largest transfer"), "{error}");
}

#[test]
fn short_writes_of_bytes_in_a_row_read_nothing() {
    let clock = TestClock::default();
    let counting = Counting::new(disk());
    let counter = counting.counter();
    let device = hybrid(counting, &clock, FIXED);
    let mut bytes = Bytes::new(device, buffer(9 * BLOCK, 0)).unwrap();
    for turn in 0..100 {
        bytes.write_at(turn * 100, &[turn as u8; 100]).unwrap();
    }
    bytes.flush().unwrap();
    let counts = counter.take();
    // 10,000 bytes are 19 blocks and a part: the part's rest is read, once.
    assert_eq!((counts.reads.commands, counts.reads.blocks), (1, 1));
    assert!(counts.writes.commands <= 4, "{counts:?}");
    let mut data = vec![0; 10_000];
    bytes.read_at(0, &mut data).unwrap();
    assert!(
        data.iter()
            .enumerate()
            .all(|(at, &byte)| byte == (at / 100) as u8)
    );
}

/// A disk whose commands take a fixed time and a time for each block, in the test's clock.
struct Timed<'c> {
    disk: CrashDisk,
    clock: &'c TestClock,
    command_us: Rc<Cell<u64>>,
    block_us: u64,
    ends: VecDeque<u64>,
}

impl Device for Timed<'_> {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        let blocks = match &request.operation {
            Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => {
                buffer.len() / BLOCK
            }
            _ => 0,
        };
        self.disk.submit(request)?;
        // One command after another.
        let begins = self
            .ends
            .back()
            .copied()
            .unwrap_or(0)
            .max(self.clock.0.get());
        self.ends
            .push_back(begins + self.command_us.get() + self.block_us * blocks as u64);
        Ok(())
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        let end = self.ends.front().copied()?;
        if self.clock.0.get() < end {
            self.clock.advance(1);
            return None;
        }
        self.ends.pop_front();
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding()
    }
}

#[test]
fn the_border_is_measured_on_the_device_and_follows_it() {
    let measured = HybridOptions {
        fixed_border_blocks: None,
        probe_us: 1_000_000,
        ..FIXED
    };
    let clock = TestClock::default();
    let opened = |command_us: u64, block_us| {
        let (disk, ends, command) = (disk(), VecDeque::new(), Rc::new(Cell::new(command_us)));
        let timed = Timed {
            disk,
            clock: &clock,
            command_us: Rc::clone(&command),
            block_us,
            ends,
        };
        (hybrid(timed, &clock, measured), command)
    };
    // A command costs as much as 100 blocks: even half a line gains.
    assert_eq!(opened(1_000, 10).0.border().blocks(Direction::Read), 16);
    // A command costs next to nothing.
    assert_eq!(opened(1, 100).0.border().blocks(Direction::Read), 0);
    // Between: 60 and 24 a block; of a line 28 a block. 8 blocks: 222 against 252, too little.
    let (mut device, command) = opened(60, 24);
    let border = device.border().blocks(Direction::Read);
    assert_eq!(border, 8);
    // The device's commands become free; short reads at random show it.
    command.set(0);
    for turn in 0..4_000u64 {
        read(&mut device, turn * 37 % 500 * 2, 1);
    }
    assert_eq!(device.border().blocks(Direction::Read), 0);
    assert!(device.statistics().border_moves > 0);
}
