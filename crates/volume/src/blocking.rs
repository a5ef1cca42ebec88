//! Blocking calls: a future run to its end, and whole transfers.
//!
//! Data requests must not be outstanding when one of these begins: their events would have
//! nobody to go to. Each says [`Error::Busy`] then.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use block::{Buffer, Device, Lent};

use crate::data::Refused;
use crate::file::File;
use crate::{Error, Event, Volume};

/// How long one sleep may last, in microseconds; the loop then polls again.
const WAIT_US: u32 = 100_000;

/// Runs `future` to its end.
///
/// # Errors
/// [`Error::Busy`] while data requests are outstanding; otherwise the future's.
pub fn run<D: Device, T>(
    volume: &Volume<'_, D>,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    if volume.outstanding() != 0 {
        return Err(Error::Busy);
    }
    run_with(volume, future, |_| {})
}

/// Runs `future` to its end, and hands the events of data requests to `on_event` meanwhile.
pub fn run_with<D: Device, T>(
    volume: &Volume<'_, D>,
    future: impl Future<Output = T>,
    mut on_event: impl FnMut(Event),
) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        volume.step(&mut on_event);
    }
}

/// The end of a blocking transfer: the buffer, the caller's again, and what became of it.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    /// The buffer that was passed in.
    pub buffer: Buffer,
    /// The first error by offset, or success.
    pub result: Result<(), Error>,
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Append,
    Read,
    Overwrite,
}

/// Appends the first `len_bytes` of `buffer`, reserving space where it is missing. What is left
/// of the last block is padding. Nothing is committed.
pub fn append<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    buffer: Buffer,
    len_bytes: usize,
) -> Outcome {
    transfer(volume, file, Way::Append, 0, buffer, len_bytes)
}

/// Fills `buffer` from `offset` on; both are multiples of the device's block. The last block may
/// be read whole. Checksums, where the file has them, are compared for each whole chunk.
pub fn read<D: Device>(volume: &Volume<'_, D>, file: File, offset: u64, buffer: Buffer) -> Outcome {
    let len = buffer.len();
    let mut outcome = transfer(volume, file, Way::Read, offset, buffer, len);
    let checksums = volume
        .file_status(file)
        .is_ok_and(|status| status.checksums);
    if outcome.result.is_ok() && checksums && offset % crate::layout::CHUNK_BYTES == 0 {
        outcome.result = run(volume, volume.verify(file, offset, &outcome.buffer));
    }
    outcome
}

/// Overwrites data from `offset` on with `buffer`; see [`Volume::overwrite`].
pub fn overwrite<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    offset: u64,
    buffer: Buffer,
) -> Outcome {
    let len = buffer.len();
    transfer(volume, file, Way::Overwrite, offset, buffer, len)
}

