// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the tools on a protocol that is small enough to be known correct: a register of two
//! copies, of which the older is overwritten. Each deliberate violation must be found.
use block::{Buffer, Device, Error, blocking};
use crash::{
    Broken, CommandKind, Completions, Config, CrashDisk, Cut, Fault, Faulty, Medium, On,
    OrderRules, Orders, Pair, Rule, Sampling,
};

const SIZE: usize = 512;
/// The copies, and the data that the register points at.
const COPIES: [u64; 2] = [8, 24];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutation {
    None,
    NoFlush,
    NoDataFlush,
    InPlace,
    NoChecksum,
}

struct Register<D> {
    device: D,
    buffer: Option<Buffer>,
    mutation: Mutation,
    seq: u64,
    value: u64,
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().unwrap())
}

fn check(bytes: &[u8]) -> u64 {
    let words = (1..SIZE / 8).map(|index| word(bytes, index));
    words.fold(1, |sum: u64, word| {
        sum.rotate_left(9).wrapping_mul(0x9e37_79b9) ^ word
    })
}

impl<D: Device> Register<D> {
    /// Opens the register; a copy without a sequence number is invalid.
    fn open(device: D, buffer: Buffer, mutation: Mutation) -> Result<Self, (Error, Buffer)> {
        let mut register = Self {
            device,
            buffer: Some(buffer),
            mutation,
            seq: 0,
            value: 0,
        };
        for lba in COPIES {
            if let Err(error) = register.read(lba) {
                return Err((error, register.buffer.take().unwrap()));
            }
            let bytes = register.buffer.as_ref().unwrap();
            let is_valid = word(bytes, 0) == check(bytes) || mutation == Mutation::NoChecksum;
            if is_valid && word(bytes, 1) > register.seq {
                (register.seq, register.value) = (word(bytes, 1), word(bytes, 2));
            }
        }
        Ok(register)
    }

    fn read(&mut self, lba: u64) -> Result<(), Error> {
        let buffer = self.buffer.take().unwrap();
        let outcome = blocking::read(&mut self.device, lba, buffer);
        self.buffer = Some(outcome.buffer);
        outcome.result
    }

    fn write(&mut self, lba: u64, fill: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        let mut buffer = self.buffer.take().unwrap();
        fill(&mut buffer);
        let outcome = blocking::write(&mut self.device, lba, buffer, false);
        self.buffer = Some(outcome.buffer);
        outcome.result
    }

    /// Durable when it returns. The data is first written to a separate block.
    fn set(&mut self, value: u64) -> Result<(), Error> {
        self.write(32 + value, |data| data.fill(value as u8))?;
        if self.mutation != Mutation::NoDataFlush {
            blocking::flush(&mut self.device)?;
        }
        let seq = self.seq + 1;
        let member = if self.mutation == Mutation::InPlace {
            0
        } else {
            seq % 2
        };
        self.write(COPIES[member as usize], |node| {
            node.fill(value as u8);
            node[8..16].copy_from_slice(&seq.to_le_bytes());
            node[16..24].copy_from_slice(&value.to_le_bytes());
            let sum = check(node);
            node[..8].copy_from_slice(&sum.to_le_bytes());
        })?;
        if self.mutation != Mutation::NoFlush {
            blocking::flush(&mut self.device)?;
        }
        (self.seq, self.value) = (seq, value);
        Ok(())
    }
}

fn buffer() -> Buffer {
    Buffer::from_static(Box::leak(vec![0; SIZE].into_boxed_slice()))
}

/// Sets 1, 2, ... until an error, and returns the last that was acknowledged.
fn run<D: Device>(register: &mut Register<D>, up_to: u64) -> u64 {
    for value in register.value + 1..=up_to {
        if register.set(value).is_err() {
            return value - 1;
        }
    }
    up_to
}

/// Whether `medium` has the register with `acknowledged` or a later value, and its data.
fn is_good(
    medium: &Medium,
    acknowledged: u64,
    buffer: Buffer,
    mutation: Mutation,
) -> (bool, Buffer) {
    let disk = medium.open(Config::default());
    let mut register = Register::open(disk, buffer, mutation).unwrap();
    let value = register.value;
    let mut is_good = value == acknowledged || value == acknowledged + 1;
    if is_good && value > 0 {
        register.read(32 + value).unwrap();
        let data = register.buffer.as_ref().unwrap();
        is_good = data.iter().all(|byte| *byte == value as u8);
    }
    (is_good, register.buffer.take().unwrap())
}

