// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the listed images with an independent model of what a power cut may leave.
use block::{Buffer, Device, Operation, Request};
use crash::{CommandKind, Completions, Config, CrashDisk, Medium, Sampling};
use std::collections::{BTreeMap, BTreeSet};

const BLOCKS: u64 = 4;
const SIZE: usize = 64;

fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let given = given.and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}

/// A write in the model: the value of each block, and when it completed.
struct Written {
    lba: u64,
    values: Vec<u8>,
    fua: bool,
    completed: Option<u64>,
}

/// What each block may contain, by the interface's promises alone.
fn allowed(writes: &[Written], flushed: u64) -> Vec<BTreeSet<u8>> {
    (0..BLOCKS)
        .map(|lba| {
            let value = |write: &Written| {
                let index = lba.checked_sub(write.lba)? as usize;
                write.values.get(index).copied()
            };
            let is_durable = |write: &&Written| {
                let completed = write.completed;
                completed.is_some_and(|at| write.fua || at <= flushed)
            };
            let of_block = || writes.iter().filter(|write| value(write).is_some());
            let newest = of_block().filter(is_durable).max_by_key(|w| w.completed);
            let floor = newest.map_or(0, |write| write.completed.unwrap());
            let mut values = BTreeSet::from([newest.map_or(0, |write| value(write).unwrap())]);
            for write in of_block() {
                if write.completed.is_none_or(|at| at > floor) {
                    values.insert(value(write).unwrap());
                }
            }
            values
        })
        .collect()
}

fn product(allowed: &[BTreeSet<u8>]) -> BTreeSet<Vec<u8>> {
    let mut images = BTreeSet::from([Vec::new()]);
    for values in allowed {
        let longer = images.iter().flat_map(|image: &Vec<u8>| {
            values.iter().map(|value| [&image[..], &[*value]].concat())
        });
        images = longer.collect();
    }
    images
}

fn values(medium: &Medium) -> Vec<u8> {
    let bytes = medium.to_bytes();
    for block in bytes.chunks(SIZE) {
        assert!(block.iter().all(|byte| *byte == block[0]), "torn");
    }
    bytes.chunks(SIZE).map(|block| block[0]).collect()
}

#[test]
fn the_images_are_those_that_the_promises_allow_and_no_others() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut compared = 0;
    for _ in 0..300 {
        let config = Config {
            queue_depth: 4,
            completions: Completions::Shuffled(random.u64(..)),
            hold_polls: random.u32(0..4),
            ..Config::default()
        };
        let disk = CrashDisk::new(Medium::new(6, BLOCKS).unwrap(), config);
        let mut device = disk.clone();
        let mut writes: Vec<Written> = Vec::new();
        // For each outstanding request: its write, or what the flush covers.
        let mut under_way: BTreeMap<u32, Result<usize, u64>> = BTreeMap::new();
        let (mut flushed, mut completions, mut next_value) = (0, 0, 1);
        for tag in 0..20 {
            if device.outstanding() < 4 && random.bool() {
                let (operation, what) = if random.u8(0..4) == 0 {
                    (Operation::Flush, Err(completions))
                } else {
                    let lba = random.u64(0..BLOCKS);
                    let count = random.u64(1..=2.min(BLOCKS - lba));
                    let fua = random.u8(0..6) == 0;
                    let mut buffer = buffers
                        .pop()
                        .unwrap_or_else(|| Buffer::from_static(Box::leak(Box::new([0; 2 * SIZE]))));
                    buffer.fill(next_value);
                    let (piece, _) = buffer.split_at(count as usize * SIZE);
                    let write = Written {
                        lba,
                        values: vec![next_value; count as usize],
                        fua,
                        completed: None,
                    };
                    next_value += 1;
                    writes.push(write);
                    let buffer = piece;
                    (Operation::Write { lba, buffer, fua }, Ok(writes.len() - 1))
                };
                under_way.insert(tag, what);
                device.submit(Request { tag, operation }).unwrap();
                if random.bool() {
                    device.kick();
                }
            } else if let Some(completion) = device.poll() {
                assert_eq!(completion.result, Ok(()));
                match under_way.remove(&completion.tag).unwrap() {
                    Ok(write) => {
                        completions += 1;
                        writes[write].completed = Some(completions);
                    }
                    Err(mark) => flushed = flushed.max(mark),
                }
                buffers.extend(completion.buffer.filter(|buffer| buffer.len() == 2 * SIZE));
            }
            let sampling = Sampling {
                exhaustive_blocks: usize::MAX,
                tears: 0,
                ..Sampling::default()
            };
            let images = disk.images(&sampling);
            let combinations = images.combinations();
            let listed: Vec<Vec<u8>> = images.map(|image| values(&image.medium)).collect();
            let distinct: BTreeSet<Vec<u8>> = listed.iter().cloned().collect();
            assert_eq!(listed.len(), distinct.len(), "each image once");
            assert_eq!(listed.len() as u64, combinations);
            assert_eq!(distinct, product(&allowed(&writes, flushed)));
            compared += listed.len();
        }
    }
    println!("{compared} images compared");
    assert!(compared > 10_000);
}

fn write(device: &mut CrashDisk, lba: u64, count: usize, value: u8) {
    let data = Box::leak(vec![value; count * SIZE].into_boxed_slice());
    let written = block::blocking::write(device, lba, Buffer::from_static(data), false);
    assert_eq!(written.result, Ok(()));
}

