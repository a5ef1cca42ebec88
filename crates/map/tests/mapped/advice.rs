// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user says of the future: read-ahead, prefetched and pinned ranges, memory given back.

use super::{MEDIUM, PAGE, blocks, disk, is_served, load, permitted, store, value, with_map};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use straightway_map::{Error, Map, PagerOptions};

const PAGES: usize = 64;

fn bytes_of(pages: std::ops::Range<usize>) -> std::ops::Range<u64> {
    (pages.start * PAGE) as u64..(pages.end * PAGE) as u64
}

/// The first byte of a page.
fn first_of(map: &Map, page: usize) -> NonNull<u8> {
    // SAFETY: inside the map.
    unsafe { map.as_ptr().add(page * PAGE) }
}

/// Waits for what the server does by itself.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn resident_pages(map: &Map) -> Vec<std::ops::Range<u64>> {
    map.resident_ranges().expect("a server")
}

#[test]
fn a_reader_in_order_faults_once_for_half_a_range_and_reads_each_page_once() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        read_ahead_bytes: 8 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
        // The first page and eight more, the fifth of which is the marker; then four for each
        // marker.
        let mut end = 9;
        for page in 0..PAGES {
            assert_eq!(load(&map, page * PAGE), value(page));
            if page > 0 && page % 5 == 0 {
                end = (page + 9).min(PAGES);
            }
            wait_until("the range", || resident_pages(&map) == [bytes_of(0..end)]);
            let counters = map.counters();
            assert_eq!(counters.faults as usize, 1 + page / 5, "page {page}");
        }
        let counters = map.counters();
        assert_eq!((counters.reads, counters.reads_ahead), (64, 63));
    });
    ended.expect("a clean end");
}

#[test]
fn a_prefetched_working_set_is_loaded_from_without_a_fault() {
    if permitted::is_missing(false) {
        return;
    }
    let (size_bytes, options) = ((PAGES * PAGE) as u64, PagerOptions::default());
    let mut set = Vec::new();
    let recorded = with_map(disk(PAGES), size_bytes, options, |map| {
        for page in [3, 4, 5, 40] {
            load(&map, page * PAGE);
        }
        set = resident_pages(&map);
    });
    recorded.expect("a clean end");
    assert_eq!(set, [bytes_of(3..6), bytes_of(40..41)]);
    let ended = with_map(disk(PAGES), size_bytes, options, |map| {
        for range in &set {
            map.prefetch(range.clone()).expect("a server");
        }
        wait_until("the set", || resident_pages(&map) == set);
        let loaded = [3, 4, 5, 40].map(|page| load(&map, page * PAGE));
        assert_eq!(loaded, [value(3), value(4), value(5), value(40)]);
        let counters = map.counters();
        assert_eq!((counters.faults, counters.reads_ahead), (0, 4));
    });
    ended.expect("a clean end");
}

#[test]
fn pinned_pages_keep_their_memory_and_leave_some_for_the_others() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        resident_bytes: 7 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
        map.pin(bytes_of(10..13)).expect("memory for three");
        let error = map.pin(bytes_of(20..21)).expect_err("none for a fourth");
        assert!(matches!(error, Error::Options(_)), "{error}");
        for page in 0..PAGES {
            assert_eq!(load(&map, page * PAGE), value(page));
            assert!(map.resident_bytes().expect("a count") <= options.resident_bytes as u64);
        }
        let before = map.counters().faults;
        for page in 10..13 {
            assert_eq!(load(&map, page * PAGE), value(page));
        }
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), [bytes_of(10..13)]);
        assert_eq!(map.counters().faults, before);
        map.unpin(bytes_of(10..12)).expect("a server");
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), [bytes_of(12..13)]);
        map.pin(bytes_of(20..22)).expect("memory again");
    });
    ended.expect("a clean end");
}

#[test]
fn a_window_keeps_its_memory_until_the_device_has_lost_it() {
    if permitted::is_missing(true) {
        return;
    }
    /// What a device is granted: told apart from its end.
    struct Granted<'a>(&'a AtomicBool);
    impl Drop for Granted<'_> {
        fn drop(&mut self) {
            self.0.store(false, Ordering::Relaxed);
        }
    }
    let options = PagerOptions {
        writable: true,
        resident_bytes: 6 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
        let is_granted = AtomicBool::new(false);
        let refused = map.window(bytes_of(2..4), |_, _| Err::<(), _>(Error::Ended));
        assert!(refused.is_err());
        map.sync().expect("a sync");
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), [], "a refused window is not pinned");

        let window = map.window(bytes_of(2..4), |start, len| {
            assert_eq!((start, len), (first_of(&map, 2), 2 * PAGE));
            is_granted.store(true, Ordering::Relaxed);
            Ok::<_, Error>(Granted(&is_granted))
        });
        let window = window.expect("a window");
        assert_eq!(window.bytes(), bytes_of(2..4));
        map.pin(bytes_of(2..3)).expect("memory");
        map.unpin(bytes_of(2..3)).expect("a server");
        for page in 0..PAGES {
            assert_eq!(load(&map, page * PAGE), value(page));
        }
        map.sync().expect("a sync");
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), [bytes_of(2..4)]);
        let before = map.counters().writes;
        window.written(bytes_of(3..4)).expect("in the window");
        map.sync().expect("a sync");
        assert_eq!(map.counters().writes, before + 1);
        window.written(bytes_of(3..5)).expect_err("past the window");
        assert!(is_granted.load(Ordering::Relaxed));
        drop(window);
        assert!(!is_granted.load(Ordering::Relaxed));
        // What the device may have stored last.
        map.sync().expect("a sync");
        assert_eq!(map.counters().writes, before + 3);
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), []);
    });
    ended.expect("a clean end");
}

