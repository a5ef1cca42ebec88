// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps with several queues: several threads that serve, or several that each serve themselves.

use super::{MEDIUM, PAGE, blocks, buffers, is_served, load, permitted, seed, value};
use crate::queue::Queue;
use block::{Device, RamDisk, blocking};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;
use straightway_map::{Error, PagerOptions, Range, map_lanes, map_local};

const PAGES: usize = 24;
const LANES: usize = 5;
const WHOLE: Range = Range {
    lba: 0,
    size_bytes: (PAGES * PAGE) as u64,
};

fn queues(random: &mut fastrand::Rng) -> Vec<Queue> {
    crate::queue::queues(super::disk(PAGES), LANES, random)
}

/// Loads and stores of a thread, which alone uses one of [`LANES`] bytes: each is compared with
/// what it stored last, so all threads use all pages.
fn work(bytes: &[AtomicU8], thread: usize, rounds: usize, mut random: fastrand::Rng) -> Vec<u8> {
    let mut expected: Vec<u8> = (0..bytes.len()).map(|at| value(at / PAGE)).collect();
    for round in 0..rounds {
        let at = random.usize(..bytes.len() / LANES) * LANES + thread;
        let found = bytes[at].load(Ordering::Relaxed);
        assert_eq!(found, expected[at], "thread {thread}, round {round}, {at}");
        if random.bool() {
            expected[at] = random.u8(..);
            bytes[at].store(expected[at], Ordering::Relaxed);
        }
    }
    expected
}

fn options(stores_by_content: bool) -> PagerOptions {
    PagerOptions {
        writable: true,
        stores_by_content,
        resident_bytes: 9 * PAGE,
        dirty_bytes: 3 * PAGE,
        read_ahead_bytes: 2 * PAGE,
        ..PagerOptions::default()
    }
}

/// Every byte is what its thread stored last.
fn has_all(disk: &mut impl Device, by_thread: &[Vec<u8>]) {
    for page in 0..PAGES {
        let buffer = buffers(1, PAGE).pop().expect("a buffer");
        let read = blocking::read(disk, blocks(page as u64).start, buffer);
        assert_eq!(read.result, Ok(()));
        for at in page * PAGE..(page + 1) * PAGE {
            assert_eq!(
                read.buffer[at % PAGE],
                by_thread[at % LANES][at],
                "byte {at}"
            );
        }
    }
}

/// The map's memory.
fn bytes(start: usize) -> &'static [AtomicU8] {
    // SAFETY: each caller keeps the map until its threads have ended, which alone use the slice, as
    // atomics.
    unsafe { std::slice::from_raw_parts(start as *const AtomicU8, PAGES * PAGE) }
}

