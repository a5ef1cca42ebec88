// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file as one end of a transfer: data is written to it or read from it, with many buffers in
//! flight.
//!
//! Each buffer is a [`Transfer`] of the volume; nothing is copied. What a transfer needs (space, a
//! part of the map, memory for checksums) is supplied while other data is in flight.

use crate::{AnyVolume, Mounted, failed};
use devices::error::Result as CommandResult;
use devices::path::handle::Recall;
use devices::transfer::pump::{End, Finished, Piece, State};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use volume::layout::CHUNK_BYTES;
use volume::{DataEvent, Direction, Error, File, Need, Progress, Transfer};

/// Number of checksums read together: as many as a block of 4 KiB holds.
const SUMS: usize = 1024;
/// Bytes appended before checksums are stored: half of what the volume keeps in memory.
const STORE_BYTES: u64 = 4 << 20;

/// The result of metadata work: checksums, if it read them.
type Work<'v> = Pin<Box<dyn Future<Output = Result<Vec<u32>, Error>> + 'v>>;

/// The expected checksums of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Not verified.
    Ignored,
    /// The checksums stored on the volume.
    Stored,
    /// These checksums, from the file's first chunk on.
    Given(Vec<u32>),
}

/// How the checksums of the data are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SumsFrom {
    /// Not at all.
    Nowhere,
    /// Each piece that is read gets the given checksums.
    Caller,
    /// Each piece that is read gets the checksums stored on the volume.
    Volume,
    /// The checksums of appended data are stored periodically.
    Data,
}

/// The transfer of one file's data.
pub struct Flow<'v, 'a> {
    volume: &'v AnyVolume<'a>,
    recall: Recall<'v>,
    file: File,
    direction: Direction,
    state: State,
    flight: VecDeque<Transfer>,
    work: Option<Work<'v>>,
    /// Nothing can be submitted before this work is done.
    is_waiting: bool,
    /// Bytes to reserve when a reservation is used up.
    ahead_bytes: u64,
    next_tag: u16,
    sums: SumsFrom,
    /// The checksums of the chunks before this one were read; those of data in flight are kept.
    known_chunks: u64,
    known: VecDeque<u32>,
    /// Where the last piece ends.
    pushed_end: u64,
    /// Appended bytes when checksums were last stored.
    stored_bytes: u64,
}

impl<'v, 'a> Flow<'v, 'a> {
    fn new(mounted: &Mounted<'v, 'a>, file: File, direction: Direction, sums: SumsFrom) -> Self {
        Self {
            volume: mounted.volume,
            recall: mounted.recall,
            file,
            direction,
            state: State::default(),
            flight: VecDeque::new(),
            work: None,
            is_waiting: false,
            ahead_bytes: 8 << 20,
            next_tag: 0,
            sums,
            known_chunks: 0,
            known: VecDeque::new(),
            pushed_end: 0,
            stored_bytes: 0,
        }
    }

    /// The end of a file, to which data is appended.
    ///
    /// # Errors
    /// The volume failed.
    pub fn append(mounted: &Mounted<'v, 'a>, file: File) -> CommandResult<Self> {
        let status = mounted.volume.file_status(file);
        let status = status.map_err(|error| failed(mounted.drive, error))?;
        let sums = if status.checksums {
            SumsFrom::Data
        } else {
            SumsFrom::Nowhere
        };
        Ok(Self {
            stored_bytes: status.appended_bytes,
            ..Self::new(mounted, file, Direction::Append, sums)
        })
    }

    /// A file that is read from `first_chunk` on, with checksums according to `sums`.
    pub fn read(mounted: &Mounted<'v, 'a>, file: File, sums: &Sums, first_chunk: u64) -> Self {
        let (from, known) = match sums {
            Sums::Ignored => (SumsFrom::Nowhere, VecDeque::new()),
            Sums::Stored => (SumsFrom::Volume, VecDeque::new()),
            Sums::Given(all) => {
                let from_first = all.iter().skip(first_chunk as usize);
                (SumsFrom::Caller, from_first.copied().collect())
            }
        };
        Self {
            known_chunks: first_chunk,
            known,
            ..Self::new(mounted, file, Direction::Read, from)
        }
    }

    /// The offset of the next piece that is not submitted.
    fn next_offset(&self) -> u64 {
        let next = self.flight.iter().find(|transfer| !transfer.is_submitted());
        next.or(self.flight.back()).map_or(0, |transfer| {
            transfer.offset() + transfer.submitted_bytes() as u64
        })
    }

    fn take_back(&mut self, event: DataEvent) {
        let mut flight = self.flight.iter_mut();
        let transfer = flight.find(|transfer| transfer.tag() == event.tag);
        if let Some(transfer) = transfer {
            transfer.take_back(event);
            note(&mut self.state, transfer);
        }
    }

