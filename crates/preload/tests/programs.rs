// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that nobody here wrote open a shared map as a file.
#![allow(clippy::panic)]

use block::{Buffer, Device, RamDisk};
use crash::{CommandKind, Fault, Faulty, On, Rule};
use map::{PagerOptions, Range, map};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

#[path = "../../map/tests/permitted/mod.rs"]
mod permitted;

/// The name that no real file has.
const AT: &str = "/straightway/data";

/// The library, which cargo builds beside this program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("this program's path");
    program.with_file_name("libstraightway_preload.so")
}

/// Runs `body` with a way to start programs while `data` is shared.
fn with_file(
    data: &[u8],
    options: &PagerOptions,
    body: impl FnOnce(&(dyn Fn(&str, &[&str]) -> Output + Sync)) + Send,
) {
    let mut memory = data.to_vec();
    memory.resize(data.len().next_multiple_of(512), 0);
    let size_bytes = memory.len() as u64;
    let disk = RamDisk::<_, 8>::new(memory, 9).expect("a RAM disk");
    with_device(disk, size_bytes, data.len() as u64, options, body);
}

fn with_device<D: Device>(
    device: D,
    size_bytes: u64,
    file_bytes: u64,
    options: &PagerOptions,
    body: impl FnOnce(&(dyn Fn(&str, &[&str]) -> Output + Sync)) + Send,
) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let socket = std::env::temp_dir().join(format!(
        "straightway-preload-{}-{number}",
        std::process::id()
    ));
    let buffers = (0..4).map(|_| Buffer::from_static(vec![0; options.page_bytes].leak()));
    let range = Range { lba: 0, size_bytes };
    let (map, server) = map(device, range, options, buffers.collect()).expect("a map");
    let library = &library();
    thread::scope(|scope| {
        scope.spawn(|| {
            map.share(&socket, file_bytes).expect("a socket");
            body(&|program, arguments| start(library, &socket, program, arguments));
            drop(map);
        });
        server.run().expect("a clean end");
    });
}

fn start(library: &Path, socket: &Path, program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments);
    command.env("LD_PRELOAD", library);
    command.env("STRAIGHTWAY_MAP_SOCKET", socket);
    command.env("STRAIGHTWAY_MAP_AT", AT);
    command
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 4096) as u8).collect()
}

fn is_missing(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("SKIPPED: {program}: not installed");
    }
    !found
}

fn said(output: &Output) -> String {
    let (out, errors) = (&output.stdout, &output.stderr);
    format!(
        "{} {}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(errors)
    )
}

#[test]
fn coreutils_read_it_as_a_file() {
    let data = data(1_000_003);
    let options = PagerOptions {
        page_bytes: 16 << 10,
        resident_bytes: 64 << 10,
        ..PagerOptions::default()
    };
    with_file(&data, &options, |run| {
        for (program, arguments, expected) in [
            ("cat", &[AT][..], &data[..]),
            ("tail", &["-c", "5000", AT], &data[data.len() - 5000..]),
            ("head", &["-c", "70000", AT], &data[..70_000]),
            (
                "dd",
                &[
                    "if=/straightway/../straightway/./data",
                    "bs=3000",
                    "status=none",
                ],
                &data,
            ),
        ] {
            let output = run(program, arguments);
            assert!(output.status.success(), "{program}: {}", said(&output));
            assert!(output.stdout == expected, "{program} read something else");
        }
        // Streams of the C library: by name, and in parts.
        let sums = run("sha256sum", &[AT]);
        let local =
            std::env::temp_dir().join(format!("straightway-preload-{}", std::process::id()));
        std::fs::write(&local, &data).expect("a local copy");
        let expected = run("sha256sum", &[local.to_str().expect("UTF-8")]);
        assert!(
            sums.status.success() && sums.stdout.len() > 64,
            "{}",
            said(&sums)
        );
        assert_eq!(sums.stdout[..64], expected.stdout[..64]);
        let words = ["-An", "-tx1", "-v", "-j999000", AT];
        let dump = run("od", &words);
        let expected = run(
            "od",
            &[
                "-An",
                "-tx1",
                "-v",
                "-j999000",
                local.to_str().expect("UTF-8"),
            ],
        );
        assert!(
            dump.status.success() && dump.stdout.len() > 3000,
            "{}",
            said(&dump)
        );
        assert_eq!(dump.stdout, expected.stdout);
        std::fs::remove_file(&local).expect("it is there");
        let stat = run("stat", &["-c", "%s %A", AT]);
        assert_eq!(stat.stdout, b"1000003 -r--r--r--\n", "{}", said(&stat));
        // Who would store to it is refused, and other files are as they were.
        let refused = run(
            "dd",
            &["if=/dev/null", "of=/straightway/data", "conv=notrunc"],
        );
        assert!(!refused.status.success() && said(&refused).contains("Permission denied"));
        assert!(!run("cat", &["/straightway/other"]).status.success());
        assert!(run("test", &["-r", AT]).status.success());
        assert!(!run("test", &["-w", AT]).status.success());
    });
}

