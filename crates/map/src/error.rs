// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a map.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a map could not be made, or has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The range or the options are not possible; nothing was mapped.
    Options(&'static str),
    /// The kernel does not let this process serve page faults; nothing was mapped.
    NotPermitted(io::Error),
    /// A system call failed.
    System {
        /// What was tried.
        doing: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// Stores could not be written; they are kept in memory, and the next sync tries again.
    Unwritten {
        /// Number of pages.
        pages: usize,
        /// Offset of the first in the map.
        offset_bytes: u64,
        /// The device's error there.
        error: block::Error,
    },
    /// A page that was to be pinned could not be read.
    Unread {
        /// Offset of the page in the map.
        offset_bytes: u64,
        /// The device's error there.
        error: block::Error,
    },
    /// The device did not make completed writes durable.
    Flush(block::Error),
    /// The device has ended nothing of this within
    /// [`PagerOptions::call_deadline`](crate::PagerOptions::call_deadline).
    Late(&'static str),
    /// A map was to be shared where another server shares one, or where another file is.
    Exists(PathBuf),
    /// No server shares a map there.
    NoServer(PathBuf),
    /// The pager has ended, so accesses are errors.
    Ended,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(value) => write!(f, "{value}"),
            Self::NotPermitted(error) => write!(
                f,
                "userfaultfd: {error}; {hint}",
                hint = refusal_hint(error)
            ),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
            Self::Unwritten {
                pages,
                offset_bytes,
                error,
            } => write!(
                f,
                "{pages} pages could not be written, the first at byte {offset_bytes}: {error}"
            ),
            Self::Unread {
                offset_bytes,
                error,
            } => write!(
                f,
                "byte {offset_bytes} of the map could not be read: {error}"
            ),
            Self::Flush(value) => write!(f, "the device's flush failed: {value}"),
            Self::Late(value) => write!(
                f,
                "{value} takes longer than its deadline: the device does not answer"
            ),
            Self::Exists(value) => write!(
                f,
                "{} exists: another server shares a map there, or it is no socket; choose another path",
                value.display()
            ),
            Self::NoServer(value) => write!(
                f,
                "no server shares a map at {}: it has not begun or has ended",
                value.display()
            ),
            Self::Ended => f.write_str("the map's pager has ended"),
        }
    }
}

impl std::error::Error for Error {}

/// What to do where the kernel refuses userfaultfd with `error`.
pub fn refusal_hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "the kernel has no userfaultfd (CONFIG_USERFAULTFD, Linux 5.14), or a container's seccomp profile hides it: allow it there"
        }
        _ => {
            "allow userfaultfd in the container's seccomp profile; elsewhere run it as root, or set vm.unprivileged_userfaultfd=1"
        }
    }
}

/// The result of a call on a map.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A page that could not be read, so that an access was not served, or that could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageError {
    /// Offset of the page in the map.
    pub offset_bytes: u64,
    /// Whether its write failed; its read otherwise, and accesses to it get SIGBUS.
    pub write: bool,
    /// The device's error.
    pub error: block::Error,
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, error) = (if self.write { "written" } else { "read" }, self.error);
        write!(
            f,
            "byte {} of the map could not be {verb}: {error}",
            self.offset_bytes
        )
    }
}

impl std::error::Error for PageError {}
