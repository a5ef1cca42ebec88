// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a volume as a folder: ordinary programs read and write them.

use crate::support::{Folder, code, command, json, noise, run, stderr, stdout};
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A mount, which ends with the test.
struct Mounted {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
    folder: String,
}

impl Mounted {
    /// Waits until the folder is there; none if this machine cannot mount.
    fn new(device: &str, folder: &str) -> Option<(Self, Vec<String>)> {
        Self::can()?;
        Some(Self::of(&mut command(&["mount", device, folder]), folder))
    }

    /// The same, to write.
    fn to_write(device: &str, folder: &str) -> Option<Self> {
        Self::to_write_every("1s", device, folder)
    }

    /// The same, with this interval of commits.
    fn to_write_every(interval: &str, device: &str, folder: &str) -> Option<Self> {
        Self::can()?;
        let words = ["mount", device, folder, "--write", "--commit-interval"];
        let mut command = command(&[&words[..], &[interval]].concat());
        Some(Self::of(&mut command, folder).0)
    }

    /// Nothing if this machine cannot mount.
    fn can() -> Option<()> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::getuid().is_root() {
            println!("SKIPPED: FUSE needs /dev/fuse and root here: modprobe fuse");
            return None;
        }
        Some(())
    }

    /// Runs a command that mounts.
    fn of(command: &mut Command, folder: &str) -> (Self, Vec<String>) {
        fs::create_dir_all(folder).unwrap();
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "{lines:?}");
            let is_last = line.contains("file at /") || line.contains("files at /");
            lines.push(line);
            if is_last {
                break;
            }
        }
        let folder = folder.to_owned();
        let mounted = Self {
            child,
            said,
            folder,
        };
        (mounted, lines)
    }

    /// Ends it by `command`, or by a signal; what it said at the end.
    fn end(mut self, command: Option<&str>) -> String {
        match command {
            Some(command) => {
                // Between fork and exec, a child of another test has what this one had open.
                let is_done = || {
                    let done = Command::new(command).arg(&self.folder).status().unwrap();
                    done.success() || {
                        std::thread::sleep(std::time::Duration::from_millis(50));
                        false
                    }
                };
                assert!((0..100).any(|_| is_done()), "{command}");
            }
            None => self.signal(rustix::process::Signal::INT),
        }
        assert!(self.child.wait().unwrap().success());
        assert_eq!(fs::read_dir(&self.folder).unwrap().count(), 0);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Mounted {
    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Kills it; what it had in memory is lost.
    fn kill(mut self) {
        self.child.kill().unwrap();
        assert!(!self.child.wait().unwrap().success());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount")
            .arg("-l")
            .arg(&self.folder)
            .stderr(Stdio::null())
            .status();
    }
}

/// A volume with the files of a folder, some of them with odd lengths.
fn volume(folder: &Folder, options: &[&str]) -> (String, String) {
    let (disk, source) = (folder.path("disk"), folder.path("src"));
    fs::create_dir_all(Path::new(&source).join("deep/er")).unwrap();
    for (name, len) in [
        ("big", 5_000_001),
        ("deep/odd", 65_537),
        ("deep/er/empty", 0),
        ("small", 3),
    ] {
        fs::write(Path::new(&source).join(name), noise(len as u64, len)).unwrap();
    }
    let format = [&["--quiet", "format", &disk, "--size", "32M"], options].concat();
    assert_eq!(code(&format), 0);
    assert_eq!(code(&["--quiet", "put", &disk, &source]), 0);
    (disk, source)
}

#[test]
fn ordinary_programs_read_the_files() {
    let folder = Folder::new();
    for options in [&["--force"][..], &["--force", "--checksums"]] {
        let (disk, source) = volume(&folder, options);
        for (by, ended) in [("diff", None), ("tar", Some("umount"))] {
            let Some((mounted, said)) = Mounted::new(&disk, &folder.path("at")) else {
                return;
            };
            assert!(said.last().unwrap().contains("4 files at "), "{said:?}");
            let at = folder.path("at");
            let words = match by {
                "diff" => vec!["-r".to_owned(), format!("{at}/src"), source.clone()],
                _ => ["-C", &at, "-df", &folder.path("tar"), "src"]
                    .map(str::to_owned)
                    .to_vec(),
            };
            if by == "tar" {
                let words = ["-C", &at, "-cf", &folder.path("tar"), "src"];
                let made = Command::new("tar").args(words).status().unwrap();
                assert!(made.success());
            }
            let done = Command::new(by).args(&words).output().unwrap();
            assert!(done.status.success(), "{done:?}");
            // Anywhere in a file, in two of them at once.
            let mut big = fs::File::open(format!("{at}/src/big")).unwrap();
            let mut again = fs::File::open(format!("{at}/src/big")).unwrap();
            let whole = noise(5_000_001, 5_000_001);
            for place in [4_999_999, 1, 65_535, 3_000_000] {
                let mut piece = [0; 4097];
                for file in [&mut big, &mut again] {
                    file.seek(SeekFrom::Start(place)).unwrap();
                    let len = file.read(&mut piece).unwrap();
                    assert!(len > 0 && whole[place as usize..].starts_with(&piece[..len]));
                }
            }
            drop((big, again));
            // Nothing can be changed.
            let refused = fs::write(format!("{at}/new"), "x").unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(30), "EROFS");
            assert!(fs::remove_file(format!("{at}/src/small")).is_err());
            // No one else writes to the volume during the mount.
            assert_ne!(code(&["--quiet", "rm", &disk, "src/small"]), 0);
            assert_eq!(mounted.end(ended), "");
        }
        assert_eq!(code(&["--quiet", "check", &disk, "--read-data"]), 0);
    }
}

