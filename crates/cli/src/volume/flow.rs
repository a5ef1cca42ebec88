//! Buffers on their way into a file or out of it, many in flight, in order.
//!
//! Each buffer is a [`Transfer`] of the volume; nothing is copied. What one waits for (space, a piece
//! of the map, room for checksums) is supplied beside the data that is in flight.

use crate::volume::AnyVolume;
use block::Buffer;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use volume::{Direction, Error, Event, File, Need, Progress, Transfer};

/// What metadata work gives: checksums, where it was to read them.
type Work<'v> = Pin<Box<dyn Future<Output = Result<Vec<u32>, Error>> + 'v>>;

/// A buffer that is whole again.
#[derive(Debug)]
pub struct Finished {
    /// The buffer; None where the device kept a part of it.
    pub buffer: Option<Buffer>,
    /// Where it is in the file.
    pub offset_bytes: u64,
    /// Bytes of data in it.
    pub len: usize,
    /// Whether all of it, and all before it, was moved.
    pub is_moved: bool,
}

/// One file's data on its way.
pub struct Flow<'v, 'a> {
    volume: &'v AnyVolume<'a>,
    file: File,
    direction: Direction,
    flight: VecDeque<Transfer>,
    work: Option<Work<'v>>,
    /// Nothing can be submitted before the work is done.
    is_waiting: bool,
    /// What is reserved at once when a reservation ends.
    ahead_bytes: u64,
    next_tag: u16,
    requests: u64,
    failure: Option<(u64, Error)>,
}

impl<'v, 'a> Flow<'v, 'a> {
    /// A flow to or from `file`.
    pub const fn new(volume: &'v AnyVolume<'a>, file: File, direction: Direction) -> Self {
        Self {
            volume,
            file,
            direction,
            flight: VecDeque::new(),
            work: None,
            is_waiting: false,
            ahead_bytes: 8 << 20,
            next_tag: 0,
            requests: 0,
            failure: None,
        }
    }

    /// The first failure by offset.
    pub const fn failure(&self) -> Option<(u64, Error)> {
        self.failure
    }

    /// Device commands so far.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Buffers that were pushed and not popped.
    pub fn buffers(&self) -> usize {
        self.flight.len()
    }

    /// Whether metadata work is under way.
    pub const fn is_working(&self) -> bool {
        self.work.is_some()
    }

    /// Starts metadata work beside the data, if none is under way.
    pub fn start(&mut self, work: impl Future<Output = Result<Vec<u32>, Error>> + 'v) {
        if self.work.is_none() {
            self.work = Some(Box::pin(work));
        }
    }

    /// Nothing more is submitted; what is in flight still comes back.
    pub fn fail(&mut self, at: u64, error: Error) {
        if self.failure.is_none_or(|(earlier, _)| at < earlier) {
            self.failure = Some((at, error));
        }
    }

    /// Adds a buffer with `len` bytes of data, or room for so many, at `offset_bytes` of the file.
    /// It has room for whole blocks.
    pub fn push(&mut self, buffer: Buffer, offset_bytes: u64, len: usize) {
        let tag = self.next_tag;
        self.next_tag = tag.wrapping_add(1);
        let (file, direction) = (self.file, self.direction);
        let transfer = Transfer::new(file, direction, offset_bytes, buffer, len, tag);
        self.flight.push_back(transfer);
    }

    /// Takes in what has finished, goes on with metadata work, and submits what the volume takes.
    /// Gives what the work gave, if it ended; whether anything happened is in the second value.
    pub fn turn(&mut self) -> (Option<Vec<u32>>, bool) {
        let mut happened = false;
        while let Some(event) = self.volume.poll() {
            self.take_back(event);
            happened = true;
        }
        let mut given = None;
        if let Some(work) = &mut self.work {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(result) = work.as_mut().poll(&mut context) {
                self.work = None;
                self.is_waiting = false;
                happened = true;
                match result {
                    Ok(value) => given = Some(value),
                    Err(error) => self.fail(self.next_offset(), error),
                }
            }
        }
        happened |= self.submit();
        self.volume.kick();
        (given, happened)
    }

    /// The oldest buffer, if it is whole again.
    pub fn pop(&mut self) -> Option<Finished> {
        let failed_at = self.failure.map(|(at, _)| at);
        let oldest = self.flight.front()?;
        // After a failure the rest is never submitted.
        let is_whole = oldest.is_submitted() && oldest.failure().is_none();
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
        })
    }

    /// Where the next piece that is not submitted goes.
    fn next_offset(&self) -> u64 {
        let next = self.flight.iter().find(|transfer| !transfer.is_submitted());
        next.or(self.flight.back()).map_or(0, |transfer| {
            transfer.offset() + transfer.submitted_bytes() as u64
        })
    }

    fn take_back(&mut self, event: Event) {
        let mut flight = self.flight.iter_mut();
        let transfer = flight.find(|transfer| transfer.tag() == event.tag);
        if let Some(transfer) = transfer {
            transfer.take_back(event);
            self.failure = earliest(self.failure, transfer);
        }
    }

    fn submit(&mut self) -> bool {
        let mut happened = false;
        while !self.is_waiting && self.failure.is_none() {
            let mut flight = self.flight.iter_mut();
            let Some(transfer) = flight.find(|transfer| !transfer.is_submitted()) else {
                break;
            };
            let before = transfer.pieces_out();
            let progress = transfer.go_on(self.volume);
            let pieces = transfer.pieces_out() - before;
            self.requests += u64::from(pieces);
            happened |= pieces > 0;
            self.failure = earliest(self.failure, transfer);
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

    /// Starts what a piece waits for.
    fn provide(&mut self, need: Need) {
        self.is_waiting = true;
        if self.work.is_some() {
            // What is under way may be just that; afterwards the piece is tried again.
            return;
        }
        let (volume, file) = (self.volume, self.file);
        let ahead = self.ahead_bytes;
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

/// The first failure by offset in the file, with that of `transfer`.
fn earliest(known: Option<(u64, Error)>, transfer: &Transfer) -> Option<(u64, Error)> {
    let (at, error) = match transfer.failure() {
        Some((at, error)) => (transfer.offset() + at as u64, error),
        None => return known,
    };
    match known {
        Some((earlier, _)) if earlier <= at => known,
        _ => Some((at, error)),
    }
}
