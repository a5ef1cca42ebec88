//! `straightway mount DEVICE FOLDER`: the files of a volume as a folder, for programs that read ordinary files.

use crate::Context;
use crate::drive::Drive;
use crate::failure::{Exit, Failure, Result};
use crate::mount::fuse::{Folder, Space};
use crate::mount::reads::{self, MEMORY_BYTES, READ_BYTES};
use crate::mount::tree::{FileFacts, Tree};
use crate::units::counted;
use crate::volume::listing::Listing;
use crate::volume::{Access, Mounted, Route, Store, route, shown};
use clap::Args;
use fuser::{MountOption, Session, SessionACL};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::SystemTime;

/// What the kernel reads ahead of a program that reads in order.
const READ_AHEAD_BYTES: u32 = 4 << 20;

/// Show the files of a volume as a folder, to read.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The folder is there until `umount FOLDER`, `fusermount3 -u FOLDER` or Ctrl-C. Names with / are files in
folders. What cannot be shown is named when it is mounted: a name with `.`, `..` or nothing between two
slashes, and a file whose name is also that of a folder. The files cannot be changed, and no one else can
change the volume during this time. Data of files with checksums is compared with them: what differs is EIO.

Without root it needs fusermount3 (Debian's package fuse3), and the folder must be the user's.")]
pub struct Mount {
    /// The device with the volume
    pub device: String,
    /// The folder, which is empty for as long
    pub folder: PathBuf,
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
        let failed = |error: std::io::Error| Failure::io("mounting at", &self.folder, &error);
        if !std::fs::metadata(&self.folder).map_err(failed)?.is_dir() {
            return Err(Failure::usage(format!(
                "{} is not a folder",
                self.folder.display()
            )));
        }
        let drive = Drive::find(&context.roots, &self.device)?;
        let mut options =
            route::open_options(&self.route.with_buffers(READ_BYTES as u64, 1), false);
        options.buffer_bytes += MEMORY_BYTES as usize;
        let mut store = Store::of(context, drive, &options)?;
        let path = store.opened.name.clone();
        context.say(format_args!("path: {path}"));
        let done = store.mount_for(
            Access::Read,
            crate::volume::workload::OPEN_FILES,
            |mounted| self.serve(context, mounted),
        );
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
            mtime_ns: file.modified_ns,
            name: file.name,
        });
        let (tree, hidden) = Tree::new(files);
        for name in &hidden {
            context.say(format_args!("cannot be shown as a file: `{}`", shown(name)));
        }
        let tree = Arc::new(tree);
        let (asks, asked) = channel();
        let folder = Folder {
            tree: Arc::clone(&tree),
            space: self.space(mounted)?,
            asks,
            read_ahead_bytes: READ_AHEAD_BYTES,
            since: SystemTime::now(),
        };
        let session = Session::new(folder, &self.folder, &self.options(mounted))
            .and_then(Session::spawn)
            .map_err(|error| self.not_mounted(&error))?;
        // Without this it is 128 KiB.
        linux::disk::set_read_ahead(&context.roots, &self.folder, READ_AHEAD_BYTES);
        let count = counted(tree.file_count() as u64, "file");
        context.say(format_args!("{count} at {}", self.folder.display()));
        let must_end = || context.cancel.is_set() || mounted.recall.is_requested();
        let served = reads::serve(mounted, &tree, &asked, &must_end);
        // Requests that come now are answered with EIO, not kept waiting.
        drop(asked);
        let ended = match must_end() || served.is_err() {
            true => session.umount_and_join(),
            // It was unmounted from outside.
            false => session.join(),
        };
        served?;
        ended.map_err(|error| Failure::io("unmounting", &self.folder, &error))
    }

    fn space(&self, mounted: &Mounted<'_, '_>) -> Result<Space> {
        let free_units = mounted.run("reading the free space", mounted.volume.free_units())?;
        let shape = mounted.volume.status().shape;
        let unit_bytes = shape.unit_bytes();
        Ok(Space {
            capacity_bytes: shape.unit_count() * unit_bytes,
            free_bytes: free_units * unit_bytes,
            files: u64::from(shape.slot_count()),
            unit_bytes,
        })
    }

    fn options(&self, mounted: &Mounted<'_, '_>) -> fuser::Config {
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            MountOption::RO,
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoAtime,
            MountOption::DefaultPermissions,
            MountOption::FSName(mounted.drive.to_string().replace(',', " ")),
            MountOption::Subtype("straightway".to_owned()),
        ];
        if self.allow_other {
            config.acl = SessionACL::All;
        }
        config
    }

    fn not_mounted(&self, error: &std::io::Error) -> Failure {
        let failure = Failure::io("mounting at", &self.folder, error);
        failure
            .hint("root, or fusermount3 of the package fuse3, and the module fuse (modprobe fuse)")
    }
}
