// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves a stream to or from a device in order, with many pieces in flight. The bytes are never
//! copied.
//!
//! [`drain`] and [`fill`] are the same loop: an idle buffer becomes a piece, the piece goes to the
//! device's [`End`], and the finished piece is passed on. They move a range of a device as well as
//! the data of a file.

use crate::error::Result;
use crate::error::volume::failed;
use crate::path::memory::Memory;
use crate::transfer::{Moved, Span};
use block::Buffer;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;
use volume::Error;

/// How long one wait may last before cancellation is checked.
const WAIT_US: u32 = 100_000;

/// Accepts each piece in order.
pub type Sink<'s> = dyn FnMut(&[u8]) -> Result<()> + Send + 's;

/// Fills a piece completely, or partially at the end of the source. It checks the flag while it
/// waits, and fails once the flag is set.
pub type Fill<'s> = dyn FnMut(&mut [u8], &AtomicBool) -> Result<usize> + Send + 's;

/// A buffer on its way to the device.
#[derive(Debug)]
pub struct Piece {
    /// Filled, or to be filled.
    pub buffer: Buffer,
    /// Its offset on the device, or in the file.
    pub offset_bytes: u64,
    /// Bytes of data in it, or its capacity.
    pub len: usize,
}

/// A buffer with all its parts returned.
#[derive(Debug)]
pub struct Finished {
    /// The buffer; None if the device kept a part of it.
    pub buffer: Option<Buffer>,
    /// Its offset.
    pub offset_bytes: u64,
    /// Bytes of data in it.
    pub len: usize,
    /// Whether all of it, and everything before it, was moved.
    pub is_moved: bool,
    /// The expected checksums of its chunks, if known.
    pub sums: Vec<u32>,
}

impl Finished {
    /// Its data.
    pub fn data(&self) -> &[u8] {
        let buffer = self.buffer.as_deref();
        buffer
            .and_then(|bytes| bytes.get(..self.len))
            .unwrap_or_default()
    }
}

/// The progress of a transfer at the device's end.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Device commands so far.
    pub requests: u64,
    /// The first failure by offset.
    pub failure: Option<(u64, Error)>,
}

impl State {
    /// Nothing more is submitted; what is in flight still comes back.
    pub fn fail(&mut self, at: u64, error: impl Into<Error>) {
        if self.failure.is_none_or(|(earlier, _)| at < earlier) {
            self.failure = Some((at, error.into()));
        }
    }
}

/// The device's end of a transfer. Pieces are finished in the order in which they were pushed.
pub trait End {
    /// The progress so far.
    fn state(&mut self) -> &mut State;
    /// Adds a piece, whose capacity is whole blocks.
    fn push(&mut self, piece: Piece);
    /// Processes completions and submits as much as possible; returns whether anything happened.
    fn turn(&mut self) -> bool;
    /// The oldest piece if it is finished. After a failure the other pieces are returned unchanged.
    fn pop(&mut self) -> Option<Finished>;
    /// Waits for the device if requests are in flight.
    fn wait(&mut self, timeout_us: u32) -> bool;
    /// Whether it has other work than the pieces.
    fn is_working(&self) -> bool {
        false
    }
    /// Whether the drive is recalled.
    fn is_recalled(&self) -> bool {
        false
    }
}

/// What to move, and where to report progress.
pub struct Job<'j> {
    /// For the message of a failure.
    pub doing: &'j dyn Display,
    /// What to move, and with how many requests in flight.
    pub span: Span,
    /// The longest piece.
    pub most_bytes: usize,
    /// Where the buffers are from.
    pub memory: &'j Memory,
    /// Learns how many bytes are done.
    pub progress: &'j mut dyn FnMut(u64),
    /// Set to end early.
    pub stop: &'j dyn Fn() -> bool,
}

