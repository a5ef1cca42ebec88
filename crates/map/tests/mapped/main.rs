// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps over a RAM disk and over faulty devices, with real page faults.

mod advice;
mod ends;
mod lanes;
mod local;
#[path = "../permitted/mod.rs"]
mod permitted;
mod power;
mod queue;
mod share;

use block::{Buffer, Completion, Device, Geometry, Operation, RamDisk, Refused, Request, blocking};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use straightway_map::{Error, Map, PageError, PagerOptions, Range, Result, map};

const PAGE: usize = 4096;

fn buffers(count: usize, page: usize) -> Vec<Buffer> {
    let buffer = |_| Buffer::from_static(vec![0; page].leak());
    (0..count).map(buffer).collect()
}

/// A disk of `pages` whose every byte is known: the number of its page, and not zero.
fn disk(pages: usize) -> RamDisk<Vec<u8>, 8> {
    let memory = (0..pages * PAGE).map(|at| value(at / PAGE)).collect();
    RamDisk::new(memory, 9).expect("a RAM disk")
}

fn value(page: usize) -> u8 {
    (page % 255) as u8 + 1
}

/// The bytes of a map that its test alone accesses.
fn bytes(map: &Map) -> &[AtomicU8] {
    // SAFETY: the map lives as long as the slice, and its memory is only accessed as atomics.
    unsafe { std::slice::from_raw_parts(map.as_ptr().as_ptr().cast(), map.size_bytes() as usize) }
}

fn load(map: &Map, at: usize) -> u8 {
    bytes(map)[at].load(Ordering::Relaxed)
}

fn store(map: &Map, at: usize, value: u8) {
    bytes(map)[at].store(value, Ordering::Relaxed);
}

/// Maps the first `size_bytes` of `device`, runs `body` on another thread, and returns the device
/// with the server's result.
fn with_map<D: Device>(
    device: D,
    size_bytes: u64,
    options: PagerOptions,
    body: impl FnOnce(Map) + Send,
) -> Result<D> {
    let range = Range { lba: 0, size_bytes };
    let (map, server) = map(device, range, &options, buffers(4, options.page_bytes))?;
    thread::scope(|scope| {
        let user = scope.spawn(|| body(map));
        let ended = server.run();
        user.join().expect("the test's own thread");
        ended.map(|(device, buffers)| {
            assert_eq!(buffers.len(), 4);
            device
        })
    })
}

