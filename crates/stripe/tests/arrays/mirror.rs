// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mirrors: against a plain model while members fail and return, across power cuts, and the bounds
//! of a rebuild.
use crate::support::{BLOCK, buffer, disk, drain, label, open, seed, submit};
use block::{Buffer, Completion, Device, Error, Operation, blocking};
use crash::{Budget, CommandKind, Counting, CrashDisk, Fault, Faulty, On, Rule, Sampling};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use straightway_stripe::{
    ArrayEvent, ArrayKind, LABEL_BYTES, Mirror, MirrorMemory, SetError, Watch, create,
};

const BLOCKS: u64 = 80;
const DATA: u64 = BLOCKS - 16;
type Members<D> = Vec<Option<D>>;

fn memory(members: usize, copy_blocks: usize) -> MirrorMemory {
    MirrorMemory {
        labels: buffer(members * LABEL_BYTES / BLOCK, 0),
        copy: buffer(copy_blocks, 0),
    }
}

fn assemble<D: Device, W: Watch>(
    mut members: Members<D>,
    may_write: bool,
    watch: W,
) -> Result<Mirror<D, Members<D>, W, 16>, SetError> {
    let labels: Vec<_> = members
        .iter_mut()
        .map(|member| member.as_mut().and_then(label))
        .collect();
    let memory = memory(members.len(), 4);
    Mirror::new(members, &labels, memory, may_write, watch)
}

/// A new mirror whose members are equal: rebuilt and closed.
fn new_disks(count: usize, seed: u64) -> Vec<CrashDisk> {
    let mut disks: Vec<_> = (0..count as u64).map(|i| disk(BLOCKS, seed ^ i)).collect();
    create(&mut disks, ArrayKind::Mirror, [9; 16], buffer(8, 0)).unwrap();
    let members = disks.iter().cloned().map(Some).collect();
    let mut mirror = assemble(members, true, ()).unwrap();
    rebuild(&mut mirror);
    mirror.close().unwrap();
    disks
}

fn rebuild<D: Device, W: Watch>(mirror: &mut Mirror<D, Members<D>, W, 16>) {
    let mut polls = 0;
    while mirror.rebuilding() != 0 {
        assert!(mirror.poll().is_none());
        polls += 1;
        assert!(polls < 100_000, "a rebuild does not end");
    }
}

