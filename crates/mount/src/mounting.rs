// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mounts a volume's files, and unmounts them.

use crate::asks::Ask;
use crate::files::{MEMORY_BYTES, MOVE_BYTES};
use crate::fuse::Folder;
use crate::service;
use crate::stale;
use crate::tree::{FileFacts, SharedTree, Times, Tree};
use crate::unmount::{self, Unmounted};
use crate::view::View;
use ::files::listing::Listing;
use ::files::{Access, Mounted, OPEN_FILES, Route, Store, route, shown};
use devices::Context;
use devices::drive::Drive;
use devices::error::{Error, ErrorKind, Result};
use devices::path::without_fua;
use fuser::{MountOption, Session, SessionACL};
use remedy::{Remedy, Setting, words};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use units::counted;

/// What the kernel reads ahead of a program that reads in order.
const READ_AHEAD_BYTES: u32 = 4 << 20;

/// What is mounted, where, and for whom.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// The name of the device with the volume.
    pub device: String,
    /// The folder, which is empty for as long.
    pub folder: PathBuf,
    /// Whether files may be made, appended to, renamed and removed.
    pub write: bool,
    /// Whether the drive's force unit access is not trusted: it is flushed instead.
    pub no_fua: bool,
    /// What was written and not synced is made durable after this time, at the latest.
    pub commit_interval: Duration,
    /// Whether other users see it too.
    pub allow_other: bool,
    /// Whether the folder may have files, which the mount hides.
    pub may_hide: bool,
    /// The path to the device.
    pub route: Route,
}

