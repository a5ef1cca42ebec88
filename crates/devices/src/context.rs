// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every operation needs.

use crate::{Bar, Cancel, Progress};
use linux::Roots;
use remedy::{Members, Wording, Words};

/// What every operation needs.
#[derive(Clone, Debug)]
pub struct Context {
    /// Where the kernel's files are.
    pub roots: Roots,
    /// Set when the operation should end.
    pub cancel: Cancel,
    /// Who learns what happens while it goes on.
    pub progress: Progress,
    /// How reports name settings: as the user writes them.
    pub wording: &'static dyn Wording,
}

impl Context {
    /// For a program: the machine's own files, no signal handler, and nothing is reported.
    pub fn system() -> Self {
        Self {
            roots: Roots::system(),
            cancel: Cancel::default(),
            progress: Progress::default(),
            wording: &Members,
        }
    }

    /// The same, which reports nothing.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self {
            progress: Progress::default(),
            ..self.clone()
        }
    }

    /// Reports a line.
    pub fn say(&self, line: impl Into<Words>) {
        self.progress.say(line);
    }

    /// Reports how many of `total_bytes` are done.
    pub fn bytes_bar(&self, total_bytes: Option<u64>) -> Bar {
        self.progress
            .bar(crate::progress::Shape::Bytes, total_bytes)
    }

    /// Reports how many of a stream's `total_bytes` are done, with a message.
    pub fn stream_bar(&self, total_bytes: Option<u64>) -> Bar {
        self.progress
            .bar(crate::progress::Shape::Stream, total_bytes)
    }

    /// Reports which of `total` steps is done, each with a message.
    pub fn steps_bar(&self, total: u64) -> Bar {
        self.progress
            .bar(crate::progress::Shape::Steps, Some(total))
    }
}
