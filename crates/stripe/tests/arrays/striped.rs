// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Striped arrays against a plain model, with every error on every member, and the layout of the
//! hardware.
use crate::support::{BLOCK, buffer, disk, drain, label, seed, submit};
use block::{Device, Error, Operation, Request, blocking};
use crash::{Counting, Fault, Faulty, On, Rule};
use std::cell::RefCell;
use std::rc::Rc;
use straightway_stripe::{
    ArrayEvent, ArrayKind, Layout, SetError, Striped, check, create, data_blocks,
};

/// A read, a write or another command with its expectation.
struct Expected {
    lba: usize,
    /// What a read must return.
    data: Option<Vec<u8>>,
}

#[test]
fn random_requests_in_flight_give_what_a_plain_disk_gives() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..60 {
        let members = random.usize(1..=8);
        let stripe = 1u32 << random.u32(0..5);
        let blocks = 40 + random.u64(0..60);
        let disks: Vec<_> = (0..members).map(|_| disk(blocks, random.u64(..))).collect();
        let handles = disks.clone();
        let data = data_blocks(disks[0].geometry());
        let Ok(mut array) = Striped::<_, _, _, 16>::new(disks, stripe, data, ()) else {
            assert!(data < u64::from(stripe), "round {round}");
            continue;
        };
        let geometry = *array.geometry();
        let mut model = vec![0u8; geometry.block_count as usize * BLOCK];
        let mut expected: Vec<Option<Expected>> = Vec::new();
        // Requests in flight do not overlap, so each has one right answer.
        let mut busy: Vec<bool> = vec![false; geometry.block_count as usize];
        let check_one = |completion: block::Completion,
                         expected: &mut Vec<Option<Expected>>,
                         busy: &mut Vec<bool>| {
            completion.result.unwrap();
            let entry = expected[completion.tag as usize].take().unwrap();
            if let Some(buffer) = completion.buffer {
                let blocks = buffer.len() / BLOCK;
                busy[entry.lba..entry.lba + blocks].fill(false);
                if let Some(data) = entry.data {
                    assert!(data == *buffer, "round {round}, lba {}", entry.lba);
                }
            }
        };
        for step in 0..80u32 {
            let count = random.usize(1..=geometry.max_transfer_blocks.min(24) as usize);
            let count = count.min(busy.len());
            let lba = random.usize(0..=busy.len() - count);
            let range = lba..lba + count;
            if busy[range.clone()].iter().any(|busy| *busy) {
                drain(&mut array, |one| check_one(one, &mut expected, &mut busy));
            }
            let bytes = range.start * BLOCK..range.end * BLOCK;
            let (operation, data) = match random.u32(0..10) {
                0 => (Operation::Flush, None),
                1 | 2 => {
                    drain(&mut array, |one| check_one(one, &mut expected, &mut busy));
                    model[bytes].fill(0);
                    let (lba, block_count) = (lba as u64, count as u32);
                    let operation = if random.bool() {
                        Operation::Discard { lba, block_count }
                    } else {
                        Operation::WriteZeroes {
                            lba,
                            block_count,
                            fua: true,
                        }
                    };
                    (operation, None)
                }
                3..=5 => {
                    busy[range].fill(true);
                    let buffer = buffer(count, 0xee);
                    let lba = lba as u64;
                    (Operation::Read { lba, buffer }, Some(model[bytes].to_vec()))
                }
                _ => {
                    busy[range].fill(true);
                    let mut buffer = buffer(count, 0);
                    random.fill(&mut buffer);
                    model[bytes].copy_from_slice(&buffer);
                    let (lba, fua) = (lba as u64, random.bool());
                    (Operation::Write { lba, buffer, fua }, None)
                }
            };
            expected.push(Some(Expected { lba, data }));
            let is_command = !matches!(operation, Operation::Read { .. } | Operation::Write { .. });
            let mut early = Vec::new();
            submit(&mut array, step, operation, |one| early.push(one));
            early
                .into_iter()
                .for_each(|one| check_one(one, &mut expected, &mut busy));
            if is_command {
                drain(&mut array, |one| check_one(one, &mut expected, &mut busy));
            }
        }
        drain(&mut array, |one| check_one(one, &mut expected, &mut busy));
        assert!(expected.iter().all(Option::is_none));
        // Each block is where the layout says, on the member itself.
        let layout = Layout::new(members, stripe).unwrap();
        let media: Vec<_> = handles.iter().map(|disk| disk.current()).collect();
        for (lba, block) in model.chunks(BLOCK).enumerate() {
            let place = layout.place(lba as u64);
            let mut stored = [0; BLOCK];
            media[place.member].read(place.lba, &mut stored).unwrap();
            assert!(stored == *block, "round {round}, block {lba}");
        }
    }
}

