//! The files of a volume as a folder: ordinary programs read them.

use crate::support::{Folder, code, command, noise, run, stderr};
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
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
        if !Path::new("/dev/fuse").exists() || !rustix::process::getuid().is_root() {
            println!("SKIPPED: FUSE needs /dev/fuse and root here: modprobe fuse");
            return None;
        }
        fs::create_dir_all(folder).unwrap();
        let mut child = command(&["mount", device, folder])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "{lines:?}");
            let is_last = line.contains(" at /");
            lines.push(line);
            if is_last {
                break;
            }
        }
        let folder = folder.to_owned();
        Some((
            Self {
                child,
                said,
                folder,
            },
            lines,
        ))
    }

    /// Ends it by `command`, or by a signal; what it said at the end.
    fn end(mut self, command: Option<&str>) -> String {
        match command {
            Some(command) => {
                let done = Command::new(command).arg(&self.folder).status().unwrap();
                assert!(done.success());
            }
            None => {
                let pid = rustix::process::Pid::from_child(&self.child);
                rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
            }
        }
        assert!(self.child.wait().unwrap().success());
        assert_eq!(fs::read_dir(&self.folder).unwrap().count(), 0);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        rest
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
