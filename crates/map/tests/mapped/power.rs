// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power cuts: what a sync has acknowledged is in every image that a cut may leave, and nothing is
//! that was never stored.

use super::{PAGE, buffers, permitted, seed};
use block::Device;
use crash::{Budget, Completions, Config, CrashDisk, Image, Medium, Sampling};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread;
use straightway_map::volume::{
    self, CreateOptions, FormatOptions, MountOptions, OpenFile, Volume, blocking,
};
use straightway_map::{FileDevice, PagerOptions, Range, map, map_local};

const BLOCK: usize = 512;
const PAGES: usize = 12;
/// Steps between two looks at the images.
const STEPS: usize = 6;

/// The number in a block: what was stored to it last, and since the last sync.
#[derive(Default)]
struct Model {
    synced: BTreeMap<u64, u64>,
    since: BTreeMap<u64, Vec<u64>>,
}

impl Model {
    fn store(&mut self, block: u64, number: u64) {
        self.since.entry(block).or_default().push(number);
    }

    fn sync(&mut self) {
        for (block, numbers) in std::mem::take(&mut self.since) {
            self.synced.insert(block, *numbers.last().expect("a store"));
        }
    }

    /// `bytes` are those of an image.
    fn check(&self, bytes: &[u8], what: &str) {
        for (block, bytes) in (0..).zip(bytes.chunks(BLOCK)) {
            let number = u64::from_ne_bytes(bytes[..8].try_into().expect("8 bytes"));
            let synced = self.synced.get(&block).copied().unwrap_or(0);
            let since = self.since.get(&block);
            let is_possible = number == synced || since.is_some_and(|all| all.contains(&number));
            assert!(
                is_possible,
                "{what}: block {block} has {number}; {synced} was synced, then came {since:?}"
            );
        }
    }
}

fn disk(random: &mut fastrand::Rng) -> CrashDisk {
    let medium = Medium::new(9, (PAGES * PAGE / BLOCK) as u64).expect("a medium");
    let config = Config {
        completions: Completions::Shuffled(random.u64(..)),
        hold_polls: random.u32(..4),
        ..Config::default()
    };
    CrashDisk::new(medium, config)
}

/// Stores, syncs and looks at the images of `disk`, which is mapped at `start`. Returns how many.
/// `grow_to` is told the end of each store, `bytes` has those of an image.
fn exercise(
    random: &mut fastrand::Rng,
    disk: &CrashDisk,
    start: *mut u8,
    mut grow_to: impl FnMut(u64),
    mut sync: impl FnMut(),
    bytes: impl Fn(&Image) -> Vec<u8>,
) -> u64 {
    let (mut model, mut seen) = (Model::default(), 0);
    for number in 1..=60 {
        let mut what = "after a store";
        if random.u8(..8) == 0 {
            sync();
            model.sync();
            what = "after a sync";
        } else {
            let block = random.u64(..(PAGES * PAGE / BLOCK) as u64);
            model.store(block, number);
            // SAFETY: inside the map, which only this thread stores to.
            unsafe {
                let place = start.add(block as usize * BLOCK).cast::<u64>();
                place.write_volatile(number);
            }
            grow_to((block + 1) * BLOCK as u64);
        }
        if what == "after a sync" || number as usize % STEPS == 0 {
            let sampling = Sampling {
                samples: 12,
                tears: 0,
                seed: random.u64(..),
                ..Sampling::default()
            };
            for image in disk.images(&sampling).take(20) {
                model.check(&bytes(&image), what);
                seen += 1;
            }
        }
    }
    seen
}

fn options(random: &mut fastrand::Rng) -> PagerOptions {
    PagerOptions {
        writable: true,
        stores_by_content: random.bool(),
        resident_bytes: random.usize(4..=PAGES) * PAGE,
        dirty_bytes: random.usize(0..4) * PAGE,
        read_ahead_bytes: random.usize(0..3) * PAGE,
        ..PagerOptions::default()
    }
}

/// Runs `one` with seeds that follow the first, while the budget allows more images.
fn search(one: impl Fn(&mut fastrand::Rng) -> u64) {
    let budget = Budget::or(Budget::of_states(4000)).expect("a budget");
    let (first, mut seen) = (seed(), 0);
    for more in 0.. {
        if !budget.allows(seen) {
            break;
        }
        let seed = first.wrapping_add(more);
        println!("run with STRAIGHTWAY_SEED={seed}");
        seen += one(&mut fastrand::Rng::with_seed(seed));
    }
    println!("{seen} images");
}

fn all(image: &Image) -> Vec<u8> {
    image.medium.to_bytes()
}

fn whole(disk: &CrashDisk) -> Range {
    let size_bytes = disk.geometry().size_bytes();
    Range { lba: 0, size_bytes }
}

