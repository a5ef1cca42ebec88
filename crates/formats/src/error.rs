// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a recording or its description.

use remedy::{Remedy, Words};
use std::fmt;

/// The result of what reads or makes a format.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatErrorKind {
    /// What was asked for contradicts itself or the recording.
    Usage,
    /// The data is not what it should be.
    Damaged,
    /// The format allows it, and it is not supported.
    Unsupported,
}

/// An error: what is wrong, and what may help.
#[derive(Debug)]
pub struct FormatError {
    /// Its kind.
    pub kind: FormatErrorKind,
    /// What is wrong.
    pub what: Words,
    /// What may help.
    pub hint: Option<Remedy>,
    /// The error of what the output was given to, if it is that.
    pub of_sink: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl FormatError {
    fn new(kind: FormatErrorKind, what: impl Into<Words>) -> Self {
        Self {
            kind,
            what: what.into(),
            hint: None,
            of_sink: None,
        }
    }

    /// What the output was given to failed.
    pub fn of_sink(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self {
            of_sink: Some(Box::new(error)),
            ..Self::new(FormatErrorKind::Damaged, "the output failed")
        }
    }

    pub(crate) fn usage(what: impl Into<Words>) -> Self {
        Self::new(FormatErrorKind::Usage, what)
    }

    pub(crate) fn damaged(what: impl Into<Words>) -> Self {
        Self::new(FormatErrorKind::Damaged, what)
    }

    #[cfg(feature = "mcap")]
    pub(crate) fn unsupported(what: impl Into<Words>) -> Self {
        Self::new(FormatErrorKind::Unsupported, what)
    }

    pub(crate) fn hint(mut self, hint: impl Into<Remedy>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

impl std::error::Error for FormatError {}