/// Cuts the power at each command of six updates, and in each image at each command of two more.
/// Returns how many states were seen and how many were bad.
fn survey(mutation: Mutation, config: Config) -> (u64, u64) {
    let sampling = Sampling {
        tears: 4,
        ..Sampling::default()
    };
    let (mut states, mut bad) = (0, 0);
    let mut spare = buffer();
    let empty = Medium::new(9, 64).unwrap();
    for first in 1.. {
        let disk = CrashDisk::new(empty.clone(), config);
        disk.stop_after(first, Cut::During);
        let mut register = Register::open(disk.clone(), spare, mutation).unwrap();
        let acknowledged = run(&mut register, 6);
        spare = register.buffer.take().unwrap();
        let is_last = !disk.is_off();
        for image in disk.images(&sampling) {
            let good;
            (good, spare) = is_good(&image.medium, acknowledged, spare, mutation);
            states += 1;
            bad += u64::from(!good);
            for second in 1..=8 {
                let disk = image.open(config);
                disk.stop_after(second, Cut::During);
                let mut register = Register::open(disk.clone(), spare, mutation).unwrap();
                let start = register.value;
                let acknowledged = run(&mut register, start + 2);
                spare = register.buffer.take().unwrap();
                for image in disk.images(&sampling) {
                    let good;
                    (good, spare) = is_good(&image.medium, acknowledged, spare, mutation);
                    states += 1;
                    bad += u64::from(!good);
                }
            }
        }
        if is_last {
            break;
        }
    }
    (states, bad)
}

#[test]
fn every_crash_leaves_a_register_and_every_mutation_is_found() {
    let held = Config {
        completions: Completions::Shuffled(1),
        hold_polls: 2,
        ..Config::default()
    };
    for config in [Config::default(), held] {
        let (states, bad) = survey(Mutation::None, config);
        println!("{states} states");
        assert_eq!(bad, 0);
        assert!(states > 1000);
        for mutation in [
            Mutation::NoFlush,
            Mutation::NoDataFlush,
            Mutation::InPlace,
            Mutation::NoChecksum,
        ] {
            let (states, bad) = survey(mutation, config);
            println!("{mutation:?}: {bad} of {states} bad");
            assert!(bad > 0, "{mutation:?} was not found");
        }
    }
}

#[test]
fn the_order_is_checked_on_the_way() {
    let rules = || {
        let is_copy = |lba| COPIES.contains(&lba);
        OrderRules::new()
            .separate(0..32)
            .pairs(0..32, move |lba| {
                let member = u8::from(lba == COPIES[1]);
                is_copy(lba).then_some(Pair { id: 0, member })
            })
            .durable_first(
                "data before the register",
                |first| first.lba >= 32,
                move |later| is_copy(later.lba),
            )
    };
    let broken = |mutation| {
        let disk = Medium::new(9, 64).unwrap().open(Config::default());
        let device = Orders::new(disk, rules());
        let log = device.log();
        let mut register = Register::open(device, buffer(), mutation).unwrap();
        assert_eq!(run(&mut register, 6), 6);
        log.violations().first().map(|violation| violation.broken)
    };
    let data_first = Broken::DurableFirst("data before the register");
    assert_eq!(broken(Mutation::None), None);
    assert_eq!(broken(Mutation::NoDataFlush), Some(data_first));
    // The flush of the next update's data separates the copies, so no rule is broken; only a power
    // cut shows that the value is not durable when it is acknowledged.
    assert_eq!(broken(Mutation::NoFlush), None);
}

#[test]
fn a_fault_at_each_command_loses_nothing_acknowledged() {
    let faults = [
        Fault::Fail(Error::TimedOut),
        Fault::FailDone(Error::TimedOut),
        Fault::Remove,
        Fault::Short { done_blocks: 0 },
    ];
    for fault in faults {
        let mut fired = 0;
        for at in 1.. {
            let disk = Medium::new(9, 64).unwrap().open(Config::default());
            let device = Faulty::new(disk.clone(), [Rule::once(On::Any, at, fault.clone())]);
            let handle = device.faults();
            let acknowledged = match Register::open(device, buffer(), Mutation::None) {
                Ok(mut register) => run(&mut register, 6),
                Err(_) => 0,
            };
            for image in disk.images(&Sampling::default()) {
                assert!(is_good(&image.medium, acknowledged, buffer(), Mutation::None).0);
            }
            assert_eq!(acknowledged < 6, handle.fired_count() > 0);
            if handle.fired_count() == 0 {
                break;
            }
            fired += 1;
        }
        assert!(fired >= 14, "2 reads and 6 x 2 writes at least: {fired}");
    }
    // Only the content that a lost write leaves reveals it.
    let disk = Medium::new(9, 64).unwrap().open(Config::default());
    let lose = Rule::once(On::Kind(CommandKind::Write), 2, Fault::Lose);
    let device = Faulty::new(disk.clone(), [lose]);
    let mut register = Register::open(device, buffer(), Mutation::None).unwrap();
    assert_eq!(run(&mut register, 1), 1);
    assert!(!is_good(&disk.durable(), 1, buffer(), Mutation::None).0);
}