impl MountSettings {
    /// Shows the files until the folder is unmounted, or `context` is cancelled.
    ///
    /// # Errors
    /// The device, the volume or the folder cannot be used.
    pub fn mount(&self, context: &Context) -> Result<()> {
        let status =
            std::fs::metadata(&self.folder).map_err(|error| {
                match Errno::from_io_error(&error) {
                    Some(Errno::NOTCONN) => self.not_mounted(&error),
                    _ => Error::io("mounting at", &self.folder, &error),
                }
            })?;
        if !status.is_dir() {
            return Err(Error::usage(format!(
                "{} is not a folder",
                self.folder.display()
            )));
        }
        if let Some(device) = shown_at(&self.folder) {
            let folder = self.folder.display();
            let what = format!("{folder} shows the files of {device} already; nothing was done");
            return Err(Error::new(ErrorKind::Exists, what).hint(self.unmounts()));
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let mut options =
            route::open_options(&self.route.with_buffers(MOVE_BYTES as u64, 1), self.write);
        options.buffer_bytes += MEMORY_BYTES as usize;
        let mut store = Store::of(context, drive, &options)?;
        if self.no_fua {
            store.opened.device = without_fua::wrap(store.opened.device);
        }
        let path = store.opened.name.clone();
        context.say(format_args!("path: {path}"));
        let access = if self.write {
            Access::Write
        } else {
            Access::Read
        };
        let done = store.mount_for(access, OPEN_FILES, |mounted| self.serve(context, mounted));
        store.close(done)
    }

    /// Refuses a folder whose files the mount would hide.
    fn refuse_hidden(&self) -> Result<()> {
        let folder = self.folder.display();
        if self.may_hide {
            return Ok(());
        }
        let mut files =
            std::fs::read_dir(&self.folder).map_err(|error| self.not_mounted(&error))?;
        if files.next().is_none() {
            return Ok(());
        }
        let what = format!("{folder} is not empty: the mount would hide its files");
        Err(Error::new(ErrorKind::Exists, what).hint(words![
            "an empty folder, or ",
            Remedy::agree(Setting::Nonempty)
        ]))
    }

    fn serve(&self, context: &Context, mounted: &Mounted<'_, '_>) -> Result<()> {
        self.refuse_hidden()?;
        let listing = Listing::read(mounted)?;
        for slot in &listing.damaged {
            context.say(format_args!("cannot be shown: {slot} is damaged"));
        }
        for file in listing.files.iter().filter(|file| file.unfinished) {
            context.say(format_args!(
                "not whole: `{}`, which an interrupted put or cp left",
                shown(&file.name)
            ));
        }
        let files = listing.files.into_iter().map(|file| FileFacts {
            size_bytes: file.size_bytes,
            allocated_bytes: file.allocated_bytes.unwrap_or(file.size_bytes),
            times: Times::all(file.modified_ns),
            is_removed: false,
            name: file.name,
        });
        let (tree, hidden) = Tree::new(files);
        for name in &hidden {
            context.say(format_args!("cannot be shown as a file: `{}`", shown(name)));
        }
        let count = counted(tree.file_count(), "file");
        let unshown = (hidden.len() + listing.damaged.len()) as u64;
        let tree = Arc::new(SharedTree::new(tree));
        let (asks, asked) = channel();
        let (stale, stale_writes) = stale::queue();
        let folder = Folder {
            view: View {
                tree: Arc::clone(&tree),
                is_writable: self.write,
                is_shared: self.allow_other,
            },
            saver: self
                .write
                .then(|| saver(asks.clone(), self.commit_interval)),
            asks,
            read_ahead_bytes: READ_AHEAD_BYTES,
            stale,
        };
        let session = Session::new(folder, &self.folder, &self.options())
            .and_then(|session| {
                stale_writes.serve(session.notifier());
                session.spawn()
            })
            .map_err(|error| self.not_mounted(&error))?;
        // Without this it is 128 KiB.
        linux::disk::set_read_ahead(&context.roots, &self.folder, READ_AHEAD_BYTES);
        context.say(format_args!("{count} at {}", self.folder.display()));
        let (serving, ended) = channel();
        let refused = OnceLock::new();
        let is_forced = || mounted.recall.is_requested() || refused.get().is_some();
        let served = std::thread::scope(|scope| {
            let refused = &refused;
            scope.spawn(move || {
                match unmount::unmount_at_request(&self.folder, &context.cancel, &ended) {
                    Ok(Some(Unmounted::Busy)) => context.say(format_args!(
                        "{} is in use: served until its files are closed",
                        self.folder.display()
                    )),
                    Ok(_) => {}
                    // Without this the service would not end.
                    Err(error) => drop(refused.set(error)),
                }
            });
            let served = service::serve(mounted, &tree, unshown, &asked, &is_forced);
            drop(serving);
            served
        });
        // Requests that come now are answered with EIO, not kept waiting.
        drop(asked);
        let ended = match (refused.into_inner(), &served) {
            (Some(error), _) => Err(error),
            (None, Ok(())) if !mounted.recall.is_requested() => session.join(),
            (None, _) => match unmount::unmount(&self.folder) {
                Ok(Unmounted::Idle) => session.join(),
                Ok(Unmounted::Busy) => {
                    // It would unmount again, when another mount may be there.
                    std::mem::forget(session);
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        served?;
        ended.map_err(|error| self.not_unmounted(&error))
    }

    fn options(&self) -> fuser::Config {
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            if self.write {
                MountOption::RW
            } else {
                MountOption::RO
            },
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoAtime,
            MountOption::DefaultPermissions,
            // One word in the columns of `df`; a comma would end the option.
            MountOption::FSName(self.device.replace([' ', '\t', '\n', ','], "_")),
            MountOption::Subtype("straightway".to_owned()),
        ];
        if self.allow_other {
            config.acl = SessionACL::All;
        }
        config
    }

    fn not_mounted(&self, error: &std::io::Error) -> Error {
        let failure = Error::io("mounting at", &self.folder, error);
        match Errno::from_io_error(error) {
            // A mount that was killed has left it.
            Some(Errno::NOTCONN) => failure.hint(self.unmounts()),
            _ => failure.hint(
                "root, or fusermount3 of the package fuse3, and the module fuse (modprobe fuse)",
            ),
        }
    }

    fn not_unmounted(&self, error: &std::io::Error) -> Error {
        Error::io("unmounting", &self.folder, error).hint(self.unmounts())
    }

    /// The command that unmounts the folder.
    fn unmounts(&self) -> String {
        let command = if rustix::process::geteuid().is_root() {
            "umount"
        } else {
            "fusermount3 -u"
        };
        format!("{command} {}", self.folder.display())
    }
}

/// The device whose files the folder shows.
fn shown_at(folder: &Path) -> Option<String> {
    let folder = std::fs::canonicalize(folder).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    // The last one covers the others.
    let (source, kind) = mounts.lines().rev().find_map(|line| {
        let (place, of) = line.split_once(" - ")?;
        let at = unescaped(place.split(' ').nth(4)?);
        let mut of = of.split(' ');
        let (kind, source) = (of.next()?, of.next()?);
        (Path::new(&at) == folder).then(|| (unescaped(source), kind.to_owned()))
    })?;
    kind.starts_with("fuse").then_some(source)
}

/// A field of the kernel's list of mounts, in which white space and `\` are octal.
fn unescaped(field: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .into_iter()
    .fold(field.to_owned(), |text, (octal, plain)| {
        text.replace(octal, plain)
    })
}

/// Asks now and then for what has waited to be made durable, until what is returned is dropped.
/// Nothing waits longer than `interval`, and nothing less than half of it.
fn saver(asks: Sender<Ask>, interval: Duration) -> Sender<()> {
    let half = interval / 2;
    let (ends, ended) = channel();
    std::thread::spawn(move || {
        while ended.recv_timeout(half) == Err(RecvTimeoutError::Timeout)
            && asks.send(Ask::Save(half)).is_ok()
        {}
    });
    ends
}
