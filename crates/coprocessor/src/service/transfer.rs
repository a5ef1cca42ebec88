// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command that moves data between a client and a file: the volume's transfer, the requester, and
//! what it waits for.

use block::Device;
use volume::{Direction, Error, Need, Progress, Transfer, Volume};

use crate::status::CompletionStatus;

/// The work that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Supplying metadata.
    Provide(Need),
    /// Comparing what was read with its checksums.
    Verify,
}

/// The requester, and how to answer it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) client: u8,
    pub(crate) id: u16,
    /// The latest start, in ticks that wrap.
    pub(crate) due: Option<u32>,
}

/// An active command.
#[derive(Debug)]
pub(crate) struct DataCommand {
    pub(crate) asker: Asker,
    /// Index of the open file.
    pub(crate) handle: u8,
    pub(crate) transfer: Transfer,
    pub(crate) work: Option<Work>,
    /// `work` is running: the command stays in its entry until that has ended.
    pub(crate) is_working: bool,
    pub(crate) is_submitted: bool,
    pub(crate) verify: bool,
}

impl DataCommand {
    pub(crate) const fn new(asker: Asker, handle: u8, transfer: Transfer, verify: bool) -> Self {
        Self {
            asker,
            handle,
            transfer,
            work: None,
            is_working: false,
            is_submitted: false,
            verify,
        }
    }

    pub(crate) fn is_append(&self) -> bool {
        self.transfer.direction() == Direction::Append
    }

    /// Ends it with an error, unless it has one already.
    pub(crate) fn fail(&mut self, error: Error) {
        self.transfer.fail(error);
        if !self.is_working {
            self.work = None;
        }
    }

    pub(crate) const fn has_failed(&self) -> bool {
        self.transfer.failure().is_some()
    }

    /// Whether nothing of it is outstanding and nothing more will be submitted.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_submitted && self.transfer.pieces_out() == 0 && self.work.is_none()
    }

    /// Submits pieces; false if one must wait.
    pub(crate) fn go_on<D: Device>(&mut self, volume: &Volume<'_, D>) -> bool {
        if self.work.is_some() {
            return false;
        }
        match self.transfer.go_on(volume) {
            Progress::Done | Progress::Submitted => self.is_submitted = true,
            Progress::Blocked => {}
            Progress::Needs(need) => self.work = Some(Work::Provide(need)),
        }
        self.is_submitted
    }

    /// Records the result of the work that it waited for.
    pub(crate) fn worked(&mut self, result: Result<(), Error>) {
        self.work = None;
        self.is_working = false;
        if let Err(error) = result {
            self.transfer.fail(error);
        }
    }

    /// The answer: for an append its offset, for a read how much was read.
    pub(crate) fn outcome(&self) -> (CompletionStatus, u64) {
        match (self.transfer.failure(), self.is_append()) {
            (Some((_, error)), _) => (error.into(), 0),
            (None, true) => (CompletionStatus::OK, self.transfer.offset()),
            (None, false) => (CompletionStatus::OK, self.transfer.len_bytes() as u64),
        }
    }
}