#[test]
fn what_differs_from_its_checksum_is_an_error_of_the_read() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &["--checksums"]);
    let mut bytes = fs::read(&disk).unwrap();
    let data = noise(5_000_001, 5_000_001);
    let at = bytes
        .windows(64)
        .position(|window| window == &data[1_000_000..1_000_064])
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&disk, bytes).unwrap();
    let Some((mounted, _)) = Mounted::new(&disk, &folder.path("at")) else {
        return;
    };
    let refused = fs::read(folder.path("at/src/big")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(5), "EIO");
    assert_eq!(
        fs::read(folder.path("at/src/deep/odd")).unwrap(),
        noise(65_537, 65_537)
    );
    mounted.end(None);
}

#[test]
fn names_that_cannot_be_shown_are_named() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    for name in ["src", "a//b", ".."] {
        assert_eq!(
            code(&[
                "--quiet",
                "put",
                &disk,
                &folder.path("src/small"),
                "--name",
                name
            ]),
            0
        );
    }
    let Some((mounted, said)) = Mounted::new(&disk, &folder.path("at")) else {
        return;
    };
    for name in ["`src`", "`a//b`", "`..`"] {
        assert!(said.iter().any(|line| line.contains(name)), "{said:?}");
    }
    assert_eq!(fs::read_dir(folder.path("at")).unwrap().count(), 1);
    mounted.end(None);
}

#[test]
fn a_wrong_folder_or_device_is_refused() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let (none, file) = (folder.path("none"), folder.file("file", 10));
    for (words, says) in [
        (["mount", &disk, &none], "none"),
        (["mount", &disk, &file], "not a folder"),
        (["mount", &file, &folder.path("src")], "file"),
    ] {
        let output = run(&words);
        assert_ne!(output.status.code(), Some(0));
        assert!(
            stderr(&output).contains(says),
            "{words:?}: {}",
            stderr(&output)
        );
    }
}

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

