// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The temporary file that becomes an output when it is complete.
//!
//! Its name is `.NAME.straightway-PID-N`, and its maker holds flock(2) on it. A command that was
//! killed leaves it without a lock; the next command that writes to the folder removes it. Only the
//! lock decides: the number of a process is soon that of another one. A user's own file may have
//! such a name, also one that was fetched; so a file that is not complete has a mode that no other
//! has.

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Between the file's name and the numbers.
const MARK: &[u8] = b".straightway-";
/// Bytes of the longest name: `NAME_MAX` of Linux.
const NAME_BYTES: usize = 255;
/// Names that other processes may take before it is an error.
const ATTEMPTS: u32 = 1000;

/// The folder that was cleaned last: several files of a command go to one folder.
static CLEANED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The sticky bit, which Linux ignores on files (chmod(2)): the file is not complete.
const INCOMPLETE: u32 = 0o1000;

/// Gives a file this mode, or its own, and says whether it is complete. A file system that has no
/// such bit stays as it is.
pub fn set_complete(file: &File, mode: Option<u32>, is_complete: bool) {
    let own = file.metadata().map(|data| data.mode()).ok();
    if let Some(mode) = mode.or(own) {
        let mark = if is_complete { 0 } else { INCOMPLETE };
        let mode = mode & 0o7777 & !INCOMPLETE | mark;
        let _ = file.set_permissions(PermissionsExt::from_mode(mode));
    }
}

/// Makes the file that is to become `path`, in its folder, and locks it.
///
/// # Errors
/// It cannot be made.
pub fn make(path: &Path) -> Result<(File, PathBuf)> {
    clean_once(crate::error::folder_of(path));
    let mut attempt = 0;
    loop {
        let unfinished = path.with_file_name(name(path, std::process::id(), attempt));
        let made = File::options()
            .write(true)
            .create_new(true)
            .mode(INCOMPLETE | 0o666)
            .open(&unfinished);
        match made {
            Ok(file) if holds(&file, &unfinished)? => return Ok((file, unfinished)),
            // Another command took it for one that was left, before it was locked, and removes it.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        attempt += 1;
        if attempt == ATTEMPTS {
            return Err(ErrorKind::AlreadyExists.into());
        }
    }
}

/// `.NAME.straightway-PID-N`, of which a long NAME is cut.
fn name(path: &Path, process: u32, attempt: u32) -> OsString {
    let numbers = format!("{process}-{attempt}");
    let of_file = path.file_name().unwrap_or_default().as_bytes();
    let room = NAME_BYTES - 1 - MARK.len() - numbers.len();
    // Not within a character of UTF-8, which some file systems refuse.
    let is_cut = |end: &usize| of_file.get(*end).is_none_or(|byte| byte & 0xc0 != 0x80);
    let end = (0..=room.min(of_file.len())).rev().find(is_cut);
    let of_file = of_file.get(..end.unwrap_or(room)).unwrap_or(of_file);
    OsString::from_vec([b".", of_file, MARK, numbers.as_bytes()].concat())
}

/// Whether a name is of this form.
fn is_unfinished(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let mark = name.windows(MARK.len()).rposition(|part| part == MARK);
    let numbers = mark.and_then(|at| name.get(at + MARK.len()..));
    let numbers = numbers.and_then(|numbers| std::str::from_utf8(numbers).ok());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.starts_with(b".")
        && numbers
            .and_then(|numbers| numbers.split_once('-'))
            .is_some_and(|(process, attempt)| is_number(process) && is_number(attempt))
}

/// Locks the file, if `path` is still its name.
fn holds(file: &File, path: &Path) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        // A file system without locks: no command removes a file there either.
        Err(_) => return Ok(true),
    }
    let own = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn clean_once(folder: &Path) {
    let mut cleaned = CLEANED.lock().unwrap_or_else(PoisonError::into_inner);
    if cleaned.as_deref() != Some(folder) {
        clean(folder);
        *cleaned = Some(folder.to_owned());
    }
}

/// Removes what killed commands of this user left in the folder. What cannot be examined or removed
/// stays.
fn clean(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if is_unfinished(&entry.file_name()) {
            let _ = remove_left(&entry.path());
        }
    }
}

fn remove_left(path: &Path) -> Result<()> {
    let data = std::fs::symlink_metadata(path)?;
    let is_own = data.uid() == rustix::process::geteuid().as_raw();
    if !data.is_file() || !is_own || data.mode() & INCOMPLETE == 0 {
        return Ok(());
    }
    // An exclusive lock over NFS needs a file that is open to write (flock(2)).
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().write(true).custom_flags(flags).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let own = file.metadata()?;
    let named = std::fs::symlink_metadata(path)?;
    if (named.dev(), named.ino()) == (own.dev(), own.ino()) {
        // Under the lock: whoever makes a file of this name looks whether it still has it.
        std::fs::remove_file(path)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;

    #[test]
    fn what_has_no_lock_is_removed_whatever_its_number() {
        let folder = Folder::new();
        // The number of a process that lives, and of one that cannot.
        let living = format!(".a.straightway-{}-7", std::process::id());
        let others = [
            ".a.straightway-1",
            ".a.straightway-1-",
            ".a.straightway-x-1",
            "a.straightway-1-1",
            ".a.123",
            "a",
        ];
        for name in [living.as_str(), ".b.straightway-99999999-0"]
            .iter()
            .chain(&others)
        {
            std::fs::write(folder.0.join(name), "left").unwrap();
            let file = File::open(folder.0.join(name)).unwrap();
            set_complete(&file, None, false);
        }
        // Complete: a user's own, or one that was fetched.
        let own = ".own.straightway-1-1";
        std::fs::write(folder.0.join(own), "own").unwrap();
        let others = [&others[..], &[own]].concat();
        std::fs::create_dir(folder.0.join(".d.straightway-1-1")).unwrap();
        std::os::unix::fs::symlink("a", folder.0.join(".l.straightway-1-1")).unwrap();
        let (_file, held) = make(&folder.0.join("c")).unwrap();
        let held = held.file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        expected.extend([
            held.clone(),
            ".d.straightway-1-1".into(),
            ".l.straightway-1-1".into(),
        ]);
        expected.sort();
        assert_eq!(folder.names(), expected);
        // One that is held stays.
        clean(&folder.0);
        assert_eq!(folder.names(), expected);
        drop(_file);
        clean(&folder.0);
        assert!(!folder.names().contains(&held));
    }

    #[test]
    fn files_of_one_name_differ_and_long_names_fit() {
        let folder = Folder::new();
        // Whatever the number of digits, one of them is cut within a character.
        let long = ["é".repeat(127) + "x", "x".to_owned() + &"é".repeat(127)];
        let long = long.map(|name| folder.0.join(name));
        let made: Vec<_> = (0..4)
            .map(|index| make(&long[index % 2]).unwrap())
            .collect();
        assert_eq!(folder.names().len(), 4);
        assert!(
            made.iter()
                .all(|(_, path)| is_unfinished(path.file_name().unwrap()))
        );
    }

    #[test]
    fn makers_and_cleaners_of_one_folder_lose_nothing() {
        let folder = Folder::new();
        let path = folder.0.join("a");
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            let (file, unfinished) = make(&path).unwrap();
                            // Nobody has taken it.
                            assert!(holds(&file, &unfinished).unwrap());
                            std::fs::remove_file(unfinished).unwrap();
                        }
                    })
                })
                .collect();
            while !makers
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                clean(&folder.0);
            }
        });
    }
}
