// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One map in several processes. Here each is a mapping of this process, which the kernel and the
//! server cannot tell from another's; tests in the lab have real ones.

use super::{PAGE, blocks, can_be_written_from, disk, load, permitted, value, with_map};
use block::RamDisk;
use crash::{CommandKind, Fault, Faulty, On, Rule};
use rustix::fd::AsFd;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use straightway_map::{Attached, Error, Map, PagerOptions, attach, attach_before};

/// A path for a socket that no other test has.
fn socket_path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("straightway-map-{}-{number}", std::process::id()))
}

fn shared(map: &Map) -> PathBuf {
    let path = socket_path();
    map.share(&path, map.size_bytes()).expect("a socket");
    path
}

fn byte(view: &Attached, at: usize) -> u8 {
    assert!((at as u64) < view.size_bytes());
    // SAFETY: inside the view, which nobody stores to.
    unsafe { view.as_ptr().add(at).read_volatile() }
}

fn is_served(view: &Attached, page: usize) -> bool {
    can_be_written_from(view.as_ptr(), page)
}

#[test]
fn all_see_the_device_and_a_page_is_read_once_for_all() {
    if permitted::is_missing(false) {
        return;
    }
    let pages = 32;
    let mut socket = None;
    let ended = with_map(
        disk(pages),
        (pages * PAGE) as u64,
        PagerOptions::default(),
        |map| {
            let path = shared(&map);
            let views: Vec<_> = (0..3).map(|_| attach(&path).expect("a view")).collect();
            thread::scope(|scope| {
                for view in &views {
                    scope.spawn(move || {
                        for page in 0..pages {
                            assert_eq!(byte(view, page * PAGE + 9), value(page));
                        }
                    });
                }
            });
            assert_eq!(load(&map, PAGE), value(1));
            assert_eq!(map.counters().reads, pages as u64);
            assert!(path.exists());
            socket = Some(path);
        },
    );
    ended.expect("a clean end");
    assert!(!socket.expect("the path").exists());
}

#[test]
fn addresses_behind_the_map_are_errors() {
    if permitted::is_missing(true) {
        return;
    }
    let ended = with_map(disk(3), 3 * PAGE as u64, PagerOptions::default(), |map| {
        let path = shared(&map);
        let view = attach_before(1 << 30, &path).expect("a view");
        assert_eq!(view.tail_bytes(), 1 << 30);
        assert!(is_served(&view, 2) && !is_served(&view, 3) && !is_served(&view, 1 << 17));
    });
    ended.expect("a clean end");
}

#[test]
fn memory_that_is_taken_is_gone_from_all_and_read_again() {
    if permitted::is_missing(false) {
        return;
    }
    let pages = 64;
    let options = PagerOptions {
        resident_bytes: 5 * PAGE,
        ..PagerOptions::default()
    };
    let ended = with_map(disk(pages), (pages * PAGE) as u64, options, |map| {
        let path = shared(&map);
        let views: Vec<_> = (0..2).map(|_| attach(&path).expect("a view")).collect();
        thread::scope(|scope| {
            for (number, view) in views.iter().enumerate() {
                let map = &map;
                scope.spawn(move || {
                    for round in 0..3 {
                        for page in 0..pages {
                            let page = if number == 0 { page } else { pages - 1 - page };
                            assert_eq!(byte(view, page * PAGE + round), value(page));
                            let resident = map.resident_bytes().expect("a count");
                            assert!(resident <= options.resident_bytes as u64);
                        }
                    }
                });
            }
        });
        assert!(map.counters().evictions > 0);
    });
    ended.expect("a clean end");
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_for_all_with_its_reason() {
    if permitted::is_missing(true) {
        return;
    }
    let rule =
        Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(super::MEDIUM)).within(blocks(3));
    let device = Faulty::new(disk(8), [rule]);
    let ended = with_map(device, 8 * PAGE as u64, PagerOptions::default(), |map| {
        let path = shared(&map);
        let (first, second) = (
            attach(&path).expect("a view"),
            attach(&path).expect("a view"),
        );
        for view in [&first, &second] {
            assert!(is_served(view, 2) && !is_served(view, 3) && is_served(view, 4));
        }
        // One that comes later is told at once.
        let late = attach(&path).expect("a view");
        assert!(is_served(&late, 2) && !is_served(&late, 3));
        for view in [first, second, late] {
            let found = view.unreadable();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].offset_bytes, 3 * PAGE as u64);
            assert!(found[0].reason.contains("2/81"), "{found:?}");
        }
        // The device was asked once.
        assert_eq!(map.take_failures().len(), 1);
    });
    ended.expect("a clean end");
}

#[test]
fn without_the_server_every_access_is_an_error() {
    if permitted::is_missing(true) {
        return;
    }
    let mut kept = None;
    let ended = with_map(disk(8), 8 * PAGE as u64, PagerOptions::default(), |map| {
        let view = attach(&shared(&map)).expect("a view");
        assert_eq!(byte(&view, 0), value(0));
        kept = Some(view);
    });
    ended.expect("a clean end");
    let view = kept.expect("the view");
    // The thread that listens learns of the end after the server.
    let limit = Instant::now() + Duration::from_secs(60);
    while is_served(&view, 0) {
        assert!(Instant::now() < limit, "the page stays");
        thread::yield_now();
    }
    assert!(!is_served(&view, 5));
}

