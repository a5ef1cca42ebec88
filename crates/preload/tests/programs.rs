//! Programs that nobody here wrote open a shared map as a file.
#![allow(clippy::panic)]

use block::{Buffer, Device, RamDisk};
use crash::{Fault, Faulty, Kind, On, Rule};
use map::{Options, Range, map};
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
    options: &Options,
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
    options: &Options,
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
    let options = Options {
        page_bytes: 16 << 10,
        resident_bytes: 64 << 10,
        ..Options::default()
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
    with_file(&data(5000), &Options::default(), |run| {
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
    let options = Options {
        resident_bytes: 32 << 12,
        ..Options::default()
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
    with_file(&data, &Options::default(), |run| {
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
    let rule = Rule::from(On::Kind(Kind::Read), 1, Fault::Fail(error)).within(40..48);
    let device = Faulty::new(disk, [rule]);
    let size = data.len() as u64;
    with_device(device, size, size, &Options::default(), |run| {
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