fn block(value: u32) -> Buffer {
    let mut buffer = buffer(1, 0);
    for chunk in buffer.chunks_mut(4) {
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    buffer
}

fn value(buffer: &[u8]) -> u32 {
    u32::from_le_bytes(buffer[..4].try_into().unwrap())
}

fn read<D: Device + ?Sized>(device: &mut D, lba: u64) -> u32 {
    let read = blocking::read(device, lba, buffer(1, 0xff));
    read.result.unwrap();
    value(&read.buffer)
}

/// What the members hold of a block, the same on all.
fn equal_value(disks: &[CrashDisk], lba: u64) -> u32 {
    let values: Vec<_> = disks
        .iter()
        .map(|disk| {
            let mut bytes = [0; BLOCK];
            disk.current().read(lba, &mut bytes).unwrap();
            value(&bytes)
        })
        .collect();
    assert!(
        values.iter().all(|one| *one == values[0]),
        "block {lba}: {values:?}"
    );
    values[0]
}

#[test]
fn random_requests_give_what_a_plain_disk_gives_while_members_fail_and_return() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..40 {
        let count = random.usize(2..=4);
        let mut disks = new_disks(count, random.u64(..));
        let mut model = vec![0u32; DATA as usize];
        let mut next = 1;
        // Lives of the mirror: some with a member missing, some that lose one, closed or not.
        for _ in 0..5 {
            let faulty: Vec<_> = disks
                .iter()
                .cloned()
                .map(|disk| Faulty::new(disk, []))
                .collect();
            let faults: Vec<_> = faulty.iter().map(Faulty::faults).collect();
            let mut mirror = assemble(faulty.into_iter().map(Some).collect(), true, ()).unwrap();
            let mut lost = random.usize(0..count);
            if random.bool() {
                rebuild(&mut mirror);
            } else if mirror.live() == 1 << lost {
                // While one member alone is up to date, only another may fail.
                lost = (lost + 1) % count;
            }
            let error = Error::Nvme { status: 0x280 };
            let fault = match random.u32(0..4) {
                0 => Some(Fault::Remove),
                1 => Some(Fault::Fail(error)),
                2 => Some(Fault::Refuse(error)),
                _ => None,
            };
            let at = random.u64(1..60);
            let on = if random.bool() {
                On::Any
            } else {
                On::Kind(CommandKind::Write)
            };
            if let Some(fault) = fault {
                faults[lost].add(Rule::from(on, at, fault));
            }
            let mut expected: BTreeMap<u32, (u64, u32)> = BTreeMap::new();
            let on = |one: Completion, expected: &mut BTreeMap<u32, (u64, u32)>| {
                one.result
                    .unwrap_or_else(|error| panic!("round {round}: {error}"));
                if let Some((lba, old)) = expected.remove(&one.tag) {
                    assert_eq!(
                        value(&one.buffer.unwrap()),
                        old,
                        "round {round}, block {lba}"
                    );
                }
            };
            for tag in 0..120u32 {
                let lba = random.u64(0..DATA);
                let operation = match random.u32(0..8) {
                    0 => Operation::Flush,
                    1..=3 => {
                        drain(&mut mirror, |one| on(one, &mut expected));
                        expected.insert(tag, (lba, model[lba as usize]));
                        Operation::Read {
                            lba,
                            buffer: buffer(1, 0xff),
                        }
                    }
                    _ => {
                        // Overlapping requests in flight have no order.
                        drain(&mut mirror, |one| on(one, &mut expected));
                        next += 1;
                        let run = random.u64(1..=4).min(DATA - lba);
                        for i in 0..run - 1 {
                            let lba = lba + i;
                            model[lba as usize] = next;
                            let buffer = block(next);
                            let operation = Operation::Write {
                                lba,
                                buffer,
                                fua: false,
                            };
                            let mut early = Vec::new();
                            submit(&mut mirror, u32::MAX, operation, |one| early.push(one));
                            early.into_iter().for_each(|one| on(one, &mut expected));
                        }
                        let lba = lba + run - 1;
                        model[lba as usize] = next;
                        Operation::Write {
                            lba,
                            buffer: block(next),
                            fua: random.bool(),
                        }
                    }
                };
                let mut early = Vec::new();
                submit(&mut mirror, tag, operation, |one| early.push(one));
                early.into_iter().for_each(|one| on(one, &mut expected));
            }
            drain(&mut mirror, |one| on(one, &mut expected));
            assert!(expected.is_empty());
            if random.bool() {
                let _ = mirror.close();
            }
            drop(mirror);
            let seeds: Vec<_> = disks.iter().map(|_| random.u64(..)).collect();
            let media = disks.iter().map(CrashDisk::current);
            disks = media
                .zip(seeds)
                .map(|(medium, seed)| open(&medium, seed))
                .collect();
        }
        let members = disks.iter().cloned().map(Some).collect();
        let mut mirror = assemble(members, true, ()).unwrap();
        rebuild(&mut mirror);
        mirror.close().unwrap();
        drop(mirror);
        for lba in 0..DATA {
            assert_eq!(
                equal_value(&disks, lba),
                model[lba as usize],
                "round {round}"
            );
        }
    }
}

/// Writes values that rise, a flush after every fourth, while member 0 loses its power at change
/// `at`, and after `later` more requests member 1 too. Returns what was flushed, and what was
/// written, for each block.
fn write_until_cut(
    disks: &[CrashDisk],
    at: u64,
    later: u32,
) -> (BTreeMap<u64, u32>, BTreeMap<u64, u32>) {
    let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
    disks[0].stop_after(disks[0].changes() + at, crash::Cut::During);
    let (mut flushed, mut written) = (BTreeMap::new(), BTreeMap::new());
    let mut rest = later;
    for step in 0..24u32 {
        if disks[0].is_off() {
            if rest == 0 {
                disks[1].cut();
            }
            rest = rest.wrapping_sub(1);
        }
        let (lba, new) = (u64::from(step % 5), step + 1);
        let before = written.insert(lba, new);
        let result = blocking::write(&mut mirror, lba, block(new), false).result;
        if result.is_err() {
            // It may or may not be there.
            let _ = before;
            break;
        }
        if step % 4 == 3 && blocking::flush(&mut mirror).is_ok() {
            flushed = written.clone();
        }
    }
    disks[1].cut();
    (flushed, written)
}