#[test]
fn who_leaves_or_breaks_the_rules_disturbs_nobody() {
    if permitted::is_missing(false) {
        return;
    }
    let ended = with_map(disk(64), 64 * PAGE as u64, PagerOptions::default(), |map| {
        let path = shared(&map);
        let view = attach(&path).expect("a view");
        for kind in 0..4 {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let socket = socket.expect("a socket");
            let address = SocketAddrUnix::new(&path).expect("a short path");
            connect(&socket, &address).expect("a connection");
            let mut hello = [0; 64];
            let (len, _) =
                recv(&socket, &mut hello[..], rustix::net::RecvFlags::empty()).expect("a greeting");
            assert!(hello[..len].starts_with(b"sw-map-1"));
            match kind {
                // It says nothing, too little, an address without a file, or leaves.
                0 => std::mem::forget(socket),
                1 => drop(send(&socket, b"x", rustix::net::SendFlags::empty())),
                2 => drop(send(
                    socket.as_fd(),
                    &[0; 8],
                    rustix::net::SendFlags::empty(),
                )),
                _ => drop(socket),
            }
            assert_eq!(byte(&view, kind * PAGE), value(kind));
        }
        let other = attach(&path).expect("a view");
        drop(view);
        for page in 0..64 {
            assert_eq!(byte(&other, page * PAGE), value(page));
        }
    });
    ended.expect("a clean end");
}

#[test]
fn servers_have_sockets_of_their_own_and_replace_those_of_killed_ones() {
    if permitted::is_missing(false) {
        return;
    }
    let (left, file) = (socket_path(), socket_path());
    // Its server does not remove it.
    drop(UnixListener::bind(&left).expect("a socket"));
    std::fs::write(&file, "data").expect("a file");
    assert!(matches!(attach(&left), Err(Error::NoServer(_))));
    let ended = with_map(disk(8), 8 * PAGE as u64, PagerOptions::default(), |first| {
        first.share(&left, 5).expect("a socket");
        let ended = with_map(
            disk(4),
            4 * PAGE as u64,
            PagerOptions::default(),
            |second| {
                for path in [&left, &file] {
                    let refused = second.share(path, 6).expect_err("it exists");
                    assert!(matches!(refused, Error::Exists(_)), "{refused}");
                }
                let other = shared(&second);
                let sizes = [&left, &other].map(|path| attach(path).expect("a view").size_bytes());
                assert_eq!(sizes, [5, 4 * PAGE as u64]);
            },
        );
        ended.expect("a clean end");
        assert_eq!(attach(&left).expect("a view").size_bytes(), 5);
    });
    ended.expect("a clean end");
    assert_eq!(std::fs::read(&file).expect("the file"), b"data");
    std::fs::remove_file(file).expect("the file");
    assert!(!left.exists());
}

#[test]
fn what_cannot_be_shared_is_refused() {
    if permitted::is_missing(false) {
        return;
    }
    let path = socket_path();
    assert!(matches!(attach(&path), Err(Error::NoServer(_))));
    let ended = with_map(disk(8), 8 * PAGE as u64, PagerOptions::default(), |map| {
        let longer = map.share(&path, map.size_bytes() + 1);
        assert!(matches!(longer, Err(Error::Options(_))), "{longer:?}");
        map.share(&path, 5).expect("a socket");
        let again = map.share(&path, 5);
        assert!(matches!(again, Err(Error::Exists(_))), "{again:?}");
        assert_eq!(attach(&path).expect("a view").size_bytes(), 5);
    });
    ended.expect("a clean end");
    let writable = PagerOptions {
        writable: true,
        ..PagerOptions::default()
    };
    if cfg!(target_arch = "x86_64") {
        let device: RamDisk<Vec<u8>, 8> = disk(8);
        let ended = with_map(device, 8 * PAGE as u64, writable, |map| {
            let shared = map.share(&path, 5);
            assert!(matches!(shared, Err(Error::Options(_))), "{shared:?}");
        });
        ended.expect("a clean end");
    }
}

// partner: Linux | host kernel
#[test]
fn memory_that_another_process_removes_is_read_again_for_all() {
    if permitted::is_missing(false) {
        return;
    }
    let ended = with_map(disk(8), 8 * PAGE as u64, PagerOptions::default(), |map| {
        let path = shared(&map);
        let (one, other) = (
            attach(&path).expect("a view"),
            attach(&path).expect("a view"),
        );
        for round in 0..3 {
            for page in 0..8 {
                assert_eq!(byte(&one, page * PAGE), value(page), "round {round}");
                assert_eq!(byte(&other, page * PAGE), value(page), "round {round}");
                assert_eq!(load(&map, page * PAGE), value(page), "round {round}");
            }
            crate::advice::remove(one.as_ptr(), one.size_bytes(), 0..3);
        }
    });
    ended.expect("a clean end");
}
