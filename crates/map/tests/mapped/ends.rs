// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ends an access, a map or its process otherwise than well: a device that does not answer, a
//! fork, an exec, a kill, and more errors than the kernel has regions for.

use super::{
    MEDIUM, PAGE, blocks, buffers, disk, is_served, load, permitted, store, value, with_map,
};
use block::{Completion, Device, Geometry, Operation, RamDisk, Refused, Request};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use linux::{Claim, Roots, SyncFile};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use straightway_map::{Error, PageError, PagerOptions, Range, map, map_local};

/// A disk whose requests wait until they are let go.
struct Silent {
    disk: RamDisk<Vec<u8>, 8>,
    held: Vec<Request>,
    let_go: Arc<AtomicBool>,
}

impl Device for Silent {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        self.held.push(request);
        Ok(())
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        if self.let_go.load(Ordering::Relaxed) {
            for request in self.held.drain(..) {
                self.disk.submit(request).expect("a place in its queue");
            }
            self.disk.kick();
        }
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding() + self.held.len()
    }
}

#[test]
fn accesses_to_a_device_that_does_not_answer_end_at_their_deadline() {
    if permitted::is_missing(true) {
        return;
    }
    let let_go = Arc::new(AtomicBool::new(false));
    let device = Silent {
        disk: disk(16),
        held: Vec::new(),
        let_go: Arc::clone(&let_go),
    };
    let options = PagerOptions {
        read_deadline: Some(Duration::from_millis(20)),
        ..PagerOptions::default()
    };
    let ended = with_map(device, 16 * PAGE as u64, options, |map| {
        // More than there are buffers, so some do not even reach the device.
        let served: Vec<bool> = thread::scope(|scope| {
            let map = &map;
            let threads = (0..6).map(|page| scope.spawn(move || is_served(map, page)));
            let threads: Vec<_> = threads.collect();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|served| served.expect("a thread")).collect()
        });
        assert_eq!(served, [false; 6]);
        let failures = map.take_failures();
        assert_eq!(failures.len(), 6);
        let errno = libc::ETIMEDOUT;
        let is_late = |failure: &PageError| failure.error == block::Error::Os { errno };
        assert!(failures.iter().all(is_late), "{failures:?}");
        let_go.store(true, Ordering::Relaxed);
    });
    ended
        .map(drop)
        .expect("a clean end, once the device answers");
}

/// A call to a device that answers. On a busy machine it may take longer than its deadline: then it
/// is made again.
fn made(mut call: impl FnMut() -> Result<(), Error>) {
    let mut outcomes = (0..1000).map(|_| call());
    let outcome = outcomes.find(|outcome| !matches!(outcome, Err(Error::Late(_))));
    outcome
        .expect("not late each time")
        .expect("a device that is well");
}

#[test]
fn calls_to_a_device_that_does_not_answer_end_at_their_deadline() {
    if permitted::is_missing(false) {
        return;
    }
    let let_go = Arc::new(AtomicBool::new(true));
    let device = Silent {
        disk: disk(16),
        held: Vec::new(),
        let_go: Arc::clone(&let_go),
    };
    let options = PagerOptions {
        writable: true,
        call_deadline: Some(Duration::from_millis(30)),
        ..PagerOptions::default()
    };
    let is_late = |error: &Error| matches!(error, Error::Late(_));
    let ended = with_map(device, 16 * PAGE as u64, options, |map| {
        store(&map, 0, 77);
        store(&map, PAGE, 78);
        let_go.store(false, Ordering::Relaxed);
        let late = map.sync().expect_err("nothing is written");
        assert!(is_late(&late), "{late}");
        let late = map.pin(8 * PAGE as u64..9 * PAGE as u64);
        assert!(late.is_err_and(|error| is_late(&error)));
        // What was stored is kept, and a later sync has it.
        assert_eq!((load(&map, 0), load(&map, PAGE)), (77, 78));
        let_go.store(true, Ordering::Relaxed);
        made(|| map.sync());
        made(|| map.pin(8 * PAGE as u64..9 * PAGE as u64));
        store(&map, 2 * PAGE, 79);
        let_go.store(false, Ordering::Relaxed);
        // It answers no more, so the map's last sync is late, and its device is never released.
    });
    let late = ended.map(drop).expect_err("the last write is missing");
    assert!(is_late(&late), "{late}");
}

#[test]
fn a_callback_has_each_failure_before_its_access_ends() {
    if permitted::is_missing(true) {
        return;
    }
    let rule = Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(MEDIUM)).within(blocks(3));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let device = Faulty::new(disk(8), [rule]);
    let ended = with_map(device, 8 * PAGE as u64, PagerOptions::default(), |map| {
        let call = move |failure| kept.lock().expect("a list").push(failure);
        map.on_failure(call).expect("the first");
        assert!(is_served(&map, 2) && !is_served(&map, 3));
        let found = seen.lock().expect("a list").clone();
        assert_eq!(found, map.take_failures());
        assert_eq!(found.len(), 1);
        let second = map.on_failure(drop);
        assert!(matches!(second, Err(Error::Options(_))), "{second:?}");
    });
    ended.expect("a clean end");
}