#[test]
fn a_sample_has_the_images_that_it_promises_and_is_the_same_each_time() {
    let mut medium = Medium::new(6, 64).unwrap();
    medium.write(0, &[100; 64 * SIZE]).unwrap();
    let mut device = medium.open(Config::default());
    for write_index in 0..10 {
        write(&mut device, 3 * write_index, 4, write_index as u8 + 1);
    }
    let sampling = Sampling {
        samples: 500,
        tears: 2,
        seed: seed(),
        ..Sampling::default()
    };
    let images = device.images(&sampling);
    assert_eq!(
        (images.pending_blocks(), images.is_exhaustive()),
        (40, false)
    );
    let images: Vec<_> = images.collect();
    assert_eq!(images.len(), 500);
    let hashes: BTreeSet<u64> = images.iter().map(|image| image.medium.hash()).collect();
    assert_eq!(hashes.len(), 500, "each image once");
    let again: BTreeSet<u64> = device.images(&sampling).map(|i| i.medium.hash()).collect();
    assert_eq!(hashes, again);

    let applied = |is_applied: &dyn Fn(u64) -> bool| {
        let mut expected = medium.clone();
        for index in (0..10).filter(|index| is_applied(*index)) {
            expected
                .write(3 * index, &[index as u8 + 1; 4 * SIZE])
                .unwrap();
        }
        expected.hash()
    };
    assert!(hashes.contains(&medium.hash()));
    assert!(hashes.contains(&device.current().hash()));
    for alone in 0..10 {
        assert!(hashes.contains(&applied(&|index| index == alone)));
        assert!(hashes.contains(&applied(&|index| index != alone)));
    }
    // They are listed even if they are more than requested.
    let few = Sampling {
        samples: 1,
        ..sampling
    };
    assert_eq!(device.images(&few).count(), 22);
}

#[test]
fn torn_blocks_are_of_two_versions_and_as_many_as_asked_for() {
    for tears in 0..6 {
        let mut device = Medium::new(6, 8).unwrap().open(Config::default());
        write(&mut device, 2, 1, 1);
        write(&mut device, 2, 1, 2);
        write(&mut device, 2, 1, 3);
        let sampling = Sampling {
            tears,
            ..Sampling::default()
        };
        let images: Vec<_> = device.images(&sampling).collect();
        let mut by_pair: BTreeMap<BTreeSet<u8>, usize> = BTreeMap::new();
        for image in &images {
            let mut block = [0; SIZE];
            image.medium.read(2, &mut block).unwrap();
            *by_pair.entry(block.into_iter().collect()).or_default() += 1;
        }
        let pair = |one, other| BTreeSet::from([one, other]);
        for (one, other) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            let count = by_pair.get(&pair(one, other)).copied().unwrap_or(0);
            // Some of the random ones may be equal.
            assert!(count <= tears as usize && count >= tears.min(4) as usize);
        }
        for version in 0..4 {
            assert_eq!(by_pair[&pair(version, version)], 1);
        }
        assert_eq!(by_pair.len(), if tears == 0 { 4 } else { 10 });
    }
}

#[test]
fn what_changes_nothing_is_not_counted() {
    let mut device = Medium::new(6, 8).unwrap().open(Config::default());
    write(&mut device, 1, 2, 0);
    write(&mut device, 4, 1, 9);
    write(&mut device, 4, 1, 9);
    let images = device.images(&Sampling::default());
    assert_eq!((images.pending_blocks(), images.combinations()), (1, 3));
    assert_eq!(images.count(), 3);
    assert_eq!(device.pending().len(), 3);
}

#[test]
fn an_image_says_what_became_of_each_block() {
    let mut device = Medium::new(6, 8).unwrap().open(Config::default());
    assert_eq!(
        device
            .images(&Sampling::default())
            .next()
            .unwrap()
            .to_string(),
        "nothing was pending"
    );
    write(&mut device, 2, 2, 1);
    let texts: Vec<String> = device
        .images(&Sampling::default())
        .map(|image| image.to_string())
        .collect();
    assert_eq!(texts.len(), 9);
    assert_eq!(texts[0], "block 2: as it was; block 3: as it was");
    assert_eq!(
        texts[5],
        "block 2: first half of #1 over what was there; block 3: of #1"
    );
    assert_eq!(device.log()[0].command.kind, CommandKind::Write);
}

/// A program dies, the power stays on: the next one finds all that was written, and what was not
/// flushed can still be lost.
#[test]
fn a_fork_has_what_was_written_and_can_still_lose_it() {
    let mut disk = Medium::new(6, BLOCKS).unwrap().open(Config::default());
    write(&mut disk, 0, 1, 7);
    // Outstanding when the program dies: it has taken effect.
    let buffer = Buffer::from_static(Box::leak(Box::new([8; SIZE])));
    let (lba, fua) = (1, false);
    let operation = Operation::Write { lba, buffer, fua };
    disk.submit(Request { tag: 0, operation }).unwrap();
    let mut fork = disk.fork();
    assert_eq!(values(&fork.current()), [7, 8, 0, 0]);
    assert_eq!(values(&fork.durable()), [0, 0, 0, 0]);
    assert_eq!(fork.outstanding(), 0);
    let sampling = Sampling {
        tears: 0,
        ..Sampling::default()
    };
    let images = fork.images(&sampling);
    let found: BTreeSet<Vec<u8>> = images.map(|image| values(&image.medium)).collect();
    let all = [[0, 0, 0, 0], [7, 0, 0, 0], [0, 8, 0, 0], [7, 8, 0, 0]];
    assert_eq!(found, all.map(Vec::from).into());
    // From here they diverge.
    write(&mut fork, 2, 1, 9);
    assert_eq!(values(&fork.current()), [7, 8, 9, 0]);
    assert_eq!(values(&disk.current())[2], 0);
}