#[test]
fn what_is_written_in_the_folder_is_on_the_volume() {
    let folder = Folder::new();
    for options in [&["--force"][..], &["--force", "--checksums"]] {
        let (disk, source) = volume(&folder, options);
        let at = folder.path("at");
        let Some(mounted) = Mounted::to_write(&disk, &at) else {
            return;
        };
        let path = |name: &str| format!("{at}/{name}");
        // Files of every length, in folders that are made for them.
        fs::create_dir_all(path("new/deep")).unwrap();
        for (index, len) in [0, 1, 4096, 65_537, 1 << 20, 3_000_001]
            .into_iter()
            .enumerate()
        {
            let name = path(&format!("new/deep/{index}"));
            fs::write(&name, noise(len as u64, len)).unwrap();
            assert_eq!(fs::read(&name).unwrap(), noise(len as u64, len));
        }
        // Appended to, replaced, renamed, removed.
        let mut log = fs::File::options()
            .append(true)
            .open(path("src/small"))
            .unwrap();
        for index in 0..100 {
            writeln!(log, "line {index}").unwrap();
        }
        log.sync_all().unwrap();
        fs::write(path("src/deep/odd"), "replaced").unwrap();
        fs::rename(path("src/deep/odd"), path("src/big")).unwrap();
        fs::remove_file(path("src/deep/er/empty")).unwrap();
        // What a volume cannot do.
        let written = fs::File::options()
            .write(true)
            .open(path("new/deep/5"))
            .unwrap();
        assert_eq!(errno(written.write_at(b"x", 0)), 95, "EOPNOTSUPP");
        assert_eq!(errno(written.set_len(10)), 95, "EOPNOTSUPP");
        assert_eq!(
            errno(std::os::unix::fs::symlink("a", path("b"))),
            1,
            "EPERM"
        );
        assert_eq!(errno(fs::hard_link(path("src/big"), path("b"))), 1, "EPERM");
        assert_eq!(errno(fs::rename(path("new"), path("other"))), 18, "EXDEV");
        assert_eq!(
            errno(fs::write(path(&"n".repeat(256)), "")),
            36,
            "ENAMETOOLONG"
        );
        // No one else writes to the volume, or reads it, during the mount.
        let again = run(&["mount", &disk, &folder.path("src"), "--write"]);
        assert_eq!(again.status.code(), Some(3), "{}", stderr(&again));
        assert_ne!(
            code(&["--quiet", "put", &disk, &folder.path("src/small")]),
            0
        );
        drop((log, written));
        assert_eq!(mounted.end(Some("umount")), "");
        let checked = run(&["check", &disk, "--read-data"]);
        assert!(stdout(&checked).contains("0 harmless findings"));
        let listed = stdout(&run(&["ls", &disk, "--json"]));
        assert!(
            !listed.contains("empty") && !listed.contains("odd"),
            "{listed}"
        );
        assert_eq!(
            code(&[
                "--quiet",
                "get",
                &disk,
                "new/deep/5",
                &folder.path("five"),
                "--force"
            ]),
            0
        );
        assert_eq!(
            fs::read(folder.path("five")).unwrap(),
            noise(3_000_001, 3_000_001)
        );
        let lines = run(&["cat", &disk, "src/small"]).stdout;
        let lines = String::from_utf8_lossy(&lines);
        assert!(lines.ends_with("line 98\nline 99\n"), "{lines}");
        assert_eq!(stdout(&run(&["cat", &disk, "src/big"])), "replaced");
        drop(fs::remove_dir_all(source));
    }
}

#[test]
fn a_killed_mount_keeps_what_was_synced_and_what_was_closed() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &["--checksums"]);
    let at = folder.path("at");
    let Some(mounted) = Mounted::to_write(&disk, &at) else {
        return;
    };
    let data = noise(5, 4_000_003);
    let mut synced = fs::File::create(format!("{at}/synced")).unwrap();
    synced.write_all(&data[..2_500_001]).unwrap();
    synced.sync_data().unwrap();
    synced.write_all(&data[2_500_001..]).unwrap();
    fs::write(format!("{at}/closed"), &data).unwrap();
    mounted.kill();
    drop(synced);
    assert_eq!(code(&["--quiet", "check", &disk, "--read-data"]), 0);
    for (name, least) in [("synced", 2_500_001), ("closed", data.len())] {
        let copy = folder.path(name);
        assert_eq!(code(&["--quiet", "get", &disk, name, &copy]), 0);
        let copied = fs::read(copy).unwrap();
        assert!(
            copied.len() >= least && data.starts_with(&copied),
            "{name}: {}",
            copied.len()
        );
    }
    // The next one that writes frees what the killed one had reserved.
    let file = folder.file("after", 3000);
    assert_eq!(code(&["--quiet", "put", &disk, &file]), 0);
    let checked = run(&["check", &disk, "--read-data"]);
    assert!(stdout(&checked).contains("0 harmless findings"));
}