fn seed() -> u64 {
    let given = std::env::var("STRAIGHTWAY_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("STRAIGHTWAY_SEED={seed}");
    seed
}

#[test]
fn loads_see_the_device_within_the_limit_of_memory() {
    if permitted::is_missing(false) {
        return;
    }
    let pages = 64;
    for page_bytes in [PAGE, 4 * PAGE] {
        let options = PagerOptions {
            page_bytes,
            resident_bytes: 4 * page_bytes,
            ..PagerOptions::default()
        };
        let ended = with_map(disk(pages), (pages * PAGE) as u64, options, |map| {
            for round in 0..3 {
                for page in 0..pages {
                    let at = page * PAGE + round * 7;
                    assert_eq!(load(&map, at), value(page));
                    assert!(
                        map.resident_bytes().expect("a count") <= options.resident_bytes as u64
                    );
                }
            }
            assert_eq!(map.take_failures(), []);
            assert!(map.counters().evictions > 0);
        });
        ended.expect("a clean end");
    }
}

#[test]
fn pages_of_two_mebibytes_are_read_and_written_whole() {
    if permitted::is_missing(false) {
        return;
    }
    for stores_by_content in [false, true] {
        let (pages, page_bytes) = (6 * 512, 2 << 20);
        let options = PagerOptions {
            writable: true,
            stores_by_content,
            page_bytes,
            resident_bytes: 4 * page_bytes,
            ..PagerOptions::default()
        };
        let ended = with_map(disk(pages), (pages * PAGE) as u64, options, |map| {
            for page in [0, 511, 512, 1535, 1024, 1536, 2048, 3071, 1] {
                assert_eq!(load(&map, page * PAGE), value(page));
                store(&map, page * PAGE + 1, 200);
                assert!(map.resident_bytes().expect("a count") <= 4 * page_bytes as u64);
            }
            map.sync().expect("a sync");
            // One or two of the six lost their memory, and at most one of these was read again.
            assert!((6..=7).contains(&map.counters().reads));
            assert!(map.counters().evictions >= 2);
        });
        let mut device = ended.expect("a clean end");
        for page in [0, 511, 512, 1535, 1024, 1536, 2048, 3071, 1] {
            let buffer = buffers(1, PAGE).pop().expect("a buffer");
            let read = blocking::read(&mut device, blocks(page as u64).start, buffer);
            assert_eq!((read.result, read.buffer[1]), (Ok(()), 200), "page {page}");
        }
    }
}

#[test]
fn a_last_page_that_is_short_ends_with_zeroes() {
    if permitted::is_missing(false) {
        return;
    }
    let ended = with_map(disk(2), PAGE as u64 + 512, PagerOptions::default(), |map| {
        assert_eq!(load(&map, PAGE + 511), value(1));
        // SAFETY: the mapping has whole pages.
        let past = unsafe { map.as_ptr().add(PAGE + 512).read_volatile() };
        assert_eq!(past, 0);
    });
    ended.expect("a clean end");
}

#[test]
fn random_stores_are_on_the_device_after_each_sync_and_at_the_end() {
    if permitted::is_missing(false) {
        return;
    }
    for stores_by_content in [false, true] {
        stores_are_on_the_device(stores_by_content);
    }
}

fn stores_are_on_the_device(stores_by_content: bool) {
    let (pages, mut random) = (24, fastrand::Rng::with_seed(seed()));
    let options = PagerOptions {
        writable: true,
        stores_by_content,
        resident_bytes: 5 * PAGE,
        dirty_bytes: 2 * PAGE,
        ..PagerOptions::default()
    };
    let mut expected: Vec<u8> = (0..pages * PAGE).map(|at| value(at / PAGE)).collect();
    let size_bytes = expected.len() as u64;
    let ended = with_map(disk(pages), size_bytes, options, |map| {
        for round in 0..4000 {
            let at = random.usize(..expected.len());
            assert_eq!(load(&map, at), expected[at], "round {round}, byte {at}");
            if random.bool() {
                expected[at] = random.u8(..);
                store(&map, at, expected[at]);
            }
            assert!(map.resident_bytes().expect("a count") <= options.resident_bytes as u64);
            if random.u8(..100) == 0 {
                map.sync().expect("a sync");
            }
        }
        drop(map);
    });
    let mut device = ended.expect("a clean end");
    for page in 0..pages {
        let buffer = buffers(1, PAGE).pop().expect("a buffer");
        let read = blocking::read(&mut device, (page * PAGE / 512) as u64, buffer);
        assert_eq!(read.result, Ok(()));
        assert_eq!(
            read.buffer[..],
            expected[page * PAGE..][..PAGE],
            "page {page}"
        );
    }
}

#[test]
fn pages_that_were_only_loaded_from_are_not_written() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        writable: true,
        stores_by_content: true,
        resident_bytes: 4 * PAGE,
        dirty_bytes: PAGE,
        read_ahead_bytes: 2 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(16), 15 * PAGE as u64 + 512, options, |map| {
        for page in 0..16 {
            assert_eq!(load(&map, page * PAGE), value(page));
        }
        store(&map, 3 * PAGE, value(3));
        map.sync().expect("a sync");
        // Not even the page that was stored to, because it holds what it held.
        assert_eq!(map.counters().writes, 0);
        store(&map, 15 * PAGE, 1);
        store(&map, PAGE, 99);
        for _ in 0..2 {
            map.sync().expect("a sync");
            assert_eq!((load(&map, 15 * PAGE), load(&map, PAGE)), (1, 99));
            assert_eq!(map.counters().writes, 2);
        }
    });
    ended.expect("a clean end");
}

#[test]
fn threads_that_touch_the_same_pages_all_go_on() {
    if permitted::is_missing(false) {
        return;
    }
    for stores_by_content in [false, true] {
        threads_store_to_the_same_pages(stores_by_content);
    }
}