#[test]
fn what_was_flushed_survives_every_power_cut_of_the_members() {
    let seed = seed();
    let budget = Budget::or(Budget::of_states(1500)).unwrap();
    let mut states = 0;
    let mut random = fastrand::Rng::with_seed(seed);
    'all: for later in [0, 3, 9] {
        for at in 1.. {
            let disks = new_disks(2, random.u64(..));
            let (flushed, written) = write_until_cut(&disks, at, later);
            let sampling = Sampling {
                samples: 6,
                exhaustive_blocks: 2,
                seed,
                ..Sampling::default()
            };
            let images: Vec<Vec<_>> = disks
                .iter()
                .map(|disk| disk.images(&sampling).take(8).collect())
                .collect();
            for one in &images[0] {
                for two in &images[1] {
                    states += 1;
                    let disks = [one, two].map(|image| image.open(crash::Config::default()));
                    let members = disks.iter().cloned().map(Some).collect();
                    let mut mirror = assemble(members, true, ()).unwrap();
                    let seen: Vec<_> = (0..5).map(|lba| read(&mut mirror, lba)).collect();
                    for (lba, got) in seen.iter().enumerate() {
                        let least = flushed.get(&(lba as u64)).copied().unwrap_or(0);
                        let most = written.get(&(lba as u64)).copied().unwrap_or(0);
                        assert!(
                            (least..=most).contains(got),
                            "cut {at}, later {later}, block {lba}: {got}, flushed {least}"
                        );
                    }
                    rebuild(&mut mirror);
                    mirror.close().unwrap();
                    drop(mirror);
                    for (lba, got) in seen.iter().enumerate() {
                        // Once read, a block keeps its value.
                        assert_eq!(equal_value(&disks, lba as u64), *got);
                    }
                }
            }
            if !budget.allows(states) {
                break 'all;
            }
            if !disks[0].is_off() || at > 40 {
                break;
            }
        }
    }
    println!("{states} pairs of images");
    assert!(states > 500);
}

#[test]
fn a_member_that_missed_a_write_is_never_read_again_unless_rebuilt() {
    let disks = new_disks(2, 5);
    let events = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&events);
    let faulty: Vec<_> = disks
        .iter()
        .cloned()
        .map(|disk| Faulty::new(disk, []))
        .collect();
    let faults = faulty[1].faults();
    let watch = move |event| log.borrow_mut().push(event);
    let mut mirror = assemble(faulty.into_iter().map(Some).collect(), true, watch).unwrap();
    blocking::write(&mut mirror, 3, block(1), false)
        .result
        .unwrap();
    faults.add(Rule::from(On::Any, 1, Fault::Remove));
    blocking::write(&mut mirror, 3, block(2), false)
        .result
        .unwrap();
    assert_eq!(mirror.live(), 1);
    assert!(events.borrow().contains(&ArrayEvent::Stale { member: 1 }));
    drop(mirror);
    let reopen = |disks: &[CrashDisk]| -> Vec<_> {
        disks.iter().map(|disk| open(&disk.current(), 1)).collect()
    };
    // Alone, it cannot know that it missed a write; with the other it is not read until it is
    // equal.
    let both = reopen(&disks);
    let mut mirror = assemble(both.iter().cloned().map(Some).collect(), false, ()).unwrap();
    for _ in 0..4 {
        assert_eq!(read(&mut mirror, 3), 2);
    }
    drop(mirror);
    let mut mirror = assemble(both.iter().cloned().map(Some).collect(), true, ()).unwrap();
    assert_eq!((mirror.live(), mirror.rebuilding()), (1, 2));
    rebuild(&mut mirror);
    mirror.close().unwrap();
    assert_eq!(equal_value(&both, 3), 2);
    // Used one without the other, and then the other way round: two histories.
    let split = reopen(&both);
    for member in 0..2 {
        let members = (0..2)
            .map(|i| (i == member).then(|| split[i].clone()))
            .collect();
        let mut mirror = assemble(members, true, ()).unwrap();
        blocking::write(&mut mirror, 1, block(7), false)
            .result
            .unwrap();
        mirror.close().unwrap();
    }
    let members = split.iter().cloned().map(Some).collect();
    let refused = assemble(members, true, ()).err();
    assert_eq!(
        refused,
        Some(SetError::Diverged {
            member: 0,
            other: 1
        })
    );
}

