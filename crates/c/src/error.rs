// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last error of each thread, as C reads it.

use crate::wording::Fields;
use api::{Error, ErrorKind, Members, Words};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The status of a call, and of a request: the exit codes of the command, and two more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// The device or the operating system failed.
    Failed = 1,
    /// Invalid arguments.
    Usage = 2,
    /// The device is missing, in use or not permitted.
    Missing = 3,
    /// This machine or this device does not support it.
    Unsupported = 4,
    /// Stored data does not match its checksum.
    Rot = 6,
    /// A recording ended because the drive did not keep up.
    Late = 7,
    /// No space left.
    Full = 8,
    /// The name is taken.
    Exists = 9,
    /// No file has this name, or no further file.
    NotFound = 10,
    /// As many requests are in flight as the device takes: poll first.
    Again = 64,
    /// A defect of the library. The handle can only be closed.
    Defect = 65,
}

impl Status {
    /// The status for an error.
    pub const fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Missing => Self::Missing,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Rot => Self::Rot,
            ErrorKind::Late => Self::Late,
            ErrorKind::Full => Self::Full,
            ErrorKind::Exists => Self::Exists,
            ErrorKind::NotFound => Self::NotFound,
            _ => Self::Failed,
        }
    }
}

/// Why a call failed.
#[derive(Debug)]
pub enum Fault {
    /// As the command reports it.
    Error(Error),
    /// The queue is full.
    Again,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Invalid arguments, with advice.
pub fn usage(what: impl Into<Words>, hint: &str) -> Fault {
    Fault::Error(Error::usage(what).hint(hint))
}

#[derive(Default)]
struct Last {
    what: CString,
    hint: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::new(Last::default());
}

/// Runs a call, and keeps its error for [`what`] and [`hint`]. A panic is caught: it must not
/// unwind into C.
pub fn finish(call: impl FnOnce() -> Result<(), Fault>) -> Status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(Fault::Again)) => {
            keep("the queue is full", "poll a completion, then submit again");
            Status::Again
        }
        Ok(Err(Fault::Error(error))) => keep_error(&error),
        Err(panic) => {
            keep(
                &format!("a defect of libstraightway: {}", said(panic.as_ref())),
                "please report it",
            );
            Status::Defect
        }
    }
}

/// Keeps the error; its status.
pub fn keep_error(error: &Error) -> Status {
    let hint = error.hint_in(&Fields).unwrap_or_default();
    keep(&error.what_in(&Members), &hint);
    Status::of(error)
}

/// What the thread's last failed call said; valid until its next failed call.
pub fn what() -> *const std::ffi::c_char {
    LAST.with_borrow(|last| last.what.as_ptr())
}

/// The advice of the same.
pub fn hint() -> *const std::ffi::c_char {
    LAST.with_borrow(|last| last.hint.as_ptr())
}

fn keep(what: &str, hint: &str) {
    let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.set(Last {
        what: text(what),
        hint: text(hint),
    });
}

fn said(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "panic",
    }
}

/// A string of C as text.
///
/// # Errors
/// It is not UTF-8.
pub fn text<'a>(what: &str, string: &'a CStr) -> Result<&'a str, Fault> {
    string
        .to_str()
        .map_err(|_| usage(format!("{what} is not UTF-8"), "give it in UTF-8"))
}