fn threads_store_to_the_same_pages(stores_by_content: bool) {
    let pages = 16;
    let options = PagerOptions {
        writable: true,
        stores_by_content,
        resident_bytes: 4 * PAGE,
        dirty_bytes: PAGE,
        ..PagerOptions::default()
    };
    let seed = seed();
    let ended = with_map(disk(pages), (pages * PAGE) as u64, options, |map| {
        thread::scope(|scope| {
            for thread in 0..4 {
                let map = &map;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed + thread as u64);
                    // Each thread has bytes of its own in all pages.
                    let mut mine: Vec<u8> = (0..pages).map(value).collect();
                    for _ in 0..1500 {
                        let page = random.usize(..pages);
                        let at = page * PAGE + thread;
                        assert_eq!(load(map, at), mine[page]);
                        mine[page] = random.u8(..);
                        store(map, at, mine[page]);
                    }
                });
            }
        });
    });
    ended.expect("a clean end");
}

/// Whether an access to a page is possible, without its signal: the kernel returns EFAULT from a
/// system call where the thread itself would get SIGBUS.
fn is_served(map: &Map, page: usize) -> bool {
    can_be_written_from(map.as_ptr(), page)
}

fn can_be_written_from(start: NonNull<u8>, page: usize) -> bool {
    let (mut reader, mut writer) = UnixStream::pair().expect("sockets");
    // SAFETY: only the kernel reads these bytes.
    let byte = unsafe { std::slice::from_raw_parts(start.as_ptr().add(page * PAGE), 1) };
    match writer.write(byte) {
        Ok(1) => {
            let mut read = [0];
            reader.read_exact(&mut read).expect("the byte");
            true
        }
        result => {
            let error = result.expect_err("no byte was written");
            assert_eq!(error.raw_os_error(), Some(libc::EFAULT), "{error}");
            false
        }
    }
}

/// The blocks of a page.
fn blocks(page: u64) -> std::ops::Range<u64> {
    page * 8..page * 8 + 8
}

const MEDIUM: block::Error = block::Error::Nvme { status: 0x281 };

#[test]
fn a_page_that_cannot_be_read_is_an_error_with_its_reason_and_the_others_are_served() {
    if permitted::is_missing(true) {
        return;
    }
    let rule = Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(MEDIUM)).within(blocks(3));
    let ended = with_map(
        Faulty::new(disk(8), [rule]),
        8 * PAGE as u64,
        PagerOptions::default(),
        |map| {
            assert!(is_served(&map, 2));
            assert!(!is_served(&map, 3));
            assert!(is_served(&map, 4));
            let failure = PageError {
                offset_bytes: 3 * PAGE as u64,
                write: false,
                error: MEDIUM,
            };
            assert_eq!(map.take_failures(), [failure]);
            // It is not read again, and stays an error.
            assert!(!is_served(&map, 3));
            assert_eq!(
                (map.take_failures(), map.counters().failures),
                (Vec::new(), 1)
            );
        },
    );
    ended.expect("a clean end");
}

#[test]
fn stores_that_cannot_be_written_are_kept_and_a_later_sync_writes_them() {
    if permitted::is_missing(true) {
        return;
    }
    for stores_by_content in [false, true] {
        stores_are_kept(stores_by_content);
    }
}