#[test]
fn a_label_that_reached_one_member_does_not_outweigh_what_the_other_wrote_without_it() {
    // Power is cut while a label is stored: one member has it, the other has not. That one is used
    // alone then, and its numbers may be the same, smaller or greater.
    for ahead in 1..12 {
        for alone in 0..2 {
            let disks = new_disks(2, 21 + ahead);
            let other = 1 - alone;
            let mut cut = label(&mut disks[other].clone()).unwrap();
            cut.sequence += ahead;
            cut.seen = [cut.sequence; 8];
            cut.mirror.is_dirty = true;
            let mut bytes = buffer(LABEL_BYTES / BLOCK, 0);
            cut.encode(&mut bytes);
            let lba = DATA + cut.sequence % 2 * (LABEL_BYTES / BLOCK) as u64;
            let written = blocking::write(&mut disks[other].clone(), lba, bytes, true);
            written.result.unwrap();

            let members = |which: &[usize]| -> Vec<_> {
                let has = |i: usize| which.contains(&i).then(|| disks[i].clone());
                (0..2).map(has).collect()
            };
            let mut mirror = assemble(members(&[alone]), true, ()).unwrap();
            let result = blocking::write(&mut mirror, 5, block(77), false).result;
            result.and_then(|()| blocking::flush(&mut mirror)).unwrap();
            // It is not closed.
            drop(mirror);

            let mut mirror = assemble(members(&[0, 1]), true, ()).unwrap();
            let (live, rebuilding) = (1 << alone, 1 << other);
            assert_eq!(
                (mirror.live(), mirror.rebuilding()),
                (live, rebuilding),
                "{ahead}"
            );
            assert_eq!(read(&mut mirror, 5), 77);
            rebuild(&mut mirror);
            mirror.close().unwrap();
            assert_eq!(equal_value(&disks, 5), 77);
            // Both have the same label, above all that were there.
            let numbers = disks.iter().map(|disk| label(&mut disk.clone()).unwrap());
            let numbers: Vec<_> = numbers
                .map(|label| (label.sequence, label.mirror))
                .collect();
            assert_eq!(numbers[0], numbers[1]);
            assert!(numbers[0].0 > cut.sequence);
        }
    }
}

#[test]
fn a_member_that_is_missing_after_a_crash_is_no_source_for_what_it_missed() {
    // What is on the members when the process ends; the other members stay as they are.
    let write_until_killed = |disks: &[CrashDisk], without: Option<usize>, value: u32| {
        let has = |i: usize| (Some(i) != without).then(|| disks[i].clone());
        let mut mirror = assemble((0..3).map(has).collect(), true, ()).unwrap();
        let result = blocking::write(&mut mirror, 5, block(value), false).result;
        result.and_then(|()| blocking::flush(&mut mirror)).unwrap();
        drop(mirror);
        let reopened = disks.iter().map(|disk| open(&disk.current(), 1));
        reopened.collect::<Vec<_>>()
    };
    for missing in 0..3 {
        // The members may differ, and all say so.
        let disks = write_until_killed(&new_disks(3, 31), None, 1);
        let disks = write_until_killed(&disks, Some(missing), 2);
        let members = disks.iter().cloned().map(Some).collect();
        let mut mirror = assemble(members, true, ()).unwrap();
        assert_eq!(mirror.live() & 1 << missing, 0, "{missing}");
        rebuild(&mut mirror);
        mirror.close().unwrap();
        assert_eq!(equal_value(&disks, 5), 2);
    }
}

/// Each member has another version of a block that was being written when the process ended. One is
/// missing then, and back after another such end, before which nothing was written.
#[test]
fn what_was_in_doubt_at_a_crash_is_read_in_one_way_once_a_missing_member_is_back() {
    let reopened = |disks: &[CrashDisk]| -> Vec<CrashDisk> {
        let reopened = disks.iter().map(|disk| open(&disk.current(), 1));
        reopened.collect()
    };
    for missing in 0..3 {
        let disks = new_disks(3, 32);
        let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
        let written = blocking::write(&mut mirror, 5, block(1), false).result;
        written.unwrap();
        drop(mirror);
        let mut disks = reopened(&disks);
        for (value, disk) in (2..).zip(&mut disks) {
            blocking::write(disk, 5, block(value), false)
                .result
                .unwrap();
        }
        let has = |i: usize| (i != missing).then(|| disks[i].clone());
        let mut mirror = assemble((0..3).map(has).collect(), true, ()).unwrap();
        let seen = read(&mut mirror, 5);
        drop(mirror);
        let disks = reopened(&disks);
        let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
        assert_eq!(read(&mut mirror, 5), seen, "{missing}");
        rebuild(&mut mirror);
        mirror.close().unwrap();
        assert_eq!(equal_value(&disks, 5), seen);
    }
}