#[test]
fn what_is_written_is_durable_after_a_while_without_a_sync() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let at = folder.path("at");
    let Some(mounted) = Mounted::to_write(&disk, &at) else {
        return;
    };
    let mut file = fs::File::create(format!("{at}/open")).unwrap();
    file.write_all(&noise(5, 10_001)).unwrap();
    // A copy of the volume as it is now, until the file's bytes are in it.
    let copy = folder.path("copy");
    loop {
        fs::copy(&disk, &copy).unwrap();
        let listed = stdout(&run(&["ls", "-l", &copy]));
        if listed
            .lines()
            .any(|line| line.contains(" 10001 ") && line.ends_with(" open"))
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(file);
    mounted.end(Some("umount"));
}

/// Runs a Python program in the folder.
fn python(at: &str, program: &str) {
    let done = Command::new("python3")
        .args(["-c", program])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
}

// partner: Linux | host kernel
#[test]
fn a_shared_writable_mapping_is_refused_and_readers_see_what_is_appended() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let at = folder.path("at");
    let Some(mounted) = Mounted::to_write(&disk, &at) else {
        return;
    };
    python(
        &at,
        "
import errno, mmap, os
fd = os.open('store', os.O_RDWR | os.O_CREAT); os.write(fd, b'A' * 5000)
for again in range(2):
    for prot in mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ:
        try: mmap.mmap(fd, 4096, mmap.MAP_SHARED, prot)
        except OSError as error: assert error.errno == errno.ENODEV, error
        else: raise SystemExit('it was mapped')
    private = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    private[:5] = b'STORE'
    assert os.pread(fd, 5, 0) == b'AAAAA'
    os.close(fd); fd = os.open('store', os.O_RDWR)
# What readers have in the page cache, and in a mapping, is what was appended past it.
reader = os.open('store', os.O_RDONLY)
mapped = mmap.mmap(reader, 8192 - 3192, mmap.MAP_SHARED, mmap.PROT_READ)
expected = b'A' * 5000
for step in range(400):
    assert os.pread(reader, 1 << 20, 0) == expected, step
    assert mapped[:] == expected[:5000]
    part = bytes([step % 251 + 1]) * (step * 7 % 900 + 1)
    if step % 3 == 2: part_fd = os.open('store', os.O_RDWR | os.O_APPEND); os.write(part_fd, part); os.close(part_fd)
    elif step % 3 == 1: part_fd = os.open('store', os.O_WRONLY | os.O_APPEND); os.write(part_fd, part); os.close(part_fd)
    else: os.pwrite(fd, part, len(expected))
    expected += part
    assert os.pread(fd, 1 << 20, 0) == expected and os.pread(reader, 1 << 20, 0) == expected, step
",
    );
    mounted.end(Some("umount"));
}