#[test]
fn each_error_of_each_member_is_on_the_request_that_touches_it() {
    let errors = [
        Error::Nvme { status: 0x281 },
        Error::Os { errno: 5 },
        Error::TimedOut,
        Error::Gone,
    ];
    for error in errors {
        for member in 0..3 {
            for fault in [
                Fault::Fail(error),
                Fault::FailDone(error),
                Fault::Refuse(error),
            ] {
                let events = Rc::new(RefCell::new(Vec::new()));
                let log = Rc::clone(&events);
                let disks: Vec<_> = (0..3).map(|i| Faulty::new(disk(80, i), [])).collect();
                disks[member]
                    .faults()
                    .add(Rule::from(On::Any, 1, fault.clone()));
                let watch = move |event| log.borrow_mut().push(event);
                let mut array = Striped::<_, _, _, 8>::new(disks, 4, 72, watch).unwrap();
                // Request i touches member i alone; the last all three.
                for i in 0..3u32 {
                    let lba = u64::from(i) * 4;
                    let operation = Operation::Write {
                        lba,
                        buffer: buffer(4, 1),
                        fua: false,
                    };
                    array.submit(Request { tag: i, operation }).unwrap();
                }
                let operation = Operation::Read {
                    lba: 0,
                    buffer: buffer(12, 1),
                };
                array.submit(Request { tag: 3, operation }).unwrap();
                array
                    .submit(Request {
                        tag: 4,
                        operation: Operation::Flush,
                    })
                    .unwrap();
                let mut seen = [false; 5];
                drain(&mut array, |one| {
                    let touches = one.tag as usize == member || one.tag >= 3;
                    let expected = if touches { Err(error) } else { Ok(()) };
                    assert_eq!(
                        one.result, expected,
                        "{fault:?} on {member}, request {}",
                        one.tag
                    );
                    let len = one.buffer.map_or(0, |buffer| buffer.len());
                    assert_eq!(len, [4, 4, 4, 12, 0][one.tag as usize] * BLOCK);
                    seen[one.tag as usize] = true;
                });
                assert_eq!(seen, [true; 5]);
                let events = events.borrow();
                assert!(!events.is_empty());
                assert!(
                    events
                        .iter()
                        .all(|event| *event == ArrayEvent::Failed { member, error })
                );
            }
        }
    }
}

#[test]
fn members_get_equal_shares_of_the_commands() {
    for members in [2, 4] {
        let disks: Vec<_> = (0..members).map(|i| Counting::new(disk(800, i))).collect();
        let counters: Vec<_> = disks.iter().map(Counting::counter).collect();
        let mut array = Striped::<_, _, _, 32>::new(disks, 4, 792, ()).unwrap();
        let count = array.geometry().block_count as usize;
        let written = blocking::write(&mut array, 0, buffer(count, 3), false);
        written.result.unwrap();
        let commands: Vec<_> = counters.iter().map(|one| one.counts().commands()).collect();
        let (least, most) = (
            commands.iter().min().unwrap(),
            commands.iter().max().unwrap(),
        );
        assert!(most - least <= 1, "{commands:?}");
    }
}