#[test]
fn a_program_that_the_kernel_refuses_userfaultfd_is_told_that_it_is_not_permitted() {
    with_file(&data(5000), &PagerOptions::default(), |run| {
        // The filter is that of a thread and of what it starts.
        let refused = thread::scope(|scope| {
            let refused = scope.spawn(|| {
                permitted::refuse(libc::EPERM).expect("a filter");
                run("cat", &[AT])
            });
            refused.join().expect("a thread")
        });
        assert!(!refused.status.success());
        assert!(
            said(&refused).contains("Operation not permitted"),
            "{}",
            said(&refused)
        );
        assert!(run("cat", &[AT]).stdout == data(5000));
    });
}

// partner: sqlite3 | reader
#[test]
fn sqlite_reads_a_database_through_its_own_mapping() {
    if is_missing("sqlite3") {
        return;
    }
    let file = std::env::temp_dir().join(format!("straightway-preload-{}.db", std::process::id()));
    let make = "PRAGMA page_size=4096; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)
        INSERT INTO t SELECT i, printf('row %d of many', i * 7919 % 20000) FROM n; CREATE INDEX x ON t(b);";
    let made = Command::new("sqlite3")
        .arg(&file)
        .arg(make)
        .output()
        .expect("sqlite3");
    assert!(made.status.success(), "{}", said(&made));
    let database = std::fs::read(&file).expect("the database");
    let query = "SELECT count(*), sum(a) FROM t WHERE b LIKE 'row 1%'; SELECT a FROM t WHERE b='row 5 of many'; PRAGMA integrity_check;";
    let expected = Command::new("sqlite3")
        .arg(&file)
        .arg(query)
        .output()
        .expect("sqlite3");
    let options = PagerOptions {
        resident_bytes: 32 << 12,
        ..PagerOptions::default()
    };
    with_file(&database, &options, |run| {
        for mmap in ["0", "100000000"] {
            let before = format!("PRAGMA mmap_size={mmap}; ");
            let output = run("sqlite3", &["-readonly", AT, &(before + query)]);
            let text = said(&output);
            assert!(output.status.success(), "{text}");
            // The first line is the size that the pragma set.
            let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
            assert_eq!(rows.trim(), said(&expected).trim(), "mmap_size={mmap}");
        }
        let refused = run("sqlite3", &[AT, "DELETE FROM t"]);
        assert!(!refused.status.success(), "{}", said(&refused));
    });
    std::fs::remove_file(file).expect("the database");
}

