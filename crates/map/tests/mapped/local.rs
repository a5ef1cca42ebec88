// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps that are served by their own thread, in the handler of its signal.

use super::{MEDIUM, PAGE, blocks, buffers, disk, permitted, seed, value};
use block::{Device, blocking};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;
use straightway_map::{Error, LocalMap, PagerOptions, Range, map_local};

fn mapped<D: Device + 'static>(device: D, pages: usize, options: PagerOptions) -> LocalMap<D> {
    let size_bytes = (pages * PAGE) as u64;
    let range = Range { lba: 0, size_bytes };
    map_local(device, range, &options, buffers(4, options.page_bytes)).expect("a map")
}

fn load<D: Device>(map: &LocalMap<D>, at: usize) -> u8 {
    assert!((at as u64) < map.size_bytes());
    // SAFETY: the byte is in the map, of which no reference exists.
    unsafe { map.as_ptr().add(at).read_volatile() }
}

fn store<D: Device>(map: &LocalMap<D>, at: usize, value: u8) {
    assert!((at as u64) < map.size_bytes());
    // SAFETY: as in `load`.
    unsafe { map.as_ptr().add(at).write_volatile(value) }
}

#[test]
fn random_stores_of_one_thread_are_on_the_device_at_the_end() {
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
        read_ahead_bytes: 2 * PAGE,
        ..PagerOptions::default()
    };
    let mut expected: Vec<u8> = (0..pages * PAGE).map(|at| value(at / PAGE)).collect();
    let map = mapped(disk(pages), pages, options);
    for round in 0..4000 {
        let at = random.usize(..expected.len());
        assert_eq!(load(&map, at), expected[at], "round {round}, byte {at}");
        if random.bool() {
            expected[at] = random.u8(..);
            store(&map, at, expected[at]);
        }
        if random.u8(..) == 0 {
            map.sync().expect("a device that is well");
        }
        assert!(map.resident_bytes().expect("a count") <= options.resident_bytes as u64);
    }
    let counters = map.counters();
    assert!(counters.evictions > 0 && counters.writes > 0 && counters.reads_ahead > 0);
    let (mut device, buffers) = map.close().expect("a clean end");
    assert_eq!(buffers.len(), 4);
    for (page, content) in expected.chunks(PAGE).enumerate() {
        let buffer = super::buffers(1, PAGE).pop().expect("a buffer");
        let read = blocking::read(&mut device, blocks(page as u64).start, buffer);
        assert_eq!((read.result, &read.buffer[..] == content), (Ok(()), true));
    }
}

#[test]
fn a_store_is_made_although_nothing_may_stay_dirty() {
    if permitted::is_missing(false) {
        return;
    }
    let strict = PagerOptions {
        writable: true,
        dirty_bytes: 0,
        dirty_age: Some(Duration::ZERO),
        ..PagerOptions::default()
    };
    let map = mapped(disk(4), 4, strict);
    for (at, value) in [(5, 9), (PAGE + 5, 10), (6, 11)] {
        store(&map, at, value);
        assert_eq!(load(&map, at), value);
    }
    let ended = super::with_map(disk(4), 4 * PAGE as u64, strict, |map| {
        for at in [5, PAGE + 5, 6] {
            super::store(&map, at, 9);
        }
        assert_eq!(super::load(&map, 6), 9);
    });
    ended.expect("a clean end");
}

#[test]
fn a_page_that_could_not_be_written_and_was_unmapped_is_stored_to() {
    if permitted::is_missing(false) {
        return;
    }
    for stores_by_content in [false, true] {
        let options = PagerOptions {
            writable: true,
            stores_by_content,
            ..PagerOptions::default()
        };
        let rules = [Rule::once(
            On::Kind(CommandKind::Write),
            1,
            Fault::Fail(MEDIUM),
        )];
        let map = mapped(Faulty::new(disk(4), rules), 4, options);
        store(&map, PAGE, 99);
        assert!(matches!(map.sync(), Err(Error::Unwritten { .. })));
        crate::advice::page_out(map.as_ptr());
        store(&map, PAGE, 98);
        assert_eq!(load(&map, PAGE), 98);
        map.sync().expect("a device that is well");
    }
}

#[test]
fn several_maps_of_a_thread_are_told_apart_by_address() {
    if permitted::is_missing(false) {
        return;
    }
    let first = mapped(disk(4), 4, PagerOptions::default());
    let second = mapped(disk(8), 8, PagerOptions::default());
    assert_eq!(
        (load(&second, 7 * PAGE), load(&first, PAGE)),
        (value(7), value(1))
    );
    drop(first);
    let third = mapped(disk(2), 2, PagerOptions::default());
    assert_eq!(
        (load(&third, PAGE), load(&second, 6 * PAGE)),
        (value(1), value(6))
    );
    third.close().expect("a clean end");
    assert_eq!(load(&second, 5 * PAGE), value(5));
    assert_eq!(second.counters().faults, 3);
}

