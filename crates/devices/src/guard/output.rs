// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A local file or stream that a verb writes to.
//!
//! | existing target | without `--force` | with it |
//! | --- | --- | --- |
//! | none | created; appears when it is complete | the same |
//! | a file | refused | replaced when the new one is complete, unless it is in use |
//! | a FIFO, a terminal, `/dev/null` | written directly | the same |
//! | a folder, a socket, a drive's node | refused | refused |
//! | the command's own source | refused | refused |
//!
//! A block device is never a target: to overwrite one, use `write` with its serial number.

use super::writer::Writer;
use super::{device_name, is_part_of, unfinished};
use crate::cancel::Cancel;
use crate::drive::Drive;
use crate::error::{Error, ErrorKind, Result, folder_of};
use linux::{Claim, Roots};
use remedy::{Part, Remedy, Setting, Words, words};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Standard output as a file, without the library's buffer, which also takes what a descriptor that
/// cannot be written loses.
///
/// # Errors
/// It was closed when the command started; or there is no descriptor.
pub fn standard_output() -> std::io::Result<File> {
    if linux::was_closed(1) {
        return Err(rustix::io::Errno::BADF.into());
    }
    let owned = std::io::stdout().as_fd().try_clone_to_owned();
    owned.map(File::from)
}

/// Prefixes of the names of drives' character devices.
const DRIVES: [&str; 3] = ["nvme", "ng", "chardisk"];

/// A file or stream that may be written, and has not been changed yet.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    found: Found,
}

#[derive(Debug)]
enum Found {
    Nothing,
    /// The existing file, claimed, so that no other process writes it.
    File {
        _claim: Claim,
        owner: (u32, u32),
        mode: u32,
    },
    /// A dangling link.
    Link,
    Stream,
}

impl Output {
    /// Checks that `path` may be written with data from `source`, if that is a drive.
    ///
    /// # Errors
    /// It may not be written; nothing was changed.
    pub fn check(roots: &Roots, path: &Path, force: bool, source: Option<&Drive>) -> Result<Self> {
        refuse_address(path)?;
        let failed = |error: std::io::Error| Error::io("opening", path, &error);
        let refused = |why: &str| {
            Error::usage(format!("{} {why}; nothing was done", path.display()))
                .hint("name another file")
        };
        if path.file_name().is_none() {
            return Err(refused("is not the name of a file"));
        }
        let data = match std::fs::metadata(path) {
            Ok(data) => data,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Self::of_nothing(path, force);
            }
            Err(error) => return Err(failed(error)),
        };
        if source.is_some_and(|source| is_part_of(roots, source, &data)) {
            return Err(refused("is the source itself"));
        }
        let kind = data.file_type();
        let found = if kind.is_dir() {
            return Err(refused("is a directory"));
        } else if kind.is_block_device() {
            return Err(refused("is a block device").hint(words![
                "pipe it into: straightway write ",
                remedy::Device,
                " ",
                Part::Option(Setting::DestroyData),
                " SERIAL"
            ]));
        } else if kind.is_socket() {
            return Err(refused("is a socket"));
        } else if kind.is_file() {
            let target = std::fs::canonicalize(path).map_err(failed)?;
            let same = std::fs::metadata(&target);
            if !same.is_ok_and(|same| (same.dev(), same.ino()) == (data.dev(), data.ino())) {
                return Err(refused("is a file without a name"));
            }
            if !force {
                let what = format!("{} exists; nothing was done", path.display());
                let failure = Error::new(ErrorKind::Exists, what);
                return Err(failure.hint(words![
                    Remedy::agree(Setting::Force),
                    " to replace it, or name another file"
                ]));
            }
            let claim = Claim::to_write(roots, &target)?;
            return Ok(Self {
                path: target,
                found: Found::File {
                    _claim: claim,
                    owner: (data.uid(), data.gid()),
                    mode: data.mode() & 0o7777,
                },
            });
        } else {
            let name = device_name(roots, &data).unwrap_or_default();
            if DRIVES.iter().any(|drive| name.starts_with(drive)) {
                return Err(refused("is a drive"));
            }
            Found::Stream
        };
        let path = path.to_owned();
        Ok(Self { path, found })
    }

    /// The same for one of several files, for which [`refuse_detours`] was asked. What appears
    /// under its name meanwhile is replaced, and not followed.
    ///
    /// # Errors
    /// The same as those of both.
    pub fn check_within(
        roots: &Roots,
        folder: &Path,
        path: &Path,
        force: bool,
        source: Option<&Drive>,
    ) -> Result<Self> {
        refuse_detours(folder, path)?;
        let mut output = Self::check(roots, path, force, source)?;
        path.clone_into(&mut output.path);
        Ok(output)
    }

    fn of_nothing(path: &Path, force: bool) -> Result<Self> {
        let found = match std::fs::symlink_metadata(path) {
            Err(_) => Found::Nothing,
            Ok(_) if force => Found::Link,
            Ok(_) => {
                let what = format!("{} is a dangling link; nothing was done", path.display());
                return Err(Error::new(ErrorKind::Exists, what)
                    .hint(words![Remedy::agree(Setting::Force), " to replace it"]));
            }
        };
        let folder = folder_of(path);
        match std::fs::metadata(folder) {
            Ok(data) if data.is_dir() => Ok(Self {
                path: path.to_owned(),
                found,
            }),
            Ok(_) => Err(Error::usage(format!(
                "{} is not a directory",
                folder.display()
            ))),
            Err(error) => Err(Error::io("making", path, &error)),
        }
    }

    /// Opens it. A regular file is created under a temporary name in the same folder. A FIFO's
    /// reader is waited for, until `cancel` is set; so is a reader that takes nothing, at each
    /// write.
    ///
    /// # Errors
    /// It cannot be opened or made.
    pub fn open(self, cancel: &Cancel) -> Result<OpenOutput> {
        let Self { path, found } = self;
        if let Found::Stream = found {
            return Ok(OpenOutput {
                writer: Writer::open(&path, cancel)?,
                path,
                becomes: None,
            });
        }
        let made = unfinished::make(&path);
        let (file, unfinished) = made.map_err(|error| Error::io("making", &path, &error))?;
        if let Found::File { owner, mode, .. } = &found {
            // As far as permitted: only root may change a file's owner.
            let _ = std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1));
            unfinished::set_complete(&file, Some(*mode), false);
        }
        Ok(OpenOutput {
            writer: Writer::of_file(file, cancel),
            path: unfinished,
            becomes: Some((path, found)),
        })
    }
}

