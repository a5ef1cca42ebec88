// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All wrappers on top of each other with random commands, faults and cuts: each accepted request
//! completes once, with its own tag and its own buffer.
use block::{Buffer, Device, Error, Operation, Request};
use crash::{
    CommandKind, Completions, Config, Counting, Discarded, Fault, Faulty, Medium, On, OrderRules,
    Orders, Pair, Rule,
};
use std::collections::HashMap;

const BLOCKS: u64 = 40;
const SIZE: usize = 64;

fn fault(random: &mut fastrand::Rng) -> Fault {
    match random.u8(0..11) {
        0 => Fault::Refuse(Error::QueueFull),
        1 => Fault::Fail(Error::Nvme { status: 0x280 }),
        2 => Fault::FailDone(Error::TimedOut),
        3 | 4 => Fault::Short {
            done_blocks: random.u32(0..4),
        },
        5 => Fault::Remove,
        6 => Fault::Lose,
        7 => Fault::Misdirect {
            by_blocks: random.i64(..),
        },
        8 => Fault::Stale {
            before: Medium::with_garbage(6, BLOCKS, 3).unwrap(),
        },
        9 => Fault::FlipRead {
            bit: random.u32(..),
        },
        _ => Fault::FlipWrite {
            bit: random.u32(..),
        },
    }
}

fn operation(random: &mut fastrand::Rng, spare: &mut Vec<Buffer>) -> Operation {
    // One in eight is past the end, and is refused.
    let lba = random.u64(0..BLOCKS + 5);
    let block_count = random.u32(1..4);
    let fua = random.bool();
    let kind = random.u8(0..8);
    let mut buffer = || {
        let place = random.usize(0..spare.len());
        spare.swap_remove(place)
    };
    match kind {
        0..=2 => {
            let buffer = buffer();
            Operation::Read { lba, buffer }
        }
        3..=5 => {
            let mut buffer = buffer();
            buffer.fill(lba as u8);
            Operation::Write { lba, buffer, fua }
        }
        6 => match lba % 3 {
            0 => Operation::Flush,
            1 => Operation::Discard { lba, block_count },
            _ => Operation::WriteZeroes {
                lba,
                block_count,
                fua,
            },
        },
        _ => Operation::Flush,
    }
}

#[test]
fn each_request_comes_back_once_with_its_own_buffer() {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let given = given.and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut spare: Vec<Buffer> = (0..24)
        .map(|index| Buffer::from_static(vec![0; SIZE * (1 + index % 3)].leak()))
        .collect();
    let (mut completed, mut fired, mut failed) = (0, 0, 0);
    for _ in 0..400 {
        let config = Config {
            queue_depth: random.u16(1..12),
            completions: if random.bool() {
                Completions::Shuffled(random.u64(..))
            } else {
                Completions::InOrder
            },
            hold_polls: random.u32(0..6),
            discarded: Discarded::Garbage(4),
            ..Config::default()
        };
        let disk = Medium::with_garbage(6, BLOCKS, 1).unwrap().open(config);
        let rules: Vec<Rule> = (0..random.usize(0..4))
            .map(|_| {
                let on = [On::Any, On::Change, On::Kind(CommandKind::Read)][random.usize(0..3)];
                let at = random.u64(1..30);
                if random.u8(0..4) == 0 {
                    Rule::from(on, at, fault(&mut random))
                } else {
                    Rule::once(on, at, fault(&mut random))
                }
            })
            .collect();
        let faulty = Faulty::new(disk.clone(), rules);
        let faults = faulty.faults();
        let counting = Counting::new(faulty);
        let counter = counting.counter();
        let pair = |lba| {
            let member = (lba % 2) as u8;
            Some(Pair {
                id: lba / 2,
                member,
            })
        };
        let order = OrderRules::new()
            .separate(0..20)
            .pairs(0..BLOCKS, pair)
            .apart(0..BLOCKS);
        let mut device = Orders::new(counting, order);
        let log = device.log();
        let mut under_way: HashMap<u32, Option<(usize, usize)>> = HashMap::new();
        let mut accepted = 0;
        let cut_at = random.u32(0..160);
        for tag in 0..80 {
            if tag == cut_at {
                disk.cut();
            }
            let operation = operation(&mut random, &mut spare);
            let place = |buffer: &Buffer| (buffer.address(), buffer.len());
            let mine = match &operation {
                Operation::Read { buffer, .. } | Operation::Write { buffer, .. } => {
                    Some(place(buffer))
                }
                _ => None,
            };
            match device.submit(Request { tag, operation }) {
                Ok(()) => {
                    accepted += 1;
                    under_way.insert(tag, mine);
                }
                Err(refused) => {
                    assert_eq!(refused.request.tag, tag);
                    let buffer = refused.request.operation.into_buffer();
                    assert_eq!(buffer.as_ref().map(place), mine);
                    spare.extend(buffer);
                }
            }
            assert_eq!(device.outstanding(), under_way.len());
            if random.bool() {
                device.kick();
            }
            let drain = tag == 79;
            let mut polls = if drain { 100 } else { random.u32(0..3) };
            while polls > 0 {
                polls -= 1;
                if drain {
                    device.kick();
                }
                let Some(completion) = device.poll() else {
                    continue;
                };
                let mine = under_way.remove(&completion.tag);
                let mine = mine.expect("a tag that is under way");
                assert_eq!(completion.buffer.as_ref().map(place), mine);
                spare.extend(completion.buffer);
                failed += u64::from(completion.result.is_err());
                completed += 1;
            }
        }
        assert_eq!((under_way.len(), device.outstanding()), (0, 0));
        assert_eq!(spare.len(), 24, "every buffer is back");
        assert_eq!(counter.counts(), log.counts());
        assert_eq!(counter.counts().commands(), accepted);
        fired += faults.fired_count();
    }
    println!("{completed} completed, {failed} with an error; {fired} faults");
    assert!(completed > 5000 && fired > 400);
}