/// Splits a transfer into the pieces that the volume takes, as many in flight as it takes.
fn transfer<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    way: Way,
    offset: u64,
    buffer: Buffer,
    len_bytes: usize,
) -> Outcome {
    if volume.outstanding() != 0 {
        let result = Err(Error::Busy);
        return Outcome { buffer, result };
    }
    let mut lent = Lent::new(buffer);
    let mut refused: Option<Buffer> = None;
    let mut piece_bytes = usize::MAX;
    let mut failure: Option<(usize, Error)> = None;
    loop {
        let at = lent.offset_bytes() - refused.as_ref().map_or(0, |piece| piece.len());
        let left = len_bytes.saturating_sub(at);
        if failure.is_none() && left > 0 {
            let piece = match refused.take() {
                Some(piece) => piece,
                None => lent.lend(piece_bytes),
            };
            let data = left.min(piece.len());
            let submitted = match way {
                Way::Append => volume.append(file, piece, data, 0),
                Way::Read => volume.read(file, offset + at as u64, piece, 0),
                Way::Overwrite => volume.overwrite(file, offset + at as u64, piece, 0),
            };
            let Err(Refused { error, buffer }) = submitted else {
                continue;
            };
            // What to do before the piece can go; the piece waits outside the volume.
            let mended = match error {
                Error::Split { at_bytes } => {
                    piece_bytes = usize::try_from(at_bytes).unwrap_or(usize::MAX);
                    let (first, rest) = buffer.split_at(piece_bytes);
                    lent.unlend(rest);
                    refused = Some(first);
                    continue;
                }
                Error::Busy if volume.outstanding() > 0 => Ok(false),
                Error::NeedsReservation => advance(volume, &mut lent, &mut failure, {
                    volume.reserve(file, left as u64)
                }),
                Error::NeedsMap if way == Way::Append => {
                    advance(volume, &mut lent, &mut failure, volume.prepare_append(file))
                }
                Error::NeedsMap => {
                    let prepared = volume.prepare(file, offset + at as u64);
                    advance(volume, &mut lent, &mut failure, prepared)
                }
                // What is in flight is not in the commit: then it must end first.
                Error::NeedsCommit => advance(volume, &mut lent, &mut failure, volume.commit(file))
                    .map(|_| volume.outstanding() == 0),
                error => Err(error),
            };
            match mended {
                Ok(true) => {
                    refused = Some(buffer);
                    // A new extent may take longer pieces again.
                    piece_bytes = usize::MAX;
                    continue;
                }
                Ok(false) => refused = Some(buffer),
                Err(error) => {
                    let _ = lent.give_back(buffer);
                    note(&mut failure, at, error);
                }
            }
        }
        volume.kick();
        if volume.outstanding() == 0 {
            break;
        }
        match volume.poll() {
            Some(event) => take_back(&mut lent, event, &mut failure),
            None => volume.wait_if_idle(WAIT_US),
        }
    }
    if let Some(piece) = refused {
        let _ = lent.give_back(piece);
    }
    if failure.is_some() && way == Way::Append {
        // What was appended before the failure stays; the rest is given up.
        let _ = volume.rewind(file);
    }
    let result = failure.map_or(Ok(()), |(_, error)| Err(error));
    match lent.into_whole() {
        Ok(buffer) => Outcome { buffer, result },
        // The device did not give a buffer back. What is missing may still be written to.
        Err(_) => Outcome {
            buffer: Buffer::from_static(&mut []),
            result: Err(Error::from(block::Error::Gone)),
        },
    }
}

/// Runs what a piece waits for, taking in what finishes meanwhile.
fn advance<D: Device, T>(
    volume: &Volume<'_, D>,
    lent: &mut Lent,
    failure: &mut Option<(usize, Error)>,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<bool, Error> {
    volume.kick();
    run_with(volume, future, |event| take_back(lent, event, failure)).map(|_| true)
}

fn take_back(lent: &mut Lent, event: Event, failure: &mut Option<(usize, Error)>) {
    // A buffer that is not of this transfer stays out; `into_whole` then reports the loss.
    let at = event
        .buffer
        .and_then(|piece| lent.give_back(piece).ok())
        .unwrap_or(0);
    if let Err(error) = event.result {
        note(failure, at, error);
    }
}

fn note(failure: &mut Option<(usize, Error)>, at: usize, error: Error) {
    if failure.is_none_or(|(earlier, _)| at < earlier) {
        *failure = Some((at, error));
    }
}

impl<D: Device> Volume<'_, D> {
    /// One turn of a loop that waits for a future.
    #[inline(never)]
    fn step(&self, on_event: &mut dyn FnMut(Event)) {
        match self.poll() {
            Some(event) => on_event(event),
            None => self.wait_if_idle(WAIT_US),
        }
    }

    /// Sleeps only while the device has something: a future may wait for a poll alone.
    fn wait_if_idle(&self, timeout_us: u32) {
        if self.outstanding() > 0 {
            self.wait(timeout_us);
        }
    }
}