#[test]
fn several_servers_keep_every_store_of_several_threads() {
    if permitted::is_missing(false) {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    for stores_by_content in [false, true] {
        let lanes = queues(&mut random).into_iter();
        let lanes = lanes.map(|queue| (queue, buffers(3, PAGE)));
        let options = PagerOptions {
            spin: Duration::from_micros(if stores_by_content { 20 } else { 0 }),
            ..options(stores_by_content)
        };
        let (map, servers) = map_lanes(lanes.collect(), WHOLE, &options).expect("a map");
        assert_eq!(servers.len(), LANES);
        let (devices, by_thread) = thread::scope(|scope| {
            let servers = servers.into_iter();
            let servers: Vec<_> = servers
                .map(|server| scope.spawn(move || server.run()))
                .collect();
            let start = map.as_ptr().as_ptr() as usize;
            let user = |thread| {
                let random = random.fork();
                scope.spawn(move || work(bytes(start), thread, 1500, random))
            };
            let users: Vec<_> = (0..LANES).map(user).collect();
            for _ in 0..20 {
                map.sync().expect("a device that is well");
                let resident = map.resident_bytes().expect("a count");
                assert!(resident <= options.resident_bytes as u64, "{resident}");
            }
            let users = users.into_iter().map(|user| user.join().expect("a user"));
            let by_thread: Vec<_> = users.collect();
            assert_eq!(map.take_failures(), []);
            drop(map);
            let ended = servers.into_iter().map(|server| server.join());
            let ended = ended.map(|ended| ended.expect("a server").expect("a clean end"));
            (ended.collect::<Vec<_>>(), by_thread)
        });
        assert!(devices.iter().all(|(_, buffers)| buffers.len() == 3));
        let (mut queue, _) = devices.into_iter().next().expect("the first");
        has_all(&mut queue, &by_thread);
    }
}

/// A lane gives a page its content before it takes the lock to say so: the thread may have stored
/// by then.
#[test]
fn a_sync_has_a_store_whose_page_has_just_come() {
    if permitted::is_missing(false) {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    for stores_by_content in [false, true].repeat(20) {
        let lanes = queues(&mut random);
        let disk = Arc::clone(&lanes[0].disk);
        let lanes = lanes.into_iter().map(|queue| (queue, buffers(3, PAGE)));
        let options = options(stores_by_content);
        let (map, servers) = map_lanes(lanes.collect(), WHOLE, &options).expect("a map");
        thread::scope(|scope| {
            for server in servers {
                scope.spawn(move || server.run().expect("a clean end"));
            }
            let bytes = bytes(map.as_ptr().as_ptr() as usize);
            let mut pages: Vec<usize> = (0..PAGES).collect();
            random.shuffle(&mut pages);
            for page in pages {
                bytes[page * PAGE].store(200, Ordering::Relaxed);
                map.sync().expect("a device that is well");
                let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
                let buffer = buffers(1, PAGE).pop().expect("a buffer");
                let read = blocking::read(&mut *disk, blocks(page as u64).start, buffer);
                assert_eq!(read.buffer[0], 200, "page {page}");
            }
            drop(map);
        });
    }
}

#[test]
fn threads_that_serve_themselves_keep_every_store_of_all() {
    if permitted::is_missing(false) {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    for stores_by_content in [false, true] {
        let mut queues = queues(&mut random);
        let options = options(stores_by_content);
        let own = queues.pop().expect("a queue");
        let map = map_local(own, WHOLE, &options, buffers(3, PAGE)).expect("a map");
        let start = map.as_ptr().as_ptr() as usize;
        let lanes = map.lanes();
        let by_thread: Vec<Vec<u8>> = thread::scope(|scope| {
            let users = queues.into_iter().enumerate().map(|(thread, queue)| {
                let (lanes, random) = (lanes.clone(), random.fork());
                scope.spawn(move || {
                    let lane = lanes.join(queue, buffers(3, PAGE)).expect("a place");
                    let expected = work(bytes(start), thread, 1500, random);
                    let (_, buffers) = lane.close().expect("a clean end");
                    assert_eq!(buffers.len(), 3);
                    expected
                })
            });
            let users: Vec<_> = users.collect();
            let mine = work(bytes(start), LANES - 1, 1500, random.fork());
            for _ in 0..20 {
                map.sync().expect("a device that is well");
                let resident = map.resident_bytes().expect("a count");
                assert!(resident <= options.resident_bytes as u64, "{resident}");
            }
            let users = users.into_iter().map(|user| user.join().expect("a user"));
            users.chain([mine]).collect()
        });
        assert_eq!(map.take_failures(), []);
        let (mut queue, _) = map.close().expect("a clean end");
        has_all(&mut queue, &by_thread);
        let late = lanes
            .join(queue, buffers(3, PAGE))
            .expect_err("it has ended");
        assert!(matches!(late, Error::Ended), "{late}");
    }
}

/// Otherwise each would take the memory of the others' pages before they have used it.
#[test]
fn more_threads_than_pages_in_memory_all_go_on() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        resident_bytes: 4 * PAGE,
        read_ahead_bytes: PAGE,
        ..options(true)
    };
    let mut random = fastrand::Rng::with_seed(seed());
    let mut queues = crate::queue::queues(super::disk(PAGES), LANES + 1, &mut random);
    let map = map_local(
        queues.pop().expect("a queue"),
        WHOLE,
        &options,
        buffers(3, PAGE),
    );
    let map = map.expect("a map");
    let start = map.as_ptr().as_ptr() as usize;
    thread::scope(|scope| {
        let users = queues.into_iter().enumerate().map(|(thread, queue)| {
            let (lanes, random) = (map.lanes(), random.fork());
            scope.spawn(move || {
                let lane = lanes.join(queue, buffers(3, PAGE)).expect("a place");
                work(bytes(start), thread, 200, random);
                lane.close().expect("a clean end");
            })
        });
        let users: Vec<_> = users.collect();
        // This one has no page that it needs, and ends what the others have left.
        while !users.iter().all(|user| user.is_finished()) {
            map.turn().expect("a device that is well");
        }
    });
    assert_eq!(map.take_failures(), []);
}

#[test]
fn a_page_that_one_queue_cannot_read_is_an_error_for_all_threads_and_the_others_go_on() {
    if permitted::is_missing(true) {
        return;
    }
    let faulty = |_| {
        let rule =
            Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(MEDIUM)).within(blocks(3));
        (Faulty::new(super::disk(PAGES), [rule]), buffers(2, PAGE))
    };
    let lanes = (0..LANES).map(faulty).collect();
    let (map, servers) = map_lanes(lanes, WHOLE, &PagerOptions::default()).expect("a map");
    thread::scope(|scope| {
        for server in servers {
            scope.spawn(move || server.run().map(drop).expect("a clean end"));
        }
        let served = thread::scope(|users| {
            let map = &map;
            let threads = [2, 3, 3, 4].map(|page| users.spawn(move || is_served(map, page)));
            threads.map(|thread| thread.join().expect("a thread"))
        });
        assert_eq!(served, [true, false, false, true]);
        assert_eq!(load(&map, 5 * PAGE), value(5));
        assert_eq!(map.take_failures().len(), 1);
        drop(map);
    });
}

#[test]
fn queues_of_different_shapes_are_checked_before_anything_is_mapped() {
    if permitted::is_missing(false) {
        return;
    }
    let none: Vec<(RamDisk<Vec<u8>, 8>, _)> = Vec::new();
    let error = map_lanes(none, WHOLE, &PagerOptions::default()).expect_err("no device");
    assert!(matches!(error, Error::Options(_)), "{error}");
    let short = [PAGES, PAGES - 1].map(|pages| (super::disk(pages), buffers(1, PAGE)));
    let error =
        map_lanes(short.into(), WHOLE, &PagerOptions::default()).expect_err("one is shorter");
    assert!(error.to_string().contains("past the device"), "{error}");
    let map = map_local(
        super::disk(PAGES),
        WHOLE,
        &PagerOptions::default(),
        buffers(1, PAGE),
    );
    let map = map.expect("a map");
    let error = map.lanes().join(super::disk(2), buffers(1, PAGE));
    let error = error.expect_err("it is shorter");
    assert!(error.to_string().contains("past the device"), "{error}");
}
