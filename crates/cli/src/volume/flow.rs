//! Buffers on their way into a file or out of it, many in flight, in order.
//!
//! A buffer becomes as few device commands as the file's extents and the device's largest transfer
//! allow; nothing is copied. What a command waits for (space, a piece of the map, room for
//! checksums) runs beside the data that is in flight.

use crate::volume::AnyVolume;
use block::{Buffer, Lent};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use volume::{Error, Event, File, Refused};

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the end of the file.
    Append,
    /// From the file.
    Read,
}

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

struct Going {
    tag: u16,
    lent: Lent,
    offset_bytes: u64,
    /// Bytes of data, and whole blocks of them.
    len: usize,
    whole: usize,
    out: usize,
}

impl Going {
    fn is_submitted(&self) -> bool {
        self.lent.offset_bytes() >= self.whole
    }
}

/// One file's data on its way.
pub struct Flow<'v, 'a> {
    volume: &'v AnyVolume<'a>,
    file: File,
    way: Way,
    block: usize,
    largest: usize,
    flight: VecDeque<Going>,
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
    ///
    /// # Errors
    /// The volume's.
    pub fn new(volume: &'v AnyVolume<'a>, file: File, way: Way) -> Result<Self, Error> {
        let geometry = volume.geometry()?;
        Ok(Self {
            volume,
            file,
            way,
            block: geometry.block_size_bytes(),
            largest: geometry.max_transfer_bytes(),
            flight: VecDeque::new(),
            work: None,
            is_waiting: false,
            ahead_bytes: 8 << 20,
            next_tag: 0,
            requests: 0,
            failure: None,
        })
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

    /// Whether all that was pushed is on its way.
    pub fn is_submitted(&self) -> bool {
        self.flight.back().is_none_or(Going::is_submitted)
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
        self.flight.push_back(Going {
            tag,
            whole: len.next_multiple_of(self.block).min(buffer.len()),
            lent: Lent::new(buffer),
            offset_bytes,
            len,
            out: 0,
        });
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
        if oldest.out > 0 || !(oldest.is_submitted() || failed_at.is_some()) {
            return None;
        }
        let is_whole = oldest.is_submitted();
        let oldest = self.flight.pop_front()?;
        let end = oldest.offset_bytes + oldest.len as u64;
        Some(Finished {
            buffer: oldest.lent.into_whole().ok(),
            offset_bytes: oldest.offset_bytes,
            len: oldest.len,
            is_moved: is_whole && failed_at.is_none_or(|at| end <= at),
        })
    }

    /// Where the next piece that is not submitted goes.
    fn next_offset(&self) -> u64 {
        let next = self.flight.iter().find(|going| !going.is_submitted());
        next.or(self.flight.back()).map_or(0, |going| {
            going.offset_bytes + going.lent.offset_bytes() as u64
        })
    }

    fn take_back(&mut self, event: Event) {
        let Some(going) = self.flight.iter_mut().find(|going| going.tag == event.tag) else {
            return;
        };
        going.out = going.out.saturating_sub(1);
        // A buffer that is not of this transfer stays out; `into_whole` then reports the loss.
        let at = event
            .buffer
            .and_then(|piece| going.lent.give_back(piece).ok())
            .unwrap_or(0);
        let at = going.offset_bytes + at as u64;
        if let Err(error) = event.result {
            self.fail(at, error);
        }
    }

    fn submit(&mut self) -> bool {
        let mut happened = false;
        let mut limit = self.largest;
        while !self.is_waiting && self.failure.is_none() {
            let going = self.flight.iter_mut().find(|going| !going.is_submitted());
            let Some(going) = going else {
                break;
            };
            let at = going.lent.offset_bytes();
            let piece = going.lent.lend((going.whole - at).min(limit));
            let data = piece.len().min(going.len.saturating_sub(at));
            let offset = going.offset_bytes + at as u64;
            let tag = going.tag;
            let submitted = match self.way {
                Way::Append => self.volume.append(self.file, piece, data, tag),
                Way::Read => self.volume.read(self.file, offset, piece, tag),
            };
            let Err(Refused { error, buffer }) = submitted else {
                going.out += 1;
                self.requests += 1;
                happened = true;
                limit = self.largest;
                continue;
            };
            going.lent.unlend(buffer);
            let left = (going.len - at) as u64;
            match error {
                Error::Split { at_bytes } => limit = limit.min(at_bytes as usize),
                Error::Busy if self.volume.outstanding() > 0 => break,
                error => {
                    happened = true;
                    self.mend(error, offset, left);
                }
            }
        }
        happened
    }

    /// Starts what a piece waits for, or fails.
    fn mend(&mut self, error: Error, offset: u64, left: u64) {
        let (volume, file) = (self.volume, self.file);
        if self.work.is_some() {
            // What is under way may be just that; afterwards the piece is tried again.
            self.is_waiting = true;
            return;
        }
        let work: Work<'v> = match (error, self.way) {
            (Error::NeedsReservation, Way::Append) => {
                let want = self.ahead_bytes.max(left);
                self.ahead_bytes = (self.ahead_bytes * 2).min(1 << 30);
                Box::pin(grow(volume, file, want, left))
            }
            (Error::NeedsMap, Way::Append) => Box::pin(async move {
                volume.prepare_append(file).await?;
                Ok(Vec::new())
            }),
            (Error::NeedsMap, Way::Read) => Box::pin(async move {
                volume.prepare(file, offset).await?;
                Ok(Vec::new())
            }),
            (Error::NeedsCommit, Way::Append) => Box::pin(async move {
                volume.store_checksums(file).await?;
                Ok(Vec::new())
            }),
            (error, _) => {
                self.fail(offset, error);
                return;
            }
        };
        self.work = Some(work);
        self.is_waiting = true;
    }
}

/// Reserves `want` bytes, or as many as there are from `least` on; the units of removed files are
/// given back where that helps.
async fn grow(
    volume: &AnyVolume<'_>,
    file: File,
    want: u64,
    least: u64,
) -> Result<Vec<u32>, Error> {
    let mut want = want;
    loop {
        match volume.reserve(file, want).await {
            Err(Error::NoSpace) => {}
            result => return result.map(|_| Vec::new()),
        }
        // What was reserved before space ran out stays reserved.
        if volume.file_status(file)?.reserved_bytes >= least {
            return Ok(Vec::new());
        }
        if want / 2 < least {
            break;
        }
        want /= 2;
    }
    let mut from = 0;
    while let Some(next) = volume.reclaim(from).await? {
        from = next;
    }
    volume.reserve(file, least).await.map(|_| Vec::new())
}