/// The same, but all are there at first, and one is missing in a later use, the one that was read
/// included.
#[test]
fn what_was_in_doubt_at_a_crash_is_read_in_one_way_when_a_member_is_lost_before_all_are_equal() {
    let reopened = |disks: &[CrashDisk]| -> Vec<CrashDisk> {
        let reopened = disks.iter().map(|disk| open(&disk.current(), 1));
        reopened.collect()
    };
    for missing in 0..3 {
        let disks = new_disks(3, 33);
        let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
        let written = blocking::write(&mut mirror, 50, block(1), false).result;
        written.unwrap();
        drop(mirror);
        let mut disks = reopened(&disks);
        for (value, disk) in (2..).zip(&mut disks) {
            blocking::write(disk, 50, block(value), false)
                .result
                .unwrap();
        }
        let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
        let seen = read(&mut mirror, 50);
        assert_ne!(mirror.rebuilding(), 0, "the members are equal too early");
        drop(mirror);
        let disks = reopened(&disks);
        let has = |i: usize| (i != missing).then(|| disks[i].clone());
        let mut mirror = assemble((0..3).map(has).collect(), true, ()).unwrap();
        assert_eq!(read(&mut mirror, 50), seen, "{missing}");
        drop(mirror);
        let disks = reopened(&disks);
        let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
        rebuild(&mut mirror);
        mirror.close().unwrap();
        assert_eq!(equal_value(&disks, 50), seen);
    }
}

/// Reads of what is not equal yet are written to the others, so they come in a rebuild's way.
#[test]
fn a_rebuild_after_a_crash_ends_while_its_first_piece_is_read_without_a_pause() {
    let disks = new_disks(2, 34);
    let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
    let written = blocking::write(&mut mirror, 50, block(1), false).result;
    written.unwrap();
    drop(mirror);
    let disks: Vec<_> = disks.iter().map(|disk| open(&disk.current(), 1)).collect();
    let mut mirror = assemble(disks.iter().cloned().map(Some).collect(), true, ()).unwrap();
    // Blocks of the first piece.
    let mut next = (0..4).cycle();
    let (mut polls, mut reads) = (0, 0);
    let depth = usize::from(mirror.geometry().queue_depth);
    while mirror.rebuilding() != 0 {
        while mirror.outstanding() < depth {
            let (lba, buffer) = (next.next().unwrap(), buffer(1, 0));
            submit(&mut mirror, reads, Operation::Read { lba, buffer }, |one| {
                one.result.unwrap()
            });
            reads += 1;
        }
        if let Some(completion) = mirror.poll() {
            completion.result.unwrap();
        }
        polls += 1;
        assert!(polls < 10_000, "a rebuild does not end");
    }
    drain(&mut mirror, |one| one.result.unwrap());
    mirror.close().unwrap();
    assert_eq!(equal_value(&disks, 50), 1);
}

#[test]
fn a_read_error_is_served_by_the_other_member_and_reported() {
    let disks = new_disks(2, 6);
    let error = Error::Nvme { status: 0x281 };
    let events = Rc::new(RefCell::new(Vec::new()));
    for member in 0..2 {
        let log = Rc::clone(&events);
        let watch = move |event| log.borrow_mut().push(event);
        let faulty: Vec<_> = disks
            .iter()
            .cloned()
            .map(|disk| Faulty::new(disk, []))
            .collect();
        faulty[member].faults().add(Rule::from(
            On::Kind(CommandKind::Read),
            17,
            Fault::Fail(error),
        ));
        let other = faulty[1 - member].faults();
        let mut mirror = assemble(faulty.into_iter().map(Some).collect(), true, watch).unwrap();
        for lba in 0..40 {
            assert_eq!(read(&mut mirror, lba), 0);
        }
        assert!(
            events
                .borrow()
                .contains(&ArrayEvent::Failed { member, error })
        );
        assert_eq!(mirror.live(), 3);
        // Both fail: the error is the request's.
        other.add(Rule::from(
            On::Kind(CommandKind::Read),
            1,
            Fault::Fail(Error::TimedOut),
        ));
        let outcome = blocking::read(&mut mirror, 0, buffer(1, 0));
        assert!(outcome.result.is_err());
        assert_eq!(outcome.buffer.len(), BLOCK);
    }
}