#[test]
fn python_maps_it() {
    if is_missing("python3") {
        return;
    }
    let data = data(300_000);
    let script = "
import mmap, os, sys
with open(sys.argv[1], 'rb') as f:
    assert f.seek(0, 2) == 300000
    f.seek(100001); part = f.read(5000)
    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    assert len(m) == 300000 and m[100001:105001] == part
    assert os.pread(f.fileno(), 10, 299995) == m[299995:]
    one = [bytearray(3), bytearray(4)]
    assert os.preadv(f.fileno(), one, 4094) == 7 and one[0] + one[1] == m[4094:4101]
    half = mmap.mmap(f.fileno(), 8192, access=mmap.ACCESS_READ, offset=65536)
    assert half[:] == m[65536:73728]
    sys.stdout.buffer.write(m[:])
    m.close(); half.close()
assert os.path.getsize(sys.argv[1]) == 300000 and os.access(sys.argv[1], os.R_OK)
";
    with_file(&data, &PagerOptions::default(), |run| {
        let output = run("python3", &["-c", script, AT]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stdout == data);
    });
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_and_the_others_are_read() {
    let data = data(8 * 4096);
    let disk = RamDisk::<_, 8>::new(data.clone(), 9).expect("a RAM disk");
    let error = block::Error::Nvme { status: 0x281 };
    let rule = Rule::from(On::Kind(CommandKind::Read), 1, Fault::Fail(error)).within(40..48);
    let device = Faulty::new(disk, [rule]);
    let size = data.len() as u64;
    with_device(device, size, size, &PagerOptions::default(), |run| {
        for _ in 0..2 {
            let output = run("cat", &[AT]);
            assert!(
                said(&output).contains("Input/output error"),
                "{}",
                said(&output)
            );
            assert!(output.stdout == data[..5 * 4096]);
            let rest = run("tail", &["-c", "8192", AT]);
            assert!(rest.status.success() && rest.stdout == data[6 * 4096..]);
        }
    });
}

/// Runs shell commands, which must succeed, and returns what they wrote.
fn shell(run: &dyn Fn(&str, &[&str]) -> Output, commands: &str) -> Vec<u8> {
    let output = run("bash", &["-ec", commands, "bash", AT]);
    assert!(output.status.success(), "{commands}: {}", said(&output));
    output.stdout
}

// partner: coreutils | reader
#[test]
fn a_copy_has_the_data_because_the_file_has_no_holes() {
    let data = data(1_000_003);
    let folder = std::env::temp_dir().join(format!("straightway-copy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let copy = folder.join("copy");
    let to = copy.to_str().expect("UTF-8");
    with_file(&data, &PagerOptions::default(), |run| {
        for (program, arguments) in [
            ("cp", &[AT, to][..]),
            ("cp", &["-a", AT, to]),
            ("cp", &["--sparse=never", AT, to]),
            ("install", &[AT, to]),
        ] {
            let _ = std::fs::remove_file(&copy);
            let output = run(program, arguments);
            let words = format!("{program} {arguments:?}: {}", said(&output));
            assert!(output.status.success(), "{words}");
            assert!(std::fs::read(&copy).expect("a copy") == data, "{words}");
        }
        let stat = run("stat", &["-c", "%b %s %h %a", AT]);
        assert_eq!(stat.stdout, b"1954 1000003 1 444\n", "{}", said(&stat));
        let script = "
import os, sys
for path in sys.argv[1], '/proc/self/fd/%d' % os.open(sys.argv[1], os.O_RDONLY):
    fd = os.open(path, os.O_RDONLY)
    for status in os.fstat(fd), os.stat(fd), os.stat(path):
        assert status.st_blocks == 1954 and status.st_size == 1000003, status
    assert os.lseek(fd, 5000, os.SEEK_DATA) == 5000 == os.lseek(fd, 0, os.SEEK_CUR)
    assert os.lseek(fd, 5000, os.SEEK_HOLE) == 1000003
    for where in os.SEEK_DATA, os.SEEK_HOLE:
        try: sys.exit('%d' % os.lseek(fd, 1000003, where))
        except OSError as error: assert error.errno == 6, error
";
        let output = run("python3", &["-c", script, AT]);
        assert!(output.status.success(), "{}", said(&output));
    });
    std::fs::remove_dir_all(&folder).expect("the folder");
}

// partner: bash, coreutils | reader
#[test]
fn a_descriptor_s_name_and_a_redirection_are_the_file() {
    let data = data(300_001);
    with_file(&data, &PagerOptions::default(), |run| {
        for commands in [
            r#"cat < "$1""#,
            r#"cat /dev/stdin < "$1""#,
            r#"exec 3< "$1"; cat /dev/fd/3"#,
            r#"exec 3< "$1"; cat /proc/self/fd/3"#,
            r#"exec 3< "$1"; cat /proc/$$/fd/3"#,
            r#"exec 3< "$1"; cd /proc/self/fd; cat ./3"#,
            r#"exec 3< "$1"; bash -c 'cat <&3'"#,
            r#"exec 3< "$1"; ln -s /dev/fd/3 /tmp/link-$$; cat /tmp/link-$$; rm /tmp/link-$$"#,
            // A stream of the C library on what it inherits, and a position that two programs
            // share.
            r#"{ head -c 1000; tail -c +1; } < "$1""#,
            r#"tee < "$1""#,
        ] {
            let out = shell(run, commands);
            assert!(out == data, "{commands}: {} bytes", out.len());
        }
        let expected = shell(run, r#"sha1sum "$1" | cut -c 1-40"#);
        for commands in [
            r#"sha1sum < "$1" | cut -c 1-40"#,
            r#"sha1sum /dev/stdin < "$1" | cut -c 1-40"#,
            r#"python3 -c 'import sys, hashlib; print(hashlib.sha1(sys.stdin.buffer.read()).hexdigest())' < "$1""#,
        ] {
            assert_eq!(shell(run, commands), expected, "{commands}");
        }
    });
}

// partner: Python, bash | reader
#[test]
fn a_child_of_a_program_that_has_read_the_file_reads_it_too() {
    let data = data(300_000);
    let script = "
import multiprocessing, os, sys
file = open(sys.argv[1], 'rb'); first = file.read(100000)
def part(at): return os.pread(file.fileno(), 50000, at) + open(sys.argv[1], 'rb').read(10)
with multiprocessing.get_context('fork').Pool(2) as pool:
    parts = pool.map_async(part, range(0, 300000, 50000)).get(60)
assert all(one[50000:] == first[:10] for one in parts)
sys.stdout.buffer.write(b''.join(one[:50000] for one in parts))
";
    with_file(&data, &PagerOptions::default(), |run| {
        let output = run("python3", &["-c", script, AT]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stdout == data);
        let lines = shell(
            run,
            r#"read -rn 5 x < "$1"; ( read -rn 5 y < "$1"; head -c 5 "$1" | wc -c; echo read ); echo alive"#,
        );
        assert_eq!(lines, b"5\nread\nalive\n");
    });
}

// partner: Linux | host kernel
#[test]
fn what_is_mapped_cannot_be_stored_to_or_removed() {
    let data = data(300_000);
    let script = "
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in 'mmap', 'mremap': getattr(libc, name).restype = ctypes.c_void_p
word = ctypes.c_size_t
def tried(path):
    fd = os.open(path, os.O_RDONLY)
    at = libc.mmap(None, word(300000), 1, 1, fd, word(0))
    results = []
    for call in (lambda: libc.mprotect(word(at), word(4096), 3), lambda: libc.mprotect(word(at), word(4096), 1),
                 lambda: libc.madvise(word(at), word(8192), 9), lambda: libc.madvise(word(at), word(8192), 0)):
        ctypes.set_errno(0); results.append((call(), ctypes.get_errno()))
    assert libc.mremap(word(at), word(300000), word(8192), 0) == at
    return results, ctypes.string_at(at, 8192)
ours, real = tried(sys.argv[1]), tried(sys.argv[2])
assert ours == real, (ours[0], real[0])
assert ours[0] == [(-1, 13), (0, 0), (-1, 13), (0, 0)], ours[0]
";
    let local = std::env::temp_dir().join(format!("straightway-real-{}", std::process::id()));
    std::fs::write(&local, &data).expect("a local copy");
    with_file(&data, &PagerOptions::default(), |run| {
        let output = run(
            "python3",
            &["-c", script, AT, local.to_str().expect("UTF-8")],
        );
        assert!(output.status.success(), "{}", said(&output));
    });
    std::fs::remove_file(local).expect("the copy");
}

// partner: tar, coreutils, Python | reader
#[test]
fn programs_find_it_by_the_calls_that_look_before_they_open() {
    let data = data(300_000);
    with_file(&data, &PagerOptions::default(), |run| {
        let tar = shell(run, r#"cd /; tar -cf - "${1#/}" | tar -xOf -"#);
        assert!(tar == data, "tar: {} bytes", tar.len());
        assert!(shell(run, r#"xz -0c "$1" | xz -dc"#) == data);
        assert_eq!(shell(run, r#"ls "$1""#), format!("{AT}\n").as_bytes());
        let script = "
import ctypes, os, shutil, sys, tempfile
path = sys.argv[1]
assert os.listxattr(path) == [] and os.path.realpath(path) == path
space = ctypes.create_string_buffer(4096)
assert ctypes.CDLL(None).realpath(path.encode(), space) and space.value == path.encode()
with tempfile.TemporaryDirectory() as folder:
    sys.stdout.buffer.write(open(shutil.copy2(path, folder), 'rb').read())
";
        let output = run("python3", &["-c", script, AT]);
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stdout == data);
    });
}