    fn submit(&mut self) -> bool {
        let mut happened = false;
        while !self.is_waiting && self.state.failure.is_none() {
            let mut flight = self.flight.iter_mut();
            let Some(transfer) = flight.find(|transfer| !transfer.is_submitted()) else {
                break;
            };
            let before = transfer.pieces_out();
            let progress = transfer.go_on(self.volume);
            let pieces = transfer.pieces_out() - before;
            self.state.requests += u64::from(pieces);
            happened |= pieces > 0;
            note(&mut self.state, transfer);
            match progress {
                Progress::Done | Progress::Submitted => {}
                Progress::Blocked => break,
                Progress::Needs(need) => {
                    happened = true;
                    self.provide(need);
                }
            }
        }
        happened
    }

    /// Checksums are read ahead of the data and stored after it, in parallel with both.
    fn look_after_sums(&mut self) {
        if self.work.is_some() || self.state.failure.is_some() {
            return;
        }
        let (volume, file) = (self.volume, self.file);
        let known = self.known_chunks;
        if self.sums == SumsFrom::Volume && known < self.pushed_end.div_ceil(CHUNK_BYTES) {
            self.work = Some(Box::pin(async move {
                let mut sums = vec![0; SUMS];
                let count = volume.checksums(file, known, &mut sums).await?;
                sums.truncate(count);
                match count {
                    // Without this check a file without further checksums would be queried forever.
                    0 => Err(Error::PastEnd),
                    _ => Ok(sums),
                }
            }));
        } else if self.sums == SumsFrom::Data {
            let now = volume.file_status(file).map_or(0, |now| now.appended_bytes);
            if now.saturating_sub(self.stored_bytes) >= STORE_BYTES {
                self.stored_bytes = now;
                self.work = Some(Box::pin(async move {
                    volume.store_checksums(file).await?;
                    Ok(Vec::new())
                }));
            }
        }
    }

    /// Starts the work that a piece waits for.
    fn provide(&mut self, need: Need) {
        self.is_waiting = true;
        if self.work.is_some() {
            // The current work may be exactly that; afterwards the piece is tried again.
            return;
        }
        let (volume, file, ahead) = (self.volume, self.file, self.ahead_bytes);
        if let Need::Space(_) = need {
            self.ahead_bytes = (ahead * 2).min(1 << 30);
        }
        self.work = Some(Box::pin(async move {
            match need {
                // A long file in few extents.
                Need::Space(least) => volume.reserve_ahead(file, ahead, least).await.map(|_| ())?,
                need => volume.provide(file, need).await?,
            }
            Ok(Vec::new())
        }));
    }
}

impl End for Flow<'_, '_> {
    fn state(&mut self) -> &mut State {
        &mut self.state
    }

    fn push(&mut self, piece: Piece) {
        let Piece {
            buffer,
            offset_bytes,
            len,
        } = piece;
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        self.pushed_end = offset_bytes + len as u64;
        let (file, direction) = (self.file, self.direction);
        let transfer = Transfer::new(file, direction, offset_bytes, buffer, len, tag);
        self.flight.push_back(transfer);
    }

    fn turn(&mut self) -> bool {
        let mut happened = false;
        while let Some(event) = self.volume.poll() {
            self.take_back(event);
            happened = true;
        }
        if let Some(work) = &mut self.work {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
                self.work = None;
                self.is_waiting = false;
                happened = true;
                match result {
                    Ok(sums) => {
                        self.known_chunks += sums.len() as u64;
                        self.known.extend(sums);
                    }
                    Err(error) => self.state.fail(self.next_offset(), error),
                }
            }
        }
        happened |= self.submit();
        self.volume.kick();
        self.look_after_sums();
        happened
    }

    fn pop(&mut self) -> Option<Finished> {
        let failed_at = self.state.failure.map(|(at, _)| at);
        let oldest = self.flight.front()?;
        let chunks = match self.sums {
            SumsFrom::Caller | SumsFrom::Volume => {
                (oldest.len_bytes() as u64).div_ceil(CHUNK_BYTES) as usize
            }
            SumsFrom::Nowhere | SumsFrom::Data => 0,
        };
        // After a failure the rest is never submitted, and no more checksums are read.
        let is_known = self.sums != SumsFrom::Volume || self.known.len() >= chunks;
        let is_whole = is_known && oldest.is_submitted() && oldest.failure().is_none();
        if oldest.pieces_out() > 0 || !(is_whole || failed_at.is_some()) {
            return None;
        }
        let oldest = self.flight.pop_front()?;
        let (offset_bytes, len) = (oldest.offset(), oldest.len_bytes());
        let end = offset_bytes + len as u64;
        Some(Finished {
            buffer: oldest.end().0,
            offset_bytes,
            len,
            is_moved: is_whole && failed_at.is_none_or(|at| end <= at),
            sums: self.known.drain(..chunks.min(self.known.len())).collect(),
        })
    }

    fn wait(&mut self, timeout_us: u32) -> bool {
        let is_busy = self.volume.outstanding() > 0;
        if is_busy {
            self.volume.wait(timeout_us);
        }
        is_busy
    }

    fn is_working(&self) -> bool {
        self.work.is_some()
    }

    fn is_recalled(&self) -> bool {
        self.recall.is_requested()
    }
}

/// The first failure by offset in the file counts.
fn note(state: &mut State, transfer: &Transfer) {
    if let Some((at, error)) = transfer.failure() {
        state.fail(transfer.offset() + at as u64, error);
    }
}