#[test]
fn what_was_synced_is_in_every_image() {
    if permitted::is_missing(false) {
        return;
    }
    search(|random| {
        let disk = disk(random);
        let (options, buffers) = (options(random), buffers(random.usize(1..5), PAGE));
        let range = whole(&disk);
        let (map, server) = map(disk.clone(), range, &options, buffers).expect("a map");
        thread::scope(|scope| {
            let user = scope.spawn(|| {
                let map = map;
                let start = map.as_ptr().as_ptr();
                exercise(
                    random,
                    &disk,
                    start,
                    |_| {},
                    || map.sync().expect("a sync"),
                    all,
                )
            });
            server.run().expect("a clean end");
            user.join().expect("the test's own thread")
        })
    });
}

#[test]
fn what_was_synced_by_the_thread_itself_is_in_every_image() {
    if permitted::is_missing(false) {
        return;
    }
    search(|random| {
        let disk = disk(random);
        let (options, buffers) = (options(random), buffers(random.usize(1..5), PAGE));
        let map = map_local(disk.clone(), whole(&disk), &options, buffers).expect("a map");
        let start = map.as_ptr().as_ptr();
        exercise(
            random,
            &disk,
            start,
            |_| {},
            || map.sync().expect("a sync"),
            all,
        )
    });
}

fn mounted(disk: CrashDisk, files: &mut [OpenFile]) -> Volume<'_, CrashDisk> {
    let nodes = [(); 3].map(|()| buffers(1, PAGE).remove(0));
    let mounted = Volume::mount(disk, nodes, files, &MountOptions::default());
    let mounted = mounted.map_err(|unmounted| unmounted.result);
    mounted.expect("a mount")
}

/// The bytes of the file in an image, which has no findings.
fn file_bytes(image: &Image) -> Vec<u8> {
    let mut files = [const { OpenFile::new() }; 1];
    let volume = mounted(image.open(Config::default()), &mut files);
    let file = blocking::run(&volume, volume.open("grows")).expect("the file");
    let size = volume.file_status(file).expect("open").committed_bytes as usize;
    let mut bytes = Vec::new();
    if size > 0 {
        let buffer = buffers(1, size.next_multiple_of(BLOCK)).remove(0);
        let read = blocking::read(&volume, file, 0, buffer);
        read.result.expect("its bytes");
        bytes = read.buffer[..size].to_vec();
    }
    let (mut scratch, mut findings) = (vec![0; PAGE], Vec::new());
    let mut report = |finding| findings.push(finding);
    blocking::run(&volume, volume.check(&mut scratch, &mut report)).expect("a check");
    assert!(findings.is_empty(), "{findings:?}");
    bytes
}

#[test]
fn what_a_growing_file_had_at_a_sync_is_in_every_image() {
    if permitted::is_missing(false) {
        return;
    }
    search(|random| {
        let medium = Medium::new(9, 4096).expect("a medium");
        let config = Config {
            completions: Completions::Shuffled(random.u64(..)),
            hold_polls: random.u32(..4),
            ..Config::default()
        };
        let mut disk = CrashDisk::new(medium, config);
        let node = buffers(1, PAGE).remove(0);
        let formatted = volume::format(&mut disk, node, &FormatOptions::default());
        formatted.0.expect("a volume");
        let mut files = [const { OpenFile::new() }; 1];
        let volume = mounted(disk.clone(), &mut files);
        let plain = CreateOptions::default();
        let file = blocking::run(&volume, volume.create("grows", &plain)).expect("a file");
        blocking::run(&volume, volume.sync(file)).expect("a sync");
        let spare = buffers(1, random.usize(1..20) * BLOCK).remove(0);
        let capacity_bytes = (PAGES * PAGE) as u64;
        let growing = FileDevice::growing(&volume, file, capacity_bytes, spare);
        let (device, size) = growing.expect("a device");
        let (options, buffers) = (options(random), buffers(random.usize(1..5), PAGE));
        let range = Range {
            lba: 0,
            size_bytes: capacity_bytes,
        };
        let (map, server) = map(device, range, &options, buffers).expect("a map");
        thread::scope(|scope| {
            let user = scope.spawn(|| {
                let map = map;
                let start = map.as_ptr().as_ptr();
                let synced_bytes = Cell::new(0);
                exercise(
                    random,
                    &disk,
                    start,
                    |end| {
                        // Sometimes with bytes that nobody stores.
                        let more = if end % (7 * BLOCK as u64) == 0 {
                            5000
                        } else {
                            0
                        };
                        let end = (end + more).min(capacity_bytes);
                        size.grow_to(end).expect("within the capacity");
                    },
                    || {
                        map.sync().expect("a sync");
                        synced_bytes.set(size.get());
                    },
                    |image| {
                        let bytes = file_bytes(image);
                        assert_eq!(bytes.len() as u64, synced_bytes.get());
                        bytes
                    },
                )
            });
            server.run().expect("a clean end");
            user.join().expect("the test's own thread")
        })
    });
}