fn stores_are_kept(stores_by_content: bool) {
    let rules = [1, 2].map(|at| {
        Rule::once(On::Kind(CommandKind::Write), at, Fault::Fail(MEDIUM)).within(blocks(5))
    });
    let options = PagerOptions {
        writable: true,
        stores_by_content,
        resident_bytes: 4 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(
        Faulty::new(disk(16), rules),
        16 * PAGE as u64,
        options,
        |map| {
            store(&map, 5 * PAGE, 77);
            store(&map, 6 * PAGE, 78);
            for _ in 0..2 {
                let error = map.sync().expect_err("a write fails");
                let Error::Unwritten {
                    pages: 1,
                    offset_bytes,
                    error: MEDIUM,
                } = error
                else {
                    unreachable!("{error}");
                };
                assert_eq!(offset_bytes, 5 * PAGE as u64);
                // However many other pages are needed, this one stays.
                for page in 0..16 {
                    assert!(is_served(&map, page));
                }
                assert_eq!((load(&map, 5 * PAGE), load(&map, 6 * PAGE)), (77, 78));
            }
            assert_eq!(map.take_failures().len(), 2);
            map.sync().expect("the device is well again");
        },
    );
    let mut device = ended.expect("a clean end");
    let buffer = buffers(1, PAGE).pop().expect("a buffer");
    let read = blocking::read(&mut device, blocks(5).start, buffer);
    assert_eq!((read.result, read.buffer[0]), (Ok(()), 77));
}

#[test]
fn with_all_memory_kept_for_what_cannot_be_written_another_page_is_an_error() {
    if permitted::is_missing(true) {
        return;
    }
    let rule = Rule::from(On::Kind(CommandKind::Write), 1, Fault::Fail(MEDIUM));
    let options = PagerOptions {
        writable: true,
        resident_bytes: 4 * PAGE,
        ..PagerOptions::default()
    };
    let device = Faulty::new(disk(6), [rule]);
    let ended = with_map(device, 6 * PAGE as u64, options, |map| {
        for page in 0..4 {
            store(&map, page * PAGE, page as u8 + 1);
        }
        assert!(!is_served(&map, 4));
        let no_memory = PageError {
            offset_bytes: 4 * PAGE as u64,
            write: false,
            error: block::Error::Os {
                errno: libc::ENOMEM,
            },
        };
        assert_eq!(map.take_failures().last(), Some(&no_memory));
        let kept = [0, 1, 2, 3].map(|page| load(&map, page * PAGE));
        assert_eq!(kept, [1, 2, 3, 4]);
    });
    let error = ended.map(drop).expect_err("the last sync");
    assert!(
        matches!(error, Error::Unwritten { pages: 4, .. }),
        "{error}"
    );
}

#[test]
fn a_flush_that_fails_is_reported() {
    if permitted::is_missing(false) {
        return;
    }
    let rule = Rule::once(On::Kind(CommandKind::Flush), 1, Fault::Fail(MEDIUM));
    let options = PagerOptions {
        writable: true,
        ..PagerOptions::default()
    };
    let ended = with_map(
        Faulty::new(disk(2), [rule]),
        2 * PAGE as u64,
        options,
        |map| {
            store(&map, 0, 7);
            assert!(matches!(map.sync(), Err(Error::Flush(MEDIUM))));
            map.sync().expect("the next one");
        },
    );
    ended.expect("a clean end");
}

#[test]
fn a_device_that_disappears_ends_every_access_and_the_server() {
    if permitted::is_missing(true) {
        return;
    }
    let rule = Rule::once(On::Kind(CommandKind::Read), 3, Fault::Remove);
    let options = PagerOptions {
        writable: true,
        resident_bytes: 4 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(
        Faulty::new(disk(8), [rule]),
        8 * PAGE as u64,
        options,
        |map| {
            store(&map, 0, 1);
            store(&map, PAGE, 2);
            for page in 2..8 {
                assert!(!is_served(&map, page));
            }
            // What is in memory stays there.
            assert_eq!((load(&map, 0), load(&map, PAGE)), (1, 2));
            assert!(matches!(map.sync(), Err(Error::Unwritten { pages: 2, .. })));
        },
    );
    let error = ended.map(drop).expect_err("the last sync");
    assert!(
        matches!(
            error,
            Error::Unwritten {
                pages: 2,
                offset_bytes: 0,
                error: block::Error::Gone
            }
        ),
        "{error}"
    );
}

#[test]
fn without_a_server_every_access_is_an_error() {
    if permitted::is_missing(true) {
        return;
    }
    let range = Range {
        lba: 0,
        size_bytes: PAGE as u64,
    };
    let (map, server) =
        map(disk(1), range, &PagerOptions::default(), buffers(1, PAGE)).expect("a map");
    drop(server);
    assert!(!is_served(&map, 0));
    assert!(matches!(map.sync(), Err(Error::Ended)));
}

#[test]
fn threads_amid_failing_reads_and_writes_all_come_to_an_end() {
    if permitted::is_missing(true) {
        return;
    }
    let pages = 16;
    let options = PagerOptions {
        writable: true,
        resident_bytes: 6 * PAGE,
        dirty_bytes: PAGE,
        ..PagerOptions::default()
    };
    let seed = seed();
    let mut rules: Vec<Rule> = [40, 90, 160]
        .map(|at| Rule::once(On::Kind(CommandKind::Read), at, Fault::Fail(MEDIUM)))
        .to_vec();
    rules.extend((0..40).map(|at| {
        Rule::once(
            On::Kind(CommandKind::Write),
            5 * at + 3,
            Fault::Fail(MEDIUM),
        )
    }));
    let ended = with_map(
        Faulty::new(disk(pages), rules),
        (pages * PAGE) as u64,
        options,
        |map| {
            thread::scope(|scope| {
                for thread in 0..4 {
                    let map = &map;
                    scope.spawn(move || {
                        let mut random = fastrand::Rng::with_seed(seed + thread);
                        for _ in 0..400 {
                            is_served(map, random.usize(..pages));
                            if random.u8(..20) == 0 {
                                let _ = map.sync();
                            }
                        }
                    });
                }
            });
            let poisoned = (0..pages).filter(|&page| !is_served(&map, page)).count();
            assert!(poisoned <= 3, "{poisoned}");
        },
    );
    ended.expect("a clean end: nothing was stored");
}

#[test]
fn impossible_maps_are_refused_with_a_reason() {
    if permitted::is_missing(false) {
        return;
    }
    let refused = |size_bytes: u64, options: PagerOptions, buffers: Vec<Buffer>| {
        let refused = map(disk(4), Range { lba: 0, size_bytes }, &options, buffers);
        refused.map(drop).expect_err("it is refused").to_string()
    };
    let usual = PagerOptions::default();
    let good = || buffers(1, PAGE);
    assert!(refused(0, usual, good()).contains("whole blocks"));
    assert!(refused(100, usual, good()).contains("whole blocks"));
    assert!(refused(5 * PAGE as u64, usual, good()).contains("past the device"));
    assert!(refused(u64::MAX - 511, usual, good()).contains("past the device"));
    for page_bytes in [0, 5000, 4 << 20] {
        let options = PagerOptions {
            page_bytes,
            ..usual
        };
        assert!(!refused(4096, options, good()).is_empty());
    }
    let options = PagerOptions {
        resident_bytes: 4 * PAGE - 1,
        ..usual
    };
    assert!(refused(4096, options, good()).contains("four pages in memory"));
    assert!(refused(4096, usual, Vec::new()).contains("one buffer"));
    assert!(refused(4096, usual, buffers(1, 512)).contains("as long as a page"));
}

/// A disk whose writes reach it some time after they are let go, and the first byte of the last one
/// that has.
struct Late {
    disk: RamDisk<Vec<u8>, 8>,
    held: VecDeque<(u32, Request)>,
    let_go: Arc<AtomicBool>,
    reached: Arc<AtomicU8>,
}

impl Device for Late {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> std::result::Result<(), Refused> {
        match &request.operation {
            Operation::Write { .. } => {
                self.held.push_back((POLLS, request));
                Ok(())
            }
            _ => self.disk.submit(request),
        }
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if let Some((polls, _)) = self.held.front_mut() {
            *polls -= u32::from(self.let_go.load(Ordering::Relaxed));
            if *polls == 0 {
                let (_, request) = self.held.pop_front()?;
                if let Operation::Write { buffer, .. } = &request.operation {
                    self.reached.store(buffer[0], Ordering::Relaxed);
                }
                self.disk.submit(request).expect("a place in its queue");
                self.disk.kick();
            }
        }
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding() + self.held.len()
    }
}

/// How often the device is polled until a write that was let go reaches it.
const POLLS: u32 = 50_000;

#[test]
fn a_sync_writes_what_was_stored_during_a_write_as_well() {
    if permitted::is_missing(false) {
        return;
    }
    for stores_by_content in [false, true] {
        a_write_is_amid(stores_by_content);
    }
}

fn a_write_is_amid(stores_by_content: bool) {
    let reached = Arc::new(AtomicU8::new(0));
    let let_go = Arc::new(AtomicBool::new(false));
    let device = Late {
        disk: disk(2),
        held: VecDeque::new(),
        let_go: Arc::clone(&let_go),
        reached: Arc::clone(&reached),
    };
    // Each store is written at once.
    let options = PagerOptions {
        writable: true,
        stores_by_content,
        dirty_bytes: 0,
        ..PagerOptions::default()
    };
    let ended = with_map(device, PAGE as u64, options, |map| {
        for value in 100..108 {
            // The write of what was there before is under way when the second value is stored.
            let_go.store(false, Ordering::Relaxed);
            store(&map, 0, value - 50);
            store(&map, 0, value);
            let_go.store(true, Ordering::Relaxed);
            map.sync().expect("a sync");
            assert_eq!(reached.load(Ordering::Relaxed), value);
        }
    });
    ended.map(drop).expect("a clean end");
}
