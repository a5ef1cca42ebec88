// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a mount: its folder is removed although programs may still use it.
//!
//! A program keeps the files that it has open, and its current folder: they are served until it
//! lets go of them, and the kernel then ends the connection. No one else finds the folder any more,
//! so another mount can take its place.

use devices::cancel::Cancel;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often a request to end is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// What a folder was when it was unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// No one used it.
    Idle,
    /// Programs have files in it open, or it was unmounted by others.
    Busy,
}

/// Removes a mounted folder.
///
/// # Errors
/// The kernel or fusermount3 refuses.
pub fn unmount(folder: &Path) -> io::Result<Unmounted> {
    match rustix::mount::unmount(folder, UnmountFlags::empty()) {
        Ok(()) => Ok(Unmounted::Idle),
        Err(Errno::BUSY) => {
            rustix::mount::unmount(folder, UnmountFlags::DETACH)?;
            Ok(Unmounted::Busy)
        }
        // Others have unmounted it; what they have detached may be in use.
        Err(Errno::INVAL) => Ok(Unmounted::Busy),
        Err(Errno::PERM) => by_helper(folder),
        Err(error) => Err(error.into()),
    }
}

/// The same without root.
fn by_helper(folder: &Path) -> io::Result<Unmounted> {
    let run = |options: &[&str]| {
        Command::new("fusermount3")
            .args(options)
            .arg("--")
            .arg(folder)
            .stderr(Stdio::null())
            .status()
            .map(|status| status.success())
    };
    if run(&["-u", "-q"])? {
        return Ok(Unmounted::Idle);
    }
    if run(&["-u", "-q", "-z"])? {
        Ok(Unmounted::Busy)
    } else {
        Err(io::Error::other("fusermount3 -u failed"))
    }
}

/// Unmounts a folder when the user requests the end; nothing if the other end of `ended` is dropped
/// before.
///
/// # Errors
/// As of [`unmount`].
pub fn unmount_at_request(
    folder: &Path,
    cancel: &Cancel,
    ended: &Receiver<()>,
) -> io::Result<Option<Unmounted>> {
    loop {
        if cancel.is_set() {
            return unmount(folder).map(Some);
        }
        match ended.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(None),
        }
    }
}