#[test]
fn prefetched_pages_are_there_after_a_turn() {
    if permitted::is_missing(false) {
        return;
    }
    let map = mapped(disk(8), 8, PagerOptions::default());
    map.prefetch(0..3 * PAGE as u64).expect("a range");
    while map.turn().expect("a device that is well") {}
    assert_eq!([0, 1, 2].map(|page| load(&map, page * PAGE)), [1, 2, 3]);
    assert_eq!(map.counters().faults, 0);
    let outside = map.prefetch(0..9 * PAGE as u64).expect_err("past the end");
    assert!(matches!(outside, Error::Options(_)), "{outside}");
}

/// A map whose page 3 cannot be read.
fn with_a_bad_page() -> LocalMap<Faulty<block::RamDisk<Vec<u8>, 8>>> {
    let rule = Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(MEDIUM)).within(blocks(3));
    mapped(Faulty::new(disk(8), [rule]), 8, PagerOptions::default())
}

/// What the process of the test below does.
const CHILD: &str = "STRAIGHTWAY_MAP_CHILD";

fn child(what: &str) {
    if what == "handler" {
        install_a_handler();
    }
    let map = with_a_bad_page();
    assert_eq!(load(&map, 2 * PAGE), value(2));
    let start = map.as_ptr().as_ptr() as usize;
    println!("expected {}", 64 + (start / PAGE + 3) % 16);
    if what == "thread" {
        std::thread::scope(|scope| {
            // SAFETY: what this access does is what is tested.
            scope.spawn(move || unsafe { (start as *const u8).add(4 * PAGE).read_volatile() });
        });
    } else {
        load(&map, 3 * PAGE);
    }
    println!("loaded");
}

fn install_a_handler() {
    extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the kernel passes it, and both calls are allowed in a handler.
        unsafe {
            let page = ((*info).si_addr() as usize / PAGE) % 16;
            libc::_exit(64 + page as i32);
        }
    }
    // SAFETY: the structure is whole, and the handler does nothing that is not allowed in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handler;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        let installed = libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        assert_eq!(installed, 0);
    }
}

#[test]
fn what_cannot_be_served_is_the_signal_that_it_would_have_been() {
    if let Ok(what) = std::env::var(CHILD) {
        return child(&what);
    }
    if permitted::is_missing(false) {
        return;
    }
    let run = |what: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let this = "local::what_cannot_be_served_is_the_signal_that_it_would_have_been";
        let output = command
            .args(["--exact", this, "--nocapture"])
            .env(CHILD, what);
        let output = output.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains("expected") && !said.contains("loaded"),
            "{said}"
        );
        (output.status, said)
    };
    for what in ["page", "thread"] {
        let (status, said) = run(what);
        assert_eq!(
            status.signal(),
            Some(libc::SIGBUS),
            "{what}: {status} {said}"
        );
    }
    let (status, said) = run("handler");
    let expected = said.lines().find_map(|line| line.split("expected ").nth(1));
    let expected = expected.and_then(|number| number.parse().ok());
    assert_eq!(status.code(), expected, "{said}");
}

#[test]
fn a_failure_has_its_reason_and_the_map_goes_on() {
    if permitted::is_missing(false) {
        return;
    }
    // A system call that is given an absent page fails, and is no fault of the map's.
    let map = with_a_bad_page();
    let (_reader, mut writer) = std::os::unix::net::UnixStream::pair().expect("sockets");
    // SAFETY: only the kernel reads the byte.
    let absent = unsafe { std::slice::from_raw_parts(map.as_ptr().as_ptr().add(PAGE), 1) };
    let error = std::io::Write::write(&mut writer, absent).expect_err("it is absent");
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    assert_eq!(map.counters().faults, 0);
    assert_eq!(load(&map, PAGE), value(1));

    // Stores that the device refuses are kept, and the next sync writes them.
    let rule = Rule::once(On::Kind(CommandKind::Write), 1, Fault::Fail(MEDIUM)).within(blocks(2));
    let options = PagerOptions {
        writable: true,
        ..PagerOptions::default()
    };
    let map = mapped(Faulty::new(disk(8), [rule]), 8, options);
    store(&map, 2 * PAGE, 77);
    let error = map.sync().expect_err("the write fails");
    assert!(
        matches!(error, Error::Unwritten { pages: 1, .. }),
        "{error}"
    );
    let failures = map.take_failures();
    assert!(
        failures
            .iter()
            .all(|failure| failure.write && failure.error == MEDIUM)
    );
    assert_eq!((failures.len(), load(&map, 2 * PAGE)), (1, 77));
    map.close().expect("the device is well again");
}
