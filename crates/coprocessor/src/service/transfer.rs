//! A command that moves data between a client and a file: pieces, and what a piece waits for.

use block::{Buffer, Device, Lent};
use volume::{Error, File, Refused, Volume};

use crate::status::Status;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Append,
    Read,
}

/// What has to be done to metadata before the next piece can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Space for so many bytes.
    Reserve(u64),
    /// The map ahead of the append point.
    PrepareAppend,
    /// The map around an offset.
    Prepare(u64),
    /// Checksums written out.
    Commit,
    /// What was read compared with its checksums.
    Verify,
}

/// Who asked, and how to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) client: u8,
    pub(crate) id: u16,
    /// Latest begin, in ticks that wrap.
    pub(crate) due: Option<u32>,
}

/// What came of trying to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Each piece is with the drive, or it has failed.
    Submitted,
    /// Later.
    Blocked,
}

/// A command under way.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) asker: Asker,
    /// Index of the open file.
    pub(crate) handle: u8,
    pub(crate) file: File,
    pub(crate) way: Way,
    /// Offset in the file: of a read; of an append once its first piece is back.
    pub(crate) offset: u64,
    /// Bytes of data, and what is answered.
    pub(crate) len_bytes: usize,
    pub(crate) need: Option<Need>,
    /// `need` is being worked on.
    pub(crate) is_mending: bool,
    pub(crate) is_submitted: bool,
    pub(crate) verify: bool,
    lent: Option<Lent>,
    /// A piece that waits outside the volume.
    held: Option<Buffer>,
    piece_bytes: usize,
    pieces_out: u16,
    failure: Option<(usize, Error)>,
    has_begun: bool,
}

impl Transfer {
    pub(crate) fn new(
        asker: Asker,
        handle: u8,
        file: File,
        way: Way,
        offset: u64,
        buffer: Buffer,
        len_bytes: usize,
    ) -> Self {
        Self {
            asker,
            handle,
            file,
            way,
            offset,
            len_bytes,
            need: None,
            is_mending: false,
            is_submitted: false,
            verify: false,
            lent: Some(Lent::new(buffer)),
            held: None,
            piece_bytes: usize::MAX,
            pieces_out: 0,
            failure: None,
            has_begun: false,
        }
    }

    /// Ends it with an error, unless it has one already.
    pub(crate) fn fail(&mut self, at: usize, error: Error) {
        if self.failure.is_none_or(|(earlier, _)| at < earlier) {
            self.failure = Some((at, error));
        }
        self.need = None;
    }

    pub(crate) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether nothing of it is with the drive and nothing more will be.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_submitted && self.pieces_out == 0 && self.need.is_none()
    }

    /// Submits pieces until all are, or one must wait. Each turn submits a piece, splits one, or
    /// ends the loop.
    pub(crate) fn go_on<D: Device>(&mut self, volume: &Volume<'_, D>, tag: u16) -> Progress {
        loop {
            if self.failure.is_some() {
                return self.stop();
            }
            if self.need.is_some() {
                return Progress::Blocked;
            }
            let Some(lent) = &mut self.lent else {
                return self.stop();
            };
            let held = self.held.as_ref().map_or(0, |piece| piece.len());
            let at = lent.offset_bytes() - held;
            let left = self.len_bytes.saturating_sub(at);
            if left == 0 {
                return self.stop();
            }
            let piece = match self.held.take() {
                Some(piece) => piece,
                None => lent.lend(self.piece_bytes),
            };
            let data = left.min(piece.len());
            let submitted = match self.way {
                Way::Append => volume.append(self.file, piece, data, tag),
                Way::Read => volume.read(self.file, self.offset + at as u64, piece, tag),
            };
            let Err(Refused { error, buffer }) = submitted else {
                self.pieces_out += 1;
                self.has_begun = true;
                continue;
            };
            self.held = Some(buffer);
            match error {
                Error::Split { at_bytes } => self.split(at_bytes as usize),
                Error::Busy if volume.outstanding() > 0 => return Progress::Blocked,
                Error::NeedsReservation => self.need = Some(Need::Reserve(left as u64)),
                Error::NeedsMap if self.way == Way::Append => self.need = Some(Need::PrepareAppend),
                Error::NeedsMap => self.need = Some(Need::Prepare(self.offset + at as u64)),
                Error::NeedsCommit => self.need = Some(Need::Commit),
                error => self.fail(at, error),
            }
        }
    }

    fn split(&mut self, at_bytes: usize) {
        let (Some(piece), Some(lent)) = (self.held.take(), &mut self.lent) else {
            return;
        };
        let (first, rest) = piece.split_at(at_bytes);
        lent.unlend(rest);
        self.piece_bytes = at_bytes;
        self.held = Some(first);
    }

    fn stop(&mut self) -> Progress {
        if let (Some(piece), Some(lent)) = (self.held.take(), &mut self.lent) {
            let _ = lent.give_back(piece);
        }
        self.is_submitted = true;
        Progress::Submitted
    }

    /// What it waited for was done, or not.
    pub(crate) fn mended(&mut self, result: Result<(), Error>) {
        self.need = None;
        self.is_mending = false;
        // A new extent may take longer pieces again.
        self.piece_bytes = usize::MAX;
        if let Err(error) = result {
            let at = self.lent.as_ref().map_or(0, Lent::offset_bytes);
            self.fail(at, error);
        }
    }

    /// Takes a finished piece in.
    pub(crate) fn take_back(
        &mut self,
        buffer: Option<Buffer>,
        offset: Option<u64>,
        result: Result<(), Error>,
    ) {
        self.pieces_out = self.pieces_out.saturating_sub(1);
        let lent = self.lent.as_mut();
        let at = buffer
            .and_then(|piece| lent?.give_back(piece).ok())
            .unwrap_or(0);
        if let (Some(offset), 0) = (offset, at) {
            self.offset = offset;
        }
        if let Err(error) = result {
            self.fail(at, error);
        }
    }

    /// The whole buffer, to be looked at; it is put back with [`keep`](Self::keep).
    pub(crate) fn whole(&mut self) -> Option<Buffer> {
        match self.lent.take()?.into_whole() {
            Ok(buffer) => Some(buffer),
            Err(lent) => {
                self.lent = Some(lent);
                None
            }
        }
    }

    pub(crate) fn keep(&mut self, buffer: Buffer) {
        self.lent = Some(Lent::new(buffer));
    }

    /// What is answered: for an append the offset at which it went, for a read how much there was.
    pub(crate) fn outcome(&self) -> (Status, u64) {
        match (self.failure, self.way) {
            (Some((_, error)), _) => (error.into(), 0),
            (None, Way::Append) => (Status::OK, self.offset),
            (None, Way::Read) => (Status::OK, self.len_bytes as u64),
        }
    }
}