/// Refuses what would turn one of several files elsewhere: a link, a FIFO or a device below
/// `folder` that has the file's name, or the name of a folder on the way to it.
///
/// # Errors
/// There is one.
pub fn refuse_detours(folder: &Path, path: &Path) -> Result<()> {
    let below = path.strip_prefix(folder).unwrap_or(path);
    let mut place = folder.to_owned();
    for part in below {
        place.push(part);
        let Ok(data) = std::fs::symlink_metadata(&place) else {
            break;
        };
        let kind = data.file_type();
        let what = if kind.is_symlink() {
            "is a link, which may lead out of the folder"
        } else if kind.is_dir() || kind.is_file() {
            continue;
        } else {
            "is not a file"
        };
        let what = format!("{} {what}; nothing was done", place.display());
        return Err(Error::new(ErrorKind::Exists, what).hint(words![
            format!(
                "mv '{}' elsewhere, or fetch this file alone: straightway get ",
                place.display()
            ),
            remedy::Device,
            " NAME FILE"
        ]));
    }
    Ok(())
}

/// Refuses a word such as `s3://bucket/name`, which would make a local folder `s3:`.
///
/// # Errors
/// It is the address of something that is not a local file.
pub fn refuse_address(path: &Path) -> Result<()> {
    let is_scheme = |text: &str| {
        let mut letters = text.chars();
        letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    match path.to_str().and_then(|text| text.split_once("://")) {
        Some((scheme, _)) if is_scheme(scheme) => {
            let what = format!(
                "{} is an address, and only local files are written; nothing was done",
                path.display()
            );
            Err(Error::usage(what).hint(format!("./{} if a folder has this name", path.display())))
        }
        _ => Ok(()),
    }
}

/// An open file or stream. A file that is not finished is removed when this is dropped.
#[derive(Debug)]
pub struct OpenOutput {
    writer: Writer,
    path: PathBuf,
    /// The file's final name, and the file that has it now.
    becomes: Option<(PathBuf, Found)>,
}

impl OpenOutput {
    /// Writes all of `data`.
    ///
    /// # Errors
    /// It could not be written.
    pub fn take(&mut self, data: &[u8]) -> Result<()> {
        let Self { writer, path, .. } = self;
        writer.take(data, |error| Error::io("writing", path, error))
    }

    /// Gives the file the time of its last modification, in nanoseconds since 1970 (0: not known),
    /// if it is one that will get a name: a FIFO or a terminal is left alone. A file system that
    /// cannot store it keeps its own.
    pub fn set_modified(&self, time_ns: u64) {
        if self.becomes.is_some() && time_ns > 0 {
            let modified = UNIX_EPOCH + Duration::from_nanos(time_ns);
            let _ = self.writer.file().set_modified(modified);
        }
    }

    /// Makes the data of a file durable, before it has its name.
    ///
    /// # Errors
    /// The drive failed.
    pub fn sync(&self) -> Result<()> {
        let synced = match self.becomes {
            Some(_) => self.writer.file().sync_all(),
            None => Ok(()),
        };
        synced.map_err(|error| Error::io("writing", &self.path, &error))
    }

    /// Gives a complete file its name.
    ///
    /// # Errors
    /// Another file has the name now, or the rename failed.
    pub fn finish(mut self) -> Result<()> {
        let Some((path, found)) = &self.becomes else {
            return Ok(());
        };
        unfinished::set_complete(self.writer.file(), None, true);
        let named = match found {
            Found::Nothing => name_new(&self.path, path),
            _ => {
                // The new file must survive a power cut before the old one is replaced.
                let synced = self.writer.file().sync_data();
                synced.and_then(|()| std::fs::rename(&self.path, path))
            }
        };
        named.map_err(|error| Error::io("making", path, &error))?;
        self.becomes = None;
        Ok(())
    }
}

impl Drop for OpenOutput {
    fn drop(&mut self) {
        if self.becomes.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Renames a file to a name that does not exist.
fn name_new(from: &Path, to: &Path) -> std::io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system supports this; a hard link fails in the same way if the name
        // exists.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

/// Refuses standard output that is the source itself, which would write to what is read.
///
/// # Errors
/// Standard output is the source.
fn refuse_standard_output(roots: &Roots, source: &Drive) -> Result<()> {
    let descriptor = std::io::stdout().as_fd().try_clone_to_owned();
    let data = descriptor.map(File::from).and_then(|file| file.metadata());
    if data.is_ok_and(|data| is_part_of(roots, source, &data)) {
        Err(Error::usage(format!(
            "standard output is {source} itself; nothing was done"
        ))
        .hint("redirect it to another file"))
    } else {
        Ok(())
    }
}

/// The destination of data: standard output, or a file that passed the guard.
#[derive(Debug)]
pub enum Outlet {
    /// Standard output, without the library's buffer.
    Standard(Writer),
    /// A file.
    Output(OpenOutput),
}

impl Outlet {
    /// Opens the checked output, or standard output. What waits for a reader ends when `cancel` is
    /// set.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(output: Option<Output>, cancel: &Cancel) -> Result<Self> {
        if let Some(output) = output {
            return Ok(Self::Output(output.open(cancel)?));
        }
        let output = standard_output().map_err(|error| Error::stdout(&error))?;
        Ok(Self::Standard(Writer::shared(output.into(), cancel)))
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn take(&mut self, data: &[u8]) -> Result<()> {
        match self {
            Self::Standard(writer) => writer.take(data, Error::data_to_stdout),
            Self::Output(output) => output.take(data),
        }
    }

    /// Makes the data of a file durable, before it has its name: others may take it away then.
    ///
    /// # Errors
    /// The drive failed.
    pub fn sync(&self) -> Result<()> {
        match self {
            Self::Standard(_) => Ok(()),
            Self::Output(output) => output.sync(),
        }
    }

    /// Gives a file the time of its last modification, in nanoseconds since 1970.
    pub fn set_modified(&self, time_ns: u64) {
        if let Self::Output(output) = self {
            output.set_modified(time_ns);
        }
    }

    /// Completes the output.
    ///
    /// # Errors
    /// It cannot be completed.
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Standard(_) => Ok(()),
            Self::Output(output) => output.finish(),
        }
    }
}

/// Refuses data on standard output together with JSON, or on a terminal. `instead` is the suggested
/// option.
///
/// # Errors
/// The data would go to a terminal or mix with JSON.
pub fn refuse_to_mix(json: bool, instead: impl Into<Words>) -> Result<()> {
    if json {
        let what = words![Setting::Json, " and the data would mix on standard output"];
        return Err(Error::usage(what).hint(instead.into()));
    }
    if std::io::stdout().is_terminal() {
        Err(Error::usage("the data would go to the terminal")
            .hint(words!["redirect it, or ", instead.into()]))
    } else {
        Ok(())
    }
}

/// Checks `path`, or standard output, as the output for data read from `drive`. A drive without a
/// name has nothing that can be named and is a part of it.
///
/// # Errors
/// The output is the drive itself, or may not be written.
pub fn output_of(
    roots: &Roots,
    drive: Option<&Drive>,
    path: Option<&Path>,
    force: bool,
) -> Result<Option<Output>> {
    match (path, drive) {
        (Some(path), _) => Output::check(roots, path, force, drive).map(Some),
        (None, Some(drive)) => refuse_standard_output(roots, drive).map(|()| None),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Folder;
    use super::*;

    fn check(folder: &Folder, name: &str, force: bool) -> Result<Output> {
        let source = Drive::File(folder.0.join("source"));
        Output::check(&Roots::system(), &folder.0.join(name), force, Some(&source))
    }

    #[test]
    fn an_existing_file_is_replaced_whole_and_with_force_alone() {
        let folder = Folder::new();
        let file = folder.file("notes", "newer");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
        std::fs::set_permissions(&file, mode).unwrap();
        std::os::unix::fs::symlink(&file, folder.0.join("link")).unwrap();
        for name in ["notes", "link"] {
            let failure = check(&folder, name, false).unwrap_err();
            assert_eq!(failure.kind(), ErrorKind::Exists, "{failure}");
        }
        let mut output = check(&folder, "link", true)
            .unwrap()
            .open(&Cancel::default())
            .unwrap();
        output.take(b"whole").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "newer");
        drop(output);
        assert_eq!(folder.names(), ["link", "notes"]);
        let mut output = check(&folder, "link", true)
            .unwrap()
            .open(&Cancel::default())
            .unwrap();
        output.take(b"whole").unwrap();
        output.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "whole");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        assert!(folder.0.join("link").is_symlink());
        assert_eq!(folder.names(), ["link", "notes"]);
    }

    #[test]
    fn a_file_that_appears_while_another_is_made_is_kept() {
        let folder = Folder::new();
        let mut output = check(&folder, "new", false)
            .unwrap()
            .open(&Cancel::default())
            .unwrap();
        output.take(b"ours").unwrap();
        let theirs = folder.file("new", "theirs");
        assert!(output.finish().is_err());
        assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(folder.names(), ["new"]);
    }

    #[test]
    fn the_source_itself_is_refused_by_any_name() {
        let folder = Folder::new();
        let source = folder.file("source", "data");
        std::fs::hard_link(&source, folder.0.join("hard")).unwrap();
        std::os::unix::fs::symlink(&source, folder.0.join("soft")).unwrap();
        for name in ["source", "hard", "soft"] {
            for force in [false, true] {
                let failure = check(&folder, name, force).unwrap_err();
                assert!(
                    failure.to_string().contains("the source itself"),
                    "{failure}"
                );
            }
        }
        assert_eq!(std::fs::read_to_string(&source).unwrap(), "data");
    }

    #[test]
    fn streams_are_written_and_folders_are_not() {
        let folder = Folder::new();
        let source = Drive::Ram(512);
        let open =
            |path: &str| Output::check(&Roots::system(), Path::new(path), true, Some(&source));
        let mut null = open("/dev/null").unwrap().open(&Cancel::default()).unwrap();
        null.take(b"gone").unwrap();
        null.finish().unwrap();
        assert!(check(&folder, ".", true).is_err());
        assert!(check(&folder, "none/file", true).is_err());
        std::os::unix::fs::symlink("nowhere", folder.0.join("dangling")).unwrap();
        assert!(check(&folder, "dangling", false).is_err());
    }
}