impl Job<'_> {
    /// The buffers: one for each piece in flight, and two for the other end; no more than there are
    /// pieces.
    fn buffers(&self, to: &Sender<Buffer>) -> Result<()> {
        let bytes = usize::try_from(self.span.operation_bytes).unwrap_or(usize::MAX);
        let bytes = bytes.min(self.most_bytes);
        let pieces = self.span.length_bytes.div_ceil(bytes.max(1) as u64);
        let count = usize::try_from(pieces).unwrap_or(usize::MAX);
        let mut result = Ok(());
        for _ in 0..count.min(usize::from(self.span.depth) + 2) {
            match self.memory.allocate(bytes) {
                Ok(buffer) => result = to.send(buffer).map_err(|_| ended("moving")),
                Err(failure) => result = Err(failure),
            }
            if result.is_err() {
                break;
            }
        }
        result
    }

    fn give_back(&self, buffers: impl Iterator<Item = Buffer>) {
        buffers.for_each(|buffer| self.memory.give_back(buffer));
    }
}

fn ended(doing: &str) -> crate::Error {
    crate::Error::other(format!("the {doing} thread ended"))
}

fn receive<T>(from: &Receiver<T>, waits: bool) -> std::result::Result<T, TryRecvError> {
    if waits {
        from.recv_timeout(Duration::from_micros(u64::from(WAIT_US)))
            .map_err(|error| match error {
                std::sync::mpsc::RecvTimeoutError::Timeout => TryRecvError::Empty,
                std::sync::mpsc::RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
            })
    } else {
        from.try_recv()
    }
}