#[test]
fn a_rebuild_moves_each_block_once_and_resumes_where_it_was() {
    let mut disks: Vec<_> = (0..2).map(|i| disk(BLOCKS, i)).collect();
    for lba in 0..DATA {
        blocking::write(&mut disks[0], lba, block(lba as u32), false)
            .result
            .unwrap();
    }
    create(&mut disks, ArrayKind::Mirror, [9; 16], buffer(8, 0)).unwrap();
    let mut moved = 0;
    let mut lives = 0;
    loop {
        lives += 1;
        let counting: Vec<_> = disks.iter().cloned().map(Counting::new).collect();
        let counter = counting[0].counter();
        let mut mirror = assemble(counting.into_iter().map(Some).collect(), true, ()).unwrap();
        let from = mirror.rebuilt_blocks();
        counter.take();
        while mirror.rebuilding() != 0 && mirror.rebuilt_blocks() < from + 20 {
            mirror.poll();
        }
        mirror.close().unwrap();
        let reads = counter.counts().commands();
        // At most a label and a flush for each piece of 4 blocks.
        assert!(reads <= 3 * 8, "{reads} commands");
        moved += mirror.rebuilt_blocks() - from;
        if mirror.rebuilding() == 0 {
            break;
        }
        assert!(lives < 10);
    }
    assert_eq!(moved, DATA);
    assert!(lives > 2);
    for lba in 0..DATA {
        assert_eq!(equal_value(&disks, lba), lba as u32);
    }
}

#[test]
fn labels_that_cannot_be_stored_fail_the_change_and_nothing_else() {
    let disks = new_disks(2, 8);
    let label_range = DATA..BLOCKS;
    let error = Error::Os { errno: 28 };
    let faulty: Vec<_> = disks
        .iter()
        .cloned()
        .map(|disk| Faulty::new(disk, []))
        .collect();
    let faults: Vec<_> = faulty.iter().map(Faulty::faults).collect();
    for one in &faults {
        one.add(
            Rule::from(On::Kind(CommandKind::Write), 1, Fault::Fail(error))
                .within(label_range.clone()),
        );
    }
    let mut mirror = assemble(faulty.into_iter().map(Some).collect(), true, ()).unwrap();
    let result = blocking::write(&mut mirror, 2, block(5), false).result;
    assert_eq!(result, Err(error));
    assert_eq!(read(&mut mirror, 2), 0);
    // Nothing was written before the labels were.
    let mut bytes = [1; BLOCK];
    disks.iter().for_each(|disk| {
        disk.current().read(2, &mut bytes).unwrap();
        assert_eq!(value(&bytes), 0);
    });
    faults.iter().for_each(crash::Faults::clear);
    blocking::write(&mut mirror, 2, block(6), false)
        .result
        .unwrap();
    assert_eq!(read(&mut mirror, 2), 6);
}

/// A member's write may still be executed: no other failure of the request says otherwise.
#[test]
fn a_write_of_unknown_outcome_has_that_error_whatever_else_fails() {
    let unknown = Fault::Fail(Error::OutcomeUnknown);
    for label_fails in [true, false] {
        let disks = new_disks(2, 8);
        let faulty = disks.iter().cloned().map(|disk| Faulty::new(disk, []));
        let faulty: Vec<_> = faulty.collect();
        let faults: Vec<_> = faulty.iter().map(Faulty::faults).collect();
        let mut mirror = assemble(faulty.into_iter().map(Some).collect(), true, ()).unwrap();
        // From now on the labels say that writes are under way.
        blocking::write(&mut mirror, 2, block(5), false)
            .result
            .unwrap();
        let on_write = || On::Kind(CommandKind::Write);
        faults[0].add(Rule::from(on_write(), 1, unknown.clone()).within(0..DATA));
        let (range, error) = if label_fails {
            (DATA..BLOCKS, Error::TimedOut)
        } else {
            (0..DATA, Error::Nvme { status: 0x281 })
        };
        for one in &faults[usize::from(!label_fails)..] {
            one.add(Rule::from(on_write(), 1, Fault::Fail(error)).within(range.clone()));
        }
        let result = blocking::write(&mut mirror, 2, block(6), false).result;
        assert_eq!(result, Err(Error::OutcomeUnknown), "{label_fails}");
    }
}
