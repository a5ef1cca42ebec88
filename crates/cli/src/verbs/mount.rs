// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `straightway mount DEVICE FOLDER`: the files of a volume as a folder, for programs that know
//! only ordinary files.

use crate::Context;
use crate::exit::Exit;
use crate::path_options::RouteArgs;
use clap::Args;
use devices::error::Result;
use mount::MountSettings;
use std::path::PathBuf;
use std::time::Duration;
use units::Time;

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

A folder that has files is refused unless --nonempty is given, and one that shows a volume already is always refused.

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
    /// Mount over a folder that has files, and hide them
    #[arg(long)]
    pub nonempty: bool,
    /// The path
    #[command(flatten)]
    pub route: RouteArgs,
}

impl Mount {
    /// Runs the verb.
    ///
    /// # Errors
    /// The device, the volume or the folder cannot be used.
    pub fn run(&self, context: &Context) -> Result<Exit> {
        let settings = MountSettings {
            device: self.device.clone(),
            folder: self.folder.clone(),
            write: self.write,
            no_fua: self.no_fua,
            commit_interval: self.commit_interval.0,
            allow_other: self.allow_other,
            may_hide: self.nonempty,
            route: *self.route,
        };
        settings.mount(context)?;
        Ok(Exit::Done)
    }
}

/// An interval that is not empty.
fn interval(text: &str) -> std::result::Result<Time, String> {
    let time: Time = text.parse()?;
    if time.0 < LEAST_INTERVAL {
        Err("an interval is at least 10ms".to_owned())
    } else {
        Ok(time)
    }
}