#[test]
fn a_page_that_cannot_be_read_ahead_is_an_error_for_pins_and_is_tried_again_for_others() {
    if permitted::is_missing(true) {
        return;
    }
    let once =
        |at| Rule::once(On::Kind(CommandKind::Read), at, Fault::Fail(MEDIUM)).within(blocks(5));
    let always = Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(MEDIUM)).within(blocks(9));
    let device = Faulty::new(disk(PAGES), [once(1), always]);
    let ended = with_map(
        device,
        (PAGES * PAGE) as u64,
        PagerOptions::default(),
        |map| {
            map.prefetch(bytes_of(4..7)).expect("a server");
            wait_until("the others", || {
                resident_pages(&map) == [bytes_of(4..5), bytes_of(6..7)]
            });
            assert_eq!(map.take_failures(), []);
            assert!(is_served(&map, 5));

            let error = map.pin(bytes_of(8..11)).expect_err("page 9 fails");
            let Error::Unread {
                offset_bytes,
                error: MEDIUM,
            } = error
            else {
                unreachable!("{error}");
            };
            assert_eq!(offset_bytes, 9 * PAGE as u64);
            assert_eq!(map.take_failures().len(), 1);
            assert!(!is_served(&map, 9) && is_served(&map, 10));
            map.pin(bytes_of(8..11)).expect_err("still an error");
            wait_until("reads", || map.resident_ranges().is_ok());
            map.evict(bytes_of(0..PAGES)).expect("a server");
            assert_eq!(resident_pages(&map), [], "nothing is pinned");
        },
    );
    ended.expect("a clean end");
}

#[test]
fn memory_is_given_back_but_for_what_was_stored() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        writable: true,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
        for page in [1, 2, 3] {
            load(&map, page * PAGE);
        }
        store(&map, 2 * PAGE, 99);
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), [bytes_of(2..3)]);
        map.sync().expect("a device that is well");
        map.evict(bytes_of(0..PAGES)).expect("a server");
        assert_eq!(resident_pages(&map), []);
        assert_eq!(map.resident_bytes().expect("a count"), 0);
        assert_eq!((load(&map, 2 * PAGE), load(&map, PAGE)), (99, value(1)));

        let outside = map.prefetch(bytes_of(0..PAGES + 1));
        let error = outside.expect_err("past the end");
        assert!(matches!(error, Error::Options(_)), "{error}");
    });
    ended.expect("a clean end");
}

#[test]
fn a_store_is_written_at_its_age_without_a_sync() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        writable: true,
        dirty_age: Some(Duration::from_millis(20)),
        ..PagerOptions::default()
    };
    let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
        for round in 1..=3 {
            store(&map, 7 * PAGE, round);
            wait_until("the write", || map.counters().writes == u64::from(round));
        }
    });
    ended.expect("a clean end");
}

/// As memory is reclaimed: a page of the first four that cannot be swapped stays, without a
/// mapping.
pub fn page_out(start: NonNull<u8>) {
    // SAFETY: the range is the map's, and its content stays.
    let advised = unsafe { libc::madvise(start.as_ptr().cast(), 4 * PAGE, libc::MADV_PAGEOUT) };
    assert_eq!(advised, 0);
}

#[test]
fn pages_that_the_kernel_unmapped_by_itself_are_mapped_again() {
    if permitted::is_missing(false) {
        return;
    }
    for (writable, stores_by_content) in [(false, false), (true, false), (true, true)] {
        let options = PagerOptions {
            writable,
            stores_by_content,
            ..PagerOptions::default()
        };
        let ended = with_map(disk(4), 4 * PAGE as u64, options, |map| {
            for page in 0..4 {
                assert_eq!(load(&map, page * PAGE), value(page));
            }
            if writable {
                store(&map, PAGE, 99);
            }
            page_out(map.as_ptr());
            let expected = [1, if writable { 99 } else { 2 }, 3, 4];
            assert_eq!([0, 1, 2, 3].map(|page| load(&map, page * PAGE)), expected);
            if writable {
                store(&map, 0, 98);
                store(&map, PAGE, 97);
                assert_eq!([0, 1].map(|page| load(&map, page * PAGE)), [98, 97]);
                map.sync().expect("a sync");
                assert_eq!(map.counters().writes, 2);
            }
        });
        ended.expect("a clean end");
    }
}