// partner: Linux | host kernel
#[test]
fn a_folder_in_use_is_detached_and_served_until_its_files_are_closed() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let at = folder.path("at");
    let data = noise(7, 3_000_001);
    for signal in [
        rustix::process::Signal::TERM,
        rustix::process::Signal::INT,
        rustix::process::Signal::HUP,
    ] {
        let Some(mut mounted) = Mounted::to_write(&disk, &at) else {
            return;
        };
        let mut file = fs::File::create(format!("{at}/open")).unwrap();
        file.write_all(&data[..100_000]).unwrap();
        let small = fs::File::open(format!("{at}/src/small")).unwrap();
        mounted.signal(signal);
        let mut line = String::new();
        mounted.said.read_line(&mut line).unwrap();
        assert!(line.contains("is in use: served until"), "{line}");
        // No one else finds it, so another can be mounted there.
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
        assert!(mounted.child.try_wait().unwrap().is_none());
        file.write_all(&data[100_000..2_000_000]).unwrap();
        file.sync_all().unwrap();
        file.write_all(&data[2_000_000..]).unwrap();
        let mut byte = [0];
        small.read_exact_at(&mut byte, 2).unwrap();
        assert_eq!(byte[..], noise(3, 3)[2..]);
        drop((file, small));
        assert!(mounted.child.wait().unwrap().success());
        let copy = folder.path("copy");
        assert_eq!(
            code(&["--quiet", "get", &disk, "open", &copy, "--force"]),
            0
        );
        assert!(fs::read(copy).unwrap() == data);
        assert_eq!(code(&["--quiet", "check", &disk, "--read-data"]), 0);
        assert_eq!(code(&["--quiet", "rm", &disk, "open"]), 0);
    }
}

#[test]
fn a_mount_hides_no_files_and_no_other_mount() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let at = folder.path("with space");
    let Some((mounted, _)) = Mounted::new(&disk, &at) else {
        return;
    };
    // The same, and another volume.
    let other = folder.path("other");
    assert_eq!(code(&["--quiet", "format", &other, "--size", "8M"]), 0);
    for device in [&disk, &other] {
        for more in [&[][..], &["--nonempty"]] {
            let output = run(&[&["mount", device, &at], more].concat());
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(9), "{said}");
            let what = format!("{at} shows the files of {disk} already; nothing was done");
            // The name has no white space in the list of mounts.
            assert!(said.contains(&what), "{said}");
            assert!(said.contains("hint: umount "), "{said}");
        }
    }
    drop(mounted);
    let full = folder.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(format!("{full}/mine"), "x").unwrap();
    let output = run(&["mount", &other, &full]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(9), "{said}");
    assert!(
        said.contains("is not empty: the mount would hide its files"),
        "{said}"
    );
    assert!(
        said.contains("hint: an empty folder, or --nonempty"),
        "{said}"
    );
    let (mounted, _) = Mounted::of(&mut command(&["mount", &other, &full, "--nonempty"]), &full);
    assert!(!fs::exists(format!("{full}/mine")).unwrap());
    drop(mounted);
    assert!(fs::exists(format!("{full}/mine")).unwrap());
}

#[test]
fn the_folder_of_a_killed_mount_has_a_hint() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let at = folder.path("at");
    let Some(mut mounted) = Mounted::to_write(&disk, &at) else {
        return;
    };
    mounted.child.kill().unwrap();
    assert!(!mounted.child.wait().unwrap().success());
    let refused = run(&["mount", &disk, &at]);
    assert!(!refused.status.success());
    let hint = format!("hint: umount {at}");
    assert!(stderr(&refused).contains(&hint), "{}", stderr(&refused));
}

// partner: Python | writer
#[test]
fn programs_can_go_back_within_what_waits_in_memory() {
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &["--checksums"]);
    let at = folder.path("at");
    let Some(mounted) = Mounted::to_write_every("10min", &disk, &at) else {
        return;
    };
    python(
        &at,
        "
import errno, os, wave, zipfile
with zipfile.ZipFile('small.zip', 'w') as archive:
    for n in range(20):
        with archive.open(f'{n}', 'w') as member: member.write(os.urandom(10_000 + n))
with zipfile.ZipFile('small.zip') as archive: assert archive.testzip() is None and len(archive.namelist()) == 20
with wave.open('small.wav', 'wb') as sound:
    sound.setnchannels(2); sound.setsampwidth(2); sound.setframerate(48000)
    for n in range(50): sound.writeframes(bytes(4000))
with wave.open('small.wav') as sound: assert sound.getnframes() == 50_000
fd = os.open('back', os.O_WRONLY | os.O_CREAT)
os.write(fd, b'header----data'); os.pwrite(fd, b'HEADER', 0); os.pwrite(fd, b'data, and more', 10); os.lseek(fd, 0, os.SEEK_END)
os.write(fd, b'!')
assert open('back').read() == 'HEADER----data, and more!'
# The volume has it now, for the reader.
def refused(data, at):
    try: os.pwrite(fd, data, at)
    except OSError as error: assert error.errno == errno.EOPNOTSUPP, error
    else: raise SystemExit('it was written')
refused(b'x', 0); refused(b'x' * 100, 24)
os.write(fd, b'??'); os.pwrite(fd, b'.', 26)
os.fsync(fd)
refused(b'x', 26)
os.close(fd)
assert open('back').read() == 'HEADER----data, and more!?.'
fd = os.open('long', os.O_WRONLY | os.O_CREAT)
os.write(fd, bytes(3 << 20)); refused(b'x', 0)
os.close(fd)
",
    );
    mounted.end(Some("umount"));
    assert_eq!(code(&["--quiet", "check", &disk, "--read-data"]), 0);
    assert_eq!(
        stdout(&run(&["cat", &disk, "back"])),
        "HEADER----data, and more!?."
    );
}