#[test]
fn a_child_has_no_map_and_its_parent_keeps_it() {
    if permitted::is_missing(false) {
        return;
    }
    let ended = with_map(disk(8), 8 * PAGE as u64, PagerOptions::default(), |map| {
        assert_eq!(load(&map, PAGE), value(1));
        for page in [1, 2] {
            let byte = map.as_ptr().as_ptr().wrapping_add(page * PAGE);
            // SAFETY: the child accesses memory and ends; it does nothing that needs another
            // thread.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                    byte.read_volatile();
                    libc::_exit(0);
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                status
            };
            assert!(libc::WIFSIGNALED(status), "{status:#x}");
            assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
        }
        assert_eq!(
            (load(&map, PAGE), load(&map, 2 * PAGE)),
            (value(1), value(2))
        );
    });
    ended.expect("a clean end");
}

#[test]
fn a_program_that_is_started_has_none_of_the_files_of_a_map() {
    if permitted::is_missing(false) {
        return;
    }
    let ended = with_map(disk(8), 8 * PAGE as u64, PagerOptions::default(), |map| {
        let listed = Command::new("ls").args(["-l", "/proc/self/fd"]).output();
        let listed = String::from_utf8(listed.expect("ls").stdout).expect("text");
        assert!(listed.contains("pipe:"), "{listed}");
        for file in ["straightway-map", "userfaultfd", "eventfd"] {
            assert!(!listed.contains(file), "{listed}");
        }
        assert_eq!(load(&map, PAGE), value(1));
    });
    ended.expect("a clean end");
}

/// What the process of a test below does.
const CHILD: &str = "STRAIGHTWAY_MAP_ENDS";

fn child(test: &str, argument: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", &format!("ends::{test}"), "--nocapture"]);
    let command = command.env(CHILD, argument).stdout(Stdio::piped());
    command.spawn().expect("it starts")
}

#[test]
fn what_a_killed_process_had_synced_is_there() {
    if let Ok(path) = std::env::var(CHILD) {
        return store_until_killed(&path);
    }
    if permitted::is_missing(false) {
        return;
    }
    let path = std::env::temp_dir().join(format!("straightway-map-{}.img", std::process::id()));
    std::fs::write(&path, vec![1; 16 * PAGE]).expect("a file");
    let mut process = child(
        "what_a_killed_process_had_synced_is_there",
        &path.to_string_lossy(),
    );
    let output = BufReader::new(process.stdout.take().expect("its output"));
    let has_synced = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("synced"));
    process.kill().expect("it runs");
    let status = process.wait().expect("its end");
    let content = std::fs::read(&path).expect("the file");
    std::fs::remove_file(&path).expect("the file");
    assert!(has_synced, "{status}");
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    for page in 0..8 {
        assert_eq!(content[page * PAGE], 100 + page as u8, "page {page}");
    }
    assert!(
        content[8 * PAGE..]
            .iter()
            .all(|&byte| byte == 1 || byte == 2)
    );
}

fn store_until_killed(path: &str) {
    let claim = Claim::to_write(&Roots::system(), path.as_ref()).expect("the file");
    let device = SyncFile::open(&claim).expect("the file");
    let options = PagerOptions {
        writable: true,
        ..PagerOptions::default()
    };
    let ended = with_map(device, 16 * PAGE as u64, options, |map| {
        for page in 0..8 {
            store(&map, page * PAGE, 100 + page as u8);
        }
        map.sync().expect("a sync");
        for page in 8..16 {
            store(&map, page * PAGE, 2);
        }
        println!("synced");
        std::io::stdout().flush().expect("a pipe");
        loop {
            thread::park();
        }
    });
    unreachable!("{:?}", ended.map(drop));
}

/// A device that reads nothing.
struct Refusing(Geometry);

impl Device for Refusing {
    fn geometry(&self) -> &Geometry {
        &self.0
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        Err(Refused {
            error: MEDIUM,
            request,
        })
    }

    fn kick(&mut self) {}

    fn poll(&mut self) -> Option<Completion> {
        None
    }

    fn outstanding(&self) -> usize {
        0
    }
}

#[test]
fn more_errors_than_the_kernel_has_regions_for_end_the_map_and_each_access() {
    if std::env::var(CHILD).is_ok() {
        return exhaust_regions();
    }
    if permitted::is_missing(true) {
        return;
    }
    // In a process of its own: others could map nothing amid it.
    let process = child(
        "more_errors_than_the_kernel_has_regions_for_end_the_map_and_each_access",
        "",
    );
    let output = process.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("after"), "{said}");
}