/// Moves the pieces of `next` until there are no more or something fails. Nothing is in flight when
/// it returns.
fn pump(
    end: &mut dyn End,
    job: &mut Job<'_>,
    next: &mut dyn FnMut(bool) -> std::result::Result<Piece, TryRecvError>,
    done: &mut dyn FnMut(Finished),
) -> Result<Moved> {
    let (mut inside, mut pushed, mut bytes) = (0, job.span.offset_bytes, 0);
    let (mut is_ended, mut is_stopped, mut waits) = (false, false, false);
    loop {
        if !is_stopped && (job.stop)() {
            is_stopped = true;
            end.state().fail(pushed, Error::Busy);
        }
        let mut happened = end.turn();
        while let Some(finished) = end.pop() {
            happened = true;
            inside -= 1;
            if finished.buffer.is_none() {
                end.state().fail(finished.offset_bytes, block::Error::Gone);
            } else if finished.is_moved {
                bytes += finished.len as u64;
                (job.progress)(bytes);
            }
            done(finished);
        }
        while end.state().failure.is_none() && !is_ended && inside < job.span.depth {
            match next(std::mem::take(&mut waits)) {
                Ok(piece) => {
                    pushed = piece.offset_bytes + piece.len as u64;
                    end.push(piece);
                    inside += 1;
                    happened = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => is_ended = true,
            }
        }
        let is_over = is_ended || end.state().failure.is_some();
        if is_over && inside == 0 && !end.is_working() {
            break;
        }
        if happened || end.wait(WAIT_US) || inside > 0 || end.is_working() {
            continue;
        }
        // Nothing is in flight, so no request could report that the drive is recalled.
        if end.is_recalled() {
            end.state().fail(pushed, block::Error::Gone);
        }
        waits = true;
    }
    match *end.state() {
        _ if is_stopped => Err(crate::Error::interrupted("interrupted")),
        State {
            failure: Some((at, error)),
            ..
        } => Err(failed(format_args!("{} at byte {at}", job.doing), error)),
        State { requests, .. } => Ok(Moved { bytes, requests }),
    }
}

/// Moves the span from `end` to `sink`; the sink runs in a separate thread if that outweighs the
/// wake-ups.
///
/// # Errors
/// The device or the sink failed, or the user cancelled. Everything before that was delivered.
pub fn drain(
    end: &mut dyn End,
    job: Job<'_>,
    is_beside: bool,
    sink: &mut (dyn FnMut(&Finished) -> Result<()> + Send),
) -> Result<Moved> {
    let (idle_to, idle) = channel();
    let has_failed = AtomicBool::new(false);
    let mut delivered = Ok(());
    let stop = || (job.stop)() || has_failed.load(Ordering::Relaxed);
    let mut job = Job {
        progress: &mut *job.progress,
        stop: &stop,
        ..job
    };
    let allocated = job.buffers(&idle_to);
    let mut pieces = job.span.pieces(job.most_bytes).peekable();
    let mut next = |waits| {
        if pieces.peek().is_none() {
            return Err(TryRecvError::Disconnected);
        }
        let buffer = receive(&idle, waits)?;
        let (offset_bytes, len) = pieces.next().ok_or(TryRecvError::Disconnected)?;
        Ok(Piece {
            buffer,
            offset_bytes,
            len,
        })
    };
    let mut take = |finished: Finished| {
        if delivered.is_ok() && finished.is_moved {
            delivered = sink(&finished);
            has_failed.store(delivered.is_err(), Ordering::Relaxed);
        }
        let _ = finished.buffer.map(|buffer| idle_to.send(buffer));
    };
    let moved = allocated.and_then(|()| {
        if is_beside {
            thread::scope(|scope| {
                let (full_to, full) = channel::<Finished>();
                let thread = scope.spawn(move || full.into_iter().for_each(take));
                let mut give = |finished| {
                    if full_to.send(finished).is_err() {
                        has_failed.store(true, Ordering::Relaxed);
                    }
                };
                let moved = pump(end, &mut job, &mut next, &mut give);
                drop(full_to);
                thread.join().map_err(|_| ended("writing")).and(moved)
            })
        } else {
            pump(end, &mut job, &mut next, &mut take)
        }
    });
    job.give_back(idle.try_iter());
    // The sink's failure caused the device's end to stop early.
    delivered.and(moved)
}

/// Moves all of `source` to `end`, up to the end of the span; a separate thread reads ahead.
///
/// # Errors
/// The device or the source failed, or the user cancelled.
pub fn fill(end: &mut dyn End, mut job: Job<'_>, source: &mut Fill<'_>) -> Result<Moved> {
    let (idle_to, idle) = channel();
    let (full_to, full) = channel();
    let halt = AtomicBool::new(false);
    let allocated = job.buffers(&idle_to);
    let (pieces, memory) = (job.span.pieces(job.most_bytes), job.memory);
    thread::scope(|scope| {
        let halt = &halt;
        let reader = scope.spawn(move || read_ahead(source, pieces, &idle, full_to, memory, halt));
        let moved = allocated.and_then(|()| {
            let mut give = |finished: Finished| {
                let _ = finished.buffer.map(|buffer| idle_to.send(buffer));
            };
            pump(end, &mut job, &mut |waits| receive(&full, waits), &mut give)
        });
        halt.store(true, Ordering::Relaxed);
        drop(idle_to);
        let read = reader.join().unwrap_or_else(|_| Err(ended("reading")));
        job.give_back(full.try_iter().map(|piece: Piece| piece.buffer));
        // The device's failure has priority: it ended the reading.
        moved.and_then(|moved| read.map(|()| moved))
    })
}

/// Fills idle buffers until the source ends, then returns the remaining ones.
fn read_ahead(
    source: &mut Fill<'_>,
    mut pieces: impl Iterator<Item = (u64, usize)>,
    idle: &Receiver<Buffer>,
    full_to: Sender<Piece>,
    memory: &Memory,
    halt: &AtomicBool,
) -> Result<()> {
    let (mut full, mut result) = (Some(full_to), Ok(()));
    while let Ok(mut buffer) = idle.recv() {
        let wanted = pieces.next().filter(|_| !halt.load(Ordering::Relaxed));
        let (Some((offset_bytes, most)), Some(to)) = (wanted, &full) else {
            full = None;
            memory.give_back(buffer);
            continue;
        };
        let filled = source(buffer.get_mut(..most).unwrap_or_default(), halt);
        let len = filled.unwrap_or_else(|failure| {
            result = Err(failure);
            0
        });
        // The rest of its last block.
        buffer.get_mut(len..).unwrap_or_default().fill(0);
        let piece = Piece {
            buffer,
            offset_bytes,
            len,
        };
        match len {
            0 => memory.give_back(piece.buffer),
            _ => drop(to.send(piece)),
        }
        if len < most {
            full = None;
        }
    }
    result
}