#[test]
fn a_full_host_is_no_space_and_times_are_the_nearest_that_a_volume_has() {
    let folder = Folder::new();
    let (small, at) = (folder.path("small"), folder.path("at"));
    if Mounted::can().is_none() {
        return;
    }
    fs::create_dir(&small).unwrap();
    let tmpfs = ["-t", "tmpfs", "-o", "size=3M", "none", &small];
    let done = Command::new("mount").args(tmpfs).status().unwrap();
    assert!(done.success());
    let host = Host(small.clone());
    let disk = format!("{small}/disk");
    assert_eq!(code(&["--quiet", "format", &disk, "--size", "32M"]), 0);
    let mounted = Mounted::to_write(&disk, &at).unwrap();
    fs::write(format!("{at}/before"), noise(1, 100_000)).unwrap();
    for (given, kept) in [("1950-01-01", 0), ("2600-01-01", 18_446_744_073)] {
        let touched = Command::new("touch")
            .args(["-d", given, &format!("{at}/before")])
            .status();
        assert!(touched.unwrap().success());
        let modified = fs::metadata(format!("{at}/before")).unwrap().modified();
        let since = modified.unwrap().duration_since(std::time::UNIX_EPOCH);
        assert_eq!(since.unwrap().as_secs(), kept, "{given}");
    }
    let mut file = fs::File::create(format!("{at}/long")).unwrap();
    let data = noise(2, 1 << 20);
    let written = (0..8).try_for_each(|_| file.write_all(&data));
    let error = written.and_then(|()| file.sync_all()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    drop(file);
    assert!(fs::read(format!("{at}/before")).unwrap() == noise(1, 100_000));
    drop((mounted, host));
}

/// A file system of the host, which ends with the test.
struct Host(String);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

#[test]
fn an_interval_that_would_only_flush_is_refused() {
    let folder = Folder::new();
    let words = ["mount", "none", &folder.path("at")];
    for (more, said) in [
        (
            &["--write", "--commit-interval", "1ms"][..],
            "at least 10ms",
        ),
        (&["--commit-interval", "1s"], "--write"),
    ] {
        let refused = run(&[&words, more].concat());
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}

/// The kernel sends a file's last close some time after the program's, and nothing that can be seen
/// changes then.
#[test]
fn a_new_file_has_the_time_that_the_volume_keeps() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    let (disk, _) = volume(&folder, &[]);
    let at = folder.path("at");
    let Some(mut mounted) = Mounted::to_write(&disk, &at) else {
        return;
    };
    let file = fs::File::create(format!("{at}/new")).unwrap();
    let found = file.metadata().unwrap();
    let shown_ns = (found.mtime() * 1_000_000_000 + found.mtime_nsec()) as u64;
    drop(file);
    mounted.signal(rustix::process::Signal::TERM);
    assert!(mounted.child.wait().unwrap().success());
    let listed = json(&["ls", &disk, "new", "--json"]);
    assert_eq!(listed["files"][0]["modified_ns"], shown_ns, "{listed}");
}