/// Removes the memory of some pages of a mapping (MADV_REMOVE), as a program may by itself.
pub fn remove(start: NonNull<u8>, size_bytes: u64, pages: std::ops::Range<usize>) {
    // SAFETY: the ranges are the map's, and no reference to its content is kept.
    unsafe {
        // The kernel refuses what may only be read.
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let changed = libc::mprotect(start.as_ptr().cast(), size_bytes as usize, both);
        let first = start.as_ptr().add(pages.start * PAGE).cast();
        let removed = libc::madvise(first, pages.len() * PAGE, libc::MADV_REMOVE);
        assert_eq!((changed, removed), (0, 0));
    }
}

// partner: Linux | host kernel
#[test]
fn memory_that_a_program_removes_is_read_again_or_zeroes() {
    if permitted::is_missing(false) {
        return;
    }
    for (page_bytes, writable, stores_by_content) in [
        (PAGE, false, false),
        (4 * PAGE, false, false),
        (PAGE, true, false),
        (4 * PAGE, true, false),
        (4 * PAGE, true, true),
    ] {
        let options = PagerOptions {
            page_bytes,
            writable,
            stores_by_content,
            resident_bytes: 6 * page_bytes,
            ..PagerOptions::default()
        };
        let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
            for round in 0..3 {
                for page in 0..16 {
                    assert_eq!(load(&map, page * PAGE), value(page), "round {round}");
                }
                // Where content tells stores, what was touched counts as stored to until then.
                map.sync().expect("a sync");
                // Whole pages of the map, and a part of one.
                remove(map.as_ptr(), map.size_bytes(), 4..8);
                remove(map.as_ptr(), map.size_bytes(), 9..10);
            }
            for page in 0..PAGES {
                assert_eq!(load(&map, page * PAGE), value(page));
            }
            if writable {
                store(&map, 5 * PAGE, 99);
                store(&map, 6 * PAGE, 98);
                remove(map.as_ptr(), map.size_bytes(), 5..6);
                assert_eq!(load(&map, 6 * PAGE), 98);
                assert_eq!(load(&map, 5 * PAGE), 0);
                store(&map, 5 * PAGE + 1, 97);
            }
            map.sync().expect("a sync");
            assert!(map.resident_bytes().expect("a count") <= options.resident_bytes as u64);
            assert_eq!(map.take_failures(), []);
        });
        let mut device = ended.expect("a clean end");
        if writable {
            let buffer = block::blocking::read(
                &mut device,
                blocks(5).start,
                super::buffers(1, PAGE).pop().expect("a buffer"),
            );
            assert_eq!(buffer.buffer[..2], [0, 97]);
        }
    }
}

/// `movs` copies eight bytes between two places, each of which crosses the border of two pages.
#[cfg(target_arch = "x86_64")]
#[test]
fn an_instruction_that_touches_as_many_pages_as_there_may_be_ends() {
    if permitted::is_missing(false) {
        return;
    }
    for stores_by_content in [false, true] {
        let options = PagerOptions {
            writable: true,
            stores_by_content,
            resident_bytes: 4 * PAGE,
            dirty_bytes: PAGE,
            read_ahead_bytes: 3 * PAGE,
            ..PagerOptions::default()
        };
        let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
            for from in 0..20 {
                let to = 40 - from;
                let at = |page: usize| first_of(&map, page).as_ptr().wrapping_sub(3);
                // SAFETY: both ranges are the map's, and it is written to by this thread alone.
                unsafe {
                    std::arch::asm!("movsq", inout("rsi") at(from + 1) => _, inout("rdi") at(to) => _);
                }
                assert_eq!(load(&map, to * PAGE - 1), value(from));
                assert_eq!(load(&map, to * PAGE), value(from + 1));
            }
            assert_eq!(map.take_failures(), []);
        });
        ended.expect("a clean end");
    }
}

#[test]
fn pins_leave_as_many_pages_as_one_instruction_may_touch() {
    if permitted::is_missing(false) {
        return;
    }
    let options = PagerOptions {
        resident_bytes: 7 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(PAGES), (PAGES * PAGE) as u64, options, |map| {
        let error = map.pin(bytes_of(0..4)).expect_err("three would be left");
        assert!(error.to_string().contains("four pages"), "{error}");
        map.pin(bytes_of(0..3)).expect("four are left");
    });
    ended.expect("a clean end");
}
