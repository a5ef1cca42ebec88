//! `straightway mount DEVICE FOLDER`: the files of a volume as a folder, for programs that know only ordinary files.

use crate::Context;
use crate::mount::asks::Ask;
use crate::mount::files::{MEMORY_BYTES, MOVE_BYTES};
use crate::mount::fuse::Folder;
use crate::mount::service;
use crate::mount::stale;
use crate::mount::tree::{FileFacts, SharedTree, Times, Tree};
use crate::mount::unmount::{self, Unmounted};
use crate::mount::view::View;
use crate::volume::listing::Listing;
use crate::volume::{Access, Mounted, Route, Store, route, shown};
use clap::Args;
use devices::drive::Drive;
use devices::failure::{Exit, Failure, Result};
use devices::path::without_fua;
use fuser::{MountOption, Session, SessionACL};
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use units::{Time, counted};

/// What the kernel reads ahead of a program that reads in order.
const READ_AHEAD_BYTES: u32 = 4 << 20;

/// Shorter ones would only make the device busy.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// Show the files of a volume as a folder.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The folder is there until `umount FOLDER`, `fusermount3 -u FOLDER` or Ctrl-C. Names with / are files in
folders. What cannot be shown is named when it is mounted: a name with `.`, `..` or nothing between two
slashes, and a file whose name is also that of a folder. No one else can change the volume during this
time. Data of files with checksums is compared with them: what differs is EIO.

Without --write every change is refused. With it files are made, appended to, renamed, removed, and
replaced as a whole; to write before a file's end is EOPNOTSUPP, except within what still waits in
memory. fsync makes durable what was written; without it that takes at most --commit-interval.
docs/mount.md has every rule and error.

At Ctrl-C or SIGTERM a folder that is in use disappears, and programs keep the files that they have
open: the command ends, with status 0, when they have closed them. A second signal ends it at once.

Without root it needs fusermount3 (Debian's package fuse3), and the folder must be the user's.")]
pub struct Mount {
    /// The device with the volume
    pub device: String,
    /// The folder, which is empty for as long
    pub folder: PathBuf,
    /// Let files be made, appended to, renamed and removed
    #[arg(long)]
    pub write: bool,
    /// Flush instead of using force unit access: for drives that accept its flag and ignore it
    #[arg(long, requires = "write")]
    pub no_fua: bool,
    /// Make durable what was written and not synced after this time: 10ms or more
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, requires = "write")]
    pub commit_interval: Time,
    /// Let other users see it too
    #[arg(long)]
    pub allow_other: bool,
    /// The path
    #[command(flatten)]
    pub route: Route,
}

impl Mount {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume or the folder cannot be used.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let status =
            std::fs::metadata(&self.folder).map_err(|error| {
                match Errno::from_io_error(&error) {
                    Some(Errno::NOTCONN) => self.not_mounted(&error),
                    _ => Failure::io("mounting at", &self.folder, &error),
                }
            })?;
        if !status.is_dir() {
            return Err(Failure::usage(format!(
                "{} is not a folder",
                self.folder.display()
            )));
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
        let access = match self.write {
            true => Access::Write,
            false => Access::Read,
        };
        let done = store.mount_for(access, crate::volume::workload::OPEN_FILES, |mounted| {
            self.serve(context, mounted)
        });
        store.close(done)?;
        Ok(Exit::Done)
    }

    fn serve(&self, context: &Context, mounted: &Mounted<'_, '_>) -> Result<()> {
        let listing = Listing::read(mounted)?;
        for slot in &listing.damaged {
            context.say(format_args!("cannot be shown: {slot} is damaged"));
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
                .then(|| saver(asks.clone(), self.commit_interval.0)),
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
            match self.write {
                true => MountOption::RW,
                false => MountOption::RO,
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

    fn not_mounted(&self, error: &std::io::Error) -> Failure {
        let failure = Failure::io("mounting at", &self.folder, error);
        match Errno::from_io_error(error) {
            // A mount that was killed has left it.
            Some(Errno::NOTCONN) => failure.hint(self.unmounts()),
            _ => failure.hint(
                "root, or fusermount3 of the package fuse3, and the module fuse (modprobe fuse)",
            ),
        }
    }

    fn not_unmounted(&self, error: &std::io::Error) -> Failure {
        Failure::io("unmounting", &self.folder, error).hint(self.unmounts())
    }

    /// The command that unmounts the folder.
    fn unmounts(&self) -> String {
        let command = match rustix::process::geteuid().is_root() {
            true => "umount",
            false => "fusermount3 -u",
        };
        format!("{command} {}", self.folder.display())
    }
}

/// Asks now and then for what has waited to be made durable, until what is returned is dropped. Nothing waits longer than `interval`, and
/// nothing less than half of it.
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

/// An interval that is not empty.
fn interval(text: &str) -> std::result::Result<Time, String> {
    let time: Time = text.parse()?;
    match time.0 < LEAST_INTERVAL {
        true => Err("an interval is at least 10ms".to_owned()),
        false => Ok(time),
    }
}
