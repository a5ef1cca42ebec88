// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocking calls: a future run to its end, and whole transfers.
//!
//! Data requests must not be outstanding when one of these begins, because their events would have
//! nowhere to go; each call then fails with [`Error::Busy`].

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use block::{Buffer, Device};

use crate::file::File;
use crate::transfer::{Direction, Need, Progress, Transfer};
use crate::{DataEvent, Error, Volume};

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

/// Runs `future` to its end, and passes the events of data requests to `on_event` in the meantime.
pub fn run_with<D: Device, T>(
    volume: &Volume<'_, D>,
    future: impl Future<Output = T>,
    mut on_event: impl FnMut(DataEvent),
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

/// The end of a blocking transfer: the buffer, returned to the caller, and the result.
#[derive(Debug)]
#[must_use]
pub struct Outcome {
    /// The buffer that was passed in.
    pub buffer: Buffer,
    /// The first error by offset, or success.
    pub result: Result<(), Error>,
}

/// Appends the first `len_bytes` of `buffer`, reserving space if needed. The rest of the last block
/// is padding. Nothing is committed.
pub fn append<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    buffer: Buffer,
    len_bytes: usize,
) -> Outcome {
    finish(volume, Transfer::append(file, buffer, len_bytes, 0))
}

/// Appends to a file that ends inside a block, as [`Volume::append_merged`] does. Nothing is
/// committed.
pub fn append_merged<D: Device>(
    volume: &Volume<'_, D>,
    file: File,
    mut buffer: Buffer,
    len_bytes: usize,
) -> Outcome {
    if volume.outstanding() != 0 {
        let result = Err(Error::Busy);
        return Outcome { buffer, result };
    }
    while let Err(refused) = volume.append_merged(file, buffer, len_bytes, 0) {
        buffer = refused.buffer;
        let provided = Need::of_append(refused.error, len_bytes as u64)
            .ok_or(refused.error)
            .and_then(|need| run(volume, volume.provide(file, need)));
        if let Err(error) = provided {
            let result = Err(error);
            return Outcome { buffer, result };
        }
    }
    volume.kick();
    let mut ended = None;
    while ended.is_none() {
        volume.step(&mut |event| ended = Some(event));
    }
    let (buffer, result) = match ended {
        Some(DataEvent {
            buffer: Some(buffer),
            result,
            ..
        }) => (buffer, result),
        _ => (
            Buffer::from_static(&mut []),
            Err(Error::from(block::Error::Gone)),
        ),
    };
    if result.is_err() {
        let _ = volume.rewind(file);
    }
    Outcome { buffer, result }
}

/// Fills `buffer` from `offset` on; both are multiples of the device's block. The last block may be
/// read as a whole. Checksums, where the file has them, are compared for each whole chunk.
pub fn read<D: Device>(volume: &Volume<'_, D>, file: File, offset: u64, buffer: Buffer) -> Outcome {
    let len = buffer.len();
    let mut outcome = finish(volume, Transfer::read(file, offset, buffer, len, 0));
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
    let transfer = Transfer::new(file, Direction::Overwrite, offset, buffer, len, 0);
    finish(volume, transfer)
}

/// Runs a transfer to its end.
fn finish<D: Device>(volume: &Volume<'_, D>, mut transfer: Transfer) -> Outcome {
    if volume.outstanding() != 0 {
        transfer.fail(Error::Busy);
        return outcome(transfer);
    }
    loop {
        let progress = transfer.go_on(volume);
        volume.kick();
        match progress {
            Progress::Done => break,
            Progress::Submitted | Progress::Blocked => {
                volume.step(&mut |event| transfer.take_back(event));
            }
            Progress::Needs(need) => {
                let provided = volume.provide(transfer.file(), need);
                if let Err(error) = run_with(volume, provided, |event| transfer.take_back(event)) {
                    transfer.fail(error);
                }
            }
        }
    }
    if transfer.failure().is_some() && transfer.direction() == Direction::Append {
        // What was appended before the failure stays; the rest is discarded.
        let _ = volume.rewind(transfer.file());
    }
    outcome(transfer)
}

fn outcome(transfer: Transfer) -> Outcome {
    let (buffer, result) = transfer.end();
    Outcome {
        buffer: buffer.unwrap_or_else(|| Buffer::from_static(&mut [])),
        result,
    }
}

impl<D: Device> Volume<'_, D> {
    /// One iteration of a loop that waits for a future.
    #[inline(never)]
    fn step(&self, on_event: &mut dyn FnMut(DataEvent)) {
        match self.poll() {
            Some(event) => on_event(event),
            None => self.wait_if_idle(WAIT_US),
        }
    }

    /// Sleeps only while the device has requests: a future may just need to be polled.
    fn wait_if_idle(&self, timeout_us: u32) {
        if self.outstanding() > 0 {
            self.wait(timeout_us);
        }
    }
}