fn exhaust_regions() {
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("a limit");
    let limit: usize = limit.trim().parse().expect("a number");
    // Each second page is an error, which takes a region for it and one for the page between.
    let pages = limit.min(1 << 20) + 1000;
    let mut geometry = *disk(1).geometry();
    geometry.block_count = (pages * PAGE / 512) as u64;
    let range = Range {
        lba: 0,
        size_bytes: (pages * PAGE) as u64,
    };
    let device = Refusing(geometry);
    let (map, server) =
        map(device, range, &PagerOptions::default(), buffers(1, PAGE)).expect("a map");
    let path = std::env::temp_dir().join(format!("straightway-map-ends-{}", std::process::id()));
    let file = std::fs::File::create(&path).expect("a file");
    std::fs::remove_file(&path).expect("the file");
    thread::scope(|scope| {
        let user = scope.spawn(|| {
            let mut failed = 0;
            for page in (0..pages).step_by(2) {
                let start = map.as_ptr().as_ptr().wrapping_add(page * PAGE);
                // SAFETY: inside the map; only the kernel reads the byte.
                let byte = unsafe { std::slice::from_raw_parts(start, 1) };
                let error = file.write_at(byte, 0).expect_err("an error of the device");
                assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
                failed += 1;
            }
            failed
        });
        let ended = server.run().map(drop);
        let failed = user.join().expect("the test's own thread");
        println!(
            "{failed} errors; ended {ended:?} after {} failures",
            map.counters().failures
        );
        assert!(matches!(ended, Err(Error::System { .. })), "{ended:?}");
    });
}

#[test]
fn a_kernel_that_refuses_userfaultfd_is_an_error_that_says_what_to_do() {
    const TEST: &str = "a_kernel_that_refuses_userfaultfd_is_an_error_that_says_what_to_do";
    let Ok(errno) = std::env::var(CHILD) else {
        for (errno, expected) in [
            (libc::ENOSYS, "CONFIG_USERFAULTFD"),
            (libc::EPERM, "run it as root"),
        ] {
            let child = child(TEST, &errno.to_string());
            let output = child.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}");
            assert_eq!(said.matches(expected).count(), 2, "{said}");
            assert_eq!(said.matches("seccomp profile").count(), 2, "{said}");
        }
        return;
    };
    let errno = errno.parse().expect("a number");
    permitted::refuse(errno).expect("a filter");
    let files = || std::fs::read_dir("/proc/self/fd").expect("files").count();
    let maps = || std::fs::read_to_string("/proc/self/maps").expect("maps");
    let before = files();
    let range = Range {
        lba: 0,
        size_bytes: 8 * PAGE as u64,
    };
    let refused = [
        map(disk(8), range, &PagerOptions::default(), buffers(2, PAGE)).map(drop),
        map_local(disk(8), range, &PagerOptions::default(), buffers(2, PAGE)).map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("refused");
        assert!(
            matches!(&error, Error::NotPermitted(refusal) if refusal.raw_os_error() == Some(errno))
        );
        println!("{error}");
    }
    // Nothing is left of either.
    assert_eq!(files(), before);
    assert!(!maps().contains("straightway-map"));
}

/// A disk after whose read of a block the kernel has no more memory for the thread that serves it.
struct LastMemory {
    disk: RamDisk<Vec<u8>, 8>,
    lba: u64,
}

impl Device for LastMemory {
    fn geometry(&self) -> &Geometry {
        self.disk.geometry()
    }

    fn submit(&mut self, request: Request) -> Result<(), Refused> {
        if matches!(request.operation, Operation::Read { lba, .. } if lba == self.lba) {
            permitted::refuse_memory().expect("a filter");
        }
        self.disk.submit(request)
    }

    fn kick(&mut self) {
        self.disk.kick();
    }

    fn poll(&mut self) -> Option<Completion> {
        self.disk.poll()
    }

    fn outstanding(&self) -> usize {
        self.disk.outstanding()
    }
}

#[test]
fn memory_that_the_kernel_refuses_is_an_error_of_that_page_and_of_no_other() {
    if permitted::is_missing(true) {
        return;
    }
    let device = LastMemory {
        disk: disk(8),
        lba: blocks(5).start,
    };
    let options = PagerOptions {
        writable: true,
        ..PagerOptions::default()
    };
    let ended = with_map(device, 8 * PAGE as u64, options, |map| {
        for page in 0..4 {
            assert_eq!(load(&map, page * PAGE), value(page));
        }
        store(&map, PAGE, 77);
        assert!(!is_served(&map, 5) && !is_served(&map, 6));
        let failures = map.take_failures();
        let is_memory = |failure: &PageError| {
            let errno = libc::ENOMEM;
            !failure.write && failure.error == block::Error::Os { errno }
        };
        assert!(failures.iter().all(is_memory), "{failures:?}");
        let offsets: Vec<u64> = failures
            .iter()
            .map(|failure| failure.offset_bytes)
            .collect();
        assert_eq!(offsets, [5 * PAGE as u64, 6 * PAGE as u64]);
        // What is in memory is served and written.
        assert_eq!((load(&map, PAGE), load(&map, 3 * PAGE)), (77, value(3)));
        map.sync().expect("a sync");
    });
    let mut disk = ended.expect("a clean end").disk;
    let buffer = buffers(1, PAGE).remove(0);
    let read = block::blocking::read(&mut disk, blocks(1).start, buffer);
    assert_eq!((read.result, read.buffer[0]), (Ok(()), 77));
}