#[test]
fn members_that_are_not_the_array_are_refused_and_not_written() {
    let kind = ArrayKind::Striped { stripe_blocks: 8 };
    let make = |blocks: u64, id: u8| {
        let mut disks: Vec<_> = (0..3).map(|i| disk(blocks, i)).collect();
        create(&mut disks, kind, [id; 16], buffer(8, 0)).unwrap();
        disks
    };
    let (disks, others) = (make(100, 1), make(100, 2));
    let smaller = make(90, 3);
    let found = |disks: &[crash::CrashDisk], kind| {
        let mut disks = disks.to_vec();
        let before: Vec<_> = disks.iter().map(crash::CrashDisk::changes).collect();
        let found: Vec<_> = disks
            .iter_mut()
            .map(|disk| Some((*disk.geometry(), label(disk))))
            .collect();
        let result = check(kind, &found);
        let after: Vec<_> = disks.iter().map(crash::CrashDisk::changes).collect();
        assert_eq!(before, after);
        result.map(|label| label.array[0])
    };
    let of = |list: [&crash::CrashDisk; 3]| list.map(Clone::clone);
    let [a, b, c] = [&disks[0], &disks[1], &disks[2]];
    assert_eq!(found(&of([a, b, c]), kind), Ok(1));
    assert_eq!(
        found(&of([b, a, c]), kind),
        Err(SetError::Swapped { member: 0, is: 1 })
    );
    assert_eq!(
        found(&of([a, b, &others[2]]), kind),
        Err(SetError::AnotherArray { member: 2 })
    );
    assert_eq!(
        found(&[a.clone(), b.clone()], kind),
        Err(SetError::Count {
            labelled: 3,
            given: 2
        })
    );
    let other = ArrayKind::Striped { stripe_blocks: 16 };
    assert_eq!(
        found(&of([a, b, c]), other),
        Err(SetError::Kind { labelled: kind })
    );
    assert_eq!(
        found(&of([a, b, c]), ArrayKind::Mirror),
        Err(SetError::Kind { labelled: kind })
    );
    let blank = disk(100, 9);
    assert_eq!(
        found(&of([a, &blank, c]), kind),
        Err(SetError::Unlabelled { member: 1 })
    );
    // A copy of a member on a larger disk, and unequal members of a new array.
    let unequal = vec![disk(100, 1), disk(101, 2)];
    let result = create(&mut unequal.clone(), kind, [4; 16], buffer(8, 0));
    let expected = SetError::Size {
        member: 1,
        blocks: 85,
        expected: 84,
    };
    assert_eq!(result, Err(expected));
    assert!(unequal.iter().all(|disk| disk.changes() == 0));
    assert!(matches!(
        found(&of([a, b, &smaller[2]]), kind),
        Err(SetError::AnotherArray { member: 2 })
    ));
}

#[test]
fn the_first_copy_of_a_torn_label_counts() {
    let mut disks: Vec<_> = (0..2).map(|i| disk(64, i)).collect();
    create(&mut disks, ArrayKind::Mirror, [7; 16], buffer(8, 0)).unwrap();
    let newest = label(&mut disks[0]).unwrap();
    assert_eq!(newest.sequence, 2);
    disks[0].rot(64 - 16, 5).unwrap();
    assert_eq!(label(&mut disks[0]).unwrap().sequence, 1);
    disks[0].rot(64 - 8, 5).unwrap();
    assert_eq!(label(&mut disks[0]), None);
}

#[test]
fn every_place_is_that_of_the_hardware() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rtl/raid0/placement.inc");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix('{')?.strip_suffix("},"));
    let mut count = 0;
    for row in rows {
        let row: Vec<u64> = row
            .split(", ")
            .map(|field| field.parse().unwrap())
            .collect();
        let [members, stripe, lba, member, member_lba] = row[..] else {
            panic!("{row:?}");
        };
        let layout = Layout::new(members as usize, stripe as u32).unwrap();
        let place = layout.place(lba);
        assert_eq!(
            (place.member as u64, place.lba),
            (member, member_lba),
            "{row:?}"
        );
        count += 1;
    }
    assert!(count > 200);
}

/// A part that may still be executed decides, in whatever order the parts fail.
#[test]
fn a_write_with_a_part_of_unknown_outcome_has_that_error() {
    for unknown in 0..2 {
        let disks: Vec<_> = (0..2).map(|i| Faulty::new(disk(80, i), [])).collect();
        for (member, disk) in disks.iter().enumerate() {
            let error = if member == unknown {
                Error::OutcomeUnknown
            } else {
                Error::TimedOut
            };
            disk.faults()
                .add(Rule::from(On::Any, 1, Fault::Fail(error)));
        }
        let mut array = Striped::<_, _, _, 8>::new(disks, 4, 72, ()).unwrap();
        let outcome = blocking::write(&mut array, 0, buffer(8, 1), false);
        assert_eq!(outcome.result, Err(Error::OutcomeUnknown));
    }
}
